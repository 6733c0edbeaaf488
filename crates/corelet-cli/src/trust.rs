//! The verdict on the terminal.

use corelet::sample::Diagnostics;
pub(crate) use corelet::trust::headline;
use corelet::verdict::Verdict;

use crate::terminal::Terminal;
use crate::wording::{count, number};

/// The figures behind the headline, and for C what to do.
pub(crate) fn show(verdict: &Verdict, terminal: &Terminal) {
    corelet::trust::lines(verdict).iter().for_each(|line| terminal.say(line));
}

/// What the chains say of themselves, in words.
pub(crate) fn show_chains(diagnostics: &Diagnostics, gradients: u64, terminal: &Terminal) {
    let Diagnostics { chains, draws, divergences, .. } = diagnostics;
    terminal.say(&format!(
        "  sampling       {chains} chains, {} draws, {divergences} divergences, R-hat at most {:.3}, ESS at least {} \
         (bulk) and {} (tail), {} gradients",
        count(*draws),
        diagnostics.r_hat,
        number(diagnostics.ess_bulk),
        number(diagnostics.ess_tail),
        count(gradients as usize)
    ));
    diagnostics.warnings().iter().for_each(|line| terminal.warn(line));
}
