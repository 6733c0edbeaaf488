//! Which schemes are tried on a target, in which order, and what a fit of it comes to.

use std::time::Instant;

use super::gaussian::{Expanded, FarFromQuadratic};
use super::plan::{MOST_BY_ROWS, STRAYED};
use super::rounds;
use super::unseen::{Unseen, unseen_mode};
use super::whole::{has_sampler, instead, rather};
use super::{
    Advice, Best, Fitted, Interrupted, NotWorthIt, Plan, PoolCoreset, Pooled, Round, Sample, Step,
    StepListener, Target, TargetError, Units,
};
use crate::coreset::RestChoice;
use crate::trust::{Grade, Reason, Verdict};

/// Where a Gaussian is far off and rows cannot make up for it.
pub(super) const FAR: &str = "as a function of these parameters the log-likelihood is far from quadratic: there are few rows for some of them, or they \
                   act through products of each other; sample all rows, or write the model so that each parameter is well determined by itself";

/// The posterior of a target, certified or not.
pub struct TargetFit {
    /// Weighted rows, or the Gaussian in place of all.
    pub coreset: PoolCoreset,
    /// The verdict on them.
    pub verdict: Verdict,
    /// Draws of their posterior.
    pub draws: Sample,
    /// All rounds.
    pub rounds: Vec<Round>,
    /// What should not be overlooked.
    pub notes: Vec<String>,
}

impl TargetFit {
    /// The draws that the verdict allows to use, and whether importance weights chose among them, as a B asks for.
    pub fn posterior(self) -> (Sample, bool) {
        match self.verdict.is_reweighted() {
            true => (self.draws.thinned(self.verdict.draws).resampled(&self.verdict.log_weights), true),
            false => (self.draws, false),
        }
    }
}

/// Rounds by the scheme that suits, and a search for modes that the draws have not: their chains may all have begun in one basin.
///
/// # Errors
/// Errors of the model, the sampler and the solver; and a Gaussian that is asked of a model without gradients.
pub fn fit<T: Target + ?Sized>(
    target: &T,
    units: Units,
    plan: Plan,
    rest: RestChoice,
    given: Option<Sample>,
    listener: &mut StepListener<'_>,
) -> Result<TargetFit, TargetError> {
    let (seed, advice, all, began) = (plan.seed, plan.advice, units.clone(), Instant::now());
    let mut fit = match in_rounds(target, units, plan, rest, given, listener) {
        Err(error) if rest == RestChoice::Auto => rather((target, &all), seed, error, listener)?,
        made => made?,
    };
    if rest == RestChoice::Auto && uncertified(&fit) {
        fit = instead((target, &all), (seed, advice), began, fit, listener)?;
    }
    if fit.verdict.grade == Grade::C {
        return Ok(fit);
    }
    if let Some(Unseen { reason, words }) = unseen_mode(target, &all, &fit.draws, seed)? {
        fit.verdict = fit.verdict.with(&[reason]);
        fit.notes.push(words);
    }
    Ok(fit)
}

