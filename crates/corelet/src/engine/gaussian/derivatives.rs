//! What a model with gradients answers besides: its log-likelihood and prior on ℝᵖ, and draws under a Gaussian likelihood.

use super::super::{Sample, TargetError, Wanted};
use crate::posterior::Gaussian;
use crate::rows::Rest;

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
    /// Those of the model.
    fn names(&self) -> Result<Vec<String>, TargetError>;

    /// So many points, far apart, at which the density is finite, from which a search for modes may begin.
    ///
    /// # Errors
    /// Those of the model.
    fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError>;

    /// Draws as points; not finite where a draw is at the edge of its range.
    ///
    /// # Errors
    /// Those of the model.
    fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError>;

    /// The log-likelihood of these rows, of all where none are named, and its gradient at each point.
    ///
    /// # Errors
    /// Those of the model.
    fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError>;

    /// The log density of the prior, with potentials and Jacobians, and its gradient at each point.
    ///
    /// # Errors
    /// Those of the model.
    fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError>;

    /// Draws of the posterior whose likelihood is this Gaussian factor, under the model's own prior; `near` is like that posterior in
    /// place and shape, and so a good choice of coordinates for a sampler.
    ///
    /// # Errors
    /// Those of the sampler.
    fn sample(&self, rest: &Rest, near: &Gaussian, wanted: Wanted) -> Result<Sample, TargetError>;
}
