//! One row with several predictors: its coefficients of orders 1 and 2, by Stein's lemma, along orthonormal directions.

use std::ops::Range;
use std::sync::Arc;

use super::tensor::{add_powers, coordinates, multiplicities};
use crate::embed::EmbedError;
use crate::linalg::dot;
use crate::model::cubature::Ladder;
use crate::model::{BLOCK, Inputs, JointPredictors};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::{Held, RowsError};

/// Coefficients are kept below this, so that their squares and sums are numbers.
pub(super) const LARGEST: f64 = 1e100;

/// A predictor of which less than this share is its own depends on those before it.
pub(super) const DEPENDENT: f64 = 1e-12;

/// φᵢ = (LᵀAᵢᵀ E[∇ℓᵢ], LᵀAᵢᵀ E[∇²ℓᵢ] AᵢL/√2) of rows whose ℓᵢ(θ) = ℓ(Aᵢθ; yᵢ, eᵢ) has r predictors.
///
/// Under π̂ = N(θ̂, LLᵀ) they are Gaussian, ζ = ζ̂ + Cz with AᵢL = CO, the rows of O orthonormal. With CᵀE[∇²ℓ]C = QΛQᵀ a row is
/// the sum of r rows of one predictor: along the orthonormal directions uₐ = OᵀQₐ, with coefficients (QᵀCᵀE[∇ℓ])ₐ and λₐ/√2.
pub(in crate::embed) struct JointColumns {
    pub(super) model: JointPredictors,
    pub(super) posterior: Arc<Gaussian>,
    pub(super) order: usize,
    pub(super) coordinates: usize,
    multiplicities: Vec<f64>,
    /// The predictors in the order in which their directions are found: those with a constant input first, so that at a node they
    /// are the same for every row.
    pub(super) sequence: Vec<usize>,
    pub(super) nodes: Ladder,
}

/// One row, and the room that computing it takes.
#[derive(Debug, Clone)]
pub(in crate::embed) struct JointRow {
    /// r orthonormal directions of D numbers; zero for a predictor that depends on the others.
    pub(super) directions: Vec<f64>,
    /// The coefficients of each, of as many orders as are kept.
    pub(super) c: Vec<[f64; 2]>,
    /// ζ̂, E[∇ℓ] and E[∇²ℓ].
    pub(super) zeta: Vec<f64>,
    pub(super) gradient: Vec<f64>,
    pub(super) hessian: Vec<f64>,
    /// C, r × r: of predictor a along axis b.
    factor: Vec<f64>,
}

impl JointColumns {
    pub(in crate::embed) fn new(
        model: JointPredictors,
        posterior: Arc<Gaussian>,
        order: usize,
    ) -> Result<Self, EmbedError> {
        let dim = model.layout.dim();
        if !(1..=2).contains(&order) {
            return Err(EmbedError::JointOrder { model: model.family.name(), order });
        }
        if posterior.dim() != dim {
            return Err(EmbedError::Dimension { posterior: posterior.dim(), model: dim });
        }
        let inputs = model.layout.inputs();
        let of = |input: Inputs| (0..inputs.len()).filter(move |&a| inputs[a] == input);
        let sequence = of(Inputs::Constant).chain(of(Inputs::Features)).collect();
        let nodes = Ladder::new(inputs.len());
        let (coordinates, multiplicities) = (coordinates(dim, order), multiplicities(dim, order));
        Ok(Self { model, posterior, order, coordinates, multiplicities, sequence, nodes })
    }

    /// Room for a row.
    pub(super) fn row(&self) -> JointRow {
        let (r, dim) = (self.model.layout.predictors(), self.posterior.dim());
        JointRow {
            directions: vec![0.0; r * dim],
            c: vec![[0.0; 2]; r],
            zeta: vec![0.0; r],
            gradient: vec![0.0; r],
            hessian: vec![0.0; r * r],
            factor: vec![0.0; r * r],
        }
    }

    /// Computes row `i`.
    pub(super) fn fill(&self, i: usize, row: &mut JointRow) {
        let (r, dim) = (self.model.layout.predictors(), self.posterior.dim());
        self.moments(i, row);
        let JointRow { directions, c, gradient, hessian, factor, .. } = row;
        // CᵀE[∇²ℓ]C, by way of E[∇²ℓ]C.
        let product = |left: &dyn Fn(usize, usize) -> f64, right: &[f64]| -> Vec<f64> {
            let entry = |a: usize, b: usize| (0..r).map(|i| left(a, i) * right[i * r + b]).sum::<f64>();
            (0..r * r).map(|at| entry(at / r, at % r)).collect()
        };
        let half = product(&|a, i| hessian[a * r + i], factor);
        let mut spread = product(&|a, i| factor[i * r + a], &half);
        let slopes: Vec<f64> =
            (0..r).map(|a| (0..r).map(|i| factor[i * r + a] * gradient[i]).sum()).collect();
        let rotation = diagonalise(&mut spread, r);
        for (a, c) in c.iter_mut().enumerate() {
            let first: f64 = (0..r).map(|b| rotation[b * r + a] * slopes[b]).sum();
            let both = [first, spread[a * r + a] * std::f64::consts::FRAC_1_SQRT_2];
            *c = both.map(|c| if c.is_nan() { 0.0 } else { c.clamp(-LARGEST, LARGEST) });
        }
        let mut point = vec![0.0; r];
        for at in 0..dim {
            point.iter_mut().enumerate().for_each(|(b, x)| *x = directions[b * dim + at]);
            for a in 0..r {
                directions[a * dim + at] = (0..r).map(|b| rotation[b * r + a] * point[b]).sum();
            }
        }
    }

