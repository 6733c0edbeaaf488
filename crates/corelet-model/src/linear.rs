//! Linear regression: y ~ N(η, σ²) with σ² known, or plugged in from the least-squares residuals; [`Normal`] has it unknown.

use super::built_in::{Card, IDENTITY};
use super::glm::{check_features, check_weights};
use super::normal::LOG_SIGMA;
use super::{Family, Given, Glm, ModelError, Normal, Predictive};
use crate::vector_math::{Pointwise, Real, map_in_place};
use corelet_data::Outcome;
use corelet_data::observations::{Moments, Observations};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "linear",
    about: "Linear regression",
    outcome: Outcome::Number,
    settings: &["sigma", "offset"],
    sigma: None,
    dispersions: |numbers| if numbers.sigma.is_some() { &[] } else { &[LOG_SIGMA] },
    scaled_by_target: true,
    link: IDENTITY,
    bind: |observations, numbers| match numbers.sigma {
        Some(sigma) => Ok(Arc::new(Linear::model(observations, sigma * sigma)?)),
        None => Ok(Arc::new(Normal::model(observations)?)),
    },
    predictive: Predictive::Number {
        mean: |given| given.zeta[0],
        draw: noisy,
        moments: |given| (given.zeta[0], noise_of(given).powi(2)),
    },
};

/// η and noise, whose σ is given or the second predictor.
fn noisy(given: &Given<'_>, rng: &mut ChaCha8Rng) -> f64 {
    let noise: f64 = StandardNormal.sample(rng);
    given.zeta[0] + noise_of(given) * noise
}

/// σ.
fn noise_of(given: &Given<'_>) -> f64 {
    given.numbers.sigma.unwrap_or_else(|| given.zeta[1].exp())
}

/// ℓ = −(y − η)²/(2σ²) − ½ log(2πσ²).
///
/// ℓ(η+δ) − ℓ(η) = δ(y − η − δ/2)/σ².
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    variance: f64,
}

impl Linear {
    /// The family with noise variance σ².
    pub fn new(variance: f64) -> Result<Linear, ModelError> {
        if variance > 0.0 && variance.is_finite() {
            Ok(Linear { variance })
        } else {
            Err(ModelError::NotPositive { what: "the noise variance", value: variance })
        }
    }

    /// The model of these observations with σ² known.
    pub fn model(observations: Observations, variance: f64) -> Result<Glm<Linear>, ModelError> {
        Glm::new(observations, Linear::new(variance)?)
    }

    /// The model of these observations with σ² = RSS/(n − D), see [`residual_variance`].
    pub fn plug_in(observations: Observations) -> Result<Glm<Linear>, ModelError> {
        let variance = residual_variance(&observations)?;
        Linear::model(observations, variance)
    }

    /// σ².
    pub fn variance(&self) -> f64 {
        self.variance
    }
}

/// RSS/(n − D) of least squares, n = Σfᵢ where rows have weights: with [X y] = QR, the last diagonal entry of R is ±√RSS.
pub fn residual_variance(observations: &Observations) -> Result<f64, ModelError> {
    check_features(observations)?;
    let (n, dim, target) = (observations.len(), observations.dim, &observations.target);
    if target.len() != n {
        return Err(ModelError::Length { what: "target", got: target.len(), expected: n });
    }
    check_weights(observations)?;
    let freedom = observations.total_weight() - dim as f64;
    if n <= dim || freedom <= 0.0 {
        let purpose = "for a residual variance";
        return Err(ModelError::TooFewRows { rows: n, needed: dim + 1, purpose });
    }
    Ok(Moments::of(observations).residual_sum_of_squares() / freedom)
}

impl Family for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn check_target(&self, _y: f64) -> Result<(), &'static str> {
        Ok(())
    }

    /// A parabola, σ being known.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, eta: f64, y: f64, _exposure: f64) -> f64 {
        let residual = y - eta;
        -0.5 * (residual * residual / self.variance + (2.0 * std::f64::consts::PI * self.variance).ln())
    }

    fn derivatives(&self, eta: f64, y: f64, _exposure: f64) -> [f64; 3] {
        [(y - eta) / self.variance, -1.0 / self.variance, 0.0]
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, _exposure: f64) -> f64 {
        delta * (y - eta - 0.5 * delta) / self.variance
    }

    fn differences_row(&self, eta: f64, y: f64, _exposure: f64, deltas: &mut [f32]) {
        let slope = ((y - eta) / self.variance) as f32;
        map_in_place(Parabola { slope, curvature: (-0.5 / self.variance) as f32 }, deltas);
    }
}

#[derive(Clone, Copy)]
struct Parabola {
    slope: f32,
    curvature: f32,
}

impl Pointwise for Parabola {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: f32) -> f32 {
        delta * self.curvature.fma::<FMA>(delta, self.slope)
    }
}
