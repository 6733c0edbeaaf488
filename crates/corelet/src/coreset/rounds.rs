//! Rounds: a coreset's own posterior is a better π̂ than the one under which it was built, so build again under it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Method, Status};

use crate::coreset::build::{Callback, Confirm, Made, build, first_points, select};
use crate::coreset::divergence::descend;
use crate::coreset::need::Need;
#[cfg(feature = "sampling")]
use crate::coreset::policy::NUTS_DRAWS;
use crate::coreset::policy::{AS_EXPECTED, FINE_NATS, MEANINGLESS, MOST_ROUNDS, NOISE, STALLED};
use crate::coreset::rest::{build_with_rest, suits};
use crate::coreset::{BuildError, BuildOptions, Coreset, RestChoice, Selector, select_by_sparse_vi};
use crate::embed::{Choice, Embedded, Recipe, Sketch, embed};
#[cfg(feature = "sampling")]
use crate::linalg::{Cholesky, LinalgError, gram};
use crate::model::Shifts;
use crate::posterior::Gaussian;
#[cfg(feature = "sampling")]
use crate::posterior::{Chains, SampleSettings, sample};
use crate::rows::{Problem, RowsError, Weighted};
use crate::sparse_vi::SparseViSettings;
use crate::trust::{Draws, Estimate, VerdictError, affordable_draws, variances};

/// How the next π̂ is obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoundsBy {
    /// The Laplace fit of the weighted posterior.
    #[default]
    Laplace,
    /// Its NUTS draws: they are the draws of the embedding, and their moments the Gaussian of a Hermite one.
    #[cfg(feature = "sampling")]
    Nuts,
}

/// The settings of rounds.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `rounds` | automatic | number of rounds; automatic makes up to 4 and stops when V stalls | ≥ 1 |
/// | `by` | `laplace` | how the next π̂ is obtained | `laplace`, `nuts` |
/// | `from_all_rows` | true | whether the first π̂ was fitted to all rows; a good first coreset is then the last | |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoundOptions {
    /// Number of rounds; none is automatic.
    pub rounds: Option<usize>,
    /// How the next π̂ is obtained.
    pub by: RoundsBy,
    /// Whether the first π̂ was fitted to all rows.
    pub from_all_rows: bool,
}

impl Default for RoundOptions {
    fn default() -> Self {
        Self { rounds: None, by: RoundsBy::default(), from_all_rows: true }
    }
}

/// The result of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Number of points chosen.
    pub points: usize,
    /// V = Var(L − L_w) under the coreset's own posterior, on new draws; none if it was not measured.
    pub variance: Option<f64>,
}

/// The best coreset of all rounds.
#[derive(Debug, Clone)]
pub struct Built {
    /// The coreset.
    pub coreset: Coreset,
    /// If groups of rows were chosen, the group of each of its rows.
    pub groups: Option<Vec<usize>>,
    /// The π̂ under which it was built, if that is not the first one.
    pub posterior: Option<Gaussian>,
    /// Its error on held-out draws of its π̂; none if the build did not need them.
    pub estimate: Option<Estimate>,
    /// All rounds in order.
    pub rounds: Vec<Round>,
    /// The round that produced the coreset, from 0.
    pub chosen: usize,
}

/// SparseVI uses a new π̂ at every step, so it needs no rounds.
fn build_by_sparse_vi(
    problem: Problem<'_>,
    posterior: &Gaussian,
    settings: &SparseViSettings,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    let judge = embed(problem.rows, posterior, options.embedding, options.k, options.seed)?;
    let coreset = select_by_sparse_vi(problem, &judge, settings, options, callback)?;
    let rounds = vec![Round { points: coreset.rows.len(), variance: None }];
    Ok(Built { coreset, groups: None, posterior: None, estimate: None, rounds, chosen: 0 })
}

/// The π̂ of a round.
struct Centre {
    gaussian: Gaussian,
    /// NUTS draws around its mean.
    shifts: Option<Shifts>,
}

