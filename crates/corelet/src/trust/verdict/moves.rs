//! What V allows by parameter: how far the posterior of all rows may be from the draws, to first order.
//!
//! π ∝ π_w·e^Δ, so that to first order in Δ the mean of u moves by Cov(u, Δ) and its variance by Cov((u − Eu)², Δ). By Cauchy and
//! Schwarz no direction moves by more than √V of its standard deviations: with thousands of parameters V is a sum over all of them, and each
//! may be off by far less.

use serde::{Deserialize, Serialize};

use super::Draws;
use super::measure::Measured;
use super::stein::Mean;

/// A standard deviation below this, in nats of Δ or as a share of a parameter's mean, is rounding.
const ROUNDING: f64 = 1e-12;

/// The parameter that moves most, and by how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Its number.
    #[serde(skip)]
    pub parameter: usize,
    /// Its name, `parameter 3` where nobody has given one.
    pub name: String,
    /// By how much.
    pub by: f64,
    /// The standard error of that, by the effective number of draws.
    pub error: f64,
}

/// What all rows change about the draws, to first order, by the parameter that changes most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Of a mean, in standard deviations.
    pub shift: Move,
    /// The factor of a standard deviation.
    pub ratio: Move,
}

impl Moves {
    /// None if the draws have no parameters, or Δ is the same at all of them.
    pub(super) fn of(draws: &Draws, measured: &Measured) -> Option<Self> {
        let (count, variance) = (measured.errors.len(), measured.divergence.variance);
        let varies = variance.is_finite() && variance.sqrt() > ROUNDING;
        if draws.dim == 0 || draws.len() != count || !varies {
            return None;
        }
        let weights = draws.base_weights(count).weights;
        let each = (0..draws.dim).filter_map(|j| Products::of(draws, j, &weights, &measured.errors));
        let (mut shift, mut ratio): (Option<Products<'_>>, Option<Products<'_>>) = (None, None);
        for products in each {
            if shift.as_ref().is_none_or(|most| products.shift.abs() > most.shift.abs()) {
                shift = Some(products.clone());
            }
            if ratio.as_ref().is_none_or(|most| products.widening.abs() > most.widening.abs()) {
                ratio = Some(products);
            }
        }
        let chains = draws.chains.unwrap_or(1).max(1);
        let (shift, ratio) = (shift?, ratio?);
        let by = ratio.widening.exp();
        Some(Self {
            shift: Move::new(shift.parameter, shift.shift, shift.error(chains, |x| x)),
            // The square of a standard normal number less its mean is twice the change of the logarithm of the standard deviation.
            ratio: Move::new(ratio.parameter, by, by * ratio.error(chains, |x| 0.5 * (x * x - 1.0))),
        })
    }

    /// The same with the names of the parameters.
    #[must_use]
    pub fn named(mut self, names: &[String]) -> Self {
        for moved in [&mut self.shift, &mut self.ratio] {
            if let Some(name) = names.get(moved.parameter) {
                moved.name.clone_from(name);
            }
        }
        self
    }
}

impl Move {
    fn new(parameter: usize, by: f64, error: f64) -> Self {
        Self { parameter, name: format!("parameter {parameter}"), by, error }
    }
}

/// A parameter at each draw in standard deviations from its mean, with Δ there, each times the draw's weight over the mean weight.
#[derive(Clone)]
struct Products<'a> {
    parameter: usize,
    /// Cov(u, Δ), and half of Cov(u², Δ).
    shift: f64,
    widening: f64,
    standardised: Vec<f64>,
    weights: &'a [f64],
    errors: &'a [f64],
}

impl<'a> Products<'a> {
    /// None if the parameter is the same at every draw.
    fn of(draws: &Draws, parameter: usize, weights: &'a [f64], errors: &'a [f64]) -> Option<Self> {
        let mut standardised: Vec<f64> =
            draws.theta.iter().skip(parameter).step_by(draws.dim).copied().collect();
        let mean: f64 = standardised.iter().zip(weights).map(|(x, w)| w * x).sum();
        standardised.iter_mut().for_each(|x| *x -= mean);
        let sd = standardised.iter().zip(weights).map(|(x, w)| w * x * x).sum::<f64>().sqrt();
        if !(sd > ROUNDING * mean.abs() && sd.is_finite()) {
            return None;
        }
        standardised.iter_mut().for_each(|x| *x /= sd);
        let mut sums = [0.0; 2];
        for ((x, w), error) in standardised.iter().zip(weights).zip(errors) {
            sums[0] += w * x * error;
            sums[1] += 0.5 * w * (x * x - 1.0) * error;
        }
        let [shift, widening] = sums;
        Some(Self { parameter, shift, widening, standardised, weights, errors })
    }

