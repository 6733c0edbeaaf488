//! Where fits begin that keep the effects of a factor as parameters: their standard deviation has no mode together with them.

use super::MixedModel;
use super::model::WeightedGroups;
use crate::linalg::LinalgError;

/// Steps of expectation and maximisation, at most.
const STEPS: usize = 25;
/// A step of log σ this short is the last.
const CLOSE: f64 = 0.02;
/// The least standard deviation that is taken, beside the one a fit starts with.
const LEAST: f64 = 1e-3;

impl MixedModel {
    /// A place near the bulk of the posterior of these groups: effects at their mode given σ, and σ² the mean of their squares, variances
    /// included (EM). What stands between a parameter and an effect is set by how much the rows say of each level.
    pub(super) fn fit_kept(
        &mut self,
        start: &[f64],
        groups: &[usize],
        weights: &[f64],
    ) -> Result<Vec<f64>, LinalgError> {
        let (mut theta, dim) = (start.to_vec(), self.mixed.dim());
        let starts = self.mixed.kept_starts();
        let mut covariance = Vec::new();
        for _ in 0..STEPS {
            let weighted = WeightedGroups::new(self, groups, weights, true).starting_at(&theta);
            theta = weighted.fit(&theta, false, 0.1)?.mean;
            covariance = weighted.covariance_given(&theta)?;
            let mut longest = 0.0_f64;
            for (at, kept) in starts.iter().zip(self.mixed.kept()) {
                let levels = at + 1..at + kept.parameters();
                let count = levels.len().max(1) as f64;
                let squares: f64 = levels.map(|j| theta[j] * theta[j] + covariance[j * dim + j]).sum();
                let next = (0.5 * (squares / count).ln()).max(start[*at] + LEAST.ln());
                longest = longest.max((next - theta[*at]).abs());
                theta[*at] = next;
            }
            if longest < CLOSE {
                break;
            }
        }
        for (number, at) in starts.into_iter().enumerate() {
            let log_sd = theta[at];
            let kept = &mut self.mixed.kept_mut()[number];
            for (h, power) in kept.powers.iter_mut().enumerate() {
                let j = at + 1 + h;
                // The share of the prior in what is known of the effect.
                *power = (covariance[j * dim + j] / (2.0 * log_sd).exp()).clamp(0.0, 1.0);
                theta[j] *= (-*power * log_sd).exp();
            }
            self.prior.kept[number].powers.clone_from(&kept.powers);
        }
        Ok(theta)
    }
}