/// Builds under `posterior`, then under the posterior of the resulting coreset, and so on. Returns the coreset with the smallest V.
///
/// Automatic mode ends when V stalls. After a fit of all rows it does not start a second round if the first coreset
/// is good on the held-out draws, because there is nothing to gain, nor if it has far too few
/// points, because only more points can help. A round whose V is meaningless never replaces an earlier one. With `options.max_kl`, the result is the
/// smallest coreset whose ½V also meets it. With `options.rest` a Gaussian factor accompanies or replaces the rows.
///
/// # Errors
/// See [`BuildError`].
pub fn build_in_rounds(
    problem: Problem<'_>,
    posterior: &Gaussian,
    options: &BuildOptions,
    rounds: &RoundOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    options.check(problem.rows.len())?;
    if let Selector::SparseVi(settings) = &options.method {
        return build_by_sparse_vi(problem, posterior, settings, options, callback);
    }
    let draws = options.rest.held_out_draws(problem.rows.len(), problem.rows.dim());
    if options.rest != RestChoice::None && suits(options) && options.max_kl.is_none() {
        return build_with_rest(problem, posterior, draws, options, rounds, callback);
    }
    build_of_rows(problem, posterior, draws, options, rounds, callback)
}

/// The same by rows alone, the first π̂ judged on so many held-out draws.
pub(super) fn build_of_rows(
    problem: Problem<'_>,
    posterior: &Gaussian,
    draws: usize,
    options: &BuildOptions,
    rounds: &RoundOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    let most = rounds.rounds.unwrap_or(MOST_ROUNDS).max(1);
    let need = Need::new(problem.rows, posterior, options, (first_points(options), draws))?;
    let sketch = need.judge.sketch().cloned();
    let judge = Judge { problem, sketch, by: rounds.by, seed: options.seed };
    let mut made = judge.build_at(need, callback)?;
    let mut centre: Option<Centre> = None;
    let mut best: Option<(f64, Built)> = None;
    let mut past: Vec<Round> = Vec::new();
    loop {
        let round = past.len();
        let points = made.coreset.rows.len();
        let stopped = made.coreset.status == Status::Stopped;
        let residual = made.estimate.filter(|_| round == 0).map(|estimate| estimate.residual);
        let settled =
            most == 1 || is_fine(rounds, &made.coreset, residual) || is_hopeless(rounds, &made.coreset);
        if stopped || (round == 0 && settled) {
            past.push(Round { points, variance: None });
            let built = best.map_or_else(|| made.built(None, round), |(_, built)| built);
            return Ok(Built { rounds: past, ..built });
        }
        let under = centre.as_ref().map_or(posterior, |centre| &centre.gaussian);
        let descended = judge.descend(&made.coreset, under, options)?;
        let (better, (variance, next)) = judge.better(made, descended, round)?;
        past.push(Round { points, variance: Some(variance).filter(|v| v.is_finite()) });
        let before = best.as_ref().map(|(variance, _)| *variance);
        let over = rounds.rounds.is_none() && is_over(rounds, &better.coreset, variance, before, residual);
        let is_best = |(before, built): &(f64, Built)| {
            is_better(rounds, (&better.coreset, variance), (&built.coreset, *before))
        };
        if best.as_ref().is_none_or(is_best) {
            let posterior = centre.take().map(|centre| centre.gaussian);
            best = Some((variance, better.built(posterior, round)));
        }
        let Some(next) = next.filter(|_| !over && past.len() < most) else { break };
        made = judge.build_around(&next, options, callback)?;
        centre = Some(next);
    }
    let (_, built) = best.ok_or(BuildError::NoRound)?;
    Ok(Built { rounds: past, ..built })
}

impl Made<'_> {
    /// As the result of a round under another π̂ than the first, or under that.
    fn built(self, posterior: Option<Gaussian>, chosen: usize) -> Built {
        let Made { coreset, estimate, .. } = self;
        Built { coreset, groups: None, posterior, estimate, rounds: Vec::new(), chosen }
    }
}

