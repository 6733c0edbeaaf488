//! The verdict in words: what it says, why, and what to do. It is the approximation that is judged, not the model.

use super::numbers::{count, number, percent};
use crate::trust::{Divergence, Fidelity, Grade, Mixing, Reason, Reweighting, Verdict};

/// V of a coreset that differs from all rows by rounding alone, in nats²: an error of 10⁻⁷ nats, about what sums are rounded to.
const ROUNDING: f64 = 1e-14;

/// The first line of the output: the grade and what it means.
pub fn headline(verdict: &Verdict, points: usize, rows: usize) -> String {
    let whose = match points {
        0 => "this Gaussian".to_owned(),
        1 => "this row".to_owned(),
        _ => format!("these {} rows", count(points)),
    };
    let rows = count(rows);
    let strays = |reason: &Reason| matches!(reason, Reason::Variance | Reason::Share);
    match verdict.grade {
        Grade::A if verdict.divergence.variance_upper < ROUNDING => format!(
            "A - exact: the posterior of {whose} is that of all {rows}, to rounding (the model itself is not judged)"
        ),
        Grade::A => {
            format!(
                "A - trusted: the posterior of {whose} is that of all {rows} (the model itself is not judged)"
            )
        }
        Grade::B if verdict.reasons.iter().any(strays) => format!(
            "B - trusted after reweighting: the posterior of {whose} is near that of all {rows}, and importance weights on \
             the draws close the gap"
        ),
        Grade::B => format!(
            "B - trusted with a reservation: by these draws the posterior of {whose} is that of all {rows}, but they do not \
             prove it"
        ),
        Grade::C => format!(
            "C - not certified: the posterior of {whose} could not be shown to be that of all {rows}; {}",
            fault(&verdict.reasons)
        ),
    }
}

