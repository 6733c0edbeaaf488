//! Predictions of a row with an unknown outcome: its mean given the parameters, draws of it, probabilities of classes.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, Poisson, StandardUniform};

use super::Numbers;

/// A row given the parameters.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// Its predictors: those of the features, then the constants.
    pub zeta: &'a [f64],
    /// Its exposure; 1 where there is none.
    pub exposure: f64,
    /// The numbers that the model needs besides.
    pub numbers: Numbers,
}

/// The distribution of y given the parameters.
#[derive(Debug, Clone, Copy)]
pub enum Predictive {
    /// There is no outcome to predict.
    Nothing,
    /// A number.
    Number {
        /// E\[y\]; of two classes the probability of success, of successes that of one trial.
        mean: fn(&Given<'_>) -> f64,
        /// One y.
        draw: fn(&Given<'_>, &mut ChaCha8Rng) -> f64,
        /// E\[y\] and Var\[y\] of that; of two classes, of successes as 1 and failures as 0. Infinite if there is none.
        moments: fn(&Given<'_>) -> (f64, f64),
    },
    /// Classes: their probabilities.
    Classes(fn(&Given<'_>, &mut [f64])),
}

/// Whether something of probability p happens, as 1 or 0.
pub(super) fn happens(p: f64, rng: &mut ChaCha8Rng) -> f64 {
    let u: f64 = StandardUniform.sample(rng);
    f64::from(u8::from(u < p))
}

/// A count of this mean; NaN if that is beyond any count.
pub(super) fn count(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    if mean == 0.0 { 0.0 } else { Poisson::new(mean).map_or(f64::NAN, |poisson| poisson.sample(rng)) }
}

/// A number of this shape and mean, Gamma(shape, mean/shape); NaN if there is no such.
pub(super) fn gamma(shape: f64, mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    Gamma::new(shape, mean / shape).map_or(f64::NAN, |gamma| gamma.sample(rng))
}
