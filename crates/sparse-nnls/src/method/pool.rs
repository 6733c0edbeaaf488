//! The pool of a pursuit: the columns that passes have brought in, at unit length, with their inner products.

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
        let mut kept = 0;
        for (at, id) in ids.into_iter().enumerate() {
            let length = norm(&columns[at * dim..(at + 1) * dim]);
            if length > 0.0 {
                self.ids.push(id);
                self.norms.push(length);
                columns.copy_within(at * dim..(at + 1) * dim, kept * dim);
                columns[kept * dim..(kept + 1) * dim].iter_mut().for_each(|x| *x /= length);
                kept += 1;
            }
        }
        columns.truncate(kept * dim);
        self.gram.extend(columns, &problem.target);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn ids(&self) -> &[usize] {
        &self.ids
    }

    /// The place of a column in the pool, and its weight there, at unit length; none where it is not in the pool.
    pub(super) fn place_of(&self, id: usize, weight: f64) -> Option<(usize, f64)> {
        let at = self.ids.iter().position(|&other| other == id)?;
        Some((at, weight * self.norms[at]))
    }

    /// The id of a column of the pool, and its weight for the column as the dictionary has it.
    pub(super) fn entry(&self, at: usize, unit_weight: f64) -> (usize, f64) {
        (self.ids[at], unit_weight / self.norms[at])
    }
}
