//! Bayesian coresets: k weighted rows whose posterior closely approximates that of all n, and a verdict on it.
//!
//! Fit a model to a file and certify the result:
//!
//! ```
//! use corelet::model::BuiltIn;
//! # let rows = corelet::generate::logistic_paper(2000, 1);
//! # let file = corelet::data::Source::of_table(corelet::generate::to_table(&rows, "generated")?);
//!
//! // A `data::Source`: `Source::open("flights.csv", None)?`, or a table in memory.
//! let fit = corelet::fit(&file, "y", BuiltIn::Logistic)?;
//! assert_eq!(fit.verdict().map(|verdict| verdict.grade), Some(corelet::trust::Grade::A));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `fit.chosen` has the rows and their weights, `fit.drawn` the chains. A [`Study`](study::Study) combines a data source, a model and a prior.
//! It has every setting, and builds, evaluates, samples and judges:
//!
//! ```
//! use corelet::data::{Columns, DesignOptions, Source};
//! use corelet::study::{Specification, Study, unheard};
//!
//! # let rows = corelet::generate::logistic_paper(2000, 1);
//! # let source = Source::of_table(corelet::generate::to_table(&rows, "generated")?);
//! let design = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
//! let asked = Specification { design, ..Specification::default() };
//! let study = Study::open(&source, &asked)?;
//! let chosen = study.build(&asked.build, &mut unheard)?.expect("nobody stopped it");
//! println!("{:?} {:?}", chosen.coreset().rows, chosen.weights.values());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each step is also a module of its own, in the order of the pipeline: [`data`] → [`rows`], which answer seven queries and
//! may be stored anywhere → [`model`] → [`posterior`] → [`embed`], a dictionary for the solver → [`coreset`] → [`trust`]. See the picture
//! in `docs/architecture.md`.

pub use sparse_nnls;

#[doc(inline)]
pub use corelet_data::{self as data, hint};
#[doc(inline)]
pub use corelet_kernels::linalg;
use corelet_kernels::parallel;
#[doc(inline)]
pub use corelet_model::{self as model, vector_math};
#[doc(inline)]
pub use corelet_rows::{embed, generate, posterior, random, rows};

pub mod trust;

pub mod sparse_vi;

pub mod coreset;

pub mod review;

pub mod words;

pub mod cluster;

pub mod engine;

pub mod mixed;

pub mod study;

#[cfg(feature = "sampling")]
pub use study::fit;
