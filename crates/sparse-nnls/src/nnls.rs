//! Non-negative least squares on a support, by an orthogonal factorisation that columns are added to and removed from.
//!
//! The support's columns, scaled to unit length, are kept as A = QR with Q orthonormal and R upper triangular.
//! A column enters by Gram–Schmidt applied twice, which leaves Q orthonormal to rounding, and leaves by Givens
//! rotations. The weights solve Rs = Qᵀy: no normal equations, so the condition number enters once, not squared,
//! and the scaling of the columns not at all.

use crate::dictionary::Oracle;
use crate::error::Error;
use crate::factors::Factors;
use crate::kernel::{accumulate, axpy, correlate, dot, norm};

/// Least squares on a support that grows and shrinks, with weights kept non-negative.
#[derive(Debug, Clone)]
pub struct SupportFit {
    target: Vec<f64>,
    target_norm: f64,
    ids: Vec<usize>,
    norms: Vec<f64>,
    /// Weights on the unit columns, ≥ 0.
    weights: Vec<f64>,
    /// The unit columns A, one after the other.
    columns: Vec<f64>,
    factors: Factors,
    residual: Vec<f64>,
    /// ‖r‖ when it was last made orthogonal to Q.
    settled: f64,
    /// Directions that left the span of Q since they were last asked for, with their shares of y.
    removed: Vec<(Vec<f64>, f64)>,
    solution: Vec<f64>,
}

impl SupportFit {
    /// An empty support for the target y, with room for `capacity` columns before memory must grow.
    pub fn new(target: &[f64], capacity: usize) -> Self {
        let room = capacity.max(4);
        Self {
            target: target.to_vec(),
            target_norm: norm(target),
            ids: Vec::with_capacity(room),
            norms: Vec::with_capacity(room),
            weights: Vec::with_capacity(room),
            columns: Vec::with_capacity(room * target.len()),
            factors: Factors::new(target.len(), capacity),
            residual: target.to_vec(),
            settled: norm(target),
            removed: Vec::new(),
            solution: Vec::with_capacity(room),
        }
    }

    /// Number of columns in the support.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if the support is empty.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The ids of the support, in the order they entered.
    pub fn ids(&self) -> &[usize] {
        &self.ids
    }

    /// The weight of each column of the support, for the columns as they were given (not scaled).
    pub fn weights(&self) -> Vec<f64> {
        self.weights.iter().zip(&self.norms).map(|(w, norm)| w / norm).collect()
    }

    /// y − Φw. Equal to y − QQᵀy while the weights are the least-squares ones.
    pub fn residual(&self) -> &[f64] {
        &self.residual
    }

    /// ‖y − Φw‖.
    pub fn residual_norm(&self) -> f64 {
        norm(&self.residual)
    }

    /// ‖y‖.
    pub fn target_norm(&self) -> f64 {
        self.target_norm
    }

    /// How far rounding alone can move the residual: ε·(‖y‖ + Σ wᵢ‖φᵢ‖), with room for the length of the sums.
    pub fn rounding(&self) -> f64 {
        32.0 * f64::EPSILON * (self.target_norm + self.weights.iter().sum::<f64>())
    }

    /// The least correlation ⟨φ, r⟩/‖φ‖ that is not rounding. The residual is kept by updates, each exact but for a
    /// perturbation of y, so it is r's own length that counts, not y's: ⟨φ, r⟩ means something far below ε‖y‖.
    pub(crate) fn least_correlation(&self) -> f64 {
        32.0 * f64::EPSILON * self.residual_norm()
    }

    /// The last column of Q, and its share of y: what the newest column added to the span.
    pub(crate) fn newest_direction(&self) -> (&[f64], f64) {
        self.factors.newest()
    }

    /// Takes the directions that left the span of Q since the last call, with their shares of y.
    pub(crate) fn take_removed(&mut self) -> Vec<(Vec<f64>, f64)> {
        std::mem::take(&mut self.removed)
    }

    /// Q, one column after the other.
    pub(crate) fn basis(&self) -> &[f64] {
        self.factors.basis()
    }

    /// The weights on unit columns.
    pub(crate) fn unit_weights(&self) -> &[f64] {
        &self.weights
    }

    /// Row `i` of R from the diagonal on.
    pub(crate) fn triangle_row(&self, i: usize) -> &[f64] {
        self.factors.triangle_row(i)
    }

