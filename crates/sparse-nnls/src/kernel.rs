//! The dense inner loops, compiled for every instruction set and chosen at run time.
//!
//! A column's answer does not depend on which tile or thread computed it, so every sum has the same bits for any
//! number of threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use corelet_kernels::simd::{dot_f32, dot_f64, instruction_set};

/// A vector that columns are to be correlated with, prepared once a pass.
#[derive(Debug, Default)]
pub struct Direction {
    wide: Vec<f64>,
    /// The vector scaled to unit length, for columns stored in f32.
    narrow: Vec<f32>,
    length: f64,
}

impl Direction {
    /// Prepares a vector, keeping whatever memory there is.
    pub(crate) fn prepare(&mut self, vector: &[f64]) {
        self.length = norm(vector);
        let scale = if self.length > 0.0 { 1.0 / self.length } else { 0.0 };
        self.wide.clear();
        self.wide.extend_from_slice(vector);
        self.narrow.clear();
        self.narrow.extend(vector.iter().map(|x| (x * scale) as f32));
    }
}

/// A number as a dictionary stores it: `f32` or `f64`.
pub trait Element: Copy + Send + Sync + private::Sealed {
    /// The stored number in f64.
    fn wide(self) -> f64;

    /// out[j] ← ⟨column j, direction⟩ over the columns of a contiguous block.
    #[doc(hidden)]
    fn correlate(columns: &[Self], direction: &Direction, out: &mut [f64]);
}

impl Element for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    /// In f32: exact to about 1e-6·‖φ‖‖u‖, at half the bytes of f64.
    fn correlate(columns: &[Self], direction: &Direction, out: &mut [f64]) {
        correlate_narrow(columns, &direction.narrow, direction.length, out);
    }
}

impl Element for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    fn correlate(columns: &[Self], direction: &Direction, out: &mut [f64]) {
        correlate(columns, &direction.wide, out);
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Defines a function whose body is compiled for every instruction set and picked at run time.
///
/// The arguments travel in a struct because a closure handed to `Arch::dispatch` is not always inlined into the code
/// for its instruction set, and is then compiled for the plainest one.
macro_rules! dispatched {
    ($(#[$doc:meta])* fn $name:ident<$life:lifetime $(, $e:ident)?>($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? |$simd:pat_param| $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name<$life $(, $e: Element)?>($($arg: $type),*) $(-> $out)? {
            struct Op<$life $(, $e)?>($($type),*, std::marker::PhantomData<(&$life (), $($e)?)>);
            impl<$life $(, $e: Element)?> WithSimd for Op<$life $(, $e)?> {
                #[allow(unused_parens)] // the unit type where nothing is returned
                type Output = ($($out)?);
                #[inline(always)]
                fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
                    let Self($($arg),*, _) = self;
                    let $simd = simd;
                    $body
                }
            }
            instruction_set().dispatch(Op($($arg),*, std::marker::PhantomData))
        }
    };
}

/// a·b + c, in one rounding where the instruction set can: elsewhere that would be a call for each number.
#[inline(always)]
pub(crate) fn fused<S: Simd>(_: S, a: f64, b: f64, c: f64) -> f64 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

/// Dot products of `M` vectors with each of `N`, which share the loads: with four by three of them the sums fill sixteen registers, with
/// eight by three thirty-two.
#[inline(always)]
fn dots<S: Simd, const M: usize, const N: usize>(simd: S, a: [&[f64]; M], b: [&[f64]; N]) -> [[f64; M]; N] {
    let (a, b) = (a.map(|a| S::as_simd_f64s(a)), b.map(|b| S::as_simd_f64s(b)));
    // Of one length, and seen to be: no bound is checked in the loop.
    let length = a[0].0.len();
    let (a_heads, b_heads) = (a.map(|a| &a.0[..length]), b.map(|b| &b.0[..length]));
    let mut sums = [[simd.splat_f64s(0.0); M]; N];
    for at in 0..length {
        let b = b_heads.map(|b| b[at]);
        for (i, a) in a_heads.iter().enumerate() {
            let a = a[at];
            for (sums, b) in sums.iter_mut().zip(b) {
                sums[i] = simd.mul_add_e_f64s(a, b, sums[i]);
            }
        }
    }
    let mut out = [[0.0; M]; N];
    for ((out, sums), b) in out.iter_mut().zip(sums).zip(b) {
        let b_tail = simd.partial_load_f64s(b.1);
        for ((out, sum), a) in out.iter_mut().zip(sums).zip(a) {
            *out = simd.reduce_sum_f64s(simd.mul_add_e_f64s(simd.partial_load_f64s(a.1), b_tail, sum));
        }
    }
    out
}

