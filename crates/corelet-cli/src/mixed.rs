//! `corelet fit --random`: a mixed model, its coreset of whole groups, and the random effects of all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use corelet::data::{Extra, Source, ensure_writable, write_columns, write_rows};
use corelet::mixed::{GroupEffects, Quadrature};
use corelet::posterior::{ArvizGroup, Chain, Chains, Marginal, ParameterSummary, Phase, write_arviz};
use corelet::study::{FitSpecification, MixedFit, MixedStudy};
use corelet::trust::Grade;
use corelet::words::{Estimate, count, duration, headline, lines};
use serde::Serialize;

use crate::args_sampling::FitArgs;
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::posterior::{self, VerdictSummary, summarise};
use crate::report::{MixedSubject, mixed_to_html};
use crate::terminal::Terminal;
use crate::{Outcome, fit, output};

/// Groups whose random effects are computed between two looks at Ctrl-C.
const AT_ONCE: usize = 4096;

/// One parameter on the scale of the data.
#[derive(Serialize)]
struct Parameter {
    name: String,
    #[serde(flatten)]
    marginal: Marginal,
    r_hat: f64,
    ess_bulk: f64,
    ess_tail: f64,
}

/// The keys of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'static str,
    random: String,
    n: usize,
    groups: usize,
    groups_chosen: usize,
    rows_chosen: usize,
    priors: Vec<String>,
    quadrature: Quadrature,
    verdict: VerdictSummary,
    parameters: &'a [Parameter],
    /// What the likelihood has besides its coefficients, on its natural scale.
    natural: &'a [(String, Marginal)],
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<Seconds>,
}

#[derive(Clone, Copy, Serialize)]
struct Seconds {
    read: f64,
    laplace: f64,
    rounds: f64,
    random_effects: f64,
}

pub(crate) fn run(
    args: &FitArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let specification = args.specification(seed);
    specification.sample.check()?;
    let stan: Vec<PathBuf> = match &args.random.stan {
        Some(path) if path.extension().is_some_and(|extension| extension == "json") => {
            bail!(
                "--stan {}: the data of the program are written beside it as .json; give it another name",
                path.display()
            )
        }
        Some(path) => vec![path.clone(), path.with_extension("json")],
        None => Vec::new(),
    };
    let also: Vec<&Path> = args
        .coreset
        .iter()
        .chain(&args.random.random_effects)
        .chain(&stan)
        .chain(&args.report)
        .map(|path| path.as_path())
        .collect();
    posterior::check_files(&args.files, &also, &args.data.files()?)?;
    args.coreset.iter().chain(&args.random.random_effects).try_for_each(|path| ensure_writable(path))?;
    let clock = Instant::now();
    let source = load::source(&args.data, &specification, terminal)?;
    let dataset = load::dataset(&source, &specification, terminal)?;
    let name = || source.name().to_owned();
    let mut study = MixedStudy::new(source.name(), dataset, &specification, clock.elapsed().as_secs_f64())
        .with_context(name)?;
    study.warnings().iter().for_each(|warning| terminal.warn(warning));
    if !stan.is_empty() {
        study.check_written_out().with_context(name)?;
    }
    let asked = FitSpecification {
        build: specification.build.clone(),
        max_k: args.max_k,
        sample: specification.sample,
        seed,
    };
    let mut follower = Follower::new(terminal, interrupt);
    let fitted = study.fit(&asked, &mut |progress| follower.heard(progress)).with_context(name)?;
    drop(follower);
    let Some(fit) = fitted else {
        terminal.warn("interrupted before there were draws: nothing was written");
        return Ok(Outcome::Interrupted);
    };
    fit.notes.iter().for_each(|note| terminal.warn(note));
    let clock = Instant::now();
    let wanted = args.random.random_effects.is_some() || args.report.is_some();
    let effects = match wanted.then(|| all_effects(&study, &fit, terminal, interrupt)) {
        Some(None) => return Ok(Outcome::Interrupted),
        effects => effects.flatten(),
    };

    interrupt.writing();
    let seconds = Seconds {
        read: study.read_seconds,
        laplace: fit.seconds.0,
        rounds: fit.seconds.1,
        random_effects: clock.elapsed().as_secs_f64(),
    };
    let draws = Original::new(&study, &fit);
    let parameters = draws.parameters();
    let natural = draws.natural(&study);
    let summary = summary_of(&study, &fit, &parameters, &natural);
    let written = Written { study: &study, fit: &fit, summary: &summary, args };
    written.draws(&draws)?;
    written.coreset(&source)?;
    if let [program, data] = &stan[..] {
        let marginal = study.marginal(&fit).with_context(name)?;
        output::write_text(program, &marginal.stan())?;
        output::write_text(data, &(serde_json::to_string(&marginal.data()?)? + "\n"))?;
    }
    if let (Some(path), Some(effects)) = (&args.random.random_effects, &effects) {
        write_columns(&effect_columns(&study, effects), &written.metadata()?, path)?;
    }
    if let (Some(path), Some(effects)) = (&args.report, &effects) {
        let kept_variances = draws.kept_variances(&study);
        let subject = MixedSubject {
            study: &study,
            fit: &fit,
            effects,
            parameters: &estimates_of(&study, &parameters, &natural).0,
            kept_variances: &kept_variances,
        };
        output::write_text(path, &mixed_to_html(&subject)?)?;
    }
    if let Some(json) = &args.files.json {
        let timed = Summary { seconds: Some(seconds), ..summary_of(&study, &fit, &parameters, &natural) };
        output::write_text(json, &(serde_json::to_string_pretty(&timed)? + "\n"))?;
    }
    show(&study, &fit, (&parameters, &natural), seconds, terminal);
    for path in posterior::written(&args.files).into_iter().chain(also) {
        terminal.say(&format!("  written        {}", path.display()));
    }
    Ok(if fit.verdict.grade == Grade::C { Outcome::NotCertified } else { Outcome::Done })
}

