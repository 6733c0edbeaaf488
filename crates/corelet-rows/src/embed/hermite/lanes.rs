//! Rows side by side: what [`RowMaker::fill`](super::build::RowMaker::fill) does for one row, for many at a time.

use corelet_kernels::simd::instruction_set;
use pulp::{Simd, WithSimd};

use super::build::{RowMaker, careful_length};
use super::expansion::Expanded;
use super::tensor::pairs;
use crate::rows::Held;
use crate::vector_math::{Kernel, Planes, WIDTH, dispatch};

/// Up to [`WIDTH`] rows.
#[derive(Default)]
pub(super) struct Lanes {
    /// v = Lᵀx/s.
    pub(super) directions: Planes,
    /// η̂ and s, and what follows from them.
    pub(super) expanded: Expanded,
    squares: Vec<f64>,
    /// cₘ = √m!·hₘ of each row.
    pub(super) c: [Vec<f64>; 3],
}

impl Lanes {
    /// Computes s, v and xᵀθ̂ of `count` rows from `first` on.
    pub(super) fn load(&mut self, maker: &RowMaker, first: usize, count: usize) {
        let (dim, observations) = (maker.posterior.dim(), &maker.model.observations);
        let Self { directions, expanded: Expanded { eta, s, .. }, squares, .. } = self;
        directions.load(&observations.features[first * dim..(first + count) * dim], dim);
        directions.products(&maker.posterior.mean, eta);
        directions.whiten(&maker.posterior.factor, squares);
        s.clear();
        for (row, &square) in squares.iter().enumerate() {
            let entries = directions.planes().map(|plane| plane[row]);
            s.push(if square.is_normal() { square.sqrt() } else { careful_length(entries) });
        }
        let divisors = squares;
        divisors.iter_mut().zip(&*s).for_each(|(to, &s)| *to = if s > 0.0 { s } else { 1.0 });
        directions.planes_mut().for_each(|plane| dispatch(Divide(plane, divisors)));
        s.truncate(count);
    }

    /// Computes the coefficients of the rows that were loaded.
    pub(super) fn expand(&mut self, maker: &RowMaker, first: usize) {
        let (family, observations) = (&*maker.model.family, &maker.model.observations);
        let rows = &mut self.expanded;
        let range = first..first + rows.s.len();
        if let Some(offset) = &observations.offset {
            rows.eta.iter_mut().zip(&offset[range.clone()]).for_each(|(eta, offset)| *eta += offset);
        }
        let column = |from: Option<&Held<f64>>, without: f64, to: &mut Vec<f64>| {
            to.clear();
            match from.filter(|column| !column.is_empty()) {
                Some(column) => to.extend_from_slice(&column[range.clone()]),
                None => to.resize(range.len(), without),
            }
        };
        column(Some(&observations.target), 0.0, &mut rows.y);
        column(observations.exposure.as_ref(), 1.0, &mut rows.exposure);
        maker.expansion.many(family, rows);
        if let Some(weights) = &observations.weights {
            let weights = &weights[range];
            rows.h.iter_mut().for_each(|h| h.iter_mut().zip(weights).for_each(|(h, weight)| *h *= weight));
        }
        for ((c, h), factor) in self.c.iter_mut().zip(&rows.h).zip([1.0, 2.0, 6.0_f64]) {
            let root = factor.sqrt();
            c.clear();
            c.extend(h.iter().map(|h| root * h));
        }
        if maker.without_two {
            self.c[..2].iter_mut().for_each(|c| c.fill(0.0));
        }
    }

    /// ‖φ‖ = √(Σ m!hₘ²) of a row, since v has unit length.
    pub(super) fn norm(&self, row: usize, order: usize) -> f64 {
        let c = self.c[..order].iter().map(|c| c[row]);
        let squares: f64 = c.clone().map(|c| c * c).sum();
        if squares.is_normal() { squares.sqrt() } else { careful_length(c) }
    }

