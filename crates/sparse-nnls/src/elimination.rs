//! Backward deletion: takes columns out of a fitted support one by one, each time the one that is missed least.
//!
//! With A = QR, the rows tᵢ of R⁻¹ are the dual basis of the support, (AᵀA)⁻¹ᵢⱼ = ⟨tᵢ, tⱼ⟩. Taking column j out of
//! the least-squares fit costs wⱼ²/‖tⱼ‖² in squared residual, moves the other weights to wᵢ − wⱼ⟨tᵢ, tⱼ⟩/‖tⱼ‖², and
//! projects the other duals off tⱼ. The duals stay as they are: with an orthonormal basis of those that are gone, a deletion is
//! one look at the triangle R⁻¹, without squaring the condition number.

use crate::kernel::{STRIP, axpy, dot, invert_strip, norm};
use crate::parallel::by_blocks;

/// Duals that one worker takes.
const CHUNK: usize = 32;

/// A squared length that has fallen to this share of what it was when last computed has lost too many digits.
const WORN: f64 = 1e-4;

/// A projection that leaves less than this share of a vector is made again, for what it has left along the basis.
const SHORT: f64 = 0.1;

/// R⁻¹ by rows, R given by its rows from the diagonal on: strips of columns, each solved for by itself, that stay in a cache.
fn inverse<'a>(size: usize, row: impl Fn(usize) -> &'a [f64]) -> Vec<f64> {
    let mut scaled = vec![0.0; size * size];
    for (i, scaled) in scaled.chunks_exact_mut(size.max(1)).enumerate() {
        let row = row(i);
        scaled[i + 1..].iter_mut().zip(&row[1..]).for_each(|(scaled, r)| *scaled = -r / row[0]);
    }
    let inverses: Vec<f64> = (0..size).map(|i| 1.0 / row(i)[0]).collect();
    let firsts: Vec<usize> = (0..size).step_by(STRIP).collect();
    let mut strips = vec![0.0; firsts.len() * size * STRIP];
    by_blocks(size.pow(3) / 6, (&firsts, 1), (&mut strips, size * STRIP), |first, strip| {
        invert_strip(&scaled, &inverses, first[0], strip);
    });
    // Where it was read from.
    let mut out = scaled;
    for (strip, first) in strips.chunks_exact((size * STRIP).max(1)).zip(firsts) {
        let width = STRIP.min(size - first);
        for (out, strip) in out.chunks_exact_mut(size).zip(strip.chunks_exact(STRIP)) {
            out[first..first + width].copy_from_slice(&strip[..width]);
        }
    }
    out
}

/// A support on its way down. Positions are those of the columns of R.
#[derive(Debug)]
pub(crate) struct Elimination {
    size: usize,
    /// R⁻¹: the dual of every column, left or not, by its position, as if none were gone.
    duals: Vec<f64>,
    /// An orthonormal basis of the duals of those that are gone.
    gone: Vec<f64>,
    /// ‖tᵢ‖², tᵢ now orthogonal to that basis, and what it was when last computed from tᵢ itself.
    lengths: Vec<f64>,
    computed: Vec<f64>,
    weights: Vec<f64>,
    positions: Vec<usize>,
    /// What the deletions have added to the squared residual.
    cost: f64,
}

impl Elimination {
    /// Starts from least-squares weights and R, given by its rows from the diagonal on.
    pub(crate) fn new<'a>(weights: &[f64], row: impl Fn(usize) -> &'a [f64]) -> Self {
        let size = weights.len();
        let duals = inverse(size, row);
        let lengths: Vec<f64> = duals.chunks_exact(size.max(1)).map(|t| dot(t, t)).collect();
        Self {
            size,
            duals,
            gone: Vec::new(),
            computed: lengths.clone(),
            lengths,
            weights: weights.to_vec(),
            positions: (0..size).collect(),
            cost: 0.0,
        }
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
        let weight = self.weights.remove(j);
        self.lengths.remove(j);
        self.computed.remove(j);
        let position = self.positions.remove(j);
        let mut direction = self.dual(position);
        let length = norm(&direction);
        direction.iter_mut().for_each(|t| *t /= length);
        self.cost += (weight / length).powi(2);
        let overlaps = self.overlaps(&direction);
        self.gone.extend(direction);
        for (i, overlap) in overlaps.into_iter().enumerate() {
            self.weights[i] -= weight / length * overlap;
            self.lengths[i] -= overlap * overlap;
            if self.lengths[i] < WORN * self.computed[i] {
                let dual = self.dual(self.positions[i]);
                self.lengths[i] = dot(&dual, &dual);
                self.computed[i] = self.lengths[i];
            }
        }
    }

    /// The dual at a position, orthogonal to those that are gone.
    fn dual(&self, position: usize) -> Vec<f64> {
        let mut dual = self.duals[position * self.size..(position + 1) * self.size].to_vec();
        for _ in 0..2 {
            let before = norm(&dual);
            self.gone.chunks_exact(self.size).for_each(|q| axpy(-dot(q, &dual), q, &mut dual));
            if norm(&dual) > SHORT * before {
                break;
            }
        }
        dual
    }

    /// ⟨tᵢ, direction⟩ for those left.
    fn overlaps(&self, direction: &[f64]) -> Vec<f64> {
        let mut overlaps = vec![0.0; self.len()];
        let work = self.len() * self.size / 2;
        by_blocks(work, (&self.positions, CHUNK), (&mut overlaps, CHUNK), |positions, overlaps| {
            for (&at, overlap) in positions.iter().zip(overlaps) {
                // An upper triangle.
                *overlap = dot(&self.duals[at * self.size + at..(at + 1) * self.size], &direction[at..]);
            }
        });
        overlaps
    }
}
