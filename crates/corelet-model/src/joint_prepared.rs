//! Log-likelihood differences of a model with several predictors a row, made ready once for many passes.

use super::joint_family::{Inputs, JointFamily, Layout};
use super::{Differences, Joint, Shifts};
use std::ops::Range;

/// The model, its anchor, and the shifts of each predictor's parameters.
pub(super) struct Prepared<F> {
    model: Joint<F>,
    anchor: Vec<f64>,
    shifts: PredictorShifts,
    table: Vec<f64>,
}

impl<F: JointFamily + 'static> Prepared<F> {
    pub(super) fn new(model: Joint<F>, anchor: &[f64], shifts: &Shifts) -> Self {
        let shifts = PredictorShifts::new(&model.layout, shifts);
        let table = shifts.table(&*model.family, &model.layout, anchor);
        Prepared { model, anchor: anchor.to_vec(), shifts, table }
    }

    /// The differences of each row, handed on with its place.
    fn each(&self, ids: &[usize], mut take: impl FnMut(usize, &[f64])) {
        let Joint { observations, family, layout } = &self.model;
        let (mut zeta, mut deltas) = (vec![0.0; layout.predictors()], self.shifts.buffer());
        let mut out = vec![0.0; self.shifts.count];
        for (at, &i) in ids.iter().enumerate() {
            let x = observations.row(i);
            layout.predict(observations, i, &self.anchor, &mut zeta);
            self.shifts.of_row(x, &mut deltas);
            family.differences_row(&zeta, observations.target(i), &deltas, &self.table, &mut out);
            if let Some(weights) = &observations.weights {
                out.iter_mut().for_each(|difference| *difference *= weights[i]);
            }
            take(at, &out);
        }
    }
}

impl<F: JointFamily + 'static> Differences for Prepared<F> {
    fn narrow(&self, ids: &[usize], _scratch: &mut Vec<f32>, out: &mut [f32]) {
        let count = self.shifts.count;
        self.each(ids, |at, row| {
            out[at * count..][..count].iter_mut().zip(row).for_each(|(out, x)| *out = *x as f32);
        });
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        let count = self.shifts.count;
        self.each(ids, |at, row| out[at * count..][..count].copy_from_slice(row));
    }
}

/// Shifts of θ, cut into those of each predictor's parameters.
pub struct PredictorShifts {
    /// How many.
    pub count: usize,
    blocks: Vec<BlockShifts>,
}

enum BlockShifts {
    Features(Shifts),
    Constant(Vec<f64>),
}

impl PredictorShifts {
    /// Those of these predictors.
    pub fn new(layout: &Layout, shifts: &Shifts) -> Self {
        let rows = || (0..shifts.len()).map(|s| shifts.row(s));
        let cut = |(input, block): (Inputs, Range<usize>)| match input {
            Inputs::Features => {
                let width = block.len();
                BlockShifts::Features(Shifts::new(
                    rows().flat_map(|row| row[block.clone()].to_vec()).collect(),
                    width,
                ))
            }
            Inputs::Constant => BlockShifts::Constant(rows().map(|row| row[block.start]).collect()),
        };
        PredictorShifts { count: shifts.len(), blocks: layout.blocks().map(cut).collect() }
    }

    /// The table of a family for these shifts from `anchor`.
    pub fn table(&self, family: &dyn JointFamily, layout: &Layout, anchor: &[f64]) -> Vec<f64> {
        let mut constants = Vec::new();
        for ((_, range), block) in layout.blocks().zip(&self.blocks) {
            if let BlockShifts::Constant(shifts) = block {
                constants.push((anchor[range.start], shifts.as_slice()));
            }
        }
        family.table(&constants)
    }

    /// r × S numbers for [`of_row`](Self::of_row), with the shifts that are the same for every row.
    pub fn buffer(&self) -> Vec<f64> {
        let zeros = vec![0.0; self.count];
        let column = |block: &BlockShifts| match block {
            BlockShifts::Features(_) => zeros.clone(),
            BlockShifts::Constant(column) => column.clone(),
        };
        self.blocks.iter().flat_map(column).collect()
    }

    /// The shifts of ζ of a row with features x, predictor after predictor.
    pub fn of_row(&self, x: &[f32], deltas: &mut [f64]) {
        for (block, deltas) in self.blocks.iter().zip(deltas.chunks_exact_mut(self.count.max(1))) {
            if let BlockShifts::Features(shifts) = block {
                shifts.products_f64(x, deltas);
            }
        }
    }
}
