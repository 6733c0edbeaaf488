//! The mean of a Gaussian, embedded exactly in D + 1 coordinates.

use std::ops::Range;

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Query, Sum};

use super::EmbedError;
use super::draws::norm;
use super::tiles::{Correlations, Tiles, Workers, top};
use crate::linalg::{congruence, dot, multiply, row_major};
use crate::model::{BLOCK, GaussianMean, Model};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::add;

/// φᵢ = [LᵀΣ⁻¹(xᵢ − μ); −‖LᵀΣ⁻¹L‖_F/√2], under π̂ = N(μ, LLᵀ).
///
/// The log-likelihoods are quadratic with the same curvature Σ⁻¹ for all data, so the D² coordinates of that part lie on
/// one line, and one coordinate carries their length: nothing is truncated.
pub(super) struct GaussianColumns {
    first: usize,
    length: usize,
    columns: Vec<f64>,
    inverse_norms: Vec<f64>,
    sum: Sum,
    workers: Workers<()>,
}

impl GaussianColumns {
    pub(super) fn new(model: &GaussianMean, posterior: &Gaussian, first: usize) -> Result<Self, EmbedError> {
        let (dim, length) = (model.dim(), model.dim() + 1);
        if posterior.dim() != dim {
            return Err(EmbedError::Dimension { posterior: posterior.dim(), model: dim });
        }
        let spread = congruence(&posterior.factor, model.precision(), dim);
        let last = -std::f64::consts::FRAC_1_SQRT_2 * dot(&spread, &spread).sqrt();
        let transposed = row_major(dim, |i, j| posterior.factor[j * dim + i]);
        let mut columns = vec![0.0; model.len() * length];
        let norms =
            parallel::map(columns.chunks_mut(parallel::ROWS * length).enumerate(), |(part, columns)| {
                let (mut residual, mut slope) = (vec![0.0; dim], vec![0.0; dim]);
                for (i, out) in (part * parallel::ROWS..).zip(columns.chunks_exact_mut(length)) {
                    let x = model.observations().row(i).iter().zip(&posterior.mean);
                    residual.iter_mut().zip(x).for_each(|(r, (&x, m))| *r = f64::from(x) - m);
                    multiply(model.precision(), &residual, &mut slope);
                    multiply(&transposed, &slope, &mut out[..dim]);
                    out[dim] = last;
                }
                columns.chunks_exact(length).map(norm).collect::<Vec<f64>>()
            })
            .concat();
        let mut sum = Sum { vector: vec![0.0; length], norms: 0.0 };
        for (block, norms) in columns.chunks(BLOCK * length).zip(norms.chunks(BLOCK)) {
            let mut of_block = vec![0.0; length];
            block.chunks_exact(length).for_each(|column| add(&mut of_block, column));
            add(&mut sum.vector, &of_block);
            sum.norms += norms.iter().sum::<f64>();
        }
        let inverse_norms = norms.into_iter().map(|norm| if norm > 0.0 { 1.0 / norm } else { 0.0 }).collect();
        Ok(Self { first, length, columns, inverse_norms, sum, workers: Workers::default() })
    }

    /// The columns, one after the other.
    pub(super) fn into_columns(self) -> Vec<f64> {
        self.columns
    }
}

impl Tiles for GaussianColumns {
    type Directions = Vec<Vec<f64>>;
    type Scratch = ();

    fn first(&self) -> usize {
        self.first
    }

    fn directions(&self, vectors: &[&[f64]]) -> Vec<Vec<f64>> {
        vectors.iter().map(|vector| vector.to_vec()).collect()
    }

    fn inverse_norms(&self) -> &[f64] {
        &self.inverse_norms
    }

    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Vec<Vec<f64>>,
        (): &mut (),
        out: Correlations<'_>,
    ) {
        for (vector, out) in directions.iter().zip([out.u, out.v]) {
            for &id in ids {
                out[id - tile.start] = dot(&self.columns[id * self.length..][..self.length], vector);
            }
        }
    }
}

impl Dictionary for GaussianColumns {
    fn len(&self) -> usize {
        self.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.length
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.sum.clone())
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        top(self, &self.workers, query, answers);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.length)) {
            out.copy_from_slice(&self.columns[id * self.length..][..self.length]);
        }
        Ok(())
    }
}
