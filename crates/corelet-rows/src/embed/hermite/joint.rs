//! The Hermite embedding of a model with several predictors a row: as many rows of one predictor, added up.

use std::ops::Range;
use std::sync::Arc;

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Error, Query, Sum};

use super::NEARLY_PARALLEL;
use super::forms::Directions;
use super::joint_lanes::JointLanes;
use super::joint_row::{JointColumns, JointPolynomials};
use super::kernel::{Cosines, Widen, block_rows};
use super::lanes::Powers;
use super::tail::Remainder;
use crate::embed::tiles::{Correlations, Tiles, Workers, top};
use crate::embed::{Description, EmbedError, Embedding};
use crate::linalg::dot;
use crate::model::{BLOCK, Differences, JointPredictors, PreparedJoint, Scratch};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::{Held, RowsError, add};
use crate::vector_math::WIDTH;

/// Rows in a tile of the first pass: a multiple of every block, and fixed.
const TILE: usize = 1024;

/// Rows that are added up in f32 before they join a sum.
const FEW: usize = 32;

/// The Hermite embedding of order 1 or 2 of a model with r predictors a row: its columns are those of `JointColumns`.
///
/// A row is kept as r unit directions with their coefficients, in f32, as [`Hermite`](super::Hermite) keeps one, and the same
/// kernel correlates them: a pass takes r times as long.
pub struct JointHermite {
    first: usize,
    columns: JointColumns,
    block: usize,
    packed: Packed,
    description: Description,
    workers: Workers<JointScratch>,
}

/// The rows as the kernel reads them, and what was learnt on the way.
struct Packed {
    /// Blocks of rows; of each block the first directions of all rows, then the second ones, ….
    blocks: Held<f32>,
    /// 1/‖φ‖, and 0 for a zero column.
    inverse_norms: Held<f64>,
    sum: Sum,
    /// The orders above those kept, of the full log-likelihood at fixed draws.
    dropped: Vec<f64>,
}

/// What a tile adds to the whole.
struct Partial {
    sum: Vec<f64>,
    norms: f64,
    dropped: Vec<f64>,
}

impl Partial {
    fn add(&mut self, other: &Self) {
        self.norms += other.norms;
        add(&mut self.sum, &other.sum);
        add(&mut self.dropped, &other.dropped);
    }
}

impl JointHermite {
    /// Embeds a model under π̂ with the orders 1 … `order`, in one pass on all threads.
    ///
    /// # Errors
    /// [`EmbedError::JointOrder`] unless `order` is 1 or 2, and [`EmbedError::Dimension`] where π̂ is of another dimension.
    pub fn new(model: JointPredictors, posterior: &Gaussian, order: usize) -> Result<Self, EmbedError> {
        Self::starting_at(model, Arc::new(posterior.clone()), order, 0)
    }

    /// The same of rows of which the first has this id.
    ///
    /// # Errors
    /// See [`JointHermite::new`].
    pub fn starting_at(
        model: JointPredictors,
        posterior: Arc<Gaussian>,
        order: usize,
        first: usize,
    ) -> Result<Self, EmbedError> {
        let columns = JointColumns::new(model, posterior, order)?;
        let block = block_rows();
        let packed = pack(&columns, block)?;
        let tail = Remainder::nats(&packed.dropped);
        let description =
            Description { name: format!("hermite:{order}"), coordinates: columns.coordinates, tail };
        Ok(Self { first, columns, block, packed, description, workers: Workers::default() })
    }

    /// What truncation drops of the full log-likelihood, at fixed draws.
    pub(in crate::embed) fn dropped(&self) -> &[f64] {
        &self.packed.dropped
    }

    /// The orders 1 and 2 of every row as a polynomial of its own predictors.
    pub(in crate::embed) fn polynomials(&self) -> Result<JointPolynomials, RowsError> {
        self.columns.polynomials()
    }

