//! The last digits of a pursuit: growth and exchanges by an orthogonal factorisation of the columns themselves.
//!
//! Inner products lose half the digits. Where the residual is down to a millionth of y, or no column is far enough from the
//! span of the support for them to see, the search goes on here: slower, and exact to rounding.

use crate::driver::Problem;
use crate::elimination::Elimination;
use crate::kernel::overlap_squares;
use crate::method::path::Path;
use crate::method::pool::Pool;
use crate::method::search::{FLOOR, Search};
use crate::nnls::SupportFit;
use crate::parallel::by_blocks;

/// Columns handled together by one worker.
const CHUNK: usize = 32;

/// The heights are differences from 1, so one below this is rounding: gains are taken as if it were this high.
const LEAST_HEIGHT: f64 = 1e-12;

/// A fall of the residual by less than this share of it is rounding.
const LEAST_FALL: f64 = 1e-9;

/// Relative residual at which nothing is left to fit: what a dictionary computes of y has no more digits.
const NOTHING_LEFT: f64 = 1e-11;

/// Columns after which a pool counts as spent where they have not lowered the residual; and where it is down to the last digits, also
/// where they have thrown out as many as they were and lowered it by less than this share.
const PATIENCE: usize = 8;
const LEAST_GAIN: f64 = 1e-3;

/// A direction that entered (sign −1) or left (+1) the span of the support, and its share of y.
struct Shift {
    direction: Vec<f64>,
    share: f64,
    sign: f64,
}

/// A support of the pool's columns, with the correlation ⟨a, r⟩ and the height ‖a⊥‖² of every one of them.
pub(super) struct Floor {
    fit: SupportFit,
    best: SupportFit,
    correlations: Vec<f64>,
    heights: Vec<f64>,
    barred: Vec<bool>,
    scratch: Vec<f64>,
    /// Points and residual before each column that was tried since everything was last computed anew.
    tried: Vec<(usize, f64)>,
}

impl Floor {
    /// Goes on from the support of a search.
    pub(super) fn new(problem: &Problem, capacity: usize, search: &Search) -> Self {
        let (pool, tableau) = (&search.pool, &search.tableau);
        let mut fit = SupportFit::new(&problem.target, capacity);
        let columns = tableau.support().iter().zip(tableau.weights());
        fit.start(columns.map(|(&at, &weight)| (at, pool.gram.column(at), weight)));
        let mut floor = Self {
            best: fit.clone(),
            fit,
            correlations: Vec::new(),
            heights: Vec::new(),
            barred: Vec::new(),
            scratch: Vec::new(),
            tried: Vec::new(),
        };
        floor.refresh(pool);
        floor
    }

    pub(super) fn len(&self) -> usize {
        self.fit.len()
    }

    pub(super) fn residual(&self) -> &[f64] {
        self.fit.residual()
    }

    pub(super) fn residual_norm(&self) -> f64 {
        self.fit.residual_norm()
    }

    /// Whether nothing is left to fit but rounding.
    pub(super) fn is_reached(&self) -> bool {
        self.fit.residual_norm() <= self.fit.rounding().max(NOTHING_LEFT * self.fit.target_norm())
    }

    /// Whether residuals are so small that a search by inner products could not go on.
    pub(super) fn is_tiny(&self) -> bool {
        self.residual_norm() <= FLOOR * self.fit.target_norm()
    }

    /// Whether the last columns tried have brought nothing, or next to nothing.
    fn is_spent(&self) -> bool {
        let Some(&(points, before)) = self.tried.iter().rev().nth(PATIENCE - 1) else { return false };
        let residual = self.residual_norm();
        let churns = self.is_tiny() && self.len() <= points && residual > (1.0 - LEAST_GAIN) * before;
        churns || residual >= before * (1.0 - LEAST_FALL)
    }

    /// Computes everything anew for the present fit.
    pub(super) fn refresh(&mut self, pool: &Pool) {
        let dim = self.fit.residual().len();
        self.tried.clear();
        self.bar(pool);
        self.heights.clear();
        self.heights.resize(pool.len(), 0.0);
        let (basis, columns) = (self.fit.basis(), pool.gram.columns());
        let work = columns.len() * self.fit.len();
        by_blocks(work, (columns, CHUNK * dim), (&mut self.heights, CHUNK), |columns, heights| {
            overlap_squares(basis, columns, dim, heights);
            heights.iter_mut().for_each(|height| *height = 1.0 - *height);
        });
        self.recorrelate(pool);
    }

    fn bar(&mut self, pool: &Pool) {
        self.barred.clear();
        self.barred.resize(pool.len(), false);
        for &at in self.fit.ids() {
            self.barred[at] = true;
        }
    }

    /// Computes the correlations anew.
    fn recorrelate(&mut self, pool: &Pool) {
        pool.gram.correlate(self.fit.residual(), &mut self.correlations);
    }

