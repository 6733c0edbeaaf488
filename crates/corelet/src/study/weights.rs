//! Weights of rows: those that the data have, and those that a coreset is written with.

use super::{Study, StudyError};
use crate::data::WeightScale;
use crate::rows::Rows;
use crate::words::{count, number};

/// Weights that are no counts should sum to about the number of rows, within this factor.
const UNLIKE: f64 = 2.0;

impl Study {
    /// From the weights of the rows' own log-likelihoods ℓᵢ to multiples of fᵢℓᵢ.
    pub(super) fn multiples(&self, observations: &[usize], weights: &[f64]) -> Result<Vec<f64>, StudyError> {
        self.scaled(observations, weights, |weight, own| weight / own)
    }

    /// From multiples of fᵢℓᵢ to the weights of the rows' own log-likelihoods ℓᵢ: one column is all that a coreset needs.
    pub(super) fn written(&self, observations: &[usize], multiples: &[f64]) -> Result<Vec<f64>, StudyError> {
        self.scaled(observations, multiples, |multiple, own| multiple * own)
    }

    /// The weight fᵢ of each of these observations, 1 where they have none.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn weights_of(&self, observations: &[usize]) -> Result<Vec<f64>, StudyError> {
        self.written(observations, &vec![1.0; observations.len()])
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