/// Whether the first coreset is good without a look at its own posterior: π̂ is that of all rows, and it meets `max_kl`
/// or has a small residual on the held-out draws.
fn is_fine(rounds: &RoundOptions, coreset: &Coreset, residual: Option<f64>) -> bool {
    let fine = coreset.reached.unwrap_or_else(|| residual.is_some_and(|r| 0.5 * r * r <= FINE_NATS));
    rounds.rounds.is_none() && rounds.from_all_rows && rounds.by == RoundsBy::Laplace && fine
}

/// Whether the points are far too few for any π̂, so that there is nothing to judge and no round to add.
fn is_hopeless(rounds: &RoundOptions, coreset: &Coreset) -> bool {
    rounds.rounds.is_none() && rounds.from_all_rows && coreset.too_few.is_some()
}

/// Whether automatic mode ends here: V has stalled; or it is what the first π̂, the Laplace fit of all rows, said it would
/// be, so that another Laplace fit has nothing to add; or a later round has met `max_kl`; or the coreset's own posterior is so
/// far off that it is no better π̂ than that of all rows.
fn is_over(
    rounds: &RoundOptions,
    coreset: &Coreset,
    variance: f64,
    before: Option<f64>,
    residual: Option<f64>,
) -> bool {
    let same_kind = rounds.from_all_rows && rounds.by == RoundsBy::Laplace;
    let expected = same_kind && residual.is_some_and(|r| variance <= AS_EXPECTED * r * r);
    let stalled = before.is_some_and(|before| before.is_finite() && variance >= STALLED * before);
    let met = before.is_some() && coreset.reached == Some(true);
    let meaningless = rounds.from_all_rows && variance >= MEANINGLESS;
    expected || stalled || met || meaningless
}

/// By V; with `max_kl`, one that meets it before one that does not, and of two that do the one with fewer points.
fn is_better(
    rounds: &RoundOptions,
    (new, variance): (&Coreset, f64),
    (old, before): (&Coreset, f64),
) -> bool {
    match (new.reached, old.reached) {
        (Some(true), Some(true)) => new.rows.len() < old.rows.len(),
        (Some(true), Some(false)) => true,
        (Some(false), Some(true)) => false,
        _ => variance < before && (variance < MEANINGLESS || !rounds.from_all_rows),
    }
}

/// V of a coreset, and the π̂ of the next round, where there is one.
type Judged = (f64, Option<Centre>);

struct Judge<'a> {
    problem: Problem<'a>,
    /// What stands for a pass over the data, where something does.
    sketch: Option<Arc<Sketch>>,
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "there is but one way"))]
    by: RoundsBy,
    seed: u64,
}

impl<'a> Judge<'a> {
    /// Builds under a Gaussian.
    fn build_at(&self, need: Need<'a, '_>, callback: &mut Callback<'_>) -> Result<Made<'a>, BuildError> {
        let confirm = |ids: &[usize], weights: &[f64]| {
            let coreset = Weighted::fetch(self.problem.rows, ids, weights)?;
            match coreset.fit(self.problem.prior) {
                Ok(fit) => Ok(0.5 * self.variances(&[(coreset, fit.posterior)], 0)?[0]),
                Err(_) => Ok(f64::INFINITY),
            }
        };
        let confirm: Option<&Confirm<'_>> = need.options.max_kl.is_some().then_some(&confirm);
        build(need, confirm, callback)
    }

    /// Builds under the π̂ of an earlier round; its NUTS draws, where it has them, are the draws of the embedding.
    fn build_around(
        &self,
        centre: &Centre,
        options: &BuildOptions,
        callback: &mut Callback<'_>,
    ) -> Result<Made<'a>, BuildError> {
        let (rows, Centre { gaussian, shifts }) = (self.problem.rows, centre);
        let Some(shifts) = shifts else {
            let draws = affordable_draws(rows.len(), rows.dim());
            let under = (first_points(options), draws);
            return self.build_at(Need::new(rows, gaussian, options, under)?, callback);
        };
        let embedding = match options.embedding {
            Choice::Auto | Choice::Draws(_) => {
                let recipe = Recipe::Draws { anchor: gaussian.mean.clone(), shifts: shifts.clone() };
                Embedded::new(rows, recipe)?
            }
            choice => embed(rows, gaussian, choice, options.k, options.seed)?,
        };
        let coreset = select(&embedding, options, callback)?;
        Ok(Made { coreset, aim: None, estimate: None, judge: None })
    }

