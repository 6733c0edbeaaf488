//! The seven queries on n rows, wherever the rows are stored.
//!
//! | query | answer |
//! | --- | --- |
//! | [`moments`](Rows::moments) | the triangular factor of [X y]: cross-products without a loss of digits |
//! | [`newton`](Rows::newton) | log-likelihood, gradient, Hessian at θ |
//! | [`expect`](Rows::expect) | their means over θ ~ N(μ, LLᵀ) |
//! | [`gather`](Rows::gather) | y = Σφᵢ, Σ‖φᵢ‖, the truncation error of the embedding, and a sample of rows ∝ ‖φᵢ‖ |
//! | [`top`](Rows::top) | the best columns of each ranking, with their rows |
//! | [`totals`](Rows::totals) | Σᵢ ℓᵢ(θₛ) − ℓᵢ(θ̂) for each draw |
//! | [`fetch`](Rows::fetch) | the rows with given numbers |
//!
//! Each query is one pass over fixed blocks of 65 536 rows, whose partial answers are merged in block order: the bits are the same with
//! any number of threads, and wherever the blocks are stored. Each query may fail. Queries and
//! answers are plain data that can be serialised, and no answer has size n. Answers are processed in memory, with the
//! rows that they contain.

mod beside;
mod counted;
mod grouped;
mod memory;
mod rest;
mod weighted;

pub use beside::Beside;
pub use corelet_data::observations::{Distinct, Growing, Held, Marks, Moments, Observations};
pub use counted::{Counted, Looks};
pub use grouped::{Grouped, GroupsAtHand, Put};
pub use memory::Memory;
pub use rest::Rest;
pub use weighted::{All, LogLikelihood, Summed, Weighted};

use std::sync::Arc;

use corelet_data::observations::ScratchError;
use serde::{Deserialize, Serialize};
use sparse_nnls::{Batch, Candidate, Ranking, Score};
use thiserror::Error;

use crate::data::{available, size};
use crate::embed::Recipe;
use crate::model::{Model, ModelError, Shifts, Spread};
use crate::parallel;
use crate::posterior::Prior;

/// Rows that are fetched at a time where all are.
const FETCHED: usize = 1 << 18;

/// Refuses to go on with rows that will not fit once all are here.
fn check_room(rows: &Observations, all: usize) -> Result<(), RowsError> {
    let left = (all - rows.len()) as u64;
    let needed = rows.bytes() / rows.len().max(1) as u64 * left;
    match available() {
        Some(available) if needed > available => Err(RowsError::Memory { rows: all, needed, available }),
        _ => Ok(()),
    }
}

/// n rows under a likelihood.
pub trait Rows: Send + Sync {
    /// Number of rows, n.
    fn len(&self) -> usize;

    /// True if there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of parameters.
    fn dim(&self) -> usize;

    /// The name of the likelihood.
    fn name(&self) -> &'static str;

    /// The same likelihood of rows that were fetched, here in memory.
    ///
    /// # Errors
    /// If they are not valid data for this likelihood.
    fn bind(&self, rows: Observations) -> Result<Arc<dyn Model>, ModelError>;

    /// The cross-products of features and target.
    ///
    /// # Errors
    /// See [`RowsError`], here and below.
    fn moments(&self) -> Result<Moments, RowsError>;

