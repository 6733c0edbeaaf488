//! Draws of a posterior as a sampler hands them over.

use crate::posterior::{E_BFMI_LIMIT, systematic};
use crate::trust::Draws;
use crate::trust::policy::{NECK_DIVERGED, NECK_E_BFMI};

/// Chains of equal length, and what is known of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The draws, chains one after the other.
    pub draws: Draws,
    /// Whether it is known which chain a draw is of.
    pub chained: bool,
    /// Draws at which the sampler diverged.
    pub diverged: usize,
    /// The least energy Bayesian fraction of missing information of a chain, where it is known.
    pub e_bfmi: Option<f64>,
}

impl Sample {
    /// Draws of `chains` chains with `dim` parameters, chains × draws × parameters, row-major.
    pub fn new(theta: Vec<f64>, dim: usize, chains: usize, chained: bool, diverged: usize) -> Self {
        let draws = Draws { theta, dim, chains: Some(chains.max(1)), log_weights: None };
        Self { draws, chained, diverged, e_bfmi: None }
    }

    /// Number of chains.
    pub fn chains(&self) -> usize {
        self.draws.chains.unwrap_or(1).max(1)
    }

    /// Number of draws of all chains.
    pub fn len(&self) -> usize {
        self.draws.len()
    }

    /// Whether the chains may have missed the neck of a funnel, by their energy: it changes slowly, or rather slowly while some of them diverge.
    pub fn may_miss_a_neck(&self) -> bool {
        let diverged = self.diverged as f64 > NECK_DIVERGED * self.len() as f64;
        self.e_bfmi.is_some_and(|fraction| fraction < E_BFMI_LIMIT || (diverged && fraction < NECK_E_BFMI))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.draws.is_empty()
    }

    /// At most so many draws, evenly spaced, the same number of each chain.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Self {
        Self { draws: self.draws.thinned(most), ..*self }
    }

    /// Each chain with that of `more` after it.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        let length = |sample: &Self| sample.draws.theta.len() / sample.chains();
        let of = |chain: usize, sample: &Self| -> Vec<f64> {
            sample.draws.theta[chain * length(sample)..][..length(sample)].to_vec()
        };
        let theta =
            (0..self.chains()).flat_map(|chain| [of(chain, self), of(chain, more)].concat()).collect();
        Self {
            draws: Draws { theta, ..self.draws.clone() },
            chained: self.chained && more.chained,
            diverged: self.diverged + more.diverged,
            e_bfmi: [self.e_bfmi, more.e_bfmi].into_iter().flatten().reduce(f64::min),
        }
    }

    /// As many draws, each as often as its importance weight says.
    #[must_use]
    pub fn resampled(&self, log_weights: &[f64]) -> Self {
        let theta = systematic(log_weights).into_iter().flat_map(|at| self.draws.row(at)).copied().collect();
        Self { draws: Draws { theta, ..self.draws.clone() }, ..*self }
    }

    /// How many parameters are not the same at every draw.
    pub fn moving(&self) -> usize {
        self.moments().iter().filter(|(_, sd)| *sd > 0.0).count()
    }

    /// The largest shift of a mean, in standard deviations of these draws, and the largest ratio of two standard deviations, at
    /// least 1.
    pub fn moved_from(&self, other: &Self) -> (f64, f64) {
        let (new, old) = (self.moments(), other.moments());
        let both = new.iter().zip(&old).filter(|((_, sd), (_, before))| *sd > 0.0 && *before > 0.0);
        both.fold((0.0_f64, 1.0_f64), |(shift, scale), (&(mean, sd), &(old_mean, before))| {
            let ratio = sd / before;
            (shift.max((mean - old_mean).abs() / sd), scale.max(ratio.max(ratio.recip())))
        })
    }

    /// The mean and the standard deviation of each parameter.
    fn moments(&self) -> Vec<(f64, f64)> {
        let count = self.len().max(1) as f64;
        let mean = self.draws.mean();
        let mut squares = vec![0.0; self.draws.dim];
        for row in self.draws.theta.chunks_exact(self.draws.dim.max(1)) {
            squares.iter_mut().zip(row.iter().zip(&mean)).for_each(|(sum, (x, m))| *sum += (x - m).powi(2));
        }
        mean.into_iter().zip(squares.iter().map(|sum| (sum / count).sqrt())).collect()
    }
}
