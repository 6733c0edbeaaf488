//! SparseVI: points and weights that descend the reverse KL divergence itself, embedded afresh at every step.
//!
//! For f = (ℓ₁ … ℓₙ) and π_w ∝ π₀·exp(wᵀf), the divergence of the coreset's posterior has the gradient
//!
//! > ∂KL(π_w‖π)/∂wₐ = −Cov_w(ℓₐ, L − L_w),
//!
//! under π_w and not under a fixed π̂. A point is added where ℓᵢ correlates best with L − L_w under the present π_w;
//! then all weights go `steps` steps of projected Adam, each with a gradient under the π_w it stands at. Campbell &
//! Beronov, *Sparse Variational Inference: Bayesian Coresets from Scratch* (2019), Algorithm 1.
//!
//! The covariances are exact where the posterior is ([`GaussianMean`](crate::model::GaussianMean), linear regression).
//! Elsewhere they are those of S draws from the Laplace fit of π_w, drawn afresh at every step.

mod adam;
mod gaussian_mean;
mod monte_carlo;
mod quadratic;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::adam::Adam;
use self::gaussian_mean::ConjugateMean;
use self::monte_carlo::MonteCarlo;
use self::quadratic::Quadratic;
use crate::linalg::LinalgError;
use crate::model::Model;
use crate::posterior::{LaplaceError, Prior};
use crate::rows::RowsError;

/// γₜ, the length of a weight's step before Adam scales it.
///
/// Two ways of writing one decay: the t-th step of either is `scale`/t, t = 1, 2, …
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepSize {
    /// γₜ = scale/t with t = 1, 2, …: the paper's 1/t, scale 1.
    OverT {
        /// The first step.
        scale: f64,
    },
    /// γₜ = scale/(1 + t) with t = 0, 1, …: as the authors' code counts, scale 0.5 in their regressions.
    OverOnePlusT {
        /// The first step.
        scale: f64,
    },
}

impl StepSize {
    fn scale(self) -> f64 {
        match self {
            Self::OverT { scale } | Self::OverOnePlusT { scale } => scale,
        }
    }

    /// The step after `taken` others.
    fn after(self, taken: usize) -> f64 {
        self.scale() / (1 + taken) as f64
    }
}

/// How SparseVI goes about it. The defaults are those of the paper's logistic and Poisson regressions; its Gaussian
/// and radial-basis experiments take 100 steps of 1/t.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `draws` | 500 | S, draws a gradient; models with an exact posterior need none | ≥ 2 |
/// | `steps` | 500 | steps of Adam after each point | ≥ 1 |
/// | `step_size` | 0.5/(1 + t) | γₜ | scale > 0 |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SparseViSettings {
    /// S, draws a gradient.
    pub draws: usize,
    /// Steps of Adam after each point.
    pub steps: usize,
    /// Step sizes γₜ.
    pub step_size: StepSize,
}

impl Default for SparseViSettings {
    fn default() -> Self {
        Self { draws: 500, steps: 500, step_size: StepSize::OverOnePlusT { scale: 0.5 } }
    }
}

impl SparseViSettings {
    /// Refuses settings out of range.
    ///
    /// # Errors
    /// [`SparseViError::Setting`] naming the first.
    pub fn check(&self) -> Result<(), SparseViError> {
        let least = |name, value: usize, least: usize, expected| {
            let value = if value >= least { return Ok(()) } else { value as f64 };
            Err(SparseViError::Setting { name, value, expected })
        };
        least("draws", self.draws, 2, "a covariance needs at least 2")?;
        least("steps", self.steps, 1, "it must be at least 1")?;
        let scale = self.step_size.scale();
        if scale.is_finite() && scale > 0.0 {
            return Ok(());
        }
        let (name, expected) = ("step_size.scale", "it must be a finite number above 0");
        Err(SparseViError::Setting { name, value: scale, expected })
    }
}

/// The coreset after one more selection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SparseViPoint {
    /// The rows with a weight, ascending.
    pub rows: Vec<usize>,
    /// Weights of these rows, > 0.
    pub weights: Vec<f64>,
    /// Number of rows.
    pub points: usize,
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// Passes over the data since the start of the run: one or two a selection, and one a gradient that is not exact.
    pub passes: f64,
}

