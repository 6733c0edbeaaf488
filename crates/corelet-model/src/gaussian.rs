//! The mean of a Gaussian with known covariance: ℓᵢ(θ) = −½(xᵢ − θ)ᵀΣ⁻¹(xᵢ − θ) − ½ log det 2πΣ.

use super::blocks::sum_in_blocks;
use super::built_in::{Card, IDENTITY, NONE};
use super::glm::check_features;
use super::{Derivatives, Differences, Model, ModelError, Over, Predictive, Shifts, Spread};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use corelet_kernels::linalg::{Cholesky, dot, multiply, quadratic_form, row_major};
use std::ops::Range;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "gaussian",
    about: "The mean of Gaussian data",
    outcome: Outcome::None,
    settings: &["sigma"],
    sigma: Some(1.0),
    dispersions: NONE,
    scaled_by_target: false,
    link: IDENTITY,
    bind: |observations, numbers| {
        let variance = numbers.sigma.unwrap_or(1.0).powi(2);
        let covariance = row_major(observations.dim, |i, j| if i == j { variance } else { 0.0 });
        Ok(Arc::new(GaussianMean::new(observations, &covariance)?))
    },
    predictive: Predictive::Nothing,
};

/// Data xᵢ ~ N(θ, Σ), θ unknown, Σ known.
///
/// ∇ℓᵢ = Σ⁻¹(xᵢ − θ), ∇²ℓᵢ = −Σ⁻¹, and ℓᵢ(θ̂+Δ) − ℓᵢ(θ̂) = (xᵢ − θ̂)ᵀΣ⁻¹Δ − ½ΔᵀΣ⁻¹Δ.
#[derive(Debug, Clone)]
pub struct GaussianMean {
    observations: Arc<Observations>,
    precision: Vec<f64>,
    /// −½ log det 2πΣ.
    constant: f64,
    /// x̄ and Σᵢ (xᵢ − x̄)ᵀΣ⁻¹(xᵢ − x̄), which give the sum over all data at the cost of one datum.
    mean: Vec<f64>,
    scatter: f64,
}

impl GaussianMean {
    /// From rows xᵢ and Σ, row-major D × D. Targets are ignored.
    pub fn new(observations: Observations, covariance: &[f64]) -> Result<Self, ModelError> {
        check_features(&observations)?;
        check_plain(&observations)?;
        let dim = observations.dim;
        if covariance.len() != dim * dim {
            let got = covariance.len();
            return Err(ModelError::Length { what: "covariance", got, expected: dim * dim });
        }
        let cholesky = Cholesky::new(covariance, dim)?;
        let precision = cholesky.inverse();
        let constant = -0.5 * (cholesky.log_determinant() + dim as f64 * (2.0 * std::f64::consts::PI).ln());
        Ok(Self::with_precision(observations, precision, constant))
    }

    fn with_precision(observations: Observations, precision: Vec<f64>, constant: f64) -> Self {
        let (n, dim) = (observations.len(), observations.dim);
        let sum_of = |block: Range<usize>| {
            let mut sum = vec![0.0; dim];
            block.for_each(|i| {
                sum.iter_mut().zip(observations.row(i)).for_each(|(sum, &x)| *sum += f64::from(x));
            });
            sum
        };
        let sum = sum_in_blocks(n, || vec![0.0; dim], sum_of, |total, sum| add(total, &sum, 1.0));
        let mean: Vec<f64> = sum.iter().map(|x| x / n as f64).collect();
        let scatter_of = |block: Range<usize>| {
            let mut residual = vec![0.0; dim];
            block
                .map(|i| {
                    subtract(observations.row(i), &mean, &mut residual);
                    quadratic_form(&precision, &residual)
                })
                .sum()
        };
        let scatter = sum_in_blocks(n, || 0.0, scatter_of, |total, sum| *total += sum);
        GaussianMean { observations: Arc::new(observations), precision, constant, mean, scatter }
    }

    /// Σ⁻¹, row-major.
    pub fn precision(&self) -> &[f64] {
        &self.precision
    }
}

/// Refuses weights and offsets.
fn check_plain(observations: &Observations) -> Result<(), ModelError> {
    let given = [("weights", observations.weights.is_some()), ("offset", observations.offset.is_some())];
    match given.into_iter().find(|&(_, given)| given) {
        Some((what, _)) => Err(ModelError::NoPlace { model: CARD.name, what }),
        None => Ok(()),
    }
}

/// The data with Σ⁻¹Δₛ and ½ΔₛᵀΣ⁻¹Δₛ for each shift.
struct Prepared {
    observations: Arc<Observations>,
    anchor: Vec<f64>,
    scaled: Shifts,
    halves: Vec<f64>,
}

