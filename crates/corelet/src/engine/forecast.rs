//! What a fit of all rows and a fit by a coreset will take, from a few timed evaluations.
//!
//! Counts of evaluations come from what the rounds do, seconds from one evaluation of each kind; the two are good to a factor of two or three,
//! and so nothing is refused that is not clearly slower.

use std::time::Instant;

use cpu_time::ProcessTime;

use super::Plan;
use crate::words::Forecast;

/// Gradients that a step of a chain takes in coordinates scaled one by one, as samplers have them: a tree of depth 4.
pub(super) const LEAPS: f64 = 15.0;
/// Log-likelihoods of a row that cost as much as their gradient, by automatic differentiation.
pub(super) const GRADIENT_COSTS: f64 = 3.0;
/// What a call of a model costs beside its rows, in seconds.
pub(super) const CALL_COSTS: f64 = 2e-5;
/// Seconds to choose one of k points among one candidate at one draw.
const CHOICE_COSTS: f64 = 3e-10;
/// Rounds where k points are enough: one at the draws of a pilot, which moves, one where it leads, and the final look.
const ROUNDS: f64 = 3.0;
/// Rounds with each number of points where they are not.
const ROUNDS_EACH: f64 = 2.0;
/// Evaluations that are timed: two at least, since something may be compiled in the first, and as many as fit into these seconds.
const MOST_TIMED: usize = 20;
/// See [`MOST_TIMED`].
const TIMED: f64 = 0.1;
/// Points at which a gradient is evaluated at once where one is timed that costs less than a call.
const AT_ONCE: usize = 16;
/// A call that is slower than a fit of all rows by less than this factor is not said to be: estimates are no better.
const CLEARLY: f64 = 2.0;
/// Seconds that nobody minds.
const FELT: f64 = 5.0;
/// Seconds that are worth a question before they are spent.
pub(super) const LONG: f64 = 30.0;
/// Seconds that sampling all rows may take where nothing smaller will do.
pub(super) const PATIENCE: f64 = 300.0;

/// What is done about a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// No advice.
    #[default]
    Silent,
    /// Advice is reported, and the fit goes on.
    Told,
    /// A long fit that does not pay is refused.
    Heeded,
    /// So is any that takes longer than all rows: something smaller has been tried and did not do, and all rows will.
    Pressed,
}

impl Advice {
    /// Whether a fit of this forecast is refused.
    pub(super) fn refuses(self, forecast: &Forecast) -> bool {
        match self {
            Self::Silent | Self::Told => false,
            Self::Heeded => outlook(forecast) == Outlook::Wasteful,
            Self::Pressed => forecast.full.is_some_and(|full| forecast.call > full),
        }
    }
}

/// What a forecast comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// A coreset pays, or is too quick for anybody to mind.
    Pays,
    /// A fit of all rows would be clearly faster, and this one is not long either.
    Slower,
    /// A fit of all rows would be clearly faster, and this one is long.
    Wasteful,
}

/// Whether a coreset pays.
pub fn outlook(forecast: &Forecast) -> Outlook {
    let Forecast { call, full, .. } = *forecast;
    match full {
        Some(full) if call > CLEARLY * full && call > LONG => Outlook::Wasteful,
        Some(full) if call > CLEARLY * full && call > FELT => Outlook::Slower,
        _ => Outlook::Pays,
    }
}

/// Seconds of some work by the clock, at best: what is compiled at the first call, and what else the machine does meanwhile, only add to
/// them.
///
/// # Errors
/// Errors of the work.
pub(super) fn seconds<E>(work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    best_of(work, |clock, _| clock)
}

/// The same of work that computes in this process and waits for nothing: seconds of the processor where these are fewer, as they are where
/// others keep it busy.
///
/// # Errors
/// Errors of the work.
pub(super) fn computing<E>(work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    best_of(work, f64::min)
}

/// The least of what is made of seconds by the clock and of the processor, of several times.
fn best_of<E>(mut work: impl FnMut() -> Result<(), E>, made_of: impl Fn(f64, f64) -> f64) -> Result<f64, E> {
    let began = Instant::now();
    let mut best = f64::INFINITY;
    for timed in 0..MOST_TIMED {
        if timed >= 2 && began.elapsed().as_secs_f64() > TIMED {
            break;
        }
        let (clock, processor) = (Instant::now(), ProcessTime::try_now());
        work()?;
        let clock = clock.elapsed().as_secs_f64();
        let processor = processor.and_then(|begun| begun.try_elapsed()).map_or(clock, |it| it.as_secs_f64());
        best = best.min(made_of(clock, processor));
    }
    Ok(best)
}

/// What evaluations at a point take, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// One by itself, with the call of the model.
    pub(super) alone: f64,
    /// One of many.
    pub(super) each: f64,
}

impl Rate {
    /// Of this work at several points, of which one is given.
    ///
    /// # Errors
    /// Errors of the work.
    pub(super) fn of<E>(at: &[f64], mut work: impl FnMut(&[f64]) -> Result<(), E>) -> Result<Self, E> {
        let alone = computing(|| work(at))?;
        if alone > TIMED {
            return Ok(Self { alone, each: alone });
        }
        let many = at.repeat(AT_ONCE);
        let each = computing(|| work(&many))? / AT_ONCE as f64;
        Ok(Self { alone, each: each.min(alone) })
    }
}