/// Whose fault a C is.
fn fault(reasons: &[Reason]) -> &'static str {
    let found = |those: &[Reason]| reasons.iter().any(|reason| those.contains(reason));
    let of_draws = [
        Reason::NotMixed,
        Reason::Diverged,
        Reason::FewDraws,
        Reason::Narrow,
        Reason::Wide,
        Reason::Shifted,
        Reason::Misscaled,
    ];
    if found(&[Reason::PilotNotMixed]) {
        "the chains did not mix on unweighted rows either, so the model or its sampler is at fault, not the coreset"
    } else if found(&[Reason::SecondMode]) {
        "the posterior has several modes, so that no chain can speak for all of it"
    } else if found(&of_draws) {
        "the draws are at fault: they are not those of its posterior"
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

/// The figures behind the headline, and what kept it from an A with one thing to do for each, a line each.
pub fn lines(verdict: &Verdict) -> Vec<String> {
    let Divergence { variance, variance_upper, kl_symmetrised, log_evidence_ratio } = verdict.divergence;
    let Reweighting { ess, ess_share, pareto_k, pareto_threshold, .. } = verdict.reweighting;
    let mut lines = vec![format!(
        "  verdict        V = {} nats² (95 % below {}), symmetrised KL {} nats; importance-sampling efficiency {}",
        number(variance),
        number(variance_upper),
        number(kl_symmetrised),
        percent(ess_share)
    )];
    lines.extend(verdict.mixing.as_ref().map(chains_line));
    lines.extend(verdict.fidelity.as_ref().map(score_line));
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
    if verdict.grade != Grade::A {
        let mut advice: Vec<&str> = verdict.reasons.iter().filter_map(|reason| remedy(*reason)).collect();
        advice.dedup();
        lines.extend(advice.iter().take(2).map(|advice| format!("  what to do     {advice}")));
    }
    lines
}

fn chains_line(mixing: &Mixing) -> String {
    format!(
        "  chains         R-hat at most {:.3}, effective sample size at least {} (bulk) and {} (tail)",
        mixing.r_hat,
        number(mixing.ess_bulk.floor()),
        number(mixing.ess_tail.floor())
    )
}

fn score_line(fidelity: &Fidelity) -> String {
    let Fidelity { shift, scale: (low, high) } = fidelity;
    if *shift == 0.0 && *low >= 1.0 && *high <= 1.0 {
        return "  score test     passed: the gradient agrees with the draws' means and variances in every direction".to_owned();
    }
    format!(
        "  score test     beyond sampling error, means off by up to {} sd, variances by factors of {} to {}",
        number(*shift),
        number(low.min(1.0)),
        number(high.max(1.0))
    )
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::NotMixed => "the chains on the coreset have not mixed, so their draws prove nothing",
        Reason::GaussianDraws => "draws of the Gaussian fit do not represent the coreset's posterior",
        Reason::NotFinite => {
            "a log-likelihood or its gradient is not finite at some draws of the coreset's posterior"
        }
        Reason::Variance => "the log-likelihood of the coreset strays too far from that of all rows (V)",
        Reason::Share => "importance weights that correct for it would keep less than 90 % of the draws",
        Reason::ParetoK => "a few draws would carry most of the importance weight (Pareto k above its limit)",
        Reason::EffectiveDraws => "fewer than 400 effective draws would remain after reweighting",
        Reason::Diverged => {
            "more than one in a hundred draws diverged, so part of the posterior may be missing"
        }
        Reason::PilotNotMixed => {
            "the chains on unweighted rows stayed apart: several modes, or a difficult geometry"
        }
        Reason::FewDraws => "the effective sample size of some parameter or log-likelihood is below 100",
        Reason::Shifted => {
            "the mean gradient of the log density over these draws is not zero: in some direction their mean is off"
        }
        Reason::Misscaled => {
            "in some direction these draws are wider or narrower than the curvature of the log density says"
        }
        Reason::OnTrust => {
            "the sampler was taken on trust: without a gradient there is too little to test its draws by"
        }
        Reason::Narrow => {
            "over these draws the log-likelihood hardly varies: they sit near one point, or the prior says it all"
        }
        Reason::PriorDominates => {
            "in some direction the log-likelihood varies little over these draws: the prior matters there, or the draws are too \
             narrow, and without a gradient the two cannot be told apart"
        }
        Reason::TightPrior => "the prior holds coefficients away from where the data want them",
        Reason::OtherData => "the coreset was built on other observations than these",
        Reason::Wide => {
            "in some direction the log-likelihood varies more over these draws than under any prior"
        }
        Reason::Disagrees => {
            "V is far below the residual that was held out in the build, so these draws cover less than those"
        }
        Reason::NoChains => "the draws came without their chains, so that mixing could not be tested",
        Reason::SecondMode => {
            "the posterior has several modes, named above, and the chains do not pass between them: how much mass each has is \
             not known"
        }
        Reason::OwnMode => {
            "the posterior of these few weighted rows has a mode that the posterior of all rows has not"
        }
        Reason::Quadrature => {
            "the integrals over the random effects are not exact enough: they may move the posterior by more than a tenth of its sd"
        }
    }
}

/// One thing to do about it.
fn remedy(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::Variance | Reason::Share | Reason::ParetoK => "more points (a larger k)",
        Reason::EffectiveDraws | Reason::FewDraws => "more draws",
        Reason::NotMixed => "more warm-up and draws until the chains mix",
        Reason::Diverged => "a higher target acceptance rate, or another parametrisation of the model",
        Reason::PilotNotMixed => {
            "look at the model: an ordering of what can change places, another parametrisation, stronger priors"
        }
        Reason::Shifted | Reason::Misscaled | Reason::Wide | Reason::Narrow => {
            "check that the sampler multiplies the log-likelihood of each row by its weight, in the order of the rows given"
        }
        Reason::OnTrust | Reason::PriorDominates => {
            "give the gradient of the weighted log posterior, so that the draws can be tested"
        }
        Reason::NoChains => "keep the chains apart: chains by draws by parameters",
        Reason::OtherData => "build a coreset of these observations",
        Reason::GaussianDraws => "sample the coreset's posterior by NUTS",
        Reason::TightPrior => "a wider prior",
        Reason::SecondMode => {
            "look at the data and the model: two kinds of rows, outliers among the features, tails that are too heavy"
        }
        Reason::OwnMode => "more points (a larger k)",
        Reason::Quadrature => "more nodes",
        Reason::NotFinite | Reason::Disagrees => return None,
    })
}
