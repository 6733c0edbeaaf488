//! Pursuit, the default: fully corrective, non-negative, in a pool, grown past k and cut back.
//!
//! *Gather.* The first pool is a sample of columns with probability ∝ ‖φ‖, drawn in the pass for the sum if the dictionary can. Among many
//! columns the best thousand are nearly parallel, and only a few of them would enter; a sample covers all directions.
//!
//! *Grow.* Column after column of the pool enters by the largest drop of the residual, ⟨φ, r⟩²/‖φ⊥‖², with NNLS solved on the
//! support each time. Once the support has grown past k, a few passes over the dictionary add columns that the pool lacks: those that
//! correlate most with the residual. Earlier passes would miss them: a direction missing from the pool takes two columns, which cancel in
//! all other directions, and the second has no value before the first has entered.
//!
//! *Cut.* The support is cut back to k by deleting, one at a time, the column whose removal costs least, wᵢ²/(A⁺A⁺ᵀ)ᵢᵢ.
//!
//! *Refine.* Drop a share of the support, or grow past k by it, refill or cut, and keep the better support; halve the
//! share if neither helps. Then make another pass over the dictionary, as long as that gains more than a few per cent. Finally, single columns
//! are exchanged. Every size on the way is recorded, so one run yields the whole path 1 … k.
//!
//! *Shake.* If the problem is small, random columns of the best support are removed, others take their places,
//! and single columns are exchanged again; the better support is kept.
//!
//! All of this uses the inner products of the pool ([`search`](super::search)), and in the last digits the columns
//! themselves ([`floor`](super::floor)).

use serde::{Deserialize, Serialize};

use crate::dictionary::{Candidate, Oracle, Query, Ranking, Score};
use crate::driver::{Algorithm, PathPoint, Problem, Step, Weights, positive};
use crate::error::Error;
use crate::method::floor::Floor;
use crate::method::rounds::{Exchange, Rounds};
use crate::method::search::{FLOOR, Search};
use crate::status::Status;

/// Settings of pursuit.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `pool` | max(1000, 2k) | columns of the first pool | ≥ 1 |
/// | `look` | max(500, k/2), with 10⁵ columns or more max(800, k/2) | columns that a later pass adds to the pool | ≥ 1 |
/// | `overshoot` | 0.2, in a sampled pool 0.5 | grow to (1 + overshoot)·k before the first cut | ≥ 0 |
/// | `refine_share` | 0.2 | share of the support the first refinement exchanges; 0 for none | [0, 1) |
/// | `max_passes` | 5 | largest total number of passes | ≥ 1 |
/// | `residual` | none | stop at ‖y − Φw‖ ≤ this, with the fewest points found | > 0 |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pursuit {
    /// Columns of the first pool.
    pub pool: Option<usize>,
    /// Columns that a later pass adds to the pool.
    pub look: Option<usize>,
    /// How far past k the support first grows, as a share of k.
    pub overshoot: Option<f64>,
    /// Share of the support that the first refinement exchanges.
    pub refine_share: f64,
    /// Largest total number of passes over the dictionary.
    pub max_passes: f64,
    /// The residual norm to stop at.
    pub residual: Option<f64>,
}

impl Default for Pursuit {
    fn default() -> Self {
        Self { pool: None, look: None, overshoot: None, refine_share: 0.2, max_passes: 5.0, residual: None }
    }
}

impl Pursuit {
    /// The size that the first growth ends at, given how far it goes where nothing was asked for.
    fn first_goal(&self, k: usize, overshoot: f64) -> usize {
        k + (self.overshoot.unwrap_or(overshoot) * k as f64).ceil() as usize
    }

