//! One pass over the data: every row's coefficients, packed for the kernel, with the sum of the columns and the tail.

use std::sync::Arc;

use sparse_nnls::Sum;

use super::expansion::{Expansion, HIGHEST};
use super::lanes::{Lanes, Powers};
use super::tail::Remainder;
use super::tensor::{coordinates, multiplicities};
use super::{TILE, whiten};
use crate::linalg::{dot, dot_features};
use crate::model::{BLOCK, LinearPredictor};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::{Growing, Held, RowsError, add};
use crate::vector_math::WIDTH;

/// Blocks that are worked on at a time: threads wait for each other at the end of them. The partial sums of the tiles of a block
/// are added up before they join those of the blocks before.
const AHEAD: usize = 4;

/// Computes rows one at a time, in f64.
pub(in crate::embed) struct RowMaker {
    pub(super) model: LinearPredictor,
    pub(super) posterior: Arc<Gaussian>,
    pub(super) order: usize,
    /// Whether orders 1 and 2 are left out: something else has them.
    pub(super) without_two: bool,
    pub(super) expansion: Expansion,
}

/// One row: v = Lᵀx/s, the coefficients h₁ … h₆, and cₘ = √m!·hₘ of the orders that are kept.
#[derive(Debug, Clone)]
pub(in crate::embed) struct Row {
    pub(super) direction: Vec<f64>,
    pub(super) h: [f64; HIGHEST],
    pub(super) c: [f64; 3],
}

impl Row {
    pub(super) fn new(dim: usize) -> Self {
        Self { direction: vec![0.0; dim], h: [0.0; HIGHEST], c: [0.0; 3] }
    }
}

impl RowMaker {
    /// Computes row `i` into `row`, and returns its width s.
    pub(super) fn fill(&self, i: usize, row: &mut Row) -> f64 {
        let x = self.model.observations.row(i);
        whiten(&self.posterior.factor, x, &mut row.direction);
        let s = length(&row.direction);
        if s > 0.0 {
            row.direction.iter_mut().for_each(|v| *v /= s);
        }
        self.expand(i, dot_features(x, &self.posterior.mean), s, row);
        s
    }

    /// The coefficients of row `i` from xᵀθ̂ and s.
    pub(super) fn expand(&self, i: usize, eta: f64, s: f64, row: &mut Row) {
        let LinearPredictor { observations, family } = &self.model;
        let eta = eta + observations.offset(i);
        row.h = self.expansion.coefficients(&**family, eta, s, observations.target(i));
        if let Some(weights) = &observations.weights {
            row.h.iter_mut().for_each(|h| *h *= weights[i]);
        }
        row.c = [row.h[0], std::f64::consts::SQRT_2 * row.h[1], 6.0_f64.sqrt() * row.h[2]];
        if self.without_two {
            (row.c[0], row.c[1]) = (0.0, 0.0);
        }
    }
}

fn length(w: &[f64]) -> f64 {
    let squares = dot(w, w);
    if squares.is_normal() { squares.sqrt() } else { careful_length(w.iter().copied()) }
}

/// ‖w‖ where its square is not a normal number.
pub(super) fn careful_length(w: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = w.clone().fold(0.0_f64, |m, w| m.max(w.abs()));
    if largest == 0.0 { 0.0 } else { largest * w.map(|w| (w / largest).powi(2)).sum::<f64>().sqrt() }
}

/// The most memory that rows packed for the kernel may take; beyond, a pass packs them tile by tile.
pub(super) const MOST_PACKED: usize = 256 << 20;

/// What is kept of each row for the kernel, in f32.
pub(super) enum Kept {
    /// Blocks of rows, as the kernel reads them: v, then cₘ/‖φ‖.
    Blocks(Held<f32>),
    /// cₘ/‖φ‖ of each row; v is computed from the row again at each pass.
    Coefficients(Held<f32>),
}

/// The rows as the kernel needs them, and what was learnt on the way.
pub(super) struct Packed {
    pub(super) kept: Kept,
    /// 1/‖φ‖, and 0 for a zero column.
    pub(super) inverse_norms: Held<f64>,
    pub(super) sum: Sum,
    /// The orders above the highest kept, of the full log-likelihood at fixed draws.
    pub(super) dropped: Vec<f64>,
}

/// What a tile adds to the whole.
struct Partial {
    sum: Vec<f64>,
    norms: f64,
    remainder: Vec<f64>,
}

impl Partial {
    fn add(&mut self, other: &Self) {
        self.norms += other.norms;
        add(&mut self.sum, &other.sum);
        add(&mut self.remainder, &other.remainder);
    }
}

