//! Are the draws those of the density that they are said to be drawn from? Stein's two identities, direction by direction.
//!
//! Draws θ of a density p with mean m satisfy E ∇log p = 0 and E ∇log p (θ − m)ᵀ = −I. A mean that is off by δ posterior standard
//! deviations moves the mean score by δ, a variance that is off by a factor c makes the second moment −c: a sampler that ignores the
//! weights, takes rows in another order, has stopped too early or was written wrongly shows, whatever the number of parameters.
//! What does not show is a part of the density that no draw has reached.
//!
//! Where no gradient is to be had, the log-likelihood L_w alone is regressed on the draws: for a Gaussian posterior its slope is the
//! mean score and its curvature the second moment, less what the prior adds to them.

use super::measure::Z95;
use super::policy::{
    DRAWS_A_DIRECTION, EXTREME_DIRECTIONS, MEAN_PRIOR_SHARE, MEAN_WIDE, MOST_BY_CHANCE, MOST_DIRECTIONS,
    NARROW, PRIOR_SHARE, PRIOR_SHIFT, SIGNIFICANT, SIGNIFICANT_SHAPE, TOLERATED_MEAN_SCALE, TOLERATED_NATS,
    TOLERATED_SCALE, TOLERATED_SHIFT, TOLERATED_TOTAL, TOLERATED_TOTAL_NATS, TRUSTED_VARIANCE, UNCORRELATED,
    WIDE, scored_draws,
};
use super::shape::Shape;
use super::{Draws, Reason};
use crate::linalg::{Cholesky, dot, gram, leading_eigenvectors, quadratic_form, row_major, symmetric_eigen};
use crate::posterior::effective_sample_size;

/// Standard deviations below which a direction is a sum that is fixed.
const LEAST_SPREAD: f64 = 1e-7;

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
        for j in 0..dim {
            found.add(&column(&values, dim, j), &column(&scores, dim, j), chains);
        }
        // Directions from one half of the draws, looked at on the other: those that fit the noise of one half do not fit that of the other.
        if let Some(directions) = principal_directions(&values, dim, chains, 0) {
            let halves = [0, 1].map(|which| [&values, &scores].map(|of| half(of, dim, chains, which)));
            let [[first, first_scores], [second, second_scores]] = &halves;
            let (mut total, mut shapes) = (Total::default(), Shape::default());
            for direction in directions.chunks_exact(dim) {
                let (along, score) = (project(second, direction), project(second_scores, direction));
                let shape = found.add(&along, &score, chains);
                // The mean scores together do not depend on the directions, so that all draws tell them.
                total.add(&shift_of(&Mean::of(&project(&scores, direction), chains)));
                shapes.nats += shape.nats;
                shapes.variance += shape.variance;
            }
            found.misshapen |=
                shapes.nats > TOLERATED_TOTAL_NATS && shapes.nats > SIGNIFICANT * shapes.variance.sqrt();
            if total.beyond(TOLERATED_TOTAL) {
                found.shift_excess = f64::INFINITY;
                found.fidelity.shift = found.fidelity.shift.max(total.shift());
            }
            for [along, across] in suspicious(first, first_scores, &directions) {
                found.add(&project(second, &along), &project(second_scores, &across), chains);
            }
        }
        let pairs = values.chunks_exact(dim.max(1)).zip(scores.chunks_exact(dim.max(1)));
        let all: Vec<f64> = pairs.map(|(x, y)| -dot(x, y) / dim.max(1) as f64).collect();
        let on_average = Mean::of(&all, chains);
        let mut reasons = self.frozen(&moving);
        if found.shift_excess > 0.0 {
            reasons.push(Reason::Shifted);
        }
        let average = (on_average.mean - 1.0).abs() > TOLERATED_MEAN_SCALE + SIGNIFICANT * on_average.error;
        if (found.scale_excess > 0.0 || average) && !reasons.contains(&Reason::Misscaled) {
            reasons.push(Reason::Misscaled);
        }
        if found.misshapen {
            reasons.push(Reason::Misshapen);
        }
        if count < scored_draws(dim) {
            reasons.push(Reason::Blunt);
        }
        (found.fidelity, reasons)
    }

    /// What parameters that are the same at every draw forbid: the density knows them where its gradient does, so that draws of it would move;
    /// else nothing is known.
    fn frozen(&self, moving: &[(usize, f64)]) -> Vec<Reason> {
        let dim = self.draws.dim;
        let mut still = (0..dim).filter(|j| moving.iter().all(|(moves, _)| moves != j)).peekable();
        if still.peek().is_none() {
            return Vec::new();
        }
        let known = still.any(|j| self.gradient.iter().skip(j).step_by(dim).any(|slope| *slope != 0.0));
        vec![if known { Reason::Misscaled } else { Reason::OnTrust }]
    }
}