/// The random effects of all groups; none after Ctrl-C.
fn all_effects(
    study: &MixedStudy,
    fit: &MixedFit,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Option<Vec<GroupEffects>> {
    let mut all = Vec::with_capacity(study.groups());
    let progress = terminal.progress("the random effects of all groups");
    for start in (0..study.groups()).step_by(AT_ONCE) {
        if interrupt.asked() {
            terminal.warn("interrupted before the random effects were complete: nothing was written");
            return None;
        }
        let groups = start..study.groups().min(start + AT_ONCE);
        progress.set(format!("the random effects of {} of {} groups", count(start), count(study.groups())));
        all.extend(study.random_effects(fit, groups));
    }
    Some(all)
}

/// group, rows, effect, and what its posterior is, a line for every effect of every group.
fn effect_columns(study: &MixedStudy, effects: &[GroupEffects]) -> Vec<(String, Extra)> {
    let terms = study.random().terms();
    let (mut labels, mut rows, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut numbers: [Vec<f64>; 5] = Default::default();
    for (group, effects) in effects.iter().enumerate() {
        for (term, effect) in terms.iter().zip(effects) {
            labels.push(study.labels()[group].clone());
            rows.push(study.rows_in(group) as i64);
            names.push((*term).to_owned());
            let [low, middle, high] = [0.05, 0.5, 0.95].map(|q| effect.quantile(q));
            let each = [effect.mean, effect.sd, low, middle, high];
            numbers.iter_mut().zip(each).for_each(|(column, x)| column.push(x));
        }
    }
    let mut columns = vec![
        (study.random().group.clone(), Extra::Text(labels)),
        ("effect".to_owned(), Extra::Text(names)),
        ("rows".to_owned(), Extra::Integer(rows)),
    ];
    let named = ["mean", "sd", "q5", "median", "q95"].into_iter().map(str::to_owned);
    columns.extend(named.zip(numbers.into_iter().map(Extra::Float)));
    columns
}

/// Draws on the scale of the data.
struct Original {
    names: Vec<String>,
    chains: usize,
    draws: Vec<Vec<f64>>,
}

impl Original {
    fn new(study: &MixedStudy, fit: &MixedFit) -> Self {
        let theta = &fit.sample.draws;
        let draws = theta.theta.chunks_exact(theta.dim.max(1)).map(|draw| study.to_original(draw)).collect();
        Self { names: study.names(), chains: fit.sample.chains(), draws }
    }

    fn column(&self, j: usize) -> Vec<f64> {
        self.draws.iter().map(|draw| draw[j]).collect()
    }

    fn by_chain(&self, column: &[f64]) -> Vec<Vec<f64>> {
        column.chunks_exact((self.draws.len() / self.chains).max(1)).map(<[f64]>::to_vec).collect()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let ones = vec![1.0; self.draws.len()];
        let of = |(j, name): (usize, &String)| {
            let column = self.column(j);
            let ParameterSummary { r_hat, ess_bulk, ess_tail, .. } =
                ParameterSummary::new(&self.by_chain(&column));
            Parameter {
                name: name.clone(),
                marginal: Marginal::new(&column, &ones),
                r_hat,
                ess_bulk,
                ess_tail,
            }
        };
        self.names.iter().enumerate().map(of).collect()
    }

    /// Of each factor that is kept, the mean over draws of the variance of its effects, which are the last parameters.
    fn kept_variances(&self, study: &MixedStudy) -> Vec<f64> {
        let counts: Vec<usize> = study.factors().kept.iter().map(|kept| kept.labels.len()).collect();
        let mut from = self.names.len() - counts.iter().sum::<usize>();
        let of = |&levels: &usize| {
            let start = from;
            from += levels;
            let variance = |draw: &Vec<f64>| {
                let effects = &draw[start..start + levels];
                let mean = effects.iter().sum::<f64>() / levels as f64;
                effects.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / levels as f64
            };
            self.draws.iter().map(variance).sum::<f64>() / self.draws.len().max(1) as f64
        };
        counts.iter().map(of).collect()
    }

    fn natural(&self, study: &MixedStudy) -> Vec<(String, Marginal)> {
        let fixed = study.frame().names.len();
        let of = |draw: &Vec<f64>| study.resolved().natural(&study.frame().standardisation, &draw[..fixed]);
        let draws: Vec<Vec<(String, f64)>> = self.draws.iter().map(of).collect();
        let ones = vec![1.0; draws.len()];
        let marginal = |(j, (name, _)): (usize, &(String, f64))| {
            let values: Vec<f64> = draws.iter().map(|draw| draw[j].1).collect();
            (name.clone(), Marginal::new(&values, &ones))
        };
        draws.first().map_or_else(Vec::new, |first| first.iter().enumerate().map(marginal).collect())
    }
}

/// The estimates as tables have them: the intercept, slopes and dispersions, the effects of factors that are kept, and last the spreads and
/// what has a natural scale of its own; how many are the last.
fn estimates_of(
    study: &MixedStudy,
    parameters: &[Parameter],
    natural: &[(String, Marginal)],
) -> (Vec<Estimate>, usize) {
    let intercept = study.frame().standardisation.intercept.map(|(at, _)| at);
    let fixed = study.frame().names.len();
    let spreads = fixed..fixed + study.random().names().len() + study.factors().kept.len();
    let rank = |at: usize| match at {
        at if intercept == Some(at) => 0,
        at if spreads.contains(&at) => 2,
        _ => 1,
    };
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    order.sort_by_key(|&at| rank(at));
    let named = order.into_iter().map(|at| {
        let Parameter { name, marginal, r_hat, ess_bulk, ess_tail } = &parameters[at];
        let chains = Some((*r_hat, ess_bulk.min(*ess_tail)));
        Estimate { name: name.clone(), figures: posterior::figures_of(marginal), chains }
    });
    let natural_ones = natural.iter().map(|(name, marginal)| Estimate {
        name: name.clone(),
        figures: posterior::figures_of(marginal),
        chains: None,
    });
    (named.chain(natural_ones).collect(), spreads.len() + natural.len())
}

fn summary_of<'a>(
    study: &MixedStudy,
    fit: &MixedFit,
    parameters: &'a [Parameter],
    natural: &'a [(String, Marginal)],
) -> Summary<'a> {
    Summary {
        model: study.resolved().model.name(),
        random: study.factors().worded(),
        n: study.rows(),
        groups: study.groups(),
        groups_chosen: fit.groups.len(),
        rows_chosen: fit.groups.iter().map(|&group| study.rows_in(group)).sum(),
        priors: study.prior_lines(),
        quadrature: fit.quadrature,
        verdict: summarise(&fit.verdict),
        parameters,
        natural,
        version: env!("CARGO_PKG_VERSION"),
        seconds: None,
    }
}

