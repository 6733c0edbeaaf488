//! Dense symmetric matrices, row-major: Cholesky, inverse, eigenvalues, by faer in one thread, and products on all of them.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::solvers::{Llt, SolveCore};
use faer::prelude::{MatMut, MatRef};
use faer::{Accum, Conj, Mat, Par, Side};

use crate::parallel;

/// Why a factorisation does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinalgError {
    /// A pivot was not positive.
    #[error("the {dim} × {dim} matrix is not positive definite (pivot {pivot} is not positive)")]
    NotPositiveDefinite {
        /// Size of the matrix.
        dim: usize,
        /// The first pivot that is not positive, from 0.
        pivot: usize,
    },
    /// The eigenvalue iteration did not end, or an entry is not finite.
    #[error("no eigenvalues of the {dim} × {dim} matrix: an entry is not finite")]
    NoEigenvalues {
        /// Size of the matrix.
        dim: usize,
    },
}

/// The Cholesky factorisation A = CCᵀ of a symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub struct Cholesky {
    factor: Llt<f64>,
    dim: usize,
}

impl Cholesky {
    /// Factorises the row-major `dim` × `dim` matrix `a`, of which only the lower triangle is read.
    pub fn new(a: &[f64], dim: usize) -> Result<Cholesky, LinalgError> {
        if let Some(at) = a.iter().position(|x| !x.is_finite()) {
            return Err(LinalgError::NotPositiveDefinite { dim, pivot: at / dim });
        }
        let factor = Llt::new(MatRef::from_row_major_slice(a, dim, dim), Side::Lower).map_err(|error| {
            let faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index } = error;
            LinalgError::NotPositiveDefinite { dim, pivot: index }
        })?;
        Ok(Cholesky { factor, dim })
    }

    /// x ← A⁻¹x, for each of the vectors that stand one after the other in `x`.
    pub fn solve(&self, x: &mut [f64]) {
        let count = x.len() / self.dim.max(1);
        let columns = MatMut::from_column_major_slice_mut(x, self.dim, count);
        self.factor.solve_in_place_with_conj(Conj::No, columns);
    }

    /// log det A = 2 Σ log Cᵢᵢ.
    pub fn log_determinant(&self) -> f64 {
        let factor = self.factor.L();
        (0..self.dim).map(|i| 2.0 * factor[(i, i)].ln()).sum()
    }

    /// C, lower triangular, row-major, zeros above the diagonal.
    pub fn factor(&self) -> Vec<f64> {
        let factor = self.factor.L();
        row_major(self.dim, |i, j| if j <= i { factor[(i, j)] } else { 0.0 })
    }

    /// C⁻¹, lower triangular, row-major.
    pub fn inverse_factor(&self) -> Vec<f64> {
        let mut inverse = Mat::<f64>::identity(self.dim, self.dim);
        self.factor.L().solve_lower_triangular_in_place(&mut inverse);
        row_major(self.dim, |i, j| if j <= i { inverse[(i, j)] } else { 0.0 })
    }

    /// A⁻¹, row-major and exactly symmetric.
    pub fn inverse(&self) -> Vec<f64> {
        let inverse_factor = self.inverse_factor();
        gram(&inverse_factor, self.dim, self.dim)
    }
}

/// BᵀB of a row-major `rows` × `dim` matrix B, row-major and exactly symmetric.
pub fn gram(b: &[f64], rows: usize, dim: usize) -> Vec<f64> {
    let mut product = vec![0.0; dim * dim];
    add_cross_product(&mut product, b, b, rows, dim);
    mirror_lower(&mut product, dim);
    product
}

