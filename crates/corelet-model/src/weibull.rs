//! Weibull survival with right censoring: times t with scale exp(η) and shape k, log k a parameter; and its k = 1, the exponential.

use super::built_in::{Card, Dispersion, LOG, NONE};
use super::special::{bounded_exp, expm1_minus_x, ln_gamma};
use super::{Given, Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts, Predictive};
use crate::vector_math::{
    Pairwise, Pointwise, Real, Rowwise, Term, add_terms, exp_minus, expm1_minus_x as curved_part, log,
    map_in_place, map_pairs,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "weibull",
    about: "Survival times, some of them censored, whose risk grows or falls with time",
    outcome: Outcome::Positive,
    settings: &["event", "offset"],
    sigma: None,
    dispersions: |_| &[LOG_SHAPE],
    scaled_by_target: false,
    link: LOG,
    bind: |observations, _| Ok(Arc::new(Weibull::model(observations)?)),
    predictive: Predictive::Number { mean: mean_time, draw: time, moments },
};

/// The card of the exponential.
pub(super) const EXPONENTIAL: Card = Card {
    name: "exponential",
    about: "Survival times, some of them censored, with a constant risk",
    outcome: Outcome::Positive,
    settings: &["event", "offset"],
    sigma: None,
    dispersions: NONE,
    scaled_by_target: false,
    link: LOG,
    bind: |observations, _| Ok(Arc::new(Exponential::model(observations)?)),
    predictive: Predictive::Number { mean: mean_time, draw: time, moments },
};

/// 1/k, which is 1 where there is no k.
fn inverse_shape(given: &Given<'_>) -> f64 {
    given.zeta.get(1).map_or(1.0, |log_shape| (-log_shape).exp())
}

/// E[t] = e^η Γ(1 + 1/k).
fn mean_time(given: &Given<'_>) -> f64 {
    (given.zeta[0] + ln_gamma(1.0 + inverse_shape(given))).exp()
}

/// E[t], and E[t²] − E[t]² with E[t²] = e^{2η} Γ(1 + 2/k).
fn moments(given: &Given<'_>) -> (f64, f64) {
    let mean = mean_time(given);
    let squared = (2.0 * given.zeta[0] + ln_gamma(1.0 + 2.0 * inverse_shape(given))).exp();
    (mean, squared - mean * mean)
}

/// A time until the event.
fn time(given: &Given<'_>, rng: &mut ChaCha8Rng) -> f64 {
    let waited: f64 = Exp1.sample(rng);
    given.zeta[0].exp() * waited.powf(inverse_shape(given))
}

/// log k ~ N(0, 1): nine in ten of the shape between a fifth and five.
const LOG_SHAPE: Dispersion = Dispersion { name: "log_shape", prior: |_| (0.0, 1.0) };

/// ℓ(η, κ) = d(κ − log t + z) − e^z with z = k(log t − η), k = e^κ, and d = 1 where the event was seen at t, 0 where it was not
/// seen until t. d stands in the place of an exposure: 1 where there is none.
///
/// ℓ(η+δ, κ+ε) − ℓ = dε + (d − e^z)ζ − e^z(e^ζ − 1 − ζ), ζ = z(e^ε − 1) − k′δ the change of z, k′ = ke^ε.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weibull;

impl Weibull {
    /// The model of these observations, whose exposures are 1 for an event and 0 for none; θ is (β, log k).
    pub fn model(observations: Observations) -> Result<Joint<Weibull>, ModelError> {
        Joint::new(observations, Weibull)
    }
}

/// Beyond this a predictor is no likelihood's: held there, so that products stay finite.
const FAR: f64 = 150.0;

/// k and z.
fn risk(zeta: &[f64], time: f64) -> (f64, f64) {
    let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
    (shape, (shape * (time.ln() - zeta[0])).clamp(-FAR, FAR))
}

