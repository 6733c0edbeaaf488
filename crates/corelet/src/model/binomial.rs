//! Binomial regression: y successes of m trials, each with probability σ(η).

use super::built_in::{Card, NONE};
use super::special::{ln_factorial, log_sigmoid_difference, sigmoid, softplus};
use super::{Family, Given, Glm, ModelError, Predictive};
use crate::data::Outcome;
use crate::rows::Observations;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::sync::Arc;

pub(super) const CARD: Card = Card {
    name: "binomial",
    about: "Successes among a number of trials",
    outcome: Outcome::Count,
    settings: &["trials", "offset"],
    sigma: None,
    dispersions: NONE,
    scaled_by_target: false,
    bind: |observations, _| Ok(Arc::new(Binomial::model(observations)?)),
    predictive: Predictive::Number { mean: |given| sigmoid(given.zeta[0]), draw: successes },
};

/// Successes among the trials of the row, of which there is one where nothing is said.
fn successes(given: &Given<'_>, rng: &mut ChaCha8Rng) -> f64 {
    let trials = rand_distr::Binomial::new(given.exposure as u64, sigmoid(given.zeta[0]));
    trials.map_or(f64::NAN, |trials| trials.sample(rng) as f64)
}

/// ℓ = y log σ(η) + (m − y) log σ(−η) + log C(m, y), with the number of trials m in the place of an exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binomial;

impl Binomial {
    /// The model of these observations, whose exposures are the numbers of trials.
    pub fn model(observations: Observations) -> Result<Glm<Binomial>, ModelError> {
        let possible = |row: usize| {
            let (y, trials) = observations.target(row);
            y <= trials && trials.fract() == 0.0
        };
        if let Some(row) = (0..observations.len()).find(|&row| !possible(row)) {
            let need = "no more successes than trials, of which there is a whole number";
            return Err(ModelError::Target {
                row,
                value: observations.target(row).0,
                model: "binomial",
                need,
            });
        }
        Glm::new(observations, Binomial)
    }
}

impl Family for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }

    fn check_target(&self, y: f64) -> Result<(), &'static str> {
        if y >= 0.0 && y.fract() == 0.0 { Ok(()) } else { Err("a count of successes: 0, 1, 2, …") }
    }

    fn value(&self, eta: f64, y: f64, trials: f64) -> f64 {
        let choices = ln_factorial(trials) - ln_factorial(y) - ln_factorial(trials - y);
        choices - y * softplus(-eta) - (trials - y) * softplus(eta)
    }

    fn derivatives(&self, eta: f64, y: f64, trials: f64) -> [f64; 3] {
        let (p, q) = (sigmoid(eta), sigmoid(-eta));
        [y * q - (trials - y) * p, -trials * p * q, trials * p * q * (p - q)]
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, trials: f64) -> f64 {
        y * log_sigmoid_difference(eta, delta) + (trials - y) * log_sigmoid_difference(-eta, -delta)
    }
}
