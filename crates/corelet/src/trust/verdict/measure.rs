//! Δ at draws of π_w: how far π is, and what importance weights would make of the draws. No grade.

use super::psis::{log_sum_exp, pareto_threshold, psis};
use super::{Divergence, Draws, Reweighting};
use crate::posterior::effective_sample_size;

/// The normal quantile of 95 %.
pub(super) const Z95: f64 = 1.644_853_626_951_472_7;

/// What Δ says.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) divergence: Divergence,
    pub(super) reweighting: Reweighting,
    /// log weights that turn the draws into draws of π, Pareto-smoothed, Σ exp = 1.
    pub(super) log_weights: Vec<f64>,
    /// Δ less its mean.
    pub(super) errors: Vec<f64>,
    /// Whether the draws, where they are of another density, represent π_w.
    pub(super) represented: bool,
}

/// `errors` are Δ at each draw less Δ at an anchor, and `at_anchor` is that.
pub(super) fn measure(draws: &Draws, mut errors: Vec<f64>, at_anchor: f64) -> Measured {
    let base = draws.base_weights(errors.len());
    let centre = weighted_mean(&base.weights, &errors);
    errors.iter_mut().for_each(|x| *x -= centre);
    let ratios: Vec<f64> = base.log_weights.iter().zip(&errors).map(|(b, x)| b + x).collect();
    let squares: Vec<f64> = errors.iter().map(|x| x * x).collect();
    let variance = weighted_mean(&base.weights, &squares);
    let efficiency = draws.efficiency(&errors);
    let smoothed = psis(&ratios, efficiency);
    let target: Vec<f64> = smoothed.log_weights.iter().map(|x| x.exp()).collect();
    // From weights relative to the largest: beside an error of 10¹⁷ nats the base weights would vanish.
    let largest = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = |power: f64| {
        let each = base.log_weights.iter().zip(&errors).map(|(b, x)| b + power * (x - largest));
        log_sum_exp(&each.collect::<Vec<f64>>())
    };
    let log_mean = log_sum(1.0);
    let divergence = Divergence {
        variance,
        variance_upper: upper_bound(draws, &base.weights, &squares, variance),
        kl_symmetrised: weighted_mean(&target, &errors),
        log_evidence_ratio: log_mean + largest + centre + at_anchor,
    };
    let reweighting = Reweighting {
        ess: efficiency / target.iter().map(|w| w * w).sum::<f64>(),
        ess_share: share(2.0 * log_mean - log_sum(2.0)),
        efficiency,
        pareto_k: smoothed.pareto_k,
        pareto_threshold: pareto_threshold(errors.len()),
    };
    Measured {
        divergence,
        reweighting,
        log_weights: smoothed.log_weights,
        errors,
        represented: base.reliable,
    }
}

/// 1/(1 + χ²) from its logarithm. Errors that overflow keep nothing.
fn share(log_share: f64) -> f64 {
    if log_share.is_nan() { 0.0 } else { log_share.exp().min(1.0) }
}

/// V·exp(z·se/V): the delta method on log V. For chains se² = Var(Δ²)/ESS(Δ²); for weighted draws Σ b²(Δ² − V)².
fn upper_bound(draws: &Draws, base: &[f64], squares: &[f64], variance: f64) -> f64 {
    if variance == 0.0 {
        return 0.0;
    }
    let deviations = base.iter().zip(squares).map(|(b, u)| (b * (u - variance)).powi(2));
    let independent = deviations.sum::<f64>();
    let size = squares.len() as f64;
    let inflation = draws.chains.map_or(1.0, |chains| {
        let per_chain: Vec<Vec<f64>> = split(squares, chains);
        (size / effective_sample_size(&per_chain)).max(1.0)
    });
    let relative = (independent * inflation).sqrt() / variance;
    let bound = variance * (Z95 * relative).exp();
    if bound.is_nan() { f64::INFINITY } else { bound }
}

fn split(values: &[f64], chains: usize) -> Vec<Vec<f64>> {
    let length = values.len() / chains.max(1);
    values.chunks_exact(length.max(1)).map(<[f64]>::to_vec).collect()
}

fn weighted_mean(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(w, x)| w * x).sum()
}

impl Draws {
    /// Effective over actual draws for the mean of Δ and for its square, the smaller, at most 1.
    fn efficiency(&self, errors: &[f64]) -> f64 {
        let Some(chains) = self.chains else { return 1.0 };
        let squares: Vec<f64> = errors.iter().map(|x| x * x).collect();
        let of = |values: &[f64]| effective_sample_size(&split(values, chains)) / values.len() as f64;
        // NaN, of draws that are all the same, is the larger for `min`.
        of(errors).min(of(&squares)).min(1.0)
    }
}
