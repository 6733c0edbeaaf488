//! `corelet fit`: build a coreset, sample its posterior, and say whether it can be trusted.

use std::path::Path;

use anyhow::Context;
use corelet::data::ensure_writable;
use corelet::trust::Grade;
use corelet::words::Summary;
use serde::Serialize;

use crate::args_sampling::FitArgs;
use crate::build::{subject, with_memory};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::posterior::{self, PosteriorSummary};
use crate::terminal::Terminal;
use crate::{Outcome, output, report};

/// The keys of `--json`: those of `build` under `coreset`, and those of `sample`.
#[derive(Serialize)]
struct FitSummary<'a> {
    coreset: &'a Summary,
    #[serde(flatten)]
    posterior: &'a PosteriorSummary,
}

pub(crate) fn run(
    args: &FitArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let specification = args.specification(seed);
    specification.sample.check()?;
    posterior::check_files(&args.files, &also(args), &args.data.files()?)?;
    args.coreset.as_deref().map_or(Ok(()), ensure_writable)?;
    if let Some(path) = &args.coreset {
        load::check_rest(specification.build.rest, path)?;
    }
    let opened = load::open(&args.data, &specification, terminal)?;
    let source = || opened.study.frame().source.clone();
    let mut follower = Follower::new(terminal, interrupt);
    let chosen = opened
        .study
        .build(&specification.build, &mut |progress| follower.heard(progress))
        .with_context(source)?;
    drop(follower);
    opened.warn(terminal);
    let Some(chosen) = chosen.map(with_memory) else { return Ok(Outcome::Interrupted) };
    let (coreset, summary) = (chosen.coreset(), &chosen.summary);
    if let Some(path) = &args.coreset {
        opened.write_coreset(coreset, summary, path)?;
    }
    if interrupt.asked() {
        return Ok(stopped(args.coreset.as_deref(), terminal));
    }
    let weighted = opened.study.weighted_with_rest(&coreset.rows, &coreset.weights, coreset.rest.as_ref());
    let weighted = weighted.with_context(source)?;
    let Some(drawn) =
        posterior::draw(&opened, Some(&weighted), &specification.sample, seed, terminal, interrupt)?
    else {
        return Ok(stopped(args.coreset.as_deref(), terminal));
    };

    interrupt.writing();
    let posterior = PosteriorSummary::new(&opened.study, &drawn);
    posterior::write(&opened.study, &drawn, &posterior, &args.files)?;
    if let Some(json) = &args.files.json {
        let both = FitSummary { coreset: summary, posterior: &posterior };
        output::write_text(json, &(serde_json::to_string_pretty(&both)? + "\n"))?;
    }
    if let Some(path) = &args.report {
        let subject = subject(&opened, &chosen, specification.build.start, Some(&drawn));
        output::write_text(path, &report::to_html(&subject)?)?;
    }
    posterior::show(&opened.study, &drawn, &posterior, coreset.rows.len(), terminal);
    let written: Vec<&Path> = posterior::written(&args.files).into_iter().chain(also(args)).collect();
    load::show(summary, terminal, &written);
    load::warn(summary, terminal);
    Ok(if drawn.grade() == Some(Grade::C) { Outcome::NotCertified } else { Outcome::Done })
}

/// The files that `fit` writes besides the draws.
fn also(args: &FitArgs) -> Vec<&Path> {
    args.coreset.iter().chain(&args.report).map(|path| path.as_path()).collect()
}

fn stopped(coreset: Option<&Path>, terminal: &Terminal) -> Outcome {
    let kept = coreset.map_or_else(String::new, |path| format!("; the coreset is in {}", path.display()));
    terminal.warn(&format!("interrupted before the draws were complete: none were written{kept}"));
    Outcome::Interrupted
}
