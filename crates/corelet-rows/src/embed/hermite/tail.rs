//! What truncation drops from the full log-likelihood, estimated on a fixed set of draws.

use corelet_kernels::simd::instruction_set;
use pulp::{Simd, WithSimd};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::expansion::{HIGHEST, monomials};
use crate::model::Shifts;
use crate::posterior::Gaussian;
use crate::vector_math::{Planes, WIDTH};

/// Draws of z.
const DRAWS: usize = 32;

/// The remainder Σᵢ Σ_{m>M} hᵢₘHeₘ(vᵢ·z) of the full log-likelihood at fixed draws z ~ N(0, I).
///
/// The parts that rows drop add up with their signs, so the variance of what the sum drops is not the sum of the
/// variances: it is m!‖Σᵢ hᵢₘvᵢ^⊗m‖² at each order, a tensor of C(D+m−1, m) entries. Draws of the same polynomial
/// cost D multiply-adds each instead.
#[derive(Debug)]
pub(in crate::embed) struct Remainder {
    /// D × DRAWS, row-major.
    draws: Vec<f64>,
    /// The same in the order in which they are taken: feature by feature of a few draws, then of the next few.
    narrow: Vec<f32>,
}

impl Remainder {
    pub(super) fn new(dim: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let draws: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim * DRAWS).collect();
        let few = (0..DRAWS).step_by(TOGETHER);
        let narrow = few.flat_map(|first| {
            let of_feature = |row: &[f64]| row[first..first + TOGETHER].to_vec();
            draws.chunks_exact(DRAWS).flat_map(of_feature).map(|z| z as f32).collect::<Vec<f32>>()
        });
        Self { narrow: narrow.collect(), draws }
    }

    /// The shifts Lz of θ at the draws.
    pub(super) fn shifts(&self, posterior: &Gaussian) -> Shifts {
        let dim = posterior.dim();
        let entry = |s: usize, i: usize| {
            (0..=i).map(|j| posterior.factor[i * dim + j] * self.draws[j * DRAWS + s]).sum::<f64>()
        };
        let all = (0..DRAWS).flat_map(|s| (0..dim).map(move |i| (s, i)));
        Shifts::new(all.map(|(s, i)| entry(s, i)).collect(), dim)
    }

    /// The draws z.
    pub(super) fn each(&self) -> impl Iterator<Item = Vec<f64>> {
        (0..DRAWS).map(|s| self.draws[s..].iter().step_by(DRAWS).copied().collect())
    }

    /// A sum to add rows to.
    pub(super) fn zero() -> Vec<f64> {
        vec![0.0; DRAWS]
    }

    /// Adds the orders above `order` of rows with these directions and coefficients: in f32, which is far more than so few draws
    /// are worth, scaled so that the largest coefficient is 1.
    pub(super) fn add(&self, directions: &Planes, h: &[Vec<f64>; HIGHEST], order: usize, sum: &mut [f64]) {
        let largest = h[order..].iter().flatten().fold(0.0_f64, |m, h| m.max(h.abs()));
        let inverse = 1.0 / largest;
        if !inverse.is_finite() {
            return;
        }
        let mut polynomials = vec![0.0_f32; (HIGHEST + 1) * WIDTH];
        for row in 0..h[0].len() {
            let dropped = std::array::from_fn(|m| if m < order { 0.0 } else { h[m][row] * inverse });
            let places = polynomials[row..].iter_mut().step_by(WIDTH);
            places.zip(monomials(&dropped)).for_each(|(to, a)| *to = a as f32);
        }
        let directions: Vec<f32> = directions.planes().flatten().map(|&v| v as f32).collect();
        instruction_set().dispatch(AddPolynomials {
            draws: &self.narrow,
            directions: &directions,
            polynomials: &polynomials,
            scale: largest,
            sum,
        });
    }

    /// Half the mean square of the remainder, in nats.
    pub(in crate::embed) fn nats(sum: &[f64]) -> f64 {
        0.5 * sum.iter().map(|r| r * r).sum::<f64>() / sum.len() as f64
    }
}

