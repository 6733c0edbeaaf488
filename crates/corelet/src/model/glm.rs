//! A model with a linear predictor: observations and a family make ℓᵢ(θ) = ℓ(xᵢᵀθ; yᵢ, eᵢ).

use super::blocks::sum_in_blocks;
use super::outer::add_outer_products;
use super::prepared::PreparedGlm;
use super::{Derivatives, Differences, Family, LinearPredictor, Model, ModelError, Rows, Shifts};
use crate::linalg::{dot, mirror_lower};
use crate::observations::Observations;
use std::ops::Range;

/// A generalised linear model: ℓᵢ(θ) = ℓ(xᵢᵀθ; yᵢ, eᵢ) for any [`Family`].
///
/// ∇ℓᵢ = ℓ′·xᵢ and ∇²ℓᵢ = ℓ″·xᵢxᵢᵀ, so a family is all there is to define.
#[derive(Debug, Clone)]
pub struct Glm<F> {
    observations: Observations,
    family: F,
}

impl<F: Family> Glm<F> {
    /// Checks that all lengths agree, all numbers are finite, and all targets and exposures are possible ones.
    pub fn new(observations: Observations, family: F) -> Result<Self, ModelError> {
        check_features(&observations)?;
        let n = observations.len();
        check_column("target", &observations.target, n)?;
        if let Some(exposure) = &observations.exposure {
            check_column("exposure", exposure, n)?;
            if let Some(row) = exposure.iter().position(|&e| e <= 0.0) {
                return Err(ModelError::Exposure { row, value: exposure[row] });
            }
        }
        for (row, &value) in observations.target.iter().enumerate() {
            family.check_target(value).map_err(|need| ModelError::Target {
                row,
                value,
                model: family.name(),
                need,
            })?;
        }
        Ok(Glm { observations, family })
    }

    /// Features, targets and exposures.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// ℓ(η; y, e).
    pub fn family(&self) -> &F {
        &self.family
    }

    /// Adds `weights` (or one) times the log-likelihoods of `rows` to `sums`.
    fn accumulate(&self, features: &[f64], rows: &[(usize, f64)], theta: &[f64], sums: &mut Sums) {
        let dim = self.dim();
        for (x, &(i, weight)) in features.chunks_exact(dim).zip(rows) {
            let (y, exposure) = target(&self.observations, i);
            let eta = dot(x, theta);
            if sums.gradient.is_empty() && sums.hessian.is_empty() {
                sums.value += weight * self.family.value(eta, y, exposure);
                continue;
            }
            let [value, first, second] = self.family.jet(eta, y, exposure);
            sums.value += weight * value;
            for (sum, x) in sums.gradient.iter_mut().zip(x) {
                *sum += weight * first * x;
            }
            if !sums.hessian.is_empty() {
                sums.curvatures.push(weight * second);
            }
        }
        if !sums.hessian.is_empty() {
            add_outer_products(&mut sums.hessian, &sums.curvatures, features, dim, &mut sums.scratch);
            sums.curvatures.clear();
        }
    }

    fn accumulate_range(&self, rows: Range<usize>, theta: &[f64], sums: &mut Sums) {
        let dim = self.dim();
        let mut chunk = Vec::with_capacity(CHUNK);
        for start in rows.clone().step_by(CHUNK) {
            let end = rows.end.min(start + CHUNK);
            chunk.clear();
            chunk.extend((start..end).map(|i| (i, 1.0)));
            self.accumulate(&self.observations.features[start * dim..end * dim], &chunk, theta, sums);
        }
    }

    fn accumulate_weighted(&self, ids: &[usize], weights: &[f64], theta: &[f64], sums: &mut Sums) {
        let mut features = Vec::with_capacity(CHUNK * self.dim());
        for (ids, weights) in ids.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(self.observations.row(i)));
            let chunk: Vec<_> = ids.iter().copied().zip(weights.iter().copied()).collect();
            self.accumulate(&features, &chunk, theta, sums);
        }
    }
}

/// Rows whose curvatures are kept before they go into the Hessian.
const CHUNK: usize = 256;

