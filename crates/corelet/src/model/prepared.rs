//! Log-likelihood differences made ready once for many passes over the data.

use super::{Family, Glm, Model, Shifts};
use crate::linalg::dot_features;
use std::sync::Arc;

/// ℓᵢ(θ̂ + Δₛ) − ℓᵢ(θ̂) for one anchor θ̂ and one set of S shifts, of any rows, as often as wanted.
///
/// The numbers of a row do not depend on which rows stand beside it. See [`Model::differences`](super::Model::differences) for their precision.
pub trait Differences: Send + Sync {
    /// Of the rows `ids`, one after the other, in f32; `scratch` is any buffer, kept by the caller for its memory.
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]);

    /// The same in f64.
    fn wide(&self, ids: &[usize], out: &mut [f64]);
}

/// Rows that the tile product takes at once.
const TILE: usize = 4;

/// Rows that go by a block of shifts in f64.
pub(crate) const WIDE_TILE: usize = 16;

impl<F: Family + 'static> Glm<F> {
    pub(super) fn narrow_differences(
        &self,
        ids: &[usize],
        anchor: &[f64],
        shifts: &Shifts,
        scratch: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let count = shifts.len().max(1);
        let observations = self.observations();
        for (ids, out) in ids.chunks(TILE).zip(out.chunks_mut(TILE * count)) {
            scratch.clear();
            ids.iter().for_each(|&i| scratch.extend_from_slice(observations.row(i)));
            shifts.products(scratch, out);
            for (&i, deltas) in ids.iter().zip(out.chunks_exact_mut(count)) {
                let (y, exposure) = observations.target(i);
                let eta = dot_features(observations.row(i), anchor);
                self.family().differences_row(eta, y, exposure, deltas);
            }
        }
    }

    pub(super) fn wide_differences(&self, ids: &[usize], anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let count = shifts.len().max(1);
        let observations = self.observations();
        let mut features = Vec::with_capacity(WIDE_TILE * observations.dim);
        for (ids, out) in ids.chunks(WIDE_TILE).zip(out.chunks_mut(WIDE_TILE * count)) {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(observations.row(i)));
            shifts.products_f64(&features, out);
            for (&i, deltas) in ids.iter().zip(out.chunks_exact_mut(count)) {
                let (y, exposure) = observations.target(i);
                let eta = dot_features(observations.row(i), anchor);
                self.family().differences_row_f64(eta, y, exposure, deltas);
            }
        }
    }
}

/// A model with a linear predictor, its anchor and its shifts.
pub(super) struct PreparedGlm<F> {
    model: Arc<Glm<F>>,
    anchor: Vec<f64>,
    shifts: Shifts,
}

impl<F: Family> PreparedGlm<F> {
    pub(super) fn new(model: Arc<Glm<F>>, anchor: &[f64], shifts: Shifts) -> Self {
        PreparedGlm { model, anchor: anchor.to_vec(), shifts }
    }
}

impl<F: Family + 'static> Differences for PreparedGlm<F> {
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]) {
        self.model.narrow_differences(ids, &self.anchor, &self.shifts, scratch, out);
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        self.model.wide_differences(ids, &self.anchor, &self.shifts, out);
    }
}
