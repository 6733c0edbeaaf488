//! Exact covariances for the mean of a Gaussian, in coordinates in which prior and likelihood are both diagonal.
//!
//! With Σ₀ = L₀L₀ᵀ, L₀ᵀΣₓ⁻¹L₀ = UΛUᵀ and θ = μ₀ + L₀Uξ, the prior of ξ is N(0, I) and
//!
//! > ℓᵢ = bᵢᵀξ − ½ξᵀΛξ + const,   bᵢ = UᵀL₀ᵀΣₓ⁻¹(xᵢ − μ₀).
//!
//! Under total weight s, ξ has the precisions 1 + sλ and the mean m = Σwᵢbᵢ/(1 + sλ), so that
//!
//! > Cov(ℓᵢ, ℓⱼ) = Σ_d (bᵢ − λm)_d(bⱼ − λm)_d/(1 + sλ_d) + ½Σ_d λ_d²/(1 + sλ_d)²
//!
//! and a gradient costs O(kD): no factorisation, and of the other rows only Σbᵢ.

use super::{Active, SparseViError, Tangent};
use crate::linalg::{congruence, dot, leading_eigenvectors, multiply, quadratic_form};
use crate::model::{GaussianMean, Model};
use crate::parallel;
use crate::posterior::{Gaussian, Prior};

pub(super) struct ConjugateMean {
    dim: usize,
    /// bᵢ, one row after the other, and their sum.
    slopes: Vec<f64>,
    total: Vec<f64>,
    /// Curvatures λ, one a dimension.
    curvatures: Vec<f64>,
    passes: f64,
}

/// What all rows share under π_w.
struct Shared {
    /// λm, and 1/(1 + sλ).
    pull: Vec<f64>,
    variances: Vec<f64>,
    /// Var(½ξᵀΛξ) and its share n − s in L − L_w.
    square: f64,
    missing: f64,
    /// The linear part of L − L_w, times the variances.
    residual: Vec<f64>,
}

impl ConjugateMean {
    pub(super) fn new(model: &GaussianMean, prior: &Prior) -> Result<Self, SparseViError> {
        let dim = model.dim();
        let prior = Gaussian::from_precision(prior.mean.clone(), prior.precision.clone())?;
        let curvature = congruence(&prior.factor, model.precision(), dim);
        let basis = leading_eigenvectors(&curvature, dim, dim)?;
        let curvatures = basis.chunks_exact(dim).map(|u| quadratic_form(&curvature, u).max(0.0)).collect();
        let map = slope_map(&basis, &prior.factor, model.precision(), dim);
        let mut slopes = vec![0.0; model.len() * dim];
        let rows = model.observations().features.chunks(parallel::ROWS * dim);
        parallel::map(slopes.chunks_mut(parallel::ROWS * dim).zip(rows), |(slopes, rows)| {
            let mut shift = vec![0.0; dim];
            for (slope, x) in slopes.chunks_exact_mut(dim).zip(rows.chunks_exact(dim)) {
                shift
                    .iter_mut()
                    .zip(x.iter().zip(&prior.mean))
                    .for_each(|(s, (&x, m))| *s = f64::from(x) - m);
                multiply(&map, &shift, slope);
            }
        });
        let mut total = vec![0.0; dim];
        slopes.chunks_exact(dim).for_each(|slope| add(&mut total, slope, 1.0));
        Ok(Self { dim, slopes, total, curvatures, passes: 1.0 })
    }

    fn slope(&self, row: usize) -> &[f64] {
        &self.slopes[row * self.dim..][..self.dim]
    }

    fn len(&self) -> usize {
        self.slopes.len() / self.dim
    }

    fn shared(&self, active: &Active) -> Shared {
        let weight: f64 = active.weights.iter().sum();
        let mut weighted = vec![0.0; self.dim];
        for (&row, &weight) in active.rows.iter().zip(&active.weights) {
            add(&mut weighted, self.slope(row), weight);
        }
        let variances: Vec<f64> = self.curvatures.iter().map(|l| 1.0 / (1.0 + weight * l)).collect();
        let missing = self.len() as f64 - weight;
        let each = || weighted.iter().zip(&variances).zip(&self.curvatures);
        let pull: Vec<f64> = each().map(|((w, v), l)| l * w * v).collect();
        let square = 0.5 * each().map(|((_, v), l)| (l * v).powi(2)).sum::<f64>();
        let linear = self.total.iter().zip(&weighted).zip(&pull);
        let residual = linear.zip(&variances).map(|(((t, w), p), v)| (t - w - missing * p) * v).collect();
        Shared { pull, variances, square, missing, residual }
    }
}

impl Shared {
    /// Cov(ℓᵢ, L − L_w) of the row with this slope.
    fn covariance(&self, slope: &[f64]) -> f64 {
        let linear = slope.iter().zip(&self.pull).zip(&self.residual);
        linear.map(|((b, p), r)| (b - p) * r).sum::<f64>() + self.missing * self.square
    }

    fn variance(&self, slope: &[f64]) -> f64 {
        let linear = slope.iter().zip(&self.pull).zip(&self.variances);
        linear.map(|((b, p), v)| (b - p).powi(2) * v).sum::<f64>() + self.square
    }
}

impl Tangent for ConjugateMean {
    fn correlations(&mut self, active: &Active) -> Result<Vec<f64>, SparseViError> {
        self.passes += 1.0;
        let shared = self.shared(active);
        let correlation = |slope: &[f64]| shared.covariance(slope) / shared.variance(slope).sqrt();
        let of_part = |slopes: &[f64]| slopes.chunks_exact(self.dim).map(correlation).collect::<Vec<f64>>();
        Ok(parallel::map(self.slopes.chunks(parallel::ROWS * self.dim), of_part).concat())
    }

    fn gradient(&mut self, active: &Active, gradient: &mut [f64]) -> Result<(), SparseViError> {
        let shared = self.shared(active);
        for (g, &row) in gradient.iter_mut().zip(&active.rows) {
            *g = -shared.covariance(self.slope(row));
        }
        Ok(())
    }

    fn passes(&self) -> f64 {
        self.passes
    }
}

/// UᵀLᵀP, row-major, from the rows of Uᵀ.
fn slope_map(basis: &[f64], factor: &[f64], precision: &[f64], dim: usize) -> Vec<f64> {
    let mut map = vec![0.0; dim * dim];
    let mut image = vec![0.0; dim];
    for (u, row) in basis.chunks_exact(dim).zip(map.chunks_exact_mut(dim)) {
        factor.chunks_exact(dim).zip(&mut image).for_each(|(l, out)| *out = dot(l, u));
        multiply(precision, &image, row);
    }
    map
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
