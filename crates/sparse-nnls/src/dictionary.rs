//! The three queries that a method may send to its data: [`sum`](Dictionary::sum), optionally with a sample
//! ([`gather`](Dictionary::gather)), [`top`](Dictionary::top) and [`columns`](Dictionary::columns).
//!
//! Φ is never an argument. A dictionary is n columns φ₁ … φₙ of a common length, held in memory, recomputed at
//! each pass, read from a file, kept on a device or spread over a cluster; the methods of this crate cannot tell
//! which. No answer has size n: `top` returns O(count) ids and scores, whatever n is.

use serde::{Deserialize, Serialize};

use crate::error::DictionaryError;
use crate::random::{Purpose, uniform};

/// How `top` scores a column φ with norm ‖φ‖ against the vectors u (and v) of a [`Query`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// ⟨φ, u⟩.
    Raw,
    /// |⟨φ, u⟩|.
    Absolute,
    /// ⟨φ, u⟩ / ‖φ‖; zero columns never qualify.
    NormScaled,
    /// GIGA's ratio of two correlations, ⟨φ, u⟩ / √(‖φ‖² − ⟨φ, v⟩²) for a unit vector v: how well the geodesic
    /// from v towards φ points along u. Zero columns, and columns parallel to v, never qualify.
    Geodesic,
    /// ⟨φ, u⟩/‖φ‖ / E for an exponential clock E drawn for each column from the seed: a sample, with probability ∝ the
    /// cosine with u, of the columns that make an acute angle with it. The best by [`NormScaled`](Self::NormScaled) may all point
    /// the same way; these do not.
    Acute {
        /// The seed of the clocks.
        seed: u64,
    },
    /// ‖φ‖ / E for an exponential clock E drawn for each column from the seed: the best of these is a sample
    /// with probability ∝ ‖φ‖, the best k a sample without replacement. Asks for no vector.
    Race {
        /// The seed of the clocks.
        seed: u64,
    },
}

/// One ranking to be returned by a pass: the best `count` columns by `score`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// What is ranked.
    pub score: Score,
    /// The number of columns to return (fewer if fewer qualify).
    pub count: usize,
}

/// A seeded random subset of the columns, each of them in it with probability `fraction`, independently.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The seed of the subset.
    pub seed: u64,
    /// The expected share of columns, in (0, 1].
    pub fraction: f64,
}

impl Batch {
    /// Whether column `id` is in the subset: a pure function, so a method need not ask the dictionary.
    pub fn contains(&self, id: usize) -> bool {
        self.fraction >= 1.0 || uniform(self.seed, Purpose::Batch, id) < self.fraction
    }
}

/// One pass over the dictionary: one or two vectors, and the rankings wanted of their correlations.
///
/// It borrows its vectors; on the receiving side it is an [`OwnedQuery`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Query<'a> {
    /// u, then v for [`Score::Geodesic`]; each as long as a column. Empty for [`Score::Race`] alone.
    pub vectors: &'a [&'a [f64]],
    /// What to return, in this order.
    pub rankings: &'a [Ranking],
    /// Ids that no ranking may return, ascending.
    pub exclude: &'a [usize],
    /// Look at this subset of the columns only.
    pub batch: Option<Batch>,
}

impl Query<'_> {
    /// The share of the dictionary that this pass reads.
    pub fn fraction(&self) -> f64 {
        self.batch.map_or(1.0, |batch| batch.fraction)
    }
}

/// A [`Query`] that has travelled: the same fields, serialised the same way, owned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnedQuery {
    /// See [`Query::vectors`].
    pub vectors: Vec<Vec<f64>>,
    /// See [`Query::rankings`].
    pub rankings: Vec<Ranking>,
    /// See [`Query::exclude`].
    pub exclude: Vec<usize>,
    /// See [`Query::batch`].
    pub batch: Option<Batch>,
}

impl OwnedQuery {
    /// Asks a dictionary: one answer a ranking.
    ///
    /// # Errors
    /// Whatever the dictionary fails with.
    pub fn ask(&self, dictionary: &dyn Dictionary) -> Result<Vec<Vec<Candidate>>, DictionaryError> {
        let vectors: Vec<&[f64]> = self.vectors.iter().map(Vec::as_slice).collect();
        let Self { rankings, exclude, batch, .. } = self;
        let query = Query { vectors: &vectors, rankings, exclude, batch: *batch };
        let mut answers = vec![Vec::new(); rankings.len()];
        dictionary.top(&query, &mut answers)?;
        Ok(answers)
    }
}

