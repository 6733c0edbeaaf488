//! The verdict in words: what it says, why, and what to do. It is the approximation that is judged, not the model.

use corelet::sample::Diagnostics;
use corelet::verdict::{Grade, Reason, Verdict};

use crate::terminal::Terminal;
use crate::wording::{count, number};

/// What the process ends with where a coreset is not certified.
pub(crate) const EXIT_CODE: u8 = 3;

/// The first line of the output: the grade and what it means.
pub(crate) fn headline(verdict: &Verdict, points: usize, rows: usize) -> String {
    let (points, rows) = (count(points), count(rows));
    match verdict.grade {
        Grade::A => format!("A - trusted: the posterior of these {points} rows is that of all {rows}"),
        Grade::B => format!(
            "B - trusted after reweighting: the posterior of these {points} rows is near that of all {rows}, and the \
             draws carry weights that close the gap"
        ),
        Grade::C => format!(
            "C - not certified: the posterior of these {points} rows could not be shown to be that of all {rows}; the \
             coreset is at fault, not the model"
        ),
    }
}

/// The figures behind the headline, and for C what to do.
pub(crate) fn show(verdict: &Verdict, terminal: &Terminal) {
    let Verdict { variance, variance_upper, kl_symmetrised, ess, draws, .. } = verdict;
    terminal.say(&format!(
        "  verdict        V = {} nats² (95 % below {}), symmetrised KL {} nats, log evidence ratio {}",
        number(*variance),
        number(*variance_upper),
        number(*kl_symmetrised),
        number(verdict.log_evidence_ratio)
    ));
    terminal.say(&format!(
        "                 {} of {} draws effective after weighting, Pareto k {} (limit {})",
        number(*ess),
        count(*draws),
        number(verdict.pareto_k),
        number(verdict.pareto_threshold)
    ));
    if verdict.grade == Grade::C {
        verdict.reasons.iter().map(|reason| why(*reason)).for_each(|line| {
            terminal.say(&format!("  why            {line}"));
        });
        terminal.say(&format!("  what to do     {}", advice(verdict)));
    }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::NotMixed => "the chains on the coreset have not mixed, so their draws prove nothing",
        Reason::GaussianDraws => "draws of the Gaussian fit do not represent the coreset's posterior",
        Reason::NotFinite => {
            "the log-likelihood of all rows is not finite at some draws of the coreset's posterior"
        }
        Reason::Variance => "the log-likelihood of the coreset strays too far from that of all rows (V)",
        Reason::Share => "weights that correct for it would keep less than 0.9 of the draws",
        Reason::ParetoK => "a few draws would carry most of the weight (Pareto k above its limit)",
        Reason::EffectiveDraws => "fewer than 400 effective draws would remain",
    }
}

fn advice(verdict: &Verdict) -> &'static str {
    if verdict.reasons.contains(&Reason::NotMixed) {
        "more --warmup and --draws until the chains mix; then look again"
    } else if verdict.variance < 1.0 {
        "a somewhat larger -k, or more --draws"
    } else {
        "a larger -k, more --rounds, or --max-kl 0.01 to have k chosen"
    }
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
