//! The scheme of a Gaussian in place of all rows: climb, expand, sample, look, and expand again where the posterior is.

use std::sync::Arc;

use thiserror::Error;

use super::super::forecast::PATIENCE;
use super::super::plan::{
    CAREFUL, CENTRED_DRAWS, FALLS, FIRST_DRAWS, FIRST_PAIRS, HALVINGS, JUDGED_DRAWS, PAIRS, Plan, STRAYED,
    VERDICT_DRAWS, WORSE,
};
use super::super::{Interrupted, Pilot, PoolCoreset, Sample, Scheme, Target, TargetError, Units, Wanted};
use super::agreement;
use super::beside::{choose, pairs};
use super::chains::{Surrogate, chains};
use super::cost::forecast;
use super::derivatives::{Argument, Derivatives};
use super::expand::{About, Expander};
use super::modes::{sample_of, sheltered, summits};
use super::sparse::Whitened;
use crate::posterior::{E_BFMI_LIMIT, Gaussian};
use crate::rows::Rest;
use crate::study::{ChosenData, gaussian_alone};
use crate::trust::policy::{KNOWN_MODE, MOST_DIVERGED, RIVAL, SCORED_DRAWS};
use crate::trust::{Evidence, Reason, Scores, Verdict, judge};
use crate::words::{Forecast, Summary, number};

/// No Gaussian can stand for all rows.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error(
    "about its mode the log-likelihood is far from quadratic (V = {} nats² of the Gaussian there)",
    number(*.variance)
)]
pub(in super::super) struct FarFromQuadratic {
    variance: f64,
    /// Seconds that all rows would take.
    pub(in super::super) full: f64,
}

/// A target whose log-likelihood is replaced by a Gaussian.
pub struct Expanded<'t, T: Target + ?Sized> {
    target: &'t T,
    units: Units,
    model: &'t dyn Derivatives,
    expander: Expander<'t>,
    plan: Plan,
    /// The last centre, and the log-likelihood of all rows there.
    last: Option<(Vec<f64>, f64)>,
    /// Whether there is a second mode that may matter.
    rival: bool,
    /// V of the Gaussian alone, where rows are chosen beside it.
    alone: f64,
    /// Seconds that all rows would take, where these may be sampled in place of a Gaussian that is far off.
    all_rows: Option<f64>,
    gives_up: bool,
    /// The first Gaussian, until it is looked at.
    first: Option<Arc<Rest>>,
    /// How often chains were run, for their seeds.
    runs: u64,
    /// The acceptance rate that their step size is adapted to.
    acceptance: f64,
}

/// The Gaussian factor, and what is near the posterior it makes.
#[derive(Debug, Clone)]
pub struct Expansion {
    /// b, A and c.
    pub rest: Arc<Rest>,
    near: Gaussian,
    /// Directions that the data do not determine.
    pub undetermined: usize,
    /// Rows beside it, with their weights.
    beside: Option<Arc<Beside>>,
}

/// Rows beside the Gaussian, or groups of them.
#[derive(Debug)]
struct Beside {
    units: Vec<usize>,
    unit_weights: Vec<f64>,
    rows: Vec<usize>,
    weights: Vec<f64>,
    summary: Summary,
}

impl Expansion {
    fn rows(&self) -> Option<(&[usize], &[f64])> {
        self.beside.as_ref().map(|beside| (&beside.rows[..], &beside.weights[..]))
    }
}

/// What a look at all rows found.
pub struct Looked {
    about: About,
    sample: Sample,
    points: Vec<f64>,
    /// From the centre to draws at which derivatives are means, and to those at which rows are chosen.
    shifts: Vec<f64>,
    choosing: Vec<f64>,
}

impl<'t, T: Target + ?Sized> Expanded<'t, T> {
    /// With up to `plan.k` rows beside the Gaussian. None if the model has no gradient.
    pub fn new(target: &'t T, units: Units, plan: Plan) -> Option<Self> {
        let model = target.derivatives()?;
        let sample = sample_of(target.rows(), plan.seed);
        let expander = Expander::new(model, target.rows(), sample);
        Some(Self {
            target,
            units,
            model,
            expander,
            plan,
            last: None,
            rival: false,
            alone: f64::INFINITY,
            all_rows: None,
            gives_up: false,
            first: None,
            runs: 0,
            acceptance: model.length().target_accept,
        })
    }

