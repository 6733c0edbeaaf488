//! The Gaussian prior, the Laplace fit N(θ̂, Σ) of a weighted posterior, and the divergence between two Gaussians.

use crate::linalg::{
    Cholesky, LinalgError, congruence, dot, gram, multiply, quadratic_form, row_major, symmetric_eigenvalues,
};
use crate::model::special::log1p_minus_x;
use crate::model::{Derivatives, Model, Rows};
use serde::{Deserialize, Serialize};

/// N(μ, Σ) with everything that is asked of it: Σ = LLᵀ, P = Σ⁻¹.
#[derive(Debug, Clone)]
pub struct Gaussian {
    /// μ.
    pub mean: Vec<f64>,
    /// P, row-major.
    pub precision: Vec<f64>,
    /// Σ, row-major.
    pub covariance: Vec<f64>,
    /// L, the lower triangular Cholesky factor of Σ, row-major.
    pub factor: Vec<f64>,
    /// log det P.
    pub log_det_precision: f64,
}

impl Gaussian {
    /// From μ and P, row-major and symmetric.
    pub fn from_precision(mean: Vec<f64>, precision: Vec<f64>) -> Result<Gaussian, LinalgError> {
        let dim = mean.len();
        // Cholesky of P with its rows and columns in reverse: then P = UUᵀ with U upper triangular, and L = U⁻ᵀ is
        // the lower Cholesky factor of Σ without a factorisation of an inverse.
        let reversed = row_major(dim, |i, j| precision[(dim - 1 - i) * dim + dim - 1 - j]);
        let cholesky = Cholesky::new(&reversed, dim)?;
        let inverse = cholesky.inverse_factor();
        let transposed = row_major(dim, |i, j| inverse[(dim - 1 - i) * dim + dim - 1 - j]);
        let factor = row_major(dim, |i, j| transposed[j * dim + i]);
        let covariance = gram(&transposed, dim, dim);
        Ok(Gaussian { mean, precision, covariance, factor, log_det_precision: cholesky.log_determinant() })
    }

    /// Number of coordinates, D.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// log density at θ.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        let shift: Vec<f64> = theta.iter().zip(&self.mean).map(|(t, m)| t - m).collect();
        let normaliser = self.log_det_precision - self.dim() as f64 * (2.0 * std::f64::consts::PI).ln();
        0.5 * (normaliser - quadratic_form(&self.precision, &shift))
    }
}

/// KL(N₀ ‖ N₁) = ½ Σ(εᵢ − log(1 + εᵢ)) + ½ (μ₀−μ₁)ᵀP₁(μ₀−μ₁) in nats, with ε the eigenvalues of L₀ᵀ(P₁ − P₀)L₀.
///
/// The difference is taken between the precisions, before anything is inverted, so two Gaussians that are nearly
/// the same keep their digits: a divergence of 10⁻¹² comes out positive and right. Errors where the two differ in
/// size or hold a number that is not finite.
pub fn kl_gaussian(first: &Gaussian, second: &Gaussian) -> Result<f64, LinalgError> {
    let dim = first.dim();
    if second.dim() != dim {
        return Err(LinalgError::NoEigenvalues { dim: second.dim() });
    }
    let difference: Vec<f64> = second.precision.iter().zip(&first.precision).map(|(b, a)| b - a).collect();
    let eigenvalues = symmetric_eigenvalues(&congruence(&first.factor, &difference, dim), dim)?;
    let spread = if eigenvalues.iter().all(|e| e.abs() < 0.5) {
        eigenvalues.iter().map(|&e| -log1p_minus_x(e)).sum()
    } else {
        // Far apart: the determinants are better known than an eigenvalue near −1.
        eigenvalues.iter().sum::<f64>() - (second.log_det_precision - first.log_det_precision)
    };
    let shift: Vec<f64> = first.mean.iter().zip(&second.mean).map(|(a, b)| a - b).collect();
    Ok(0.5 * (spread + quadratic_form(&second.precision, &shift)))
}

/// The Gaussian prior N(μ₀, Σ₀) of θ.
#[derive(Debug, Clone)]
pub struct Prior {
    /// μ₀.
    pub mean: Vec<f64>,
    /// Σ₀⁻¹, row-major.
    pub precision: Vec<f64>,
    /// log det of it.
    log_det_precision: f64,
}

