//! The random streams of one seed: counter-based, each purpose and each index of it apart from all others.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The purposes of random numbers.
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
    /// Draws under the posterior of a growing coreset, fresh ones at every step.
    SparseVi = 5,
    /// A chain of a sampler.
    Chain = 6,
    /// The rows of generated data, a chunk at a time.
    Generate = 7,
    /// The parameters of generated data.
    Parameters = 8,
    /// Draws over which weights descend a divergence.
    Descent = 9,
    /// Draws of outcomes that are predicted, a stream a row.
    Outcomes = 10,
    /// Rows that are candidates for a coreset.
    Pool = 11,
    /// The starting points of a search for modes.
    Modes = 12,
    /// Draws of outcomes that observed ones are compared with, a stream a row.
    Checks = 13,
    /// Draws of random effects, a stream a group.
    Effects = 14,
    /// Draws of a Gaussian that a bridge leads to.
    Evidence = 15,
}

impl Stream {
    /// The generator of this purpose; if a purpose needs several sets of numbers, each index is an independent stream.
    pub fn rng(self, seed: u64, index: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(self as u64 | index << 8);
        rng
    }
}
