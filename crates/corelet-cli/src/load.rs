//! From the flags to a study, and what is heard while it works.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use corelet::coreset::{Coreset, RestChoice, WrittenWeights};
use corelet::data::{
    Bytes, CoresetFile, Dataset, Extra, Reading, Source, is_standard_output, read_coreset, write_rows,
};
use corelet::review::By;
use corelet::rows::Rest;
use corelet::study::{Drawn, Progress, Specification, Study, StudyError, design_of, rest_of};
use corelet::words::{Summary, count, duration};

use crate::args_data::DataArgs;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Terminal};

/// What a coreset file has of these data.
pub(crate) struct Points {
    pub(crate) observations: Vec<usize>,
    pub(crate) weights: WrittenWeights,
    pub(crate) rest: Option<Arc<Rest>>,
}

/// Whether a file has a place for what goes with a coreset beside its rows.
pub(crate) fn has_metadata(path: &Path) -> bool {
    !is_standard_output(path)
        && path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("csv"))
}

/// Refuses, before any work is done, a Gaussian part where the file has no place for it.
pub(crate) fn check_rest(rest: RestChoice, path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        rest == RestChoice::None || has_metadata(path),
        "{}: CSV has no place for the Gaussian part of a coreset; write .parquet or .json, or build with --rest none",
        path.display()
    );
    Ok(())
}

/// A data file and the study of it.
pub(crate) struct Opened {
    source: Source<'static>,
    pub(crate) study: Study,
}

/// Reads the file, makes the design and the model.
pub(crate) fn open(
    args: &DataArgs,
    specification: &Specification,
    terminal: &Terminal,
) -> anyhow::Result<Opened> {
    let clock = Instant::now();
    let source = source(args, specification, terminal)?;
    study(source, specification, clock, terminal)
}

/// The same of the rows that a coreset file is judged on: encoded as its own, on their scale.
pub(crate) fn open_for(
    args: &DataArgs,
    specification: &Specification,
    coreset: &Path,
    terminal: &Terminal,
) -> anyhow::Result<(Opened, Points)> {
    let file = read_coreset(coreset)?;
    let mut opened = open(args, &like(specification, &file, coreset)?, terminal)?;
    let points = opened.coreset(file, coreset)?;
    Ok((opened, points))
}

/// The same of rows that draws are held against, encoded as those of a coreset where one is named.
pub(crate) fn open_like(
    args: &DataArgs,
    specification: &Specification,
    coreset: Option<&Path>,
    terminal: &Terminal,
) -> anyhow::Result<Opened> {
    match coreset {
        Some(path) => open(args, &like(specification, &read_coreset(path)?, path)?, terminal),
        None => open(args, specification, terminal),
    }
}

/// The same, but with the columns, the levels and the scale of the features of a coreset.
fn like(specification: &Specification, file: &CoresetFile, path: &Path) -> anyhow::Result<Specification> {
    let mut specification = specification.clone();
    specification.design.like = design_of(&file.notes, &path.display().to_string())?.map(Box::new);
    Ok(specification)
}

/// The data, not yet read.
pub(crate) fn source(
    args: &DataArgs,
    specification: &Specification,
    terminal: &Terminal,
) -> anyhow::Result<Source<'static>> {
    let named = args.data.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let progress = terminal.progress(format!("reading {named}"));
    let source = Source::open_all(&args.data, args.format, &specification.storage)?;
    drop(progress);
    Ok(source)
}

/// The study of what has been opened, or generated, since `clock`.
pub(crate) fn study(
    source: Source<'static>,
    specification: &Specification,
    clock: Instant,
    terminal: &Terminal,
) -> anyhow::Result<Opened> {
    let dataset = dataset(&source, specification, terminal)?;
    let read = clock.elapsed().as_secs_f64();
    let study = Study::new(source.name(), dataset, specification, read);
    let study = study.map_err(|error| located(error, source.name()))?;
    Ok(Opened { source, study })
}