    /// Takes note of what entered the span of the support and what left it, and with it its share of y: one look at the pool for
    /// all of it, and for the correlations, which are computed anew where `recorrelated`.
    fn shift(&mut self, pool: &Pool, changes: &[Shift], recorrelated: bool) {
        let mut vectors: Vec<f64> = changes.iter().flat_map(|change| &change.direction).copied().collect();
        if recorrelated {
            vectors.extend(self.fit.residual());
        }
        pool.gram.correlate_with(&vectors, &mut self.scratch);
        let products = self.scratch.chunks_exact(changes.len() + usize::from(recorrelated));
        for ((c, height), products) in self.correlations.iter_mut().zip(&mut self.heights).zip(products) {
            for (Shift { share, sign, .. }, overlap) in changes.iter().zip(products) {
                *height += sign * overlap * overlap;
                *c += sign * share * overlap;
            }
            if recorrelated {
                *c = products[changes.len()];
            }
        }
    }

    /// The open column whose entry would lower the residual most.
    fn promising(&self) -> Option<usize> {
        let least = self.fit.least_correlation();
        let gain = |at: usize| self.correlations[at].powi(2) / self.heights[at].max(LEAST_HEIGHT);
        let open = |at: &usize| !self.barred[*at] && self.correlations[*at] > least;
        (0..self.barred.len()).filter(open).max_by(|&a, &b| gain(a).total_cmp(&gain(b)).then(b.cmp(&a)))
    }

    /// Puts the column into the fit, solves, and brings the pool up to date. False if the residual did not fall.
    fn enter(&mut self, at: usize, pool: &Pool) -> bool {
        self.barred[at] = true;
        let before = self.fit.residual_norm();
        if !self.fit.push(at, pool.gram.column(at)) {
            return false;
        }
        let (direction, share) = self.fit.newest_direction();
        let mut changes = vec![Shift { direction: direction.to_vec(), share, sign: -1.0 }];
        self.fit.reoptimise();
        let after = self.fit.residual_norm();
        let fell = after < before * (1.0 - LEAST_FALL);
        let left = self.fit.take_removed().into_iter();
        changes.extend(left.map(|(direction, share)| Shift { direction, share, sign: 1.0 }));
        let removed = changes.len() > 1;
        // Where the residual fell far, what is left of the larger correlations is their rounding.
        self.shift(pool, &changes, removed || after < 0.1 * before);
        if fell && removed {
            // What was thrown out may come back now that something has changed; without a fall it could come back for ever.
            self.bar(pool);
            self.barred[at] = true;
        }
        fell
    }

    /// Lets columns enter until there are `goal` or nothing is left to fit or none helps: true then, and false where
    /// the work of a slice is done before.
    pub(super) fn grow(&mut self, goal: usize, slice: usize, search: &mut Search) -> bool {
        let (pool, path) = (&search.pool, &mut search.path);
        let mut work = 0;
        while self.fit.len() < goal && !self.is_spent() && !self.is_reached() {
            if work > slice {
                return false;
            }
            let Some(at) = self.promising() else { break };
            self.tried.push((self.len(), self.residual_norm()));
            if self.enter(at, pool) {
                self.record(pool, path);
            }
            // One product with the pool, and four with the support to keep its basis orthonormal.
            work += (pool.len() + 4 * self.fit.len()) * self.fit.residual().len();
        }
        true
    }

    fn record(&self, pool: &Pool, path: &mut Path) {
        let pairs = self.fit.ids().iter().zip(self.fit.weights()).map(|(&at, weight)| pool.entry(at, weight));
        path.record(self.fit.residual_norm(), self.fit.len(), pairs);
    }

    /// Deletes down to `size` points, recording what is passed.
    pub(super) fn cut(&mut self, size: usize, search: &mut Search) {
        let (pool, path) = (&search.pool, &mut search.path);
        if self.fit.len() <= size {
            return;
        }
        let squared = self.fit.residual_norm().powi(2);
        let mut elimination = Elimination::new(self.fit.unit_weights(), |i| self.fit.triangle_row(i));
        while elimination.len() > size {
            elimination.delete_cheapest();
            let left = elimination.positions().iter().zip(elimination.weights());
            let pairs = left.map(|(&place, &weight)| pool.entry(self.fit.ids()[place], weight));
            path.record((squared + elimination.cost()).sqrt(), elimination.len(), pairs);
        }
        self.fit.retain(elimination.positions());
        self.fit.take_removed();
        self.record(pool, path);
    }

    /// Keeps the present support where it is better than the best, and otherwise goes back to that.
    pub(super) fn keep_better(&mut self) -> bool {
        let better = self.fit.residual_norm() < self.best.residual_norm() * (1.0 - LEAST_FALL);
        let (from, to) = if better { (&self.fit, &mut self.best) } else { (&self.best, &mut self.fit) };
        to.clone_from(from);
        better
    }
}
