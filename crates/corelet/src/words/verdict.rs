//! The verdict in words: what it says, why, and what to do. It is the approximation that is judged, not the model.

use super::numbers::{count, number, percent, plural};
use crate::trust::{Divergence, Fidelity, Grade, Mixing, Moves, Reason, Reweighting, Verdict};

/// V of a coreset that differs from all rows by rounding alone, in nats²: an error of 10⁻⁷ nats, about what sums are rounded to.
const ROUNDING: f64 = 1e-14;
/// V up to which shifts to first order are good to a tenth or two of a standard deviation.
const FIRST_ORDER: f64 = 1.0;
/// Standard deviations that nothing need be said of where no direction moves further.
const UNTOLD: f64 = 0.01;

/// The first line of the output: the grade and what it means.
pub fn headline(verdict: &Verdict, points: usize, rows: usize) -> String {
    if is_of_all_rows(verdict, points, rows) {
        return of_all_rows(verdict, rows);
    }
    let whose = match points {
        0 => "this Gaussian".to_owned(),
        1 => "this weighted row".to_owned(),
        _ => format!("these {} weighted rows", count(points)),
    };
    worded(verdict, &whose, rows)
}

/// The same of weighted rows with a Gaussian beside them.
pub fn headline_with_rest(verdict: &Verdict, points: usize, rows: usize) -> String {
    match points {
        0 => headline(verdict, 0, rows),
        _ => worded(verdict, &format!("{} and a Gaussian", plural(points, "weighted row")), rows),
    }
}

/// Whether all rows were sampled, and there is nothing to be compared.
fn is_of_all_rows(verdict: &Verdict, points: usize, rows: usize) -> bool {
    points == rows && verdict.divergence.variance == 0.0
}

/// Of chains of all rows.
fn of_all_rows(verdict: &Verdict, rows: usize) -> String {
    let all = format!("all {} were sampled", plural(rows, "row"));
    match verdict.grade {
        Grade::A => format!(
            "A - trusted: {all}, and the chains passed every test; whether the model suits the data is not judged"
        ),
        Grade::B => format!(
            "B - trusted with a reservation: {all}, but the draws do not prove that they are of their posterior"
        ),
        Grade::C => format!("C - not certified: {all}, and {}", fault(&verdict.reasons)),
    }
}

