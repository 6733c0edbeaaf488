//! Rows side by side, feature after feature, so that a register holds one feature of several rows: Xθ, Xᵀs and Σ sᵢxᵢxᵢᵀ of
//! short rows without a sum across a register, and without a register that a short row leaves half empty.

use corelet_kernels::simd::instruction_set;
use pulp::{Simd, WithSimd};

/// Rows that stand side by side at a time: a dozen features of them, plain and scaled, fit the first-level cache.
pub const WIDTH: usize = 128;

/// Features by features of Σ sxxᵀ whose sums stay in registers while the rows go by.
const TILE: usize = 3;

/// Up to [`WIDTH`] rows of D numbers, D planes of as many numbers as there is room for rows. What is beyond the rows is zero.
#[derive(Debug, Default)]
pub struct Planes {
    dim: usize,
    rows: usize,
    /// Whole tiles of planes: those beyond D are zero.
    numbers: Vec<f64>,
    /// The same times the scales of the rows, and these.
    scaled: Vec<f64>,
    scales: Vec<f64>,
}

impl Planes {
    /// Other rows, row-major, of `dim` numbers each: at most [`WIDTH`] of them.
    pub fn load<T: Copy + Into<f64>>(&mut self, rows: &[T], dim: usize) {
        let (count, length) = (rows.len() / dim.max(1), dim.next_multiple_of(TILE) * WIDTH);
        if count < WIDTH || self.dim != dim || self.numbers.len() != length {
            self.numbers.clear();
            self.numbers.resize(length, 0.0);
            self.scaled.resize(length, 0.0);
            self.scales.resize(WIDTH, 0.0);
        }
        (self.dim, self.rows) = (dim, count);
        for (j, plane) in self.numbers.chunks_exact_mut(WIDTH).enumerate().take(dim) {
            plane.iter_mut().zip(rows[j..].iter().step_by(dim)).for_each(|(to, &x)| *to = x.into());
        }
    }

    /// So many rows of `dim` zeros.
    pub fn clear(&mut self, dim: usize, rows: usize) {
        let length = dim.next_multiple_of(TILE) * WIDTH;
        (self.dim, self.rows) = (dim, rows);
        self.numbers.clear();
        self.numbers.resize(length, 0.0);
        self.scaled.resize(length, 0.0);
        self.scales.resize(WIDTH, 0.0);
    }

    /// Lᵀx of each row into the planes of `out`, for as many rows of L, row-major, as x has numbers; those up to `first` before the
    /// i-th of row i are not zero.
    pub fn multiply(&self, factor: &[f64], first: usize, out: &mut Planes) {
        instruction_set().dispatch(Multiply { planes: self, factor, first, out });
    }

    /// The planes, each with room for [`WIDTH`] rows, to be changed.
    pub fn planes_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.numbers.chunks_exact_mut(WIDTH).take(self.dim)
    }

    /// The planes, each of [`WIDTH`] numbers.
    pub fn planes(&self) -> impl Iterator<Item = &[f64]> + Clone {
        self.numbers.chunks_exact(WIDTH).take(self.dim)
    }

    /// x ← Lᵀx of each row for a row-major lower triangular L, and ‖Lᵀx‖² into `squares`.
    pub fn whiten(&mut self, factor: &[f64], squares: &mut Vec<f64>) {
        squares.clear();
        squares.resize(WIDTH, 0.0);
        instruction_set().dispatch(Whiten { planes: self, factor, squares });
    }

    /// xᵢᵀθ of each row, into `out`.
    pub fn products(&self, theta: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.resize(WIDTH, 0.0);
        instruction_set().dispatch(Products { planes: self, theta, out });
        out.truncate(self.rows);
    }

    /// Adds Σ sᵢxᵢ to `sum`, D numbers.
    pub fn add_scaled_rows(&mut self, scales: &[f64], sum: &mut [f64]) {
        self.keep(scales);
        instruction_set().dispatch(ScaledRows { planes: self, sum });
    }

    /// Adds the lower triangle of Σ sᵢxᵢxᵢᵀ to `sum`, D × D.
    pub fn add_outer_products(&mut self, scales: &[f64], sum: &mut [f64]) {
        self.keep(scales);
        instruction_set().dispatch(OuterProducts { planes: self, sum });
    }

    fn keep(&mut self, scales: &[f64]) {
        let (mine, beyond) = self.scales.split_at_mut(self.rows);
        mine.copy_from_slice(scales);
        beyond.fill(0.0);
    }
}

/// Registers of a plane that go through a triangle at once: enough to hide the latency of a multiply-add.
const STRIP: usize = 4;

struct Whiten<'a> {
    planes: &'a mut Planes,
    factor: &'a [f64],
    squares: &'a mut [f64],
}

