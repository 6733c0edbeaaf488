//! Are the draws those of the density that they are said to be drawn from? Stein's two identities, direction by direction.
//!
//! Draws θ of a density p with mean m satisfy E ∇log p = 0 and E ∇log p (θ − m)ᵀ = −I. A mean that is off by δ posterior standard
//! deviations moves the mean score by δ, a variance that is off by a factor c makes the second moment −c: a sampler that ignores the
//! weights, takes rows in another order, has stopped too early or was written wrongly shows, whatever the number of parameters.
//! What does not show is a part of the density that no draw has reached.
//!
//! Where no gradient is to be had, the log-likelihood L_w alone is regressed on the draws: for a Gaussian posterior its slope is the
//! mean score and its curvature the second moment, less what the prior adds to them.

use super::policy::{
    MEAN_PRIOR_SHARE, NARROW, PRIOR_SHARE, PRIOR_SHIFT, SIGNIFICANT, TOLERATED_MEAN_SCALE, TOLERATED_SCALE,
    TOLERATED_SHIFT, TOLERATED_TOTAL, WIDE,
};
use super::{Draws, Reason};
use crate::linalg::{Cholesky, dot, gram, leading_eigenvectors, row_major};
use crate::posterior::effective_sample_size;

/// Directions beyond the parameters themselves are looked at up to this many parameters, and with so many draws for each.
const MOST_DIRECTIONS: usize = 400;
const DRAWS_A_DIRECTION: usize = 4;

/// Draws θ, and the gradient ∇log p(θ) of the density that they should be draws of, in the same coordinates.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// The draws.
    pub draws: Draws,
    /// S × D numbers, row-major.
    pub gradient: Vec<f64>,
}

/// How far the draws are from those of the density, in the worst direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fidelity {
    /// How far a mean is off, in posterior standard deviations, beyond what sampling explains.
    pub shift: f64,
    /// The smallest and the largest ratio of a variance of the draws to that of the density.
    pub scale: (f64, f64),
}

impl Scores {
    /// The worst of all directions, and what it forbids.
    pub fn test(&self) -> (Fidelity, Vec<Reason>) {
        let (count, dim) = (self.draws.len(), self.draws.dim);
        let chains = self.draws.chains.unwrap_or(1).max(1);
        if !self.gradient.iter().all(|x| x.is_finite()) || self.gradient.len() != count * dim {
            return (Fidelity { shift: f64::INFINITY, scale: (0.0, f64::INFINITY) }, vec![Reason::NotFinite]);
        }
        let Standardised { values, moving } = Standardised::new(&self.draws);
        let scaled = |row: &[f64]| moving.iter().map(|&(j, scale)| row[j] * scale).collect::<Vec<f64>>();
        let scores: Vec<f64> = self.gradient.chunks_exact(dim.max(1)).flat_map(scaled).collect();
        let dim = moving.len();
        let mut found = Found::new();
        let column = |of: &[f64], j: usize| -> Vec<f64> { of.iter().skip(j).step_by(dim).copied().collect() };
        for j in 0..dim {
            found.add(&column(&values, j), &column(&scores, j), chains);
        }
        // Directions from one half of the draws, looked at on the other: those that fit the noise of one half do not fit that of the other.
        if let Some(directions) = principal_directions(&values, dim, chains, 0) {
            let (even, odd) = (half(&values, dim, chains, 1), half(&scores, dim, chains, 1));
            let mut total = Total::default();
            for direction in directions.chunks_exact(dim) {
                total.add(&found.add(&project(&even, direction), &project(&odd, direction), chains));
            }
            if total.beyond(TOLERATED_TOTAL) {
                found.shift_excess = f64::INFINITY;
                found.fidelity.shift = found.fidelity.shift.max(total.shift());
            }
        }
        let pairs = values.chunks_exact(dim.max(1)).zip(scores.chunks_exact(dim.max(1)));
        let all: Vec<f64> = pairs.map(|(x, y)| -dot(x, y) / dim.max(1) as f64).collect();
        let on_average = Mean::of(&all, chains);
        let mut reasons = Vec::new();
        if found.shift_excess > 0.0 {
            reasons.push(Reason::Shifted);
        }
        let average = (on_average.mean - 1.0).abs() > TOLERATED_MEAN_SCALE + SIGNIFICANT * on_average.error;
        if found.scale_excess > 0.0 || average {
            reasons.push(Reason::Misscaled);
        }
        (found.fidelity, reasons)
    }
}

