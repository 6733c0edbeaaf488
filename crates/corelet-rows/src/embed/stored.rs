//! An embedding held in memory: the plain twin of the virtual ones, and a home for a user's own matrix.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Candidate, Dense, Dictionary, DictionaryError, Gathered, Query, Sum};

use crate::embed::draws::centre;
use crate::embed::{Description, EmbedError, Embedding};
use crate::model::Model;
use crate::parallel;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::Put;

/// Columns computed together.
const BLOCK: usize = 64;

/// How a number of Φ is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// f32: half the memory and twice the speed, correlations and columns to about 10⁻⁷.
    Single,
    /// f64.
    #[default]
    Double,
}

/// What a row of a log-likelihood matrix is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Row i holds datum i at every draw: n × S.
    DataByDraws,
    /// Row s holds every datum at draw s: S × n.
    DrawsByData,
}

/// Φ in memory, in f64 or f32.
pub struct Stored {
    phi: Phi,
    description: Description,
}

enum Phi {
    Single(Dense<f32>),
    Double(Dense<f64>),
}

impl Phi {
    fn dictionary(&self) -> &dyn Dictionary {
        match self {
            Phi::Single(phi) => phi,
            Phi::Double(phi) => phi,
        }
    }
}

impl Stored {
    /// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S for S draws from π̂ (those that coresets are built on): the paper's embedding.
    ///
    /// # Errors
    /// If a log-likelihood is not finite.
    pub fn draws(
        model: &Arc<dyn Model>,
        posterior: &Gaussian,
        count: usize,
        seed: u64,
    ) -> Result<Self, EmbedError> {
        Self::draws_of_stream(model, posterior, count, seed, Stream::Build)
    }

    /// [`Stored::draws`] from another stream of the seed.
    ///
    /// # Errors
    /// If a log-likelihood is not finite.
    pub fn draws_of_stream(
        model: &Arc<dyn Model>,
        posterior: &Gaussian,
        count: usize,
        seed: u64,
        stream: Stream,
    ) -> Result<Self, EmbedError> {
        let shifts = posterior.shifts(count, seed, stream);
        let differences = Arc::clone(model).prepare(&posterior.mean, shifts);
        let description = Description { name: format!("draws:{count}"), coordinates: count, tail: 0.0 };
        Self::of_blocks(model.len(), description, Precision::Double, |ids, out| {
            differences.wide(ids, out);
            out.chunks_exact_mut(count).for_each(centre);
            Ok(())
        })
    }

    /// The dense twin of any embedding: the same columns, held.
    ///
    /// # Errors
    /// Those of the embedding.
    pub fn copy_of(embedding: &dyn Embedding, precision: Precision) -> Result<Self, EmbedError> {
        let description = embedding.description().clone();
        Self::of_blocks(embedding.len(), description, precision, |ids, out| Ok(embedding.columns(ids, out)?))
    }

    /// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S from a user's own log-likelihoods ℓᵢ(θ_s) of `n` data at `draws` draws, in the
    /// order that `layout` says. Constants that a datum's log-likelihood carries at every draw do not matter.
    ///
    /// # Errors
    /// [`EmbedError::Length`] where the matrix is not n × S, [`EmbedError::TooFewDraws`] below two draws, and
    /// [`EmbedError::NotFinite`] naming the datum and the draw.
    pub fn from_log_likelihood(
        matrix: &[f64],
        n: usize,
        draws: usize,
        layout: Layout,
        precision: Precision,
    ) -> Result<Self, EmbedError> {
        let expected = n.saturating_mul(draws);
        if matrix.len() != expected {
            return Err(EmbedError::Length {
                what: "the log-likelihood matrix",
                got: matrix.len(),
                expected,
            });
        }
        if draws < 2 {
            return Err(EmbedError::TooFewDraws { count: draws });
        }
        if let Some(at) = parallel::first(matrix, |x| !x.is_finite()) {
            let (row, draw) = match layout {
                Layout::DataByDraws => (at / draws, at % draws),
                Layout::DrawsByData => (at % n, at / n),
            };
            return Err(EmbedError::NotFinite { row, draw, value: matrix[at] });
        }
        let description = Description { name: format!("matrix:{draws}"), coordinates: draws, tail: 0.0 };
        Self::of_blocks(n, description, precision, |ids, out| {
            match layout {
                Layout::DataByDraws => out.copy_from_slice(&matrix[ids[0] * draws..][..out.len()]),
                // Draw by draw, so that whole cache lines of the matrix are read.
                Layout::DrawsByData => (0..draws).for_each(|s| {
                    let entries = &matrix[s * n + ids[0]..][..ids.len()];
                    entries.iter().zip(out[s..].iter_mut().step_by(draws)).for_each(|(x, out)| *out = *x);
                }),
            }
            out.chunks_exact_mut(draws).for_each(centre);
            Ok(())
        })
    }

