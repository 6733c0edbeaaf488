//! Backward deletion: takes columns out of a fitted support one by one, each time the one that is missed least.
//!
//! With A = QR, the rows tᵢ of R⁻¹ are the dual basis of the support, (AᵀA)⁻¹ᵢⱼ = ⟨tᵢ, tⱼ⟩. Taking column j out of
//! the least-squares fit costs wⱼ²/‖tⱼ‖² in squared residual, moves the other weights to wᵢ − wⱼ⟨tᵢ, tⱼ⟩/‖tⱼ‖², and
//! projects the other duals off tⱼ: O(m²) a deletion, without squaring the condition number.

use crate::kernel::{axpy, dot};

/// A support on its way down. Positions are those of the columns of R.
#[derive(Debug)]
pub(crate) struct Elimination {
    size: usize,
    /// The dual of every column, left or not, by its position.
    duals: Vec<f64>,
    /// ‖tᵢ‖².
    lengths: Vec<f64>,
    weights: Vec<f64>,
    positions: Vec<usize>,
    /// What the deletions have added to the squared residual.
    cost: f64,
}

impl Elimination {
    /// Starts from least-squares weights and R, given by its rows from the diagonal on.
    pub(crate) fn new<'a>(weights: &[f64], row: impl Fn(usize) -> &'a [f64]) -> Self {
        let size = weights.len();
        let mut duals = vec![0.0; size * size];
        for i in (0..size).rev() {
            let row = row(i);
            let (head, below) = duals.split_at_mut((i + 1) * size);
            let dual = &mut head[i * size..];
            for (j, (other, r)) in below.chunks_exact(size).zip(&row[1..]).enumerate() {
                // An upper triangle: what is left of the diagonal is zero.
                axpy(-r / row[0], &other[i + 1 + j..], &mut dual[i + 1 + j..]);
            }
            dual[i] = 1.0 / row[0];
        }
        let lengths = duals.chunks_exact(size.max(1)).map(|t| dot(t, t)).collect();
        Self { size, duals, lengths, weights: weights.to_vec(), positions: (0..size).collect(), cost: 0.0 }
    }

    /// The rows of R⁻¹ at unit length, and the share of y along each: what leaves the span with each column.
    pub(crate) fn unit_duals(mut self) -> (Vec<f64>, Vec<f64>) {
        let lengths = self.lengths.iter().map(|squared| squared.sqrt());
        for ((dual, weight), length) in
            self.duals.chunks_exact_mut(self.size.max(1)).zip(&mut self.weights).zip(lengths)
        {
            dual.iter_mut().for_each(|t| *t /= length);
            *weight /= length;
        }
        (self.duals, self.weights)
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
        let size = self.size;
        let (weight, length) = (self.weights.remove(j), self.lengths.remove(j));
        let position = self.positions.remove(j);
        let gone = self.duals[position * size..(position + 1) * size].to_vec();
        self.cost += weight * weight / length;
        let left = self.positions.iter().zip(self.weights.iter_mut().zip(&mut self.lengths));
        for (&position, (other, squared)) in left {
            let dual = &mut self.duals[position * size..(position + 1) * size];
            let share = dot(dual, &gone) / length;
            *other -= weight * share;
            axpy(-share, &gone, dual);
            *squared = dot(dual, dual);
        }
    }
}
