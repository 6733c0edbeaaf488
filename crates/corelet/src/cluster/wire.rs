//! What travels between a driver and its partitions, as bytes.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::{PartColumns, PartEncoding};
use crate::model::{BuiltIn, Numbers, Shifts};
use crate::rows::{At, Gather, RowsError, Top, Totals};

/// Both sides must be of one version: bytes do not say what they mean.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Asked of a partition as it came.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Look {
    Survey(PartColumns),
    /// ZᵀZ of the scaled raw features.
    Gram(Box<PartEncoding>),
}

/// How every partition makes its shard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) encoding: PartEncoding,
    pub(super) model: BuiltIn,
    pub(super) numbers: Numbers,
    /// The first observation of each partition, and after the last.
    pub(super) starts: Vec<usize>,
}

/// What a shard says once it is made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) gram: Vec<f64>,
}

/// One of the six, asked of a shard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    Moments,
    Newton {
        theta: Vec<f64>,
        derivatives: u8,
    },
    Gather(Gather),
    Top(Top),
    Totals {
        anchor: Vec<f64>,
        shifts: Arc<Shifts>,
        wide: bool,
    },
    /// Those of these rows that it has, in this order.
    Fetch(Vec<usize>),
}

impl From<&At<'_>> for Question {
    fn from(&At { theta, derivatives }: &At<'_>) -> Self {
        Self::Newton { theta: theta.to_vec(), derivatives }
    }
}

impl From<&Totals<'_>> for Question {
    fn from(&Totals { anchor, shifts, wide }: &Totals<'_>) -> Self {
        Self::Totals { anchor: anchor.to_vec(), shifts: Arc::new(shifts.clone()), wide }
    }
}

/// An answer, and which rows gave it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply<A> {
    /// [`Observations::fingerprint_sum`](crate::rows::Observations); 0 for a partition as it came.
    pub(super) fingerprint: u64,
    pub(super) answer: Result<A, Fault>,
}

/// What a partition complains about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Fault {
    /// A log-likelihood that is not finite, by the number of the observation among all.
    NotFinite { row: usize, draw: usize, value: f64 },
    /// All else, in words that name the partition.
    Said(String),
}

impl From<RowsError> for Fault {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::NotFinite { row, draw, value } => Self::NotFinite { row, draw, value },
            other => Self::Said(other.to_string()),
        }
    }
}

/// As bytes.
pub(super) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    // Only sequences whose length is not known beforehand cannot be written, and there are none.
    postcard::to_stdvec(&(VERSION, value)).unwrap_or_default()
}

/// From bytes of the same version.
pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let damaged = |error: postcard::Error| format!("a message cannot be read: {error}");
    let (version, rest) = postcard::take_from_bytes::<&str>(bytes).map_err(damaged)?;
    if version != VERSION {
        return Err(format!(
            "corelet {version} is on the other side, and {VERSION} here: the driver and all workers need the same version"
        ));
    }
    postcard::from_bytes(rest).map_err(damaged)
}
