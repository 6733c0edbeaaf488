//! `corelet update`: rows that arrive, joined to a coreset of rows that need not be there.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use corelet::data::{Extra, KeptRows, Source, Storage, ensure_writable, read_coreset, write_rows};
use corelet::posterior::SampleError;
use corelet::rows::Observations;
use corelet::study::{KeptCoreset, StudyError, Updated};
use corelet::trust::Grade;
use corelet::words::{Summary, count, updated};
use serde::Serialize;

use crate::args_sampling::{DrawFiles, UpdateArgs};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower, has_metadata, located};
use crate::posterior::{self, PosteriorSummary};
use crate::terminal::Terminal;
use crate::{Outcome, output};

/// The keys of `--json`: those of `fit`, and what rests on older certificates.
#[derive(Serialize)]
struct UpdateSummary<'a> {
    coreset: &'a Summary,
    rows_new: usize,
    compressed: bool,
    /// Of the bound on V, what rests on certificates of rows that were not at hand, in nats²; null if they were.
    rests_on_earlier: Option<f64>,
    #[serde(flatten)]
    posterior: &'a PosteriorSummary,
}

pub(crate) fn run(
    args: &UpdateArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let asked = args.specification(seed);
    asked.sample.check()?;
    check_outputs(args)?;
    let file = read_coreset(&args.coreset)?;
    let kept = KeptCoreset::of_file(&file, &args.coreset.display().to_string())?;
    let source = Source::open(&args.new, args.format)?;
    let (new, of) = encoded(&kept, &source, args.drop_missing, terminal)?;
    let earlier = if args.old.is_empty() {
        None
    } else {
        let source = Source::open_all(&args.old, None, &Storage::default())?;
        Some(encoded(&kept, &source, args.drop_missing, terminal)?.0)
    };
    let mut follower = Follower::new(terminal, interrupt);
    let rows = (source.name(), new, of.total());
    let result = kept.update(rows, earlier, &asked, &mut |progress| follower.heard(progress));
    let result = match result {
        Err(StudyError::Sample(SampleError::Stopped)) => return Ok(Outcome::Interrupted),
        result => result.map_err(|error| named(error, args, source.name()))?,
    };
    drop(follower);

    interrupt.writing();
    let (places, fresh): (Vec<usize>, Vec<usize>) =
        result.rows.iter().partition(|&&row| row < kept.rows.len());
    let fresh: Vec<usize> = fresh.iter().map(|row| of.file_row(row - kept.rows.len())).collect();
    let first = kept.blocks.file_rows;
    let numbers = places.iter().map(|&place| file.rows[place]);
    let numbers = numbers.chain(fresh.iter().map(|row| first + row)).collect();
    let cells = file.joined(&places, (&source, &fresh), numbers)?;
    let weights = Extra::Float(result.weights.values().to_vec());
    let summary = PosteriorSummary::new(&result.study, &result.drawn);
    write_rows(&cells, &[("weight", weights)], &result.metadata()?, &args.output)?;
    if let Some(path) = &args.posterior {
        let files = DrawFiles { output: Some(path.clone()), arviz: None, json: None };
        posterior::write(&result.study, &result.drawn, &summary, &files)?;
    }
    if let Some(path) = &args.json {
        output::write_text(path, &to_json(&result, &summary, of.len())?)?;
    }
    show(&result, &summary, terminal);
    outputs(args).iter().for_each(|path| load::say_written(path, terminal));
    Ok(if result.drawn.grade() == Some(Grade::C) { Outcome::NotCertified } else { Outcome::Done })
}

fn outputs(args: &UpdateArgs) -> Vec<&Path> {
    std::iter::once(&args.output).chain(&args.posterior).chain(&args.json).map(PathBuf::as_path).collect()
}

/// Refuses, before any work is done, what could not be written.
fn check_outputs(args: &UpdateArgs) -> anyhow::Result<()> {
    ensure_writable(&args.output)?;
    args.posterior.as_ref().map_or(Ok(()), |path| ensure_writable(path))?;
    let inputs: Vec<PathBuf> = [&args.coreset, &args.new].into_iter().chain(&args.old).cloned().collect();
    output::check(&outputs(args), &inputs)?;
    ensure!(
        has_metadata(&args.output),
        "{}: CSV has no place for what certifies a coreset; write .parquet or .json",
        args.output.display()
    );
    Ok(())
}

/// Rows encoded as those of the coreset.
fn encoded(
    kept: &KeptCoreset,
    source: &Source<'_>,
    drop_missing: bool,
    terminal: &Terminal,
) -> anyhow::Result<(Observations, KeptRows)> {
    let progress = terminal.progress(format!("reading {}", source.name()));
    let (rows, of) = kept.encode_data(source, drop_missing)?;
    drop(progress);
    if of.len() < of.total() {
        let (dropped, all) = (count(of.total() - of.len()), count(of.total()));
        terminal.warn(&format!(
            "{}: {dropped} of {all} rows have missing values and were left out",
            source.name()
        ));
    }
    Ok((rows, of))
}

/// An error with the file that is at fault in front.
fn named(error: StudyError, args: &UpdateArgs, new: &str) -> anyhow::Error {
    match error {
        error @ StudyError::NotEarlier { .. } => anyhow::Error::new(error)
            .context(args.old.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")),
        error @ StudyError::AlreadyIn { .. } => {
            anyhow!("{new}: {error}; --allow-repeats adds them, where they are other rows that are equal")
        }
        error => located(error, new),
    }
}

fn show(result: &Updated, summary: &PosteriorSummary, terminal: &Terminal) {
    result.study.warnings().iter().for_each(|warning| terminal.warn(warning));
    posterior::show(&result.study, &result.drawn, summary, result.rows.len(), terminal);
    updated(result).iter().for_each(|line| terminal.say(line));
    result.summary.lines().iter().take(1).for_each(|line| terminal.say(line));
}

fn to_json(result: &Updated, posterior: &PosteriorSummary, rows_new: usize) -> anyhow::Result<String> {
    let summary = UpdateSummary {
        coreset: &result.summary,
        rows_new,
        compressed: result.compressed,
        rests_on_earlier: result.carried,
        posterior,
    };
    Ok(serde_json::to_string_pretty(&summary).context("the summary")? + "\n")
}
