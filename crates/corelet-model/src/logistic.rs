//! Logistic regression: y = ±1, ℓ = −log(1 + e^{−yη}).

use super::built_in::{Card, LOGIT, NONE};
use super::predictive::happens;
use super::special::{
    log_sigmoid_difference, log_sigmoid_long_series, log_sigmoid_series, sigmoid, softplus,
};
use super::{Family, Glm, Jets, ModelError, Predictive, Slopes};
use crate::vector_math::{
    Kernel, LONG_SERIES_TERMS, Pointwise, Reach, Real, SERIES_TERMS, dispatch, exp_minus, log1p,
    map_in_place, map_series, map_series_f64,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "logistic",
    about: "Logistic regression",
    outcome: Outcome::Classes,
    settings: &["positive", "offset"],
    sigma: Some(1.0),
    dispersions: NONE,
    scaled_by_target: false,
    // The classes are −1 and +1.
    link: |mean, numbers| LOGIT(0.5 * (1.0 + mean), numbers),
    bind: |observations, _| Ok(Arc::new(Logistic::model(observations)?)),
    predictive: SUCCESS,
};

/// Success, with probability σ(η).
const SUCCESS: Predictive = Predictive::Number {
    mean: |given| sigmoid(given.zeta[0]),
    draw: |given, rng| happens(sigmoid(given.zeta[0]), rng),
    moments: |given| {
        let p = sigmoid(given.zeta[0]);
        (p, p * (1.0 - p))
    },
};

/// P(y | η) = σ(yη), y = ±1.
///
/// ℓ′ = yp, ℓ″ = −p(1−p), ℓ‴ = y(1−2p)p(1−p) with p = σ(−yη), and ℓ(η+δ) − ℓ(η) = −log1p(p·expm1(−yδ)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logistic;

impl Logistic {
    /// The model of these observations.
    pub fn model(observations: Observations) -> Result<Glm<Logistic>, ModelError> {
        Glm::new(observations, Logistic)
    }
}

impl Family for Logistic {
    fn name(&self) -> &'static str {
        "logistic"
    }

    fn check_target(&self, y: f64) -> Result<(), &'static str> {
        if y.abs() == 1.0 { Ok(()) } else { Err("-1 or 1") }
    }

    /// log σ is concave.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, eta: f64, y: f64, _exposure: f64) -> f64 {
        -softplus(-y * eta)
    }

    fn derivatives(&self, eta: f64, y: f64, _exposure: f64) -> [f64; 3] {
        let t = y * eta;
        let (p, q) = sigmoids(t, (-t.abs()).exp());
        [y * p, -p * q, y * (q - p) * p * q]
    }

    fn jet(&self, eta: f64, y: f64, _exposure: f64) -> [f64; 3] {
        let t = y * eta;
        let small = (-t.abs()).exp();
        let (p, q) = sigmoids(t, small);
        [t.min(0.0) - small.ln_1p(), y * p, -p * q]
    }

    fn jets(&self, rows: &mut Jets) {
        dispatch(LogisticJets(rows));
    }

    fn slopes(&self, rows: &mut Slopes) {
        dispatch(LogisticSlopes(rows));
    }

    fn series(&self, eta: f64, y: f64, _exposure: f64) -> Option<[f64; 7]> {
        Some(in_delta(log_sigmoid_series(y * eta), y))
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, _exposure: f64) -> f64 {
        log_sigmoid_difference(y * eta, y * delta)
    }

    fn differences_row_f64(&self, eta: f64, y: f64, _exposure: f64, deltas: &mut [f64]) {
        let t = y * eta;
        match Reach::of(deltas) {
            Reach::Short => {
                map_series_f64(in_delta(log_sigmoid_long_series::<SERIES_TERMS>(t), y), deltas);
            }
            Reach::Long => {
                map_series_f64(in_delta(log_sigmoid_long_series::<LONG_SERIES_TERMS>(t), y), deltas);
            }
            Reach::Beyond => map_difference(t, y, deltas),
        }
    }

    fn differences_row(&self, eta: f64, y: f64, _exposure: f64, deltas: &mut [f32]) {
        let t = y * eta;
        if !map_series(in_delta(log_sigmoid_series(t), y), deltas) {
            map_difference(t, y, deltas);
        }
    }
}

/// [`Logistic::jet`] of many rows.
struct LogisticJets<'a>(&'a mut Jets);

