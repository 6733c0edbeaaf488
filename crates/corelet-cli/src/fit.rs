//! `corelet fit`: build a coreset, sample its posterior, and say whether it can be trusted.

use std::path::Path;

use corelet::data::ensure_writable;
use corelet::laplace::{LaplaceSettings, laplace};
use corelet::model::Rows;
use corelet::verdict::Grade;
use serde::Serialize;

use crate::args_sampling::FitArgs;
use crate::build::{Chosen, choose, write_coreset};
use crate::interrupt::Interrupt;
use crate::posterior::{self, PosteriorSummary};
use crate::summary::{self, Summary};
use crate::terminal::Terminal;
use crate::{Outcome, load, output, report};

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
    let settings = args.chains.settings();
    settings.check()?;
    posterior::check_files(&args.files, &also(args), &[&args.data.data])?;
    args.coreset.as_deref().map_or(Ok(()), ensure_writable)?;
    let design = args.data.design(&args.model);
    let data = load::read(&args.data.data, args.data.format, &design, terminal)?;
    let Some(chosen) = choose(data, &args.choose, &args.model, seed, terminal, interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let Chosen { fitted, coreset, summary } = &chosen;
    if let Some(path) = &args.coreset {
        write_coreset(fitted, coreset, summary, path)?;
    }
    if interrupt.asked() {
        return Ok(stopped(args.coreset.as_deref(), terminal));
    }
    let rows = Rows::Weighted { ids: &coreset.rows, weights: &coreset.weights };
    let near = Some(&fitted.laplace.posterior.mean[..]);
    let start = laplace(&*fitted.model, &fitted.prior, rows, near, &LaplaceSettings::default())?.posterior;
    let Some(drawn) = posterior::draw(fitted, rows, &start, &settings, seed, terminal, interrupt)? else {
        return Ok(stopped(args.coreset.as_deref(), terminal));
    };

    interrupt.writing();
    let posterior = drawn.summary(fitted);
    drawn.write(fitted, &posterior, &args.files)?;
    if let Some(json) = &args.files.json {
        let both = FitSummary { coreset: summary, posterior: &posterior };
        output::write_text(json, &(serde_json::to_string_pretty(&both)? + "\n"))?;
    }
    if let Some(path) = &args.report {
        let subject = chosen.report(&args.choose, drawn.judged(), drawn.warnings());
        output::write_text(path, &report::to_html(&subject)?)?;
    }
    drawn.show(fitted, &posterior, coreset.rows.len(), terminal);
    let written: Vec<&Path> = posterior::written(&args.files).into_iter().chain(also(args)).collect();
    summary::show(summary, terminal, &written);
    summary::warn(summary, terminal);
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