/// Adds the lower triangle of BᵀC to `sum`, all row-major; B and C are `rows` × `dim`.
pub fn add_cross_product(sum: &mut [f64], b: &[f64], c: &[f64], rows: usize, dim: usize) {
    triangular::matmul(
        MatMut::from_row_major_slice_mut(sum, dim, dim),
        BlockStructure::TriangularLower,
        Accum::Add,
        MatRef::from_row_major_slice(b, rows, dim).transpose(),
        BlockStructure::Rectangular,
        MatRef::from_row_major_slice(c, rows, dim),
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
}

/// Rows of a product that are one task, whatever the number of threads: its bits do not depend on that.
const PRODUCT_ROWS: usize = 64;

/// BC of a row-major B with rows of `dim` numbers and a row-major `dim` × `dim` matrix C, of which only the lower triangle counts where it
/// is `lower`; on all threads.
pub fn product(b: &[f64], c: &[f64], dim: usize, lower: bool) -> Vec<f64> {
    let mut out = vec![0.0; b.len()];
    let parts = b.chunks(PRODUCT_ROWS * dim.max(1)).zip(out.chunks_mut(PRODUCT_ROWS * dim.max(1)));
    parallel::map(parts, |(b, out)| write_product(b, c, dim, lower, out));
    out
}

/// The same into `out`, in this thread.
pub fn write_product(b: &[f64], c: &[f64], dim: usize, lower: bool, out: &mut [f64]) {
    let rows = b.len() / dim.max(1);
    let structure = if lower { BlockStructure::TriangularLower } else { BlockStructure::Rectangular };
    triangular::matmul(
        MatMut::from_row_major_slice_mut(out, rows, dim),
        BlockStructure::Rectangular,
        Accum::Replace,
        MatRef::from_row_major_slice(b, rows, dim),
        BlockStructure::Rectangular,
        MatRef::from_row_major_slice(c, dim, dim),
        structure,
        1.0,
        Par::Seq,
    );
}

/// Adds the lower triangle of BᵀC to `sum`, as [`add_cross_product`] does but on all threads: tiles of the sum, which are fixed, are the
/// tasks, so that there is one sum and its bits do not depend on the number of threads.
pub fn add_cross_product_in_tiles(sum: &mut [f64], b: &[f64], c: &[f64], rows: usize, dim: usize) {
    let side = match dim {
        0..512 => 64,
        512..1024 => 128,
        _ => 256,
    };
    let (b, c) = (MatRef::from_row_major_slice(b, rows, dim), MatRef::from_row_major_slice(c, rows, dim));
    let mut tiles = Vec::new();
    for (row, stripe) in sum.chunks_mut(side * dim.max(1)).enumerate() {
        let height = stripe.len() / dim;
        let mut rest = MatMut::from_row_major_slice_mut(stripe, height, dim);
        for column in 0..=row {
            let (tile, after) = rest.split_at_col_mut(side.min(dim - column * side));
            tiles.push((row * side, column * side, tile));
            rest = after;
        }
    }
    parallel::map(tiles, |(row, column, tile)| {
        let (left, right) = (b.subcols(row, tile.nrows()), c.subcols(column, tile.ncols()));
        matmul(tile, Accum::Add, left.transpose(), right, 1.0, Par::Seq);
    });
}

/// Copies the lower triangle of a row-major matrix onto the upper one.
pub fn mirror_lower(a: &mut [f64], dim: usize) {
    for i in 0..dim {
        for j in 0..i {
            a[j * dim + i] = a[i * dim + j];
        }
    }
}

/// LᵀAL for row-major L and symmetric A, exactly symmetric.
pub fn congruence(l: &[f64], a: &[f64], dim: usize) -> Vec<f64> {
    let l = MatRef::from_row_major_slice(l, dim, dim);
    let product = l.transpose() * MatRef::from_row_major_slice(a, dim, dim) * l;
    row_major(dim, |i, j| 0.5 * (product[(i, j)] + product[(j, i)]))
}

/// The eigenvalues of a row-major symmetric matrix, ascending.
pub fn symmetric_eigenvalues(a: &[f64], dim: usize) -> Result<Vec<f64>, LinalgError> {
    if dim == 0 {
        return Ok(Vec::new());
    }
    if a.iter().any(|x| !x.is_finite()) {
        return Err(LinalgError::NoEigenvalues { dim });
    }
    MatRef::from_row_major_slice(a, dim, dim)
        .self_adjoint_eigenvalues(Side::Lower)
        .map_err(|_| LinalgError::NoEigenvalues { dim })
}

/// The eigenvalues of a row-major symmetric matrix, ascending, and its eigenvectors, one after the other.
pub fn symmetric_eigen(a: &[f64], dim: usize) -> Result<(Vec<f64>, Vec<f64>), LinalgError> {
    if a.iter().any(|x| !x.is_finite()) {
        return Err(LinalgError::NoEigenvalues { dim });
    }
    let eigen = MatRef::from_row_major_slice(a, dim, dim)
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| LinalgError::NoEigenvalues { dim })?;
    let (vectors, values) = (eigen.U(), eigen.S().column_vector());
    let entries = (0..dim).flat_map(|k| (0..dim).map(move |i| (i, k)));
    Ok(((0..dim).map(|k| values[k]).collect(), entries.map(|place| vectors[place]).collect()))
}

