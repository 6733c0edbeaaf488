//! Covariances under the coreset's posterior from draws of its Laplace fit: for any model.
//!
//! A gradient needs ℓₐ of the few active rows and the one sum L at each draw, so Φ is never held: a row's differences
//! are added up and forgotten. The sum of all rows is all that a step costs, in f32 with full relative precision.

use std::ops::Range;
use std::sync::Arc;

use super::{Active, SparseViError, Tangent};
use crate::model::{Differences, Model, Over};
use crate::parallel;
use crate::posterior::{Laplace, LaplaceError, LaplaceSettings, Prior, laplace};
use crate::random::Stream;
use crate::rows::Summed;
use crate::vector_math::{Kernel, dispatch};

/// Rows computed at once.
const STEP: usize = 8;
/// Rows of a block, at least, and blocks, at most: their partial sums are added in order, whatever the threads.
const BLOCK: usize = 64;
const BLOCKS: usize = 256;

/// A mode within 10⁻⁶ standard deviations is far nearer than S draws can tell.
const FIT: LaplaceSettings = LaplaceSettings { tolerance: 1e-6, max_iterations: 200 };

pub(super) struct MonteCarlo<'a> {
    model: &'a Arc<dyn Model>,
    prior: &'a Prior,
    draws: usize,
    seed: u64,
    /// Sets of draws so far, each from a stream of its own.
    drawn: u64,
    /// The last mode, from which the next fit starts.
    mode: Vec<f64>,
    passes: f64,
}

/// One set of draws: the differences of any row, those of the active ones, and L − L_w, centred.
struct Embedded {
    differences: Box<dyn Differences>,
    columns: Vec<f32>,
    residual: Vec<f64>,
}

impl<'a> MonteCarlo<'a> {
    pub(super) fn new(model: &'a Arc<dyn Model>, prior: &'a Prior, draws: usize, seed: u64) -> Self {
        Self { model, prior, draws, seed, drawn: 0, mode: prior.mean.clone(), passes: 0.0 }
    }

    /// The Laplace fit of π_w from the last mode; from the prior's where that has become impossible.
    fn fit(&self, active: &Active) -> Result<Laplace, LaplaceError> {
        let over = Over::Weighted { ids: &active.rows, weights: &active.weights };
        let rows = Summed { model: &**self.model, over };
        laplace(&rows, self.prior, Some(&self.mode), &FIT).or_else(|_| laplace(&rows, self.prior, None, &FIT))
    }

    fn embed(&mut self, active: &Active) -> Result<Embedded, SparseViError> {
        let posterior = self.fit(active)?.posterior;
        let shifts = posterior.shifts_at(self.draws, self.seed, Stream::SparseVi, self.drawn);
        self.drawn += 1;
        let differences = Arc::clone(self.model).prepare(&posterior.mean, shifts);
        self.mode = posterior.mean;

        let mut residual = sum_of_rows(&*differences, self.model.len(), self.draws);
        self.passes += 1.0;
        let mut columns = vec![0.0; active.rows.len() * self.draws];
        differences.narrow(&active.rows, &mut Vec::new(), &mut columns);
        for (column, weight) in columns.chunks_exact(self.draws).zip(&active.weights) {
            dispatch(Add { column, weight: -weight, sum: &mut residual });
        }
        if let Some(draw) = residual.iter().position(|x| !x.is_finite()) {
            return Err(SparseViError::NotFinite { draw, value: residual[draw] });
        }
        let mean = residual.iter().sum::<f64>() / self.draws as f64;
        residual.iter_mut().for_each(|x| *x -= mean);
        Ok(Embedded { differences, columns, residual })
    }
}

