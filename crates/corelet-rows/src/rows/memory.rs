//! Rows held in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sparse_nnls::{Candidate, Query};

use super::weighted::{evaluate, expected};
use super::{
    At, Found, Gather, Gathered, Grouped, GroupsAtHand, Moments, Newton, Observations, Rows, RowsError, Top,
    Totals, Under,
};
use crate::data::Groups;
use crate::embed::{Prepared, Recipe};
use crate::model::{Model, ModelError, Over, total_differences};

/// All rows, or consecutive ones of many, in memory. The cache of an embedding is kept between queries,
/// as long as its recipe exists.
pub struct Memory {
    model: Arc<dyn Model>,
    first: usize,
    known: Mutex<Vec<(Weak<Recipe>, Arc<Prepared>)>>,
    groups: Option<GroupsAtHand>,
}

impl Memory {
    /// All rows.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self::part(model, 0)
    }

    /// Rows of which the first has the id `first`.
    pub fn part(model: Arc<dyn Model>, first: usize) -> Self {
        Self { model, first, known: Mutex::default(), groups: None }
    }

    /// The same, of which some belong together.
    #[must_use]
    pub fn with_groups(self, groups: Option<Groups>) -> Self {
        let groups = groups.map(|groups| GroupsAtHand::new(Arc::clone(&self.model), self.first, groups));
        Self { groups, ..self }
    }

    /// Which of them belong together.
    pub fn groups_at_hand(&self) -> Option<&GroupsAtHand> {
        self.groups.as_ref()
    }

    /// The model, with all rows.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The caches whose recipes still exist.
    fn known(&self) -> MutexGuard<'_, Vec<(Weak<Recipe>, Arc<Prepared>)>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(recipe, _)| recipe.strong_count() > 0);
        known
    }

    /// The rows as this embedding needs them.
    fn prepare(&self, recipe: &Arc<Recipe>) -> Result<Arc<Prepared>, RowsError> {
        let same = |other: &Weak<Recipe>| {
            other.upgrade().is_some_and(|other| Arc::ptr_eq(&other, recipe) || *other == **recipe)
        };
        if let Some((_, prepared)) = self.known().iter().find(|(other, _)| same(other)) {
            return Ok(Arc::clone(prepared));
        }
        // The lock is not held meanwhile: the threads that prepare may be asked to prepare something else.
        let prepared = Arc::new(recipe.prepare(&self.model, self.first)?);
        self.known().push((Arc::downgrade(recipe), Arc::clone(&prepared)));
        Ok(prepared)
    }

    fn found(&self, candidates: Vec<Vec<Candidate>>) -> Result<Found, RowsError> {
        let mut ids: Vec<usize> = candidates.iter().flatten().map(|candidate| candidate.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let rows = self.fetch(&ids)?;
        Ok(Found { candidates, ids, rows })
    }
}

impl Rows for Memory {
    fn len(&self) -> usize {
        self.model.len()
    }

    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.model.bind(rows)
    }

    fn moments(&self) -> Result<Moments, RowsError> {
        Ok(Moments::of(self.model.observations()))
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        Ok(evaluate(&*self.model, Over::All, question))
    }

    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError> {
        Ok(expected(&*self.model, Over::All, question))
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        let prepared = self.prepare(&question.recipe)?;
        let sum = prepared.sum()?;
        let rankings = question.rankings();
        let mut candidates = vec![Vec::new(); rankings.len()];
        if question.count + question.apart > 0 {
            prepared.top(
                &Query { vectors: &[], rankings: &rankings, exclude: &[], batch: None },
                &mut candidates,
            )?;
        }
        let sample = self.found(candidates)?;
        Ok(Gathered { sum: sum.vector, norms: sum.norms, dropped: prepared.dropped().to_vec(), sample })
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        let prepared = self.prepare(&question.recipe)?;
        let vectors: Vec<&[f64]> = question.vectors.iter().map(Vec::as_slice).collect();
        let Top { rankings, exclude, batch, .. } = question;
        let mut candidates = vec![Vec::new(); rankings.len()];
        prepared.top(&Query { vectors: &vectors, rankings, exclude, batch: *batch }, &mut candidates)?;
        self.found(candidates)
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        let Totals { anchor, shifts, wide } = question;
        Ok(total_differences(&self.model, anchor, shifts, *wide))
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        let rows = self.first + self.len();
        let local = |&row: &usize| match row.checked_sub(self.first) {
            Some(at) if row < rows => Ok(at),
            _ => Err(RowsError::NoSuchRow { row, rows }),
        };
        let ids: Vec<usize> = ids.iter().map(local).collect::<Result<_, _>>()?;
        Ok(self.model.observations().select(&ids))
    }

    fn whole(&self) -> Result<Arc<dyn Model>, RowsError> {
        Ok(Arc::clone(&self.model))
    }

    fn is_log_concave(&self) -> Result<bool, RowsError> {
        Ok(self.model.is_log_concave())
    }

    fn groups(&self) -> Option<&dyn Grouped> {
        self.groups.as_ref().map(|groups| groups as &dyn Grouped)
    }
}
