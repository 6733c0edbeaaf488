//! The posterior of a mixed model: groups with weights, their integrals, and the prior.

use std::sync::Mutex;

use super::MixedPrior;
use super::climb::{Hill, climb, covariance_given, negative_hessian};
use crate::linalg::{LinalgError, dot, row_major};
use crate::model::mixed::{Effect, Mixed, Nodes, Scratch};
use crate::parallel;
use crate::posterior::{Gaussian, LogDensity};

/// Groups that are summed one after the other by one thread; sums of these parts are added in their order.
const PART: usize = 64;

/// A mixed model, its prior, and the rule that integrates its random effects out.
pub struct MixedModel {
    /// The rows in their groups.
    pub mixed: Mixed,
    /// The prior of its parameters.
    pub prior: MixedPrior,
    /// The nodes of the quadrature.
    pub nodes: Nodes,
}

/// Weighted groups of a model: ∝ π₀(φ)·exp(Σ w_g ℓ_g(φ)).
pub(super) struct WeightedGroups<'a> {
    pub(super) model: &'a MixedModel,
    pub(super) groups: &'a [usize],
    pub(super) weights: &'a [f64],
    /// Where the search for the mode of each group starts.
    pub(super) modes: Vec<Effect>,
    /// Whether groups are summed on all threads.
    pub(super) parallel: bool,
    /// The logs of the standard deviations of kept effects, which a fit leaves where they are.
    held: Vec<usize>,
    scratch: Mutex<Vec<Scratch>>,
}

/// The sum over some groups.
struct Sum {
    value: f64,
    gradient: Vec<f64>,
    /// Σ w ∇ℓ ∇ℓᵀ, where it is asked for.
    squares: Vec<f64>,
}

impl<'a> WeightedGroups<'a> {
    pub(super) fn new(
        model: &'a MixedModel,
        groups: &'a [usize],
        weights: &'a [f64],
        parallel: bool,
    ) -> Self {
        let modes = vec![[0.0; 2]; groups.len()];
        let held = model.mixed.kept_starts();
        Self { model, groups, weights, modes, parallel, held, scratch: Mutex::new(Vec::new()) }
    }

    /// The same with the modes of the groups at these parameters to start from.
    pub(super) fn starting_at(mut self, theta: &[f64]) -> Self {
        let MixedModel { mixed, nodes, .. } = self.model;
        let place = mixed.place(theta);
        let of = |(groups, modes): (&[usize], &[Effect])| {
            let (mut scratch, mut found) = (mixed.scratch(), modes.to_vec());
            for (group, mode) in groups.iter().zip(&mut found) {
                if mixed.may_have_modes() {
                    *mode = mixed.best_mode(*group, &place, &mut scratch);
                } else {
                    mixed.value(*group, &place, nodes, mode, &mut scratch);
                }
            }
            found
        };
        let parts = self.groups.chunks(PART).zip(self.modes.chunks(PART));
        self.modes = parallel::map(parts, of).concat();
        self
    }

    fn part(&self, at: std::ops::Range<usize>, place: &crate::model::mixed::Place, squares: bool) -> Sum {
        let MixedModel { mixed, nodes, .. } = self.model;
        let dim = mixed.dim();
        let mut scratch = self.taken();
        let mut sum = Sum {
            value: 0.0,
            gradient: vec![0.0; dim],
            squares: vec![0.0; if squares { dim * dim } else { 0 }],
        };
        let mut own = vec![0.0; dim];
        for i in at {
            let (group, weight, mut mode) = (self.groups[i], self.weights[i], self.modes[i]);
            own.fill(0.0);
            let value =
                mixed.value_and_gradient((group, 1.0), place, nodes, &mut mode, &mut scratch, &mut own);
            sum.value += weight * value;
            sum.gradient.iter_mut().zip(&own).for_each(|(sum, x)| *sum += weight * x);
            if squares {
                for (line, x) in sum.squares.chunks_exact_mut(dim).zip(&own) {
                    line.iter_mut().zip(&own).for_each(|(sum, y)| *sum += weight * x * y);
                }
            }
        }
        self.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(scratch);
        sum
    }