/// Adds p(vᵀz) of each row, its own polynomial of its own direction, at each draw z.
struct AddPolynomials<'a> {
    /// DRAWS of D numbers.
    draws: &'a [f32],
    /// D planes of [`WIDTH`] rows.
    directions: &'a [f32],
    /// a₀ … a₆, each for [`WIDTH`] rows.
    polynomials: &'a [f32],
    scale: f64,
    sum: &'a mut [f64],
}

/// Draws that go through the rows at once.
const TOGETHER: usize = 4;

impl WithSimd for AddPolynomials<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddPolynomials { draws, directions, polynomials, scale, sum } = self;
        let dim = directions.len() / WIDTH;
        let (planes, _) = S::as_simd_f32s(directions).0.as_chunks::<2>();
        let (polynomials, _) = S::as_simd_f32s(polynomials).0.as_chunks::<2>();
        let tall = polynomials.len() / (HIGHEST + 1);
        let zero = simd.splat_f32s(0.0);
        for (draws, sum) in draws.chunks_exact(TOGETHER * dim).zip(sum.chunks_exact_mut(TOGETHER)) {
            let mut sums = [zero; TOGETHER];
            for at in 0..tall {
                let mut t = [[zero; 2]; TOGETHER];
                for (v, z) in planes[at..].iter().step_by(tall).zip(draws.chunks_exact(TOGETHER)) {
                    for k in 0..TOGETHER {
                        let z = simd.splat_f32s(z[k]);
                        t[k] = [simd.mul_add_e_f32s(v[0], z, t[k][0]), simd.mul_add_e_f32s(v[1], z, t[k][1])];
                    }
                }
                let mut values = [polynomials[at + HIGHEST * tall]; TOGETHER];
                for a in polynomials[at..].iter().step_by(tall).take(HIGHEST).rev() {
                    for k in 0..TOGETHER {
                        values[k] = [
                            simd.mul_add_e_f32s(values[k][0], t[k][0], a[0]),
                            simd.mul_add_e_f32s(values[k][1], t[k][1], a[1]),
                        ];
                    }
                }
                for k in 0..TOGETHER {
                    sums[k] = simd.add_f32s(sums[k], simd.add_f32s(values[k][0], values[k][1]));
                }
            }
            for (to, sum) in sum.iter_mut().zip(sums) {
                *to += scale * f64::from(simd.reduce_sum_f32s(sum));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_that_of_each_row() {
        let (dim, rows) = (5, 77);
        let features: Vec<f32> = (0..rows * dim).map(|i| 0.4 * (0.7 * i as f32).sin()).collect();
        let mut directions = Planes::default();
        directions.load(&features, dim);
        let h: [Vec<f64>; HIGHEST] =
            std::array::from_fn(|m| (0..rows).map(|i| 1e-40 * (0.3 + (i * 7 + m) as f64).sin()).collect());
        let (remainder, order) = (Remainder::new(dim), 2);
        let mut sum = Remainder::zero();
        remainder.add(&directions, &h, order, &mut sum);
        for (s, got) in sum.iter().enumerate() {
            let of_row = |i: usize| {
                let t: f64 =
                    (0..dim).map(|j| f64::from(features[i * dim + j]) * remainder.draws[j * DRAWS + s]).sum();
                let dropped = std::array::from_fn(|m| if m < order { 0.0 } else { h[m][i] });
                monomials(&dropped).iter().rev().fold(0.0, |sum, a| sum * t + a)
            };
            let want: f64 = (0..rows).map(of_row).sum();
            let size: f64 = (0..rows).map(|i| of_row(i).abs()).sum();
            assert!((got - want).abs() < 1e-5 * size, "{s}: {got} {want}");
        }
    }
}
