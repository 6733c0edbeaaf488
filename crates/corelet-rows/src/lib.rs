//! Rows under a model, wherever they are, and what is asked of them: posteriors and embeddings.
//!
//! [`rows`] answer seven questions; [`posterior`] fits and samples by them; [`embed`] makes of them a dictionary for a solver of sparse,
//! non-negative least squares. `corelet` re-exports all of it and builds coresets on it.

use corelet_data as data;
use corelet_kernels::{linalg, parallel};
use corelet_model::{self as model, vector_math};

pub mod random;

pub mod rows;

pub mod posterior;

pub mod embed;

pub mod generate;