    /// Correlates the columns that are nearly parallel to the second vector, where there is one, again in f64.
    fn refine(&self, tile: &Range<usize>, vectors: &[Vec<f64>], out: &mut [Vec<f64>; 2]) {
        let Some(length) = vectors.get(1).map(|v| dot(v, v).sqrt()) else { return };
        let (mut row, mut column) = (self.columns.row(), Vec::new());
        for (offset, id) in tile.clone().enumerate() {
            if (out[1][offset] * self.packed.inverse_norms[id]).abs() > NEARLY_PARALLEL * length {
                column.resize(self.columns.coordinates, 0.0);
                self.columns.column(id, &mut row, &mut column);
                out.iter_mut().zip(vectors).for_each(|(out, vector)| out[offset] = dot(&column, vector));
            }
        }
    }
}

/// Makes and packs all rows on all threads; partial sums are combined in the order of the tiles, and of the blocks they make up.
fn pack(columns: &JointColumns, block: usize) -> Result<Packed, RowsError> {
    let (rows, dim, order) = (&columns.model.observations, columns.posterior.dim(), columns.order);
    let stride = columns.model.layout.predictors() * (dim + order) * block;
    let mut blocks = rows.features.beside(rows.len().div_ceil(block) * stride)?;
    let mut inverse_norms = rows.features.beside(rows.len())?;
    let draws = Remainder::new(dim);
    let differences =
        PreparedJoint::new(columns.model.clone(), &columns.posterior.mean, &draws.shifts(&columns.posterior));
    let packer = Packer { columns, block, differences };
    let mut total = packer.zero();
    for wave in parallel::parts(rows.len(), BLOCK) {
        let packed = blocks.room(wave.len().div_ceil(block) * stride).chunks_mut(TILE / block * stride);
        let tiles = packed.zip(inverse_norms.room(wave.len()).chunks_mut(TILE)).enumerate();
        let partials = parallel::map(tiles, |(tile, (blocks, norms))| {
            packer.tile(wave.start + tile * TILE, blocks, norms)
        });
        blocks.filled()?;
        inverse_norms.filled()?;
        let mut of_block = packer.zero();
        partials.iter().for_each(|partial| of_block.add(partial));
        columns.scale(&mut of_block.sum);
        let kept = |z: &[f64]| columns.at(&of_block.sum, z);
        draws.each().zip(&mut of_block.dropped).for_each(|(z, whole)| *whole -= kept(&z));
        centre(&mut of_block.dropped);
        total.add(&of_block);
    }
    let sum = Sum { vector: total.sum, norms: total.norms };
    let (blocks, inverse_norms) = (blocks.finish()?, inverse_norms.finish()?);
    Ok(Packed { blocks, inverse_norms, sum, dropped: total.dropped })
}

/// Takes the mean from each number; one that is none becomes 0.
fn centre(numbers: &mut [f64]) {
    let finite = numbers.iter().filter(|x| x.is_finite());
    let mean = finite.clone().sum::<f64>() / finite.count().max(1) as f64;
    numbers.iter_mut().for_each(|x| *x = if x.is_finite() { *x - mean } else { 0.0 });
}

struct Packer<'a> {
    columns: &'a JointColumns,
    block: usize,
    /// Of the whole log-likelihoods, at the fixed draws that show what is dropped.
    differences: PreparedJoint,
}

impl Packer<'_> {
    fn zero(&self) -> Partial {
        let (sum, dropped) = (vec![0.0; self.columns.coordinates], Remainder::zero());
        Partial { sum, norms: 0.0, dropped }
    }

    /// Packs the rows from `first` on, some rows side by side at a time; `dropped` is that of the whole log-likelihoods as yet.
    fn tile(&self, first: usize, blocks: &mut [f32], inverse_norms: &mut [f64]) -> Partial {
        let (order, dim) = (self.columns.order, self.columns.posterior.dim());
        let stride = self.columns.model.layout.predictors() * (dim + order) * self.block;
        let (mut lanes, mut powers) = (JointLanes::new(self.columns), Powers::new(dim, order));
        let (mut norms, mut dropped, mut scratch) = (0.0, Remainder::zero(), Scratch::default());
        let groups = inverse_norms.chunks_mut(WIDTH).zip(blocks.chunks_mut(WIDTH / self.block * stride));
        for (group, (inverse_norms, blocks)) in groups.enumerate() {
            let first = first + group * WIDTH;
            lanes.load(self.columns, first, inverse_norms.len());
            for (row, inverse_norm) in inverse_norms.iter_mut().enumerate() {
                let norm = lanes.norm(row, order);
                *inverse_norm = if norm > 0.0 { 1.0 / norm } else { 0.0 };
                norms += norm;
            }
            lanes.pack(blocks, self.block, inverse_norms, order);
            lanes.add_to(&mut powers);
            let ids: Vec<usize> = (first..first + inverse_norms.len()).collect();
            for ids in ids.chunks(FEW) {
                self.differences.add_narrow(ids, &mut scratch, &mut dropped);
            }
        }
        Partial { sum: powers.into_vector(), norms, dropped }
    }
}

