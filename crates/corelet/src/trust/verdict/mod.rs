//! Can it be trusted? A grade for a coreset from draws of its own posterior and one pass over all rows.
//!
//! [`judge`] is the only function that computes a grade. It takes [`Evidence`], which is gathered wherever a model and its draws are.

mod certificate;
mod draws;
mod judge;
mod measure;
mod mixing;
mod moves;
pub mod policy;
mod psis;
mod shape;
mod stein;
mod variances;

pub use certificate::{Certificate, Claim, Offset, certify};
pub use draws::Draws;
pub use judge::{Evidence, judge};
pub use mixing::Mixing;
pub use moves::{Move, Moves};
pub use policy::{REWEIGHTED_DRAWS, TRUSTED_SHARE, TRUSTED_VARIANCE};
pub use psis::{Smoothed, pareto_threshold, psis};
pub use stein::{Fidelity, Scores};
pub(crate) use variances::variances;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::parallel;
use crate::posterior::Prior;
use crate::rows::{At, LogLikelihood, Rows, RowsError, Totals, Weighted};

/// How far a coreset's posterior may be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grade {
    /// Trusted without reweighting.
    A,
    /// Trusted after its draws are reweighted.
    B,
    /// Not certified.
    C,
}

/// Why a grade is not better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The chains on the coreset have not mixed, so their draws cannot be relied on.
    NotMixed,
    /// Draws of a Gaussian do not represent the coreset's posterior: it must be sampled.
    GaussianDraws,
    /// The log-likelihood of all rows is not finite at some draw.
    NotFinite,
    /// V or its upper bound is too large.
    Variance,
    /// The importance-sampling efficiency is too low.
    Share,
    /// k̂ is above its threshold: no number of these draws can be reweighted reliably.
    ParetoK,
    /// Too few effective draws remain after reweighting.
    EffectiveDraws,
    /// The chains diverged too often to have explored the whole posterior.
    Diverged,
    /// The energy of the chains changes so slowly that they may not have reached the neck of a funnel.
    SlowEnergy,
    /// The chains did not mix on unweighted rows either, before there was a coreset.
    PilotNotMixed,
    /// The effective sample size of the chains is too small.
    FewDraws,
    /// The mean score of the draws is not zero: in some direction their mean is not that of the weighted posterior.
    Shifted,
    /// The draws are wider or narrower in some direction than the gradient of the weighted posterior implies.
    Misscaled,
    /// In some direction the shape of the draws contradicts the gradient of the weighted posterior; part of it may be missing.
    Misshapen,
    /// The sampler could not be fully tested, for want of a gradient or of draws of the parameters.
    OnTrust,
    /// L_w hardly varies over the draws: they sit near one point, and any coreset would pass there.
    Narrow,
    /// In some direction L_w varies less over the draws than with data that outweigh the prior.
    PriorDominates,
    /// The prior pulls coefficients away from the values that the data support.
    TightPrior,
    /// The coreset was built on other observations.
    OtherData,
    /// In some direction L_w varies more over the draws than under any prior.
    Wide,
    /// V is far below the value on the held-out draws of the build.
    Disagrees,
    /// The draws have no chains.
    NoChains,
    /// The posterior of all rows has several modes, and the chains do not pass between them.
    SecondMode,
    /// The posterior has so many modes that a search may have missed some.
    ManyModes,
    /// The posterior could not be searched for other modes: there are too many parameters, and the density is unknown.
    Unsearched,
    /// The posterior of the weighted rows has a mode that the posterior of all rows does not have.
    OwnMode,
    /// The mass of a parameter's tail differs from the share of draws in it.
    Tail,
    /// The same, of the posterior of the weighted rows alone: the posterior of all rows does not have this mass.
    OwnTail,
    /// The draws are not several chains, and their density is unknown.
    NoDensity,
    /// Too few effective draws for the score test to detect a relevant shift.
    Blunt,
    /// The quadrature over random effects moves the posterior by more than a tenth of a standard deviation.
    Quadrature,
    /// The quadrature moves the posterior by half a standard deviation or more; groups may have several modes.
    Integrals,
    /// The draws fail a test, and chosen groups have effects with several modes, of which the quadrature nodes cover one.
    EffectModes,
    /// The posterior has moved out of the region in which the coreset of earlier rows was certified.
    Drifted,
    /// The coreset of earlier rows has no valid certificate.
    Uncertified,
    /// The accumulated errors of several updates may exceed what an A allows.
    Accumulated,
    /// The certificate of earlier rows was not an A.
    Inherited,
}

