//! Linear regression with its noise unknown: y ~ N(η, σ²), log σ a parameter.

use super::TargetScale;
use super::built_in::Dispersion;
use super::special::{bounded_exp, expm1_minus_x};
use super::{Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts};
use crate::vector_math::{Pairwise, Real, Rowwise, Term, add_terms, expm1_minus_x as curved_part, map_pairs};
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

    fn own_predictor(&self, (y, _): (f64, f64)) -> Option<f64> {
        Some(y)
    }

    fn is_concave_in_first(&self) -> bool {
        true
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

    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        constants.first().map(|&(_, shifts)| narrowing(shifts))
    }

    fn add_curved(&self, zeta: &[f64], (y, _): (f64, f64), shifts: &NearShifts<'_>, sum: &mut [f32]) -> bool {
        let inverse = bounded_exp(-zeta[1]);
        let u = (y - zeta[0]) * inverse;
        if !is_moderate(inverse, u, shifts.reach) {
            return false;
        }
        let columns = [shifts.of(0), shifts.column(0), shifts.column(1)];
        add_terms(Curve { inverse: inverse as f32, u: u as f32 }, shifts.weight, columns, sum);
        true
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

/// e^{−2ε} − 1 at each shift, and then e^{−2ε} − 1 + 2ε.
pub(super) fn narrowing(shifts: &[f64]) -> Vec<f32> {
    let growth = shifts.iter().map(|shift| (-2.0 * shift).exp_m1());
    growth.chain(shifts.iter().map(|shift| expm1_minus_x(-2.0 * shift))).map(|x| x as f32).collect()
}

/// Whether f32 has room for e^{−λ}, for u and for the squares of both as shifts of η and λ within `reach` change them.
pub(super) fn is_moderate(inverse: f64, u: f64, reach: &[f64]) -> bool {
    const ROOM: f64 = 1e12;
    (1.0 / ROOM..ROOM).contains(&inverse) && u.abs() + inverse * reach[0] < ROOM && reach[1] < 4.0
}

/// What of ℓ(η+δ, λ+ε) − ℓ is curved: −½u²(e^{−2ε} − 1 + 2ε) + d(u(e^{−2ε} − 1) − ½de^{−2ε}) with d = δe^{−λ}.
#[derive(Clone, Copy)]
struct Curve {
    inverse: f32,
    u: f32,
}

impl Term<3> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta, growth, curved]: [f32; 3]) -> f32 {
        let (u, d) = (self.u, delta * self.inverse);
        let moved = u.fma::<FMA>(growth, -0.5 * d.fma::<FMA>(growth, d));
        d.fma::<FMA>(moved, -0.5 * u * u * curved)
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
