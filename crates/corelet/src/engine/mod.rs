//! One engine for every model: rounds of building, sampling and judging, from a pilot to a certified posterior.
//!
//! [`rounds`] is the loop. It is independent of models and samplers, and works on a [`Scheme`]. There are three schemes. A [`Target`], a model known
//! by its log-likelihoods and a sampler, is approximated from a pool of its rows ([`Pooled`]) or, if it has gradients, by
//! one Gaussian factor in place of all rows ([`Expanded`]). A built-in model, whose
//! log-likelihood can be expanded row by row, is approximated by its embedding (`study::Known`). [`fit`] tries the first two in turn, and then all
//! rows if these take no longer. The grade always comes from [`trust::judge`](crate::trust::judge).

#[cfg(feature = "sampling")]
mod ascent;
#[cfg(feature = "sampling")]
mod fit;
#[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what runs chains is left out"))]
mod forecast;
mod gaussian;
mod pass;
#[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what runs chains is left out"))]
mod plan;
mod pooled;
mod review;
#[cfg(feature = "sampling")]
mod ridge;
mod rounds;
mod sample;
mod scheme;
mod target;
mod units;
#[cfg(feature = "sampling")]
mod unseen;
#[cfg(feature = "sampling")]
mod whole;

#[cfg(feature = "sampling")]
pub use fit::{TargetFit, fit, gaussian_first};
pub use forecast::{Advice, Outlook, outlook};
pub use gaussian::{Derivatives, Effects, Length, Slopes};
#[cfg(feature = "sampling")]
pub use gaussian::{Expanded, Expansion};
pub use pass::{Pool, Seen, block_size, pass};
pub use plan::{Plan, PlanError};
pub use pooled::{Fingerprint, PoolCoreset, Pooled};
pub use review::review;
pub use rounds::rounds;
pub use sample::Sample;
pub use scheme::{Best, Fitted, Interrupted, NotWorthIt, Pilot, Round, Scheme, Stage, Step, StepListener};
pub use target::{Rows, Target, TargetError, Wanted};
pub use units::Units;
