//! Robust regression: y ~ η + σ·Student-t(ν), log σ a parameter, ν given.

use super::built_in::Card;
use super::normal::LOG_SIGMA;
use super::special::{bounded_exp, ln_gamma};
use super::{Inputs, Joint, JointFamily, ModelError};
use crate::data::Outcome;
use crate::rows::Observations;
use crate::vector_math::{Pairwise, exp_minus, log1p, map_pairs};
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "student",
    about: "Linear regression with Student-t noise, which outliers do not pull",
    outcome: Outcome::Number,
    settings: &["degrees"],
    sigma: None,
    dispersions: |_| &[LOG_SIGMA],
    scaled_by_target: true,
    bind: |observations, numbers| Ok(Arc::new(Student::model(observations, numbers.degrees)?)),
};

/// ν where none is given: tails heavy enough for most outliers, and a variance.
pub const DEGREES: f64 = 4.0;

/// ℓ(η, λ) = c(ν) − λ − ½(ν+1) log(1 + u²/ν) with u = (y − η)e^{−λ}, λ = log σ.
///
/// ℓ(η+δ, λ+ε) − ℓ = −ε − ½(ν+1) log(1 + (u′² − u²)/(ν + u²)), where
/// u′² − u² = u²(e^{−2ε} − 1) − δ(2(y − η) − δ)e^{−2(λ+ε)}.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Student {
    degrees: f64,
    constant: f64,
}

impl Student {
    /// The family with ν degrees of freedom.
    pub fn new(degrees: f64) -> Result<Student, ModelError> {
        if !(degrees > 0.0 && degrees.is_finite()) {
            return Err(ModelError::NotPositive { what: "the degrees of freedom", value: degrees });
        }
        let scale = 0.5 * (degrees * std::f64::consts::PI).ln();
        let constant = ln_gamma(0.5 * (degrees + 1.0)) - ln_gamma(0.5 * degrees) - scale;
        Ok(Student { degrees, constant })
    }

    /// The model of these observations; θ is (β, log σ).
    pub fn model(observations: Observations, degrees: f64) -> Result<Joint<Student>, ModelError> {
        Joint::new(observations, Student::new(degrees)?)
    }
}

impl JointFamily for Student {
    fn name(&self) -> &'static str {
        "student"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, _target: (f64, f64)) -> Result<(), &'static str> {
        Ok(())
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let u = (y - zeta[0]) * bounded_exp(-zeta[1]);
        self.constant - zeta[1] - 0.5 * (self.degrees + 1.0) * (u * u / self.degrees).ln_1p()
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let inverse = bounded_exp(-zeta[1]);
        let u = (y - zeta[0]) * inverse;
        let (nu, spread) = (self.degrees, self.degrees + u * u);
        let weight = (nu + 1.0) / spread;
        let mixed = -2.0 * nu * u * inverse * weight / spread;
        gradient.copy_from_slice(&[weight * u * inverse, weight * u * u - 1.0]);
        let second = -inverse * inverse * weight * ((nu - u * u) / spread);
        hessian.copy_from_slice(&[second, mixed, mixed, -2.0 * nu * weight * (u * u / spread)]);
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, _): (f64, f64)) -> f64 {
        let (residual, inverse) = (y - zeta[0], bounded_exp(-zeta[1]));
        let (u, narrowed) = (residual * inverse, inverse * bounded_exp(-delta[1]));
        let growth =
            u * u * (-2.0 * delta[1]).exp_m1() - delta[0] * (2.0 * residual - delta[0]) * narrowed * narrowed;
        -delta[1] - 0.5 * (self.degrees + 1.0) * (growth / (self.degrees + u * u)).ln_1p()
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
        let square = (residual * inverse).powi(2);
        let spread = 1.0 / (self.degrees + square);
        let [square, precision] = [square * spread, inverse * inverse * spread];
        map_pairs(Change { residual, square, precision, power: 0.5 * (self.degrees + 1.0) }, deltas, out);
    }
}

/// ℓ(η+δ, λ+ε) − ℓ as a function of δ and ε; u² and e^{−2λ} are divided by ν + u².
#[derive(Clone, Copy)]
struct Change {
    residual: f64,
    square: f64,
    precision: f64,
    power: f64,
}

impl Pairwise for Change {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64, shift: f64) -> f64 {
        let growth = exp_minus::<f64, FMA>(-2.0 * shift, 1.0);
        let moved = delta * (2.0 * self.residual - delta) * self.precision * (growth + 1.0);
        -shift - self.power * log1p::<f64, FMA>(self.square * growth - moved)
    }
}