/// What is written besides the random effects.
struct Written<'a> {
    study: &'a MixedStudy,
    fit: &'a MixedFit,
    summary: &'a Summary<'a>,
    args: &'a FitArgs,
}

impl Written<'_> {
    /// What goes with every file: nothing that differs from run to run.
    fn metadata(&self) -> anyhow::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::from([("corelet".to_owned(), serde_json::to_string(self.summary)?)]))
    }

    fn draws(&self, draws: &Original) -> anyhow::Result<()> {
        let (files, theta) = (&self.args.files, &self.fit.sample.draws);
        let (chains, length) = (draws.chains as i64, (draws.draws.len() / draws.chains) as i64);
        let number = |of: fn((i64, i64)) -> i64| {
            Extra::Integer((0..chains).flat_map(|c| (0..length).map(move |t| (c, t))).map(of).collect())
        };
        let mut columns = vec![
            ("chain".to_owned(), number(|(chain, _)| chain)),
            ("draw".to_owned(), number(|(_, draw)| draw)),
        ];
        let named = draws.names.iter().enumerate();
        columns.extend(named.map(|(j, name)| (name.clone(), Extra::Float(draws.column(j)))));
        if let Some(path) = &files.output {
            write_columns(&columns, &self.metadata()?, path)?;
        }
        let Some(path) = &files.arviz else { return Ok(()) };
        let to_original = |theta: &[f64]| self.study.to_original(theta);
        let groups = [
            ArvizGroup { name: "original", transform: &to_original },
            ArvizGroup { name: "standardised", transform: &<[f64]>::to_vec },
        ];
        let attributes = BTreeMap::from([
            ("created_by".to_owned(), format!("corelet {}", env!("CARGO_PKG_VERSION"))),
            ("inference_library".to_owned(), "corelet, nuts-rs".to_owned()),
            ("model".to_owned(), format!("{}, {}", self.summary.model, self.summary.random)),
            ("verdict".to_owned(), format!("{:?}", self.fit.verdict.grade)),
            ("resampled_by_importance_weights".to_owned(), self.fit.resampled.to_string()),
        ]);
        let bare = |part: &[f64]| Chain {
            draws: Phase { theta: part.to_vec(), ..Phase::default() },
            ..Chain::default()
        };
        let part = (theta.theta.len() / draws.chains).max(1);
        let plain = || Chains { dim: theta.dim, chains: theta.theta.chunks_exact(part).map(bare).collect() };
        let chains = self.fit.chains.clone().unwrap_or_else(plain);
        let mut text = Vec::new();
        write_arviz(&chains, &draws.names, &groups, &attributes, &mut text)?;
        output::write_bytes(path, &text)
    }

    /// The rows of the chosen groups. Their weight is called `group_weight`: as weights of rows they would mean something else.
    fn coreset(&self, source: &Source<'_>) -> anyhow::Result<()> {
        let Some(path) = &self.args.coreset else { return Ok(()) };
        let chosen = self.fit.groups.iter().zip(&self.fit.weights);
        let mut rows: Vec<(usize, f64)> = chosen
            .flat_map(|(&group, &weight)| self.study.rows_of(group).into_iter().map(move |row| (row, weight)))
            .collect();
        rows.sort_by_key(|&(row, _)| row);
        let (rows, weights): (Vec<usize>, Vec<f64>) = rows.into_iter().unzip();
        let extra = [("group_weight", Extra::Float(weights))];
        let metadata = self.metadata()?.into_iter().chain(self.study.notes(self.fit)?).collect();
        Ok(write_rows(&source.cells(&rows)?, &extra, &metadata, path)?)
    }
}

/// In words, the verdict first.
fn show(
    study: &MixedStudy,
    fit: &MixedFit,
    (parameters, natural): (&[Parameter], &[(String, Marginal)]),
    seconds: Seconds,
    terminal: &Terminal,
) {
    let points = fit.groups.iter().map(|&group| study.rows_in(group)).sum();
    terminal.say(&headline(&fit.verdict, points, study.rows()));
    lines(&fit.verdict, fit.groups.len(), study.groups()).iter().for_each(|line| terminal.say(line));
    study.lines(fit).iter().for_each(|line| terminal.say(line));
    let (estimates, last) = estimates_of(study, parameters, natural);
    posterior::show_estimates(&estimates, last, terminal);
    fit::show_rounds(&fit.rounds, terminal);
    let Seconds { read, laplace, rounds, random_effects } = seconds;
    let [read, laplace, rounds, effects] = [read, laplace, rounds, random_effects].map(duration);
    terminal.say(&format!(
        "  time           read {read}, fit of all groups {laplace}, rounds {rounds}, random effects {effects}"
    ));
}
