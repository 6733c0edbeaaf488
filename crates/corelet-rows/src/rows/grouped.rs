//! Rows in groups, wherever they are: φ of a group is the sum of the φ of its rows.

use std::sync::Arc;

use super::RowsError;
use crate::data::{Groups, Twofold};
use crate::embed::Recipe;
use crate::model::Model;
use crate::parallel;

/// Numbers of columns of rows that a thread holds at a time.
const AT_ONCE: usize = 1 << 20;

/// Groups that a thread takes at a time.
const BLOCK: usize = 64;

/// Numbers of columns of groups that are summed at a time.
const SUMMED: usize = 1 << 23;

/// Takes the column of a group.
pub type Put<'p> = dyn FnMut(usize, &[f64]) + 'p;

/// Rows of which some belong together (all visits of a patient), in groups numbered from 0 in the order in which they first come.
pub trait Grouped: Send + Sync {
    /// Number of groups.
    fn len(&self) -> usize;

    /// True if there is none, since there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column of each group, once each, in any order: one pass over the rows. Sums have twice the digits of a column, so that
    /// it does not show which of its rows were added first.
    ///
    /// # Errors
    /// See [`RowsError`], here and below.
    fn columns(&self, recipe: &Arc<Recipe>, put: &mut Put<'_>) -> Result<(), RowsError>;

    /// The rows of each of these groups, ascending.
    fn members(&self, groups: &[usize]) -> Result<Vec<Vec<usize>>, RowsError>;
}

/// Groups of rows at hand, which may be some of many.
pub struct GroupsAtHand {
    model: Arc<dyn Model>,
    first: usize,
    groups: Groups,
}

impl GroupsAtHand {
    /// Groups of these rows, of which the first has the id `first`.
    pub fn new(model: Arc<dyn Model>, first: usize, groups: Groups) -> Self {
        Self { model, first, groups }
    }

    /// The groups, by the places of rows among those at hand.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Σφᵢ over the rows of each of these groups, one after the other.
    ///
    /// # Errors
    /// If the rows have no such embedding.
    pub fn sums(&self, recipe: &Recipe, groups: &[usize]) -> Result<Vec<Twofold>, RowsError> {
        let parts = parallel::map(groups.chunks(BLOCK), |groups| self.sums_of_block(recipe, groups));
        let mut sums = Vec::with_capacity(groups.len() * recipe.coordinates());
        for part in parts {
            sums.extend(part?);
        }
        Ok(sums)
    }

    fn sums_of_block(&self, recipe: &Recipe, groups: &[usize]) -> Result<Vec<Twofold>, RowsError> {
        let length = recipe.coordinates();
        let mut sums = vec![Twofold::default(); groups.len() * length];
        let rows = groups.iter().enumerate();
        let rows = rows.flat_map(|(at, &group)| self.groups.members(group).iter().map(move |&row| (at, row)));
        let rows: Vec<(usize, usize)> = rows.collect();
        for part in rows.chunks((AT_ONCE / length).max(16)) {
            let ids: Vec<usize> = part.iter().map(|&(_, row)| row).collect();
            let columns = recipe.columns(&self.model.bind(self.model.observations().select(&ids))?)?;
            for (&(at, _), column) in part.iter().zip(columns.chunks_exact(length)) {
                let sums = sums[at * length..][..length].iter_mut();
                sums.zip(column).for_each(|(sum, &x)| *sum = sum.plus(x.into()));
            }
        }
        Ok(sums)
    }
}

impl Grouped for GroupsAtHand {
    fn len(&self) -> usize {
        self.groups.len()
    }

    fn columns(&self, recipe: &Arc<Recipe>, put: &mut Put<'_>) -> Result<(), RowsError> {
        let (length, all) = (recipe.coordinates(), (0..self.len()).collect::<Vec<usize>>());
        for part in all.chunks((SUMMED / length).max(BLOCK)) {
            for (&group, sum) in part.iter().zip(self.sums(recipe, part)?.chunks_exact(length)) {
                put(group, &sum.iter().map(|sum| sum.value()).collect::<Vec<f64>>());
            }
        }
        Ok(())
    }

    fn members(&self, groups: &[usize]) -> Result<Vec<Vec<usize>>, RowsError> {
        let ids = |&group: &usize| self.groups.members(group).iter().map(|row| self.first + row).collect();
        Ok(groups.iter().map(ids).collect())
    }
}
