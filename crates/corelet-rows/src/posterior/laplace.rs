//! The Laplace fit N(θ̂, Σ) of a posterior, by Newton's method.

use serde::{Deserialize, Serialize};

use super::{Density, Gaussian, Prior};
use crate::linalg::{Cholesky, LinalgError, dot, row_major};
use crate::rows::{At, LogLikelihood, Newton, RowsError};

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
#[serde(rename_all = "kebab-case")]
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
        /// Name of the array.
        what: &'static str,
        /// Length of the array.
        got: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A prior standard deviation that is not positive.
    #[error("the prior standard deviation is {0}, but it must be positive and finite")]
    PriorScale(f64),
    /// A prior density that is none.
    #[error("the prior {density}: {reason}")]
    Density {
        /// With its numbers.
        density: Density,
        /// What is wrong with them.
        reason: String,
    },
    /// The log posterior has no value to start from.
    #[error("the log posterior is not finite at the starting point")]
    Start,
    /// The rows did not answer.
    #[error(transparent)]
    Rows(#[from] RowsError),
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

/// The posterior ∝ π₀·exp(L).
#[derive(Clone, Copy)]
struct Posterior<'a> {
    likelihood: &'a dyn LogLikelihood,
    prior: &'a Prior,
}

/// A mode this near, in posterior standard deviations, is as good as any: where a whole step gains nothing, none will.
const ROUNDING: f64 = 1e-6;

impl Posterior<'_> {
    fn at(&self, theta: Vec<f64>) -> Result<Point, RowsError> {
        let Newton { mut value, mut gradient, mut hessian } =
            self.likelihood.evaluate(&At { theta: &theta, derivatives: 2 })?;
        value += self.prior.complete(&theta, &mut gradient, &mut hessian);
        Ok(Point { theta, value, gradient, precision: hessian })
    }

    /// The first of θ + step, θ + step/2, … that is better than θ.
    fn line_search(&self, from: &Point, step: &[f64], norm: f64) -> Result<Option<Point>, LaplaceError> {
        // What rounding may do to the log posterior.
        let noise = 1e-13 * (1.0 + from.value.abs());
        let mut length = 1.0;
        for _ in 0..60 {
            let theta = from.theta.iter().zip(step).map(|(t, s)| t + length * s).collect();
            let next = self.at(theta)?;
            if next.is_finite() {
                let gain = next.value - from.value;
                if gain > noise && gain >= 1e-4 * length * norm * norm {
                    return Ok(Some(next));
                }
                if gain.abs() <= noise && next.newton_step()?.1 < norm {
                    return Ok(Some(next));
                }
                // Rounding is all that is left: a shorter step would only cost another pass.
                if gain.abs() <= noise && norm <= ROUNDING {
                    return Ok(None);
                }
            }
            length *= 0.5;
            if length * norm < 1e-17 {
                break;
            }
        }
        Ok(None)
    }
}

impl Point {
    /// Moves by a Newton step of that norm, so short that the log posterior is quadratic on the way.
    fn step_by(&mut self, step: &[f64], norm: f64) {
        self.theta.iter_mut().zip(step).for_each(|(theta, step)| *theta += step);
        self.value += 0.5 * norm * norm;
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

/// The share by which the curvature may change over a last step that is taken without a look: squared and times D/4 it is the
/// divergence that this costs, in nats.
const STRAIGHT: f64 = 1e-7;

/// Fits N(θ̂, Σ) to the posterior ∝ π₀(θ)·exp(L(θ)) by damped Newton steps from `start`; without one, from where the prior says
/// ([`Prior::starting_at`]) or from its mean,
/// and where the likelihood has a [rough picture](LogLikelihood::rough) of itself from there by way of its mode.
///
/// A step θ + t·P⁻¹g is halved until it gains at least t·10⁻⁴·gᵀP⁻¹g, or, where the gain is below rounding, until
/// the gradient is smaller. A distance d to the mode, in standard deviations, becomes κd² by a step, and κ is known from the step
/// before: of many rows, the last step is taken without evaluating where it leads once κd² is within the tolerance. Not
/// converging is a status; an error is bad input, or a mode without curvature.
///
/// # Errors
/// See [`LaplaceError`].
pub fn laplace(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    start: Option<&[f64]>,
    settings: &LaplaceSettings,
) -> Result<Laplace, LaplaceError> {
    let dim = likelihood.dim();
    for (what, got) in [("prior mean", prior.dim()), ("starting point", start.map_or(dim, <[f64]>::len))] {
        if got != dim {
            return Err(LaplaceError::Length { what, got, expected: dim });
        }
    }
    let start = start.or(prior.start());
    let rough = if start.is_some() { None } else { rough_mode(likelihood, prior, settings)? };
    let is_dear = rough.is_some();
    let start = start.map(<[f64]>::to_vec).or(rough).unwrap_or_else(|| prior.mean.clone());
    let posterior = Posterior { likelihood, prior };
    let mut point = posterior.at(start)?;
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
        let Some(next) = posterior.line_search(&point, &step, norm)? else {
            break LaplaceStatus::Stalled;
        };
        point = next;
        iterations += 1;
        let before = norm;
        (step, norm, definite) = point.newton_step()?;
        let bend = norm / (before * before) * norm;
        if is_dear && definite && bend <= STRAIGHT && bend * norm <= settings.tolerance {
            point.step_by(&step, norm);
            (norm, iterations) = (bend * norm, iterations + 1);
            break LaplaceStatus::Converged;
        }
    };
    let Point { theta, value, precision, .. } = point;
    let posterior = Gaussian::from_precision(theta, precision)?;
    Ok(Laplace { posterior, log_posterior: value, gradient_norm: norm, iterations, status })
}

/// A coefficient of which a rough picture knows fewer rows than this stays at the prior mean there: out where a few rows of one
/// kind would carry it, all rows hardly bend the log-likelihood, and Newton's first step would be far too long.
const LEAST_ROWS: f64 = 300.0;

/// The precision that holds a coefficient where it is, whatever the rows say.
const HELD: f64 = 1e12;

/// The mode of a rough picture of the likelihood: a few posterior standard deviations off, from where Newton's steps
/// converge quadratically at once.
fn rough_mode(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    settings: &LaplaceSettings,
) -> Result<Option<Vec<f64>>, LaplaceError> {
    let Some(rough) = likelihood.rough()? else { return Ok(None) };
    // Half the digits are all that a start needs.
    let settings = LaplaceSettings { tolerance: 1e-3, ..*settings };
    let mut prior = prior.clone();
    let dim = prior.dim();
    for j in rough.scarce_features(LEAST_ROWS).into_iter().filter(|&j| j < dim) {
        prior.precision[j * dim + j] += HELD;
    }
    Ok(laplace(&rough, &prior, Some(&prior.mean), &settings).ok().map(|fit| fit.posterior.mean))
}