    /// From columns that come one by one, in any order.
    pub(super) fn of_columns(
        n: usize,
        description: Description,
        precision: Precision,
        columns: impl FnOnce(&mut Put<'_>) -> Result<(), EmbedError>,
    ) -> Result<Self, EmbedError> {
        let length = description.coordinates;
        let phi = match precision {
            Precision::Double => {
                let mut entries = vec![0.0; n * length];
                columns(&mut |id, column| entries[id * length..][..length].copy_from_slice(column))?;
                Phi::Double(Dense::new(entries, length)?)
            }
            Precision::Single => {
                let mut entries = vec![0.0_f32; n * length];
                columns(&mut |id, column| {
                    let entries = entries[id * length..][..length].iter_mut();
                    entries.zip(column).for_each(|(entry, x)| *entry = *x as f32);
                })?;
                Phi::Single(Dense::new(entries, length)?)
            }
        };
        Ok(Self { phi, description })
    }

    /// From columns that are computed a block of consecutive ids at a time, on all threads.
    pub(super) fn of_blocks(
        n: usize,
        description: Description,
        precision: Precision,
        columns: impl Fn(&[usize], &mut [f64]) -> Result<(), EmbedError> + Sync,
    ) -> Result<Self, EmbedError> {
        let length = description.coordinates;
        let block_ids = |block: usize| (block * BLOCK..n.min((block + 1) * BLOCK)).collect::<Vec<_>>();
        let phi = match precision {
            Precision::Double => {
                let mut entries = vec![0.0; n * length];
                let blocks = entries.chunks_mut((BLOCK * length).max(1)).enumerate();
                let done = parallel::map(blocks, |(block, out)| columns(&block_ids(block), out));
                done.into_iter().collect::<Result<(), _>>()?;
                Phi::Double(Dense::new(entries, length)?)
            }
            Precision::Single => {
                let mut entries = vec![0.0_f32; n * length];
                let blocks = entries.chunks_mut((BLOCK * length).max(1)).enumerate();
                let done = parallel::map(blocks, |(block, out)| {
                    let mut wide = vec![0.0; out.len()];
                    columns(&block_ids(block), &mut wide)?;
                    out.iter_mut().zip(&wide).for_each(|(out, x)| *out = *x as f32);
                    Ok::<(), EmbedError>(())
                });
                done.into_iter().collect::<Result<(), _>>()?;
                Phi::Single(Dense::new(entries, length)?)
            }
        };
        Ok(Self { phi, description })
    }
}

impl Dictionary for Stored {
    fn len(&self) -> usize {
        self.phi.dictionary().len()
    }

    fn coordinates(&self) -> usize {
        self.phi.dictionary().coordinates()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        self.phi.dictionary().sum()
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        self.phi.dictionary().gather(seed, count)
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.phi.dictionary().top(query, answers)
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        self.phi.dictionary().columns(ids, out)
    }
}

impl Embedding for Stored {
    fn description(&self) -> &Description {
        &self.description
    }
}
