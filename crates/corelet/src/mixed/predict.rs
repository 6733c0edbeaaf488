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
    let (mut scratch, mut mode) = (mixed.scratch(), [0.0; 2]);
    let one = |place: &Place| {
        candidates.renew(rng);
        let uniform: f64 = Open01.sample(rng);
        mixed.draw(group, place, &candidates.nodes, &mut mode, &mut scratch, &candidates.z, uniform)
    };
    places.iter().map(one).collect()
}
