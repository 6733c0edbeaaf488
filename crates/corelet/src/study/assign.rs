//! Which parameter has which prior: names and patterns against the parameters that there are, and one scale for all.

use std::collections::BTreeMap;

use thiserror::Error;

use super::priors::{AskedPrior, PriorScale, Priors};
use crate::data::{Standardisation, Standardise};
use crate::hint::did_you_mean;
use crate::posterior::Density;
use crate::rows::Observations;
use crate::words::PriorGroup;

/// Why priors do not suit the parameters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PriorError {
    /// A name that is none.
    #[error("the priors name '{name}', which is no {what}{nearest}; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// What it would have to be the name of.
        what: &'static str,
        /// The name that it may have been meant for, in words.
        nearest: String,
        /// The names that there are.
        known: String,
    },
    /// A pattern that no name matches.
    #[error("no coefficient matches '{pattern}' of the priors; there are {known}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The names that there are.
        known: String,
    },
    /// Two patterns for one name, neither of them closer.
    #[error(
        "'{name}' matches '{first}' and '{second}' of the priors, which are equally specific; give it a prior by its name"
    )]
    Ambiguous {
        /// The coefficient.
        name: String,
        /// The first pattern.
        first: String,
        /// The second pattern.
        second: String,
    },
    /// A prior of an intercept that is not there.
    #[error("the priors name an intercept, but there is none")]
    NoIntercept,
    /// Whitened features have no original scale of their own.
    #[error(
        "the prior of '{name}' is meant on the original scale, but each whitened feature is made of several"
    )]
    Whitened {
        /// The coefficient.
        name: String,
    },
}

/// The parameters that priors are for: a coefficient for each feature, once for every predictor, and the others.
pub struct Parameters<'a> {
    /// Names of the coefficients.
    pub names: &'a [String],
    /// How many of them are coefficients.
    pub coefficients: usize,
    /// What was done to the features.
    pub standardisation: &'a Standardisation,
    /// Some rows, standardised, to tell features that are 0 or 1 by, where that is asked.
    pub some_rows: Option<Observations>,
    /// Whether the parameters are a point among the data, not slopes over them.
    pub are_points: bool,
}

/// Centre and width of a weakly informative prior: those of the intercept, and the width for a unit of any other feature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weak {
    pub(super) centre: f64,
    pub(super) width: f64,
}

/// The prior of one parameter: as it is used, and as a summary says it.
struct Assigned {
    used: Density,
    said: PriorGroup,
}

/// Parameters with their priors: in place of `plain`, those that are asked for.
pub(super) fn assign(
    priors: &Priors,
    parameters: &Parameters<'_>,
    plain: &[Density],
    weak: Weak,
) -> Result<(Vec<Density>, Vec<PriorGroup>), PriorError> {
    let assignment = Assignment::new(priors, parameters, weak)?;
    let (mut used, mut groups): (Vec<Density>, Vec<PriorGroup>) = Default::default();
    for (at, &plain) in plain.iter().enumerate() {
        let assigned = assignment.of(at, plain)?;
        used.push(assigned.used);
        let same = |group: &&mut PriorGroup| PriorGroup { count: 1, ..(*group).clone() } == assigned.said;
        match groups.iter_mut().find(same) {
            Some(group) => group.count += 1,
            None => groups.push(assigned.said),
        }
    }
    Ok((used, groups))
}

struct Assignment<'a> {
    priors: &'a Priors,
    parameters: &'a Parameters<'a>,
    weak: Weak,
    /// Which features are 0 or 1.
    flags: Vec<bool>,
    /// The feature that is constant, and its value.
    intercept: Option<(usize, f64)>,
    /// The place of each feature among the standardised ones.
    places: BTreeMap<usize, usize>,
}

