//! Bayesian coresets: data → model → Laplace fit → dictionary → coreset → evaluation.
pub mod observations;
