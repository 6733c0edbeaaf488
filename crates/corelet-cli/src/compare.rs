//! `corelet compare`: several methods at several sizes and seeds.

use std::path::Path;

use anyhow::Context;
use corelet::study::Comparison;
use sparse_nnls::Limits;

use crate::Outcome;
use crate::args::CompareArgs;
use crate::cells::{to_csv, to_table};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::output;
use crate::terminal::Terminal;
use crate::words::count;

pub(crate) fn run(
    args: &CompareArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let outputs: Vec<&Path> = args.output.iter().map(|path| path.as_path()).collect();
    output::check(&outputs, &args.data.files()?)?;
    let comparison = Comparison {
        methods: args.methods(),
        sizes: args.k.clone(),
        seeds: seed..seed.saturating_add(args.seeds),
        embedding: args.embed.embedding,
        limits: Limits::default(),
    };
    let opened = load::open(&args.data, &args.specification(seed), terminal)?;
    let study = &opened.study;
    let mut follower = Follower::new(terminal, interrupt);
    let cells = study
        .compare(&comparison, &mut |_| interrupt.worth_writing(), &mut |progress| follower.heard(progress))
        .with_context(|| study.frame().source.clone())?;
    drop(follower);
    opened.warn(terminal);

    interrupt.writing();
    if let Some(path) = &args.output {
        output::write_text(path, &to_csv(&cells)?)?;
    }
    let embedding = cells.first().map_or("-", |cell| cell.coreset.fit.embedding.name.as_str());
    let (n, coefficients) = (count(study.all_rows()), study.frame().names.len());
    terminal.say(&format!(
        "{n} rows, {coefficients} coefficients, {embedding}; medians over {} seed{}, divergences in nats\n\n{}",
        args.seeds,
        if args.seeds == 1 { "" } else { "s" },
        to_table(&cells)
    ));
    if let Some(path) = &args.output {
        terminal.say(&format!("\nevery run is in {}", path.display()));
    }
    if interrupt.asked() {
        terminal.warn(&format!("interrupted: the table has the {} runs that were finished", cells.len()));
        return Ok(Outcome::Interrupted);
    }
    Ok(Outcome::Done)
}
