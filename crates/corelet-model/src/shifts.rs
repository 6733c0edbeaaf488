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
    /// In f32, panels of [`PAD`] shifts one after the other, each D × [`PAD`]: what a register tile reads is contiguous.
    panels: Vec<f32>,
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

/// f32 numbers in two of the widest registers: shifts of a panel, of which the last is filled up with zeros.
const PAD: usize = 32;

/// Bytes of a cache of one core in which all panels had better be while few rows go by; rows that go by otherwise.
const CACHE: usize = 1 << 19;
const MANY_ROWS: usize = 32;

impl Shifts {
    /// From S × D numbers, row-major; a last incomplete row is dropped.
    pub fn new(rows: Vec<f64>, dim: usize) -> Shifts {
        let count = rows.len() / dim.max(1);
        let padded = count.next_multiple_of(PAD);
        let (mut panels, mut wide_columns) = (vec![0.0; dim * padded], vec![0.0; dim * count]);
        for (s, row) in rows.chunks_exact(dim.max(1)).enumerate() {
            let panel = &mut panels[s / PAD * PAD * dim..];
            for (j, &x) in row.iter().enumerate() {
                panel[j * PAD + s % PAD] = x as f32;
                wide_columns[j * count + s] = x;
            }
        }
        Shifts { count, dim, rows, panels, wide_columns }
    }

    /// Number of shifts, S.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is no shift.
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

    /// How many rows [`products`](Self::products) takes at once with the least reading: few where all shifts stay in a cache meanwhile.
    pub(super) fn rows_at_once(&self) -> usize {
        if size_of_val(&self.panels[..]) > CACHE { MANY_ROWS } else { ROWS }
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
        let mut reach = vec![0.0_f32; self.dim];
        for panel in self.panels.chunks_exact((PAD * self.dim).max(1)) {
            for (most, line) in reach.iter_mut().zip(panel.chunks_exact(PAD)) {
                *most = line.iter().fold(*most, |most, x| x.abs().max(most));
            }
        }
        reach
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
        let SeriesSum { shifts: Shifts { dim, panels, .. }, features, series, sum } = self;
        let step = 2 * S::F32_LANES;
        for (panel, sum) in panels.chunks_exact(PAD * dim).zip(sum.chunks_mut(PAD)) {
            for at in (0..sum.len()).step_by(step) {
                let mut total = [simd.splat_f32s(0.0); 2];
                let tiles = features.chunks(ROWS * dim).zip(series.chunks(ROWS));
                for (rows, series) in tiles {
                    if series.len() == ROWS {
                        total = add_tile::<S, ROWS>(simd, (*dim, at), panel, rows, series, total);
                        continue;
                    }
                    for (row, series) in rows.chunks_exact(*dim).zip(series.chunks_exact(1)) {
                        total = add_tile::<S, 1>(simd, (*dim, at), panel, row, series, total);
                    }
                }
                let total = pulp::bytemuck::cast_slice::<S::f32s, f32>(&total);
                sum[at..].iter_mut().zip(total).for_each(|(sum, &x)| *sum += f64::from(x));
            }
        }
    }
}

/// xᵀΔₛ of M rows x for the shifts of two registers, from `at` on in a panel.
#[inline(always)]
fn tile<S: Simd, const M: usize>(
    simd: S,
    (dim, at): (usize, usize),
    panel: &[f32],
    rows: &[f32],
) -> [[S::f32s; 2]; M] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; M];
    for j in 0..dim {
        let (shifts, _) = S::as_simd_f32s(&panel[j * PAD + at..][..2 * S::F32_LANES]);
        for m in 0..M {
            let x = simd.splat_f32s(rows[m * dim + j]);
            sums[m] = [
                simd.mul_add_e_f32s(x, shifts[0], sums[m][0]),
                simd.mul_add_e_f32s(x, shifts[1], sums[m][1]),
            ];
        }
    }
    sums
}

/// Adds the series of M rows at these shifts.
#[inline(always)]
fn add_tile<S: Simd, const M: usize>(
    simd: S,
    place: (usize, usize),
    panel: &[f32],
    rows: &[f32],
    series: &[[f32; 7]],
    mut total: [S::f32s; 2],
) -> [S::f32s; 2] {
    let deltas = tile::<S, M>(simd, place, panel, rows);
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
        let Products { shifts: Shifts { count, dim, panels, .. }, features, out } = self;
        for (first, panel) in (0..*count).step_by(PAD).zip(panels.chunks_exact(PAD * dim)) {
            for (rows, out) in features.chunks(ROWS * dim).zip(out.chunks_mut(ROWS * count)) {
                if rows.len() == ROWS * dim {
                    tile_product::<S, ROWS>(simd, *dim, panel, rows, (out, *count, first));
                    continue;
                }
                for (row, out) in rows.chunks_exact(*dim).zip(out.chunks_exact_mut(*count)) {
                    tile_product::<S, 1>(simd, *dim, panel, row, (out, *count, first));
                }
            }
        }
    }
}

/// M rows times the shifts of a panel, into the columns of `out` from `first` on.
#[inline(always)]
fn tile_product<S: Simd, const M: usize>(
    simd: S,
    dim: usize,
    panel: &[f32],
    rows: &[f32],
    (out, count, first): (&mut [f32], usize, usize),
) {
    let lanes = S::F32_LANES;
    for at in (0..PAD.min(count - first)).step_by(2 * lanes) {
        let sums = tile::<S, M>(simd, (dim, at), panel, rows);
        for (m, sum) in sums.iter().enumerate() {
            store(simd, sum[0], &mut out[m * count..][..count], first + at);
            store(simd, sum[1], &mut out[m * count..][..count], first + at + lanes);
        }
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
        for (dim, count, rows) in [
            (1, 1, 1),
            (3, 16, 4),
            (5, 17, 6),
            (10, 100, 9),
            (2, 47, 3),
            (7, 64, 8),
            (3, 600, 5),
            (40, 70, 37),
        ] {
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
