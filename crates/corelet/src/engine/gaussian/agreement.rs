//! Whether the effects of a model are what its likelihood sees: compared with the log-likelihoods of its rows.

use super::super::{Rows, Sample, Target, TargetError};
use super::derivatives::Argument;
use super::modes::sample_of_size;
use crate::trust::policy::{COMPARED_DRAWS, COMPARED_ROWS, TOLERATED_DISAGREEMENT, TOLERATED_ROUNDING};

/// Refuses effects from which the log-likelihood of some rows does not follow: V would be that of another model. The model's own
/// log-likelihoods know nothing of effects.
///
/// # Errors
/// Errors of the model, and what differs.
pub(super) fn check<T: Target + ?Sized>(
    target: &T,
    argument: Argument<'_>,
    sample: &Sample,
    seed: u64,
) -> Result<(), TargetError> {
    let Some(model) = target.derivatives().filter(|_| argument.is_derived()) else { return Ok(()) };
    let n = target.rows();
    let rows = sample_of_size(n, COMPARED_ROWS, seed).unwrap_or_else(|| (0..n).collect());
    let factor = n as f64 / rows.len().max(1) as f64;
    let some = sample.thinned(COMPARED_DRAWS);
    let points = model.unconstrained(&some)?;
    let by_effects = argument.log_likelihood(&argument.at(&points)?, Some(&rows))?.values;
    let by_rows = sums(target, &some, rows)?;
    let pairs: Vec<(f64, f64)> = by_effects.into_iter().zip(by_rows).collect();
    let Some(&(first, own)) = pairs.iter().find(|(a, b)| a.is_finite() && b.is_finite()) else {
        return Err("the log-likelihood of some rows is not finite at draws of the posterior".into());
    };
    for (a, b) in pairs {
        let missed = if a == b { 0.0 } else { factor * ((a - first) - (b - own)).abs() };
        if missed.is_nan() || missed > TOLERATED_DISAGREEMENT.max(TOLERATED_ROUNDING * factor * b.abs()) {
            return Err(format!(
                "what the rows were found to see of the parameters, {} numbers, gives another log-likelihood than the model does, by {missed:.3} nats",
                argument.dimension()
            )
            .into());
        }
    }
    Ok(())
}

/// Σℓᵢ of these rows at each draw.
fn sums<T: Target + ?Sized>(target: &T, sample: &Sample, rows: Vec<usize>) -> Result<Vec<f64>, TargetError> {
    let (place, count) = (target.place(sample)?, rows.len());
    let mut sums = Vec::new();
    target.log_likelihoods(&place, &Rows::Some(rows), &mut |values| {
        sums = values.chunks_exact(count.max(1)).map(|line| line.iter().sum()).collect();
    })?;
    Ok(sums)
}
