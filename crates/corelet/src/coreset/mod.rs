//! From a model and its rough posterior to a coreset: options, the build, and draws that no method sees.

mod build;
mod held_out;
mod options;
mod path;
mod request;
mod rounds;
mod selector;
mod start;

pub use build::{BuildError, Callback, Coreset, build, select};
pub use held_out::{HELD_OUT_DRAWS, HeldOut};
pub use options::{BuildOptions, ModelOptions, make_model, make_prior};
pub use path::{PathRow, PathTable, path};
pub use request::{BuildRequest, ModelRequest, with_step};
pub use rounds::{Built, MOST_ROUNDS, Round, RoundOptions, RoundsBy, build_in_rounds};
pub use selector::{Selector, select_by_sparse_vi};
pub use start::{Start, start_fit};
