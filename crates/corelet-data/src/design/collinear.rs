//! Correlations of the features, and which features are linear combinations of the others.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

/// A feature is dependent where less than this fraction of its variance is left once the others are known.
const TOLERANCE: f64 = 1e-10;

/// Rows copied and multiplied at a time.
const BLOCK_ROWS: usize = 1024;

/// Some columns of row-major rows, each shifted and scaled on the way out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScaledColumns {
    /// The number of columns of the rows.
    pub(crate) dim: usize,
    /// The columns looked at, p of them.
    pub(crate) columns: Vec<usize>,
    /// Subtracted from each of them.
    pub(crate) centre: Vec<f64>,
    /// Then divides each of them.
    pub(crate) scale: Vec<f64>,
}

impl ScaledColumns {
    /// Adds ZᵀFZ of the scaled columns Z of `rows` to the lower triangle of `gram`, p × p; F has the weights of the rows, where they
    /// have any.
    pub(crate) fn add_gram(&self, rows: &[f64], weights: Option<&[f64]>, gram: &mut [f64]) {
        let p = self.columns.len();
        if p == 0 {
            return;
        }
        let mut scaled = vec![0.0; BLOCK_ROWS.min(rows.len() / self.dim) * p];
        for (at, block) in rows.chunks(BLOCK_ROWS * self.dim).enumerate() {
            let count = block.len() / self.dim;
            self.copy_scaled(block, &mut scaled[..count * p]);
            if let Some(weights) = weights {
                let weights = &weights[at * BLOCK_ROWS..];
                for (row, root) in scaled.chunks_exact_mut(p).zip(weights).map(|(row, f)| (row, f.sqrt())) {
                    row.iter_mut().for_each(|z| *z *= root);
                }
            }
            let z = MatRef::from_row_major_slice(&scaled[..count * p], count, p);
            matmul(
                MatMut::from_row_major_slice_mut(gram, p, p),
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
    }

    fn copy_scaled(&self, block: &[f64], scaled: &mut [f64]) {
        let p = self.columns.len();
        if self.columns.iter().copied().eq(0..p) {
            // As nearly always, the intercept being the last: without an index, several at a time.
            for (row, out) in block.chunks_exact(self.dim).zip(scaled.chunks_exact_mut(p)) {
                let numbers = out.iter_mut().zip(row).zip(&self.centre).zip(&self.scale);
                numbers.for_each(|(((out, x), centre), scale)| *out = (x - centre) / scale);
            }
            return;
        }
        for (row, out) in block.chunks_exact(self.dim).zip(scaled.chunks_exact_mut(p)) {
            for (j, value) in out.iter_mut().enumerate() {
                *value = (row[self.columns[j]] - self.centre[j]) / self.scale[j];
            }
        }
    }
}

/// Copies the lower triangle of a p × p matrix to the upper one.
pub(crate) fn mirror_lower(gram: &mut [f64], p: usize) {
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
pub(crate) fn dependent_columns(correlation: &[f64], p: usize) -> Vec<usize> {
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
            ScaledColumns { dim, columns: columns.to_vec(), centre: centre.to_vec(), scale: scale.to_vec() };
        let weights: Vec<f64> = (0..n).map(|row| (1 + row % 5) as f64).collect();
        for weighted in [false, true] {
            let weights = weighted.then_some(&weights[..]);
            let mut gram = vec![0.0; 9];
            for (at, rows) in matrix.chunks(2100 * dim).enumerate() {
                scaled.add_gram(rows, weights.map(|weights| &weights[at * 2100..]), &mut gram);
            }
            mirror_lower(&mut gram, 3);
            for (i, j) in (0..9).map(|at| (at / 3, at % 3)) {
                let z = |row: usize, c: usize| (matrix[row * dim + columns[c]] - centre[c]) / scale[c];
                let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
                let plain: f64 = (0..n).map(|row| weight(row) * z(row, i) * z(row, j)).sum();
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