/// The design of the data, with progress while they are read.
pub(crate) fn dataset(
    source: &Source<'_>,
    specification: &Specification,
    terminal: &Terminal,
) -> anyhow::Result<Dataset> {
    let progress = terminal.progress(format!("reading {}", source.name()));
    let mut pace = Pace::default();
    let dataset = source.design_watched(&specification.design(), &specification.storage, &mut |reading| {
        progress.set(pace.worded(source.name(), reading));
        ControlFlow::Continue(())
    })?;
    drop(progress);
    Ok(dataset)
}

/// An error with the data named in front, where it does not name them itself.
pub(crate) fn located(error: StudyError, name: &str) -> anyhow::Error {
    match error {
        StudyError::Data(error) => error.into(),
        error => anyhow::Error::new(error).context(name.to_owned()),
    }
}

/// How fast a look goes.
#[derive(Default)]
struct Pace {
    look: usize,
    since: Option<Instant>,
}

impl Pace {
    fn worded(&mut self, name: &str, reading: &Reading) -> String {
        if self.look != reading.look {
            *self = Self { look: reading.look, since: Some(Instant::now()) };
        }
        let seconds = self.since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        paced(name, reading, seconds)
    }
}

/// The progress line of a scan after this many seconds.
fn paced(name: &str, reading: &Reading, seconds: f64) -> String {
    let Reading { look, rows, bytes, total_bytes } = *reading;
    let mut text = format!("reading {name}, scan {look}: {} rows", count(rows));
    if seconds > 0.0 {
        text += &format!(", {} rows/s", count((rows as f64 / seconds) as usize));
        if bytes > 0 {
            let left = seconds * (total_bytes.saturating_sub(bytes) as f64 / bytes as f64);
            let share = 100.0 * bytes as f64 / total_bytes.max(1) as f64;
            let speed = Bytes((bytes as f64 / seconds) as u64);
            text += &format!(", {speed}/s, {share:.0} %, {} left of this look", duration(left));
        }
    }
    text
}

impl Opened {
    /// The observations of a coreset file, their weights, and its Gaussian part.
    fn coreset(&mut self, coreset: CoresetFile, path: &Path) -> anyhow::Result<Points> {
        let named = || path.display().to_string();
        let rest = rest_of(&coreset, &named())?;
        let observations = self.study.frame().observations_of(&coreset.rows).with_context(named)?;
        coreset.check_rows(&self.source)?;
        self.study.expect_notes(&coreset.notes, &named())?;
        Ok(Points { observations, weights: coreset.weights.into(), rest })
    }

    /// Writes the chosen rows with their weights and original columns; in the file's metadata the summary, and what their draws certify.
    pub(crate) fn write_coreset(
        &self,
        (coreset, weights): (&Coreset, &WrittenWeights),
        summary: &Summary,
        drawn: Option<&Drawn>,
        path: &Path,
    ) -> anyhow::Result<()> {
        let frame = self.study.frame();
        let rows = self.study.frame().rows_of(&coreset.rows);
        let weights = Extra::Float(weights.values().to_vec());
        let mut metadata = frame.metadata(summary, self.study.resolved(), coreset.rest.as_deref())?;
        metadata.extend([self.study.blocks(drawn, coreset.rows.len()).metadata()?]);
        Ok(write_rows(&self.source.cells(&rows)?, &[("weight", weights)], &metadata, path)?)
    }

    /// The rows by the levels of a column of the data.
    pub(crate) fn by(&self, column: &str) -> anyhow::Result<By> {
        let rows: Vec<usize> = self.study.frame().rows.iter().collect();
        Ok(By::of(column, &self.source.column(column)?, &rows))
    }

    /// Says what the user should know about data, model and fit.
    pub(crate) fn warn(&self, terminal: &Terminal) {
        self.warn_after(0, terminal);
    }