    /// V and the next π̂ of coresets, all of them from one pass.
    fn judge(&self, coresets: &[&Coreset], round: usize) -> Result<Vec<Judged>, RowsError> {
        let fetch = |coreset: &&Coreset| Weighted::fetch(self.problem.rows, &coreset.rows, &coreset.weights);
        let points = coresets.iter().map(fetch).collect::<Result<Vec<_>, _>>()?;
        let fits: Vec<Option<Gaussian>> =
            points.iter().map(|points| Some(points.fit(self.problem.prior).ok()?.posterior)).collect();
        #[cfg(feature = "sampling")]
        if self.by == RoundsBy::Nuts
            && let ([points], [Some(fit)]) = (&points[..], &fits[..])
            && let Some((variance, centre)) = self.judge_by_nuts(points, fit, round)
        {
            return Ok(vec![(variance, Some(centre))]);
        }
        let fitted: Vec<(Weighted, Gaussian)> =
            points.into_iter().zip(&fits).filter_map(|(points, fit)| Some((points, fit.clone()?))).collect();
        let mut variances = self.variances(&fitted, round as u64)?.into_iter();
        let judged = |fit: Option<Gaussian>| match fit {
            Some(gaussian) => {
                (variances.next().unwrap_or(f64::INFINITY), Some(Centre { gaussian, shifts: None }))
            }
            None => (f64::INFINITY, None),
        };
        Ok(fits.into_iter().map(judged).collect())
    }

    /// The same points with weights that descend the divergence from π̂, where there are such.
    fn descend(
        &self,
        coreset: &Coreset,
        posterior: &Gaussian,
        options: &BuildOptions,
    ) -> Result<Option<Coreset>, BuildError> {
        let pursuit = matches!(options.method, Selector::Embedded(Method::Pursuit(_)));
        let sized = options.max_kl.is_some() || coreset.too_few.is_some();
        if !pursuit || sized || self.by != RoundsBy::Laplace {
            return Ok(None);
        }
        let Problem { rows, prior } = self.problem;
        let points = Weighted::fetch(rows, &coreset.rows, &coreset.weights)?;
        let Some(weights) = descend(&points, prior, posterior, options.seed) else { return Ok(None) };
        let kept = coreset.rows.iter().copied().zip(weights).filter(|(_, weight)| *weight > 0.0);
        let (rows, weights): (Vec<usize>, Vec<f64>) = kept.unzip();
        Ok(Some(Coreset { rows, weights: weights.into(), ..coreset.clone() }))
    }

    /// The coreset whose weights have descended, where that has not raised V, or else the one they came from: the divergence is one
    /// of Gaussian fits, V is not. Both are judged in one pass.
    fn better(
        &self,
        made: Made<'a>,
        descended: Option<Coreset>,
        round: usize,
    ) -> Result<(Made<'a>, Judged), BuildError> {
        let both: Vec<&Coreset> = std::iter::once(&made.coreset).chain(&descended).collect();
        let mut judged = self.judge(&both, round)?.into_iter();
        let as_it_is = judged.next().unwrap_or((f64::INFINITY, None));
        // Of two values that say nothing neither is the better.
        let is_kept = |judged: &Judged| judged.0 <= (1.0 + NOISE) * as_it_is.0 && judged.0 < MEANINGLESS;
        let (Some(mut descended), Some(judged), Some(aim), Some(judge)) =
            (descended, judged.next().filter(is_kept), &made.aim, &made.judge)
        else {
            return Ok((made, as_it_is));
        };
        descended.fit.residual = aim.residual(self.problem.rows, &descended.rows, &descended.weights)?;
        let estimate = Some(judge.estimate(&descended.rows, &descended.weights)?);
        Ok((Made { coreset: descended, estimate, ..made }, judged))
    }