    /// Columns of the first pool for k points.
    pub fn first_pool(&self, k: usize) -> usize {
        self.pool.unwrap_or(1000.max(2 * k))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        positive("pool", self.pool.unwrap_or(1) as f64)?;
        positive("look", self.look.unwrap_or(1) as f64)?;
        positive("max_passes", self.max_passes)?;
        positive("residual", self.residual.unwrap_or(1.0))?;
        if let Some(value) = self.overshoot
            && !(value >= 0.0 && value.is_finite())
        {
            let expected = "it must be a finite number ≥ 0";
            return Err(Error::Setting { name: "overshoot", value, expected });
        }
        if !(0.0..1.0).contains(&self.refine_share) {
            let expected = "it must be a fraction in [0, 1)";
            return Err(Error::Setting { name: "refine_share", value: self.refine_share, expected });
        }
        Ok(())
    }
}

// What each of these is worth was measured as the divergence of coresets of eleven data sets of 500 to 327 346 rows, from 0.2 nats down, over
// two to four seeds; a factor is that of the divergence without it.

/// How far past k the first growth goes, as a share of k. A sample lacks much: what it has must be seen before it is looked outside (with a
/// fifth too, up to 1.2 times as far off at 10⁻⁵ nats and above). Where the pool is complete, a half is better as often as it is worse.
const OVERSHOOT: f64 = 0.2;
const SAMPLED_OVERSHOOT: f64 = 0.5;

/// Looks outside before the first cut. With one, few points more often leave a direction out for good: up to 1.6 times as far off.
const EARLY_LOOKS: usize = 2;

/// A share of the columns that a look brings in are those best aligned with the residual; the others are a sample. With half of each up to
/// twice as far off.
const ALIGNED: f64 = 0.25;

/// Columns from which looks outside are dear beside the work in the pool on what they bring, so that each brings more: between 6 % less far
/// off without and five times as far.
const MANY_COLUMNS: usize = 100_000;

/// A look outside that lowers the residual by less than this share is the last.
const LEAST_GAIN: f64 = 0.05;

/// Times that the best support is shaken: at most, and by the multiply-adds of as many scorings of all exchanges; not at all
/// where they would be too few to find anything. Without, 1.3 to 2.4 times as far off where supports are small.
const MOST_SHAKES: usize = 100;
const FEWEST_SHAKES: usize = 10;
const SHAKE_WORK: usize = 25_000_000;

/// Multiply-adds of a scoring of all exchanges from which a problem is large: rounds end where they bring next to nothing, and
/// exchanges are scored once.
const LARGE: usize = 1_000_000_000;

/// Shares of the support that are shaken out, in turn: any one of them alone is as good on some data and up to 1.3 times as far off on others.
const SHAKEN: [f64; 3] = [0.1, 0.15, 0.25];

/// Scorings of all single exchanges at the end: this many, and more of them where k is small, without which it is 1.2 to 1.9 times as far
/// off.
const SWAPS: usize = 3;

/// Multiply-adds after which a growth pauses, a fraction of a second, so that a caller can look in or stop.
const SLICE: usize = 500_000_000;

/// What the next step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Gather,
    Look,
    Grow,
    Swap { left: usize },
    Shake { round: usize },
    Floor,
}

pub(super) struct Engine {
    settings: Pursuit,
    k: usize,
    /// A support to go on from.
    from: Weights,
    stage: Stage,
    search: Search,
    floor: Option<Floor>,
    rounds: Rounds,
    looks: Looks,
    /// The size the growth under way ends at.
    goal: usize,
    capacity: usize,
    /// Columns exchanged by the first round.
    exchanged: usize,
    slice: usize,
}

/// Looks outside the pool.
struct Looks {
    /// To be made before the next cut.
    left: usize,
    /// Points and residual before the last of them.
    before: (usize, f64),
    answers: [Vec<Candidate>; 2],
}

/// Columns exchanged by the first round: a share of k, but enough to be worth trying where k is small.
fn first_exchange(share: f64, k: usize) -> usize {
    if share == 0.0 { 0 } else { ((share * k as f64).ceil() as usize).max(8) }
}

