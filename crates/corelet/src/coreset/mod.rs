//! From a model and its rough posterior to a coreset: options, the build, and draws that no method sees.

mod all;
mod build;
mod divergence;
mod groups;
mod need;
mod options;
mod path;
mod rest;
mod rounds;
mod selector;
mod start;

pub use all::build_of_all;
pub use build::{BuildError, Callback, Coreset, EmbeddedFit, select};
pub use groups::build_of_groups;
pub use need::TooFew;
pub use options::BuildOptions;
pub use path::{PathRow, PathTable, path};
pub use rest::RestChoice;
pub(crate) use rest::judging_draws;
#[cfg(feature = "sampling")]
pub(crate) use rest::most_share;
pub use rounds::{Built, MOST_ROUNDS, Round, RoundOptions, RoundsBy, build_in_rounds};
pub use selector::{Selector, select_by_sparse_vi};
pub use start::{Start, start_fit};
