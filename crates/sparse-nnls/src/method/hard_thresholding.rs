//! The engine of IHT, A-IHT and A-IHT II: a gradient step, a projection, perhaps a de-biasing step and momentum.
//!
//! f(w) = ‖y − Φw‖² has the gradient −2g, g = Φᵀ(y − Φw). The top k entries of z + μg are the top k of g outside
//! supp(z) together with the at most 2k entries on it, so one pass with two rankings is all that a step asks for.

use serde::{Deserialize, Serialize};

use crate::constraint::Constraint;
use crate::dictionary::{Batch, Candidate, Oracle, Query, Ranking, Score};
use crate::driver::{Algorithm, Problem, Step, Weights, positive};
use crate::error::Error;
use crate::kernel::{axpy, dot, norm};
use crate::method::column_cache::ColumnCache;
use crate::status::Status;

/// How step sizes μ and τ are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineSearch {
    /// The exact minimisers: μ = ⟨r, Φd⟩/‖Φd‖² along d, and τ likewise.
    #[default]
    Exact,
    /// Half the exact μ, and the exact τ, as the authors' code does, to match its curves (`docs/errata.md`).
    Reference,
    /// Halve from a long step until the Armijo condition (slope ½) holds for μ; halve τ from 1 until f does not rise.
    Backtracking,
}

/// Settings of the hard-thresholding methods.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `line_search` | exact | how μ and τ are found | see [`LineSearch`] |
/// | `tolerance` | 1e-5 | stop when ‖wₜ − wₜ₋₁‖ ≤ tolerance·‖wₜ‖ | > 0 |
/// | `max_iterations` | 300 | the paper's limit (500 for its large sets) | ≥ 1 |
/// | `batch` | 1 | share of the columns that a gradient reads | (0, 1] |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardThresholding {
    /// How μ and τ are found.
    pub line_search: LineSearch,
    /// Relative change of w at which the method has converged.
    pub tolerance: f64,
    /// Most iterations.
    pub max_iterations: usize,
    /// Share of the columns that each gradient reads; below 1 the gradient is stochastic and unbiased.
    pub batch: f64,
}

impl Default for HardThresholding {
    fn default() -> Self {
        Self { line_search: LineSearch::Exact, tolerance: 1e-5, max_iterations: 300, batch: 1.0 }
    }
}

impl HardThresholding {
    pub(super) fn check(&self) -> Result<(), Error> {
        positive("tolerance", self.tolerance)?;
        positive("max_iterations", self.max_iterations as f64)?;
        if self.batch > 0.0 && self.batch <= 1.0 {
            Ok(())
        } else {
            Err(Error::Setting {
                name: "batch",
                value: self.batch,
                expected: "it must be a fraction in (0, 1]",
            })
        }
    }
}

/// What the three algorithms of the paper add to a projected gradient step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) momentum: bool,
    pub(super) debias: bool,
}

/// A sparse vector by ascending id, and its image under Φ.
#[derive(Default)]
struct Iterate {
    ids: Vec<usize>,
    values: Vec<f64>,
    image: Vec<f64>,
}

impl Iterate {
    fn with_capacity(k: usize, dim: usize) -> Self {
        Self { ids: Vec::with_capacity(k), values: Vec::with_capacity(k), image: vec![0.0; dim] }
    }

    fn value(&self, id: usize) -> f64 {
        self.ids.binary_search(&id).map_or(0.0, |at| self.values[at])
    }
}

/// z, where a step starts from: w with momentum, by ascending id, and y − Φz.
struct Extrapolated {
    ids: Vec<usize>,
    values: Vec<f64>,
    residual: Vec<f64>,
}

/// The columns that a step works on, by ascending id, and one number of each kind for every one of them.
struct Active {
    ids: Vec<usize>,
    cache: ColumnCache,
    gradient: Vec<f64>,
    direction: Vec<f64>,
    point: Vec<f64>,
}

impl Active {
    fn with_capacity(capacity: usize, dim: usize) -> Self {
        Self {
            ids: Vec::with_capacity(capacity),
            cache: ColumnCache::new(capacity, dim),
            gradient: Vec::with_capacity(capacity),
            direction: Vec::with_capacity(capacity),
            point: Vec::with_capacity(capacity),
        }
    }

    /// image ← Φ·coefficients.
    fn map(&self, coefficients: &[f64], image: &mut [f64]) {
        image.fill(0.0);
        for (position, &c) in coefficients.iter().enumerate().filter(|(_, c)| **c != 0.0) {
            axpy(c, self.cache.column(position), image);
        }
    }

    /// A step no useful one exceeds: 1/min ‖φ‖² over the columns moved.
    fn longest_step(&self) -> f64 {
        let moved = |(position, d): (usize, &f64)| {
            (*d != 0.0)
                .then(|| self.cache.column(position))
                .map(|column| dot(column, column))
                .filter(|s| *s > 0.0)
        };
        self.direction.iter().enumerate().filter_map(moved).fold(f64::INFINITY, f64::min).recip()
    }
}

