//! Where the posterior is: climbs from points far apart, on a sample of the rows, then on all; and whether there is a second mode.

use rand::seq::index;

use super::super::TargetError;
use super::climb::{Summit, climb};
use super::derivatives::{Derivatives, Slopes};
use crate::random::Stream;
use crate::trust::policy::MODE_DIP;

/// Points from which climbs begin, as many as a pilot has chains.
pub(super) const STARTS: usize = 4;
/// Rows of the sample on which they climb first: enough to tell modes apart that all rows would.
pub(super) const SAMPLE: usize = 20_000;
/// Steps of one climb, and what a last step may rise by, in nats: what is beyond is found by Newton steps.
const STEPS: usize = 150;
const RISE: f64 = 1e-3;
/// Points on the way.
const WAY: usize = 7;

/// Rows for the first climbs, which stand for all; none if all are few enough.
pub(super) fn sample_of(rows: usize, seed: u64) -> Option<Vec<usize>> {
    sample_of_size(rows, SAMPLE, seed)
}

/// So many rows, ascending; none if there are no more.
pub(in super::super) fn sample_of_size(rows: usize, size: usize, seed: u64) -> Option<Vec<usize>> {
    (rows > size).then(|| {
        let mut chosen = index::sample(&mut Stream::Subsample.rng(seed, 0), rows, size).into_vec();
        chosen.sort_unstable();
        chosen
    })
}

/// Tops of the posterior density of all rows, the highest first; none if it is finite at none of the points.
///
/// # Errors
/// Errors of the model.
pub(super) fn summits(
    model: &dyn Derivatives,
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<Vec<Summit>, TargetError> {
    let starts = mirrored(model.starts(STARTS)?, model.dimension());
    let mut found: Vec<Summit> = Vec::new();
    for start in starts.chunks_exact(model.dimension().max(1)) {
        found.extend(climb(start, STEPS, RISE, |at| density(model, at, rows, sample))?);
    }
    for start in other_sides(&mut found) {
        found.extend(climb(&start, STEPS, RISE, |at| density(model, at, rows, sample))?);
    }
    let mut found = apart(model, found, rows, sample)?;
    if sample.is_some() {
        let mut tops = Vec::new();
        for Summit { point, .. } in found {
            tops.extend(climb(&point, STEPS, RISE, |at| density(model, at, rows, None))?);
        }
        found = apart(model, tops, rows, None)?;
    }
    Ok(found)
}

/// The top of the likelihood times N(u₀, I), u₀ the first point to begin from: where the posterior density has no top. Under a centred
/// hierarchical prior it rises without end as the spread vanishes, and coordinates in which it is white there fit no place that chains go to.
///
/// # Errors
/// Errors of the model.
pub(super) fn sheltered(
    model: &dyn Derivatives,
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<Option<Summit>, TargetError> {
    let start = model.starts(1)?;
    let held = |at: &[f64]| -> Result<(f64, Vec<f64>), TargetError> {
        let (mut value, mut gradient) = likelihood(model, at, rows, sample)?;
        for ((slope, x), begun) in gradient.iter_mut().zip(at).zip(&start) {
            value -= 0.5 * (x - begun).powi(2);
            *slope -= x - begun;
        }
        Ok((value, gradient))
    };
    climb(&start, STEPS, RISE, held)
}

/// These points and, about the first of them, the mirror image of each other one: two modes that mirror each other, by a sign that is not
/// determined or two components that can change places, are then both found, on whichever side the points are.
fn mirrored(mut starts: Vec<f64>, dim: usize) -> Vec<f64> {
    let given = starts.len();
    for at in dim..given {
        starts.push(2.0 * starts[at % dim.max(1)] - starts[at]);
    }
    starts
}

/// The mirror image of the highest end about each lower one. A climb may end at a saddle, where two components of a mixture are alike, say:
/// the highest end is on one side of it, and on the other is a mode that may be as high.
fn other_sides(found: &mut [Summit]) -> Vec<Vec<f64>> {
    found.sort_by(|a, b| b.value.total_cmp(&a.value));
    let Some((best, lower)) = found.split_first() else { return Vec::new() };
    let mut last = best.value;
    let mut starts = Vec::new();
    for end in lower {
        // Ends that are as high as another are the same saddle, or the best mode itself.
        if end.value < last - MODE_DIP && starts.len() < STARTS {
            starts.push(end.point.iter().zip(&best.point).map(|(saddle, top)| 2.0 * saddle - top).collect());
            last = end.value;
        }
    }
    starts
}

/// Those between which the density falls, the highest first.
fn apart(
    model: &dyn Derivatives,
    mut found: Vec<Summit>,
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<Vec<Summit>, TargetError> {
    found.sort_by(|a, b| b.value.total_cmp(&a.value));
    let mut kept: Vec<Summit> = Vec::new();
    for top in found {
        let mut alone = true;
        for other in &kept {
            alone = alone && falls(model, &top, other, rows, sample)?;
        }
        if alone {
            kept.push(top);
        }
    }
    Ok(kept)
}

/// Whether the density falls on the way from one top to another.
fn falls(
    model: &dyn Derivatives,
    a: &Summit,
    b: &Summit,
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<bool, TargetError> {
    let lower = a.value.min(b.value) - MODE_DIP;
    for step in 1..=WAY {
        let share = step as f64 / (WAY + 1) as f64;
        let between: Vec<f64> = a.point.iter().zip(&b.point).map(|(x, y)| x + share * (y - x)).collect();
        let (value, _) = density(model, &between, rows, sample)?;
        // Not a number is a fall as well.
        if value.is_nan() || value < lower {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The log posterior of all rows, or of a sample that stands for all, and its gradient.
fn density(
    model: &dyn Derivatives,
    at: &[f64],
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<(f64, Vec<f64>), TargetError> {
    let (value, mut gradient) = likelihood(model, at, rows, sample)?;
    let prior = model.log_prior(at)?;
    gradient.iter_mut().zip(&prior.gradients).for_each(|(x, prior)| *x += prior);
    Ok((value + prior.values[0], gradient))
}

/// The log-likelihood alone, and its gradient.
fn likelihood(
    model: &dyn Derivatives,
    at: &[f64],
    rows: usize,
    sample: Option<&[usize]>,
) -> Result<(f64, Vec<f64>), TargetError> {
    let Slopes { values, mut gradients } = model.log_likelihood(at, sample)?;
    let factor = sample.map_or(1.0, |sample| rows as f64 / sample.len().max(1) as f64);
    gradients.iter_mut().for_each(|x| *x *= factor);
    Ok((factor * values[0], gradients))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two climbs ended at the saddle at (0, 1) and one at the mode at (2, 1): the other mode, at (−2, 1), is where the next one begins.
    #[test]
    fn what_is_beyond_a_saddle_is_climbed_too() {
        let end = |x: f64, value: f64| Summit { point: vec![x, 1.0], value, converged: true };
        let mut found = vec![end(0.0, -50.0), end(2.0, -10.0), end(1e-3, -50.0), end(2.0, -10.01)];
        assert_eq!(other_sides(&mut found), vec![vec![-2.0, 1.0]]);
        assert_eq!(mirrored(vec![0.5, 0.0, 1.0, 2.0], 2), vec![0.5, 0.0, 1.0, 2.0, 0.0, -2.0]);
    }
}
