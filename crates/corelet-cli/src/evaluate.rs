//! `corelet evaluate`: judge a coreset file against the data it came from.

use std::path::{Path, PathBuf};

use corelet::data::Source;

use crate::Outcome;
use crate::args::EvaluateArgs;
use crate::interrupt::Interrupt;
use crate::load::{self, Follower, Points};
use crate::memory;
use crate::output;
use crate::terminal::Terminal;

pub(crate) fn run(
    args: &EvaluateArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let outputs: Vec<&Path> = args.json.iter().map(|path| path.as_path()).collect();
    let inputs: Vec<PathBuf> =
        args.data.files()?.into_iter().chain([args.coreset.clone()]).chain(args.test.clone()).collect();
    output::check(&outputs, &inputs)?;
    let specification = args.specification(seed);
    let (opened, points) = load::open_for(&args.data, &specification, &args.coreset, terminal)?;
    let Points { observations, weights, rest } = points;
    let rest = rest.as_ref();
    let mut follower = Follower::new(terminal, interrupt);
    let summary = opened
        .study
        .evaluate_with_rest(&observations, &weights, rest, (args.embedding, seed), &mut |progress| {
            follower.heard(progress)
        })
        .map_err(|error| load::located(error, &opened.study.frame().source))?
        .with_peak_memory(memory::peak_bytes());
    let test = args.test.as_ref().map(|path| Source::open(path, args.data.format)).transpose()?;
    let scored = test.as_ref().map(|test| {
        opened
            .study
            .test(&observations, &weights, rest, test, seed, &mut |progress| follower.heard(progress))
            .map_err(|error| load::located(error, test.name()))
    });
    let summary = summary.with_test(scored.transpose()?);
    drop(follower);
    opened.warn(terminal);
    if let Some(json) = &args.json {
        output::write_text(json, &summary.to_json()?)?;
    }
    load::show(&summary, terminal, &outputs);
    load::warn(&summary, terminal);
    Ok(Outcome::Done)
}