impl Prior {
    /// N(μ₀, P₀⁻¹) from μ₀ and P₀, row-major and symmetric.
    pub fn new(mean: Vec<f64>, precision: Vec<f64>) -> Result<Prior, LaplaceError> {
        let dim = mean.len();
        if precision.len() != dim * dim {
            let what = "prior precision";
            return Err(LaplaceError::Length { what, got: precision.len(), expected: dim * dim });
        }
        let log_det_precision = Cholesky::new(&precision, dim)?.log_determinant();
        Ok(Prior { mean, precision, log_det_precision })
    }

    /// N(0, sd²·I).
    pub fn isotropic(dim: usize, sd: f64) -> Result<Prior, LaplaceError> {
        let precision = sd.powi(-2);
        if !(sd > 0.0 && precision > 0.0 && precision.is_finite()) {
            return Err(LaplaceError::PriorScale(sd));
        }
        Prior::new(vec![0.0; dim], row_major(dim, |i, j| if i == j { precision } else { 0.0 }))
    }

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// log π₀(θ), its constant included.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        self.gradient_and_log_density(theta, None)
    }

    /// Adds ∇log π₀(θ) to `gradient` where given, and returns log π₀(θ).
    pub fn gradient_and_log_density(&self, theta: &[f64], gradient: Option<&mut [f64]>) -> f64 {
        let shift: Vec<f64> = theta.iter().zip(&self.mean).map(|(t, m)| t - m).collect();
        let mut scaled = vec![0.0; shift.len()];
        multiply(&self.precision, &shift, &mut scaled);
        if let Some(gradient) = gradient {
            gradient.iter_mut().zip(&scaled).for_each(|(g, s)| *g -= s);
        }
        let normaliser = self.log_det_precision - self.dim() as f64 * (2.0 * std::f64::consts::PI).ln();
        0.5 * (normaliser - dot(&shift, &scaled))
    }
}

/// How long and how far [`laplace`] goes.
///
/// | name | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `tolerance` | 1e-10 | stop where √(gᵀΣg) is at most this | > 0 |
/// | `max_iterations` | 200 | Newton steps | ≥ 1 |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaplaceSettings {
    /// Stop where √(gᵀΣg), the distance to the mode in posterior standard deviations, is at most this.
    pub tolerance: f64,
    /// Newton steps.
    pub max_iterations: usize,
}

impl Default for LaplaceSettings {
    fn default() -> Self {
        LaplaceSettings { tolerance: 1e-10, max_iterations: 200 }
    }
}

/// Why the fit stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaplaceStatus {
    /// The gradient is within the tolerance.
    Converged,
    /// The steps ran out first.
    IterationLimit,
    /// No step improves the log posterior any more, within rounding.
    Stalled,
}

/// The Gaussian N(θ̂, Σ) at the mode of a posterior, Σ⁻¹ = −∇² log posterior.
#[derive(Debug, Clone)]
pub struct Laplace {
    /// N(θ̂, Σ).
    pub posterior: Gaussian,
    /// log π₀(θ̂) + Σ wᵢℓᵢ(θ̂).
    pub log_posterior: f64,
    /// √(gᵀΣg) at θ̂.
    pub gradient_norm: f64,
    /// Newton steps taken.
    pub iterations: usize,
    /// Why it stopped.
    pub status: LaplaceStatus,
}

/// Why there is no fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LaplaceError {
    /// Lengths that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// Of which array.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A prior standard deviation that is not positive.
    #[error("the prior standard deviation is {0}, but it must be positive and finite")]
    PriorScale(f64),
    /// A row that is not there, or a weight that is not a number ≥ 0.
    #[error(
        "weight {weight} of row {row} cannot be used: rows go to {rows} and weights must be finite and ≥ 0"
    )]
    Weight {
        /// The row.
        row: usize,
        /// Its weight.
        weight: f64,
        /// Number of rows.
        rows: usize,
    },
    /// The log posterior has no value to start from.
    #[error("the log posterior is not finite at the starting point")]
    Start,
    /// The posterior has no curvature in some direction, or the prior is not a Gaussian.
    #[error(transparent)]
    Linalg(#[from] LinalgError),
}

/// The log posterior and its derivatives at one θ.
#[derive(Clone)]
struct Point {
    theta: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    /// −∇² log posterior.
    precision: Vec<f64>,
}

impl Point {
    fn new(model: &dyn Model, prior: &Prior, rows: Rows<'_>, theta: Vec<f64>) -> Point {
        let dim = theta.len();
        let (mut gradient, mut precision) = (vec![0.0; dim], vec![0.0; dim * dim]);
        let both = Derivatives::both(&mut gradient, &mut precision);
        let mut value = model.evaluate(rows, &theta, both);
        value += prior.gradient_and_log_density(&theta, Some(&mut gradient));
        precision.iter_mut().zip(&prior.precision).for_each(|(h, p)| *h = p - *h);
        Point { theta, value, gradient, precision }
    }

