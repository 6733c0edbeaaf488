//! Symmetric matrices with many zeros, as hierarchical models have them, and the coordinates in which a Gaussian is N(0, I).

use crate::linalg::{Cholesky, LinalgError, dot, row_major};
use crate::posterior::Coordinates;

/// The share of a line's entries from which on it is kept whole: zeros among neighbours cost less than to look places up.
const WHOLE: f64 = 0.3;

/// One line or column of a matrix.
#[derive(Debug, Clone)]
enum Line {
    /// The entries that are not zero, with their places.
    Some(Vec<(usize, f64)>),
    /// All entries from this place on.
    Whole(usize, Vec<f64>),
}

impl Line {
    /// Of entries that stand from `begin` on.
    fn of(begin: usize, entries: impl Iterator<Item = f64>) -> Self {
        let whole: Vec<f64> = entries.collect();
        let filled = whole.iter().filter(|x| **x != 0.0).count();
        if filled as f64 > WHOLE * whole.len() as f64 {
            return Self::Whole(begin, whole);
        }
        Self::Some((begin..).zip(whole).filter(|(_, x)| *x != 0.0).collect())
    }

    /// Its product with x.
    fn dot(&self, x: &[f64]) -> f64 {
        match self {
            Self::Some(entries) => entries.iter().map(|&(i, a)| a * x[i]).sum(),
            Self::Whole(begin, entries) => dot(entries, &x[*begin..][..entries.len()]),
        }
    }

    /// Takes c times it from x.
    fn take_from(&self, x: &mut [f64], c: f64) {
        match self {
            Self::Some(entries) => entries.iter().for_each(|&(i, a)| x[i] -= a * c),
            Self::Whole(begin, entries) => {
                x[*begin..].iter_mut().zip(entries).for_each(|(x, a)| *x -= a * c);
            }
        }
    }
}

/// The entries of a matrix that are not zero, line by line.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    lines: Vec<Line>,
}

impl Sparse {
    /// Makes it of a row-major matrix.
    pub(super) fn of(matrix: &[f64], dim: usize) -> Self {
        let line = |line: &[f64]| Line::of(0, line.iter().copied());
        Self { lines: matrix.chunks_exact(dim.max(1)).map(line).collect() }
    }

    /// Its product with x.
    pub(super) fn multiply(&self, x: &[f64], out: &mut [f64]) {
        for (out, line) in out.iter_mut().zip(&self.lines) {
            *out = line.dot(x);
        }
    }
}

/// θ = m + L⁻ᵀz with P = LLᵀ the precision of a Gaussian of mean m, rows and columns in an order in which L has few entries: those
/// that meet few others first.
#[derive(Debug, Clone)]
pub(super) struct Whitened {
    mean: Vec<f64>,
    /// The coordinate that stands at each place of the order.
    order: Vec<usize>,
    diagonal: Vec<f64>,
    /// Below the diagonal, column by column.
    columns: Vec<Line>,
}

impl Whitened {
    /// From m and P.
    ///
    /// # Errors
    /// If P has no Cholesky factor.
    pub(super) fn new(mean: &[f64], precision: &[f64]) -> Result<Self, LinalgError> {
        let dim = mean.len();
        let entries = |i: usize| precision[i * dim..][..dim].iter().filter(|x| **x != 0.0).count();
        let mut order: Vec<usize> = (0..dim).collect();
        order.sort_by_key(|&i| (entries(i), i));
        let permuted = row_major(dim, |i, j| precision[order[i] * dim + order[j]]);
        let factor = Cholesky::new(&permuted, dim)?.factor();
        let column = |j: usize| Line::of(j + 1, (j + 1..dim).map(|i| factor[i * dim + j]));
        Ok(Self {
            mean: mean.to_vec(),
            diagonal: (0..dim).map(|j| factor[j * dim + j]).collect(),
            columns: (0..dim).map(column).collect(),
            order,
        })
    }
}

impl Coordinates for Whitened {
    fn dim(&self) -> usize {
        self.mean.len()
    }

    fn push_theta(&self, z: &[f64], theta: &mut Vec<f64>) {
        // Lᵀx = z from below.
        let mut x = z.to_vec();
        for j in (0..x.len()).rev() {
            let known = self.columns[j].dot(&x);
            x[j] = (x[j] - known) / self.diagonal[j];
        }
        let begin = theta.len();
        theta.extend_from_slice(&self.mean);
        for (x, &i) in x.iter().zip(&self.order) {
            theta[begin + i] += x;
        }
    }

    fn pull_back(&self, slope: &[f64], gradient: &mut [f64]) {
        // L·gradient = slope from above.
        gradient.iter_mut().zip(&self.order).for_each(|(g, &i)| *g = slope[i]);
        for (j, column) in self.columns.iter().enumerate() {
            gradient[j] /= self.diagonal[j];
            let solved = gradient[j];
            column.take_from(gradient, solved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::multiply;

    /// An arrow: three coordinates meet all others, which meet nobody else.
    fn arrow(dim: usize) -> Vec<f64> {
        let entry = |i: usize, j: usize| {
            if i == j {
                4.0 + dim as f64 + i as f64
            } else if i.min(j) < 3 {
                0.3 + 0.1 * ((i + j) % 5) as f64
            } else {
                0.0
            }
        };
        row_major(dim, entry)
    }

    #[test]
    fn an_arrow_has_few_entries_and_its_coordinates_are_white() {
        let dim = 40;
        let precision = arrow(dim);
        let mean: Vec<f64> = (0..dim).map(|i| 0.1 * i as f64).collect();
        let Ok(white) = Whitened::new(&mean, &precision) else { panic!("no factor") };
        let filled = |line: &Line| match line {
            Line::Some(entries) => entries.len(),
            Line::Whole(_, entries) => entries.iter().filter(|x| **x != 0.0).count(),
        };
        assert_eq!(white.columns.iter().map(filled).sum::<usize>(), 3 * (dim - 3) + 3);
        let z: Vec<f64> = (0..dim).map(|i| ((i * 7 % 11) as f64 - 5.0) / 5.0).collect();
        let mut theta = Vec::new();
        white.push_theta(&z, &mut theta);
        let shift: Vec<f64> = theta.iter().zip(&mean).map(|(t, m)| t - m).collect();
        let mut curved = vec![0.0; dim];
        multiply(&precision, &shift, &mut curved);
        assert!((dot(&shift, &curved) - dot(&z, &z)).abs() < 1e-10);
        // ∇_z of ½(θ − m)ᵀP(θ − m) = ½zᵀz is z.
        let mut gradient = vec![0.0; dim];
        white.pull_back(&curved, &mut gradient);
        assert!(gradient.iter().zip(&z).all(|(g, z)| (g - z).abs() < 1e-10));
        let mut product = vec![0.0; dim];
        Sparse::of(&precision, dim).multiply(&shift, &mut product);
        assert!(product.iter().zip(&curved).all(|(a, b)| (a - b).abs() < 1e-10));
    }
}
