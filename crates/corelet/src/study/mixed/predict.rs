//! Predictions from draws of a mixed model: for known groups, for new groups, and for the population.

use std::collections::HashMap;

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::factors::groups_of;
use super::{Factors, StudyError};
use crate::data::NamedGroups;
use crate::engine::Sample;
use crate::mixed::{Candidates, RandomEffects, group_draws};
use crate::model::mixed::{Effect, Mixed, Place};
use crate::parallel;
use crate::random::Stream;
use crate::rows::Observations;
use crate::study::Resolved;
use crate::study::predict::{Draws, Prediction, PredictionSettings};

/// Draws that predictions are made of, at most: each group takes an integral at every one of them.
const DRAWS: usize = 1000;
/// Rows that are predicted one after the other where they have no group of their own.
const TOGETHER: usize = 64;

/// Which random effects a row is predicted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PredictedEffects {
    /// The effects of its group, given the group's rows.
    #[default]
    Own,
    /// The effects of a new group, drawn from their distribution.
    New,
    /// Effects of 0: a typical group.
    Population,
}

/// The policy for a group that the model does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupPolicy {
    /// They are an error.
    #[default]
    Error,
    /// It is predicted as a group of which nothing is known.
    New,
    /// Its effects are taken as 0.
    Population,
}

/// The settings of a prediction from a mixed model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MixedPrediction {
    /// As without random effects.
    pub settings: PredictionSettings,
    /// Which effects.
    pub effects: PredictedEffects,
    /// What becomes of unknown groups, where each has its own effects.
    pub unseen: GroupPolicy,
}

/// Draws of a mixed model and the groups whose rows it knows.
pub struct MixedPosterior<'a> {
    resolved: &'a Resolved,
    factors: &'a Factors,
    mixed: &'a Mixed,
    per_effect: usize,
    /// Whether all groups of the fit are known, and not those of its coreset alone.
    has_data: bool,
    /// Where each group is among those of `mixed`.
    groups: HashMap<String, usize>,
    /// Where each level of each kept factor is.
    levels: Vec<HashMap<&'a str, usize>>,
    /// The draws of the rows' own parameters.
    fixed: Vec<f64>,
    places: Vec<Place>,
    /// Of each kept factor: its sd and its effects at each draw.
    kept: Vec<Vec<(f64, Vec<f64>)>>,
}

/// Rows with the same effects.
struct Unit {
    effects: Source,
    /// Tells its draws from others'.
    key: u64,
    rows: Vec<usize>,
}

/// Where effects come from.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Group(usize),
    New,
    Zero,
}

/// A number of 56 bits that tells texts apart (FNV-1a).
fn key(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash >> 8
}

/// A standard normal number.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

