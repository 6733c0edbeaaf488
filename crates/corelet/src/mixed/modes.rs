//! Whether the posterior of a mixed model has several modes: climbs from dispersed places, on some groups and then on all.

use rand::seq::index;
use rand_distr::{Distribution, StandardNormal};

use super::MixedModel;
use super::model::{WeightedGroups, moves};
use crate::linalg::quadratic_form;
use crate::posterior::{Gaussian, NEGLIGIBLE_SHARE};
use crate::random::Stream;
use crate::trust::policy::{MODE_DIP, MOST_PARAMETERS};

/// Groups that are climbed on from every start, and as many a parameter: a mode that matters shows in a sample of them.
const SAMPLE: usize = 400;
const SAMPLE_EACH: usize = 20;
/// How far log σ of the random effects is moved for a start, in both directions.
const WIDER: f64 = 2.3;
/// Starts with coefficients at random where the likelihood of a row is not log-concave.
const RANDOM: u64 = 10;
/// The first parameter that a likelihood has besides its coefficients, as log σ of a noise, is moved by so much in half of these: about a
/// small one modes are apart that are one about a large one.
const NARROWER: f64 = -1.5;
/// Ends of climbs on the sample that are climbed from on all groups.
const MOST_ENDS: usize = 3;
/// How near to a mode climbs end, in standard deviations.
const NEAR: f64 = 0.05;
/// An end where the slope would still move the posterior by as many is no mode.
const UNFINISHED: f64 = 1.0;
/// Ends that are nearer than this, in standard deviations, are one mode.
const SAME: f64 = 0.5;
/// Points on the way between two ends at which the density is looked at for a dip, and as many nearer to either.
const WAY: usize = 11;
const NEARER: i32 = 8;

/// A mode of the posterior of all groups.
#[derive(Debug, Clone)]
pub struct GroupMode {
    /// The Gaussian fit there.
    pub fit: Gaussian,
    /// log of ∫ of the density by that fit, up to a constant.
    pub log_mass: f64,
}

impl MixedModel {
    /// The modes of the posterior, of which `known` is one, the one with the most mass first: those that climbs end at from wider and
    /// narrower random effects, from `others`, and where the likelihood is not log-concave from coefficients that are `spread` about
    /// the known ones.
    pub fn modes(&self, known: Gaussian, others: &[Vec<f64>], spread: f64, seed: u64) -> Vec<GroupMode> {
        let dim = self.mixed.dim();
        let all: Vec<usize> = (0..self.mixed.groups()).collect();
        let every = Groups::new(self, all.clone(), 1.0);
        let known = every.mode(known);
        if dim > MOST_PARAMETERS {
            return vec![known];
        }
        let some = SAMPLE.max(SAMPLE_EACH * dim);
        let sample = if some >= all.len() {
            Groups::new(self, all, 1.0)
        } else {
            let mut chosen = index::sample(&mut Stream::Modes.rng(seed, 0), all.len(), some).into_vec();
            chosen.sort_unstable();
            Groups::new(self, chosen, all.len() as f64 / some as f64)
        };
        let mut ends: Vec<GroupMode> = sample.climb(&known.fit.mean).into_iter().collect();
        let base = ends.len();
        for start in self.dispersed(&known.fit.mean, others, spread, seed) {
            if let Some(end) = sample.climb(&start) {
                sample.add(&mut ends, end);
            }
        }
        let mut ends = ends.split_off(base);
        ends.sort_by(|a, b| b.log_mass.total_cmp(&a.log_mass));
        let mut found = vec![known];
        for end in ends.into_iter().take(MOST_ENDS) {
            if let Some(end) = every.climb(&end.fit.mean) {
                every.add(&mut found, end);
            }
        }
        found.sort_by(|a, b| b.log_mass.total_cmp(&a.log_mass));
        let best = found[0].log_mass;
        found.retain(|mode| mode.log_mass - best > NEGLIGIBLE_SHARE.ln());
        found
    }

