//! Log evidence by bridge sampling (Meng and Wong 1996) between draws of a posterior and of a Gaussian fitted to others of them.

use crate::linalg::{Cholesky, gram};
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::trust::Draws;

/// log ∫ p(y | θ) π₀(θ) dθ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The logarithm, in nats.
    pub log: f64,
    /// Its standard error: the relative one of the integral (Frühwirth-Schnatter 2004).
    pub se: f64,
    /// Draws of the posterior, and as many of the Gaussian.
    pub draws: usize,
    /// By how much two bridges differ that agree where the draws are of the posterior, and the standard error of that.
    pub gap: (f64, f64),
}

impl Evidence {
    /// Whether the draws are not of the posterior that the density is of, beyond what chance explains.
    pub fn is_doubtful(&self) -> bool {
        let (gap, se) = self.gap;
        gap.is_nan() || gap.abs() > FELT.max(SIGNIFICANT * se)
    }
}

/// A gap between bridges in nats that is told, where it is so many standard errors.
const FELT: f64 = 0.1;
const SIGNIFICANT: f64 = 5.0;

/// Shares of the posterior in the mixtures of two bridges that are compared: one rests on draws of the Gaussian, the other on those of
/// the posterior. Neither is 0 or 1, so that no draw counts more than twenty times.
const APART: [f64; 2] = [0.05, 0.95];

/// A parameter whose variance given the others is a smaller part of its own is taken for one that they determine.
const LEAST_FREE: f64 = 1e-12;

/// Steps of the fixed point; each takes a few per cent of the last.
const MOST_STEPS: usize = 1000;

/// The change of log r that ends them.
const STILL: f64 = 1e-10;

/// log ∫ p(y | θ) π₀(θ) dθ: half of the draws, each other one of a chain, make a Gaussian, and the others are bridged to as many draws of
/// it. `log_weights` make them draws of that posterior, where they are not yet, and `log_posterior` gives log p(y | θ) π₀(θ), normalised,
/// at each of some draws, all of which it is asked at once. None where draws and Gaussian do not overlap.
///
/// # Errors
/// Those of `log_posterior`.
pub fn evidence_of<E>(
    draws: &Draws,
    log_weights: Option<&[f64]>,
    seed: u64,
    log_posterior: impl FnOnce(&Draws) -> Result<Vec<f64>, E>,
) -> Result<Option<Evidence>, E> {
    let weights = normalised(log_weights, draws.len());
    let half = |parity: usize| (0..draws.len()).filter(move |s| s % 2 == parity);
    let Some(fitted) = moments(draws, &weights, &half(0).collect::<Vec<_>>()) else { return Ok(None) };
    let others: Vec<usize> = half(1).collect();
    let proposals = fitted.shifts(others.len(), seed, Stream::Evidence);
    let mut theta: Vec<f64> = others.iter().flat_map(|&s| draws.row(s)).copied().collect();
    for s in 0..others.len() {
        theta.extend(fitted.mean.iter().zip(proposals.row(s)).map(|(mean, shift)| mean + shift));
    }
    let all = Draws { theta, dim: draws.dim, chains: None, log_weights: None };
    let values = log_posterior(&all)?;
    let ratio = |(s, value): (usize, &f64)| {
        let ratio = value - fitted.log_density(all.row(s));
        if ratio.is_nan() { f64::NEG_INFINITY } else { ratio }
    };
    let ratios: Vec<f64> = values.iter().enumerate().map(ratio).collect();
    let (posterior, proposal) = ratios.split_at(others.len());
    let total: f64 = others.iter().map(|&s| weights[s]).sum();
    let kept: Vec<f64> = others.iter().map(|&s| weights[s] / total).collect();
    let chained = draws.chains.is_some_and(|chains| chains > 1);
    let inflation = if chained { (0.5 / draws.efficiency_of_means()).max(1.0) } else { 1.0 };
    Ok(bridge(posterior, &kept, proposal, inflation))
}

