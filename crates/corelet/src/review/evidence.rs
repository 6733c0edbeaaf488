//! Log evidence by bridge sampling (Meng and Wong 1996) between draws of a posterior and of a Gaussian fitted to others of them.

/// log ∫ p(y | θ) π₀(θ) dθ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The logarithm, in nats.
    pub log: f64,
    /// Its standard error: the relative one of the integral (Frühwirth-Schnatter 2004).
    pub se: f64,
    /// Draws of the posterior, and as many of the Gaussian.
    pub draws: usize,
}

/// Steps of the fixed point; each takes a few per cent of the last.
const MOST_STEPS: usize = 1000;

/// The change of log r that ends them.
const STILL: f64 = 1e-10;

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
    let evidence = Evidence { log: centre + r.ln(), se, draws };
    (evidence.log.is_finite() && evidence.se.is_finite()).then_some(evidence)
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
        // Where the two have nothing in common there is no number.
        let apart = vec![-1e6; 4000];
        assert!(bridge(&posterior, &weights, &apart, 1.0).is_none_or(|evidence| evidence.se > 1.0));
    }
}