impl Prepared {
    fn new(model: &GaussianMean, anchor: &[f64], shifts: &Shifts) -> Self {
        let dim = model.dim();
        let mut scaled = vec![0.0; shifts.len() * dim];
        let halves = (0..shifts.len())
            .map(|s| {
                let row = &mut scaled[s * dim..][..dim];
                multiply(&model.precision, shifts.row(s), row);
                0.5 * dot(row, shifts.row(s))
            })
            .collect();
        let scaled = Shifts::new(scaled, dim);
        Prepared { observations: Arc::clone(&model.observations), anchor: anchor.to_vec(), scaled, halves }
    }
}

impl Differences for Prepared {
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]) {
        scratch.clear();
        for &i in ids {
            let row = self.observations.row(i).iter();
            scratch.extend(row.zip(&self.anchor).map(|(&x, t)| (f64::from(x) - t) as f32));
        }
        self.scaled.products(scratch, out);
        for row in out.chunks_exact_mut(self.halves.len().max(1)) {
            row.iter_mut().zip(&self.halves).for_each(|(value, half)| *value -= *half as f32);
        }
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        let mut residual = vec![0.0; self.anchor.len()];
        for (&i, row) in ids.iter().zip(out.chunks_exact_mut(self.halves.len().max(1))) {
            subtract(self.observations.row(i), &self.anchor, &mut residual);
            self.scaled.products_f64(&residual, row);
            row.iter_mut().zip(&self.halves).for_each(|(value, half)| *value -= half);
        }
    }
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}

fn subtract<T: Copy + Into<f64>>(x: &[T], y: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(x).zip(y).for_each(|((out, &x), y)| *out = x.into() - y);
}

impl Model for GaussianMean {
    fn name(&self) -> &'static str {
        "gaussian"
    }

    fn len(&self) -> usize {
        self.observations.len()
    }

    fn dim(&self) -> usize {
        self.observations.dim
    }

    fn log_likelihood(&self, i: usize, theta: &[f64]) -> f64 {
        let mut residual = vec![0.0; self.dim()];
        subtract(self.observations.row(i), theta, &mut residual);
        self.constant - 0.5 * quadratic_form(&self.precision, &residual)
    }

    fn evaluate(&self, rows: Over<'_>, theta: &[f64], derivatives: Derivatives<'_>) -> f64 {
        let dim = self.dim();
        let mut residual = vec![0.0; dim];
        // Total weight, Σ wᵢ(xᵢ − θ) and Σ wᵢ(xᵢ − θ)ᵀΣ⁻¹(xᵢ − θ).
        let (mut total, mut weighted, mut square) = (0.0, vec![0.0; dim], 0.0);
        match rows {
            Over::All => {
                total = self.len() as f64;
                subtract(&self.mean, theta, &mut residual);
                add(&mut weighted, &residual, total);
                square = self.scatter + total * quadratic_form(&self.precision, &residual);
            }
            Over::Weighted { ids, weights } => {
                for (&i, &weight) in ids.iter().zip(weights) {
                    subtract(self.observations.row(i), theta, &mut residual);
                    total += weight;
                    add(&mut weighted, &residual, weight);
                    square += weight * quadratic_form(&self.precision, &residual);
                }
            }
        }
        if let Some(gradient) = derivatives.gradient {
            multiply(&self.precision, &weighted, gradient);
        }
        if let Some(hessian) = derivatives.hessian {
            hessian.iter_mut().zip(&self.precision).for_each(|(h, p)| *h = -total * p);
        }
        total * self.constant - 0.5 * square
    }

    fn expected(&self, rows: Over<'_>, under: &Spread<'_>, derivatives: Derivatives<'_>) -> f64 {
        // Quadratic: its derivatives have the mean that they have at the mean, and its value is less by half the trace of Σ⁻¹LLᵀ a row.
        let dim = self.dim();
        let total = match rows {
            Over::All => self.len() as f64,
            Over::Weighted { weights, .. } => weights.iter().sum(),
        };
        let columns = (0..dim).map(|j| (0..dim).map(|i| under.factor[i * dim + j]).collect::<Vec<f64>>());
        let trace: f64 = columns.map(|column| quadratic_form(&self.precision, &column)).sum();
        self.evaluate(rows, under.mean, derivatives) - 0.5 * total * trace
    }

    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self, anchor, shifts).narrow(&ids, &mut Vec::new(), out);
    }

    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self, anchor, shifts).wide(&ids, out);
    }

    fn prepare(self: Arc<Self>, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences> {
        Box::new(Prepared::new(&self, anchor, &shifts))
    }

    /// A quadratic.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn observations(&self) -> &Observations {
        &self.observations
    }

    fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        check_features(&observations)?;
        check_plain(&observations)?;
        Ok(Arc::new(Self::with_precision(observations, self.precision.clone(), self.constant)))
    }

    fn gaussian_mean(&self) -> Option<&GaussianMean> {
        Some(self)
    }
}
