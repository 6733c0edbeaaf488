//! The interface of a model to the engine: draws given weighted rows, and log-likelihoods.

use std::error::Error;

use super::{Derivatives, Sample};
use crate::trust::{Scores, Verdict};

/// An error of a target: whatever its own code returned or raised.
pub type TargetError = Box<dyn Error + Send + Sync>;

/// Rows, as a range or as ascending numbers.
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

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The requested length of chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// At least about this number of draws over all chains.
    Draws(usize),
    /// The final chains: the number of draws and the warm-up that the user requested.
    Final {
        /// The approximate minimum if the user requested nothing.
        draws: usize,
    },
}

/// A model as the engine sees it. A front end implements this trait with a few lines for each tool: PyMC, NumPyro, two functions.
pub trait Target: Sync {
    /// Draws in the form in which the model is evaluated at them.
    type Place: Sync;

    /// Number of rows, n.
    fn rows(&self) -> usize;

    /// Number of parameters, if it is known before there are draws.
    fn parameters(&self) -> usize {
        0
    }

    /// The number of threads that may request log-likelihoods at a time.
    fn at_once(&self) -> usize {
        1
    }

    /// Steps of the final chains, including warm-up; 0 if they are not longer than others.
    fn final_steps(&self) -> usize {
        0
    }

    /// Draws of the posterior in which the log-likelihood of each of these rows is multiplied by its weight. Chains start from draws
    /// of `start` if there are any.
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

    /// Prepares draws at which many log-likelihoods will be requested.
    ///
    /// # Errors
    /// Errors of the model.
    fn place(&self, sample: &Sample) -> Result<Self::Place, TargetError>;

    /// Passes the log-likelihoods of these rows at these draws to the callback: draws × rows, row-major.
    ///
    /// # Errors
    /// Errors of the model.
    fn log_likelihoods(
        &self,
        place: &Self::Place,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError>;

    /// The gradient of the weighted log posterior, including the prior, at no more than `most` of these draws, in coordinates in which it
    /// is a density on ℝᵖ; none if there is no gradient.
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

    /// The verdict on all rows, from the verdict on these, if some of these stand for others that are not available.
    ///
    /// # Errors
    /// Errors of the model.
    fn certified(&self, verdict: Verdict, _sample: &Sample) -> Result<Verdict, TargetError> {
        Ok(verdict)
    }

    /// The model on ℝᵖ, with gradients; none if there are no gradients.
    fn derivatives(&self) -> Option<&dyn Derivatives> {
        None
    }

    /// Called, perhaps several times, before all rows are sampled for want of anything smaller, which will take so many seconds.
    ///
    /// # Errors
    /// What ends the fit: a tool that knows a faster way takes that.
    fn before_all_rows(&self, _seconds: f64) -> Result<(), TargetError> {
        Ok(())
    }

    /// Called now and then while threads work: an error, Ctrl-C for instance, ends the work.
    ///
    /// # Errors
    /// The error that ends it.
    fn poll(&self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Whether this error is the user's wish to stop.
    fn is_interrupt(&self, _error: &TargetError) -> bool {
        false
    }

    /// Whether a sampler that failed with this error on some weighted rows may succeed on others.
    fn may_retry(&self, _error: &TargetError) -> bool {
        false
    }
}
