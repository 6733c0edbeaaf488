//! How a coreset is built.

use serde::{Deserialize, Serialize};
use sparse_nnls::{Limits, Method, Settings};

use crate::coreset::rest::suits;
use crate::coreset::{BuildError, RestChoice, Selector};
use crate::embed::Choice;

/// How a coreset is built.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `method` | pursuit | how points are chosen | see [`Selector`] |
/// | `k` | 100 | most points | 1 … n; 0 … n with a Gaussian |
/// | `max_kl` | none | take the fewest points whose held-out estimate ½‖r‖² is at most this, in nats | > 0 |
/// | `embedding` | `auto` | how a datum becomes a vector | see [`Choice`] |
/// | `seed` | 0 | of everything random | any |
/// | `total` | none | hold Σw fixed (hard thresholding only) | > 0 |
/// | `polish` | false | solve NNLS on the final points | |
/// | `limits` | none | when to stop early | see [`Limits`] |
/// | `rest` | none | whether a Gaussian stands beside the rows (pursuit only) | see [`RestChoice`] |
/// | `enough` | 10⁻³, or 10⁻² of many parameters | V in nats² up to which a Gaussian by itself will do | > 0 |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildOptions {
    /// How points are chosen.
    pub method: Selector,
    /// Most points.
    pub k: usize,
    /// The divergence in nats to stay below with the fewest points.
    pub max_kl: Option<f64>,
    /// How a datum becomes a vector.
    pub embedding: Choice,
    /// The seed of everything random.
    pub seed: u64,
    /// L, where the weights must add up to it.
    pub total: Option<f64>,
    /// Solve NNLS on the final points.
    pub polish: bool,
    /// When to stop early.
    pub limits: Limits,
    /// Whether a Gaussian stands beside the rows.
    pub rest: RestChoice,
    /// V in nats² up to which a Gaussian by itself will do; none for a hundredth of what an A allows, or a tenth of it where rows could
    /// not carry the parameters.
    pub enough: Option<f64>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            method: Selector::default(),
            k: 100,
            max_kl: None,
            embedding: Choice::default(),
            seed: 0,
            total: None,
            polish: false,
            limits: Limits::default(),
            rest: RestChoice::default(),
            enough: None,
        }
    }
}

impl BuildOptions {
    /// Refuses, before any work is done, what cannot be done with `rows` rows.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn check(&self, rows: usize) -> Result<(), BuildError> {
        let least = usize::from(self.rest == RestChoice::None);
        if self.k < least || self.k > rows {
            return Err(BuildError::PointsOutOfRange { k: self.k, rows });
        }
        if let Some(max_kl) = self.max_kl {
            if !(max_kl > 0.0 && max_kl.is_finite()) {
                return Err(BuildError::MaxKl(max_kl));
            }
            if !matches!(self.method, Selector::Embedded(Method::Pursuit(_))) {
                return Err(BuildError::NoPath { method: self.method.name() });
            }
        }
        if self.rest == RestChoice::Gaussian && (!suits(self) || self.max_kl.is_some()) {
            return Err(BuildError::NoRest { method: self.method.name() });
        }
        match &self.method {
            Selector::Embedded(method) => Ok(method.check()?),
            Selector::SparseVi(settings) => Ok(settings.check()?),
        }
    }

    /// The method of the solver.
    ///
    /// # Errors
    /// SparseVI is none: it works above the embeddings, and needs the prior.
    pub(super) fn solver(&self) -> Result<&Method, BuildError> {
        match &self.method {
            Selector::Embedded(method) => Ok(method),
            Selector::SparseVi(_) => Err(BuildError::NoPath { method: self.method.name() }),
        }
    }

    /// The solver's settings for at most `k` points.
    pub(super) fn settings(&self, k: usize) -> Settings {
        Settings { k, total: self.total, seed: self.seed, polish: self.polish, limits: self.limits }
    }
}
