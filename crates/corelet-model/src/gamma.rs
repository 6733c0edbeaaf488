//! Gamma regression with a log link: y > 0 with mean μ = exp(η) and variance μ²/α, log α a parameter.

use super::built_in::{Card, Dispersion, LOG};
use super::predictive::gamma;
use super::special::{
    bounded_exp, digamma, digamma_rest, expm1_minus_x, ln_gamma, stirling, trigamma, trigamma_rest,
};
use super::{Given, Inputs, Joint, JointFamily, JointJets, ModelError, NearShifts, Predictive};
use crate::vector_math::{
    Pairwise, Real, Rowwise, Term, add_terms, exp_minus, expm1_minus_x as curved_part, log, map_pairs,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "gamma",
    about: "Positive numbers whose spread grows with their mean, by a log link",
    outcome: Outcome::Positive,
    settings: &["offset"],
    sigma: None,
    dispersions: |_| &[LOG_SHAPE],
    scaled_by_target: false,
    link: LOG,
    bind: |observations, _| Ok(Arc::new(Gamma::model(observations)?)),
    predictive: Predictive::Number {
        mean: mean_of,
        draw: |given, rng| gamma(given.zeta[1].exp(), mean_of(given), rng),
        moments: |given| (mean_of(given), mean_of(given).powi(2) * (-given.zeta[1]).exp()),
    },
};

/// μ.
fn mean_of(given: &Given<'_>) -> f64 {
    given.zeta[0].exp()
}

/// log α ~ N(0, 2²): nine in ten of the coefficient of variation 1/√α between a fifth and five.
const LOG_SHAPE: Dispersion = Dispersion { name: "log_shape", prior: |_| (0.0, 2.0) };

/// ℓ(η, κ) = A(α) − α·E(s) − log y with α = e^κ, s = log y − η, E(s) = e^s − 1 − s and A(α) = α log α − α − log Γ(α).
///
/// ℓ(η+δ, κ+ε) − ℓ = A(α′) − A(α) − (α′ − α)E(s) − α′(E(s−δ) − E(s)), α′ = αe^ε.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gamma;

impl Gamma {
    /// The model of these observations; θ is (β, log α).
    pub fn model(observations: Observations) -> Result<Joint<Gamma>, ModelError> {
        Joint::new(observations, Gamma)
    }
}

/// A(α) and the first two derivatives of A(e^κ).
fn normaliser(shape: f64) -> [f64; 3] {
    if shape >= 15.0 {
        // What Stirling's series leaves of log Γ, ψ and ψ′ is what does not cancel.
        let value = 0.5 * (shape / (2.0 * std::f64::consts::PI)).ln() - stirling(shape);
        let first = 0.5 - shape * digamma_rest(shape);
        return [value, first, first - 0.5 - shape * shape * trigamma_rest(shape)];
    }
    let first = shape * (shape.ln() - digamma(shape));
    [shape * shape.ln() - shape - ln_gamma(shape), first, first + shape - shape * shape * trigamma(shape)]
}

/// A(αe^ε) − A(α) to full relative precision.
fn normaliser_difference(shape: f64, shift: f64) -> f64 {
    if shift.abs() > 0.25 {
        return normaliser(shape * bounded_exp(shift))[0] - normaliser(shape)[0];
    }
    let slope = |t: f64| normaliser(shape * (0.5 * shift * (1.0 + t)).exp())[1];
    let sum: f64 =
        super::family::LEGENDRE.iter().map(|&(node, weight)| weight * (slope(node) + slope(-node))).sum();
    0.5 * shift * sum
}

/// A(αe^ε) − A(α) less what is linear in ε.
fn normaliser_curve(shape: f64, shift: f64) -> f64 {
    let at = |t: f64| normaliser(shape * bounded_exp(t));
    if shift.abs() > 0.25 {
        return at(shift)[0] - at(0.0)[0] - at(0.0)[1] * shift;
    }
    super::family::curved_part(shift, |t| at(t)[2])
}

