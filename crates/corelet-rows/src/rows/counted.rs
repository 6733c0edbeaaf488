//! Rows that count their passes, and whose rounded sums do not depend on the order of addition.
//!
//! Sums of the same numbers in another order, as other partitions have them, differ in their last digits, and a search for points
//! can make a different row of that. So what a build goes by is rounded far above those digits, and far below what matters:
//! two sums are then the same bits, unless they happen to lie astride a boundary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::{
    At, Found, Gather, Gathered, Grouped, Moments, Newton, Observations, Rows, RowsError, Top, Totals, Under,
};
use crate::linalg::to_multiple;
use crate::model::{Model, ModelError};

/// The number of queries of each kind, each a pass over all rows. Fetching a few rows is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// Cross-products.
    pub moments: usize,
    /// Log-likelihood and derivatives, or their means.
    pub newton: usize,
    /// Sums of an embedding, and samples.
    pub gather: usize,
    /// Best columns.
    pub top: usize,
    /// Changes of the log-likelihood.
    pub totals: usize,
}

impl Looks {
    /// Passes in all.
    pub fn passes(&self) -> usize {
        self.moments + self.newton + self.gather + self.top + self.totals
    }
}

/// Log-likelihoods, and their embeddings, are known to 2⁻²⁴ nats: 10⁻⁷ of what moves a posterior by a tenth of its width.
const NATS: f64 = 1.0 / 16_777_216.0;

/// Rows with a count of their passes.
pub struct Counted {
    rows: Box<dyn Rows>,
    counts: [AtomicUsize; 5],
}

impl Counted {
    /// These rows, with a count of 0.
    pub fn new(rows: Box<dyn Rows>) -> Self {
        Self { rows, counts: Default::default() }
    }

    /// How often, so far.
    pub fn looks(&self) -> Looks {
        let [moments, newton, gather, top, totals] =
            std::array::from_fn(|i| self.counts[i].load(Ordering::Relaxed));
        Looks { moments, newton, gather, top, totals }
    }

    fn count(&self, question: usize) -> &dyn Rows {
        self.counts[question].fetch_add(1, Ordering::Relaxed);
        &*self.rows
    }
}

impl Rows for Counted {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn name(&self) -> &'static str {
        self.rows.name()
    }

    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.rows.bind(rows)
    }

    fn moments(&self) -> Result<Moments, RowsError> {
        self.count(0).moments()
    }

    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError> {
        self.count(1).newton(question)
    }

    fn scores(&self, draws: &[&[f64]]) -> Result<Vec<Newton>, RowsError> {
        self.counts[1].fetch_add(draws.len(), Ordering::Relaxed);
        self.rows.scores(draws)
    }

    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError> {
        self.count(1).expect(question)
    }

    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError> {
        let mut gathered = self.count(2).gather(question)?;
        gathered.sum.iter_mut().chain(&mut gathered.dropped).for_each(|x| *x = to_multiple(*x, NATS));
        gathered.norms = to_multiple(gathered.norms, NATS);
        Ok(gathered)
    }

    fn top(&self, question: &Top) -> Result<Found, RowsError> {
        self.count(3).top(question)
    }

    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError> {
        let mut totals = self.count(4).totals(question)?;
        totals.iter_mut().for_each(|x| *x = to_multiple(*x, NATS));
        Ok(totals)
    }

    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError> {
        self.rows.fetch(ids)
    }

    fn whole(&self) -> Result<Arc<dyn Model>, RowsError> {
        self.rows.whole()
    }

    fn is_log_concave(&self) -> Result<bool, RowsError> {
        self.rows.is_log_concave()
    }

    fn groups(&self) -> Option<&dyn Grouped> {
        self.rows.groups()
    }
}