    /// The log-likelihood and the requested number of derivatives.
    fn newton(&self, question: &At<'_>) -> Result<Newton, RowsError>;

    /// The log-likelihood and its gradient at each of many draws, in one query.
    fn scores(&self, draws: &[&[f64]]) -> Result<Vec<Newton>, RowsError> {
        let at = |theta: &&[f64]| self.newton(&At { theta, derivatives: 1 });
        parallel::map(draws, at).into_iter().collect()
    }

    /// The means of the log-likelihood, its gradient and its Hessian under a Gaussian.
    fn expect(&self, question: &Under<'_>) -> Result<Newton, RowsError>;

    /// The sum of the columns of an embedding, and a sample of them.
    fn gather(&self, question: &Gather) -> Result<Gathered, RowsError>;

    /// The best columns of an embedding.
    fn top(&self, question: &Top) -> Result<Found, RowsError>;

    /// The change of the log-likelihood from an anchor to each of many draws.
    fn totals(&self, question: &Totals<'_>) -> Result<Vec<f64>, RowsError>;

    /// The rows `ids`, in that order.
    fn fetch(&self, ids: &[usize]) -> Result<Observations, RowsError>;

    /// The model of all rows, here in memory: for what looks at each of them again and again.
    fn whole(&self) -> Result<Arc<dyn Model>, RowsError> {
        let mut rows = Observations::default();
        for ids in parallel::parts(self.len(), FETCHED) {
            rows.append(&self.fetch(&ids.collect::<Vec<usize>>())?);
            check_room(&rows, self.len())?;
        }
        Ok(self.bind(rows)?)
    }

    /// Whether every log-likelihood is concave in θ.
    fn is_log_concave(&self) -> Result<bool, RowsError> {
        Ok(self.bind(self.fetch(&[0])?)?.is_log_concave())
    }

    /// The groups that rows belong to, if the holder of the rows knows them.
    fn groups(&self) -> Option<&dyn Grouped> {
        None
    }
}

/// The posterior of rows under a prior, for which a coreset is built.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The rows, under their likelihood.
    pub rows: &'a dyn Rows,
    /// The prior of its parameters.
    pub prior: &'a Prior,
}

/// The point, and the number of derivatives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct At<'a> {
    /// θ.
    pub theta: &'a [f64],
    /// 0: the value alone; 1: the gradient too; 2: the Hessian too.
    pub derivatives: u8,
}

/// The Gaussian N(μ, LLᵀ) of θ that means are over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Under<'a> {
    /// μ.
    pub mean: &'a [f64],
    /// L, lower triangular, row-major.
    pub factor: &'a [f64],
}

impl<'a> Under<'a> {
    /// The same as a model takes it.
    pub(crate) fn spread(&self) -> Spread<'a> {
        Spread { mean: self.mean, factor: self.factor }
    }
}

impl<'a> From<&'a crate::posterior::Gaussian> for Under<'a> {
    fn from(gaussian: &'a crate::posterior::Gaussian) -> Self {
        Self { mean: &gaussian.mean, factor: &gaussian.factor }
    }
}

/// Σ wᵢℓᵢ(θ) and its derivatives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Newton {
    /// The log-likelihood.
    pub value: f64,
    /// D numbers; empty if they were not requested.
    pub gradient: Vec<f64>,
    /// D × D numbers, symmetric, or none.
    pub hessian: Vec<f64>,
}

impl Newton {
    /// Adds the sums of further rows.
    pub fn add(&mut self, other: &Self) {
        self.value += other.value;
        add(&mut self.gradient, &other.gradient);
        add(&mut self.hessian, &other.hessian);
    }
}

/// Which embedding, and how many rows to bring along.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gather {
    /// How a row becomes a column.
    pub recipe: Arc<Recipe>,
    /// The seed of the sample.
    pub seed: u64,
    /// Rows in the sample.
    pub count: usize,
    /// Rows of a second sample, which has nothing to do with the first.
    pub apart: usize,
}

impl Gather {
    /// The seed of the second sample.
    pub fn seed_apart(&self) -> u64 {
        self.seed ^ 0x5a3c_96e1_0f4b_d287
    }

    /// Both samples, as races among the columns.
    pub fn rankings(&self) -> Vec<Ranking> {
        let race = |seed, count| Ranking { score: Score::Race { seed }, count };
        match self.apart {
            0 => vec![race(self.seed, self.count)],
            apart => vec![race(self.seed, self.count), race(self.seed_apart(), apart)],
        }
    }
}

/// The sum of the columns, and a sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// y = Σφᵢ.
    pub sum: Vec<f64>,
    /// Σ‖φᵢ‖.
    pub norms: f64,
    /// The part of the log-likelihood that the embedding drops, at fixed draws; none if it drops nothing.
    pub dropped: Vec<f64>,
    /// A sample without replacement ∝ ‖φᵢ‖, then the independent sample if requested, and the rows of both.
    pub sample: Found,
}

impl Gathered {
    /// Adds what further rows gave.
    pub fn add(&mut self, other: Self, question: &Gather) {
        add(&mut self.sum, &other.sum);
        self.norms += other.norms;
        add(&mut self.dropped, &other.dropped);
        let counts: Vec<usize> = question.rankings().iter().map(|ranking| ranking.count).collect();
        self.sample.merge(other.sample, &counts);
    }
}

/// A ranking of columns by their correlation with one or two vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// How a row becomes a column.
    pub recipe: Arc<Recipe>,
    /// One or two vectors as long as a column.
    pub vectors: Vec<Vec<f64>>,
    /// The requested parts of the answer.
    pub rankings: Vec<Ranking>,
    /// Rows that no ranking may return, ascending.
    pub exclude: Vec<usize>,
    /// Look at this subset only.
    pub batch: Option<Batch>,
}

