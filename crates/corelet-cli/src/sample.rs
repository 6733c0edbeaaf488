//! `corelet sample`: draws of the posterior of a coreset file, or of all rows, and a verdict.

use std::path::Path;

use corelet::data::read_coreset;
use corelet::laplace::{LaplaceSettings, laplace};
use corelet::model::Rows;
use corelet::verdict::Grade;
use serde::Serialize;

use crate::Outcome;
use crate::args_sampling::SampleArgs;
use crate::interrupt::Interrupt;
use crate::load::{self, Fitted};
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
    let settings = args.chains.settings();
    settings.check()?;
    let inputs: Vec<&Path> =
        std::iter::once(&args.data.data).chain(&args.coreset).map(|p| p.as_path()).collect();
    posterior::check_files(&args.files, &[], &inputs)?;
    let coreset =
        args.coreset.as_ref().map(|path| read_coreset(path).map(|read| (path, read))).transpose()?;
    let design = args.data.design(&args.model);
    let data = load::read(&args.data.data, args.data.format, &design, terminal)?;
    let chosen = match coreset {
        Some((path, (file_rows, weights))) => Some((data.observations_of(&file_rows, path)?, weights)),
        None => None,
    };
    let rows = match &chosen {
        Some((ids, weights)) => Rows::Weighted { ids, weights },
        None => Rows::All,
    };
    let fitted = data.fit_with(&args.model.options(), terminal, |model, prior| {
        laplace(model, prior, rows, None, &LaplaceSettings::default())
    })?;
    let start = &fitted.laplace.posterior;
    let Some(drawn) = posterior::draw(&fitted, rows, start, &settings, seed, terminal, interrupt)? else {
        return Ok(Outcome::Interrupted);
    };

    interrupt.writing();
    let summary = drawn.summary(&fitted);
    drawn.write(&fitted, &summary, &args.files)?;
    let points = chosen.as_ref().map(|(rows, _)| rows.len());
    if let Some(json) = &args.files.json {
        output::write_text(json, &to_json(&fitted, points, seed, &summary)?)?;
    }
    drawn.show(&fitted, &summary, points.unwrap_or(fitted.len()), terminal);
    posterior::written(&args.files)
        .iter()
        .for_each(|path| terminal.say(&format!("  written        {}", path.display())));
    Ok(if drawn.grade() == Some(Grade::C) { Outcome::NotCertified } else { Outcome::Done })
}

fn to_json(
    fitted: &Fitted,
    points: Option<usize>,
    seed: u64,
    posterior: &PosteriorSummary,
) -> anyhow::Result<String> {
    let summary = Summary {
        n: fitted.len(),
        features: fitted.names.len(),
        points,
        seed,
        model: fitted.model.name(),
        data: &fitted.table.source,
        version: env!("CARGO_PKG_VERSION"),
        posterior,
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}