    /// The same, where V of the Gaussian alone is known: rows beside it have to halve that.
    #[must_use]
    pub fn beside(self, alone: f64) -> Self {
        Self { alone, ..self }
    }

    /// The same, giving up at once where the log-likelihood is far from quadratic about its mode, and all rows would not take long or the tool
    /// knows a faster way.
    #[must_use]
    pub fn giving_up(self, gives_up: bool) -> Self {
        Self { gives_up, ..self }
    }

    /// V of the first Gaussian, by derivatives at the mode: means of these do better by a hundred times, and not by more.
    fn give_up(&mut self, points: &[f64], totals: &[f64]) -> Result<(), TargetError> {
        let (Some(rest), Some(full)) = (self.first.take(), self.all_rows) else { return Ok(()) };
        let lines = points.chunks_exact(self.dim().max(1)).zip(totals);
        let errors: Vec<f64> =
            lines.map(|(at, total)| total - rest.value(at)).filter(|x| x.is_finite()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let variance = errors.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / errors.len() as f64;
        if !self.gives_up || variance <= STRAYED {
            return Ok(());
        }
        // A tool that knows a faster way than to sample all rows says so again where these would be sampled.
        let not_these = full > PATIENCE && self.target.before_all_rows(full).is_ok();
        if not_these { Ok(()) } else { Err(Box::new(FarFromQuadratic { variance, full })) }
    }

    /// What the log-likelihood is expanded in.
    fn argument(&self) -> Argument<'t> {
        self.expander.argument
    }

    /// How many numbers that are.
    fn dim(&self) -> usize {
        self.argument().dimension()
    }

    /// This mean of the argument, nearer to the last centre where the log-likelihood is much worse there.
    fn centre(&mut self, mut mean: Vec<f64>) -> Result<Vec<f64>, TargetError> {
        let dim = self.dim();
        let mut value = self.argument().log_likelihood(&mean, None)?.values[0];
        if let Some((last, before)) = &self.last {
            let least = before - WORSE - 0.5 * dim as f64;
            for _ in 0..HALVINGS {
                if value >= least {
                    break;
                }
                mean.iter_mut().zip(last).for_each(|(x, last)| *x = 0.5 * (*x + last));
                value = self.argument().log_likelihood(&mean, None)?.values[0];
            }
        }
        self.last = Some((mean.clone(), value));
        Ok(mean)
    }

    /// Derivatives at the mode with the most mass by its Laplace fit. A second one is noted where its mass is not negligible and the
    /// Gaussian about the first does not have it.
    fn at_the_best(&mut self) -> Result<About, TargetError> {
        let tops = summits(self.model, self.target.rows(), self.expander.sample())?;
        if tops.is_empty() {
            return Err(self.expander.nowhere()?);
        }
        let mut found = Vec::new();
        for top in &tops {
            let centre = self.argument().at(&top.point)?.into_owned();
            let about = self.expander.about(top.point.clone(), centre, &[])?;
            // A ridge that rises without end is no mode: its curvature is not that of a top.
            let mass = self.expander.log_mass(&about, top.value)?.unwrap_or(f64::NEG_INFINITY);
            found.push((mass, about));
        }
        found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut found = found.into_iter();
        let Some((mass, best)) = found.next() else { return Err("the posterior has no mode".into()) };
        if !mass.is_finite()
            && let Some(top) = sheltered(self.model, self.target.rows(), self.expander.sample())?
        {
            let centre = self.argument().at(&top.point)?.into_owned();
            return self.expander.about(top.point, centre, &[]);
        }
        let Expansion { rest, .. } = self.expansion(&best)?;
        for (other, about) in found.filter(|(other, _)| *other > mass - RIVAL) {
            let there =
                self.argument().log_likelihood(&[&best.centre[..], &about.centre].concat(), None)?.values;
            let (rise, predicted) =
                (there[1] - there[0], rest.value(&about.centre) - rest.value(&best.centre));
            self.rival |= (rise - predicted).abs() > KNOWN_MODE || other.is_nan();
        }
        Ok(best)
    }

