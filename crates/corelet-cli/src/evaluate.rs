//! `corelet evaluate`: judge a coreset file against the data it came from.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use corelet::coreset::HeldOut;
use corelet::data::read_coreset;
use corelet::embed::embed;
use corelet::evaluate::{evaluate, residual_in};

use crate::Outcome;
use crate::args::EvaluateArgs;
use crate::load::{self, Fitted};
use crate::memory;
use crate::output;
use crate::summary::{self, Judged, Seconds, Summary};
use crate::terminal::Terminal;

pub(crate) fn run(args: &EvaluateArgs, seed: u64, terminal: &Terminal) -> anyhow::Result<Outcome> {
    let outputs: Vec<&Path> = args.json.iter().map(|path| path.as_path()).collect();
    output::check(&outputs, &[&args.data.data, &args.coreset])?;
    let (file_rows, weights) = read_coreset(&args.coreset)?;
    let design = args.data.design(&args.model);
    let data = load::read(&args.data.data, args.data.format, &design, terminal)?;
    let fitted = data.fit(&args.model.options(), terminal)?;
    let rows = observations_of(&fitted, &file_rows, &args.coreset)?;

    let summary = judge(args, &fitted, &rows, &weights, seed, terminal)?;
    if let Some(json) = &args.json {
        output::write_text(json, &summary.to_json()?)?;
    }
    summary::show(&summary, terminal, &outputs);
    summary::warn(&summary, terminal);
    Ok(Outcome::Done)
}

fn judge(
    args: &EvaluateArgs,
    fitted: &Fitted,
    rows: &[usize],
    weights: &[f64],
    seed: u64,
    terminal: &Terminal,
) -> anyhow::Result<Summary> {
    let start = Instant::now();
    let _progress = terminal.progress("evaluating on fresh draws");
    let Fitted { model, prior, laplace, .. } = fitted;
    let embedding = embed(&**model, &laplace.posterior, args.embedding, rows.len().max(1), seed)?;
    let residual = residual_in(&*embedding, rows, weights)?;
    let held_out = HeldOut::new(&**model, &laplace.posterior, seed);
    let evaluation = evaluate(&**model, prior, laplace, Some(&held_out), rows, weights)?;
    let (read, laplace) = (fitted.read_seconds, fitted.laplace_seconds);
    let seconds = Seconds { read, laplace, build: 0.0, evaluate: start.elapsed().as_secs_f64() };
    let judged = Judged { embedding: embedding.description(), residual, weights, seed };
    let summary = Summary::of_file(&fitted.subject(), &judged, &evaluation, seconds);
    Ok(summary.with_peak_memory(memory::peak_bytes()))
}

/// The observation that each row of the data file became.
fn observations_of(fitted: &Fitted, file_rows: &[usize], coreset: &Path) -> anyhow::Result<Vec<usize>> {
    let source = &fitted.table.source;
    let find = |&row: &usize| match fitted.rows.binary_search(&row) {
        Ok(observation) => Ok(observation),
        Err(_) if row < fitted.table.rows => {
            bail!("row {row} has missing values in {source} and was left out")
        }
        Err(_) => bail!("row {row} is named, but {source} has {} rows", fitted.table.rows),
    };
    let rows: anyhow::Result<Vec<usize>> = file_rows.iter().map(find).collect();
    rows.with_context(|| coreset.display().to_string())
}
