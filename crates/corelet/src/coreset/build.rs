//! Embeds, solves, and says what came out.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Info, PathPoint, Solution, Solver, Status};
use thiserror::Error;

use crate::coreset::need::{Aim, Need, Sought};
use crate::coreset::policy::{FIRST_POINTS, MOST_CONFIRMATIONS};
use crate::coreset::{BuildOptions, Multiples, TooFew};
use crate::embed::{Description, EmbedError, Embedded, Embedding};
use crate::rows::{Rest, RowsError};
use crate::sparse_vi::SparseViError;
use crate::trust::{Columns, Estimate, HeldOut};

/// Why a coreset could not be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of points is 0 or above n.
    #[error("k = {k} points cannot be chosen from {rows} rows: k must be between 1 and {rows}")]
    PointsOutOfRange {
        /// What was asked for.
        k: usize,
        /// Number of rows, n.
        rows: usize,
    },
    /// The number of groups is 0 or above theirs.
    #[error("k = {k} groups cannot be chosen from {groups} groups of rows: k must be between 1 and {groups}")]
    GroupsOutOfRange {
        /// What was asked for.
        k: usize,
        /// Number of groups.
        groups: usize,
    },
    /// What groups cannot be chosen by.
    #[error("{what} works on rows, not on groups of rows")]
    RowsOnly {
        /// The method, or what else was asked for.
        what: &'static str,
    },
    /// A divergence that is not a positive number.
    #[error("the target divergence is {0}, but it must be a finite number above 0")]
    MaxKl(f64),
    /// The method does not yield a coreset of every size.
    #[error("{method} yields one coreset, not a path of them; the smallest below a divergence needs pursuit")]
    NoPath {
        /// The method's name.
        method: &'static str,
    },
    /// A Gaussian factor was requested with another method, or with a target divergence.
    #[error(
        "a Gaussian factor needs the method pursuit and a number of points, not {method} or a target divergence"
    )]
    NoRest {
        /// The method's name.
        method: &'static str,
    },
    /// No Gaussian factor could be computed.
    #[error(
        "no Gaussian factor approximates the log-likelihood: a mean of its derivatives is not finite, or a direction is unbounded; look for \
         columns with extreme values, or build with rows alone"
    )]
    NoGaussian,
    /// No round finished.
    #[error("no round of the build finished")]
    NoRound,
    /// The rows did not answer.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// No embedding.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The solver refused the problem.
    #[error(transparent)]
    Solver(#[from] sparse_nnls::Error),
    /// SparseVI refused the problem, or found no posterior to go on from.
    #[error(transparent)]
    SparseVi(#[from] SparseViError),
}

/// Chosen rows, their weights, and how they were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coreset {
    /// The chosen observations, ascending, from 0.
    pub rows: Vec<usize>,
    /// Weights of these rows, > 0, as multiples of those that the data give them.
    pub weights: Multiples,
    /// Most points that were allowed.
    pub k: usize,
    /// The method's name.
    pub method: String,
    /// How well it fits where it was built.
    #[serde(flatten)]
    pub fit: EmbeddedFit,
    /// Why the method stopped.
    pub status: Status,
    /// Steps of the method.
    pub iterations: usize,
    /// Passes over the data.
    pub passes: f64,
    /// Where `max_kl` was asked for: whether the held-out estimate is below it.
    pub reached: Option<bool>,
    /// Where k is hopeless, below the number of parameters or with an estimate beyond 2 nats: what would do.
    #[serde(default)]
    pub too_few: Option<TooFew>,
    /// Where groups of rows were chosen: how many. `k` and the path count them; `rows` are all of theirs.
    #[serde(default)]
    pub groups: Option<usize>,
    /// The Gaussian factor that belongs to the rows; none if the rows are used by themselves.
    #[serde(default)]
    pub rest: Option<Arc<Rest>>,
    /// Directions that the data do not determine, which the Gaussian part leaves to the prior.
    #[serde(default)]
    pub undetermined: usize,
}

