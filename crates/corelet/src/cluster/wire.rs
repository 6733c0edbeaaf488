//! What travels between a driver and its partitions, as bytes.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::{NamedGroups, PartColumns, PartEncoding};
use crate::embed::Recipe;
use crate::model::{BuiltIn, Numbers, Shifts};
use crate::review::{Question as Review, Unusable};
use crate::rows::{At, Gather, RowsError, Top, Totals, Under};

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
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) gram: Vec<f64>,
    /// [`Observations::fingerprint_sum`](crate::rows::Observations).
    pub(super) fingerprint: u64,
    /// The names of its groups, in the order in which they first come.
    pub(super) groups: Vec<String>,
}

/// Those groups whose names have a hash that is `at` modulo `of`: both sides know which these are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NameBlock {
    pub(super) at: u64,
    pub(super) of: u64,
}

impl NameBlock {
    pub(super) fn has(self, name: &str) -> bool {
        hash(name.bytes().map(u64::from)) % self.of.max(1) == self.at
    }
}

/// What tells groups from others: names and rows.
pub(super) fn fingerprint(NamedGroups { groups, names }: &NamedGroups) -> u64 {
    let of = |(group, name): (usize, &String)| {
        let rows = groups.members(group).iter().map(|&row| row as u64);
        hash(name.bytes().map(u64::from).chain(rows))
    };
    names.iter().enumerate().map(of).fold(0, u64::wrapping_add)
}

/// Fowler, Noll and Vo, 1a, with the bits of a product brought down.
fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        let product = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        product ^ (product >> 29)
    })
}

/// One of the seven, or of those about equal rows and groups, asked of a shard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    Moments,
    Newton {
        theta: Vec<f64>,
        derivatives: u8,
    },
    /// The log-likelihood and its gradient at each of these draws of `dim` numbers.
    Scores {
        theta: Vec<f64>,
        dim: usize,
    },
    /// Means over N(mean, factor·factorᵀ).
    Expect {
        mean: Vec<f64>,
        factor: Vec<f64>,
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
    /// Its distinct rows, where they take no more than `room` bytes.
    Distinct {
        room: u64,
    },
    /// Σφᵢ over its rows of each of its groups in the block, in their order.
    Groups {
        recipe: Arc<Recipe>,
        block: NameBlock,
    },
    /// Its rows of each of the groups of these names.
    Members(Vec<String>),
    /// What its rows say of draws.
    Review(Box<Review>),
}

impl From<&At<'_>> for Question {
    fn from(&At { theta, derivatives }: &At<'_>) -> Self {
        Self::Newton { theta: theta.to_vec(), derivatives }
    }
}

impl From<&Under<'_>> for Question {
    fn from(&Under { mean, factor }: &Under<'_>) -> Self {
        Self::Expect { mean: mean.to_vec(), factor: factor.to_vec() }
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
    /// Of its observations and their groups; 0 for a partition as it came.
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

impl From<Unusable> for Fault {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::NotFinite { row, draw, value } => Self::NotFinite { row, draw, value },
            Unusable::Far { row } => Self::Said(format!(
                "the prediction for row {row} of all is not finite: it is far from the rows that the model was fitted to"
            )),
        }
    }
}

impl From<RowsError> for Fault {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::NotFinite { row, draw, value } => Self::NotFinite { row, draw, value },
            other => Self::Said(other.to_string()),
        }
    }
}

/// Serialises a value as bytes.
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
