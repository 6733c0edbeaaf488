//! The pool of a pursuit: the columns one pass brought in, and how much each would still add to the fit.

use rayon::prelude::*;

use crate::dictionary::{Candidate, Oracle};
use crate::elimination::DualBasis;
use crate::error::Error;
use crate::kernel::{correlate, norm, overlap_squares};
use crate::nnls::SupportFit;

/// Columns handled together by one worker.
const CHUNK: usize = 32;

/// The heights are differences from 1, so one below this is rounding: gains are taken as if it were this high.
const LEAST_HEIGHT: f64 = 1e-12;

/// A fall of the residual by less than this share of it is rounding.
const LEAST_FALL: f64 = 1e-9;

/// Columns at hand, each with its correlation to the residual and the part of it outside the support's span.
#[derive(Default)]
pub(super) struct Pool {
    ids: Vec<usize>,
    columns: Vec<f64>,
    norms: Vec<f64>,
    /// ⟨φ, r⟩/‖φ‖.
    correlations: Vec<f64>,
    /// ‖φ⊥‖²/‖φ‖², φ⊥ the part orthogonal to the support.
    heights: Vec<f64>,
    barred: Vec<bool>,
    scratch: Vec<f64>,
    /// The lowest score among the columns that the pass returned: no column outside had a larger one.
    pub(super) floor: f64,
    /// Whether every column of the dictionary that could ever enter is in the pool.
    pub(super) complete: bool,
}

