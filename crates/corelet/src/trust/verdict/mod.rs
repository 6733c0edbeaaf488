//! Can it be trusted? A grade for a coreset from draws of its own posterior and one pass over all rows.

mod draws;
mod psis;
mod variances;

pub use draws::Draws;
pub use psis::{Smoothed, pareto_threshold, psis};
pub(crate) use variances::variances;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::psis::log_sum_exp;
use crate::posterior::{R_HAT_LIMIT, effective_sample_size, r_hat};
use crate::rows::{At, LogLikelihood, Rows, RowsError, Totals, Weighted};

/// Grade A: V's 95 % upper bound stays below this.
pub const TRUSTED_VARIANCE: f64 = 0.1;
/// Grade A: importance weights keep more than this share of the draws.
pub const TRUSTED_SHARE: f64 = 0.9;
/// Grade B: reweighted draws are worth more than this many.
pub const REWEIGHTED_DRAWS: f64 = 400.0;

/// The normal quantile of 95 %.
const Z95: f64 = 1.644_853_626_951_472_7;

/// How far a coreset's posterior may be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grade {
    /// Trusted as it is.
    A,
    /// Trusted after its draws are reweighted.
    B,
    /// Not certified.
    C,
}

/// Why a grade is not better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The chains that drew from the coreset's posterior have not mixed: nothing can be said.
    NotMixed,
    /// Draws of a Gaussian do not represent the coreset's posterior: it has to be sampled.
    GaussianDraws,
    /// The log-likelihood of all rows is not finite at some draw.
    NotFinite,
    /// V or its upper bound is too large.
    Variance,
    /// The weights keep too few of the draws.
    Share,
    /// k̂ is above its threshold: no number of these draws can be reweighted reliably.
    ParetoK,
    /// Too few effective draws remain after reweighting.
    EffectiveDraws,
    /// The chains diverged too often to have seen the whole posterior.
    Diverged,
    /// The chains had not mixed on plain rows either, before there was a coreset.
    PilotNotMixed,
    /// The chains are worth too few draws.
    FewDraws,
    /// L_w hardly varies over the draws: they sit near one point, and any coreset would pass there.
    Narrow,
    /// L_w varies less over the draws than data that outweigh the prior would make it.
    PriorDominates,
    /// The prior holds coefficients away from where the data want them.
    TightPrior,
    /// The coreset was built on other observations.
    OtherData,
    /// L_w varies more over the draws than that of a posterior with so many parameters can.
    Wide,
    /// V is far below the residual that was held out when the coreset was built.
    Disagrees,
    /// The draws came without their chains.
    NoChains,
    /// The posterior of all rows has several modes, and the chains do not pass between them.
    SecondMode,
    /// The posterior of the weighted rows has a mode that all rows have not.
    OwnMode,
}

impl Reason {
    /// The best grade that a posterior may have where this was found.
    pub fn allows(self) -> Grade {
        match self {
            Self::Variance
            | Self::Share
            | Self::PriorDominates
            | Self::TightPrior
            | Self::OtherData
            | Self::Wide
            | Self::Disagrees
            | Self::NoChains => Grade::B,
            _ => Grade::C,
        }
    }
}

/// The judgement of a coreset's posterior π_w against the posterior π of all rows, from draws of π_w.
///
/// With Δ(θ) = L(θ) − L_w(θ), π ∝ π_w·e^Δ. To leading order both divergences are ½V.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// A, B or C.
    pub grade: Grade,
    /// What kept it from A, and for C also from B.
    pub reasons: Vec<Reason>,
    /// Draws it rests on, S.
    pub draws: usize,
    /// How far π is from π_w.
    #[serde(flatten)]
    pub divergence: Divergence,
    /// What is left of the draws when they are weighted to be draws of π.
    #[serde(flatten)]
    pub reweighting: Reweighting,
    /// log weights that turn the draws into draws of π, Pareto-smoothed, Σ exp = 1.
    pub log_weights: Vec<f64>,
    /// Δ at each draw, less its mean.
    pub errors: Vec<f64>,
}

/// How far π is from π_w.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// V = Var Δ under π_w, in nats².
    pub variance: f64,
    /// The upper end of V's one-sided 95 % interval, Monte-Carlo error and autocorrelation accounted for.
    pub variance_upper: f64,
    /// KL(π‖π_w) + KL(π_w‖π) = E_π Δ − E_{π_w} Δ, by self-normalised smoothed weights.
    pub kl_symmetrised: f64,
    /// log Z − log Z_w, the log of the ratio of the evidences.
    pub log_evidence_ratio: f64,
}

