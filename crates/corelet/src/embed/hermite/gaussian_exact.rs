//! The exact embedding of the Gaussian mean, in D + 1 coordinates.

use rayon::prelude::*;
use sparse_nnls::{Candidate, Dense, Dictionary, DictionaryError, Query, Sum};

use crate::embed::{Description, EmbedError, Embedding};
use crate::laplace::Gaussian;
use crate::linalg::{congruence, dot, multiply};
use crate::model::{GaussianMean, Model};

/// Data xᵢ ~ N(θ, Σₓ) under π̂ = N(θ̂, LLᵀ): with θ = θ̂ + Lz,
///
/// > ℓᵢ(θ) − ℓᵢ(θ̂) = bᵢᵀz − ½zᵀAz,   bᵢ = LᵀΣₓ⁻¹(xᵢ − θ̂),   A = LᵀΣₓ⁻¹L.
///
/// The two parts are uncorrelated, and the second, of variance ½‖A‖²_F, is the same for every row: one coordinate is
/// enough for it, φᵢ = (bᵢ, ‖A‖_F/√2), and Cov(ℓᵢ, ℓⱼ) = bᵢᵀbⱼ + ½‖A‖²_F exactly.
pub struct GaussianExact {
    phi: Dense<f64>,
    description: Description,
}

impl GaussianExact {
    /// Embeds the model under π̂.
    ///
    /// # Errors
    /// Where π̂ has another dimension than the model, or an entry is not finite.
    pub fn new(model: &GaussianMean, posterior: &Gaussian) -> Result<Self, EmbedError> {
        let dim = model.dim();
        if posterior.dim() != dim {
            return Err(EmbedError::Dimension { posterior: posterior.dim(), model: dim });
        }
        let curvature = congruence(&posterior.factor, model.precision(), dim);
        let shared = (0.5 * dot(&curvature, &curvature)).sqrt();
        let mut entries = vec![0.0; model.len() * (dim + 1)];
        let rows = model.observations().features.par_chunks_exact(dim);
        let scratch = || (vec![0.0; dim], vec![0.0; dim]);
        entries.par_chunks_exact_mut(dim + 1).zip(rows).for_each_init(
            scratch,
            |(shift, scaled), (out, x)| {
                shift.iter_mut().zip(x.iter().zip(&posterior.mean)).for_each(|(s, (x, m))| *s = x - m);
                multiply(model.precision(), shift, scaled);
                super::whiten(&posterior.factor, scaled, &mut out[..dim]);
                out[dim] = shared;
            },
        );
        let description = Description { name: "hermite:2".to_owned(), coordinates: dim + 1, tail: 0.0 };
        Ok(Self { phi: Dense::new(entries, dim + 1)?, description })
    }
}

impl Dictionary for GaussianExact {
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

impl Embedding for GaussianExact {
    fn description(&self) -> &Description {
        &self.description
    }
}
