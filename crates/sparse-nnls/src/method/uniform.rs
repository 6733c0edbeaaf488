//! Uniform sampling: every k-subset is as likely as any other, each weight is n/k, and E[Φw] = Φ1. No pass at all.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::driver::{Problem, Weights};

pub(super) fn sample(problem: &Problem, n: usize) -> Weights {
    let mut rng = ChaCha8Rng::seed_from_u64(problem.seed);
    let weight = n as f64 / problem.k as f64;
    let ids = rand::seq::index::sample(&mut rng, n, problem.k);
    Weights::from_pairs(ids.into_iter().map(|id| (id, weight)))
}
