//! Leave-one-out by Pareto-smoothed importance sampling (Vehtari, Gelman and Gabry 2017), and WAIC, row by row.

use serde::{Deserialize, Serialize};

use super::Asked;
use crate::data::Twofold;
use crate::trust::pareto_threshold;

/// Weights that differ by less, as a share, have no tail to fit: smoothing a thousand of them moves a log density by 2·10⁻⁶ nats at
/// most, less than a hundredth of what the row has of the effective parameters.
const FLAT: f64 = 0.1;

/// A posterior variance of ℓᵢ above which WAIC begins to fail (the same).
const WAIC_LIMIT: f64 = 0.4;

/// k̂ above the first (at most; less for few draws) is unreliable, above the second useless.
pub const KHAT_LIMITS: (f64, f64) = (0.7, 1.0);

/// Rows that are named for their k̂.
const NAMED: usize = 20;

/// How well one row is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predictive {
    /// log of the mean likelihood over the posterior of all rows.
    pub lppd: f64,
    /// The same over the posterior without this row.
    pub elpd: f64,
    /// Tail index of the weights that leave it out; −∞ where they hardly differ.
    pub pareto_k: f64,
    /// The posterior variance of its log-likelihood.
    pub variance: f64,
}

/// Leave-one-out and WAIC of all rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loo {
    /// Rows.
    pub rows: usize,
    /// Σ log p(yᵢ | the other rows).
    pub elpd: f64,
    /// Its standard error over rows.
    pub se: f64,
    /// The effective number of parameters.
    pub p: f64,
    /// Σ log p(yᵢ | all rows) less the penalty of WAIC.
    pub waic: f64,
    /// Its standard error.
    pub waic_se: f64,
    /// The penalty: the sum of the posterior variances.
    pub p_waic: f64,
    /// Rows of which the posterior variance is above 0.4: WAIC begins to fail.
    pub waic_doubtful: usize,
    /// The largest k̂ that can be relied on with so many draws.
    pub good_k: f64,
    /// Rows whose k̂ is below that, below 1, and above.
    pub by_k: [usize; 3],
    /// The rows with the largest k̂ above the limit, and it.
    pub worst: Vec<(usize, f64)>,
    /// One entry a row, where they were to be kept.
    pub pointwise: Option<Pointwise>,
}

/// One entry a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pointwise {
    /// log p(yᵢ | the other rows).
    pub elpd: Vec<f64>,
    /// k̂.
    pub pareto_k: Vec<f64>,
    /// That of WAIC.
    pub waic: Vec<f64>,
}

/// Of one row.
pub(super) fn of_row(asked: &Asked, log_likelihoods: &[f64]) -> Predictive {
    let weights = &asked.weights;
    if range(log_likelihoods) < FLAT
        && (asked.equal || range_of(asked.log_weights.iter().zip(log_likelihoods).map(|(w, x)| w - x)) < FLAT)
    {
        // The weights that leave the row out have no tail.
        let [mean, second, third, fourth] = cumulants(weights, log_likelihoods);
        let (even, odd) = (second / 2.0 + fourth / 24.0, mean + third / 6.0);
        let (lppd, elpd) = (odd + even, odd - even);
        return Predictive { lppd, elpd, pareto_k: f64::NEG_INFINITY, variance: second };
    }
    let mean: f64 = weights.iter().zip(log_likelihoods).map(|(w, x)| w * x).sum();
    let variance: f64 = weights.iter().zip(log_likelihoods).map(|(w, x)| w * (x - mean).powi(2)).sum();
    let lppd = lppd(weights, log_likelihoods);
    let (smoothed, pareto_k) = asked.without(log_likelihoods);
    let terms = || smoothed.iter().zip(log_likelihoods).map(|(w, x)| w + x);
    let largest = terms().fold(f64::NEG_INFINITY, f64::max);
    let elpd = largest + terms().map(|x| (x - largest).exp()).sum::<f64>().ln();
    Predictive { lppd, elpd, pareto_k, variance }
}

/// log Σₛ wₛ e^{ℓ(θₛ)}.
pub(super) fn lppd(weights: &[f64], log_likelihoods: &[f64]) -> f64 {
    if range(log_likelihoods) < FLAT {
        let [mean, second, third, fourth] = cumulants(weights, log_likelihoods);
        return mean + second / 2.0 + third / 6.0 + fourth / 24.0;
    }
    let high = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    high + weights.iter().zip(log_likelihoods).map(|(w, x)| w * (x - high).exp()).sum::<f64>().ln()
}

fn range(values: &[f64]) -> f64 {
    range_of(values.iter().copied())
}

fn range_of(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    high - low
}

/// The first four cumulants, weights summing to 1: of what lies within a tenth, log Σ w e^x is κ₁ + κ₂/2 + κ₃/6 + κ₄/24 to 10⁻⁸.
fn cumulants(weights: &[f64], values: &[f64]) -> [f64; 4] {
    let first = values.first().copied().unwrap_or_default();
    let off: f64 = weights.iter().zip(values).map(|(w, x)| w * (x - first)).sum();
    let mean = first + off;
    let moments = weights.iter().zip(values).fold([0.0; 3], |[second, third, fourth], (w, x)| {
        let d = x - mean;
        let square = w * d * d;
        [second + square, third + square * d, fourth + square * d * d]
    });
    let [second, third, fourth] = moments;
    [mean, second, third, fourth - 3.0 * second * second]
}

