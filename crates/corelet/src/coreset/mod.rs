//! From a model and its rough posterior to a coreset: options, the build, and draws that no method sees.

mod build;
mod held_out;
mod options;
mod selector;

pub use build::{BuildError, Callback, Coreset, build, select};
pub use held_out::{HELD_OUT_DRAWS, HeldOut};
pub use options::{BuildOptions, ModelOptions, make_model, make_prior};
pub use selector::{Selector, select_by_sparse_vi};
