//! The draws behind a verdict: from chains, or from a Gaussian with weights that turn them into draws of the posterior.

use std::collections::HashSet;

use super::psis::{pareto_threshold, psis};
use super::{REWEIGHTED_DRAWS, VerdictError};
use crate::model::Shifts;
use crate::posterior::{Chains, Gaussian, Prior, effective_sample_size};
use crate::random::Stream;
use crate::rows::{At, LogLikelihood, RowsError, Weighted};

/// Draws θ of a coreset's posterior π_w.
#[derive(Debug, Clone, PartialEq)]
pub struct Draws {
    /// S × D numbers, row-major, with chains concatenated.
    pub theta: Vec<f64>,
    /// Number of parameters, D.
    pub dim: usize,
    /// The number of chains of equal length; none if the draws are independent.
    pub chains: Option<usize>,
    /// log π_w(θ)/q(θ) up to a constant, if they were drawn from another density q.
    pub log_weights: Option<Vec<f64>>,
}

/// Weights that turn the draws into draws of π_w.
pub(super) struct BaseWeights {
    pub(super) weights: Vec<f64>,
    pub(super) log_weights: Vec<f64>,
    /// Whether the draws represent π_w.
    pub(super) reliable: bool,
}

impl Draws {
    /// At most `most` of the draws of these chains, evenly thinned.
    pub fn from_chains(chains: &Chains, most: usize) -> Self {
        let (dim, count) = (chains.dim, chains.chains.len());
        Self { theta: chains.thinned(most).theta(), dim, chains: Some(count), log_weights: None }
    }

    /// `count` draws of the Gaussian fit of the weighted rows, and the weights that turn them into draws of π_w.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn from_gaussian(
        coreset: &Weighted,
        prior: &Prior,
        fit: &Gaussian,
        count: usize,
        seed: u64,
    ) -> Result<Self, RowsError> {
        let dim = fit.dim();
        let shifts = fit.shifts(count, seed, Stream::Verdict);
        let theta: Vec<f64> =
            (0..count).flat_map(|s| shifts.row(s).iter().zip(&fit.mean).map(|(d, m)| m + d)).collect();
        let log_weight = |theta: &[f64]| {
            let likelihood = coreset.evaluate(&At { theta, derivatives: 0 })?.value;
            let value = likelihood + prior.log_density(theta);
            let ratio = value - fit.log_density(theta);
            Ok::<f64, RowsError>(if ratio.is_nan() { f64::NEG_INFINITY } else { ratio })
        };
        let log_weights = theta.chunks_exact(dim.max(1)).map(log_weight).collect::<Result<_, _>>()?;
        Ok(Self { theta, dim, chains: None, log_weights: Some(log_weights) })
    }

    /// Number of draws, S.
    pub fn len(&self) -> usize {
        self.theta.len() / self.dim.max(1)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.theta.is_empty()
    }

    /// Draw `s`.
    pub fn row(&self, s: usize) -> &[f64] {
        &self.theta[s * self.dim..][..self.dim]
    }

    /// The plain mean of the draws.
    pub fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.dim];
        for row in self.theta.chunks_exact(self.dim.max(1)) {
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x);
        }
        mean.iter_mut().for_each(|mean| *mean /= self.len() as f64);
        mean
    }

    /// One series for each parameter.
    pub fn parameters(&self) -> Vec<Vec<f64>> {
        let of = |j: usize| self.theta.iter().skip(j).step_by(self.dim.max(1)).copied().collect();
        (0..self.dim).map(of).collect()
    }

    /// At most `most` of the draws, evenly spaced, the same number of each chain.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        let chosen = self.places(most);
        let theta = chosen.iter().flat_map(|&s| self.row(s)).copied().collect();
        let log_weights =
            self.log_weights.as_ref().map(|weights| chosen.iter().map(|&s| weights[s]).collect());
        Self { theta, log_weights, ..*self }
    }

    /// Which draws [`thinned`](Self::thinned) takes.
    pub fn places(&self, most: usize) -> Vec<usize> {
        let chains = self.chains.unwrap_or(1).max(1);
        let length = self.len() / chains;
        let kept = (most / chains).max(1);
        if kept >= length {
            return (0..self.len()).collect();
        }
        let of_chain =
            |chain| (0..kept).map(move |i| chain * length + i * length / kept + length / (2 * kept));
        (0..chains).flat_map(of_chain).collect()
    }

    /// Effective draws over draws, on average over the parameters; 1 for one chain, as ArviZ has it.
    pub fn efficiency_of_means(&self) -> f64 {
        let chains = self.chains.unwrap_or(1).max(1);
        if chains == 1 {
            return 1.0;
        }
        let of = |series: Vec<f64>| {
            let length = (series.len() / chains).max(1);
            effective_sample_size(&series.chunks_exact(length).map(<[f64]>::to_vec).collect::<Vec<_>>())
        };
        let each: Vec<f64> = self.parameters().into_iter().map(of).filter(|x| x.is_finite()).collect();
        each.iter().sum::<f64>() / (each.len().max(1) * self.len().max(1)) as f64
    }

    /// The share of the draws that are no copies of others: a chain that is given twice, or draws that were resampled, say no more than once.
    /// A chain that stays where it is for some steps is no copy of itself; that is what autocorrelation is for.
    pub(super) fn share_of_own(&self) -> f64 {
        let length = (self.len() / self.chains.unwrap_or(1).max(1)).max(1);
        let bits = |s: usize| self.row(s).iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
        let moved = (0..self.len()).filter(|&s| s % length == 0 || self.row(s) != self.row(s - 1));
        let (mut steps, mut places) = (0_usize, HashSet::new());
        for s in moved {
            steps += 1;
            places.insert(bits(s));
        }
        places.len() as f64 / steps.max(1) as f64
    }

    /// θₛ − anchor.
    pub fn shifts(&self, anchor: &[f64]) -> Shifts {
        let rows = self.theta.chunks_exact(self.dim.max(1));
        Shifts::new(rows.flat_map(|row| row.iter().zip(anchor).map(|(x, a)| x - a)).collect(), self.dim)
    }

    pub(super) fn check(&self, dim: usize) -> Result<(), VerdictError> {
        let size = self.len();
        let lengths = [
            ("a draw", self.dim, dim),
            ("draws", self.theta.len(), size * dim),
            ("log weights", self.log_weights.as_ref().map_or(size, Vec::len), size),
        ];
        for (what, got, expected) in lengths {
            if got != expected {
                return Err(VerdictError::Length { what, got, expected });
            }
        }
        if size < 100 { Err(VerdictError::TooFewDraws(size)) } else { Ok(()) }
    }

    /// Base weights of the first `size` draws.
    pub(super) fn base_weights(&self, size: usize) -> BaseWeights {
        let Some(raw) = &self.log_weights else {
            let equal = (size as f64).recip();
            let (weights, log_weights) = (vec![equal; size], vec![equal.ln(); size]);
            return BaseWeights { weights, log_weights, reliable: true };
        };
        let smoothed = psis(raw, 1.0);
        let weights: Vec<f64> = smoothed.log_weights.iter().map(|x| x.exp()).collect();
        let effective = weights.iter().map(|w| w * w).sum::<f64>().recip();
        let reliable =
            smoothed.pareto_k < pareto_threshold(size) && effective > REWEIGHTED_DRAWS.min(0.5 * size as f64);
        BaseWeights { weights, log_weights: smoothed.log_weights, reliable }
    }
}