/// Sums over rows so far, with twice the digits of a number: 10⁷ rows are many, and sums of parts are the same in whatever parts rows are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sums {
    elpd: Moments,
    waic: Moments,
    lppd: Twofold,
    variance: Twofold,
    doubtful: usize,
    by_k: [usize; 3],
    worst: Vec<(usize, f64)>,
    pointwise: Option<Pointwise>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Moments {
    count: usize,
    sum: Twofold,
    squares: Twofold,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.count += 1;
        self.sum = self.sum.plus(x.into());
        self.squares = self.squares.plus((x * x).into());
    }

    fn append(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.plus(other.sum);
        self.squares = self.squares.plus(other.squares);
    }

    /// The sum, and its standard error √(n Var).
    fn sum(&self) -> (f64, f64) {
        let sum = self.sum.value();
        let centre = sum * (sum / self.count.max(1) as f64);
        (sum, self.squares.plus((-centre).into()).value().max(0.0).sqrt())
    }
}

impl Sums {
    pub(super) fn new(pointwise: bool) -> Self {
        Self {
            elpd: Moments::default(),
            waic: Moments::default(),
            lppd: Twofold::default(),
            variance: Twofold::default(),
            doubtful: 0,
            by_k: [0; 3],
            worst: Vec::new(),
            pointwise: pointwise.then(Pointwise::default),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.elpd.count
    }

    pub(super) fn add(&mut self, at: usize, row: &Predictive, draws: usize) {
        let Predictive { lppd, elpd, pareto_k, variance } = *row;
        let good = pareto_threshold(draws);
        let class = if pareto_k <= good { 0 } else { 1 + usize::from(pareto_k > KHAT_LIMITS.1) };
        self.by_k[class] += 1;
        if class > 0 {
            self.worst.push((at, pareto_k));
            if self.worst.len() > 2 * NAMED {
                self.cut();
            }
        }
        self.elpd.add(elpd);
        self.waic.add(lppd - variance);
        self.lppd = self.lppd.plus(lppd.into());
        self.variance = self.variance.plus(variance.into());
        self.doubtful += usize::from(variance > WAIC_LIMIT);
        if let Some(pointwise) = &mut self.pointwise {
            pointwise.elpd.push(elpd);
            pointwise.pareto_k.push(pareto_k);
            pointwise.waic.push(lppd - variance);
        }
    }

    /// Further rows.
    pub(super) fn append(&mut self, other: Self) {
        self.elpd.append(other.elpd);
        self.waic.append(other.waic);
        self.lppd = self.lppd.plus(other.lppd);
        self.variance = self.variance.plus(other.variance);
        self.doubtful += other.doubtful;
        self.by_k.iter_mut().zip(other.by_k).for_each(|(sum, rows)| *sum += rows);
        self.worst.extend(other.worst);
        self.cut();
        if let (Some(all), Some(other)) = (&mut self.pointwise, other.pointwise) {
            all.elpd.extend(other.elpd);
            all.pareto_k.extend(other.pareto_k);
            all.waic.extend(other.waic);
        }
    }

    fn cut(&mut self) {
        self.worst.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.worst.truncate(NAMED);
    }

    pub(super) fn finish(mut self, draws: usize) -> Loo {
        self.cut();
        let ((elpd, se), (waic, waic_se)) = (self.elpd.sum(), self.waic.sum());
        Loo {
            rows: self.rows(),
            elpd,
            se,
            p: self.lppd.value() - elpd,
            waic,
            waic_se,
            p_waic: self.variance.value(),
            waic_doubtful: self.doubtful,
            good_k: pareto_threshold(draws),
            by_k: self.by_k,
            worst: self.worst,
            pointwise: self.pointwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of log-likelihoods that hardly differ no exponential is taken, and nothing is lost.
    #[test]
    fn flat_rows_are_those_of_exponentials() {
        let values = |width: f64| -> Vec<f64> {
            (0..500).map(|s| -3.2 + width * 0.5 * (0.7 * f64::from(s)).sin().powi(3)).collect()
        };
        for uneven in [0.0, 0.02] {
            let logs: Vec<f64> = (0..500).map(|s| uneven * (1.3 * f64::from(s)).cos()).collect();
            let asked = Asked::new(500, Some(&logs), &[], 1.0);
            let sum = |values: &[f64], sign: f64| -> f64 {
                asked.weights.iter().zip(values).map(|(w, x)| w * (sign * x).exp()).sum::<f64>().ln()
            };
            for width in [1e-6, 0.01, 0.05] {
                let values = values(width);
                let found = of_row(&asked, &values);
                assert!((found.lppd - sum(&values, 1.0)).abs() < 1e-8, "{width}");
                assert!((found.elpd + sum(&values, -1.0)).abs() < 1e-8, "{width}");
                assert!(
                    found.pareto_k == f64::NEG_INFINITY
                        && (lppd(&asked.weights, &values) - found.lppd).abs() < 1e-12
                );
            }
            let wide = values(0.5);
            assert!((lppd(&asked.weights, &wide) - sum(&wide, 1.0)).abs() < 1e-12);
            assert!(of_row(&asked, &wide).pareto_k > f64::NEG_INFINITY);
        }
    }
}
