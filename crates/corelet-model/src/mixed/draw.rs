//! Draws of the random effects of a group given its rows: by the nodes of the quadrature, between which the integrand is interpolated.

use super::covariance::apply;
use super::group::unwhiten;
use super::{Effect, Mixed, Nodes, Place, Scratch};

/// Where a number stands among sorted ones: the place of the one below, and how far it is towards the next. Beyond the ends it is the end.
fn between(sorted: &[f64], x: f64) -> (usize, f64) {
    let last = sorted.len() - 1;
    if last == 0 || x <= sorted[0] {
        return (0, 0.0);
    }
    let below = sorted.partition_point(|&known| known <= x).min(last) - 1;
    let share = (x - sorted[below]) / (sorted[below + 1] - sorted[below]);
    (below, share.min(1.0))
}

impl Mixed {
    /// A draw of u given the rows of a group, of which v is near N(mode, (CCᵀ)⁻¹): `candidates` z that are spread as N(0, I) have the odds
    /// e^{g(z)}, where g, the log of the integrand over that Gaussian, is linear between the nodes; `uniform` in (0, 1) picks one.
    #[allow(clippy::too_many_arguments, reason = "as its neighbours, and what picks the draw")]
    pub fn draw(
        &self,
        group: usize,
        place: &Place,
        nodes: &Nodes,
        mode: &mut Effect,
        scratch: &mut Scratch,
        candidates: &[Effect],
        uniform: f64,
    ) -> Effect {
        self.load(group, place, scratch);
        self.integral(group, place, nodes, mode, scratch, false);
        let (side, two) = (nodes.per_effect, self.effects().len() > 1);
        let each = scratch.shares.iter().zip(&nodes.log_weights).zip(&nodes.points);
        let logs: Vec<f64> = each
            .map(|((share, log_weight), z)| {
                share.max(1e-300).ln() - (log_weight - 0.5 * (z[0] * z[0] + z[1] * z[1]))
            })
            .collect();
        // Nodes go through the second effect first.
        let along: Vec<f64> = if two {
            nodes.points[..side].iter().map(|z| z[1]).collect()
        } else {
            nodes.points.iter().map(|z| z[0]).collect()
        };
        let log_odds = |z: &Effect| {
            let (i, s) = between(&along, z[0]);
            let line = |i: usize| -> f64 {
                let i = i.min(side - 1);
                if !two {
                    return logs[i];
                }
                let (j, t) = between(&along, z[1]);
                let next = (j + 1).min(side - 1);
                (1.0 - t) * logs[i * side + j] + t * logs[i * side + next]
            };
            (1.0 - s) * line(i) + s * line(i + 1)
        };
        let odds: Vec<f64> = candidates.iter().map(log_odds).collect();
        let most = odds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = odds.iter().map(|log| (log - most).exp()).sum();
        let mut left = uniform * total;
        let chosen = odds.iter().position(|log| {
            left -= (log - most).exp();
            left < 0.0
        });
        let z = candidates[chosen.unwrap_or(candidates.len() - 1)];
        let step = unwhiten(scratch.spread, &z);
        let v = [mode[0] + step[0], if two { mode[1] + step[1] } else { 0.0 }];
        apply(&place.factor.lambda, &v)
    }

    /// u = Λz: of a group of which nothing is known, where z is drawn from N(0, I).
    pub fn draw_new(&self, place: &Place, z: &Effect) -> Effect {
        let second = if self.effects().len() > 1 { z[1] } else { 0.0 };
        apply(&place.factor.lambda, &[z[0], second])
    }

    /// xᵀβ is to be moved by zᵀu in a row with these features.
    pub fn added(&self, features: &[f32], u: &Effect) -> f64 {
        self.effects().terms.iter().zip(u).map(|(term, u)| term.of(features) * u).sum()
    }
}

impl Mixed {
    /// The nodes of a group at a place, and their log weights aₖ: ∫f(v)N(v; 0, I)dv ≈ Σₖ aₖf(vₖ) for f like the group's likelihood there.
    pub fn nodes_of(
        &self,
        group: usize,
        place: &Place,
        nodes: &Nodes,
        scratch: &mut Scratch,
    ) -> (Vec<Effect>, Vec<f64>) {
        let mut mode = self.best_mode(group, place, scratch);
        self.load(group, place, scratch);
        self.integral(group, place, nodes, &mut mode, scratch, false);
        let [a, _, c] = scratch.spread;
        let width = if self.effects().len() > 1 { a * c } else { a };
        let each = scratch.effects.iter().zip(&nodes.log_weights);
        let logs = each.map(|(v, log_weight)| {
            // Of one effect the second number is that of no node.
            let square = v[0] * v[0] + if self.effects().len() > 1 { v[1] * v[1] } else { 0.0 };
            log_weight - 0.5 * square - width.ln()
        });
        (scratch.effects.clone(), logs.collect())
    }
}
