//! A = QR of columns that come and go, and y in the basis Q.

use crate::kernel::{axpy, dot, norm, rotate};
use crate::projection::project_out;

/// A unit column whose part outside the span of the others is shorter than this is taken as dependent on them.
const DEPENDENT: f64 = 1e-12;

/// Q orthonormal, R upper triangular, and Qᵀy.
#[derive(Debug, Clone)]
pub(crate) struct Factors {
    /// Length of a column.
    dim: usize,
    /// Q, one column after the other.
    basis: Vec<f64>,
    /// R by rows, `stride` apart.
    triangle: Vec<f64>,
    stride: usize,
    /// Qᵀy.
    projections: Vec<f64>,
    scratch: Vec<f64>,
}

impl Factors {
    /// Of no column, with room for `capacity` of them before memory must grow.
    pub(crate) fn new(dim: usize, capacity: usize) -> Self {
        let stride = capacity.max(4);
        Self {
            dim,
            basis: Vec::with_capacity(stride * dim),
            triangle: vec![0.0; stride * stride],
            stride,
            projections: Vec::with_capacity(stride),
            scratch: Vec::with_capacity(stride),
        }
    }

    fn len(&self) -> usize {
        self.projections.len()
    }

    /// Columns there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.stride
    }

    /// Q, one column after the other.
    pub(crate) fn basis(&self) -> &[f64] {
        &self.basis
    }

    /// Row `i` of R from the diagonal on.
    pub(crate) fn triangle_row(&self, i: usize) -> &[f64] {
        &self.triangle[i * self.stride + i..i * self.stride + self.len()]
    }

    /// The last column of Q, and its share of y.
    pub(crate) fn newest(&self) -> (&[f64], f64) {
        let share = self.projections.last().copied().unwrap_or(0.0);
        (&self.basis[self.basis.len() - self.dim..], share)
    }

    /// Takes in a unit column by Gram–Schmidt applied twice, and takes from the residual y − QQᵀy what it adds. False, and
    /// nothing changed, where it depends on the others.
    pub(crate) fn push(&mut self, column: &[f64], residual: &mut [f64]) -> bool {
        let m = self.len();
        self.basis.extend_from_slice(column);
        let (basis, q) = self.basis.split_at_mut(m * self.dim);
        self.scratch.clear();
        self.scratch.resize(2 * m, 0.0);
        let (total, once) = self.scratch.split_at_mut(m);
        for _ in 0..2 {
            project_out(basis, q, once);
            total.iter_mut().zip(&*once).for_each(|(total, once)| *total += once);
        }
        let height = norm(q);
        if height <= DEPENDENT {
            self.basis.truncate(m * self.dim);
            return false;
        }
        q.iter_mut().for_each(|x| *x /= height);
        let projection = dot(q, residual);
        axpy(-projection, q, residual);
        self.append_to_triangle(height);
        self.projections.push(projection);
        true
    }

    /// Writes the new last column of R: the coefficients in `scratch`, then the height on the diagonal.
    fn append_to_triangle(&mut self, height: f64) {
        let m = self.len();
        if m == self.stride {
            let wider = self.stride * 2;
            let mut triangle = vec![0.0; wider * wider];
            for (to, from) in triangle.chunks_exact_mut(wider).zip(self.triangle.chunks_exact(self.stride)) {
                to[..self.stride].copy_from_slice(from);
            }
            (self.triangle, self.stride) = (triangle, wider);
        }
        for i in 0..m {
            self.triangle[i * self.stride + m] = self.scratch[i];
        }
        self.triangle[m * self.stride + m] = height;
    }

    /// Rotates the column at `position` out. The direction that leaves the span, with its share of y.
    pub(crate) fn remove(&mut self, position: usize) -> (Vec<f64>, f64) {
        let (dim, m) = (self.dim, self.len());
        for i in 0..m {
            let row = &mut self.triangle[i * self.stride..(i + 1) * self.stride];
            row.copy_within(position + 1..m, position);
        }
        for i in position..m - 1 {
            let (a, b) = (self.triangle[i * self.stride + i], self.triangle[(i + 1) * self.stride + i]);
            let length = a.hypot(b);
            let (c, s) = if length > 0.0 { (a / length, b / length) } else { (1.0, 0.0) };
            let (upper, lower) = self.triangle.split_at_mut((i + 1) * self.stride);
            rotate(c, s, &mut upper[i * self.stride + i..i * self.stride + m - 1], &mut lower[i..m - 1]);
            let (left, right) = self.basis.split_at_mut((i + 1) * dim);
            rotate(c, s, &mut left[i * dim..], &mut right[..dim]);
            let (p, q) = (self.projections[i], self.projections[i + 1]);
            (self.projections[i], self.projections[i + 1]) = (c * p + s * q, c * q - s * p);
        }
        let gone = (self.basis[(m - 1) * dim..].to_vec(), self.projections[m - 1]);
        self.basis.truncate((m - 1) * dim);
        self.projections.truncate(m - 1);
        gone
    }

    /// s = R⁻¹Qᵀy.
    pub(crate) fn solve(&self, solution: &mut Vec<f64>) {
        let m = self.len();
        solution.clear();
        solution.resize(m, 0.0);
        for i in (0..m).rev() {
            let row = &self.triangle[i * self.stride..i * self.stride + m];
            let known = dot(&row[i + 1..], &solution[i + 1..]);
            solution[i] = (self.projections[i] - known) / row[i];
        }
    }

    /// r ← r − QQᵀr.
    pub(crate) fn project_out(&mut self, residual: &mut [f64]) {
        self.scratch.resize(self.projections.len(), 0.0);
        project_out(&self.basis, residual, &mut self.scratch);
    }
}