/// The eigenvectors of the `count` largest eigenvalues of a row-major symmetric matrix, largest first, one after the
/// other.
pub fn leading_eigenvectors(a: &[f64], dim: usize, count: usize) -> Result<Vec<f64>, LinalgError> {
    if count == 0 || dim == 0 {
        return Ok(Vec::new());
    }
    if a.iter().any(|x| !x.is_finite()) {
        return Err(LinalgError::NoEigenvalues { dim });
    }
    let eigen = MatRef::from_row_major_slice(a, dim, dim)
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| LinalgError::NoEigenvalues { dim })?;
    let vectors = eigen.U();
    let places = (0..count.min(dim)).flat_map(|k| (0..dim).map(move |i| (i, dim - 1 - k)));
    Ok(places.map(|place| vectors[place]).collect())
}

/// R of the QR factorisation of a tall `rows` × `dim` matrix, block by block, so that no second copy of it is made.
///
/// Only the upper triangle, `dim` × `dim` row-major; its signs are not normalised.
pub fn triangular_factor(rows: usize, dim: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    const BLOCK: usize = 1024;
    let mut stacked = Mat::<f64>::zeros(dim + BLOCK, dim);
    for start in (0..rows).step_by(BLOCK) {
        let block = BLOCK.min(rows - start);
        for i in 0..block {
            for j in 0..dim {
                stacked[(dim + i, j)] = entry(start + i, j);
            }
        }
        let qr = stacked.subrows(0, dim + block).qr();
        let r = qr.thin_R();
        for j in 0..dim {
            for i in 0..dim {
                stacked[(i, j)] = if i <= j { r[(i, j)] } else { 0.0 };
            }
        }
    }
    row_major(dim, |i, j| stacked[(i, j)])
}

/// Row-major A times x, into `out`.
#[inline]
pub fn multiply(a: &[f64], x: &[f64], out: &mut [f64]) {
    for (row, value) in a.chunks_exact(x.len().max(1)).zip(out) {
        *value = dot(row, x);
    }
}

/// xᵀy.
#[inline]
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// xᵀy of features in f32.
#[inline]
pub fn dot_features(x: &[f32], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(&a, b)| f64::from(a) * b).sum()
}

/// xᵀAx for a row-major A.
pub fn quadratic_form(a: &[f64], x: &[f64]) -> f64 {
    a.chunks_exact(x.len().max(1)).zip(x).map(|(row, xi)| xi * dot(row, x)).sum()
}

/// The row-major `dim` × `dim` matrix of these entries.
pub fn row_major(dim: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..dim * dim).map(|at| entry(at / dim, at % dim)).collect()
}

/// The multiple of a power of two that is nearest to x.
#[inline]
pub fn to_multiple(x: f64, unit: f64) -> f64 {
    (x / unit).round() * unit
}