    /// ζ̂, C and O (among the directions) of row `i`, and E[∇ℓ] and E[∇²ℓ].
    pub(super) fn moments(&self, i: usize, row: &mut JointRow) {
        let JointPredictors { observations, family, layout } = &self.model;
        let (r, x) = (layout.predictors(), observations.row(i));
        layout.predict(observations, i, &self.posterior.mean, &mut row.zeta);
        self.whiten(x, row);
        let nodes = self.nodes.of_rung(self.nodes.rung(|a, axis| row.factor[a * r + axis]));
        row.gradient.fill(0.0);
        row.hessian.fill(0.0);
        let (mut zeta, mut gradient, mut hessian) = (vec![0.0; r], vec![0.0; r], vec![0.0; r * r]);
        for (z, weight) in nodes.points.chunks_exact(r).zip(&nodes.weights) {
            for (a, zeta) in zeta.iter_mut().enumerate() {
                *zeta = row.zeta[a] + dot(&row.factor[a * r..(a + 1) * r], z);
            }
            family.derivatives(&zeta, observations.target(i), &mut gradient, &mut hessian);
            row.gradient.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += weight * g);
            row.hessian.iter_mut().zip(&hessian).for_each(|(sum, h)| *sum += weight * h);
        }
        if let Some(weights) = &observations.weights {
            row.gradient.iter_mut().chain(&mut row.hessian).for_each(|mean| *mean *= weights[i]);
        }
    }

    /// AᵢL = CO by Gram and Schmidt, twice over, which keeps the rows of O orthogonal to rounding; predictors in their sequence.
    fn whiten(&self, x: &[f32], row: &mut JointRow) {
        let (r, dim) = (self.model.layout.predictors(), self.posterior.dim());
        let lower = |j: usize| &self.posterior.factor[j * dim..][..=j];
        row.factor.fill(0.0);
        let blocks: Vec<_> = self.model.layout.blocks().collect();
        for (axis, &a) in self.sequence.iter().enumerate() {
            let (input, block) = blocks[a].clone();
            let (before, rest) = row.directions.split_at_mut(axis * dim);
            let own = &mut rest[..dim];
            own.fill(0.0);
            match input {
                Inputs::Features => block.zip(x).for_each(|(j, &x)| add(own, f64::from(x), lower(j))),
                Inputs::Constant => add(own, 1.0, lower(block.start)),
            }
            let whole = dot(own, own).sqrt();
            for _ in 0..2 {
                for (b, other) in before.chunks_exact(dim).enumerate() {
                    let share = dot(own, other);
                    add(own, -share, other);
                    row.factor[a * r + b] += share;
                }
            }
            let length = dot(own, own).sqrt();
            if length > DEPENDENT * whole && length.is_normal() {
                own.iter_mut().for_each(|u| *u /= length);
                row.factor[a * r + axis] = length;
            } else {
                own.fill(0.0);
            }
        }
    }

    /// The column of row `i`.
    pub(super) fn column(&self, i: usize, row: &mut JointRow, out: &mut [f64]) {
        self.fill(i, row);
        out.fill(0.0);
        self.add_to(row, out);
        out.iter_mut().zip(&self.multiplicities).for_each(|(out, m)| *out *= m);
    }

    /// Adds a row's column to `sum`, without the multiplicities.
    pub(super) fn add_to(&self, row: &JointRow, sum: &mut [f64]) {
        for (c, direction) in row.c.iter().zip(row.directions.chunks_exact(self.posterior.dim())) {
            add_powers(&c[..self.order], direction, sum);
        }
    }

    /// Multiplies a sum of [`add_to`](Self::add_to) by the multiplicities.
    pub(super) fn scale(&self, sum: &mut [f64]) {
        sum.iter_mut().zip(&self.multiplicities).for_each(|(sum, m)| *sum *= m);
    }

    /// What the orders kept come to at θ̂ + Lz, but for a constant, by the coordinates of a column or of a sum of them.
    pub(super) fn at(&self, coordinates: &[f64], z: &[f64]) -> f64 {
        let mut powers = vec![0.0; self.coordinates];
        add_powers(&[1.0, std::f64::consts::FRAC_1_SQRT_2][..self.order], z, &mut powers);
        self.scale(&mut powers);
        dot(&powers, coordinates)
    }

    /// The columns of these rows.
    pub(in crate::embed) fn write(&self, ids: &[usize], out: &mut [f64]) {
        parallel::map(
            ids.chunks(parallel::ROWS).zip(out.chunks_mut(parallel::ROWS * self.coordinates)),
            |(ids, out)| {
                let mut row = self.row();
                for (id, out) in ids.iter().zip(out.chunks_exact_mut(self.coordinates)) {
                    self.column(*id, &mut row, out);
                }
            },
        );
    }

    /// E[∇ℓᵢ] and E[∇²ℓᵢ] of every row: gᵀδ + ½δᵀHδ is its orders 1 and 2 but for a constant, δ the shift of ζ.
    pub(in crate::embed) fn polynomials(&self) -> Result<JointPolynomials, RowsError> {
        let (r, all) = (self.model.layout.predictors(), &self.model.observations);
        let mut rows = all.features.beside(all.len() * r * (r + 1))?;
        for block in parallel::parts(all.len(), BLOCK) {
            let of_part = |ids: Range<usize>| {
                let mut row = self.row();
                let of_row = |id| {
                    self.moments(block.start + id, &mut row);
                    [&row.gradient[..], &row.hessian[..]].concat()
                };
                ids.flat_map(of_row).collect::<Vec<f64>>()
            };
            rows.push(&parallel::map(parallel::parts(block.len(), parallel::ROWS), of_part).concat())?;
        }
        Ok(JointPolynomials { predictors: r, rows: rows.finish()? })
    }
}

