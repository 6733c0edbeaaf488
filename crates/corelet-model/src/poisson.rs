//! Poisson regression: y ~ Poisson(λ) with λ = e·exp(η) or λ = e·log(1 + exp(η)), e the exposure.

use super::built_in::{Card, NONE};
use super::logistic::{AboveZero, BelowZero};
use super::predictive::count;
use super::special::{
    expm1_minus_x, ln_factorial, log_of_series, log_sigmoid_difference, log_sigmoid_long_series,
    log_sigmoid_series, log_softplus, log1p_minus_x, sigmoid, softplus,
};
use super::{Family, Given, Glm, Jets, ModelError, Predictive, Slopes};
use crate::vector_math::{
    Kernel, LONG_SERIES_TERMS, LogParts, Pointwise, Reach, Real, SERIES_TERMS, dispatch, exp_minus,
    expm1_minus_x as curved_part, log1p, map_in_place, map_series, map_series_f64,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "poisson",
    about: "Poisson regression",
    outcome: Outcome::Count,
    settings: &["link", "exposure", "offset"],
    sigma: Some(1.0),
    dispersions: NONE,
    scaled_by_target: false,
    link: |mean, numbers| match numbers.link {
        Link::Log => mean.ln(),
        // log(eᵐ − 1), without overflow.
        Link::Softplus => mean + (-(-mean).exp()).ln_1p(),
    },
    bind: |observations, numbers| Ok(Arc::new(Poisson::model(observations, numbers.link)?)),
    predictive: Predictive::Number {
        mean: rate,
        draw: |given, rng| count(rate(given), rng),
        moments: |given| (rate(given), rate(given)),
    },
};

/// λ.
fn rate(given: &Given<'_>) -> f64 {
    let eta = given.zeta[0];
    given.exposure * if given.numbers.link == Link::Softplus { softplus(eta) } else { eta.exp() }
}

/// How the rate λ follows from η.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// λ = e·exp(η), the exposure a log offset.
    #[default]
    Log,
    /// λ = e·log(1 + exp(η)), the exposure a multiplier of the rate.
    Softplus,
}

/// ℓ = y log λ − λ − log y!.
///
/// Both links make ℓ concave in η: log λ is linear under the first and concave under the second (its second
/// derivative has the sign of log(1 + e^η) − e^η), and λ is convex under both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Poisson {
    /// How λ follows from η.
    pub link: Link,
}

impl Poisson {
    /// The model of these observations.
    pub fn model(observations: Observations, link: Link) -> Result<Glm<Poisson>, ModelError> {
        Glm::new(observations, Poisson { link })
    }
}

impl Poisson {
    /// c₁ … c_N with ℓ(η + δ) − ℓ(η) = Σ cₖδᵏ; `log_sigmoid` are the coefficients of log σ(−η + d), which only the
    /// softplus link asks for.
    fn coefficients<const N: usize>(
        &self,
        eta: f64,
        y: f64,
        exposure: f64,
        log_sigmoid: impl Fn(f64) -> [f64; N],
    ) -> [f64; N] {
        match self.link {
            Link::Log => {
                let mut term = -exposure * eta.exp();
                let mut series = std::array::from_fn(|k| {
                    term /= (k + 1) as f64;
                    term
                });
                series[0] += y;
                series
            }
            Link::Softplus => {
                // log(1 + e^η) = −log σ(−η), so odd derivatives keep their sign and even ones change it.
                let mut rate = log_sigmoid(-eta);
                rate.iter_mut().skip(1).step_by(2).for_each(|c| *c = -*c);
                let base = softplus(eta);
                let logarithm = log_of_series(rate.map(|c| c / base));
                std::array::from_fn(|k| y * logarithm[k] - exposure * rate[k])
            }
        }
    }
}

impl Poisson {
    /// Each δ becomes ℓ(η + δ) − ℓ(η).
    fn map_difference<T: Real>(&self, eta: f64, y: f64, exposure: f64, deltas: &mut [T]) {
        match self.link {
            Link::Log => {
                // A rate past the range of f32 is kept finite, so that no ∞ − ∞ arises.
                let rate = (exposure * eta.exp()).min(1e35);
                map_in_place(Exponential { excess: T::of(y - rate), rate: T::of(rate) }, deltas);
            }
            Link::Softplus if eta <= 0.0 => {
                softplus_row(AboveZero::new(-eta, -1.0), eta, y, exposure, deltas);
            }
            Link::Softplus => softplus_row(BelowZero::new(-eta, -1.0), eta, y, exposure, deltas),
        }
    }
}

/// y·x, which is 0 at y = 0 whatever x is.
fn times(y: f64, x: f64) -> f64 {
    if y == 0.0 { 0.0 } else { y * x }
}

