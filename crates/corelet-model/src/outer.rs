//! Xθ, Xᵀs and Σ sᵢxᵢxᵢᵀ over rows: predictors, gradient and Hessian of a model with a linear predictor.

use corelet_kernels::simd::{dot_f64, instruction_set};
use pulp::{Simd, WithSimd};

use crate::vector_math::{Planes, WIDTH};

/// From this dimension on a row fills registers by itself; shorter ones are put [side by side](Planes) first.
pub(super) const LARGE: usize = 16;

/// Buffers of [`add_outer_products`], kept by the caller for their memory.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    planes: Planes,
    padded: Vec<f64>,
}

/// Adds the lower triangle of Σ sᵢxᵢxᵢᵀ to `sum`, D × D; `features` holds a row of D numbers for each scale.
pub(super) fn add_outer_products(
    sum: &mut [f64],
    scales: &[f64],
    features: &[f64],
    dim: usize,
    scratch: &mut Scratch,
) {
    let Scratch { planes, padded } = scratch;
    if dim >= LARGE {
        return instruction_set().dispatch(Large { sum, scales, features, dim, scratch: padded });
    }
    for (features, scales) in features.chunks(WIDTH * dim).zip(scales.chunks(WIDTH)) {
        planes.load(features, dim);
        planes.add_outer_products(scales, sum);
    }
}

/// xᵢᵀθ of each row of `features`, into `out`.
pub(super) fn products(features: &[f64], theta: &[f64], out: &mut Vec<f64>) {
    instruction_set().dispatch(Products { features, theta, out });
}

struct Products<'a> {
    features: &'a [f64],
    theta: &'a [f64],
    out: &'a mut Vec<f64>,
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Products { features, theta, out } = self;
        out.clear();
        out.extend(features.chunks_exact(theta.len().max(1)).map(|x| dot_f64(simd, x, theta)));
    }
}

/// Adds Σ sᵢxᵢ to `sum`; `features` holds a row for each scale.
pub(super) fn add_scaled_rows(sum: &mut [f64], scales: &[f64], features: &[f64]) {
    instruction_set().dispatch(ScaledRows { sum, scales, features });
}

struct ScaledRows<'a> {
    sum: &'a mut [f64],
    scales: &'a [f64],
    features: &'a [f64],
}

impl WithSimd for ScaledRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ScaledRows { sum, scales, features } = self;
        for (x, &scale) in features.chunks_exact(sum.len().max(1)).zip(scales) {
            let ((whole, rest), (x, x_rest)) = (S::as_mut_simd_f64s(&mut *sum), S::as_simd_f64s(x));
            let factor = simd.splat_f64s(scale);
            whole.iter_mut().zip(x).for_each(|(sum, x)| *sum = simd.mul_add_e_f64s(factor, *x, *sum));
            rest.iter_mut().zip(x_rest).for_each(|(sum, x)| *sum += scale * x);
        }
    }
}

/// [`add_outer_products`] for large D: tiles of four rows by two registers of the sum stay in registers while all rows go by.
struct Large<'a> {
    sum: &'a mut [f64],
    scales: &'a [f64],
    features: &'a [f64],
    dim: usize,
    scratch: &'a mut Vec<f64>,
}

/// Rows that go by at once, which fit the first-level cache at D = 40.
const PART: usize = 64;

impl WithSimd for Large<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Large { sum, scales, features, dim, scratch } = self;
        let lanes = size_of::<S::f64s>() / size_of::<f64>();
        // Rows padded to whole tiles, and the same times their scales.
        let stride = dim.next_multiple_of(2 * lanes).max(dim.next_multiple_of(4));
        for (features, scales) in features.chunks(PART * dim).zip(scales.chunks(PART)) {
            let count = scales.len();
            scratch.clear();
            scratch.resize(2 * count * stride, 0.0);
            let (plain, scaled) = scratch.split_at_mut(count * stride);
            let padded = plain.chunks_exact_mut(stride).zip(scaled.chunks_exact_mut(stride));
            for ((x, scale), (plain, scaled)) in features.chunks_exact(dim).zip(scales).zip(padded) {
                plain[..dim].copy_from_slice(x);
                scaled.iter_mut().zip(x).for_each(|(to, x)| *to = scale * x);
            }
            for row in (0..dim).step_by(4) {
                for column in (0..=(row + 3).min(dim - 1)).step_by(2 * lanes) {
                    let tile = tile::<S>(simd, plain, scaled, stride, (row, column));
                    for (i, registers) in tile.iter().enumerate().take(dim - row) {
                        let values = pulp::bytemuck::cast_slice::<S::f64s, f64>(registers);
                        let (from, end) = ((row + i) * dim + column, (row + i) * dim + row + i);
                        sum[from.min(end + 1)..=end].iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
                    }
                }
            }
        }
    }
}

