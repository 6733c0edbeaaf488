//! Cross-products of the columns, without a loss of digits.

use serde::{Deserialize, Serialize};

use super::{BLOCK, Observations};
use corelet_kernels::linalg::triangular_factor;
use corelet_kernels::parallel;

/// The triangular factor R of [X y] = QR: XᵀX, Xᵀy and the residual sum of squares, of which sums of products would
/// lose half the digits. Rows count √fᵢ times, and y is what the offset leaves of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Number of rows.
    pub rows: usize,
    /// Number of features and the target, if there is one.
    pub dim: usize,
    /// R, `dim` × `dim`, row-major, upper triangular.
    pub triangle: Vec<f64>,
}

impl Moments {
    /// Of rows in memory, a block at a time.
    pub fn of(observations: &Observations) -> Self {
        let rows = observations.len();
        let dim = observations.dim + usize::from(!observations.target.is_empty());
        let entry = |i: usize, j: usize| {
            let root = observations.weights.as_ref().map_or(1.0, |weights| weights[i].sqrt());
            root * match observations.row(i).get(j) {
                Some(&x) => f64::from(x),
                None => observations.target[i] - observations.offset(i),
            }
        };
        let blocks: Vec<Vec<f64>> = parallel::map(parallel::parts(rows, BLOCK), |part| {
            triangular_factor(part.len(), dim, |i, j| entry(part.start + i, j))
        });
        let none = Moments { rows: 0, dim, triangle: vec![0.0; dim * dim] };
        let merged =
            blocks.into_iter().fold(none, |all, triangle| all.merge(&Moments { rows: 0, dim, triangle }));
        Moments { rows, ..merged }
    }

    /// Of these rows and further ones.
    pub fn merge(&self, other: &Self) -> Self {
        let (dim, rows) = (self.dim, self.rows + other.rows);
        if self.triangle.iter().all(|&x| x == 0.0) {
            return Moments { rows, ..other.clone() };
        }
        let triangle = triangular_factor(2 * dim, dim, |i, j| {
            if i < dim { self.triangle[i * dim + j] } else { other.triangle[(i - dim) * dim + j] }
        });
        Moments { rows, dim, triangle }
    }

    /// The residual sum of squares of the target given the features: the square of R's last entry.
    pub fn residual_sum_of_squares(&self) -> f64 {
        self.triangle.last().map_or(0.0, |last| last * last)
    }
}