/// The worst of the directions so far.
struct Found {
    fidelity: Fidelity,
    shift_excess: f64,
    scale_excess: f64,
}

impl Found {
    fn new() -> Self {
        let fidelity = Fidelity { shift: 0.0, scale: (1.0, 1.0) };
        Self { fidelity, shift_excess: f64::NEG_INFINITY, scale_excess: f64::NEG_INFINITY }
    }

    /// x, the draws along a direction, and y, the score there: E y = 0, E y(x − Ex) = −1. The shift there.
    fn add(&mut self, x: &[f64], y: &[f64], chains: usize) -> Mean {
        let score = Mean::of(y, chains);
        let centre = x.iter().sum::<f64>() / x.len() as f64;
        let products: Vec<f64> = x.iter().zip(y).map(|(x, y)| -(x - centre) * y).collect();
        let scale = Mean::of(&products, chains);
        // In conditional standard deviations, which is what a divergence is made of.
        let shift = score.mean.abs() / score.deviation.max(f64::MIN_POSITIVE);
        let error = score.error / score.deviation.max(f64::MIN_POSITIVE);
        self.fidelity.shift = self.fidelity.shift.max((shift - SIGNIFICANT * error).max(0.0));
        let (low, high) = (scale.mean + SIGNIFICANT * scale.error, scale.mean - SIGNIFICANT * scale.error);
        self.fidelity.scale = (self.fidelity.scale.0.min(low), self.fidelity.scale.1.max(high));
        self.shift_excess = worse(self.shift_excess, shift - TOLERATED_SHIFT - SIGNIFICANT * error);
        self.scale_excess = worse(self.scale_excess, (1.0 - low).max(high - 1.0) - TOLERATED_SCALE);
        Mean { mean: shift, error, deviation: 1.0 }
    }
}

/// Shifts in many directions that are each within sampling error may together be far off: Σδ² is twice a divergence in nats.
#[derive(Default)]
struct Total {
    squares: f64,
    expected: f64,
    variance: f64,
}

impl Total {
    fn add(&mut self, shift: &Mean) {
        self.squares += shift.mean.powi(2);
        self.expected += shift.error.powi(2);
        self.variance += 2.0 * shift.error.powi(4);
    }

    /// What is left of it without what sampling adds.
    fn shift(&self) -> f64 {
        (self.squares - self.expected).max(0.0).sqrt()
    }

    /// Whether it is larger than this, and than sampling explains.
    fn beyond(&self, limit: f64) -> bool {
        let significant = self.squares - self.expected > SIGNIFICANT * self.variance.sqrt();
        self.squares.is_nan() || (significant && self.shift() > limit)
    }
}

