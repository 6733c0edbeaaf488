//! The Gaussian factor of a coreset: a quadratic function of θ that represents what its rows do not.

use serde::{Deserialize, Serialize};

use super::{Newton, add};
use crate::linalg::{Cholesky, LinalgError, congruence, dot, multiply, product, row_major};
use crate::model::Shifts;
use crate::posterior::{Gaussian, Prior};

/// bᵀ(θ − c) + ½(θ − c)ᵀA(θ − c) with A ⪯ 0: up to a constant the log-likelihood of one Gaussian observation of θ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Rest {
    /// c.
    pub centre: Vec<f64>,
    /// b.
    pub gradient: Vec<f64>,
    /// A, row-major and symmetric.
    pub curvature: Vec<f64>,
}

/// As it is written: of A the lower triangle, line by line.
#[derive(Serialize, Deserialize)]
struct Written {
    centre: Vec<f64>,
    gradient: Vec<f64>,
    curvature: Vec<f64>,
}

impl From<Rest> for Written {
    fn from(Rest { centre, gradient, curvature }: Rest) -> Self {
        let dim = centre.len();
        let lower = (0..dim).flat_map(|i| curvature[i * dim..][..=i].to_vec()).collect();
        Self { centre, gradient, curvature: lower }
    }
}

impl TryFrom<Written> for Rest {
    type Error = String;

    fn try_from(Written { centre, gradient, curvature: lower }: Written) -> Result<Self, String> {
        let dim = centre.len();
        if gradient.len() != dim || lower.len() != dim * (dim + 1) / 2 {
            let (b, a) = (gradient.len(), lower.len());
            return Err(format!(
                "a Gaussian part of {dim} parameters has {b} numbers in its gradient and {a} in the lower triangle of its curvature"
            ));
        }
        if centre.iter().chain(&gradient).chain(&lower).any(|x| !x.is_finite()) {
            return Err("a number of the Gaussian part is not finite".to_owned());
        }
        let at = |i: usize, j: usize| lower[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        Ok(Self { centre, gradient, curvature: row_major(dim, at) })
    }
}

/// The share of a direction's precision below which the data are taken to say nothing of it: sums over rows do not know better.
const UNDETERMINED: f64 = 1e-9;

/// The parameters that a likelihood of these derivatives sees.
fn seen(gradient: &[f64], curvature: &[f64]) -> Vec<usize> {
    let all = gradient.len();
    let unseen = |i: &usize| gradient[*i] == 0.0 && curvature[i * all..][..all].iter().all(|x| *x == 0.0);
    (0..all).filter(|i| !unseen(i)).collect()
}

impl Rest {
    /// From derivatives at, or means of derivatives around, the mean of π̂. Where the curvature is not negative, or vanishes beside that of
    /// π̂, the direction is left to the prior, curvature and slope; so many directions were.
    ///
    /// # Errors
    /// If a derivative is not finite.
    pub fn of(
        under: &Gaussian,
        gradient: Vec<f64>,
        curvature: Vec<f64>,
    ) -> Result<(Self, usize), LinalgError> {
        Self::determined(under, gradient, curvature, UNDETERMINED)
    }

    /// The same of derivatives that are known to this share of a direction's precision, by differences for instance. A parameter that the
    /// likelihood does not see at all, as it does not see the spread of random effects, is not counted.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    pub fn known_to(
        under: &Gaussian,
        gradient: Vec<f64>,
        curvature: Vec<f64>,
        share: f64,
    ) -> Result<(Self, usize), LinalgError> {
        let unseen = under.dim() - seen(&gradient, &curvature).len();
        let (rest, left) = Self::determined(under, gradient, curvature, share)?;
        Ok((rest, left.saturating_sub(unseen)))
    }

    fn determined(
        under: &Gaussian,
        gradient: Vec<f64>,
        curvature: Vec<f64>,
        share: f64,
    ) -> Result<(Self, usize), LinalgError> {
        let dim = under.dim();
        let rest = Self { centre: under.mean.clone(), gradient, curvature };
        if rest.gradient.iter().any(|x| !x.is_finite()) {
            return Err(LinalgError::NoEigenvalues { dim });
        }
        let seen = seen(&rest.gradient, &rest.curvature);
        if rest.is_definite(&seen, share) {
            return Ok((rest, dim - seen.len()));
        }
        rest.clipped(under, share)
    }

    /// Whether −A, of the parameters that the likelihood sees, has a Cholesky factor whose pivots are numbers beside its diagonal.
    fn is_definite(&self, seen: &[usize], share: f64) -> bool {
        let (all, dim) = (self.dim(), seen.len());
        let entry = |i: usize, j: usize| -self.curvature[seen[i] * all + seen[j]];
        let scale: Vec<f64> = (0..dim).map(|i| entry(i, i).sqrt()).collect();
        let scaled = row_major(dim, |i, j| entry(i, j) / (scale[i] * scale[j]));
        let pivots = Cholesky::new(&scaled, dim).map(|cholesky| cholesky.factor());
        pivots.is_ok_and(|factor| (0..dim).all(|i| factor[i * dim + i].powi(2) > share))
    }