    /// The same without the first `said` of them, which were said before; how many there are. Those of the data are known before a fit,
    /// and the fit's own come after them.
    pub(crate) fn warn_after(&self, said: usize, terminal: &Terminal) -> usize {
        let warnings = self.study.warnings();
        warnings.iter().skip(said).for_each(|warning| terminal.warn(warning));
        warnings.len()
    }
}

/// Shows on the terminal what a study is doing, and tells it of Ctrl-C.
pub(crate) struct Follower<'a> {
    line: terminal::Progress,
    interrupt: &'a Interrupt,
    chains: Vec<(usize, usize)>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(terminal: &Terminal, interrupt: &'a Interrupt) -> Self {
        Self { line: terminal.progress("fitting the posterior"), interrupt, chains: Vec::new() }
    }

    /// What a study calls.
    pub(crate) fn heard(&mut self, progress: Progress<'_>) -> ControlFlow<()> {
        match progress {
            Progress::Fitting => self.line.set("fitting the posterior".to_owned()),
            Progress::Embedding => self.line.set("embedding the data".to_owned()),
            Progress::Choosing { info, run: (run, runs), method } => {
                if runs == 1 && info.points > 0 {
                    self.interrupt.worth_writing();
                }
                let prefix = if runs > 1 { format!("run {run} of {runs}, ") } else { String::new() };
                self.line.follow(&prefix, method, info);
            }
            Progress::Evaluating => self.line.set("evaluating on fresh draws".to_owned()),
            Progress::Round(step) => {
                let stage = format!("round {}, {} points: {}", step.round, count(step.k), step.stage.words());
                self.chains.clear();
                self.line.set(stage);
            }
            Progress::Asking { done, total } => {
                self.line.set(format!("evaluating all rows: {} of {} draws", count(done), count(total)));
            }
            Progress::Looking { done, total } => {
                self.line
                    .set(format!("evaluating all rows: {:.0} %", 100.0 * done as f64 / total.max(1) as f64));
            }
            Progress::Judging => self.line.set("judging the draws on all rows".to_owned()),
            Progress::Sampling(step) => {
                while self.chains.len() <= step.chain {
                    self.chains.push((0, 0));
                }
                self.chains[step.chain].0 = step.done;
                self.chains[step.chain].1 = step.divergences;
                let done: usize = self.chains.iter().map(|chain| chain.0).sum();
                let divergences: usize = self.chains.iter().map(|chain| chain.1).sum();
                let share = 100.0 * done as f64 / (step.total * step.chains) as f64;
                self.line.set(format!("sampling: {share:.0} %, {divergences} divergences"));
            }
        }
        if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Says what came out, and which files were written.
pub(crate) fn show(summary: &Summary, terminal: &Terminal, written: &[&Path]) {
    summary.lines().iter().for_each(|line| terminal.say(line));
    for path in written {
        say_written(path, terminal);
    }
}

/// Says which file was written.
pub(crate) fn say_written(path: &Path, terminal: &Terminal) {
    let name =
        if is_standard_output(path) { "standard output".to_owned() } else { path.display().to_string() };
    terminal.say(&format!("  written        {name}"));
}

/// Says what the user should not overlook.
pub(crate) fn warn(summary: &Summary, terminal: &Terminal) {
    summary.warnings().iter().for_each(|warning| terminal.warn(warning));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_has_a_pace_and_an_end() {
        let reading = Reading { look: 1, rows: 1_000_000, bytes: 250_000_000, total_bytes: 1_000_000_000 };
        let said = paced("a.csv", &reading, 2.0);
        assert!(said.starts_with("reading a.csv, scan 1: 1"), "{said}");
        assert!(said.contains("125.0 MB/s, 25 %, 6") && said.ends_with("left of this look"), "{said}");
        let in_memory = Reading { bytes: 0, total_bytes: 0, ..reading };
        assert!(paced("data", &in_memory, 2.0).ends_with("rows/s"));
    }
}
