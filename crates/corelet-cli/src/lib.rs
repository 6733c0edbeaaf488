//! What every program of ours that a person runs has in common, whatever it computes: how it starts and ends, what it
//! says on the terminal, and the files, figures and pages that it writes.
//!
//! The `corelet` command stands on it, and so do the paper's experiments in `corelet-paper`. It is no interface for others:
//! use the library `corelet`.

pub mod allocator;
pub mod figure;
pub mod interrupt;
pub mod output;
pub mod page;
pub mod percentile;
pub mod process;
pub mod terminal;
