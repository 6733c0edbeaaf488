//! Bayesian coresets: data → model → Laplace fit → dictionary → coreset → evaluation.
//!
//! The modules stand in the order of that flow, and each uses only those before it.

pub mod observations;

pub mod data;

pub mod linalg;
pub mod vector_math;

pub mod model;

pub mod laplace;

pub mod embed;

pub mod sparse_vi;

pub mod coreset;

pub mod evaluate;

pub mod generate;
