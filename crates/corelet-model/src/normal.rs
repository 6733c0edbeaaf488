//! Linear regression with its noise unknown: y ~ N(η, σ²), log σ a parameter.

use super::TargetScale;
use super::built_in::Dispersion;
use super::special::{bounded_exp, expm1_minus_x};
use super::{Inputs, Joint, JointFamily, JointJets, ModelError};
use crate::vector_math::{Pairwise, Rowwise, expm1_minus_x as curved_part, map_pairs};
use corelet_data::observations::Observations;

/// log σ ~ N(log sd y, 1): nine in ten of it between a fifth of the target's standard deviation and five times that.
pub(super) const LOG_SIGMA: Dispersion =
    Dispersion { name: "log_sigma", prior: |target| (standard_deviation(target).ln(), 1.0) };

/// The standard deviation of the targets, or 1 where they are all the same.
fn standard_deviation(target: &TargetScale) -> f64 {
    if target.sd > 0.0 && target.sd.is_finite() { target.sd } else { 1.0 }
}

/// ℓ(η, λ) = −½u² − λ − ½ log 2π with u = (y − η)e^{−λ}, λ = log σ.
///
/// ℓ(η+δ, λ+ε) − ℓ = (u² − 1)ε − ½u²(e^{−2ε} − 1 + 2ε) + δ(y − η − δ/2)e^{−2(λ+ε)}.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Normal;

impl Normal {
    /// The model of these observations; θ is (β, log σ).
    pub fn model(observations: Observations) -> Result<Joint<Normal>, ModelError> {
        Joint::new(observations, Normal)
    }
}

impl JointFamily for Normal {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, _target: (f64, f64)) -> Result<(), &'static str> {
        Ok(())
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let u = (y - zeta[0]) * bounded_exp(-zeta[1]);
        -0.5 * (u * u + (2.0 * std::f64::consts::PI).ln()) - zeta[1]
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let inverse = bounded_exp(-zeta[1]);
        let u = (y - zeta[0]) * inverse;
        let mixed = -2.0 * u * inverse;
        gradient.copy_from_slice(&[u * inverse, u * u - 1.0]);
        hessian.copy_from_slice(&[-inverse * inverse, mixed, mixed, -2.0 * u * u]);
    }

    fn jets(&self, rows: &mut JointJets) {
        let log_sigma = rows.constants[0];
        rows.map(&NormalJet { log_sigma, inverse: bounded_exp(-log_sigma) });
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, _): (f64, f64)) -> f64 {
        let (residual, inverse) = (y - zeta[0], bounded_exp(-zeta[1]));
        let (square, shift) = ((residual * inverse).powi(2), delta[1]);
        let narrowed = inverse * bounded_exp(-shift);
        (square - 1.0) * shift - 0.5 * square * expm1_minus_x(-2.0 * shift)
            + delta[0] * (residual - 0.5 * delta[0]) * narrowed * narrowed
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, _): (f64, f64),
        deltas: &[f64],
        _table: &[f64],
        out: &mut [f64],
    ) {
        let (residual, inverse) = (y - zeta[0], bounded_exp(-zeta[1]));
        let (square, precision) = ((residual * inverse).powi(2), inverse * inverse);
        map_pairs(Change { residual, square, precision }, deltas, out);
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one λ.
struct NormalJet {
    log_sigma: f64,
    /// e^{−λ}.
    inverse: f64,
}

impl Rowwise<3, 6> for NormalJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, y, _]: [f64; 3]) -> [f64; 6] {
        const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;
        let inverse = self.inverse;
        let u = (y - eta) * inverse;
        let (square, slope) = (u * u, u * inverse);
        let value = -0.5 * square - HALF_LOG_TWO_PI - self.log_sigma;
        [value, slope, square - 1.0, -inverse * inverse, -2.0 * slope, -2.0 * square]
    }
}

/// ℓ(η+δ, λ+ε) − ℓ as a function of δ and ε.
#[derive(Clone, Copy)]
struct Change {
    residual: f64,
    square: f64,
    precision: f64,
}

impl Pairwise for Change {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64, shift: f64) -> f64 {
        let curved = curved_part::<f64, FMA>(-2.0 * shift);
        let narrowed = self.precision * (curved - 2.0 * shift + 1.0);
        (self.square - 1.0) * shift - 0.5 * self.square * curved
            + delta * (self.residual - 0.5 * delta) * narrowed
    }
}
