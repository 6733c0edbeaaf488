//! Trust in a coreset: held-out draws, divergences in nats, and the verdict.

mod evaluation;
mod held_out;
mod score;
mod verdict;

pub use evaluation::{Evaluation, FitStatus, ParameterShift, evaluate, evaluate_with_rest, residual_in};
pub(crate) use held_out::affordable_draws;
pub use held_out::{Columns, Estimate, HELD_OUT_DRAWS, HeldOut};
pub use score::{Score, TestScores};
pub(crate) use verdict::variances;
#[cfg(feature = "sampling")]
pub(crate) use verdict::verdict_without;
pub use verdict::*;
