//! Robust regression: y ~ η + σ·Student-t(ν), log σ a parameter, ν given; [`StudentDegrees`] has it unknown.

use super::built_in::{Card, IDENTITY};
use super::normal::{LOG_SIGMA, is_moderate, narrowing};
use super::special::{BOUND, bounded_exp, ln_gamma};
use super::student_degrees::LOG_NU;
use super::{
    Given, Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts, Predictive, StudentDegrees,
};
use crate::vector_math::{LogParts, Pairwise, Real, Rowwise, Term, add_terms, exp_minus, log1p, map_pairs};
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
    link: IDENTITY,
    bind: |observations, numbers| match numbers.degrees {
        Some(degrees) => Ok(Arc::new(Student::model(observations, degrees)?)),
        None => Ok(Arc::new(StudentDegrees::model(observations)?)),
    },
    predictive: Predictive::Number { mean: |given| given.zeta[0], draw: noisy, moments },
};

/// ν where none is given: tails heavy enough for most outliers, and a variance.
pub const DEGREES: f64 = 4.0;

/// The setting of the degrees of freedom ν.
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

/// η, and σ²ν/(ν − 2) where ν is above 2.
fn moments(given: &Given<'_>) -> (f64, f64) {
    let degrees = given.numbers.degrees.unwrap_or_else(|| given.zeta[2].exp());
    let factor = if degrees > 2.0 { degrees / (degrees - 2.0) } else { f64::INFINITY };
    (given.zeta[0], (2.0 * given.zeta[1]).exp() * factor)
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

/// What log(1 + u²/ν) lacks where λ is held at `least`: without it the likelihood would rise for ever as the noise vanishes.
pub(super) fn beyond(log_sigma: f64, least: f64) -> f64 {
    2.0 * (least - log_sigma).max(0.0)
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

    fn own_predictor(&self, (y, _): (f64, f64)) -> Option<f64> {
        Some(y)
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let u = (y - zeta[0]) * bounded_exp(-zeta[1]);
        let log = (u * u / self.degrees).ln_1p() + beyond(zeta[1], -BOUND);
        self.constant - zeta[1] - 0.5 * (self.degrees + 1.0) * log
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
        let constant = self.constant - log_sigma - 0.5 * (self.degrees + 1.0) * beyond(log_sigma, -BOUND);
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

    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        constants.first().map(|&(_, shifts)| narrowing(shifts))
    }

    fn add_curved(&self, zeta: &[f64], (y, _): (f64, f64), shifts: &NearShifts<'_>, sum: &mut [f32]) -> bool {
        let inverse = bounded_exp(-zeta[1]);
        let u = (y - zeta[0]) * inverse;
        let row = Scaled::new(inverse, u, self.degrees);
        if !is_moderate(inverse, u, shifts.reach) || row.least_growth(shifts.reach) < -0.75 {
            return false;
        }
        let columns = [shifts.of(0), shifts.column(0), shifts.column(1)];
        let power = (0.5 * (self.degrees + 1.0)) as f32;
        add_terms(Curve { row: row.narrow(), power }, shifts.weight, columns, sum);
        true
    }
}

/// A row in units of √(ν + u²): u, e^{−λ} and u² over it.
#[derive(Clone, Copy)]
pub(super) struct Scaled<T> {
    u: T,
    inverse: T,
    pub(super) square: T,
}

impl Scaled<f64> {
    pub(super) fn new(inverse: f64, u: f64, nu: f64) -> Self {
        let scale = 1.0 / (nu + u * u).sqrt();
        Scaled { u: u * scale, inverse: inverse * scale, square: (u * scale) * (u * scale) }
    }

    /// A bound from below of what [`Scaled::growth`] comes to.
    pub(super) fn least_growth(&self, reach: &[f64]) -> f64 {
        let (d, wide) = (self.inverse * reach[0], (2.0 * reach[1]).exp());
        -self.square * (1.0 - 1.0 / wide) - d * (2.0 * self.u.abs() + d) * wide
    }

    pub(super) fn narrow(self) -> Scaled<f32> {
        Scaled { u: self.u as f32, inverse: self.inverse as f32, square: self.square as f32 }
    }
}

impl Scaled<f32> {
    /// (u′² − u²)/(ν + u²), and the same without what is linear in δ and ε, given e^{−2ε} − 1 and e^{−2ε} − 1 + 2ε.
    #[inline(always)]
    pub(super) fn growth<const FMA: bool>(self, [delta, growth, curved]: [f32; 3]) -> (f32, f32) {
        let d = delta * self.inverse;
        // d(2u − d)e^{−2ε} and, without 2du, d(2u(e^{−2ε} − 1) − de^{−2ε}).
        let bent = d * (2.0 * self.u).fma::<FMA>(growth, -d.fma::<FMA>(growth, d));
        let straight = 2.0 * self.u * d;
        (self.square.fma::<FMA>(growth, -(straight + bent)), self.square.fma::<FMA>(curved, -bent))
    }
}

/// What of ℓ(η+δ, λ+ε) − ℓ is curved: −½(ν+1)(log(1 + x) − x + x̃), x = (u′² − u²)/(ν + u²) and x̃ what is curved of x.
#[derive(Clone, Copy)]
struct Curve {
    row: Scaled<f32>,
    power: f32,
}

impl Term<3> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, shift: [f32; 3]) -> f32 {
        let (x, curved) = self.row.growth::<FMA>(shift);
        -self.power * (LogParts::new::<FMA>(x, 1.0).log_minus_x::<FMA>(x) + curved)
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
