//! Gaussians, draws from them, and the divergence between two.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::linalg::{
    Cholesky, LinalgError, congruence, dot, gram, power_of_two_below, product, quadratic_form, row_major,
    symmetric_eigenvalues, to_multiple,
};
use crate::model::Shifts;
use crate::model::special::log1p_minus_x;
use crate::random::Stream;

/// N(μ, Σ) with its factorisations: Σ = LLᵀ, P = Σ⁻¹.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gaussian {
    /// μ.
    pub mean: Vec<f64>,
    /// P, row-major.
    pub precision: Vec<f64>,
    /// Σ, row-major.
    pub covariance: Vec<f64>,
    /// L, the lower triangular Cholesky factor of Σ, row-major.
    pub factor: Vec<f64>,
    /// log det P.
    pub log_det_precision: f64,
}

impl Gaussian {
    /// From μ and P, row-major and symmetric.
    pub fn from_precision(mean: Vec<f64>, precision: Vec<f64>) -> Result<Gaussian, LinalgError> {
        let dim = mean.len();
        // Cholesky of P with its rows and columns in reverse: then P = UUᵀ with U upper triangular, and L = U⁻ᵀ is
        // the lower Cholesky factor of Σ without a factorisation of an inverse.
        let reversed = row_major(dim, |i, j| precision[(dim - 1 - i) * dim + dim - 1 - j]);
        let cholesky = Cholesky::new(&reversed, dim)?;
        let inverse = cholesky.inverse_factor();
        let transposed = row_major(dim, |i, j| inverse[(dim - 1 - i) * dim + dim - 1 - j]);
        let factor = row_major(dim, |i, j| transposed[j * dim + i]);
        let covariance = gram(&transposed, dim, dim);
        Ok(Gaussian { mean, precision, covariance, factor, log_det_precision: cholesky.log_determinant() })
    }

    /// The same without the digits in which sums over rows differ by their order: P to 2⁻³⁰ of √(PᵢᵢPⱼⱼ), μ to 2⁻²⁰/√Pᵢᵢ. As it is
    /// where P has a direction so weak that it would notice.
    pub fn rounded(&self) -> Self {
        const DIGITS: [f64; 2] = [1.0 / 1_073_741_824.0, 1.0 / 1_048_576.0];
        const WEAK: f64 = 1.0 / 4096.0;
        let dim = self.dim();
        let scales: Vec<f64> = (0..dim).map(|i| self.precision[i * dim + i].sqrt()).collect();
        let correlation = row_major(dim, |i, j| self.precision[i * dim + j] / (scales[i] * scales[j]));
        let pivots = Cholesky::new(&correlation, dim).map(|cholesky| cholesky.factor());
        let strong = |factor: &Vec<f64>| (0..dim).all(|i| factor[i * dim + i].powi(2) > WEAK);
        if !pivots.is_ok_and(|factor| strong(&factor)) {
            return self.clone();
        }
        let units: Vec<f64> = scales.iter().map(|&scale| power_of_two_below(scale)).collect();
        let precision =
            row_major(dim, |i, j| to_multiple(self.precision[i * dim + j], DIGITS[0] * units[i] * units[j]));
        let mean = self.mean.iter().zip(&units).map(|(&mean, unit)| to_multiple(mean, DIGITS[1] / unit));
        Self::from_precision(mean.collect(), precision).unwrap_or_else(|_| self.clone())
    }

    /// Number of coordinates, D.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// √Σⱼⱼ.
    pub fn sds(&self) -> impl Iterator<Item = f64> {
        self.covariance.iter().step_by(self.dim() + 1).map(|variance| variance.sqrt())
    }

    /// θₛ − μ = Lzₛ for `count` draws, from this stream of the seed.
    pub fn shifts(&self, count: usize, seed: u64, stream: Stream) -> Shifts {
        self.shifts_at(count, seed, stream, 0)
    }

    /// The same for a purpose that needs several sets of draws: each index is an independent stream.
    pub fn shifts_at(&self, count: usize, seed: u64, stream: Stream, index: u64) -> Shifts {
        /// From this dimension on the draws are a product of matrices.
        const LARGE: usize = 320;
        let dim = self.dim();
        let mut rng = stream.rng(seed, index);
        if dim >= LARGE {
            let z: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(count * dim).collect();
            return Shifts::new(product(&z, &self.transposed_factor(), dim, false), dim);
        }
        let mut rows = Vec::with_capacity(count * dim);
        for _ in 0..count {
            let z: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim).collect();
            rows.extend((0..dim).map(|i| (0..=i).map(|j| self.factor[i * dim + j] * z[j]).sum::<f64>()));
        }
        Shifts::new(rows, dim)
    }

    /// Lᵀ, row-major.
    pub(super) fn transposed_factor(&self) -> Vec<f64> {
        let dim = self.dim();
        row_major(dim, |i, j| self.factor[j * dim + i])
    }

    /// z = L⁻¹`shift`: where θ = μ + `shift` is, in standard deviations of independent directions.
    pub fn whitened(&self, shift: &[f64]) -> Vec<f64> {
        let mut z: Vec<f64> = Vec::with_capacity(shift.len());
        for (i, (row, x)) in self.factor.chunks_exact(self.dim()).zip(shift).enumerate() {
            z.push((x - dot(&row[..i], &z)) / row[i]);
        }
        z
    }

    /// log density at θ.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        let shift: Vec<f64> = theta.iter().zip(&self.mean).map(|(t, m)| t - m).collect();
        let normaliser = self.log_det_precision - self.dim() as f64 * (2.0 * std::f64::consts::PI).ln();
        0.5 * (normaliser - quadratic_form(&self.precision, &shift))
    }
}

