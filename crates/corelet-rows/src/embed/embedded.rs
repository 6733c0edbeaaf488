//! The dictionary for methods: every answer comes from rows, wherever they are stored, by one of the queries.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Gathered, Query, Sum};

use super::hermite::Remainder;
use super::sketch::Sketch;
use super::{Description, EmbedError, Embedding, Recipe};
use crate::rows::{Found, Gather, Observations, Rows, RowsError, Top};

/// The columns of all rows by one [`Recipe`]: `sum` and a first sample are one gather, `top` a top, and `columns` are computed here from rows
/// that the last answer brought or that are fetched.
pub struct Embedded<'a> {
    rows: &'a dyn Rows,
    recipe: Arc<Recipe>,
    sum: Sum,
    sample: Sample,
    sketch: Option<Arc<Sketch>>,
    description: Description,
    brought: Mutex<Brought>,
    asked: Mutex<BTreeSet<usize>>,
}

/// The best of a race among all columns, in its order, that came with the sum.
struct Sample {
    seed: u64,
    asked: usize,
    columns: Vec<Candidate>,
}

/// The rows of the last answers.
#[derive(Default)]
struct Brought {
    ids: Vec<usize>,
    rows: Observations,
}

impl<'a> Embedded<'a> {
    /// Asks for the sum.
    ///
    /// # Errors
    /// If the rows have no such embedding, or did not answer.
    pub fn new(rows: &'a dyn Rows, recipe: Recipe) -> Result<Self, EmbedError> {
        Self::sampled(rows, recipe, 0, 0)
    }

    /// Asks for the sum and, in the same pass, for a sample of `count` columns that a method with this seed may begin with.
    ///
    /// # Errors
    /// If the rows have no such embedding, or did not answer.
    pub fn sampled(rows: &'a dyn Rows, recipe: Recipe, seed: u64, count: usize) -> Result<Self, EmbedError> {
        let recipe = Arc::new(recipe);
        let apart = Sketch::sampled(&recipe, rows.len());
        let question = Gather { recipe: Arc::clone(&recipe), seed, count, apart };
        let gathered = rows.gather(&question)?;
        let sketch = Sketch::new(rows, &question, &gathered)?.map(Arc::new);
        let tail = if gathered.dropped.is_empty() { 0.0 } else { Remainder::nats(&gathered.dropped) };
        let description = Description { name: recipe.name(), coordinates: recipe.coordinates(), tail };
        let sum = Sum { vector: gathered.sum, norms: gathered.norms };
        let Found { candidates, ids, rows: found } = gathered.sample;
        let columns = candidates.into_iter().next().unwrap_or_default();
        let sample = Sample { seed, asked: count, columns };
        let brought = Mutex::new(Brought { ids, rows: found });
        Ok(Self { rows, recipe, sum, sample, sketch, description, brought, asked: Mutex::default() })
    }

    /// The rows.
    pub(super) fn rows(&self) -> &'a dyn Rows {
        self.rows
    }

    /// How a row becomes a column.
    pub fn recipe(&self) -> &Arc<Recipe> {
        &self.recipe
    }

    /// The log-likelihood of all rows at any draws, where these are many and orders 1 and 2 are exact.
    pub fn sketch(&self) -> Option<&Arc<Sketch>> {
        self.sketch.as_ref()
    }

    /// The rows whose columns were ever requested, ascending.
    pub fn pool(&self) -> Vec<usize> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn brought(&self) -> MutexGuard<'_, Brought> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows `ids`: from memory if possible, and the others by one fetch.
    fn obtain(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        let brought = self.brought();
        let at = |id: &usize| brought.ids.binary_search(id);
        let missing: Vec<usize> = ids.iter().filter(|id| at(id).is_err()).copied().collect();
        if missing.len() == ids.len() {
            return self.rows.fetch(ids);
        }
        let mut known = brought.rows.clone();
        if !missing.is_empty() {
            known.append(&self.rows.fetch(&missing)?);
        }
        let mut fetched = brought.ids.len()..;
        let places = ids.iter().map(|id| at(id).unwrap_or_else(|_| fetched.next().unwrap_or_default()));
        Ok(known.select(&places.collect::<Vec<_>>()))
    }
}

impl Dictionary for Embedded<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn coordinates(&self) -> usize {
        self.description.coordinates
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.sum.clone())
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        let Sample { seed: known, asked, columns } = &self.sample;
        if *known != seed || *asked < count {
            return Gathered::ask(self, seed, count, false);
        }
        let sample = columns[..count.min(columns.len())].to_vec();
        Ok(Gathered { sum: self.sum.clone(), sample, passes: 1.0 })
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        let question = Top {
            recipe: Arc::clone(&self.recipe),
            vectors: query.vectors.iter().map(|vector| vector.to_vec()).collect(),
            rankings: query.rankings.to_vec(),
            exclude: query.exclude.to_vec(),
            batch: query.batch,
        };
        let Found { candidates, ids, rows } = self.rows.top(&question).map_err(DictionaryError::new)?;
        for (answer, candidates) in answers.iter_mut().zip(candidates) {
            answer.clear();
            answer.extend(candidates);
        }
        *self.brought() = Brought { ids, rows };
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        let rows = self.obtain(ids).map_err(DictionaryError::new)?;
        let model = self.rows.bind(rows).map_err(DictionaryError::new)?;
        self.recipe.write_columns(&model, out).map_err(DictionaryError::new)
    }
}

impl Embedding for Embedded<'_> {
    fn description(&self) -> &Description {
        &self.description
    }
}
