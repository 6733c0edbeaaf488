//! Log-likelihood differences made ready once for many passes over the data.

use super::{Family, Glm, Model, Shifts};
use crate::vector_math::SERIES_RANGE;
use std::sync::Arc;

/// ℓᵢ(θ̂ + Δₛ) − ℓᵢ(θ̂) for one anchor θ̂ and one set of S shifts, of any rows, as often as wanted.
///
/// The numbers of a row do not depend on which rows stand beside it. See [`Model::differences`](super::Model::differences) for their precision.
pub trait Differences: Send + Sync {
    /// Of the rows `ids`, one after the other, in f32; `scratch` is any buffer, kept by the caller for its memory.
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]);

    /// The same in f64.
    fn wide(&self, ids: &[usize], out: &mut [f64]);

    /// The same, for those who have the shifts xᵢᵀΔₛ of each row's linear predictor at hand. The default makes no use of them.
    fn wide_at(&self, ids: &[usize], _predictor_shifts: &[f64], out: &mut [f64]) {
        self.wide(ids, out);
    }

    /// Adds those of the rows `ids`, a few dozen, to `sum`, which has one number a shift; each in f32, as [`narrow`](Differences::narrow)
    /// has it. The default calls that.
    fn add_narrow(&self, ids: &[usize], scratch: &mut Scratch, sum: &mut [f64]) {
        let Scratch { rows, features, .. } = scratch;
        rows.resize(ids.len() * sum.len(), 0.0);
        self.narrow(ids, features, rows);
        add_rows(rows, sum);
    }
}

/// Buffers of [`Differences::add_narrow`], kept by the caller for their memory.
#[derive(Debug, Default)]
pub struct Scratch {
    rows: Vec<f32>,
    features: Vec<f32>,
    series: Vec<[f32; 7]>,
    others: Vec<usize>,
}

/// Adds rows, each with a number for every one of the sums.
fn add_rows(rows: &[f32], sum: &mut [f64]) {
    for row in rows.chunks_exact(sum.len().max(1)) {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
}

/// Rows that go by a block of shifts in f64.
pub const WIDE_TILE: usize = 16;

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
        let rows = shifts.rows_at_once();
        for (ids, out) in ids.chunks(rows).zip(out.chunks_mut(rows * count)) {
            scratch.clear();
            ids.iter().for_each(|&i| scratch.extend_from_slice(observations.row(i)));
            shifts.products(scratch, out);
            for (&i, deltas) in ids.iter().zip(out.chunks_exact_mut(count)) {
                let (y, exposure) = observations.target(i);
                let eta = observations.predictor(i, anchor);
                self.family().differences_row(eta, y, exposure, deltas);
                if let Some(weights) = &observations.weights {
                    let weight = weights[i] as f32;
                    deltas.iter_mut().for_each(|difference| *difference *= weight);
                }
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
            self.differences_of(ids, anchor, count, out);
        }
    }

    /// Replaces the shifts of the predictors of these rows, `count` each, by the differences.
    fn differences_of(&self, ids: &[usize], anchor: &[f64], count: usize, shifts: &mut [f64]) {
        let observations = self.observations();
        for (&i, deltas) in ids.iter().zip(shifts.chunks_exact_mut(count)) {
            let (y, exposure) = observations.target(i);
            let eta = observations.predictor(i, anchor);
            self.family().differences_row_f64(eta, y, exposure, deltas);
            if let Some(weights) = &observations.weights {
                deltas.iter_mut().for_each(|difference| *difference *= weights[i]);
            }
        }
    }
}

/// A model with a linear predictor, its anchor and its shifts.
pub(super) struct PreparedGlm<F> {
    model: Arc<Glm<F>>,
    anchor: Vec<f64>,
    shifts: Shifts,
    reach: Vec<f32>,
}

impl<F: Family> PreparedGlm<F> {
    pub(super) fn new(model: Arc<Glm<F>>, anchor: &[f64], shifts: Shifts) -> Self {
        let reach = shifts.reach();
        PreparedGlm { model, anchor: anchor.to_vec(), shifts, reach }
    }
}

impl<F: Family + 'static> Differences for PreparedGlm<F> {
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]) {
        self.model.narrow_differences(ids, &self.anchor, &self.shifts, scratch, out);
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        self.model.wide_differences(ids, &self.anchor, &self.shifts, out);
    }

    fn wide_at(&self, ids: &[usize], predictor_shifts: &[f64], out: &mut [f64]) {
        out.copy_from_slice(predictor_shifts);
        self.model.differences_of(ids, &self.anchor, self.shifts.len().max(1), out);
    }

    /// Rows that no shift moves out of the range of their series are summed as series, in registers.
    fn add_narrow(&self, ids: &[usize], scratch: &mut Scratch, sum: &mut [f64]) {
        let Scratch { rows, features, series, others } = scratch;
        features.clear();
        series.clear();
        others.clear();
        let observations = self.model.observations();
        for &i in ids {
            let x = observations.row(i);
            let farthest: f32 = x.iter().zip(&self.reach).map(|(x, reach)| x.abs() * reach).sum();
            let (y, exposure) = observations.target(i);
            let near = (farthest <= SERIES_RANGE).then(|| observations.predictor(i, &self.anchor));
            match near.and_then(|eta| self.model.family().series(eta, y, exposure)) {
                Some(coefficients) => {
                    let weight = observations.weight(i);
                    series.push(coefficients.map(|c| (weight * c) as f32));
                    features.extend_from_slice(x);
                }
                None => others.push(i),
            }
        }
        self.shifts.add_series(features, series, sum);
        rows.resize(others.len() * sum.len(), 0.0);
        self.narrow(others, features, rows);
        add_rows(rows, sum);
    }
}
