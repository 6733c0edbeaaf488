//! `corelet certify`: anybody's draws against the posterior of all rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corelet::data::{Extra, Source, Values, ensure_writable, write_columns};
use corelet::posterior::SampleError;
use corelet::study::{GivenDraws, Study, StudyError};
use corelet::trust::{Certificate, Divergence, Grade, Offset, Reason, Reweighting};
use corelet::words::certified;
use serde::Serialize;

use crate::Outcome;
use crate::args_after::{CertifyArgs, GivenArgs};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::output;
use crate::terminal::Terminal;

/// The keys of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    n: usize,
    model: &'static str,
    data: &'a str,
    version: &'static str,
    grade: Grade,
    certified: bool,
    reasons: &'a [Reason],
    draws: usize,
    looked_at: usize,
    score_shift: Option<f64>,
    score_scale: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<Weights>,
    /// The parameters that the draws seem to be of, where that is on another scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    seems_of: Option<&'static str>,
    parameters: Vec<NamedOffset<'a>>,
}

#[derive(Serialize)]
struct Weights {
    #[serde(flatten)]
    divergence: Divergence,
    #[serde(flatten)]
    reweighting: Reweighting,
}

#[derive(Serialize)]
struct NamedOffset<'a> {
    name: &'a str,
    shift: Option<f64>,
    shift_error: Option<f64>,
    scale: Option<f64>,
    scale_error: Option<f64>,
}

pub(crate) fn run(
    args: &CertifyArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let outputs: Vec<&Path> = args.output.iter().chain(&args.json).map(PathBuf::as_path).collect();
    let inputs: Vec<PathBuf> = args.data.files()?.into_iter().chain(args.given.files()).collect();
    args.output.as_ref().map_or(Ok(()), |path| ensure_writable(path))?;
    output::check(&outputs, &inputs)?;
    let columns = columns_of(&args.given)?;
    let coreset = args.given.coreset.as_deref();
    let opened = load::open_like(&args.data, &args.specification(seed), coreset, terminal)?;
    let study = &opened.study;
    let given = draws_of(study, &columns, &args.given)?;
    let mut follower = Follower::new(terminal, interrupt);
    let certificate = match study.certify(&given, &mut |progress| follower.heard(progress)) {
        Err(StudyError::Sample(SampleError::Stopped)) => return Ok(Outcome::Interrupted),
        certificate => certificate.with_context(|| args.given.draws.display().to_string())?,
    };
    drop(follower);
    opened.warn(terminal);

    interrupt.writing();
    if let Some(path) = &args.output {
        write_columns(&weighted(study, &given, &certificate), &BTreeMap::new(), path)?;
    }
    if let Some(path) = &args.json {
        output::write_text(path, &to_json(study, &certificate)?)?;
    }
    let names = &study.frame().names;
    certified(&certificate, names, study.all_rows(), study.has_one_mode()?)
        .iter()
        .for_each(|line| terminal.say(line));
    outputs.iter().for_each(|path| terminal.say(&format!("  written        {}", path.display())));
    Ok(if certificate.verdict.grade == Grade::C { Outcome::NotCertified } else { Outcome::Done })
}

/// The numeric columns of a file of draws.
pub(crate) fn columns_of(given: &GivenArgs) -> anyhow::Result<Vec<(String, Vec<f64>)>> {
    let table = Source::open(&given.draws, None)?.table()?;
    let columns = table.columns.into_iter().map(|column| match column.values {
        Values::Number { values, .. } => Ok((column.name, values)),
        _ => Err(anyhow::anyhow!("{}: column '{}' is not numeric", given.draws.display(), column.name)),
    });
    columns.collect()
}

/// The draws of such columns, in the coordinates of the study.
pub(crate) fn draws_of(
    study: &Study,
    columns: &[(String, Vec<f64>)],
    given: &GivenArgs,
) -> anyhow::Result<GivenDraws> {
    Ok(study.draws_of(columns, &given.draws.display().to_string(), given.original())?)
}

/// The draws that were looked at, on the original scale, with their weights.
fn weighted(study: &Study, given: &GivenDraws, certificate: &Certificate) -> Vec<(String, Extra)> {
    let looked = given.draws.thinned(certificate.verdict.draws);
    let size = certificate.verdict.log_weights.len() as f64;
    let weights = certificate.verdict.log_weights.iter().map(|w| w.exp() * size).collect();
    let original: Vec<Vec<f64>> = (0..looked.len()).map(|s| study.to_original(looked.row(s))).collect();
    let column = |j: usize| Extra::Float(original.iter().map(|draw| draw[j]).collect());
    let named = study.frame().names.iter().enumerate().map(|(j, name)| (name.clone(), column(j)));
    std::iter::once(("weight".to_owned(), Extra::Float(weights))).chain(named).collect()
}

fn to_json<'a>(study: &'a Study, certificate: &Certificate) -> anyhow::Result<String> {
    let Certificate { verdict, parameters, draws, has_density, seems_of } = certificate;
    let finite = |x: f64| x.is_finite().then_some(x);
    let named = |(name, offset): (&'a String, &Offset)| NamedOffset {
        name,
        shift: finite(offset.shift),
        shift_error: finite(offset.shift_error),
        scale: finite(offset.scale),
        scale_error: finite(offset.scale_error),
    };
    let summary = Summary {
        n: study.all_rows(),
        model: study.model(),
        data: &study.frame().source,
        version: env!("CARGO_PKG_VERSION"),
        grade: verdict.grade,
        certified: verdict.grade != Grade::C,
        reasons: &verdict.reasons,
        draws: *draws,
        looked_at: verdict.draws,
        score_shift: verdict.fidelity.and_then(|fidelity| finite(fidelity.shift)),
        score_scale: verdict.fidelity.map(|fidelity| fidelity.scale).filter(|scale| scale.1.is_finite()),
        weights: has_density
            .then_some(Weights { divergence: verdict.divergence, reweighting: verdict.reweighting }),
        seems_of: *seems_of,
        parameters: study.frame().names.iter().zip(parameters).map(named).collect(),
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}