    /// The largest violation of the optimality conditions on the support: max |⟨φᵢ, r⟩| / (‖φᵢ‖ ‖y‖).
    pub fn kkt(&self) -> f64 {
        let dim = self.target.len();
        let worst = self.columns.chunks_exact(dim).map(|a| dot(a, &self.residual).abs()).fold(0.0, f64::max);
        if self.target_norm > 0.0 { worst / self.target_norm } else { 0.0 }
    }

    /// Adds a column with weight zero. False, and nothing changed, where it is zero or depends on the support.
    pub fn push(&mut self, id: usize, column: &[f64]) -> bool {
        let length = norm(column);
        if length == 0.0 {
            return false;
        }
        let (dim, m) = (self.target.len(), self.len());
        self.columns.extend(column.iter().map(|x| x / length));
        if !self.factors.push(&self.columns[m * dim..], &mut self.residual) {
            self.columns.truncate(m * dim);
            return false;
        }
        self.ids.push(id);
        self.norms.push(length);
        self.weights.push(0.0);
        true
    }

    /// Adds columns with feasible weights, on columns of unit length, and solves.
    pub(crate) fn start<'a>(&mut self, columns: impl Iterator<Item = (usize, &'a [f64], f64)>) {
        for (id, column, weight) in columns {
            if self.push(id, column) {
                self.weights.pop();
                self.weights.push(weight);
            }
        }
        self.reoptimise();
        self.removed.clear();
    }

    /// Removes the column at `position`; the weights of the others stay as they are until the next solve.
    fn remove(&mut self, position: usize) {
        let (dim, m) = (self.target.len(), self.len());
        let (gone, share) = self.factors.remove(position);
        axpy(share, &gone, &mut self.residual);
        self.removed.push((gone, share));
        self.columns.copy_within((position + 1) * dim.., position * dim);
        self.columns.truncate((m - 1) * dim);
        self.ids.remove(position);
        self.norms.remove(position);
        self.weights.remove(position);
    }

    /// The inner loop of Lawson and Hanson: from the current weights, feasible, to the least-squares weights of the
    /// largest part of the support on which they are positive; what reaches zero leaves.
    pub fn reoptimise(&mut self) {
        let points = self.len();
        self.optimise();
        // A removal, or a fall to a small part of what it was, leaves rounding of the larger residual along the basis.
        let length = norm(&self.residual);
        if self.len() < points || length < 0.1 * self.settled {
            // What is left of r in the span of Q is rounding.
            self.factors.project_out(&mut self.residual);
        }
        self.settled = length;
    }

    fn optimise(&mut self) {
        loop {
            self.factors.solve(&mut self.solution);
            let blocking = |(&w, &s): (&f64, &f64)| if s > 0.0 { f64::INFINITY } else { w / (w - s) };
            let step = self.weights.iter().zip(&self.solution).map(blocking).fold(f64::INFINITY, f64::min);
            if step == f64::INFINITY {
                self.weights.copy_from_slice(&self.solution);
                return;
            }
            // A weight and its solution both zero divide 0/0: it leaves without a step.
            let step = if step.is_finite() { step } else { 0.0 };
            let mut leaving = Vec::new();
            for (i, (w, &s)) in self.weights.iter_mut().zip(&self.solution).enumerate() {
                let blocks = s <= 0.0 && (*w <= 0.0 || *w / (*w - s) <= step);
                *w = if blocks { 0.0 } else { (*w + step * (s - *w)).max(0.0) };
                if blocks {
                    leaving.push(i);
                }
            }
            for position in leaving.into_iter().rev() {
                self.remove(position);
            }
        }
    }

    /// Keeps only the columns at `positions` (ascending), and solves again.
    pub(crate) fn retain(&mut self, positions: &[usize]) {
        let (m, kept) = (self.len(), positions.len());
        let gone = m - kept;
        // Rotating out costs 3·gone·m column operations, starting afresh 2·kept².
        if 3 * gone * m < 2 * kept * kept {
            for position in (0..m).rev().filter(|p| positions.binary_search(p).is_err()) {
                self.remove(position);
            }
        } else {
            self.rebuild(positions);
        }
        self.reoptimise();
    }

    /// Factorises the columns at `positions` from scratch, with their present weights.
    fn rebuild(&mut self, positions: &[usize]) {
        let dim = self.target.len();
        let mut fresh = Self::new(&self.target, self.factors.capacity());
        for &p in positions {
            if fresh.push(self.ids[p], &self.columns[p * dim..(p + 1) * dim]) {
                let last = fresh.len() - 1;
                fresh.norms[last] *= self.norms[p];
                fresh.weights[last] = self.weights[p];
            }
        }
        *self = fresh;
    }

    /// Recomputes the residual from the weights, which sheds the rounding that updates gather.
    pub fn refresh_residual(&mut self) {
        self.residual.copy_from_slice(&self.target);
        let negative: Vec<f64> = self.weights.iter().map(|w| -w).collect();
        accumulate(&self.columns, &negative, &mut self.residual);
    }
}

