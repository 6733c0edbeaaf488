//! V of several coresets, each by draws of its own posterior, from one pass over all rows or none.

use super::measure::{Measured, measure};
use super::{Draws, VerdictError};
use crate::embed::Sketch;
use crate::model::Shifts;
use crate::rows::{Rows, Totals, Weighted};

/// V of each of these coresets by its draws; infinite if it is no number. From a sketch of the rows, as long as its sample adds
/// little to each V, else by one pass.
///
/// # Errors
/// See [`VerdictError`].
pub(crate) fn variances(
    sketch: Option<&Sketch>,
    rows: &dyn Rows,
    coresets: &[(&Weighted, &Draws)],
) -> Result<Vec<f64>, VerdictError> {
    coresets.iter().try_for_each(|(_, draws)| draws.check(rows.dim()))?;
    if let Some(sketch) = sketch {
        let sketched = coresets.iter().map(|(coreset, draws)| sketched_variance(sketch, coreset, draws));
        if let Some(variances) = sketched.collect::<Result<Option<Vec<f64>>, _>>()? {
            return Ok(variances);
        }
    }
    let Some((_, first)) = coresets.first() else { return Ok(Vec::new()) };
    let anchor = first.mean();
    let theta = coresets.iter().flat_map(|(_, draws)| &draws.theta);
    let shifts = theta.zip(anchor.iter().cycle()).map(|(x, a)| x - a).collect();
    let shifts = Shifts::new(shifts, rows.dim());
    // As many digits as one coreset alone would be judged by.
    let wide = Totals::new(&anchor, &first.shifts(&anchor), rows.len()).wide;
    let totals = rows.totals(&Totals { anchor: &anchor, shifts: &shifts, wide })?;
    let mut rest = &totals[..];
    let variance = |(coreset, draws): &(&Weighted, &Draws)| {
        let (own, others) = rest.split_at(draws.len());
        rest = others;
        let chosen = coreset.differences(&anchor, &draws.shifts(&anchor));
        let errors = own.iter().zip(chosen).map(|(total, chosen)| total - chosen).collect();
        // A variance does not change with Δ at the anchor, which would be another pass.
        plain_variance(&measure(draws, errors, 0.0))
    };
    Ok(coresets.iter().map(variance).collect())
}

/// V from a sketch of the rows; none if its sample is too small for it.
fn sketched_variance(
    sketch: &Sketch,
    coreset: &Weighted,
    draws: &Draws,
) -> Result<Option<f64>, VerdictError> {
    let anchor = draws.mean();
    let shifts = draws.shifts(&anchor);
    let at_draws = sketch.at(&anchor, &shifts)?;
    let chosen = coreset.differences(&anchor, &shifts);
    let errors = at_draws.totals.iter().zip(chosen).map(|(total, chosen)| total - chosen).collect();
    let measured = measure(draws, errors, 0.0);
    let variance = plain_variance(&measured);
    Ok(at_draws.error(&measured.errors).is_small(variance).then_some(variance))
}

/// V; where the draws do not represent π_w their weights mean nothing, and V is that of the draws as they are.
fn plain_variance(measured: &Measured) -> f64 {
    let variance = if measured.represented {
        measured.divergence.variance
    } else {
        let count = measured.errors.len() as f64;
        let mean = measured.errors.iter().sum::<f64>() / count;
        measured.errors.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count
    };
    if variance.is_nan() { f64::INFINITY } else { variance }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::generate;
    use crate::model::Logistic;
    use crate::posterior::Prior;
    use crate::rows::{Counted, Memory};
    use crate::trust::verdict;

    /// Two coresets judged at once have the V that each has alone, from one pass and not four.
    #[test]
    fn several_coresets_share_a_pass() {
        let model = Logistic::model(generate::logistic_paper(3000, 4)).unwrap();
        let rows = Counted::new(Box::new(Memory::new(Arc::new(model))));
        let prior = Prior::isotropic(3, 1.0).unwrap();
        let of = |step: usize| {
            let ids: Vec<usize> = (0..3000).step_by(step).collect();
            let points = Weighted::fetch(&rows, &ids, &vec![step as f64; ids.len()]).unwrap();
            let fit = points.fit(&prior).unwrap().posterior;
            let draws = Draws::from_gaussian(&points, &prior, &fit, 300, 1).unwrap();
            (points, draws)
        };
        let (dense, sparse) = (of(10), of(30));
        let together = variances(None, &rows, &[(&dense.0, &dense.1), (&sparse.0, &sparse.1)]).unwrap();
        assert_eq!(rows.looks().passes(), 1);
        for (coreset, variance) in [dense, sparse].iter().zip(&together) {
            let alone = verdict(&rows, &prior, &coreset.0, &coreset.1, 0).unwrap().divergence.variance;
            assert!((variance - alone).abs() < 1e-5 * alone, "{variance} {alone}");
        }
        assert!(together[1] > 1.5 * together[0], "{together:?}");
    }
}