/// Makes and packs all rows on all threads; partial sums are combined in the order of the tiles. What grows with the rows is kept
/// where they are.
pub(super) fn pack(maker: &RowMaker, block: usize, most: usize) -> Result<Packed, RowsError> {
    let (n, dim, order) = (maker.model.observations.len(), maker.posterior.dim(), maker.order);
    let remainder = Remainder::new(dim);
    let stride = (dim + order) * block;
    let whole = n.div_ceil(block) * stride * size_of::<f32>() <= most;
    let (length, tile_length) =
        if whole { (n.div_ceil(block) * stride, TILE / block * stride) } else { (n * order, TILE * order) };
    let rows = &maker.model.observations.features;
    let mut kept = if whole { Growing::in_memory(length) } else { rows.beside(length)? };
    let mut inverse_norms = rows.beside(n)?;
    let zero =
        || Partial { sum: vec![0.0; coordinates(dim, order)], norms: 0.0, remainder: Remainder::zero() };
    let mut total = zero();
    let multiplicities = multiplicities(dim, order);
    for start in (0..n).step_by(AHEAD * BLOCK) {
        let end = n.min(start + AHEAD * BLOCK);
        let places = |at: usize| if whole { at.div_ceil(block) * stride } else { at * order };
        let kept_now = kept.room(places(end) - places(start));
        let norms_now = inverse_norms.room(end - start);
        let tiles = kept_now.chunks_mut(tile_length).zip(norms_now.chunks_mut(TILE)).enumerate();
        let partials = parallel::map(tiles, |(tile, (kept, inverse_norms))| {
            let (first, block) = (start + tile * TILE, whole.then_some(block));
            PackTile { maker, remainder: &remainder, first, kept, inverse_norms, block }.pack()
        });
        for partials in partials.chunks(BLOCK / TILE) {
            let mut sum_of_block = zero();
            partials.iter().for_each(|partial| sum_of_block.add(partial));
            sum_of_block.sum.iter_mut().zip(&multiplicities).for_each(|(sum, m)| *sum *= m);
            total.add(&sum_of_block);
        }
        kept.filled()?;
        inverse_norms.filled()?;
    }
    let (kept, inverse_norms) = (kept.finish()?, inverse_norms.finish()?);
    let sum = Sum { vector: total.sum, norms: total.norms };
    let kept = if whole { Kept::Blocks(kept) } else { Kept::Coefficients(kept) };
    Ok(Packed { kept, inverse_norms, sum, dropped: total.remainder })
}

/// Packs one tile, some rows side by side at a time. [`RowMaker::fill`] is the plain twin of what it does to a row.
struct PackTile<'a> {
    maker: &'a RowMaker,
    remainder: &'a Remainder,
    first: usize,
    kept: &'a mut [f32],
    inverse_norms: &'a mut [f64],
    /// Rows of a block; none where coefficients alone are kept.
    block: Option<usize>,
}

impl PackTile<'_> {
    fn pack(self) -> Partial {
        let PackTile { maker, remainder, first, kept, inverse_norms, block } = self;
        let (dim, order) = (maker.posterior.dim(), maker.order);
        let mut lanes = Lanes::default();
        let (mut norms, mut rest, mut powers) = (0.0, Remainder::zero(), Powers::new(dim, order));
        let kept_width = block.map_or(order * WIDTH, |block| WIDTH / block * (dim + order) * block);
        let groups = inverse_norms.chunks_mut(WIDTH).zip(kept.chunks_mut(kept_width));
        for (group, (inverse_norms, kept)) in groups.enumerate() {
            let first = first + group * WIDTH;
            lanes.load(maker, first, inverse_norms.len());
            lanes.expand(maker, first);
            for (row, inverse_norm) in inverse_norms.iter_mut().enumerate() {
                let norm = lanes.norm(row, order);
                *inverse_norm = if norm > 0.0 { 1.0 / norm } else { 0.0 };
                norms += norm;
            }
            if let Some(block) = block {
                lanes.pack(kept, block, (dim + order) * block);
            }
            for (m, c) in lanes.c[..order].iter().enumerate() {
                for (row, (c, inverse_norm)) in c.iter().zip(&*inverse_norms).enumerate() {
                    let place = match block {
                        Some(block) => (row / block * (dim + order) + dim + m) * block + row % block,
                        None => row * order + m,
                    };
                    kept[place] = (c * inverse_norm) as f32;
                }
            }
            remainder.add(&lanes.directions, &lanes.expanded.h, order, &mut rest);
            powers.add(&mut lanes);
        }
        Partial { sum: powers.into_vector(), norms, remainder: rest }
    }
}

/// Packs the rows of one tile for the kernel once more, from their coefficients: to the bits of [`PackTile`].
pub(super) struct FillTile<'a> {
    pub(super) maker: &'a RowMaker,
    pub(super) first: usize,
    /// cₘ/‖φ‖ of each row.
    pub(super) coefficients: &'a [f32],
    pub(super) blocks: &'a mut Vec<f32>,
    pub(super) block: usize,
}

impl FillTile<'_> {
    pub(super) fn fill(self, lanes: &mut Lanes) {
        let FillTile { maker, first, coefficients, blocks, block } = self;
        let (dim, order) = (maker.posterior.dim(), maker.order);
        let (count, stride) = (coefficients.len() / order, (dim + order) * block);
        blocks.clear();
        blocks.resize(count.div_ceil(block) * stride, 0.0);
        let groups = coefficients.chunks(order * WIDTH).zip(blocks.chunks_mut(WIDTH / block * stride));
        for (group, (coefficients, blocks)) in groups.enumerate() {
            lanes.load(maker, first + group * WIDTH, coefficients.len() / order);
            lanes.pack(blocks, block, stride);
            for (row, c) in coefficients.chunks_exact(order).enumerate() {
                let places = blocks[(row / block * (dim + order) + dim) * block + row % block..].iter_mut();
                places.step_by(block).zip(c).for_each(|(to, c)| *to = *c);
            }
        }
    }
}
