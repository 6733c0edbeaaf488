//! A set of shifts of θ, and the tile product that turns rows of features into shifts of η.

use crate::vector_math::{Kernel, dispatch};
use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};
use sparse_nnls::simd::instruction_set;

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
}
