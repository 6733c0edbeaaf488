//! Log-likelihood differences of a model with several predictors a row, made ready once for many passes.

use super::joint_curves::Curves;
use super::{Differences, Inputs, JointPredictors, Layout, Scratch, Shifts};
use std::ops::Range;

/// The model, its anchor, and the shifts of each predictor's parameters.
pub struct Prepared {
    model: JointPredictors,
    anchor: Vec<f64>,
    shifts: PredictorShifts,
    table: Vec<f64>,
    curves: Option<Curves>,
}

impl Prepared {
    /// For these shifts from `anchor`.
    pub fn new(model: JointPredictors, anchor: &[f64], shifts: &Shifts) -> Self {
        let curves = Curves::new(&model, anchor, shifts);
        let shifts = PredictorShifts::new(&model.layout, shifts);
        let table = model.family.table(&shifts.constants(&model.layout, anchor));
        Prepared { model, anchor: anchor.to_vec(), shifts, table, curves }
    }

    /// The differences of each row, handed on with its place.
    fn each(&self, ids: &[usize], mut take: impl FnMut(usize, &[f64])) {
        let JointPredictors { observations, family, layout } = &self.model;
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

impl Differences for Prepared {
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

    /// What is linear in a shift is summed in f64 by the gradients of the rows, and what is curved in f32.
    fn add_narrow(&self, ids: &[usize], _scratch: &mut Scratch, sum: &mut [f64]) {
        let others = self.curves.as_ref().map(|curves| curves.add(&self.model, &self.anchor, ids, sum));
        let others = others.as_deref().unwrap_or(ids);
        self.each(others, |_, row| sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
    }
}

/// Shifts of θ, cut into those of each predictor's parameters.
pub struct PredictorShifts {
    /// Number of shifts.
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

    /// Of each predictor with a constant input, its ζ and its shifts.
    pub fn constants(&self, layout: &Layout, anchor: &[f64]) -> Vec<(f64, &[f64])> {
        let blocks = layout.blocks().zip(&self.blocks);
        let constants = blocks.filter_map(|((_, range), block)| match block {
            BlockShifts::Constant(shifts) => Some((anchor[range.start], shifts.as_slice())),
            BlockShifts::Features(_) => None,
        });
        constants.collect()
    }

    /// The largest shift of each parameter of each predictor.
    pub(super) fn reach(&self) -> Vec<Vec<f32>> {
        let of = |block: &BlockShifts| match block {
            BlockShifts::Features(shifts) => shifts.reach(),
            BlockShifts::Constant(shifts) => vec![shifts.iter().fold(0.0_f64, |m, x| m.max(x.abs())) as f32],
        };
        self.blocks.iter().map(of).collect()
    }

    /// The shifts of the predictors with features of some rows x, predictor after predictor and each row after row, in f32.
    pub(super) fn products(&self, features: &[f32], rows: usize, deltas: &mut [f32]) {
        let blocks = self.blocks.iter().filter_map(|block| match block {
            BlockShifts::Features(shifts) => Some(shifts),
            BlockShifts::Constant(_) => None,
        });
        let length = rows * self.count;
        blocks
            .zip(deltas.chunks_exact_mut(length.max(1)))
            .for_each(|(shifts, deltas)| shifts.products(features, deltas));
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