/// What is left of draws of π_w when weights e^Δ turn them into draws of π.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reweighting {
    /// Effective draws after reweighting, autocorrelation accounted for.
    pub ess: f64,
    /// The share of the draws that the weights e^Δ keep, in (0, 1]: 1/(1 + χ²(π‖π_w)).
    pub ess_share: f64,
    /// Effective over actual draws of π_w itself, at most 1.
    pub efficiency: f64,
    /// Tail index of the weights; −∞ where all weights are the same.
    pub pareto_k: f64,
    /// min(1 − 1/log₁₀S, 0.7).
    pub pareto_threshold: f64,
}

/// Why no verdict can be given.
#[derive(Debug, Error)]
pub enum VerdictError {
    /// Too few draws for a tail to be looked at.
    #[error("{0} draws are too few for a verdict: at least 100 are needed")]
    TooFewDraws(usize),
    /// Lengths that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// Of what.
        what: &'static str,
        /// Its size.
        got: usize,
        /// The size it must have.
        expected: usize,
    },
    /// Rows or weights that cannot be used.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// Grades the weighted rows by draws of their own posterior.
///
/// V = Var Δ and its upper bound V·exp(z₀.₉₅·se/V), where se comes from the effective sample size of (Δ − Δ̄)²: on the
/// log scale, since V is positive and skewed. **A**: the bound is below 0.1 and e^Δ keeps more than 0.9 of the draws.
/// **B**: k̂ is below min(1 − 1/log₁₀S, 0.7) and more than 400 effective draws remain after reweighting. **C**
/// otherwise, and wherever the draws are not to be trusted themselves. One pass over all rows.
///
/// # Errors
/// See [`VerdictError`].
pub fn verdict(rows: &dyn Rows, coreset: &Weighted, draws: &Draws) -> Result<Verdict, VerdictError> {
    draws.check(rows.dim())?;
    let anchor = draws.mean();
    let shifts = draws.shifts(&anchor);
    // Δ at each draw less Δ at the anchor, and Δ at the anchor.
    let mut errors = rows.totals(&Totals::new(&anchor, &shifts, rows.len()))?;
    let chosen = coreset.differences(&anchor, &shifts);
    errors.iter_mut().zip(&chosen).for_each(|(error, chosen)| *error -= chosen);
    let here = At { theta: &anchor, derivatives: 0 };
    let at_anchor = rows.newton(&here)?.value - coreset.evaluate(&here)?.value;
    Ok(grade(draws, errors, at_anchor))
}

/// Grades Δ(θ) = L(θ) − L_w(θ), computed by the caller at draws of π_w from so many chains of equal length, one after the
/// other, or at independent draws: any model, known by its log-likelihoods alone. Mixing is judged by Δ itself.
///
/// # Errors
/// See [`VerdictError`].
pub fn verdict_of_errors(errors: Vec<f64>, chains: Option<usize>) -> Result<Verdict, VerdictError> {
    let draws = Draws { theta: errors, dim: 1, chains, log_weights: None };
    draws.check(1)?;
    let centre = draws.mean()[0];
    let errors = draws.theta.iter().map(|error| error - centre).collect();
    Ok(grade(&draws, errors, centre))
}

/// The grade of these errors; everything but the pass over the data.
fn grade(draws: &Draws, mut errors: Vec<f64>, at_anchor: f64) -> Verdict {
    let size = errors.len();
    let base = draws.base_weights();
    let finite = errors.iter().all(|x| x.is_finite());
    let centre = weighted_mean(&base.weights, &errors);
    errors.iter_mut().for_each(|x| *x -= centre);
    let ratios: Vec<f64> = base.log_weights.iter().zip(&errors).map(|(b, x)| b + x).collect();
    let squares: Vec<f64> = errors.iter().map(|x| x * x).collect();
    let variance = weighted_mean(&base.weights, &squares);
    let efficiency = draws.efficiency(&errors);
    let smoothed = psis(&ratios, efficiency);
    let target: Vec<f64> = smoothed.log_weights.iter().map(|x| x.exp()).collect();
    let log_mean = log_sum_exp(&ratios);
    let twice: Vec<f64> = ratios.iter().zip(&errors).map(|(r, x)| r + x).collect();
    let divergence = Divergence {
        variance,
        variance_upper: upper_bound(draws, &base.weights, &squares, variance),
        kl_symmetrised: weighted_mean(&target, &errors),
        log_evidence_ratio: log_mean + centre + at_anchor,
    };
    let reweighting = Reweighting {
        ess: efficiency / target.iter().map(|w| w * w).sum::<f64>(),
        ess_share: (2.0 * log_mean - log_sum_exp(&twice)).exp(),
        efficiency,
        pareto_k: smoothed.pareto_k,
        pareto_threshold: pareto_threshold(size),
    };
    let mut verdict = Verdict {
        grade: Grade::C,
        reasons: Vec::new(),
        draws: size,
        divergence,
        reweighting,
        log_weights: smoothed.log_weights,
        errors,
    };
    (verdict.grade, verdict.reasons) = verdict.decide(draws.mixed(), base.reliable, finite);
    verdict
}

