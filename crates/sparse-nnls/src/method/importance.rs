//! Importance sampling, chances ∝ ‖φᵢ‖, in one pass and without replacement.
//!
//! Every column runs an exponential clock of rate ‖φᵢ‖, and the first k to ring are taken. With T the time of the
//! (k+1)-th, wᵢ = 1/(1 − exp(−‖φᵢ‖T)) is unbiased given T (Cohen & Kaplan 2007, *Summarizing data using bottom-k
//! sketches*), and no draw is wasted on a repeat.

use crate::dictionary::{Oracle, Query, Ranking, Score};
use crate::driver::{Problem, Weights};
use crate::error::Error;
use crate::kernel::norm;

pub(super) fn sample(problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Weights, Error> {
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
    let weight = |column: &[f64]| deadline.map_or(1.0, |t| -1.0 / (-norm(column) * t).exp_m1());
    Ok(Weights::from_pairs(ids.iter().copied().zip(columns.chunks_exact(problem.target.len()).map(weight))))
}
