//! The scheme of a model that is known by its log-likelihoods and a sampler: pilot, pass, pool, choice, chains, verdict.

use std::ops::ControlFlow;
use std::sync::Arc;

use rand::seq::index;

use super::forecast::{CALL_COSTS, GRADIENT_COSTS, LEAPS, by_rows, seconds};
use super::pass::{Pool, Seen, block_size, pass};
use super::plan::{APART, LIKELIHOOD_DRAWS, Plan, STEP_COSTS, VERDICT_DRAWS};
use super::{Interrupted, Pilot, Rows, Sample, Scheme, Target, TargetError, Units, Wanted};
use crate::linalg::dot;
use crate::random::Stream;
use crate::rows::Rest;
use crate::study::{BuildSpecification, ChosenData, LogLikelihoodStudy, PooledLogLikelihoods};
use crate::trust::policy::SCORED_DRAWS;
use crate::trust::{Draws, Evidence, Mixing, Reason, Verdict, judge};
use crate::words::{Forecast, Summary};

/// Rows by whose mean log-likelihood data are known again.
const FINGERPRINT_ROWS: usize = 1000;

/// A target under a plan.
pub struct Pooled<'t, T: Target + ?Sized> {
    target: &'t T,
    units: Units,
    plan: Plan,
    passes: u64,
    /// Rows of the last pilot.
    pilot_rows: usize,
}

/// Weighted units of a target, and how they were chosen.
#[derive(Debug, Clone)]
pub struct PoolCoreset {
    /// The chosen units, ascending.
    pub units: Vec<usize>,
    /// Weights of these rows.
    pub weights: Vec<f64>,
    /// The rows of these units, ascending.
    pub rows: Vec<usize>,
    /// The weight of each row.
    pub row_weights: Vec<f64>,
    /// What is said of the build.
    pub summary: Summary,
    /// By which a check knows the data again; none where groups were chosen.
    pub fingerprint: Option<Fingerprint>,
    /// The Gaussian that stands in place of all rows, with the names of its coordinates.
    pub rest: Option<(Vec<String>, Arc<Rest>)>,
}

/// The mean log-likelihood of some rows over the draws that a coreset was built on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint {
    /// The rows.
    pub rows: Vec<usize>,
    /// The mean of each.
    pub means: Vec<f64>,
}

impl<'t, T: Target + ?Sized> Pooled<'t, T> {
    /// A target whose units are chosen as planned.
    pub fn new(target: &'t T, units: Units, plan: Plan) -> Self {
        Self { target, units, plan, passes: 0, pilot_rows: 0 }
    }

    fn draws_wanted(&self, k: usize, sample: Option<&Sample>) -> usize {
        let parameters = sample.map_or(self.target.parameters(), Sample::moving);
        self.plan.draws_at(k, parameters)
    }

    /// Seconds of the log-likelihood of all rows at one draw, by one block of a pass.
    fn per_draw(&self, from: &Sample) -> Result<f64, TargetError> {
        let some = from.thinned(self.draws_wanted(self.plan.k, Some(from)));
        let blocks = self.units.blocks(block_size(some.len()));
        let Some(first) = blocks.first() else { return Ok(0.0) };
        let (place, rows) = (self.target.place(&some)?, self.units.rows_of(&Rows::Range(first.clone())));
        let took = seconds(|| self.target.log_likelihoods(&place, &rows, &mut |_| {}))?;
        let (share, at_once) = (
            rows.len() as f64 / self.units.rows() as f64,
            self.target.at_once().min(blocks.len().saturating_sub(1)).max(1),
        );
        Ok(took / share / some.len() as f64 / at_once as f64)
    }

    fn pass(&mut self, sample: Sample, size: usize, keep: &[usize]) -> Result<Seen, TargetError> {
        let index = self.passes;
        self.passes += 1;
        pass(
            self.target,
            &self.units,
            sample,
            &Pool { size, keep, seed: self.plan.seed, index, strict: false },
        )
    }

    /// Names a row and a draw at which the log-likelihood is not finite.
    fn not_finite(&self, seen: &Seen) -> TargetError {
        let what = if self.units.are_groups() { "group" } else { "row" };
        let words = match seen.not_finite {
            Some((unit, draw, value)) => format!(
                "the log-likelihood of {what} {unit} at draw {draw} is not finite ({value}), and that of all rows is not at most draws"
            ),
            None => "the log-likelihood of all rows is not finite at most draws".to_owned(),
        };
        words.into()
    }

