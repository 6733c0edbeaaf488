//! `corelet predict`: what the posterior of a coreset file says of new rows.

use std::ops::Range;

use anyhow::bail;
use corelet::data::{Besides, Extra, Source, ensure_writable, write_row_blocks};
use corelet::posterior::{Diagnostics, SampleError};
use corelet::study::{KeptCoreset, KeptMixed, PredictedEffects, Prediction, StudyError, predict_from};

use crate::Outcome;
use crate::args_sampling::PredictArgs;
use crate::interrupt::Interrupt;
use crate::load::{Follower, located, say_written};
use crate::output;
use crate::terminal::Terminal;
use crate::words::{count, plural};

/// Rows that are predicted and written at a time. A text file is read once for each.
const BLOCK: usize = 1 << 18;

pub(crate) fn run(
    args: &PredictArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let settings = args.sampling();
    settings.check()?;
    ensure_writable(&args.output)?;
    let inputs: Vec<_> = [&args.coreset, &args.new].into_iter().chain(&args.data).cloned().collect();
    output::check(&[&args.output], &inputs)?;
    if let Some(coreset) = KeptMixed::read(&args.coreset)? {
        return of_groups(args, coreset, seed, terminal, interrupt);
    }
    if let Some(flag) = args.for_groups() {
        bail!(
            "{}: {flag} is for a coreset of whole groups, as fit --random writes it with --coreset",
            args.coreset.display()
        );
    }
    let coreset = KeptCoreset::read(&args.coreset)?;
    let source = Source::open(&args.new, args.format)?;
    let (rows, notes) = coreset.encode_noting(&source, Besides::Exposure, args.unseen())?;
    notes.iter().for_each(|note| terminal.warn(note));
    let mut follower = Follower::new(terminal, interrupt);
    let chains = match coreset.sample(&settings, seed, &mut |progress| follower.heard(progress)) {
        Err(StudyError::Sample(SampleError::Stopped)) => return Ok(Outcome::Interrupted),
        chains => chains.map_err(|error| located(error, &args.coreset.display().to_string()))?,
    };
    drop(follower);
    Diagnostics::new(&chains).warnings().iter().for_each(|warning| terminal.warn(warning));
    let (asked, theta, classes) = (args.prediction(seed), chains.theta(), coreset.encoding.classes());
    let predicted = |some: Range<usize>| {
        let ids: Vec<usize> = some.clone().collect();
        predict_from(&coreset.model, &rows.select(&ids), some.start, &theta, &asked)
    };
    let written = Written { args, source: &source, rows: rows.len(), classes: &classes };
    written.write(&predicted, terminal, interrupt)
}

/// The same of a mixed model.
fn of_groups(
    args: &PredictArgs,
    mut coreset: KeptMixed,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let source = Source::open(&args.new, args.format)?;
    let asked = args.mixed_prediction(seed);
    let own = asked.effects == PredictedEffects::Own;
    let (rows, groups, notes) = coreset.encode_noting(&source, own, args.unseen())?;
    notes.iter().for_each(|note| terminal.warn(note));
    let known = match args.data.as_ref().filter(|_| own) {
        None => None,
        Some(path) => {
            let progress = terminal.progress(format!("reading {}", path.display()));
            let data = Source::open(path, args.format)?;
            let known = coreset.known(&data).map_err(|error| located(error, data.name()))?;
            drop(progress);
            Some(known)
        }
    };
    let mut follower = Follower::new(terminal, interrupt);
    let sampled = coreset.sample(&args.sampling(), seed, &mut |progress| follower.heard(progress));
    let (sample, chains) = match sampled {
        Err(StudyError::Sample(SampleError::Stopped)) => return Ok(Outcome::Interrupted),
        sampled => sampled.map_err(|error| located(error, &args.coreset.display().to_string()))?,
    };
    drop(follower);
    if let Some(chains) = &chains {
        Diagnostics::new(chains).warnings().iter().for_each(|warning| terminal.warn(warning));
    }
    let posterior = coreset.posterior(&sample, known.as_ref());
    let codes: Vec<Vec<u32>> = groups.iter().map(|named| named.groups.codes()).collect();
    let predicted = |some: Range<usize>| {
        let ids: Vec<usize> = some.clone().collect();
        let part = groups.iter().zip(&codes).map(|(named, codes)| named.of_some(&codes[some.clone()]));
        let part: Vec<_> = part.collect();
        posterior.predict(&rows.select(&ids), some.start, (coreset.encoding.factors(), &part), &asked)
    };
    let classes = coreset.encoding.classes();
    let written = Written { args, source: &source, rows: rows.len(), classes: &classes };
    written.write(&predicted, terminal, interrupt)
}

/// Rows and their predictions, block by block.
struct Written<'a> {
    args: &'a PredictArgs,
    source: &'a Source<'a>,
    rows: usize,
    classes: &'a [String],
}

impl Written<'_> {
    fn write(
        &self,
        predicted: &dyn Fn(Range<usize>) -> Result<Prediction, StudyError>,
        terminal: &Terminal,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let Self { args, source, rows, classes } = *self;
        let quantiles = args.prediction(0).quantiles;
        interrupt.writing();
        let progress = terminal.progress("predicting".to_owned());
        let mut first = 0;
        let written = write_row_blocks(&args.output, &mut || -> anyhow::Result<_> {
            if interrupt.asked() {
                return Err(SampleError::Stopped.into());
            }
            let some = first..rows.min(first + BLOCK);
            if some.is_empty() && first > 0 {
                return Ok(None);
            }
            progress.set(format!("predicting: {} of {} rows", count(first), count(rows)));
            let made = predicted(some.clone()).map_err(|error| located(error, source.name()))?;
            first += some.len().max(1);
            let ids: Vec<usize> = some.collect();
            Ok(Some((source.cells(&ids)?, columns(&made, classes, &quantiles))))
        });
        drop(progress);
        match written {
            Err(_) if interrupt.asked() => return Ok(Outcome::Interrupted),
            written => written?,
        }
        terminal.say(&format!("{} predicted by {}", plural(rows, "row"), args.coreset.display()));
        say_written(&args.output, terminal);
        Ok(Outcome::Done)
    }
}

/// `mean`, `sd`, `q5`, …; of several classes `CLASS:mean`, ….
fn columns(predicted: &Prediction, classes: &[String], quantiles: &[f64]) -> Vec<(String, Extra)> {
    let every = |values: &[f64], at: usize, step: usize| {
        Extra::Float(values.iter().skip(at).step_by(step).copied().collect())
    };
    let width = predicted.columns;
    let prefixes = if width == 1 {
        vec![String::new()]
    } else {
        classes.iter().map(|class| format!("{class}:")).collect()
    };
    let mut columns = Vec::new();
    for (place, prefix) in prefixes.iter().enumerate() {
        columns.push((format!("{prefix}mean"), every(&predicted.mean, place, width)));
        columns.push((format!("{prefix}sd"), every(&predicted.sd, place, width)));
        for (i, q) in quantiles.iter().enumerate() {
            let (at, step) = (place * quantiles.len() + i, width * quantiles.len());
            // 0.07 of a hundred is 7.000000000000001.
            let percent = (1e6 * q).round() / 1e4;
            columns.push((format!("{prefix}q{percent}"), every(&predicted.quantiles, at, step)));
        }
    }
    columns
}
