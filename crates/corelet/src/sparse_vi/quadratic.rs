//! Exact covariances for log-likelihoods that are quadratic in a linear predictor: linear regression.
//!
//! With Σ₀ = L₀L₀ᵀ, θ = μ₀ + L₀ξ and hᵢ = −ℓᵢ″ > 0, let tᵢ = x̃ᵢᵀξ, x̃ᵢ = √hᵢ·L₀ᵀxᵢ and yᵢ = ℓᵢ′(xᵢᵀμ₀)/√hᵢ. Then ξ ~ N(0, I)
//! a priori and ℓᵢ = yᵢtᵢ − ½tᵢ² + const. Under π_w, with V and m the covariance and the mean of ξ,
//!
//! > Cov(ℓᵢ, ℓⱼ) = νᵢνⱼqᵢⱼ + ½qᵢⱼ²,   νᵢ = yᵢ − x̃ᵢᵀm,   qᵢⱼ = x̃ᵢᵀVx̃ⱼ,
//!
//! and summed over j with the weights 1 − wⱼ, Cov(ℓᵢ, L − L_w) = νᵢ·x̃ᵢᵀVs + ½(Vx̃ᵢ)ᵀΓ(Vx̃ᵢ), s = Σ(1 − wⱼ)νⱼx̃ⱼ and
//! Γ = Σ(1 − wⱼ)x̃ⱼx̃ⱼᵀ: of the rows outside the coreset only X̃ᵀX̃ and X̃ᵀy are needed.
//!
//! A gradient asks for active rows alone, and they span no more than k of the D dimensions: it is taken in an orthonormal
//! basis of theirs, to which each new point adds a vector, at O(k³) while k < D.

use faer::prelude::MatRef;

use super::{Active, SparseViError, Tangent};
use crate::linalg::{Cholesky, LinalgError, dot, dot_features, gram, multiply, row_major};
use crate::model::LinearPredictor;
use crate::parallel;
use crate::posterior::{Gaussian, Prior};

/// Rows of one product.
const BLOCK: usize = 64;

/// A row with less than this share of it outside the basis adds nothing to the basis.
const INSIDE: f64 = 1e-10;

pub(super) struct Quadratic {
    dim: usize,
    /// x̃ᵢ, one row after the other, and yᵢ.
    features: Vec<f64>,
    targets: Vec<f64>,
    /// X̃ᵀX̃ and X̃ᵀy.
    sums: Sums,
    span: Span,
    passes: f64,
}

/// X̃ᵀX̃, row-major, and X̃ᵀy in some orthonormal basis.
#[derive(Default)]
struct Sums {
    scatter: Vec<f64>,
    cross: Vec<f64>,
}

/// The active rows in an orthonormal basis of their span.
#[derive(Default)]
struct Span {
    /// Orthonormal vectors of length D.
    basis: Vec<Vec<f64>>,
    /// How many rows there are, and their coordinates, one row after the other.
    count: usize,
    rows: Vec<f64>,
    sums: Sums,
}

impl Quadratic {
    /// `None` where the log-likelihoods are not quadratic with a curvature.
    pub(super) fn new(model: &LinearPredictor, prior: &Prior) -> Result<Option<Self>, SparseViError> {
        let dim = prior.dim();
        let Some(jets) = jets(model, prior) else { return Ok(None) };
        let factor = Gaussian::from_precision(prior.mean.clone(), prior.precision.clone())?.factor;
        let transposed = row_major(dim, |i, j| factor[j * dim + i]);
        let mut features = vec![0.0; model.observations.len() * dim];
        let rows = model.observations.features.chunks(BLOCK * dim).zip(jets.chunks(BLOCK));
        parallel::map(features.chunks_mut(BLOCK * dim).zip(rows), |(features, (rows, jets))| {
            let rows = rows.chunks_exact(dim).zip(jets);
            for (out, (x, (_, root))) in features.chunks_exact_mut(dim).zip(rows) {
                for (row, out) in transposed.chunks_exact(dim).zip(out) {
                    *out = root * dot_features(x, row);
                }
            }
        });
        let targets: Vec<f64> = jets.iter().map(|(slope, root)| slope / root).collect();
        let mut cross = vec![0.0; dim];
        for (x, &y) in features.chunks_exact(dim).zip(&targets) {
            add(&mut cross, x, y);
        }
        let sums = Sums { scatter: gram(&features, targets.len(), dim), cross };
        Ok(Some(Self { dim, features, targets, sums, span: Span::default(), passes: 1.0 }))
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.features[i * self.dim..][..self.dim]
    }