    /// Draws with L_w at each: k rows cost little.
    fn likelihood_of(
        &self,
        coreset: &PoolCoreset,
        sample: &Sample,
    ) -> Result<(Draws, Vec<f64>), TargetError> {
        let some = sample.thinned(LIKELIHOOD_DRAWS);
        let (place, width) = (self.target.place(&some)?, coreset.rows.len().max(1));
        let mut weighted = Vec::new();
        self.target.log_likelihoods(&place, &Rows::Some(coreset.rows.clone()), &mut |values| {
            weighted = values.chunks_exact(width).map(|row| dot(row, &coreset.row_weights)).collect();
        })?;
        Ok((some.draws, weighted))
    }

    /// Δ and L_w at the draws of a pass, judged.
    fn judged(
        &self,
        coreset: &PoolCoreset,
        sample: &Sample,
        seen: &Seen,
        found: Vec<Reason>,
        tested: bool,
    ) -> Result<Verdict, TargetError> {
        let weighted = seen.weighted(&coreset.units, &coreset.weights);
        let errors: Vec<f64> = seen.totals.iter().zip(&weighted).map(|(total, own)| total - own).collect();
        let finite = errors.iter().copied().find(|x| x.is_finite()).unwrap_or(0.0);
        let errors = errors.iter().map(|x| x - finite).collect();
        let scores = match tested {
            true => self.target.scores(&coreset.rows, &coreset.row_weights, sample, SCORED_DRAWS)?,
            false => None,
        };
        let likelihood = match tested && scores.is_none() {
            true => Some(self.likelihood_of(coreset, sample)?),
            false => None,
        };
        let mut found = found;
        if !sample.chained {
            found.push(Reason::NoChains);
        }
        let evidence = Evidence {
            all: Some(&sample.draws),
            errors,
            at_anchor: finite,
            weighted,
            likelihood,
            scores,
            diverged: sample.diverged,
            found,
            ..Evidence::of(&seen.sample.draws)
        };
        self.target.certified(judge(evidence)?, sample)
    }
}

