//! `corelet build`: choose weighted rows of a data file.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use corelet::coreset::{BuildOptions, Built, Coreset, HeldOut, Start, build_in_rounds, start_fit};
use corelet::data::{Extra, ensure_writable, write_rows};
use corelet::evaluate::evaluate_built;
use corelet::fitted;
use corelet::sample::Chains;
use corelet::verdict::Verdict;
use sparse_nnls::{Info, Status};

use crate::args::{BuildArgs, ChooseArgs, ModelArgs};
use crate::interrupt::Interrupt;
use crate::load::{self, Data, Fitted};
use crate::memory;
use crate::output;
use crate::report;
use crate::summary::{self, Seconds, Summary};
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
    let Some(chosen) = choose(data, &args.choose, &args.model, seed, terminal, interrupt)? else {
        return Ok(Outcome::Interrupted);
    };

    interrupt.writing();
    write_coreset(&chosen.fitted, &chosen.coreset, &chosen.summary, &args.output)?;
    if let Some(json) = &args.json {
        output::write_text(json, &chosen.summary.to_json()?)?;
    }
    if let Some(path) = &args.report {
        output::write_text(path, &report::to_html(&chosen.report(&args.choose, None, Vec::new()))?)?;
    }
    Ok(conclude(args, &chosen.coreset, &chosen.summary, terminal, interrupt))
}

fn check_outputs(args: &BuildArgs) -> anyhow::Result<()> {
    ensure_writable(&args.output)?;
    output::check(&outputs(args), &[&args.data.data])
}

fn outputs(args: &BuildArgs) -> Vec<&Path> {
    std::iter::once(&args.output).chain(&args.json).chain(&args.report).map(|path| path.as_path()).collect()
}

/// A coreset of fitted data, judged.
pub(crate) struct Chosen {
    pub(crate) fitted: Fitted,
    pub(crate) coreset: Coreset,
    pub(crate) summary: Summary,
}

impl Chosen {
    /// What a report is made of.
    pub(crate) fn report<'a>(
        &'a self,
        args: &ChooseArgs,
        drawn: Option<(&'a Chains, &'a Verdict)>,
        warnings: Vec<String>,
    ) -> report::Subject<'a> {
        let reference = match args.start {
            Start::Full => "all rows, Gaussian fit".to_owned(),
            start @ Start::Subsample(_) => format!("the start, {start}"),
        };
        report::Subject {
            fitted: &self.fitted,
            coreset: &self.coreset,
            summary: &self.summary,
            reference,
            drawn,
            lines: self.summary.lines(),
            warnings: warnings.into_iter().chain(self.summary.warnings()).collect(),
        }
    }
}

/// Fits, builds in rounds and evaluates; none where an interruption left nothing worth having.
pub(crate) fn choose(
    data: Data,
    args: &ChooseArgs,
    model: &ModelArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Chosen>> {
    let options = args.options(seed, data.len());
    options.check(data.len()).with_context(|| data.source().to_owned())?;
    let fitted =
        data.fit_with(&model.options(), terminal, |model, prior| start_fit(model, prior, args.start, seed))?;
    let held_out = HeldOut::new(&*fitted.model, &fitted.laplace.posterior, seed);
    let start = Instant::now();
    let built = run_rounds(&fitted, &held_out, &options, args, terminal, interrupt)?;
    let build_seconds = start.elapsed().as_secs_f64();
    if built.coreset.status == Status::Stopped && built.coreset.rows.is_empty() {
        return Ok(None);
    }
    let evaluated = Evaluated { fitted: &fitted, held_out: &held_out, built: &built, start: args.start };
    let summary = evaluated.judge(&options, build_seconds, terminal)?;
    drop(held_out);
    Ok(Some(Chosen { fitted, coreset: built.coreset, summary }))
}

fn run_rounds(
    fitted: &Fitted,
    held_out: &HeldOut<'_>,
    options: &BuildOptions,
    args: &ChooseArgs,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Built> {
    let progress = terminal.progress("embedding the data");
    let fitted::Fitted { model, prior, laplace, .. } = &**fitted;
    let mut callback = |info: &_| {
        let Info { points, .. } = info;
        if *points > 0 {
            interrupt.worth_writing();
        }
        progress.follow("", &options.method, info);
        if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let rounds = args.rounds();
    build_in_rounds(&**model, prior, &laplace.posterior, held_out, options, &rounds, &mut callback)
        .with_context(|| fitted.table.source.clone())
}

/// What an evaluation looks at.
struct Evaluated<'a> {
    fitted: &'a Fitted,
    held_out: &'a HeldOut<'a>,
    built: &'a Built,
    start: Start,
}

impl Evaluated<'_> {
    /// Evaluates; a coreset that was interrupted is not held up by the pass over the data that fresh draws take.
    fn judge(&self, options: &BuildOptions, build: f64, terminal: &Terminal) -> anyhow::Result<Summary> {
        let start = Instant::now();
        let _progress = terminal.progress("evaluating on fresh draws");
        let fitted::Fitted { model, prior, laplace, .. } = &**self.fitted;
        let coreset = &self.built.coreset;
        let evaluation =
            evaluate_built(&**model, prior, laplace, self.held_out, self.built, self.start, options.seed)?;
        let seconds = Seconds {
            read: self.fitted.read_seconds,
            laplace: self.fitted.laplace_seconds,
            build,
            evaluate: start.elapsed().as_secs_f64(),
        };
        let summary = Summary::of_build(&self.fitted.subject(), options, coreset, &evaluation, seconds);
        let summary = summary.with_rounds(self.start, &self.built.rounds, self.built.chosen);
        Ok(summary.with_peak_memory(memory::peak_bytes()))
    }
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
    let metadata = summary.metadata(&fitted.levels, &fitted.standardisation)?;
    Ok(write_rows(&fitted.table, &rows, &[("weight", weights)], &metadata, path)?)
}

fn conclude(
    args: &BuildArgs,
    coreset: &Coreset,
    summary: &Summary,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Outcome {
    summary::show(summary, terminal, &outputs(args));
    if interrupt.asked() {
        let points = wording::count(coreset.rows.len());
        let file = args.output.display();
        terminal.warn(&format!("interrupted: the best coreset so far, {points} points, is in {file}"));
        return Outcome::Interrupted;
    }
    summary::warn(summary, terminal);
    Outcome::Done
}
