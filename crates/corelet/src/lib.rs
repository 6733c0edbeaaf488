//! Bayesian coresets: k weighted rows whose posterior closely approximates that of all n, and a verdict on it.
//!
//! A [`Source`](data::Source) is a file or a table; a [`Study`](study::Study) is a source under a model and a prior, which builds,
//! evaluates, samples and judges:
//!
//! ```
//! use corelet::data::{Columns, DesignOptions, Source};
//! use corelet::study::{Specification, Study, unheard};
//! use corelet::trust::Grade;
//!
//! // 2000 generated rows stand for a file: `Source::open(path, None)?`.
//! let rows = corelet::generate::logistic_paper(2000, 1);
//! let source = Source::of_table(corelet::generate::to_table(&rows, "generated")?);
//! let design = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
//! let asked = Specification { design, ..Specification::default() };
//! let study = Study::open(&source, &asked)?;
//! let chosen = study.build(&asked.build, &mut unheard)?.expect("nobody stopped it");
//! let coreset = chosen.coreset();
//! let drawn = study.sample(Some(&study.weighted(&coreset.rows, &coreset.weights)?), &asked.sample, 0, &mut unheard)?;
//! assert_eq!(drawn.grade(), Some(Grade::A));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Below that, each step is a module of its own, in the order of the flow: [`data`] → [`rows`], which answer seven queries and
//! may be anywhere → [`model`] → [`posterior`] → [`embed`], a dictionary for the solver → [`coreset`] → [`trust`]. `docs/architecture.md`
//! has the picture.

pub use sparse_nnls;

use corelet_data::parallel;
#[doc(inline)]
pub use corelet_data::{self as data, hint, linalg};
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
