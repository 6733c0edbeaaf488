//! `corelet predict`: what the posterior of a coreset file says of new rows.

use corelet::data::{Besides, Extra, Source, ensure_writable, write_row_blocks};
use corelet::posterior::{Diagnostics, SampleError};
use corelet::study::{KeptCoreset, Prediction, StudyError, predict_from};

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
    output::check(&[&args.output], &[args.coreset.clone(), args.new.clone()])?;
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

    interrupt.writing();
    let progress = terminal.progress("predicting".to_owned());
    let mut first = 0;
    let written = write_row_blocks(&args.output, &mut || -> anyhow::Result<_> {
        if interrupt.asked() {
            return Err(SampleError::Stopped.into());
        }
        let ids: Vec<usize> = (first..rows.len().min(first + BLOCK)).collect();
        if ids.is_empty() && first > 0 {
            return Ok(None);
        }
        progress.set(format!("predicting: {} of {} rows", count(first), count(rows.len())));
        let predicted = predict_from(&coreset.model, &rows.select(&ids), first, &theta, &asked)
            .map_err(|error| located(error, source.name()))?;
        first += ids.len().max(1);
        Ok(Some((source.cells(&ids)?, columns(&predicted, &classes, &asked.quantiles))))
    });
    drop(progress);
    match written {
        Err(_) if interrupt.asked() => return Ok(Outcome::Interrupted),
        written => written?,
    }
    terminal.say(&format!("{} predicted by {}", plural(rows.len(), "row"), args.coreset.display()));
    say_written(&args.output, terminal);
    Ok(Outcome::Done)
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
