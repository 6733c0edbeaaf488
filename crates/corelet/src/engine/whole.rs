//! All rows in place of a coreset, where nothing smaller stands for them and the model's own sampler on all of them does not take long.

use std::time::Instant;

use super::fit::FAR;
use super::forecast::{LONG, PATIENCE, Rate, full_fit};
use super::gaussian::{Derivatives, FarFromQuadratic};
use super::plan::{LONGER, VERDICT_DRAWS, WHOLE_DRAWS};
use super::rounds::is_slow;
use super::scheme::{Stage, Step, StepListener};
use super::{
    Advice, Interrupted, NotWorthIt, PoolCoreset, Sample, Target, TargetError, TargetFit, Units, Wanted,
};
use crate::study::all_of_them;
use crate::trust::policy::SCORED_DRAWS;
use crate::trust::{Draws, Evidence, Reason, Scores, Verdict, judge};
use crate::words::{count, duration, number};

/// Draws of the posterior of all rows by the model's own sampler, in place of a fit that was not certified: where these take some minutes
/// at most, or no longer than that fit took, or somebody asked for them; else the fit as it is, with a note of what they would take.
///
/// # Errors
/// Errors of the model and the sampler, and those of a tool that knows a faster way.
pub(super) fn instead<T: Target + ?Sized>(
    (target, units): (&T, &Units),
    (seed, advice): (u64, Advice),
    began: Instant,
    mut fit: TargetFit,
    listener: &mut StepListener<'_>,
) -> Result<TargetFit, TargetError> {
    let Some(model) = sampled_by_itself(target) else { return Ok(fit) };
    let expected = sampling(target, model)?;
    target.before_all_rows(expected)?;
    let affordable = expected <= PATIENCE.max(began.elapsed().as_secs_f64());
    if !affordable && advice == Advice::Heeded {
        fit.notes.push(format!(
            "sampling all {} rows would take about {}: force=True does that where a coreset is not certified",
            count(units.rows()),
            duration(expected)
        ));
        return Ok(fit);
    }
    let mut whole = Whole { target, model, listener, remaining: Some(expected), rounds: fit.rounds.len() };
    match whole.sampled(units, seed) {
        Ok(mut found) => {
            found.notes = fit.notes.into_iter().filter(|note| note != FAR).collect();
            found.rounds = fit.rounds;
            found.notes.push(format!(
                "nothing smaller stands for them (V = {} nats²), so all {} rows were sampled",
                number(fit.verdict.divergence.variance),
                count(units.rows())
            ));
            Ok(found)
        }
        Err(error) if target.is_interrupt(&error) || error.is::<Interrupted>() => {
            fit.notes.push("interrupted: the best so far".to_owned());
            Ok(fit)
        }
        Err(error) => {
            fit.notes.push(format!("sampling all rows was tried, but {error}"));
            Ok(fit)
        }
    }
}

/// The same in place of an error that says that a coreset would take longer, or that none will do; that error, where these would be long.
///
/// # Errors
/// That one, those of the model and the sampler, and those of a tool that knows a faster way.
pub(super) fn rather<T: Target + ?Sized>(
    (target, units): (&T, &Units),
    seed: u64,
    error: TargetError,
    listener: &mut StepListener<'_>,
) -> Result<TargetFit, TargetError> {
    let (expected, most) = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(NotWorthIt(forecast)), _) => (forecast.full, LONG),
        (_, Some(FarFromQuadratic { full, .. })) => (Some(*full), f64::INFINITY),
        _ => (None, 0.0),
    };
    let (Some(model), Some(expected)) = (sampled_by_itself(target), expected) else { return Err(error) };
    target.before_all_rows(expected)?;
    if expected > most {
        return Err(error);
    }
    let mut whole = Whole { target, model, listener, remaining: Some(expected), rounds: 0 };
    let mut found = whole.sampled(units, seed)?;
    found.notes.push(format!("{error}: all {} rows were sampled", count(units.rows())));
    Ok(found)
}

