//! The coefficients of a pool's columns in the basis of a support, eight columns side by side, changed as the support is.
//!
//! With A the unit columns of the pool and Q an orthonormal basis of the span of the support's, a column l has the coefficients
//! tₗ = Qᵀaₗ. None of this needs the columns themselves: what a column j that enters adds to the basis has the
//! product (⟨aⱼ, aₗ⟩ − ⟨tⱼ, tₗ⟩)/‖aⱼ⊥‖ with column l, and a column that leaves rotates the basis. Changes are applied tile by
//! tile, several in a row, so that a tile is read from memory once for all of them.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::kernel::{dispatched, fused};
use crate::method::gram::Gram;
use crate::parallel::{by_blocks, is_shared};
use corelet_kernels::simd::instruction_set;

/// Columns side by side in a tile.
pub(super) const LANES: usize = 8;

type Lane = [f64; LANES];

/// A change of the support.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// A column enters: which, its coefficients in the basis so far, the length of its part outside, and the share of y along it.
    Enter { column: usize, coefficients: Vec<f64>, height: f64, share: f64 },
    /// The column at this place left: the rotations of neighbouring basis vectors from there on, which leave the last
    /// one to be dropped, and its share of y.
    Leave { place: usize, rotations: Vec<(f64, f64)>, share: f64 },
}

impl Change {
    /// Coefficients of a column that it touches.
    fn size(&self) -> usize {
        match self {
            Self::Enter { coefficients, .. } => coefficients.len(),
            Self::Leave { rotations, .. } => 4 * rotations.len(),
        }
    }
}

/// Coefficients, correlations and heights of some columns of a pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Tiles {
    /// The columns, where they are not all of the pool in its order.
    columns: Option<Vec<usize>>,
    /// Most coefficients a column can have.
    capacity: usize,
    coefficients: Vec<Lane>,
    /// ⟨a, r⟩.
    correlations: Vec<Lane>,
    /// ‖a⊥‖², a⊥ the part orthogonal to the support.
    heights: Vec<Lane>,
}

impl Tiles {
    /// All columns of a pool, for the empty support.
    pub(super) fn new(gram: &Gram, capacity: usize) -> Self {
        let tiles = gram.len().div_ceil(LANES);
        let mut correlations = vec![[0.0; LANES]; tiles];
        correlations.as_flattened_mut()[..gram.len()].copy_from_slice(gram.with_target());
        let coefficients = vec![[0.0; LANES]; tiles * capacity];
        Self { columns: None, capacity, coefficients, correlations, heights: vec![[1.0; LANES]; tiles] }
    }

    /// Takes in the columns that have joined a pool of `known`, for a support that those changes have made.
    pub(super) fn extend(&mut self, known: usize, changes: &[Change], gram: &Gram) {
        // A tile that was not full is made again.
        let (first, tiles) = (known / LANES, gram.len().div_ceil(LANES));
        self.coefficients.truncate(first * self.capacity);
        self.coefficients.resize(tiles * self.capacity, [0.0; LANES]);
        self.heights.truncate(first);
        self.heights.resize(tiles, [1.0; LANES]);
        self.correlations.resize(tiles, [0.0; LANES]);
        let from = first * LANES;
        self.correlations.as_flattened_mut()[from..gram.len()].copy_from_slice(&gram.with_target()[from..]);
        self.apply_from(first, changes, gram);
    }

    /// A copy of a few of the columns, to which changes can be applied ahead of the others.
    pub(super) fn some(&self, columns: &[usize], size: usize) -> Self {
        let tiles = columns.len().div_ceil(LANES);
        let mut some = Self {
            columns: Some(columns.to_vec()),
            capacity: self.capacity,
            coefficients: vec![[0.0; LANES]; tiles * self.capacity],
            correlations: vec![[0.0; LANES]; tiles],
            heights: vec![[1.0; LANES]; tiles],
        };
        for (at, &column) in columns.iter().enumerate() {
            let (from, to) = (column / LANES * self.capacity, at / LANES * self.capacity);
            for i in 0..size {
                some.coefficients[to + i][at % LANES] = self.coefficients[from + i][column % LANES];
            }
            some.correlations.as_flattened_mut()[at] = self.correlation(column);
            some.heights.as_flattened_mut()[at] = self.height(column);
        }
        some
    }

