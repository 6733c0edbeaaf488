//! Draws of a posterior, from chains to files: what `sample` and `fit` have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corelet::data::{Extra, ensure_writable, write_columns};
use corelet::posterior::{
    ArvizGroup, Chains, Diagnostics, Marginal, ParameterSummary, SampleError, SampleSettings, write_arviz,
};
use corelet::rows::Weighted;
use corelet::study::{Drawn, Study, StudyError};
use corelet::trust::{Divergence, Grade, Reason, Reweighting, Verdict};
use corelet::words::{Estimate, lines, table};
use serde::Serialize;

use crate::args_sampling::DrawFiles;
use crate::interrupt::Interrupt;
use crate::load::{Follower, Opened};
use crate::output;
use crate::terminal::Terminal;
use crate::words::{count, duration, number, plural};

/// Rows of the table of parameters; a few more are shown rather than named as left out.
const SHOWN: usize = 12;
const FEW: usize = 4;

/// One parameter on both scales, reweighted for grade B.
#[derive(Debug, Clone, Serialize)]
struct NamedParameter {
    name: String,
    #[serde(flatten)]
    original: Marginal,
    standardised: Marginal,
    r_hat: f64,
    ess_bulk: f64,
    ess_tail: f64,
}

/// What belongs to no feature, on its natural scale.
#[derive(Debug, Clone, Serialize)]
struct NaturalParameter {
    name: String,
    #[serde(flatten)]
    marginal: Marginal,
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
pub(crate) struct VerdictSummary {
    grade: Grade,
    certified: bool,
    reasons: Vec<Reason>,
    draws: usize,
    #[serde(flatten)]
    divergence: Divergence,
    #[serde(flatten)]
    reweighting: Reweighting,
}

/// The keys that `sample` and `fit` share, documented in `docs/cli.md`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PosteriorSummary {
    verdict: Option<VerdictSummary>,
    sampling: Sampling,
    parameters: Vec<NamedParameter>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    natural: Vec<NaturalParameter>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misfits: Vec<String>,
    /// Tails that the chains do not have.
    missed_tails: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<SampleSeconds>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct SampleSeconds {
    sample: f64,
    verdict: f64,
}

/// Refuses files that could not be written.
pub(crate) fn check_files(files: &DrawFiles, also: &[&Path], inputs: &[PathBuf]) -> anyhow::Result<()> {
    files.output.as_deref().map_or(Ok(()), ensure_writable)?;
    let outputs: Vec<&Path> = written(files).into_iter().chain(also.iter().copied()).collect();
    output::check(&outputs, inputs)
}

/// The files that are written.
pub(crate) fn written(files: &DrawFiles) -> Vec<&Path> {
    files.output.iter().chain(&files.arviz).chain(&files.json).map(|path| path.as_path()).collect()
}

/// Samples, and for weighted rows judges; none if the user stopped it.
pub(crate) fn draw(
    opened: &Opened,
    coreset: Option<&Weighted>,
    settings: &SampleSettings,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Drawn>> {
    let mut follower = Follower::new(terminal, interrupt);
    match opened.study.sample(coreset, settings, seed, &mut |progress| follower.heard(progress)) {
        Err(StudyError::Sample(SampleError::Stopped)) => Ok(None),
        result => result.map(Some).with_context(|| opened.study.frame().source.clone()),
    }
}

impl PosteriorSummary {
    pub(crate) fn new(study: &Study, drawn: &Drawn) -> Self {
        let Diagnostics { divergences, max_depth_reached, r_hat, ess_bulk, ess_tail, e_bfmi, .. } =
            drawn.diagnostics;
        Self {
            verdict: drawn.verdict.as_ref().map(summarise),
            sampling: Sampling {
                settings: drawn.settings,
                divergences,
                max_depth_reached,
                r_hat,
                ess_bulk,
                ess_tail,
                e_bfmi,
                mixed: drawn.diagnostics.mixed(),
                gradients: drawn.chains.gradients(),
                warnings: drawn.diagnostics.warnings(),
            },
            parameters: parameters(study, drawn),
            natural: natural(study, drawn),
            missed_tails: drawn.missed.clone(),
            misfits: drawn.misfits.clone(),
            seconds: Some(SampleSeconds { sample: drawn.sample_seconds, verdict: drawn.verdict_seconds }),
        }
    }
}

impl PosteriorSummary {
    /// All estimates on the scale of the data, intercepts first and natural scales last.
    pub(crate) fn estimates(&self, study: &Study) -> Vec<Estimate> {
        let features = study.frame().features.max(1);
        let intercept = study.frame().standardisation.intercept.map(|(at, _)| at);
        let slopes = self.parameters.len() - study.resolved().dispersions().len();
        let is_intercept = |at: &usize| *at < slopes && intercept == Some(at % features);
        let (first, others): (Vec<usize>, Vec<usize>) = (0..self.parameters.len()).partition(is_intercept);
        let named = first.into_iter().chain(others).map(|at| {
            let parameter = &self.parameters[at];
            Estimate {
                name: parameter.name.clone(),
                figures: figures_of(&parameter.original),
                chains: Some((parameter.r_hat, parameter.ess_bulk.min(parameter.ess_tail))),
            }
        });
        let natural = self.natural.iter().map(|parameter| Estimate {
            name: parameter.name.clone(),
            figures: figures_of(&parameter.marginal),
            chains: Some((parameter.r_hat, parameter.ess_bulk.min(parameter.ess_tail))),
        });
        named.chain(natural).collect()
    }
}

/// What a table of estimates has of a parameter.
pub(crate) fn figures_of(Marginal { mean, sd, q5, q95, .. }: &Marginal) -> [f64; 4] {
    [*mean, *sd, *q5, *q95]
}

fn parameters(study: &Study, drawn: &Drawn) -> Vec<NamedParameter> {
    let each = study.frame().names.iter().zip(drawn.marginals(study)).zip(&drawn.diagnostics.parameters);
    each.map(|((name, (original, standardised)), of_chains)| {
        let ParameterSummary { r_hat, ess_bulk, ess_tail, .. } = *of_chains;
        NamedParameter { name: name.clone(), original, standardised, r_hat, ess_bulk, ess_tail }
    })
    .collect()
}

fn natural(study: &Study, drawn: &Drawn) -> Vec<NaturalParameter> {
    let each = drawn.natural(study).into_iter();
    each.map(|(name, marginal, ParameterSummary { r_hat, ess_bulk, ess_tail, .. })| NaturalParameter {
        name,
        marginal,
        r_hat,
        ess_bulk,
        ess_tail,
    })
    .collect()
}

/// Writes the draws as a table, and for ArviZ where asked for.
pub(crate) fn write(
    study: &Study,
    drawn: &Drawn,
    summary: &PosteriorSummary,
    files: &DrawFiles,
) -> anyhow::Result<()> {
    if let Some(path) = &files.output {
        write_draws(study, drawn, summary, path)?;
    }
    match &files.arviz {
        Some(path) => write_for_arviz(study, drawn, path),
        None => Ok(()),
    }
}

fn write_draws(study: &Study, drawn: &Drawn, summary: &PosteriorSummary, path: &Path) -> anyhow::Result<()> {
    let lasting = PosteriorSummary { seconds: None, ..summary.clone() };
    let metadata = BTreeMap::from([
        ("corelet".to_owned(), serde_json::to_string(&lasting)?),
        ("corelet.standardisation".to_owned(), serde_json::to_string(&study.frame().standardisation)?),
    ]);
    let (chains, weights) = drawn.kept();
    Ok(write_columns(&columns(&chains, weights, study), &metadata, path)?)
}

/// ArviZ knows no weights: for grade B its draws are resampled by them.
fn write_for_arviz(study: &Study, drawn: &Drawn, path: &Path) -> anyhow::Result<()> {
    let resampled = drawn.resampled();
    let to_original = |theta: &[f64]| study.to_original(theta);
    let groups = [
        ArvizGroup { name: "original", transform: &to_original },
        ArvizGroup { name: "standardised", transform: &<[f64]>::to_vec },
    ];
    let grade = drawn.grade().map_or_else(|| "none: all rows".to_owned(), |grade| format!("{grade:?}"));
    let attributes = BTreeMap::from([
        ("created_by".to_owned(), format!("corelet {}", env!("CARGO_PKG_VERSION"))),
        ("inference_library".to_owned(), "corelet, nuts-rs".to_owned()),
        ("model".to_owned(), study.model().to_owned()),
        ("verdict".to_owned(), grade),
        ("resampled_by_importance_weights".to_owned(), resampled.is_some().to_string()),
    ]);
    let mut text = Vec::new();
    let chains = resampled.as_ref().unwrap_or(&drawn.chains);
    write_arviz(chains, &study.frame().names, &groups, &attributes, &mut text)?;
    output::write_bytes(path, &text)
}

/// In words, the verdict first.
pub(crate) fn show(
    study: &Study,
    drawn: &Drawn,
    summary: &PosteriorSummary,
    points: usize,
    terminal: &Terminal,
) {
    match &drawn.verdict {
        Some(verdict) => {
            drawn.headline(points, study.all_rows()).iter().for_each(|line| terminal.say(line));
            lines(verdict, points, study.all_rows()).iter().for_each(|line| terminal.say(line));
        }
        None => terminal.say(&format!("the posterior of all {}", plural(study.all_rows(), "row"))),
    }
    drawn.missed.iter().for_each(|line| terminal.warn(line));
    drawn.misfits.iter().for_each(|line| terminal.warn(&format!("the model does not fit: {line}")));
    let told = drawn.verdict.as_ref().is_some_and(|verdict| verdict.mixing.is_some());
    show_chains(&drawn.diagnostics, drawn.chains.gradients(), told, terminal);
    show_parameters(study, summary, terminal);
    let [sample, verdict] = [drawn.sample_seconds, drawn.verdict_seconds].map(duration);
    terminal.say(&format!("  time           sample {sample}, verdict {verdict}"));
}

/// The sampler's statistics in words; without R-hat and effective sample sizes where the verdict's lines have `told` them.
fn show_chains(diagnostics: &Diagnostics, gradients: u64, told: bool, terminal: &Terminal) {
    let Diagnostics { chains, draws, divergences, r_hat, ess_bulk, ess_tail, .. } = diagnostics;
    let mixing = if told {
        String::new()
    } else {
        let [bulk, tail] = [ess_bulk, ess_tail].map(|ess| number(ess.floor()));
        format!(", R-hat at most {r_hat:.3}, ESS at least {bulk} (bulk) and {tail} (tail)")
    };
    let [draws, gradients] = [*draws, gradients as usize].map(count);
    terminal.say(&format!(
        "  sampling       {chains} chains, {draws} draws, {divergences} divergences{mixing}, {gradients} gradients"
    ));
    diagnostics.warnings().iter().for_each(|line| terminal.warn(line));
}

pub(crate) fn summarise(verdict: &Verdict) -> VerdictSummary {
    VerdictSummary {
        grade: verdict.grade,
        certified: verdict.grade != Grade::C,
        reasons: verdict.reasons.clone(),
        draws: verdict.draws,
        divergence: verdict.divergence,
        reweighting: verdict.reweighting,
    }
}

/// One column a parameter, standardised and on the original scale.
fn both_scales(chains: &Chains, study: &Study) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let theta = chains.theta();
    let draws: Vec<&[f64]> = theta.chunks_exact(chains.dim.max(1)).collect();
    let original: Vec<Vec<f64>> = draws.iter().map(|draw| study.to_original(draw)).collect();
    let column = |j: usize| draws.iter().map(|draw| draw[j]).collect();
    let original_column = |j: usize| original.iter().map(|draw| draw[j]).collect();
    ((0..chains.dim).map(column).collect(), (0..chains.dim).map(original_column).collect())
}

/// chain, draw, weight, each parameter on the original scale, and each on the standardised one.
fn columns(chains: &Chains, weights: Vec<f64>, study: &Study) -> Vec<(String, Extra)> {
    let (count, length) = (chains.chains.len() as i64, chains.draws_per_chain() as i64);
    let number = |of: fn((i64, i64)) -> i64| {
        Extra::Integer((0..count).flat_map(|c| (0..length).map(move |t| (c, t))).map(of).collect())
    };
    let mut columns = vec![
        ("chain".to_owned(), number(|(chain, _)| chain)),
        ("draw".to_owned(), number(|(_, draw)| draw)),
        ("weight".to_owned(), Extra::Float(weights)),
    ];
    let (standardised, original) = both_scales(chains, study);
    let named = |prefix: &str, values: Vec<Vec<f64>>| -> Vec<(String, Extra)> {
        let name = study.frame().names.iter().map(|name| format!("{prefix}{name}"));
        name.zip(values.into_iter().map(Extra::Float)).collect()
    };
    columns.extend(named("", original));
    columns.extend(named("standardised.", standardised));
    columns
}

/// The estimates on the scale of the data, intercepts first.
fn show_parameters(study: &Study, summary: &PosteriorSummary, terminal: &Terminal) {
    show_estimates(&summary.estimates(study), summary.natural.len(), terminal);
}

/// A table of estimates: the first of them, and the last so many, natural scales among them.
pub(crate) fn show_estimates(all: &[Estimate], last: usize, terminal: &Terminal) {
    const INDENT: &str = "    ";
    let (shown, left) = if all.len() > SHOWN + last + FEW {
        let (first, rest) = all.split_at(SHOWN);
        let last = &rest[rest.len() - last..];
        ([first, last].concat(), rest.len() - last.len())
    } else {
        (all.to_vec(), 0)
    };
    terminal.say("  estimates");
    let width = terminal.width().map(|width| width - INDENT.len());
    table(&shown, width).iter().for_each(|line| terminal.say(&format!("{INDENT}{line}")));
    if left > 0 {
        terminal.say(&format!("{INDENT}and {} more, in the files of -o, --json and --report", count(left)));
    }
}