pub(super) struct Engine {
    settings: HardThresholding,
    variant: Variant,
    constraint: Constraint,
    /// wₜ and wₜ₋₁.
    w: Iterate,
    previous: Iterate,
    z: Extrapolated,
    answers: [Vec<Candidate>; 2],
    active: Active,
    order: Vec<usize>,
    image: Vec<f64>,
    residual: Vec<f64>,
    iteration: usize,
}

impl Engine {
    pub(super) fn new(problem: &Problem, settings: HardThresholding, variant: Variant) -> Self {
        let (k, dim) = (problem.k, problem.target.len());
        let constraint = match problem.total {
            Some(total) => Constraint::Simplex { k, total },
            None => Constraint::NonNegative { k },
        };
        Self {
            settings,
            variant,
            constraint,
            w: Iterate::with_capacity(k, dim),
            previous: Iterate::with_capacity(k, dim),
            z: Extrapolated {
                ids: Vec::with_capacity(2 * k),
                values: Vec::with_capacity(2 * k),
                residual: problem.target.clone(),
            },
            answers: [Vec::with_capacity(k), Vec::with_capacity(k)],
            active: Active::with_capacity(4 * k, dim),
            order: Vec::with_capacity(4 * k),
            image: vec![0.0; dim],
            residual: problem.target.clone(),
            iteration: 0,
        }
    }

