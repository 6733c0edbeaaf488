//! Held-out draws from π̂, which no method uses: the residual on them is an unbiased estimate of a coreset's error.
//!
//! The residual needs Σᵢ ℓᵢ at each draw. This takes a pass over the data or, with many rows and an embedding that has read them already, its
//! [`Sketch`](crate::embed::Sketch), as long as the sampling error of the sketch does not dominate the estimate. A judge is created once and never
//! changes: the same query has the same answer whatever was asked before, and callers keep answers that they need again.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::embed::{SampleError, Sketch, Sketched};
use crate::model::Shifts;
use crate::parallel;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::{Rest, Rows, RowsError, Totals, add};

/// The number of draws on which a coreset is judged, unless there are very many rows.
pub const HELD_OUT_DRAWS: usize = 1000;

/// The smallest number of draws: the variance of nearly normal numbers is then known to nine per cent.
const FEWEST_DRAWS: usize = 250;

/// The number of log-likelihoods that the judge may compute; with more rows it uses fewer draws.
const AFFORDABLE: usize = 100_000_000;

/// Draws on which the sampling variance of a sample of rows is estimated.
const FEW_DRAWS: usize = 16;

/// The largest sampling variance, in nats, at which a sample of rows replaces a pass over all of them.
const USEFUL: f64 = 1e-4;

/// The number of draws for this number of rows: 1000, or 4D; beyond 10⁵ rows in proportion fewer, down to 250.
pub(crate) fn affordable_draws(rows: usize, dim: usize) -> usize {
    (AFFORDABLE / rows.max(1)).clamp(FEWEST_DRAWS, HELD_OUT_DRAWS).max(4 * dim)
}

/// The error of weighted rows on the held-out draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// ‖Φ1 − Φw‖.
    pub residual: f64,
    /// The standard error of half its square, the divergence in nats.
    pub standard_error: f64,
    /// Number of draws.
    pub draws: usize,
    /// The number of rows from which the part above order 2 was estimated; none if all rows were evaluated.
    pub sampled_rows: Option<usize>,
}

/// Held-out draws, and Φ1 on them: from a sketch of the rows if it is precise enough, otherwise from a pass over the data.
pub struct HeldOut<'a> {
    rows: &'a dyn Rows,
    anchor: Vec<f64>,
    shifts: Shifts,
    sketch: Option<(Arc<Sketch>, Sketched)>,
    /// From a pass, which is made for the first coreset for which the sketch is not precise enough.
    target: OnceLock<Vec<f64>>,
}

impl<'a> HeldOut<'a> {
    /// 1000 draws from π̂, or 4D, in their own random stream; beyond 10⁵ rows in proportion fewer, down to 250.
    pub fn new(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64) -> Self {
        Self::with_draws(rows, posterior, seed, affordable_draws(rows.len(), posterior.dim()))
    }

    /// This number of draws; a smaller number gives the first of the same draws.
    pub fn with_draws(rows: &'a dyn Rows, posterior: &Gaussian, seed: u64, count: usize) -> Self {
        let shifts = posterior.shifts(count, seed, Stream::HeldOut);
        let anchor = posterior.mean.clone();
        Self { rows, anchor, shifts, sketch: None, target: OnceLock::new() }
    }

    /// A judge that may use the sketch of an embedding instead of a pass over the rows, if it is precise enough.
    ///
    /// # Errors
    /// If a log-likelihood could not be computed.
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

    /// The sketch that replaces a pass over the data, if any.
    pub(crate) fn sketch(&self) -> Option<&Arc<Sketch>> {
        self.sketch.as_ref().map(|(sketch, _)| sketch)
    }

    /// Number of draws.
    pub fn draws(&self) -> usize {
        self.shifts.len()
    }

    /// ‖Φ1 − Φw‖ on these draws, with the standard error of half its square, which is estimated from the draws, and from the sample if there
    /// is one.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn estimate(&self, ids: &[usize], weights: &[f64]) -> Result<Estimate, RowsError> {
        self.estimate_with_rest(ids, weights, None)
    }

    /// The same for weighted rows with a Gaussian factor.
    ///
    /// # Errors
    /// If the rows did not answer.
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
    /// From L − L_w at each draw, minus its mean, and the sampling error of a sketch.
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

/// L − L_w at each draw, minus its mean.
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
    /// If the rows did not answer.
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
