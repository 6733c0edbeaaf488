//! The integral over the random effects of one group: its mode, nodes about it, its log and the gradient of that.

use super::covariance::{Factor, MOST_EFFECTS, apply, apply_transposed};
use super::jets::RowJets;
use super::kept::KeptPlace;
use super::{Mixed, Term};
use crate::quadrature::Rule;

/// Entries of rows × nodes that are worked on at a time.
const AT_ONCE: usize = 4096;
/// Newton steps towards a mode, at most.
const STEPS: usize = 100;
/// A Newton step this short, in standard deviations of the integrand, is the last: what is left is of the order of its square.
const CLOSE: f64 = 1e-4;
/// The least curvature that nodes are spread by. That of N(v; 0, I) is 1; a likelihood that is not log-concave takes from it.
const LEAST_CURVATURE: f64 = 0.05;

/// v of one group; the second number is 0 where there is one effect.
pub type Effect = [f64; MOST_EFFECTS];

/// A rule for E[f(z)], z ~ N(0, I), one dimension for each random effect of a group.
#[derive(Debug, Clone)]
pub struct Nodes {
    /// Nodes along each dimension.
    pub per_effect: usize,
    pub(super) points: Vec<Effect>,
    /// log wₖ + ½|zₖ|².
    pub(super) log_weights: Vec<f64>,
}

