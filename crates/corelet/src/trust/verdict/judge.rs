//! The judge: evidence in, a grade out. All gates for all models, before the grade.

use super::measure::{Measured, measure};
use super::moves::Moves;
use super::policy::{
    DISAGREES, FEWEST_FINITE, MOST_DIVERGED, NARROW, REWEIGHTED_DRAWS, TRUSTED_SHARE, TRUSTED_VARIANCE,
};
use super::stein::likelihood_alone;
use super::{Draws, Fidelity, Grade, Mixing, Reason, Scores, Verdict, VerdictError};

/// What a grade rests on.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    /// The draws at which Δ is known; of no parameter where only their chains are known.
    pub judged: &'a Draws,
    /// All draws, where Δ is known at some of them only: chains are judged by all.
    pub all: Option<&'a Draws>,
    /// Δ = L − L_w at each judged draw, less Δ at an anchor.
    pub errors: Vec<f64>,
    /// Δ at the anchor.
    pub at_anchor: f64,
    /// L_w at each judged draw, up to a constant; empty if it is not known.
    pub weighted: Vec<f64>,
    /// More draws with L_w at each, to test the sampler by where there is no gradient.
    pub likelihood: Option<(Draws, Vec<f64>)>,
    /// The gradient of the weighted log posterior, prior and all, at some of the draws.
    pub scores: Option<Scores>,
    /// Divergent draws.
    pub diverged: usize,
    /// The variance of Δ over draws held out in the build, where these were draws of the posterior.
    pub held_out: Option<f64>,
    /// Preconditions that cap the grade.
    pub found: Vec<Reason>,
}

impl<'a> Evidence<'a> {
    /// Nothing but draws.
    pub fn of(judged: &'a Draws) -> Self {
        Self {
            judged,
            all: None,
            errors: Vec::new(),
            at_anchor: 0.0,
            weighted: Vec::new(),
            likelihood: None,
            scores: None,
            diverged: 0,
            held_out: None,
            found: Vec::new(),
        }
    }
}

/// Grades a coreset by evidence from draws of its own posterior π_w.
///
/// V = Var Δ and its upper bound V·exp(z₀.₉₅·se/V), where se comes from the effective sample size of (Δ − Δ̄)²: on the
/// log scale, since V is positive and skewed. **A**: the bound is below 0.1 and e^Δ keeps more than 0.9 of the draws.
/// **B**: k̂ is below min(1 − 1/log₁₀S, 0.7) and more than 400 effective draws remain after reweighting. **C**
/// otherwise, and wherever the draws are not to be trusted themselves: chains that have not mixed, too few effective draws,
/// divergences, a score test that fails. What cannot be checked allows a B at best.
///
/// # Errors
/// Fewer than 100 draws, and lengths that do not agree.
pub fn judge(evidence: Evidence<'_>) -> Result<Verdict, VerdictError> {
    let Evidence { judged, all, errors, at_anchor, weighted, likelihood, scores, diverged, held_out, found } =
        evidence;
    if errors.len() < FEWEST_FINITE {
        return Err(VerdictError::TooFewDraws(errors.len()));
    }
    let mut reasons = found;
    let Finite { judged: finite, errors, weighted, dropped } = Finite::of(judged, errors, weighted);
    let judged = finite.as_ref().unwrap_or(judged);
    let mut measured = measure(judged, errors, at_anchor);
    if measured.errors.len() < FEWEST_FINITE {
        // Of next to no draw V is 0, and says the opposite of what was found.
        measured.divergence.variance = f64::INFINITY;
        measured.divergence.variance_upper = f64::INFINITY;
    }
    let mixing = judged.chains.map(|chains| {
        let series = [weighted.clone(), measured.errors.clone()];
        let known: Vec<Vec<f64>> = series.into_iter().filter(|series| !series.is_empty()).collect();
        Mixing::of(&known, chains).and(Mixing::of_parameters(all.unwrap_or(judged)))
    });
    let more = likelihood.as_ref().map_or((judged, &weighted[..]), |(draws, weighted)| (draws, weighted));
    let (fidelity, doubts) = tested(more.0, more.1, scores.as_ref());
    let count = all.unwrap_or(judged).len().max(measured.errors.len());
    if dropped {
        reasons.push(Reason::NotFinite);
    }
    if !measured.represented {
        reasons.push(Reason::GaussianDraws);
    }
    if let Some(mixing) = mixing.filter(|_| !dropped) {
        if !mixing.mixed() {
            reasons.push(Reason::NotMixed);
        } else if !mixing.enough() {
            reasons.push(Reason::FewDraws);
        }
    }
    if diverged as f64 > MOST_DIVERGED * count as f64 {
        reasons.push(Reason::Diverged);
    }
    reasons.extend(doubts);
    if held_out.is_some_and(|held_out| measured.divergence.variance < DISAGREES * held_out && held_out > 1e-3)
    {
        reasons.push(Reason::Disagrees);
    }
    let moves = Moves::of(judged, &measured);
    Ok(Verdict { moves, ..decide(measured, reasons, mixing, fidelity) })
}

