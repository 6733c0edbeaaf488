//! The modes of the integrand of one group: several where its likelihood is not concave in the predictor, as under heavy tails.

use super::covariance::apply_transposed;
use super::{Effect, Mixed, Place, Scratch};

/// Rows through which a search starts, at most: a part of a group that has as many as one in twelve of its rows is met.
const ROWS: usize = 12;
/// Modes that are nearer than this, in standard deviations of the integrand there, are one.
const SAME: f64 = 0.1;
/// Where a search starts, in standard deviations of the effects, for likelihoods that do not say where a row wants them.
const DISPERSED: [f64; 4] = [-3.0, -1.5, 1.5, 3.0];

impl Mixed {
    /// Whether the integrand of a group may have several modes.
    pub fn may_have_modes(&self) -> bool {
        !self.family.is_concave()
    }

    /// Where the integrand of a group is highest and widest; 0, where a climb is sure to find the one mode, if there is but one.
    pub fn best_mode(&self, group: usize, place: &Place, scratch: &mut Scratch) -> Effect {
        if !self.may_have_modes() {
            return [0.0; 2];
        }
        self.modes(group, place, scratch).first().map_or([0.0; 2], |(mode, _)| *mode)
    }

    /// The modes that climbs from 0 and from effects that explain single rows end at, with the log of the mass of each by its height
    /// and curvature, the one with the most first.
    pub fn modes(&self, group: usize, place: &Place, scratch: &mut Scratch) -> Vec<(Effect, f64)> {
        self.load(group, place, scratch);
        let mut found: Vec<(Effect, f64, [f64; 3])> = Vec::new();
        for start in self.peak_starts(group, place, scratch) {
            let mut mode = start;
            let factor = self.climb(group, place, &mut mode, scratch);
            let near = |(known, _, [a, b, c]): &(Effect, f64, [f64; 3])| {
                let off = [mode[0] - known[0], mode[1] - known[1]];
                // |Cᵀ(v − v′)|.
                apply_transposed(&[*a, 0.0, *b, *c], &off).into_iter().map(|x| x * x).sum::<f64>().sqrt()
                    < SAME
            };
            if found.iter().any(near) {
                continue;
            }
            let width = if self.effects.len() > 1 { factor[0] * factor[2] } else { factor[0] };
            let mass = self.expand(group, place, &mode, scratch).value - width.ln();
            if mass.is_finite() {
                found.push((mode, mass, factor));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.into_iter().map(|(mode, mass, _)| (mode, mass)).collect()
    }

    /// 0, and effects by which a row of the group has the predictor that it would have by itself; of two effects also such pairs.
    fn peak_starts(&self, group: usize, place: &Place, scratch: &Scratch) -> Vec<Effect> {
        let rows = self.rows_of(group);
        let wanted = |(at, i): (usize, usize)| {
            let own = self.family.own_predictor(self.observations.target(i))?;
            Some((own - scratch.base[at], scratch.z[at]))
        };
        let mut wanted: Vec<(f64, Effect)> = rows.enumerate().filter_map(wanted).collect();
        let two = self.effects.len() > 1;
        if wanted.is_empty() {
            let along = |x: f64| [Some([x, 0.0]), two.then_some([0.0, x])];
            return DISPERSED.into_iter().flat_map(along).flatten().chain([[0.0; 2]]).collect();
        }
        let step = wanted.len().div_ceil(ROWS).max(1);
        let mut starts: Vec<Effect> = vec![[0.0; 2]];
        if two {
            let some: Vec<_> = wanted.iter().step_by(step).collect();
            starts.extend(some.windows(2).filter_map(|pair| through(pair[0], pair[1])));
        }
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = wanted.last().copied();
        let single = wanted.into_iter().step_by(step).chain(last).filter_map(|(residual, z)| {
            let square = z[0] * z[0] + if two { z[1] * z[1] } else { 0.0 };
            (square > 1e-12)
                .then(|| [z[0] * residual / square, if two { z[1] * residual / square } else { 0.0 }])
        });
        starts.extend(single);
        // v of u = Λv.
        let [a, _, b, c] = place.factor.lambda;
        let of = |u: Effect| {
            let first = u[0] / a;
            [first, if two { (u[1] - b * first) / c } else { 0.0 }]
        };
        let starts = starts.into_iter().map(of);
        starts.filter(|v| v.iter().all(|x| x.abs() < 1e6)).collect()
    }
}

/// u that gives both rows what they want.
fn through((p, y): &(f64, Effect), (q, z): &(f64, Effect)) -> Option<Effect> {
    let determinant = y[0] * z[1] - y[1] * z[0];
    (determinant.abs() > 1e-9)
        .then(|| [(p * z[1] - q * y[1]) / determinant, (q * y[0] - p * z[0]) / determinant])
}
