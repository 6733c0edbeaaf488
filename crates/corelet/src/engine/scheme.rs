//! What the rounds ask of a kind of model, what they tell, and what they come to.

use std::ops::ControlFlow;

use thiserror::Error;

use super::plan::RESTARTS;
use super::{Plan, TargetError};
use crate::trust::{Reason, Verdict};
use crate::words::{Forecast, does_not_pay};

/// How a kind of model is approximated: what the rounds ask for.
pub trait Scheme {
    /// Weighted rows.
    type Coreset;
    /// Draws of a posterior.
    type Draws: Clone;
    /// What a pass over all rows at some draws found.
    type Seen;

    /// Rows, or groups, that there are to choose from.
    fn units(&self) -> usize;

    /// What is asked for.
    fn plan(&self) -> &Plan;

    /// Whether chains of full length cost no more than another pass over all rows, so that a round had better have them.
    fn full_length(&self, k: usize) -> bool;

    /// Whether as many draws as were asked for are handed over even where the posterior is nowhere near.
    fn full_draws(&self) -> bool {
        true
    }

    /// Whether more than k points may do what k did not, with which V is this.
    fn grows(&self, _k: usize, _variance: f64) -> bool {
        true
    }

    /// Changes how coresets are made where what is wrong asks for that, and says so: the next round is of the same k.
    fn mended(&mut self, _verdict: &Verdict) -> Option<&'static str> {
        None
    }

    /// How often a pilot may be repeated on more rows.
    fn restarts(&self) -> usize {
        RESTARTS
    }

    /// What the rounds will take, from draws where there are some and the seconds that a pilot took; none if nothing can be said yet.
    ///
    /// # Errors
    /// Errors of the model.
    fn forecast(
        &mut self,
        _from: Option<&Self::Draws>,
        _pilot_seconds: f64,
    ) -> Result<Option<Forecast>, TargetError> {
        Ok(None)
    }

    /// Draws given some unweighted rows; none where coresets are built without draws.
    ///
    /// # Errors
    /// Errors of the model.
    fn pilot(&mut self, rows: usize, k: usize) -> Result<Option<Pilot<Self::Draws>>, TargetError>;

    /// A pass over all rows at these draws.
    ///
    /// # Errors
    /// Errors of the model.
    fn look(
        &mut self,
        draws: &Self::Draws,
        coreset: Option<&Self::Coreset>,
        k: usize,
    ) -> Result<Self::Seen, TargetError>;

    /// At most k points.
    ///
    /// # Errors
    /// Errors of the model and the solver.
    fn build(&mut self, k: usize, seen: Option<&Self::Seen>) -> Result<Self::Coreset, TargetError>;

    /// Draws of the coreset's posterior.
    ///
    /// # Errors
    /// Errors of the sampler.
    fn sample(
        &mut self,
        coreset: &Self::Coreset,
        start: Option<&Self::Draws>,
        k: usize,
        full: bool,
    ) -> Result<Self::Draws, TargetError>;

    /// The verdict of a round.
    ///
    /// # Errors
    /// Errors of the model.
    fn verdict(
        &mut self,
        coreset: &Self::Coreset,
        draws: &Self::Draws,
        seen: &Self::Seen,
        found: Vec<Reason>,
    ) -> Result<Verdict, TargetError>;

    /// The verdict by the final chains.
    ///
    /// # Errors
    /// Errors of the model.
    fn final_verdict(
        &mut self,
        coreset: &Self::Coreset,
        draws: &Self::Draws,
        found: Vec<Reason>,
        k: usize,
    ) -> Result<Verdict, TargetError>;

    /// Number of points.
    fn points(coreset: &Self::Coreset) -> usize;

    /// The largest shift of a mean in standard deviations, and the largest ratio of standard deviations.
    fn moved(new: &Self::Draws, old: &Self::Draws) -> (f64, f64);

    /// Whether coresets are built at draws of earlier ones, so that a round may be repeated where its posterior is; and chains be
    /// run on, and confirmed by others.
    const BY_DRAWS: bool;

    /// Chains with others after them.
    fn join(first: &Self::Draws, more: &Self::Draws) -> Self::Draws;

    /// Whether the work was interrupted by the user.
    fn is_interrupt(&self, error: &TargetError) -> bool {
        error.is::<Interrupted>()
    }

    /// Whether another coreset may be free of this error of the sampler.
    fn may_retry(&self, _error: &TargetError) -> bool {
        false
    }
}

