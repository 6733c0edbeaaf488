//! Rows under a model, wherever they are stored, and what is computed from them: posteriors and embeddings.
//!
//! [`rows`] answer seven queries. [`posterior`] uses them to fit and sample, and [`embed`] to build a dictionary for a solver of sparse,
//! non-negative least squares. `corelet` re-exports everything and builds coresets on it.
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
