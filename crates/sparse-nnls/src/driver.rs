//! The one loop: runs any method under limits, tells a callback how it goes, and says why it stopped.

use std::ops::ControlFlow;
use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::dictionary::{Candidate, Dictionary, Gathered, Oracle};
use crate::error::Error;
use crate::kernel::{STRIP, combine, norm};
use crate::nnls::nnls_on_support;
use crate::status::Status;

/// Limits on a run; `None` is no limit. Reaching one is a [`Status`], and the best weights so far are returned.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `iterations` | none | steps of the method | ≥ 1 |
/// | `passes` | none | passes over the dictionary | > 0 |
/// | `seconds` | none | wall time | > 0 |
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Most steps of the method.
    pub iterations: Option<usize>,
    /// Most passes over the dictionary (checked between steps).
    pub passes: Option<f64>,
    /// Most seconds (checked between steps).
    pub seconds: Option<f64>,
}

impl Limits {
    /// The limit that a run has come to, if any.
    pub fn reached(&self, info: &Info) -> Option<Status> {
        let over = |limit: Option<f64>, value: f64| limit.is_some_and(|limit| value >= limit);
        if self.iterations.is_some_and(|limit| info.iterations >= limit) {
            Some(Status::IterationLimit)
        } else if over(self.passes, info.passes) {
            Some(Status::PassLimit)
        } else if over(self.seconds, info.seconds) {
            Some(Status::TimeLimit)
        } else {
            None
        }
    }
}

/// The settings common to all methods.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `k` | 100 | most points with a weight | 1 … n |
/// | `total` | none | hold Σw = L (hard thresholding only) | > 0 |
/// | `seed` | 0 | of everything random | any |
/// | `polish` | false | solve NNLS on the final support | |
/// | `limits` | none | see [`Limits`] | |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Most points with a weight.
    pub k: usize,
    /// L, where the weights must add up to it.
    pub total: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// Solve NNLS on the final support.
    pub polish: bool,
    /// When to stop early.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self { k: 100, total: None, seed: 0, polish: false, limits: Limits::default() }
    }
}

impl From<usize> for Settings {
    /// k points, and otherwise the defaults.
    fn from(k: usize) -> Self {
        Self { k, ..Self::default() }
    }
}

/// The problem as a method sees it: min ‖y − Φw‖ over w ≥ 0, ‖w‖₀ ≤ k, perhaps Σw = L.
#[derive(Debug, Clone)]
pub struct Problem {
    /// y.
    pub target: Vec<f64>,
    /// ‖y‖.
    pub target_norm: f64,
    /// Σ‖φᵢ‖.
    pub norms_sum: f64,
    /// The columns that [`Start::sample`] requested, best first.
    pub sample: Vec<Candidate>,
    /// Most points with a weight.
    pub k: usize,
    /// L, where the weights must add up to it.
    pub total: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
}

/// A k-sparse vector of weights, by ascending id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// The columns with a weight, ascending.
    pub ids: Vec<usize>,
    /// Weights of these columns, > 0.
    pub values: Vec<f64>,
}

impl Weights {
    /// From pairs in any order; entries that are not positive are left out.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (usize, f64)>) -> Self {
        let mut pairs: Vec<(usize, f64)> = pairs.into_iter().filter(|pair| pair.1 > 0.0).collect();
        pairs.sort_unstable_by_key(|pair| pair.0);
        let (ids, values) = pairs.into_iter().unzip();
        Self { ids, values }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if no column has a weight.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// One point of a path: the best solution found with at most this number of columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// The columns and their weights.
    pub weights: Weights,
    /// ‖y − Φw‖.
    pub residual: f64,
}

/// How a run is going, as the callback sees it after every step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Info {
    /// Steps so far.
    pub iterations: usize,
    /// Passes over the dictionary so far.
    pub passes: f64,
    /// Seconds since the start.
    pub seconds: f64,
    /// Columns with a weight at present.
    pub points: usize,
    /// Largest number of columns, k.
    pub k: usize,
    /// ‖y − Φw‖ at present.
    pub residual: f64,
    /// ‖y‖.
    pub target_norm: f64,
}

/// What a step says to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Continue,
    /// Done, for this reason.
    Finished(Status),
}

/// A method under way. `docs/adding-a-method.md` shows how to write one.
pub trait Algorithm {
    /// One step: at most a few passes, ending with weights that satisfy the constraints.
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error>;

    /// Points and ‖y − Φw‖ at present, for the callback.
    fn progress(&self) -> (usize, f64);

    /// The weights at present.
    fn weights(&self) -> Weights;

    /// The best found at every size, for methods that have it.
    fn path(&mut self, _problem: &Problem, _oracle: &mut Oracle<'_>) -> Result<Vec<PathPoint>, Error> {
        Ok(Vec::new())
    }
}

