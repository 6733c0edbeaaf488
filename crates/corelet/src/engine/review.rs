//! A review of a model known by its log-likelihoods: one pass over all rows, a block at a time.

use super::{Rows, Sample, Target, TargetError, block_size};
use crate::parallel;
use crate::review::{Asked, Review, Reviewer, Row};

/// What the rows of `target` say of draws of its posterior. `clusters`: the group of each row, and how many groups there are.
///
/// # Errors
/// Errors of the target, and a log-likelihood that is not finite.
pub fn review<T: Target + ?Sized>(
    target: &T,
    sample: &Sample,
    asked: &Asked,
    clusters: Option<(&[usize], usize)>,
    pointwise: bool,
) -> Result<Review, TargetError> {
    let draws = sample.len();
    let place = target.place(sample)?;
    let mut reviewer = Reviewer::new(asked, pointwise, clusters.map(|(_, count)| count));
    for block in parallel::parts(target.rows(), block_size(draws)) {
        target.poll()?;
        let mut found: Vec<Result<Row, (usize, f64)>> = Vec::new();
        target.log_likelihoods(&place, &Rows::Range(block.clone()), &mut |values| {
            let width = block.len();
            // A row is a column of draws × rows.
            let of_row = |at: usize| -> Result<Row, (usize, f64)> {
                let column: Vec<f64> = values.iter().skip(at).step_by(width).copied().collect();
                asked.row(&column)
            };
            found = parallel::map(0..width, of_row);
        })?;
        for (at, row) in found.into_iter().enumerate() {
            let number = block.start + at;
            let row = row.map_err(|(draw, value)| {
                format!("the log-likelihood of row {number} at draw {draw} is not finite ({value})")
            })?;
            reviewer.add(&row, clusters.map(|(codes, _)| codes[number]));
        }
    }
    Ok(reviewer.finish())
}