dispatched! {
    /// ⟨a, b⟩.
    fn dot<'a>(a: &'a [f64], b: &'a [f64]) -> f64 |simd| {
        dot_f64(simd, a, b)
    }
}

dispatched! {
    /// out[j] ← ⟨column j, v⟩ over the columns of a contiguous block.
    fn correlate<'a>(columns: &'a [f64], v: &'a [f64], out: &'a mut [f64]) |simd| {
        for (column, out) in columns.chunks_exact(v.len()).zip(out) {
            *out = dot_f64(simd, column, v);
        }
    }
}

dispatched! {
    /// out[j] ← scale·⟨column j, v⟩ over the columns of a contiguous block.
    fn correlate_narrow<'a>(columns: &'a [f32], v: &'a [f32], scale: f64, out: &'a mut [f64]) |simd| {
        for (column, out) in columns.chunks_exact(v.len()).zip(out) {
            *out = scale * f64::from(dot_f32(simd, column, v));
        }
    }
}

dispatched! {
    /// out[j] ← Σᵢ ⟨basis i, column j⟩² over contiguous blocks of columns of length `dim`: a product of two matrices
    /// of which only the squared lengths of its columns are wanted.
    fn overlap_squares<'a>(basis: &'a [f64], columns: &'a [f64], dim: usize, out: &'a mut [f64]) |simd| {
        let slice = |block: &'a [f64], i: usize| &block[i * dim..(i + 1) * dim];
        let (pairs, odd) = basis.split_at(basis.len() / (2 * dim) * (2 * dim));
        for (columns, out) in columns.chunks(4 * dim).zip(out.chunks_mut(4)) {
            out.fill(0.0);
            if out.len() == 4 {
                let four = [slice(columns, 0), slice(columns, 1), slice(columns, 2), slice(columns, 3)];
                for pair in pairs.chunks_exact(2 * dim) {
                    let [a, b] = dots(simd, four, [slice(pair, 0), slice(pair, 1)]);
                    for (i, out) in out.iter_mut().enumerate() {
                        *out += a[i] * a[i] + b[i] * b[i];
                    }
                }
            }
            let rest = if out.len() == 4 { odd } else { basis };
            for (column, out) in columns.chunks_exact(dim).zip(out) {
                *out += rest.chunks_exact(dim).map(|q| dot_f64(simd, column, q).powi(2)).sum::<f64>();
            }
        }
    }
}

dispatched! {
    /// out[i·n + j] ← ⟨vector `ids[i]` of the pool, column j of n⟩ over contiguous vectors of length `dim`: a product of matrices, a part
    /// of the coordinates and of the columns at a time, so that what is multiplied stays in a cache.
    fn inner_products<'a>(pool: &'a [f64], ids: &'a [usize], columns: &'a [f64], dim: usize, out: &'a mut [f64]) |simd| {
        const PART: usize = 512;
        const SIDE: usize = 30;
        let (m, n) = (ids.len(), columns.len() / dim);
        out.fill(0.0);
        let parts = (0..dim).step_by(PART).flat_map(|start| (0..n).step_by(SIDE).map(move |left| (start, left)));
        for (start, left) in parts {
            let (end, right) = (dim.min(start + PART), n.min(left + SIDE));
            let part = Part { pool, ids, columns, dim, coordinates: start..end, side: left..right };
            let (eights, fours) = (if S::REGISTER_COUNT >= 32 { m / 8 * 8 } else { 0 }, m / 4 * 4);
            (0..eights).step_by(8).for_each(|i| part.add::<S, 8>(simd, i, out));
            (eights..fours).step_by(4).for_each(|i| part.add::<S, 4>(simd, i, out));
            for (i, j) in (fours..m).flat_map(|i| (left..right).map(move |j| (i, j))) {
                out[i * n + j] += dot_f64(simd, part.row(i), part.column(j));
            }
        }
    }
}

