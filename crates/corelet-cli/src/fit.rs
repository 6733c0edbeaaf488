//! `corelet fit`: build a coreset, sample its posterior, and say whether it can be trusted.

use std::path::Path;

use anyhow::Context;
use corelet::data::ensure_writable;
use corelet::engine::Round;
use corelet::study::FitSpecification;
use corelet::trust::Grade;
use corelet::words::{Summary, count, number};
use serde::Serialize;

use crate::args_sampling::FitArgs;
use crate::build::{subject, with_memory};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::posterior::{self, PosteriorSummary};
use crate::terminal::Terminal;
use crate::{Outcome, mixed, output, report};

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
    if specification.mixed.random.is_some() {
        return mixed::run(args, seed, terminal, interrupt);
    }
    specification.sample.check()?;
    posterior::check_files(&args.files, &also(args), &args.data.files()?)?;
    args.coreset.as_deref().map_or(Ok(()), ensure_writable)?;
    if let Some(path) = &args.coreset {
        load::check_rest(specification.build.rest, path)?;
    }
    let opened = load::open(&args.data, &specification, terminal)?;
    let said = opened.warn_after(0, terminal);
    let source = || opened.study.frame().source.clone();
    let mut follower = Follower::new(terminal, interrupt);
    let asked = FitSpecification {
        build: specification.build.clone(),
        max_k: args.max_k,
        sample: specification.sample,
        seed,
    };
    let fitted = opened.study.fit(&asked, &mut |progress| follower.heard(progress)).with_context(source)?;
    drop(follower);
    opened.warn_after(said, terminal);
    fitted.notes.iter().for_each(|note| terminal.warn(note));
    let Some(chosen) = fitted.chosen.map(with_memory) else { return Ok(Outcome::Interrupted) };
    let (coreset, summary) = (chosen.coreset(), &chosen.summary);
    if let Some(path) = &args.coreset {
        opened.write_coreset((coreset, &chosen.weights), summary, fitted.drawn.as_ref(), path)?;
    }
    let Some(drawn) = fitted.drawn else { return Ok(stopped(args.coreset.as_deref(), terminal)) };

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
    show_rounds(&fitted.rounds, terminal);
    let written: Vec<&Path> = posterior::written(&args.files).into_iter().chain(also(args)).collect();
    load::show(summary, terminal, &written);
    load::warn(summary, terminal);
    Ok(if drawn.grade() == Some(Grade::C) { Outcome::NotCertified } else { Outcome::Done })
}

/// The coresets that were tried, where they were several.
pub(crate) fn show_rounds(rounds: &[Round], terminal: &Terminal) {
    if rounds.len() < 2 {
        return;
    }
    for (i, Round { points, variance, next, .. }) in rounds.iter().enumerate() {
        let label = if i == 0 { "  tried          " } else { "                 " };
        terminal.say(&format!("{label}{} points: V {} nats²; {next}", count(*points), number(*variance)));
    }
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
