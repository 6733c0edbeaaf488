//! The verdict in words: what it says, why, and what to do. It is the approximation that is judged, not the model.

use super::numbers::{count, number};
use crate::trust::{Divergence, Grade, Reason, Reweighting, Verdict};

/// V of a coreset that differs from all rows by rounding alone, in nats²: an error of 10⁻⁷ nats, about what sums are rounded to.
const ROUNDING: f64 = 1e-14;

/// The first line of the output: the grade and what it means.
pub fn headline(verdict: &Verdict, points: usize, rows: usize) -> String {
    let (points, rows) = (count(points), count(rows));
    let strays = |reason: &Reason| matches!(reason, Reason::Variance | Reason::Share);
    match verdict.grade {
        Grade::A if verdict.divergence.variance_upper < ROUNDING => {
            format!("A - exact: the posterior of these {points} rows is that of all {rows}, to rounding")
        }
        Grade::A => format!("A - trusted: the posterior of these {points} rows is that of all {rows}"),
        Grade::B if verdict.reasons.iter().any(strays) => format!(
            "B - trusted after reweighting: the posterior of these {points} rows is near that of all {rows}, and the \
             draws carry weights that close the gap"
        ),
        Grade::B => format!(
            "B - trusted with a reservation: by these draws the posterior of these {points} rows is that of all {rows}, \
             but they do not prove it"
        ),
        Grade::C => format!(
            "C - not certified: the posterior of these {points} rows could not be shown to be that of all {rows}; {}",
            fault(&verdict.reasons)
        ),
    }
}

/// Whose fault a C is.
fn fault(reasons: &[Reason]) -> &'static str {
    let found = |those: &[Reason]| reasons.iter().any(|reason| those.contains(reason));
    if found(&[Reason::PilotNotMixed]) {
        "the chains did not mix on plain rows either, so the model or its sampler is at fault, not the coreset"
    } else if found(&[Reason::SecondMode]) {
        "the posterior has several modes, so that no chain can speak for all of it"
    } else if found(&[Reason::NotMixed, Reason::Diverged, Reason::FewDraws, Reason::Narrow]) {
        "the draws are at fault: they are not yet those of its posterior"
    } else {
        "the coreset is at fault, not the model"
    }
}

/// A mode besides the best one: where the two are in the parameter that differs most, and the logarithm of the ratio of masses.
pub fn another_mode(name: &str, best: f64, there: f64, log_ratio: f64) -> String {
    let share = match log_ratio {
        log_ratio if log_ratio > -16.0 => number(log_ratio.exp()),
        log_ratio => format!("e^{log_ratio:.0}"),
    };
    format!(
        "the posterior has another mode, where {name} is {} and not {}, with {share} times the mass of the best one",
        number(there),
        number(best)
    )
}

/// The figures behind the headline, and for B and C why and for C what to do, a line each.
pub fn lines(verdict: &Verdict) -> Vec<String> {
    let Divergence { variance, variance_upper, kl_symmetrised, log_evidence_ratio } = verdict.divergence;
    let Reweighting { ess, ess_share, pareto_k, pareto_threshold, .. } = verdict.reweighting;
    let mut lines = vec![format!(
        "  verdict        V = {} nats² (95 % below {}), symmetrised KL {} nats; weights e^Δ keep {} of the draws",
        number(variance),
        number(variance_upper),
        number(kl_symmetrised),
        number(ess_share)
    )];
    // Where no weights are needed their tail says nothing.
    if verdict.grade != Grade::A {
        lines.push(format!(
            "                 {} of {} draws effective after weighting, Pareto k {} (limit {})",
            number(ess),
            count(verdict.draws),
            number(pareto_k),
            number(pareto_threshold)
        ));
    }
    lines.push(format!(
        "  log evidence   of all rows = that of the weighted rows {} {}",
        if log_evidence_ratio < 0.0 { "−" } else { "+" },
        number(log_evidence_ratio.abs())
    ));
    lines.extend(verdict.reasons.iter().map(|reason| format!("  why            {}", why(*reason))));
    if verdict.grade == Grade::C {
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
        Reason::Diverged => {
            "more than one in a hundred draws diverged, so part of the posterior may be missing"
        }
        Reason::PilotNotMixed => {
            "the chains on plain rows of weight 1 stayed apart: several modes, or a bad geometry"
        }
        Reason::FewDraws => "the chains are worth fewer than 100 draws of some parameter or log-likelihood",
        Reason::Narrow => {
            "over these draws the log-likelihood hardly varies: they sit near one point, or the prior says it all"
        }
        Reason::PriorDominates => {
            "over these draws the log-likelihood varies little for so many parameters: the prior dominates, or they are \
             too narrow"
        }
        Reason::TightPrior => "the prior holds coefficients away from where the data want them",
        Reason::OtherData => "the coreset was built on other observations than these",
        Reason::Wide => {
            "over these draws the log-likelihood varies more than a posterior of so many parameters allows"
        }
        Reason::Disagrees => {
            "V is far below the residual that was held out in the build, so these draws cover less than those"
        }
        Reason::SecondMode => {
            "the posterior has several modes, named above, and the chains do not pass between them: nobody knows how much \
             mass each has"
        }
        Reason::OwnMode => "the posterior of these few weighted rows has a mode that all rows have not",
        Reason::NoChains => "the draws came without their chains, so nobody can tell whether these had mixed",
    }
}

fn advice(verdict: &Verdict) -> &'static str {
    let found = |those: &[Reason]| verdict.reasons.iter().any(|reason| those.contains(reason));
    if found(&[Reason::PilotNotMixed]) {
        "look at the model: an order for what can change places, another parametrisation, stronger priors"
    } else if found(&[Reason::SecondMode]) {
        "look at the data and the model: rows of two kinds, outliers among the features, tails that are too heavy; or more \
         draws where chains pass between the modes"
    } else if found(&[Reason::Diverged]) {
        "a higher target acceptance rate, or another parametrisation of the model"
    } else if found(&[Reason::Narrow]) {
        "draws of the weighted fit itself, from several chains"
    } else if found(&[Reason::NotMixed, Reason::FewDraws]) {
        "more warm-up and draws until the chains mix; then look again"
    } else if verdict.divergence.variance < 1.0 {
        "somewhat more points, or more draws"
    } else {
        "more points, more rounds, or a limit on the divergence to have their number chosen"
    }
}
