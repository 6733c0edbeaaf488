//! The words for a certificate of given draws: the grade, how far each parameter is off, and what no test can detect.

use super::numbers::{count, number, percent};
use super::verdict::{chains_line, remedy, score_line, why};
use crate::trust::{Certificate, Grade, Offset, Reason};

/// Parameters that are named.
const SHOWN: usize = 3;

/// Standard errors beyond which an offset is told.
const TOLD: f64 = 3.0;

/// Shifts and scales that are too small to be told, whatever their error.
const SMALL: f64 = 0.05;

/// The grade and what it means, what it rests on, and what it cannot see. `one_mode`: the posterior is known to have no other.
pub fn certified(certificate: &Certificate, names: &[String], rows: usize, one_mode: bool) -> Vec<String> {
    let Certificate { verdict, parameters, draws, has_density, seems_of } = certificate;
    let mut lines = vec![headline(certificate, rows)];
    lines.push(format!(
        "  evaluated      {} draws, and the gradient over all rows at {} of them",
        count(*draws),
        count(verdict.draws)
    ));
    lines.extend(verdict.fidelity.as_ref().map(score_line));
    lines.extend(offsets(parameters, names));
    lines.extend(
        seems_of.map(|of| format!("  scale          taken as draws of {of}, they are near the posterior")),
    );
    lines.extend(verdict.mixing.as_ref().map(chains_line));
    if *has_density {
        lines.push(format!(
            "  weights        V = {} nats² (95 % below {}), Pareto k {} (limit {}), efficiency {}: {} effective draws",
            number(verdict.divergence.variance),
            number(verdict.divergence.variance_upper),
            number(verdict.reweighting.pareto_k),
            number(verdict.reweighting.pareto_threshold),
            percent(verdict.reweighting.ess_share),
            number(verdict.reweighting.ess)
        ));
    }
    let mut reasons = verdict.reasons.clone();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.allows()));
    lines.extend(reasons.iter().map(|reason| format!("  why            {}", because(*reason))));
    // What would lift the grade.
    let worst = reasons.iter().filter(|reason| reason.allows() == verdict.grade);
    let mut advice: Vec<String> = worst.map(|reason| advised(*reason)).collect();
    advice.dedup();
    lines.extend(advice.iter().take(2).map(|advice| format!("  what to do     {advice}")));
    lines.push(format!("  not seen       {}", unseen(*has_density, one_mode)));
    lines
}

fn headline(certificate: &Certificate, rows: usize) -> String {
    let draws = count(certificate.draws);
    // Of a model that is known by functions alone, nobody has said how many there are.
    let rows = if rows == 0 { "all rows".to_owned() } else { format!("all {} rows", count(rows)) };
    match certificate.verdict.grade {
        Grade::A => format!(
            "A - trusted: these {draws} draws are of the posterior of {rows}; whether the model suits the data is not judged"
        ),
        Grade::B if certificate.verdict.strays() => format!(
            "B - trusted after reweighting: importance weights make these {draws} draws those of the posterior of {rows}"
        ),
        Grade::B => format!(
            "B - trusted with a reservation: nothing speaks against these {draws} draws of the posterior of {rows}, but \
             they do not prove it"
        ),
        Grade::C => {
            format!(
                "C - not certified: these {draws} draws could not be shown to be of the posterior of {rows}"
            )
        }
    }
}

/// The parameters that are furthest off, a line each.
fn offsets(parameters: &[Offset], names: &[String]) -> Vec<String> {
    let shifted =
        |offset: &Offset| offset.shift.abs() > SMALL && offset.shift.abs() > TOLD * offset.shift_error;
    let scaled = |offset: &Offset| {
        let off = (offset.scale - 1.0).abs();
        off > SMALL && off > TOLD * offset.scale_error
    };
    let size = |offset: &Offset| {
        let shift = if shifted(offset) { offset.shift.abs() } else { 0.0 };
        let scale = if scaled(offset) { offset.scale.ln().abs() } else { 0.0 };
        shift.max(scale)
    };
    let mut worst: Vec<(&Offset, &String)> =
        parameters.iter().zip(names).filter(|(offset, _)| shifted(offset) || scaled(offset)).collect();
    worst.sort_by(|(a, _), (b, _)| size(b).total_cmp(&size(a)));
    let all = worst.len();
    let said = |(offset, name): &(&Offset, &String)| {
        let mut parts = Vec::new();
        if shifted(offset) {
            let which = if offset.shift > 0.0 { "high" } else { "low" };
            parts.push(format!(
                "mean {} ± {} posterior sd too {which}",
                number(offset.shift.abs()),
                number(offset.shift_error)
            ));
        }
        if scaled(offset) {
            parts.push(format!(
                "sd {} ± {} times that of the posterior",
                number(offset.scale),
                number(offset.scale_error)
            ));
        }
        format!("  off            {name}: {}", parts.join(", "))
    };
    let mut lines: Vec<String> = worst.iter().take(SHOWN).map(said).collect();
    if all > SHOWN {
        lines.push(format!("                 and {} more parameters", count(all - SHOWN)));
    }
    lines
}

/// Reasons that are worded for the rows of a coreset elsewhere.
fn because(reason: Reason) -> &'static str {
    match reason {
        Reason::NotMixed => "the chains have not mixed, so their draws cannot be relied on",
        Reason::NotFinite => "the log posterior of all rows or its gradient is not finite at some draws",
        Reason::Variance => "the log density of these draws differs too much from the log posterior (V)",
        Reason::Narrow => "a parameter is the same at every draw",
        Reason::Shifted => {
            "the mean gradient of the log posterior over these draws is not zero: in some direction their mean is wrong"
        }
        Reason::Misscaled => {
            "in some direction these draws are wider or narrower than the log posterior of all rows implies"
        }
        other => why(other),
    }
}

fn advised(reason: Reason) -> String {
    let text = match reason {
        Reason::Shifted | Reason::Misscaled => {
            "check that the draws belong to these data, this prior and this scale of the parameters; otherwise pass the log density of the \
             approximation, whose importance weights may correct it, or fit the model again"
        }
        Reason::Variance | Reason::Share | Reason::ParetoK => {
            "use an approximation that is closer to the posterior, or a sampler"
        }
        Reason::Narrow => "pass draws of all parameters",
        Reason::Misshapen => "pass the log density of the draws for importance weights, or use a sampler",
        // These draws are not from a coreset, so "more points" does not apply.
        other => return remedy(other, 0, 0),
    };
    text.to_owned()
}

fn unseen(has_density: bool, one_mode: bool) -> String {
    let mode = if one_mode {
        "no other mode: this posterior has only one"
    } else {
        "a mode that no draw has reached"
    };
    match has_density {
        true => mode.to_owned(),
        false => {
            format!("{mode}; differences of shape beyond the mean, variance and skewness in each direction")
        }
    }
}
