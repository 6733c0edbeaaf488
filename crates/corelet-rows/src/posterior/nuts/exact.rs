//! Draws of a posterior that is a Gaussian: independent ones, which need no warm-up, in the form that chains have.

use rand_distr::{Distribution, StandardNormal};

use super::{Chain, Chains, Phase, SampleSettings, Stats};
use crate::linalg::{dot, product};
use crate::parallel;
use crate::posterior::{Gaussian, Prior};
use crate::random::Stream;
use crate::rows::Rest;

/// Independent draws of the posterior ∝ π₀·exp(rest) under a Gaussian prior, as many chains of as many draws as are asked for. A chain is a
/// function of (seed, its number) alone.
pub(super) fn draw(
    rest: &Rest,
    prior: &Prior,
    posterior: &Gaussian,
    settings: &SampleSettings,
    seed: u64,
) -> Chains {
    let dim = posterior.dim();
    let peak = rest.value(&posterior.mean) + prior.log_density(&posterior.mean);
    let upper = posterior.transposed_factor();
    let chain = |chain: usize| {
        let mut rng = Stream::Chain.rng(seed, chain as u64);
        let z: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(settings.draws * dim).collect();
        let mut theta = product(&z, &upper, dim, false);
        for draw in theta.chunks_exact_mut(dim.max(1)) {
            draw.iter_mut().zip(&posterior.mean).for_each(|(x, mean)| *x += mean);
        }
        let log_posterior: Vec<f64> = z.chunks_exact(dim.max(1)).map(|z| peak - 0.5 * dot(z, z)).collect();
        let count = settings.draws;
        let stats = Stats {
            energy: log_posterior.iter().map(|value| -value).collect(),
            log_posterior,
            acceptance: vec![1.0; count],
            step_size: vec![1.0; count],
            depth: vec![0; count],
            steps: vec![0; count],
            diverging: vec![false; count],
            max_depth_reached: vec![false; count],
        };
        Chain { warmup: Phase::default(), draws: Phase { theta, stats } }
    };
    Chains { dim, chains: parallel::map(0..settings.chains, chain) }
}