/// What an algorithm starts from: a [`Method`](crate::Method), settings of your own, or just a closure that makes an
/// [`Algorithm`] of a [`Problem`].
pub trait Start {
    /// The name a user knows it by.
    fn name(&self) -> &'static str {
        "this method"
    }

    /// Whether Σw = L is supported.
    fn can_hold_total(&self) -> bool {
        false
    }

    /// Checks the settings, before any work is done.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the first one out of range.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// How many columns it begins with for k points: a sample with chances ∝ ‖φ‖, which comes with the sum.
    fn sample(&self, _k: usize) -> usize {
        0
    }

    /// The algorithm before its first step.
    fn start(&self, problem: &Problem) -> Box<dyn Algorithm>;
}

impl<A: Algorithm + 'static, F: Fn(&Problem) -> A> Start for F {
    fn start(&self, problem: &Problem) -> Box<dyn Algorithm> {
        Box::new(self(problem))
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// The columns chosen and their weights.
    pub weights: Weights,
    /// ‖y − Φw‖, computed afresh in f64 from these weights.
    pub residual: f64,
    /// ‖y‖.
    pub target_norm: f64,
    /// Why the run stopped.
    pub status: Status,
    /// Steps of the method.
    pub iterations: usize,
    /// Passes over the dictionary, the sum Φ1 included.
    pub passes: f64,
    /// Seconds.
    pub seconds: f64,
    /// The best found at every size 1, 2, …, for methods that yield it (pursuit); empty otherwise.
    pub path: Vec<PathPoint>,
}

impl Solution {
    /// ‖y − Φw‖ / ‖y‖, and 0 for y = 0.
    pub fn relative_residual(&self) -> f64 {
        if self.target_norm > 0.0 { self.residual / self.target_norm } else { 0.0 }
    }
}

/// ‖y − Φw‖ in f64 for given weights.
///
/// # Errors
/// Whatever the dictionary fails with.
pub fn residual_norm(oracle: &Oracle<'_>, target: &[f64], weights: &Weights) -> Result<f64, Error> {
    Ok(residual_norms(oracle, target, &[weights])?[0])
}

/// ‖y − Φw‖ of several weight vectors. They may share columns, as the sizes of a path do; each column is requested once.
pub(crate) fn residual_norms(
    oracle: &Oracle<'_>,
    target: &[f64],
    weights: &[&Weights],
) -> Result<Vec<f64>, Error> {
    // Columns at hand at a time: there may be as many weights as there are columns.
    const PART: usize = 1024;
    let dim = target.len();
    let mut ids: Vec<usize> = weights.iter().flat_map(|weights| &weights.ids).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let mut columns = Vec::new();
    let mut residuals = vec![target.to_vec(); weights.len()];
    for ids in ids.chunks(PART) {
        columns.resize(ids.len() * dim, 0.0);
        oracle.columns(ids, &mut columns)?;
        let places = |weights: &Weights| -> Vec<(usize, f64)> {
            let inside = |id: &usize| (ids[0]..=ids[ids.len() - 1]).contains(id);
            let pairs = weights.ids.iter().zip(&weights.values).filter(|pair| inside(pair.0));
            pairs.map(|(id, weight)| (ids.partition_point(|other| other < id) * dim, -*weight)).collect()
        };
        let places: Vec<Vec<(usize, f64)>> = weights.iter().map(|weights| places(weights)).collect();
        let group = weights.len().div_ceil(4 * rayon::current_num_threads()).max(1);
        residuals.par_chunks_mut(group).zip(places.par_chunks(group)).for_each(|(residuals, places)| {
            // A strip of coordinates at a time, so that what the weights share stays in a cache.
            for start in (0..dim).step_by(STRIP) {
                for (residual, places) in residuals.iter_mut().zip(places) {
                    combine(&columns[start..], places, &mut residual[start..dim.min(start + STRIP)]);
                }
            }
        });
    }
    Ok(residuals.iter().map(|residual| norm(residual)).collect())
}

/// Hears how a run is going, and says whether to go on.
type Callback<'a> = dyn FnMut(&Info) -> ControlFlow<()> + 'a;

/// Solves min ‖y − Φw‖², w ≥ 0, ‖w‖₀ ≤ k: owns the limits, the clock and the callback, whatever the method.
///
/// ```
/// use std::ops::ControlFlow;
/// use sparse_nnls::{Dense, Method, Settings, Solver};
///
/// let phi = Dense::new(vec![1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 1.0, 1.0], 2)?;
/// let solution = Solver::new(&phi, Settings { k: 2, seed: 7, ..Settings::default() })
///     .target(&[3.0, 1.0])
///     .callback(|info| if info.passes > 50.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
///     .run(&Method::Omp)?;
/// assert!(solution.residual < 1e-12);
/// # Ok::<(), sparse_nnls::Error>(())
/// ```
pub struct Solver<'a> {
    dictionary: &'a dyn Dictionary,
    target: Option<&'a [f64]>,
    settings: Settings,
    callback: Box<Callback<'a>>,
}

impl<'a> Solver<'a> {
    /// For the target y = Φ1, with [`Settings`] or simply k.
    pub fn new(dictionary: &'a dyn Dictionary, settings: impl Into<Settings>) -> Self {
        let callback = Box::new(|_: &Info| ControlFlow::Continue(()));
        Self { dictionary, target: None, settings: settings.into(), callback }
    }

