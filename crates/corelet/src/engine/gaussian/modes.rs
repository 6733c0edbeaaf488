//! Where to begin: climbs from points far apart, on a sample of the rows, then on all; and whether there is a second place to be.

use rand::seq::index;

use super::super::TargetError;
use super::climb::{Summit, climb};
use super::derivatives::{Derivatives, Slopes};
use crate::linalg::quadratic_form;
use crate::random::Stream;
use crate::rows::Rest;

/// Points from which climbs begin, as many as a pilot has chains.
const STARTS: usize = 4;
/// Rows of the sample on which they climb first: enough to tell modes apart that all rows would.
pub(super) const SAMPLE: usize = 20_000;
/// Steps of one climb, and what a last step may rise by, in nats: what is beyond is found by Newton steps.
const STEPS: usize = 150;
const RISE: f64 = 1e-2;
/// A summit whose density is within so many nats of the highest may hold a share of the posterior that matters: the widths of modes
/// differ, too.
const RIVAL: f64 = 10.0;

/// The top of the posterior density of all rows, and others that may matter.
pub(super) struct Summits {
    pub(super) best: Vec<f64>,
    /// Points, and the log-likelihood of all rows and the log density there.
    pub(super) others: Vec<(Vec<f64>, f64)>,
    pub(super) value: f64,
}

/// Rows for the first climbs, with the factor that makes them stand for all; none where all are few enough.
pub(super) fn sample_of(rows: usize, seed: u64) -> Option<Vec<usize>> {
    (rows > SAMPLE).then(|| {
        let mut chosen = index::sample(&mut Stream::Subsample.rng(seed, 0), rows, SAMPLE).into_vec();
        chosen.sort_unstable();
        chosen
    })
}

/// Climbs.
///
/// # Errors
/// Those of the model, and a density that is finite at none of the points.
pub(super) fn summits(
    model: &dyn Derivatives,
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<Summits, TargetError> {
    let dim = model.dimension();
    let starts = model.starts(STARTS)?;
    let mut found: Vec<Summit> = Vec::new();
    for start in starts.chunks_exact(dim.max(1)) {
        found.extend(climb(start, STEPS, RISE, |at| density(model, at, rows, sample))?);
    }
    found.sort_by(|a, b| b.value.total_cmp(&a.value));
    let Some(best) = found.first().cloned() else {
        return Err("the log posterior is not finite at any of the points from which the search for its mode begins; give \
                    variables initial values, or scale the data"
            .into());
    };
    let on_all = |from: &[f64]| climb(from, STEPS, RISE, |at| density(model, at, rows, None));
    let best = on_all(&best.point)?.unwrap_or(best);
    let apart = |other: &&Summit| other.value > found[0].value - RIVAL && far(&other.point, &best.point);
    let mut others = Vec::new();
    for other in found.iter().skip(1).filter(apart) {
        others.extend(on_all(&other.point)?.map(|top| (top.point, top.value)));
    }
    Ok(Summits { best: best.point, others, value: best.value })
}

/// The log posterior of all rows, or of a sample that stands for all, and its gradient.
fn density(
    model: &dyn Derivatives,
    at: &[f64],
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<(f64, Vec<f64>), TargetError> {
    let Slopes { values, mut gradients } = model.log_likelihood(at, sample)?;
    let factor = sample.map_or(1.0, |sample| rows as f64 / sample.len().max(1) as f64);
    let prior = model.log_prior(at)?;
    gradients.iter_mut().zip(&prior.gradients).for_each(|(x, prior)| *x = factor * *x + prior);
    Ok((factor * values[0] + prior.values[0], gradients))
}

/// Whether two points differ by more than a climb leaves open.
fn far(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).any(|(a, b)| (a - b).abs() > 0.1)
}

/// Whether another summit is a mode of its own that the Gaussian about this one does not have: its density is near the highest, its
/// likelihood too, and the Gaussian says that it is far away.
pub(super) fn is_rival(
    model: &dyn Derivatives,
    rest: &Rest,
    summits: &Summits,
    (other, value): &(Vec<f64>, f64),
) -> Result<bool, TargetError> {
    let at = [&summits.best[..], other].concat();
    let likelihood = model.log_likelihood(&at, None)?.values;
    let shift: Vec<f64> = other.iter().zip(&rest.centre).map(|(x, c)| x - c).collect();
    let predicted = -0.5 * quadratic_form(&rest.curvature, &shift);
    let slack = RIVAL + 0.5 * model.dimension() as f64;
    let near = *value > summits.value - RIVAL && likelihood[1] > likelihood[0] - slack;
    Ok(near && predicted > 4.0 * slack)
}
