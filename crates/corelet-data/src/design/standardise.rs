//! Centring, scaling and whitening of the features, and the way back to their original scale.

use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

use crate::design::options::Standardise;

/// Added to the diagonal of the covariance before its Cholesky factor is taken, as in the paper's code.
const JITTER: f64 = 1e-12;

/// The standardisation of features: z = S⁻¹(x − m), except for the intercept.
///
/// S is the identity, a diagonal of standard deviations, or the lower Cholesky factor of the sample covariance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standardisation {
    /// Which S.
    pub kind: Standardise,
    /// The features that were standardised: all but the intercept.
    pub columns: Vec<usize>,
    /// The feature that is the intercept, if one is, and its constant value.
    pub intercept: Option<(usize, f64)>,
    /// m, one entry for each of `columns`. Zero for `none`, and for a regression without an intercept, where a shift
    /// would change the model.
    pub means: Vec<f64>,
    /// The diagonal of S; ones where S is not a diagonal.
    pub scale: Vec<f64>,
    /// For `whiten`: S, lower triangular, row-major, `columns.len()` squared. Otherwise empty.
    pub factor: Vec<f64>,
}

impl Standardisation {
    /// Number of features, the intercept among them.
    pub fn features(&self) -> usize {
        self.columns.len() + usize::from(self.intercept.is_some())
    }

    /// The coefficients of the raw features that predict as `theta` does for the standardised ones.
    ///
    /// θᵀz = βᵀ(x − m) with β = S⁻ᵀθ, and the intercept takes up −βᵀm. `theta` has one entry a feature.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        let mut inner: Vec<f64> = self.columns.iter().map(|&j| theta[j]).collect();
        if self.factor.is_empty() {
            inner.iter_mut().zip(&self.scale).for_each(|(value, scale)| *value /= scale);
        } else {
            solve_transposed(&self.factor, &mut inner);
        }
        let mut original = theta.to_vec();
        for (&j, value) in self.columns.iter().zip(&inner) {
            original[j] = *value;
        }
        if let Some((j, constant)) = self.intercept {
            let shift: f64 = inner.iter().zip(&self.means).map(|(value, mean)| value * mean).sum();
            original[j] -= shift / constant;
        }
        original
    }

    /// The way back: the coefficients of the standardised features that predict as `original` does for the raw ones.
    pub fn from_original(&self, original: &[f64]) -> Vec<f64> {
        let p = self.columns.len();
        let beta: Vec<f64> = self.columns.iter().map(|&j| original[j]).collect();
        let mut theta = original.to_vec();
        for (i, &j) in self.columns.iter().enumerate() {
            theta[j] = if self.factor.is_empty() {
                beta[i] * self.scale[i]
            } else {
                (i..p).map(|l| self.factor[l * p + i] * beta[l]).sum()
            };
        }
        if let Some((j, constant)) = self.intercept {
            let shift: f64 = beta.iter().zip(&self.means).map(|(value, mean)| value * mean).sum();
            theta[j] += shift / constant;
        }
        theta
    }

    /// The point of the raw space that corresponds to `point` of the standardised space: m + S·point.
    ///
    /// This is the way back for a mean, as [`to_original`](Self::to_original) is for coefficients.
    pub fn point_to_original(&self, point: &[f64]) -> Vec<f64> {
        let p = self.columns.len();
        let mut original = point.to_vec();
        for (i, &j) in self.columns.iter().enumerate() {
            let scaled = if self.factor.is_empty() {
                self.scale[i] * point[j]
            } else {
                (0..=i).map(|l| self.factor[i * p + l] * point[self.columns[l]]).sum()
            };
            original[j] = self.means[i] + scaled;
        }
        original
    }

    /// Standardises one raw row in place.
    pub fn apply(&self, row: &mut [f64]) {
        self.shift_and_scale(row);
        self.whiten(row);
    }

    /// Standardises some raw rows, row-major, in place.
    pub(crate) fn apply_to_rows(&self, rows: &mut [f64], dim: usize) {
        if self.columns.iter().copied().eq(0..self.columns.len()) {
            // As nearly always, the intercept being the last: without an index, several at a time.
            for row in rows.chunks_exact_mut(dim.max(1)) {
                let numbers = row.iter_mut().zip(&self.means).zip(&self.scale);
                numbers.for_each(|((x, mean), scale)| *x = (*x - mean) / scale);
            }
        } else {
            rows.chunks_exact_mut(dim.max(1)).for_each(|row| self.shift_and_scale(row));
        }
        self.whiten_block(rows, dim);
    }

    fn shift_and_scale(&self, row: &mut [f64]) {
        for (i, &j) in self.columns.iter().enumerate() {
            row[j] = (row[j] - self.means[i]) / self.scale[i];
        }
    }

    /// [`whiten`](Self::whiten) for many rows at once, which for wide data is many times faster.
    fn whiten_block(&self, rows: &mut [f64], dim: usize) {
        let p = self.columns.len();
        if self.factor.is_empty() {
            return;
        }
        let lines = rows.chunks_exact(dim);
        let mut inner: Vec<f64> = lines.flat_map(|row| self.columns.iter().map(|&j| row[j])).collect();
        solve_lower_triangular_in_place(
            MatRef::from_row_major_slice(&self.factor, p, p),
            MatMut::from_column_major_slice_mut(&mut inner, p, rows.len() / dim),
            Par::Seq,
        );
        for (row, white) in rows.chunks_exact_mut(dim).zip(inner.chunks_exact(p)) {
            self.columns.iter().zip(white).for_each(|(&j, value)| row[j] = *value);
        }
    }

    /// Forward substitution with the factor: row ← S⁻¹ row.
    fn whiten(&self, row: &mut [f64]) {
        let p = self.columns.len();
        for (i, line) in self.factor.chunks_exact(p.max(1)).enumerate() {
            let known: f64 = self.columns[..i].iter().zip(line).map(|(&j, factor)| factor * row[j]).sum();
            row[self.columns[i]] = (row[self.columns[i]] - known) / line[i];
        }
    }
}

/// The lower Cholesky factor of the covariance, given correlations and standard deviations.
///
/// The covariance must be regular: features that depend on others are refused before.
pub(crate) fn covariance_factor(correlation: &[f64], sd: &[f64]) -> Vec<f64> {
    let p = sd.len();
    let mut factor = vec![0.0; p * p];
    for i in 0..p {
        for j in 0..=i {
            let jitter = if i == j { JITTER } else { 0.0 };
            let covariance = correlation[i * p + j] * sd[i] * sd[j] + jitter;
            let known: f64 = (0..j).map(|l| factor[i * p + l] * factor[j * p + l]).sum();
            let rest = covariance - known;
            factor[i * p + j] = if i == j { rest.sqrt() } else { rest / factor[j * p + j] };
        }
    }
    factor
}

/// Back substitution with the transpose of a lower triangular `factor`.
fn solve_transposed(factor: &[f64], vector: &mut [f64]) {
    let p = vector.len();
    for i in (0..p).rev() {
        let known: f64 = (i + 1..p).map(|l| factor[l * p + i] * vector[l]).sum();
        vector[i] = (vector[i] - known) / factor[i * p + i];
    }
}
