//! The correlation of rows that are in cache with one or two vectors, for every instruction set.

use pulp::{Simd, WithSimd};
use sparse_nnls::instruction_set;

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
                None => [dot(simd, row, u), 0.0],
                Some(v) => [dot(simd, row, u), dot(simd, row, v)],
            };
        }
    }
}

/// Σ aᵢbᵢ over four registers of accumulators.
#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a_body, a_tail), (b_body, b_tail)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let ((a_quads, a_rest), (b_quads, b_rest)) = (a_body.as_chunks::<4>(), b_body.as_chunks::<4>());
    let zero = simd.splat_f32s(0.0);
    let (mut p, mut q, mut r, mut s) = (zero, zero, zero, zero);
    for (x, y) in a_quads.iter().zip(b_quads) {
        p = simd.mul_add_e_f32s(x[0], y[0], p);
        q = simd.mul_add_e_f32s(x[1], y[1], q);
        r = simd.mul_add_e_f32s(x[2], y[2], r);
        s = simd.mul_add_e_f32s(x[3], y[3], s);
    }
    for (x, y) in a_rest.iter().zip(b_rest) {
        p = simd.mul_add_e_f32s(*x, *y, p);
    }
    q = simd.mul_add_e_f32s(simd.partial_load_f32s(a_tail), simd.partial_load_f32s(b_tail), q);
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(p, q), simd.add_f32s(r, s)))
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
