//! The best support found at every size, as a pursuit passes through the sizes on its way up and down.

use crate::dictionary::Oracle;
use crate::driver::{PathPoint, Problem, Weights, residual_norm};
use crate::elimination::Elimination;
use crate::error::Error;
use crate::nnls::SupportFit;

/// A support of some size, with weights and residual.
struct Entry {
    ids: Vec<usize>,
    weights: Vec<f64>,
    residual: f64,
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

    pub(super) fn record_fit(&mut self, fit: &SupportFit) {
        let (size, residual) = (fit.len(), fit.residual_norm());
        if self.improves(size, residual) {
            self.entries[size - 1] =
                Some(Entry { ids: fit.ids().to_vec(), weights: fit.weights(), residual });
        }
    }

    /// Records a stage of a deletion from `fit`, whose squared residual is given.
    pub(super) fn record_elimination(&mut self, fit: &SupportFit, stage: &Elimination, squared: f64) {
        let (size, residual) = (stage.len(), (squared + stage.cost()).sqrt());
        if self.improves(size, residual) {
            let ids = stage.positions().iter().map(|&p| fit.ids()[p]).collect();
            let weights =
                stage.positions().iter().zip(stage.weights()).map(|(&p, w)| w / fit.norm(p)).collect();
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
        entry.map_or_else(Weights::default, |entry| {
            Weights::from_pairs(entry.ids.iter().copied().zip(entry.weights.iter().copied()))
        })
    }

    /// The path with residuals computed afresh, each no worse than that of fewer points.
    pub(super) fn finish(&self, problem: &Problem, oracle: &Oracle<'_>) -> Result<Vec<PathPoint>, Error> {
        let mut path: Vec<PathPoint> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let found = match entry {
                Some(entry) => {
                    let pairs = entry.ids.iter().copied().zip(entry.weights.iter().copied());
                    let weights = Weights::from_pairs(pairs);
                    let residual = residual_norm(oracle, &problem.target, &weights)?;
                    Some(PathPoint { weights, residual })
                }
                None => None,
            };
            match (found, path.last()) {
                (Some(found), Some(last)) if found.residual > last.residual => path.push(last.clone()),
                (Some(found), _) => path.push(found),
                (None, Some(last)) => path.push(last.clone()),
                (None, None) => {}
            }
        }
        // Sizes beyond the last one reached repeat it; they say nothing.
        let last = path.last().map_or(0, |point| point.weights.len());
        path.truncate(last.max(1));
        Ok(path)
    }
}
