//! `corelet sample`: draws of the posterior of a coreset file, or of all rows, and a verdict.

use std::path::PathBuf;

use anyhow::Context;
use corelet::study::Study;
use corelet::trust::Grade;
use corelet::words::PriorGroup;
use serde::Serialize;

use crate::Outcome;
use crate::args_sampling::SampleArgs;
use crate::interrupt::Interrupt;
use crate::load;
use crate::output;
use crate::posterior::{self, PosteriorSummary};
use crate::terminal::Terminal;

/// The keys of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    n: usize,
    features: usize,
    points: Option<usize>,
    seed: u64,
    model: &'static str,
    priors: &'a [PriorGroup],
    data: &'a str,
    version: &'static str,
    #[serde(flatten)]
    posterior: &'a PosteriorSummary,
}

pub(crate) fn run(
    args: &SampleArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let specification = args.specification(seed);
    specification.sample.check()?;
    let inputs: Vec<PathBuf> = args.data.files()?.into_iter().chain(args.coreset.clone()).collect();
    posterior::check_files(&args.files, &[], &inputs)?;
    let (opened, coreset) = match &args.coreset {
        Some(path) => {
            let (opened, points) = load::open_for(&args.data, &specification, path, terminal)?;
            (opened, Some(points))
        }
        None => (load::open(&args.data, &specification, terminal)?, None),
    };
    let named = || args.coreset.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let weighted = coreset.as_ref().map(|points| {
        opened.study.weighted_with_rest(&points.observations, &points.weights, points.rest.as_ref())
    });
    let weighted = weighted.transpose().with_context(named)?;
    let drawn =
        posterior::draw(&opened, weighted.as_ref(), &specification.sample, seed, terminal, interrupt)?;
    opened.warn(terminal);
    let Some(drawn) = drawn else { return Ok(Outcome::Interrupted) };

    interrupt.writing();
    let summary = PosteriorSummary::new(&opened.study, &drawn);
    posterior::write(&opened.study, &drawn, &summary, &args.files)?;
    let points = coreset.as_ref().map(|points| points.observations.len());
    if let Some(json) = &args.files.json {
        output::write_text(json, &to_json(&opened.study, points, seed, &summary)?)?;
    }
    posterior::show(&opened.study, &drawn, &summary, points.unwrap_or(opened.study.all_rows()), terminal);
    posterior::written(&args.files).iter().for_each(|path| load::say_written(path, terminal));
    Ok(if drawn.grade() == Some(Grade::C) { Outcome::NotCertified } else { Outcome::Done })
}

fn to_json(
    study: &Study,
    points: Option<usize>,
    seed: u64,
    posterior: &PosteriorSummary,
) -> anyhow::Result<String> {
    let summary = Summary {
        n: study.all_rows(),
        features: study.frame().features,
        points,
        seed,
        model: study.model(),
        priors: &study.resolved().said,
        data: &study.frame().source,
        version: env!("CARGO_PKG_VERSION"),
        posterior,
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}
