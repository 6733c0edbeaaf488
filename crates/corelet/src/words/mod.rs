//! What is said to people: numbers, verdicts and summaries, the same for every front end. No option is named here.

mod certificate;
mod estimates;
mod forecast;
mod numbers;
mod priors;
mod review;
mod summary;
#[cfg(feature = "sampling")]
mod update;
mod verdict;

pub use certificate::certified;
pub use estimates::{Estimate, HEADS, cells, figures, table};
pub use forecast::{Forecast, does_not_pay, expected};
pub use numbers::{count, duration, judgement, number, optional, percent, plural};
pub use priors::PriorGroup;
#[cfg(feature = "sampling")]
pub use review::k_folded;
pub use review::{misfits, misfits_by_level, moved, predicted, reviewed};
pub use summary::{Judged, NamedShift, Seconds, Subject, Summary};
#[cfg(feature = "sampling")]
pub use update::{updated, updated_model};
pub use verdict::{another_mode, headline, headline_with_rest, lines, missed_tail};
