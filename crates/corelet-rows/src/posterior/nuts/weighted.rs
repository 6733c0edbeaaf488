//! Draws with importance weights: moments and quantiles, and equally weighted draws for software that knows no weights.

use serde::{Deserialize, Serialize};

use super::Chains;

/// Mean, standard deviation and quantiles of weighted numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Marginal {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 5 % quantile.
    pub q5: f64,
    /// Median.
    pub median: f64,
    /// 95 % quantile.
    pub q95: f64,
}

impl Marginal {
    /// Of `values` with `weights` of any sum; a quantile is the first value whose mid-rank reaches it.
    pub fn new(values: &[f64], weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let average = |of: &dyn Fn(f64) -> f64| {
            values.iter().zip(weights).map(|(&x, w)| w * of(x)).sum::<f64>() / total
        };
        let mean = average(&|x| x);
        let variance = average(&|x| (x - mean).powi(2));
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
        let quantile = |probability: f64| {
            let mut below = 0.0;
            let reached = order.iter().find(|&&i| {
                below += weights[i];
                below - 0.5 * weights[i] >= probability * total
            });
            reached.or(order.last()).map_or(f64::NAN, |&i| values[i])
        };
        Self { mean, sd: variance.sqrt(), q5: quantile(0.05), median: quantile(0.5), q95: quantile(0.95) }
    }
}

/// The draws of `chains` chosen again in proportion to their weights, as many as there were: see [`systematic`].
pub fn resample(chains: &Chains, log_weights: &[f64]) -> Chains {
    let length = chains.draws_per_chain();
    let chosen = systematic(log_weights);
    let places = |chain: usize| {
        chosen[chain * length..(chain + 1) * length].iter().map(|at| (at / length, at % length))
    };
    chains.with_draws(|chain| places(chain).collect())
}

/// Systematic resampling: as many draws as there are weights, by their number, ascending. A draw of weight w appears ⌊Sw⌋ or ⌈Sw⌉
/// times; equal weights choose every draw once.
pub fn systematic(log_weights: &[f64]) -> Vec<usize> {
    let size = log_weights.len();
    let mut chosen = Vec::with_capacity(size);
    let mut reached = 0.0;
    for (at, weight) in log_weights.iter().enumerate() {
        reached += weight.exp() * size as f64;
        while chosen.len() < size && (chosen.len() as f64 + 0.5) < reached {
            chosen.push(at);
        }
    }
    // Rounding may leave the last place open.
    while let (true, Some(&last)) = (chosen.len() < size, chosen.last()) {
        chosen.push(last);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posterior::{Chain, Phase, Stats};

    #[test]
    fn equal_weights_change_nothing_and_others_repeat() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let plain = Marginal::new(&values, &[1.0; 100]);
        assert!((plain.mean - 49.5).abs() < 1e-12 && (plain.sd - (9999f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!((plain.q5, plain.median, plain.q95), (5.0, 50.0, 95.0));
        let weights: Vec<f64> = values.iter().map(|&x| f64::from(u8::from(x >= 50.0))).collect();
        let upper = Marginal::new(&values, &weights);
        assert_eq!((upper.mean, upper.median), (74.5, 75.0));
    }

    #[test]
    fn resampled_draws_follow_the_weights() {
        let phase = |start: f64| Phase {
            theta: (0..4).map(|i| start + f64::from(i)).collect(),
            stats: Stats {
                log_posterior: vec![0.0; 4],
                energy: vec![0.0; 4],
                acceptance: vec![0.0; 4],
                step_size: vec![0.0; 4],
                depth: vec![0; 4],
                steps: vec![0; 4],
                diverging: vec![false; 4],
                max_depth_reached: vec![false; 4],
            },
        };
        let chain = |start| Chain { warmup: Phase::default(), draws: phase(start) };
        let chains = Chains { dim: 1, chains: vec![chain(0.0), chain(10.0)] };
        assert_eq!(resample(&chains, &[0.125f64.ln(); 8]), chains);
        let weights = [0.5f64, 0.25, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0].map(f64::ln);
        assert_eq!(resample(&chains, &weights).theta(), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 10.0, 10.0]);
    }
}