fn add(out: &mut [f64], scale: f64, from: &[f64]) {
    out.iter_mut().zip(from).for_each(|(out, x)| *out += scale * x);
}

/// gᵢᵀδ + ½δᵀHᵢδ of the shift δ of each row's predictors.
#[derive(Debug, Clone, PartialEq)]
pub struct JointPolynomials {
    predictors: usize,
    /// gᵢ and Hᵢ, one row after the other.
    rows: Held<f64>,
}

impl JointPolynomials {
    /// Number of rows.
    pub(in crate::embed) fn len(&self) -> usize {
        self.rows.len() / (self.predictors * (self.predictors + 1))
    }

    /// Subtracts the polynomial of row `i` at each of the shifts from `out`; `deltas` hold those of the first predictor, then those of the
    /// second, ….
    pub(in crate::embed) fn subtract(&self, i: usize, deltas: &[f64], out: &mut [f64]) {
        let r = self.predictors;
        let (gradient, hessian) = self.rows[i * r * (r + 1)..][..r * (r + 1)].split_at(r);
        let columns: Vec<&[f64]> = deltas.chunks_exact(out.len().max(1)).collect();
        for (a, first) in columns.iter().enumerate() {
            out.iter_mut().zip(*first).for_each(|(out, d)| *out -= gradient[a] * d);
            for (b, second) in columns[..=a].iter().enumerate() {
                let curvature = hessian[a * r + b] * if a == b { 0.5 } else { 1.0 };
                let pairs = first.iter().zip(*second);
                out.iter_mut().zip(pairs).for_each(|(out, (d, e))| *out -= curvature * d * e);
            }
        }
    }
}

/// Makes a small symmetric matrix diagonal in place by Jacobi's rotations, and returns Q with A = QΛQᵀ.
fn diagonalise(a: &mut [f64], dim: usize) -> Vec<f64> {
    const SWEEPS: usize = 30;
    let mut q: Vec<f64> = (0..dim * dim).map(|at| if at / dim == at % dim { 1.0 } else { 0.0 }).collect();
    if a.iter().any(|x| !x.is_finite()) {
        return q;
    }
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for (i, j) in (0..dim).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let off = a[i * dim + j];
            let (first, second) = (a[j * dim + j], a[i * dim + i]);
            if off.abs() <= f64::EPSILON * (first.abs() + second.abs()) * 0.25 {
                continue;
            }
            rotated = true;
            let ratio = (second - first) / (2.0 * off);
            let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let turn = (cosine, tangent * cosine);
            (0..dim).for_each(|k| rotate(a, (k * dim + j, k * dim + i), turn));
            (0..dim).for_each(|k| rotate(a, (j * dim + k, i * dim + k), turn));
            (0..dim).for_each(|k| rotate(&mut q, (k * dim + j, k * dim + i), turn));
        }
        if !rotated {
            break;
        }
    }
    q
}

fn rotate(a: &mut [f64], (i, j): (usize, usize), (cosine, sine): (f64, f64)) {
    (a[i], a[j]) = (cosine * a[i] - sine * a[j], sine * a[i] + cosine * a[j]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonal_forms_reconstruct() {
        for dim in [1, 2, 3, 6] {
            let entry = |i: usize, j: usize| ((1 + i.min(j) * 7 + i.max(j) * 3) as f64).sin();
            let matrix: Vec<f64> = (0..dim * dim).map(|at| entry(at / dim, at % dim)).collect();
            let mut diagonal = matrix.clone();
            let q = diagonalise(&mut diagonal, dim);
            for i in 0..dim {
                for j in 0..dim {
                    let back: f64 =
                        (0..dim).map(|k| q[i * dim + k] * diagonal[k * dim + k] * q[j * dim + k]).sum();
                    assert!((back - matrix[i * dim + j]).abs() < 1e-13, "{dim}: {i} {j}");
                }
            }
        }
    }
}
