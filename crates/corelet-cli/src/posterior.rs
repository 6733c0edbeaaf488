//! Draws of a posterior, from chains to files: what `sample` and `fit` have in common.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context;
use corelet::data::{Extra, ensure_writable, write_columns};
use corelet::laplace::Gaussian;
use corelet::model::Rows;
use corelet::sample::{
    ArvizGroup, Chains, Diagnostics, Moments, ParameterSummary, SampleError, SampleSettings, resample,
    sample, write_arviz,
};
use corelet::verdict::{Draws, Grade, Reason, Verdict, verdict};
use serde::Serialize;

use crate::args_sampling::DrawFiles;
use crate::interrupt::Interrupt;
use crate::load::Fitted;
use crate::output;
use crate::terminal::Terminal;
use crate::trust;
use crate::wording::{count, duration, number};

/// Draws on which a verdict rests at most; further ones are thinned.
const VERDICT_DRAWS: usize = 4000;

/// Rows of the table of parameters.
const SHOWN: usize = 12;

/// Draws, what they say of themselves, and the verdict on the coreset they came from.
pub(crate) struct Posterior {
    chains: Chains,
    diagnostics: Diagnostics,
    verdict: Option<Verdict>,
    settings: SampleSettings,
    sample_seconds: f64,
    verdict_seconds: f64,
}