/// Four rows by two registers of Σ (sx)xᵀ, from the row and the column given.
#[inline(always)]
fn tile<S: Simd>(
    simd: S,
    plain: &[f64],
    scaled: &[f64],
    stride: usize,
    (row, column): (usize, usize),
) -> [[S::f64s; 2]; 4] {
    let lanes = size_of::<S::f64s>() / size_of::<f64>();
    let zero = [simd.splat_f64s(0.0); 2];
    // Four by name: an array of registers would be kept in memory.
    let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
    for (plain, scaled) in plain.chunks_exact(stride).zip(scaled.chunks_exact(stride)) {
        let (x, _) = S::as_simd_f64s(&plain[column..column + 2 * lanes]);
        let (x, y) = (x[0], x[1]);
        let [p, q, r, s] = [0, 1, 2, 3].map(|i| simd.splat_f64s(scaled[row + i]));
        a = [simd.mul_add_e_f64s(p, x, a[0]), simd.mul_add_e_f64s(p, y, a[1])];
        b = [simd.mul_add_e_f64s(q, x, b[0]), simd.mul_add_e_f64s(q, y, b[1])];
        c = [simd.mul_add_e_f64s(r, x, c[0]), simd.mul_add_e_f64s(r, y, c[1])];
        d = [simd.mul_add_e_f64s(s, x, d[0]), simd.mul_add_e_f64s(s, y, d[1])];
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_their_definition() {
        for dim in [1, 3, 4, 9, 43] {
            let features: Vec<f64> = (0..7 * dim).map(|i| (0.7 * i as f64).sin()).collect();
            let theta: Vec<f64> = (0..dim).map(|i| (1.3 * i as f64).cos()).collect();
            let scales: Vec<f64> = (0..7).map(|i| (1.1 * f64::from(i)).cos()).collect();
            let (mut predictors, mut sum) = (vec![9.0], vec![0.5; dim]);
            products(&features, &theta, &mut predictors);
            add_scaled_rows(&mut sum, &scales, &features);
            for (row, got) in predictors.iter().enumerate() {
                let want: f64 = (0..dim).map(|j| features[row * dim + j] * theta[j]).sum();
                assert!((got - want).abs() < 1e-13, "{dim} {row}");
            }
            for (j, got) in sum.iter().enumerate() {
                let want = 0.5 + (0..7).map(|row| scales[row] * features[row * dim + j]).sum::<f64>();
                assert!((got - want).abs() < 1e-13, "{dim} {j}");
            }
        }
    }

    #[test]
    fn every_size_agrees_with_the_definition() {
        for dim in [1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 21, 32, 43, 49] {
            for rows in [1, 3, 4, 5, 32, 64, 65, 200] {
                let features: Vec<f64> = (0..rows * dim).map(|i| (0.7 * i as f64).sin()).collect();
                let scales: Vec<f64> = (0..rows).map(|i| (1.1 * i as f64).cos()).collect();
                let mut sum = vec![0.5; dim * dim];
                add_outer_products(&mut sum, &scales, &features, dim, &mut Scratch::default());
                for i in 0..dim {
                    for j in 0..=i {
                        let row = |r: usize| scales[r] * features[r * dim + i] * features[r * dim + j];
                        let want = 0.5 + (0..rows).map(row).sum::<f64>();
                        assert!((sum[i * dim + j] - want).abs() < 1e-12, "{dim} {rows} {i} {j}");
                    }
                }
            }
        }
    }
}
