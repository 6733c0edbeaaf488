//! Draws from π̂ that no method sees: the residual on them is an honest estimate of what a coreset gets wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::model::Shifts;
use crate::parallel;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::{Rows, RowsError, Totals};

/// How many draws a coreset is judged on, where the rows are not too many for it.
pub const HELD_OUT_DRAWS: usize = 1000;

/// How many at least: the variance of nearly normal numbers is then known to nine per cent.
const FEWEST_DRAWS: usize = 250;

/// Log-likelihoods of all rows that the judge may compute before it makes do with fewer draws.
const AFFORDABLE: usize = 100_000_000;

/// How many draws so many rows are worth: 1000, or 4D; of more than 10⁵ rows in proportion fewer, down to 250.
pub(crate) fn affordable_draws(rows: usize, dim: usize) -> usize {
    (AFFORDABLE / rows.max(1)).clamp(FEWEST_DRAWS, HELD_OUT_DRAWS).max(4 * dim)
}

/// What weighted rows get wrong, as the held-out draws see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// ‖Φ1 − Φw‖.
    pub residual: f64,
    /// The standard error of its half square, the divergence in nats.
    pub standard_error: f64,
}

/// Held-out draws and Φ1 on them, which is one pass over the data, made when it is first asked for.
pub struct HeldOut<'a> {
    rows: &'a dyn Rows,
    anchor: Vec<f64>,
    shifts: Shifts,
    target: OnceLock<Vec<f64>>,
    /// What was last asked for: the same coreset is judged by the search, by the rounds and by whoever reports it.
    last: Mutex<Option<Judged>>,
}

/// Weighted rows, and what they leave over at each draw.
struct Judged {
    ids: Vec<usize>,
    weights: Vec<f64>,
    rest: Vec<f64>,
}

impl<'a> HeldOut<'a> {
    /// 1000 draws from π̂, or 4D, in a stream of the seed of their own; of more than 10⁵ rows in proportion fewer, down to 250.
    pub fn new(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64) -> Self {
        Self::with_draws(rows, posterior, seed, affordable_draws(rows.len(), posterior.dim()))
    }

    /// So many draws: the first of them are those that fewer would be.
    pub fn with_draws(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64, count: usize) -> Self {
        let shifts = posterior.shifts(count, seed, Stream::HeldOut);
        Self { rows, anchor: posterior.mean.clone(), shifts, target: OnceLock::new(), last: Mutex::new(None) }
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
        Ok(root_mean_square(&self.rest(ids, weights)?))
    }

    /// The same with its standard error, which the draws tell themselves.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn estimate(&self, ids: &[usize], weights: &[f64]) -> Result<Estimate, RowsError> {
        let rest = self.rest(ids, weights)?;
        let squares: Vec<f64> = rest.iter().map(|x| x * x).collect();
        let count = squares.len() as f64;
        let variance = squares.iter().sum::<f64>() / count;
        let spread = squares.iter().map(|x| (x - variance).powi(2)).sum::<f64>() / count;
        Ok(Estimate { residual: variance.sqrt(), standard_error: 0.5 * (spread / count).sqrt() })
    }

    /// L − L_w at each draw, less its mean.
    fn rest(&self, ids: &[usize], weights: &[f64]) -> Result<Vec<f64>, RowsError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(judged) = last.as_ref().filter(|judged| judged.ids == ids && judged.weights == weights) {
            return Ok(judged.rest.clone());
        }
        let rest = self.compute_rest(ids, weights)?;
        *last = Some(Judged { ids: ids.to_vec(), weights: weights.to_vec(), rest: rest.clone() });
        Ok(rest)
    }

    /// The same computed; some of the rows at a time, since there may be many where they come in groups.
    fn compute_rest(&self, ids: &[usize], weights: &[f64]) -> Result<Vec<f64>, RowsError> {
        let mut rest = self.target()?.to_vec();
        for (ids, weights) in ids.chunks(AT_ONCE).zip(weights.chunks(AT_ONCE)) {
            for (column, weight) in self.columns(ids)?.chunks_exact(self.draws()).zip(weights) {
                rest.iter_mut().zip(column).for_each(|(rest, x)| *rest -= weight * x);
            }
        }
        centre(&mut rest);
        Ok(rest)
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
        let parts = places.chunks(PART).zip(columns.chunks_mut(PART * self.draws()));
        parallel::map(parts, |(places, columns)| differences.wide(places, columns));
        Ok(columns)
    }
}

/// Columns computed by one thread at a time.
const PART: usize = 16;

/// Columns held at a time where each is needed once.
const AT_ONCE: usize = 4096;

/// √(Σx²/S).
fn root_mean_square(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt()
}

fn centre(x: &mut [f64]) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.iter_mut().for_each(|x| *x -= mean);
}

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
        Ok(root_mean_square(&self.rest(ids, weights)?))
    }

    /// L − L_w at each draw, less its mean.
    fn rest(&mut self, ids: &[usize], weights: &[f64]) -> Result<Vec<f64>, RowsError> {
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
        centre(&mut rest);
        Ok(rest)
    }
}
