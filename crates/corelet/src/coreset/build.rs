//! Embeds, solves, and says what came out.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Info, PathPoint, Solution, Solver, Status};
use thiserror::Error;

use crate::coreset::need::{Aim, Need, Sought};
use crate::coreset::{BuildOptions, TooFew};
use crate::embed::{Description, EmbedError, Embedding};
use crate::posterior::Gaussian;
use crate::rows::{Rest, Rows, RowsError};
use crate::sparse_vi::SparseViError;
use crate::trust::{Columns, HeldOut};

/// The number of points that the search for `max_kl` starts from; it doubles.
const FIRST_POINTS: usize = 100;

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
    #[error("the divergence to stay below is {0}, but it must be a finite number above 0")]
    MaxKl(f64),
    /// The method does not yield a coreset of every size.
    #[error("{method} yields one coreset, not a path of them; the smallest below a divergence needs pursuit")]
    NoPath {
        /// The method's name.
        method: &'static str,
    },
    /// What a Gaussian does not go with.
    #[error(
        "a Gaussian beside the rows goes with the method pursuit and a number of points, not with {method} or a divergence to stay below"
    )]
    NoRest {
        /// The method's name.
        method: &'static str,
    },
    /// No Gaussian stands for the rows.
    #[error(
        "the log-likelihood has no Gaussian under the fit of the posterior: a mean of its derivatives is not finite, or nothing bounds a \
         direction; look for columns with extreme values, or build with rows alone"
    )]
    NoGaussian,
    /// No round came to an end.
    #[error("no round of the build came to an end")]
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
    /// Weights of these rows, > 0.
    pub weights: Vec<f64>,
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
    /// The Gaussian factor that belongs to the rows; none where the rows are used by themselves.
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
            weights: solution.weights.values,
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

/// Builds a coreset of rows under π̂.
///
/// With `options.max_kl` it is the smallest one on pursuit's path whose residual on the held-out draws, ½‖r‖² nats, is at
/// most that, and whose divergence by `confirm`, where given, is too; `options.k` is then the most points to try. Where
/// even that many are not enough the best is returned and [`Coreset::reached`] says so. A run that the callback stops
/// returns the best so far. With it comes what it was chosen to match, where that is one embedding.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn build(
    rows: &dyn Rows,
    posterior: &Gaussian,
    held_out: &HeldOut<'_>,
    options: &BuildOptions,
    confirm: Option<&Confirm<'_>>,
    callback: &mut Callback<'_>,
) -> Result<(Coreset, Option<Aim>), BuildError> {
    options.check(rows.len())?;
    let need = Need { rows, posterior, held_out, options };
    match options.max_kl {
        None => {
            let Sought { solution, embedding, too_few, aim } = need.solve(options.k, callback)?;
            let coreset = Coreset::new(solution, &embedding, options.method.name(), options.k);
            Ok((Coreset { too_few, ..coreset }, Some(aim)))
        }
        Some(max_kl) => Ok((build_below(&need, &Search { max_kl, confirm }, callback)?, None)),
    }
}

/// Doubles the number of points until the path has one below `max_kl`, or more points can bring nothing.
fn build_below(
    need: &Need<'_>,
    search: &Search<'_>,
    callback: &mut Callback<'_>,
) -> Result<Coreset, BuildError> {
    let (max_kl, options) = (search.max_kl, need.options);
    let mut columns = Columns::new(need.held_out);
    let mut best: Option<(f64, Coreset)> = None;
    let (mut passes, mut k) = (0.0, options.k.min(FIRST_POINTS));
    loop {
        let Sought { solution, embedding, .. } = need.solve(k, callback)?;
        passes += solution.passes;
        let stopped = !solution.status.is_natural();
        let (chosen, estimate) = search.along(&mut columns, &solution.path, stopped)?;
        let mut coreset = Coreset::new(solution, &embedding, options.method.name(), k);
        coreset.reached = Some(estimate <= max_kl);
        coreset.passes = passes;
        if estimate <= max_kl {
            coreset.status = Status::TargetReached;
        }
        if let Some(point) = chosen {
            coreset.fit.residual = point.residual;
            (coreset.rows, coreset.weights) = (point.weights.ids, point.weights.values);
        }
        // In the same embedding, at its floor again, more points cannot help.
        let spent = best.as_ref().is_some_and(|(_, last)| {
            last.fit.embedding == coreset.fit.embedding && is_spent(last.status) && is_spent(coreset.status)
        });
        if stopped || estimate <= max_kl || k == options.k || spent {
            return Ok(match best {
                Some((earlier, mut better)) if earlier <= estimate => {
                    (better.passes, better.status) = (passes, coreset.status);
                    better
                }
                _ => coreset,
            });
        }
        if best.as_ref().is_none_or(|(earlier, _)| estimate < *earlier) {
            best = Some((estimate, coreset));
        }
        k = options.k.min(2 * k);
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

/// Confirmations along one path, each of a pass over the data.
const MOST_CONFIRMATIONS: usize = 8;

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
    ) -> Result<(Option<PathPoint>, f64), RowsError> {
        if stopped {
            return Ok((path.last().cloned(), f64::INFINITY));
        }
        let mut best: (Option<&PathPoint>, f64) = (None, f64::INFINITY);
        let (mut limit, mut confirmed) = (self.max_kl, 0);
        for point in path {
            let (ids, weights) = (&point.weights.ids, &point.weights.values);
            let mut estimate = 0.5 * columns.residual(ids, weights)?.powi(2);
            let meets = estimate <= limit;
            if let (true, Some(confirm)) = (meets, self.confirm) {
                let truth = confirm(ids, weights)?;
                confirmed += 1;
                if truth > self.max_kl {
                    limit = estimate * (self.max_kl / truth).clamp(0.3, 0.9);
                    if confirmed == MOST_CONFIRMATIONS {
                        limit = f64::NEG_INFINITY;
                    }
                }
                estimate = estimate.max(truth);
            }
            if estimate < best.1 {
                best = (Some(point), estimate);
            }
            if meets && estimate <= self.max_kl {
                break;
            }
        }
        Ok((best.0.cloned(), best.1))
    }
}
