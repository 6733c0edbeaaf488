//! The best support found at every size, as a pursuit passes through the sizes on its way up and down.

use crate::dictionary::Oracle;
use crate::driver::{PathPoint, Problem, Weights, residual_norms};
use crate::error::Error;

/// A support of some size, with weights and residual.
struct Entry {
    ids: Vec<usize>,
    weights: Vec<f64>,
    residual: f64,
}

impl Entry {
    fn sorted(&self) -> Weights {
        Weights::from_pairs(self.ids.iter().copied().zip(self.weights.iter().copied()))
    }
}

/// The best found with exactly 1, 2, …, k points.
pub(super) struct Path {
    entries: Vec<Option<Entry>>,
}

impl Path {
    pub(super) fn new(k: usize) -> Self {
        Self { entries: (0..k).map(|_| None).collect() }
    }

    /// Whether a support of this size and residual is worth recording.
    fn improves(&self, size: usize, residual: f64) -> bool {
        let entry = size.checked_sub(1).and_then(|at| self.entries.get(at));
        entry.is_some_and(|entry| entry.as_ref().is_none_or(|entry| residual < entry.residual))
    }

    /// Records columns with their weights.
    pub(super) fn record(&mut self, residual: f64, size: usize, pairs: impl Iterator<Item = (usize, f64)>) {
        if self.improves(size, residual) {
            let (ids, weights) = pairs.unzip();
            self.entries[size - 1] = Some(Entry { ids, weights, residual });
        }
    }

    fn recorded(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// Points and residual of the best of all sizes.
    pub(super) fn best(&self) -> Option<(usize, f64)> {
        self.best_entry().map(|entry| (entry.ids.len(), entry.residual))
    }

    /// The smallest residual; of equal ones the smallest support.
    fn best_entry(&self) -> Option<&Entry> {
        self.recorded().min_by(|a, b| a.residual.total_cmp(&b.residual))
    }

    /// The smallest support whose residual is at most `target`, or else the best.
    pub(super) fn weights(&self, target: f64) -> Weights {
        let entry = self.recorded().find(|entry| entry.residual <= target).or_else(|| self.best_entry());
        entry.map_or_else(Weights::default, Entry::sorted)
    }

    /// The path with residuals computed afresh, each no worse than that of fewer points.
    pub(super) fn finish(&self, problem: &Problem, oracle: &Oracle<'_>) -> Result<Vec<PathPoint>, Error> {
        // Sizes at hand at a time, each with a residual of its own.
        const PART: usize = 256;
        let mut path: Vec<PathPoint> = Vec::with_capacity(self.entries.len());
        for entries in self.entries.chunks(PART) {
            let found: Vec<Option<Weights>> = entries.iter().map(|e| e.as_ref().map(Entry::sorted)).collect();
            let present: Vec<&Weights> = found.iter().flatten().collect();
            let mut residuals = residual_norms(oracle, &problem.target, &present)?.into_iter();
            for weights in found {
                let found = weights
                    .and_then(|weights| residuals.next().map(|residual| PathPoint { weights, residual }));
                let best = match (found, path.last()) {
                    (Some(found), Some(last)) if found.residual > last.residual => Some(last.clone()),
                    (None, Some(last)) => Some(last.clone()),
                    (found, _) => found,
                };
                path.extend(best);
            }
        }
        // Sizes beyond the last one reached repeat it; they say nothing.
        let last = path.last().map_or(0, |point| point.weights.len());
        path.truncate(last.max(1));
        Ok(path)
    }
}