impl WithSimd for Whiten<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Whiten { planes: Planes { dim, numbers, .. }, factor, squares } = self;
        let (numbers, _) = S::as_mut_simd_f64s(numbers).0.as_chunks_mut::<STRIP>();
        let (squares, _) = S::as_mut_simd_f64s(squares).0.as_chunks_mut::<STRIP>();
        let tall = squares.len();
        for (at, squares) in squares.iter_mut().enumerate() {
            for column in 0..*dim {
                // The plane of this column is not needed again: those that follow begin further down.
                let mut sum = [simd.splat_f64s(0.0); STRIP];
                for (x, row) in numbers[at..].iter().step_by(tall).zip(factor.chunks_exact(*dim)).skip(column)
                {
                    let l = simd.splat_f64s(row[column]);
                    sum = [
                        simd.mul_add_e_f64s(x[0], l, sum[0]),
                        simd.mul_add_e_f64s(x[1], l, sum[1]),
                        simd.mul_add_e_f64s(x[2], l, sum[2]),
                        simd.mul_add_e_f64s(x[3], l, sum[3]),
                    ];
                }
                numbers[at + column * tall] = sum;
                squares.iter_mut().zip(sum).for_each(|(to, v)| *to = simd.mul_add_e_f64s(v, v, *to));
            }
        }
    }
}

struct Multiply<'a> {
    planes: &'a Planes,
    factor: &'a [f64],
    first: usize,
    out: &'a mut Planes,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Multiply { planes: Planes { dim, numbers, .. }, factor, first, out } = self;
        let (numbers, _) = S::as_simd_f64s(numbers).0.as_chunks::<STRIP>();
        let width = out.dim;
        let (to, _) = S::as_mut_simd_f64s(&mut out.numbers).0.as_chunks_mut::<STRIP>();
        let tall = WIDTH / (STRIP * S::F64_LANES);
        for at in 0..tall {
            for column in 0..width.min(first + dim) {
                let above = column.saturating_sub(first);
                let mut sum = [simd.splat_f64s(0.0); STRIP];
                let rows = numbers[at..].iter().step_by(tall).zip(factor.chunks_exact(width));
                for (x, row) in rows.take(*dim).skip(above) {
                    let l = simd.splat_f64s(row[column]);
                    sum = [
                        simd.mul_add_e_f64s(x[0], l, sum[0]),
                        simd.mul_add_e_f64s(x[1], l, sum[1]),
                        simd.mul_add_e_f64s(x[2], l, sum[2]),
                        simd.mul_add_e_f64s(x[3], l, sum[3]),
                    ];
                }
                to[at + column * tall] = sum;
            }
        }
    }
}

struct Products<'a> {
    planes: &'a Planes,
    theta: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Products { planes, theta, out } = self;
        let out = S::as_mut_simd_f64s(out).0;
        for (plane, &factor) in planes.planes().zip(theta) {
            let (plane, factor) = (S::as_simd_f64s(plane).0, simd.splat_f64s(factor));
            out.iter_mut().zip(plane).for_each(|(out, x)| *out = simd.mul_add_e_f64s(factor, *x, *out));
        }
    }
}

struct ScaledRows<'a> {
    planes: &'a Planes,
    sum: &'a mut [f64],
}

impl WithSimd for ScaledRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ScaledRows { planes, sum } = self;
        let (scales, _) = S::as_simd_f64s(&planes.scales).0.as_chunks::<4>();
        for (plane, sum) in planes.planes().zip(sum) {
            let (plane, _) = S::as_simd_f64s(plane).0.as_chunks::<4>();
            let zero = simd.splat_f64s(0.0);
            // Four by name: enough to hide the latency of a multiply-add, and an array would be kept in memory.
            let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
            for (s, x) in scales.iter().zip(plane) {
                a = simd.mul_add_e_f64s(s[0], x[0], a);
                b = simd.mul_add_e_f64s(s[1], x[1], b);
                c = simd.mul_add_e_f64s(s[2], x[2], c);
                d = simd.mul_add_e_f64s(s[3], x[3], d);
            }
            *sum += simd.reduce_sum_f64s(simd.add_f64s(simd.add_f64s(a, b), simd.add_f64s(c, d)));
        }
    }
}

struct OuterProducts<'a> {
    planes: &'a mut Planes,
    sum: &'a mut [f64],
}