impl JointFamily for Weibull {
    fn name(&self) -> &'static str {
        "weibull"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, (time, event): (f64, f64)) -> Result<(), &'static str> {
        match event {
            0.0 | 1.0 if time > 0.0 => Ok(()),
            _ => Err("a time above 0, with an event that is 0 or 1"),
        }
    }

    fn own_predictor(&self, (y, _): (f64, f64)) -> Option<f64> {
        Some(y.ln())
    }

    fn is_concave_in_first(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], (time, event): (f64, f64)) -> f64 {
        let (_, z) = risk(zeta, time);
        event * (zeta[1] - time.ln() + z) - z.exp()
    }

    fn derivatives(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        gradient: &mut [f64],
        hessian: &mut [f64],
    ) {
        let (shape, z) = risk(zeta, time);
        let (hazard, excess) = (z.exp(), z.exp() - event);
        let mixed = shape * (excess + z * hazard);
        gradient.copy_from_slice(&[shape * excess, event - z * excess]);
        hessian.copy_from_slice(&[-shape * shape * hazard, mixed, mixed, -z * (excess + z * hazard)]);
    }

    fn jets(&self, rows: &mut JointJets) {
        let log_shape = rows.constants[0];
        rows.map::<_, 3, 6>(&WeibullJet { log_shape, shape: bounded_exp(log_shape.clamp(-FAR, FAR)) });
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (time, event): (f64, f64)) -> f64 {
        let (shape, z) = risk(zeta, time);
        let change = z * delta[1].exp_m1() - shape * bounded_exp(delta[1]) * delta[0];
        let change = change.clamp(-2.0 * FAR, 2.0 * FAR);
        event * delta[1] + (event - z.exp()) * change - z.exp() * expm1_minus_x(change)
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        deltas: &[f64],
        _table: &[f64],
        out: &mut [f64],
    ) {
        let (shape, z) = risk(zeta, time);
        map_pairs(Change { shape, z, hazard: z.exp(), event }, deltas, out);
    }

    /// e^ε − 1 and e^ε − 1 − ε.
    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        let &(_, shifts) = constants.first()?;
        let growth = shifts.iter().map(|shift| shift.exp_m1());
        Some(growth.chain(shifts.iter().map(|&shift| expm1_minus_x(shift))).map(|x| x as f32).collect())
    }

    fn add_curved(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        shifts: &NearShifts<'_>,
        sum: &mut [f32],
    ) -> bool {
        let (shape, z) = risk(zeta, time);
        let Some(curve) = Curve::new(shape, z, event, [shifts.reach[0], shifts.reach[1]]) else {
            return false;
        };
        let columns = [shifts.of(0), shifts.column(0), shifts.column(1)];
        add_terms(curve, shifts.weight, columns, sum);
        true
    }
}

/// What of ℓ(η+δ, κ+ε) − ℓ is curved: (d − e^z)(zE(ε) − k(e^ε − 1)δ) − e^zE(ζ), with E(x) = e^x − 1 − x.
#[derive(Clone, Copy)]
struct Curve {
    shape: f32,
    z: f32,
    hazard: f32,
    excess: f32,
}

impl Curve {
    /// None where shifts within `reach` may be so large that f32 is not enough.
    fn new(shape: f64, z: f64, event: f64, reach: [f64; 2]) -> Option<Self> {
        let hazard = z.exp();
        let farthest = z.abs() * reach[1].exp_m1() + shape * reach[1].exp() * reach[0];
        let is_near = farthest < 8.0 && reach[1] < 4.0 && hazard < 1e25 && shape < 1e15;
        let [shape, z, excess] = [shape, z, event - hazard].map(|x| x as f32);
        is_near.then_some(Curve { shape, z, hazard: hazard as f32, excess })
    }
}

impl Term<3> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta, growth, curved]: [f32; 3]) -> f32 {
        let step = self.shape * delta;
        let change = self.z.fma::<FMA>(growth, -growth.fma::<FMA>(step, step));
        let bent = self.z.fma::<FMA>(curved, -growth * step);
        self.excess.fma::<FMA>(bent, -self.hazard * curved_part::<f32, FMA>(change))
    }
}

