//! The correlation of rows that are in cache with one or two vectors, for every instruction set.

use corelet_kernels::simd::{dot_f32, instruction_set};
use pulp::{Simd, WithSimd};

/// out[m] ← ⟨row m, u⟩, or [⟨row m, u⟩, ⟨row m, v⟩] where v is given, over contiguous rows as long as u.
///
/// A row's answer does not depend on the rows beside it.
pub(super) fn correlate(rows: &[f32], u: &[f32], v: Option<&[f32]>, out: &mut [[f32; 2]]) {
    if !u.is_empty() {
        instruction_set().dispatch(Correlate { rows, u, v, out });
    }
}

struct Correlate<'a> {
    rows: &'a [f32],
    u: &'a [f32],
    v: Option<&'a [f32]>,
    out: &'a mut [[f32; 2]],
}

impl WithSimd for Correlate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Correlate { rows, u, v, out } = self;
        for (row, out) in rows.chunks_exact(u.len()).zip(out) {
            *out = match v {
                None => [dot_f32(simd, row, u), 0.0],
                Some(v) => [dot_f32(simd, row, u), dot_f32(simd, row, v)],
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_equal_plain_sums() {
        for (count, rows) in [(1, 1), (2, 3), (15, 2), (16, 5), (67, 4), (500, 3), (513, 1)] {
            let number = |i: usize| ((i * 7919) as f32 * 0.37).sin();
            let entries: Vec<f32> = (0..rows * count).map(number).collect();
            let u: Vec<f32> = (0..count).map(|i| number(i + 10_000)).collect();
            let v: Vec<f32> = (0..count).map(|i| number(i + 20_000)).collect();
            let (mut one, mut two) = (vec![[f32::NAN; 2]; rows], vec![[f32::NAN; 2]; rows]);
            correlate(&entries, &u, None, &mut one);
            correlate(&entries, &u, Some(&v), &mut two);
            for (m, row) in entries.chunks(count).enumerate() {
                let plain = |w: &[f32]| row.iter().zip(w).map(|(a, b)| f64::from(a * b)).sum::<f64>();
                assert!((f64::from(two[m][0]) - plain(&u)).abs() < 1e-4, "{count} {rows}");
                assert!((f64::from(two[m][1]) - plain(&v)).abs() < 1e-4, "{count} {rows}");
                assert_eq!(one[m], [two[m][0], 0.0]);
            }
        }
    }
}