/// A column and its score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which column.
    pub id: usize,
    /// Its score under the ranking that returned it.
    pub score: f64,
}

/// The sum of the columns, and of their lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    /// y = Σᵢ φᵢ.
    pub vector: Vec<f64>,
    /// Σᵢ ‖φᵢ‖.
    pub norms: f64,
}

/// The result of a first pass over the columns: their sum, and a sample to start with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// Sum of all columns.
    pub sum: Sum,
    /// A sample without replacement with chances ∝ ‖φ‖: the best of a [`Score::Race`], best first.
    pub sample: Vec<Candidate>,
    /// Number of passes that it took.
    pub passes: f64,
}

impl Gathered {
    /// By two queries; the second is a pass only if the norm of a column is unknown without reading it.
    ///
    /// # Errors
    /// Whatever the dictionary fails with.
    pub fn ask(
        dictionary: &(impl Dictionary + ?Sized),
        seed: u64,
        count: usize,
        lengths_known: bool,
    ) -> Result<Self, DictionaryError> {
        let (sum, mut sample) = (dictionary.sum()?, Vec::new());
        let rankings = [Ranking { score: Score::Race { seed }, count }];
        let query = Query { vectors: &[], rankings: &rankings, exclude: &[], batch: None };
        dictionary.top(&query, std::slice::from_mut(&mut sample))?;
        Ok(Self { sum, sample, passes: if lengths_known { 1.0 } else { 2.0 } })
    }
}

/// n columns that can be queried but are not stored.
///
/// An implementation must answer with the same bits whatever the number of threads, and break ties by the smaller
/// id; [`TopK`](crate::TopK) does the ranking for it.
pub trait Dictionary: Sync {
    /// Number of columns, n.
    fn len(&self) -> usize;

    /// True if there is no column.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of a column.
    fn coordinates(&self) -> usize;

    /// y = Φ1 and Σ‖φᵢ‖, in f64: one pass.
    fn sum(&self) -> Result<Sum, DictionaryError>;

    /// The sum and a sample of `count` columns, in one pass if the dictionary can combine them.
    ///
    /// # Errors
    /// Whatever the dictionary fails with.
    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        Gathered::ask(self, seed, count, false)
    }

    /// One pass: the best columns of each ranking, best first, into `answers` (one vector a ranking, cleared
    /// first and reused, so that a caller's loop need not allocate).
    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError>;

    /// The columns `ids`, in f64, one after the other into `out`, which holds `ids.len() * coordinates()` numbers.
    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError>;
}

/// A dictionary that counts its passes; the driver hands it to a method.
pub struct Oracle<'a> {
    dictionary: &'a dyn Dictionary,
    passes: f64,
}

impl<'a> Oracle<'a> {
    /// Starts the count at zero.
    pub fn new(dictionary: &'a dyn Dictionary) -> Self {
        Self { dictionary, passes: 0.0 }
    }

    /// Number of columns, n.
    pub fn len(&self) -> usize {
        self.dictionary.len()
    }

    /// True if there is no column.
    pub fn is_empty(&self) -> bool {
        self.dictionary.is_empty()
    }

    /// Length of a column.
    pub fn coordinates(&self) -> usize {
        self.dictionary.coordinates()
    }

    /// Passes so far; one over a fraction of the columns counts as that fraction.
    pub fn passes(&self) -> f64 {
        self.passes
    }

    /// See [`Dictionary::sum`].
    pub fn sum(&mut self) -> Result<Sum, DictionaryError> {
        self.passes += 1.0;
        self.dictionary.sum()
    }

    /// See [`Dictionary::gather`].
    pub fn gather(&mut self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        let gathered = self.dictionary.gather(seed, count)?;
        self.passes += gathered.passes;
        Ok(gathered)
    }

    /// See [`Dictionary::top`].
    pub fn top(&mut self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.passes += query.fraction();
        self.dictionary.top(query, answers)
    }

    /// One ranking of a full pass by one vector, into `answer`.
    pub fn rank(
        &mut self,
        vector: &[f64],
        ranking: Ranking,
        exclude: &[usize],
        answer: &mut Vec<Candidate>,
    ) -> Result<(), DictionaryError> {
        let query = Query { vectors: &[vector], rankings: &[ranking], exclude, batch: None };
        self.top(&query, std::slice::from_mut(answer))
    }

    /// See [`Dictionary::columns`].
    pub fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        self.dictionary.columns(ids, out)
    }
}
