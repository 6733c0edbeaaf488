//! Exact covariances for log-likelihoods that are quadratic in a linear predictor: linear regression.
//!
//! With Σ₀ = L₀L₀ᵀ, θ = μ₀ + L₀ξ and hᵢ = −ℓᵢ″ > 0, let tᵢ = x̃ᵢᵀξ, x̃ᵢ = √hᵢ·L₀ᵀxᵢ and yᵢ = ℓᵢ′(xᵢᵀμ₀)/√hᵢ. Then ξ ~ N(0, I)
//! a priori and ℓᵢ = yᵢtᵢ − ½tᵢ² + const. Under π_w, with V and m the covariance and the mean of ξ,
//!
//! > Cov(ℓᵢ, ℓⱼ) = νᵢνⱼqᵢⱼ + ½qᵢⱼ²,   νᵢ = yᵢ − x̃ᵢᵀm,   qᵢⱼ = x̃ᵢᵀVx̃ⱼ.
//!
//! A gradient stays within the k active rows A, whatever n and D are. With K = X̃_AX̃_Aᵀ, C = (I + KW)⁻¹,
//! H = X̃_AX̃ᵀX̃X̃_Aᵀ and t = X̃_AX̃ᵀy, which grow by a row and a column a point,
//!
//! > ν_A = Cy_A,  q_AA = CK,  Cov(ℓₐ, L − L_w) = νₐ[C(t − (H + K)Wν_A)]ₐ + ½[CHCᵀ]ₐₐ − ½Σ_b w_b·q_ab².

use faer::Mat;
use faer::prelude::MatRef;
use rayon::prelude::*;

use super::{Active, SparseViError, Tangent};
use crate::laplace::{Gaussian, Prior};
use crate::linalg::{Cholesky, dot, gram, multiply, row_major};
use crate::model::LinearPredictor;

/// Rows of one product.
const BLOCK: usize = 64;

pub(super) struct Quadratic {
    dim: usize,
    /// x̃ᵢ, one row after the other, and yᵢ.
    features: Vec<f64>,
    targets: Vec<f64>,
    /// X̃ᵀX̃ and X̃ᵀy.
    scatter: Vec<f64>,
    cross: Vec<f64>,
    /// How many active rows K, H and t are known of.
    known: usize,
    kernel: Mat<f64>,
    squared: Mat<f64>,
    moments: Vec<f64>,
    passes: f64,
}

impl Quadratic {
    /// `None` where the log-likelihoods are not quadratic with a curvature.
    pub(super) fn new(model: &LinearPredictor<'_>, prior: &Prior) -> Result<Option<Self>, SparseViError> {
        let dim = prior.dim();
        let Some(jets) = jets(model, prior) else { return Ok(None) };
        let factor = Gaussian::from_precision(prior.mean.clone(), prior.precision.clone())?.factor;
        let transposed = row_major(dim, |i, j| factor[j * dim + i]);
        let mut features = vec![0.0; model.observations.len() * dim];
        let rows = model.observations.features.par_chunks_exact(dim);
        features.par_chunks_exact_mut(dim).zip(rows).zip(&jets).for_each(|((out, x), (_, root))| {
            multiply(&transposed, x, out);
            out.iter_mut().for_each(|out| *out *= root);
        });
        let targets: Vec<f64> = jets.iter().map(|(slope, root)| slope / root).collect();
        let scatter = gram(&features, targets.len(), dim);
        let mut cross = vec![0.0; dim];
        for (x, &y) in features.chunks_exact(dim).zip(&targets) {
            add(&mut cross, x, y);
        }
        let (kernel, squared, moments) = (Mat::new(), Mat::new(), Vec::new());
        Ok(Some(Self {
            dim,
            features,
            targets,
            scatter,
            cross,
            known: 0,
            kernel,
            squared,
            moments,
            passes: 1.0,
        }))
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.features[i * self.dim..][..self.dim]
    }

    /// Extends K, H and t to the rows that have become active.
    fn grow(&mut self, rows: &[usize]) {
        let mut image = vec![0.0; self.dim];
        for &row in &rows[self.known..] {
            let x = &self.features[row * self.dim..][..self.dim];
            multiply(&self.scatter, x, &mut image);
            let others = &rows[..=self.known];
            let of = |i: usize| &self.features[others[i] * self.dim..][..self.dim];
            let size = others.len();
            let beside = |i: usize, j: usize| of(i.min(j));
            self.kernel.resize_with(size, size, |i, j| dot(beside(i, j), x));
            self.squared.resize_with(size, size, |i, j| dot(beside(i, j), &image));
            self.moments.push(dot(x, &self.cross));
            self.known += 1;
        }
    }

    /// C = (I + KW)⁻¹ = I − K·S(I + SKS)⁻¹S with S = √W, which is never more than W^½ away from singular.
    fn resolvent(&self, weights: &[f64]) -> Result<Mat<f64>, SparseViError> {
        let size = weights.len();
        let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
        let balanced = row_major(size, |i, j| {
            (if i == j { 1.0 } else { 0.0 }) + roots[i] * self.kernel[(i, j)] * roots[j]
        });
        let mut half = Cholesky::new(&balanced, size)?.inverse_factor();
        for row in half.chunks_exact_mut(size) {
            row.iter_mut().zip(&roots).for_each(|(x, root)| *x *= root);
        }
        let inner = gram(&half, size, size);
        let mut resolvent = &self.kernel * MatRef::from_row_major_slice(&inner, size, size) * -1.0;
        (0..size).for_each(|i| resolvent[(i, i)] += 1.0);
        Ok(resolvent)
    }
}