impl Reason {
    /// The best grade that this reason allows.
    pub fn allows(self) -> Grade {
        match self {
            Self::Variance
            | Self::Share
            | Self::PriorDominates
            | Self::TightPrior
            | Self::OtherData
            | Self::OnTrust
            | Self::ManyModes
            | Self::Unsearched
            | Self::Disagrees
            | Self::NoChains
            | Self::NoDensity
            | Self::Blunt
            | Self::Quadrature
            | Self::Accumulated
            | Self::Inherited => Grade::B,
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
    /// The reasons why it is not an A, and for a C also why it is not a B.
    pub reasons: Vec<Reason>,
    /// The number of draws S that it rests on.
    pub draws: usize,
    /// How far π is from π_w.
    #[serde(flatten)]
    pub divergence: Divergence,
    /// The effect of importance weights that turn the draws into draws of π.
    #[serde(flatten)]
    pub reweighting: Reweighting,
    /// log weights that turn the draws into draws of π, Pareto-smoothed, Σ exp = 1.
    pub log_weights: Vec<f64>,
    /// Δ at each draw, minus its mean.
    pub errors: Vec<f64>,
    /// How well the chains have mixed; none if the draws are independent.
    #[serde(skip)]
    pub mixing: Option<Mixing>,
    /// The deviation of the draws from the weighted posterior, if its gradient is known.
    #[serde(skip)]
    pub fidelity: Option<Fidelity>,
    /// The parameters that change most from the coreset to all rows, if the draws are known.
    #[serde(default)]
    pub moves: Option<Moves>,
}

/// How far π is from π_w.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// V = Var Δ under π_w, in nats².
    pub variance: f64,
    /// The upper end of the one-sided 95 % interval of V, which includes Monte-Carlo error and autocorrelation.
    pub variance_upper: f64,
    /// KL(π‖π_w) + KL(π_w‖π) = E_π Δ − E_{π_w} Δ, by self-normalised smoothed weights.
    pub kl_symmetrised: f64,
    /// log Z − log Z_w, the log of the ratio of the evidences.
    pub log_evidence_ratio: f64,
}

/// The effect of the weights e^Δ, which turn draws of π_w into draws of π.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reweighting {
    /// Effective sample size after reweighting, including autocorrelation.
    pub ess: f64,
    /// Importance-sampling efficiency of the weights e^Δ, in (0, 1]: 1/(1 + χ²(π‖π_w)).
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
        /// What has the wrong size.
        what: &'static str,
        /// The size that it has.
        got: usize,
        /// The size it must have.
        expected: usize,
    },
    /// Rows or weights that cannot be used.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// Grades the weighted rows by draws of their own posterior: [`judge`], with Δ from one pass over all rows and the gradient of the
/// weighted posterior under `prior` for the score test.
///
/// # Errors
/// See [`VerdictError`].
pub fn verdict(
    rows: &dyn Rows,
    prior: &Prior,
    coreset: &Weighted,
    draws: &Draws,
    diverged: usize,
) -> Result<Verdict, VerdictError> {
    verdict_without(rows, None, (prior, coreset), draws, diverged)
}

/// The same of a coreset of all rows but some of them.
pub(crate) fn verdict_without(
    rows: &dyn Rows,
    without: Option<&dyn Rows>,
    (prior, coreset): (&Prior, &Weighted),
    draws: &Draws,
    diverged: usize,
) -> Result<Verdict, VerdictError> {
    draws.check(rows.dim())?;
    let anchor = draws.mean();
    let shifts = draws.shifts(&anchor);
    // Δ at each draw less Δ at the anchor, and Δ at the anchor.
    let mut errors = rows.totals(&Totals::new(&anchor, &shifts, rows.len()))?;
    let weighted = coreset.differences(&anchor, &shifts);
    errors.iter_mut().zip(&weighted).for_each(|(error, chosen)| *error -= chosen);
    let here = At { theta: &anchor, derivatives: 0 };
    let mut at_anchor = rows.newton(&here)?.value - coreset.evaluate(&here)?.value;
    if let Some(without) = without {
        let less = without.totals(&Totals::new(&anchor, &shifts, without.len()))?;
        errors.iter_mut().zip(&less).for_each(|(error, less)| *error -= less);
        at_anchor -= without.newton(&here)?.value;
    }
    let scores = if draws.chains.is_some() { Some(scores_of(coreset, prior, draws)?) } else { None };
    let evidence = Evidence { errors, at_anchor, weighted, scores, diverged, ..Evidence::of(draws) };
    judge(evidence)
}

/// The gradient of the weighted log posterior at some of these draws.
fn scores_of(coreset: &Weighted, prior: &Prior, draws: &Draws) -> Result<Scores, RowsError> {
    let draws = draws.thinned(policy::SCORED_DRAWS);
    let gradient_at = |theta: &[f64]| -> Result<Vec<f64>, RowsError> {
        let mut gradient = coreset.evaluate(&At { theta, derivatives: 1 })?.gradient;
        prior.gradient_and_log_density(theta, Some(&mut gradient));
        Ok(gradient)
    };
    let gradients = parallel::map(draws.theta.chunks_exact(draws.dim.max(1)), gradient_at);
    let gradients = gradients.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Scores { gradient: gradients.concat(), draws })
}

/// Grades Δ(θ) = L(θ) − L_w(θ), computed by the caller at draws of π_w from so many chains of equal length, one after the
/// other, or at independent draws. Nothing is known of the parameters: the sampler is taken on trust.
///
/// # Errors
/// See [`VerdictError`].
pub fn verdict_of_errors(errors: &[f64], chains: Option<usize>) -> Result<Verdict, VerdictError> {
    let draws = Draws { theta: Vec::new(), dim: 0, chains, log_weights: None };
    let centre = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let errors = errors.iter().map(|error| error - centre).collect();
    judge(Evidence { errors, at_anchor: centre, ..Evidence::of(&draws) })
}

impl Verdict {
    /// Takes preconditions into account that a caller knows of: no grade stays better than a reason
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

    /// Whether V is more than an A allows.
    pub fn strays(&self) -> bool {
        self.reasons.iter().any(|reason| matches!(reason, Reason::Variance | Reason::Share))
    }

    /// Whether the draws are to be used with its importance weights: a B of draws that stray, not one that has another reservation.
    pub fn is_reweighted(&self) -> bool {
        self.grade == Grade::B && self.strays()
    }

    /// The same with the names of the parameters.
    #[must_use]
    pub fn named(mut self, names: &[String]) -> Self {
        self.moves = self.moves.map(|moves| moves.named(names));
        self
    }

    /// ½V, to leading order either divergence, in nats.
    pub fn nats(&self) -> f64 {
        0.5 * self.divergence.variance
    }
}
