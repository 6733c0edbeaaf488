//! `corelet build`: choose weighted rows of a data file.

use std::path::Path;

use anyhow::Context;
use corelet::coreset::Start;
use corelet::data::ensure_writable;
use corelet::study::{Chosen, Drawn};

use crate::args::BuildArgs;
use crate::interrupt::Interrupt;
use crate::load::{self, Follower, Opened};
use crate::terminal::Terminal;
use crate::{Outcome, memory, output, report, words};

pub(crate) fn run(
    args: &BuildArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    check_outputs(args)?;
    let specification = args.specification(seed);
    load::check_rest(specification.build.rest, &args.output)?;
    let opened = load::open(&args.data, &specification, terminal)?;
    let start = specification.build.start;
    let mut follower = Follower::new(terminal, interrupt);
    let chosen = opened
        .study
        .build(&specification.build, &mut |progress| follower.heard(progress))
        .with_context(|| opened.study.frame().source.clone())?;
    drop(follower);
    opened.warn(terminal);
    let Some(chosen) = chosen.map(with_memory) else { return Ok(Outcome::Interrupted) };

    interrupt.writing();
    let (coreset, summary) = (chosen.coreset(), &chosen.summary);
    opened.write_coreset((coreset, &chosen.weights), summary, None, &args.output)?;
    if let Some(json) = &args.json {
        output::write_text(json, &summary.to_json()?)?;
    }
    if let Some(path) = &args.report {
        output::write_text(path, &report::to_html(&subject(&opened, &chosen, start, None))?)?;
    }
    load::show(summary, terminal, &outputs(args));
    if interrupt.asked() {
        let (points, file) = (words::count(coreset.rows.len()), args.output.display());
        terminal.warn(&format!("interrupted: the best coreset so far, {points} points, is in {file}"));
        return Ok(Outcome::Interrupted);
    }
    load::warn(summary, terminal);
    Ok(Outcome::Done)
}

/// The same with the most memory that was held.
pub(crate) fn with_memory(chosen: Chosen) -> Chosen {
    Chosen { summary: chosen.summary.with_peak_memory(memory::peak_bytes()), ..chosen }
}

fn check_outputs(args: &BuildArgs) -> anyhow::Result<()> {
    ensure_writable(&args.output)?;
    output::check(&outputs(args), &args.data.files()?)
}

fn outputs(args: &BuildArgs) -> Vec<&Path> {
    std::iter::once(&args.output).chain(&args.json).chain(&args.report).map(|path| path.as_path()).collect()
}

/// What a report is made of.
pub(crate) fn subject<'a>(
    opened: &'a Opened,
    chosen: &'a Chosen,
    start: Start,
    drawn: Option<&'a Drawn>,
) -> report::Subject<'a> {
    let reference = match start {
        Start::Full => "all rows, Gaussian fit".to_owned(),
        start @ Start::Subsample(_) => format!("the start, {start}"),
    };
    let of_chains = drawn.map_or_else(Vec::new, |drawn| drawn.diagnostics.warnings());
    let warnings = of_chains.into_iter().chain(chosen.summary.warnings()).collect();
    report::Subject {
        study: &opened.study,
        chosen,
        reference,
        drawn,
        lines: chosen.summary.lines(),
        warnings,
    }
}
