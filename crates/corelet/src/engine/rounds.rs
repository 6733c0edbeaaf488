//! The rounds of a fit: build, sample, look at all rows, judge, and what to do next. The only loop there is.
//!
//! A coreset built at draws of some posterior agrees with all rows there, to first and second order and beyond. Sampled, it
//! leads nearer to the posterior of all rows, where the next one is built: a round is a Newton step on whole posteriors.

use std::ops::ControlFlow;
use std::time::Instant;

use super::forecast::{Advice, Outlook, outlook};
use super::plan::{APART, CONFIRMED, FALLS, LARGER_PILOT, LONGER, MOVED_SCALE, MOVED_SHIFT, STRAYED};
use super::{
    Best, Fitted, Interrupted, NotWorthIt, Pilot, Plan, Round, Scheme, Stage, Step, StepListener, TargetError,
};
use crate::trust::{Grade, Reason, TRUSTED_SHARE, TRUSTED_VARIANCE, Verdict};
use crate::words::{Forecast, does_not_pay};

/// Rounds until one is certified, or nothing helps; an interrupt ends with the best so far. `given` are draws to begin with in place
/// of a pilot.
///
/// # Errors
/// Errors of the model, the sampler and the solver.
pub fn rounds<S: Scheme>(
    scheme: &mut S,
    given: Option<S::Draws>,
    listener: &mut StepListener<'_>,
) -> Result<Fitted<S>, TargetError> {
    let plan = scheme.plan().clone();
    let restarts_left = if given.is_some() { 0 } else { scheme.restarts() };
    let mut under_way = UnderWay {
        k: plan.k,
        pilot_rows: plan.pilot,
        plan,
        scheme,
        listener,
        restarts_left,
        apart: false,
        made: Vec::new(),
        best: None,
        notes: Vec::new(),
        pilot_seconds: 0.0,
        pass_seconds: 0.0,
        expected: None,
    };
    let mut interrupted = false;
    match under_way.run(given) {
        Ok(()) => {}
        Err(error) if under_way.scheme.is_interrupt(&error) && under_way.best.is_some() => {
            interrupted = true;
            under_way.notes.push("interrupted: the best so far".to_owned());
        }
        Err(error) => return Err(error),
    }
    let UnderWay { made, best, notes, .. } = under_way;
    let best = best.ok_or("no round came to an end")?;
    Ok(Fitted { best, rounds: made, notes, interrupted })
}

/// What to do after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Finish,
    Again,
    MorePoints,
    Restart,
    Stop,
}

struct UnderWay<'a, 'l, S: Scheme> {
    scheme: &'a mut S,
    listener: &'a mut StepListener<'l>,
    plan: Plan,
    k: usize,
    pilot_rows: usize,
    restarts_left: usize,
    /// Whether the chains of the pilot stayed apart.
    apart: bool,
    made: Vec<Round>,
    best: Option<Best<S>>,
    notes: Vec<String>,
    pilot_seconds: f64,
    pass_seconds: f64,
    expected: Option<Expected>,
}

/// What was forecast, until a round is known.
struct Expected {
    /// Since when.
    since: Instant,
    /// Seconds of the rounds.
    call: f64,
    /// Seconds of a pilot that is drawn again before them.
    pilot: f64,
}