    /// Puts the directions into blocks of `block` rows, which begin with the first row and have `stride` numbers each.
    pub(super) fn pack(&self, blocks: &mut [f32], block: usize, stride: usize) {
        for (at, blocks) in blocks.chunks_mut(stride).enumerate() {
            for (plane, to) in self.directions.planes().zip(blocks.chunks_exact_mut(block)) {
                to.iter_mut().zip(&plane[at * block..]).for_each(|(to, v)| *to = *v as f32);
            }
        }
    }
}

/// Divides each number by the one beside it.
struct Divide<'a>(&'a mut [f64], &'a [f64]);

impl Kernel for Divide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.0.iter_mut().zip(self.1).for_each(|(v, divisor)| *v /= divisor);
    }
}

/// Adds Σ c₃·vᵢvⱼvₖ for i ≤ j ≤ k, without the multiplicities, to `sum`.
pub(super) struct Cubes<'a> {
    pub(super) lanes: &'a Lanes,
    pub(super) sum: &'a mut [f64],
}

impl Cubes<'_> {
    pub(super) fn add(self) {
        instruction_set().dispatch(self);
    }
}

impl WithSimd for Cubes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Cubes { lanes, sum } = self;
        let mut scales = lanes.c[2].clone();
        scales.resize(WIDTH, 0.0);
        let scales = S::as_simd_f64s(&scales).0;
        let planes: Vec<&[S::f64s]> =
            lanes.directions.planes().map(|plane| S::as_simd_f64s(plane).0).collect();
        let mut sums = vec![simd.splat_f64s(0.0); sum.len()];
        let mut v = Vec::with_capacity(planes.len());
        for (at, scale) in scales.iter().enumerate() {
            v.clear();
            v.extend(planes.iter().map(|plane| plane[at]));
            let mut out = sums.iter_mut();
            for (i, x) in v.iter().enumerate() {
                let scaled = simd.mul_f64s(*scale, *x);
                for (j, y) in v.iter().enumerate().skip(i) {
                    let scaled = simd.mul_f64s(scaled, *y);
                    v[j..]
                        .iter()
                        .zip(&mut out)
                        .for_each(|(v, out)| *out = simd.mul_add_e_f64s(scaled, *v, *out));
                }
            }
        }
        sum.iter_mut().zip(sums).for_each(|(to, sum)| *to += simd.reduce_sum_f64s(sum));
    }
}

/// The columns of many rows as they add up: Σ c₁v, and Σ c₂vvᵀ as a square of which the lower triangle is filled.
pub(super) struct Powers {
    linear: Vec<f64>,
    square: Vec<f64>,
    cubic: Vec<f64>,
}

impl Powers {
    pub(super) fn new(dim: usize, order: usize) -> Self {
        let triples = if order >= 3 { pairs(dim) * (dim + 2) / 3 } else { 0 };
        let square = if order >= 2 { dim * dim } else { 0 };
        Self { linear: vec![0.0; dim], square: vec![0.0; square], cubic: vec![0.0; triples] }
    }

    /// Adds rows whose coefficients are known.
    pub(super) fn add(&mut self, lanes: &mut Lanes) {
        self.add_squares(&mut lanes.directions, &lanes.c);
        if !self.cubic.is_empty() {
            Cubes { lanes, sum: &mut self.cubic }.add();
        }
    }

    /// The same of the orders 1 and 2 alone.
    pub(super) fn add_squares(&mut self, directions: &mut Planes, c: &[Vec<f64>]) {
        directions.add_scaled_rows(&c[0], &mut self.linear);
        if !self.square.is_empty() {
            directions.add_outer_products(&c[1], &mut self.square);
        }
    }

    /// The sum in the order of [`add_powers`](super::tensor::add_powers).
    pub(super) fn into_vector(self) -> Vec<f64> {
        let Self { linear, square, cubic } = self;
        let dim = linear.len();
        let pairs = (0..dim).flat_map(|i| (i..dim).map(move |j| j * dim + i));
        let square: Vec<f64> = if square.is_empty() { square } else { pairs.map(|at| square[at]).collect() };
        [linear, square, cubic].concat()
    }
}
