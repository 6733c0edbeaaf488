//! The `corelet` command: parse → load → build → evaluate → write.

mod args;
mod args_after;
mod args_data;
mod args_sampling;
mod build;
mod cells;
mod certify;
mod compare;
mod demo;
mod evaluate;
mod fit;
mod load;
mod memory;
mod mixed;
mod path;
mod posterior;
mod predict;
mod report;
mod review;
mod sample;
mod update;

use std::process::ExitCode;

use clap::Parser;
use corelet::words;
use corelet_cli::allocator::Allocator;
use corelet_cli::process::Outcome;
use corelet_cli::{figure, interrupt, output, page, percentile, terminal};

use args::{Cli, Command};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.check_usage();
    let seed = cli.process.seed;
    cli.process.run(|terminal, interrupt| match &cli.command {
        Command::Demo(args) => demo::run(args, seed, terminal, interrupt),
        Command::Build(args) => build::run(args, seed, terminal, interrupt),
        Command::Compare(args) => compare::run(args, seed, terminal, interrupt),
        Command::Evaluate(args) => evaluate::run(args, seed, terminal, interrupt),
        Command::Sample(args) => sample::run(args, seed, terminal, interrupt),
        Command::Fit(args) => fit::run(args, seed, terminal, interrupt),
        Command::Path(args) => path::run(args, seed, terminal, interrupt),
        Command::Review(args) => review::run(args, seed, terminal, interrupt),
        Command::Certify(args) => certify::run(args, seed, terminal, interrupt),
        Command::Predict(args) => predict::run(args, seed, terminal, interrupt),
        Command::Update(args) => update::run(args, seed, terminal, interrupt),
    })
}
