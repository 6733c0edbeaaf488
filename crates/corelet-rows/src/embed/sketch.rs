//! The log-likelihood of all rows at any draws, without another pass: orders 1 and 2 exactly, the rest from a sample.

use std::sync::Arc;

use sparse_nnls::{Candidate, race_clock};

use super::hermite::coordinates;
use super::recipe::Recipe;
use crate::linalg::dot;
use crate::model::{Model, Shifts};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::{Gather, Gathered, Rows, RowsError};

/// Rows in the sample, and the one that is left out: what is left of order 3 and above is then known to about Σᵢ‖rᵢ‖/64.
const SAMPLED: usize = 4096;

/// Up to this number of rows, a pass over all of them is cheap enough.
const FEW_ROWS: usize = 100_000;

/// Remainders computed by one thread at a time.
const PART: usize = 16;

/// L(θ) = Σᵢ ℓᵢ(θ), from what one `gather` brings.
///
/// With pᵢ the orders 1 and 2 of ℓᵢ under π̂ and rᵢ = ℓᵢ − pᵢ, L = Σᵢ pᵢ + Σᵢ rᵢ for every θ, whether or not π̂ is near. The first
/// sum is a polynomial whose coefficients are y, the sum of the embedding's columns: with θ = θ̂ + Lz
///
/// > Σᵢ pᵢ(θ) = Σ_α y_α He_α(z)/√α! + const.
///
/// The second is estimated from a race among the rows: row i, with an exponential clock Eᵢ, has the score ‖φᵢ‖/Eᵢ, and those
/// above τ, the best score that is left out, are the sample. Given the other clocks a row is in it with the chance
/// πᵢ = 1 − exp(−‖φᵢ‖/τ), so that
///
/// > R̂(θ) = Σ_sample rᵢ(θ)/πᵢ
///
/// has the expectation Σᵢ rᵢ(θ), and Σ_sample rᵢ²(1 − πᵢ)/πᵢ² that of its variance (Cohen and Kaplan's conditioning on ranks, under
/// which different rows are uncorrelated). As rᵢ is smaller than φᵢ by a power of the posterior's width, this is little where the rows are
/// many; [`Sketched`] says how little.
pub struct Sketch {
    posterior: Arc<Gaussian>,
    /// y of orders 1 and 2.
    sum: Vec<f64>,
    /// The sampled rows.
    model: Arc<dyn Model>,
    chances: Vec<f64>,
}

impl Sketch {
    /// How many of so many rows it samples: none if all can be looked at, or where orders 1 and 2 are not exact.
    pub(super) fn sampled(recipe: &Recipe, rows: usize) -> usize {
        if rows > FEW_ROWS && with_exact_orders(recipe).is_some() { SAMPLED } else { 0 }
    }

    /// From the answer to a question that asked for a sample apart; none if it did not, or where orders 1 and 2 are not exact.
    ///
    /// # Errors
    /// If the rows that came are no data of the likelihood.
    pub fn new(
        rows: &dyn Rows,
        question: &Gather,
        Gathered { sum, sample: found, .. }: &Gathered,
    ) -> Result<Option<Self>, RowsError> {
        let Some(posterior) = with_exact_orders(&question.recipe) else { return Ok(None) };
        let Some(race) = found.candidates.get(1) else { return Ok(None) };
        let Some((left_out, sample)) = race.split_last() else { return Ok(None) };
        // Where fewer came than were asked for, all have come.
        let whole = race.len() < question.apart;
        let sample = if whole { race } else { sample };
        let chance = |candidate: &Candidate| {
            let norm = candidate.score * race_clock(question.seed_apart(), candidate.id);
            if whole { 1.0 } else { -(-norm / left_out.score).exp_m1() }
        };
        let places: Vec<usize> =
            sample.iter().filter_map(|candidate| found.ids.binary_search(&candidate.id).ok()).collect();
        Ok(Some(Self {
            posterior: Arc::clone(posterior),
            sum: sum[..coordinates(posterior.dim(), 2)].to_vec(),
            model: rows.bind(found.rows.select(&places))?,
            chances: sample.iter().map(chance).collect(),
        }))
    }

    /// Number of rows in the sample.
    pub fn rows(&self) -> usize {
        self.chances.len()
    }

