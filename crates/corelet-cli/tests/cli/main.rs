//! The `corelet` command as a user runs it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it skips"
)]

mod bad_files;
mod commands;
mod common;
mod conventions;
mod groups;
mod interruption;
mod kills;
mod memory;
mod mixed;
mod outputs;
mod place;
mod predictions;
mod priors;
mod real_data;
mod reports;
mod rest;
mod sampling;
mod scale;
mod updates;
mod weights;
