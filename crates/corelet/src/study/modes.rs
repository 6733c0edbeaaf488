//! Several modes: the study is about the best one, names the others, and certifies no draws that cannot have seen them.

use super::{Full, Study, StudyError};
#[cfg(feature = "sampling")]
use crate::posterior::{Chains, Modes};
use crate::posterior::{
    Laplace, LaplaceError, LaplaceSettings, Mode, NEGLIGIBLE_SHARE, Prior, laplace, modes,
};
use crate::rows::All;
#[cfg(feature = "sampling")]
use crate::trust::Reason;
#[cfg(feature = "sampling")]
use crate::trust::policy::MODE_MATTERS;
use crate::words::another_mode;

/// The seed of the search: the fit of all rows does not depend on what is made of it.
pub(super) const SEED: u64 = 0;

impl Study {
    /// Looks for modes besides the one that the first fit found, and takes the best. A fit that found none, as one that starts midway
    /// between two of the same height, is no matter where the search finds some.
    pub(super) fn look_for_modes(&self, first: Result<Laplace, LaplaceError>) -> Result<Full, StudyError> {
        let (first, error) = match first {
            Ok(first) => (Some(first), None),
            Err(error @ LaplaceError::Linalg(_)) => (None, Some(error)),
            Err(error) => return Err(error.into()),
        };
        let Some(modes) = modes(&self.rows, &self.prior, first.as_ref(), SEED)? else {
            return Err(error.unwrap_or(LaplaceError::Start).into());
        };
        let best = modes.best();
        let first = first.filter(|first| best.theta() == &*first.posterior.mean);
        let several = modes.all().len() > 1;
        let prior: Option<Prior> = several.then(|| self.prior.clone().starting_at(best.theta().to_vec()));
        // To all digits.
        let again =
            || laplace(&All(&self.rows), &self.prior, Some(best.theta()), &LaplaceSettings::default());
        let (replaced, fit) = (first.is_none(), first.map_or_else(again, Ok)?);
        Ok(Full { fit, seconds: 0.0, separated: false, modes, prior, replaced })
    }

    /// The modes besides the best one, in words: those that count, and where the climb from the prior mean ended at one that
    /// does not, that one.
    pub(super) fn other_modes(&self) -> Vec<String> {
        let Some(Full { fit, modes, replaced, .. }) = self.full.get() else { return Vec::new() };
        let others = modes.all().iter().skip(1);
        let said = others.filter(|mode| *replaced || modes.share(mode) > NEGLIGIBLE_SHARE);
        let (best, sds) = (self.to_original(&fit.posterior.mean), fit.posterior.sds().collect::<Vec<f64>>());
        let word = |mode: &Mode| {
            let off = |j: usize| (mode.theta()[j] - fit.posterior.mean[j]).abs() / sds[j];
            let most = (0..sds.len()).max_by(|&a, &b| off(a).total_cmp(&off(b))).unwrap_or_default();
            let there = self.to_original(mode.theta());
            another_mode(
                &self.frame.names[most],
                best[most],
                there[most],
                mode.log_mass - modes.best().log_mass,
            )
        };
        said.map(word).collect()
    }

    /// What the modes of the posterior of all rows, and those of the weighted rows that the chains drew from, say against the draws.
    #[cfg(feature = "sampling")]
    pub(super) fn against_draws(&self, own: Option<&Modes>, chains: &Chains) -> Vec<Reason> {
        let Some(Full { modes, .. }) = self.full.get() else { return Vec::new() };
        let mut found = Vec::new();
        let matter = modes.with_share(MODE_MATTERS);
        // Chains that pass between the modes again and again have seen them in proportion; else nobody knows how much mass each has.
        if !matter.are_mixed_by(chains) || !modes.hold(chains, MODE_MATTERS) {
            found.push(Reason::SecondMode);
        }
        let Some(own) = own else { return found };
        // A mode of the weighted rows alone is a place where draws would be wrong by any number of nats: even a small one counts.
        let own = own.with_share(NEGLIGIBLE_SHARE);
        if own.all().iter().any(|mode| !matter.contain(mode)) && !own.are_mixed_by(chains) {
            found.push(Reason::OwnMode);
        }
        found
    }
}
