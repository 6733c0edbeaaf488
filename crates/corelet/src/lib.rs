//! Bayesian coresets: data → rows → model → Laplace fit → dictionary → coreset → evaluation, sampling, verdict.
//!
//! The modules stand in the order of that flow.

pub mod hint;
pub mod linalg;
pub mod random;
pub mod vector_math;

pub mod rows;

pub mod data;

pub mod model;

pub mod posterior;

pub mod embed;

pub mod trust;

pub mod sparse_vi;

pub mod coreset;

pub mod words;

pub mod study;

pub mod generate;
