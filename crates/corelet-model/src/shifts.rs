//! A set of shifts of θ, and the tile product that turns rows of features into shifts of η.

use crate::vector_math::{Kernel, dispatch};
use corelet_kernels::simd::instruction_set;
use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

/// S shifts Δₛ = θₛ − θ̂ of D parameters each, kept in f64 and, transposed, in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub struct Shifts {
    count: usize,
    dim: usize,
    rows: Vec<f64>,
    /// D × padded(S), so that a register full of shifts is contiguous.
    columns: Vec<f32>,
    /// The same in f64, D × S.
    wide_columns: Vec<f64>,
}

/// Shifts as they travel.
#[derive(Serialize, Deserialize)]
struct Rows {
    dim: usize,
    rows: Vec<f64>,
}

impl From<Rows> for Shifts {
    fn from(Rows { dim, rows }: Rows) -> Self {
        Shifts::new(rows, dim)
    }
}

impl From<Shifts> for Rows {
    fn from(Shifts { dim, rows, .. }: Shifts) -> Self {
        Rows { dim, rows }
    }
}

/// f32 numbers in the widest register, by which the transposed copy is padded.
const PAD: usize = 16;

impl Shifts {
    /// From S × D numbers, row-major; a last incomplete row is dropped.
    pub fn new(rows: Vec<f64>, dim: usize) -> Shifts {
        let count = rows.len() / dim.max(1);
        let padded = count.next_multiple_of(PAD);
        let (mut columns, mut wide_columns) = (vec![0.0; dim * padded], vec![0.0; dim * count]);
        for (s, row) in rows.chunks_exact(dim.max(1)).enumerate() {
            for (j, &x) in row.iter().enumerate() {
                columns[j * padded + s] = x as f32;
                wide_columns[j * count + s] = x;
            }
        }
        Shifts { count, dim, rows, columns, wide_columns }
    }

    /// Number of shifts, S.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True where there is no shift.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Δₛ.
    pub fn row(&self, s: usize) -> &[f64] {
        &self.rows[s * self.dim..][..self.dim]
    }

    /// xᵀΔₛ for each row x of `rows` (m × D, row-major) and each s, into `out` (m × S, row-major), in f64. The numbers of a row
    /// do not depend on which rows stand beside it.
    pub fn products_f64<T: Copy + Into<f64>>(&self, rows: &[T], out: &mut [f64]) {
        if self.count > 0 && self.dim > 0 {
            dispatch(WideProducts(self, rows, out));
        }
    }

    /// xᵀΔₛ for each row x of `features` (m × D, row-major) and each s, into `out` (m × S, row-major), in f32.
    pub fn products(&self, features: &[f32], out: &mut [f32]) {
        if self.count > 0 && self.dim > 0 {
            instruction_set().dispatch(Products { shifts: self, features, out });
        }
    }
}

impl Shifts {
    /// The largest |Δₛⱼ| of each parameter j: |xᵀΔₛ| is at most their products with |xⱼ|, added up.
    pub(super) fn reach(&self) -> Vec<f32> {
        let columns = self.columns.chunks_exact(self.count.next_multiple_of(PAD).max(1));
        columns.map(|column| column.iter().fold(0.0, |most, x| x.abs().max(most))).collect()
    }

    /// Adds Σᵢ Σₖ cᵢₖ(xᵢᵀΔₛ)ᵏ to each of the S sums, for the rows xᵢ of `features` (m × D, row-major) and their series, in f32; the
    /// rows, of which there are a few dozen, are added up before they join the sum in f64.
    pub(super) fn add_series(&self, features: &[f32], series: &[[f32; 7]], sum: &mut [f64]) {
        if self.dim > 0 {
            instruction_set().dispatch(SeriesSum { shifts: self, features, series, sum });
        }
    }
}

struct SeriesSum<'a> {
    shifts: &'a Shifts,
    features: &'a [f32],
    series: &'a [[f32; 7]],
    sum: &'a mut [f64],
}

impl WithSimd for SeriesSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SeriesSum { shifts: Shifts { count, dim, columns, .. }, features, series, sum } = self;
        let padded = count.next_multiple_of(PAD);
        // The padding is a multiple of a register, and of two of all but the widest.
        let step = (2 * S::F32_LANES).min(PAD);
        for at in (0..padded).step_by(step) {
            let mut total = [simd.splat_f32s(0.0); 2];
            let tiles = features.chunks(ROWS * dim).zip(series.chunks(ROWS));
            for (rows, series) in tiles {
                if series.len() == ROWS {
                    total = add_tile::<S, ROWS>(simd, (*dim, padded, at), columns, rows, series, total);
                    continue;
                }
                for (row, series) in rows.chunks_exact(*dim).zip(series.chunks_exact(1)) {
                    total = add_tile::<S, 1>(simd, (*dim, padded, at), columns, row, series, total);
                }
            }
            let total = pulp::bytemuck::cast_slice::<S::f32s, f32>(&total);
            let from = at.min(*count);
            sum[from..].iter_mut().zip(&total[..step]).for_each(|(sum, &x)| *sum += f64::from(x));
        }
    }
}