/// Some coordinates of the vectors of a pool, and of some columns beside each other.
struct Part<'a> {
    pool: &'a [f64],
    ids: &'a [usize],
    columns: &'a [f64],
    dim: usize,
    coordinates: Range<usize>,
    side: Range<usize>,
}

impl<'a> Part<'a> {
    #[inline(always)]
    fn row(&self, i: usize) -> &'a [f64] {
        &self.pool[self.ids[i] * self.dim..][self.coordinates.clone()]
    }

    #[inline(always)]
    fn column(&self, j: usize) -> &'a [f64] {
        &self.columns[j * self.dim..][self.coordinates.clone()]
    }

    /// Adds the products of the `M` rows from `first` on with all columns of the side.
    #[inline(always)]
    fn add<S: Simd, const M: usize>(&self, simd: S, first: usize, out: &mut [f64]) {
        let (n, Range { start: left, end: right }) = (self.columns.len() / self.dim, self.side.clone());
        let rows: [&[f64]; M] = std::array::from_fn(|i| self.row(first + i));
        let mut add = |j: usize, products: [f64; M]| {
            (first..).zip(products).for_each(|(i, product)| out[i * n + j] += product);
        };
        let tripled = right - (right - left) % 3;
        for j in (left..tripled).step_by(3) {
            let three = [self.column(j), self.column(j + 1), self.column(j + 2)];
            (j..).zip(dots(simd, rows, three)).for_each(|(j, products)| add(j, products));
        }
        (tripled..right).for_each(|j| add(j, dots(simd, rows, [self.column(j)])[0]));
    }
}

dispatched! {
    /// y ← y + s·x.
    fn axpy<'a>(s: f64, x: &'a [f64], y: &'a mut [f64]) |simd| {
        for (y, x) in y.iter_mut().zip(x) {
            *y = fused(simd, *x, s, *y);
        }
    }
}

/// Coordinates of a combination that stay in registers while columns are added to it.
pub(crate) const STRIP: usize = 32;

dispatched! {
    /// out ← out + Σ weight · numbers from a place on, over (place, weight): at most [`STRIP`] coordinates of a combination of columns.
    fn combine<'a>(numbers: &'a [f64], terms: &'a [(usize, f64)], out: &'a mut [f64]) |simd| {
        if let Ok(out) = <&mut [f64; STRIP]>::try_from(&mut *out) {
            let mut sums = *out;
            for &(place, weight) in terms {
                let column = &numbers[place..place + STRIP];
                for at in 0..STRIP {
                    sums[at] = fused(simd, column[at], weight, sums[at]);
                }
            }
            *out = sums;
        } else {
            for &(place, weight) in terms {
                for (out, x) in out.iter_mut().zip(&numbers[place..]) {
                    *out = fused(simd, *x, weight, *out);
                }
            }
        }
    }
}

dispatched! {
    /// out ← out + Σⱼ coefficients[j] · column j, over the columns of a contiguous block.
    fn accumulate<'a, E>(columns: &'a [E], coefficients: &'a [f64], out: &'a mut [f64]) |simd| {
        for (column, &s) in columns.chunks_exact(out.len()).zip(coefficients) {
            for (out, x) in out.iter_mut().zip(column) {
                *out = fused(simd, x.wide(), s, *out);
            }
        }
    }
}

dispatched! {
    /// x ← R⁻¹b, R upper triangular, by rows `stride` apart.
    fn solve_triangle<'a>(triangle: &'a [f64], stride: usize, b: &'a [f64], x: &'a mut [f64]) |simd| {
        for i in (0..b.len()).rev() {
            let row = &triangle[i * stride + i..i * stride + b.len()];
            x[i] = (b[i] - dot_f64(simd, &row[1..], &x[i + 1..])) / row[0];
        }
    }
}

