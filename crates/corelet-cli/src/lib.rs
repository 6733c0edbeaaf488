//! The common part of the command-line programs: how they start and end, what they
//! print on the terminal, and the files, figures and pages that they write.
//!
//! The `corelet` command uses it, and so do the paper's experiments in `corelet-paper`. It is not a public interface:
//! use the library `corelet`.

pub mod allocator;
pub mod figure;
pub mod interrupt;
pub mod output;
pub mod page;
pub mod percentile;
pub mod process;
pub mod terminal;