/// Why there is no coreset.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SparseViError {
    /// The number of points is 0 or above n.
    #[error("k = {k} points cannot be chosen from {rows} rows: k must be between 1 and {rows}")]
    PointsOutOfRange {
        /// What was asked for.
        k: usize,
        /// Number of rows, n.
        rows: usize,
    },
    /// A setting out of range.
    #[error("SparseVI's {name} is {value}: {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Value of the setting.
        value: f64,
        /// Values that are allowed.
        expected: &'static str,
    },
    /// The log-likelihood overflows at a draw from the coreset's posterior, which starts as the prior.
    #[error(
        "the log-likelihood at draw {draw} from the coreset's posterior is not finite ({value}); \
         standardise the features, or narrow the prior, which is where SparseVI starts from"
    )]
    NotFinite {
        /// The draw, from 0.
        draw: usize,
        /// NaN or ±∞.
        value: f64,
    },
    /// A prior that is not normal.
    #[error("SparseVI starts from the prior, which must be normal")]
    Prior,
    /// The posterior of the coreset has no Laplace fit, or the prior does not fit the model.
    #[error(transparent)]
    Laplace(#[from] LaplaceError),
    /// Rows or weights that cannot be used.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A covariance that cannot be factorised.
    #[error(transparent)]
    Linalg(#[from] LinalgError),
}

/// Rows that have been chosen, in that order, and their weights ≥ 0.
#[derive(Debug, Clone, Default)]
struct Active {
    rows: Vec<usize>,
    weights: Vec<f64>,
}

impl Active {
    /// Rows and weights that a caller gives, once they and the settings are known to be possible.
    fn of(
        model: &Arc<dyn Model>,
        rows: &[usize],
        weights: &[f64],
        settings: &SparseViSettings,
    ) -> Result<Self, SparseViError> {
        settings.check()?;
        check_weights(&**model, rows, weights)?;
        Ok(Self { rows: rows.to_vec(), weights: weights.to_vec() })
    }

    /// Adds a row with weight zero, unless it is there.
    fn admit(&mut self, row: usize) {
        if !self.rows.contains(&row) {
            self.rows.push(row);
            self.weights.push(0.0);
        }
    }

    /// `steps` steps of Adam, projected onto w ≥ 0.
    fn reweight(
        &mut self,
        tangent: &mut dyn Tangent,
        settings: &SparseViSettings,
    ) -> Result<(), SparseViError> {
        let mut gradient = vec![0.0; self.rows.len()];
        let mut adam = Adam::new(self.rows.len());
        for taken in 0..settings.steps {
            tangent.gradient(self, &mut gradient)?;
            adam.step(settings.step_size.after(taken), &gradient, &mut self.weights);
        }
        Ok(())
    }

    fn point(&self, start: Instant, passes: f64) -> SparseViPoint {
        let pairs = self.rows.iter().copied().zip(self.weights.iter().copied());
        let sparse_nnls::Weights { ids, values } = sparse_nnls::Weights::from_pairs(pairs);
        let (points, seconds) = (ids.len(), start.elapsed().as_secs_f64());
        SparseViPoint { rows: ids, weights: values, points, seconds, passes }
    }
}

/// The log-likelihoods as vectors under the posterior π_w of an active set.
trait Tangent {
    /// Cov_w(ℓᵢ, L − L_w)/√Var_w ℓᵢ for every row, 0 where ℓᵢ does not vary.
    fn correlations(&mut self, active: &Active) -> Result<Vec<f64>, SparseViError>;

    /// −Cov_w(ℓₐ, L − L_w) for every active row.
    fn gradient(&mut self, active: &Active, gradient: &mut [f64]) -> Result<(), SparseViError>;

    /// Passes over the data so far.
    fn passes(&self) -> f64;
}

/// The exact covariances where the model has them, else those of draws.
fn tangent<'a>(
    model: &'a Arc<dyn Model>,
    prior: &'a Prior,
    settings: &SparseViSettings,
    seed: u64,
) -> Result<Box<dyn Tangent + 'a>, SparseViError> {
    if prior.dim() != model.dim() {
        let (what, got, expected) = ("prior mean", prior.dim(), model.dim());
        return Err(LaplaceError::Length { what, got, expected }.into());
    }
    if !prior.is_gaussian() {
        return Err(SparseViError::Prior);
    }
    if let Some(gaussian) = model.gaussian_mean() {
        return Ok(Box::new(ConjugateMean::new(gaussian, prior)?));
    }
    if let Some(linear) = model.linear()
        && let Some(quadratic) = Quadratic::new(&linear, prior)?
    {
        return Ok(Box::new(quadratic));
    }
    Ok(Box::new(MonteCarlo::new(model, prior, settings.draws, seed)))
}