impl Verdict {
    fn decide(&self, mixed: bool, represented: bool, finite: bool) -> (Grade, Vec<Reason>) {
        let all = |checks: &[(bool, Reason)]| -> Vec<Reason> {
            checks.iter().filter(|(passed, _)| !passed).map(|(_, reason)| *reason).collect()
        };
        let sound = all(&[
            (mixed, Reason::NotMixed),
            (represented, Reason::GaussianDraws),
            (finite, Reason::NotFinite),
        ]);
        let trusted = all(&[
            (self.divergence.variance_upper < TRUSTED_VARIANCE, Reason::Variance),
            (self.reweighting.ess_share > TRUSTED_SHARE, Reason::Share),
        ]);
        let reweighted = all(&[
            (self.reweighting.pareto_k < self.reweighting.pareto_threshold, Reason::ParetoK),
            (self.reweighting.ess > REWEIGHTED_DRAWS, Reason::EffectiveDraws),
        ]);
        match (sound.is_empty(), trusted.is_empty(), reweighted.is_empty()) {
            (true, true, _) => (Grade::A, Vec::new()),
            (true, false, true) => (Grade::B, trusted),
            _ => (Grade::C, [sound, trusted, reweighted].concat()),
        }
    }

    /// Takes what a caller knows of the draws into account: no grade stays better than a reason
    /// [allows](Reason::allows).
    #[must_use]
    pub fn with(mut self, found: &[Reason]) -> Self {
        for &reason in found.iter().filter(|reason| reason.allows() > Grade::A) {
            self.grade = self.grade.max(reason.allows());
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
        self
    }

    /// ½V, to leading order either divergence, in nats.
    pub fn nats(&self) -> f64 {
        0.5 * self.divergence.variance
    }
}

/// V·exp(z·se/V): the delta method on log V. For chains se² = Var(Δ²)/ESS(Δ²); for weighted draws Σ b²(Δ² − V)².
fn upper_bound(draws: &Draws, base: &[f64], squares: &[f64], variance: f64) -> f64 {
    if variance == 0.0 {
        return 0.0;
    }
    let deviations = base.iter().zip(squares).map(|(b, u)| (b * (u - variance)).powi(2));
    let independent = deviations.sum::<f64>();
    let size = squares.len() as f64;
    let inflation = draws.chains.map_or(1.0, |chains| {
        let per_chain: Vec<Vec<f64>> = split(squares, chains);
        (size / effective_sample_size(&per_chain)).max(1.0)
    });
    let relative = (independent * inflation).sqrt() / variance;
    let bound = variance * (Z95 * relative).exp();
    if bound.is_nan() { f64::INFINITY } else { bound }
}

fn split(values: &[f64], chains: usize) -> Vec<Vec<f64>> {
    let length = values.len() / chains.max(1);
    values.chunks_exact(length.max(1)).map(<[f64]>::to_vec).collect()
}

fn weighted_mean(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(w, x)| w * x).sum()
}

impl Draws {
    /// Effective over actual draws for the mean of Δ and for its square, the smaller, at most 1.
    fn efficiency(&self, errors: &[f64]) -> f64 {
        let Some(chains) = self.chains else { return 1.0 };
        let squares: Vec<f64> = errors.iter().map(|x| x * x).collect();
        let of = |values: &[f64]| effective_sample_size(&split(values, chains)) / values.len() as f64;
        // NaN, of draws that are all the same, is the larger for `min`.
        of(errors).min(of(&squares)).min(1.0)
    }

    /// Whether the chains have mixed in every parameter.
    fn mixed(&self) -> bool {
        let Some(chains) = self.chains.filter(|&chains| chains > 1) else { return true };
        let length = self.len() / chains;
        (0..self.dim).all(|j| {
            let of = |chain: usize| {
                (0..length).map(|t| self.theta[(chain * length + t) * self.dim + j]).collect::<Vec<f64>>()
            };
            let value = r_hat(&(0..chains).map(of).collect::<Vec<_>>());
            value <= R_HAT_LIMIT
        })
    }
}
