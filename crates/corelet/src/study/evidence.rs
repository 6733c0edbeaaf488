//! The log evidence of a model by draws of its posterior: one pass over all rows at these and at as many draws of a Gaussian.

use super::{Study, StudyError};
use crate::review::{Evidence, evidence_of};
use crate::rows::{At, Rows, Totals};
use crate::trust::Draws;

impl Study {
    /// log ∫ p(y | θ) π₀(θ) dθ by bridge sampling from draws of the posterior; `log_weights` make them draws of the posterior of all
    /// rows, if they are not yet. None if draws and a Gaussian fitted to them do not overlap.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn evidence(
        &self,
        draws: &Draws,
        log_weights: Option<&[f64]>,
        seed: u64,
    ) -> Result<Option<Evidence>, StudyError> {
        evidence_of(draws, log_weights, seed, |at| self.log_posterior(at))
    }

    /// log p(y | θ) π₀(θ) at each draw.
    fn log_posterior(&self, draws: &Draws) -> Result<Vec<f64>, StudyError> {
        let anchor = draws.mean();
        let here = self.rows.newton(&At { theta: &anchor, derivatives: 0 })?.value;
        let shifts = draws.shifts(&anchor);
        let likelihood = self.rows.totals(&Totals::new(&anchor, &shifts, self.rows.len()))?;
        let each = likelihood.iter().enumerate();
        Ok(each.map(|(s, change)| here + change + self.prior.log_density(draws.row(s))).collect())
    }
}