/// Directions in which these draws and scores break Stein's identities most: that of the mean score, and those in which the second moment is
/// farthest from −1. A lie about one direction is then looked for there, and not in many others at once. Each for draws and for scores,
/// which are dual.
fn suspicious(points: &[f64], scores: &[f64], directions: &[f64]) -> Vec<[Vec<f64>; 2]> {
    let width = (directions.len() as f64).sqrt().round() as usize;
    let count = (points.len() / width.max(1)) as f64;
    let spread = |x: &[f64]| (dot(x, x) / count).sqrt();
    // Without sums that are fixed.
    let each = directions.chunks_exact(width.max(1)).map(|direction| (direction, project(points, direction)));
    let (each, along): (Vec<&[f64]>, Vec<Vec<f64>>) = each.filter(|(_, x)| spread(x) > LEAST_SPREAD).unzip();
    let across: Vec<Vec<f64>> = each.iter().map(|direction| project(scores, direction)).collect();
    let sds: Vec<f64> = along.iter().map(|x| spread(x)).collect();
    let dim = each.len();
    let products = row_major(dim, |i, j| {
        let of = |i: usize, j: usize| dot(&along[i], &across[j]) * sds[j] / sds[i];
        0.5 * (of(i, j) + of(j, i)) / count + f64::from(u8::from(i == j))
    });
    let mut mean: Vec<f64> =
        across.iter().zip(&sds).map(|(y, sd)| y.iter().sum::<f64>() * sd / count).collect();
    // At unit length, as the others are: E ∇log p (θ − m)ᵀ is −1 along dual directions whose product is 1.
    let length = dot(&mean, &mean).sqrt().max(f64::MIN_POSITIVE);
    mean.iter_mut().for_each(|x| *x /= length);
    let mut wanted = vec![mean];
    if let Ok((_, vectors)) = symmetric_eigen(&products, dim) {
        let all: Vec<&[f64]> = vectors.chunks_exact(dim.max(1)).collect();
        let ends = all
            .iter()
            .take(EXTREME_DIRECTIONS)
            .chain(all.iter().skip(EXTREME_DIRECTIONS).rev().take(EXTREME_DIRECTIONS));
        wanted.extend(ends.map(|vector| vector.to_vec()));
    }
    let combined = |weights: &[f64], power: i32| {
        let mut sum = vec![0.0; width];
        for ((weight, sd), direction) in weights.iter().zip(&sds).zip(&each) {
            sum.iter_mut().zip(*direction).for_each(|(sum, x)| *sum += weight * sd.powi(power) * x);
        }
        sum
    };
    wanted.iter().map(|weights| [combined(weights, -1), combined(weights, 1)]).collect()
}

/// The worst of the directions so far.
struct Found {
    fidelity: Fidelity,
    shift_excess: f64,
    scale_excess: f64,
    misshapen: bool,
}

impl Found {
    fn new() -> Self {
        let fidelity = Fidelity { shift: 0.0, scale: (1.0, 1.0) };
        let (shift_excess, scale_excess) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        Self { fidelity, shift_excess, scale_excess, misshapen: false }
    }

    /// x, the draws along a direction, and y, the score there: E y = 0, E y(x − Ex) = −1. The shape there.
    fn add(&mut self, x: &[f64], y: &[f64], chains: usize) -> Shape {
        let score = Mean::of(y, chains);
        let centre = x.iter().sum::<f64>() / x.len() as f64;
        let products: Vec<f64> = x.iter().zip(y).map(|(x, y)| -(x - centre) * y).collect();
        let scale = Mean::of(&products, chains);
        let Mean { mean: shift, error, .. } = shift_of(&score);
        self.fidelity.shift = self.fidelity.shift.max((shift - SIGNIFICANT * error).max(0.0));
        let (low, high) = (scale.mean + SIGNIFICANT * scale.error, scale.mean - SIGNIFICANT * scale.error);
        self.fidelity.scale = (self.fidelity.scale.0.min(low), self.fidelity.scale.1.max(high));
        self.shift_excess = worse(self.shift_excess, shift - TOLERATED_SHIFT - SIGNIFICANT * error);
        self.scale_excess = worse(self.scale_excess, (1.0 - low).max(high - 1.0) - TOLERATED_SCALE);
        let inflation =
            x.len() as f64 * [&score, &scale].map(Mean::one_of_draws).into_iter().fold(0.0, f64::max);
        let shape = Shape::along(x, y, inflation.max(1.0)).unwrap_or_default();
        self.misshapen |= shape.nats > TOLERATED_NATS && shape.significance > SIGNIFICANT_SHAPE;
        shape
    }
}