/// Columns that a support of at most so many needs room for: no more can be independent than there are coordinates.
fn capacity(problem: &Problem, most: usize) -> usize {
    most.min(problem.target.len()) + 1
}

impl Engine {
    pub(super) fn new(problem: &Problem, settings: Pursuit) -> Self {
        let k = problem.k;
        let exchanged = first_exchange(settings.refine_share, k);
        let goal = settings.first_goal(k, SAMPLED_OVERSHOOT);
        let capacity = capacity(problem, goal + EARLY_LOOKS * exchanged);
        Self {
            settings,
            k,
            from: Weights::default(),
            stage: Stage::Gather,
            search: Search::new(problem, capacity),
            floor: None,
            rounds: Rounds::new(exchanged, false),
            looks: Looks { left: EARLY_LOOKS, before: (0, f64::INFINITY), answers: [Vec::new(), Vec::new()] },
            goal,
            capacity,
            exchanged,
            slice: SLICE,
        }
    }

    /// Going on from a support: those of its columns that the first pool has enter with their weights before any other.
    pub(super) fn resumed(problem: &Problem, settings: Pursuit, from: Weights) -> Self {
        Self { from, ..Self::new(problem, settings) }
    }

    /// The residual norm to stop at.
    fn target_residual(&self) -> f64 {
        self.settings.residual.unwrap_or(0.0)
    }

    /// The first pool: the sample, or all there is.
    fn gather(&mut self, problem: &Problem, oracle: &Oracle<'_>) -> Result<(), Error> {
        self.search.pool.complete = self.settings.first_pool(self.k) >= oracle.len();
        if self.search.pool.complete {
            self.goal = self.settings.first_goal(self.k, OVERSHOOT);
            // No look will bring more.
            self.capacity = capacity(problem, self.goal.max(self.k + self.exchanged));
            self.search = Search::new(problem, self.capacity);
            self.search.pool.complete = true;
        }
        let mut sample = problem.sample.clone();
        sample.sort_unstable_by_key(|candidate| candidate.id);
        self.search.add(&sample, problem, oracle)?;
        self.search.resume(&self.from);
        self.rounds = Rounds::new(self.exchanged, self.is_hasty());
        Ok(())
    }

    /// Brings in columns outside the pool that a residual points at.
    fn look(&mut self, residual: &[f64], problem: &Problem, oracle: &mut Oracle<'_>) -> Result<(), Error> {
        let least = if oracle.len() >= MANY_COLUMNS { 800 } else { 500 };
        let count = self.settings.look.unwrap_or(least.max(self.k / 2));
        let aligned = (ALIGNED * count as f64).ceil() as usize;
        let seed = problem.seed.wrapping_add(oracle.passes() as u64);
        let rankings = [
            Ranking { score: Score::NormScaled, count: aligned },
            Ranking { score: Score::Acute { seed }, count: count - aligned },
        ];
        let exclude = self.search.pool.seen();
        let query = Query { vectors: &[residual], rankings: &rankings, exclude: &exclude, batch: None };
        oracle.top(&query, &mut self.looks.answers)?;
        let [found, sampled] = &mut self.looks.answers;
        found.append(sampled);
        found.retain(|candidate| candidate.score > 0.0);
        found.sort_unstable_by_key(|candidate| candidate.id);
        found.dedup_by_key(|candidate| candidate.id);
        self.search.add(found, problem, oracle)
    }

    /// Whether a look outside is worth its pass: there is something to look at, and the last ones brought something.
    fn may_look(&self, points: usize, residual: f64, oracle: &Oracle<'_>) -> bool {
        let (fewer, larger) = self.looks.before;
        let brought = residual < (1.0 - LEAST_GAIN) * larger || points > fewer;
        brought && !self.search.pool.complete && oracle.passes() + 1.0 <= self.settings.max_passes
    }