impl JointFamily for Gamma {
    fn name(&self) -> &'static str {
        "gamma"
    }

    fn predictors(&self) -> &[Inputs] {
        &[Inputs::Features, Inputs::Constant]
    }

    fn check_target(&self, (y, _): (f64, f64)) -> Result<(), &'static str> {
        if y > 0.0 { Ok(()) } else { Err("a number above 0") }
    }

    fn own_predictor(&self, (y, _): (f64, f64)) -> Option<f64> {
        Some(y.ln())
    }

    fn is_concave_in_first(&self) -> bool {
        true
    }

    fn value(&self, zeta: &[f64], (y, _): (f64, f64)) -> f64 {
        let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
        let s = (y.ln() - zeta[0]).clamp(-FAR, FAR);
        normaliser(shape)[0] - shape * expm1_minus_x(s) - y.ln()
    }

    fn derivatives(&self, zeta: &[f64], (y, _): (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
        let s = (y.ln() - zeta[0]).clamp(-FAR, FAR);
        let [_, first, second] = normaliser(shape);
        let (excess, spread) = (shape * s.exp_m1(), shape * expm1_minus_x(s));
        gradient.copy_from_slice(&[excess, first - spread]);
        hessian.copy_from_slice(&[-shape * s.exp(), excess, excess, second - spread]);
    }

    fn jets(&self, rows: &mut JointJets) {
        let shape = bounded_exp(rows.constants[0].clamp(-FAR, FAR));
        rows.map(&GammaJet { shape, normaliser: normaliser(shape) });
    }

    fn difference(&self, zeta: &[f64], delta: &[f64], (y, _): (f64, f64)) -> f64 {
        let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
        let s = (y.ln() - zeta[0]).clamp(-FAR, FAR);
        let moved = s.exp() * expm1_minus_x(-delta[0]) - s.exp_m1() * delta[0];
        normaliser_difference(shape, delta[1])
            - shape * delta[1].exp_m1() * expm1_minus_x(s)
            - shape * bounded_exp(delta[1]) * moved
    }

    /// A(αe^ε) − A(α) at each shift.
    fn table(&self, constants: &[(f64, &[f64])]) -> Vec<f64> {
        let shape = |zeta: f64| bounded_exp(zeta.clamp(-FAR, FAR));
        let of = |&(zeta, shifts): &(f64, &[f64])| {
            shifts.iter().map(|&shift| normaliser_difference(shape(zeta), shift)).collect()
        };
        constants.first().map(of).unwrap_or_default()
    }

    fn differences_row(
        &self,
        zeta: &[f64],
        (y, _): (f64, f64),
        deltas: &[f64],
        table: &[f64],
        out: &mut [f64],
    ) {
        let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
        let s = (y.ln() - zeta[0]).clamp(-FAR, FAR);
        let (ratio, excess) = (shape * s.exp(), shape * s.exp_m1());
        map_pairs(Change { ratio, excess, spread: shape * expm1_minus_x(s) }, deltas, out);
        out.iter_mut().zip(table).for_each(|(out, own)| *out += own);
    }

    /// What is curved of A, and e^ε − 1 and e^ε − 1 − ε.
    fn curved_table(&self, constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        let &(zeta, shifts) = constants.first()?;
        let shape = bounded_exp(zeta.clamp(-FAR, FAR));
        let own = shifts.iter().map(|&shift| normaliser_curve(shape, shift));
        let growth = shifts.iter().map(|shift| shift.exp_m1());
        let curved = shifts.iter().map(|&shift| expm1_minus_x(shift));
        Some(own.chain(growth).chain(curved).map(|x| x as f32).collect())
    }

    fn add_curved(&self, zeta: &[f64], (y, _): (f64, f64), shifts: &NearShifts<'_>, sum: &mut [f32]) -> bool {
        let shape = bounded_exp(zeta[1].clamp(-FAR, FAR));
        let s = (y.ln() - zeta[0]).clamp(-FAR, FAR);
        let [ratio, excess, spread] = [shape * s.exp(), shape * s.exp_m1(), shape * expm1_minus_x(s)];
        if shifts.reach.iter().any(|reach| *reach > NEAR) || ratio.max(spread) > LARGEST {
            return false;
        }
        let curve = Curve { ratio: ratio as f32, excess: excess as f32, spread: spread as f32 };
        let columns = [shifts.of(0), shifts.column(0), shifts.column(1), shifts.column(2)];
        add_terms(curve, shifts.weight, columns, sum);
        true
    }
}

/// ℓ, ∇ℓ and ∇²ℓ of a row, at one α.
struct GammaJet {
    shape: f64,
    normaliser: [f64; 3],
}

impl Rowwise<3, 6> for GammaJet {
    #[inline(always)]
    fn apply<const FMA: bool>(&self, [eta, y, _]: [f64; 3]) -> [f64; 6] {
        let (shape, [constant, first, second]) = (self.shape, self.normaliser);
        let log_y = log::<FMA>(y);
        let s = log_y - eta;
        let s = if s > FAR { FAR } else { s };
        let s = if s < -FAR { -FAR } else { s };
        let curved = curved_part::<f64, FMA>(s);
        let (excess, spread) = (shape * exp_minus::<f64, FMA>(s, 1.0), shape * curved);
        let ratio = shape * exp_minus::<f64, FMA>(s, 0.0);
        [constant - spread - log_y, excess, first - spread, -ratio, excess, second - spread]
    }
}

/// Shifts for which f32 has room, and coefficients.
const NEAR: f64 = 4.0;
const LARGEST: f64 = 1e25;

/// What of ℓ(η+δ, κ+ε) − ℓ is curved: that of A, less αE(s)E(ε) − α(e^s − 1)(e^ε − 1)δ + αe^se^εE(−δ).
#[derive(Clone, Copy)]
struct Curve {
    ratio: f32,
    excess: f32,
    spread: f32,
}

impl Term<4> for Curve {
    #[inline(always)]
    fn apply<const FMA: bool>(self, [delta, own, growth, curved]: [f32; 4]) -> f32 {
        let bent = self.ratio * curved_part::<f32, FMA>(-delta);
        let moved = growth.fma::<FMA>(self.excess.fma::<FMA>(delta, -bent), -bent);
        own + (-self.spread).fma::<FMA>(curved, moved)
    }
}

/// −(α′ − α)E(s) − α′(E(s−δ) − E(s)) as a function of δ and ε.
#[derive(Clone, Copy)]
struct Change {
    /// αe^s, α(e^s − 1) and αE(s).
    ratio: f64,
    excess: f64,
    spread: f64,
}

impl Pairwise for Change {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f64, shift: f64) -> f64 {
        let growth = exp_minus::<f64, FMA>(shift, 1.0);
        let moved = self.ratio * curved_part::<f64, FMA>(-delta) - self.excess * delta;
        -growth * self.spread - (growth + 1.0) * moved
    }
}

/// Beyond this a predictor is no likelihood's: held there, so that products stay finite.
const FAR: f64 = 150.0;
