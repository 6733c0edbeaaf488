//! A Gaussian in place of all rows: for models whose log-likelihood has a gradient, however many parameters they have.
//!
//! The log-likelihood of all rows is replaced by one quadratic function, whose slope and curvature are means of its derivatives under
//! the posterior; the prior stays as it is. Where the rows are many that is often all that is needed, and the verdict tells.

#[cfg(feature = "sampling")]
mod agreement;
#[cfg(feature = "sampling")]
mod beside;
#[cfg(feature = "sampling")]
mod chains;
#[cfg(feature = "sampling")]
mod climb;
#[cfg(feature = "sampling")]
mod cost;
#[cfg(feature = "sampling")]
mod curvature;
#[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what runs chains is left out"))]
mod derivatives;
#[cfg(feature = "sampling")]
mod expand;
#[cfg(feature = "sampling")]
mod modes;
#[cfg(feature = "sampling")]
mod scheme;
#[cfg(feature = "sampling")]
mod sparse;

#[cfg(feature = "sampling")]
pub(super) use climb::uphill;
pub use derivatives::{Derivatives, Effects, Length, Slopes};
#[cfg(feature = "sampling")]
pub(super) use modes::sample_of_size;
#[cfg(feature = "sampling")]
pub(super) use scheme::FarFromQuadratic;
#[cfg(feature = "sampling")]
pub use scheme::{Expanded, Expansion};