    fn active_targets(&self, active: &Active) -> Vec<f64> {
        active.rows.iter().map(|&row| self.targets[row]).collect()
    }
}

impl Tangent for Quadratic {
    fn correlations(&mut self, active: &Active) -> Result<Vec<f64>, SparseViError> {
        self.passes += 1.0;
        let rows: Vec<f64> = active.rows.iter().flat_map(|&row| self.row(row).iter().copied()).collect();
        let state = State::new(&rows, &self.active_targets(active), &active.weights, &self.sums)?;
        let correlation = |(rows, targets): (&[f64], &[f64])| {
            let moments = state.moments(rows, targets).into_iter();
            let scale =
                |m: PairMoments| if m.variance > 0.0 { m.covariance / m.variance.sqrt() } else { 0.0 };
            moments.map(scale).collect::<Vec<f64>>()
        };
        let blocks = self.features.chunks(BLOCK * self.dim).zip(self.targets.chunks(BLOCK));
        Ok(parallel::map(blocks, correlation).concat())
    }

    fn gradient(&mut self, active: &Active, gradient: &mut [f64]) -> Result<(), SparseViError> {
        for &row in &active.rows[self.span.count..] {
            self.span.admit(&self.features[row * self.dim..][..self.dim], &self.sums);
        }
        let Span { rows, sums, .. } = &self.span;
        let targets = self.active_targets(active);
        let moments = State::new(rows, &targets, &active.weights, sums)?.moments(rows, &targets);
        gradient.iter_mut().zip(moments).for_each(|(g, m)| *g = -m.covariance);
        Ok(())
    }

    fn passes(&self) -> f64 {
        self.passes
    }
}

impl Span {
    /// Adds a row, and what of it lies outside the basis to the basis, by Gram–Schmidt applied twice.
    fn admit(&mut self, x: &[f64], all: &Sums) {
        let mut rest = x.to_vec();
        let mut row = vec![0.0; self.basis.len()];
        for _ in 0..2 {
            for (vector, coordinate) in self.basis.iter().zip(&mut row) {
                let share = dot(vector, &rest);
                add(&mut rest, vector, -share);
                *coordinate += share;
            }
        }
        let outside = dot(&rest, &rest).sqrt();
        if outside > INSIDE * dot(x, x).sqrt() {
            rest.iter_mut().for_each(|x| *x /= outside);
            row.push(outside);
            self.widen(rest, all);
        }
        self.rows.extend(row);
        self.count += 1;
    }

    /// Adds a vector to the basis: rows so far have nothing of it.
    fn widen(&mut self, vector: Vec<f64>, all: &Sums) {
        let size = self.basis.len();
        let rows = (0..self.count).flat_map(|row| (0..=size).map(move |at| (row, at)));
        let old = |(row, at): (usize, usize)| if at < size { self.rows[row * size + at] } else { 0.0 };
        self.rows = rows.map(old).collect();
        let mut image = vec![0.0; vector.len()];
        multiply(&all.scatter, &vector, &mut image);
        self.sums.cross.push(dot(&vector, &all.cross));
        self.basis.push(vector);
        let shares: Vec<f64> = self.basis.iter().map(|vector| dot(vector, &image)).collect();
        let old = std::mem::take(&mut self.sums.scatter);
        self.sums.scatter =
            row_major(size + 1, |i, j| if i.max(j) < size { old[i * size + j] } else { shares[i.min(j)] });
    }
}

