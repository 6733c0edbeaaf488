//! Rows under a model, wherever they are, and what is asked of them: posteriors and embeddings.
//!
//! [`rows`] answer seven queries; [`posterior`] fits and samples by them; [`embed`] makes of them a dictionary for a solver of sparse,
//! non-negative least squares. `corelet` re-exports all of it and builds coresets on it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use corelet_model::Logistic;
//! use corelet_rows::posterior::{LaplaceSettings, Prior, laplace};
//! use corelet_rows::rows::{All, Memory};
//!
//! let model = Logistic::model(corelet_rows::generate::logistic_paper(500, 1))?;
//! let rows = Memory::new(Arc::new(model));
//! let fit = laplace(&All(&rows), &Prior::isotropic(3, 1.0)?, None, &LaplaceSettings::default())?;
//! println!("{:?}", fit.posterior.mean);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use corelet_data as data;
use corelet_kernels::{linalg, parallel};
use corelet_model::{self as model, vector_math};

pub mod random;

pub mod rows;

pub mod posterior;

pub mod embed;

pub mod generate;