impl WithSimd for OuterProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OuterProducts { planes: Planes { dim, numbers, scaled, scales, .. }, sum } = self;
        let dim = *dim;
        let (plain, scales) = (S::as_simd_f64s(numbers).0, S::as_simd_f64s(scales).0);
        let tall = scales.len();
        let scaled = S::as_mut_simd_f64s(scaled).0;
        for (plain, scaled) in plain.chunks_exact(tall).zip(scaled.chunks_exact_mut(tall)) {
            let numbers = scaled.iter_mut().zip(plain).zip(scales);
            numbers.for_each(|((to, x), s)| *to = simd.mul_f64s(*x, *s));
        }
        for i in (0..dim).step_by(TILE) {
            for j in (0..=i).step_by(TILE) {
                let tile = tile(simd, &scaled[i * tall..], &plain[j * tall..], tall);
                for (row, values) in (i..dim).zip(tile) {
                    for (column, value) in (j..=row).zip(values) {
                        sum[row * dim + column] += simd.reduce_sum_f64s(value);
                    }
                }
            }
        }
    }
}

/// The products of three planes with three others.
#[inline(always)]
fn tile<S: Simd>(simd: S, left: &[S::f64s], right: &[S::f64s], tall: usize) -> [[S::f64s; TILE]; TILE] {
    let zero = simd.splat_f64s(0.0);
    let (mut a, mut b, mut c) = ([zero; TILE], [zero; TILE], [zero; TILE]);
    let (p, rest) = left.split_at(tall);
    let (q, r) = rest.split_at(tall);
    let (x, rest) = right.split_at(tall);
    let (y, z) = rest.split_at(tall);
    for ((((p, q), r), (x, y)), z) in p.iter().zip(q).zip(r).zip(x.iter().zip(y)).zip(z) {
        a = add_products(simd, *p, [*x, *y, *z], a);
        b = add_products(simd, *q, [*x, *y, *z], b);
        c = add_products(simd, *r, [*x, *y, *z], c);
    }
    [a, b, c]
}

#[inline(always)]
fn add_products<S: Simd>(
    simd: S,
    p: S::f64s,
    [x, y, z]: [S::f64s; TILE],
    sum: [S::f64s; TILE],
) -> [S::f64s; TILE] {
    [simd.mul_add_e_f64s(p, x, sum[0]), simd.mul_add_e_f64s(p, y, sum[1]), simd.mul_add_e_f64s(p, z, sum[2])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_agrees_with_the_definition() {
        let mut planes = Planes::default();
        for (dim, rows) in
            [(1, 1), (2, 128), (3, 5), (9, 127), (10, 128), (11, 64), (15, 100), (16, 3), (4, 128)]
        {
            let features: Vec<f32> = (0..rows * dim).map(|i| (0.7 * i as f32).sin()).collect();
            let theta: Vec<f64> = (0..dim).map(|i| (1.3 * i as f64).cos()).collect();
            let scales: Vec<f64> = (0..rows).map(|i| (1.1 * i as f64).cos()).collect();
            let x = |row: usize, j: usize| f64::from(features[row * dim + j]);
            planes.load(&features, dim);
            let mut out = vec![9.0];
            planes.products(&theta, &mut out);
            assert_eq!(out.len(), rows);
            for (row, got) in out.iter().enumerate() {
                let want: f64 = (0..dim).map(|j| x(row, j) * theta[j]).sum();
                assert!((got - want).abs() < 1e-13, "{dim} {row}");
            }
            let lower = corelet_kernels::linalg::row_major(dim, |i, j| {
                if j <= i { (1.7 * (i + 2 * j) as f64).sin() } else { 9.0 }
            });
            let (mut white, mut squares) = (Planes::default(), Vec::new());
            white.load(&features, dim);
            white.whiten(&lower, &mut squares);
            for row in 0..rows {
                let want = |j: usize| (j..dim).map(|i| lower[i * dim + j] * x(row, i)).sum::<f64>();
                assert!(white.planes().enumerate().all(|(j, plane)| (plane[row] - want(j)).abs() < 1e-13));
                let square: f64 = (0..dim).map(|j| want(j).powi(2)).sum();
                assert!((squares[row] - square).abs() < 1e-12, "{dim} {row}");
            }
            let (mut sum, mut outer) = (vec![0.5; dim], vec![0.5; dim * dim]);
            planes.add_scaled_rows(&scales, &mut sum);
            planes.add_outer_products(&scales, &mut outer);
            for i in 0..dim {
                let want = 0.5 + (0..rows).map(|row| scales[row] * x(row, i)).sum::<f64>();
                assert!((sum[i] - want).abs() < 1e-12, "{dim} {rows} {i}");
                for j in 0..dim {
                    let all = (0..rows).map(|row| scales[row] * x(row, i) * x(row, j)).sum::<f64>();
                    let want = 0.5 + if j <= i { all } else { 0.0 };
                    assert!((outer[i * dim + j] - want).abs() < 1e-12, "{dim} {rows} {i} {j}");
                }
            }
        }
    }
}
