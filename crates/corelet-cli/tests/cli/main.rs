//! The `corelet` command as a user runs it.

mod bad_files;
mod commands;
mod common;
mod interruption;
mod real_data;