    /// Becomes a copy of another, of which only `size` coefficients a column are in use.
    pub(super) fn copy_from(&mut self, other: &Self, size: usize) {
        self.columns.clone_from(&other.columns);
        self.correlations.clone_from(&other.correlations);
        self.heights.clone_from(&other.heights);
        self.capacity = other.capacity;
        if self.coefficients.len() != other.coefficients.len() {
            self.coefficients = vec![[0.0; LANES]; other.coefficients.len()];
        }
        let stride = self.capacity.max(1);
        for (to, from) in self.coefficients.chunks_mut(stride).zip(other.coefficients.chunks(stride)) {
            to[..size].copy_from_slice(&from[..size]);
        }
    }

    /// The columns, by their places here.
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.columns.as_ref().map_or(LANES * self.heights.len(), Vec::len);
        (0..count).map(|at| (at, self.columns.as_ref().map_or(at, |columns| columns[at])))
    }

    /// ⟨a, r⟩ of the column at a place.
    pub(super) fn correlation(&self, at: usize) -> f64 {
        self.correlations[at / LANES][at % LANES]
    }

    /// ‖a⊥‖² of the column at a place.
    pub(super) fn height(&self, at: usize) -> f64 {
        self.heights[at / LANES][at % LANES]
    }

    /// The coefficients of the column at a place in a basis of `size` vectors.
    pub(super) fn coefficients(&self, at: usize, size: usize) -> Vec<f64> {
        let tile = &self.coefficients[at / LANES * self.capacity..][..size];
        tile.iter().map(|lane| lane[at % LANES]).collect()
    }

    /// Replaces the correlations by exact ones.
    pub(super) fn set_correlations(&mut self, correlations: &[f64]) {
        self.correlations.as_flattened_mut()[..correlations.len()].copy_from_slice(correlations);
    }

    /// Applies changes of the support, in their order.
    pub(super) fn apply(&mut self, changes: &[Change], gram: &Gram) {
        self.apply_from(0, changes, gram);
    }

    /// The same for the tiles from `first` on.
    fn apply_from(&mut self, first: usize, changes: &[Change], gram: &Gram) {
        let (columns, count) = (&self.columns, self.heights.len() - first);
        let work: usize = changes.iter().map(|change| change.size() * LANES * count).sum();
        let tiles = self.coefficients.chunks_mut(self.capacity.max(1));
        let tiles = tiles.zip(self.correlations.iter_mut().zip(&mut self.heights)).enumerate().skip(first);
        let update =
            |(at, (tile, (correlations, heights))): (usize, (&mut [Lane], (&mut Lane, &mut Lane)))| {
                for change in changes {
                    let scores = Scores { correlations: &mut *correlations, heights: &mut *heights };
                    match change {
                        Change::Enter { column, coefficients, height, share } => {
                            let row = gram.row(*column);
                            debug_assert_eq!(row.len(), gram.len(), "not all products of column {column}");
                            // Beyond the pool there are only empty lanes.
                            let product = |other: usize| row.get(other).copied().unwrap_or(0.0);
                            let products = match (columns, row.as_chunks().0.get(at)) {
                                (None, Some(whole)) => *whole,
                                (None, None) => std::array::from_fn(|lane| product(at * LANES + lane)),
                                (Some(columns), _) => std::array::from_fn(|lane| {
                                    columns.get(at * LANES + lane).map_or(0.0, |&other| product(other))
                                }),
                            };
                            enter(tile, coefficients, &products, 1.0 / height, *share, scores);
                        }
                        Change::Leave { place, rotations, share } => {
                            leave(tile, *place, rotations, *share, scores);
                        }
                    }
                }
            };
        if is_shared(work) {
            let mut tiles: Vec<_> = tiles.collect();
            tiles.par_drain(..).for_each(update);
        } else {
            tiles.for_each(update);
        }
    }

    /// For each column the best of the support to exchange it for, as (fall of ‖r‖², place of the one that leaves): with d the unit
    /// dual of that one and p its share of y, the correlation becomes c + p⟨a, d⟩, the height h + ⟨a, d⟩², and ‖r‖²
    /// changes by p² less what the column that enters gains.
    pub(super) fn exchanges(&self, duals: &[f64], shares: &[f64], least_height: f64) -> Vec<(f64, usize)> {
        let mut best = vec![(0.0, 0); LANES * self.heights.len()];
        let tiles: Vec<usize> = (0..self.heights.len()).collect();
        let (work, leaving) = (duals.len() * best.len() / 2, Leaving { duals, shares });
        by_blocks(work, (&tiles, 1), (&mut best, LANES), |tile, best| {
            let (correlations, heights) = (&self.correlations[tile[0]], &self.heights[tile[0]]);
            let coefficients = &self.coefficients[tile[0] * self.capacity..];
            exchange(coefficients, leaving, least_height, correlations, heights, best);
        });
        best
    }
}

