//! Uniform and importance sampling: the baselines that look at the data once or not at all.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::dictionary::{Oracle, Query, Ranking, Score};
use crate::driver::{Algorithm, Problem, Step, Weights, residual_norm};
use crate::error::Error;
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
    /// Every k-subset is as likely as any other; wᵢ = n/k.
    Uniform,
    /// Chances ∝ ‖φᵢ‖. Every column runs an exponential clock of rate ‖φᵢ‖, the first k to ring are taken, and
    /// with τ the time of the (k+1)-th, wᵢ = 1/(1 − exp(−‖φᵢ‖τ)): unbiased given τ (Cohen & Kaplan 2007,
    /// *Summarizing data using bottom-k sketches*), one pass, and no draw is wasted on a repeat.
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
            Chance::Uniform => sample_uniform(problem, oracle.len()),
            Chance::Norm => sample_by_norm(problem, oracle)?,
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

fn sample_uniform(problem: &Problem, n: usize) -> Weights {
    let mut rng = ChaCha8Rng::seed_from_u64(problem.seed);
    let weight = n as f64 / problem.k as f64;
    let ids = rand::seq::index::sample(&mut rng, n, problem.k);
    Weights::from_pairs(ids.into_iter().map(|id| (id, weight)))
}

fn sample_by_norm(problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Weights, Error> {
    let rankings = [Ranking { score: Score::Race { seed: problem.seed }, count: problem.k + 1 }];
    let query = Query { vectors: &[], rankings: &rankings, exclude: &[], batch: None };
    let mut answers = [Vec::new()];
    oracle.top(&query, &mut answers)?;
    let [mut sample] = answers;
    // Where no column is left over, every column that is not zero was taken: its weight is 1.
    let deadline = if sample.len() > problem.k { sample.pop().map(|last| 1.0 / last.score) } else { None };
    let ids: Vec<usize> = sample.iter().map(|candidate| candidate.id).collect();
    let mut columns = vec![0.0; ids.len() * problem.target.len()];
    oracle.columns(&ids, &mut columns)?;
    let weight =
        |column: &[f64]| deadline.map_or(1.0, |t| -1.0 / (-crate::kernel::norm(column) * t).exp_m1());
    Ok(Weights::from_pairs(ids.iter().copied().zip(columns.chunks_exact(problem.target.len()).map(weight))))
}