    fn is_finite(&self) -> bool {
        self.value.is_finite() && self.gradient.iter().chain(&self.precision).all(|x| x.is_finite())
    }

    /// The Newton step P⁻¹g and √(gᵀP⁻¹g); where P is not positive definite, of P plus a multiple of its diagonal
    /// that makes it so, and `false`.
    fn newton_step(&self) -> Result<(Vec<f64>, f64, bool), LinalgError> {
        let dim = self.theta.len();
        let mut damping = 0.0;
        loop {
            let damped = row_major(dim, |i, j| {
                let entry = self.precision[i * dim + j];
                if i == j { entry + damping * entry.abs().max(f64::MIN_POSITIVE) } else { entry }
            });
            match Cholesky::new(&damped, dim) {
                Ok(cholesky) => {
                    let mut step = self.gradient.clone();
                    cholesky.solve(&mut step);
                    let norm = dot(&step, &self.gradient).max(0.0).sqrt();
                    return Ok((step, norm, damping == 0.0));
                }
                Err(error) if damping > 1e12 => return Err(error),
                Err(_) => damping = if damping == 0.0 { 1e-3 } else { 10.0 * damping },
            }
        }
    }
}

/// Fits N(θ̂, Σ) to the posterior ∝ π₀(θ)·exp(Σ wᵢℓᵢ(θ)) by damped Newton steps from `start`; without one, from the
/// prior mean, and over many rows from there by way of the mode of every 64th of them.
///
/// A step θ + t·P⁻¹g is halved until it gains at least t·10⁻⁴·gᵀP⁻¹g, or, where the gain is below rounding, until
/// the gradient is smaller. Not converging is a status; an error is bad input, or a mode without curvature.
pub fn laplace(
    model: &dyn Model,
    prior: &Prior,
    rows: Rows<'_>,
    start: Option<&[f64]>,
    settings: &LaplaceSettings,
) -> Result<Laplace, LaplaceError> {
    check(model, prior, rows, start)?;
    let start = match start {
        Some(start) => start.to_vec(),
        None => rough_mode(model, prior, rows, settings).unwrap_or_else(|| prior.mean.clone()),
    };
    let mut point = Point::new(model, prior, rows, start);
    if !point.is_finite() {
        return Err(LaplaceError::Start);
    }
    let (mut step, mut norm, mut definite) = point.newton_step()?;
    let mut iterations = 0;
    let status = loop {
        if definite && norm <= settings.tolerance {
            break LaplaceStatus::Converged;
        }
        if iterations == settings.max_iterations {
            break LaplaceStatus::IterationLimit;
        }
        let Some(next) = line_search(model, prior, rows, &point, &step, norm)? else {
            break LaplaceStatus::Stalled;
        };
        point = next;
        iterations += 1;
        (step, norm, definite) = point.newton_step()?;
    };
    let Point { theta, value, precision, .. } = point;
    let posterior = Gaussian::from_precision(theta, precision)?;
    Ok(Laplace { posterior, log_posterior: value, gradient_norm: norm, iterations, status })
}

/// One row of so many stands for all of them when the first Newton steps are taken.
const STRIDE: usize = 64;

/// The mode of every 64th row, each with weight 64, where they are many enough to be a fair picture: it is a few
/// posterior standard deviations off, from where Newton's steps converge quadratically at once.
fn rough_mode(
    model: &dyn Model,
    prior: &Prior,
    rows: Rows<'_>,
    settings: &LaplaceSettings,
) -> Option<Vec<f64>> {
    let Rows::All = rows else { return None };
    let ids: Vec<usize> = (0..model.len()).step_by(STRIDE).collect();
    if ids.len() < 100 * model.dim() {
        return None;
    }
    let weights = vec![STRIDE as f64; ids.len()];
    let sample = Rows::Weighted { ids: &ids, weights: &weights };
    // Half the digits are all that a start needs.
    let settings = LaplaceSettings { tolerance: 1e-3, ..*settings };
    Some(laplace(model, prior, sample, Some(&prior.mean), &settings).ok()?.posterior.mean)
}

