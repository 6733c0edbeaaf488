//! Plain data: chains, their draws and the statistics of each draw.

use serde::{Deserialize, Serialize};

/// What is known of each draw of one phase, one entry a draw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// log π₀(θ) + Σ wᵢℓᵢ(θ).
    pub log_posterior: Vec<f64>,
    /// Hamiltonian at the draw, in the coordinates of the sampler.
    pub energy: Vec<f64>,
    /// Mean acceptance rate along the trajectory.
    pub acceptance: Vec<f64>,
    /// Step size.
    pub step_size: Vec<f64>,
    /// Doublings of the trajectory.
    pub depth: Vec<u64>,
    /// Leapfrog steps, each of one gradient.
    pub steps: Vec<u64>,
    /// Whether the trajectory left the level set of its energy.
    pub diverging: Vec<bool>,
    /// Whether the trajectory ended for being too long.
    pub max_depth_reached: Vec<bool>,
}

/// The draws of one phase of one chain, θ one after the other, and their statistics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// draws × D numbers, row-major.
    pub theta: Vec<f64>,
    /// One entry a draw.
    pub stats: Stats,
}

impl Phase {
    /// Appends draw `t` of another phase.
    fn push(&mut self, from: &Phase, t: usize, dim: usize) {
        self.theta.extend_from_slice(&from.theta[t * dim..][..dim]);
        let (to, from) = (&mut self.stats, &from.stats);
        to.log_posterior.push(from.log_posterior[t]);
        to.energy.push(from.energy[t]);
        to.acceptance.push(from.acceptance[t]);
        to.step_size.push(from.step_size[t]);
        to.depth.push(from.depth[t]);
        to.steps.push(from.steps[t]);
        to.diverging.push(from.diverging[t]);
        to.max_depth_reached.push(from.max_depth_reached[t]);
    }
}

/// One chain, its warm-up apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// What was thrown away for adaptation.
    pub warmup: Phase,
    /// The draws.
    pub draws: Phase,
}

/// Independent chains of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chains {
    /// Number of parameters, D.
    pub dim: usize,
    /// One entry a chain.
    pub chains: Vec<Chain>,
}

impl Chains {
    /// Draws of each chain.
    pub fn draws_per_chain(&self) -> usize {
        self.chains.first().map_or(0, |chain| chain.draws.stats.energy.len())
    }

    /// Draws of all chains.
    pub fn total_draws(&self) -> usize {
        self.chains.len() * self.draws_per_chain()
    }

    /// All draws θ of all chains, one chain after the other, row-major.
    pub fn theta(&self) -> Vec<f64> {
        self.chains.iter().flat_map(|chain| chain.draws.theta.iter().copied()).collect()
    }

    /// The draws of parameter `j`, one entry a chain.
    pub fn parameter(&self, j: usize) -> Vec<Vec<f64>> {
        let of = |chain: &Chain| chain.draws.theta.iter().skip(j).step_by(self.dim.max(1)).copied().collect();
        self.chains.iter().map(of).collect()
    }

    /// At most `most` of the draws, evenly spaced and as many of each chain; the warm-up as it is.
    pub fn thinned(&self, most: usize) -> Chains {
        let length = self.draws_per_chain();
        let kept = length.min(most / self.chains.len().max(1));
        let chosen: Vec<usize> = (0..kept).map(|i| i * length / kept).collect();
        self.with_draws(|chain| chosen.iter().map(|&t| (chain, t)).collect())
    }

    /// The same chains with other draws: those that `choose` names as (chain, draw), for each chain.
    pub(super) fn with_draws(&self, choose: impl Fn(usize) -> Vec<(usize, usize)>) -> Chains {
        let rebuilt = (0..self.chains.len()).map(|chain| {
            let mut draws = Phase::default();
            for (from, t) in choose(chain) {
                draws.push(&self.chains[from].draws, t, self.dim);
            }
            Chain { warmup: self.chains[chain].warmup.clone(), draws }
        });
        Chains { dim: self.dim, chains: rebuilt.collect() }
    }

    /// Divergent draws after warm-up.
    pub fn divergences(&self) -> usize {
        self.count(|stats| &stats.diverging)
    }

    /// Draws after warm-up whose trajectory was cut off at the greatest depth.
    pub fn max_depth_reached(&self) -> usize {
        self.count(|stats| &stats.max_depth_reached)
    }

    /// Gradients of all draws, warm-up included.
    pub fn gradients(&self) -> u64 {
        let of = |phase: &Phase| phase.stats.steps.iter().sum::<u64>();
        self.chains.iter().map(|chain| of(&chain.warmup) + of(&chain.draws)).sum()
    }

    fn count(&self, of: fn(&Stats) -> &Vec<bool>) -> usize {
        self.chains.iter().flat_map(|chain| of(&chain.draws.stats)).filter(|flag| **flag).count()
    }
}
