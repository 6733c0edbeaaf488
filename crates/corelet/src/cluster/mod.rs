//! Rows in the partitions of a cluster: each is held by a [`Shard`] where the engine placed it, and a driver sends queries to all of them.
//!
//! This module has no scheduler and no socket. An engine implements [`Carrier`], which takes bytes to the partitions and
//! returns their answers in the order of the partitions. A build scans the original partitions once (twice if
//! features are whitened), lets each create its shard according to one plan, and then sends the queries of [`Rows`] to the shards. Their
//! answers are merged in the order of the partitions, so the bits are the same whichever machine answered, and however often.
//!
//! A shard is a function of its partition and the plan alone, so an engine may lose it and recompute it. Each answer
//! carries the fingerprint of its rows: a partition that was recomputed differently is an error, not a wrong sum.
//!
//! [`Rows`]: crate::rows::Rows

mod design;
mod groups;
mod partitions;
mod reviewed;
mod shard;
mod shards;
mod wire;

pub use partitions::Partitions;
pub use shard::{Shard, look};

pub(crate) use design::{Distributed, distribute};
pub(crate) use reviewed::Reviewed;

/// The reason why a query did not reach all partitions.
pub type CarrierError = Box<dyn std::error::Error + Send + Sync>;

/// Carries queries to partitions, and returns answers in the order in which the partitions are named.
pub trait Carrier: Send + Sync {
    /// Number of partitions, which are numbered from 0.
    fn partitions(&self) -> usize;

    /// Calls [`look`] with this query on every partition.
    ///
    /// # Errors
    /// If a partition could not be reached, here and below. Errors of the partition itself are in its answer.
    fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError>;

    /// Creates the shards of these partitions by [`Shard::new`] with this plan, and returns their [`Shard::made`].
    fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError>;

    /// Calls [`Shard::answer`] with this query on the shards of these partitions.
    fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError>;
}
