//! Bayesian coresets: data → model → Laplace fit → dictionary → coreset → evaluation.
pub mod laplace;
pub mod linalg;
pub mod model;
pub mod observations;
pub mod vector_math;