    /// A growth has come to its end: what comes next.
    fn grown(&mut self, problem: &Problem, oracle: &Oracle<'_>) -> Step {
        let points = self.search.tableau.len();
        let looking = self.looks.left > 0 && self.may_look(points, f64::NEG_INFINITY, oracle);
        if points <= self.k || looking {
            // Otherwise it is cut first.
            self.search.settle(&problem.target);
        }
        let residual = self.search.tableau.residual_norm();
        if points <= self.k && residual <= FLOOR * problem.target_norm {
            self.stage = Stage::Floor;
            return Step::Continue;
        }
        if points <= self.k && residual <= self.target_residual() {
            return self.finish(Status::TargetReached);
        }
        if looking {
            self.looks.left -= 1;
            self.stage = Stage::Look;
            return Step::Continue;
        }
        if self.next_round(problem) {
            return Step::Continue;
        }
        let (points, residual) = (self.search.best.len(), self.search.best.residual_norm());
        if self.may_look(points, residual, oracle) {
            // Grown past k first, and looked at then.
            self.looks.before = (points, residual);
            self.rounds = Rounds::new(self.exchanged, self.is_hasty());
            self.looks.left = 1;
            self.goal = points + self.exchanged;
        } else if points < self.k {
            self.stage = Stage::Floor;
        } else {
            self.stage = Stage::Swap { left: self.swaps() };
        }
        Step::Continue
    }

    /// Ends a round: cut to k, keep it if it is better, and set up the next. False where rounds in this pool are at rest.
    fn next_round(&mut self, problem: &Problem) -> bool {
        self.search.cut(self.k);
        let better = self.search.keep_better_settled(&problem.target);
        let (points, residual) = (self.search.best.len(), self.search.best.residual_norm());
        let next = self.rounds.next(better, residual);
        let thorough = self.search.pool.complete && !self.is_hasty();
        let at_rest = points < self.k || (!thorough && self.rounds.are_stalled());
        match next {
            Some(Exchange::GrowThenCut(count)) if !at_rest => self.goal = self.k + count,
            Some(Exchange::DropThenRefill(count)) if !at_rest => {
                self.goal = self.k;
                self.search.cut(self.k.saturating_sub(count).max(1));
            }
            _ => return false,
        }
        true
    }

    /// Multiply-adds of a scoring of all exchanges: it looks at the inner products of the pool with the support, half of them k
    /// times.
    fn scoring_work(&self) -> usize {
        self.search.pool.len() * self.k * self.k
    }

    /// Whether what is likely to bring little is left out: of a large problem, and where a support to go on from was good already.
    fn is_hasty(&self) -> bool {
        self.scoring_work() >= LARGE || !self.from.is_empty()
    }

    fn swaps(&self) -> usize {
        if self.is_hasty() { 1 } else { SWAPS.max(600 / self.k) }
    }

    /// Shakes the best support, as often as a fixed amount of work allows: small problems are searched from every side, large
    /// ones not at all.
    fn shake(&mut self, round: usize, seed: u64) -> Step {
        let shakes = (SHAKE_WORK / self.scoring_work().max(1)).min(MOST_SHAKES);
        if self.k == 1 || shakes < FEWEST_SHAKES || round >= shakes {
            return self.finish(Status::Completed);
        }
        let share = SHAKEN[round % SHAKEN.len()];
        let count = ((share * self.k as f64).ceil() as usize).max(2).min(self.k - 1);
        self.search.shake(count, round, seed);
        self.search.grow(self.k, 0.0, usize::MAX);
        self.search.tableau.unbar();
        for _ in 0..self.swaps() {
            if !self.search.swap(self.k) {
                break;
            }
        }
        self.search.keep_better();
        self.stage = Stage::Shake { round: round + 1 };
        Step::Continue
    }

