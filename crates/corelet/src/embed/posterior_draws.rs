//! Draws from a Gaussian as shifts from its mean, from counter-based streams.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::laplace::Gaussian;
use crate::model::Shifts;

/// What draws are for: the streams of one seed are independent of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The draws a coreset is built on.
    Build = 1,
    /// Draws that no method sees, to judge the coreset.
    HeldOut = 2,
    /// Draws from a coreset's own posterior, on which its verdict is given.
    Verdict = 3,
    /// The rows of a uniform subsample.
    Subsample = 4,
}

/// The stream of chain `chain` of a sampler, apart from all others.
pub(crate) fn chain_stream(seed: u64, chain: usize) -> ChaCha8Rng {
    /// Streams below it are those of [`Stream`].
    const FIRST: u64 = 1 << 32;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(FIRST + chain as u64);
    rng
}

/// θ_s − θ̂ = Lz_s for `count` draws θ_s ~ N(θ̂, LLᵀ).
pub fn draw_shifts(posterior: &Gaussian, count: usize, seed: u64, stream: Stream) -> Shifts {
    let dim = posterior.mean.len();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream as u64);
    let mut rows = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let z: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim).collect();
        rows.extend((0..dim).map(|i| (0..=i).map(|j| posterior.factor[i * dim + j] * z[j]).sum::<f64>()));
    }
    Shifts::new(rows, dim)
}