impl Kernel for LogisticJets<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Jets { eta, y, value, first, second, .. } = self.0;
        let out = value.iter_mut().zip(first).zip(second);
        for ((eta, y), ((value, first), second)) in eta.iter().zip(&*y).zip(out) {
            let t = y * eta;
            let small = exp_minus::<f64, FMA>(-t.abs(), 0.0);
            let (p, q) = sigmoids(t, small);
            *value = (if t < 0.0 { t } else { 0.0 }) - log1p::<f64, FMA>(small);
            *first = y * p;
            *second = -p * q;
        }
    }
}

/// [`Logistic::derivatives`] of many rows.
struct LogisticSlopes<'a>(&'a mut Slopes);

impl Kernel for LogisticSlopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Slopes { eta, y, first, second, third, .. } = self.0;
        let out = first.iter_mut().zip(second).zip(third);
        for ((eta, y), ((first, second), third)) in eta.iter().zip(&*y).zip(out) {
            let t = y * eta;
            let (p, q) = sigmoids(t, exp_minus::<f64, FMA>(-t.abs(), 0.0));
            *first = y * p;
            *second = -p * q;
            *third = y * (q - p) * p * q;
        }
    }
}

/// σ(−t) and σ(t) from e^{−|t|}, each to full relative precision.
#[inline(always)]
pub(super) fn sigmoids(t: f64, small: f64) -> (f64, f64) {
    let larger = 1.0 / (1.0 + small);
    if t >= 0.0 { (small * larger, larger) } else { (larger, small * larger) }
}

/// Each δ becomes log σ(t + yδ) − log σ(t).
pub(super) fn map_difference<T: Real>(t: f64, y: f64, deltas: &mut [T]) {
    if t >= 0.0 {
        map_in_place(AboveZero::new(t, y), deltas);
    } else {
        map_in_place(BelowZero::new(t, y), deltas);
    }
}

/// From coefficients of dᵏ to those of δᵏ, where d = yδ.
pub(super) fn in_delta<const N: usize>(mut series: [f64; N], y: f64) -> [f64; N] {
    series.iter_mut().step_by(2).for_each(|c| *c *= y);
    series
}

/// log σ(t + d) − log σ(t) at t ≥ 0 as a function of δ = ±d; the formulas are those of [`log_sigmoid_difference`].
#[derive(Clone, Copy)]
pub(super) struct AboveZero<T> {
    sign: T,
    /// σ(−t) and its logarithm.
    p: T,
    log_p: T,
}

impl<T: Real> AboveZero<T> {
    pub(super) fn new(t: f64, sign: f64) -> Self {
        AboveZero { sign: T::of(sign), p: T::of(sigmoid(-t)), log_p: T::of(-softplus(t)) }
    }
}

impl<T: Real> Pointwise<T> for AboveZero<T> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: T) -> T {
        let fall = -self.sign * delta;
        let large = fall > T::LARGE;
        let exponent = if large { fall + self.log_p } else { fall };
        let exponential = exp_minus::<T, FMA>(exponent, T::of(if large { 0.0 } else { 1.0 }));
        let log = log1p::<T, FMA>(if large { exponential } else { self.p * exponential });
        -(if large & (exponent > T::of(40.0)) { exponent } else { log })
    }
}

/// log σ(t + d) − log σ(t) at t < 0 as a function of δ = ±d.
#[derive(Clone, Copy)]
pub(super) struct BelowZero<T> {
    sign: T,
    /// −t, and the d from which the sum d − log1p(…) would cancel.
    t: T,
    turn: T,
    /// σ(t) and its logarithm.
    q: T,
    log_q: T,
}

impl<T: Real> BelowZero<T> {
    pub(super) fn new(t: f64, sign: f64) -> Self {
        let [t, turn] = [-t, (-t).max(1.0)];
        let [q, log_q] = [sigmoid(-t), -softplus(t)];
        BelowZero { sign: T::of(sign), t: T::of(t), turn: T::of(turn), q: T::of(q), log_q: T::of(log_q) }
    }
}

impl<T: Real> Pointwise<T> for BelowZero<T> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: T) -> T {
        let d = self.sign * delta;
        let beyond = d > self.turn;
        let plain = beyond | (d > T::LARGE);
        let exponent = if plain { d + self.log_q } else { d };
        let exponent = if beyond { self.t - d } else { exponent };
        let exponential = exp_minus::<T, FMA>(exponent, T::of(if plain { 0.0 } else { 1.0 }));
        let log = log1p::<T, FMA>(if plain { exponential } else { self.q * exponential });
        (if beyond { -self.log_q } else { d }) - log
    }
}