impl<S: Scheme> UnderWay<'_, '_, S> {
    fn run(&mut self, given: Option<S::Draws>) -> Result<(), TargetError> {
        self.forecast(given.as_ref())?;
        let mut from = match given {
            Some(draws) => Some(draws),
            None => self.pilot()?,
        };
        if self.expected.is_none() {
            self.forecast(from.as_ref())?;
        }
        let mut seen = self.look_from(from.as_ref(), None)?;
        loop {
            let (coreset, new, mut seconds) = match self.coreset(seen.as_ref(), from.as_ref()) {
                Ok(made) => made,
                Err(error) if self.restarts_left > 0 && self.scheme.may_retry(&error) => {
                    let words = error.to_string();
                    self.notes.push(format!(
                        "round {}: the sampler failed on the weighted rows ({}), so a larger pilot was drawn",
                        self.made.len() + 1,
                        words.lines().next().unwrap_or_default()
                    ));
                    (from, seen) = self.restart()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (looked, took) =
                self.timed(Stage::Looking, |scheme, k| scheme.look(&new, Some(&coreset), k))?;
            seconds.push(("look", took));
            let clock = Instant::now();
            let verdict = self.scheme.verdict(&coreset, &new, &looked, self.found())?;
            seconds.push(("judge", clock.elapsed().as_secs_f64()));
            let round = self.recorded(&coreset, &new, from.as_ref(), &verdict, seconds);
            let (next, words) = match self.scheme.mended(&verdict) {
                Some(words) => (Next::Again, words.to_owned()),
                None => self.next(&round, &verdict),
            };
            self.made.push(Round { next: words, ..round });
            let this = Best { coreset, draws: new, verdict, round: self.made.len() - 1 };
            match next {
                Next::Stop => {
                    let this = self.better(this);
                    return self.finish(this);
                }
                Next::Finish => {
                    self.finish(this)?;
                    let Some(last) = self.best.take() else { return Ok(()) };
                    let taken_back = last.verdict.reasons.contains(&Reason::Variance);
                    if !taken_back || self.made.len() >= self.plan.max_rounds {
                        self.best = Some(last);
                        return Ok(());
                    }
                    "the final chains took the certificate back: another round"
                        .clone_into(&mut self.made[last.round].next);
                    let looked = self.look_from(Some(&last.draws), Some(&last.coreset));
                    from = self.keep(last);
                    seen = looked?;
                }
                Next::Restart => {
                    self.keep(this);
                    (from, seen) = self.restart()?;
                }
                Next::MorePoints => {
                    self.k = (2 * self.k).min(self.plan.max_k).min(self.scheme.units());
                    // Kept whatever comes of the look, which may be interrupted.
                    let looked = self.look_from(Some(&this.draws), Some(&this.coreset));
                    from = self.keep(this);
                    seen = looked?;
                }
                Next::Again => {
                    seen = Some(looked);
                    from = self.keep(this);
                }
            }
        }
    }

    /// Tells what the rounds will take. An error where that is long and does not pay, unless it was asked for nevertheless.
    fn forecast(&mut self, from: Option<&S::Draws>) -> Result<(), TargetError> {
        if self.plan.advice == Advice::Silent {
            return Ok(());
        }
        let Some(forecast) = self.scheme.forecast(from, self.pilot_seconds)? else { return Ok(()) };
        self.expected = Some(Expected { since: Instant::now(), call: forecast.call, pilot: 0.0 });
        if outlook(&forecast) != Outlook::Pays {
            self.notes.push(does_not_pay(&forecast));
        }
        if self.plan.advice.refuses(&forecast) {
            return Err(Box::new(NotWorthIt(forecast)));
        }
        self.tell(Stage::Forecast, Some(forecast))
    }

    /// A coreset and draws of its posterior, with the seconds that each took.
    #[allow(clippy::type_complexity, reason = "what one step hands to the next")]
    fn coreset(
        &mut self,
        seen: Option<&S::Seen>,
        from: Option<&S::Draws>,
    ) -> Result<(S::Coreset, S::Draws, Vec<(&'static str, f64)>), TargetError> {
        let (coreset, built) = self.timed(Stage::Building, |scheme, k| scheme.build(k, seen))?;
        let full = self.scheme.full_length(self.k);
        let (new, sampled) =
            self.timed(Stage::Sampling, |scheme, k| scheme.sample(&coreset, from, k, full))?;
        Ok((coreset, new, vec![("build", built), ("sample", sampled)]))
    }

    fn recorded(
        &self,
        coreset: &S::Coreset,
        new: &S::Draws,
        from: Option<&S::Draws>,
        verdict: &Verdict,
        seconds: Vec<(&'static str, f64)>,
    ) -> Round {
        let (shift, scale) = from.map_or((f64::NAN, f64::NAN), |from| S::moved(new, from));
        Round {
            k: self.k,
            points: S::points(coreset),
            draws: verdict.draws,
            variance: verdict.divergence.variance,
            variance_upper: verdict.divergence.variance_upper,
            shift,
            scale,
            r_hat: verdict.mixing.map_or(f64::NAN, |mixing| mixing.r_hat),
            seconds,
            full_length: self.scheme.full_length(self.k),
            next: String::new(),
        }
    }

    /// What to do after this round, and why.
    fn next(&self, round: &Round, verdict: &Verdict) -> (Next, String) {
        let (step, words) = self.wished(round, verdict);
        if self.made.len() + 1 >= self.plan.max_rounds && !matches!(step, Next::Finish | Next::Stop) {
            return (Next::Stop, format!("no more than {} rounds (max_rounds)", self.plan.max_rounds));
        }
        (step, words)
    }

    fn wished(&self, round: &Round, verdict: &Verdict) -> (Next, String) {
        let before = self.made.last().map_or(f64::INFINITY, |last| last.variance);
        let falls = round.variance < FALLS * before;
        let most = self.plan.max_k.min(self.scheme.units());
        if certified(verdict) {
            let words = match is_final::<S>(round, verdict) {
                true if verdict.grade == Grade::C => "V is small: nothing more to gain by points",
                true => "certified",
                false => "certified: the final chains",
            };
            return (Next::Finish, words.to_owned());
        }
        let strayed = !round.variance.is_finite() || round.variance > STRAYED.max(FALLS * before);
        if S::BY_DRAWS && self.restarts_left > 0 && strayed {
            return (Next::Restart, "it strayed: the pilot had too few rows, so a larger one".to_owned());
        }
        let moved = round.shift > MOVED_SHIFT || round.scale > MOVED_SCALE;
        if S::BY_DRAWS && moved && falls {
            let words = "its posterior moved away from the draws it was built on: another round there";
            return (Next::Again, words.to_owned());
        }
        if !S::BY_DRAWS && verdict.reasons.iter().any(|reason| is_of_chains(*reason)) {
            return (Next::Stop, "the chains are at fault, which more points would not mend".to_owned());
        }
        if self.k < most && (falls || self.scheme.grows(self.k, round.variance)) {
            let more = (2 * self.k).min(most);
            return (Next::MorePoints, format!("V is still large: {more} points"));
        }
        if S::BY_DRAWS && falls {
            return (Next::Again, "V still falls: another round".to_owned());
        }
        let words = match self.k {
            0 => "V is still large, and no longer falls".to_owned(),
            k if k < most => format!("V is still large, and {k} points beside the Gaussian do not halve it"),
            k => format!("V is still large with {k} points, the most allowed (max_k)"),
        };
        (Next::Stop, words)
    }

    /// Hands this round over, after its final chains and the verdict by them.
    fn finish(&mut self, mut this: Best<S>) -> Result<(), TargetError> {
        let result = self.final_chains(&mut this);
        let Verdict { divergence, draws, mixing, .. } = &this.verdict;
        let round = &mut self.made[this.round];
        (round.variance, round.variance_upper) = (divergence.variance, divergence.variance_upper);
        round.draws = *draws;
        round.r_hat = mixing.map_or(f64::NAN, |mixing| mixing.r_hat);
        self.best = Some(this);
        result
    }

    /// The final chains of a round's coreset, and the verdict by them; as long again where they only mix slowly.
    fn final_chains(&mut self, this: &mut Best<S>) -> Result<(), TargetError> {
        if !S::BY_DRAWS {
            return Ok(());
        }
        // Of a posterior that is nowhere near, longer chains would say no more.
        let lost = self.made[this.round].variance > STRAYED && !self.scheme.full_draws();
        if !lost && !is_final::<S>(&self.made[this.round], &this.verdict) {
            let chains = self.chains(this, Stage::FinalChains)?;
            self.take(this, chains)?;
        }
        for _ in 0..LONGER {
            if !is_slow(&this.verdict) {
                break;
            }
            let (more, took) = self.chains(this, Stage::MoreChains)?;
            self.take(this, (S::join(&this.draws, &more), took))?;
        }
        Ok(())
    }

    fn chains(&mut self, this: &Best<S>, stage: Stage) -> Result<(S::Draws, f64), TargetError> {
        self.timed(stage, |scheme, k| scheme.sample(&this.coreset, Some(&this.draws), k, true))
    }

    /// Judges these draws, and takes them in place of those of the round.
    fn take(&mut self, this: &mut Best<S>, (draws, sampled): (S::Draws, f64)) -> Result<(), TargetError> {
        let found = self.found();
        let (verdict, judged) =
            self.timed(Stage::Verdict, |scheme, k| scheme.final_verdict(&this.coreset, &draws, found, k))?;
        (this.draws, this.verdict) = (draws, verdict);
        self.made[this.round].seconds.extend([("final chains", sampled), ("verdict", judged)]);
        Ok(())
    }

    /// Keeps a round where it is the best so far. Its draws, from which the next goes on.
    fn keep(&mut self, this: Best<S>) -> Option<S::Draws> {
        let draws = this.draws.clone();
        if self.better_than_best(&this) {
            self.best = Some(this);
        }
        Some(draws)
    }

    fn better_than_best(&self, this: &Best<S>) -> bool {
        let upper = |round: usize| self.made[round].variance_upper;
        self.best.as_ref().is_none_or(|best| {
            (this.verdict.grade, upper(this.round)) <= (best.verdict.grade, upper(best.round))
        })
    }

    /// The better of this round and the best before it.
    fn better(&mut self, this: Best<S>) -> Best<S> {
        if self.better_than_best(&this) { this } else { self.best.take().unwrap_or(this) }
    }

    fn found(&self) -> Vec<Reason> {
        if self.apart { vec![Reason::PilotNotMixed] } else { Vec::new() }
    }

    /// Draws given some unweighted rows; where chains end up in different places, given more rows.
    fn pilot(&mut self) -> Result<Option<S::Draws>, TargetError> {
        loop {
            let rows = self.pilot_rows;
            let (pilot, took) = self.timed(Stage::Pilot, |scheme, k| scheme.pilot(rows, k))?;
            let Some(Pilot { draws, apart }) = pilot else { return Ok(None) };
            (self.apart, self.pilot_seconds) = (apart, took);
            let larger = self.pilot_rows * LARGER_PILOT;
            if !(apart && self.restarts_left > 0 && larger < self.scheme.units() / 2) {
                return Ok(Some(draws));
            }
            self.restarts_left -= 1;
            self.pilot_rows = larger;
            self.notes
                .push(format!("the chains of the pilot stayed apart, so one of {larger} rows was drawn"));
        }
    }

    #[allow(clippy::type_complexity, reason = "draws, and what a pass at them found")]
    fn restart(&mut self) -> Result<(Option<S::Draws>, Option<S::Seen>), TargetError> {
        self.restarts_left -= 1;
        self.pilot_rows *= LARGER_PILOT;
        if self.pilot_rows >= self.scheme.units() / 2 {
            self.restarts_left = 0;
        }
        if let Some(expected) = &mut self.expected {
            (expected.since, expected.pilot) = (Instant::now(), LARGER_PILOT as f64 * self.pilot_seconds);
        }
        let draws = self.pilot()?;
        let seen = self.look_from(draws.as_ref(), None)?;
        Ok((draws, seen))
    }

    fn look_from(
        &mut self,
        draws: Option<&S::Draws>,
        coreset: Option<&S::Coreset>,
    ) -> Result<Option<S::Seen>, TargetError> {
        let Some(draws) = draws else { return Ok(None) };
        let (seen, took) = self.timed(Stage::Looking, |scheme, k| scheme.look(draws, coreset, k))?;
        self.pass_seconds = took;
        Ok(Some(seen))
    }

    /// Tells what is done now, does it, and says how long it took.
    fn timed<R>(
        &mut self,
        stage: Stage,
        work: impl FnOnce(&mut S, usize) -> Result<R, TargetError>,
    ) -> Result<(R, f64), TargetError> {
        self.tell(stage, None)?;
        let clock = Instant::now();
        let result = work(self.scheme, self.k)?;
        Ok((result, clock.elapsed().as_secs_f64()))
    }

    fn tell(&mut self, stage: Stage, forecast: Option<Forecast>) -> Result<(), TargetError> {
        let last = self.made.last();
        let step = Step {
            stage,
            round: match stage {
                Stage::Forecast | Stage::Pilot => 0,
                _ => self.made.len() + usize::from(stage < Stage::FinalChains),
            },
            k: self.k,
            variance: last.map(|last| last.variance),
            shift: last.map(|last| last.shift).filter(|shift| !shift.is_nan()),
            remaining: self.remaining(stage),
            forecast,
        };
        match (self.listener)(&step) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Box::new(Interrupted)),
        }
    }

    /// A round more and one that only samples and looks, two where V is far off; from the pilot on where it is drawn again. None where
    /// the forecast has run out, or there is none.
    fn remaining(&self, stage: Stage) -> Option<f64> {
        let Some(last) = self.made.last() else {
            if let Some(Expected { since, call, pilot }) = &self.expected {
                let left = call + pilot - since.elapsed().as_secs_f64();
                return (left > 0.0).then_some(left);
            }
            let known = self.pass_seconds > 0.0 && stage != Stage::Pilot;
            return known.then_some(2.0 * (self.pilot_seconds + self.pass_seconds) + self.pass_seconds);
        };
        let of = |name: &str| {
            last.seconds.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, seconds)| *seconds)
        };
        let whole: f64 = last.seconds.iter().map(|(_, seconds)| seconds).sum();
        let done = last.variance_upper < TRUSTED_VARIANCE;
        let more = if done {
            0.0
        } else if last.variance < 10.0 {
            1.0
        } else {
            2.0
        };
        let again =
            if stage == Stage::Pilot { 2.0 * whole + LARGER_PILOT as f64 * self.pilot_seconds } else { 0.0 };
        // Of final chains that were run before, it is known.
        let known = of("verdict") > 0.0;
        let sampling = if known { of("final chains") } else { of("sample") };
        let judging = if known { of("verdict") } else { of("look") + of("judge") };
        let sampled = stage == Stage::Verdict;
        Some(again + more * whole + judging + if sampled { 0.0 } else { sampling })
    }
}