impl Pool {
    /// Takes the columns a pass returned.
    pub(super) fn fill(
        &mut self,
        candidates: &[Candidate],
        asked: usize,
        oracle: &Oracle<'_>,
    ) -> Result<(), Error> {
        let dim = oracle.coordinates();
        self.ids.clear();
        self.ids.extend(candidates.iter().map(|candidate| candidate.id));
        self.columns.resize(self.ids.len() * dim, 0.0);
        oracle.columns(&self.ids, &mut self.columns)?;
        self.norms.clear();
        self.norms.extend(self.columns.chunks_exact(dim).map(norm));
        self.complete = candidates.len() < asked;
        self.floor =
            if self.complete { 0.0 } else { candidates.last().map_or(0.0, |last| last.score.max(0.0)) };
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn column(&self, at: usize) -> &[f64] {
        let dim = self.columns.len() / self.ids.len();
        &self.columns[at * dim..(at + 1) * dim]
    }

    /// The correlation ⟨φ, r⟩/‖φ‖ at present.
    pub(super) fn correlation(&self, at: usize) -> f64 {
        self.correlations[at]
    }

    /// Computes everything anew for the present fit.
    pub(super) fn refresh(&mut self, fit: &SupportFit) {
        let dim = fit.residual().len();
        self.barred.clear();
        self.barred.extend(self.ids.iter().map(|id| fit.ids().contains(id)));
        self.heights.clear();
        self.heights.resize(self.ids.len(), 0.0);
        let chunks = self.columns.par_chunks(CHUNK * dim).zip(self.norms.par_chunks(CHUNK));
        chunks.zip(self.heights.par_chunks_mut(CHUNK)).for_each(|((columns, norms), heights)| {
            overlap_squares(fit.basis(), columns, dim, heights);
            heights.iter_mut().zip(norms).for_each(|(height, norm)| *height = 1.0 - *height / (norm * norm));
        });
        self.recorrelate(fit);
    }

    /// Computes the correlations anew.
    fn recorrelate(&mut self, fit: &SupportFit) {
        self.correlations.resize(self.ids.len(), 0.0);
        self.overlap(fit.residual());
        for ((c, overlap), norm) in self.correlations.iter_mut().zip(&self.scratch).zip(&self.norms) {
            *c = overlap / norm;
        }
    }

    /// scratch ← ⟨φ, v⟩ for every column.
    fn overlap(&mut self, v: &[f64]) {
        self.scratch.resize(self.ids.len(), 0.0);
        self.columns
            .par_chunks(CHUNK * v.len())
            .zip(self.scratch.par_chunks_mut(CHUNK))
            .for_each(|(columns, out)| correlate(columns, v, out));
    }

    /// Takes note that a direction entered (sign −1) or left (+1) the span of the support, and with it its share of y.
    fn shift(&mut self, direction: &[f64], share: f64, sign: f64) {
        self.overlap(direction);
        let stats = self.correlations.iter_mut().zip(self.heights.iter_mut());
        for ((c, height), (overlap, norm)) in stats.zip(self.scratch.iter().zip(&self.norms)) {
            let overlap = overlap / norm;
            *height += sign * overlap * overlap;
            *c += sign * share * overlap;
        }
    }

    /// The open column whose entry would lower the residual most: max c²/‖φ⊥‖² over c > `least`.
    pub(super) fn best(&self, least: f64) -> Option<usize> {
        let gain = |at: usize| self.correlations[at].powi(2) / self.heights[at].max(LEAST_HEIGHT);
        let open = |at: &usize| !self.barred[*at] && self.correlations[*at] > least;
        (0..self.ids.len())
            .filter(open)
            .max_by(|&a, &b| gain(a).total_cmp(&gain(b)).then(self.ids[b].cmp(&self.ids[a])))
    }

    /// Puts the column into the fit, solves, and brings the pool up to date. False where the residual did not fall:
    /// the column depends on the support, or what it added is rounding.
    pub(super) fn enter(&mut self, at: usize, fit: &mut SupportFit) -> bool {
        self.barred[at] = true;
        let before = fit.residual_norm();
        if !fit.push(self.ids[at], self.column(at)) {
            return false;
        }
        let (entered, share) = fit.newest_direction();
        self.shift(entered, share, -1.0);
        fit.reoptimise();
        let fell = fit.residual_norm() < before * (1.0 - LEAST_FALL);
        let removed = fit.take_removed();
        for (direction, share) in &removed {
            self.shift(direction, *share, 1.0);
        }
        // Where the residual fell far, what is left of the larger correlations is their rounding.
        if !removed.is_empty() || fit.residual_norm() < 0.1 * before {
            self.recorrelate(fit);
        }
        if fell && !removed.is_empty() {
            // What was thrown out may come back now that something has changed; without a fall it could come back for ever.
            for (barred, id) in self.barred.iter_mut().zip(&self.ids) {
                *barred = fit.ids().contains(id);
            }
            self.barred[at] = true;
        }
        fell
    }

    /// The best exchanges of one column of the support for one of the pool, as the positions that leave and enter:
    /// for each column of the pool the best it could replace, where the residual would fall if no weight were negative.
    ///
    /// Taking out the column whose dual points along the unit vector d, with share p of y, leaves every other with
    /// the correlation c + p⟨φ, d⟩/‖φ‖ and the height h + ⟨φ, d⟩²/‖φ‖²; the squared residual changes by p² less the
    /// gain of the one that enters.
    pub(super) fn swaps(&self, duals: &DualBasis, least: f64) -> Vec<(usize, usize)> {
        let dim = self.columns.len() / self.ids.len().max(1);
        let columns = self.columns.par_chunks(dim).enumerate().filter(|(at, _)| !self.barred[*at]);
        let mut swaps: Vec<(f64, usize, usize)> = columns
            .map_init(
                || vec![0.0; duals.shares.len()],
                |overlaps, (at, column)| {
                    correlate(&duals.directions, column, overlaps);
                    let improvement = |position: usize| {
                        let (overlap, share) = (overlaps[position] / self.norms[at], duals.shares[position]);
                        let correlation = self.correlations[at] + share * overlap;
                        let height = (self.heights[at] + overlap * overlap).max(LEAST_HEIGHT);
                        let gain = if correlation > 0.0 { correlation * correlation / height } else { 0.0 };
                        (gain - share * share, position, at)
                    };
                    (0..overlaps.len())
                        .map(improvement)
                        .fold((0.0, 0, 0), |a, b| if b.0 > a.0 { b } else { a })
                },
            )
            .filter(|swap| swap.0 > least)
            .collect();
        swaps.sort_by(|a, b| b.0.total_cmp(&a.0).then(self.ids[a.2].cmp(&self.ids[b.2])));
        swaps.into_iter().map(|(_, leaves, enters)| (leaves, enters)).collect()
    }
}
