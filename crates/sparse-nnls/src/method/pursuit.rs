//! Pursuit, the default: pooled, fully corrective, non-negative, grown past k and cut back.
//!
//! *Grow.* One pass brings in the pool of columns with the largest ⟨φ, r⟩/‖φ‖. Inside it, column after column enters
//! by the largest drop of the residual, ⟨φ, r⟩²/‖φ⊥‖², with NNLS solved on the support each time. When the best left
//! in the pool is no better than what was left outside it, the next pass is made. The first pool of a large dictionary
//! is a random sample, with probability ∝ ‖φ‖: among many columns the best thousand all point the same way, and only
//! a few of them would enter, where a sample reaches everywhere and can be grown in until k is passed.
//!
//! *Cut.* Grown past k, the support is cut back to k by deleting, one at a time, the column that is missed
//! least, wᵢ²/(A⁺A⁺ᵀ)ᵢᵢ.
//!
//! *Refine.* Drop a share of the support, or grow past k by it, refill or cut, and keep what is better; halve the
//! share where nothing is. Every size passed on the way is recorded, so one run yields the whole path 1 … k.

use serde::{Deserialize, Serialize};

use crate::dictionary::{Candidate, Oracle, Query, Ranking, Score};
use crate::driver::{Algorithm, PathPoint, Problem, Step, Weights, positive};
use crate::elimination::Elimination;
use crate::error::Error;
use crate::method::path::Path;
use crate::method::pool::Pool;
use crate::nnls::SupportFit;
use crate::status::Status;

/// Settings of pursuit.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `pool` | max(1000, 4k) | columns a pass brings in | ≥ 1 |
/// | `steps_per_pass` | max(50, k/4) | columns that may enter between two passes | ≥ 1 |
/// | `overshoot` | 1 | grow to (1 + overshoot)·k before the first cut, half as far past k in a sampled pool | ≥ 0 |
/// | `refine_share` | 0.2 | share of the support the first refinement exchanges; 0 for none | [0, 1) |
/// | `max_passes` | 8 + k/20, from 12 to 40 | passes that refinement may use up to | ≥ 1 |
/// | `residual` | none | stop at ‖y − Φw‖ ≤ this, with the fewest points found | > 0 |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pursuit {
    /// Columns a pass brings in.
    pub pool: Option<usize>,
    /// Columns that may enter between two passes.
    pub steps_per_pass: Option<usize>,
    /// How far past k the support first grows, as a share of k.
    pub overshoot: f64,
    /// Share of the support that the first refinement exchanges.
    pub refine_share: f64,
    /// Refinement ends rather than make more passes than this in all.
    pub max_passes: Option<f64>,
    /// The residual norm to stop at.
    pub residual: Option<f64>,
}

impl Default for Pursuit {
    fn default() -> Self {
        Self {
            pool: None,
            steps_per_pass: None,
            overshoot: 1.0,
            refine_share: 0.2,
            max_passes: None,
            residual: None,
        }
    }
}

impl Pursuit {
    /// The passes that refinement may use up to for k points.
    pub fn passes(&self, k: usize) -> f64 {
        self.max_passes.unwrap_or_else(|| (8.0 + 0.05 * k as f64).clamp(12.0, 40.0))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        positive("pool", self.pool.unwrap_or(1) as f64)?;
        positive("steps_per_pass", self.steps_per_pass.unwrap_or(1) as f64)?;
        positive("max_passes", self.max_passes.unwrap_or(1.0))?;
        positive("residual", self.residual.unwrap_or(1.0))?;
        if !(self.overshoot >= 0.0 && self.overshoot.is_finite()) {
            let expected = "it must be a finite number ≥ 0";
            return Err(Error::Setting { name: "overshoot", value: self.overshoot, expected });
        }
        if !(0.0..1.0).contains(&self.refine_share) {
            let expected = "it must be a fraction in [0, 1)";
            return Err(Error::Setting { name: "refine_share", value: self.refine_share, expected });
        }
        Ok(())
    }
}

/// A pass that lowers the residual by a smaller share than this, and adds no point, has brought nothing.
const LEAST_FALL: f64 = 1e-2;

/// Relative residual at which nothing is left to fit: what a dictionary computes of y has no more digits.
const NOTHING_LEFT: f64 = 1e-11;

/// Relative residual below which a pursuit that finds nothing more has met the limits of floating point.
const FLOOR: f64 = 1e-6;

/// A pool is stale when its best correlation has fallen to this share of the best that was left outside it.
const STALE: f64 = 0.3;

/// Columns in a row that may fail to lower a residual near the floor before a pool counts as spent.
const PATIENCE: usize = 8;