/// From log p − log g at draws of the posterior p, which is known up to its integral, and at draws of the density g. `weights` of the
/// former add up to 1, and `inflation` is by how much their chains raise the variance of a mean; none if the two do not overlap.
///
/// r = ∫p solves r = E_g[p/(s₁p + s₂rg)]/E_p[g/(s₁p + s₂rg)], which among all bridges has the smallest error.
pub fn bridge(posterior: &[f64], weights: &[f64], proposal: &[f64], inflation: f64) -> Option<Evidence> {
    let draws = posterior.len();
    let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>() / inflation.max(1.0);
    let share = effective / (effective + proposal.len() as f64);
    // Around the middle of the ratios, so that nothing overflows.
    let mut sorted: Vec<f64> = posterior.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let centre = *sorted.get(sorted.len() / 2)?;
    let ratio = |x: &f64| (x - centre).exp();
    let (at_posterior, at_proposal): (Vec<f64>, Vec<f64>) =
        (posterior.iter().map(ratio).collect(), proposal.iter().map(ratio).collect());
    // p/(s₁p + s₂rg) and rg/(s₁p + s₂rg) as functions of p/g; an infinite ratio has the limit.
    let of_p =
        |q: f64, r: f64| if q.is_infinite() { 1.0 / share } else { q / (share * q + (1.0 - share) * r) };
    let of_g = |q: f64, r: f64| r / (share * q + (1.0 - share) * r);
    let mean_p = |r: f64| at_proposal.iter().map(|&q| of_p(q, r)).sum::<f64>() / at_proposal.len() as f64;
    let mean_g = |r: f64| at_posterior.iter().zip(weights).map(|(&q, w)| w * of_g(q, r)).sum::<f64>();
    let mut r = 1.0;
    for _ in 0..MOST_STEPS {
        let next = r * mean_p(r) / mean_g(r);
        if !(next > 0.0 && next.is_finite()) {
            return None;
        }
        let moved = (next / r).ln().abs();
        r = next;
        if moved < STILL {
            break;
        }
    }
    let (of_proposal, of_posterior) = (mean_p(r), mean_g(r));
    let first: f64 = at_proposal.iter().map(|&q| (of_p(q, r) / of_proposal - 1.0).powi(2)).sum();
    let first = first / (at_proposal.len() as f64).powi(2);
    let second: f64 =
        at_posterior.iter().zip(weights).map(|(&q, w)| (w * (of_g(q, r) / of_posterior - 1.0)).powi(2)).sum();
    let se = (first + inflation.max(1.0) * second).sqrt();
    let inflation = inflation.max(1.0);
    let gap = gap(&at_posterior, weights, &at_proposal, (r, inflation));
    let evidence = Evidence { log: centre + r.ln(), se, draws, gap };
    (evidence.log.is_finite() && evidence.se.is_finite()).then_some(evidence)
}

/// For any share s, E_g[p/(sp + (1−s)rg)]/E_p[g/(sp + (1−s)rg)] is ∫p: the log of what one gives less that of the other, with its standard
/// error. Where the draws are not of p, the second kind of mean is another.
fn gap(posterior: &[f64], weights: &[f64], proposal: &[f64], (r, inflation): (f64, f64)) -> (f64, f64) {
    let above = |q: f64, s: f64| if q.is_infinite() { 1.0 / s } else { q / (s * q + (1.0 - s) * r) };
    let below = |q: f64, s: f64| r / (s * q + (1.0 - s) * r);
    let mean_above = |s: f64| proposal.iter().map(|&q| above(q, s)).sum::<f64>() / proposal.len() as f64;
    let mean_below = |s: f64| posterior.iter().zip(weights).map(|(&q, w)| w * below(q, s)).sum::<f64>();
    let [one, other] = APART.map(|s| (mean_above(s), mean_below(s)));
    let log = (one.0 / one.1 / (other.0 / other.1)).ln();
    let first: f64 =
        proposal.iter().map(|&q| (above(q, APART[0]) / one.0 - above(q, APART[1]) / other.0).powi(2)).sum();
    let second: f64 = posterior
        .iter()
        .zip(weights)
        .map(|(&q, w)| (w * (below(q, APART[0]) / one.1 - below(q, APART[1]) / other.1)).powi(2))
        .sum();
    (log, (first / (proposal.len() as f64).powi(2) + inflation * second).sqrt())
}

