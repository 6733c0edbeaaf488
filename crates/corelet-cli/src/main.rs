//! The `corelet` command: parse → load → build → evaluate → write.

mod args;
mod args_sampling;
mod build;
mod cells;
mod compare;
mod demo;
mod evaluate;
mod figure;
mod fit;
mod interrupt;
mod load;
mod memory;
mod output;
mod path;
mod percentile;
mod posterior;
mod report;
mod reproduce;
mod sample;
mod summary;
mod terminal;
mod trust;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use corelet::wording;
use sparse_nnls::simd::{self, INSTRUCTION_SETS, by_name};

use args::{Cli, Command};
use interrupt::Interrupt;
use terminal::Terminal;

/// What a command that did not fail ended as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Interrupted,
    /// The result is there, but it is not certified.
    NotCertified,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.check_usage();
    let terminal = Terminal::new(cli.quiet);
    match run(&cli, &terminal) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(interrupt::EXIT_CODE),
        Ok(Outcome::NotCertified) => ExitCode::from(trust::EXIT_CODE),
        Err(error) => {
            terminal.error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, terminal: &Terminal) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::install()?;
    check_instruction_set()?;
    if let Some(threads) = cli.threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().context("--threads")?;
    }
    match &cli.command {
        Command::Demo(args) => demo::run(args, cli.seed, terminal, &interrupt),
        Command::Build(args) => build::run(args, cli.seed, terminal, &interrupt),
        Command::Compare(args) => compare::run(args, cli.seed, terminal, &interrupt),
        Command::Evaluate(args) => evaluate::run(args, cli.seed, terminal),
        Command::Sample(args) => sample::run(args, cli.seed, terminal, &interrupt),
        Command::Fit(args) => fit::run(args, cli.seed, terminal, &interrupt),
        Command::Path(args) => path::run(args, cli.seed, terminal, &interrupt),
        Command::Reproduce(args) => reproduce::run(args, cli.seed, terminal, &interrupt),
    }
}

/// An instruction set that is named but not there would silently be another.
fn check_instruction_set() -> anyhow::Result<()> {
    let Some(name) = std::env::var_os(simd::VARIABLE).filter(|name| !name.is_empty()) else { return Ok(()) };
    if name.to_str().and_then(by_name).is_some() {
        return Ok(());
    }
    let known = INSTRUCTION_SETS.join(", ");
    let variable = simd::VARIABLE;
    anyhow::bail!("{variable} is {name:?}: it must be one of {known} that this processor has, or unset")
}