impl<'a> Assignment<'a> {
    fn new(priors: &'a Priors, parameters: &'a Parameters<'a>, weak: Weak) -> Result<Self, PriorError> {
        let standardisation = parameters.standardisation;
        let intercept = standardisation.intercept;
        // The weakly informative prior of every parameter is that of those there are, and so is that of the paper.
        let of_its_own =
            *priors != Priors::paper() && priors.intercept.is_some_and(|asked| asked.density().is_some());
        if of_its_own && intercept.is_none() {
            return Err(PriorError::NoIntercept);
        }
        let (coefficients, others) = parameters.names.split_at(parameters.coefficients);
        for name in priors.coefficients.keys().filter(|name| !coefficients.contains(name)) {
            if !name.contains('*') {
                return Err(unknown(name, "coefficient", coefficients.iter().map(String::as_str)));
            }
            let features = standardisation.features().max(1);
            let is_slope = |at: usize| intercept.is_none_or(|(there, _)| at % features != there);
            let mut slopes = coefficients.iter().enumerate().filter(|&(at, _)| is_slope(at));
            if !slopes.any(|(_, coefficient)| matches(name, coefficient)) {
                let known = listed(coefficients.iter().map(String::as_str));
                return Err(PriorError::NoMatch { pattern: name.clone(), known });
            }
        }
        if let Some(name) = priors.others.keys().find(|name| !others.contains(name)) {
            let known = ["default", "scale", "intercept", "coefficients"].into_iter();
            let known = known.chain(others.iter().map(String::as_str));
            return Err(unknown(name, "parameter beside the coefficients", known));
        }
        let places = standardisation.columns.iter().enumerate().map(|(place, &at)| (at, place)).collect();
        Ok(Self { priors, parameters, weak, flags: flags(parameters), intercept, places })
    }

    /// The feature that a coefficient is of.
    fn feature(&self, at: usize) -> usize {
        at % self.flags.len().max(1)
    }

    /// The prior of one parameter, which without any would be `plain`.
    fn of(&self, at: usize, plain: Density) -> Result<Assigned, PriorError> {
        let name = &self.parameters.names[at];
        let Priors { intercept, coefficients, others, .. } = self.priors;
        if at >= self.parameters.coefficients {
            let given = others.get(name).and_then(AskedPrior::density).unwrap_or(plain);
            return Ok(assigned(given, name, given, None));
        }
        if let Some((_, constant)) = self.intercept.filter(|&(there, _)| there == self.feature(at)) {
            let own = coefficients.get(name);
            let several = self.parameters.coefficients > self.flags.len() && own.is_none();
            let name = if several { "intercepts" } else { name };
            let given = own.or(intercept.as_ref()).map(|asked| {
                let weak = Density::Normal { mean: self.weak.centre, sd: self.weak.width };
                asked.density().unwrap_or(weak)
            });
            let used = given.map_or(plain, |given| given.moved(0.0, constant.recip()));
            return Ok(assigned(used, name, given.unwrap_or_else(|| plain.moved(0.0, constant)), None));
        }
        self.of_slope(at, plain)
    }

    fn of_slope(&self, at: usize, plain: Density) -> Result<Assigned, PriorError> {
        let name = &self.parameters.names[at];
        let (label, asked) = self.asked(name)?;
        let (density, scale) = match asked {
            None => (plain, PriorScale::Standardised),
            Some(AskedPrior::Given { density, scale }) => (*density, scale.unwrap_or(self.priors.scale)),
            Some(AskedPrior::Auto) => {
                let scale = if self.flags[self.feature(at)] {
                    PriorScale::Original
                } else {
                    PriorScale::Standardised
                };
                (Density::Normal { mean: 0.0, sd: self.weak.width }, scale)
            }
        };
        let used = match scale {
            PriorScale::Standardised => density,
            PriorScale::Original => self.standardised(at, density)?,
        };
        let label = match label {
            Some(label) => label,
            None if asked == Some(&AskedPrior::Auto) && self.flags[self.feature(at)] => "0/1 features",
            None if self.priors.coefficients.is_empty() => "coefficients",
            None => "other coefficients",
        };
        Ok(assigned(used, label, density, Some(self.named(scale))))
    }

