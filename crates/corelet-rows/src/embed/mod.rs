//! Embeddings: each datum's log-likelihood as a vector φᵢ with ⟨φᵢ, φⱼ⟩ = Cov(ℓᵢ, ℓⱼ) under a Gaussian π̂, as a
//! dictionary for the solver. ½‖Φ1 − Φw‖² is then, to leading order, the KL divergence of the coreset in nats.

mod blocks;
mod choice;
mod choose;
mod draws;
mod embedded;
mod gaussian;
mod grouped;
mod hermite;
pub mod paper;
mod pool;
mod recipe;
mod sketch;
mod stacked;
mod stored;
mod tiles;

pub use blocks::{Blocks, Source};
pub use choice::Choice;
pub use choose::{beyond_order_two, embed, may_be_richer, richer};
pub use draws::{ByDraws, RowPolynomials};
pub use embedded::Embedded;
pub use hermite::{Hermite, JointHermite, JointPolynomials};
pub use pool::Pool;
pub use recipe::{Prepared, Recipe};
pub use sketch::{SampleError, Sketch, Sketched};
pub use stacked::Stacked;
pub use stored::{Layout, Precision, Stored};
pub use tiles::{Correlations, Tiles};

use serde::{Deserialize, Serialize};
use sparse_nnls::Dictionary;
use thiserror::Error;

use crate::data::size;
use crate::rows::RowsError;

/// Why an embedding could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A Hermite embedding was requested for a model without a linear predictor.
    #[error("the {model} model has no linear predictor, so it has no Hermite embedding, only one by draws")]
    NoLinearPredictor {
        /// The model's name.
        model: &'static str,
    },
    /// A covariance needs two draws.
    #[error("{count} draws are too few: at least 2 are needed for a covariance")]
    TooFewDraws {
        /// The requested value.
        count: usize,
    },
    /// A log-likelihood that is NaN or infinite. Rows and draws count from 0.
    #[error("the log-likelihood of row {row} at draw {draw} is not finite ({value})")]
    NotFinite {
        /// The datum.
        row: usize,
        /// The draw.
        draw: usize,
        /// NaN or ±∞.
        value: f64,
    },
    /// Sizes that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// The item with the wrong size.
        what: &'static str,
        /// The size that it has.
        got: usize,
        /// The size it must have.
        expected: usize,
    },
    /// A matrix that cannot be factorised.
    #[error(transparent)]
    Linalg(#[from] crate::linalg::LinalgError),
    /// The embedding that is to be copied failed.
    #[error(transparent)]
    Dictionary(#[from] sparse_nnls::DictionaryError),
    /// An order that the Hermite embedding does not have.
    #[error("Hermite order {order} is not one of 1, 2 and 3")]
    Order {
        /// The requested value.
        order: usize,
    },
    /// An order that a model with several predictors a row does not have.
    #[error(
        "the {model} model has several predictors a row, so its Hermite embedding has order 1 or 2, not {order}; draws see the rest"
    )]
    JointOrder {
        /// The model's name.
        model: &'static str,
        /// The requested value.
        order: usize,
    },
    /// π̂ is not over the parameters of the model.
    #[error("the posterior has {posterior} dimensions, the model {model}")]
    Dimension {
        /// Parameters of the posterior approximation π̂.
        posterior: usize,
        /// Parameters of the model.
        model: usize,
    },
    /// The columns of groups do not fit.
    #[error(
        "the columns of {groups} groups, {coordinates} coordinates each ({embedding}), need {}, but {} of memory are available; an \
         embedding with fewer coordinates may do",
        size(*needed),
        size(*available)
    )]
    Memory {
        /// Number of groups.
        groups: usize,
        /// Length of a column.
        coordinates: usize,
        /// Which embedding.
        embedding: String,
        /// Bytes.
        needed: u64,
        /// Bytes.
        available: u64,
    },
    /// The rows did not answer.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The solver refused the matrix.
    #[error(transparent)]
    Solver(#[from] sparse_nnls::Error),
}

/// The chosen embedding, for display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// In the form of the setting: `hermite:3`, `draws:500`.
    pub name: String,
    /// Length of a column.
    pub coordinates: usize,
    /// What truncation drops, in nats: half the variance under π̂ of the part of the full log-likelihood that the
    /// embedding does not see; for draws, which see everything but through noise, 0.
    pub tail: f64,
}

/// A dictionary of log-likelihood vectors.
pub trait Embedding: Dictionary + Send {
    /// Description of the embedding.
    fn description(&self) -> &Description;
}