/// The larger, or no number at all, which is worse than any.
fn worse(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// What L_w alone, without the prior, says of the draws; nothing where they look like those of a posterior that the data determine.
pub(super) fn likelihood_alone(draws: &Draws, weighted: &[f64]) -> Vec<Reason> {
    let chains = draws.chains.unwrap_or(1).max(1);
    let Standardised { values, moving } = Standardised::new(draws);
    if moving.is_empty() || weighted.len() != draws.len() {
        return vec![Reason::OnTrust];
    }
    let dim = moving.len();
    let (points, responses, directions) = match principal_directions(&values, dim, chains, 0) {
        Some(directions) => (half(&values, dim, chains, 1), half(weighted, 1, chains, 1), directions),
        None => (values, weighted.to_vec(), row_major(dim, |i, j| f64::from(u8::from(i == j)))),
    };
    let along: Vec<Vec<f64>> = directions
        .chunks_exact(dim)
        .filter_map(|direction| standardised(&project(&points, direction)))
        .collect();
    let Regression { slopes, curvatures } = regress(&along, &responses, chains);
    let mut reasons = Vec::new();
    let beyond = |mean: &Mean, limit: f64| mean.mean - SIGNIFICANT * mean.error > limit;
    let below = |mean: &Mean, limit: f64| mean.mean + SIGNIFICANT * mean.error < limit;
    let size = |slope: &Mean| Mean { mean: slope.mean.abs(), ..*slope };
    let mut total = Total::default();
    slopes.iter().for_each(|slope| total.add(slope));
    if slopes.iter().any(|slope| beyond(&size(slope), PRIOR_SHIFT)) || total.beyond(PRIOR_SHIFT) {
        reasons.push(Reason::Shifted);
    }
    if curvatures.iter().any(|curvature| beyond(curvature, WIDE)) {
        reasons.push(Reason::Wide);
    }
    let count = curvatures.len() as f64;
    let average = Mean {
        mean: curvatures.iter().map(|c| c.mean).sum::<f64>() / count,
        error: curvatures.iter().map(|c| c.error.powi(2)).sum::<f64>().sqrt() / count,
        deviation: 0.0,
    };
    let squares = curvatures.iter().map(|c| c.mean.max(0.0).powi(2)).sum::<f64>() / count;
    if squares < NARROW {
        reasons.push(Reason::Narrow);
    } else if below(&average, 1.0 - MEAN_PRIOR_SHARE)
        || curvatures.iter().any(|curvature| below(curvature, 1.0 - PRIOR_SHARE))
        || total.beyond(TOLERATED_TOTAL)
    {
        reasons.push(Reason::PriorDominates);
    }
    reasons
}

/// f ≈ a + Σ βⱼuⱼ − ½ Σ cⱼuⱼ²: βⱼ and cⱼ with their standard errors.
struct Regression {
    slopes: Vec<Mean>,
    curvatures: Vec<Mean>,
}

/// By least squares over all directions at once where there are draws enough, else one direction at a time.
fn regress(along: &[Vec<f64>], responses: &[f64], chains: usize) -> Regression {
    let (count, dim) = (responses.len(), along.len());
    let effective = effective_sample_size(&split(responses, chains)).min(count as f64);
    let per_chain = if effective.is_nan() { 1.0 } else { effective };
    let together = 2 * dim + 1 <= count / 3;
    let mean = responses.iter().sum::<f64>() / count as f64;
    let centred: Vec<f64> = responses.iter().map(|f| f - mean).collect();
    let square = |x: f64| 0.5 * (x * x - 1.0);
    let width = 2 * dim;
    let fitted = together
        .then(|| {
            let design: Vec<f64> = (0..count)
                .flat_map(|s| along.iter().map(move |u| u[s]).chain(along.iter().map(move |u| square(u[s]))))
                .collect();
            let normal = gram(&design, count, width);
            let mut solution = vec![0.0; width];
            for (row, f) in design.chunks_exact(width).zip(&centred) {
                solution.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * f);
            }
            let cholesky = Cholesky::new(&normal, width).ok()?;
            let right = solution.clone();
            cholesky.solve(&mut solution);
            let explained = dot(&right, &solution);
            let residual = (dot(&centred, &centred) - explained).max(0.0) / (count - width).max(1) as f64;
            let inverse = cholesky.inverse();
            // Draws that are correlated are worth fewer.
            let inflation = count as f64 / per_chain;
            let of = |j: usize, sign: f64| Mean {
                mean: sign * solution[j],
                error: (residual * inverse[j * width + j] * inflation).sqrt(),
                deviation: 0.0,
            };
            Some(Regression {
                slopes: (0..dim).map(|j| of(j, 1.0)).collect(),
                curvatures: (dim..width).map(|j| of(j, -1.0)).collect(),
            })
        })
        .flatten();
    fitted.unwrap_or_else(|| {
        let covariance = |of: &dyn Fn(f64) -> f64, u: &[f64], sign: f64| {
            let products: Vec<f64> = u.iter().zip(&centred).map(|(x, f)| sign * of(*x) * f).collect();
            Mean::of(&products, chains)
        };
        Regression {
            slopes: along.iter().map(|u| covariance(&|x| x, u, 1.0)).collect(),
            curvatures: along.iter().map(|u| covariance(&|x| x * x - 1.0, u, -1.0)).collect(),
        }
    })
}

