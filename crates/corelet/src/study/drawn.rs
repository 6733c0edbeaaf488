//! Draws of a posterior, their diagnostics, and the verdict on their coreset.

use std::sync::Arc;
use std::time::Instant;

use super::modes::SEED;
use super::{Listener, Progress, Resolved, Study, StudyError};
use crate::coreset::WrittenWeights;
use crate::posterior::{
    Chains, Diagnostics, Gaussian, LaplaceError, Marginal, Modes, ParameterSummary, SampleProgress,
    SampleSettings, has_one_mode, modes_of_weighted, resample, sample,
};
use crate::review::Checked;
use crate::rows::{All, LogLikelihood, Memory, Observations, Rest, Weighted};
use crate::trust::{Draws, Grade, Reason, Verdict, verdict};
use crate::words::{headline, headline_with_rest, misfits};

/// Draws on which a verdict rests at most; further ones are thinned.
const VERDICT_DRAWS: usize = 4000;

/// Draws of a coreset's posterior, or of that of all rows.
#[non_exhaustive]
pub struct Drawn {
    /// The chains.
    pub chains: Chains,
    /// What they say of themselves.
    pub diagnostics: Diagnostics,
    /// The verdict on the coreset; none for the posterior of all rows.
    pub verdict: Option<Verdict>,
    /// Whether a Gaussian factor accompanies the weighted rows.
    pub has_rest: bool,
    /// How they were run.
    pub settings: SampleSettings,
    /// Seconds of the chains.
    pub sample_seconds: f64,
    /// Seconds of the verdict.
    pub verdict_seconds: f64,
    /// Tails of the posterior that the chains do not have, a line each.
    pub missed: Vec<String>,
    /// Predictive checks that fail: a warning for each, about the model and not the coreset.
    pub misfits: Vec<String>,
    /// Predictive checks of at most 50 000 rows, if the draws are certified.
    pub checked: Option<Checked>,
}

impl Study {
    /// Draws from the posterior of weighted rows by NUTS and judges them on all rows; without weighted rows, draws from
    /// the posterior of all.
    ///
    /// # Errors
    /// See [`StudyError`]; [`SampleError::Stopped`](crate::posterior::SampleError::Stopped) where the listener stopped it.
    pub fn sample(
        &self,
        coreset: Option<&Weighted>,
        settings: &SampleSettings,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<Drawn, StudyError> {
        settings.check_for(self.problem().prior.dim())?;
        let (own, mut own_modes);
        own_modes = None;
        let (likelihood, start): (&dyn LogLikelihood, _) = match coreset {
            Some(coreset) => {
                let one = has_one_mode(&self.rows, &self.prior)?;
                if !one {
                    let full = &self.full(listener)?.posterior;
                    own_modes = modes_of_weighted(coreset, &self.prior, &[&full.mean], SEED)?;
                }
                let fit = match coreset.fit(self.problem().prior) {
                    Ok(fit) => fit.posterior,
                    // A mode without curvature, as of so few rows that noise vanishes: the chains begin where all rows have theirs.
                    Err(LaplaceError::Linalg(_)) => self.full(listener)?.posterior.clone(),
                    Err(error) => return Err(error.into()),
                };
                own = best_of(fit, own_modes.as_ref());
                (coreset, &own)
            }
            None => (&All(&self.rows), &self.full(listener)?.posterior),
        };
        let clock = Instant::now();
        let chains = sample(likelihood, &self.prior, start, settings, seed, &mut |progress| {
            listener(Progress::Sampling(progress))
        })?;
        let sample_seconds = clock.elapsed().as_secs_f64();
        let diagnostics = Diagnostics::new(&chains);
        let clock = Instant::now();
        let missed = match coreset {
            Some(coreset) => self.missed_tails(coreset, own_modes.as_ref(), &chains)?,
            None => Vec::new(),
        };
        let verdict = match coreset {
            Some(coreset) => {
                let _ = listener(Progress::Judging);
                let draws = Draws::from_chains(&chains, VERDICT_DRAWS);
                let judged = verdict(&self.rows, &self.prior, coreset, &draws, chains.divergences())?;
                let tails: Vec<Reason> = missed.iter().map(|(reason, _)| *reason).collect();
                let found = self.against_draws(own_modes.as_ref(), &chains);
                let judged = judged.named(&self.frame().names);
                Some(judged.with(&self.known).with(&found).with(&tails))
            }
            None => None,
        };
        let verdict_seconds = clock.elapsed().as_secs_f64();
        // Of draws that are not certified, predictions say nothing of the model; one beyond all numbers is said where it is asked for.
        let certified = verdict.as_ref().is_none_or(|verdict| verdict.grade != Grade::C);
        let checked =
            certified.then(|| self.glance(&Draws::from_chains(&chains, VERDICT_DRAWS), seed).ok()?);
        let checked = checked.flatten();
        let misfits = checked.as_ref().map_or_else(Vec::new, misfits);
        Ok(Drawn {
            chains,
            diagnostics,
            verdict,
            has_rest: coreset.is_some_and(|coreset| coreset.rest().is_some()),
            settings: *settings,
            sample_seconds,
            verdict_seconds,
            missed: missed.into_iter().map(|(_, words)| words).collect(),
            misfits,
            checked,
        })
    }
}

/// The fit of the best mode; reuses the existing fit if it has that mode.
fn best_of(fit: Gaussian, modes: Option<&Modes>) -> Gaussian {
    match modes {
        Some(modes) if !modes.is_best(&fit) => modes.best().fit.posterior.clone(),
        _ => fit,
    }
}

/// Draws of a coreset that was kept without its data: its rows, standardised, their weights, and the model as
/// [`Study::resolved`] gives it. There is nothing to judge them by.
///
/// # Errors
/// See [`StudyError`].
pub fn sample_kept(
    rows: Observations,
    weights: &WrittenWeights,
    model: &Resolved,
    settings: &SampleSettings,
    seed: u64,
    listener: &mut Listener<'_>,
) -> Result<Chains, StudyError> {
    sample_kept_with_rest((rows, weights, None), model, settings, seed, listener)
}

/// The same with the Gaussian part of the coreset, which needs no row.
///
/// # Errors
/// See [`StudyError`].
pub fn sample_kept_with_rest(
    (rows, weights, rest): (Observations, &WrittenWeights, Option<Arc<Rest>>),
    model: &Resolved,
    settings: &SampleSettings,
    seed: u64,
    listener: &mut Listener<'_>,
) -> Result<Chains, StudyError> {
    settings.check()?;
    let prior = model.prior()?;
    let ids: Vec<usize> = (0..weights.values().len()).collect();
    let (coreset, one_mode) = match rest {
        // A Gaussian under a log-concave prior.
        Some(rest) if ids.is_empty() => (Weighted::of_rest(rest), prior.is_log_concave()),
        rest => {
            let memory = Memory::new(model.bind(rows)?);
            (
                Weighted::fetch(&memory, &ids, weights.values())?.with_rest(rest)?,
                has_one_mode(&memory, &prior)?,
            )
        }
    };
    let start = coreset.fit(&prior)?.posterior;
    let start = match one_mode {
        true => start,
        false => best_of(start.clone(), modes_of_weighted(&coreset, &prior, &[&start.mean], SEED)?.as_ref()),
    };
    let mut report = |progress: &SampleProgress| listener(Progress::Sampling(progress));
    Ok(sample(&coreset, &prior, &start, settings, seed, &mut report)?)
}

impl Drawn {
    /// The first line of the verdict in words; none for the posterior of all rows.
    pub fn headline(&self, points: usize, rows: usize) -> Option<String> {
        let words = if self.has_rest { headline_with_rest } else { headline };
        self.verdict.as_ref().map(|verdict| words(verdict, points, rows))
    }