/// Adds the series of M rows at the shifts of two registers from `at` on; of one register where there is no second.
#[inline(always)]
fn add_tile<S: Simd, const M: usize>(
    simd: S,
    (dim, padded, at): (usize, usize, usize),
    columns: &[f32],
    rows: &[f32],
    series: &[[f32; 7]],
    mut total: [S::f32s; 2],
) -> [S::f32s; 2] {
    let second = if 2 * S::F32_LANES <= PAD { S::F32_LANES } else { 0 };
    let mut deltas = [[simd.splat_f32s(0.0); 2]; M];
    for j in 0..dim {
        let column = &columns[j * padded + at..];
        let (a, b) = (S::as_simd_f32s(column).0[0], S::as_simd_f32s(&column[second..]).0[0]);
        for m in 0..M {
            let x = simd.splat_f32s(rows[m * dim + j]);
            deltas[m] = [simd.mul_add_e_f32s(x, a, deltas[m][0]), simd.mul_add_e_f32s(x, b, deltas[m][1])];
        }
    }
    for m in 0..M {
        let mut sums = [simd.splat_f32s(series[m][6]); 2];
        for k in (0..6).rev() {
            let c = simd.splat_f32s(series[m][k]);
            sums = [
                simd.mul_add_e_f32s(sums[0], deltas[m][0], c),
                simd.mul_add_e_f32s(sums[1], deltas[m][1], c),
            ];
        }
        total = [
            simd.mul_add_e_f32s(sums[0], deltas[m][0], total[0]),
            simd.mul_add_e_f32s(sums[1], deltas[m][1], total[1]),
        ];
    }
    total
}

/// xᵀΔₛ of each row x, in f64.
struct WideProducts<'a, T>(&'a Shifts, &'a [T], &'a mut [f64]);

/// Shifts that stay in a cache while rows go by.
const WIDE_BLOCK: usize = 256;

impl<T: Copy + Into<f64>> Kernel for WideProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let WideProducts(Shifts { count, dim, wide_columns, .. }, rows, out) = self;
        for start in (0..*count).step_by(WIDE_BLOCK) {
            let block = start..(*count).min(start + WIDE_BLOCK);
            for (x, out) in rows.chunks_exact(*dim).zip(out.chunks_exact_mut(*count)) {
                let out = &mut out[block.clone()];
                out.fill(0.0);
                for (column, &x) in wide_columns.chunks_exact(*count).zip(x) {
                    let x: f64 = x.into();
                    for (out, shift) in out.iter_mut().zip(&column[block.clone()]) {
                        *out = if FMA { x.mul_add(*shift, *out) } else { *out + x * shift };
                    }
                }
            }
        }
    }
}

struct Products<'a> {
    shifts: &'a Shifts,
    features: &'a [f32],
    out: &'a mut [f32],
}

/// Rows of a register tile.
const ROWS: usize = 4;

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Products { shifts: Shifts { count, dim, columns, .. }, features, out } = self;
        for (rows, out) in features.chunks(ROWS * dim).zip(out.chunks_mut(ROWS * count)) {
            if rows.len() == ROWS * dim {
                tile_product::<S, ROWS>(simd, *dim, *count, columns, rows, out);
                continue;
            }
            for (row, out) in rows.chunks_exact(*dim).zip(out.chunks_exact_mut(*count)) {
                tile_product::<S, 1>(simd, *dim, *count, columns, row, out);
            }
        }
    }
}