    #[cfg(feature = "sampling")]
    fn judge_by_nuts(&self, coreset: &Weighted, fit: &Gaussian, round: usize) -> Option<(f64, Centre)> {
        let settings = SampleSettings { warmup: 300, draws: NUTS_DRAWS / 2, ..SampleSettings::default() };
        let seed = self.seed.wrapping_add(round as u64);
        let go_on = &mut |_: &_| std::ops::ControlFlow::Continue(());
        let chains = sample(coreset, self.problem.prior, fit, &settings, seed, go_on).ok()?;
        // Half of the draws judge; the other half, which the next selection sees, do not.
        let (judging, building) = halves(&chains);
        let variance = *variances(None, self.problem.rows, &[(coreset, &judging)]).ok()?.first()?;
        let gaussian = moments(&building.theta, building.dim).ok()?;
        let shifts = building.shifts(&gaussian.mean);
        Some((variance, Centre { gaussian, shifts: Some(shifts) }))
    }

    /// V of coresets by draws of their Laplace fits, as many as the rows are worth; infinite if it cannot be told.
    fn variances(&self, fitted: &[(Weighted, Gaussian)], stream: u64) -> Result<Vec<f64>, RowsError> {
        let Problem { rows, prior } = self.problem;
        let seed = self.seed.wrapping_add(stream);
        let count = affordable_draws(rows.len(), rows.dim());
        let draw =
            |(points, fit): &(Weighted, Gaussian)| Draws::from_gaussian(points, prior, fit, count, seed);
        let draws = fitted.iter().map(draw).collect::<Result<Vec<_>, _>>()?;
        let coresets: Vec<(&Weighted, &Draws)> =
            fitted.iter().map(|(points, _)| points).zip(&draws).collect();
        match variances(self.sketch.as_deref(), rows, &coresets) {
            Ok(variances) => Ok(variances),
            Err(VerdictError::Rows(error)) => Err(error),
            Err(_) => Ok(vec![f64::INFINITY; fitted.len()]),
        }
    }
}

/// The odd and the even draws of every chain.
#[cfg(feature = "sampling")]
fn halves(chains: &Chains) -> (Draws, Draws) {
    let half = |first: usize| {
        let theta = chains.chains.iter().flat_map(|chain| {
            chain.draws.theta.chunks_exact(chains.dim.max(1)).skip(first).step_by(2).flatten().copied()
        });
        Draws {
            theta: theta.collect(),
            dim: chains.dim,
            chains: Some(chains.chains.len()),
            log_weights: None,
        }
    };
    (half(0), half(1))
}

/// The Gaussian with the mean and the covariance of these draws.
#[cfg(feature = "sampling")]
fn moments(theta: &[f64], dim: usize) -> Result<Gaussian, LinalgError> {
    let count = theta.len() / dim.max(1);
    let mut mean = vec![0.0; dim];
    for row in theta.chunks_exact(dim.max(1)) {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / count as f64);
    }
    let centred: Vec<f64> =
        theta.chunks_exact(dim.max(1)).flat_map(|row| row.iter().zip(&mean).map(|(x, m)| x - m)).collect();
    let covariance: Vec<f64> = gram(&centred, count, dim).iter().map(|x| x / (count as f64 - 1.0)).collect();
    Gaussian::from_precision(mean, Cholesky::new(&covariance, dim)?.inverse())
}
