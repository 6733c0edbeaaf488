//! Weights of rows: those that the data have, those that a coreset is written with, and the posterior of weighted rows.

use std::sync::Arc;

use super::{Study, StudyError};
use crate::coreset::{Multiples, WrittenWeights};
use crate::data::WeightScale;
use crate::posterior::Gaussian;
use crate::rows::{Rest, Rows, Weighted};
use crate::words::{count, number};

/// Weights that are no counts should sum to about the number of rows, within this factor.
const UNLIKE: f64 = 2.0;

impl Study {
    /// From the weights of the rows' own log-likelihoods ℓᵢ to multiples of fᵢℓᵢ.
    pub(super) fn multiples(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
    ) -> Result<Multiples, StudyError> {
        Ok(self.scaled(observations, weights.values(), |weight, own| weight / own)?.into())
    }

    /// From multiples of fᵢℓᵢ to the weights of the rows' own log-likelihoods ℓᵢ: one column is all that a coreset needs.
    pub(super) fn written(
        &self,
        observations: &[usize],
        multiples: &Multiples,
    ) -> Result<WrittenWeights, StudyError> {
        Ok(self.scaled(observations, multiples, |multiple, own| multiple * own)?.into())
    }

    /// The weighted rows of a coreset, fetched. A weight is that of the row's own log-likelihood ℓᵢ, as it is written: where rows
    /// have weights fᵢ, it is that many times fᵢ.
    ///
    /// # Errors
    /// If there is none, or rows or weights cannot be used.
    pub fn weighted(&self, observations: &[usize], weights: &WrittenWeights) -> Result<Weighted, StudyError> {
        self.weighted_with_rest(observations, weights, None)
    }

    /// The same with the Gaussian part of the coreset, which needs no row.
    ///
    /// # Errors
    /// If there is neither, or rows, weights or the Gaussian part cannot be used.
    pub fn weighted_with_rest(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
        rest: Option<&Arc<Rest>>,
    ) -> Result<Weighted, StudyError> {
        if observations.is_empty() && rest.is_none() {
            return Err(StudyError::EmptyCoreset);
        }
        let multiples = self.multiples(observations, weights)?;
        Ok(Weighted::fetch_with_rest(&self.rows, observations, &multiples, rest.cloned())?)
    }

    /// The Gaussian fit of a coreset's own posterior, where there is one.
    ///
    /// # Errors
    /// If rows or weights cannot be used.
    pub fn own_posterior(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
        rest: Option<&Arc<Rest>>,
    ) -> Result<Option<Gaussian>, StudyError> {
        let fit = self.weighted_with_rest(observations, weights, rest)?.fit(self.problem().prior);
        Ok(fit.ok().map(|fit| fit.posterior))
    }

    /// The weight fᵢ of each of these observations, 1 where they have none.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn weights_of(&self, observations: &[usize]) -> Result<Vec<f64>, StudyError> {
        self.scaled(observations, &vec![1.0; observations.len()], |one, own| one * own)
    }

    fn scaled(
        &self,
        observations: &[usize],
        numbers: &[f64],
        by: impl Fn(f64, f64) -> f64,
    ) -> Result<Vec<f64>, StudyError> {
        if self.weight.is_none() {
            return Ok(numbers.to_vec());
        }
        let rows = self.rows.fetch(observations)?;
        Ok(numbers.iter().enumerate().map(|(i, &number)| by(number, rows.weight(i))).collect())
    }
}

/// What to say where weights are no counts of rows, yet sum to far more or less than there are rows.
pub(super) fn unlike_counts(weights: Option<WeightScale>, rows: usize) -> Option<String> {
    let WeightScale { total, are_counts } = weights?;
    let mean = total / rows as f64;
    (!are_counts && !(1.0 / UNLIKE..=UNLIKE).contains(&mean)).then(|| {
        format!(
            "the weights of {} rows sum to {}, and the posterior is that of so many rows; survey weights should be divided by their \
             mean, {}, so that they sum to the number of rows",
            count(rows),
            number(total),
            number(mean)
        )
    })
}
