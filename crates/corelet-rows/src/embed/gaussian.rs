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
use crate::rows::{Held, RowsError, add};

/// φᵢ = [LᵀΣ⁻¹(xᵢ − μ); −‖LᵀΣ⁻¹L‖_F/√2], under π̂ = N(μ, LLᵀ).
///
/// The log-likelihoods are quadratic with the same curvature Σ⁻¹ for all data, so the D² coordinates of that part lie on
/// one line, and one coordinate carries their length: nothing is truncated.
pub(super) struct GaussianColumns {
    first: usize,
    length: usize,
    columns: Held<f64>,
    inverse_norms: Held<f64>,
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
        let map =
            Map { model, posterior, transposed: row_major(dim, |i, j| posterior.factor[j * dim + i]), last };
        let features = &model.observations().features;
        let mut columns = features.beside(model.len() * length).map_err(RowsError::from)?;
        let mut inverse_norms = features.beside(model.len()).map_err(RowsError::from)?;
        let mut sum = Sum { vector: vec![0.0; length], norms: 0.0 };
        for rows in parallel::parts(model.len(), BLOCK) {
            let block = columns.room(rows.len() * length);
            let norms = map.write(rows.start, block);
            let mut of_block = vec![0.0; length];
            block.chunks_exact(length).for_each(|column| add(&mut of_block, column));
            add(&mut sum.vector, &of_block);
            sum.norms += norms.iter().sum::<f64>();
            columns.filled().map_err(RowsError::from)?;
            let inverse: Vec<f64> =
                norms.into_iter().map(|norm| if norm > 0.0 { 1.0 / norm } else { 0.0 }).collect();
            inverse_norms.push(&inverse).map_err(RowsError::from)?;
        }
        let (columns, inverse_norms) =
            (columns.finish().map_err(RowsError::from)?, inverse_norms.finish().map_err(RowsError::from)?);
        Ok(Self { first, length, columns, inverse_norms, sum, workers: Workers::default() })
    }

    /// The columns, one after the other.
    pub(super) fn into_columns(self) -> Vec<f64> {
        self.columns.to_vec()
    }
}

/// From rows to columns.
struct Map<'a> {
    model: &'a GaussianMean,
    posterior: &'a Gaussian,
    /// Lᵀ.
    transposed: Vec<f64>,
    /// The coordinate that all share.
    last: f64,
}

impl Map<'_> {
    /// Writes the columns of rows from `first` on, and returns their norms.
    fn write(&self, first: usize, columns: &mut [f64]) -> Vec<f64> {
        let Self { model, posterior, transposed, last } = self;
        let (dim, length) = (model.dim(), model.dim() + 1);
        let of_part = |(part, columns): (usize, &mut [f64])| {
            let (mut residual, mut slope) = (vec![0.0; dim], vec![0.0; dim]);
            for (i, out) in (first + part * parallel::ROWS..).zip(columns.chunks_exact_mut(length)) {
                let x = model.observations().row(i).iter().zip(&posterior.mean);
                residual.iter_mut().zip(x).for_each(|(r, (&x, m))| *r = f64::from(x) - m);
                multiply(model.precision(), &residual, &mut slope);
                multiply(transposed, &slope, &mut out[..dim]);
                out[dim] = *last;
            }
            columns.chunks_exact(length).map(norm).collect::<Vec<f64>>()
        };
        parallel::map(columns.chunks_mut(parallel::ROWS * length).enumerate(), of_part).concat()
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
