//! Pareto-smoothed importance sampling (Vehtari et al. 2024): the tail index k̂ and the smoothed weights.

/// The result of [`psis`].
#[derive(Debug, Clone, PartialEq)]
pub struct Smoothed {
    /// log weights, tail smoothed, Σ exp = 1.
    pub log_weights: Vec<f64>,
    /// k̂ of the upper tail; infinite if the tail has fewer than five distinct weights, and −∞ where all weights are
    /// the same to rounding.
    pub pareto_k: f64,
}

/// Replaces the largest weights by the order statistics of the generalised Pareto distribution fitted to them.
///
/// The tail has min(S/5, 3√(S/`efficiency`)) weights, where `efficiency` is the relative efficiency of the draws, 1 for
/// independent ones. No weight is raised above the largest raw one.
pub fn psis(log_weights: &[f64], efficiency: f64) -> Smoothed {
    let size = log_weights.len();
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = log_weights.iter().copied().fold(f64::INFINITY, f64::min);
    let mut shifted: Vec<f64> = log_weights.iter().map(|x| x - largest).collect();
    if size == 0 || !largest.is_finite() || largest - smallest < 1e-13 {
        normalise(&mut shifted);
        return Smoothed { log_weights: shifted, pareto_k: f64::NEG_INFINITY };
    }
    let tail = (size as f64 / 5.0).min(3.0 * (size as f64 / efficiency).sqrt()).ceil() as usize;
    // All but the tail need no order: this runs once for every row of a leave-one-out.
    let mut copy = shifted.clone();
    let (_, cutoff, _) = copy.select_nth_unstable_by(size.saturating_sub(tail + 1), f64::total_cmp);
    let cutoff = cutoff.max(f64::MIN_POSITIVE.ln());
    let mut tail: Vec<usize> = (0..size).filter(|&i| shifted[i] > cutoff).collect();
    tail.sort_by(|&a, &b| shifted[a].total_cmp(&shifted[b]));
    let mut pareto_k = f64::INFINITY;
    if tail.len() > 4 {
        // e^x − e^c without losing the digits of weights that are nearly the same.
        let excess: Vec<f64> = tail.iter().map(|&i| cutoff.exp() * (shifted[i] - cutoff).exp_m1()).collect();
        let (k, sigma) = fit_pareto(&excess);
        pareto_k = k;
        if k.is_finite() {
            for (at, &i) in tail.iter().enumerate() {
                let probability = (at as f64 + 0.5) / tail.len() as f64;
                shifted[i] = (pareto_quantile(probability, k, sigma) + cutoff.exp()).ln().min(0.0);
            }
        }
    }
    normalise(&mut shifted);
    Smoothed { log_weights: shifted, pareto_k }
}

/// log Σ exp.
pub(super) fn log_sum_exp(x: &[f64]) -> f64 {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    largest + x.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

fn normalise(log_weights: &mut [f64]) {
    let total = log_sum_exp(log_weights);
    log_weights.iter_mut().for_each(|x| *x -= total);
}

/// Shape k and scale σ of the generalised Pareto distribution, of ascending positive numbers: the posterior mean of
/// Zhang and Stephens (2009) with the weak prior of Vehtari et al. on k.
pub(super) fn fit_pareto(ascending: &[f64]) -> (f64, f64) {
    let n = ascending.len() as f64;
    let grid = 30 + n.sqrt() as usize;
    let quartile = ascending[((n / 4.0 + 0.5) as usize).saturating_sub(1)];
    let largest = ascending[ascending.len() - 1];
    let shape = |b: f64| ascending.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n;
    let points: Vec<f64> = (1..=grid)
        .map(|j| (1.0 - (grid as f64 / (j as f64 - 0.5)).sqrt()) / (3.0 * quartile) + 1.0 / largest)
        .collect();
    let profile: Vec<f64> = points
        .iter()
        .map(|&b| {
            let k = shape(b);
            n * ((-b / k).ln() - k - 1.0)
        })
        .collect();
    let total = log_sum_exp(&profile);
    let weights: Vec<f64> = profile.iter().map(|l| (l - total).exp()).collect();
    let kept = weights.iter().zip(&points).filter(|(w, _)| **w >= 10.0 * f64::EPSILON);
    let (mass, sum) = kept.fold((0.0, 0.0), |(mass, sum), (w, b)| (mass + w, sum + w * b));
    let b = sum / mass;
    let k = shape(b);
    ((n * k + 5.0) / (n + 10.0), -k / b)
}

/// The quantile function of the generalised Pareto distribution.
fn pareto_quantile(probability: f64, k: f64, sigma: f64) -> f64 {
    let upper = -(-probability).ln_1p();
    if k.abs() < f64::EPSILON { sigma * upper } else { sigma * (k * upper).exp_m1() / k }
}

/// k̂ above min(1 − 1/log₁₀S, 0.7) means that S draws are too few for the weights to be relied on.
pub fn pareto_threshold(draws: usize) -> f64 {
    (1.0 - 1.0 / (draws as f64).log10()).min(0.7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pareto_tails_are_found() {
        // Exact quantiles of GPD(k, σ): the estimate is that of k up to the weak prior, which draws towards ½.
        for k in [-0.3, 0.1, 0.5, 0.9, 1.5] {
            let n = 4000;
            let x: Vec<f64> = (0..n).map(|i| pareto_quantile((i as f64 + 0.5) / n as f64, k, 2.0)).collect();
            let (found, sigma) = fit_pareto(&x);
            assert!((found - k).abs() < 0.02 && (sigma - 2.0).abs() < 0.06, "{k}: {found} {sigma}");
        }
    }

    #[test]
    fn equal_weights_stay_equal() {
        let smoothed = psis(&[-3.0; 50], 1.0);
        assert_eq!(smoothed.pareto_k, f64::NEG_INFINITY);
        assert!(smoothed.log_weights.iter().all(|x| (x + 50f64.ln()).abs() < 1e-14));
    }
}
