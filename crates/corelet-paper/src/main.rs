//! `corelet-paper`: the experiments of the paper, from its data to a report with its claims checked.

mod args;
mod cell;
mod claims;
mod curves;
mod document;
mod measure;
mod pictures;
mod problem;
mod radial;
mod run;
mod series;
mod sets;
mod settings;
mod sparse_vi;
mod store;
mod study;
mod summary;
mod theory;
mod work;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.process.run(|terminal, interrupt| run::run(&cli.paper, cli.process.seed, terminal, interrupt))
}
