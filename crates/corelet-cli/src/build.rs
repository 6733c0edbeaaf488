//! `corelet build`: choose weighted rows of a data file.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use corelet::coreset::{BuildError, BuildOptions, Coreset, HeldOut, Selector, build, select_by_sparse_vi};
use corelet::data::{Extra, ensure_writable, write_rows};
use corelet::embed::embed;
use corelet::evaluate::evaluate;
use sparse_nnls::{Info, Status};

use crate::args::BuildArgs;
use crate::interrupt::Interrupt;
use crate::load::{self, Fitted};
use crate::output;
use crate::summary::{Seconds, Summary};
use crate::terminal::Terminal;
use crate::{Outcome, wording};

pub(crate) fn run(
    args: &BuildArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    check_outputs(args)?;
    let design = args.data.design(&args.model);
    let data = load::read(&args.data.data, args.data.format, &design, terminal)?;
    let options = args.options(seed, data.len());
    options.check(data.len()).with_context(|| data.source().to_owned())?;
    let fitted = data.fit(&args.model.options(), terminal)?;
    let held_out = HeldOut::new(&*fitted.model, &fitted.laplace.posterior, seed);

    let (coreset, build_seconds) = choose(&fitted, &held_out, &args.method, &options, terminal, interrupt)?;
    if coreset.status == Status::Stopped && coreset.rows.is_empty() {
        return Ok(Outcome::Interrupted);
    }
    let summary = judge(&fitted, &held_out, &options, &coreset, build_seconds, terminal)?;

    interrupt.writing();
    write_coreset(&fitted, &coreset, &summary, &args.output)?;
    if let Some(json) = &args.json {
        output::write_text(json, &summary.to_json()?)?;
    }
    Ok(report(args, &coreset, &summary, terminal, interrupt))
}

fn check_outputs(args: &BuildArgs) -> anyhow::Result<()> {
    ensure_writable(&args.output)?;
    let outputs: Vec<&Path> =
        std::iter::once(&args.output).chain(&args.json).map(|path| path.as_path()).collect();
    output::check(&outputs, &[&args.data.data])
}

fn choose(
    fitted: &Fitted,
    held_out: &HeldOut<'_>,
    selector: &Selector,
    options: &BuildOptions,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<(Coreset, f64)> {
    let start = Instant::now();
    let progress = terminal.progress("embedding the data");
    let Fitted { model, prior, laplace, .. } = fitted;
    let (model, posterior) = (&**model, &laplace.posterior);
    let follow = &mut |info: &Info| {
        if info.points > 0 {
            interrupt.worth_writing();
        }
        progress.follow("", selector, info);
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let coreset = match selector {
        Selector::Embedded(_) => build(model, posterior, held_out, options, follow),
        Selector::SparseVi(settings) => embed(model, posterior, options.embedding, options.k, options.seed)
            .map_err(BuildError::from)
            .and_then(|judge| select_by_sparse_vi(model, prior, &*judge, settings, options, follow)),
    }
    .with_context(|| fitted.table.source.clone())?;
    Ok((coreset, start.elapsed().as_secs_f64()))
}

/// Evaluates; a coreset that was interrupted is not held up by the pass over the data that fresh draws take.
fn judge(
    fitted: &Fitted,
    held_out: &HeldOut<'_>,
    options: &BuildOptions,
    coreset: &Coreset,
    build: f64,
    terminal: &Terminal,
) -> anyhow::Result<Summary> {
    let start = Instant::now();
    let _progress = terminal.progress("evaluating on fresh draws");
    let held_out = (coreset.status != Status::Stopped).then_some(held_out);
    let Fitted { model, prior, laplace, .. } = fitted;
    let evaluation = evaluate(&**model, prior, laplace, held_out, &coreset.rows, &coreset.weights)?;
    let seconds = Seconds {
        read: fitted.read_seconds,
        laplace: fitted.laplace_seconds,
        build,
        evaluate: start.elapsed().as_secs_f64(),
    };
    Ok(Summary::of_build(fitted, options, coreset, &evaluation, seconds))
}

/// Writes the chosen rows with their weights and original columns, the summary in the file's metadata.
pub(crate) fn write_coreset(
    fitted: &Fitted,
    coreset: &Coreset,
    summary: &Summary,
    path: &Path,
) -> anyhow::Result<()> {
    let rows: Vec<usize> = coreset.rows.iter().map(|&i| fitted.rows[i]).collect();
    let weights = Extra::Float(coreset.weights.clone());
    Ok(write_rows(&fitted.table, &rows, &[("weight", weights)], &summary.metadata(fitted)?, path)?)
}

fn report(
    args: &BuildArgs,
    coreset: &Coreset,
    summary: &Summary,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Outcome {
    let written: Vec<&Path> =
        std::iter::once(&args.output).chain(&args.json).map(|path| path.as_path()).collect();
    summary.show(terminal, &written);
    if interrupt.asked() {
        let points = wording::count(coreset.rows.len());
        let file = args.output.display();
        terminal.warn(&format!("interrupted: the best coreset so far, {points} points, is in {file}"));
        return Outcome::Interrupted;
    }
    summary.warn(terminal);
    Outcome::Done
}