/// The largest power of two that is at most x, of a normal number above 0.
pub fn power_of_two_below(x: f64) -> f64 {
    const EXPONENT: u64 = 0x7ff << 52;
    f64::from_bits(x.to_bits() & EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A well-conditioned symmetric matrix of any size.
    fn example(dim: usize) -> Vec<f64> {
        row_major(dim, |i, j| 1.0 / (1.0 + i.abs_diff(j) as f64) + if i == j { 1.0 } else { 0.0 })
    }

    #[test]
    fn cholesky_reconstructs_solves_and_inverts() {
        for dim in [1, 2, 7, 65] {
            let a = example(dim);
            let cholesky = Cholesky::new(&a, dim).unwrap();
            let factor = cholesky.factor();
            let inverse = cholesky.inverse();
            let eigenvalues = symmetric_eigenvalues(&a, dim).unwrap();
            let log_determinant: f64 = eigenvalues.iter().map(|x| x.ln()).sum();
            assert!((cholesky.log_determinant() - log_determinant).abs() < 1e-11);
            for i in 0..dim {
                let mut solution: Vec<f64> = (0..dim).map(|j| a[j * dim + i]).collect();
                cholesky.solve(&mut solution);
                for j in 0..dim {
                    let unit = if i == j { 1.0 } else { 0.0 };
                    assert!((solution[j] - unit).abs() < 1e-13);
                    let (ci, cj) = (&factor[i * dim..][..dim], &factor[j * dim..][..dim]);
                    assert!((dot(ci, cj) - a[i * dim + j]).abs() < 1e-13);
                    let column: Vec<f64> = (0..dim).map(|l| inverse[l * dim + j]).collect();
                    assert!((dot(&a[i * dim..][..dim], &column) - unit).abs() < 1e-13);
                }
            }
        }
    }

    #[test]
    fn products_on_all_threads_are_products() {
        for (rows, dim) in [(5, 3), (70, 65), (130, 200)] {
            let b: Vec<f64> = (0..rows * dim).map(|i| (0.37 * i as f64).sin()).collect();
            let c: Vec<f64> = (0..rows * dim).map(|i| (0.61 * i as f64).cos()).collect();
            let (mut plain, mut tiled) = (vec![0.5; dim * dim], vec![0.5; dim * dim]);
            add_cross_product(&mut plain, &b, &c, rows, dim);
            add_cross_product_in_tiles(&mut tiled, &b, &c, rows, dim);
            for (i, j) in (0..dim).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                assert!((plain[i * dim + j] - tiled[i * dim + j]).abs() < 1e-11, "{dim}: {i} {j}");
            }
            let square = example(dim);
            for lower in [false, true] {
                let out = product(&b, &square, dim, lower);
                for (i, j) in [(0, 0), (rows - 1, dim / 2), (rows / 2, dim - 1)] {
                    let entry = |k: usize| if lower && j > k { 0.0 } else { square[k * dim + j] };
                    let want: f64 = (0..dim).map(|k| b[i * dim + k] * entry(k)).sum();
                    assert!((out[i * dim + j] - want).abs() < 1e-12, "{dim} {lower}: {i} {j}");
                }
            }
        }
    }

    #[test]
    fn not_positive_definite_is_an_error() {
        let a = [1.0, 2.0, 2.0, 1.0];
        let error = Cholesky::new(&a, 2).unwrap_err();
        assert_eq!(error, LinalgError::NotPositiveDefinite { dim: 2, pivot: 1 });
        assert!(Cholesky::new(&[f64::NAN], 1).is_err());
    }

    #[test]
    fn blockwise_qr_has_the_gram_matrix_of_the_rows() {
        let (n, dim) = (2500, 5);
        let rows: Vec<f64> = (0..n * dim).map(|i| ((i * i) as f64 * 0.37).sin()).collect();
        let r = triangular_factor(n, dim, |i, j| rows[i * dim + j]);
        let (of_rows, of_factor) = (gram(&rows, n, dim), gram(&r, dim, dim));
        for (a, b) in of_rows.iter().zip(&of_factor) {
            assert!((a - b).abs() < 1e-9);
        }
    }
}
