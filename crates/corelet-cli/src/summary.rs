//! The summary of a run on the terminal.

use std::path::Path;

pub(crate) use corelet::summary::{Judged, Seconds, Subject, Summary};

use crate::terminal::Terminal;

/// Says what came out, and which files were written.
pub(crate) fn show(summary: &Summary, terminal: &Terminal, written: &[&Path]) {
    summary.lines().iter().for_each(|line| terminal.say(line));
    for path in written {
        terminal.say(&format!("  written        {}", path.display()));
    }
}

/// Says what the user should not overlook.
pub(crate) fn warn(summary: &Summary, terminal: &Terminal) {
    summary.warnings().iter().for_each(|warning| terminal.warn(warning));
}