impl Tangent for Quadratic {
    fn correlations(&mut self, active: &Active) -> Result<Vec<f64>, SparseViError> {
        self.passes += 1.0;
        let dim = self.dim;
        let State { mean, covariance, slope, bend } = self.state(active)?;
        let covariance = MatRef::from_row_major_slice(&covariance, dim, dim);
        let bend = MatRef::from_row_major_slice(&bend, dim, dim);
        let correlation = |(block, y): (&[f64], &[f64])| -> Vec<f64> {
            let rows = MatRef::from_row_major_slice(block, y.len(), dim);
            let (spread, bent) = (rows * covariance, rows * bend);
            let of_row = |(i, (x, y)): (usize, (&[f64], &f64))| {
                let along = |image: &Mat<f64>| (0..dim).map(|j| image[(i, j)] * x[j]).sum::<f64>();
                let (nu, q) = (y - dot(x, &mean), along(&spread));
                let variance = nu * nu * q + 0.5 * q * q;
                let shared = nu * dot(x, &slope) + 0.5 * along(&bent);
                if variance > 0.0 { shared / variance.sqrt() } else { 0.0 }
            };
            block.chunks_exact(dim).zip(y).enumerate().map(of_row).collect()
        };
        let blocks = self.features.par_chunks(BLOCK * dim).zip(self.targets.par_chunks(BLOCK));
        Ok(blocks.flat_map_iter(correlation).collect())
    }

    fn gradient(&mut self, active: &Active, gradient: &mut [f64]) -> Result<(), SparseViError> {
        self.grow(&active.rows);
        let size = active.rows.len();
        let resolvent = self.resolvent(&active.weights)?;
        let targets: Vec<f64> = active.rows.iter().map(|&row| self.targets[row]).collect();
        let nu = times(&resolvent, &targets);
        let weighted: Vec<f64> = nu.iter().zip(&active.weights).map(|(nu, w)| nu * w).collect();
        let (through_all, through_own) = (times(&self.squared, &weighted), times(&self.kernel, &weighted));
        let missing: Vec<f64> =
            (0..size).map(|i| self.moments[i] - through_all[i] - through_own[i]).collect();
        let linear = times(&resolvent, &missing);
        let (bent, own) = (&resolvent * &self.squared, &resolvent * &self.kernel);
        for (a, g) in gradient.iter_mut().enumerate() {
            let all: f64 = (0..size).map(|b| bent[(a, b)] * resolvent[(a, b)]).sum();
            let kept: f64 = (0..size).map(|b| active.weights[b] * own[(a, b)].powi(2)).sum();
            *g = -(nu[a] * linear[a] + 0.5 * (all - kept));
        }
        Ok(())
    }

    fn passes(&self) -> f64 {
        self.passes
    }
}

/// π_w in D dimensions, and L − L_w under it: Cov(ℓᵢ, L − L_w) = νᵢ·x̃ᵢᵀ`slope` + ½x̃ᵢᵀ`bend`·x̃ᵢ.
struct State {
    mean: Vec<f64>,
    covariance: Vec<f64>,
    slope: Vec<f64>,
    bend: Vec<f64>,
}

impl Quadratic {
    fn state(&self, active: &Active) -> Result<State, SparseViError> {
        let dim = self.dim;
        let mut scaled = Vec::with_capacity(active.rows.len() * dim);
        for (&row, weight) in active.rows.iter().zip(&active.weights) {
            scaled.extend(self.row(row).iter().map(|x| weight.sqrt() * x));
        }
        let kept = gram(&scaled, active.rows.len(), dim);
        let precision = row_major(dim, |i, j| kept[i * dim + j] + if i == j { 1.0 } else { 0.0 });
        let cholesky = Cholesky::new(&precision, dim)?;

        let mut mean = vec![0.0; dim];
        for (&row, weight) in active.rows.iter().zip(&active.weights) {
            add(&mut mean, self.row(row), weight * self.targets[row]);
        }
        cholesky.solve(&mut mean);
        // Σ(1 − wᵢ)νᵢx̃ᵢ: all rows less the active ones.
        let mut slope = vec![0.0; dim];
        multiply(&self.scatter, &mean, &mut slope);
        slope.iter_mut().zip(&self.cross).for_each(|(s, c)| *s = c - *s);
        for (&row, weight) in active.rows.iter().zip(&active.weights) {
            let x = self.row(row);
            add(&mut slope, x, -weight * (self.targets[row] - dot(x, &mean)));
        }
        cholesky.solve(&mut slope);

        let covariance = cholesky.inverse();
        let missing = row_major(dim, |i, j| self.scatter[i * dim + j] - kept[i * dim + j]);
        let bend = crate::linalg::congruence(&covariance, &missing, dim);
        Ok(State { mean, covariance, slope, bend })
    }
}

/// ℓᵢ′ at xᵢᵀμ₀ and √−ℓᵢ″ of every row; `None` unless ℓ‴ = 0 and ℓ″ < 0 for all.
fn jets(model: &LinearPredictor<'_>, prior: &Prior) -> Option<Vec<(f64, f64)>> {
    let jet = |i: usize| {
        let (y, exposure) = model.target(i);
        let eta = dot(model.observations.row(i), &prior.mean);
        let [slope, curvature, third] = model.family.derivatives(eta, y, exposure);
        // A symmetric family has ℓ‴ = 0 in its centre too, so one place does not tell.
        let elsewhere = model.family.derivatives(eta + 1.0, y, exposure)[2];
        (third == 0.0 && elsewhere == 0.0 && curvature < 0.0).then(|| (slope, (-curvature).sqrt()))
    };
    (0..model.observations.len()).map(jet).collect()
}

fn times(matrix: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    let product = matrix * MatRef::from_column_major_slice(x, x.len(), 1);
    (0..x.len()).map(|i| product[(i, 0)]).collect()
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
