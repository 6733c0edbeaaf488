//! Draws from a weighted posterior by NUTS, chain by chain, and what they say about themselves.

mod arviz;
#[cfg(feature = "sampling")]
mod chain;
mod chains;
mod diagnostics;
#[cfg(feature = "sampling")]
mod exact;
mod normal;
mod weighted;

pub use arviz::{ArvizGroup, write_arviz};
#[cfg(feature = "sampling")]
pub use chain::{Coordinates, LogDensity, sample, sample_density};
pub use chains::{Chain, Chains, Phase, Stats};
pub use diagnostics::{
    Diagnostics, ParameterSummary, R_HAT_LIMIT, effective_sample_size, ess_bulk, ess_tail, r_hat,
};
pub use normal::normal_quantile;
pub use weighted::{Marginal, resample, systematic};

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long the chains are and how they step.
///
/// | name | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `chains` | 4 | independent chains; R̂ needs at least two | ≥ 1 |
/// | `warmup` | 500 | steps that adapt the step size and the scales, kept apart from the draws | ≥ 20 |
/// | `draws` | 1000 | draws kept of each chain | ≥ 4 |
/// | `target_accept` | 0.8 | acceptance rate that the step size is adapted to | (0, 1) |
/// | `max_depth` | 10 | a trajectory has at most 2^this steps | 1 … 20 |
///
/// The chains run in the coordinates of a Gaussian fit, in which the posterior is nearly N(0, I): a short warm-up is
/// enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleSettings {
    /// Independent chains.
    pub chains: usize,
    /// Steps of adaptation.
    pub warmup: usize,
    /// Draws of each chain.
    pub draws: usize,
    /// Acceptance rate that the step size is adapted to.
    pub target_accept: f64,
    /// Doublings of a trajectory, at most.
    pub max_depth: usize,
}

impl Default for SampleSettings {
    fn default() -> Self {
        Self { chains: 4, warmup: 500, draws: 1000, target_accept: 0.8, max_depth: 10 }
    }
}

impl SampleSettings {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// [`SampleError::Setting`].
    pub fn check(&self) -> Result<(), SampleError> {
        let bad = |name, value: f64, range| Err(SampleError::Setting { name, value, range });
        match self {
            Self { chains: 0, .. } => bad("chains", 0.0, "at least 1"),
            Self { warmup, .. } if *warmup < 20 => bad("warmup", *warmup as f64, "at least 20"),
            Self { draws, .. } if *draws < 4 => bad("draws", *draws as f64, "at least 4"),
            Self { target_accept, .. } if !(*target_accept > 0.0 && *target_accept < 1.0) => {
                bad("target_accept", *target_accept, "between 0 and 1")
            }
            Self { max_depth, .. } if !(1..=20).contains(max_depth) => {
                bad("max_depth", *max_depth as f64, "1 to 20")
            }
            _ => Ok(()),
        }
    }
}

/// Why there are no draws.
#[derive(Debug, Error)]
pub enum SampleError {
    /// A setting out of its range.
    #[error("{name} = {value} cannot be used: it must be {range}")]
    Setting {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// Lengths that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// Of what.
        what: &'static str,
        /// Its size.
        got: usize,
        /// The size it must have.
        expected: usize,
    },
    /// No point with a finite log posterior near the Gaussian fit.
    #[error("chain {chain}: the log posterior is not finite anywhere near the Gaussian fit it starts from")]
    Start {
        /// The chain, from 0.
        chain: usize,
    },
    /// The sampler gave up.
    #[error("chain {chain}: {reason}")]
    Chain {
        /// The chain, from 0.
        chain: usize,
        /// What it said.
        reason: String,
    },
    /// The callback asked to stop.
    #[error("sampling was stopped before it had ended")]
    Stopped,
}

/// What a chain tells its caller now and then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleProgress {
    /// The chain, from 0.
    pub chain: usize,
    /// How many chains there are.
    pub chains: usize,
    /// Steps of this chain so far, warm-up included.
    pub done: usize,
    /// Steps of this chain in all.
    pub total: usize,
    /// Whether it is still in its warm-up.
    pub warming_up: bool,
    /// Divergent draws of this chain after warm-up so far.
    pub divergences: usize,
}

/// Called by one chain at a time; the answer says whether to go on.
pub type SampleCallback<'c> = dyn FnMut(&SampleProgress) -> ControlFlow<()> + Send + 'c;