/// Six rounds of refinement that lower the residual by less than this share are not worth their passes.
const LEAST_GAIN: f64 = 0.05;

/// Multiply-adds that all restarts together may cost, counting one pool, k steps and one swap for each.
const RESTART_WORK: usize = 25_000_000;

/// Single swaps at the end: this many, and more of them where k is small.
const SWAPS: usize = 3;

/// Multiply-adds after which a growth pauses, a fraction of a second, so that a caller can look in or stop.
const SLICE: usize = 1_000_000_000;

/// Where a growth started, and how far it is.
#[derive(Debug, Clone, Copy)]
struct Growth {
    points: usize,
    residual: f64,
    entered: usize,
    refused: usize,
}

/// How the round under way changes the best support: grow first and cut after, or drop first and refill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    GrowThenCut,
    DropThenRefill,
}

pub(super) struct Engine {
    pool_size: usize,
    steps_per_pass: usize,
    max_passes: f64,
    target_residual: f64,
    k: usize,
    fit: SupportFit,
    best: SupportFit,
    pool: Pool,
    answer: Vec<Candidate>,
    path: Path,
    /// The size the round under way grows to.
    goal: usize,
    exchange: Exchange,
    /// Columns exchanged by the present refinement, and rounds in a row that brought nothing.
    exchanged: usize,
    failures: usize,
    /// False while the first growth is under way.
    refining: bool,
    /// Whether the pool is a random sample.
    sampled: bool,
    /// A growth that has paused, and the work after which it does.
    growth: Option<Growth>,
    slice: usize,
    /// The best residual after each round.
    history: Vec<f64>,
}

/// Columns exchanged by the first refinement: a share of k, but enough to be worth trying where k is small.
fn first_exchange(share: f64, k: usize) -> usize {
    if share == 0.0 { 0 } else { ((share * k as f64).ceil() as usize).max(8) }
}

impl Engine {
    pub(super) fn new(problem: &Problem, settings: Pursuit) -> Self {
        let k = problem.k;
        let overshoot = (settings.overshoot * k as f64).ceil() as usize;
        let fit = SupportFit::new(&problem.target, (k + overshoot).min(problem.target.len()) + 1);
        Self {
            pool_size: settings.pool.unwrap_or(1000.max(4 * k)),
            steps_per_pass: settings.steps_per_pass.unwrap_or(50.max(k / 4)),
            max_passes: settings.passes(k),
            target_residual: settings.residual.unwrap_or(0.0),
            k,
            best: fit.clone(),
            fit,
            pool: Pool::default(),
            answer: Vec::new(),
            path: Path::new(k),
            goal: k + overshoot,
            exchange: Exchange::GrowThenCut,
            exchanged: first_exchange(settings.refine_share, k),
            failures: 0,
            refining: false,
            sampled: false,
            growth: None,
            slice: SLICE,
            history: Vec::new(),
        }
    }

