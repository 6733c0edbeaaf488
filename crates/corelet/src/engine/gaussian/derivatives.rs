//! What a model with gradients answers besides: its log-likelihood and prior on ℝᵖ, and what of its coordinates the likelihood sees.

use std::borrow::Cow;

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

    /// What the log-likelihood sees of the coordinates, where that is not the coordinates themselves.
    fn effects(&self) -> Option<&dyn Effects> {
        None
    }

    /// Whether only one thread at a time can be answered, as by an interpreter with a lock.
    fn one_by_one(&self) -> bool {
        false
    }

    /// How long the final chains are.
    fn length(&self) -> Length;
}

/// The effects η(u) ∈ ℝ^q by which alone the log-likelihood depends on the coordinates u: coefficients z·λ·τ under a horseshoe, say, or
/// deviations z·sd of groups. Where there are many rows, the log-likelihood is nearly quadratic in these, and not in the coordinates.
pub trait Effects: Sync {
    /// Number of effects, q.
    fn count(&self) -> usize;

    /// The name of each.
    ///
    /// # Errors
    /// Errors of the model.
    fn names(&self) -> Result<Vec<String>, TargetError>;

    /// η at each point, lines of q numbers.
    ///
    /// # Errors
    /// Errors of the model.
    fn at(&self, points: &[f64]) -> Result<Vec<f64>, TargetError>;

    /// Jᵀs at each point u, with J = ∂η/∂u and s the line of q slopes that belongs to it: lines of p numbers.
    ///
    /// # Errors
    /// Errors of the model.
    fn pull_back(&self, points: &[f64], slopes: &[f64]) -> Result<Vec<f64>, TargetError>;

    /// The log-likelihood of these rows, of all where none are named, and its gradient by η at each line of q effects.
    ///
    /// # Errors
    /// Errors of the model.
    fn log_likelihood(&self, effects: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError>;
}

/// What the log-likelihood is expanded in: the effects of a model that has some, else its coordinates.
#[derive(Clone, Copy)]
pub(super) struct Argument<'m> {
    model: &'m dyn Derivatives,
    effects: Option<&'m dyn Effects>,
}

impl<'m> Argument<'m> {
    pub(super) fn of(model: &'m dyn Derivatives) -> Self {
        Self { model, effects: model.effects() }
    }

    /// Whether it is other than the coordinates.
    pub(super) fn is_derived(&self) -> bool {
        self.effects.is_some()
    }

    pub(super) fn dimension(&self) -> usize {
        self.effects.map_or_else(|| self.model.dimension(), Effects::count)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, TargetError> {
        self.effects.map_or_else(|| self.model.names(), Effects::names)
    }

    /// Its value at points of coordinates.
    pub(super) fn at<'a>(&self, points: &'a [f64]) -> Result<Cow<'a, [f64]>, TargetError> {
        Ok(match self.effects {
            Some(effects) => Cow::Owned(effects.at(points)?),
            None => Cow::Borrowed(points),
        })
    }

    /// Slopes by it as slopes by the coordinates at these points.
    pub(super) fn pull_back(&self, points: &[f64], slopes: Vec<f64>) -> Result<Vec<f64>, TargetError> {
        match self.effects {
            Some(effects) => effects.pull_back(points, &slopes),
            None => Ok(slopes),
        }
    }

    /// The log-likelihood and its gradient at values of it.
    pub(super) fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        match self.effects {
            Some(effects) => effects.log_likelihood(at, rows),
            None => self.model.log_likelihood(at, rows),
        }
    }
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
