//! What uniform and importance sampling share: one step, and a choice of weights.

use serde::{Deserialize, Serialize};

use crate::dictionary::Oracle;
use crate::driver::{Algorithm, Problem, Step, Weights, residual_norm};
use crate::error::Error;
use crate::method::{importance, uniform};
use crate::nnls::nnls_on_support;
use crate::status::Status;

/// How sampled columns are weighted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleWeights {
    /// Weights whose expectation is 1 for every column, so that Φw is Φ1 on average.
    #[default]
    Unbiased,
    /// The best weights for the sampled columns: NNLS on the sample.
    Nnls,
}

/// What the chance of a column depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chance {
    /// The same probability for every column.
    Uniform,
    /// Probability in proportion to the norm of the column.
    Norm,
}

pub(super) struct Sampling {
    chance: Chance,
    weighting: SampleWeights,
    weights: Weights,
    residual: f64,
}

impl Sampling {
    pub(super) fn new(problem: &Problem, chance: Chance, weighting: SampleWeights) -> Self {
        Self { chance, weighting, weights: Weights::default(), residual: problem.target_norm }
    }
}

impl Algorithm for Sampling {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        self.weights = match self.chance {
            Chance::Uniform => uniform::sample(problem, oracle.len()),
            Chance::Norm => importance::sample(problem, oracle)?,
        };
        if self.weighting == SampleWeights::Nnls {
            let solved = nnls_on_support(oracle, &problem.target, &self.weights.ids, None)?;
            self.weights = Weights { ids: solved.ids, values: solved.weights };
        }
        self.residual = residual_norm(oracle, &problem.target, &self.weights)?;
        Ok(Step::Finished(Status::Completed))
    }

    fn progress(&self) -> (usize, f64) {
        (self.weights.len(), self.residual)
    }

    fn weights(&self) -> Weights {
        self.weights.clone()
    }
}
