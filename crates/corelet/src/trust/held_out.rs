//! Draws from π̂ that no method sees: the residual on them is an honest estimate of what a coreset gets wrong.
//!
//! It takes Σᵢ ℓᵢ at each draw: a pass over the data or, where rows are many and an embedding has looked at them already, its
//! [`Sketch`](crate::embed::Sketch), as long as the sample in that is not what limits the estimate. A judge is made once, with what it
//! may use; the same question has the same answer whatever was asked before, and whoever needs an answer again keeps it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::embed::{SampleError, Sketch, Sketched};
use crate::model::Shifts;
use crate::parallel;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::{Rest, Rows, RowsError, Totals, add};

/// How many draws a coreset is judged on, where the rows are not too many for it.
pub const HELD_OUT_DRAWS: usize = 1000;

/// How many at least: the variance of nearly normal numbers is then known to nine per cent.
const FEWEST_DRAWS: usize = 250;

/// Log-likelihoods of all rows that the judge may compute before it makes do with fewer draws.
const AFFORDABLE: usize = 100_000_000;

/// Draws on which the sampling variance of a sample of rows is estimated.
const FEW_DRAWS: usize = 16;

/// The largest sampling variance, in nats, at which a sample of rows replaces a pass over all of them.
const USEFUL: f64 = 1e-4;

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
    /// Number of draws.
    pub draws: usize,
    /// How many rows the part of it above order 2 was estimated from; none where that was all.
    pub sampled_rows: Option<usize>,
}

/// Held-out draws, and Φ1 on them: by a sketch of the rows that is sharp enough, or else by a pass over the data.
pub struct HeldOut<'a> {
    rows: &'a dyn Rows,
    anchor: Vec<f64>,
    shifts: Shifts,
    sketch: Option<(Arc<Sketch>, Sketched)>,
    /// By a pass, which is made for the first coreset that the sketch does not suffice for.
    target: OnceLock<Vec<f64>>,
}

impl<'a> HeldOut<'a> {
    /// 1000 draws from π̂, or 4D, in a stream of the seed of their own; of more than 10⁵ rows in proportion fewer, down to 250.
    pub fn new(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64) -> Self {
        Self::with_draws(rows, posterior, seed, affordable_draws(rows.len(), posterior.dim()))
    }

    /// So many draws: the first of them are those that fewer would be.
    pub fn with_draws(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64, count: usize) -> Self {
        let shifts = posterior.shifts(count, seed, Stream::HeldOut);
        let anchor = posterior.mean.clone();
        Self { rows, anchor, shifts, sketch: None, target: OnceLock::new() }
    }

    /// The judge that may use what an embedding has seen of the rows in place of a pass over them, where that is sharp enough.
    ///
    /// # Errors
    /// Where a log-likelihood could not be computed.
    pub fn with_sketch(self, sketch: Option<&Arc<Sketch>>) -> Result<Self, RowsError> {
        let Some(sketch) = sketch else { return Ok(self) };
        let few = FEW_DRAWS.min(self.draws());
        let first =
            Shifts::new((0..few).flat_map(|s| self.shifts.row(s).to_vec()).collect(), self.shifts.dim());
        if sketch.at(&self.anchor, &first)?.error(&vec![0.0; few]).added > USEFUL {
            return Ok(self);
        }
        let at_draws = sketch.at(&self.anchor, &self.shifts)?;
        Ok(Self { sketch: Some((Arc::clone(sketch), at_draws)), ..self })
    }

    /// What stands for a pass over the data, where something does.
    pub(crate) fn sketch(&self) -> Option<&Arc<Sketch>> {
        self.sketch.as_ref().map(|(sketch, _)| sketch)
    }

    /// Number of draws.
    pub fn draws(&self) -> usize {
        self.shifts.len()
    }