    /// The standard error of the mean of `of(u)·Δ`.
    fn error(&self, chains: usize, of: impl Fn(f64) -> f64) -> f64 {
        let count = self.errors.len() as f64;
        let each = self.standardised.iter().zip(self.weights).zip(self.errors);
        let series: Vec<f64> = each.map(|((x, w), error)| count * w * of(*x) * error).collect();
        Mean::of(&series, chains).error
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::super::measure::measure;
    use super::*;

    const DIM: usize = 300;
    const DRAWS: usize = 2000;

    /// Independent standard normal parameters, of which Δ shifts number 7 and widens number 11.
    fn draws_and_errors(shift: f64, widening: f64) -> (Draws, Vec<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let theta: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(DIM * DRAWS).collect();
        let mut of =
            |line: &[f64]| shift * line[7] + widening * line[11] * line[11] + 1e-3 * rng.random::<f64>();
        let errors = theta.chunks_exact(DIM).map(&mut of).collect();
        (Draws { theta, dim: DIM, chains: Some(4), log_weights: None }, errors)
    }

    /// N(0, 1) times exp(0.1 x) is N(0.1, 1); times exp(0.06 x²) it is N(0, 1/(1 − 0.12)).
    #[test]
    fn the_parameters_that_move_are_named_with_what_they_move_by() {
        let (draws, errors) = draws_and_errors(0.1, 0.06);
        let measured = measure(&draws, errors, 0.0);
        let moves = Moves::of(&draws, &measured).unwrap();
        assert_eq!((moves.shift.parameter, moves.ratio.parameter), (7, 11));
        assert!((moves.shift.by - 0.1).abs() < 4.0 * moves.shift.error, "{moves:?}");
        assert!(moves.shift.error < 0.01 && moves.ratio.error < 0.01, "{moves:?}");
        let truth = (1.0_f64 - 0.12).sqrt().recip();
        assert!((moves.ratio.by - truth).abs() < 4.0 * moves.ratio.error + 0.01, "{moves:?} {truth}");
        // No direction moves further than √V, nor does a parameter.
        assert!(moves.shift.by.abs() <= measured.divergence.variance.sqrt() * (1.0 + 1e-9));
        // Weights that turn the draws into those of the other density say the same.
        let reweighted: f64 = measured
            .log_weights
            .iter()
            .zip(draws.theta.chunks_exact(DIM))
            .map(|(w, line)| w.exp() * line[7])
            .sum();
        let plain: f64 = draws.theta.chunks_exact(DIM).map(|line| line[7]).sum::<f64>() / DRAWS as f64;
        assert!((reweighted - plain - moves.shift.by).abs() < 0.03, "{reweighted} {plain} {moves:?}");
        let names: Vec<String> = (0..DIM).map(|j| format!("level[{j}]")).collect();
        let named = moves.named(&names);
        assert_eq!((&named.shift.name[..], &named.ratio.name[..]), ("level[7]", "level[11]"));
    }

    #[test]
    fn where_nothing_moves_or_no_parameter_is_known_nothing_is_said() {
        let (draws, errors) = draws_and_errors(0.1, 0.0);
        let same = measure(&draws, vec![2.0; DRAWS], 0.0);
        assert!(Moves::of(&draws, &same).is_none());
        let unknown = Draws { theta: Vec::new(), dim: 0, ..draws.clone() };
        assert!(Moves::of(&unknown, &measure(&unknown, errors.clone(), 0.0)).is_none());
        let stuck = Draws { theta: vec![1.5; DRAWS], dim: 1, ..draws };
        assert!(Moves::of(&stuck, &measure(&stuck, errors, 0.0)).is_none());
    }
}
