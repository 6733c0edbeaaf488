//! Σ sᵢxᵢxᵢᵀ over rows: the Hessian of a model with a linear predictor.

use crate::linalg::add_cross_product;
use pulp::{Simd, WithSimd};
use sparse_nnls::simd::instruction_set;

/// From this dimension on a matrix product saves more than it costs to set up.
const LARGE: usize = 16;

/// Adds the lower triangle of Σ sᵢxᵢxᵢᵀ to `sum`, D × D; `features` holds a row of D numbers for each scale.
pub(super) fn add_outer_products(
    sum: &mut [f64],
    scales: &[f64],
    features: &[f64],
    dim: usize,
    scratch: &mut Vec<f64>,
) {
    if dim < LARGE {
        return instruction_set().dispatch(Small { sum, scales, features, dim, scratch });
    }
    scratch.clear();
    let scaled = features.chunks_exact(dim).zip(scales).flat_map(|(x, s)| x.iter().map(move |x| s * x));
    scratch.extend(scaled);
    add_cross_product(sum, scratch, features, scales.len(), dim);
}

/// The same for small D: rows padded to whole registers, and each register of the sum loaded once for four rows.
struct Small<'a> {
    sum: &'a mut [f64],
    scales: &'a [f64],
    features: &'a [f64],
    dim: usize,
    scratch: &'a mut Vec<f64>,
}

impl WithSimd for Small<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Small { sum, scales, features, dim, scratch } = self;
        let lanes = size_of::<S::f64s>() / size_of::<f64>();
        let stride = dim.next_multiple_of(lanes);
        scratch.clear();
        scratch.resize((4 + dim) * stride, 0.0);
        let (padded, total) = scratch.split_at_mut(4 * stride);
        for (rows, scales) in features.chunks(4 * dim).zip(scales.chunks(4)) {
            let mut factors = [0.0; 4];
            factors[..scales.len()].copy_from_slice(scales);
            for (to, x) in padded.chunks_exact_mut(stride).zip(rows.chunks_exact(dim)) {
                to[..dim].copy_from_slice(x);
            }
            // Unrolled by hand: an array of registers would be kept in memory.
            let (first, second) = padded.split_at(2 * stride);
            let ((a, b), (c, d)) = (first.split_at(stride), second.split_at(stride));
            let [ra, rb, rc, rd] = [a, b, c, d].map(|row| S::as_simd_f64s(row).0);
            for (i, total) in total.chunks_exact_mut(stride).enumerate() {
                let la = simd.splat_f64s(factors[0] * a[i]);
                let lb = simd.splat_f64s(factors[1] * b[i]);
                let lc = simd.splat_f64s(factors[2] * c[i]);
                let ld = simd.splat_f64s(factors[3] * d[i]);
                for (at, total) in S::as_mut_simd_f64s(total).0[..=i / lanes].iter_mut().enumerate() {
                    let first = simd.mul_add_e_f64s(lb, rb[at], simd.mul_add_e_f64s(la, ra[at], *total));
                    *total = simd.mul_add_e_f64s(ld, rd[at], simd.mul_add_e_f64s(lc, rc[at], first));
                }
            }
        }
        for (i, (sum, total)) in sum.chunks_exact_mut(dim).zip(total.chunks_exact(stride)).enumerate() {
            sum[..=i].iter_mut().zip(total).for_each(|(sum, total)| *sum += total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_agrees_with_the_definition() {
        for dim in [1, 2, 3, 7, 8, 9, 10, 15, 16, 21] {
            for rows in [1, 3, 4, 5, 32] {
                let features: Vec<f64> = (0..rows * dim).map(|i| (0.7 * i as f64).sin()).collect();
                let scales: Vec<f64> = (0..rows).map(|i| (1.1 * i as f64).cos()).collect();
                let mut sum = vec![0.5; dim * dim];
                add_outer_products(&mut sum, &scales, &features, dim, &mut Vec::new());
                for i in 0..dim {
                    for j in 0..=i {
                        let row = |r: usize| scales[r] * features[r * dim + i] * features[r * dim + j];
                        let want = 0.5 + (0..rows).map(row).sum::<f64>();
                        assert!((sum[i * dim + j] - want).abs() < 1e-13, "{dim} {rows} {i} {j}");
                    }
                }
            }
        }
    }
}