/// How well weighted rows fit y, the sum of all, in an embedding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedFit {
    /// The embedding.
    pub embedding: Description,
    /// ‖y − Φw‖; its half square is a divergence in nats.
    pub residual: f64,
    /// ‖y‖.
    pub target_norm: f64,
    /// Points and residual along the way, for methods that yield every size.
    pub path: Vec<(usize, f64)>,
}

impl Coreset {
    pub(super) fn new(solution: Solution, embedding: &Description, method: &str, k: usize) -> Self {
        let fit = EmbeddedFit {
            embedding: embedding.clone(),
            residual: solution.residual,
            target_norm: solution.target_norm,
            path: solution.path.iter().map(|point| (point.weights.len(), point.residual)).collect(),
        };
        Self {
            rows: solution.weights.ids,
            weights: solution.weights.values.into(),
            k,
            method: method.to_owned(),
            fit,
            status: solution.status,
            iterations: solution.iterations,
            passes: solution.passes,
            reached: None,
            too_few: None,
            groups: None,
            rest: None,
            undetermined: 0,
        }
    }

    /// How many were chosen: rows, or groups of them.
    pub fn points(&self) -> usize {
        self.groups.unwrap_or(self.rows.len())
    }
}

/// What the solver tells its caller after every step; the answer says whether to go on.
pub type Callback<'c> = dyn FnMut(&Info) -> ControlFlow<()> + 'c;

/// Chooses at most `options.k` points in an embedding that exists already. `options.max_kl` is not looked at.
///
/// # Errors
/// See [`BuildError`].
pub fn select(
    embedding: &dyn Embedding,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Coreset, BuildError> {
    options.check(embedding.len())?;
    let solution =
        Solver::new(embedding, options.settings(options.k)).callback(callback).run(options.solver()?)?;
    Ok(Coreset::new(solution, embedding.description(), options.method.name(), options.k))
}

/// An estimate of the divergence of weighted rows, in nats, apart from the held-out draws.
pub(super) type Confirm<'c> = dyn Fn(&[usize], &[f64]) -> Result<f64, RowsError> + 'c;

/// What one build came to.
pub(super) struct Made<'a> {
    pub(super) coreset: Coreset,
    /// What it was chosen to match, where that is one embedding.
    pub(super) aim: Option<Aim>,
    /// What the held-out draws see of it, where they were asked.
    pub(super) estimate: Option<Estimate>,
    /// Who was asked, where there is such a judge.
    pub(super) judge: Option<HeldOut<'a>>,
}

/// The number of points that a build begins with.
pub(super) fn first_points(options: &BuildOptions) -> usize {
    options.max_kl.map_or(options.k, |_| options.k.min(FIRST_POINTS))
}

/// Builds a coreset of rows under π̂.
///
/// With `options.max_kl` it is the smallest one on pursuit's path whose residual on the held-out draws, ½‖r‖² nats, is at
/// most that, and whose divergence by `confirm`, where given, is too; `options.k` is then the most points to try. Where
/// even that many are not enough the best is returned and [`Coreset::reached`] says so. A run that the callback stops
/// returns the best so far.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn build<'a>(
    need: Need<'a, '_>,
    confirm: Option<&Confirm<'_>>,
    callback: &mut Callback<'_>,
) -> Result<Made<'a>, BuildError> {
    let options = need.options;
    let (coreset, aim, estimate) = match options.max_kl {
        None => {
            let Sought { solution, embedding, too_few, aim, estimate } =
                need.solve(&need.embedding, options.k, callback)?;
            let coreset = Coreset::new(solution, &embedding, options.method.name(), options.k);
            (Coreset { too_few, ..coreset }, Some(aim), estimate)
        }
        Some(max_kl) => {
            let (coreset, estimate) = build_below(&need, &Search { max_kl, confirm }, callback)?;
            (coreset, None, estimate)
        }
    };
    Ok(Made { coreset, aim, estimate, judge: Some(need.judge) })
}