impl Family for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn check_target(&self, y: f64) -> Result<(), &'static str> {
        if y >= 0.0 && y.fract() == 0.0 { Ok(()) } else { Err("a count: 0, 1, 2, …") }
    }

    /// y log λ − λ with λ convex and log λ concave: λ is e^η, or the integral of σ up to η, which is log-concave since σ is.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, eta: f64, y: f64, exposure: f64) -> f64 {
        let (log_rate, rate) = match self.link {
            Link::Log => (eta, eta.exp()),
            Link::Softplus => (log_softplus(eta), softplus(eta)),
        };
        times(y, log_rate + exposure.ln()) - exposure * rate - ln_factorial(y)
    }

    fn derivatives(&self, eta: f64, y: f64, exposure: f64) -> [f64; 3] {
        match self.link {
            Link::Log => {
                let rate = exposure * eta.exp();
                [y - rate, -rate, -rate]
            }
            Link::Softplus => {
                let [first, second, third] = log_softplus_derivatives(eta);
                let (s, t) = (sigmoid(eta), sigmoid(-eta));
                [
                    y * first - exposure * s,
                    y * second - exposure * s * t,
                    y * third - exposure * s * t * (t - s),
                ]
            }
        }
    }

    fn jets(&self, rows: &mut Jets) {
        if self.link == Link::Softplus {
            return rows.fill(|eta, y, exposure| self.jet(eta, y, exposure));
        }
        dispatch(Rates(rows));
        let Jets { eta, y, exposure, value, .. } = rows;
        for (((eta, &y), exposure), value) in eta.iter().zip(&*y).zip(&*exposure).zip(value) {
            let rate = *value;
            *value = if y == 0.0 { -rate } else { y * (eta + exposure.ln()) - rate - ln_factorial(y) };
        }
    }

    fn slopes(&self, rows: &mut Slopes) {
        match self.link {
            Link::Log => dispatch(RateSlopes(rows)),
            Link::Softplus => rows.fill(|eta, y, exposure| self.derivatives(eta, y, exposure)),
        }
    }

    fn series(&self, eta: f64, y: f64, exposure: f64) -> Option<[f64; 7]> {
        (eta.abs() < FAR).then(|| self.coefficients(eta, y, exposure, log_sigmoid_series))
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, exposure: f64) -> f64 {
        match self.link {
            Link::Log => {
                if delta == 0.0 {
                    return 0.0;
                }
                let rate = exposure * eta.exp();
                if delta.abs() < 0.5 {
                    (y - rate) * delta - rate * expm1_minus_x(delta)
                } else {
                    y * delta - rate * delta.exp_m1()
                }
            }
            Link::Softplus => {
                let growth = -log_sigmoid_difference(-eta, -delta);
                let base = softplus(eta);
                let relative = growth / base;
                if eta > -600.0 && relative.abs() < 0.5 {
                    return y * log1p_minus_x(relative) + (y - exposure * base) * relative;
                }
                let far = eta + delta < -30.0 && eta < -30.0;
                let log_growth = if far {
                    delta - 0.5 * eta.exp() * delta.exp_m1()
                } else {
                    log_softplus(eta + delta) - log_softplus(eta)
                };
                times(y, log_growth) - exposure * growth
            }
        }
    }

    fn differences_row_f64(&self, eta: f64, y: f64, exposure: f64, deltas: &mut [f64]) {
        let reach = if eta.abs() < FAR { Reach::of(deltas) } else { Reach::Beyond };
        match (reach, self.link) {
            (Reach::Short, _) => {
                let log_sigmoid = log_sigmoid_long_series::<SERIES_TERMS>;
                map_series_f64(self.coefficients(eta, y, exposure, log_sigmoid), deltas);
            }
            (Reach::Long, Link::Softplus) => {
                let log_sigmoid = log_sigmoid_long_series::<LONG_SERIES_TERMS>;
                map_series_f64(self.coefficients(eta, y, exposure, log_sigmoid), deltas);
            }
            (_, Link::Softplus) if eta < -FAR => {
                deltas.iter_mut().for_each(|delta| *delta = self.difference(eta, *delta, y, exposure));
            }
            _ => self.map_difference(eta, y, exposure, deltas),
        }
    }

    fn differences_row(&self, eta: f64, y: f64, exposure: f64, deltas: &mut [f32]) {
        if !self.series(eta, y, exposure).is_some_and(|series| map_series(series, deltas)) {
            self.map_difference(eta, y, exposure, deltas);
        }
    }
}

/// The rates of the log link into the place of the values, and the derivatives y − λ and −λ.
struct Rates<'a>(&'a mut Jets);

impl Kernel for Rates<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Jets { eta, y, exposure, value, first, second } = self.0;
        let out = value.iter_mut().zip(first).zip(second);
        for (((eta, y), exposure), ((value, first), second)) in eta.iter().zip(&*y).zip(&*exposure).zip(out) {
            let rate = exposure * exp_minus::<f64, FMA>(*eta, 0.0);
            *value = rate;
            *first = y - rate;
            *second = -rate;
        }
    }
}