/// A mean over draws, with its standard error by the effective sample size.
#[derive(Debug, Clone, Copy)]
struct Mean {
    mean: f64,
    error: f64,
    deviation: f64,
}

impl Mean {
    fn of(series: &[f64], chains: usize) -> Self {
        let count = series.len() as f64;
        let mean = series.iter().sum::<f64>() / count;
        let deviation = (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        let effective = effective_sample_size(&split(series, chains)).min(count);
        Self { mean, error: deviation / effective.max(1.0).sqrt(), deviation }
    }
}

fn split(series: &[f64], chains: usize) -> Vec<Vec<f64>> {
    series.chunks_exact((series.len() / chains).max(1)).map(<[f64]>::to_vec).collect()
}

/// Draws less their mean, in units of their standard deviation, of the parameters that are not the same at every draw.
struct Standardised {
    /// S × moving parameters, row-major.
    values: Vec<f64>,
    /// These parameters, and their standard deviations.
    moving: Vec<(usize, f64)>,
}

impl Standardised {
    fn new(draws: &Draws) -> Self {
        let (dim, count) = (draws.dim.max(1), draws.len() as f64);
        let mean = draws.mean();
        let mut squares = vec![0.0; draws.dim];
        for row in draws.theta.chunks_exact(dim) {
            squares.iter_mut().zip(row.iter().zip(&mean)).for_each(|(sum, (x, m))| *sum += (x - m).powi(2));
        }
        let scales = squares.iter().map(|sum| (sum / count).sqrt()).enumerate();
        let moving: Vec<(usize, f64)> = scales.filter(|&(j, scale)| scale > 1e-14 * mean[j].abs()).collect();
        let row =
            |row: &[f64]| moving.iter().map(|&(j, scale)| (row[j] - mean[j]) / scale).collect::<Vec<f64>>();
        Self { values: draws.theta.chunks_exact(dim).flat_map(row).collect(), moving }
    }
}

/// With mean 0 and variance 1; none where it hardly varies, as along a sum that is fixed.
fn standardised(series: &[f64]) -> Option<Vec<f64>> {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let scale = (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    (scale > 1e-7).then(|| series.iter().map(|x| (x - mean) / scale).collect())
}

/// The eigenvectors of the covariance of one half of these standardised draws; none where there are too few draws, or nothing to add.
fn principal_directions(values: &[f64], dim: usize, chains: usize, which: usize) -> Option<Vec<f64>> {
    let points = half(values, dim, chains, which);
    let count = points.len() / dim.max(1);
    if !(2..=MOST_DIRECTIONS).contains(&dim) || count < DRAWS_A_DIRECTION * dim {
        return None;
    }
    let covariance: Vec<f64> = gram(&points, count, dim).iter().map(|x| x / count as f64).collect();
    leading_eigenvectors(&covariance, dim, dim).ok()
}

/// Every second draw of each chain, from the first or from the second on.
fn half(values: &[f64], dim: usize, chains: usize, which: usize) -> Vec<f64> {
    let length = values.len() / dim.max(1) / chains.max(1);
    let of_chain = |chain: &[f64]| -> Vec<f64> {
        chain
            .chunks_exact(dim.max(1))
            .take(length / 2 * 2)
            .skip(which)
            .step_by(2)
            .flatten()
            .copied()
            .collect()
    };
    values.chunks_exact((length * dim).max(1)).flat_map(of_chain).collect()
}

fn project(values: &[f64], direction: &[f64]) -> Vec<f64> {
    values.chunks_exact(direction.len().max(1)).map(|row| dot(row, direction)).collect()
}