/// One parameter on both scales, reweighted for grade B.
#[derive(Debug, Clone, Serialize)]
struct NamedParameter {
    name: String,
    #[serde(flatten)]
    original: Moments,
    standardised: Moments,
    r_hat: f64,
    ess_bulk: f64,
    ess_tail: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Sampling {
    settings: SampleSettings,
    divergences: usize,
    max_depth_reached: usize,
    r_hat: f64,
    ess_bulk: f64,
    ess_tail: f64,
    e_bfmi: f64,
    mixed: bool,
    gradients: u64,
    warnings: Vec<String>,
}

/// A verdict without its draws.
#[derive(Debug, Clone, Serialize)]
struct VerdictSummary {
    grade: Grade,
    certified: bool,
    reasons: Vec<Reason>,
    draws: usize,
    variance: f64,
    variance_upper: f64,
    kl_symmetrised: f64,
    log_evidence_ratio: f64,
    ess: f64,
    ess_share: f64,
    efficiency: f64,
    pareto_k: f64,
    pareto_threshold: f64,
}

/// The keys that `sample` and `fit` share, documented in `docs/cli.md`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PosteriorSummary {
    verdict: Option<VerdictSummary>,
    sampling: Sampling,
    parameters: Vec<NamedParameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<SampleSeconds>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct SampleSeconds {
    sample: f64,
    verdict: f64,
}

/// Refuses files that could not be written.
pub(crate) fn check_files(files: &DrawFiles, also: &[&Path], inputs: &[&Path]) -> anyhow::Result<()> {
    ensure_writable(&files.output)?;
    let outputs: Vec<&Path> = written(files).into_iter().chain(also.iter().copied()).collect();
    output::check(&outputs, inputs)
}

/// The files that are written.
pub(crate) fn written(files: &DrawFiles) -> Vec<&Path> {
    std::iter::once(&files.output).chain(&files.arviz).chain(&files.json).map(|path| path.as_path()).collect()
}

/// Samples, and for weighted rows judges; none where the user stopped it.
pub(crate) fn draw(
    fitted: &Fitted,
    rows: Rows<'_>,
    start: &Gaussian,
    settings: &SampleSettings,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Posterior>> {
    let clock = Instant::now();
    let chains = match run_chains(fitted, rows, start, settings, seed, terminal, interrupt) {
        Err(SampleError::Stopped) => return Ok(None),
        result => result.with_context(|| fitted.table.source.clone())?,
    };
    let sample_seconds = clock.elapsed().as_secs_f64();
    let diagnostics = Diagnostics::new(&chains);
    let clock = Instant::now();
    let verdict = match rows {
        Rows::All => None,
        Rows::Weighted { ids, weights } => {
            let _progress = terminal.progress("judging the draws on all rows");
            let draws = Draws::from_chains(&chains, VERDICT_DRAWS);
            Some(verdict(&*fitted.model, ids, weights, &draws)?)
        }
    };
    let verdict_seconds = clock.elapsed().as_secs_f64();
    Ok(Some(Posterior { chains, diagnostics, verdict, settings: *settings, sample_seconds, verdict_seconds }))
}

fn run_chains(
    fitted: &Fitted,
    rows: Rows<'_>,
    start: &Gaussian,
    settings: &SampleSettings,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Chains, SampleError> {
    let progress = terminal.progress("sampling");
    let done: Vec<AtomicUsize> = (0..settings.chains).map(|_| AtomicUsize::new(0)).collect();
    let mut divergences = vec![0; settings.chains];
    sample(&*fitted.model, &fitted.prior, rows, start, settings, seed, &mut |info| {
        done[info.chain].store(info.done, Ordering::Relaxed);
        divergences[info.chain] = info.divergences;
        let steps: usize = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        let share = 100.0 * steps as f64 / (info.total * settings.chains) as f64;
        let divergent: usize = divergences.iter().sum();
        progress.set(format!("sampling: {share:.0} %, {divergent} divergences"));
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

impl Posterior {
    /// A, B or C; none for the posterior of all rows.
    pub(crate) fn grade(&self) -> Option<Grade> {
        self.verdict.as_ref().map(|verdict| verdict.grade)
    }

    /// The draws and the verdict on them; none for the posterior of all rows.
    pub(crate) fn judged(&self) -> Option<(&Chains, &Verdict)> {
        Some((&self.chains, self.verdict.as_ref()?))
    }

    /// What the chains have to be blamed for.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.diagnostics.warnings()
    }

    /// The draws that are written: for grade B those that have weights.
    fn kept(&self) -> (Chains, Vec<f64>) {
        match &self.verdict {
            Some(verdict) if verdict.grade == Grade::B => {
                let size = verdict.draws as f64;
                let weights = verdict.log_weights.iter().map(|w| w.exp() * size).collect();
                (self.chains.thinned(VERDICT_DRAWS), weights)
            }
            _ => (self.chains.clone(), vec![1.0; self.chains.total_draws()]),
        }
    }

    pub(crate) fn summary(&self, fitted: &Fitted) -> PosteriorSummary {
        let Diagnostics { divergences, max_depth_reached, r_hat, ess_bulk, ess_tail, e_bfmi, .. } =
            self.diagnostics;
        PosteriorSummary {
            verdict: self.verdict.as_ref().map(summarise),
            sampling: Sampling {
                settings: self.settings,
                divergences,
                max_depth_reached,
                r_hat,
                ess_bulk,
                ess_tail,
                e_bfmi,
                mixed: self.diagnostics.mixed(),
                gradients: self.chains.gradients(),
                warnings: self.diagnostics.warnings(),
            },
            parameters: self.parameters(fitted),
            seconds: Some(SampleSeconds { sample: self.sample_seconds, verdict: self.verdict_seconds }),
        }
    }

    fn parameters(&self, fitted: &Fitted) -> Vec<NamedParameter> {
        let (chains, weights) = self.kept();
        let (standardised, original) = both_scales(&chains, fitted);
        let of = |(j, name): (usize, &String)| {
            let ParameterSummary { r_hat, ess_bulk, ess_tail, .. } = self.diagnostics.parameters[j];
            let moments = |columns: &[Vec<f64>]| Moments::new(&columns[j], &weights);
            let (original, standardised) = (moments(&original), moments(&standardised));
            NamedParameter { name: name.clone(), original, standardised, r_hat, ess_bulk, ess_tail }
        };
        fitted.names.iter().enumerate().map(of).collect()
    }

    /// Writes the draws as a table, and for ArviZ where asked for.
    pub(crate) fn write(
        &self,
        fitted: &Fitted,
        summary: &PosteriorSummary,
        files: &DrawFiles,
    ) -> anyhow::Result<()> {
        let lasting = PosteriorSummary { seconds: None, ..summary.clone() };
        let metadata = BTreeMap::from([
            ("corelet".to_owned(), serde_json::to_string(&lasting)?),
            ("corelet.standardisation".to_owned(), serde_json::to_string(&fitted.standardisation)?),
        ]);
        let (chains, weights) = self.kept();
        write_columns(&columns(&chains, weights, fitted), &metadata, &files.output)?;
        match &files.arviz {
            Some(path) => self.write_for_arviz(&chains, fitted, path),
            None => Ok(()),
        }
    }

    /// ArviZ knows no weights: for grade B its draws are resampled by them.
    fn write_for_arviz(&self, chains: &Chains, fitted: &Fitted, path: &Path) -> anyhow::Result<()> {
        let reweighted = self.verdict.as_ref().filter(|verdict| verdict.grade == Grade::B);
        let resampled = reweighted.map(|verdict| resample(chains, &verdict.log_weights));
        let to_original = |theta: &[f64]| fitted.to_original(theta);
        let groups = [
            ArvizGroup { name: "original", transform: &to_original },
            ArvizGroup { name: "standardised", transform: &<[f64]>::to_vec },
        ];
        let grade = self.grade().map_or_else(|| "none: all rows".to_owned(), |grade| format!("{grade:?}"));
        let attributes = BTreeMap::from([
            ("created_by".to_owned(), format!("corelet {}", env!("CARGO_PKG_VERSION"))),
            ("inference_library".to_owned(), "corelet, nuts-rs".to_owned()),
            ("model".to_owned(), fitted.model.name().to_owned()),
            ("verdict".to_owned(), grade),
            ("resampled_by_importance_weights".to_owned(), resampled.is_some().to_string()),
        ]);
        let mut text = Vec::new();
        let chains = resampled.as_ref().unwrap_or(chains);
        write_arviz(chains, &fitted.names, &groups, &attributes, &mut text)?;
        output::write_bytes(path, &text)
    }

    /// In words, the verdict first.
    pub(crate) fn show(
        &self,
        fitted: &Fitted,
        summary: &PosteriorSummary,
        points: usize,
        terminal: &Terminal,
    ) {
        match &self.verdict {
            Some(verdict) => {
                terminal.say(&trust::headline(verdict, points, fitted.len()));
                trust::show(verdict, terminal);
            }
            None => terminal.say(&format!("the posterior of all {} rows", count(fitted.len()))),
        }
        trust::show_chains(&self.diagnostics, self.chains.gradients(), terminal);
        show_parameters(&summary.parameters, terminal);
        let [sample, verdict] = [self.sample_seconds, self.verdict_seconds].map(duration);
        terminal.say(&format!("  time           sample {sample}, verdict {verdict}"));
    }
}

fn summarise(verdict: &Verdict) -> VerdictSummary {
    VerdictSummary {
        grade: verdict.grade,
        certified: verdict.grade != Grade::C,
        reasons: verdict.reasons.clone(),
        draws: verdict.draws,
        variance: verdict.variance,
        variance_upper: verdict.variance_upper,
        kl_symmetrised: verdict.kl_symmetrised,
        log_evidence_ratio: verdict.log_evidence_ratio,
        ess: verdict.ess,
        ess_share: verdict.ess_share,
        efficiency: verdict.efficiency,
        pareto_k: verdict.pareto_k,
        pareto_threshold: verdict.pareto_threshold,
    }
}

/// One column a parameter, standardised and on the original scale.
fn both_scales(chains: &Chains, fitted: &Fitted) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let theta = chains.theta();
    let draws: Vec<&[f64]> = theta.chunks_exact(chains.dim.max(1)).collect();
    let original: Vec<Vec<f64>> = draws.iter().map(|draw| fitted.to_original(draw)).collect();
    let column = |j: usize| draws.iter().map(|draw| draw[j]).collect();
    let original_column = |j: usize| original.iter().map(|draw| draw[j]).collect();
    ((0..chains.dim).map(column).collect(), (0..chains.dim).map(original_column).collect())
}

/// chain, draw, weight, each parameter on the original scale, and each on the standardised one.
fn columns(chains: &Chains, weights: Vec<f64>, fitted: &Fitted) -> Vec<(String, Extra)> {
    let (count, length) = (chains.chains.len() as i64, chains.draws_per_chain() as i64);
    let number = |of: fn((i64, i64)) -> i64| {
        Extra::Integer((0..count).flat_map(|c| (0..length).map(move |t| (c, t))).map(of).collect())
    };
    let mut columns = vec![
        ("chain".to_owned(), number(|(chain, _)| chain)),
        ("draw".to_owned(), number(|(_, draw)| draw)),
        ("weight".to_owned(), Extra::Float(weights)),
    ];
    let (standardised, original) = both_scales(chains, fitted);
    let named = |prefix: &str, values: Vec<Vec<f64>>| -> Vec<(String, Extra)> {
        let name = fitted.names.iter().map(|name| format!("{prefix}{name}"));
        name.zip(values.into_iter().map(Extra::Float)).collect()
    };
    columns.extend(named("", original));
    columns.extend(named("standardised.", standardised));
    columns
}

fn show_parameters(parameters: &[NamedParameter], terminal: &Terminal) {
    let width = parameters.iter().take(SHOWN).map(|p| p.name.chars().count()).max().unwrap_or(0);
    for (i, parameter) in parameters.iter().take(SHOWN).enumerate() {
        let label = if i == 0 { "  parameters     " } else { "                 " };
        let NamedParameter { name, original: Moments { mean, sd, q5, q95, .. }, .. } = parameter;
        let [mean, sd, q5, q95] = [mean, sd, q5, q95].map(|x| number(*x));
        terminal.say(&format!("{label}{name:width$}  {mean} ± {sd}  [{q5}, {q95}]"));
    }
    if parameters.len() > SHOWN {
        terminal.say(&format!("                 and {} more, in the files", parameters.len() - SHOWN));
    }
}
