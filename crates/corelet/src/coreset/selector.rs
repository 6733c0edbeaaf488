//! The two ways to choose points: a method of the solver in an embedding, or SparseVI.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use sparse_nnls::{
    Info, LineSearch, Method, Oracle, PathPoint, Solution, Status, Weights, nnls_on_support, residual_norm,
};

use crate::coreset::{BuildError, BuildOptions, Callback, Coreset};
use crate::embed::Embedding;
use crate::rows::Problem;
use crate::sparse_vi::{SparseViPoint, SparseViSettings, sparse_vi};

/// The name of SparseVI for users.
const SPARSE_VI: &str = "sparse-vi";

/// How points are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// By a method of the solver, in one embedding under π̂.
    Embedded(Method),
    /// By SparseVI, which recomputes the embedding under the posterior of each coreset on its way.
    SparseVi(SparseViSettings),
}

impl Default for Selector {
    fn default() -> Self {
        Self::Embedded(Method::default())
    }
}

impl From<Method> for Selector {
    fn from(method: Method) -> Self {
        Self::Embedded(method)
    }
}

impl Selector {
    /// The names of all, SparseVI last.
    pub fn names() -> Vec<&'static str> {
        Method::all().iter().map(Method::name).chain([SPARSE_VI]).collect()
    }

    /// The method with this name, with its default settings.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = &name.replace('_', "-");
        if name == SPARSE_VI {
            return Some(Self::SparseVi(SparseViSettings::default()));
        }
        Method::from_name(name).map(Self::Embedded)
    }

    /// The same, with the authors' half step where asked for and where it has one.
    pub fn with_step(self, reference: bool) -> Self {
        match self {
            Self::Embedded(method) => Self::Embedded(with_step(method, reference)),
            Self::SparseVi(_) => self,
        }
    }

    /// The name for users.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded(method) => method.name(),
            Self::SparseVi(_) => SPARSE_VI,
        }
    }
}

/// Chooses at most `options.k` points by SparseVI. The embedding serves only to compute the residual,
/// for comparison with other methods, and the weights of `options.polish`.
///
/// `options.embedding` is ignored. The callback is called after each point.
///
/// # Errors
/// See [`BuildError`]; `options.max_kl` and `options.total` are refused.
pub fn select_by_sparse_vi(
    problem: Problem<'_>,
    embedding: &dyn Embedding,
    settings: &SparseViSettings,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Coreset, BuildError> {
    if options.max_kl.is_some() {
        return Err(BuildError::NoPath { method: SPARSE_VI });
    }
    if options.total.is_some() {
        return Err(sparse_nnls::Error::TotalNotSupported { method: SPARSE_VI }.into());
    }
    let mut follower = Follower::new(embedding, options)?;
    // It looks at every row at every step, so that rows that are elsewhere are brought here: a baseline, for data that fit in memory.
    let model = problem.rows.whole()?;
    let path = sparse_vi(&model, problem.prior, options.k, settings, options.seed, &mut |point| {
        follower.follow(point, callback).unwrap_or_else(|error| {
            follower.failure = Some(error);
            ControlFlow::Break(())
        })
    })?;
    Ok(Coreset::new(follower.finish(&path)?, embedding.description(), SPARSE_VI, options.k))
}

/// Turns the points of SparseVI into what callers of the solver know: residuals, limits, a status.
struct Follower<'a> {
    oracle: Oracle<'a>,
    target: Vec<f64>,
    target_norm: f64,
    options: &'a BuildOptions,
    path: Vec<PathPoint>,
    status: Status,
    failure: Option<sparse_nnls::Error>,
}

impl<'a> Follower<'a> {
    fn new(embedding: &'a dyn Embedding, options: &'a BuildOptions) -> Result<Self, sparse_nnls::Error> {
        let mut oracle = Oracle::new(embedding);
        let target = oracle.sum()?.vector;
        let target_norm = residual_norm(&oracle, &target, &Weights::default())?;
        let (path, status) = (Vec::new(), Status::Completed);
        Ok(Self { oracle, target, target_norm, options, path, status, failure: None })
    }

    fn follow(
        &mut self,
        point: &SparseViPoint,
        callback: &mut Callback<'_>,
    ) -> Result<ControlFlow<()>, sparse_nnls::Error> {
        let weights = Weights { ids: point.rows.clone(), values: point.weights.clone() };
        let residual = residual_norm(&self.oracle, &self.target, &weights)?;
        self.path.push(PathPoint { weights, residual });
        let info = Info {
            iterations: self.path.len(),
            passes: point.passes,
            seconds: point.seconds,
            points: point.points,
            k: self.options.k,
            residual,
            target_norm: self.target_norm,
        };
        let answer = callback(&info);
        if info.iterations == self.options.k {
            return Ok(ControlFlow::Continue(()));
        }
        let limit = self.options.limits.reached(&info);
        let Some(status) = answer.is_break().then_some(Status::Stopped).or(limit) else {
            return Ok(ControlFlow::Continue(()));
        };
        self.status = status;
        Ok(ControlFlow::Break(()))
    }

    fn finish(self, points: &[SparseViPoint]) -> Result<Solution, sparse_nnls::Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let iterations = points.len();
        let (passes, seconds) = points.last().map_or((0.0, 0.0), |point| (point.passes, point.seconds));
        let last = self.path.last().map_or_else(Weights::default, |point| point.weights.clone());
        let weights = if self.options.polish {
            let fit = nnls_on_support(&self.oracle, &self.target, &last.ids, Some(&last.values))?;
            Weights { ids: fit.ids, values: fit.weights }
        } else {
            last
        };
        Ok(Solution {
            residual: residual_norm(&self.oracle, &self.target, &weights)?,
            weights,
            target_norm: self.target_norm,
            status: self.status,
            iterations,
            passes,
            seconds,
            path: self.path,
        })
    }
}

/// The method of the solver, with the authors' half step where asked for and where it has one.
fn with_step(mut method: Method, reference: bool) -> Method {
    if let Method::Iht(settings) | Method::AIht(settings) | Method::AIht2(settings) = &mut method
        && reference
    {
        settings.line_search = LineSearch::Reference;
    }
    method
}
