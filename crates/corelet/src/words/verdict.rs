//! The verdict in words: what it says, why, and what to do. It is the approximation that is judged, not the model.

use super::numbers::{count, number};
use crate::trust::{Grade, Reason, Verdict};

/// The first line of the output: the grade and what it means.
pub fn headline(verdict: &Verdict, points: usize, rows: usize) -> String {
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

/// The figures behind the headline, and for C why and what to do, a line each.
pub fn lines(verdict: &Verdict) -> Vec<String> {
    let Verdict { variance, variance_upper, kl_symmetrised, ess, draws, .. } = verdict;
    let mut lines = vec![
        format!(
            "  verdict        V = {} nats² (95 % below {}), symmetrised KL {} nats, log evidence ratio {}",
            number(*variance),
            number(*variance_upper),
            number(*kl_symmetrised),
            number(verdict.log_evidence_ratio)
        ),
        format!(
            "                 {} of {} draws effective after weighting, Pareto k {} (limit {})",
            number(*ess),
            count(*draws),
            number(verdict.pareto_k),
            number(verdict.pareto_threshold)
        ),
    ];
    if verdict.grade == Grade::C {
        lines.extend(verdict.reasons.iter().map(|reason| format!("  why            {}", why(*reason))));
        lines.push(format!("  what to do     {}", advice(verdict)));
    }
    lines
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
        "a longer warm-up and more draws until the chains mix; then look again"
    } else if verdict.variance < 1.0 {
        "somewhat more points, or more draws"
    } else {
        "more points, more rounds, or a largest divergence of 0.01 nats to have their number chosen"
    }
}
