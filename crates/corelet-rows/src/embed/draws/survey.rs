//! The one pass in f64 over all draws of all data: norms and sum.

use crate::model::{BLOCK, Differences};
use crate::parallel;
use crate::rows::{Held, Observations, RowsError, add};

/// Rows whose partial sum is one task.
const PART: usize = 512;
/// Rows computed at once.
const STEP: usize = 8;

/// What is kept of Φ.
#[derive(Debug)]
pub(super) struct Survey {
    /// 1/‖φᵢ‖, 0 where φᵢ = 0.
    pub(super) inverse_norms: Held<f64>,
    /// Σ‖φᵢ‖.
    pub(super) norms: f64,
    /// Σφᵢ.
    pub(super) sum: Vec<f64>,
}

/// Norms and sum of φᵢ = (dᵢₛ − d̄ᵢ)_s/√S over these rows, the first of which is row `first`, in f64; blocks are combined in
/// their order.
pub(super) fn survey(
    differences: &dyn Differences,
    rows: &Observations,
    count: usize,
    first: usize,
) -> Result<Survey, RowsError> {
    let n = rows.len();
    let mut inverse_norms = rows.features.beside(n)?;
    let (mut all_norms, mut all_sum) = (0.0, vec![0.0; count]);
    for start in (0..n).step_by(BLOCK) {
        let in_block = parallel::parts(BLOCK.min(n - start), PART);
        let parts = parallel::map(in_block, |part| {
            survey_part(differences, start + part.start, start + part.end, count)
        });
        let (mut block_sum, mut block_norms) = (vec![0.0; count], 0.0);
        for part in parts {
            let (norms, sum) = part.map_err(|error| error.moved_by(first))?;
            add(&mut block_sum, &sum);
            block_norms += norms.iter().sum::<f64>();
            let inverse = |norm: f64| if norm > 0.0 { 1.0 / norm } else { 0.0 };
            inverse_norms.push(&norms.into_iter().map(inverse).collect::<Vec<f64>>())?;
        }
        add(&mut all_sum, &block_sum);
        all_norms += block_norms;
    }
    Ok(Survey { inverse_norms: inverse_norms.finish()?, norms: all_norms, sum: all_sum })
}

/// The norms of the columns from `start` to `end`, and their sum.
fn survey_part(
    differences: &dyn Differences,
    start: usize,
    end: usize,
    count: usize,
) -> Result<(Vec<f64>, Vec<f64>), RowsError> {
    let (mut norms, mut sum) = (Vec::with_capacity(end - start), vec![0.0; count]);
    let mut rows = vec![0.0; STEP * count];
    let ids: Vec<usize> = (start..end).collect();
    for ids in ids.chunks(STEP) {
        let rows = &mut rows[..ids.len() * count];
        differences.wide(ids, rows);
        for (&row, column) in ids.iter().zip(rows.chunks_exact_mut(count)) {
            if let Some(draw) = column.iter().position(|x| !x.is_finite()) {
                return Err(RowsError::NotFinite { row, draw, value: column[draw] });
            }
            centre(column);
            norms.push(norm(column));
            sum.iter_mut().zip(&*column).for_each(|(sum, x)| *sum += x);
        }
    }
    Ok((norms, sum))
}

/// Subtracts the mean and divides by √S.
pub(in crate::embed) fn centre(column: &mut [f64]) {
    let count = column.len() as f64;
    let (mean, scale) = (total(column, |x| x) / count, count.sqrt().recip());
    column.iter_mut().for_each(|x| *x = (*x - mean) * scale);
}

/// ‖column‖, also where its square is too small for f64.
pub(in crate::embed) fn norm(column: &[f64]) -> f64 {
    let square = total(column, |x| x * x);
    if square.is_normal() {
        return square.sqrt();
    }
    let largest = column.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if largest == 0.0 { 0.0 } else { largest * total(column, |x| (x / largest).powi(2)).sqrt() }
}

/// Σ f(x) by eight interleaved sums, which a compiler can put into registers side by side.
fn total(column: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let (eights, rest) = column.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, &x)| *sum += f(x));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&x| f(x)).sum::<f64>()
}