/// Whether a model has a sampler of its own, whose chains have a length.
pub(super) fn has_sampler<T: Target + ?Sized>(target: &T) -> bool {
    sampled_by_itself(target).is_some()
}

/// The gradients of such a model.
fn sampled_by_itself<T: Target + ?Sized>(target: &T) -> Option<&dyn Derivatives> {
    target.derivatives().filter(|_| target.final_steps() > 0)
}

/// Seconds that the model's own sampler will take on all rows.
fn sampling<T: Target + ?Sized>(target: &T, model: &dyn Derivatives) -> Result<f64, TargetError> {
    let at = model.starts(1)?;
    let gradient = Rate::of(&at, |at| model.log_likelihood(at, None).map(drop))?;
    let prior = Rate::of(&at, |at| model.log_prior(at).map(drop))?;
    Ok(full_fit(target.final_steps() as f64, gradient, prior))
}

struct Whole<'t, 'l, T: Target + ?Sized> {
    target: &'t T,
    model: &'t dyn Derivatives,
    listener: &'t mut StepListener<'l>,
    remaining: Option<f64>,
    rounds: usize,
}

impl<T: Target + ?Sized> Whole<'_, '_, T> {
    fn tell(&mut self, stage: Stage, k: usize) -> Result<(), TargetError> {
        let remaining = self.remaining.take();
        let step =
            Step { stage, round: self.rounds, k, variance: None, shift: None, remaining, forecast: None };
        match (self.listener)(&step) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(()) => Err(Box::new(Interrupted)),
        }
    }

    fn sampled(&mut self, units: &Units, seed: u64) -> Result<TargetFit, TargetError> {
        let n = units.rows();
        let (rows, row_weights): (Vec<usize>, Vec<f64>) = ((0..n).collect(), vec![1.0; n]);
        let wanted = Wanted::Final { draws: WHOLE_DRAWS };
        self.tell(Stage::AllRows, units.len())?;
        let mut draws = self.target.sample(&rows, &row_weights, None, wanted)?;
        let mut verdict = self.judged(&draws)?;
        for _ in 0..LONGER {
            if !is_slow(&verdict) {
                break;
            }
            self.tell(Stage::MoreChains, units.len())?;
            draws = draws.and(&self.target.sample(&rows, &row_weights, Some(&draws), wanted)?);
            verdict = self.judged(&draws)?;
        }
        let coreset = PoolCoreset {
            units: (0..units.len()).collect(),
            weights: vec![1.0; units.len()],
            rows,
            row_weights,
            summary: all_of_them(n, units.are_groups().then_some(units.len()), seed),
            fingerprint: None,
            rest: None,
        };
        Ok(TargetFit { coreset, verdict, draws, rounds: Vec::new(), notes: Vec::new() })
    }

    /// There is no error of the log-likelihood: the chains are what is judged.
    fn judged(&self, draws: &Sample) -> Result<Verdict, TargetError> {
        let seen = draws.thinned(VERDICT_DRAWS);
        let points = self.model.unconstrained(&seen)?;
        let totals = self.model.log_likelihood(&points, None)?.values;
        let some = draws.thinned(SCORED_DRAWS);
        let theta = self.model.unconstrained(&some)?;
        let mut gradient = self.model.log_likelihood(&theta, None)?.gradients;
        let prior = self.model.log_prior(&theta)?.gradients;
        gradient.iter_mut().zip(&prior).for_each(|(sum, x)| *sum += x);
        let scored = Draws { theta, dim: self.model.dimension(), ..some.draws };
        let found = if draws.chained { Vec::new() } else { vec![Reason::NoChains] };
        Ok(judge(Evidence {
            all: Some(&draws.draws),
            errors: vec![0.0; seen.len()],
            weighted: totals,
            scores: Some(Scores { draws: scored, gradient }),
            diverged: draws.diverged,
            found,
            ..Evidence::of(&seen.draws)
        })?)
    }
}