/// Rounds by the scheme that suits: rows alone must match p + p(p + 1)/2 numbers to have orders 1 and 2 of the log-likelihood right, and
/// where that is more than k, [`RestChoice::Auto`] tries a Gaussian in place of all rows first, which has them exactly.
///
/// # Errors
/// Errors of the model, the sampler and the solver; and a Gaussian that is asked of a model without gradients.
fn in_rounds<T: Target + ?Sized>(
    target: &T,
    units: Units,
    plan: Plan,
    rest: RestChoice,
    given: Option<Sample>,
    listener: &mut StepListener<'_>,
) -> Result<TargetFit, TargetError> {
    let dim = target.derivatives().map(super::Derivatives::dimension);
    let wanted = gaussian_first(rest, dim.unwrap_or(0), plan.k);
    if wanted && dim.is_none() {
        return Err(
            "a Gaussian in place of the rows takes gradients of the log-likelihood, which this model has not"
                .into(),
        );
    }
    if !wanted {
        return by_rows(target, units, plan, given, listener);
    }
    let gives_up = rest == RestChoice::Auto && plan.advice == Advice::Heeded && has_sampler(target);
    let before = by_gaussians(target, &units, (&plan, gives_up), given.clone(), listener);
    let few = dim.is_some_and(|dim| dim <= MOST_BY_ROWS);
    match before {
        Err(error) if rest == RestChoice::Auto && !stopped(target, &error) && !says_no(&error) => {
            let mut fitted = by_rows(target, units, plan, given, listener)?;
            fitted.notes.insert(0, format!("a Gaussian in place of the rows was tried first, but {error}"));
            Ok(fitted)
        }
        Err(error) => Err(error),
        Ok((first, interrupted)) => {
            let enough = rest == RestChoice::Gaussian || interrupted || !wants_rows(&first.verdict);
            if enough || !few {
                return Ok(first);
            }
            // Its posterior is where a pilot would lead, unless it is nowhere.
            let given = if is_somewhere(&first) { Some(first.draws.clone()) } else { given };
            let before = first.rounds.len();
            let plan = if gives_up { Plan { advice: Advice::Pressed, ..plan } } else { plan };
            let second = by_rows(target, units, plan, given, &mut |step| listener(&after(step, before)));
            Ok(beyond(target, first, second, "in its place"))
        }
    }
}

/// Whether a Gaussian in place of all rows is tried before rows, of a model whose gradients have so many coordinates.
pub fn gaussian_first(rest: RestChoice, dim: usize, k: usize) -> bool {
    match rest {
        RestChoice::None => false,
        RestChoice::Gaussian => true,
        RestChoice::Auto => is_many(dim, k),
    }
}

/// Whether k rows have fewer weights than there are numbers in orders 1 and 2 of the log-likelihood of so many parameters.
fn is_many(dim: usize, k: usize) -> bool {
    dim * (dim + 3) / 2 > k
}

fn by_rows<T: Target + ?Sized>(
    target: &T,
    units: Units,
    plan: Plan,
    given: Option<Sample>,
    listener: &mut StepListener<'_>,
) -> Result<TargetFit, TargetError> {
    let Fitted { best, rounds, notes, .. } = rounds(&mut Pooled::new(target, units, plan), given, listener)?;
    let Best { coreset, draws, verdict, .. } = best;
    Ok(TargetFit { coreset, verdict, draws, rounds, notes })
}

fn by_gaussian<T: Target + ?Sized>(
    (target, units): (&T, &Units),
    (plan, gives_up): (Plan, bool),
    alone: f64,
    given: Option<Sample>,
    listener: &mut StepListener<'_>,
) -> Result<(TargetFit, bool), TargetError> {
    let Some(scheme) = Expanded::new(target, units.clone(), plan) else {
        return Err("the model has no gradient".into());
    };
    let mut scheme = scheme.beside(alone).giving_up(gives_up);
    let Fitted { best, rounds, notes, interrupted } = rounds(&mut scheme, given, listener)?;
    let Best { coreset, draws, verdict, .. } = best;
    let coreset = scheme.coreset(&coreset)?;
    Ok((TargetFit { coreset, verdict, draws, rounds, notes }, interrupted))
}

