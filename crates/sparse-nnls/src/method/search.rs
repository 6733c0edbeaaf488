//! The search inside a pool: grow, cut, exchange and swap, all by inner products, with every size recorded on the way.

use crate::dictionary::{Candidate, Oracle};
use crate::driver::{Problem, Weights};
use crate::error::Error;
use crate::method::path::Path;
use crate::method::pool::Pool;
use crate::method::tableau::Tableau;
use crate::random::{Purpose, uniform};

/// Relative residual below which inner products no longer tell columns apart, nor a residual from rounding.
pub(super) const FLOOR: f64 = 1e-6;

/// An exchange must lower the squared residual by this share to be tried, and by far less to be kept.
const LEAST_FALL: f64 = 1e-4;
const KEPT_FALL: f64 = 1e-9;

/// What rounding leaves of ‖y‖² in a squared residual that comes from inner products: the same support, reached by another way,
/// is no better by that much.
const ROUNDING: f64 = 1e-14;

/// Exchanges tried in vain before a support counts as a local optimum.
const PATIENCE: usize = 8;

/// A pool, the support at present and the best so far.
pub(super) struct Search {
    pub(super) pool: Pool,
    pub(super) tableau: Tableau,
    pub(super) best: Tableau,
    /// The support before an exchange that is being tried.
    before: Tableau,
    pub(super) path: Path,
    /// y − Φw when it was last computed from the columns.
    pub(super) residual: Vec<f64>,
    capacity: usize,
    target_norm: f64,
    /// Columns that have entered in the growth under way.
    entered: usize,
}

impl Search {
    /// An empty pool, for supports of at most `capacity` columns and a path of k.
    pub(super) fn new(problem: &Problem, capacity: usize) -> Self {
        let pool = Pool::default();
        let empty = || Tableau::new(&pool.gram, problem.target_norm, capacity);
        Self {
            tableau: empty(),
            best: empty(),
            before: empty(),
            pool,
            path: Path::new(problem.k),
            residual: problem.target.clone(),
            capacity,
            target_norm: problem.target_norm,
            entered: 0,
        }
    }

    /// Adds columns to the pool; the support stays, and so does the best.
    pub(super) fn add(
        &mut self,
        candidates: &[Candidate],
        problem: &Problem,
        oracle: &Oracle<'_>,
    ) -> Result<(), Error> {
        // Changes that are pending know the products with the columns there are.
        self.tableau.bring_up_to_date(&self.pool.gram);
        self.best.bring_up_to_date(&self.pool.gram);
        self.pool.add(candidates, problem, oracle)?;
        self.tableau.extend(&mut self.pool.gram);
        self.best.extend(&mut self.pool.gram);
        Ok(())
    }

    /// Begins with the columns of a support that are in the pool, as many as there is room for, solved from their weights.
    pub(super) fn resume(&mut self, from: &Weights) {
        let place_of = |(id, weight): (&usize, &f64)| self.pool.place_of(*id, *weight);
        let mut entries: Vec<(usize, f64)> = from.ids.iter().zip(&from.values).filter_map(place_of).collect();
        let mut taken = std::collections::HashSet::new();
        entries.retain(|entry| taken.insert(entry.0));
        let (places, weights): (Vec<usize>, Vec<f64>) = entries.into_iter().take(self.capacity).unzip();
        if !places.is_empty() {
            let gram = &mut self.pool.gram;
            self.tableau = Tableau::start(gram, self.target_norm, self.capacity, &places, &weights);
            self.record();
        }
    }

    /// Multiply-adds of a step at the present size.
    pub(super) fn step_work(&self) -> usize {
        self.pool.len() * self.tableau.len().max(1)
    }

    /// Records the support, unless its residual is below what inner products can tell.
    fn record(&mut self) {
        if self.tableau.residual_norm() > FLOOR * self.target_norm {
            self.record_settled();
        }
    }

    fn record_settled(&mut self) {
        let (tableau, pool) = (&self.tableau, &self.pool);
        let pairs =
            tableau.support().iter().zip(tableau.weights()).map(|(&at, &weight)| pool.entry(at, weight));
        self.path.record(tableau.residual_norm(), tableau.len(), pairs);
    }

    /// Lets columns enter until there are `goal`, the residual is down to `floor`, or none helps: true then, and false if the work of
    /// a slice is done before.
    pub(super) fn grow(&mut self, goal: usize, floor: f64, slice: usize) -> bool {
        let mut work = 0;
        while self.tableau.len() < goal
            && self.tableau.residual_norm() > floor
            && self.entered < 3 * goal + 50
        {
            if work > slice {
                return false;
            }
            let room = goal - self.tableau.len();
            let Some(at) = self.tableau.best(&mut self.pool.gram, room) else { break };
            if self.tableau.enter(at, &self.pool.gram) {
                self.entered += 1;
                self.record();
            }
            work += self.step_work();
        }
        self.entered = 0;
        true
    }

