//! The Hermite embedding of a model with several predictors a row: as many rows of one predictor, added up.

use std::ops::Range;
use std::sync::Arc;

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Error, Query, Sum};

use super::NEARLY_PARALLEL;
use super::forms::Directions;
use super::joint_row::{JointColumns, JointPolynomials, JointRow};
use super::kernel::{Cosines, Widen, block_rows};
use super::tail::Remainder;
use crate::embed::tiles::{Correlations, Tiles, Workers, top};
use crate::embed::{Description, EmbedError, Embedding};
use crate::linalg::dot;
use crate::model::{BLOCK, JointPredictors, PredictorShifts};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::add;

/// Rows in a tile of the first pass: a multiple of every block, and fixed.
const TILE: usize = 1024;

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
    blocks: Vec<f32>,
    /// 1/‖φ‖, and 0 for a zero column.
    inverse_norms: Vec<f64>,
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
    /// As [`JointHermite::new`].
    pub fn starting_at(
        model: JointPredictors,
        posterior: Arc<Gaussian>,
        order: usize,
        first: usize,
    ) -> Result<Self, EmbedError> {
        let columns = JointColumns::new(model, posterior, order)?;
        let block = block_rows();
        let packed = pack(&columns, block);
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
    pub(in crate::embed) fn polynomials(&self) -> JointPolynomials {
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
fn pack(columns: &JointColumns, block: usize) -> Packed {
    let (n, dim, order) = (columns.model.observations.len(), columns.posterior.dim(), columns.order);
    let stride = columns.model.layout.predictors() * (dim + order) * block;
    let mut blocks = vec![0.0_f32; n.div_ceil(block) * stride];
    let mut inverse_norms = vec![0.0; n];
    let JointPredictors { family, layout, .. } = &columns.model;
    let shifts = PredictorShifts::new(layout, &Remainder::shifts(&columns.posterior));
    let table = family.table(&shifts.constants(layout, &columns.posterior.mean));
    let packer = Packer { columns, block, shifts, table };
    let mut total = packer.zero();
    let waves = blocks.chunks_mut(BLOCK / block * stride).zip(inverse_norms.chunks_mut(BLOCK));
    for (wave, (blocks, inverse_norms)) in waves.enumerate() {
        let tiles = blocks.chunks_mut(TILE / block * stride).zip(inverse_norms.chunks_mut(TILE)).enumerate();
        let partials = parallel::map(tiles, |(tile, (blocks, norms))| {
            packer.tile(wave * BLOCK + tile * TILE, blocks, norms)
        });
        let mut of_block = packer.zero();
        partials.iter().for_each(|partial| of_block.add(partial));
        columns.scale(&mut of_block.sum);
        total.add(&of_block);
    }
    let sum = Sum { vector: total.sum, norms: total.norms };
    Packed { blocks, inverse_norms, sum, dropped: total.dropped }
}

struct Packer<'a> {
    columns: &'a JointColumns,
    block: usize,
    /// The fixed draws that show what is dropped.
    shifts: PredictorShifts,
    table: Vec<f64>,
}

impl Packer<'_> {
    fn zero(&self) -> Partial {
        let (sum, dropped) = (vec![0.0; self.columns.coordinates], vec![0.0; self.shifts.count]);
        Partial { sum, norms: 0.0, dropped }
    }

    /// Packs the rows from `first` on.
    fn tile(&self, first: usize, blocks: &mut [f32], inverse_norms: &mut [f64]) -> Partial {
        let mut partial = self.zero();
        let mut row = self.columns.row();
        let (mut deltas, mut rest) = (self.shifts.buffer(), vec![0.0; self.shifts.count]);
        for (place, inverse_norm) in inverse_norms.iter_mut().enumerate() {
            self.columns.fill(first + place, &mut row);
            let norm = row.norm(self.columns.order);
            *inverse_norm = if norm > 0.0 { 1.0 / norm } else { 0.0 };
            partial.norms += norm;
            self.columns.add_to(&row, &mut partial.sum);
            self.store(&row, *inverse_norm, place, blocks);
            self.drop(first + place, &row, &mut deltas, &mut rest);
            add(&mut partial.dropped, &rest);
        }
        partial
    }

    /// Writes the directions and cₘ/‖φ‖ of a row into its lane.
    fn store(&self, row: &JointRow, inverse_norm: f64, place: usize, blocks: &mut [f32]) {
        let (dim, order) = (self.columns.posterior.dim(), self.columns.order);
        let width = (dim + order) * self.block;
        let start = place / self.block * row.c.len() * width + place % self.block;
        for (a, (c, direction)) in row.c.iter().zip(row.directions.chunks_exact(dim)).enumerate() {
            let numbers = direction.iter().copied().chain(c[..order].iter().map(|c| c * inverse_norm));
            let to = blocks[start + a * width..].iter_mut().step_by(self.block);
            to.zip(numbers).for_each(|(to, number)| *to = number as f32);
        }
    }

    /// What the orders kept leave of row `i` at the fixed draws, about its mean over them.
    fn drop(&self, i: usize, row: &JointRow, deltas: &mut [f64], rest: &mut [f64]) {
        let JointPredictors { observations, family, .. } = &self.columns.model;
        self.shifts.of_row(observations.row(i), deltas);
        family.differences_row(&row.zeta, observations.target(i), deltas, &self.table, rest);
        if let Some(weights) = &observations.weights {
            rest.iter_mut().for_each(|difference| *difference *= weights[i]);
        }
        JointPolynomials::of_row(row, self.columns.order).subtract(0, deltas, rest);
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter_mut().for_each(|x| *x = if x.is_finite() { *x - mean } else { 0.0 });
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