/// The first of θ + step, θ + step/2, … that is better than θ.
fn line_search(
    model: &dyn Model,
    prior: &Prior,
    rows: Rows<'_>,
    from: &Point,
    step: &[f64],
    norm: f64,
) -> Result<Option<Point>, LinalgError> {
    // What rounding may do to the log posterior.
    let noise = 1e-13 * (1.0 + from.value.abs());
    let mut length = 1.0;
    for _ in 0..60 {
        let theta = from.theta.iter().zip(step).map(|(t, s)| t + length * s).collect();
        let next = Point::new(model, prior, rows, theta);
        if next.is_finite() {
            let gain = next.value - from.value;
            if gain > noise && gain >= 1e-4 * length * norm * norm {
                return Ok(Some(next));
            }
            if gain.abs() <= noise && next.newton_step()?.1 < norm {
                return Ok(Some(next));
            }
        }
        length *= 0.5;
        if length * norm < 1e-17 {
            break;
        }
    }
    Ok(None)
}

fn check(
    model: &dyn Model,
    prior: &Prior,
    rows: Rows<'_>,
    start: Option<&[f64]>,
) -> Result<(), LaplaceError> {
    let length = |what, got, expected| {
        if got == expected { Ok(()) } else { Err(LaplaceError::Length { what, got, expected }) }
    };
    length("prior mean", prior.dim(), model.dim())?;
    length("starting point", start.map_or(model.dim(), <[f64]>::len), model.dim())?;
    check_rows(model, rows)
}

/// Refuses rows that are not there and weights that are not numbers ≥ 0.
pub(crate) fn check_rows(model: &dyn Model, rows: Rows<'_>) -> Result<(), LaplaceError> {
    if let Rows::Weighted { ids, weights } = rows {
        if weights.len() != ids.len() {
            return Err(LaplaceError::Length { what: "weights", got: weights.len(), expected: ids.len() });
        }
        let rows = model.len();
        let bad = |&(&row, &weight): &(&usize, &f64)| row >= rows || !weight.is_finite() || weight < 0.0;
        if let Some((&row, &weight)) = ids.iter().zip(weights).find(bad) {
            return Err(LaplaceError::Weight { row, weight, rows });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gaussian_has_its_factor() {
        let precision = vec![4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let gaussian = Gaussian::from_precision(vec![0.0; 3], precision.clone()).unwrap();
        let l = &gaussian.factor;
        assert!(l[1] == 0.0 && l[2] == 0.0 && l[5] == 0.0);
        for i in 0..3 {
            for j in 0..3 {
                let entry = dot(&l[i * 3..][..3], &l[j * 3..][..3]);
                assert!((entry - gaussian.covariance[i * 3 + j]).abs() < 1e-15);
                let unit: f64 = (0..3).map(|k| precision[i * 3 + k] * gaussian.covariance[k * 3 + j]).sum();
                assert!((unit - if i == j { 1.0 } else { 0.0 }).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn small_divergences_keep_their_digits() {
        // Independent coordinates with precisions p and p(1+ε): KL = ½ Σ (ε − log(1+ε)) + ½ Σ p(1+ε)Δ².
        for epsilon in [1e-6f64, 1e-5, 1e-3, 0.1] {
            let precision = [3.0, 7e4, 0.2];
            let diagonal = |scale: f64| row_major(3, |i, j| if i == j { precision[i] * scale } else { 0.0 });
            let first = Gaussian::from_precision(vec![0.0; 3], diagonal(1.0)).unwrap();
            let second = Gaussian::from_precision(vec![epsilon, 0.0, 0.0], diagonal(1.0 + epsilon)).unwrap();
            let spread = 3.0 * (2..40).map(|k| -(-epsilon).powi(k) / k as f64).map(|x| -x).sum::<f64>();
            let want = 0.5 * spread + 0.5 * 3.0 * (1.0 + epsilon) * epsilon * epsilon;
            let got = kl_gaussian(&first, &second).unwrap();
            assert!((got - want).abs() <= 1e-6 * want, "{epsilon}: {got} {want}");
        }
    }

    #[test]
    fn large_divergences_have_their_closed_form() {
        let first = Gaussian::from_precision(vec![1.0], vec![1.0]).unwrap();
        let second = Gaussian::from_precision(vec![-1.0], vec![1e-20]).unwrap();
        let got = kl_gaussian(&first, &second).unwrap();
        let want = 0.5 * (1e-20 - 1.0 + 20.0 * std::f64::consts::LN_10 + 4e-20);
        assert!((got - want).abs() < 1e-12, "{got} {want}");
        assert_eq!(kl_gaussian(&first, &first).unwrap(), 0.0);
    }
}
