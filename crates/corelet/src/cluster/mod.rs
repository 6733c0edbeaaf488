//! Rows in the partitions of a cluster: each is held by a [`Shard`] where the engine put it, and a driver asks all of them.
//!
//! No scheduler and no socket are here: whoever has an engine implements [`Carrier`], which takes bytes to the partitions and
//! brings their answers back in the order of the partitions. A build looks at the partitions as they came once (twice where
//! features are whitened), has each make its shard by one plan, and then asks the shards the six questions of [`Rows`], whose
//! answers are merged in the order of the partitions: the same bits whatever machine answered, and how often it was asked.
//!
//! A shard is a function of its partition and the plan alone, so that an engine may lose it and make it again. Each answer
//! carries the fingerprint of the rows that gave it: a partition that comes back otherwise is an error, not a wrong sum.
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

/// Why a question did not reach all partitions.
pub type CarrierError = Box<dyn std::error::Error + Send + Sync>;

/// Carries questions to partitions, and answers back in the order in which the partitions are named.
pub trait Carrier: Send + Sync {
    /// Number of partitions, which are numbered from 0.
    fn partitions(&self) -> usize;

    /// Calls [`look`] with this question on every partition.
    ///
    /// # Errors
    /// Where one could not be asked, here and below. What a partition itself has to complain about is in its answer.
    fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError>;

    /// Makes the shards of these partitions, by [`Shard::new`] with this plan, and brings what [`Shard::made`] says.
    fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError>;

    /// Calls [`Shard::answer`] with this question on the shards of these partitions.
    fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError>;
}