/// Seconds of so many steps of a sampler on all rows, which compiles likelihood and prior as one.
pub(super) fn full_fit(steps: f64, gradient: Rate, prior: Rate) -> f64 {
    steps * LEAPS * (gradient.each + prior.each + CALL_COSTS)
}

/// Seconds to choose k points among so many candidates at so many draws.
pub(super) fn choosing(k: usize, candidates: usize, draws: usize) -> f64 {
    CHOICE_COSTS * (k * candidates * draws) as f64
}

/// Seconds of one round, and of the rounds to be expected, of weighted rows in place of all: a pass at the draws that k points take, their
/// choice, and chains on them.
pub(super) fn by_rows(
    plan: &Plan,
    parameters: usize,
    units: usize,
    per_draw: f64,
    chains: impl Fn(usize) -> f64,
) -> (f64, f64) {
    let round = |k: usize| {
        let draws = plan.draws_at(k, parameters);
        draws as f64 * per_draw + choosing(k, plan.pool_at(k).min(units), draws) + chains(k)
    };
    // k weights match slope and curvature of the log-likelihood where they are no fewer than these.
    let needed = parameters * (parameters + 3) / 2;
    if needed <= plan.k {
        return (round(plan.k), ROUNDS * round(plan.k));
    }
    let (mut k, mut all) = (plan.k, 0.0);
    loop {
        all += ROUNDS_EACH * round(k);
        if k >= plan.max_k || k >= needed {
            return (round(plan.k), all);
        }
        k = (2 * k).min(plan.max_k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(k: usize, max_k: usize) -> Plan {
        Plan { k, max_k, pilot: 1000, max_rounds: 10, draws: None, seed: 0, advice: Advice::Heeded }
    }

    #[test]
    fn only_what_is_clearly_slower_and_long_is_wasteful() {
        let of = |call: f64, full: Option<f64>| {
            let forecast =
                Forecast { parameters: 1, units: 9, groups: false, k: 1, max_k: 1, round: 1.0, call, full };
            outlook(&forecast)
        };
        assert_eq!(of(1e4, None), Outlook::Pays);
        assert_eq!(of(4.0, Some(0.01)), Outlook::Pays);
        assert_eq!(of(100.0, Some(60.0)), Outlook::Pays);
        assert_eq!(of(20.0, Some(5.0)), Outlook::Slower);
        assert_eq!(of(100.0, Some(40.0)), Outlook::Wasteful);
    }

    /// Where a Gaussian did not do, what takes as long as all rows is not tried before them.
    #[test]
    fn what_comes_second_has_to_be_faster_than_all_rows() {
        let of = |advice: Advice, call: f64| {
            let full = Some(16.0);
            advice.refuses(&Forecast {
                parameters: 1,
                units: 9,
                groups: false,
                k: 1,
                max_k: 1,
                round: 1.0,
                call,
                full,
            })
        };
        assert!(!of(Advice::Heeded, 20.0) && of(Advice::Pressed, 20.0) && !of(Advice::Pressed, 15.0));
        assert!(!of(Advice::Told, 1e4) && of(Advice::Heeded, 1e4));
    }

    /// Rounds grow with the draws, and with the doublings where k points are too few for the parameters.
    #[test]
    fn more_parameters_take_more_rounds() {
        let chains = |_| 1.0;
        let (round, few) = by_rows(&plan(300, 1200), 5, 100_000, 1e-3, chains);
        assert!((few / round - ROUNDS).abs() < 1e-12 && (1.5..2.0).contains(&round), "{round} {few}");
        let (same, many) = by_rows(&plan(300, 1200), 40, 100_000, 1e-3, chains);
        assert!(same > round - 1e-12 && many > 2.0 * few, "{same} {many}");
    }

    /// Neither what is compiled in the first call nor what another process takes from a later one is counted.
    #[test]
    fn the_best_of_several_is_what_work_takes() {
        let mut calls = 0;
        let found = seconds(|| -> Result<(), ()> {
            calls += 1;
            let busy = calls == 1 || calls % 3 == 0;
            std::thread::sleep(std::time::Duration::from_millis(if busy { 30 } else { 1 }));
            Ok(())
        });
        assert!((3..MOST_TIMED).contains(&calls), "{calls}");
        assert!(found.is_ok_and(|found| found < 0.03));
    }

    /// A call that costs more than what it evaluates is not counted for each of many points, and one that waits is not for itself.
    #[test]
    fn many_points_share_the_call() {
        let spin = |_: &[f64]| -> Result<(), ()> {
            let clock = Instant::now();
            while clock.elapsed().as_secs_f64() < 2e-3 {}
            Ok(())
        };
        let Ok(rate) = Rate::of(&[0.5, 0.5], spin) else { panic!("no rate") };
        assert!(rate.alone > 0.0 && rate.each < 0.5 * rate.alone, "{rate:?}");
        let wait = || -> Result<(), ()> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        };
        assert!(seconds(wait).is_ok_and(|found| found >= 0.02));
    }
}