/// A mean score in conditional standard deviations, which is what a divergence is made of.
fn shift_of(score: &Mean) -> Mean {
    let unit = score.deviation.max(f64::MIN_POSITIVE);
    Mean { mean: score.mean.abs() / unit, error: score.error / unit, deviation: 1.0 }
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
    let mut found = Regression::default();
    // Directions of each half, looked at on the other.
    for which in [0, 1] {
        if let Some(directions) = principal_directions(&values, dim, chains, which) {
            let (points, responses) =
                (half(&values, dim, chains, 1 - which), half(weighted, 1, chains, 1 - which));
            found.add(regress(&along(&points, &directions), &responses, chains));
        }
    }
    if found.slopes.is_empty() || are_uncorrelated(&values, dim) {
        let axes = row_major(dim, |i, j| f64::from(u8::from(i == j)));
        found.add(regress(&along(&values, &axes), weighted, chains));
    }
    let Regression { slopes, curvatures, totals } = found;
    let mut reasons = Vec::new();
    let beyond = |mean: &Mean, limit: f64| mean.mean - SIGNIFICANT * mean.error > limit;
    let below = |mean: &Mean, limit: f64| mean.mean + SIGNIFICANT * mean.error < limit;
    let size = |slope: &Mean| Mean { mean: slope.mean.abs(), ..*slope };
    let together = |limit: f64| totals.iter().any(|total| total.beyond(limit));
    if slopes.iter().any(|slope| beyond(&size(slope), PRIOR_SHIFT)) || together(PRIOR_SHIFT) {
        reasons.push(Reason::Shifted);
    }
    let count = curvatures.len() as f64;
    let average = Mean {
        mean: curvatures.iter().map(|c| c.mean).sum::<f64>() / count,
        error: curvatures.iter().map(|c| c.error.powi(2)).sum::<f64>().sqrt() / count,
        deviation: 0.0,
    };
    if curvatures.iter().any(|curvature| beyond(curvature, WIDE)) || beyond(&average, MEAN_WIDE) {
        reasons.push(Reason::Wide);
    }
    let squares = curvatures.iter().map(|c| c.mean.max(0.0).powi(2)).sum::<f64>() / count;
    if squares < NARROW {
        reasons.push(Reason::Narrow);
    } else if below(&average, 1.0 - MEAN_PRIOR_SHARE)
        || curvatures.iter().any(|curvature| below(curvature, 1.0 - PRIOR_SHARE))
        || together(TOLERATED_TOTAL)
    {
        reasons.push(Reason::PriorDominates);
    }
    if dim < draws.dim {
        // Parameters that are the same at every draw: stuck, or constants; the likelihood does not tell.
        reasons.push(Reason::OnTrust);
    }
    let unlike = unlike_a_gaussian(&values, dim, weighted, chains);
    if reasons.is_empty() && (unlike.is_nan() || unlike >= TRUSTED_VARIANCE) {
        reasons.push(Reason::OnTrust);
    }
    reasons
}

/// Var(L_w − log N(θ; m, S)) over the draws, in nats², with m and S their own mean and covariance: to leading order the symmetrised KL
/// between what the draws are, as far as two moments tell, and what the likelihood alone says that they should be. Its upper 95 % bound, as
/// that of V; what the moments of so many draws add to it is taken off where it is known well enough.
fn unlike_a_gaussian(values: &[f64], dim: usize, weighted: &[f64], chains: usize) -> f64 {
    let count = (values.len() / dim.max(1)) as f64;
    let covariance: Vec<f64> = gram(values, count as usize, dim).iter().map(|x| x / count).collect();
    let Ok(cholesky) = Cholesky::new(&covariance, dim) else { return f64::INFINITY };
    let inverse = cholesky.inverse();
    let differences: Vec<f64> = values
        .chunks_exact(dim.max(1))
        .zip(weighted)
        .map(|(row, value)| value + 0.5 * quadratic_form(&inverse, row))
        .collect();
    let mean = differences.iter().sum::<f64>() / count;
    let squares: Vec<f64> = differences.iter().map(|x| (x - mean).powi(2)).collect();
    let variance = Mean::of(&squares, chains);
    let effective = effective_sample_size(&split(weighted, chains)).min(count).max(1.0);
    let by_chance = (dim + dim * (dim + 1) / 2) as f64 / effective;
    let known = if by_chance < MOST_BY_CHANCE { by_chance } else { 0.0 };
    variance.mean - known + Z95 * variance.error
}

