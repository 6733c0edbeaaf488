//! What the engine asks of a model: draws given weighted rows, and log-likelihoods.

use std::error::Error;

use super::{Derivatives, Sample};
use crate::trust::{Scores, Verdict};

/// Why a target did not answer: whatever its own code says, or raised.
pub type TargetError = Box<dyn Error + Send + Sync>;

/// Rows, by a range or by their ascending numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// Consecutive rows.
    Range(std::ops::Range<usize>),
    /// Rows with these numbers.
    Some(Vec<usize>),
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Some(rows) => rows.len(),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How long chains are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// At least about so many draws of all chains.
    Draws(usize),
    /// As many as the user has asked for at the end, and as long a warm-up.
    Final {
        /// At least about so many, where nobody has said.
        draws: usize,
    },
}

/// A model as the engine sees it. A front end implements it with a few lines for each tool: PyMC, NumPyro, two functions.
pub trait Target: Sync {
    /// Draws in the form in which the model is asked at them.
    type Place: Sync;

    /// Number of rows, n.
    fn rows(&self) -> usize;

    /// Number of parameters, where it is known before there are draws.
    fn parameters(&self) -> usize {
        0
    }

    /// How many threads may ask for log-likelihoods at a time.
    fn at_once(&self) -> usize {
        1
    }

    /// Steps of the final chains, warm-up included; 0 where they are no longer than others.
    fn final_steps(&self) -> usize {
        0
    }

    /// Draws of the posterior in which the log-likelihood of each of these rows is multiplied by its weight; chains start from draws
    /// of `start` where there are any.
    ///
    /// # Errors
    /// Errors of the sampler.
    fn sample(
        &self,
        rows: &[usize],
        weights: &[f64],
        start: Option<&Sample>,
        wanted: Wanted,
    ) -> Result<Sample, TargetError>;

    /// Draws at which many log-likelihoods will be asked for.
    ///
    /// # Errors
    /// Errors of the model.
    fn place(&self, sample: &Sample) -> Result<Self::Place, TargetError>;

    /// Shows the log-likelihoods of these rows at these draws, draws × rows, row-major.
    ///
    /// # Errors
    /// Errors of the model.
    fn log_likelihoods(
        &self,
        place: &Self::Place,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError>;

    /// The gradient of the weighted log posterior, prior and all, at no more than `most` of these draws, in coordinates in which it
    /// is a density on ℝᵖ; none where there is no gradient to be had.
    ///
    /// # Errors
    /// Errors of the model.
    fn scores(
        &self,
        _rows: &[usize],
        _weights: &[f64],
        _sample: &Sample,
        _most: usize,
    ) -> Result<Option<Scores>, TargetError> {
        Ok(None)
    }

    /// What a verdict on these rows comes to where some of them stand for others that are not here.
    ///
    /// # Errors
    /// Errors of the model.
    fn certified(&self, verdict: Verdict, _sample: &Sample) -> Result<Verdict, TargetError> {
        Ok(verdict)
    }

    /// The model on ℝᵖ, with gradients; none where there are none to be had.
    fn derivatives(&self) -> Option<&dyn Derivatives> {
        None
    }

    /// Called now and then while threads work: an error, Ctrl-C for instance, ends the work.
    ///
    /// # Errors
    /// What ends it.
    fn poll(&self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Whether this error is the user's wish to stop.
    fn is_interrupt(&self, _error: &TargetError) -> bool {
        false
    }

    /// Whether a sampler that failed so on some weighted rows may manage others.
    fn may_retry(&self, _error: &TargetError) -> bool {
        false
    }
}
