//! What a model with gradients answers besides: its log-likelihood and prior on ℝᵖ.

use super::super::{Sample, TargetError};
use crate::posterior::Chains;

/// A function and its gradient at several points.
#[derive(Debug, Clone, PartialEq)]
pub struct Slopes {
    /// The value at each point.
    pub values: Vec<f64>,
    /// The gradient at each, points × p, row-major.
    pub gradients: Vec<f64>,
}

/// A model in coordinates u ∈ ℝᵖ in which its posterior is a density with a gradient: constrained parameters are transformed, and the
/// Jacobians are part of the prior. Points are lines of p numbers.
pub trait Derivatives: Sync {
    /// Number of coordinates, p.
    fn dimension(&self) -> usize;

    /// The name of each coordinate.
    ///
    /// # Errors
    /// Errors of the model.
    fn names(&self) -> Result<Vec<String>, TargetError>;

    /// So many points, far apart, at which the density is finite, from which a search for modes may begin; the first in the middle of them
    /// where there is one, since the mirror images of the others about it are starts too.
    ///
    /// # Errors
    /// Errors of the model.
    fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError>;

    /// Draws as points; not finite where a draw is at the edge of its range.
    ///
    /// # Errors
    /// Errors of the model.
    fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError>;

    /// The log-likelihood of these rows, of all where none are named, and its gradient at each point.
    ///
    /// # Errors
    /// Errors of the model.
    fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError>;

    /// Σ wᵢℓᵢ of these rows, and its gradient at each point.
    ///
    /// # Errors
    /// Errors of the model.
    fn weighted(&self, at: &[f64], rows: &[usize], weights: &[f64]) -> Result<Slopes, TargetError>;

    /// The log density of the prior, with potentials and Jacobians, and its gradient at each point.
    ///
    /// # Errors
    /// Errors of the model.
    fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError>;

    /// Points as draws in the model's own form: of these chains, where there are some, with their statistics, else as one chain.
    ///
    /// # Errors
    /// Errors of the model.
    fn constrained(&self, points: &[f64], chains: Option<&Chains>) -> Result<Sample, TargetError>;

    /// Whether only one thread at a time can be answered, as by an interpreter with a lock.
    fn one_by_one(&self) -> bool {
        false
    }

    /// How long the final chains are.
    fn length(&self) -> Length;
}

/// The final chains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Number of chains.
    pub chains: usize,
    /// Steps of warm-up of each.
    pub warmup: usize,
    /// Draws of each.
    pub draws: usize,
    /// The acceptance rate that the step size is adapted to.
    pub target_accept: f64,
}
