//! The Laplace fit of all rows, which is made once and kept.

use std::time::Instant;

use super::{Listener, Progress, Study, StudyError};
use crate::coreset::{BuildError, Start, start_fit};
use crate::data::Outcome;
use crate::posterior::{Laplace, Modes, Prior};
use crate::rows::{At, Rows};

/// The fit of all rows.
pub(super) struct Full {
    pub(super) fit: Laplace,
    pub(super) seconds: f64,
    /// Whether its predictors tell the classes apart without an error.
    pub(super) separated: bool,
    /// The modes of the posterior, of which the fit is the best; if there are several, the prior under which fits of some rows
    /// start at that one; and whether the climb from the prior mean ended elsewhere.
    pub(super) modes: Modes,
    pub(super) prior: Option<Prior>,
    pub(super) replaced: bool,
}

impl Study {
    /// The Laplace fit of all rows, computed at first use: of the mode with the most mass, if there are several.
    ///
    /// # Errors
    /// If the fit fails.
    pub fn full(&self, listener: &mut Listener<'_>) -> Result<&Laplace, StudyError> {
        if self.full.get().is_none() {
            // A fit is not interrupted: it is a few passes.
            let _ = listener(Progress::Fitting);
            let clock = Instant::now();
            let found = self.look_for_modes(start_fit(self.problem(), Start::Full, 0));
            let found = found.map_err(|error| error.naming(&self.frame.names))?;
            let separated = self.separates(&found.fit)?;
            let _ = self.full.set(Full { seconds: clock.elapsed().as_secs_f64(), separated, ..found });
        }
        Ok(&self.full.get().ok_or(BuildError::NoRound)?.fit)
    }

    /// Whether θ̂ tells classes apart without an error: then Σ ℓᵢ(cθ̂) → 0 as c grows, and else → −∞.
    fn separates(&self, fit: &Laplace) -> Result<bool, StudyError> {
        let classes = matches!(self.model.model.outcome(), Outcome::Classes | Outcome::Several);
        // A fit that leaves half a nat a row errs somewhere, and need not be asked.
        let each = self.weight.unwrap_or(1.0);
        if !classes || fit.log_posterior < -0.5 * each * self.len() as f64 {
            return Ok(false);
        }
        let theta: Vec<f64> = fit.posterior.mean.iter().map(|x| 1e3 * x).collect();
        Ok(self.rows.newton(&At { theta: &theta, derivatives: 0 })?.value > -each)
    }

    pub(super) fn laplace_seconds(&self) -> f64 {
        self.full.get().map_or(0.0, |full| full.seconds)
    }
}
