//! Log-likelihoods of all rows, or of a few with weights: what fits and samplers climb.

use std::sync::Arc;

use super::{At, Newton, Rest, Rows, RowsError, Under, add};
use crate::model::{Derivatives, Model, Over, Shifts, weighted_differences};
use crate::posterior::{Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, Prior, laplace};

/// A log-likelihood L(θ) of D parameters.
pub trait LogLikelihood: Sync {
    /// Number of parameters, D.
    fn dim(&self) -> usize;

    /// L(θ) and the requested number of derivatives.
    ///
    /// # Errors
    /// If the rows did not answer.
    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError>;

    /// The whole function, if it is quadratic: under a Gaussian prior its posterior needs no chains.
    fn quadratic(&self) -> Option<&Rest> {
        None
    }

    /// A few weighted rows that stand roughly for all, where these are many.
    ///
    /// # Errors
    /// If the rows did not answer.
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

/// The rows of a coreset, fetched, their weights, and the Gaussian part where there is one: L̃(θ) = Σ wⱼℓⱼ(θ) + bᵀ(θ − c) + ½(θ − c)ᵀA(θ − c)
/// at the cost of k rows, wherever the others are.
#[derive(Clone)]
pub struct Weighted {
    model: Option<Arc<dyn Model>>,
    weights: Vec<f64>,
    rest: Option<Arc<Rest>>,
    dim: usize,
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
        let model = rows.bind(rows.fetch(ids)?)?;
        Ok(Self { dim: model.dim(), model: Some(model), weights: weights.to_vec(), rest: None })
    }

    /// The same with a Gaussian part, where given; with one, no row is needed.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch), and where the Gaussian part is one of another number of parameters.
    pub fn fetch_with_rest(
        rows: &dyn Rows,
        ids: &[usize],
        weights: &[f64],
        rest: Option<Arc<Rest>>,
    ) -> Result<Self, RowsError> {
        match rest {
            Some(rest) if ids.is_empty() && rest.dim() == rows.dim() => Ok(Self::of_rest(rest)),
            rest => Self::fetch(rows, ids, weights)?.with_rest(rest),
        }
    }

    /// A Gaussian part without any row.
    pub fn of_rest(rest: Arc<Rest>) -> Self {
        Self { dim: rest.dim(), model: None, weights: Vec::new(), rest: Some(rest) }
    }

    /// The same rows with this Gaussian part, or with none.
    ///
    /// # Errors
    /// If the Gaussian has another number of parameters.
    pub fn with_rest(self, rest: Option<Arc<Rest>>) -> Result<Self, RowsError> {
        if let Some(got) = rest.as_ref().map(|rest| rest.dim()).filter(|dim| *dim != self.dim) {
            return Err(RowsError::Length { what: "the Gaussian part", got, expected: self.dim });
        }
        Ok(Self { rest, ..self })
    }

    /// The same rows with other weights, as many, finite and ≥ 0.
    pub fn with_weights(&self, weights: Vec<f64>) -> Self {
        debug_assert_eq!(weights.len(), self.weights.len());
        Self { weights, ..self.clone() }
    }

    /// The rows, in the order of their weights; empty if there is only a Gaussian factor.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.model.as_ref()
    }

    /// The Gaussian part.
    pub fn rest(&self) -> Option<&Arc<Rest>> {
        self.rest.as_ref()
    }

    /// The means of Σ wⱼℓⱼ and its derivatives under a Gaussian, without the Gaussian part.
    pub fn expected(&self, under: &Under<'_>) -> Newton {
        let ids: Vec<usize> = (0..self.weights.len()).collect();
        let over = Over::Weighted { ids: &ids, weights: &self.weights };
        self.model.as_ref().map_or_else(|| zeros(self.dim, 2), |model| expected(&**model, over, under))
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
        match self.quadratic().filter(|_| prior.is_gaussian()) {
            Some(rest) => {
                let posterior = rest.posterior(prior)?;
                let log_posterior = rest.value(&posterior.mean) + prior.log_density(&posterior.mean);
                let status = LaplaceStatus::Converged;
                Ok(Laplace { posterior, log_posterior, gradient_norm: 0.0, iterations: 1, status })
            }
            None => laplace(self, prior, None, &LaplaceSettings::default()),
        }
    }

    /// The features of which these rows know little: (Σx²)²/Σx⁴, of an indicator the rows that have it, is below `least`.
    pub fn scarce_features(&self, least: f64) -> Vec<usize> {
        let Some(model) = &self.model else { return Vec::new() };
        let rows = model.observations();
        let power =
            |j: usize, p: i32| (0..rows.len()).map(|i| f64::from(rows.row(i)[j]).powi(p)).sum::<f64>();
        (0..rows.dim).filter(|&j| power(j, 2).powi(2) < least * power(j, 4)).collect()
    }

    /// L̃(θ̂ + Δₛ) − L̃(θ̂) for each shift, in f64.
    pub fn differences(&self, anchor: &[f64], shifts: &Shifts) -> Vec<f64> {
        let of_rows = |model| weighted_differences(model, anchor, shifts, &self.weights);
        let mut differences = self.model.as_ref().map_or_else(|| vec![0.0; shifts.len()], of_rows);
        if let Some(rest) = &self.rest {
            add(&mut differences, &rest.differences(anchor, shifts));
        }
        differences
    }
}

impl LogLikelihood for Weighted {
    fn dim(&self) -> usize {
        self.dim
    }

    fn evaluate(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        let ids: Vec<usize> = (0..self.weights.len()).collect();
        let over = Over::Weighted { ids: &ids, weights: &self.weights };
        let of_rows = |model: &Arc<dyn Model>| evaluate(&**model, over, question);
        let mut newton = self.model.as_ref().map_or_else(|| zeros(self.dim, question.derivatives), of_rows);
        if let Some(rest) = &self.rest {
            rest.add_to(question.theta, &mut newton);
        }
        Ok(newton)
    }

    fn quadratic(&self) -> Option<&Rest> {
        let no_rows = self.weights.iter().all(|weight| *weight == 0.0);
        self.rest.as_deref().filter(|_| no_rows)
    }
}

/// The sum over rows of a model in memory.
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

/// Nothing, with so many derivatives.
fn zeros(dim: usize, derivatives: u8) -> Newton {
    let zeros = |least: u8, len: usize| if derivatives >= least { vec![0.0; len] } else { Vec::new() };
    Newton { value: 0.0, gradient: zeros(1, dim), hessian: zeros(2, dim * dim) }
}

pub(super) fn expected(model: &dyn Model, over: Over<'_>, under: &Under<'_>) -> Newton {
    let mut newton = zeros(model.dim(), 2);
    let derivatives = Derivatives::both(&mut newton.gradient, &mut newton.hessian);
    newton.value = model.expected(over, &under.spread(), derivatives);
    newton
}

pub(super) fn evaluate(model: &dyn Model, over: Over<'_>, question: &At<'_>) -> Newton {
    let mut newton = zeros(model.dim(), question.derivatives);
    let derivatives = match question.derivatives {
        0 => Derivatives::none(),
        1 => Derivatives::gradient(&mut newton.gradient),
        _ => Derivatives::both(&mut newton.gradient, &mut newton.hessian),
    };
    newton.value = model.evaluate(over, question.theta, derivatives);
    newton
}