    /// The pass: the k largest |g| (to explore) and the k largest g (to enter) outside supp(z).
    fn look(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Option<Batch>, Error> {
        let batch = (self.settings.batch < 1.0).then(|| Batch {
            seed: problem.seed.wrapping_add(self.iteration as u64),
            fraction: self.settings.batch,
        });
        let rankings = [Score::Absolute, Score::Raw].map(|score| Ranking { score, count: problem.k });
        let mut query =
            Query { vectors: &[&self.z.residual], rankings: &rankings, exclude: &self.z.ids, batch };
        oracle.top(&query, &mut self.answers)?;
        // A batch of a small dictionary can be empty.
        if self.z.ids.is_empty() && self.answers[1].is_empty() {
            query.batch = None;
            oracle.top(&query, &mut self.answers)?;
        }
        let batch = query.batch;
        let Active { ids, cache, .. } = &mut self.active;
        ids.clear();
        ids.extend_from_slice(&self.z.ids);
        ids.extend(self.answers.iter().flatten().map(|candidate| candidate.id));
        ids.sort_unstable();
        ids.dedup();
        cache.hold(ids, oracle)?;
        Ok(batch)
    }

    /// g on the active columns, scaled n/B and zero outside the batch; and the search direction g restricted to
    /// S = supp(z) ∪ the largest |g|.
    fn differentiate(&mut self, batch: Option<Batch>) {
        let scale = 1.0 / self.settings.batch;
        self.order.clear();
        self.order.extend(self.answers[0].iter().map(|candidate| candidate.id));
        self.order.sort_unstable();
        let Active { ids, cache, gradient, direction, .. } = &mut self.active;
        gradient.clear();
        direction.clear();
        for (position, id) in ids.iter().enumerate() {
            let seen = batch.is_none_or(|batch| batch.contains(*id));
            let g = if seen { scale * dot(cache.column(position), &self.z.residual) } else { 0.0 };
            let explored = self.z.ids.binary_search(id).is_ok() || self.order.binary_search(id).is_ok();
            gradient.push(g);
            direction.push(if explored { g } else { 0.0 });
        }
    }

    /// The step along the direction d, whose image Φd is in `image`, from a residual.
    fn step_size(&self, residual: &[f64]) -> f64 {
        let (slope, curvature) = (dot(residual, &self.image), dot(&self.image, &self.image));
        if curvature == 0.0 || slope <= 0.0 {
            return 0.0;
        }
        let exact = slope / curvature;
        match self.settings.line_search {
            LineSearch::Exact => exact,
            LineSearch::Reference => 0.5 * exact,
            LineSearch::Backtracking => {
                // f(z + μd) = f(z) − 2μ·slope + μ²·curvature; Armijo with slope ½ asks for μ ≤ slope/curvature, which
                // the first trial meets with equality where one column moves: rounding must not decide that.
                let mut step = self.active.longest_step().max(exact);
                while step > exact * (1.0 + 1e-9) {
                    step *= 0.5;
                }
                step
            }
        }
    }

    /// point ← Π(z + μg), the projected gradient step.
    fn descend(&mut self) {
        self.active.map(&self.active.direction, &mut self.image);
        let step = self.step_size(&self.z.residual);
        let Active { ids, gradient, point, .. } = &mut self.active;
        point.clear();
        for (id, g) in ids.iter().zip(&*gradient) {
            let z = self.z.ids.binary_search(id).map_or(0.0, |at| self.z.values[at]);
            point.push(z + step * g);
        }
        self.project();
    }

    /// point ← Π(x + μg|supp(x)): one more exact step inside the support just found.
    fn debias(&mut self, problem: &Problem) {
        subtract(&problem.target, &self.image, &mut self.residual);
        let Active { cache, direction, point, .. } = &mut self.active;
        for (position, (d, x)) in direction.iter_mut().zip(&*point).enumerate() {
            *d = if *x > 0.0 { dot(cache.column(position), &self.residual) } else { 0.0 };
        }
        self.active.map(&self.active.direction, &mut self.image);
        let step = self.step_size(&self.residual);
        // Entries off the support sink to −∞ so that no projection can revive them.
        let Active { direction, point, .. } = &mut self.active;
        for (x, d) in point.iter_mut().zip(&*direction) {
            *x = if *x > 0.0 { *x + step * d } else { f64::NEG_INFINITY };
        }
        self.project();
    }

    /// point ← Π(point), and its image.
    fn project(&mut self) {
        self.constraint.project(&mut self.active.point, &mut self.order);
        self.active.map(&self.active.point, &mut self.image);
    }

    /// wₜ₋₁ ← wₜ, wₜ ← point.
    fn advance(&mut self) {
        std::mem::swap(&mut self.w, &mut self.previous);
        self.w.ids.clear();
        self.w.values.clear();
        for (id, x) in self.active.ids.iter().zip(&self.active.point).filter(|(_, x)| **x > 0.0) {
            self.w.ids.push(*id);
            self.w.values.push(*x);
        }
        self.w.image.copy_from_slice(&self.image);
    }

    /// z ← w + τ(w − wₜ₋₁) and its residual; τ = 0 without momentum.
    fn extrapolate(&mut self, problem: &Problem) {
        subtract(&problem.target, &self.w.image, &mut self.residual);
        subtract(&self.w.image, &self.previous.image, &mut self.image);
        let tau = if self.variant.momentum { self.momentum() } else { 0.0 };
        self.z.residual.copy_from_slice(&self.residual);
        axpy(-tau, &self.image, &mut self.z.residual);
        self.z.ids.clear();
        self.z.ids.extend_from_slice(&self.w.ids);
        if tau != 0.0 {
            self.z.ids.extend_from_slice(&self.previous.ids);
            self.z.ids.sort_unstable();
            self.z.ids.dedup();
        }
        self.z.values.clear();
        for &id in &self.z.ids {
            let now = self.w.value(id);
            self.z.values.push(now + tau * (now - self.previous.value(id)));
        }
    }

    /// τ = argmin f(w + τd) = ⟨y − Φw, Φd⟩/‖Φd‖², d = w − wₜ₋₁. The paper prints a spurious ½ (`docs/errata.md`).
    fn momentum(&self) -> f64 {
        let (slope, curvature) = (dot(&self.residual, &self.image), dot(&self.image, &self.image));
        if curvature == 0.0 {
            return 0.0;
        }
        let exact = slope / curvature;
        if self.settings.line_search != LineSearch::Backtracking {
            return exact;
        }
        // f(w + τd) ≤ f(w) just for τ between 0 and twice the exact step.
        let mut tau = 1.0;
        while tau > 2.0 * exact && tau > 1e-3 {
            tau *= 0.5;
        }
        if tau <= 2.0 * exact { tau } else { 0.0 }
    }

    /// The paper's stopping rule, ‖wₜ − wₜ₋₁‖ ≤ tolerance·‖wₜ‖.
    fn has_converged(&self) -> bool {
        let now = self.w.ids.iter().zip(&self.w.values);
        let moved: f64 = now.map(|(id, x)| (x - self.previous.value(*id)).powi(2)).sum();
        let gone = self.previous.ids.iter().zip(&self.previous.values);
        let gone: f64 =
            gone.filter(|(id, _)| self.w.ids.binary_search(id).is_err()).map(|(_, x)| x * x).sum();
        (moved + gone).sqrt() <= self.settings.tolerance * norm(&self.w.values)
    }
}

fn subtract(a: &[f64], b: &[f64], out: &mut [f64]) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a - b);
}

impl Algorithm for Engine {
    fn step(&mut self, problem: &Problem, oracle: &mut Oracle<'_>) -> Result<Step, Error> {
        self.iteration += 1;
        let batch = self.look(problem, oracle)?;
        self.differentiate(batch);
        // A batch that happens to hold nothing of use says nothing about convergence.
        let idle = self.active.direction.iter().all(|d| *d == 0.0);
        if !(idle && batch.is_some() && self.iteration > 1) {
            self.descend();
            if self.variant.debias {
                self.debias(problem);
            }
            self.advance();
            self.extrapolate(problem);
            if self.iteration > 1 && self.has_converged() {
                return Ok(Step::Finished(Status::Converged));
            }
        }
        let last = self.iteration >= self.settings.max_iterations;
        Ok(if last { Step::Finished(Status::IterationLimit) } else { Step::Continue })
    }

    fn progress(&self) -> (usize, f64) {
        (self.w.ids.len(), norm(&self.residual))
    }

    fn weights(&self) -> Weights {
        Weights { ids: self.w.ids.clone(), values: self.w.values.clone() }
    }
}