impl<'a> MixedPosterior<'a> {
    /// Draws in the coordinates of the standardised features; `groups` says where each group is among those of `mixed`.
    pub(super) fn new(
        (resolved, factors, mixed): (&'a Resolved, &'a Factors, &'a Mixed),
        (per_effect, has_data): (usize, bool),
        groups: HashMap<String, usize>,
        sample: &Sample,
    ) -> Self {
        let draws = sample.thinned(DRAWS).draws;
        let each = || draws.theta.chunks_exact(draws.dim.max(1));
        let kept = mixed.kept().iter().zip(mixed.kept_starts());
        let kept = kept
            .map(|(kept, at)| each().map(|theta| (theta[at].exp(), kept.effects(&theta[at..]))).collect());
        let known = |labels: &'a [String]| labels.iter().map(String::as_str).zip(0..).collect();
        Self {
            resolved,
            factors,
            mixed,
            per_effect,
            has_data,
            groups,
            levels: factors.kept.iter().map(|kept| known(&kept.labels)).collect(),
            fixed: each().flat_map(|theta| &theta[..mixed.fixed()]).copied().collect(),
            places: each().map(|theta| mixed.place(theta)).collect(),
            kept: kept.collect(),
        }
    }

    /// Predicts rows, of which the first has the number `first` among more; `columns` names the columns of groups, and `named` has the
    /// groups by each of them, or nothing where no effects of a row's own are asked for. Targets are not looked at.
    ///
    /// # Errors
    /// An unknown group without a policy, and those of [`predict`](super::super::predict()).
    pub fn predict(
        &self,
        rows: &Observations,
        first: usize,
        (columns, named): (&[String], &[NamedGroups]),
        asked: &MixedPrediction,
    ) -> Result<Prediction, StudyError> {
        asked.settings.check()?;
        let draws = Draws::new(self.resolved, rows, &self.fixed)?;
        let units = self.units(rows.len(), first, (columns, named), asked)?;
        let crossed = self.crossed(rows.len(), first, (columns, named), asked)?;
        let of_unit = |unit: &Unit| -> Result<Vec<(usize, Prediction)>, StudyError> {
            let effects = self.effects(unit, asked.settings.seed);
            let one = |&row: &usize| {
                let mut added = match unit.effects {
                    Source::Zero => vec![0.0; self.places.len()],
                    _ => effects.iter().map(|u| self.mixed.added(rows.row(row), u)).collect(),
                };
                for (levels, effects) in &crossed {
                    added.iter_mut().zip(&effects[levels[row]]).for_each(|(sum, r)| *sum += r);
                }
                Ok((row, draws.predicted(row, first + row, &added, &asked.settings)?))
            };
            unit.rows.iter().map(one).collect()
        };
        let mut found = parallel::map(&units, of_unit).into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        found.sort_by_key(|(row, _)| *row);
        let mut all = Prediction { columns: draws.columns()?, ..Prediction::default() };
        found.into_iter().for_each(|(_, row)| all.append(row));
        Ok(all)
    }

    /// u at each draw.
    fn effects(&self, unit: &Unit, seed: u64) -> Vec<Effect> {
        let mut rng = Stream::Effects.rng(seed, unit.key);
        let group = match unit.effects {
            Source::Zero => return Vec::new(),
            Source::New => None,
            Source::Group(group) => Some(group),
        };
        let mut candidates = Candidates::new(self.mixed, self.per_effect);
        group_draws(self.mixed, group, &self.places, &mut candidates, &mut rng)
    }

    /// Rows by the effects that are integrated out.
    fn units(
        &self,
        rows: usize,
        first: usize,
        (columns, named): (&[String], &[NamedGroups]),
        asked: &MixedPrediction,
    ) -> Result<Vec<Unit>, StudyError> {
        let integrated = &self.factors.integrated;
        let apart = |effects: Source, step: usize| {
            let all: Vec<usize> = (0..rows).collect();
            let unit = |rows: &[usize]| Unit { effects, key: (first + rows[0]) as u64, rows: rows.to_vec() };
            all.chunks(step).map(unit).collect()
        };
        match asked.effects {
            PredictedEffects::Population => return Ok(apart(Source::Zero, TOGETHER)),
            PredictedEffects::New => return Ok(apart(Source::New, 1)),
            PredictedEffects::Own => {}
        }
        let groups = self.named(integrated, (columns, named))?;
        let of = |(group, label): (usize, &String)| {
            let members = groups.groups.members(group);
            let effects = match (self.groups.get(label), asked.unseen) {
                (Some(&known), _) => Source::Group(known),
                (None, GroupPolicy::New) => Source::New,
                (None, GroupPolicy::Population) => Source::Zero,
                (None, GroupPolicy::Error) => {
                    return Err(self.unknown(integrated, label, first + members[0]));
                }
            };
            Ok(Unit { effects, key: key(label), rows: members.to_vec() })
        };
        groups.names.iter().enumerate().map(of).collect()
    }

    /// Of each kept factor: which of some effects each row has, and these at each draw.
    #[allow(clippy::type_complexity, reason = "levels, and their effects")]
    fn crossed(
        &self,
        rows: usize,
        first: usize,
        named: (&[String], &[NamedGroups]),
        asked: &MixedPrediction,
    ) -> Result<Vec<(Vec<usize>, Vec<Vec<f64>>)>, StudyError> {
        let of = |at: usize| {
            let (factor, draws) = (&self.factors.kept[at], &self.kept[at]);
            let new = |label: &str| -> Vec<f64> {
                let mut rng = Stream::Effects
                    .rng(asked.settings.seed, key(&format!("{}|{label}", factor.effects.group)));
                let each = draws.iter().map(|(sd, _)| sd * normal(&mut rng));
                each.collect()
            };
            let zero = || vec![0.0; draws.len()];
            match asked.effects {
                PredictedEffects::Population => return Ok((vec![0; rows], vec![zero()])),
                PredictedEffects::New => return Ok((vec![0; rows], vec![new("")])),
                PredictedEffects::Own => {}
            }
            let levels = self.named(&factor.effects, named)?;
            let effects = |(level, label): (usize, &String)| match (
                self.levels[at].get(label.as_str()),
                asked.unseen,
            ) {
                (Some(&known), _) => Ok(draws.iter().map(|(_, effects)| effects[known]).collect()),
                (None, GroupPolicy::New) => Ok(new(label)),
                (None, GroupPolicy::Population) => Ok(zero()),
                (None, GroupPolicy::Error) => {
                    Err(self.unknown(&factor.effects, label, first + levels.groups.members(level)[0]))
                }
            };
            let effects = levels.names.iter().enumerate().map(effects).collect::<Result<Vec<_>, _>>()?;
            let codes = levels.groups.codes().into_iter().map(|code| code as usize).collect();
            Ok((codes, effects))
        };
        (0..self.kept.len()).map(of).collect()
    }

    fn named(
        &self,
        effects: &RandomEffects,
        (columns, named): (&[String], &[NamedGroups]),
    ) -> Result<NamedGroups, StudyError> {
        groups_of(effects, columns, named).ok_or_else(|| {
            StudyError::Random(format!("the rows do not say their group by '{}'", effects.group))
        })
    }

    fn unknown(&self, effects: &RandomEffects, label: &str, row: usize) -> StudyError {
        let column = &effects.group;
        StudyError::Random(format!(
            "row {row}: '{label}' in '{column}' is none of the groups whose rows are known here{}; unseen groups can be predicted \
             (--unseen-groups, in Python unseen_groups) as 'new' ones, whose random effects are drawn from their distribution, or by the \
             'population', with random effects of 0",
            if self.has_data {
                ""
            } else {
                ", which are those of the coreset; --data names the data of the fit, which have the others"
            }
        ))
    }
}
