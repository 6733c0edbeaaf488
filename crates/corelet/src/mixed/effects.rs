//! The random effects of every group, given draws of the other parameters: moments and quantiles in one pass.

use super::{EffectScale, MixedModel};
use crate::model::mixed::{Effect, Place};
use crate::parallel;
use crate::posterior::normal_quantile;

/// Groups that one thread goes through, one after the other.
const TOGETHER: usize = 16;

/// The posterior of one effect of one group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffectSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The third cumulant over sd³.
    skewness: f64,
    /// The fourth cumulant over sd⁴.
    excess: f64,
}

/// The effects of one group.
pub type GroupEffects = Vec<EffectSummary>;

impl EffectSummary {
    /// The quantile at `probability`: exact in the first four moments (Cornish and Fisher 1938).
    pub fn quantile(&self, probability: f64) -> f64 {
        let z = normal_quantile(probability);
        // Where an expansion is no increasing function any more, it is not followed.
        let (g, k) = (self.skewness.clamp(-0.8, 0.8), self.excess.clamp(-0.5, 1.5));
        let bent = z + (z * z - 1.0) * g / 6.0 + (z.powi(3) - 3.0 * z) * k / 24.0
            - (2.0 * z.powi(3) - 5.0 * z) * g * g / 36.0;
        self.mean + self.sd * bent
    }

    /// From Σp(u − c)ᵐ for m = 1 … 4, of shares p that sum to `total`.
    fn of_sums(centre: f64, sums: [f64; 4], total: f64) -> Self {
        let [m1, m2, m3, m4] = sums.map(|sum| sum / total);
        let variance = (m2 - m1 * m1).max(0.0);
        let third = m3 - 3.0 * m1 * m2 + 2.0 * m1.powi(3);
        let fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1 * m1 * m2 - 3.0 * m1.powi(4);
        let sd = variance.sqrt();
        let (skewness, excess) =
            if sd > 0.0 { (third / sd.powi(3), fourth / (variance * variance) - 3.0) } else { (0.0, 0.0) };
        Self { mean: centre + m1, sd, skewness, excess }
    }
}

/// The random effects of these groups on the scale of the data: their moments under draws θ of the other parameters, one after the
/// other, by the nodes of the model.
pub fn random_effects(
    model: &MixedModel,
    scale: &EffectScale,
    theta: &[f64],
    groups: std::ops::Range<usize>,
) -> Vec<GroupEffects> {
    let dim = model.mixed.dim();
    let places: Vec<Place> = theta.chunks_exact(dim).map(|draw| model.mixed.place(draw)).collect();
    let groups: Vec<usize> = groups.collect();
    parallel::map(groups.chunks(TOGETHER), |groups| {
        let mut scratch = model.mixed.scratch();
        let each = groups.iter().map(|&group| of_group(model, scale, &places, group, &mut scratch));
        each.collect::<Vec<_>>()
    })
    .concat()
}

fn of_group(
    model: &MixedModel,
    scale: &EffectScale,
    places: &[Place],
    group: usize,
    scratch: &mut crate::model::mixed::Scratch,
) -> GroupEffects {
    let count = model.mixed.effects().len();
    let start = places.first().map_or([0.0; 2], |place| model.mixed.best_mode(group, place, scratch));
    let (mut mode, mut centre): (Effect, Option<Effect>) = (start, None);
    let (mut sums, mut total) = ([[0.0; 4]; 2], 0.0);
    for place in places {
        model.mixed.effects_of(group, place, &model.nodes, &mut mode, scratch, &mut |share, u| {
            let u = scale.original(&u);
            let centre = centre.get_or_insert(u);
            total += share;
            for (sums, (u, c)) in sums.iter_mut().zip(u.iter().zip(&*centre)) {
                let off = u - c;
                let mut power = share;
                for sum in sums {
                    power *= off;
                    *sum += power;
                }
            }
        });
    }
    let centre = centre.unwrap_or_default();
    (0..count).map(|a| EffectSummary::of_sums(centre[a], sums[a], total)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Gamma distribution with shape 30, whose quantiles are known: skewness 0.37.
    #[test]
    fn quantiles_follow_four_moments() {
        let shape = 30.0_f64;
        // Σp(u − c)ᵐ about c = 29, from raw cumulants κₘ = shape·(m − 1)!.
        let (k1, k2, k3, k4) = (shape - 29.0, shape, 2.0 * shape, 6.0 * shape);
        let m2 = k2 + k1 * k1;
        let m3 = k3 + 3.0 * k1 * k2 + k1.powi(3);
        let m4 = k4 + 4.0 * k1 * k3 + 3.0 * k2 * k2 + 6.0 * k1 * k1 * k2 + k1.powi(4);
        let summary = EffectSummary::of_sums(29.0, [2.0 * k1, 2.0 * m2, 2.0 * m3, 2.0 * m4], 2.0);
        assert!((summary.mean - 30.0).abs() < 1e-12 && (summary.sd - 30f64.sqrt()).abs() < 1e-12);
        // scipy.stats.gamma(30).ppf.
        for (probability, want) in [(0.05, 21.594_027_8), (0.5, 29.667_212_3), (0.95, 39.540_968_6)] {
            let got = summary.quantile(probability);
            assert!((got - want).abs() < 0.02, "{probability}: {got} {want}");
        }
    }
}
