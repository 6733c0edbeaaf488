//! `corelet evaluate`: judge a coreset file against the data it came from.

use std::path::Path;
use std::time::Instant;

use corelet::coreset::HeldOut;
use corelet::data::read_coreset;
use corelet::embed::embed;
use corelet::evaluate::{evaluate, residual_in};
use corelet::fitted;

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
    let rows = data.observations_of(&file_rows, &args.coreset)?;
    let fitted = data.fit(&args.model.options(), terminal)?;

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
    let fitted::Fitted { model, prior, laplace, .. } = &**fitted;
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