/// The buffers of one worker.
#[derive(Default)]
pub struct JointScratch {
    products: Vec<f32>,
    cosines: [Vec<f32>; 2],
    correlations: [Vec<f64>; 2],
}

impl Tiles for JointHermite {
    type Directions = Directions;
    type Scratch = JointScratch;

    fn first(&self) -> usize {
        self.first
    }

    fn directions(&self, vectors: &[&[f64]]) -> Directions {
        Directions::new(vectors, self.columns.posterior.dim(), self.columns.order)
    }

    fn inverse_norms(&self) -> &[f64] {
        &self.packed.inverse_norms
    }

    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Directions,
        scratch: &mut JointScratch,
        out: Correlations<'_>,
    ) {
        let JointScratch { products, cosines, correlations } = scratch;
        let (dim, order) = (self.columns.posterior.dim(), self.columns.order);
        let (r, block) = (self.columns.model.layout.predictors(), self.block);
        let (start, end) = (tile.start / block, tile.end.div_ceil(block));
        let stride = r * (dim + order) * block;
        cosines.iter_mut().for_each(|cosines| cosines.resize((end - start) * r * block, 0.0));
        correlations.iter_mut().for_each(|correlations| correlations.resize(tile.len(), 0.0));
        let [first, second] = &mut *cosines;
        let blocks = &self.packed.blocks[start * stride..end * stride];
        Cosines { blocks, dim, order, forms: &directions.forms, products, out: [first, second] }.compute();
        let inverse_norms = &self.packed.inverse_norms[tile.clone()];
        for ((form, cosines), out) in directions.forms.iter().zip(cosines).zip(&mut *correlations) {
            add_up(cosines, r, block);
            Widen { cosines, length: form.length, inverse_norms: Some(inverse_norms), out }.compute();
        }
        self.refine(&tile, &directions.vectors, correlations);
        if ids.len() == tile.len() {
            out.u.copy_from_slice(&correlations[0]);
            out.v.copy_from_slice(&correlations[1]);
            return;
        }
        for id in ids {
            let at = id - tile.start;
            (out.u[at], out.v[at]) = (correlations[0][at], correlations[1][at]);
        }
    }
}

/// Adds the r answers of each block of rows, and moves them together to the front.
fn add_up(cosines: &mut [f32], r: usize, block: usize) {
    for at in 0..cosines.len() / (r * block) {
        cosines.copy_within(at * r * block..(at * r + 1) * block, at * block);
        for a in 1..r {
            let (sums, answers) = cosines.split_at_mut((at * r + a) * block);
            let sums = &mut sums[at * block..][..block];
            sums.iter_mut().zip(&answers[..block]).for_each(|(sum, answer)| *sum += answer);
        }
    }
}

impl Dictionary for JointHermite {
    fn len(&self) -> usize {
        self.packed.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.columns.coordinates
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.packed.sum.clone())
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        top(self, &self.workers, query, answers);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        if let Some(&id) = ids.iter().find(|id| **id >= self.len()) {
            return Err(DictionaryError::new(Error::BadColumn { id, columns: self.len() }));
        }
        self.columns.write(ids, out);
        Ok(())
    }
}

impl Embedding for JointHermite {
    fn description(&self) -> &Description {
        &self.description
    }
}
