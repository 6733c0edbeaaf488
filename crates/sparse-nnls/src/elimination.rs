//! Backward deletion: takes columns out of a fitted support one by one, each time the one that is missed least.
//!
//! With A = QR, the rows tᵢ of R⁻¹ are the dual basis of the support, (AᵀA)⁻¹ᵢⱼ = ⟨tᵢ, tⱼ⟩. Taking column j out of
//! the least-squares fit costs wⱼ²/‖tⱼ‖² in squared residual, moves the other weights to wᵢ − wⱼ⟨tᵢ, tⱼ⟩/‖tⱼ‖², and
//! projects the other duals off tⱼ: O(m²) a deletion, without squaring the condition number.

use rayon::prelude::*;

use crate::kernel::{accumulate, axpy, correlate, dot};
use crate::nnls::SupportFit;

/// A support on its way down. Positions are those of the [`SupportFit`] it was made from.
#[derive(Debug)]
pub(crate) struct Elimination {
    size: usize,
    duals: Vec<f64>,
    /// ‖tᵢ‖².
    lengths: Vec<f64>,
    weights: Vec<f64>,
    positions: Vec<usize>,
    /// What the deletions have added to the squared residual.
    cost: f64,
    overlaps: Vec<f64>,
}

/// For each column of a support, the direction that leaves the span when it does, and that direction's share of y.
#[derive(Debug)]
pub(crate) struct DualBasis {
    pub(crate) directions: Vec<f64>,
    pub(crate) shares: Vec<f64>,
}

impl Elimination {
    /// Starts from a fit whose weights are its least-squares ones.
    pub(crate) fn new(fit: &SupportFit) -> Self {
        let size = fit.len();
        let mut duals = vec![0.0; size * size];
        let mut coefficients = Vec::with_capacity(size);
        for i in (0..size).rev() {
            let row = fit.triangle_row(i);
            let (head, below) = duals.split_at_mut((i + 1) * size);
            let dual = &mut head[i * size..];
            coefficients.clear();
            coefficients.extend(row[1..].iter().map(|r| -r / row[0]));
            accumulate(below, &coefficients, dual);
            dual[i] += 1.0 / row[0];
        }
        let lengths = duals.chunks_exact(size.max(1)).map(|t| dot(t, t)).collect();
        let weights = fit.unit_weights().to_vec();
        Self {
            size,
            duals,
            lengths,
            weights,
            positions: (0..size).collect(),
            cost: 0.0,
            overlaps: vec![0.0; size],
        }
    }

    /// The dual vectors of the support as unit vectors in the space of the columns, with their shares of y.
    pub(crate) fn dual_basis(&self, fit: &SupportFit) -> DualBasis {
        let dim = fit.residual().len();
        let mut directions = vec![0.0; self.size * dim];
        let duals = self.duals.par_chunks_exact(self.size.max(1)).zip(&self.lengths);
        directions.par_chunks_exact_mut(dim).zip(duals).for_each(|(out, (dual, squared))| {
            let length = squared.sqrt();
            let scaled: Vec<f64> = dual.iter().map(|t| t / length).collect();
            accumulate(fit.basis(), &scaled, out);
        });
        let shares = self.weights.iter().zip(&self.lengths).map(|(w, squared)| w / squared.sqrt()).collect();
        DualBasis { directions, shares }
    }

    /// Number of columns left.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The positions left, ascending.
    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// The weights left, on unit columns, in the order of [`positions`](Self::positions).
    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// What the deletions have added to the squared residual.
    pub(crate) fn cost(&self) -> f64 {
        self.cost
    }

    /// Takes out the cheapest column, and then whatever non-negativity throws out with it.
    pub(crate) fn delete_cheapest(&mut self) {
        let cost = |i: usize| self.weights[i] * self.weights[i] / self.lengths[i];
        let cheapest = (0..self.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        let Some(mut leaving) = cheapest else { return };
        // Feasible weights to step from; those of the deleted column are simply given up.
        let mut feasible = self.weights.clone();
        loop {
            self.delete(leaving);
            feasible.remove(leaving);
            let blocking = |i: usize| {
                let (from, to) = (feasible[i], self.weights[i]);
                if to > 0.0 {
                    f64::INFINITY
                } else if from > 0.0 {
                    from / (from - to)
                } else {
                    0.0
                }
            };
            let next = (0..self.len()).min_by(|&a, &b| blocking(a).total_cmp(&blocking(b)));
            let Some(next) = next.filter(|&i| blocking(i) < f64::INFINITY) else { return };
            let step = blocking(next);
            feasible
                .iter_mut()
                .zip(&self.weights)
                .for_each(|(from, to)| *from = (*from + step * (to - *from)).max(0.0));
            leaving = next;
        }
    }

    /// Takes column `j` (of those left) out of the least-squares fit.
    fn delete(&mut self, j: usize) {
        let (size, last) = (self.size, self.len() - 1);
        let gone = self.duals[j * size..(j + 1) * size].to_vec();
        let (weight, length) = (self.weights[j], self.lengths[j]);
        self.cost += weight * weight / length;
        self.duals.copy_within((j + 1) * size..(last + 1) * size, j * size);
        self.weights.remove(j);
        self.lengths.remove(j);
        self.positions.remove(j);
        let duals = &mut self.duals[..last * size];
        correlate(duals, &gone, &mut self.overlaps[..last]);
        for (i, dual) in duals.chunks_exact_mut(size).enumerate() {
            let share = self.overlaps[i] / length;
            self.weights[i] -= weight * share;
            axpy(-share, &gone, dual);
            self.lengths[i] = dot(dual, dual);
        }
    }
}
