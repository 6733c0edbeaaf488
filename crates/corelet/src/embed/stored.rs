//! An embedding held in memory: the plain twin of the virtual ones, and a home for a user's own matrix.

use rayon::prelude::*;
use sparse_nnls::{Candidate, Dense, Dictionary, DictionaryError, Query, Sum};

use crate::embed::posterior_draws::{Stream, draw_shifts};
use crate::embed::{Description, EmbedError, Embedding};
use crate::laplace::Gaussian;
use crate::model::Model;

/// Rows computed together.
const BLOCK: usize = 64;

/// Φ in memory, in f64.
pub struct Stored {
    phi: Dense<f64>,
    description: Description,
}

impl Stored {
    /// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S for S draws from π̂: the paper's embedding.
    ///
    /// # Errors
    /// Where a log-likelihood is not finite.
    pub fn draws(
        model: &dyn Model,
        posterior: &Gaussian,
        count: usize,
        seed: u64,
    ) -> Result<Self, EmbedError> {
        let shifts = draw_shifts(posterior, count, seed, Stream::Build);
        let mut entries = vec![0.0; model.len() * count];
        entries.par_chunks_mut(BLOCK * count).enumerate().for_each(|(block, out)| {
            let first = block * BLOCK;
            let rows = first..(first + BLOCK).min(model.len());
            model.differences_f64(rows, &posterior.mean, &shifts, out);
            out.chunks_exact_mut(count).for_each(centre);
        });
        let description = Description { name: format!("draws:{count}"), coordinates: count, tail: 0.0 };
        Ok(Self { phi: Dense::new(entries, count)?, description })
    }
}

/// Subtracts the mean and divides by √S.
fn centre(row: &mut [f64]) {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    row.iter_mut().for_each(|x| *x = (*x - mean) / count.sqrt());
}

impl Dictionary for Stored {
    fn len(&self) -> usize {
        self.phi.len()
    }

    fn coordinates(&self) -> usize {
        self.phi.coordinates()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        self.phi.sum()
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.phi.top(query, answers)
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        self.phi.columns(ids, out)
    }
}

impl Embedding for Stored {
    fn description(&self) -> &Description {
        &self.description
    }
}