/// Cov(ℓᵢ, L − L_w) and Var ℓᵢ.
struct PairMoments {
    covariance: f64,
    variance: f64,
}

/// π_w and L − L_w under it.
struct State {
    /// Of V⁻¹ = I + X̃_AᵀWX̃_A.
    precision: Cholesky,
    /// m and Vs.
    mean: Vec<f64>,
    slope: Vec<f64>,
    /// Γ, row-major.
    missing: Vec<f64>,
}

impl State {
    /// From the active rows, one after the other, their targets and weights, and the sums over all data.
    fn new(rows: &[f64], targets: &[f64], weights: &[f64], sums: &Sums) -> Result<Self, LinalgError> {
        let size = sums.cross.len();
        let each = || rows.chunks_exact(size.max(1)).zip(targets).zip(weights);
        let scaled: Vec<f64> = each().flat_map(|((x, _), w)| x.iter().map(move |x| w.sqrt() * x)).collect();
        let kept = gram(&scaled, targets.len(), size);
        let unit = |i, j| if i == j { 1.0 } else { 0.0 };
        let precision = Cholesky::new(&row_major(size, |i, j| kept[i * size + j] + unit(i, j)), size)?;

        let mut mean = vec![0.0; size];
        each().for_each(|((x, y), w)| add(&mut mean, x, w * y));
        precision.solve(&mut mean);
        let mut slope = vec![0.0; size];
        multiply(&sums.scatter, &mean, &mut slope);
        slope.iter_mut().zip(&sums.cross).for_each(|(s, c)| *s = c - *s);
        each().for_each(|((x, y), w)| add(&mut slope, x, -w * (y - dot(x, &mean))));
        precision.solve(&mut slope);
        let missing = sums.scatter.iter().zip(&kept).map(|(all, kept)| all - kept).collect();
        Ok(Self { precision, mean, slope, missing })
    }

    /// Of these rows. Vx̃ is solved for, row by row: V itself, times a row that is long where V is narrow, would cancel.
    fn moments(&self, rows: &[f64], targets: &[f64]) -> Vec<PairMoments> {
        let (size, count) = (self.mean.len(), targets.len());
        let mut images = rows.to_vec();
        self.precision.solve(&mut images);
        let bent = MatRef::from_row_major_slice(&images, count, size)
            * MatRef::from_row_major_slice(&self.missing, size, size);
        let each = rows.chunks_exact(size).zip(images.chunks_exact(size)).zip(targets).enumerate();
        each.map(|(i, ((x, image), y))| {
            let (nu, q) = (y - dot(x, &self.mean), dot(x, image));
            let bend: f64 = image.iter().enumerate().map(|(j, v)| v * bent[(i, j)]).sum();
            PairMoments {
                covariance: nu * dot(x, &self.slope) + 0.5 * bend,
                variance: nu * nu * q + 0.5 * q * q,
            }
        })
        .collect()
    }
}

/// ℓᵢ′ at xᵢᵀμ₀ + oᵢ and √−ℓᵢ″ of every row; `None` unless ℓ‴ = 0 and ℓ″ < 0 for all.
fn jets(model: &LinearPredictor, prior: &Prior) -> Option<Vec<(f64, f64)>> {
    let jet = |i: usize| {
        let [slope, curvature, third] = model.derivatives(i, &prior.mean);
        let ((y, exposure), eta) =
            (model.observations.target(i), model.observations.predictor(i, &prior.mean));
        // A symmetric family has ℓ‴ = 0 in its centre too, so one place does not tell.
        let elsewhere = model.family.derivatives(eta + 1.0, y, exposure)[2];
        (third == 0.0 && elsewhere == 0.0 && curvature < 0.0).then(|| (slope, (-curvature).sqrt()))
    };
    (0..model.observations.len()).map(jet).collect()
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
