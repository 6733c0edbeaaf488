//! How good a coreset is: residuals on draws that no method saw, and divergences between Laplace fits, all in nats.

use serde::{Deserialize, Serialize};
use sparse_nnls::{Oracle, Status, Weights, residual_norm};

use crate::coreset::{Built, Coreset, HeldOut, Start};
use crate::embed::Embedding;
use crate::laplace::{
    Gaussian, Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, Prior, kl_gaussian, laplace,
};
use crate::model::{Model, Rows};

/// How the fit of the coreset's own posterior ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitStatus {
    /// At the mode.
    Converged,
    /// Within what rounding allows of the mode.
    Stalled,
    /// The Newton steps ran out: the divergences are those of the last point.
    IterationLimit,
    /// There is no Gaussian to compare with: the divergences are not known.
    Failed,
    /// There is no model to fit, only its log-likelihoods.
    NotFitted,
}

impl From<LaplaceStatus> for FitStatus {
    fn from(status: LaplaceStatus) -> Self {
        match status {
            LaplaceStatus::Converged => Self::Converged,
            LaplaceStatus::Stalled => Self::Stalled,
            LaplaceStatus::IterationLimit => Self::IterationLimit,
        }
    }
}

/// What the coreset does to one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ParameterShift {
    /// Mean under the coreset less mean under all data, in posterior standard deviations.
    pub mean_shift: f64,
    /// Standard deviation under the coreset over that under all data.
    pub sd_ratio: f64,
}

/// The judgement of a coreset. What could not be computed, or is not a finite number, is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// ‖Φ1 − Φw‖ on draws that no method saw.
    pub heldout_residual: Option<f64>,
    /// Half its square: to leading order the divergence, in nats.
    pub heldout_nats: Option<f64>,
    /// How many draws.
    pub heldout_draws: usize,
    /// How the fit of the coreset's posterior ended.
    pub fit: FitStatus,
    /// KL(π ‖ π_w) between the Laplace fits; exact for conjugate models.
    pub kl_forward: Option<f64>,
    /// KL(π_w ‖ π).
    pub kl_reverse: Option<f64>,
    /// Their sum.
    pub kl_symmetrised: Option<f64>,
    /// ‖θ̂ − θ̂_w‖₂.
    pub map_distance: Option<f64>,
    /// One entry a parameter; empty where the fit failed.
    pub parameters: Vec<ParameterShift>,
}

/// Judges the weighted rows by the held-out draws, where given, and by a Laplace fit of their own posterior, started
/// at the mode of the full one.
///
/// # Errors
/// A row or a weight that cannot be used. A fit that fails is a [`FitStatus`].
pub fn evaluate(
    model: &dyn Model,
    prior: &Prior,
    full: &Laplace,
    held_out: Option<&HeldOut<'_>>,
    rows: &[usize],
    weights: &[f64],
) -> Result<Evaluation, LaplaceError> {
    let fit = own_fit(model, prior, rows, weights, Some(&full.posterior.mean))?;
    let residual = held_out.map(|draws| draws.residual(rows, weights)).and_then(finite);
    let divergence = |first: &Gaussian, second: &Gaussian| kl_gaussian(first, second).ok().and_then(finite);
    let full = &full.posterior;
    let own = fit.as_ref().map(|fit| &fit.posterior);
    let kl_forward = own.and_then(|own| divergence(full, own));
    let kl_reverse = own.and_then(|own| divergence(own, full));
    Ok(Evaluation {
        heldout_residual: residual,
        heldout_nats: residual.map(|r| 0.5 * r * r),
        heldout_draws: held_out.map_or(0, HeldOut::draws),
        fit: fit.as_ref().map_or(FitStatus::Failed, |fit| fit.status.into()),
        kl_forward,
        kl_reverse,
        kl_symmetrised: kl_forward.zip(kl_reverse).and_then(|(a, b)| finite(a + b)),
        map_distance: own.and_then(|own| finite(distance(&full.mean, &own.mean))),
        parameters: own.map_or_else(Vec::new, |own| shifts(full, own)),
    })
}

/// Judges the weighted rows by the held-out draws alone, where there is no fit of all rows: no divergence is known but
/// the estimate on these draws.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_alone(
    model: &dyn Model,
    prior: &Prior,
    held_out: Option<&HeldOut<'_>>,
    rows: &[usize],
    weights: &[f64],
) -> Result<Evaluation, LaplaceError> {
    let fit = own_fit(model, prior, rows, weights, None)?;
    let residual = held_out.map(|draws| draws.residual(rows, weights)).and_then(finite);
    Ok(Evaluation {
        heldout_residual: residual,
        heldout_nats: residual.map(|r| 0.5 * r * r),
        heldout_draws: held_out.map_or(0, HeldOut::draws),
        fit: fit.map_or(FitStatus::Failed, |fit| fit.status.into()),
        kl_forward: None,
        kl_reverse: None,
        kl_symmetrised: None,
        map_distance: None,
        parameters: Vec::new(),
    })
}

/// The Laplace fit of the weighted rows, where there is one.
fn own_fit(
    model: &dyn Model,
    prior: &Prior,
    rows: &[usize],
    weights: &[f64],
    start: Option<&[f64]>,
) -> Result<Option<Laplace>, LaplaceError> {
    let weighted = Rows::Weighted { ids: rows, weights };
    match laplace(model, prior, weighted, start, &LaplaceSettings::default()) {
        Ok(fit) => Ok(Some(fit)),
        Err(LaplaceError::Start | LaplaceError::Linalg(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Judges what [`build_in_rounds`](crate::coreset::build_in_rounds) built, on fresh draws of the π̂ that it was last built
/// under. A coreset that was stopped is not held up by the pass over the data that these take.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_built(
    model: &dyn Model,
    prior: &Prior,
    full: &Laplace,
    held_out: &HeldOut<'_>,
    built: &Built,
    start: Start,
    seed: u64,
) -> Result<Evaluation, LaplaceError> {
    let Coreset { rows, weights, status, .. } = &built.coreset;
    let last = built.posterior.as_ref().map(|last| HeldOut::new(model, last, seed));
    let held_out = (*status != Status::Stopped).then_some(last.as_ref().unwrap_or(held_out));
    match start {
        Start::Full => evaluate(model, prior, full, held_out, rows, weights),
        Start::Subsample(_) => evaluate_alone(model, prior, held_out, rows, weights),
    }
}

/// ‖y − Φw‖ of these weighted rows in an embedding.
///
/// # Errors
/// Whatever the embedding fails with.
pub fn residual_in(
    embedding: &dyn Embedding,
    rows: &[usize],
    weights: &[f64],
) -> Result<f64, sparse_nnls::Error> {
    let mut oracle = Oracle::new(embedding);
    let target = oracle.sum()?.vector;
    let weights = Weights::from_pairs(rows.iter().copied().zip(weights.iter().copied()));
    residual_norm(&oracle, &target, &weights)
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn shifts(full: &Gaussian, own: &Gaussian) -> Vec<ParameterShift> {
    let dim = full.dim();
    let of = |i: usize| {
        let variance = full.covariance[i * dim + i];
        ParameterShift {
            mean_shift: (own.mean[i] - full.mean[i]) / variance.sqrt(),
            sd_ratio: (own.covariance[i * dim + i] / variance).sqrt(),
        }
    };
    (0..dim).map(of).collect()
}