/// What is known of the columns of a tile beside their coefficients.
pub(crate) struct Scores<'a> {
    correlations: &'a mut Lane,
    heights: &'a mut Lane,
}

/// The columns of a support, each as the one that leaves.
#[derive(Clone, Copy)]
pub(crate) struct Leaving<'a> {
    /// Their duals, of unit length: rows of an upper triangle.
    duals: &'a [f64],
    /// Their shares of y.
    shares: &'a [f64],
}

dispatched! {
    /// Adds the coefficient of a new basis vector to a tile, and what it takes from correlations and heights.
    fn enter<'a>(
        tile: &'a mut [Lane],
        coefficients: &'a [f64],
        products: &'a Lane,
        inverse_height: f64,
        share: f64,
        scores: Scores<'a>,
    ) |simd| {
        let Scores { correlations, heights } = scores;
        let (before, rest) = tile.split_at_mut(coefficients.len());
        let mut sums = [[0.0; LANES]; 4];
        let (quads, tail) = before.as_chunks::<4>();
        let (quad_coefficients, tail_coefficients) = coefficients.as_chunks::<4>();
        for (lanes, t) in quads.iter().zip(quad_coefficients) {
            for at in 0..4 {
                for lane in 0..LANES {
                    sums[at][lane] = fused(simd, t[at], lanes[at][lane], sums[at][lane]);
                }
            }
        }
        for (lanes, &t) in tail.iter().zip(tail_coefficients) {
            for lane in 0..LANES {
                sums[0][lane] = fused(simd, t, lanes[lane], sums[0][lane]);
            }
        }
        for lane in 0..LANES {
            let known = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
            let new = (products[lane] - known) * inverse_height;
            rest[0][lane] = new;
            correlations[lane] = fused(simd, -share, new, correlations[lane]);
            heights[lane] = fused(simd, -new, new, heights[lane]);
        }
    }
}

dispatched! {
    /// Rotates the coefficients of a tile, and gives back to correlations and heights what the last one took.
    fn leave<'a>(
        tile: &'a mut [Lane],
        place: usize,
        rotations: &'a [(f64, f64)],
        share: f64,
        scores: Scores<'a>,
    ) |simd| {
        let Scores { correlations, heights } = scores;
        let mut carried = tile[place];
        for (i, &(c, s)) in rotations.iter().enumerate() {
            let next = tile[place + i + 1];
            for lane in 0..LANES {
                tile[place + i][lane] = fused(simd, c, carried[lane], s * next[lane]);
                carried[lane] = fused(simd, c, next[lane], -s * carried[lane]);
            }
        }
        for lane in 0..LANES {
            correlations[lane] = fused(simd, share, carried[lane], correlations[lane]);
            heights[lane] = fused(simd, carried[lane], carried[lane], heights[lane]);
        }
    }
}

dispatched! {
    /// The best exchange of each column of a tile.
    fn exchange<'a>(
        tile: &'a [Lane],
        leaving: Leaving<'a>,
        least_height: f64,
        correlations: &'a Lane,
        heights: &'a Lane,
        best: &'a mut [(f64, usize)],
    ) |simd| {
        let Leaving { duals, shares } = leaving;
        let size = shares.len();
        for (place, (dual, &share)) in duals.chunks_exact(size.max(1)).zip(shares).enumerate() {
            let mut sums = [[0.0; LANES]; 2];
            let (pairs, tail) = tile[place..size].as_chunks::<2>();
            let (dual_pairs, dual_tail) = dual[place..].as_chunks::<2>();
            for (lanes, d) in pairs.iter().zip(dual_pairs) {
                for at in 0..2 {
                    for lane in 0..LANES {
                        sums[at][lane] = fused(simd, d[at], lanes[at][lane], sums[at][lane]);
                    }
                }
            }
            for (lanes, &d) in tail.iter().zip(dual_tail) {
                for lane in 0..LANES {
                    sums[0][lane] = fused(simd, d, lanes[lane], sums[0][lane]);
                }
            }
            for lane in 0..LANES {
                let overlap = sums[0][lane] + sums[1][lane];
                let correlation = fused(simd, share, overlap, correlations[lane]).max(0.0);
                let height = fused(simd, overlap, overlap, heights[lane]).max(least_height);
                let fall = correlation * correlation / height - share * share;
                if fall > best[lane].0 {
                    best[lane] = (fall, place);
                }
            }
        }
    }
}
