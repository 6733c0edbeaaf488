//! How a program starts and ends: the flags of every command, threads, instruction set, Ctrl-C, and the exit code.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use sparse_nnls::simd;

use crate::allocator;
use crate::interrupt::{self, Interrupt};
use crate::terminal::Terminal;

/// What the process ends with where a coreset is not certified.
const NOT_CERTIFIED: u8 = 3;

/// The flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Every command")]
pub struct ProcessArgs {
    /// Random seed; the same seed gives the same coreset for any number of threads
    #[arg(long, global = true, aliases = ["random-seed", "random-state"], default_value_t = 0)]
    pub seed: u64,
    /// Threads to use [default: all cores; at most four a core]
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Print nothing but errors
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// What a command that did not fail ended as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All that was asked for is there.
    Done,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The result is there, but it is not certified.
    NotCertified,
}

impl ProcessArgs {
    /// Does the work with Ctrl-C taken over and the threads set up, and says why where it fails.
    pub fn run(&self, work: impl FnOnce(&Terminal, &Interrupt) -> anyhow::Result<Outcome>) -> ExitCode {
        spare_addresses();
        let terminal = Terminal::new(self.quiet);
        keep_caught_panics_quiet();
        match self.prepare().and_then(|interrupt| finish(&terminal, &interrupt, work)) {
            Ok(Outcome::Done) => ExitCode::SUCCESS,
            Ok(Outcome::Interrupted) => ExitCode::from(interrupt::EXIT_CODE),
            Ok(Outcome::NotCertified) => ExitCode::from(NOT_CERTIFIED),
            Err(error) => {
                terminal.error(&error);
                ExitCode::FAILURE
            }
        }
    }

    /// All threads, before there is work: rayon would start them at the first loop, and panic where it cannot.
    fn start_threads(&self) -> anyhow::Result<()> {
        let pool = rayon::ThreadPoolBuilder::new();
        let pool = match self.threads {
            Some(threads) => pool.num_threads(useful_threads(threads as usize)),
            None => pool,
        };
        pool.build_global().map_err(|error| {
            let advice = "use --threads 1, or raise the limits of this process (ulimit -u, ulimit -v)";
            anyhow::anyhow!("threads cannot be started ({error}): {advice}")
        })
    }

    fn prepare(&self) -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::install()?;
        choose_instruction_set()?;
        self.start_threads()?;
        Ok(interrupt)
    }
}

/// Where the address space is limited, begins again with one pool of memory for all threads: the allocator of glibc would reserve 64 MB or
/// more of addresses for each, and end the process for want of a few kilobytes.
#[cfg(target_os = "linux")]
fn spare_addresses() {
    use std::os::unix::process::CommandExt;
    const POOLS: &str = "MALLOC_ARENA_MAX";
    if corelet::data::address_space().is_none() {
        return;
    }
    allocator::addresses_are_limited();
    if std::env::var_os(POOLS).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    // It comes back where it fails, and then goes on as it is.
    let _ = std::process::Command::new(program).arg0(name).args(arguments).env(POOLS, "1").exec();
}

#[cfg(not(target_os = "linux"))]
fn spare_addresses() {}

/// Threads beyond a few a core only wait for each other.
pub fn useful_threads(asked: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked.min((4 * cores).max(16))
}

/// Does the work, and sees to what was said and asked meanwhile.
fn finish(
    terminal: &Terminal,
    interrupt: &Interrupt,
    work: impl FnOnce(&Terminal, &Interrupt) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let outcome = work(terminal, interrupt)?;
    terminal.check_results()?;
    // Whoever asks while files are written gets them whole, and is told that the request was heard.
    Ok(if interrupt.asked() { Outcome::Interrupted } else { outcome })
}

/// A panic prints before it can be caught; one that a damaged file causes becomes an error of its own.
fn keep_caught_panics_quiet() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !corelet::data::panic_is_caught() {
            print(info);
        }
    }));
}

/// Kernels run with the instruction set that `CORELET_SIMD` names; one that is not there is an error, not another.
fn choose_instruction_set() -> anyhow::Result<()> {
    const VARIABLE: &str = "CORELET_SIMD";
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(()) };
    simd::choose(&name.to_string_lossy()).context(VARIABLE)
}
