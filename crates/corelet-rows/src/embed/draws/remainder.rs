//! Differences less a quadratic polynomial of each row's own predictors: what draws see once orders 1 and 2 are exact.

use crate::embed::JointPolynomials;
use crate::model::{Differences, JointPredictors, LinearPredictor, PredictorShifts, Shifts, WIDE_TILE};
use crate::rows::{Held, RowsError};

/// aᵢδ + bᵢδ² of δ = xᵢᵀ(θ − θ̂), to be subtracted from ℓᵢ(θ) − ℓᵢ(θ̂).
#[derive(Debug, Clone, PartialEq)]
pub struct RowPolynomials {
    /// aᵢ.
    pub slope: Held<f64>,
    /// bᵢ.
    pub curvature: Held<f64>,
}

impl RowPolynomials {
    /// Orders 1 and 2 of ℓᵢ = Σ hᵢₘHeₘ(z), z = δ/sᵢ, sᵢ² = xᵢᵀΣxᵢ: h₁z + h₂(z² − 1), so a = h₁/s and b = h₂/s².
    ///
    /// The constant −h₂ goes when columns are centred. Where sᵢ = 0 there is nothing to subtract.
    pub fn from_hermite(first: &[f64], second: &[f64], spread: &[f64]) -> Self {
        let inverse = |s: f64| if s > 0.0 { 1.0 / s } else { 0.0 };
        RowPolynomials {
            slope: first.iter().zip(spread).map(|(h, &s)| h * inverse(s)).collect(),
            curvature: second.iter().zip(spread).map(|(h, &s)| h * inverse(s) * inverse(s)).collect(),
        }
    }
}

/// The differences of a model with a linear predictor, less a polynomial a row.
///
/// In f32 the remainder has an error of 10⁻⁷ of what it was before the subtraction: enough to rank columns of which
/// the subtracted part is another part. In f64, as columns and sums are, that is 10⁻¹⁶.
pub(super) struct Remainder {
    whole: Box<dyn Differences>,
    linear: LinearPredictor,
    shifts: Shifts,
    polynomials: RowPolynomials,
}

impl Remainder {
    pub(super) fn new(
        whole: Box<dyn Differences>,
        linear: LinearPredictor,
        shifts: Shifts,
        polynomials: RowPolynomials,
    ) -> Result<Self, RowsError> {
        let expected = linear.observations.len();
        for got in [polynomials.slope.len(), polynomials.curvature.len()] {
            if got != expected {
                return Err(RowsError::Length { what: "the polynomials of the rows", got, expected });
            }
        }
        Ok(Remainder { whole, linear, shifts, polynomials })
    }
}

impl Differences for Remainder {
    fn narrow(&self, ids: &[usize], scratch: &mut Vec<f32>, out: &mut [f32]) {
        // As many rows as the tile product takes at once.
        const TILE: usize = 4;
        let count = self.shifts.len();
        self.whole.narrow(ids, scratch, out);
        for (ids, out) in ids.chunks(TILE).zip(out.chunks_mut(TILE * count)) {
            scratch.clear();
            ids.iter().for_each(|&i| scratch.extend_from_slice(self.linear.observations.row(i)));
            let features = scratch.len();
            scratch.resize(features + out.len(), 0.0);
            let (features, deltas) = scratch.split_at_mut(features);
            self.shifts.products(features, deltas);
            for ((&i, out), deltas) in
                ids.iter().zip(out.chunks_exact_mut(count)).zip(deltas.chunks_exact(count))
            {
                let (a, b) = (self.polynomials.slope[i] as f32, self.polynomials.curvature[i] as f32);
                out.iter_mut().zip(deltas).for_each(|(out, delta)| *out -= delta * (a + b * delta));
            }
        }
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        let count = self.shifts.len();
        let mut deltas = vec![0.0; WIDE_TILE.min(ids.len()) * count];
        let mut features = Vec::new();
        for (ids, out) in ids.chunks(WIDE_TILE).zip(out.chunks_mut(WIDE_TILE * count.max(1))) {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(self.linear.observations.row(i)));
            let deltas = &mut deltas[..ids.len() * count];
            self.shifts.products_f64(&features, deltas);
            self.whole.wide_at(ids, deltas, out);
            let rows = out.chunks_exact_mut(count.max(1)).zip(deltas.chunks_exact(count.max(1)));
            for (&i, (out, deltas)) in ids.iter().zip(rows) {
                let (a, b) = (self.polynomials.slope[i], self.polynomials.curvature[i]);
                out.iter_mut().zip(deltas).for_each(|(out, delta)| *out -= delta * (a + b * delta));
            }
        }
    }
}

/// The differences of a model with several predictors a row, less a polynomial a row; in f64, and rounded where f32 is asked for.
pub(super) struct JointRemainder {
    whole: Box<dyn Differences>,
    joint: JointPredictors,
    shifts: PredictorShifts,
    polynomials: JointPolynomials,
}

impl JointRemainder {
    pub(super) fn new(
        whole: Box<dyn Differences>,
        joint: JointPredictors,
        shifts: &Shifts,
        polynomials: JointPolynomials,
    ) -> Result<Self, RowsError> {
        let (got, expected) = (polynomials.len(), joint.observations.len());
        if got != expected {
            return Err(RowsError::Length { what: "the polynomials of the rows", got, expected });
        }
        let shifts = PredictorShifts::new(&joint.layout, shifts);
        Ok(JointRemainder { whole, joint, shifts, polynomials })
    }
}

impl Differences for JointRemainder {
    fn narrow(&self, ids: &[usize], _scratch: &mut Vec<f32>, out: &mut [f32]) {
        let mut wide = vec![0.0; out.len()];
        self.wide(ids, &mut wide);
        out.iter_mut().zip(wide).for_each(|(out, x)| *out = x as f32);
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        let mut deltas = self.shifts.buffer();
        self.whole.wide(ids, out);
        for (&i, out) in ids.iter().zip(out.chunks_exact_mut(self.shifts.count)) {
            self.shifts.of_row(self.joint.observations.row(i), &mut deltas);
            self.polynomials.subtract(i, &deltas, out);
        }
    }
}