    /// L at `anchor` + Δₛ for each s, but for a constant.
    ///
    /// # Errors
    /// If a log-likelihood has no remainder.
    pub fn at(&self, anchor: &[f64], shifts: &Shifts) -> Result<Sketched, RowsError> {
        let count = shifts.len();
        let moved = (0..count).flat_map(|s| {
            let from_mean = anchor.iter().zip(&self.posterior.mean).zip(shifts.row(s));
            from_mean.map(|((anchor, mean), shift)| anchor - mean + shift)
        });
        let shifts = Shifts::new(moved.collect(), self.posterior.dim());
        let mut totals: Vec<f64> = (0..count).map(|s| self.polynomial(shifts.row(s))).collect();
        let mut noise = self.remainders(&shifts)?;
        for (remainder, chance) in noise.chunks_exact_mut(count.max(1)).zip(&self.chances) {
            let mean = remainder.iter().sum::<f64>() / count as f64;
            let spread = (1.0 - chance).sqrt() / chance;
            for (r, total) in remainder.iter_mut().zip(&mut totals) {
                *total += *r / chance;
                *r = (*r - mean) * spread;
            }
        }
        Ok(Sketched { totals, noise })
    }

    /// Σ_α y_α He_α(z)/√α! at θ̂ + `shift`, orders 1 and 2.
    fn polynomial(&self, shift: &[f64]) -> f64 {
        let z = self.posterior.whitened(shift);
        let (linear, mut pairs) = self.sum.split_at(z.len());
        let mut value = dot(linear, &z);
        for (i, &x) in z.iter().enumerate() {
            let (of_i, rest) = pairs.split_at(z.len() - i);
            value +=
                of_i[0] * (x * x - 1.0) * std::f64::consts::FRAC_1_SQRT_2 + x * dot(&of_i[1..], &z[i + 1..]);
            pairs = rest;
        }
        value
    }

    /// rᵢ(θ̂ + Δₛ), but for a constant a row: a line for each row of the sample.
    fn remainders(&self, shifts: &Shifts) -> Result<Vec<f64>, RowsError> {
        let recipe = Recipe::HermiteDraws { posterior: Arc::clone(&self.posterior), shifts: shifts.clone() };
        let differences = recipe.remainders(&self.model)?;
        let mut lines = vec![0.0; self.rows() * shifts.len()];
        let places: Vec<usize> = (0..self.rows()).collect();
        let parts = places.chunks(PART).zip(lines.chunks_mut(PART * shifts.len().max(1)));
        parallel::map(parts, |(places, lines)| differences.wide(places, lines));
        Ok(lines)
    }
}

/// π̂ of an embedding whose first coordinates are orders 1 and 2.
fn with_exact_orders(recipe: &Recipe) -> Option<&Arc<Gaussian>> {
    match recipe {
        Recipe::Hermite { posterior, order } if *order >= 2 => Some(posterior),
        Recipe::HermiteDraws { posterior, .. } => Some(posterior),
        _ => None,
    }
}

/// The log-likelihood of all rows at draws, and how far it may be from the truth.
pub struct Sketched {
    /// L at each draw, but for a constant.
    pub totals: Vec<f64>,
    /// √(1 − πᵢ)/πᵢ·rᵢ, less its mean over the draws, a line for each row of the sample.
    noise: Vec<f64>,
}

/// What a sample of rows does to the mean square over the draws of a difference L − L_w.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleError {
    /// What it adds to the mean square, in expectation.
    pub added: f64,
    /// The standard error of the mean square.
    pub standard_error: f64,
}

/// Share of a mean square that a sample of rows may be: 250 draws leave it as uncertain.
const SMALL: f64 = 0.1;

impl SampleError {
    /// Whether a mean square is known well enough in spite of it.
    pub fn is_small(&self, mean_square: f64) -> bool {
        self.added <= SMALL * mean_square && self.standard_error <= SMALL * mean_square
    }
}

impl Sketched {
    /// Of the difference `rest`, which has the mean 0.
    pub fn error(&self, rest: &[f64]) -> SampleError {
        let count = rest.len().max(1);
        let (mut added, mut variance) = (0.0, 0.0);
        for line in self.noise.chunks_exact(count) {
            added += dot(line, line) / count as f64;
            variance += (2.0 * dot(line, rest) / count as f64).powi(2);
        }
        SampleError { added, standard_error: variance.sqrt() }
    }
}
