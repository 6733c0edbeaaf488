//! Sums of log-likelihood differences of rows with several predictors: linear parts in f64, by their gradients, and what is curved in f32.

use super::joint_prepared::PredictorShifts;
use super::{Inputs, JointJets, JointPredictors, Layout, Shifts};

/// S shifts of a row's predictors, for [`JointFamily::add_curved`](super::JointFamily::add_curved).
#[derive(Debug, Clone, Copy)]
pub struct NearShifts<'a> {
    /// S numbers for each predictor with features, those of other rows between them.
    deltas: &'a [f32],
    stride: usize,
    count: usize,
    /// ∇ℓ(ζ).
    pub gradient: &'a [f64],
    /// A bound of |δ| of each predictor.
    pub reach: &'a [f64],
    /// What [`JointFamily::curved_table`](super::JointFamily::curved_table) made of the shifts that are the same for every row.
    pub table: &'a [f32],
    /// What the row counts.
    pub weight: f32,
}

impl<'a> NearShifts<'a> {
    /// Of one row whose predictors with features are shifted by `deltas`, those of the first, then those of the second, …; S each.
    pub fn new(
        deltas: &'a [f32],
        count: usize,
        gradient: &'a [f64],
        reach: &'a [f64],
        table: &'a [f32],
    ) -> Self {
        NearShifts { deltas, stride: count, count, gradient, reach, table, weight: 1.0 }
    }

    /// The shifts of a predictor with features.
    pub fn of(&self, predictor: usize) -> &'a [f32] {
        &self.deltas[predictor * self.stride..][..self.count]
    }

    /// Column `at` of a table with S numbers a column.
    pub fn column(&self, at: usize) -> &'a [f32] {
        &self.table[at * self.count..][..self.count]
    }
}

/// Shifts in f32, whole registers of them: zeros follow the last.
const PAD: usize = 16;

/// Rows that the tile product takes at once.
const TILE: usize = 4;

/// What a family with curves makes of shifts, once for all rows.
pub(super) struct Curves {
    whole: Shifts,
    padded: PredictorShifts,
    /// The largest shift of each parameter of each predictor.
    reach: Vec<Vec<f32>>,
    table: Vec<f32>,
}

impl Curves {
    /// None if the family has no curves.
    pub(super) fn new(model: &JointPredictors, anchor: &[f64], shifts: &Shifts) -> Option<Self> {
        let mut rows: Vec<f64> = (0..shifts.len()).flat_map(|s| shifts.row(s)).copied().collect();
        rows.resize(shifts.len().next_multiple_of(PAD) * shifts.dim(), 0.0);
        let padded = PredictorShifts::new(&model.layout, &Shifts::new(rows, shifts.dim()));
        let table = model.family.curved_table(&padded.constants(&model.layout, anchor))?;
        Some(Curves { whole: shifts.clone(), reach: padded.reach(), padded, table })
    }

    /// Adds the differences of rows to `sum`, and returns those that no curve reaches.
    pub(super) fn add(
        &self,
        model: &JointPredictors,
        anchor: &[f64],
        ids: &[usize],
        sum: &mut [f64],
    ) -> Vec<usize> {
        let JointPredictors { observations, family, layout } = model;
        let count = self.padded.count;
        let (mut zeta, mut rows) = (vec![0.0; self.reach.len()], JointJets::new(layout.inputs()));
        rows.reserve(ids.len());
        for &i in ids {
            layout.predict(observations, i, anchor, &mut zeta);
            rows.push(&zeta, observations.target(i));
        }
        family.jets(rows.asked());
        let (mut deltas, mut features) = (vec![0.0; rows.zeta.len() * TILE * count], Vec::new());
        let (mut gradient, mut reach) = (zeta.clone(), zeta.clone());
        let (mut others, mut curved) = (Vec::new(), vec![0.0; count]);
        for (tile, ids) in ids.chunks(TILE).enumerate() {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(observations.row(i)));
            self.padded.products(&features, ids.len(), &mut deltas);
            for (at, &i) in ids.iter().enumerate() {
                let row = tile * TILE + at;
                rows.predictors(row, &mut zeta);
                gradient.iter_mut().zip(&rows.gradient).for_each(|(to, slopes)| *to = slopes[row]);
                self.bound(layout, observations.row(i), &mut reach);
                let shifts = NearShifts {
                    deltas: &deltas[at * count..],
                    stride: ids.len() * count,
                    count,
                    gradient: &gradient,
                    reach: &reach,
                    table: &self.table,
                    weight: observations.weight(i) as f32,
                };
                if !family.add_curved(&zeta, observations.target(i), &shifts, &mut curved) {
                    others.push(i);
                    rows.gradient.iter_mut().for_each(|slopes| slopes[row] = 0.0);
                }
            }
        }
        sum.iter_mut().zip(&curved).for_each(|(sum, &x)| *sum += f64::from(x));
        self.add_linear(model, ids, &rows, sum);
        others
    }

    /// Bounds of the shifts of each predictor of a row with features x.
    fn bound(&self, layout: &Layout, x: &[f32], bounds: &mut [f64]) {
        for ((bound, reach), input) in bounds.iter_mut().zip(&self.reach).zip(layout.inputs()) {
            let inputs = if *input == Inputs::Features { x } else { &[1.0] };
            // Several sums side by side, which need not wait for each other.
            let mut sums = [0.0_f32; 4];
            for (inputs, reach) in inputs.chunks(sums.len()).zip(reach.chunks(sums.len())) {
                let numbers = sums.iter_mut().zip(inputs.iter().zip(reach));
                numbers.for_each(|(sum, (x, reach))| *sum += x.abs() * reach);
            }
            *bound = f64::from(sums.iter().sum::<f32>());
        }
    }

    /// Adds (Σ fᵢAᵢᵀ∇ℓᵢ)ᵀΔₛ to each sum.
    fn add_linear(&self, model: &JointPredictors, ids: &[usize], rows: &JointJets, sum: &mut [f64]) {
        let JointPredictors { observations, layout, .. } = model;
        let mut gradient = vec![0.0; layout.dim()];
        for ((input, block), slopes) in layout.blocks().zip(&rows.gradient) {
            let gradient = &mut gradient[block];
            for (&i, slope) in ids.iter().zip(slopes) {
                let (x, slope) = (observations.row(i), slope * observations.weight(i));
                let inputs = if input == Inputs::Features { x } else { &[1.0] };
                gradient.iter_mut().zip(inputs).for_each(|(sum, &x)| *sum += slope * f64::from(x));
            }
        }
        let mut linear = vec![0.0; sum.len()];
        self.whole.products_f64(&gradient, &mut linear);
        sum.iter_mut().zip(linear).for_each(|(sum, x)| *sum += x);
    }
}
