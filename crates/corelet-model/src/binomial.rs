//! Binomial regression: y successes of m trials, each with probability σ(η).

use super::built_in::{Card, LOGIT, NONE};
use super::logistic::{AboveZero, BelowZero, sigmoids};
use super::special::{
    ln_factorial, log_sigmoid_difference, log_sigmoid_long_series, log_sigmoid_series, sigmoid, softplus,
};
use super::{Family, Given, Glm, Jets, ModelError, Predictive};
use crate::vector_math::{
    Kernel, LONG_SERIES_TERMS, Pointwise, Reach, Real, SERIES_TERMS, dispatch, exp_minus, log1p,
    map_in_place, map_series, map_series_f64,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;
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
    link: LOGIT,
    bind: |observations, _| Ok(Arc::new(Binomial::model(observations)?)),
    predictive: Predictive::Number {
        mean: |given| sigmoid(given.zeta[0]),
        draw: successes,
        moments: |given| {
            let (m, p) = (given.exposure, sigmoid(given.zeta[0]));
            (m * p, m * p * (1.0 - p))
        },
    },
};

/// Successes among the trials of the row; one trial by default.
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

    /// A sum of log σ(η) and log σ(−η), each concave.
    fn is_log_concave(&self) -> bool {
        true
    }

    fn value(&self, eta: f64, y: f64, trials: f64) -> f64 {
        ln_choices(y, trials) - y * softplus(-eta) - (trials - y) * softplus(eta)
    }

    fn derivatives(&self, eta: f64, y: f64, trials: f64) -> [f64; 3] {
        let (p, q) = (sigmoid(eta), sigmoid(-eta));
        [y * q - (trials - y) * p, -trials * p * q, trials * p * q * (p - q)]
    }

    fn jets(&self, rows: &mut Jets) {
        dispatch(BinomialJets(rows));
        let Jets { y, exposure, value, .. } = rows;
        for ((value, &y), &trials) in value.iter_mut().zip(&*y).zip(&*exposure) {
            *value += ln_choices(y, trials);
        }
    }

    fn series(&self, eta: f64, y: f64, trials: f64) -> Option<[f64; 7]> {
        Some(of_trials(log_sigmoid_series(eta), eta, y, trials))
    }

    fn difference(&self, eta: f64, delta: f64, y: f64, trials: f64) -> f64 {
        y * log_sigmoid_difference(eta, delta) + (trials - y) * log_sigmoid_difference(-eta, -delta)
    }

    fn differences_row_f64(&self, eta: f64, y: f64, trials: f64, deltas: &mut [f64]) {
        match Reach::of(deltas) {
            Reach::Short => {
                let series = log_sigmoid_long_series::<SERIES_TERMS>(eta);
                map_series_f64(of_trials(series, eta, y, trials), deltas);
            }
            Reach::Long => {
                let series = log_sigmoid_long_series::<LONG_SERIES_TERMS>(eta);
                map_series_f64(of_trials(series, eta, y, trials), deltas);
            }
            Reach::Beyond => map_difference(eta, y, trials, deltas),
        }
    }

    fn differences_row(&self, eta: f64, y: f64, trials: f64, deltas: &mut [f32]) {
        if !map_series(of_trials(log_sigmoid_series(eta), eta, y, trials), deltas) {
            map_difference(eta, y, trials, deltas);
        }
    }
}

/// log C(m, y).
fn ln_choices(y: f64, trials: f64) -> f64 {
    ln_factorial(trials) - ln_factorial(y) - ln_factorial(trials - y)
}

/// From the coefficients of log σ(η + δ) − log σ(η) to those of ℓ: m times as large, but for the slope, since log σ(−η) is
/// log σ(η) less η.
fn of_trials<const N: usize>(mut series: [f64; N], eta: f64, y: f64, trials: f64) -> [f64; N] {
    series.iter_mut().for_each(|c| *c *= trials);
    series[0] = y * sigmoid(-eta) - (trials - y) * sigmoid(eta);
    series
}

/// Value, less log C(m, y), and derivatives of many rows.
struct BinomialJets<'a>(&'a mut Jets);