    /// A step of the last digits.
    fn step_at_floor(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        let (k, slice) = (self.k, self.slice);
        let mut floor = match self.floor.take() {
            Some(floor) => floor,
            None => {
                self.rounds = Rounds::new(self.exchanged, self.is_hasty());
                self.goal = k;
                Floor::new(problem, self.capacity, &self.search)
            }
        };
        let grown = floor.grow(self.goal, slice, &mut self.search);
        let (points, residual) = (floor.len(), floor.residual_norm());
        let status = if !grown {
            None
        } else if points <= k && floor.is_reached() {
            Some(Status::NumericalFloor)
        } else if points <= k && residual <= self.target_residual() {
            Some(Status::TargetReached)
        } else if points < k && self.may_look(points, residual, oracle) {
            self.looks.before = (points, residual);
            self.look(floor.residual(), problem, oracle)?;
            floor.refresh(&self.search.pool);
            None
        } else if points < k && self.goal == k && self.rounds.is_first() {
            Some(if floor.is_tiny() { Status::NumericalFloor } else { Status::Optimal })
        } else {
            floor.cut(k, &mut self.search);
            let better = floor.keep_better();
            let next = self.rounds.next(better, floor.residual_norm());
            match next {
                Some(Exchange::GrowThenCut(count)) => self.goal = k + count,
                Some(Exchange::DropThenRefill(count)) => {
                    self.goal = k;
                    floor.cut(k.saturating_sub(count).max(1), &mut self.search);
                }
                None => {}
            }
            floor.refresh(&self.search.pool);
            next.is_none().then_some(Status::Completed)
        };
        let step = status.map_or(Step::Continue, |status| {
            floor.cut(1, &mut self.search);
            Step::Finished(status)
        });
        self.floor = Some(floor);
        Ok(step)
    }

    /// Deletes from the best support down to one point, so that the path has every size.
    fn finish(&mut self, status: Status) -> Step {
        self.search.delete(1);
        Step::Finished(status)
    }
}

impl Algorithm for Engine {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        match self.stage {
            Stage::Gather => self.gather(problem, oracle)?,
            Stage::Look => {
                let residual = std::mem::take(&mut self.search.residual);
                self.look(&residual, problem, oracle)?;
                self.goal = self.search.tableau.len() + self.exchanged;
            }
            Stage::Grow => {}
            Stage::Swap { left } => {
                let helped = left > 0 && self.search.swap(self.k);
                self.stage = Stage::Swap { left: left.saturating_sub(1) };
                if !helped {
                    self.search.keep_better_settled(&problem.target);
                    self.stage = Stage::Shake { round: 0 };
                }
                return Ok(Step::Continue);
            }
            Stage::Shake { round } => return Ok(self.shake(round, problem.seed)),
            Stage::Floor => return self.step_at_floor(problem, oracle),
        }
        self.stage = Stage::Grow;
        let floor = self.target_residual().max(FLOOR * problem.target_norm);
        if !self.search.grow(self.goal, floor, self.slice) {
            return Ok(Step::Continue);
        }
        Ok(self.grown(problem, oracle))
    }

    fn progress(&self) -> (usize, f64) {
        self.search.path.best().unwrap_or((0, self.search.tableau.residual_norm()))
    }

    fn weights(&self) -> Weights {
        self.search.path.weights(self.target_residual())
    }

    fn path(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Vec<PathPoint>, Error> {
        self.search.path.finish(problem, oracle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Dense;
    use crate::dictionary::Gathered;

    /// Steps and weights of a pursuit that pauses after so many multiply-adds.
    fn run(slice: usize) -> (usize, Weights) {
        let (n, dim, k) = (1500, 30, 12);
        let values = (0..n * dim).map(|i| ((i * 7919) as f64 * 0.137).sin() + 0.3).collect();
        let dictionary = Dense::<f64>::new(values, dim).unwrap();
        let mut oracle = Oracle::new(&dictionary);
        let Gathered { sum, sample, .. } = oracle.gather(3, Pursuit::default().first_pool(k)).unwrap();
        let (target_norm, norms_sum) = (crate::kernel::norm(&sum.vector), sum.norms);
        let problem = Problem { target: sum.vector, target_norm, norms_sum, sample, k, total: None, seed: 3 };
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
