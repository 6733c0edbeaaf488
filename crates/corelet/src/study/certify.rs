//! Draws that somebody else made, against the posterior of all rows.

use super::{GivenDraws, Listener, Progress, Study, StudyError};
use crate::parallel;
use crate::posterior::{Chain, Chains, Phase, SampleError, has_one_mode};
use crate::rows::{At, Rows, RowsError};
use crate::trust::policy::{FEWEST_SCORED, scored_draws};
use crate::trust::{Certificate, Claim, Draws, Scores, certify};

/// Draws at which all rows are asked between two looks at whether to go on.
const AT_ONCE: usize = 16;

impl Study {
    /// Whether the posterior certainly has one mode.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn has_one_mode(&self) -> Result<bool, StudyError> {
        Ok(has_one_mode(&self.rows, &self.prior)?)
    }

    /// Judges draws by the gradient of the log posterior of all rows at 1000 of them, or 100 a parameter up to 4000.
    ///
    /// # Errors
    /// See [`StudyError`]; [`SampleError::Stopped`] where the listener stopped it.
    pub fn certify(
        &self,
        given: &GivenDraws,
        listener: &mut Listener<'_>,
    ) -> Result<Certificate, StudyError> {
        let GivenDraws { draws, log_density, diverged } = given;
        let expected = self.rows.dim();
        if draws.dim != expected {
            return Err(StudyError::OtherDraws { got: draws.dim, expected });
        }
        let mut found = self.known.clone();
        if !self.has_one_mode()? {
            self.full(listener)?;
            found.extend(self.against_draws(None, &chains_of(draws)));
        }
        let most = scored_draws(draws.dim).max(FEWEST_SCORED);
        let places = draws.places(most);
        let looked = draws.thinned(most);
        let (log_posterior, gradient) = self.log_posterior_at(&looked, listener)?;
        let at_places = |values: &Vec<f64>| places.iter().map(|&s| values[s]).collect();
        let claim = Claim {
            draws,
            scores: Scores { draws: looked, gradient },
            log_posterior,
            log_density: log_density.as_ref().map(at_places),
            diverged: *diverged,
            found,
        };
        Ok(certify(claim)?)
    }

    /// The log posterior of all rows at these draws, up to a constant, and its gradient, row-major.
    fn log_posterior_at(
        &self,
        draws: &Draws,
        listener: &mut Listener<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>), StudyError> {
        let at = |theta: &[f64]| -> Result<(f64, Vec<f64>), RowsError> {
            let mut newton = self.rows.newton(&At { theta, derivatives: 1 })?;
            let prior = self.prior.gradient_and_log_density(theta, Some(&mut newton.gradient));
            Ok((newton.value + prior, newton.gradient))
        };
        let (mut values, mut gradients) = (Vec::new(), Vec::new());
        for some in draws.theta.chunks(AT_ONCE * draws.dim.max(1)) {
            if listener(Progress::Asking { done: values.len(), total: draws.len() }).is_break() {
                return Err(SampleError::Stopped.into());
            }
            for answer in parallel::map(some.chunks_exact(draws.dim.max(1)), at) {
                let (value, gradient) = answer?;
                values.push(value);
                gradients.extend(gradient);
            }
        }
        Ok((values, gradients))
    }
}

/// The same draws as chains without statistics, for whoever asks where they have been.
fn chains_of(draws: &Draws) -> Chains {
    let length = draws.theta.len() / draws.chains.unwrap_or(1).max(1);
    let chain = |theta: &[f64]| Chain {
        draws: Phase { theta: theta.to_vec(), ..Phase::default() },
        ..Chain::default()
    };
    Chains { dim: draws.dim, chains: draws.theta.chunks_exact(length.max(1)).map(chain).collect() }
}