impl Nodes {
    /// The product of Gauss–Hermite rules of so many nodes along each of one or two dimensions.
    pub fn new(per_effect: usize, effects: usize) -> Self {
        let rule = Rule::gauss(per_effect.max(1)).nodes;
        let second = if effects > 1 { rule.clone() } else { vec![(0.0, 1.0)] };
        let (mut points, mut log_weights) = (Vec::new(), Vec::new());
        for &(y, v) in &rule {
            for &(z, w) in &second {
                points.push([y, z]);
                log_weights.push(v.ln() + w.ln() + 0.5 * (y * y + z * z));
            }
        }
        Self { per_effect, points, log_weights }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

/// The parameters at which log-likelihoods are asked for.
#[derive(Debug, Clone)]
pub struct Place {
    /// The coefficients of the features.
    coefficients: Vec<f64>,
    /// What the likelihood of a row has besides.
    constants: Vec<f64>,
    pub(super) factor: Factor,
    /// For each factor that is kept, its place.
    pub(super) kept: Vec<KeptPlace>,
}

/// Buffers of one thread.
pub struct Scratch {
    jets: RowJets,
    /// xᵀβ + o of each row.
    pub(super) base: Vec<f64>,
    /// z of each row.
    pub(super) z: Vec<Effect>,
    /// fⱼ ∂ℓ/∂η at each node, for one node after the other; empty if no gradient is asked for.
    slopes: Vec<f64>,
    /// C of the curvature at the mode: a node is mode + C⁻ᵀz.
    pub(super) spread: [f64; 3],
    /// The log of the integrand at each node, and then their shares of the integral.
    pub(super) shares: Vec<f64>,
    /// The effect v at each node.
    pub(super) effects: Vec<Effect>,
    /// At each node, Σⱼ fⱼ ∂ℓ/∂η zⱼ.
    pulls: Vec<Effect>,
    /// Of each parameter beside the predictor and each node, Σⱼ fⱼ ∂ℓ/∂ζ.
    constant_slopes: Vec<f64>,
}

/// The log of the integrand near its mode.
pub(super) struct Near {
    pub(super) value: f64,
    gradient: Effect,
    /// Less its second derivatives: (0, 0), (1, 0), (1, 1).
    curvature: [f64; 3],
}

impl Near {
    /// The Cholesky factor C of the curvature, with as much added to it as makes it positive.
    fn factor(&self) -> [f64; 3] {
        let [a, b, c] = self.curvature;
        // The smallest eigenvalue of [[a, b], [b, c]].
        let least = 0.5 * (a + c) - (0.25 * (a - c).powi(2) + b * b).sqrt();
        let lift = (LEAST_CURVATURE - least).max(0.0);
        let first = (a + lift).sqrt();
        let below = b / first;
        [first, below, (c + lift - below * below).max(LEAST_CURVATURE * 1e-3).sqrt()]
    }
}

/// (CCᵀ)⁻¹ x.
fn solve([a, b, c]: [f64; 3], x: &Effect) -> Effect {
    let y = [x[0] / a, (x[1] - b * x[0] / a) / c];
    let second = y[1] / c;
    [(y[0] - b * second) / a, second]
}

/// C⁻ᵀ x.
pub(super) fn unwhiten([a, b, c]: [f64; 3], x: &Effect) -> Effect {
    let second = x[1] / c;
    [(x[0] - b * second) / a, second]
}

impl Mixed {
    /// What depends on the parameters alone.
    pub fn place(&self, theta: &[f64]) -> Place {
        let (fixed, covariance) = theta.split_at(self.fixed);
        let (coefficients, constants) = fixed.split_at(self.observations.dim);
        Place {
            coefficients: coefficients.to_vec(),
            constants: constants.to_vec(),
            factor: self.effects.factor(covariance),
            kept: self
                .kept
                .iter()
                .zip(self.kept_starts())
                .map(|(kept, at)| kept.place(&theta[at..]))
                .collect(),
        }
    }

    /// Buffers for one thread.
    pub fn scratch(&self) -> Scratch {
        Scratch {
            jets: self.family.jets(),
            base: Vec::new(),
            z: Vec::new(),
            slopes: Vec::new(),
            spread: [1.0, 0.0, 1.0],
            shares: Vec::new(),
            effects: Vec::new(),
            pulls: Vec::new(),
            constant_slopes: Vec::new(),
        }
    }

    /// ℓ_g. The search for the mode starts at `mode`, which becomes the mode.
    pub fn value(
        &self,
        group: usize,
        place: &Place,
        nodes: &Nodes,
        mode: &mut Effect,
        scratch: &mut Scratch,
    ) -> f64 {
        self.load(group, place, scratch);
        self.integral(group, place, nodes, mode, scratch, false)
    }

    /// ℓ_g, with ∇ℓ_g = E[∇ log p(y_g, v; φ)] under v given the group's rows (Fisher's identity), by the same nodes, added to
    /// `gradient` times `weight`.
    pub fn value_and_gradient(
        &self,
        (group, weight): (usize, f64),
        place: &Place,
        nodes: &Nodes,
        mode: &mut Effect,
        scratch: &mut Scratch,
        gradient: &mut [f64],
    ) -> f64 {
        self.load(group, place, scratch);
        let value = self.integral(group, place, nodes, mode, scratch, true);
        self.add_gradient(group, weight, place, scratch, gradient);
        value
    }

    /// ℓ_g; shows each node's share of the integral and u = Λv there.
    pub fn effects_of(
        &self,
        group: usize,
        place: &Place,
        nodes: &Nodes,
        mode: &mut Effect,
        scratch: &mut Scratch,
        see: &mut dyn FnMut(f64, Effect),
    ) -> f64 {
        self.load(group, place, scratch);
        let value = self.integral(group, place, nodes, mode, scratch, false);
        let each = scratch.shares.iter().zip(&scratch.effects);
        each.for_each(|(share, v)| see(*share, apply(&place.factor.lambda, v)));
        value
    }

    /// Predictors without random effects, and what these are multiplied by.
    pub(super) fn load(&self, group: usize, place: &Place, scratch: &mut Scratch) {
        let rows = self.rows_of(group);
        scratch.base.clear();
        scratch.base.extend(rows.clone().map(|i| self.observations.predictor(i, &place.coefficients)));
        for (kept, place) in self.kept.iter().zip(&place.kept) {
            let levels = &kept.levels[rows.clone()];
            scratch
                .base
                .iter_mut()
                .zip(levels)
                .for_each(|(eta, &level)| *eta += place.effects[level as usize]);
        }
        scratch.z.clear();
        let z = |terms: &[Term], features: &[f32]| -> Effect {
            [terms[0].of(features), terms.get(1).map_or(0.0, |term| term.of(features))]
        };
        scratch.z.extend(rows.map(|i| z(&self.effects.terms, self.observations.row(i))));
        scratch.jets.set_constants(&place.constants);
    }

    /// Fills in the rows `from..to` of a group at u.
    fn look(&self, first: usize, rows: std::ops::Range<usize>, us: &[Effect], scratch: &mut Scratch) {
        let Scratch { jets, base, z, .. } = scratch;
        let [eta, y, exposure] = jets.columns();
        [&mut *eta, &mut *y, &mut *exposure].into_iter().for_each(Vec::clear);
        let own = first + rows.start..first + rows.end;
        for u in us {
            let each = base[rows.clone()].iter().zip(&z[rows.clone()]);
            eta.extend(each.map(|(base, z)| base + z[0] * u[0] + z[1] * u[1]));
            y.extend_from_slice(&self.observations.target[own.clone()]);
            match &self.observations.exposure {
                Some(column) => exposure.extend_from_slice(&column[own.clone()]),
                None => exposure.resize(eta.len(), 1.0),
            }
        }
        self.family.fill(jets);
    }

    /// The log of the integrand at v, without the constant of N(v; 0, I), and its derivatives.
    pub(super) fn expand(&self, group: usize, place: &Place, v: &Effect, scratch: &mut Scratch) -> Near {
        let first = self.starts[group];
        let (count, lambda) = (self.rows_of(group).len(), &place.factor.lambda);
        let u = apply(lambda, v);
        let (mut value, mut pull, mut bend) = (0.0, [0.0; 2], [0.0; 3]);
        for start in (0..count).step_by(AT_ONCE) {
            let rows = start..count.min(start + AT_ONCE);
            self.look(first, rows.clone(), &[u], scratch);
            let [values, slopes, curvatures] = scratch.jets.answers();
            for (at, j) in rows.enumerate() {
                let (z, weight) = (&scratch.z[j], self.observations.weight(first + j));
                let (slope, curvature) = (weight * slopes[at], -weight * curvatures[at]);
                value += weight * values[at];
                pull = [pull[0] + slope * z[0], pull[1] + slope * z[1]];
                bend[0] += curvature * z[0] * z[0];
                bend[1] += curvature * z[0] * z[1];
                bend[2] += curvature * z[1] * z[1];
            }
        }
        let pull = apply_transposed(lambda, &pull);
        // Λᵀ B Λ + I.
        let [a, _, b, c] = *lambda;
        let curvature = [
            1.0 + a * a * bend[0] + 2.0 * a * b * bend[1] + b * b * bend[2],
            c * (a * bend[1] + b * bend[2]),
            1.0 + c * c * bend[2],
        ];
        Near {
            value: value - 0.5 * (v[0] * v[0] + v[1] * v[1]),
            gradient: [pull[0] - v[0], pull[1] - v[1]],
            curvature,
        }
    }

    /// Moves `mode` to the mode by Newton's steps, halved where they gain nothing; the factor of the curvature there.
    pub(super) fn climb(
        &self,
        group: usize,
        place: &Place,
        mode: &mut Effect,
        scratch: &mut Scratch,
    ) -> [f64; 3] {
        if !mode.iter().all(|v| v.is_finite()) {
            *mode = [0.0; 2];
        }
        let mut here = self.expand(group, place, mode, scratch);
        if !here.value.is_finite() {
            *mode = [0.0; 2];
            here = self.expand(group, place, mode, scratch);
        }
        for _ in 0..STEPS {
            let factor = here.factor();
            let step = solve(factor, &here.gradient);
            let gain = step[0] * here.gradient[0] + step[1] * here.gradient[1];
            if gain <= CLOSE * CLOSE || gain.is_nan() {
                if gain.is_finite() {
                    *mode = [mode[0] + step[0], mode[1] + step[1]];
                }
                return factor;
            }
            let noise = 1e-12 * (1.0 + here.value.abs());
            let (mut length, mut moved) = (1.0, false);
            while length > 1e-10 {
                let there = [mode[0] + length * step[0], mode[1] + length * step[1]];
                let next = self.expand(group, place, &there, scratch);
                if next.value >= here.value - noise {
                    (*mode, here, moved) = (there, next, true);
                    break;
                }
                length *= 0.5;
            }
            if !moved {
                return here.factor();
            }
        }
        here.factor()
    }

    /// The log of the integral, by nodes about the mode; leaves in `scratch` what a gradient and expectations need.
    pub(super) fn integral(
        &self,
        group: usize,
        place: &Place,
        nodes: &Nodes,
        mode: &mut Effect,
        scratch: &mut Scratch,
        slopes: bool,
    ) -> f64 {
        let factor = self.climb(group, place, mode, scratch);
        scratch.spread = factor;
        scratch.effects.clear();
        scratch.effects.extend(nodes.points.iter().map(|z| {
            let step = unwhiten(factor, z);
            [mode[0] + step[0], mode[1] + step[1]]
        }));
        self.sum_rows(group, place, nodes.len(), scratch, slopes);
        let Scratch { shares, effects, .. } = scratch;
        for ((share, v), log_weight) in shares.iter_mut().zip(&*effects).zip(&nodes.log_weights) {
            *share += log_weight - 0.5 * (v[0] * v[0] + v[1] * v[1]);
        }
        let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        shares.iter_mut().for_each(|share| *share = (*share - most).exp());
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        let width = if self.effects.len() > 1 { factor[0] * factor[2] } else { factor[0] };
        most + sum.ln() - width.ln()
    }

    /// Σⱼ fⱼ ℓⱼ at each node, and where asked for what its derivatives are made of.
    fn sum_rows(&self, group: usize, place: &Place, nodes: usize, scratch: &mut Scratch, slopes: bool) {
        let (first, count, constants) =
            (self.starts[group], self.rows_of(group).len(), place.constants.len());
        let us: Vec<Effect> = scratch.effects.iter().map(|v| apply(&place.factor.lambda, v)).collect();
        let zero = |column: &mut Vec<f64>, len: usize| {
            column.clear();
            column.resize(len, 0.0);
        };
        zero(&mut scratch.shares, nodes);
        zero(&mut scratch.slopes, if slopes { nodes * count } else { 0 });
        zero(&mut scratch.constant_slopes, if slopes { nodes * constants } else { 0 });
        scratch.pulls.clear();
        scratch.pulls.resize(nodes, [0.0; 2]);
        let step = (AT_ONCE / nodes.max(1)).max(16);
        for start in (0..count).step_by(step) {
            let rows = start..count.min(start + step);
            self.look(first, rows.clone(), &us, scratch);
            let Scratch { jets, z, slopes: of_rows, shares, pulls, constant_slopes, .. } = scratch;
            let width = rows.len();
            let weights =
                self.observations.weights.as_ref().map(|all| &all[first + rows.start..first + rows.end]);
            let weighted = |x: &[f64]| match weights {
                None => x.iter().sum::<f64>(),
                Some(weights) => x.iter().zip(weights).map(|(x, f)| f * x).sum(),
            };
            let [values, firsts, _] = jets.answers();
            for (k, share) in shares.iter_mut().enumerate() {
                let here = k * width..(k + 1) * width;
                *share += weighted(&values[here.clone()]);
                if !slopes {
                    continue;
                }
                let out = &mut of_rows[k * count + start..][..width];
                out.copy_from_slice(&firsts[here.clone()]);
                if let Some(weights) = weights {
                    out.iter_mut().zip(weights).for_each(|(slope, f)| *slope *= f);
                }
                for (slope, z) in out.iter().zip(&z[rows.clone()]) {
                    pulls[k] = [pulls[k][0] + slope * z[0], pulls[k][1] + slope * z[1]];
                }
                for (c, slopes) in jets.constant_slopes().iter().enumerate() {
                    constant_slopes[c * nodes + k] += weighted(&slopes[here.clone()]);
                }
            }
        }
    }

    /// Σₖ pₖ ∇ log p(y_g, vₖ; φ), times `weight`.
    fn add_gradient(
        &self,
        group: usize,
        weight: f64,
        place: &Place,
        scratch: &mut Scratch,
        gradient: &mut [f64],
    ) {
        let Scratch { slopes, shares, effects, pulls, constant_slopes, base, .. } = scratch;
        let (rows, nodes) = (self.rows_of(group), shares.len());
        let (fixed, covariance) = gradient.split_at_mut(self.fixed);
        let (coefficients, constants) = fixed.split_at_mut(self.observations.dim);
        // The predictors are not needed any more.
        let expected = base;
        expected.iter_mut().for_each(|x| *x = 0.0);
        for (line, share) in slopes.chunks_exact(rows.len().max(1)).zip(&*shares) {
            expected.iter_mut().zip(line).for_each(|(sum, slope)| *sum += weight * share * slope);
        }
        for (i, slope) in rows.clone().zip(&*expected) {
            let each = coefficients.iter_mut().zip(self.observations.row(i));
            each.for_each(|(sum, &x)| *sum += slope * f64::from(x));
        }
        let (covariance, mut others) = covariance.split_at_mut(self.effects.parameters());
        for (kept, place) in self.kept.iter().zip(&place.kept) {
            let (own, rest) = others.split_at_mut(kept.parameters());
            for (&level, slope) in kept.levels[rows.clone()].iter().zip(&*expected) {
                place.add(level as usize, *slope, own);
            }
            others = rest;
        }
        for (sum, slopes) in constants.iter_mut().zip(constant_slopes.chunks_exact(nodes.max(1))) {
            *sum += weight * slopes.iter().zip(&*shares).map(|(slope, share)| share * slope).sum::<f64>();
        }
        for (sum, slope) in covariance.iter_mut().zip(&place.factor.slopes) {
            let along = |(pull, v): (&Effect, &Effect)| {
                let moved = apply(slope, v);
                pull[0] * moved[0] + pull[1] * moved[1]
            };
            let each = pulls.iter().zip(&*effects).map(along).zip(&*shares);
            *sum += weight * each.map(|(along, share)| share * along).sum::<f64>();
        }
    }
}