/// The best of each ranking, best first, and the rows of all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// One list a ranking.
    pub candidates: Vec<Vec<Candidate>>,
    /// The rows that are in some list, ascending.
    pub ids: Vec<usize>,
    /// The rows themselves, in the same order.
    pub rows: Observations,
}

impl Found {
    /// Merges what further rows gave, keeping the best `counts` of each ranking; ties go to the smaller id.
    pub fn merge(&mut self, other: Self, counts: &[usize]) {
        self.candidates.resize(counts.len().max(other.candidates.len()), Vec::new());
        for ((mine, theirs), &count) in self.candidates.iter_mut().zip(other.candidates).zip(counts) {
            mine.extend(theirs);
            mine.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
            mine.truncate(count);
        }
        let mut ids: Vec<usize> = self.candidates.iter().flatten().map(|candidate| candidate.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut both = std::mem::take(&mut self.rows);
        both.append(&other.rows);
        let place = |id: &usize| {
            let further = || other.ids.binary_search(id).map(|at| self.ids.len() + at);
            self.ids.binary_search(id).or_else(|_| further()).ok()
        };
        self.rows = both.select(&ids.iter().filter_map(place).collect::<Vec<_>>());
        self.ids = ids;
    }
}

/// Draws of θ, as shifts from an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Totals<'a> {
    /// θ̂.
    pub anchor: &'a [f64],
    /// θₛ − θ̂.
    pub shifts: &'a Shifts,
    /// Whether log-likelihoods are f64; otherwise f32 with full relative precision, summed in f64.
    pub wide: bool,
}

impl<'a> Totals<'a> {
    /// Up to this many log-likelihoods the sum is of f64 ones.
    const WIDE_LIMIT: usize = 50_000_000;

    /// In f64 where the rows are few enough.
    pub fn new(anchor: &'a [f64], shifts: &'a Shifts, rows: usize) -> Self {
        Totals { anchor, shifts, wide: rows.saturating_mul(shifts.len()) <= Self::WIDE_LIMIT }
    }
}

/// Why rows could not answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RowsError {
    /// A log-likelihood that is NaN or infinite. Rows and draws count from 0.
    #[error("the log-likelihood of row {row} at draw {draw} is not finite ({value})")]
    NotFinite {
        /// The datum.
        row: usize,
        /// The draw.
        draw: usize,
        /// NaN or ±∞.
        value: f64,
    },
    /// A row that is not there.
    #[error("row {row} is named, but there are {rows} rows")]
    NoSuchRow {
        /// The row.
        row: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A weight that is not a number ≥ 0, or another number of weights than of rows.
    #[error("weight {weight} of row {row} cannot be used: weights must be finite and ≥ 0")]
    Weight {
        /// The row.
        row: usize,
        /// Weight of the row.
        weight: f64,
    },
    /// Sizes that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// What has the wrong size.
        what: &'static str,
        /// The size that it has.
        got: usize,
        /// The size it must have.
        expected: usize,
    },
    /// Rows that are elsewhere, and do not fit here.
    #[error(
        "{rows} rows are to be brought to one place, which takes {} of memory there, but {} are available; the method sparse-vi \
         and equal rows taken as one need that, and nothing else does",
        size(*needed),
        size(*available)
    )]
    Memory {
        /// Number of rows.
        rows: usize,
        /// Bytes.
        needed: u64,
        /// Bytes.
        available: u64,
    },
    /// An embedding that these rows do not have.
    #[error("the {model} model has no {embedding} embedding")]
    NoEmbedding {
        /// The model's name.
        model: &'static str,
        /// The embedding's.
        embedding: String,
    },
    /// The rows do not suit the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The place where the rows are failed: which one, and with what.
    #[error("{place}: {reason}")]
    Place {
        /// A file, a partition, a device.
        place: String,
        /// The reason that was given.
        reason: String,
    },
}

impl From<ScratchError> for RowsError {
    fn from(error: ScratchError) -> Self {
        let ScratchError { folder, reason } = error;
        Self::Place { place: folder.display().to_string(), reason: format!("the scratch file: {reason}") }
    }
}

impl RowsError {
    /// The same with rows that count from elsewhere.
    pub fn moved_by(self, first: usize) -> Self {
        match self {
            Self::NotFinite { row, draw, value } => Self::NotFinite { row: first + row, draw, value },
            other => other,
        }
    }
}

/// sum += x, entry by entry: how partial answers are merged.
pub fn add(sum: &mut [f64], x: &[f64]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
}