/// M rows times all shifts, two registers of shifts at a time.
#[inline(always)]
fn tile_product<S: Simd, const M: usize>(
    simd: S,
    dim: usize,
    count: usize,
    columns: &[f32],
    rows: &[f32],
    out: &mut [f32],
) {
    let padded = count.next_multiple_of(PAD);
    let lanes = S::F32_LANES;
    let mut at = 0;
    while at + 2 * lanes <= padded {
        let mut sums = [[simd.splat_f32s(0.0); 2]; M];
        for j in 0..dim {
            let (shifts, _) = S::as_simd_f32s(&columns[j * padded + at..][..2 * lanes]);
            for m in 0..M {
                let x = simd.splat_f32s(rows[m * dim + j]);
                sums[m][0] = simd.mul_add_e_f32s(x, shifts[0], sums[m][0]);
                sums[m][1] = simd.mul_add_e_f32s(x, shifts[1], sums[m][1]);
            }
        }
        for (m, sum) in sums.iter().enumerate() {
            store(simd, sum[0], &mut out[m * count..][..count], at);
            store(simd, sum[1], &mut out[m * count..][..count], at + lanes);
        }
        at += 2 * lanes;
    }
    while at < padded {
        for m in 0..M {
            let mut sum = simd.splat_f32s(0.0);
            for j in 0..dim {
                let (shifts, _) = S::as_simd_f32s(&columns[j * padded + at..][..lanes]);
                sum = simd.mul_add_e_f32s(simd.splat_f32s(rows[m * dim + j]), shifts[0], sum);
            }
            store(simd, sum, &mut out[m * count..][..count], at);
        }
        at += lanes;
    }
}

/// Writes a register at `at`, or as much of it as there is room for.
#[inline(always)]
fn store<S: Simd>(simd: S, value: S::f32s, row: &mut [f32], at: usize) {
    let Some(place) = row.get_mut(at..) else { return };
    let (whole, rest) = S::as_mut_simd_f32s(place);
    match whole.first_mut() {
        Some(place) => *place = value,
        None => simd.partial_store_f32s(rest, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_plain_sums() {
        for (dim, count, rows) in
            [(1, 1, 1), (3, 16, 4), (5, 17, 6), (10, 100, 9), (2, 47, 3), (7, 64, 8), (3, 600, 5)]
        {
            let values: Vec<f64> = (0..dim * count).map(|i| (i as f64 * 0.7).sin()).collect();
            let features: Vec<f32> = (0..dim * rows).map(|i| (i as f32 * 1.3).cos()).collect();
            let shifts = Shifts::new(values, dim);
            let mut out = vec![f32::NAN; rows * count];
            shifts.products(&features, &mut out);
            for i in 0..rows {
                for s in 0..count {
                    let want: f64 =
                        shifts.row(s).iter().zip(&features[i * dim..]).map(|(a, b)| a * *b as f64).sum();
                    assert!((out[i * count + s] as f64 - want).abs() < 1e-5, "{dim} {count} {rows} {i} {s}");
                }
            }
            let mut wide = vec![f64::NAN; rows * count];
            shifts.products_f64(&features, &mut wide);
            for i in 0..rows {
                for s in 0..count {
                    let want: f64 =
                        shifts.row(s).iter().zip(&features[i * dim..]).map(|(a, b)| a * *b as f64).sum();
                    assert!((wide[i * count + s] - want).abs() < 1e-14, "{dim} {count} {rows} {i} {s}");
                }
                let mut alone = vec![f64::NAN; count];
                shifts.products_f64(&features[i * dim..(i + 1) * dim], &mut alone);
                assert_eq!(alone, wide[i * count..(i + 1) * count]);
            }
        }
    }

    #[test]
    fn sums_of_series_equal_plain_ones() {
        for (dim, count, rows) in [(1, 1, 1), (3, 16, 4), (5, 17, 6), (10, 250, 33), (2, 47, 3), (43, 100, 9)]
        {
            let values: Vec<f64> = (0..dim * count).map(|i| 0.02 * (i as f64 * 0.7).sin()).collect();
            let features: Vec<f32> = (0..dim * rows).map(|i| (i as f32 * 1.3).cos()).collect();
            let series: Vec<[f32; 7]> =
                (0..rows).map(|i| std::array::from_fn(|k| (0.3 + (i * 7 + k) as f32).sin())).collect();
            let shifts = Shifts::new(values, dim);
            let mut sum = vec![0.25; count];
            shifts.add_series(&features, &series, &mut sum);
            let reach = shifts.reach();
            for (s, sum) in sum.iter().enumerate() {
                let mut want = 0.25;
                for (x, series) in features.chunks(dim).zip(&series) {
                    let delta: f64 = shifts.row(s).iter().zip(x).map(|(a, b)| a * f64::from(*b)).sum();
                    let bound: f32 = x.iter().zip(&reach).map(|(x, reach)| x.abs() * reach).sum();
                    assert!(delta.abs() <= f64::from(bound) * 1.00001, "{dim} {count} {s}");
                    want += series.iter().rev().fold(0.0, |sum, &c| (sum + f64::from(c)) * delta);
                }
                assert!((sum - want).abs() < 2e-6, "{dim} {count} {rows} {s}: {sum} {want}");
            }
        }
    }
}