    /// Another target than Φ1.
    #[must_use]
    pub fn target(mut self, target: &'a [f64]) -> Self {
        self.target = Some(target);
        self
    }

    /// Sets a callback that receives [`Info`] after every step and may stop the run; without one nothing is reported.
    #[must_use]
    pub fn callback(mut self, callback: impl FnMut(&Info) -> ControlFlow<()> + 'a) -> Self {
        self.callback = Box::new(callback);
        self
    }

    /// Runs a [`Method`](crate::Method), or anything else that can start an [`Algorithm`].
    ///
    /// # Errors
    /// A typed error that names the value at fault, before any work is done; errors of the dictionary.
    pub fn run(mut self, method: &(impl Start + ?Sized)) -> Result<Solution, Error> {
        let start = Instant::now();
        check(self.dictionary, self.target, method, &self.settings)?;
        let mut oracle = Oracle::new(self.dictionary);
        let problem = pose(&mut oracle, self.target, method.sample(self.settings.k), &self.settings)?;
        let mut algorithm = method.start(&problem);
        let (status, iterations) = self.drive(&mut *algorithm, &problem, &mut oracle, start)?;
        let mut weights = algorithm.weights();
        if self.settings.polish {
            let polished = nnls_on_support(&oracle, &problem.target, &weights.ids, Some(&weights.values))?;
            weights = Weights { ids: polished.ids, values: polished.weights };
        }
        let residual = residual_norm(&oracle, &problem.target, &weights)?;
        let path = algorithm.path(&problem, &mut oracle)?;
        let (passes, seconds) = (oracle.passes(), start.elapsed().as_secs_f64());
        let target_norm = problem.target_norm;
        Ok(Solution { weights, residual, target_norm, status, iterations, passes, seconds, path })
    }

    /// Steps until the algorithm, the callback or a limit ends it: why, and after how many.
    fn drive(
        &mut self,
        algorithm: &mut dyn Algorithm,
        problem: &Problem,
        oracle: &mut Oracle<'_>,
        start: Instant,
    ) -> Result<(Status, usize), Error> {
        let mut iterations = 0;
        loop {
            let step = algorithm.step(problem, oracle)?;
            iterations += 1;
            let (points, residual) = algorithm.progress();
            let (passes, seconds) = (oracle.passes(), start.elapsed().as_secs_f64());
            let target_norm = problem.target_norm;
            let info = Info { iterations, passes, seconds, points, k: problem.k, residual, target_norm };
            let go_on = (self.callback)(&info);
            if let Step::Finished(status) = step {
                return Ok((status, iterations));
            }
            if go_on.is_break() {
                return Ok((Status::Stopped, iterations));
            }
            if let Some(limit) = self.settings.limits.reached(&info) {
                return Ok((limit, iterations));
            }
        }
    }
}

fn pose(
    oracle: &mut Oracle<'_>,
    target: Option<&[f64]>,
    sampled: usize,
    settings: &Settings,
) -> Result<Problem, Error> {
    let Settings { k, total, seed, .. } = *settings;
    let (sum, sample) = if sampled == 0 {
        (oracle.sum()?, Vec::new())
    } else {
        let Gathered { sum, sample, .. } = oracle.gather(seed, sampled.min(oracle.len()))?;
        (sum, sample)
    };
    let target = target.map_or(sum.vector, <[f64]>::to_vec);
    finite(&target)?;
    let target_norm = norm(&target);
    Ok(Problem { target, target_norm, norms_sum: sum.norms, sample, k, total, seed })
}

fn finite(target: &[f64]) -> Result<(), Error> {
    match target.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(Error::TargetNotFinite { index, value: target[index] }),
        None => Ok(()),
    }
}

fn check(
    dictionary: &dyn Dictionary,
    target: Option<&[f64]>,
    method: &(impl Start + ?Sized),
    settings: &Settings,
) -> Result<(), Error> {
    let (columns, coordinates) = (dictionary.len(), dictionary.coordinates());
    if columns == 0 || coordinates == 0 {
        return Err(Error::EmptyDictionary { columns, coordinates });
    }
    if settings.k == 0 || settings.k > columns {
        return Err(Error::PointsOutOfRange { k: settings.k, columns });
    }
    if let Some(target) = target {
        if target.len() != coordinates {
            return Err(Error::TargetLength { target: target.len(), coordinates });
        }
        finite(target)?;
    }
    if let Some(total) = settings.total {
        positive("total", total)?;
        if !method.can_hold_total() {
            return Err(Error::TotalNotSupported { method: method.name() });
        }
    }
    positive("limits.passes", settings.limits.passes.unwrap_or(1.0))?;
    positive("limits.seconds", settings.limits.seconds.unwrap_or(1.0))?;
    method.check()
}

/// `value` must be a finite number above zero.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Error::Setting { name, value, expected: "it must be a finite number above 0" })
    }
}