/// A Gaussian alone; where V asks for it, up to k rows beside it, and more.
fn by_gaussians<T: Target + ?Sized>(
    target: &T,
    units: &Units,
    (plan, gives_up): (&Plan, bool),
    given: Option<Sample>,
    listener: &mut StepListener<'_>,
) -> Result<(TargetFit, bool), TargetError> {
    let alone = Plan { k: 0, max_k: 0, ..plan.clone() };
    let (mut first, interrupted) =
        by_gaussian((target, units), (alone, gives_up), f64::INFINITY, given, listener)?;
    if interrupted || !first.verdict.strays() {
        return Ok((first, interrupted));
    }
    let variance = first.verdict.divergence.variance;
    // Rows beside the Gaussian are chosen by coordinates, and its effects may be others.
    let by_effects = target.derivatives().is_some_and(|model| model.effects().is_some());
    if !is_somewhere(&first) || variance > STRAYED || by_effects {
        if variance > STRAYED {
            first.notes.push(FAR.to_owned());
        }
        return Ok((first, interrupted));
    }
    let before = first.rounds.len();
    let advice = if gives_up { Advice::Pressed } else { plan.advice };
    let second = by_gaussian(
        (target, units),
        (Plan { advice, ..plan.clone() }, false),
        variance,
        Some(first.draws.clone()),
        &mut |step| listener(&after(step, before)),
    );
    let (second, interrupted) = match second {
        Ok((second, interrupted)) => (Ok(second), interrupted),
        Err(error) => {
            let interrupted = stopped(target, &error);
            (Err(error), interrupted)
        }
    };
    Ok((beyond(target, first, second, "beside it"), interrupted))
}

/// A step of rounds that come after so many others.
fn after(step: &Step, before: usize) -> Step {
    let round = if step.round == 0 { 0 } else { before + step.round };
    Step { round, ..step.clone() }
}

/// The better of a fit and another that went on from it; the first where the other came to nothing, with a note why.
fn beyond<T: Target + ?Sized>(
    target: &T,
    mut first: TargetFit,
    second: Result<TargetFit, TargetError>,
    how: &str,
) -> TargetFit {
    let error = match second {
        Ok(second) => return better(first, second, how),
        Err(error) => error,
    };
    first.notes.push(if stopped(target, &error) {
        "interrupted: the best so far".to_owned()
    } else if error.is::<NotWorthIt>() {
        format!("weighted rows {how} were not tried (force=True tries them): {error}")
    } else {
        format!("weighted rows {how} were tried, but {error}")
    });
    first
}

/// Whether it says that all rows had better be sampled.
fn says_no(error: &TargetError) -> bool {
    error.is::<NotWorthIt>() || error.is::<FarFromQuadratic>()
}

/// Whether the user wished to stop.
fn stopped<T: Target + ?Sized>(target: &T, error: &TargetError) -> bool {
    target.is_interrupt(error) || error.is::<Interrupted>()
}

/// Whether nothing smaller than all rows was found to stand for them, and that is what is wrong.
fn uncertified(fit: &TargetFit) -> bool {
    let interrupted = fit.notes.iter().any(|note| note.starts_with("interrupted"));
    let modes = fit.verdict.reasons.contains(&Reason::SecondMode);
    fit.verdict.grade == Grade::C && fit.verdict.strays() && !interrupted && !modes
}

/// Whether weighted rows may get a better grade.
fn wants_rows(verdict: &Verdict) -> bool {
    verdict.grade == Grade::C || verdict.strays()
}

/// Whether its posterior is one from which others may begin.
fn is_somewhere(fit: &TargetFit) -> bool {
    fit.verdict.divergence.variance.is_finite() && fit.verdict.mixing.is_some_and(|mixing| mixing.mixed())
}

/// The better of a fit by a Gaussian and one by rows, beside it or in its place, with the rounds of both.
fn better(first: TargetFit, second: TargetFit, how: &str) -> TargetFit {
    let upper = |fit: &TargetFit| fit.verdict.divergence.variance_upper;
    let is_first = (first.verdict.grade, upper(&first)) < (second.verdict.grade, upper(&second));
    let rounds = [first.rounds.clone(), second.rounds.clone()].concat();
    let mut notes = [first.notes.clone(), second.notes.clone()].concat();
    if is_first {
        notes
            .push(format!("weighted rows {how} came no nearer than a Gaussian for all rows, which was kept"));
    }
    TargetFit { rounds, notes, ..if is_first { first } else { second } }
}
