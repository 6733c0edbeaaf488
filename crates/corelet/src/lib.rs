//! Bayesian coresets: data → model → Laplace fit → dictionary → coreset → evaluation, sampling, verdict.
//!
//! The modules stand in the order of that flow, and each uses only those before it.

pub mod observations;

pub mod data;

pub mod linalg;
pub mod vector_math;

pub mod model;

pub mod laplace;

pub mod embed;

pub mod sample;

pub mod sparse_vi;

pub mod verdict;

pub mod coreset;

pub mod evaluate;

pub mod wording;

pub mod trust;

pub mod fitted;

pub mod summary;

pub mod generate;