/// The derivatives y − λ, −λ and −λ of the log link.
struct RateSlopes<'a>(&'a mut Slopes);

impl Kernel for RateSlopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Slopes { eta, y, exposure, first, second, third } = self.0;
        let out = first.iter_mut().zip(second).zip(third);
        for (((eta, y), exposure), ((first, second), third)) in eta.iter().zip(&*y).zip(&*exposure).zip(out) {
            let rate = exposure * exp_minus::<f64, FMA>(*eta, 0.0);
            *first = y - rate;
            *second = -rate;
            *third = -rate;
        }
    }
}

/// Below −40 the series of the softplus link would need numbers that are none in f32.
const FAR: f64 = 40.0;

/// The first three derivatives of g = log log(1 + e^η): g′ = r, g″ = rk, g‴ = g″k − r(σσ̄ + g″), where r = σ/log(1+e^η)
/// and k = 1 − σ − r.
fn log_softplus_derivatives(eta: f64) -> [f64; 3] {
    let exponential = eta.exp();
    let (s, t) = (sigmoid(eta), sigmoid(-eta));
    // Series in e^η where r and 1 − σ are both nearly 1.
    let (r, k) = if exponential < 1e-5 {
        let e = exponential;
        (1.0 - e * (0.5 - e * (5.0 / 12.0 - 0.375 * e)), -e * (0.5 - e * (7.0 / 12.0 - 0.625 * e)))
    } else {
        let r = s / softplus(eta);
        (r, t - r)
    };
    let second = r * k;
    [r, second, second * k - r * (s * t + second)]
}

/// (y − λ)δ − λ(e^δ − 1 − δ): the log link.
#[derive(Clone, Copy)]
struct Exponential<T> {
    excess: T,
    rate: T,
}

impl<T: Real> Pointwise<T> for Exponential<T> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: T) -> T {
        self.excess.fma::<FMA>(delta, -self.rate * curved_part::<T, FMA>(delta))
    }
}

/// y·log(1 + u) − e·Δ with Δ the growth of log(1 + e^η) and u = Δ/log(1 + e^η): the softplus link.
///
/// `IS_FAR` is for η < −40, where log(1 + e^η) may be no f32 and its logarithm is η.
#[derive(Clone, Copy)]
struct Rate<P, T, const IS_FAR: bool> {
    growth: P,
    eta: T,
    y: T,
    excess: T,
    exposure: T,
    inverse_base: T,
    log_base: T,
}

fn softplus_row<T: Real, P: Pointwise<T>>(growth: P, eta: f64, y: f64, exposure: f64, deltas: &mut [T]) {
    if eta < -FAR {
        map_in_place(Rate::<P, T, true>::new(growth, eta, y, exposure), deltas);
    } else {
        map_in_place(Rate::<P, T, false>::new(growth, eta, y, exposure), deltas);
    }
}

impl<P, T: Real, const IS_FAR: bool> Rate<P, T, IS_FAR> {
    fn new(growth: P, eta: f64, y: f64, exposure: f64) -> Self {
        let base = softplus(eta);
        Rate {
            growth,
            eta: T::of(eta),
            y: T::of(y),
            excess: T::of(y - exposure * base),
            exposure: T::of(exposure),
            inverse_base: T::of(base.recip()),
            log_base: T::of(log_softplus(eta)),
        }
    }
}

impl<T: Real, P: Pointwise<T>, const IS_FAR: bool> Pointwise<T> for Rate<P, T, IS_FAR> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: T) -> T {
        let (zero, one, half) = (T::of(0.0), T::of(1.0), T::of(0.5));
        let growth = -self.growth.apply::<FMA>(delta);
        let eta = self.eta + delta;
        let rate = if eta > zero { eta } else { zero }
            + log1p::<T, FMA>(exp_minus::<T, FMA>(-eta.magnitude(), zero));
        let below = eta < T::TINY_EXP;
        if IS_FAR {
            let log = LogParts::new::<FMA>(rate, zero).log::<FMA>() - self.log_base;
            return self.y.fma::<FMA>(if below { delta } else { log }, -self.exposure * growth);
        }
        let relative = growth * self.inverse_base;
        let direct = relative < -half;
        let parts =
            LogParts::new::<FMA>(if direct { rate } else { relative }, if direct { zero } else { one });
        let log_rate = if below { eta } else { parts.log::<FMA>() };
        let log = if direct { log_rate - self.log_base } else { parts.log::<FMA>() };
        let wide = self.y.fma::<FMA>(log, -self.exposure * growth);
        let near = self.y.fma::<FMA>(parts.log_minus_x::<FMA>(relative), self.excess * relative);
        if relative.magnitude() < half { near } else { wide }
    }
}