    /// The Gaussian in place of all rows as the coreset that is handed over.
    ///
    /// # Errors
    /// Errors of the model.
    pub(crate) fn coreset(&self, expansion: &Expansion) -> Result<PoolCoreset, TargetError> {
        let beside = expansion.beside.as_ref();
        let (rows, row_weights) =
            beside.map_or_else(Default::default, |beside| (beside.rows.clone(), beside.weights.clone()));
        let (units, weights) = beside
            .map_or_else(Default::default, |beside| (beside.units.clone(), beside.unit_weights.clone()));
        let summary = match &expansion.beside {
            Some(beside) if self.units.are_groups() => beside
                .summary
                .clone()
                .of_groups(self.units.rows(), self.units.len(), beside.units.len())
                .with_rest(true, expansion.undetermined),
            Some(beside) => beside.summary.clone().with_rest(true, expansion.undetermined),
            None => gaussian_alone(self.target.rows(), self.plan.seed, expansion.undetermined),
        };
        Ok(PoolCoreset {
            units,
            weights,
            rows,
            row_weights,
            summary,
            fingerprint: None,
            rest: Some((self.argument().names()?, expansion.rest.clone())),
        })
    }

    /// Chains of the posterior that the Gaussian makes. They cost next to nothing without rows beside it: where more draws of the final ones
    /// diverge than an A allows, they are made again with smaller steps; not where their energy moves too slowly for any certificate, which
    /// smaller steps do not mend.
    fn chains(&mut self, expansion: &Expansion, wanted: Wanted) -> Result<Sample, TargetError> {
        let surrogate = Surrogate::new(self.model, expansion.rows(), &expansion.rest);
        let coordinates = Whitened::new(&expansion.near.mean, &expansion.near.precision)?;
        let is_final = matches!(wanted, Wanted::Final { .. });
        loop {
            self.runs += 1;
            let seed = self.plan.seed.wrapping_add(self.runs);
            let found = chains(self.target, &surrogate, &coordinates, (wanted, self.acceptance), seed)?;
            let many = found.diverged as f64 > MOST_DIVERGED * found.len() as f64;
            let slow = found.e_bfmi.is_some_and(|fraction| fraction < E_BFMI_LIMIT);
            let smaller = CAREFUL.into_iter().find(|rate| *rate > self.acceptance);
            match smaller {
                Some(rate) if many && !slow && is_final && expansion.beside.is_none() => {
                    self.acceptance = rate;
                }
                _ => return Ok(found),
            }
        }
    }

    /// Up to k rows beside the Gaussian.
    fn with_rows(&mut self, k: usize, seen: &Looked, alone: Expansion) -> Result<Expansion, TargetError> {
        self.runs += 1;
        let at = (&seen.about.centre[..], &seen.choosing[..]);
        let ChosenData { coreset, summary, .. } =
            choose((self.target, &self.units), self.model, at, (k, &self.plan, self.runs))?;
        let (rows, weights) = self.units.expand(&coreset.rows, &coreset.weights);
        let centre = seen.about.centre.clone();
        let chosen =
            self.expander.about_those(Some((&rows, &weights)), centre.clone(), centre, &seen.shifts)?;
        let Some((rest, scale)) = seen.about.less(&chosen, &alone.rest, &alone.near) else {
            return Ok(alone);
        };
        let scaled = |weights: &[f64]| weights.iter().map(|weight| scale * weight).collect();
        let (unit_weights, weights) = (scaled(&coreset.weights), scaled(&weights));
        let beside = Beside { units: coreset.rows, unit_weights, rows, weights, summary };
        Ok(Expansion { rest: Arc::new(rest), beside: Some(Arc::new(beside)), ..alone })
    }

    fn expansion(&mut self, about: &About) -> Result<Expansion, TargetError> {
        let (rest, near, undetermined) = self.expander.gaussian(about)?;
        Ok(Expansion { rest: Arc::new(rest), near, undetermined, beside: None })
    }