    /// Brings in the columns that the present residual points at, or at first a sample of them all.
    fn look(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<(), Error> {
        // One more than there are columns, so that a pool which holds them all knows it.
        let count = self.pool_size.min(oracle.len() + 1);
        self.sampled = self.pool.is_empty() && oracle.len() > self.pool_size;
        if self.sampled {
            let ranking = Ranking { score: Score::Race { seed: problem.seed }, count };
            let query = Query { vectors: &[], rankings: &[ranking], exclude: &[], batch: None };
            oracle.top(&query, std::slice::from_mut(&mut self.answer))?;
            self.pool.fill(&self.answer, count, oracle)?;
            // The scores of a sample say nothing about what is outside it. Nor is it worth growing far in it.
            self.pool.floor = 0.0;
            self.goal -= (self.goal - self.k) / 2;
        } else if !self.pool.complete {
            let ranking = Ranking { score: Score::NormScaled, count };
            oracle.rank(self.fit.residual(), ranking, &[], &mut self.answer)?;
            self.pool.fill(&self.answer, count, oracle)?;
        }
        self.pool.refresh(&self.fit);
        Ok(())
    }

    fn at_floor(&self) -> bool {
        self.fit.residual_norm() <= self.fit.rounding().max(NOTHING_LEFT * self.fit.target_norm())
    }

    /// Lets columns of the pool enter until the goal is met or the pool is spent: whether that brought anything.
    fn grow(&mut self) -> bool {
        loop {
            if let Some(grew) = self.grow_a_slice() {
                return grew;
            }
        }
    }

    /// A slice of [`grow`](Self::grow); `None` where more is to come.
    fn grow_a_slice(&mut self) -> Option<bool> {
        let (points, residual) = (self.fit.len(), self.fit.residual_norm());
        let mut growth = self.growth.take().unwrap_or(Growth { points, residual, entered: 0, refused: 0 });
        // Near the floor a refusal or a fall by a hair is rounding. Far above it, a whole cluster of nearly parallel
        // columns may be refused before one that helps, and columns may change places on the way down.
        let low = growth.residual <= FLOOR * self.fit.target_norm();
        let (patience, least_fall) =
            if low { (PATIENCE, LEAST_FALL) } else { (usize::MAX, 1e-4 * LEAST_FALL) };
        let steps = if self.sampled { usize::MAX } else { self.steps_per_pass };
        let mut work = 0;
        while self.fit.len() < self.goal
            && growth.entered < steps
            && growth.refused < patience
            && !self.at_floor()
        {
            if work > self.slice {
                self.growth = Some(growth);
                return None;
            }
            let Some(at) = self.pool.best(self.fit.least_correlation()) else { break };
            if growth.entered > 0 && self.pool.correlation(at) < STALE * self.pool.floor {
                break;
            }
            if self.pool.enter(at, &mut self.fit) {
                (growth.entered, growth.refused) = (growth.entered + 1, 0);
                self.path.record_fit(&self.fit);
            } else {
                growth.refused += 1;
            }
            // One product with the pool, and four with the support to keep its basis orthonormal.
            work += (self.pool.len() + 4 * self.fit.len()) * self.fit.residual().len();
        }
        Some(
            self.fit.len() > growth.points || self.fit.residual_norm() < growth.residual * (1.0 - least_fall),
        )
    }

    /// Deletes down to `size` points, recording what is passed.
    fn cut(&mut self, size: usize) {
        if self.fit.len() <= size {
            return;
        }
        let mut elimination = Elimination::new(&self.fit);
        let squared = self.fit.residual_norm().powi(2);
        while elimination.len() > size {
            elimination.delete_cheapest();
            self.path.record_elimination(&self.fit, &elimination, squared);
        }
        self.fit.retain(elimination.positions());
        self.fit.take_removed();
        self.path.record_fit(&self.fit);
    }

    /// Whether refinement has used its passes up, or gets too little from them. Inside a complete pool it costs none.
    fn is_spent(&self, oracle: &Oracle<'_>) -> bool {
        let stalled = match self.history[..] {
            [.., before, _, _, _, _, _, now] => now > (1.0 - LEAST_GAIN) * before,
            _ => false,
        };
        self.refining && !self.pool.complete && (stalled || oracle.passes() + 1.0 > self.max_passes)
    }

    /// Ends a round: cut to k, keep it if it is better, and set up the next. False where refinement is at rest.
    fn next_round(&mut self) -> bool {
        self.cut(self.k);
        let better = !self.refining || self.fit.residual_norm() < self.best.residual_norm() * (1.0 - 1e-9);
        if better {
            self.best.clone_from(&self.fit);
            self.failures = 0;
        } else {
            self.fit.clone_from(&self.best);
            self.failures += 1;
        }
        self.refining = true;
        self.history.push(self.best.residual_norm());
        self.exchange = match self.exchange {
            Exchange::GrowThenCut => Exchange::DropThenRefill,
            Exchange::DropThenRefill => Exchange::GrowThenCut,
        };
        if self.failures >= 2 {
            self.failures = 0;
            self.exchanged /= 2;
        }
        if self.exchanged == 0 || self.best.len() < self.k {
            return false;
        }
        match self.exchange {
            Exchange::GrowThenCut => self.goal = self.k + self.exchanged,
            Exchange::DropThenRefill => {
                self.goal = self.k;
                self.cut(self.k.saturating_sub(self.exchanged).max(1));
            }
        }
        true
    }

    /// Exchanges one column for one of the pool as long as that helps: a local optimum under single swaps, or nearly.
    fn swap(&mut self) {
        self.goal = self.k;
        for _ in 0..SWAPS.max(600 / self.k) {
            self.pool.refresh(&self.fit);
            let before = self.fit.clone();
            let least = LEAST_FALL * LEAST_FALL * before.residual_norm().powi(2);
            let duals = Elimination::new(&before).dual_basis(&before);
            let swaps = self.pool.swaps(&duals, least);
            let helped = swaps
                .into_iter()
                .take(PATIENCE)
                .any(|(leaves, enters)| self.try_swap(&before, leaves, enters));
            if !helped {
                self.fit = before;
                return;
            }
            self.path.record_fit(&self.fit);
        }
    }

    /// Makes one exchange from `before`, and refills what non-negativity throws out. False where that does not help.
    fn try_swap(&mut self, before: &SupportFit, leaves: usize, enters: usize) -> bool {
        let kept: Vec<usize> = (0..before.len()).filter(|&position| position != leaves).collect();
        self.fit.clone_from(before);
        self.fit.retain(&kept);
        self.fit.take_removed();
        self.pool.refresh(&self.fit);
        self.pool.enter(enters, &mut self.fit);
        self.grow();
        self.fit.residual_norm() < before.residual_norm() * (1.0 - 1e-9)
    }

    /// Starts again from other first columns, as many as a fixed amount of work allows: small problems are searched
    /// from every side, large ones not at all.
    fn restart(&mut self, problem: &Problem) {
        let work = self.pool.len() * self.k * problem.target.len();
        let starts = (RESTART_WORK / work.max(1)).min(self.pool.len());
        for first in 0..starts {
            self.best.clone_from(&self.fit);
            self.fit = SupportFit::new(&problem.target, self.k + 1);
            self.pool.refresh(&self.fit);
            if self.pool.correlation(first) > 0.0 && self.pool.enter(first, &mut self.fit) {
                self.goal = self.k;
                self.grow();
                self.swap();
            }
            if self.fit.residual_norm() >= self.best.residual_norm() {
                self.fit.clone_from(&self.best);
            }
        }
    }

    /// Deletes from the best support down to one point, so that the path has every size.
    fn finish(&mut self, status: Status) -> Step {
        self.best.clone_from(&self.fit);
        self.cut(1);
        self.fit.clone_from(&self.best);
        Step::Finished(status)
    }
}

impl Algorithm for Engine {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        let floor = |engine: &Self| engine.fit.len() <= engine.k && engine.at_floor();
        if self.growth.is_none() {
            if floor(self) {
                return Ok(self.finish(Status::NumericalFloor));
            }
            if self.is_spent(oracle) {
                self.fit.clone_from(&self.best);
                self.swap();
                return Ok(self.finish(Status::Completed));
            }
            self.look(problem, oracle)?;
        }
        let Some(grew) = self.grow_a_slice() else { return Ok(Step::Continue) };
        if floor(self) {
            return Ok(self.finish(Status::NumericalFloor));
        }
        if self.fit.len() <= self.k && self.fit.residual_norm() <= self.target_residual {
            return Ok(self.finish(Status::TargetReached));
        }
        // Growing past k is worth half the passes; the rest are better spent on refinement.
        let growing = grew && self.fit.len() < self.goal && !self.at_floor();
        let spent = !self.refining && self.fit.len() >= self.k && oracle.passes() >= 0.5 * self.max_passes;
        if growing && !spent {
            return Ok(Step::Continue);
        }
        if !self.refining && self.fit.len() < self.k {
            // No column helps. Far down that is the rounding of the weights speaking, not the geometry.
            let tiny = self.fit.residual_norm() <= FLOOR * self.fit.target_norm();
            return Ok(self.finish(if tiny { Status::NumericalFloor } else { Status::Optimal }));
        }
        if !self.next_round() {
            self.fit.clone_from(&self.best);
            self.swap();
            self.restart(problem);
            return Ok(self.finish(Status::Completed));
        }
        Ok(Step::Continue)
    }

