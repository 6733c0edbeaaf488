//! The pool of a pursuit: the columns that passes have brought in, at unit length, with their inner products.
//!
//! Of equal columns the first is taken alone. One weight serves for all of them, and a search that saw each would spend its budget on
//! exchanges that change nothing, and end elsewhere than without them.

use std::collections::HashMap;

use crate::dictionary::{Candidate, Oracle};
use crate::driver::Problem;
use crate::error::Error;
use crate::kernel::norm;
use crate::method::gram::Gram;

/// Columns at hand.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ids: Vec<usize>,
    norms: Vec<f64>,
    /// Columns that are equal to one of the pool, and the place of that.
    twins: Vec<(usize, usize)>,
    /// Places by the bits of the norm, which equal columns share.
    by_norm: HashMap<u64, Vec<usize>>,
    pub(super) gram: Gram,
    /// Whether every column of the dictionary that could ever enter is in the pool.
    pub(super) complete: bool,
}

impl Pool {
    /// Takes in columns that are not in the pool yet.
    pub(super) fn add(
        &mut self,
        candidates: &[Candidate],
        problem: &Problem,
        oracle: &Oracle<'_>,
    ) -> Result<(), Error> {
        let dim = problem.target.len();
        let ids: Vec<usize> = candidates.iter().map(|candidate| candidate.id).collect();
        let mut columns = vec![0.0; ids.len() * dim];
        oracle.columns(&ids, &mut columns)?;
        let first = self.ids.len();
        let mut kept = 0;
        for (at, id) in ids.into_iter().enumerate() {
            let length = norm(&columns[at * dim..(at + 1) * dim]);
            if length > 0.0 {
                columns.copy_within(at * dim..(at + 1) * dim, kept * dim);
                columns[kept * dim..(kept + 1) * dim].iter_mut().for_each(|x| *x /= length);
                let (before, column) = (&columns[..kept * dim], &columns[kept * dim..(kept + 1) * dim]);
                let others = self.by_norm.entry(length.to_bits()).or_default();
                let is_equal = |&&place: &&usize| match place.checked_sub(first) {
                    Some(new) => before[new * dim..(new + 1) * dim] == *column,
                    None => self.gram.column(place) == column,
                };
                if let Some(&place) = others.iter().find(is_equal) {
                    self.twins.push((id, place));
                    continue;
                }
                others.push(first + kept);
                self.ids.push(id);
                self.norms.push(length);
                kept += 1;
            }
        }
        columns.truncate(kept * dim);
        self.gram.extend(columns, &problem.target);
        Ok(())
    }

    /// Columns at hand, each of which differs from the others.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Every column that was brought in, in ascending order.
    pub(super) fn seen(&self) -> Vec<usize> {
        let mut seen: Vec<usize> =
            self.ids.iter().copied().chain(self.twins.iter().map(|twin| twin.0)).collect();
        seen.sort_unstable();
        seen
    }

    /// The place of a column, or of one that is equal to it, in the pool, and its weight there, at unit length; none if it is not in
    /// the pool.
    pub(super) fn place_of(&self, id: usize, weight: f64) -> Option<(usize, f64)> {
        let at = self.ids.iter().position(|&other| other == id);
        let twin = || self.twins.iter().find(|twin| twin.0 == id).map(|twin| twin.1);
        let at = at.or_else(twin)?;
        Some((at, weight * self.norms[at]))
    }

    /// The id of a column of the pool, and its weight for the column as the dictionary has it.
    pub(super) fn entry(&self, at: usize, unit_weight: f64) -> (usize, f64) {
        (self.ids[at], unit_weight / self.norms[at])
    }
}