    /// From the centre to these draws, those that are finite.
    fn shifts(&self, sample: &Sample, centre: &[f64]) -> Result<Vec<f64>, TargetError> {
        let points = self.model.unconstrained(sample)?;
        let lines = points.chunks_exact(self.dim().max(1)).filter(|line| line.iter().all(|x| x.is_finite()));
        Ok(lines.flat_map(|line| less(line, centre)).collect())
    }

    /// The gradient of the surrogate's log posterior at some of the draws.
    fn scores(&self, expansion: &Expansion, sample: &Sample) -> Result<Scores, TargetError> {
        let (some, dim) = (sample.thinned(SCORED_DRAWS), self.model.dimension());
        let points = self.model.unconstrained(&some)?;
        let (_, gradient) = Surrogate::new(self.model, expansion.rows(), &expansion.rest).at(&points)?;
        let draws = crate::trust::Draws { theta: points, dim, ..some.draws };
        Ok(Scores { draws, gradient })
    }

    fn judged(
        &self,
        expansion: &Expansion,
        sample: &Sample,
        (seen, points, totals): (&Sample, &[f64], &[f64]),
        mut found: Vec<Reason>,
    ) -> Result<Verdict, TargetError> {
        agreement::check(self.target, self.argument(), sample, self.plan.seed)?;
        let mut weighted: Vec<f64> =
            points.chunks_exact(self.dim().max(1)).map(|point| expansion.rest.value(point)).collect();
        if let Some((rows, weights)) = expansion.rows() {
            let own = self.model.weighted(points, rows, weights)?.values;
            weighted.iter_mut().zip(&own).for_each(|(sum, x)| *sum += x);
        }
        let errors: Vec<f64> = totals.iter().zip(&weighted).map(|(total, own)| total - own).collect();
        let at_anchor = errors.iter().copied().find(|x| x.is_finite()).unwrap_or(0.0);
        let errors = errors.iter().map(|x| x - at_anchor).collect();
        if !sample.chained {
            found.push(Reason::NoChains);
        }
        // The prior is exact here, and so are funnels.
        if sample.may_miss_a_neck() {
            found.push(Reason::SlowEnergy);
        }
        if self.rival {
            found.push(Reason::SecondMode);
        }
        let scores = Some(self.scores(expansion, sample)?);
        let evidence = Evidence {
            all: Some(&sample.draws),
            errors,
            at_anchor,
            weighted,
            scores,
            diverged: sample.diverged,
            found,
            ..Evidence::of(&seen.draws)
        };
        Ok(judge(evidence)?)
    }
}

/// The mean of these lines of `dim` numbers, those that are finite.
fn mean_of(points: &[f64], dim: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dim];
    let lines: Vec<&[f64]> =
        points.chunks_exact(dim.max(1)).filter(|line| line.iter().all(|x| x.is_finite())).collect();
    lines.iter().for_each(|line| mean.iter_mut().zip(*line).for_each(|(sum, x)| *sum += x));
    mean.iter_mut().for_each(|sum| *sum /= lines.len().max(1) as f64);
    mean
}

fn less<'a>(a: &'a [f64], b: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    a.iter().zip(b).map(|(a, b)| a - b)
}