/// KL(N₀ ‖ N₁) = ½ Σ(εᵢ − log(1 + εᵢ)) + ½ (μ₀−μ₁)ᵀP₁(μ₀−μ₁) in nats, with ε the eigenvalues of L₀ᵀ(P₁ − P₀)L₀.
///
/// The difference is taken between the precisions, before anything is inverted, so two Gaussians that are nearly
/// the same keep their digits: a divergence of 10⁻¹² comes out positive and right. Errors where the two differ in
/// size or hold a number that is not finite.
pub fn kl_gaussian(first: &Gaussian, second: &Gaussian) -> Result<f64, LinalgError> {
    let dim = first.dim();
    if second.dim() != dim {
        return Err(LinalgError::NoEigenvalues { dim: second.dim() });
    }
    let difference: Vec<f64> = second.precision.iter().zip(&first.precision).map(|(b, a)| b - a).collect();
    let eigenvalues = symmetric_eigenvalues(&congruence(&first.factor, &difference, dim), dim)?;
    let spread = if eigenvalues.iter().all(|e| e.abs() < 0.5) {
        eigenvalues.iter().map(|&e| -log1p_minus_x(e)).sum()
    } else {
        // Far apart: the determinants are better known than an eigenvalue near −1.
        eigenvalues.iter().sum::<f64>() - (second.log_det_precision - first.log_det_precision)
    };
    let shift: Vec<f64> = first.mean.iter().zip(&second.mean).map(|(a, b)| a - b).collect();
    Ok(0.5 * (spread + quadratic_form(&second.precision, &shift)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::dot;

    #[test]
    fn a_gaussian_has_its_factor() {
        let precision = vec![4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let gaussian = Gaussian::from_precision(vec![0.0; 3], precision.clone()).unwrap();
        let l = &gaussian.factor;
        assert!(l[1] == 0.0 && l[2] == 0.0 && l[5] == 0.0);
        for i in 0..3 {
            for j in 0..3 {
                let entry = dot(&l[i * 3..][..3], &l[j * 3..][..3]);
                assert!((entry - gaussian.covariance[i * 3 + j]).abs() < 1e-15);
                let unit: f64 = (0..3).map(|k| precision[i * 3 + k] * gaussian.covariance[k * 3 + j]).sum();
                assert!((unit - if i == j { 1.0 } else { 0.0 }).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn small_divergences_keep_their_digits() {
        // Independent coordinates with precisions p and p(1+ε): KL = ½ Σ (ε − log(1+ε)) + ½ Σ p(1+ε)Δ².
        for epsilon in [1e-6f64, 1e-5, 1e-3, 0.1] {
            let precision = [3.0, 7e4, 0.2];
            let diagonal = |scale: f64| row_major(3, |i, j| if i == j { precision[i] * scale } else { 0.0 });
            let first = Gaussian::from_precision(vec![0.0; 3], diagonal(1.0)).unwrap();
            let second = Gaussian::from_precision(vec![epsilon, 0.0, 0.0], diagonal(1.0 + epsilon)).unwrap();
            let spread = 3.0 * (2..40).map(|k| -(-epsilon).powi(k) / k as f64).map(|x| -x).sum::<f64>();
            let want = 0.5 * spread + 0.5 * 3.0 * (1.0 + epsilon) * epsilon * epsilon;
            let got = kl_gaussian(&first, &second).unwrap();
            assert!((got - want).abs() <= 1e-6 * want, "{epsilon}: {got} {want}");
        }
    }

    #[test]
    fn large_divergences_have_their_closed_form() {
        let first = Gaussian::from_precision(vec![1.0], vec![1.0]).unwrap();
        let second = Gaussian::from_precision(vec![-1.0], vec![1e-20]).unwrap();
        let got = kl_gaussian(&first, &second).unwrap();
        let want = 0.5 * (1e-20 - 1.0 + 20.0 * std::f64::consts::LN_10 + 4e-20);
        assert!((got - want).abs() < 1e-12, "{got} {want}");
        assert_eq!(kl_gaussian(&first, &first).unwrap(), 0.0);
    }
}
