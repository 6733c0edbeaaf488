//! One pass over the data: every row's coefficients, packed for the kernel, with the sum of the columns and the tail.

use std::sync::Arc;

use pulp::{Simd, WithSimd};
use sparse_nnls::Sum;
use sparse_nnls::simd::instruction_set;

use super::expansion::{Expansion, HIGHEST};
use super::lanes::Lanes;
use super::tail::Remainder;
use super::tensor::{coordinates, multiplicities};
use super::{TILE, whiten};
use crate::linalg::{dot, dot_features};
use crate::model::{BLOCK, LinearPredictor};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::{Growing, Held, RowsError, add};

/// Tiles of a block, whose partial sums are added up before they join those of the blocks before.
const WAVE: usize = BLOCK / TILE;

/// Computes rows one at a time, in f64.
pub(in crate::embed) struct RowMaker {
    pub(super) model: LinearPredictor,
    pub(super) posterior: Arc<Gaussian>,
    pub(super) order: usize,
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

    /// ‖φ‖ = √(Σ m!hₘ²), since v has unit length.
    fn norm(&self, order: usize) -> f64 {
        let largest = self.c[..order].iter().fold(0.0_f64, |m, c| m.max(c.abs()));
        if largest == 0.0 {
            return 0.0;
        }
        largest * self.c[..order].iter().map(|c| (c / largest).powi(2)).sum::<f64>().sqrt()
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
    let mut all_kept = if whole { Growing::Memory(Vec::with_capacity(length)) } else { rows.beside(length)? };
    let mut all_norms = rows.beside(n)?;
    let (kept_wave, norms_wave) = (WAVE * tile_length, WAVE * TILE);
    let (mut kept, mut inverse_norms) = (vec![0.0_f32; kept_wave.min(length)], vec![0.0; norms_wave.min(n)]);
    let zero =
        || Partial { sum: vec![0.0; coordinates(dim, order)], norms: 0.0, remainder: Remainder::zero() };
    let mut total = zero();
    let multiplicities = multiplicities(dim, order);
    for wave in 0..n.div_ceil(norms_wave) {
        let kept = &mut kept[..kept_wave.min(length - wave * kept_wave)];
        let inverse_norms = &mut inverse_norms[..norms_wave.min(n - wave * norms_wave)];
        // The last block is not full, and what is beyond its rows must be zero.
        kept.fill(0.0);
        let tiles = kept.chunks_mut(tile_length).zip(inverse_norms.chunks_mut(TILE)).enumerate();
        let partials = parallel::map(tiles, |(tile, (kept, inverse_norms))| {
            let (first, remainder) = ((wave * WAVE + tile) * TILE, &remainder);
            let block = whole.then_some(block);
            instruction_set().dispatch(PackTile { maker, remainder, first, kept, inverse_norms, block })
        });
        let mut sum_of_block = zero();
        partials.iter().for_each(|partial| sum_of_block.add(partial));
        sum_of_block.sum.iter_mut().zip(&multiplicities).for_each(|(sum, m)| *sum *= m);
        total.add(&sum_of_block);
        all_kept.push(kept)?;
        all_norms.push(inverse_norms)?;
    }
    let (kept, inverse_norms) = (all_kept.finish()?, all_norms.finish()?);
    let sum = Sum { vector: total.sum, norms: total.norms };
    let kept = if whole { Kept::Blocks(kept) } else { Kept::Coefficients(kept) };
    Ok(Packed { kept, inverse_norms, sum, dropped: total.remainder })
}

/// Packs one tile, a register of rows at a time. [`RowMaker::fill`] is the plain twin of what it does to a row.
struct PackTile<'a> {
    maker: &'a RowMaker,
    remainder: &'a Remainder,
    first: usize,
    kept: &'a mut [f32],
    inverse_norms: &'a mut [f64],
    /// Rows of a block; none where coefficients alone are kept.
    block: Option<usize>,
}

impl WithSimd for PackTile<'_> {
    type Output = Partial;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Partial {
        let PackTile { maker, remainder, first, kept, inverse_norms, block } = self;
        let (dim, order) = (maker.posterior.dim(), maker.order);
        let mut lanes = Lanes::new(simd, dim);
        let mut sums = vec![simd.splat_f64s(0.0); coordinates(dim, order)];
        let (mut norms, mut rest, mut row) = (0.0, Remainder::zero(), Row::new(dim));
        for (group, inverse_norms) in inverse_norms.chunks_mut(Lanes::<S>::COUNT).enumerate() {
            let start = group * Lanes::<S>::COUNT;
            lanes.load(maker, first + start, inverse_norms.len());
            for (lane, inverse_norm) in inverse_norms.iter_mut().enumerate() {
                lanes.row(maker, first + start + lane, lane, &mut row);
                let norm = row.norm(order);
                *inverse_norm = if norm > 0.0 { 1.0 / norm } else { 0.0 };
                norms += norm;
                let place = start + lane;
                let c = row.c[..order].iter().map(|c| c * *inverse_norm);
                match block {
                    Some(block) => {
                        let to = kept[place / block * (dim + order) * block + place % block..].iter_mut();
                        let numbers = row.direction.iter().copied().chain(c);
                        to.step_by(block).zip(numbers).for_each(|(to, number)| *to = number as f32);
                    }
                    None => {
                        kept[place * order..].iter_mut().zip(c).for_each(|(to, c)| *to = c as f32);
                    }
                }
                remainder.add(simd, &row.direction, &row.h, order, &mut rest);
            }
            lanes.add_powers(order, &mut sums);
        }
        Partial { sum: sums.iter().map(|sum| simd.reduce_sum_f64s(*sum)).collect(), norms, remainder: rest }
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
    pub(super) fn fill(self) {
        instruction_set().dispatch(self);
    }
}

impl WithSimd for FillTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FillTile { maker, first, coefficients, blocks, block } = self;
        let (dim, order) = (maker.posterior.dim(), maker.order);
        let (count, stride) = (coefficients.len() / order, (dim + order) * block);
        blocks.clear();
        blocks.resize(count.div_ceil(block) * stride, 0.0);
        let mut lanes = Lanes::new(simd, dim);
        for (group, coefficients) in coefficients.chunks(order * Lanes::<S>::COUNT).enumerate() {
            let start = group * Lanes::<S>::COUNT;
            lanes.load(maker, first + start, coefficients.len() / order);
            for (lane, c) in coefficients.chunks_exact(order).enumerate() {
                let place = start + lane;
                let mut to = blocks[place / block * stride + place % block..].iter_mut().step_by(block);
                to.by_ref().zip(lanes.direction(lane)).take(dim).for_each(|(to, v)| *to = *v as f32);
                to.zip(c).for_each(|(to, c)| *to = *c);
            }
        }
    }
}