dispatched! {
    /// [`STRIP`] columns of R⁻¹, by rows, from column `first` on, given the rows of R from behind the diagonal over minus the
    /// diagonal, `size` apart, and the diagonal's inverses: X = (I − (R/diagonal − I)X)/diagonal from the last row up.
    fn invert_strip<'a>(scaled: &'a [f64], inverses: &'a [f64], first: usize, strip: &'a mut [f64]) |simd| {
        let size = inverses.len();
        let (strip, _) = strip.as_chunks_mut::<STRIP>();
        // Below, an upper triangle is zero.
        for i in (0..size.min(first + STRIP)).rev() {
            let (above, below) = strip.split_at_mut(i + 1);
            let mut sums = [0.0; STRIP];
            let coefficients = &scaled[i * size + i + 1..size.min(first + STRIP) + i * size];
            for (other, &r) in below.iter().zip(coefficients) {
                for at in 0..STRIP {
                    sums[at] = fused(simd, other[at], r, sums[at]);
                }
            }
            above[i] = sums;
            if i >= first {
                above[i][i - first] = inverses[i];
            }
        }
    }
}

dispatched! {
    /// Rotates the pair of vectors: (a, b) ← (c·a + s·b, c·b − s·a).
    fn rotate<'a>(c: f64, s: f64, a: &'a mut [f64], b: &'a mut [f64]) |simd| {
        for (a, b) in a.iter_mut().zip(b) {
            (*a, *b) = (fused(simd, c, *a, s * *b), fused(simd, c, *b, -s * *a));
        }
    }
}

/// ‖a‖₂, safe from overflow for any finite input a dictionary admits.
pub(crate) fn norm(a: &[f64]) -> f64 {
    let squares = dot(a, a);
    if squares.is_normal() {
        return squares.sqrt();
    }
    let largest = a.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    largest * a.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt()
}