    fn dispersed(&self, known: &[f64], others: &[Vec<f64>], spread: f64, seed: u64) -> Vec<Vec<f64>> {
        let (fixed, effects) = (self.mixed.fixed(), self.mixed.effects().len());
        let coefficients = self.mixed.observations().dim;
        let mut starts: Vec<Vec<f64>> = Vec::new();
        for signs in 0..1 << effects {
            let mut start = known.to_vec();
            for at in 0..effects {
                start[fixed + at] += if (signs >> at) & 1 == 1 { WIDER } else { -WIDER };
            }
            starts.push(start);
        }
        starts.extend(others.iter().cloned());
        if self.mixed.may_have_modes() {
            for number in 0..RANDOM {
                let mut rng = Stream::Modes.rng(seed, 1 + number);
                let mut start = known.to_vec();
                for x in &mut start[..coefficients] {
                    let normal: f64 = StandardNormal.sample(&mut rng);
                    *x += spread * normal;
                }
                if number % 2 == 0 && fixed > coefficients {
                    start[coefficients] += NARROWER;
                }
                starts.push(start);
            }
        }
        starts
    }
}

/// Groups that are climbed on, each with the same weight.
struct Groups<'a> {
    model: &'a MixedModel,
    groups: Vec<usize>,
    weights: Vec<f64>,
}

impl<'a> Groups<'a> {
    fn new(model: &'a MixedModel, groups: Vec<usize>, each: f64) -> Self {
        let weights = vec![each; groups.len()];
        Self { model, groups, weights }
    }

    fn at(&self, theta: &[f64]) -> WeightedGroups<'_> {
        WeightedGroups::new(self.model, &self.groups, &self.weights, true).starting_at(theta)
    }

    fn mode(&self, fit: Gaussian) -> GroupMode {
        let (value, _) = self.at(&fit.mean).posterior(&fit.mean);
        GroupMode { log_mass: value - 0.5 * fit.log_det_precision, fit }
    }

    /// Where a climb ends, if that is a mode.
    fn climb(&self, start: &[f64]) -> Option<GroupMode> {
        let by_scores = self.groups.len() >= SAMPLE_EACH * self.model.mixed.dim();
        let first = self.at(start).fit(start, by_scores, NEAR).ok()?;
        // The effects of groups are looked for where the climb has ended once more.
        let there = self.at(&first.mean);
        let end = there.fit(&first.mean, by_scores, NEAR).ok()?;
        let (value, gradient) = there.posterior(&end.mean);
        let is_mode = value.is_finite() && moves(&end, &gradient) < UNFINISHED;
        is_mode.then(|| self.mode(end))
    }

    /// Adds a mode that is none of those that are known.
    fn add(&self, found: &mut Vec<GroupMode>, end: GroupMode) {
        let is_known = |known: &GroupMode| !self.are_apart(&known.fit, &end.fit);
        if !found.iter().any(is_known) {
            found.push(end);
        }
    }

    /// Whether the density falls between the two.
    fn are_apart(&self, one: &Gaussian, other: &Gaussian) -> bool {
        let off: Vec<f64> = one.mean.iter().zip(&other.mean).map(|(a, b)| a - b).collect();
        let by = |fit: &Gaussian| quadratic_form(&fit.precision, &off).max(0.0).sqrt();
        if by(one).min(by(other)) < SAME {
            return false;
        }
        let at = |t: f64| {
            let ends = one.mean.iter().zip(&other.mean);
            let theta: Vec<f64> = ends.map(|(a, b)| (1.0 - t) * a + t * b).collect();
            self.at(&theta).posterior(&theta).0
        };
        let floor = at(0.0).min(at(1.0)) - MODE_DIP;
        let evenly = (1..=WAY).map(|step| step as f64 / (WAY + 1) as f64);
        let nearer =
            (4..4 + NEARER).flat_map(|halvings| [0.5_f64.powi(halvings), 1.0 - 0.5_f64.powi(halvings)]);
        evenly.chain(nearer).any(|t| {
            let here = at(t);
            here.is_nan() || here < floor
        })
    }
}
