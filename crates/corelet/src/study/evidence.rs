//! The log evidence of a model by draws of its posterior: one pass over all rows at these and at as many draws of a Gaussian.

use super::{Study, StudyError};
use crate::linalg::{Cholesky, gram};
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::review::{Evidence, bridge};
use crate::rows::{At, Rows, Totals};
use crate::trust::Draws;

impl Study {
    /// log ∫ p(y | θ) π₀(θ) dθ by bridge sampling: half of the draws, each other one of a chain, make a Gaussian, and the others are
    /// bridged to as many draws of it. `log_weights` make them draws of the posterior of all rows, where they are not yet. None where
    /// the two do not overlap.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn evidence(
        &self,
        draws: &Draws,
        log_weights: Option<&[f64]>,
        seed: u64,
    ) -> Result<Option<Evidence>, StudyError> {
        let weights = normalised(log_weights, draws.len());
        let half = |parity: usize| (0..draws.len()).filter(move |s| s % 2 == parity);
        let Some(fitted) = moments(draws, &weights, &half(0).collect::<Vec<_>>()) else { return Ok(None) };
        let others: Vec<usize> = half(1).collect();
        let proposals = fitted.shifts(others.len(), seed, Stream::Evidence);
        let mut theta: Vec<f64> = others.iter().flat_map(|&s| draws.row(s)).copied().collect();
        for s in 0..others.len() {
            theta.extend(fitted.mean.iter().zip(proposals.row(s)).map(|(mean, shift)| mean + shift));
        }
        let all = Draws { theta, dim: draws.dim, chains: None, log_weights: None };
        let ratios = self.log_ratios(&all, &fitted)?;
        let (posterior, proposal) = ratios.split_at(others.len());
        let total: f64 = others.iter().map(|&s| weights[s]).sum();
        let kept: Vec<f64> = others.iter().map(|&s| weights[s] / total).collect();
        let chained = draws.chains.is_some_and(|chains| chains > 1);
        let inflation = if chained { (0.5 / draws.efficiency_of_means()).max(1.0) } else { 1.0 };
        Ok(bridge(posterior, &kept, proposal, inflation))
    }

    /// log p(y | θ) π₀(θ) − log g(θ) at each draw.
    fn log_ratios(&self, draws: &Draws, density: &Gaussian) -> Result<Vec<f64>, StudyError> {
        let anchor = &density.mean;
        let here = self.rows.newton(&At { theta: anchor, derivatives: 0 })?.value;
        let shifts = draws.shifts(anchor);
        let likelihood = self.rows.totals(&Totals::new(anchor, &shifts, self.rows.len()))?;
        let each = likelihood.iter().enumerate().map(|(s, change)| {
            let theta = draws.row(s);
            here + change + self.prior.log_density(theta) - density.log_density(theta)
        });
        Ok(each.map(|x| if x.is_nan() { f64::NEG_INFINITY } else { x }).collect())
    }
}

/// Weights that add up to 1.
fn normalised(log_weights: Option<&[f64]>, count: usize) -> Vec<f64> {
    let Some(logs) = log_weights else { return vec![1.0 / count.max(1) as f64; count] };
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|w| (w - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// The Gaussian with the moments of these draws; none if they span no volume.
fn moments(draws: &Draws, weights: &[f64], places: &[usize]) -> Option<Gaussian> {
    let total: f64 = places.iter().map(|&s| weights[s]).sum();
    let mut mean = vec![0.0; draws.dim];
    for &s in places {
        mean.iter_mut().zip(draws.row(s)).for_each(|(mean, x)| *mean += weights[s] / total * x);
    }
    let shifts: Vec<f64> = places
        .iter()
        .flat_map(|&s| {
            let root = (weights[s] / total).sqrt();
            draws.row(s).iter().zip(&mean).map(move |(x, m)| root * (x - m)).collect::<Vec<f64>>()
        })
        .collect();
    let covariance = gram(&shifts, places.len(), draws.dim);
    let precision = Cholesky::new(&covariance, draws.dim).ok()?.inverse();
    Gaussian::from_precision(mean, precision).ok()
}