/// Draws along each of these directions, standardised.
fn along(points: &[f64], directions: &[f64]) -> Vec<Vec<f64>> {
    let dim = (directions.len() as f64).sqrt().round() as usize;
    let projected = directions.chunks_exact(dim.max(1)).map(|direction| project(points, direction));
    projected.filter_map(|series| standardised(&series)).collect()
}

/// Whether the parameters themselves are nearly principal directions.
fn are_uncorrelated(values: &[f64], dim: usize) -> bool {
    let count = (values.len() / dim.max(1)) as f64;
    let products = gram(values, count as usize, dim);
    (0..dim).all(|i| (0..i).all(|j| (products[i * dim + j] / count).abs() < UNCORRELATED))
}

/// f ≈ a + Σ βⱼuⱼ − ½ Σ cⱼuⱼ²: βⱼ and cⱼ with their standard errors, of several sets of directions.
#[derive(Default)]
struct Regression {
    slopes: Vec<Mean>,
    curvatures: Vec<Mean>,
    /// The slopes of each set together.
    totals: Vec<Total>,
}

impl Regression {
    fn add(&mut self, (slopes, curvatures): Fitted) {
        let mut total = Total::default();
        slopes.iter().for_each(|slope| total.add(slope));
        self.totals.push(total);
        self.slopes.extend(slopes);
        self.curvatures.extend(curvatures);
    }
}

/// Slopes and curvatures.
type Fitted = (Vec<Mean>, Vec<Mean>);

/// Slopes and curvatures by least squares over all directions at once where there are draws enough, else one direction at a time. Their
/// errors are those of the regression, and those of the mean and the variance of the draws themselves.
fn regress(along: &[Vec<f64>], responses: &[f64], chains: usize) -> Fitted {
    let effective = |series: &[f64]| {
        let found = effective_sample_size(&split(series, chains)).min(series.len() as f64);
        if found.is_nan() { 1.0 } else { found.max(1.0) }
    };
    let count = responses.len() as f64;
    let mean = responses.iter().sum::<f64>() / count;
    let centred: Vec<f64> = responses.iter().map(|f| f - mean).collect();
    let inflation = count / effective(&centred);
    let (slopes, curvatures) =
        together(along, &centred, inflation).unwrap_or_else(|| apart(along, &centred, chains));
    let squares = |u: &[f64]| -> Vec<f64> { u.iter().map(|x| x * x).collect() };
    let with = |of: Mean, more: f64| Mean { error: of.error.hypot(more), ..of };
    let slopes = slopes.into_iter().zip(along).map(|(slope, u)| with(slope, effective(u).sqrt().recip()));
    let curvatures = curvatures.into_iter().zip(along).map(|(curvature, u)| {
        let spread = curvature.mean.abs() * (2.0 / effective(&squares(u))).sqrt();
        with(curvature, spread)
    });
    (slopes.collect(), curvatures.collect())
}

/// By least squares; none if there are fewer than three draws a coefficient.
fn together(along: &[Vec<f64>], centred: &[f64], inflation: f64) -> Option<Fitted> {
    let (count, dim) = (centred.len(), along.len());
    let width = 2 * dim;
    if width + 1 > count / 3 {
        return None;
    }
    let square = |x: f64| 0.5 * (x * x - 1.0);
    let row = |s: usize| along.iter().map(move |u| u[s]).chain(along.iter().map(move |u| square(u[s])));
    let design: Vec<f64> = (0..count).flat_map(row).collect();
    let mut solution = vec![0.0; width];
    for (row, f) in design.chunks_exact(width).zip(centred) {
        solution.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * f);
    }
    let cholesky = Cholesky::new(&gram(&design, count, width), width).ok()?;
    let right = solution.clone();
    cholesky.solve(&mut solution);
    let residual = (dot(centred, centred) - dot(&right, &solution)).max(0.0) / (count - width) as f64;
    let inverse = cholesky.inverse();
    let of = |j: usize, sign: f64| {
        // Draws that are correlated are worth fewer.
        let error = (residual * inverse[j * width + j] * inflation).sqrt();
        Mean { mean: sign * solution[j], error, deviation: 0.0 }
    };
    Some(((0..dim).map(|j| of(j, 1.0)).collect(), (dim..width).map(|j| of(j, -1.0)).collect()))
}