/// Weights that add up to 1.
fn normalised(log_weights: Option<&[f64]>, count: usize) -> Vec<f64> {
    let Some(logs) = log_weights else { return vec![1.0 / count.max(1) as f64; count] };
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|w| (w - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// The Gaussian with the moments of these draws; none where they span no volume.
fn moments(draws: &Draws, weights: &[f64], places: &[usize]) -> Option<Gaussian> {
    let total: f64 = places.iter().map(|&s| weights[s]).sum();
    let mut mean = vec![0.0; draws.dim];
    for &s in places {
        mean.iter_mut().zip(draws.row(s)).for_each(|(mean, x)| *mean += weights[s] / total * x);
    }
    let shifts: Vec<f64> = places
        .iter()
        .flat_map(|&s| {
            let root = (weights[s] / total).sqrt();
            draws.row(s).iter().zip(&mean).map(move |(x, m)| root * (x - m)).collect::<Vec<f64>>()
        })
        .collect();
    let covariance = gram(&shifts, places.len(), draws.dim);
    let cholesky = Cholesky::new(&covariance, draws.dim).ok()?;
    let (factor, dim) = (cholesky.factor(), draws.dim);
    let free = |j: usize| {
        let (own, size) = (covariance[j * dim + j], LEAST_FREE * mean[j].abs());
        factor[j * dim + j].powi(2) > LEAST_FREE * own && own > size * size
    };
    if !(0..dim).all(free) {
        return None;
    }
    let precision = cholesky.inverse();
    Gaussian::from_precision(mean, precision).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p = 7·N(0, 1) by a lattice of its quantiles, g wider and off: the integral is 7, with and without weights.
    #[test]
    fn an_integral_that_is_known() {
        let quantile = |n: usize| -> Vec<f64> {
            // Sums of twelve uniforms are no better than what is wanted here; a Box–Muller lattice is.
            (0..n)
                .map(|i| {
                    let (u, v) = ((i as f64 + 0.5) / n as f64, (i as f64 * 0.618_033_988_75).fract());
                    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
                })
                .collect()
        };
        let log_p = |x: f64| 7f64.ln() - 0.5 * x * x - 0.5 * (2.0 * std::f64::consts::PI).ln();
        let (mean, sd): (f64, f64) = (0.3, 1.3);
        let log_g =
            |x: f64| -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
        let draws = quantile(4000);
        let ratio = |x: &f64| log_p(*x) - log_g(*x);
        let posterior: Vec<f64> = draws.iter().map(ratio).collect();
        let proposal: Vec<f64> = draws.iter().map(|z| mean + sd * z).map(|x| ratio(&x)).collect();
        let weights = vec![1.0 / 4000.0; 4000];
        let found = bridge(&posterior, &weights, &proposal, 1.0).unwrap();
        assert!((found.log - 7f64.ln()).abs() < 5.0 * found.se.max(1e-3), "{found:?}");
        assert!(found.se < 0.02);
        // Chains that repeat themselves say less.
        assert!(bridge(&posterior, &weights, &proposal, 10.0).unwrap().se > found.se);
        // Draws that are not of p are found out, whichever way they are off; those of p are not.
        assert!(!found.is_doubtful(), "{found:?}");
        for (shift, scale) in [(0.0, 0.5), (1.0, 1.0), (0.0, 1.8)] {
            let lying: Vec<f64> = draws.iter().map(|z| shift + scale * z).collect();
            let log_g = |x: f64| {
                -0.5 * ((x - shift) / scale).powi(2) - scale.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
            };
            let ratio = |x: &f64| log_p(*x) - log_g(*x);
            let posterior: Vec<f64> = lying.iter().map(ratio).collect();
            // Others of the same Gaussian.
            let proposal: Vec<f64> = lying.iter().rev().map(|x| 2.0 * shift - x).map(|x| ratio(&x)).collect();
            let found = bridge(&posterior, &weights, &proposal, 1.0).unwrap();
            assert!(found.is_doubtful(), "{shift} {scale} {found:?}");
        }
        // Where the two have nothing in common there is no number.
        let apart = vec![-1e6; 4000];
        assert!(bridge(&posterior, &weights, &apart, 1.0).is_none_or(|evidence| evidence.se > 1.0));
    }
}
