//! A review of rows in partitions: each sums its own, and the sums are added in the order of the partitions.

use std::sync::Arc;

use super::shards::Shards;
use super::wire::Question;
use crate::review::{Part, Question as Review};
use crate::rows::RowsError;

/// Rows in partitions, as a review asks them.
pub(crate) struct Reviewed {
    pub(super) shards: Arc<Shards>,
    /// How many groups rows are in, and the numbers of those of each partition; none where each row is for itself.
    pub(super) groups: Option<(usize, Vec<Vec<usize>>)>,
}

impl Reviewed {
    /// What all rows answer.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "reviews are of draws"))]
    pub(crate) fn review(&self, review: &Review) -> Result<Part, RowsError> {
        let question = Question::Review(Box::new(review.clone()));
        let mut all = review.nothing(self.groups.as_ref().map(|(count, _)| *count));
        for (at, part) in self.shards.ask::<Part>(&question, &self.shards.held)?.into_iter().enumerate() {
            all.append(part, self.groups.as_ref().map(|(_, numbers)| &numbers[at][..]));
        }
        Ok(all)
    }
}
