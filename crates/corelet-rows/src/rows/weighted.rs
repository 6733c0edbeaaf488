//! Log-likelihoods of all rows, or of a few with weights: what fits and samplers climb.

use std::sync::Arc;

use super::{At, Newton, Rows, RowsError};
use crate::model::{Derivatives, Model, Over, Shifts, weighted_differences};
use crate::posterior::{Laplace, LaplaceError, LaplaceSettings, Prior, laplace};

/// A log-likelihood L(θ) of D parameters.
pub trait LogLikelihood: Sync {
    /// Number of parameters, D.
    fn dim(&self) -> usize;

    /// L(θ) and as many derivatives as are asked for.
    ///
    /// # Errors
    /// Where the rows did not answer.
    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError>;

    /// A few weighted rows that stand roughly for all, where these are many.
    ///
    /// # Errors
    /// Where the rows did not answer.
    fn rough(&self) -> Result<Option<Weighted>, RowsError> {
        Ok(None)
    }
}

/// The log-likelihood of all rows.
#[derive(Clone, Copy)]
pub struct All<'a>(pub &'a dyn Rows);

impl LogLikelihood for All<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        self.0.newton(question)
    }

    fn rough(&self) -> Result<Option<Weighted>, RowsError> {
        /// Rows a parameter that are a fair picture; every so many of few rows, and so many of many: the mode of m of n rows
        /// is some √(n/m) posterior standard deviations off. Fewer than a sixteenth must do, or it does not pay.
        const EACH: usize = 100;
        const OF_FEW: usize = 16;
        const OF_MANY: usize = 60_000;
        const LEAST_STRIDE: usize = 16;
        let Self(rows) = *self;
        let count = (rows.len() / OF_FEW).min(OF_MANY).max(EACH * rows.dim());
        let stride = rows.len() / count.max(1);
        if stride < LEAST_STRIDE {
            return Ok(None);
        }
        let ids: Vec<usize> = (0..rows.len()).step_by(stride).collect();
        let weights = vec![rows.len() as f64 / ids.len() as f64; ids.len()];
        Weighted::fetch(rows, &ids, &weights).map(Some)
    }
}

/// The rows of a coreset, fetched, and their weights: L_w(θ) = Σ wⱼℓⱼ(θ) at the cost of k rows, wherever the others are.
#[derive(Clone)]
pub struct Weighted {
    model: Arc<dyn Model>,
    weights: Vec<f64>,
}

impl Weighted {
    /// Fetches the rows `ids`.
    ///
    /// # Errors
    /// A row that is not there or a weight that is no number ≥ 0, and whatever the rows fail with.
    pub fn fetch(rows: &dyn Rows, ids: &[usize], weights: &[f64]) -> Result<Self, RowsError> {
        let (got, expected) = (weights.len(), ids.len());
        if got != expected {
            return Err(RowsError::Length { what: "weights", got, expected });
        }
        let bad = |&(_, weight): &(&usize, &f64)| !(weight.is_finite() && *weight >= 0.0);
        if let Some((&row, &weight)) = ids.iter().zip(weights).find(bad) {
            return Err(RowsError::Weight { row, weight });
        }
        // No row is one of weight 0: the posterior is then the prior.
        let (ids, weights) = if ids.is_empty() { (&[0][..], &[0.0][..]) } else { (ids, weights) };
        Ok(Self { model: rows.bind(rows.fetch(ids)?)?, weights: weights.to_vec() })
    }

    /// The same rows with other weights, as many, finite and ≥ 0.
    pub fn with_weights(&self, weights: Vec<f64>) -> Self {
        debug_assert_eq!(weights.len(), self.weights.len());
        Self { model: Arc::clone(&self.model), weights }
    }

    /// The rows, in the order of their weights.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The weights.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The Laplace fit of the posterior ∝ π₀·exp(L_w), from the prior mean: the same bits whoever asks.
    ///
    /// # Errors
    /// See [`laplace`].
    pub fn fit(&self, prior: &Prior) -> Result<Laplace, LaplaceError> {
        laplace(self, prior, None, &LaplaceSettings::default())
    }

    /// The features of which these rows know little: (Σx²)²/Σx⁴, of an indicator the rows that have it, is below `least`.
    pub fn scarce_features(&self, least: f64) -> Vec<usize> {
        let rows = self.model.observations();
        let power =
            |j: usize, p: i32| (0..rows.len()).map(|i| f64::from(rows.row(i)[j]).powi(p)).sum::<f64>();
        (0..rows.dim).filter(|&j| power(j, 2).powi(2) < least * power(j, 4)).collect()
    }

    /// L_w(θ̂ + Δₛ) − L_w(θ̂) for each shift, in f64.
    pub fn differences(&self, anchor: &[f64], shifts: &Shifts) -> Vec<f64> {
        weighted_differences(&self.model, anchor, shifts, &self.weights)
    }
}

impl LogLikelihood for Weighted {
    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        let ids: Vec<usize> = (0..self.weights.len()).collect();
        Ok(evaluate(&*self.model, Over::Weighted { ids: &ids, weights: &self.weights }, question))
    }
}

/// The sum over rows of a model that is at hand.
#[derive(Clone, Copy)]
pub struct Summed<'a> {
    /// The model.
    pub model: &'a dyn Model,
    /// Over which of its rows, and with which weights.
    pub over: Over<'a>,
}

impl LogLikelihood for Summed<'_> {
    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        Ok(evaluate(self.model, self.over, question))
    }
}

pub(super) fn evaluate(model: &dyn Model, over: Over<'_>, question: &At<'_>) -> Newton {
    let dim = model.dim();
    let zeros =
        |least: u8, len: usize| if question.derivatives >= least { vec![0.0; len] } else { Vec::new() };
    let mut newton = Newton { value: 0.0, gradient: zeros(1, dim), hessian: zeros(2, dim * dim) };
    let derivatives = match question.derivatives {
        0 => Derivatives::none(),
        1 => Derivatives::gradient(&mut newton.gradient),
        _ => Derivatives::both(&mut newton.gradient, &mut newton.hessian),
    };
    newton.value = model.evaluate(over, question.theta, derivatives);
    newton
}