impl<T: Target + ?Sized> Scheme for Expanded<'_, T> {
    type Coreset = Expansion;
    type Draws = Sample;
    type Seen = Looked;

    fn units(&self) -> usize {
        self.units.len()
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn full_length(&self, _k: usize) -> bool {
        // Chains of the Gaussian cost nothing that grows with the rows.
        self.last.is_some()
    }

    fn restarts(&self) -> usize {
        0
    }

    fn full_draws(&self) -> bool {
        false
    }

    fn grows(&self, _k: usize, variance: f64) -> bool {
        // Rows that did not halve what the Gaussian leaves over have overfitted the draws they were chosen at, and more would too.
        variance < FALLS * self.alone
    }

    fn forecast(&mut self, _from: Option<&Sample>, _pilot: f64) -> Result<Option<Forecast>, TargetError> {
        let found = forecast(self.model, &self.units, &self.plan)?;
        self.all_rows = found.and_then(|forecast| forecast.full);
        Ok(found)
    }

    fn pilot(&mut self, _rows: usize, _k: usize) -> Result<Option<Pilot<Sample>>, TargetError> {
        let about = self.at_the_best()?;
        let expansion = self.expansion(&about)?;
        let value = self.argument().log_likelihood(&about.centre, None)?.values[0];
        self.last = Some((about.centre, value));
        let draws = self.chains(&expansion, Wanted::Draws(FIRST_DRAWS))?;
        self.first = Some(expansion.rest);
        Ok(Some(Pilot { draws, apart: false }))
    }

    fn look(&mut self, draws: &Sample, coreset: Option<&Expansion>, k: usize) -> Result<Looked, TargetError> {
        let dim = self.dim();
        let most = if coreset.is_none() && k == 0 { FIRST_PAIRS } else { PAIRS };
        let some = self.model.unconstrained(&draws.thinned(CENTRED_DRAWS))?;
        let mean = mean_of(&self.argument().at(&some)?, dim);
        let centre = self.centre(mean.clone())?;
        let place = match self.argument().is_derived() {
            true => mean_of(&some, self.model.dimension()),
            false => centre.clone(),
        };
        let sample = draws.thinned(most);
        let points = self.argument().at(&self.model.unconstrained(&sample)?)?.into_owned();
        let shifts: Vec<f64> = points.chunks_exact(dim.max(1)).flat_map(|line| less(line, &mean)).collect();
        let choosing = if k == 0 || self.argument().is_derived() {
            Vec::new()
        } else {
            self.shifts(&draws.thinned(pairs(k, dim)), &mean)?
        };
        let mut about = self.expander.about(place, centre, &shifts)?;
        if about.centre != mean {
            about.totals = self.argument().log_likelihood(&points, None)?.values;
        }
        self.give_up(&points, &about.totals)?;
        Ok(Looked { about, sample, points, shifts, choosing })
    }

    fn build(&mut self, k: usize, seen: Option<&Looked>) -> Result<Expansion, TargetError> {
        let Some(seen) = seen else { return Err("an expansion is made at draws, and there are none".into()) };
        let alone = self.expansion(&seen.about)?;
        // Rows beside the factor are chosen by coordinates.
        if k == 0 || self.argument().is_derived() { Ok(alone) } else { self.with_rows(k, seen, alone) }
    }

    fn sample(
        &mut self,
        coreset: &Expansion,
        _start: Option<&Sample>,
        _k: usize,
        full: bool,
    ) -> Result<Sample, TargetError> {
        let wanted = if full { Wanted::Final { draws: JUDGED_DRAWS } } else { Wanted::Draws(JUDGED_DRAWS) };
        self.chains(coreset, wanted)
    }

    fn verdict(
        &mut self,
        coreset: &Expansion,
        draws: &Sample,
        seen: &Looked,
        found: Vec<Reason>,
    ) -> Result<Verdict, TargetError> {
        self.judged(coreset, draws, (&seen.sample, &seen.points, &seen.about.totals), found)
    }

    fn final_verdict(
        &mut self,
        coreset: &Expansion,
        draws: &Sample,
        found: Vec<Reason>,
        _k: usize,
    ) -> Result<Verdict, TargetError> {
        let mut most = JUDGED_DRAWS;
        loop {
            let sample = draws.thinned(most);
            let points = self.argument().at(&self.model.unconstrained(&sample)?)?.into_owned();
            let totals = self.argument().log_likelihood(&points, None)?.values;
            let verdict = self.judged(coreset, draws, (&sample, &points, &totals), found.clone())?;
            if !verdict.strays() || most >= VERDICT_DRAWS.min(draws.len()) {
                return Ok(verdict);
            }
            most = VERDICT_DRAWS;
        }
    }

    fn points(coreset: &Expansion) -> usize {
        coreset.beside.as_ref().map_or(0, |beside| beside.units.len())
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
}