    /// ‖Φ1 − Φw‖ on these draws, with the standard error of its half square, which the draws, and the sample where there is one, tell
    /// themselves.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn estimate(&self, ids: &[usize], weights: &[f64]) -> Result<Estimate, RowsError> {
        self.estimate_with_rest(ids, weights, None)
    }

    /// The same of weighted rows with a Gaussian part beside them.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn estimate_with_rest(
        &self,
        ids: &[usize],
        weights: &[f64],
        rest: Option<&Rest>,
    ) -> Result<Estimate, RowsError> {
        let mut sum = self.weighted_sum(ids, weights)?;
        if let Some(rest) = rest {
            add(&mut sum, &rest.differences(&self.anchor, &self.shifts));
        }
        self.estimate_of(&sum)
    }

    /// Of Φw. A sample of rows that is too small for what these leave over is replaced by a pass.
    fn estimate_of(&self, weighted: &[f64]) -> Result<Estimate, RowsError> {
        if let Some((sketch, at_draws)) = &self.sketch {
            let rest = difference(&at_draws.totals, weighted);
            let error = at_draws.error(&rest);
            if error.is_small(mean_square(&rest)) {
                return Ok(Estimate { sampled_rows: Some(sketch.rows()), ..Estimate::new(&rest, &error) });
            }
        }
        let exact = SampleError { added: 0.0, standard_error: 0.0 };
        Ok(Estimate::new(&difference(self.target()?, weighted), &exact))
    }

    /// Σ wᵢ(ℓᵢ(θₛ) − ℓᵢ(θ̂)) for each draw; some of the rows at a time, since there may be many where they come in groups.
    fn weighted_sum(&self, ids: &[usize], weights: &[f64]) -> Result<Vec<f64>, RowsError> {
        let mut sum = vec![0.0; self.draws()];
        for (ids, weights) in ids.chunks(AT_ONCE).zip(weights.chunks(AT_ONCE)) {
            for (column, weight) in self.columns(ids)?.chunks_exact(self.draws()).zip(weights) {
                sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        Ok(sum)
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

impl Estimate {
    /// From L − L_w at each draw, less its mean, and what a sample has to do with it.
    fn new(rest: &[f64], error: &SampleError) -> Self {
        let count = rest.len() as f64;
        let variance = mean_square(rest);
        let spread = rest.iter().map(|x| (x * x - variance).powi(2)).sum::<f64>() / count;
        Estimate {
            residual: (variance - error.added).max(0.0).sqrt(),
            standard_error: 0.5 * (spread / count + error.standard_error.powi(2)).sqrt(),
            draws: rest.len(),
            sampled_rows: None,
        }
    }

    /// The divergence in nats: half the squared residual.
    pub fn nats(&self) -> f64 {
        0.5 * self.residual * self.residual
    }
}

/// L − L_w at each draw, less its mean.
fn difference(target: &[f64], weighted: &[f64]) -> Vec<f64> {
    let mut rest: Vec<f64> = target.iter().zip(weighted).map(|(all, some)| all - some).collect();
    let mean = rest.iter().sum::<f64>() / rest.len() as f64;
    rest.iter_mut().for_each(|x| *x -= mean);
    rest
}

/// Σx²/S.
fn mean_square(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

/// Columns of chosen rows, computed once each.
pub struct Columns<'h, 'a> {
    held_out: &'h HeldOut<'a>,
    known: HashMap<usize, Vec<f64>>,
}

impl<'h, 'a> Columns<'h, 'a> {
    /// Without any column yet.
    pub fn new(held_out: &'h HeldOut<'a>) -> Self {
        Self { held_out, known: HashMap::new() }
    }

    /// See [`HeldOut::estimate`].
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn estimate(&mut self, ids: &[usize], weights: &[f64]) -> Result<Estimate, RowsError> {
        let new: Vec<usize> = ids.iter().copied().filter(|id| !self.known.contains_key(id)).collect();
        if !new.is_empty() {
            let columns = self.held_out.columns(&new)?;
            let columns = columns.chunks_exact(self.held_out.draws()).map(<[f64]>::to_vec);
            self.known.extend(new.into_iter().zip(columns));
        }
        let mut sum = vec![0.0; self.held_out.draws()];
        for (id, weight) in ids.iter().zip(weights) {
            sum.iter_mut().zip(&self.known[id]).for_each(|(sum, x)| *sum += weight * x);
        }
        self.held_out.estimate_of(&sum)
    }
}
