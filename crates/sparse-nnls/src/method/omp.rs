//! Plain non-negative orthogonal matching pursuit (Nguyen et al. 2019, *Non-negative orthogonal greedy algorithms*).
//!
//! Each step adds the column with the largest ⟨φ, r⟩/‖φ‖ > 0 and solves NNLS on the support again. One pass a step;
//! the residual falls at every step.

use crate::dictionary::{Candidate, Oracle, Ranking, Score};
use crate::driver::{Algorithm, Problem, Step, Weights};
use crate::error::Error;
use crate::nnls::SupportFit;
use crate::status::Status;

pub(super) struct Omp {
    fit: SupportFit,
    /// Support and columns that depend on it, ascending: not to be returned by a pass.
    exclude: Vec<usize>,
    answer: Vec<Candidate>,
}

impl Omp {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { fit: SupportFit::new(&problem.target, problem.k), exclude: Vec::new(), answer: Vec::new() }
    }
}

impl Algorithm for Omp {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        if self.fit.residual_norm() <= self.fit.rounding() {
            return Ok(Step::Finished(Status::NumericalFloor));
        }
        let ranking = Ranking { score: Score::NormScaled, count: 1 };
        oracle.rank(self.fit.residual(), ranking, &self.exclude, &mut self.answer)?;
        let Some(best) = self.answer.first().filter(|best| best.score > self.fit.least_correlation()) else {
            return Ok(Step::Finished(Status::Optimal));
        };
        let mut column = vec![0.0; problem.target.len()];
        oracle.columns(&[best.id], &mut column)?;
        if self.fit.push(best.id, &column) {
            self.fit.reoptimise();
        }
        // What was refused, or thrown out at once, must not come back before something else has changed.
        if self.fit.ids().contains(&best.id) {
            self.exclude.clear();
            self.exclude.extend_from_slice(self.fit.ids());
        } else {
            self.exclude.push(best.id);
        }
        self.exclude.sort_unstable();
        Ok(if self.fit.len() == problem.k { Step::Finished(Status::Completed) } else { Step::Continue })
    }

    fn progress(&self) -> (usize, f64) {
        (self.fit.len(), self.fit.residual_norm())
    }

    fn weights(&self) -> Weights {
        Weights::from_pairs(self.fit.ids().iter().copied().zip(self.fit.weights()))
    }
}