/// The same with κ held.
impl Term<1> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta]: [f32; 1]) -> f32 {
        -self.hazard * curved_part::<f32, FMA>(-self.shape * delta)
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one κ.
struct WeibullJet {
    log_shape: f64,
    shape: f64,
}

impl Rowwise<3, 6> for WeibullJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, time, event]: [f64; 3]) -> [f64; 6] {
        let (shape, log_time) = (self.shape, log::<FMA>(time));
        let z = shape * (log_time - eta);
        let z = if z > FAR { FAR } else { z };
        let z = if z < -FAR { -FAR } else { z };
        let hazard = exp_minus::<f64, FMA>(z, 0.0);
        let excess = hazard - event;
        let bend = excess + z * hazard;
        let value = event * (self.log_shape - log_time + z) - hazard;
        [value, shape * excess, event - z * excess, -shape * shape * hazard, shape * bend, -z * bend]
    }
}

impl Rowwise<3, 3> for WeibullJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, row: [f64; 3]) -> [f64; 3] {
        let [value, slope, _, bend, _, _]: [f64; 6] = self.apply::<FMA>(row);
        [value, slope, bend]
    }
}

/// ℓ(η+δ, κ+ε) − ℓ as a function of δ and ε.
#[derive(Clone, Copy)]
struct Change {
    shape: f64,
    z: f64,
    hazard: f64,
    event: f64,
}

impl Pairwise for Change {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64, shift: f64) -> f64 {
        let growth = exp_minus::<f64, FMA>(shift, 1.0);
        let change = self.z * growth - self.shape * (growth + 1.0) * delta;
        let bound = 2.0 * FAR;
        let change = if change > bound { bound } else { change };
        let change = if change < -bound { -bound } else { change };
        self.event * shift + (self.event - self.hazard) * change
            - self.hazard * curved_part::<f64, FMA>(change)
    }
}

/// ℓ(η) = −dη − te^{−η}: the Weibull with k = 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exponential;

impl Exponential {
    /// The model of these observations, whose exposures are 1 for an event and 0 for none.
    pub fn model(observations: Observations) -> Result<Joint<Exponential>, ModelError> {
        Joint::new(observations, Exponential)
    }
}

impl JointFamily for Exponential {
    fn name(&self) -> &'static str {
        "exponential"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features]
    }

    fn check_target(&self, target: (f64, f64)) -> Result<(), &'static str> {
        Weibull.check_target(target)
    }

    /// Linear in η less te^{−η}.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], target: (f64, f64)) -> f64 {
        Weibull.value(&[zeta[0], 0.0], target)
    }

    fn derivatives(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        gradient: &mut [f64],
        hessian: &mut [f64],
    ) {
        let (_, z) = risk(&[zeta[0], 0.0], time);
        gradient[0] = z.exp() - event;
        hessian[0] = -z.exp();
    }

    fn jets(&self, rows: &mut JointJets) {
        rows.map::<_, 3, 3>(&WeibullJet { log_shape: 0.0, shape: 1.0 });
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], target: (f64, f64)) -> f64 {
        Weibull.difference(&[zeta[0], 0.0], &[delta[0], 0.0], target)
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        deltas: &[f64],
        _table: &[f64],
        out: &mut [f64],
    ) {
        let (shape, z) = risk(&[zeta[0], 0.0], time);
        out.copy_from_slice(deltas);
        map_in_place(Fixed(Change { shape, z, hazard: z.exp(), event }), out);
    }

    fn curved_table(&self, _constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        Some(Vec::new())
    }

    fn add_curved(
        &self,
        zeta: &[f64],
        (time, event): (f64, f64),
        shifts: &NearShifts<'_>,
        sum: &mut [f32],
    ) -> bool {
        let (shape, z) = risk(&[zeta[0], 0.0], time);
        let Some(curve) = Curve::new(shape, z, event, [shifts.reach[0], 0.0]) else { return false };
        add_terms(curve, shifts.weight, [shifts.of(0)], sum);
        true
    }
}

/// The change with κ held.
#[derive(Clone, Copy)]
struct Fixed(Change);

impl Pointwise<f64> for Fixed {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64) -> f64 {
        self.0.apply::<FMA>(delta, 0.0)
    }
}
