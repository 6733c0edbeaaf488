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
pub use chain::{Coordinates, sample, sample_density};
pub use chains::{Chain, Chains, Phase, Stats};
pub use diagnostics::{
    Diagnostics, E_BFMI_LIMIT, ParameterSummary, R_HAT_LIMIT, effective_sample_size, ess_bulk, ess_tail,
    r_hat,
};
pub use normal::normal_quantile;
pub use weighted::{Marginal, resample, systematic};

use std::ops::ControlFlow;

use corelet_data::{available, size};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The log of a density on ℝᴰ, up to a constant, and its gradient: all that chains need.
pub trait LogDensity: Sync {
    /// log p(θ), with its gradient in place of what is in `gradient`; none if it has no value.
    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64>;

    /// Whether threads would only wait for each other here, so that chains had better run one after the other.
    fn one_by_one(&self) -> bool {
        false
    }
}

/// How long the chains are and how they step.
///
/// | name | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `chains` | 4 | independent chains; R̂ needs at least two | 1 … 1000 |
/// | `warmup` | 500 | steps that adapt the step size and the scales, kept apart from the draws | 20 … 10⁶ |
/// | `draws` | 1000 | draws kept of each chain | 4 … 10⁶ |
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

/// More chains than this are a slip of the keyboard: each has a warm-up of its own.
const MOST_CHAINS: usize = 1000;

/// So are more steps of one chain.
const MOST_STEPS: usize = 1_000_000;

impl SampleSettings {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// [`SampleError::Setting`].
    pub fn check(&self) -> Result<(), SampleError> {
        let bad = |name, value: f64, range| Err(SampleError::Setting { name, value, range });
        match self {
            Self { chains, .. } if !(1..=MOST_CHAINS).contains(chains) => {
                bad("chains", *chains as f64, "1 to 1000")
            }
            Self { warmup, .. } if !(20..=MOST_STEPS).contains(warmup) => {
                bad("warmup", *warmup as f64, "20 to 1000000")
            }
            Self { draws, .. } if !(4..=MOST_STEPS).contains(draws) => {
                bad("draws", *draws as f64, "4 to 1000000")
            }
            Self { target_accept, .. } if !(*target_accept > 0.0 && *target_accept < 1.0) => {
                bad("target_accept", *target_accept, "between 0 and 1")
            }
            Self { max_depth, .. } if !(1..=20).contains(max_depth) => {
                bad("max_depth", *max_depth as f64, "1 to 20")
            }
            _ => Ok(()),
        }
    }

    /// Refuses, besides, draws of so many parameters that would not fit into memory.
    ///
    /// # Errors
    /// [`SampleError::Setting`] and [`SampleError::Memory`].
    pub fn check_for(&self, parameters: usize) -> Result<(), SampleError> {
        /// A draw on both scales, once more where it is resampled or written, and its statistics.
        const COPIES: usize = 4;
        const STATISTICS: usize = 8;
        self.check()?;
        let draws = self.chains * (self.warmup + self.draws);
        let numbers = draws.saturating_mul(COPIES * parameters + STATISTICS);
        let needed = (numbers as u64).saturating_mul(size_of::<f64>() as u64);
        match available() {
            Some(available) if needed > available => {
                Err(SampleError::Memory { draws, parameters, needed, available })
            }
            _ => Ok(()),
        }
    }
}

/// Why there are no draws.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A setting out of its range.
    #[error("{name} = {value} cannot be used: it must be {range}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Value of the setting.
        value: f64,
        /// Values that are allowed.
        range: &'static str,
    },
    /// Draws that do not fit into memory.
    #[error("{draws} draws of {parameters} parameters need {} of memory, but {} are available: ask for fewer chains or draws", size(*needed), size(*available))]
    Memory {
        /// Warm-up and draws of all chains.
        draws: usize,
        /// Numbers in each.
        parameters: usize,
        /// Bytes that they take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// Lengths that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// What has the wrong size.
        what: &'static str,
        /// The size that it has.
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
        /// The reason that was given.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_keyboard_are_refused() {
        let refused =
            |settings: SampleSettings, parameters| settings.check_for(parameters).unwrap_err().to_string();
        let plain = SampleSettings::default();
        assert!(plain.check_for(43).is_ok());
        let chains = refused(SampleSettings { chains: 1_000_000, ..plain }, 2);
        assert_eq!(chains, "chains = 1000000 cannot be used: it must be 1 to 1000");
        let draws = refused(SampleSettings { draws: 4_000_000_000, ..plain }, 2);
        assert_eq!(draws, "draws = 4000000000 cannot be used: it must be 4 to 1000000");
        if available().is_some() {
            let both = refused(SampleSettings { chains: 1000, draws: 1_000_000, ..plain }, 10_000);
            assert!(
                both.contains("of memory, but") && both.ends_with("ask for fewer chains or draws"),
                "{both}"
            );
        }
    }
}