impl Tangent for MonteCarlo<'_> {
    fn correlations(&mut self, active: &Active) -> Result<Vec<f64>, SparseViError> {
        let Embedded { differences, residual, .. } = self.embed(active)?;
        self.passes += 1.0;
        let mut correlations = vec![0.0; self.model.len()];
        parallel::map(correlations.chunks_mut(BLOCK).enumerate(), |(block, out)| {
            let ids: Vec<usize> = (block * BLOCK..block * BLOCK + out.len()).collect();
            for_each_row(&*differences, &ids, self.draws, |at, column| {
                let PairSums { sum, square, product } = dispatch(PairSums::of(column, &residual));
                let variance = square - sum * sum / self.draws as f64;
                out[at] = if variance > 0.0 { product / (self.draws as f64 * variance).sqrt() } else { 0.0 };
            });
        });
        Ok(correlations)
    }

    fn gradient(&mut self, active: &Active, gradient: &mut [f64]) -> Result<(), SparseViError> {
        let Embedded { columns, residual, .. } = self.embed(active)?;
        for (g, column) in gradient.iter_mut().zip(columns.chunks_exact(self.draws)) {
            *g = -dispatch(PairSums::of(column, &residual)).product / self.draws as f64;
        }
        Ok(())
    }

    fn passes(&self) -> f64 {
        self.passes
    }
}

/// Σᵢ ℓᵢ(θ_s) − ℓᵢ(θ̂) for each draw.
fn sum_of_rows(differences: &dyn Differences, n: usize, draws: usize) -> Vec<f64> {
    let block = n.div_ceil(BLOCKS).max(BLOCK);
    let partial = |rows: Range<usize>| {
        let mut sum = vec![0.0; draws];
        let ids: Vec<usize> = rows.collect();
        for_each_row(differences, &ids, draws, |_, column| {
            dispatch(Add { column, weight: 1.0, sum: &mut sum });
        });
        sum
    };
    let partials: Vec<Vec<f64>> = parallel::map(parallel::parts(n, block), partial);
    let mut total = vec![0.0; draws];
    for partial in &partials {
        total.iter_mut().zip(partial).for_each(|(total, x)| *total += x);
    }
    total
}

/// Calls `visit` with each row's place in `ids` and its differences.
fn for_each_row(
    differences: &dyn Differences,
    ids: &[usize],
    draws: usize,
    mut visit: impl FnMut(usize, &[f32]),
) {
    let (mut scratch, mut columns) = (Vec::new(), vec![0.0; STEP * draws]);
    for (step, ids) in ids.chunks(STEP).enumerate() {
        let columns = &mut columns[..ids.len() * draws];
        differences.narrow(ids, &mut scratch, columns);
        for (at, column) in columns.chunks_exact(draws).enumerate() {
            visit(step * STEP + at, column);
        }
    }
}

/// sum ← sum + weight·column.
struct Add<'a> {
    column: &'a [f32],
    weight: f64,
    sum: &'a mut [f64],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Add { column, weight, sum } = self;
        sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += weight * f64::from(*x));
    }
}

/// Σx, Σx² and Σxr of a column x and a vector r.
#[derive(Clone, Copy, Default)]
struct PairSums {
    sum: f64,
    square: f64,
    product: f64,
}

struct MomentsOf<'a> {
    column: &'a [f32],
    residual: &'a [f64],
}

impl PairSums {
    fn of<'a>(column: &'a [f32], residual: &'a [f64]) -> MomentsOf<'a> {
        MomentsOf { column, residual }
    }
}

/// Sums side by side, which a compiler can put into registers.
const LANES: usize = 8;

impl Kernel for MomentsOf<'_> {
    type Output = PairSums;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> PairSums {
        let mut sums = [PairSums::default(); LANES];
        let ((xs, x_rest), (rs, r_rest)) =
            (self.column.as_chunks::<LANES>(), self.residual.as_chunks::<LANES>());
        let add = |moments: &mut PairSums, x: f64, r: f64| {
            moments.sum += x;
            moments.square += x * x;
            moments.product += x * r;
        };
        for (x, r) in xs.iter().zip(rs) {
            for lane in 0..LANES {
                add(&mut sums[lane], f64::from(x[lane]), r[lane]);
            }
        }
        for (x, r) in x_rest.iter().zip(r_rest) {
            add(&mut sums[0], f64::from(*x), *r);
        }
        sums.iter().fold(PairSums::default(), |a, b| PairSums {
            sum: a.sum + b.sum,
            square: a.square + b.square,
            product: a.product + b.product,
        })
    }
}