/// What tests of the sampler found: by the gradient where it is known, else by L_w alone.
fn tested(judged: &Draws, weighted: &[f64], scores: Option<&Scores>) -> (Option<Fidelity>, Vec<Reason>) {
    match scores {
        Some(scores) => {
            let (fidelity, reasons) = scores.test();
            (Some(fidelity), reasons)
        }
        // Independent draws of a known density come with weights; there is no sampler to test.
        None if judged.chains.is_none() => (None, Vec::new()),
        None if judged.dim == 0 => (None, unknown_parameters(weighted)),
        None => (None, likelihood_alone(judged, weighted)),
    }
}

/// Without the parameters, at least one of them must be seen to move.
fn unknown_parameters(weighted: &[f64]) -> Vec<Reason> {
    let count = weighted.len().max(1) as f64;
    let mean = weighted.iter().sum::<f64>() / count;
    let variance = weighted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    // ½ for a Gaussian posterior of one parameter.
    let narrow = !weighted.is_empty() && variance < 0.5 * NARROW;
    if narrow { vec![Reason::OnTrust, Reason::Narrow] } else { vec![Reason::OnTrust] }
}

fn decide(
    measured: Measured,
    mut reasons: Vec<Reason>,
    mixing: Option<Mixing>,
    fidelity: Option<Fidelity>,
) -> Verdict {
    let Measured { divergence, reweighting, log_weights, errors, .. } = measured;
    let failed = |checks: [(bool, Reason); 2]| {
        checks.into_iter().filter(|(passed, _)| !passed).map(|(_, reason)| reason)
    };
    let trusted = failed([
        (divergence.variance_upper < TRUSTED_VARIANCE, Reason::Variance),
        (reweighting.ess_share > TRUSTED_SHARE, Reason::Share),
    ]);
    let strays: Vec<Reason> = trusted.collect();
    if !strays.is_empty() {
        reasons.extend(strays);
        // Only draws that are to be reweighted must be worth it.
        reasons.extend(failed([
            (reweighting.pareto_k < reweighting.pareto_threshold, Reason::ParetoK),
            (reweighting.ess > REWEIGHTED_DRAWS, Reason::EffectiveDraws),
        ]));
    }
    let grade = reasons.iter().map(|reason| reason.allows()).fold(Grade::A, Grade::max);
    // Each once, where it was found first.
    let mut once = Vec::new();
    for reason in reasons {
        if !once.contains(&reason) {
            once.push(reason);
        }
    }
    let reasons = once;
    let draws = errors.len();
    Verdict {
        grade,
        reasons,
        draws,
        divergence,
        reweighting,
        log_weights,
        errors,
        mixing,
        fidelity,
        moves: None,
    }
}

/// Evidence without the draws at which Δ or L_w is not finite.
struct Finite {
    judged: Option<Draws>,
    errors: Vec<f64>,
    weighted: Vec<f64>,
    dropped: bool,
}

impl Finite {
    fn of(judged: &Draws, errors: Vec<f64>, weighted: Vec<f64>) -> Self {
        let is_finite = |s: usize| errors[s].is_finite() && weighted.get(s).is_none_or(|w| w.is_finite());
        let kept: Vec<usize> = (0..errors.len()).filter(|&s| is_finite(s)).collect();
        if kept.len() == errors.len() {
            return Self { judged: None, errors, weighted, dropped: false };
        }
        let take = |values: &[f64], width: usize| -> Vec<f64> {
            if values.is_empty() {
                Vec::new()
            } else {
                kept.iter().flat_map(|&s| &values[s * width..][..width]).copied().collect()
            }
        };
        let judged = Draws {
            theta: take(&judged.theta, judged.dim),
            dim: judged.dim,
            chains: judged.chains.map(|_| 1),
            log_weights: judged.log_weights.as_ref().map(|weights| take(weights, 1)),
        };
        Self { judged: Some(judged), errors: take(&errors, 1), weighted: take(&weighted, 1), dropped: true }
    }
}