    fn taken(&self) -> Scratch {
        let kept = self.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.model.mixed.scratch())
    }

    fn sum(&self, theta: &[f64], squares: bool) -> Sum {
        let place = self.model.mixed.place(theta);
        let parts = parallel::parts(self.groups.len(), PART);
        let sums: Vec<Sum> = match self.parallel {
            true => parallel::map(parts, |part| self.part(part, &place, squares)),
            false => parts.map(|part| self.part(part, &place, squares)).collect(),
        };
        let dim = theta.len();
        let zero = Sum {
            value: 0.0,
            gradient: vec![0.0; dim],
            squares: vec![0.0; if squares { dim * dim } else { 0 }],
        };
        sums.into_iter().fold(zero, |mut total, part| {
            total.value += part.value;
            total.gradient.iter_mut().zip(&part.gradient).for_each(|(a, b)| *a += b);
            total.squares.iter_mut().zip(&part.squares).for_each(|(a, b)| *a += b);
            total
        })
    }

    /// The gradient of Σ w_g ℓ_g alone.
    pub(super) fn likelihood_gradient(&self, theta: &[f64]) -> Vec<f64> {
        self.sum(theta, false).gradient
    }

    /// log posterior and its gradient.
    pub(super) fn posterior(&self, theta: &[f64]) -> (f64, Vec<f64>) {
        let Sum { mut value, mut gradient, .. } = self.sum(theta, false);
        value += self.model.prior.add_to(theta, &mut gradient);
        (value, gradient)
    }

    /// The Gaussian fit: with curvatures by differences of the gradient where there are few groups, else by the products of the
    /// scores of the groups, whose sum is the curvature on average.
    pub(super) fn fit(&self, start: &[f64], by_scores: bool, near: f64) -> Result<Gaussian, LinalgError> {
        if by_scores { climb(&ByScores(self), start, near) } else { climb(&ByDifferences(self), start, near) }
    }

    /// The covariance about a place given the standard deviations of kept effects.
    pub(super) fn covariance_given(&self, theta: &[f64]) -> Result<Vec<f64>, LinalgError> {
        covariance_given(&ByDifferences(self), theta)
    }
}

impl LogDensity for WeightedGroups<'_> {
    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64> {
        let (value, slope) = self.posterior(theta);
        gradient.copy_from_slice(&slope);
        value.is_finite().then_some(value)
    }
}

struct ByDifferences<'a, 'b>(&'a WeightedGroups<'b>);

impl Hill for ByDifferences<'_, '_> {
    fn at(&self, theta: &[f64]) -> (f64, Vec<f64>) {
        self.0.posterior(theta)
    }

    fn held(&self) -> &[usize] {
        &self.0.held
    }

    fn precision(&self, theta: &[f64]) -> Vec<f64> {
        negative_hessian(theta, &mut |theta, out| out.copy_from_slice(&self.0.posterior(theta).1))
    }
}

struct ByScores<'a, 'b>(&'a WeightedGroups<'b>);

impl Hill for ByScores<'_, '_> {
    fn at(&self, theta: &[f64]) -> (f64, Vec<f64>) {
        self.0.posterior(theta)
    }

    fn held(&self) -> &[usize] {
        &self.0.held
    }

    fn precision(&self, theta: &[f64]) -> Vec<f64> {
        let Sum { gradient, squares, .. } = self.0.sum(theta, true);
        let (dim, total) = (theta.len(), self.0.weights.iter().sum::<f64>().max(1.0));
        let prior = self.0.model.prior.precision(theta);
        // About their mean: away from the mode the scores have one.
        row_major(dim, |i, j| squares[i * dim + j] - gradient[i] * gradient[j] / total + prior[i * dim + j])
    }
}

/// √(gᵀΣg): how far a slope of g moves a posterior, in its standard deviations, in the worst direction.
pub(super) fn moves(posterior: &Gaussian, slope: &[f64]) -> f64 {
    let moved = posterior.covariance.chunks_exact(slope.len().max(1)).map(|line| dot(line, slope));
    moved.zip(slope).map(|(moved, g)| moved * g).sum::<f64>().max(0.0).sqrt()
}