/// Draws to begin with.
pub struct Pilot<D> {
    /// The draws.
    pub draws: D,
    /// Whether their chains ended up in different places.
    pub apart: bool,
}

/// The listener asked to stop.
#[derive(Debug, Clone, Copy, Error)]
#[error("stopped")]
pub struct Interrupted;

/// A fit of all rows would be clearly faster, and this one is long.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("{}", does_not_pay(.0))]
pub struct NotWorthIt(pub Forecast);

/// What a fit does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Timing the model.
    Forecast,
    /// Sampling some unweighted rows.
    Pilot,
    /// Choosing points.
    Building,
    /// Sampling the coreset's posterior.
    Sampling,
    /// A pass over all rows.
    Looking,
    /// The chains that are handed over.
    FinalChains,
    /// More of these.
    MoreChains,
    /// Chains of all rows.
    AllRows,
    /// The verdict by these.
    Verdict,
}

impl Stage {
    /// The stage in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Forecast => "forecast",
            Self::Pilot => "pilot",
            Self::Building => "building",
            Self::Sampling => "sampling",
            Self::Looking => "a pass over all rows",
            Self::FinalChains => "the final chains",
            Self::MoreChains => "more of the final chains",
            Self::AllRows => "sampling all rows",
            Self::Verdict => "the verdict",
        }
    }
}

/// Where a fit stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The current stage.
    pub stage: Stage,
    /// Which round, from 1; 0 before the first.
    pub round: usize,
    /// Most points at present.
    pub k: usize,
    /// V of the last round, in nats².
    pub variance: Option<f64>,
    /// By how much the last round moved the means, at most, in posterior standard deviations.
    pub shift: Option<f64>,
    /// Seconds that it will still take: as expected at first, then by what the rounds so far took; none if that is not known.
    pub remaining: Option<f64>,
    /// What it is expected to take, when that has just been found.
    pub forecast: Option<Forecast>,
}

/// Hears where a fit stands, and says whether to go on.
pub type StepListener<'l> = dyn FnMut(&Step) -> ControlFlow<()> + 'l;

/// One coreset, sampled and judged by its own draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Most points that were allowed.
    pub k: usize,
    /// Points chosen.
    pub points: usize,
    /// Draws that it was judged by.
    pub draws: usize,
    /// V = Var(L − L_w) over draws of its own posterior, in nats².
    pub variance: f64,
    /// The upper end of V's one-sided 95 % interval.
    pub variance_upper: f64,
    /// By how much the means moved from the draws that it was built on, at most, in posterior standard deviations; NaN if it was
    /// built on none.
    pub shift: f64,
    /// By what factor a standard deviation changed, at most.
    pub scale: f64,
    /// The largest R̂.
    pub r_hat: f64,
    /// Seconds of `build`, `sample`, `look`, `judge`, and of the `final chains` and their `verdict`.
    pub seconds: Vec<(&'static str, f64)>,
    /// Whether its chains were as long as the final ones.
    pub full_length: bool,
    /// What was done then, and why.
    pub next: String,
}

/// The round that is handed over.
pub struct Best<S: Scheme> {
    /// The coreset of this round.
    pub coreset: S::Coreset,
    /// Draws of its posterior.
    pub draws: S::Draws,
    /// The verdict by these.
    pub verdict: Verdict,
    /// Which of the rounds, from 0.
    pub round: usize,
}

/// What a fit came to.
pub struct Fitted<S: Scheme> {
    /// The best round.
    pub best: Best<S>,
    /// Every round.
    pub rounds: Vec<Round>,
    /// What should not be overlooked.
    pub notes: Vec<String>,
    /// Whether the user stopped it.
    pub interrupted: bool,
}