impl Kernel for BinomialJets<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Jets { eta, y, exposure, value, first, second } = self.0;
        let out = value.iter_mut().zip(first).zip(second);
        for (((eta, y), trials), ((value, first), second)) in eta.iter().zip(&*y).zip(&*exposure).zip(out) {
            let small = exp_minus::<f64, FMA>(-eta.abs(), 0.0);
            let (q, p) = sigmoids(*eta, small);
            let failures = trials - y;
            let falling = if *eta < 0.0 { y * eta } else { -failures * eta };
            *value = falling - trials * log1p::<f64, FMA>(small);
            *first = y * q - failures * p;
            *second = -trials * p * q;
        }
    }
}

/// Each δ becomes ℓ(η + δ) − ℓ(η).
fn map_difference<T: Real>(eta: f64, y: f64, trials: f64, deltas: &mut [T]) {
    let (successes, failures) = (T::of(y), T::of(trials - y));
    if eta >= 0.0 {
        let (won, lost) = (AboveZero::new(eta, 1.0), BelowZero::new(-eta, -1.0));
        map_in_place(Change { successes, failures, won, lost }, deltas);
    } else {
        let (won, lost) = (BelowZero::new(eta, 1.0), AboveZero::new(-eta, -1.0));
        map_in_place(Change { successes, failures, won, lost }, deltas);
    }
}

/// y times the change of log σ(η), and m − y times that of log σ(−η).
#[derive(Clone, Copy)]
struct Change<T, W, L> {
    successes: T,
    failures: T,
    won: W,
    lost: L,
}

impl<T: Real, W: Pointwise<T>, L: Pointwise<T>> Pointwise<T> for Change<T, W, L> {
    #[inline(always)]
    fn apply<const FMA: bool>(self, delta: T) -> T {
        self.successes * self.won.apply::<FMA>(delta) + self.failures * self.lost.apply::<FMA>(delta)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Differences of many shifts, by a series where all are small and by the kernel where one is not, against one at a time.
        #[test]
        fn kernels_are_their_plain_twins(
            eta in prop_oneof![-3.0f64..3.0, -40.0f64..40.0],
            delta in prop_oneof![-1e-3f64..1e-3, -0.6f64..0.6, -8.0f64..8.0],
            trials in 1u32..1000,
            share in 0.0f64..=1.0,
        ) {
            let trials = f64::from(trials);
            let y = (share * trials).round();
            for (other, length) in [(delta, 19), (0.3, 19), (0.3, 130), (9.0, 19)] {
                let mut row = vec![other; length];
                row[7] = delta;
                let mut narrow: Vec<f32> = row.iter().map(|delta| *delta as f32).collect();
                Binomial.differences_row_f64(eta, y, trials, &mut row);
                Binomial.differences_row(eta, y, trials, &mut narrow);
                // What successes and failures take off each other costs its digits.
                let parts = |delta: f64| {
                    let (won, lost) = (log_sigmoid_difference(eta, delta), log_sigmoid_difference(-eta, -delta));
                    y * won.abs() + (trials - y) * lost.abs()
                };
                let want = Binomial.difference(eta, delta, y, trials);
                prop_assert!((row[7] - want).abs() <= 1e-12 * parts(delta) + 1e-300, "{} {want}", row[7]);
                let delta = f64::from(delta as f32);
                let want = Binomial.difference(eta, delta, y, trials);
                // η itself is rounded.
                let close = (2e-6 + 1e-7 * eta.abs()) * parts(delta) + 1e-30;
                prop_assert!((f64::from(narrow[7]) - want).abs() <= close, "{} {want}", narrow[7]);
            }
        }

        #[test]
        fn many_jets_are_single_ones(eta in -700.0f64..700.0, trials in 1u32..1000, share in 0.0f64..=1.0) {
            let trials = f64::from(trials);
            let y = (share * trials).round();
            let [value, first, second] = [(); 3].map(|()| vec![0.0; 19]);
            let (eta_of_all, y_of_all, exposure) = (vec![eta; 19], vec![y; 19], vec![trials; 19]);
            let mut rows = Jets { eta: eta_of_all, y: y_of_all, exposure, value, first, second };
            Binomial.jets(&mut rows);
            let [value, first, second] = Binomial.jet(eta, y, trials);
            let size = trials * (1.0 + eta.abs());
            prop_assert!((rows.value[7] - value).abs() <= 1e-13 * size.max(value.abs()));
            prop_assert!((rows.first[7] - first).abs() <= 1e-14 * trials);
            prop_assert!((rows.second[7] - second).abs() <= 1e-13 * second.abs() + 1e-300);
        }
    }
}