/// Weights on given columns, with their optimality.
#[derive(Debug, Clone, PartialEq)]
pub struct SupportSolution {
    /// The columns with a positive weight, ascending.
    pub ids: Vec<usize>,
    /// Weights of these columns.
    pub weights: Vec<f64>,
    /// ‖y − Φw‖.
    pub residual: f64,
    /// The largest violation of the KKT conditions over all the columns given, relative to ‖φᵢ‖ ‖y‖.
    pub kkt: f64,
}

/// Solves min ‖y − Φw‖ over w ≥ 0 supported on `ids`, which *polishes* a coreset.
///
/// Lawson & Hanson's active set (*Solving Least Squares Problems*, 1974, ch. 23) on the factorisation of
/// [`SupportFit`]; `start` may give weights to begin from.
///
/// # Errors
/// [`Error::BadColumn`] for an id out of range or named twice; errors of the dictionary.
pub fn nnls_on_support(
    oracle: &Oracle<'_>,
    target: &[f64],
    ids: &[usize],
    start: Option<&[f64]>,
) -> Result<SupportSolution, Error> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    if let Some(id) = twice.or(sorted.last().copied().filter(|&id| id >= oracle.len())) {
        return Err(Error::BadColumn { id, columns: oracle.len() });
    }
    let mut columns = vec![0.0; ids.len() * target.len()];
    oracle.columns(ids, &mut columns)?;
    Ok(nnls(ids, &columns, target, start))
}

/// [`nnls_on_support`] on columns already in memory, one after the other.
pub(crate) fn nnls(ids: &[usize], columns: &[f64], target: &[f64], start: Option<&[f64]>) -> SupportSolution {
    let dim = target.len();
    let column = |i: usize| &columns[i * dim..(i + 1) * dim];
    let norms: Vec<f64> = (0..ids.len()).map(|i| norm(column(i))).collect();
    let mut fit = SupportFit::new(target, ids.len());
    for (i, &weight) in start.unwrap_or(&[]).iter().enumerate() {
        if weight > 0.0 && fit.push(i, column(i)) {
            let last = fit.len() - 1;
            fit.weights[last] = weight * norms[i];
        }
    }
    fit.reoptimise();
    let mut refused = vec![false; ids.len()];
    let mut correlations = vec![0.0; ids.len()];
    loop {
        correlate(columns, fit.residual(), &mut correlations);
        let open = |&i: &usize| norms[i] > 0.0 && !refused[i] && !fit.ids.contains(&i);
        let scaled = |i: usize| correlations[i] / norms[i];
        let best =
            (0..ids.len()).filter(open).max_by(|&a, &b| scaled(a).total_cmp(&scaled(b)).then(b.cmp(&a)));
        let Some(best) = best.filter(|&i| scaled(i) > fit.least_correlation()) else { break };
        let before = fit.residual_norm();
        if fit.push(best, column(best)) {
            fit.reoptimise();
        }
        let improved = fit.residual_norm() < before;
        if improved {
            refused.fill(false);
        }
        refused[best] |= !fit.ids.contains(&best) || !improved;
    }
    fit.refresh_residual();
    finish(ids, &norms, &fit, |i| dot(column(i), fit.residual()))
}

fn finish(
    ids: &[usize],
    norms: &[f64],
    fit: &SupportFit,
    correlation: impl Fn(usize) -> f64,
) -> SupportSolution {
    let violation = |i: usize| if norms[i] > 0.0 { (correlation(i) / norms[i]).max(0.0) } else { 0.0 };
    let outside = (0..ids.len()).filter(|i| !fit.ids.contains(i)).map(violation).fold(0.0, f64::max);
    let scale = if fit.target_norm > 0.0 { fit.target_norm } else { 1.0 };
    let mut chosen: Vec<(usize, f64)> =
        fit.ids.iter().map(|&i| ids[i]).zip(fit.weights()).filter(|p| p.1 > 0.0).collect();
    chosen.sort_unstable_by_key(|pair| pair.0);
    let (ids, weights) = chosen.into_iter().unzip();
    SupportSolution { ids, weights, residual: fit.residual_norm(), kkt: fit.kkt().max(outside / scale) }
}