    /// Deletes down to `size` points, recording what is passed.
    pub(super) fn cut(&mut self, size: usize) {
        if self.tableau.len() <= size {
            return;
        }
        let places = self.delete(size);
        self.tableau.retain(&places, &mut self.pool.gram);
        self.record();
    }

    /// The places that are left of a support of `size` points, with every size on the way recorded.
    pub(super) fn delete(&mut self, size: usize) -> Vec<usize> {
        let mut elimination = self.tableau.elimination();
        let squared = self.tableau.residual_norm().powi(2);
        while elimination.len() > size {
            elimination.delete_cheapest();
            let residual = (squared + elimination.cost()).sqrt();
            if residual <= FLOOR * self.target_norm {
                continue;
            }
            let (places, support, pool) = (elimination.positions(), self.tableau.support(), &self.pool);
            let pairs =
                places.iter().zip(elimination.weights()).map(|(&place, &w)| pool.entry(support[place], w));
            self.path.record(residual, elimination.len(), pairs);
        }
        elimination.positions().to_vec()
    }

    /// Computes the residual from the columns themselves, and what depends on it.
    pub(super) fn settle(&mut self, target: &[f64]) {
        self.residual = self.tableau.settle(target, &self.pool.gram);
        self.record_settled();
    }

    /// Whether the present support is better than another, by more than rounding.
    fn is_better_than(&self, other: &Tableau) -> bool {
        let (now, before) = (self.tableau.residual_norm().powi(2), other.residual_norm().powi(2));
        now < before * (1.0 - 2.0 * KEPT_FALL) - ROUNDING * self.target_norm.powi(2)
    }

    fn is_best(&self) -> bool {
        self.best.is_empty() || self.is_better_than(&self.best)
    }

    /// [`keep_better`](Self::keep_better) by the residual of the columns themselves, which is not computed where inner products say
    /// already that it is no better.
    pub(super) fn keep_better_settled(&mut self, target: &[f64]) -> bool {
        if self.is_best() {
            self.settle(target);
        }
        self.keep_better()
    }

    /// Keeps the present support where it is better than the best, and otherwise goes back to that.
    pub(super) fn keep_better(&mut self) -> bool {
        let better = self.is_best();
        let (from, to) =
            if better { (&self.tableau, &mut self.best) } else { (&self.best, &mut self.tableau) };
        to.copy_from(from);
        better
    }

    /// Exchanges single columns as long as one scoring of all exchanges lasts. Whether that brought anything.
    pub(super) fn swap(&mut self, k: usize) -> bool {
        let least = LEAST_FALL * self.tableau.residual_norm().powi(2);
        let (mut helped, mut failures) = (false, 0);
        let exchanges = self.tableau.exchanges(least, &self.pool.gram);
        for (tried, &(leaves, enters)) in exchanges.iter().enumerate() {
            if failures == PATIENCE {
                break;
            }
            let gram = &mut self.pool.gram;
            if !gram.knows(enters) {
                let next: Vec<usize> = exchanges[tried..].iter().take(PATIENCE).map(|pair| pair.1).collect();
                gram.ask(&next);
            }
            let Some(place) = self.tableau.support().iter().position(|&at| at == leaves) else { continue };
            if self.tableau.support().contains(&enters) {
                continue;
            }
            self.before.copy_from(&self.tableau);
            self.tableau.leave(place, gram);
            self.tableau.enter_column(enters, gram);
            self.tableau.unbar();
            while self.tableau.len() < k {
                let Some(at) = self.tableau.best(gram, k - self.tableau.len()) else { break };
                self.tableau.enter(at, gram);
            }
            if self.is_better_than(&self.before) {
                (helped, failures) = (true, 0);
            } else {
                std::mem::swap(&mut self.tableau, &mut self.before);
                failures += 1;
            }
        }
        if helped {
            self.record();
        }
        helped
    }

    /// Throws `count` columns out of the support at random and bars their return, and that of their likes.
    pub(super) fn shake(&mut self, count: usize, round: usize, seed: u64) {
        let support = self.tableau.support();
        let lot = |place: usize| uniform(seed, Purpose::Shake, round * self.capacity + place);
        let mut places: Vec<usize> = (0..support.len()).collect();
        places.sort_by(|&a, &b| lot(a).total_cmp(&lot(b)));
        let mut kept = places.split_off(count.min(support.len().saturating_sub(1)));
        let gone: Vec<usize> = places.into_iter().map(|place| support[place]).collect();
        kept.sort_unstable();
        self.tableau.retain(&kept, &mut self.pool.gram);
        self.tableau.bar(&gone, &self.pool.gram);
    }
}
