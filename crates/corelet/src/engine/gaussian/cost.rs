//! What the rounds of a Gaussian in place of all rows will take, from one timed gradient of all rows and one of the prior.

use super::super::forecast::{GRADIENT_COSTS, Rate, choosing, computing, full_fit};
use super::super::plan::{FIRST_PAIRS, PAIRS};
use super::super::{Plan, TargetError, Units};
use super::beside::pairs;
use super::derivatives::{Derivatives, Length};
use super::expand::HESSIAN_GRADIENTS;
use super::modes::{SAMPLE, STARTS};
use crate::words::Forecast;

/// Gradients that a step of a chain takes in coordinates in which the posterior is white: a tree of depth 3.
const WHITE_LEAPS: f64 = 7.0;

/// Gradients of one climb, as many steps as most take.
const CLIMB: f64 = 60.0;
/// Rounds that are to be expected.
const ROUNDS: f64 = 2.0;
/// Seconds of a product of two numbers in a matrix that is not empty, where matrices do not fit in a cache.
const PRODUCT: f64 = 1e-9;

/// Seconds of the rounds of a plan, with `plan.k` rows beside the Gaussian, and of the tool's sampler on all rows.
///
/// # Errors
/// Errors of the model.
pub(super) fn forecast(
    model: &dyn Derivatives,
    units: &Units,
    plan: &Plan,
) -> Result<Option<Forecast>, TargetError> {
    let (dim, k, rows) = (model.dimension(), plan.k, units.rows());
    let at = model.starts(1)?;
    if at.len() != dim {
        return Ok(None);
    }
    let gradient = Rate::of(&at, |at| model.log_likelihood(at, None).map(drop))?;
    let prior = Rate::of(&at, |at| model.log_prior(at).map(drop))?;
    let some: Vec<usize> = (0..(k * rows / units.len().max(1)).min(rows)).collect();
    let own = if k == 0 {
        0.0
    } else {
        computing(|| model.weighted(&at, &some, &vec![1.0; some.len()]).map(drop))?
    };
    let Length { chains, warmup, draws, .. } = model.length();
    let steps = (chains * (warmup + draws)) as f64;
    let wide = dim as f64;
    let chained = steps * WHITE_LEAPS * (prior.alone + own + PRODUCT * wide * wide);
    let look = (2 * PAIRS + HESSIAN_GRADIENTS) as f64 * gradient.each;
    let rows_beside = if k == 0 {
        0.0
    } else {
        let (pairs, pool) = (pairs(k, dim), plan.pool_at(k).min(units.len()));
        let hat = PRODUCT * (pairs * pairs) as f64 * (pool + dim) as f64;
        2.0 * pairs as f64 * gradient.each / GRADIENT_COSTS + hat + choosing(k, pool, pairs)
    };
    let round = look + rows_beside + chained;
    let share = (SAMPLE as f64 / rows.max(1) as f64).min(1.0);
    let climbs = if k > 0 { 0.0 } else { CLIMB * (1.0 + share * (2 * STARTS - 1) as f64) };
    let first = 2.0 * share * wide + (2 * FIRST_PAIRS + HESSIAN_GRADIENTS) as f64;
    Ok(Some(Forecast {
        parameters: dim,
        units: units.len(),
        groups: units.are_groups(),
        k,
        max_k: plan.max_k,
        round,
        call: climbs * gradient.alone + first * gradient.each + ROUNDS * round,
        full: Some(full_fit(steps, gradient, prior)),
    }))
}