impl<T: Target + ?Sized> Scheme for Pooled<'_, T> {
    type Coreset = PoolCoreset;
    type Draws = Sample;
    type Seen = Seen;

    fn units(&self) -> usize {
        self.units.len()
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn full_length(&self, k: usize) -> bool {
        // They cost less than another pass over all rows.
        self.target.final_steps() * k * STEP_COSTS <= self.units.rows() * self.draws_wanted(k, None)
    }

    fn forecast(
        &mut self,
        from: Option<&Sample>,
        pilot_seconds: f64,
    ) -> Result<Option<Forecast>, TargetError> {
        let Some(from) = from else { return Ok(None) };
        let (parameters, rows) = (from.moving(), self.units.rows() as f64);
        let per_draw = self.per_draw(from)?;
        let (steps, pilot) = (self.target.final_steps() as f64, self.pilot_rows as f64);
        // Of a tool's own chains the steps are known, of a user's function what it took on the rows of the pilot.
        let chains = |k: f64| {
            if steps > 0.0 {
                steps * LEAPS * (GRADIENT_COSTS * per_draw * k / rows + CALL_COSTS)
            } else {
                pilot_seconds * (k / pilot.max(1.0)).max(1.0)
            }
        };
        let per_unit = rows / self.units.len().max(1) as f64;
        let (round, call) =
            by_rows(&self.plan, parameters, self.units.len(), per_draw, |k| chains(k as f64 * per_unit));
        Ok(Some(Forecast {
            parameters,
            units: self.units.len(),
            groups: self.units.are_groups(),
            k: self.plan.k,
            max_k: self.plan.max_k,
            round,
            call,
            full: (steps > 0.0 || pilot > 0.0).then(|| chains(rows)),
        }))
    }

    fn pilot(&mut self, rows: usize, k: usize) -> Result<Option<Pilot<Sample>>, TargetError> {
        let share = (rows as f64 / self.units.rows() as f64).min(1.0);
        let count = ((share * self.units.len() as f64).round() as usize).clamp(1, self.units.len());
        let mut rng = Stream::Subsample.rng(self.plan.seed, rows as u64);
        let mut chosen = index::sample(&mut rng, self.units.len(), count).into_vec();
        chosen.sort_unstable();
        let (rows, weights) = self.units.expand(&chosen, &vec![1.0; count]);
        self.pilot_rows = rows.len();
        let wanted = Wanted::Draws(self.draws_wanted(k, None));
        let draws = self.target.sample(&rows, &weights, None, wanted)?;
        let apart = draws.chained && Mixing::of_parameters(&draws.draws).r_hat > APART;
        Ok(Some(Pilot { draws, apart }))
    }

    fn look(&mut self, draws: &Sample, coreset: Option<&PoolCoreset>, k: usize) -> Result<Seen, TargetError> {
        let some = draws.thinned(self.draws_wanted(k, Some(draws)));
        let keep = coreset.map_or_else(Vec::new, |coreset| coreset.units.clone());
        self.pass(some, self.plan.pool_at(k), &keep)
    }

    fn build(&mut self, k: usize, seen: Option<&Seen>) -> Result<PoolCoreset, TargetError> {
        let Some(seen) = seen else { return Err("a coreset is built at draws, and there are none".into()) };
        let draws = seen.totals.len();
        let finite: Vec<usize> = (0..draws).filter(|&s| seen.totals[s].is_finite()).collect();
        if finite.len() < 20.max(draws / 2) {
            return Err(self.not_finite(seen));
        }
        let totals: Vec<f64> = finite.iter().map(|&s| seen.totals[s]).collect();
        let lines: Vec<f64> =
            seen.columns.chunks_exact(draws).flat_map(|line| finite.iter().map(|&s| line[s])).collect();
        let k = k.min(seen.pool.len());
        let asked = BuildSpecification {
            k: Some(k),
            reference: false,
            seed: self.plan.seed,
            ..BuildSpecification::default()
        };
        let pooled =
            PooledLogLikelihoods { data: &seen.pool, lines: &lines, totals: &totals, n: self.units.len() };
        let study = LogLikelihoodStudy::of_pool(&asked, pooled, 0)?;
        let mut polled = Ok(());
        let chosen = study.build(&mut |_| {
            if polled.is_ok() {
                polled = self.target.poll();
            }
            if polled.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        polled?;
        let ChosenData { coreset, summary, .. } = chosen;
        let (rows, row_weights) = self.units.expand(&coreset.rows, &coreset.weights);
        let summary = match self.units.are_groups() {
            true => summary.of_groups(self.units.rows(), self.units.len(), coreset.rows.len()),
            false => summary,
        };
        let fingerprint = (!self.units.are_groups()).then(|| {
            let step = seen.pool.len().div_ceil(FINGERPRINT_ROWS).max(1);
            let mean = |line: &[f64]| line.iter().sum::<f64>() / line.len() as f64;
            Fingerprint {
                rows: seen.pool.iter().step_by(step).copied().collect(),
                means: lines.chunks_exact(finite.len()).step_by(step).map(mean).collect(),
            }
        });
        Ok(PoolCoreset {
            units: coreset.rows,
            weights: coreset.weights.into_values(),
            rows,
            row_weights,
            summary,
            fingerprint,
            rest: None,
        })
    }

    fn sample(
        &mut self,
        coreset: &PoolCoreset,
        start: Option<&Sample>,
        k: usize,
        full: bool,
    ) -> Result<Sample, TargetError> {
        let draws = self.draws_wanted(k, start);
        let wanted = if full { Wanted::Final { draws } } else { Wanted::Draws(draws) };
        let new = self.target.sample(&coreset.rows, &coreset.row_weights, start, wanted)?;
        if start.is_some_and(|start| start.draws.dim != new.draws.dim) {
            return Err("the draws of the weighted fit are not of the variables that the pilot has".into());
        }
        Ok(new)
    }

    fn verdict(
        &mut self,
        coreset: &PoolCoreset,
        draws: &Sample,
        seen: &Seen,
        found: Vec<Reason>,
    ) -> Result<Verdict, TargetError> {
        self.judged(coreset, draws, seen, found, self.full_length(coreset.units.len()))
    }

    fn final_verdict(
        &mut self,
        coreset: &PoolCoreset,
        draws: &Sample,
        found: Vec<Reason>,
        k: usize,
    ) -> Result<Verdict, TargetError> {
        let mut most = self.draws_wanted(k, Some(draws));
        loop {
            let seen = self.pass(draws.thinned(most), 0, &coreset.units)?;
            let verdict = self.judged(coreset, draws, &seen, found.clone(), true)?;
            if !verdict.strays() || most >= VERDICT_DRAWS.min(draws.len()) {
                return Ok(verdict);
            }
            most = VERDICT_DRAWS;
        }
    }

    fn points(coreset: &PoolCoreset) -> usize {
        coreset.units.len()
    }

    fn moved(new: &Sample, old: &Sample) -> (f64, f64) {
        new.moved_from(old)
    }

    const BY_DRAWS: bool = true;

    fn join(first: &Sample, more: &Sample) -> Sample {
        first.and(more)
    }

    fn is_interrupt(&self, error: &TargetError) -> bool {
        error.is::<Interrupted>() || self.target.is_interrupt(error)
    }

    fn may_retry(&self, error: &TargetError) -> bool {
        self.target.may_retry(error)
    }
}
