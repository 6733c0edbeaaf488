//! A Gaussian in place of all rows: for models whose log-likelihood has a gradient, however many parameters they have.
//!
//! The log-likelihood of all rows is replaced by one quadratic function, whose slope and curvature are means of its derivatives under
//! the posterior; the prior stays as it is. Where the rows are many that is often all that is needed, and the verdict tells.

mod beside;
mod chains;
mod climb;
mod curvature;
mod derivatives;
mod expand;
mod modes;
mod scheme;
mod sparse;

pub use derivatives::{Derivatives, Length, Slopes};
pub use scheme::{Expanded, Expansion};
