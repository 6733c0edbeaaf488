//! Draws of the random effects of a group, one at each draw of the other parameters.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Open01, StandardNormal};

use crate::model::mixed::{Effect, Mixed, Nodes, Place};
use crate::posterior::normal_quantile;

/// Places that a draw of one effect is chosen from; of two effects the square of a quarter.
pub const CANDIDATES: usize = 64;
/// Nodes along each effect, at least, between which the integrand is interpolated.
const NODES: usize = 15;
const NODES_OF_TWO: usize = 11;

/// What draws of random effects are made with.
pub struct Candidates {
    nodes: Nodes,
    two: bool,
    z: Vec<Effect>,
}

impl Candidates {
    /// For a model that is integrated by a rule of so many nodes along each effect.
    pub fn new(mixed: &Mixed, per_effect: usize) -> Self {
        let two = mixed.effects().len() > 1;
        let least = if two { NODES_OF_TWO } else { NODES };
        Self { nodes: Nodes::new(per_effect.max(least), mixed.effects().len()), two, z: Vec::new() }
    }

    /// Points spread as N(0, I): one in each of as many cells of equal probability.
    fn renew(&mut self, rng: &mut ChaCha8Rng) {
        let side = if self.two { CANDIDATES / 4 } else { CANDIDATES };
        let mut inside = |cell: usize| {
            let u: f64 = Open01.sample(rng);
            normal_quantile((cell as f64 + u) / side as f64)
        };
        self.z.clear();
        for i in 0..side {
            for j in if self.two { 0..side } else { 0..1 } {
                let first = inside(i);
                self.z.push([first, if self.two { inside(j) } else { 0.0 }]);
            }
        }
    }
}

/// u of a group at each place, one after the other: given its rows, or of a group of which nothing is known.
pub fn group_draws(
    mixed: &Mixed,
    group: Option<usize>,
    places: &[Place],
    candidates: &mut Candidates,
    rng: &mut ChaCha8Rng,
) -> Vec<Effect> {
    let Some(group) = group else {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        return places.iter().map(|place| mixed.draw_new(place, &[normal(), normal()])).collect();
    };
    let mut scratch = mixed.scratch();
    let mut mode = places.first().map_or([0.0; 2], |place| mixed.best_mode(group, place, &mut scratch));
    let one = |place: &Place| {
        candidates.renew(rng);
        let uniform: f64 = Open01.sample(rng);
        mixed.draw(group, place, &candidates.nodes, &mut mode, &mut scratch, &candidates.z, uniform)
    };
    places.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::model::mixed::{Effects, Term};
    use crate::model::special::sigmoid;
    use crate::model::{BuiltIn, Numbers};
    use crate::rows::Observations;

    /// Draws of a group of three rows, all successes, have the distribution that a grid says, which is far from a Gaussian.
    #[test]
    fn draws_are_of_the_density_that_a_grid_has() {
        let features = [1.0, -0.8, 1.0, 0.3, 1.0, 1.4];
        let both = Effects {
            terms: vec![Term::Intercept, Term::Slope { feature: 1, shift: 0.0 }],
            correlated: true,
        };
        for effects in [Effects::intercepts(), both] {
            let observations = Observations::new(&features, 2, vec![1.0; 3]);
            let model = BuiltIn::Logistic.bind(observations, Numbers::default()).unwrap();
            let mixed = Mixed::new(&*model, effects, vec![0, 3]).unwrap();
            let theta = [-1.0, 0.5, 0.9, 0.4, 0.3];
            let two = mixed.effects().len() > 1;
            let place = mixed.place(&theta[..mixed.dim()]);
            let mut candidates = Candidates::new(&mixed, 5);
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let drawn = group_draws(&mixed, Some(0), &vec![place.clone(); 20000], &mut candidates, &mut rng);
            // p(v) on a grid, and u = Λv.
            let mut grid: Vec<(f64, Effect)> = Vec::new();
            for i in -400..=400 {
                for j in if two { -400..=400 } else { 0..=0 } {
                    let v = [f64::from(i) * 0.015, f64::from(j) * 0.015];
                    let u = mixed.draw_new(&place, &v);
                    let row = |x: f64| sigmoid(theta[0] + theta[1] * x + u[0] + u[1] * x).ln();
                    let log = row(-0.8) + row(0.3) + row(1.4) - 0.5 * (v[0] * v[0] + v[1] * v[1]);
                    grid.push((log.exp(), u));
                }
            }
            let total: f64 = grid.iter().map(|(p, _)| p).sum();
            for a in 0..mixed.effects().len() {
                let mean = grid.iter().map(|(p, u)| p * u[a]).sum::<f64>() / total;
                let sd = (grid.iter().map(|(p, u)| p * (u[a] - mean).powi(2)).sum::<f64>() / total).sqrt();
                let n = drawn.len() as f64;
                let got = drawn.iter().map(|u| u[a]).sum::<f64>() / n;
                let got_sd = (drawn.iter().map(|u| (u[a] - got).powi(2)).sum::<f64>() / n).sqrt();
                assert!((got - mean).abs() < 0.05 * sd, "{two} {a}: mean {got} {mean}");
                assert!((got_sd / sd - 1.0).abs() < 0.04, "{two} {a}: sd {got_sd} {sd}");
                for cut in [-1.5, 0.0, 1.5] {
                    let at = mean + cut * sd;
                    let want = grid.iter().filter(|(_, u)| u[a] < at).map(|(p, _)| p).sum::<f64>() / total;
                    let share = drawn.iter().filter(|u| u[a] < at).count() as f64 / n;
                    assert!((share - want).abs() < 0.02, "{two} {a}: P(u < {at}) {share} {want}");
                }
            }
        }
    }
}