/// Whether V alone would give an A.
fn certified(verdict: &Verdict) -> bool {
    verdict.divergence.variance_upper < TRUSTED_VARIANCE && verdict.reweighting.ess_share > TRUSTED_SHARE
}

/// Whether nothing would be learnt from other chains and another pass.
fn is_final<S: Scheme>(round: &Round, verdict: &Verdict) -> bool {
    let sure = !S::BY_DRAWS || round.variance_upper < CONFIRMED * TRUSTED_VARIANCE;
    round.full_length && certified(verdict) && sure
}

/// Whether more points would do nothing about it.
fn is_of_chains(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotMixed
            | Reason::FewDraws
            | Reason::Diverged
            | Reason::SlowEnergy
            | Reason::NotFinite
            | Reason::Shifted
            | Reason::Misscaled
            | Reason::Misshapen
    )
}

/// Whether chains need only go on: they mix slowly, but are not apart, and V is no matter.
pub(super) fn is_slow(verdict: &Verdict) -> bool {
    let slow = |reason: &Reason| matches!(reason, Reason::FewDraws | Reason::NotMixed);
    let of_coreset = |reason: &Reason| matches!(reason, Reason::Variance | Reason::Share);
    let besides = |reason: &Reason| {
        let of_weights = matches!(reason, Reason::EffectiveDraws | Reason::ParetoK);
        slow(reason) || of_weights || (reason.allows() == Grade::B && !of_coreset(reason))
    };
    let near = verdict.mixing.is_some_and(|mixing| mixing.r_hat < APART);
    verdict.grade == Grade::C
        && verdict.reasons.iter().any(slow)
        && verdict.reasons.iter().all(besides)
        && near
}
