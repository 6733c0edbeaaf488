//! Mixed models: groups of rows whose random effects are integrated out, as units of a coreset.
//!
//! The kernel is [`model::mixed`](crate::model::mixed): ℓ_g and its gradient. Here a group is a row of an engine's
//! [`Target`](crate::engine::Target): k weighted groups are chosen, sampled by NUTS on φ and judged on all groups. Given φ, the
//! random effects of a group are independent of those of the others and known exactly, so one verdict covers all parameters.

mod climb;
mod effects;
mod kept;
mod model;
mod modes;
mod predict;
mod prior;
mod quadrature;
mod scale;
mod specification;
#[cfg(feature = "sampling")]
mod target;

pub use effects::{EffectSummary, GroupEffects, random_effects};
pub use model::MixedModel;
pub use modes::GroupMode;
pub use predict::{CANDIDATES, Candidates, group_draws};
pub use prior::{KeptPrior, MixedPrior, SdPrior};
pub use quadrature::Quadrature;
pub use scale::EffectScale;
pub use specification::{MixedSpecification, RandomEffects, RandomTerms};
#[cfg(feature = "sampling")]
pub use target::{ChainListener, GroupPlace, GroupTarget};

use crate::linalg::LinalgError;
use crate::model::mixed::Nodes;
use crate::posterior::Gaussian;
use crate::rows::add;
use model::WeightedGroups;

/// Nodes along each effect before their number is chosen.
const FIRST_NODES: usize = 7;
/// Groups up to which a fit of all takes curvatures by differences, which takes two passes a parameter and a step.
const FEW: usize = 600;
/// How near to the mode a fit of many groups ends, in posterior standard deviations: the first coreset is built there, and its own
/// posterior takes over.
const NEAR: f64 = 0.05;

/// Where a fit begins, and where the search for other modes does.
#[derive(Debug, Clone, Copy)]
pub struct FitStart<'a> {
    /// Parameters.
    pub first: &'a [f64],
    /// Others, from which climbs may end at another mode.
    pub others: &'a [Vec<f64>],
    /// How far about the best coefficients starts are at random.
    pub spread: f64,
}

impl MixedModel {
    /// The modes of the posterior of all groups, the best first, from a fit of some of them where they are many; and the nodes that are
    /// fine enough there, or as many as are given.
    ///
    /// # Errors
    /// If the posterior has no curvature in some direction.
    pub fn fit(
        &mut self,
        FitStart { first: start, others, spread }: FitStart<'_>,
        nodes: Option<usize>,
        seed: u64,
    ) -> Result<(Vec<GroupMode>, Quadrature), LinalgError> {
        let groups = self.mixed.groups();
        let first = if self.mixed.is_gaussian() { 3 } else { nodes.unwrap_or(FIRST_NODES) };
        self.nodes = Nodes::new(first, self.mixed.effects().len());
        let mut from = start.to_vec();
        if groups > 2 * FEW || !self.mixed.kept().is_empty() {
            let few = FEW.min(groups);
            let some: Vec<usize> = (0..few).map(|i| i * groups / few).collect();
            let weights = vec![groups as f64 / few as f64; few];
            from = match self.mixed.kept().is_empty() {
                true => WeightedGroups::new(self, &some, &weights, true).fit(&from, false, 1.0)?.mean,
                false => self.fit_kept(&from, &some, &weights)?,
            };
        }
        let posterior = self.fit_all(&from)?;
        let mut modes = self.modes(posterior, others, spread, seed);
        let best = &mut modes[0].fit;
        let quadrature = quadrature::choose(self, best, nodes, seed);
        if quadrature.nodes != first {
            *best = self.fit_all(&best.mean)?;
        }
        Ok((modes, quadrature))
    }

    fn fit_all(&self, from: &[f64]) -> Result<Gaussian, LinalgError> {
        let groups: Vec<usize> = (0..self.mixed.groups()).collect();
        let weights = vec![1.0; groups.len()];
        WeightedGroups::new(self, &groups, &weights, true).starting_at(from).fit(
            from,
            groups.len() > 2 * FEW,
            NEAR,
        )
    }

    /// The gradient of the log-likelihood of all groups.
    pub fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let groups: Vec<usize> = (0..self.mixed.groups()).collect();
        let weights = vec![1.0; groups.len()];
        let mut gradient = vec![0.0; theta.len()];
        add(&mut gradient, &WeightedGroups::new(self, &groups, &weights, true).likelihood_gradient(theta));
        gradient
    }
}
