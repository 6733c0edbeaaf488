//! What truncation drops from the full log-likelihood, estimated on a fixed set of draws.

use pulp::Simd;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::expansion::{HIGHEST, monomials};
use crate::model::Shifts;
use crate::posterior::Gaussian;

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
}

impl Remainder {
    pub(super) fn new(dim: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        Self { draws: StandardNormal.sample_iter(&mut rng).take(dim * DRAWS).collect() }
    }

    /// The shifts Lz of θ at the draws.
    pub(super) fn shifts(posterior: &Gaussian) -> Shifts {
        let dim = posterior.dim();
        let draws = Self::new(dim).draws;
        let entry = |s: usize, i: usize| {
            (0..=i).map(|j| posterior.factor[i * dim + j] * draws[j * DRAWS + s]).sum::<f64>()
        };
        let all = (0..DRAWS).flat_map(|s| (0..dim).map(move |i| (s, i)));
        Shifts::new(all.map(|(s, i)| entry(s, i)).collect(), dim)
    }

    /// A sum to add rows to.
    pub(super) fn zero() -> Vec<f64> {
        vec![0.0; DRAWS]
    }

    /// Adds the orders above `order` of a row with direction v and coefficients h.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&self, simd: S, v: &[f64], h: &[f64; HIGHEST], order: usize, sum: &mut [f64]) {
        let mut dropped = *h;
        dropped[..order].fill(0.0);
        if dropped.iter().any(|h| *h != 0.0) {
            add_polynomial(simd, &self.draws, v, &monomials(&dropped), sum);
        }
    }

    /// Half the mean square of the remainder, in nats.
    pub(in crate::embed) fn nats(sum: &[f64]) -> f64 {
        0.5 * sum.iter().map(|r| r * r).sum::<f64>() / sum.len() as f64
    }
}

/// sum ← sum + p(Σ_d v_d·draws_d) with the polynomial p.
#[inline(always)]
fn add_polynomial<S: Simd>(
    simd: S,
    draws: &[f64],
    v: &[f64],
    polynomial: &[f64; HIGHEST + 1],
    sum: &mut [f64],
) {
    let draws = S::as_simd_f64s(draws).0.as_chunks::<2>().0;
    let sums = S::as_mut_simd_f64s(sum).0.as_chunks_mut::<2>().0;
    let width = sums.len();
    for (at, sum) in sums.iter_mut().enumerate() {
        let mut t = [simd.splat_f64s(0.0); 2];
        for (v, z) in v.iter().zip(draws[at..].iter().step_by(width)) {
            let v = simd.splat_f64s(*v);
            t = [simd.mul_add_e_f64s(v, z[0], t[0]), simd.mul_add_e_f64s(v, z[1], t[1])];
        }
        let mut value = [simd.splat_f64s(polynomial[HIGHEST]); 2];
        for a in polynomial[..HIGHEST].iter().rev() {
            let a = simd.splat_f64s(*a);
            value = [simd.mul_add_e_f64s(value[0], t[0], a), simd.mul_add_e_f64s(value[1], t[1], a)];
        }
        *sum = [simd.add_f64s(sum[0], value[0]), simd.add_f64s(sum[1], value[1])];
    }
}