fn worded(verdict: &Verdict, whose: &str, rows: usize) -> String {
    let rows = plural(rows, "row");
    match verdict.grade {
        Grade::A if verdict.divergence.variance_upper < ROUNDING => format!(
            "A - exact: the posterior of {whose} matches that of all {rows} to rounding; whether the model suits the data is not judged"
        ),
        Grade::A => format!(
            "A - trusted: the posterior of {whose} matches that of all {rows}; whether the model suits the data is not judged"
        ),
        Grade::B if verdict.strays() => format!(
            "B - trusted after reweighting: the posterior of {whose} is near that of all {rows}, and importance weights on \
             the draws close the gap"
        ),
        Grade::B => format!(
            "B - trusted with a reservation: by these draws the posterior of {whose} matches that of all {rows}, but they do not \
             prove it"
        ),
        Grade::C => format!(
            "C - not certified: it could not be shown that the posterior of {whose} matches that of all {rows}; {}",
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
        Reason::SlowEnergy,
        Reason::FewDraws,
        Reason::Narrow,
        Reason::Wide,
        Reason::Shifted,
        Reason::Misscaled,
        Reason::Misshapen,
        Reason::Tail,
    ];
    if found(&[Reason::PilotNotMixed]) {
        "the chains did not mix on unweighted rows either, so the model or its sampler is at fault, not the coreset"
    } else if found(&[Reason::SecondMode]) {
        "the posterior has several modes, so no chain represents all of it"
    } else if found(&[Reason::EffectModes, Reason::Integrals]) {
        "the effects of some groups have several modes, which a single quadrature rule does not cover"
    } else if found(&[Reason::Drifted, Reason::Uncertified]) {
        "the certificate of the earlier rows does not cover the new posterior"
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

/// A tail that draws have not in proportion to its mass: of the posterior of all rows, or of that of weighted rows alone.
pub fn missed_tail(name: &str, own: bool, above: bool, value: f64, (mass, draws): (f64, f64)) -> String {
    format!(
        "the posterior{} has about {} of its mass where {name} is {} {}, and the chains {} of their draws",
        if own { " of the weighted rows, and of these alone," } else { "" },
        percent(mass),
        if above { "above" } else { "below" },
        number(value),
        percent(draws)
    )
}

/// The figures behind the headline, and what kept it from an A with one thing to do for each, a line each.
pub fn lines(verdict: &Verdict, points: usize, rows: usize) -> Vec<String> {
    let Divergence { variance, variance_upper, kl_symmetrised, log_evidence_ratio } = verdict.divergence;
    let Reweighting { ess, ess_share, pareto_k, pareto_threshold, .. } = verdict.reweighting;
    let whole = is_of_all_rows(verdict, points, rows);
    let mut lines = Vec::new();
    if !whole {
        lines.push(format!(
            "  verdict        V = {} nats² (95 % below {}), symmetrised KL {} nats; importance-sampling efficiency {}",
            number(variance),
            number(variance_upper),
            number(kl_symmetrised),
            percent(ess_share)
        ));
        lines.extend(verdict.moves.as_ref().and_then(|moves| moves_line(moves, variance, variance_upper)));
    }
    lines.extend(verdict.mixing.as_ref().map(chains_line));
    lines.extend(verdict.fidelity.as_ref().map(score_line));
    // Where no weights are needed their tail says nothing.
    if verdict.grade != Grade::A && !whole {
        lines.push(format!(
            "                 {} of {} draws effective after weighting, Pareto k {} (limit {})",
            number(ess),
            count(verdict.draws),
            number(pareto_k),
            number(pareto_threshold)
        ));
    }
    if !whole {
        lines.push(format!(
            "  log evidence   of all rows = that of {} {} {}",
            if points == 0 { "this Gaussian" } else { "the weighted rows" },
            if log_evidence_ratio < 0.0 { "−" } else { "+" },
            number(log_evidence_ratio.abs())
        ));
    }
    // What helps against several reasons is said once, after the last of them.
    let remedies: Vec<String> = verdict.reasons.iter().map(|reason| remedy(*reason, points, rows)).collect();
    for (i, reason) in verdict.reasons.iter().enumerate() {
        lines.push(format!("  why            {}", why(*reason)));
        if !remedies[i + 1..].contains(&remedies[i]) {
            lines.push(format!("  what to do     {}", remedies[i]));
        }
    }
    lines
}

/// By how much all rows move the parameters.
fn moves_line(moves: &Moves, variance: f64, variance_upper: f64) -> Option<String> {
    let Moves { shift, ratio } = moves;
    let most = variance_upper.max(variance).sqrt();
    if most < UNTOLD {
        return None;
    }
    if variance > FIRST_ORDER {
        let correlation = shift.by / variance.sqrt();
        return Some(format!(
            "  parameters     the error of the log-likelihood correlates most with {} (correlation {correlation:.2})",
            shift.name
        ));
    }
    Some(format!(
        "  parameters     largest changes from the coreset to all rows: mean of {} by {} ± {} sd; sd of {} by a factor of {:.3} ± {}; \
         no direction by more than {} sd",
        shift.name,
        number(shift.by),
        number(shift.error),
        ratio.name,
        ratio.by,
        number(ratio.error),
        number(most)
    ))
}

pub(super) fn chains_line(mixing: &Mixing) -> String {
    format!(
        "  chains         R-hat at most {:.3}, effective sample size at least {} (bulk) and {} (tail), of any parameter or log-likelihood",
        mixing.r_hat,
        number(mixing.ess_bulk.floor()),
        number(mixing.ess_tail.floor())
    )
}

pub(super) fn score_line(fidelity: &Fidelity) -> String {
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

pub(super) fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::NotMixed => "the chains on the coreset have not mixed, so their draws cannot be relied on",
        Reason::GaussianDraws => "draws of the Gaussian fit do not represent the coreset's posterior",
        Reason::NotFinite => {
            "a log-likelihood or its gradient is not finite at some draws of the coreset's posterior"
        }
        Reason::Variance => "the log-likelihood of the coreset differs too much from that of all rows (V)",
        Reason::Share => "the importance-sampling efficiency is below 90 %",
        Reason::ParetoK => "a few draws would carry most of the importance weight (Pareto k above its limit)",
        Reason::EffectiveDraws => "fewer than 400 effective draws would remain after reweighting",
        Reason::Diverged => {
            "more than 1 % of the draws come from divergent transitions, so part of the posterior may be missing"
        }
        Reason::SlowEnergy => {
            "the energy of the chains changes slowly (E-BFMI below 0.3, or below 0.5 with divergences), so the neck of a funnel, or a tail, may be missing"
        }
        Reason::PilotNotMixed => {
            "the chains on unweighted rows have not mixed: the posterior has several modes, or a difficult geometry"
        }
        Reason::FewDraws => "the effective sample size of some parameter or log-likelihood is below 100",
        Reason::Shifted => {
            "the mean gradient of the log density over these draws is not zero: in some direction their mean is wrong"
        }
        Reason::Misscaled => {
            "in some direction these draws are wider or narrower than the gradient of the log density implies"
        }
        Reason::Misshapen => {
            "in some direction the shape of these draws contradicts the gradient of the log density: a tail or a mode is missing, \
             or has too many draws"
        }
        Reason::OnTrust => {
            "the sampler is trusted without a full test, which needs the gradient and the prior of its log density"
        }
        Reason::Narrow => {
            "the log-likelihood hardly varies over these draws: they sit near one point, or the prior dominates"
        }
        Reason::PriorDominates => {
            "in some direction the log-likelihood varies little over these draws: either the prior matters there, or the draws are too \
             narrow; without a gradient the two cannot be told apart"
        }
        Reason::TightPrior => "the prior pulls coefficients away from the values that the data support",
        Reason::OtherData => "the coreset was built on other observations than these",
        Reason::Wide => {
            "in some direction the log-likelihood varies more over these draws than under any prior: the draws are too wide"
        }
        Reason::Disagrees => {
            "V is far below the value on the held-out draws of the build, so these draws cover less of the posterior than those"
        }
        Reason::NoChains => "the draws have no chains, so mixing could not be tested",
        Reason::ManyModes => {
            "the posterior has several modes; a search finds some of them, and may miss one with more mass"
        }
        Reason::Unsearched => {
            "the posterior was not searched for other modes: with this number of parameters the search needs the log density"
        }
        Reason::SecondMode => {
            "the posterior has several modes, and the chains do not pass between them, so the mass of each is unknown"
        }
        Reason::OwnMode => {
            "the posterior of these few weighted rows has a mode that the posterior of all rows does not have"
        }
        Reason::Tail => {
            "a parameter has a long tail, named above, that the chains do not visit in proportion to its mass"
        }
        Reason::OwnTail => {
            "the posterior of these few weighted rows has mass far out, named above, that the posterior of all rows does not have: a few \
             rows carry too much weight"
        }
        Reason::NoDensity => {
            "the draws are not several chains and have no log density, so only their moments could be tested"
        }
        Reason::Blunt => {
            "there are too few draws for this number of parameters: the score test would miss a small shift, or a missing tail"
        }
        Reason::Quadrature => {
            "the quadrature over the random effects is not accurate enough: its error may move the posterior by more than a tenth of its sd"
        }
        Reason::Integrals => {
            "the quadrature over the random effects is wrong: its error may move the posterior by more than half of its sd; an effect may \
             have several modes given its group's rows"
        }
        Reason::EffectModes => {
            "given its group's rows, an effect has several modes (a group with a single outlier, say), and the quadrature about one of them is \
             not smooth in the parameters: the draws contradict their gradient"
        }
        Reason::Drifted => {
            "with the new rows the posterior has moved out of the region in which the coreset of the earlier rows was certified: the new \
             rows may follow another regime"
        }
        Reason::Uncertified => {
            "nothing certifies the coreset of the earlier rows: it has no certificate, or the bound on its accumulated errors is too large"
        }
        Reason::Accumulated => {
            "the errors of the coreset of the earlier rows and of later updates may add up to more than an A allows"
        }
        Reason::Inherited => "the certificate of the earlier rows was not an A",
    }
}

/// One thing to do about it, for a coreset of so many points of so many rows.
pub(super) fn remedy(reason: Reason, points: usize, rows: usize) -> String {
    let more = || match points {
        0 => "add weighted rows to the Gaussian factor (a larger k); if they do not help, fit all rows"
            .to_owned(),
        _ => format!("more points: try k = {}", (2 * points).clamp(1, rows.max(1))),
    };
    let text = match reason {
        Reason::Variance | Reason::Share | Reason::ParetoK => return more(),
        Reason::OwnMode | Reason::OwnTail => "use a Gaussian for all rows (rest: gaussian), or more points",
        Reason::EffectiveDraws | Reason::FewDraws => "run more draws",
        Reason::NotMixed => "run more warm-up and draws until the chains mix",
        Reason::Diverged => "use a higher target acceptance rate, or another parametrisation of the model",
        Reason::SlowEnergy => {
            "use a non-centred parametrisation for effects with few rows (a standard normal times their spread), or narrow the prior of \
             the spread"
        }
        Reason::PilotNotMixed => {
            "change the model: order exchangeable components, use another parametrisation, or use stronger priors"
        }
        Reason::Shifted | Reason::Misscaled | Reason::Misshapen | Reason::Wide | Reason::Narrow => {
            "run longer chains, or use another parametrisation of the model; if the sampler is your own, check that it multiplies the \
             log-likelihood of each row by its weight, in the order of the rows given"
        }
        Reason::ManyModes | Reason::Unsearched => {
            "start chains near each possible mode and compare them, or use a prior that admits only the intended mode"
        }
        Reason::OnTrust | Reason::PriorDominates => {
            "pass the gradient of the weighted log posterior, so that the draws can be tested"
        }
        Reason::NoChains => "pass draws with their chains: chains by draws by parameters",
        Reason::OtherData => "build a coreset of these observations",
        Reason::GaussianDraws => "sample the coreset's posterior by NUTS",
        Reason::TightPrior => "use a wider prior",
        Reason::Tail => {
            "use a prior with lighter tails for this parameter, or inspect rows with extreme values of its feature: cut, rescale or \
             correct them"
        }
        Reason::SecondMode => {
            "inspect the data and the model: exchangeable components or signs, two kinds of rows, outliers among the features, tails \
             that are too heavy"
        }
        Reason::NoDensity => {
            "pass the log density of the approximation at each draw, or draws of several chains"
        }
        Reason::Blunt => "run more draws",
        Reason::Quadrature => "use more nodes",
        Reason::Integrals => {
            "do not fix the number of nodes, and inspect groups whose rows form two distant clusters: use a finer grouping, or noise with \
             lighter tails"
        }
        Reason::EffectModes => {
            "use larger groups (a coarser column) or noise with lighter tails (more degrees of freedom), or correct or remove the outliers"
        }
        Reason::Drifted | Reason::Uncertified | Reason::Accumulated | Reason::Inherited => {
            "pass the earlier rows too (--old) for a verdict on all of them; if that is not an A either, fit all rows again"
        }
        Reason::NotFinite => {
            "look for extreme values among the features and the target, or use tighter priors"
        }
        Reason::Disagrees => {
            "run longer chains with dispersed starts, so that they cover the held-out draws of the build"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Move, verdict_of_errors};

    #[test]
    fn each_reason_has_one_thing_to_do_and_the_first_line_says_what_is_judged() {
        let spread: Vec<f64> = (0..4000).map(|i| 3.0 * (f64::from(i) * 0.618).sin()).collect();
        let verdict = verdict_of_errors(&spread, Some(4)).unwrap();
        let said = lines(&verdict, 100, 5000);
        let reasons = said.iter().filter(|line| line.starts_with("  why ")).count();
        assert!(reasons >= 2 && reasons == verdict.reasons.len(), "{said:?}");
        let advice: Vec<&String> = said.iter().filter(|line| line.starts_with("  what to do ")).collect();
        assert_eq!(
            advice.iter().filter(|line| line.ends_with("more points: try k = 200")).count(),
            1,
            "{advice:?}"
        );
        assert!(advice.len() <= reasons);
        let small: Vec<f64> = spread.iter().map(|x| 1e-3 * x).collect();
        let mut trusted = verdict_of_errors(&small, Some(4)).unwrap();
        (trusted.grade, trusted.reasons) = (Grade::A, Vec::new());
        let first = headline(&trusted, 1, 5000);
        assert_eq!(
            first,
            "A - trusted: the posterior of this weighted row matches that of all 5 000 rows; whether the model suits the data is not judged"
        );
    }

    #[test]
    fn what_moves_most_is_named_where_it_matters() {
        let of = |name: &str, by: f64, error: f64| Move { parameter: 0, name: name.to_owned(), by, error };
        let moves = Moves { shift: of("level[3]", -0.04, 0.01), ratio: of("spread", 1.02, 0.005) };
        let told = moves_line(&moves, 0.03, 0.04).unwrap();
        assert!(
            told.contains("mean of level[3] by -0.04 ± 0.01 sd")
                && told.contains("sd of spread by a factor of 1.020"),
            "{told}"
        );
        assert!(told.ends_with("no direction by more than 0.2 sd"), "{told}");
        assert!(moves_line(&moves, 1e-6, 2e-6).is_none());
        // Far from a first order there is no number, but still a name.
        let far = moves_line(&moves, 100.0, 120.0).unwrap();
        assert!(far.contains("correlates most with level[3]") && !far.contains("sd"), "{far}");
    }
}
