//! From a model and its rough posterior to a coreset: options, the build, and draws that no method sees.

mod all;
mod build;
mod divergence;
mod groups;
mod need;
mod options;
mod path;
mod policy;
mod rest;
mod rounds;
mod selector;
mod start;
mod weights;

pub use all::build_of_all;
pub use build::{BuildError, Callback, Coreset, EmbeddedFit, select};
pub use groups::build_of_groups;
pub use need::TooFew;
pub use options::BuildOptions;
pub use path::{PathRow, PathTable, path};
pub use policy::MOST_ROUNDS;
pub(crate) use policy::{MAX_KL_POINTS, POINTS_A_PARAMETER, SOUGHT_NATS};
pub use rest::RestChoice;
#[cfg(feature = "sampling")]
pub(crate) use rest::most_share;
pub use rounds::{Built, Round, RoundOptions, RoundsBy, build_in_rounds};
pub use selector::{Selector, select_by_sparse_vi};
pub use start::{Start, start_fit};
pub use weights::{Multiples, WrittenWeights};
