//! Bayesian coresets: data → model → Laplace fit → dictionary → coreset → evaluation.
pub mod data;
pub mod observations;