pub(crate) use dispatched;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain_dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    proptest! {
        #[test]
        fn kernels_match_their_plain_twins(pairs in prop::collection::vec((-1e3..1e3, -1e3..1e3), 0..200), s in -2.0..2.0) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let scale = 1.0 + plain_dot(&a, &a).sqrt() * plain_dot(&b, &b).sqrt();
            prop_assert!((dot(&a, &b) - plain_dot(&a, &b)).abs() <= 1e-13 * scale);
            prop_assert!((norm(&a) - plain_dot(&a, &a).sqrt()).abs() <= 1e-13 * scale);
            let (mut direction, mut out) = (Direction::default(), [0.0]);
            direction.prepare(&b);
            let narrow: Vec<f32> = a.iter().map(|x| *x as f32).collect();
            if !a.is_empty() {
                f32::correlate(&narrow, &direction, &mut out);
                prop_assert!((out[0] - plain_dot(&a, &b)).abs() <= 3e-6 * scale);
                f64::correlate(&a, &direction, &mut out);
                prop_assert_eq!(out[0], dot(&a, &b));
            }
            let mut y = b.clone();
            axpy(s, &a, &mut y);
            let mut z = b.clone();
            if !a.is_empty() {
                accumulate(&narrow, &[s], &mut z);
            }
            for i in 0..a.len() {
                let close = |got: f64, x: f64| (got - x.mul_add(s, b[i])).abs() <= 1e-15 * ((s * x).abs() + b[i].abs());
                prop_assert!(close(y[i], a[i]));
                prop_assert!(close(z[i], f64::from(narrow[i])));
            }
        }

        #[test]
        fn combinations_match_plain_ones(length in 1..=STRIP, terms in prop::collection::vec((0..40_usize, -2.0..2.0), 0..9)) {
            let number = |i: usize| crate::random::uniform(5, crate::random::Purpose::Race, i) - 0.5;
            let numbers: Vec<f64> = (0..40 + STRIP).map(number).collect();
            let mut out: Vec<f64> = (0..length).map(|i| number(i + 10_000)).collect();
            let plain = |(i, start): (usize, &f64)| start + terms.iter().map(|(at, w)| w * numbers[at + i]).sum::<f64>();
            let want: Vec<f64> = out.iter().enumerate().map(plain).collect();
            combine(&numbers, &terms, &mut out);
            prop_assert!(out.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-14));
        }

        #[test]
        fn blocked_overlaps_match_plain_ones(dim in 1..70_usize, m in 0..6_usize, n in 0..11_usize, seed in any::<u64>()) {
            let number = |i: usize| crate::random::uniform(seed, crate::random::Purpose::Race, i) - 0.5;
            let basis: Vec<f64> = (0..m * dim).map(number).collect();
            let columns: Vec<f64> = (0..n * dim).map(|i| number(i + 10_000)).collect();
            let mut out = vec![f64::NAN; n];
            overlap_squares(&basis, &columns, dim, &mut out);
            for (column, out) in columns.chunks(dim).zip(&out) {
                let plain: f64 = basis.chunks(dim).map(|q| plain_dot(q, column).powi(2)).sum();
                prop_assert!((plain - out).abs() <= 1e-12 * (1.0 + plain));
            }
        }

        #[test]
        fn blocked_products_match_plain_ones(dim in 1..600_usize, m in 1..23_usize, n in 1..70_usize, seed in any::<u64>()) {
            let number = |i: usize| crate::random::uniform(seed, crate::random::Purpose::Race, i) - 0.5;
            let pool: Vec<f64> = (0..(m + 2) * dim).map(number).collect();
            let columns: Vec<f64> = (0..n * dim).map(|i| number(i + 10_000)).collect();
            let ids: Vec<usize> = (0..m).map(|i| m + 1 - i).collect();
            let mut out = vec![f64::NAN; m * n];
            inner_products(&pool, &ids, &columns, dim, &mut out);
            for (out, id) in out.chunks(n).zip(ids) {
                for (out, column) in out.iter().zip(columns.chunks(dim)) {
                    let plain = plain_dot(&pool[id * dim..(id + 1) * dim], column);
                    prop_assert!((plain - out).abs() <= 1e-12 * (1.0 + dim as f64));
                }
            }
        }

        #[test]
        fn triangles_are_solved_and_inverted(size in 1..40_usize, spare in 0..3_usize, seed in any::<u64>()) {
            let number = |i: usize| crate::random::uniform(seed, crate::random::Purpose::Race, i) - 0.5;
            let stride = size + spare;
            let entry = |i: usize, j: usize| if i == j { 2.0 } else { number(i * stride + j) / size as f64 };
            let triangle: Vec<f64> = (0..size * stride).map(|at| entry(at / stride, at % stride)).collect();
            let b: Vec<f64> = (0..size).map(|i| number(i + 10_000)).collect();
            let mut x = vec![0.0; size];
            solve_triangle(&triangle, stride, &b, &mut x);
            for i in 0..size {
                let row = &triangle[i * stride + i..i * stride + size];
                prop_assert!((plain_dot(row, &x[i..]) - b[i]).abs() <= 1e-12);
            }
            let scaled: Vec<f64> = (0..size * size).map(|at| -triangle[at / size * stride + at % size] / 2.0).collect();
            let (inverses, mut sums) = (vec![0.5; size], vec![0.0; size]);
            for first in (0..size).step_by(STRIP) {
                let mut strip = vec![0.0; size * STRIP];
                invert_strip(&scaled, &inverses, first, &mut strip);
                for (sum, strip) in sums.iter_mut().zip(strip.chunks(STRIP)) {
                    *sum += plain_dot(&strip[..STRIP.min(size - first)], &b[first..]);
                }
            }
            prop_assert!(sums.iter().zip(&x).all(|(sum, x)| (sum - x).abs() <= 1e-12));
        }

        #[test]
        fn rotation_keeps_lengths(pairs in prop::collection::vec((-1e3..1e3, -1e3..1e3), 1..100), angle in 0.0..6.3_f64) {
            let (mut a, mut b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let before = dot(&a, &a) + dot(&b, &b);
            rotate(angle.cos(), angle.sin(), &mut a, &mut b);
            prop_assert!((dot(&a, &a) + dot(&b, &b) - before).abs() <= 1e-12 * before);
        }
    }

    #[test]
    fn norm_survives_squares_that_underflow_and_overflow() {
        assert!((norm(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 1e-15);
        assert!((norm(&[3e200, 4e200]) / 5e200 - 1.0).abs() < 1e-15);
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
    }
}
