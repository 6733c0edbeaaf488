//! A few rows by which others are known again: those with the smallest hashes, as many of every set of rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Rows that are kept of a set: where a fifth of it comes again, more than six of them do but for one time in fifty.
const MOST: usize = 64;

/// The smallest hashes of a set of rows, and how many rows have each.
///
/// Which rows these are depends on their cells alone, so that rows that come again bring the same ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marks(Vec<(u64, u32)>);

/// Marks in the making.
#[derive(Debug, Default)]
pub(super) struct Marking(BTreeMap<u64, u32>);

impl Marking {
    pub(super) fn add(&mut self, hash: u64, rows: u32) {
        if self.0.len() == MOST && self.0.last_key_value().is_some_and(|(largest, _)| *largest < hash) {
            return;
        }
        *self.0.entry(hash).or_default() += rows;
        if self.0.len() > MOST {
            self.0.pop_last();
        }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        other.0.into_iter().for_each(|(hash, rows)| self.add(hash, rows));
        self
    }

    pub(super) fn finish(self) -> Marks {
        Marks(self.0.into_iter().collect())
    }
}

impl Marks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each is of one row: rows then hardly ever equal each other by chance.
    pub fn are_of_one_row(&self) -> bool {
        self.0.iter().all(|(_, rows)| *rows == 1)
    }

    /// The hashes, ascending.
    pub fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|(hash, _)| *hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order and the cut, the smallest hashes with how often each came.
    #[test]
    fn marks_are_the_smallest_hashes_with_their_rows() {
        let hashes: Vec<u64> = (0..5000_u64).map(|i| (i % 500).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let of = |part: &[u64]| {
            let mut marking = Marking::default();
            part.iter().for_each(|hash| marking.add(*hash, 1));
            marking
        };
        let mut distinct = hashes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let truth: Vec<(u64, u32)> = distinct[..MOST].iter().map(|hash| (*hash, 10)).collect();
        assert_eq!(of(&hashes).finish().0, truth);
        let cut = hashes.chunks(777).map(of).fold(Marking::default(), Marking::merge);
        assert_eq!(cut.finish().0, truth);
        assert!(!of(&hashes).finish().are_of_one_row() && of(&hashes[..500]).finish().are_of_one_row());
    }
}