/// By covariances, one direction at a time.
fn apart(along: &[Vec<f64>], centred: &[f64], chains: usize) -> Fitted {
    let covariance = |of: &dyn Fn(f64) -> f64, u: &[f64], sign: f64| {
        let products: Vec<f64> = u.iter().zip(centred).map(|(x, f)| sign * of(*x) * f).collect();
        Mean::of(&products, chains)
    };
    (
        along.iter().map(|u| covariance(&|x| x, u, 1.0)).collect(),
        along.iter().map(|u| covariance(&|x| x * x - 1.0, u, -1.0)).collect(),
    )
}

/// A mean over draws, with its standard error by the effective sample size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) error: f64,
    deviation: f64,
}

impl Mean {
    pub(super) fn of(series: &[f64], chains: usize) -> Self {
        let count = series.len() as f64;
        let mean = series.iter().sum::<f64>() / count;
        let deviation = (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        let effective = effective_sample_size(&split(series, chains)).min(count);
        Self { mean, error: deviation / effective.max(1.0).sqrt(), deviation }
    }

    /// The inverse of the effective sample size.
    fn one_of_draws(&self) -> f64 {
        (self.error / self.deviation.max(f64::MIN_POSITIVE)).powi(2)
    }
}

fn split(series: &[f64], chains: usize) -> Vec<Vec<f64>> {
    series.chunks_exact((series.len() / chains).max(1)).map(<[f64]>::to_vec).collect()
}

/// Draws less their mean, in units of their standard deviation, of the parameters that are not the same at every draw.
pub(super) struct Standardised {
    /// S × moving parameters, row-major.
    pub(super) values: Vec<f64>,
    /// These parameters, and their standard deviations.
    pub(super) moving: Vec<(usize, f64)>,
}

impl Standardised {
    pub(super) fn new(draws: &Draws) -> Self {
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

/// With mean 0 and variance 1; none if it hardly varies, as along a sum that is fixed.
fn standardised(series: &[f64]) -> Option<Vec<f64>> {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let scale = (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    (scale > LEAST_SPREAD).then(|| series.iter().map(|x| (x - mean) / scale).collect())
}

/// The eigenvectors of the covariance of one half of these standardised draws; none if there are too few draws, or nothing to add.
pub(super) fn principal_directions(
    values: &[f64],
    dim: usize,
    chains: usize,
    which: usize,
) -> Option<Vec<f64>> {
    let points = half(values, dim, chains, which);
    let count = points.len() / dim.max(1);
    if !(2..=MOST_DIRECTIONS).contains(&dim) || count < DRAWS_A_DIRECTION * dim {
        return None;
    }
    let covariance: Vec<f64> = gram(&points, count, dim).iter().map(|x| x / count as f64).collect();
    leading_eigenvectors(&covariance, dim, dim).ok()
}

/// The first or the last half of the draws of each chain. Whole stretches, since neighbouring draws of a chain are alike: with every
/// second draw in either half, directions that fit the noise of one would fit that of the other.
pub(super) fn half(values: &[f64], dim: usize, chains: usize, which: usize) -> Vec<f64> {
    let length = values.len() / dim.max(1) / chains.max(1);
    let kept = length / 2 * dim;
    values
        .chunks_exact((length * dim).max(1))
        .flat_map(|chain| if which == 0 { &chain[..kept] } else { &chain[chain.len() - kept..] })
        .copied()
        .collect()
}

/// Number `j` of every line.
pub(super) fn column(values: &[f64], dim: usize, j: usize) -> Vec<f64> {
    values.iter().skip(j).step_by(dim.max(1)).copied().collect()
}

pub(super) fn project(values: &[f64], direction: &[f64]) -> Vec<f64> {
    values.chunks_exact(direction.len().max(1)).map(|row| dot(row, direction)).collect()
}