/// Partial sums of one block; an empty derivative is not asked for.
struct Sums {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<f64>,
    /// wᵢℓᵢ″ of the rows at hand.
    curvatures: Vec<f64>,
    scratch: Vec<f64>,
}

impl Sums {
    fn new(dim: usize, gradient: bool, hessian: bool) -> Sums {
        let zeros = |wanted: bool, len: usize| if wanted { vec![0.0; len] } else { Vec::new() };
        Sums {
            value: 0.0,
            gradient: zeros(gradient, dim),
            hessian: zeros(hessian, dim * dim),
            curvatures: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn add(&mut self, other: &Sums) {
        self.value += other.value;
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(a, b)| *a += b);
        self.hessian.iter_mut().zip(&other.hessian).for_each(|(a, b)| *a += b);
    }
}

impl<F: Family> Model for Glm<F> {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn len(&self) -> usize {
        self.observations.len()
    }

    fn dim(&self) -> usize {
        self.observations.dim
    }

    fn log_likelihood(&self, i: usize, theta: &[f64]) -> f64 {
        let (y, exposure) = target(&self.observations, i);
        self.family.value(dot(self.observations.row(i), theta), y, exposure)
    }

    fn evaluate(&self, rows: Rows<'_>, theta: &[f64], derivatives: Derivatives<'_>) -> f64 {
        let dim = self.dim();
        let zero = || Sums::new(dim, derivatives.gradient.is_some(), derivatives.hessian.is_some());
        let mut sums = zero();
        match rows {
            Rows::All => {
                let partial = |block| {
                    let mut sums = zero();
                    self.accumulate_range(block, theta, &mut sums);
                    sums
                };
                sums = sum_in_blocks(self.len(), sums, partial, |total, sums| total.add(&sums));
            }
            Rows::Weighted { ids, weights } => self.accumulate_weighted(ids, weights, theta, &mut sums),
        }
        if let Some(gradient) = derivatives.gradient {
            gradient.copy_from_slice(&sums.gradient);
        }
        if let Some(hessian) = derivatives.hessian {
            hessian.copy_from_slice(&sums.hessian);
            mirror_lower(hessian, dim);
        }
        sums.value
    }

    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]) {
        let ids: Vec<usize> = rows.collect();
        self.narrow_differences(&ids, anchor, shifts, &mut Vec::new(), out);
    }

    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let ids: Vec<usize> = rows.collect();
        self.wide_differences(&ids, anchor, shifts, out);
    }

    fn prepare(&self, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences + '_> {
        Box::new(PreparedGlm::new(self, anchor, shifts))
    }

    fn linear(&self) -> Option<LinearPredictor<'_>> {
        Some(LinearPredictor { observations: &self.observations, family: &self.family })
    }
}

/// The target and the exposure (1 where there is none) of row `i`.
#[inline]
pub(super) fn target(observations: &Observations, i: usize) -> (f64, f64) {
    (observations.target[i], observations.exposure.as_ref().map_or(1.0, |exposure| exposure[i]))
}

/// At least one row and one feature, whole rows, all finite.
pub(super) fn check_features(observations: &Observations) -> Result<(), ModelError> {
    let Observations { features, dim, .. } = observations;
    if *dim == 0 || features.is_empty() {
        return Err(ModelError::Empty { rows: 0, dim: *dim });
    }
    if features.len() % dim != 0 {
        let expected = features.len().next_multiple_of(*dim);
        return Err(ModelError::Length { what: "feature", got: features.len(), expected });
    }
    check_finite("feature", features, *dim)
}

fn check_column(what: &'static str, column: &[f64], n: usize) -> Result<(), ModelError> {
    if column.len() != n {
        return Err(ModelError::Length { what, got: column.len(), expected: n });
    }
    check_finite(what, column, 1)
}

fn check_finite(what: &'static str, numbers: &[f64], per_row: usize) -> Result<(), ModelError> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(ModelError::NotFinite { what, row: at / per_row, value: numbers[at] }),
        None => Ok(()),
    }
}