/// Doubles the number of points until the path has one below `max_kl`, or more points can bring nothing.
fn build_below(
    need: &Need<'_, '_>,
    search: &Search<'_>,
    callback: &mut Callback<'_>,
) -> Result<(Coreset, Option<Estimate>), BuildError> {
    let (max_kl, options) = (search.max_kl, need.options);
    let mut columns = Columns::new(&need.judge);
    let mut best: Option<(f64, Coreset, Option<Estimate>)> = None;
    let (mut passes, mut k) = (0.0, first_points(options));
    let mut wider: Option<Embedded<'_>> = None;
    loop {
        let Sought { solution, embedding, .. } =
            need.solve(wider.as_ref().unwrap_or(&need.embedding), k, callback)?;
        passes += solution.passes;
        let stopped = !solution.status.is_natural();
        let Along { chosen, nats, estimate } = search.along(&mut columns, &solution.path, stopped)?;
        let mut coreset = Coreset::new(solution, &embedding, options.method.name(), k);
        coreset.reached = Some(nats <= max_kl);
        coreset.passes = passes;
        if nats <= max_kl {
            coreset.status = Status::TargetReached;
        }
        if let Some(point) = chosen {
            coreset.fit.residual = point.residual;
            (coreset.rows, coreset.weights) = (point.weights.ids, point.weights.values.into());
        }
        // In the same embedding, at its floor again, more points cannot help.
        let spent = best.as_ref().is_some_and(|(_, last, _)| {
            last.fit.embedding == coreset.fit.embedding && is_spent(last.status) && is_spent(coreset.status)
        });
        if stopped || nats <= max_kl || k == options.k || spent {
            return Ok(match best {
                Some((earlier, mut better, estimate)) if earlier <= nats => {
                    (better.passes, better.status) = (passes, coreset.status);
                    (better, estimate)
                }
                _ => (coreset, estimate),
            });
        }
        if best.as_ref().is_none_or(|(earlier, ..)| nats < *earlier) {
            best = Some((nats, coreset, estimate));
        }
        k = options.k.min(2 * k);
        wider = Some(need.embed(k)?);
    }
}

/// Whether the residual is at its floor, or so low that what the embedding drops is all that is left.
fn is_spent(status: Status) -> bool {
    matches!(status, Status::NumericalFloor | Status::Optimal | Status::TargetReached)
}

/// What the smallest coreset must meet.
struct Search<'a> {
    max_kl: f64,
    confirm: Option<&'a Confirm<'a>>,
}

/// What a path has to offer.
struct Along {
    chosen: Option<PathPoint>,
    /// The larger of its divergences, held-out and confirmed.
    nats: f64,
    /// What the held-out draws see of it.
    estimate: Option<Estimate>,
}

impl Search<'_> {
    /// The first point of the path that meets `max_kl`, or else the best; with it, its divergence in nats.
    ///
    /// A point whose held-out estimate is e and whose confirmed divergence is c > `max_kl` sends the search on to the
    /// first with an estimate of at most e·`max_kl`/c, but no less than 0.3e: large divergences do not scale. A run that was cut short is not searched: its last point is the
    /// best there is.
    fn along(
        &self,
        columns: &mut Columns<'_, '_>,
        path: &[PathPoint],
        stopped: bool,
    ) -> Result<Along, RowsError> {
        if stopped {
            return Ok(Along { chosen: path.last().cloned(), nats: f64::INFINITY, estimate: None });
        }
        let mut best = Along { chosen: None, nats: f64::INFINITY, estimate: None };
        let (mut limit, mut confirmed) = (self.max_kl, 0);
        for point in path {
            let (ids, weights) = (&point.weights.ids, &point.weights.values);
            let estimate = columns.estimate(ids, weights)?;
            let mut nats = estimate.nats();
            let meets = nats <= limit;
            if let (true, Some(confirm)) = (meets, self.confirm) {
                let truth = confirm(ids, weights)?;
                confirmed += 1;
                if truth > self.max_kl {
                    limit = nats * (self.max_kl / truth).clamp(0.3, 0.9);
                    if confirmed == MOST_CONFIRMATIONS {
                        limit = f64::NEG_INFINITY;
                    }
                }
                nats = nats.max(truth);
            }
            if nats < best.nats {
                best = Along { chosen: Some(point.clone()), nats, estimate: Some(estimate) };
            }
            if meets && nats <= self.max_kl {
                break;
            }
        }
        Ok(best)
    }
}
