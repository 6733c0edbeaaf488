//! Correlations of the features, and which features are linear combinations of the others.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// A feature is dependent where less than this fraction of its variance is left once the others are known.
const TOLERANCE: f64 = 1e-10;

/// Rows copied and multiplied at a time.
const BLOCK_ROWS: usize = 1024;

/// Some columns of a row-major matrix, each shifted and scaled on the way out.
pub(super) struct ScaledColumns<'a> {
    /// The whole matrix.
    pub(super) matrix: &'a [f64],
    /// Its number of columns.
    pub(super) dim: usize,
    /// The columns looked at.
    pub(super) columns: &'a [usize],
    /// Subtracted from each of them.
    pub(super) centre: &'a [f64],
    /// Then divides each of them.
    pub(super) scale: &'a [f64],
}

impl ScaledColumns<'_> {
    /// ZᵀZ of the scaled columns Z, p × p and symmetric.
    ///
    /// The rows are cut into parts by the shape alone and the parts are added in order, so that the result has the
    /// same bits for any number of threads.
    pub(super) fn gram(&self) -> Vec<f64> {
        let p = self.columns.len();
        let n = self.matrix.len() / self.dim.max(1);
        let part_rows = n.div_ceil(part_count(p)).max(1);
        let parts: Vec<Vec<f64>> =
            self.matrix.par_chunks(part_rows * self.dim.max(1)).map(|part| self.gram_of(part)).collect();
        let mut gram = vec![0.0; p * p];
        for part in &parts {
            gram.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        mirror_lower(&mut gram, p);
        gram
    }

    /// The lower triangle of ZᵀZ over the rows of `part`.
    fn gram_of(&self, part: &[f64]) -> Vec<f64> {
        let p = self.columns.len();
        let mut gram = vec![0.0; p * p];
        let mut scaled = vec![0.0; BLOCK_ROWS * p];
        if p == 0 {
            return gram;
        }
        for block in part.chunks(BLOCK_ROWS * self.dim) {
            let rows = block.len() / self.dim;
            self.copy_scaled(block, &mut scaled[..rows * p]);
            let z = MatRef::from_row_major_slice(&scaled[..rows * p], rows, p);
            matmul(
                MatMut::from_row_major_slice_mut(&mut gram, p, p),
                BlockStructure::TriangularLower,
                Accum::Add,
                z.transpose(),
                BlockStructure::Rectangular,
                z,
                BlockStructure::Rectangular,
                1.0,
                Par::Seq,
            );
        }
        gram
    }

    fn copy_scaled(&self, block: &[f64], scaled: &mut [f64]) {
        let p = self.columns.len();
        for (row, out) in block.chunks_exact(self.dim).zip(scaled.chunks_exact_mut(p)) {
            for (j, value) in out.iter_mut().enumerate() {
                *value = (row[self.columns[j]] - self.centre[j]) / self.scale[j];
            }
        }
    }
}

/// Parts of the rows: enough for many cores while their p × p sums stay small.
fn part_count(p: usize) -> usize {
    ((1 << 23) / (p * p).max(1)).clamp(2, 64)
}

fn mirror_lower(gram: &mut [f64], p: usize) {
    for i in 0..p {
        for j in 0..i {
            gram[j * p + i] = gram[i * p + j];
        }
    }
}

/// The rows of a correlation matrix that are linear combinations of the others, ascending.
///
/// Cholesky with diagonal pivoting: what is left of a diagonal entry is the share of that feature's variance which
/// the features chosen so far do not explain.
pub(super) fn dependent_columns(correlation: &[f64], p: usize) -> Vec<usize> {
    let mut left: Vec<f64> = (0..p).map(|i| correlation[i * p + i]).collect();
    let mut chosen: Vec<Vec<f64>> = Vec::new();
    let mut remaining: Vec<usize> = (0..p).collect();
    while let Some(position) = largest(&left, &remaining) {
        let pivot = remaining[position];
        if left[pivot] <= TOLERANCE {
            break;
        }
        remaining.remove(position);
        chosen.push(eliminate(correlation, p, pivot, &chosen, &remaining, &mut left));
    }
    remaining
}

/// The next row of the factor, whose squares are taken off `left`.
fn eliminate(
    correlation: &[f64],
    p: usize,
    pivot: usize,
    chosen: &[Vec<f64>],
    remaining: &[usize],
    left: &mut [f64],
) -> Vec<f64> {
    let mut row = correlation[pivot * p..(pivot + 1) * p].to_vec();
    for earlier in chosen {
        let factor = earlier[pivot];
        row.iter_mut().zip(earlier).for_each(|(value, e)| *value -= factor * e);
    }
    let root = left[pivot].sqrt();
    row.iter_mut().for_each(|value| *value /= root);
    for &i in remaining {
        left[i] -= row[i] * row[i];
    }
    row
}

/// The position in `remaining` of the largest entry of `left`, the first of equals.
fn largest(left: &[f64], remaining: &[usize]) -> Option<usize> {
    (0..remaining.len()).rev().max_by(|&a, &b| left[remaining[a]].total_cmp(&left[remaining[b]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gram_equals_the_plain_sum() {
        let (n, dim) = (5000, 5);
        let matrix: Vec<f64> = (0..n * dim).map(|i| ((i * 7919) % 1013) as f64 / 100.0).collect();
        let (columns, centre, scale) = ([0, 2, 3], [1.0, 2.0, 3.0], [2.0, 1.0, 0.5]);
        let scaled =
            ScaledColumns { matrix: &matrix, dim, columns: &columns, centre: &centre, scale: &scale };
        let gram = scaled.gram();
        for i in 0..3 {
            for j in 0..3 {
                let z = |row: usize, c: usize| (matrix[row * dim + columns[c]] - centre[c]) / scale[c];
                let plain: f64 = (0..n).map(|row| z(row, i) * z(row, j)).sum();
                assert!((gram[i * 3 + j] - plain).abs() <= 1e-10 * plain.abs(), "{i} {j}");
            }
        }
    }

    #[test]
    fn combinations_are_found() {
        // The third variable is the sum of the first two, the fourth stands alone.
        let h = 0.5f64.sqrt();
        let correlation = [1.0, 0.0, h, 0.0, 0.0, 1.0, h, 0.0, h, h, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(dependent_columns(&correlation, 4).len(), 1);
        assert_eq!(dependent_columns(&[1.0, 1.0, 1.0, 1.0], 2), [1]);
        assert!(dependent_columns(&[1.0, 0.999, 0.999, 1.0], 2).is_empty());
        assert!(dependent_columns(&[], 0).is_empty());
    }
}