    /// A, B or C; none for the posterior of all rows.
    pub fn grade(&self) -> Option<Grade> {
        self.verdict.as_ref().map(|verdict| verdict.grade)
    }

    /// Whether the draws are to be used with weights.
    pub fn is_reweighted(&self) -> bool {
        self.verdict.as_ref().is_some_and(Verdict::is_reweighted)
    }

    /// The draws to use, each with its weight: the importance weights of the verdict, where it asks for them.
    pub fn kept(&self) -> (Chains, Vec<f64>) {
        match &self.verdict {
            Some(verdict) if verdict.is_reweighted() => {
                let size = verdict.draws as f64;
                let weights = verdict.log_weights.iter().map(|w| w.exp() * size).collect();
                (self.chains.thinned(VERDICT_DRAWS), weights)
            }
            _ => (self.chains.clone(), vec![1.0; self.chains.total_draws()]),
        }
    }

    /// The draws resampled by their weights, for software that knows none, where the verdict asks for weights.
    pub fn resampled(&self) -> Option<Chains> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.is_reweighted())?;
        Some(resample(&self.chains.thinned(VERDICT_DRAWS), &verdict.log_weights))
    }

    /// What belongs to no feature, on its natural scale, weighted where the draws are, and what the chains say of it; see
    /// [`Resolved::natural`].
    pub fn natural(&self, study: &Study) -> Vec<(String, Marginal, ParameterSummary)> {
        let (chains, weights) = self.kept();
        let of =
            |draw: &[f64]| study.resolved().natural(&study.frame().standardisation, &study.to_original(draw));
        let all = |theta: &[f64]| -> Vec<Vec<(String, f64)>> {
            theta.chunks_exact(chains.dim.max(1)).map(of).collect()
        };
        let column = |draws: &[Vec<(String, f64)>], j: usize| draws.iter().map(|draw| draw[j].1).collect();
        let kept = all(&chains.theta());
        let by_chain: Vec<_> = self.chains.chains.iter().map(|chain| all(&chain.draws.theta)).collect();
        let described = |(j, (name, _)): (usize, &(String, f64))| {
            let values: Vec<f64> = column(&kept, j);
            let draws: Vec<Vec<f64>> = by_chain.iter().map(|draws| column(draws, j)).collect();
            (name.clone(), Marginal::new(&values, &weights), ParameterSummary::new(&draws))
        };
        kept.first().map_or_else(Vec::new, |first| first.iter().enumerate().map(described).collect())
    }

    /// Each parameter on the original and on the standardised scale, weighted if the draws are weighted.
    pub fn marginals(&self, study: &Study) -> Vec<(Marginal, Marginal)> {
        let (chains, weights) = self.kept();
        let theta = chains.theta();
        let draws: Vec<&[f64]> = theta.chunks_exact(chains.dim.max(1)).collect();
        let original: Vec<Vec<f64>> = draws.iter().map(|draw| study.to_original(draw)).collect();
        let of = |j: usize| {
            let here: Vec<f64> = draws.iter().map(|draw| draw[j]).collect();
            let there: Vec<f64> = original.iter().map(|draw| draw[j]).collect();
            (Marginal::new(&there, &weights), Marginal::new(&here, &weights))
        };
        (0..chains.dim).map(of).collect()
    }
}
