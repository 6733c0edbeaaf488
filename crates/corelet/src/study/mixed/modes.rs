//! Where fits of a mixed model begin, and its modes: the fit is about the best one, and the others are named and held against draws.

use std::sync::Arc;

use super::{FIRST_SD, MixedStudy};
use crate::engine::Sample;
use crate::mixed::{GroupMode, MixedPrior};
use crate::model::Model;
use crate::posterior::{LaplaceSettings, effective_sample_size, laplace, modes};
use crate::rows::{All, Memory};
use crate::study::StudyError;
use crate::trust::policy::PROPORTION_DRAWS;
use crate::trust::{Reason, Verdict};
use crate::words::another_mode;

/// Modes of an effect with e to less this of the best one's mass say nothing.
const LEAST_MASS: f64 = 10.0;

/// Where fits and the search for modes begin.
pub(super) struct Starts {
    /// The fit without random effects, and a moderate spread.
    pub(super) first: Vec<f64>,
    /// The other modes of the model without random effects, the same.
    pub(super) others: Vec<Vec<f64>>,
    /// The scale of the linear predictor.
    pub(super) predictor: f64,
}

impl Starts {
    pub(super) fn new(
        rows: &Arc<dyn Model>,
        prior: &MixedPrior,
        predictor: f64,
        kept: &[usize],
        looked_for: bool,
    ) -> Result<Self, StudyError> {
        let memory = Memory::new(Arc::clone(rows));
        let settings = LaplaceSettings { tolerance: 1e-3, max_iterations: 50 };
        let fit = laplace(&All(&memory), &prior.fixed, None, &settings).ok();
        let others = match looked_for {
            true => modes(&memory, &prior.fixed, fit.as_ref(), super::super::modes::SEED)?,
            false => None,
        };
        let first = fit.map_or_else(|| prior.fixed.mean.clone(), |fit| fit.posterior.mean);
        let with_spread = |mut start: Vec<f64>| {
            let (rows, sds) = (start.len(), prior.sds.len());
            start.resize(prior.dim(), 0.0);
            for at in (rows..rows + sds).chain(kept.iter().copied()) {
                start[at] = (FIRST_SD * predictor).ln();
            }
            start
        };
        let others = others.iter().flat_map(|modes| modes.all()).map(|mode| mode.theta().to_vec());
        Ok(Self { others: others.map(with_spread).collect(), first: with_spread(first), predictor })
    }
}

impl MixedStudy {
    /// What is said of the modes besides the best.
    pub(super) fn other_modes(&self, modes: &[GroupMode]) -> Vec<String> {
        let Some((best, others)) = modes.split_first() else { return Vec::new() };
        let (sds, here) = (best.fit.sds().collect::<Vec<f64>>(), self.to_original(&best.fit.mean));
        let names = self.names();
        let word = |mode: &GroupMode| {
            let off = |j: usize| (mode.fit.mean[j] - best.fit.mean[j]).abs() / sds[j];
            let most = (0..sds.len()).max_by(|&a, &b| off(a).total_cmp(&off(b))).unwrap_or_default();
            let there = self.to_original(&mode.fit.mean);
            another_mode(&names[most], here[most], there[most], mode.log_mass - best.log_mass)
        };
        others.iter().map(word).collect()
    }
}

impl MixedStudy {
    /// The verdict, with what explains draws that contradict their gradient: integrals that are wrong, whose gradient is that of the exact ones
    /// only where they are exact; or chosen groups whose effects have several modes, about one of which integrals jump where another takes over.
    pub(super) fn explained(&self, verdict: Verdict, groups: &[usize], sample: &Sample) -> Verdict {
        let contradicts =
            |reason: &Reason| matches!(reason, Reason::Shifted | Reason::Misscaled | Reason::Misshapen);
        let mixed = &self.model.mixed;
        if !verdict.reasons.iter().any(contradicts) {
            return verdict;
        }
        let left = || verdict.reasons.iter().copied().filter(|reason| !contradicts(reason)).collect();
        if verdict.reasons.contains(&Reason::Integrals) {
            return Verdict { reasons: left(), ..verdict };
        }
        if !mixed.may_have_modes() {
            return verdict;
        }
        let (place, mut scratch) = (mixed.place(&sample.draws.mean()), mixed.scratch());
        let mut several = |&group: &usize| {
            let modes = mixed.modes(group, &place, &mut scratch);
            matches!(modes[..], [(_, best), (_, next), ..] if next > best - LEAST_MASS)
        };
        if !groups.iter().any(&mut several) {
            return verdict;
        }
        Verdict { reasons: left(), ..verdict }.with(&[Reason::EffectModes])
    }
}

/// Whether the chains pass between the modes so often that the share of draws in each is that of its mass.
pub(super) fn are_mixed(modes: &[GroupMode], sample: &Sample) -> bool {
    let home = |theta: &[f64]| {
        let density = |mode: &GroupMode| mode.fit.log_density(theta);
        (0..modes.len())
            .max_by(|&a, &b| density(&modes[a]).total_cmp(&density(&modes[b])))
            .unwrap_or_default()
    };
    let draws = &sample.draws;
    let homes: Vec<usize> = draws.theta.chunks_exact(draws.dim.max(1)).map(home).collect();
    let length = (homes.len() / sample.chains().max(1)).max(1);
    (0..modes.len()).all(|at| {
        let inside = |chain: &[usize]| chain.iter().map(|&home| f64::from(u8::from(home == at))).collect();
        let inside: Vec<Vec<f64>> = homes.chunks_exact(length).map(inside).collect();
        inside.concat().contains(&1.0) && effective_sample_size(&inside) >= PROPORTION_DRAWS
    })
}