    /// The name or pattern that a coefficient goes by, where there is one, and the prior that is asked for.
    fn asked(&self, name: &str) -> Result<(Option<&'a str>, Option<&'a AskedPrior>), PriorError> {
        let Priors { default, coefficients, .. } = self.priors;
        if let Some((name, asked)) = coefficients.get_key_value(name) {
            return Ok((Some(name), Some(asked)));
        }
        let letters = |pattern: &str| pattern.chars().filter(|&letter| letter != '*').count();
        let mut patterns: Vec<_> =
            coefficients.iter().filter(|(pattern, _)| matches(pattern, name)).collect();
        patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(letters(pattern)));
        match patterns[..] {
            [] => Ok((None, default.as_ref())),
            [(first, _), (second, _), ..] if letters(first) == letters(second) => {
                let (first, second) = (first.clone(), second.clone());
                Err(PriorError::Ambiguous { name: name.to_owned(), first, second })
            }
            [(pattern, asked), ..] => Ok((Some(pattern), Some(asked))),
        }
    }

    /// A density of the coefficient of a raw feature x, as one of that of (x − m)/s; of a point, as one of (x − m)/s itself.
    fn standardised(&self, at: usize, density: Density) -> Result<Density, PriorError> {
        let Parameters { names, standardisation, are_points, .. } = self.parameters;
        if standardisation.kind == Standardise::Whiten {
            return Err(PriorError::Whitened { name: names[at].clone() });
        }
        let Some(&place) = self.places.get(&self.feature(at)) else { return Ok(density) };
        let (mean, sd) = (standardisation.means[place], standardisation.scale[place]);
        Ok(if *are_points { density.moved(-mean / sd, sd.recip()) } else { density.moved(0.0, sd) })
    }

    fn named(&self, scale: PriorScale) -> String {
        match (scale, self.parameters.standardisation.kind) {
            (PriorScale::Standardised, Standardise::Whiten) => "whitened".to_owned(),
            (_, Standardise::None) => PriorScale::Original.to_string(),
            _ => scale.to_string(),
        }
    }
}

fn assigned(used: Density, parameters: &str, prior: Density, scale: Option<String>) -> Assigned {
    Assigned { used, said: PriorGroup { parameters: parameters.to_owned(), count: 1, prior, scale } }
}

/// So many rows tell whether a feature is 0 or 1.
const LOOKED_AT: usize = 1000;

/// Some rows of n, evenly spread.
pub(super) fn some_of(n: usize) -> Vec<usize> {
    (0..n).step_by(n.div_ceil(LOOKED_AT).max(1)).collect()
}

/// Whether a feature of this mean and standard deviation may be 0 or 1: of numbers within [0, 1] these alone have the variance
/// m(1 − m), but for what few rows or weights leave of it: estimated from n rows it is n / (n − 1) times as large.
pub(super) fn may_be_flag(mean: f64, sd: f64) -> bool {
    const FEWEST_ROWS: f64 = 10.0;
    let excess = sd * sd / (mean * (1.0 - mean)) - 1.0;
    -0.02 < excess && excess < 0.02_f64.max((FEWEST_ROWS - 1.0).recip())
}

/// The features that are 0 or 1. A regression without an intercept knows no means: there the rows that are looked at decide alone.
fn flags(parameters: &Parameters<'_>) -> Vec<bool> {
    /// Single precision has seven digits.
    const ROUNDING: f64 = 1e-4;
    /// Nothing between 0 and 1 has a larger standard deviation.
    const WIDEST: f64 = 0.51;
    let Parameters { standardisation, some_rows, are_points, .. } = parameters;
    let Standardisation { columns, means, scale, intercept, .. } = standardisation;
    let shifted = intercept.is_some() || *are_points;
    let mut flags = vec![false; standardisation.features()];
    let Some(rows) = some_rows.as_ref().filter(|_| standardisation.kind != Standardise::Whiten) else {
        return flags;
    };
    for (&at, (&mean, &sd)) in columns.iter().zip(means.iter().zip(scale)) {
        let raw = |row: usize| mean + sd * f64::from(rows.row(row)[at]);
        let zero_or_one = |x: f64| x.abs() < ROUNDING || (x - 1.0).abs() < ROUNDING;
        let may_be = if shifted { may_be_flag(mean, sd) } else { sd < WIDEST };
        flags[at] = may_be && (0..rows.len()).all(|row| zero_or_one(raw(row)));
    }
    flags
}

/// Whether a name is what a pattern says, in which `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.into_iter().any(|at| matches(after, &rest[at..]))
        }),
    }
}

fn unknown<'a>(name: &str, what: &'static str, known: impl Iterator<Item = &'a str> + Clone) -> PriorError {
    let nearest = did_you_mean(name, known.clone());
    PriorError::Unknown { name: name.to_owned(), what, nearest, known: listed(known) }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}
