//! The columns of some data, held, toward the sum over all data, which someone else has made.

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Gathered, Query, Sum};

use super::{Description, EmbedError, Embedding, Layout, Precision, Stored};

/// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S of the data in a pool, and the sum of such columns over all data as the target.
pub struct Pool {
    stored: Stored,
    sum: Sum,
}

impl Pool {
    /// From ℓᵢ(θ_s), a line of S draws for each of `size` data, and Σᵢ ℓᵢ(θ_s) over all data.
    ///
    /// # Errors
    /// See [`Stored::from_log_likelihood`].
    pub fn new(lines: &[f64], size: usize, totals: &[f64]) -> Result<Self, EmbedError> {
        let draws = totals.len();
        let stored = Stored::from_log_likelihood(lines, size, draws, Layout::DataByDraws, Precision::Double)?;
        let (mean, scale) = (totals.iter().sum::<f64>() / draws as f64, (draws as f64).sqrt());
        let vector = totals.iter().map(|total| (total - mean) / scale).collect();
        let norms = stored.sum()?.norms;
        Ok(Self { stored, sum: Sum { vector, norms } })
    }
}

impl Dictionary for Pool {
    fn len(&self) -> usize {
        self.stored.len()
    }

    fn coordinates(&self) -> usize {
        self.stored.coordinates()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.sum.clone())
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        let gathered = self.stored.gather(seed, count)?;
        Ok(Gathered { sum: self.sum.clone(), ..gathered })
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.stored.top(query, answers)
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        self.stored.columns(ids, out)
    }
}

impl Embedding for Pool {
    fn description(&self) -> &Description {
        self.stored.description()
    }
}
