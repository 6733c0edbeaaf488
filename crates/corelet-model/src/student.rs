//! Robust regression: y ~ η + σ·Student-t(ν), log σ a parameter, ν given; [`StudentDegrees`] has it unknown.

use super::built_in::Card;
use super::normal::LOG_SIGMA;
use super::special::{bounded_exp, ln_gamma};
use super::student_degrees::LOG_NU;
use super::{Given, Inputs, Joint, JointFamily, JointJets, ModelError, Predictive, StudentDegrees};
use crate::vector_math::{Pairwise, Rowwise, exp_minus, log1p, map_pairs};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StudentT};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "student",
    about: "Linear regression with Student-t noise, which outliers do not pull",
    outcome: Outcome::Number,
    settings: &["degrees", "offset"],
    sigma: None,
    dispersions: |numbers| if numbers.degrees.is_some() { &[LOG_SIGMA] } else { &[LOG_SIGMA, LOG_NU] },
    scaled_by_target: true,
    bind: |observations, numbers| match numbers.degrees {
        Some(degrees) => Ok(Arc::new(Student::model(observations, degrees)?)),
        None => Ok(Arc::new(StudentDegrees::model(observations)?)),
    },
    predictive: Predictive::Number { mean: |given| given.zeta[0], draw: noisy },
};

/// ν where none is given: tails heavy enough for most outliers, and a variance.
pub const DEGREES: f64 = 4.0;

/// Degrees of freedom ν as they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number above 0, or 'estimated'")]
pub enum Degrees {
    /// This number.
    Given(f64),
    /// A parameter, `log_nu`.
    Unknown(Estimated),
}

/// The word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Estimated {
    /// From the data.
    Estimated,
}

impl Degrees {
    /// ν, where it is given.
    pub fn given(self) -> Option<f64> {
        match self {
            Self::Given(degrees) => Some(degrees),
            Self::Unknown(_) => None,
        }
    }
}

impl FromStr for Degrees {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(degrees) if degrees > 0.0 && f64::is_finite(degrees) => Ok(Self::Given(degrees)),
            _ if text == "estimated" => Ok(Self::Unknown(Estimated::Estimated)),
            _ => Err("expected a number above 0, or estimated".to_owned()),
        }
    }
}

/// η and noise of these degrees of freedom.
fn noisy(given: &Given<'_>, rng: &mut ChaCha8Rng) -> f64 {
    let degrees = given.numbers.degrees.unwrap_or_else(|| given.zeta[2].exp());
    let noise = StudentT::new(degrees).map_or(f64::NAN, |noise| noise.sample(rng));
    given.zeta[0] + given.zeta[1].exp() * noise
}

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

    fn jets(&self, rows: &mut JointJets) {
        let log_sigma = rows.constants[0];
        let constant = self.constant - log_sigma;
        rows.map(&StudentJet { degrees: self.degrees, constant, inverse: bounded_exp(-log_sigma) });
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

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one λ.
struct StudentJet {
    degrees: f64,
    /// c(ν) − λ.
    constant: f64,
    /// e^{−λ}.
    inverse: f64,
}

impl Rowwise<3, 6> for StudentJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, y, _]: [f64; 3]) -> [f64; 6] {
        let (nu, inverse) = (self.degrees, self.inverse);
        let u = (y - eta) * inverse;
        // Beyond this a logarithm would be meaningless, and derivatives are those of no noise at all.
        let square = if u * u > 1e300 { 1e300 } else { u * u };
        let share = 1.0 / (nu + square);
        let weight = (nu + 1.0) * share;
        let value = self.constant - 0.5 * (nu + 1.0) * log1p::<f64, FMA>(square / nu);
        let slope = weight * u * inverse;
        let bend = -inverse * inverse * weight * ((nu - square) * share);
        let of_scale = weight * square;
        [value, slope, of_scale - 1.0, bend, -2.0 * nu * slope * share, -2.0 * nu * of_scale * share]
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
