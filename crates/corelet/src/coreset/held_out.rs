//! Draws from π̂ that no method sees: the residual on them is an honest estimate of what a coreset gets wrong.

use std::collections::HashMap;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::embed::{Stream, draw_shifts};
use crate::laplace::Gaussian;
use crate::model::{Model, Shifts, total_differences};

/// How many draws a coreset is judged on, at least.
pub const HELD_OUT_DRAWS: usize = 1000;

/// Held-out draws and Φ1 on them, which is one pass over the data, made when it is first asked for.
pub struct HeldOut<'a> {
    model: &'a dyn Model,
    anchor: &'a [f64],
    shifts: Shifts,
    target: OnceLock<Vec<f64>>,
}

impl<'a> HeldOut<'a> {
    /// max(1000, 4D) draws from π̂, in a stream of the seed of their own.
    pub fn new(model: &'a dyn Model, posterior: &'a Gaussian, seed: u64) -> Self {
        let count = HELD_OUT_DRAWS.max(4 * model.dim());
        let shifts = draw_shifts(posterior, count, seed, Stream::HeldOut);
        Self { model, anchor: &posterior.mean, shifts, target: OnceLock::new() }
    }

    /// Number of draws.
    pub fn draws(&self) -> usize {
        self.shifts.len()
    }

    /// ‖Φ1 − Φw‖ on these draws. Its half square is the estimate of the divergence in nats.
    pub fn residual(&self, rows: &[usize], weights: &[f64]) -> f64 {
        Columns::new(self).residual(rows, weights)
    }

    /// Σᵢ ℓᵢ(θₛ) − ℓᵢ(θ̂) for each draw.
    fn target(&self) -> &[f64] {
        self.target.get_or_init(|| total_differences(self.model, self.anchor, &self.shifts))
    }

    fn column(&self, row: usize) -> Vec<f64> {
        let mut column = vec![0.0; self.draws()];
        self.model.differences_f64(row..row + 1, self.anchor, &self.shifts, &mut column);
        column
    }
}

/// Columns of chosen rows, computed once each.
pub(super) struct Columns<'h, 'a> {
    held_out: &'h HeldOut<'a>,
    known: HashMap<usize, Vec<f64>>,
}

impl<'h, 'a> Columns<'h, 'a> {
    pub(super) fn new(held_out: &'h HeldOut<'a>) -> Self {
        Self { held_out, known: HashMap::new() }
    }

    /// ‖Φ1 − Φw‖.
    pub(super) fn residual(&mut self, rows: &[usize], weights: &[f64]) -> f64 {
        let new: Vec<usize> = rows.iter().copied().filter(|row| !self.known.contains_key(row)).collect();
        let columns: Vec<Vec<f64>> = new.par_iter().map(|&row| self.held_out.column(row)).collect();
        self.known.extend(new.into_iter().zip(columns));
        let mut rest = self.held_out.target().to_vec();
        for (row, &weight) in rows.iter().zip(weights) {
            add(&mut rest, &self.known[row], -weight);
        }
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        (rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
