//! One pass over the data: every row's coefficients, packed for the kernel, with the sum of the columns and the tail.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use sparse_nnls::Sum;
use sparse_nnls::simd::instruction_set;

use super::expansion::{Expansion, HIGHEST};
use super::lanes::Lanes;
use super::tail::Remainder;
use super::tensor::{coordinates, multiplicities};
use super::{TILE, whiten};
use crate::laplace::Gaussian;
use crate::linalg::dot;
use crate::model::LinearPredictor;

/// Tiles in flight, which bounds the memory of their partial sums.
const WAVE: usize = 64;

/// Computes rows one at a time, in f64.
pub(super) struct RowMaker<'a> {
    pub(super) model: LinearPredictor<'a>,
    pub(super) posterior: &'a Gaussian,
    pub(super) order: usize,
    pub(super) expansion: Expansion,
}

/// One row: v = Lᵀx/s, the coefficients h₁ … h₆, and cₘ = √m!·hₘ of the orders that are kept.
#[derive(Debug, Clone)]
pub(super) struct Row {
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

impl RowMaker<'_> {
    /// Computes row `i` into `row`, and returns its width s.
    pub(super) fn fill(&self, i: usize, row: &mut Row) -> f64 {
        let x = self.model.observations.row(i);
        whiten(&self.posterior.factor, x, &mut row.direction);
        let s = length(&row.direction);
        if s > 0.0 {
            row.direction.iter_mut().for_each(|v| *v /= s);
        }
        self.expand(i, dot(x, &self.posterior.mean), s, row);
        s
    }

    /// The coefficients of row `i` from η̂ and s.
    pub(super) fn expand(&self, i: usize, eta: f64, s: f64, row: &mut Row) {
        row.h = self.expansion.coefficients(self.model.family, eta, s, self.model.target(i));
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

/// The rows as the kernel reads them, and what was learnt on the way.
pub(super) struct Packed {
    /// Blocks of rows: features of v, then cₘ/‖φ‖, in f32.
    pub(super) blocks: Vec<f32>,
    /// 1/‖φ‖, and 0 for a zero column.
    pub(super) inverse_norms: Vec<f64>,
    pub(super) sum: Sum,
    /// In nats.
    pub(super) tail: f64,
}

/// What a tile adds to the whole.
struct Partial {
    sum: Vec<f64>,
    norms: f64,
    remainder: Vec<f64>,
}

/// Makes and packs all rows on all threads; partial sums are combined in the order of the tiles.
pub(super) fn pack(maker: &RowMaker<'_>, block: usize) -> Packed {
    let (n, dim, order) = (maker.model.observations.len(), maker.posterior.dim(), maker.order);
    let remainder = Remainder::new(dim);
    let stride = (dim + order) * block;
    let mut blocks = vec![0.0_f32; n.div_ceil(block) * stride];
    let mut inverse_norms = vec![0.0; n];
    let mut total =
        Partial { sum: vec![0.0; coordinates(dim, order)], norms: 0.0, remainder: Remainder::zero() };
    let tile_length = TILE / block * stride;
    let waves = blocks.chunks_mut(WAVE * tile_length).zip(inverse_norms.chunks_mut(WAVE * TILE));
    for (wave, (blocks, inverse_norms)) in waves.enumerate() {
        let partials: Vec<Partial> = blocks
            .par_chunks_mut(tile_length)
            .zip(inverse_norms.par_chunks_mut(TILE))
            .enumerate()
            .map(|(tile, (blocks, norms))| {
                let first = (wave * WAVE + tile) * TILE;
                let remainder = &remainder;
                instruction_set().dispatch(PackTile {
                    maker,
                    remainder,
                    first,
                    blocks,
                    inverse_norms: norms,
                    block,
                })
            })
            .collect();
        for partial in &partials {
            total.norms += partial.norms;
            total.sum.iter_mut().zip(&partial.sum).for_each(|(a, b)| *a += b);
            total.remainder.iter_mut().zip(&partial.remainder).for_each(|(a, b)| *a += b);
        }
    }
    total.sum.iter_mut().zip(multiplicities(dim, order)).for_each(|(sum, m)| *sum *= m);
    let tail = Remainder::nats(&total.remainder);
    Packed { blocks, inverse_norms, sum: Sum { vector: total.sum, norms: total.norms }, tail }
}

/// Packs one tile, a register of rows at a time. [`RowMaker::fill`] is the plain twin of what it does to a row.
struct PackTile<'a> {
    maker: &'a RowMaker<'a>,
    remainder: &'a Remainder,
    first: usize,
    blocks: &'a mut [f32],
    inverse_norms: &'a mut [f64],
    block: usize,
}

impl WithSimd for PackTile<'_> {
    type Output = Partial;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Partial {
        let PackTile { maker, remainder, first, blocks, inverse_norms, block } = self;
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
                let to = blocks[place / block * (dim + order) * block + place % block..].iter_mut();
                let c = row.c[..order].iter().map(|c| c * *inverse_norm);
                let numbers = row.direction.iter().copied().chain(c);
                to.step_by(block).zip(numbers).for_each(|(to, number)| *to = number as f32);
                remainder.add(simd, &row.direction, &row.h, order, &mut rest);
            }
            lanes.add_powers(order, &mut sums);
        }
        Partial { sum: sums.iter().map(|sum| simd.reduce_sum_f64s(*sum)).collect(), norms, remainder: rest }
    }
}