    fn progress(&self) -> (usize, f64) {
        self.path.best().map_or((0, self.fit.target_norm()), |(points, residual)| (points, residual))
    }

    fn weights(&self) -> Weights {
        self.path.weights(self.target_residual)
    }

    fn path(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Vec<PathPoint>, Error> {
        self.path.finish(problem, oracle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Dense;

    /// Steps and weights of a pursuit that pauses after so many multiply-adds.
    fn run(slice: usize) -> (usize, Weights) {
        let (n, dim, k) = (1500, 30, 12);
        let values = (0..n * dim).map(|i| ((i * 7919) as f64 * 0.137).sin() + 0.3).collect();
        let dictionary = Dense::<f64>::new(values, dim).unwrap();
        let mut oracle = Oracle::new(&dictionary);
        let sum = oracle.sum().unwrap();
        let (target_norm, norms_sum) = (crate::kernel::norm(&sum.vector), sum.norms);
        let problem = Problem { target: sum.vector, target_norm, norms_sum, k, total: None, seed: 3 };
        let mut engine = Engine { slice, ..Engine::new(&problem, Pursuit::default()) };
        let mut steps = 1;
        while engine.step(&problem, &mut oracle).unwrap() == Step::Continue {
            assert!(engine.weights().len() <= k);
            steps += 1;
        }
        (steps, engine.weights())
    }

    #[test]
    fn pauses_change_nothing_but_the_number_of_steps() {
        let ((steps, weights), (more, same)) = (run(SLICE), run(0));
        assert_eq!(weights, same);
        assert!(more > steps + 12, "{more} steps with pauses, {steps} without");
    }
}