    /// In the coordinates of π̂, LᵀAL = QΛQᵀ: eigenvalues that are not below 0 become 0, and Lᵀb has no part along their vectors.
    fn clipped(self, under: &Gaussian, share: f64) -> Result<(Self, usize), LinalgError> {
        let dim = self.dim();
        let white = congruence(&under.factor, &self.curvature, dim);
        let (values, vectors) = crate::linalg::symmetric_eigen(&white, dim)?;
        let mut slope = vec![0.0; dim];
        for (line, b) in under.factor.chunks_exact(dim.max(1)).zip(&self.gradient) {
            slope.iter_mut().zip(line).for_each(|(sum, l)| *sum += l * b);
        }
        let (mut kept, mut curvature, mut left) = (vec![0.0; dim], vec![0.0; dim * dim], 0_usize);
        for (value, q) in values.iter().zip(vectors.chunks_exact(dim.max(1))) {
            if *value > -share {
                left += 1;
                continue;
            }
            let along = dot(&slope, q);
            for (i, qi) in q.iter().enumerate() {
                kept[i] += along * qi;
                curvature[i * dim..(i + 1) * dim]
                    .iter_mut()
                    .zip(q)
                    .for_each(|(sum, qj)| *sum += value * qi * qj);
            }
        }
        // Back to θ: L⁻ᵀ·L⁻¹, and L⁻¹ = LᵀP.
        let mut inverse = vec![0.0; dim * dim];
        for (i, line) in under.factor.chunks_exact(dim.max(1)).enumerate() {
            for (j, l) in line[..=i].iter().enumerate() {
                let from = &under.precision[i * dim..(i + 1) * dim];
                inverse[j * dim..(j + 1) * dim].iter_mut().zip(from).for_each(|(sum, p)| *sum += l * p);
            }
        }
        let mut gradient = vec![0.0; dim];
        for (line, x) in inverse.chunks_exact(dim.max(1)).zip(&kept) {
            gradient.iter_mut().zip(line).for_each(|(sum, l)| *sum += l * x);
        }
        let curvature = congruence(&inverse, &curvature, dim);
        Ok((Self { centre: self.centre, gradient, curvature }, left))
    }

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.centre.len()
    }

    /// Value of the quadratic at θ.
    pub fn value(&self, theta: &[f64]) -> f64 {
        let (shift, curved) = self.curved(theta);
        dot(&self.gradient, &shift) + 0.5 * dot(&shift, &curved)
    }

    /// θ − c and A(θ − c).
    fn curved(&self, theta: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let shift: Vec<f64> = theta.iter().zip(&self.centre).map(|(t, c)| t - c).collect();
        let mut curved = vec![0.0; shift.len()];
        // A is symmetric, and columns are added up faster than rows.
        for (column, x) in self.curvature.chunks_exact(self.dim().max(1)).zip(&shift) {
            curved.iter_mut().zip(column).for_each(|(sum, a)| *sum += x * a);
        }
        (shift, curved)
    }

    /// Adds value and derivatives at θ, as many as there are.
    pub(super) fn add_to(&self, theta: &[f64], newton: &mut Newton) {
        let (shift, curved) = self.curved(theta);
        newton.value += dot(&self.gradient, &shift) + 0.5 * dot(&shift, &curved);
        if !newton.gradient.is_empty() {
            add(&mut newton.gradient, &self.gradient);
            add(&mut newton.gradient, &curved);
        }
        add(&mut newton.hessian, &self.curvature);
    }

    /// Its change from an anchor to each of many draws: (b + A(θ̂ − c))ᵀΔₛ + ½ΔₛᵀAΔₛ.
    pub fn differences(&self, anchor: &[f64], shifts: &Shifts) -> Vec<f64> {
        let (dim, (_, mut slope)) = (self.dim(), self.curved(anchor));
        add(&mut slope, &self.gradient);
        let rows: Vec<f64> = (0..shifts.len()).flat_map(|s| shifts.row(s).iter().copied()).collect();
        let curved = product(&rows, &self.curvature, dim, false);
        let each = rows.chunks_exact(dim.max(1)).zip(curved.chunks_exact(dim.max(1)));
        each.map(|(shift, curved)| dot(&slope, shift) + 0.5 * dot(shift, curved)).collect()
    }

    /// tr(A·LLᵀ): twice what the value gains on average around a point, under a Gaussian with the factor L.
    pub(super) fn trace_under(&self, factor: &[f64]) -> f64 {
        let white = congruence(factor, &self.curvature, self.dim());
        white.iter().step_by(self.dim() + 1).sum()
    }

    /// The sum of both, around the centre of this one, up to a constant.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (_, mut slope) = other.curved(&self.centre);
        add(&mut slope, &other.gradient);
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
        Self {
            centre: self.centre.clone(),
            gradient: sum(&self.gradient, &slope),
            curvature: sum(&self.curvature, &other.curvature),
        }
    }

    /// The posterior under a Gaussian prior, which is a Gaussian.
    ///
    /// # Errors
    /// If its precision has no Cholesky factor.
    pub fn posterior(&self, prior: &Prior) -> Result<Gaussian, LinalgError> {
        let dim = self.dim();
        let precision: Vec<f64> = prior.precision.iter().zip(&self.curvature).map(|(p, a)| p - a).collect();
        let shift: Vec<f64> = self.centre.iter().zip(&prior.mean).map(|(c, m)| c - m).collect();
        let mut step = vec![0.0; dim];
        multiply(&prior.precision, &shift, &mut step);
        step.iter_mut().zip(&self.gradient).for_each(|(step, b)| *step = b - *step);
        Cholesky::new(&precision, dim)?.solve(&mut step);
        Gaussian::from_precision(self.centre.iter().zip(&step).map(|(c, s)| c + s).collect(), precision)
    }
}
