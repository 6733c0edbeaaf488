//! Draws from π̂ that no method sees: the residual on them is an honest estimate of what a coreset gets wrong.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::model::Shifts;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::{Rows, RowsError, Totals};

/// How many draws a coreset is judged on, at least.
pub const HELD_OUT_DRAWS: usize = 1000;

/// Held-out draws and Φ1 on them, which is one pass over the data, made when it is first asked for.
pub struct HeldOut<'a> {
    rows: &'a dyn Rows,
    anchor: Vec<f64>,
    shifts: Shifts,
    target: OnceLock<Vec<f64>>,
}

impl<'a> HeldOut<'a> {
    /// max(1000, 4D) draws from π̂, in a stream of the seed of their own.
    pub fn new(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64) -> Self {
        let count = HELD_OUT_DRAWS.max(4 * posterior.dim());
        let shifts = posterior.shifts(count, seed, Stream::HeldOut);
        Self { rows, anchor: posterior.mean.clone(), shifts, target: OnceLock::new() }
    }

    /// Number of draws.
    pub fn draws(&self) -> usize {
        self.shifts.len()
    }

    /// ‖Φ1 − Φw‖ on these draws. Its half square is the estimate of the divergence in nats.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn residual(&self, ids: &[usize], weights: &[f64]) -> Result<f64, RowsError> {
        Columns::new(self).residual(ids, weights)
    }

    /// Σᵢ ℓᵢ(θₛ) − ℓᵢ(θ̂) for each draw.
    fn target(&self) -> Result<&[f64], RowsError> {
        if let Some(target) = self.target.get() {
            return Ok(target);
        }
        let target = self.rows.totals(&Totals::new(&self.anchor, &self.shifts, self.rows.len()))?;
        Ok(self.target.get_or_init(|| target))
    }

    /// The same of each of these rows.
    fn columns(&self, ids: &[usize]) -> Result<Vec<f64>, RowsError> {
        let model = self.rows.bind(self.rows.fetch(ids)?)?;
        let mut columns = vec![0.0; ids.len() * self.draws()];
        let places: Vec<usize> = (0..ids.len()).collect();
        let differences = Arc::clone(&model).prepare(&self.anchor, self.shifts.clone());
        let parts = places.par_chunks(PART).zip(columns.par_chunks_mut(PART * self.draws()));
        parts.for_each(|(places, columns)| differences.wide(places, columns));
        Ok(columns)
    }
}

/// Columns computed by one thread at a time.
const PART: usize = 16;

/// Columns of chosen rows, computed once each.
pub struct Columns<'h, 'a> {
    held_out: &'h HeldOut<'a>,
    known: HashMap<usize, Vec<f64>>,
}

impl<'h, 'a> Columns<'h, 'a> {
    /// None yet.
    pub fn new(held_out: &'h HeldOut<'a>) -> Self {
        Self { held_out, known: HashMap::new() }
    }

    /// ‖Φ1 − Φw‖.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn residual(&mut self, ids: &[usize], weights: &[f64]) -> Result<f64, RowsError> {
        let new: Vec<usize> = ids.iter().copied().filter(|id| !self.known.contains_key(id)).collect();
        if !new.is_empty() {
            let columns = self.held_out.columns(&new)?;
            let columns = columns.chunks_exact(self.held_out.draws()).map(<[f64]>::to_vec);
            self.known.extend(new.into_iter().zip(columns));
        }
        let mut rest = self.held_out.target()?.to_vec();
        for (id, weight) in ids.iter().zip(weights) {
            rest.iter_mut().zip(&self.known[id]).for_each(|(rest, x)| *rest -= weight * x);
        }
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        Ok((rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
    }
}
