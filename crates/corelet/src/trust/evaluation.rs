//! Evaluation of a coreset: residuals on held-out draws, and divergences between Laplace fits, all in nats.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Oracle, Weights, residual_norm};

use super::Estimate;
use crate::embed::Embedding;
use crate::posterior::{Gaussian, Laplace, LaplaceError, LaplaceStatus, kl_gaussian};
use crate::rows::{Problem, Rest, Weighted};

/// How the fit of the coreset's own posterior ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitStatus {
    /// At the mode.
    Converged,
    /// At the mode up to rounding.
    Stalled,
    /// The iteration limit was reached: the divergences are those of the last point.
    IterationLimit,
    /// There is no Gaussian to compare with: the divergences are unknown.
    Failed,
    /// There is no model to fit, only log-likelihoods.
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

/// The difference between coreset and full data for one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ParameterShift {
    /// Mean under the coreset minus mean under all data, in posterior standard deviations.
    pub mean_shift: f64,
    /// Standard deviation under the coreset divided by that under all data.
    pub sd_ratio: f64,
}

/// The evaluation of a coreset. Values that could not be computed, or are not finite, are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// ‖Φ1 − Φw‖ on held-out draws, which no method has used.
    pub heldout_residual: Option<f64>,
    /// Half its square: to leading order the divergence, in nats.
    pub heldout_nats: Option<f64>,
    /// Its standard error.
    pub heldout_nats_se: Option<f64>,
    /// Number of held-out draws.
    pub heldout_draws: usize,
    /// The number of sampled rows, if the part of it above order 2 was estimated from a sample.
    #[serde(default)]
    pub heldout_rows: Option<usize>,
    /// How the fit of the coreset's posterior ended.
    pub fit: FitStatus,
    /// KL(π ‖ π_w) between the Laplace fits; exact for conjugate models.
    pub kl_forward: Option<f64>,
    /// KL(π_w ‖ π).
    pub kl_reverse: Option<f64>,
    /// Sum of both divergences.
    pub kl_symmetrised: Option<f64>,
    /// ‖θ̂ − θ̂_w‖₂.
    pub map_distance: Option<f64>,
    /// One entry per parameter; empty if the fit failed.
    pub parameters: Vec<ParameterShift>,
}

/// Evaluates weighted rows by their residual on held-out draws, if known, and by comparing a Laplace fit of their own posterior
/// with that of all rows. Without a fit of all rows, the estimate on the held-out draws is the only divergence.
///
/// # Errors
/// An invalid row or weight. A fit that fails is a [`FitStatus`].
pub fn evaluate(
    problem: Problem<'_>,
    full: Option<&Laplace>,
    estimate: Option<&Estimate>,
    ids: &[usize],
    weights: &[f64],
) -> Result<Evaluation, LaplaceError> {
    evaluate_with_rest(problem, full, estimate, (ids, weights), None)
}

/// The same for weighted rows with a Gaussian factor. The factor has means of derivatives and not derivatives at the mode, so it is not
/// compared with a fit of all rows.
///
/// # Errors
/// See [`evaluate`].
pub fn evaluate_with_rest(
    problem: Problem<'_>,
    full: Option<&Laplace>,
    estimate: Option<&Estimate>,
    (ids, weights): (&[usize], &[f64]),
    rest: Option<&Arc<Rest>>,
) -> Result<Evaluation, LaplaceError> {
    let full = full.filter(|_| rest.is_none());
    let points = Weighted::fetch_with_rest(problem.rows, ids, weights, rest.cloned())?;
    let fit = match points.fit(problem.prior) {
        Ok(fit) => Some(fit),
        Err(LaplaceError::Start | LaplaceError::Linalg(_)) => None,
        Err(error) => return Err(error),
    };
    let residual = estimate.and_then(|estimate| finite(estimate.residual));
    let divergence = |first: &Gaussian, second: &Gaussian| kl_gaussian(first, second).ok().and_then(finite);
    let both = full.map(|full| &full.posterior).zip(fit.as_ref().map(|fit| &fit.posterior));
    let kl_forward = both.and_then(|(full, own)| divergence(full, own));
    let kl_reverse = both.and_then(|(full, own)| divergence(own, full));
    Ok(Evaluation {
        heldout_residual: residual,
        heldout_nats: residual.map(|r| 0.5 * r * r),
        heldout_nats_se: estimate.and_then(|estimate| finite(estimate.standard_error)),
        heldout_draws: estimate.map_or(0, |estimate| estimate.draws),
        heldout_rows: estimate.and_then(|estimate| estimate.sampled_rows),
        fit: fit.as_ref().map_or(FitStatus::Failed, |fit| fit.status.into()),
        kl_forward,
        kl_reverse,
        kl_symmetrised: kl_forward.zip(kl_reverse).and_then(|(a, b)| finite(a + b)),
        map_distance: both.and_then(|(full, own)| finite(distance(&full.mean, &own.mean))),
        parameters: both.map_or_else(Vec::new, |(full, own)| shifts(full, own)),
    })
}

/// ‖y − Φw‖ of these weighted rows in an embedding.
///
/// # Errors
/// Errors of the embedding.
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