/// The row that correlates best with what is missing; a row that has a weight may also lose some of it, so its sign
/// does not matter. The smaller of equal rows.
fn best(correlations: &mut [f64], active: &Active) -> usize {
    for (&row, _) in active.rows.iter().zip(&active.weights).filter(|(_, weight)| **weight > 0.0) {
        correlations[row] = correlations[row].abs();
    }
    (0..correlations.len()).rev().max_by(|&a, &b| correlations[a].total_cmp(&correlations[b])).unwrap_or(0)
}

/// Chooses up to `k` points, one selection after the other, and returns the coreset after each: entry j − 1 has at
/// most j points. (A selection may fall on a row that has a weight already, and weights may go to zero.)
///
/// The callback sees each coreset as it is finished and may stop the run, which returns what there is.
///
/// # Errors
/// See [`SparseViError`].
pub fn sparse_vi(
    model: &Arc<dyn Model>,
    prior: &Prior,
    k: usize,
    settings: &SparseViSettings,
    seed: u64,
    callback: &mut dyn FnMut(&SparseViPoint) -> ControlFlow<()>,
) -> Result<Vec<SparseViPoint>, SparseViError> {
    let start = Instant::now();
    settings.check()?;
    if k == 0 || k > model.len() {
        return Err(SparseViError::PointsOutOfRange { k, rows: model.len() });
    }
    let mut tangent = tangent(model, prior, settings, seed)?;
    let mut active = Active::default();
    let mut path = Vec::with_capacity(k);
    while path.len() < k {
        let mut correlations = tangent.correlations(&active)?;
        active.admit(best(&mut correlations, &active));
        active.reweight(&mut *tangent, settings)?;
        let point = active.point(start, tangent.passes());
        let answer = callback(&point);
        path.push(point);
        if answer.is_break() {
            break;
        }
    }
    Ok(path)
}

/// The weights of these rows after `steps` steps of SparseVI down KL(π_w‖π) from those given; some may become 0.
///
/// Steps of a fixed length end at some distance from the bottom: weights that are nearer to it already come out worse.
///
/// # Errors
/// See [`SparseViError`].
pub fn descend(
    model: &Arc<dyn Model>,
    prior: &Prior,
    rows: &[usize],
    weights: &[f64],
    settings: &SparseViSettings,
    seed: u64,
) -> Result<Vec<f64>, SparseViError> {
    let mut active = Active::of(model, rows, weights, settings)?;
    active.reweight(&mut *tangent(model, prior, settings, seed)?, settings)?;
    Ok(active.weights)
}

/// ∂KL(π_w‖π)/∂wₐ for each of the weighted rows: one gradient as [`sparse_vi`] takes it, from the first draws of the
/// seed where it is not exact.
///
/// # Errors
/// See [`SparseViError`].
pub fn kl_gradient(
    model: &Arc<dyn Model>,
    prior: &Prior,
    rows: &[usize],
    weights: &[f64],
    settings: &SparseViSettings,
    seed: u64,
) -> Result<Vec<f64>, SparseViError> {
    let active = Active::of(model, rows, weights, settings)?;
    let mut gradient = vec![0.0; rows.len()];
    tangent(model, prior, settings, seed)?.gradient(&active, &mut gradient)?;
    Ok(gradient)
}

fn check_weights(model: &dyn Model, rows: &[usize], weights: &[f64]) -> Result<(), RowsError> {
    let (got, expected) = (weights.len(), rows.len());
    if got != expected {
        return Err(RowsError::Length { what: "weights", got, expected });
    }
    if let Some(&row) = rows.iter().find(|&&row| row >= model.len()) {
        return Err(RowsError::NoSuchRow { row, rows: model.len() });
    }
    let bad = |pair: &(&usize, &f64)| !(pair.1.is_finite() && *pair.1 >= 0.0);
    match rows.iter().zip(weights).find(bad) {
        Some((&row, &weight)) => Err(RowsError::Weight { row, weight }),
        None => Ok(()),
    }
}
