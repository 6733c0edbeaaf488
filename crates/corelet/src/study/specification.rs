//! The settings of a user, written once for every front end: names, defaults, and valid combinations.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sparse_nnls::Method;
use thiserror::Error;

use super::Priors;
use crate::coreset::{
    BuildOptions, MAX_KL_POINTS, POINTS_A_PARAMETER, RestChoice, RoundOptions, RoundsBy, SOUGHT_NATS,
    Selector, Start,
};
use crate::data::{DesignOptions, Storage};
use crate::embed::Choice;
use crate::hint::did_you_mean;
use crate::mixed::{MixedSpecification, RandomEffects};
use crate::model::{BuiltIn, Degrees, Link, Numbers};
use crate::posterior::SampleSettings;

/// All settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Specification {
    /// Which columns are used, and how.
    pub design: DesignOptions,
    /// Where the rows are kept.
    pub storage: Storage,
    /// The likelihood and the prior.
    pub model: ModelSpecification,
    /// How a coreset is built.
    pub build: BuildSpecification,
    /// How its posterior is sampled.
    pub sample: SampleSettings,
    /// Random effects of groups.
    pub mixed: MixedSpecification,
}

/// The model and its prior. Settings of only some models are none by default.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `model` | `logistic` | the likelihood | see [`BuiltIn`] |
/// | `link` | `log` | how a Poisson rate follows from η | see [`Link`] |
/// | `sigma` | a parameter, `log_sigma` | noise sd σ: of a linear target; Σ = σ²I of a Gaussian, where the default is 1 | > 0 |
/// | `degrees` | 4 | degrees of freedom ν of Student-t noise; `estimated` makes them a parameter, `log_nu` | > 0 |
/// | `priors` | weakly informative, [`Priors::auto`] | priors by name; parameters that are not named keep weakly informative ones | see [`Priors`] |
/// | `prior_sd` | none | replaces them by N(0, sd²·I) on the standardised features; 1 is the prior of the paper | > 0 |
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSpecification {
    /// The likelihood.
    pub model: BuiltIn,
    /// How a Poisson rate follows from η.
    pub link: Option<Link>,
    /// The noise standard deviation.
    pub sigma: Option<f64>,
    /// Degrees of freedom of Student-t noise.
    pub degrees: Option<Degrees>,
    /// The standard deviation of the prior.
    pub prior_sd: Option<f64>,
    /// Priors by name.
    pub priors: Option<Priors>,
}

impl ModelSpecification {
    /// Whether it sets priors.
    pub(super) fn gives_priors(&self) -> bool {
        self.prior_sd.is_some() || self.priors.is_some()
    }

    /// The priors by name; empty if all parameters have one standard deviation.
    pub(super) fn named_priors(&self) -> Priors {
        let named = self.priors.clone().unwrap_or_default();
        if self.prior_sd.is_some() { named } else { named.or_auto() }
    }

    /// What the likelihood needs besides its data.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers {
            link: self.link.unwrap_or_default(),
            sigma: self.sigma.or(self.model.default_sigma()),
            degrees: self.degrees.map_or(Numbers::default().degrees, Degrees::given),
            classes: 0,
        }
    }
}

/// The settings of a build; defaults depend on the data.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `method` | `pursuit` | how points are chosen | [`Selector::names`] |
/// | `reference` | false | halve the step of the hard thresholding methods, as the authors' code does | |
/// | `k` | as many as `max_kl` needs, at most 1600 and n; without a search 7 per parameter, at least 100 | largest number of points | 1 … n |
/// | `max_kl` | 0.01 if `k` is not given and pursuit chooses rows alone | find the fewest points with at most this divergence, in nats | > 0 |
/// | `embedding` | `auto` | how a datum becomes a vector | see [`Choice`] |
/// | `seed` | 0 | of everything random | any |
/// | `polish` | false | solve NNLS on the final points | |
/// | `start` | `full` | the rows whose Laplace fit is the first π̂ | see [`Start`] |
/// | `rounds` | automatic | how often to build | ≥ 1 |
/// | `rest` | `none`; for `fit` `auto` | whether a Gaussian factor accompanies the rows | see [`RestChoice`] |
/// | `rounds_by` | `laplace` | how the π̂ of a further round is obtained | `laplace`, `nuts` |
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildSpecification {
    /// How points are chosen.
    #[serde(serialize_with = "name_of_selector", deserialize_with = "selector_of_name")]
    pub method: Selector,
    /// Halve the step of the hard thresholding methods, as the authors' code does.
    pub reference: bool,
    /// Largest number of points.
    pub k: Option<usize>,
    /// Find the fewest points with at most this divergence, in nats.
    pub max_kl: Option<f64>,
    /// How a datum becomes a vector.
    pub embedding: Choice,
    /// The seed of everything random.
    pub seed: u64,
    /// Solve NNLS on the final points.
    pub polish: bool,
    /// The rows whose Laplace fit is the first π̂.
    pub start: Start,
    /// How many rounds; none is automatic.
    pub rounds: Option<usize>,
    /// How the π̂ of a further round is obtained.
    pub rounds_by: RoundsBy,
    /// Whether a Gaussian factor accompanies the rows.
    pub rest: RestChoice,
}

fn name_of_selector<S: Serializer>(selector: &Selector, serializer: S) -> Result<S::Ok, S::Error> {
    selector.name().serialize(serializer)
}

fn selector_of_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
    let name = String::deserialize(deserializer)?;
    Selector::from_name(&name)
        .ok_or_else(|| serde::de::Error::custom(format!("expected one of {}", Selector::names().join(", "))))
}

/// Conflicting settings, or values out of range. Settings have the names of the specification; a front end translates
/// them, see [`UsageError::worded`].
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum UsageError {
    /// A setting that does not apply with the value of another setting.
    OnlyFor {
        /// The setting.
        setting: &'static str,
        /// The other one.
        other: &'static str,
        /// The values of the other setting with which it applies.
        values: Vec<&'static str>,
    },
    /// A number that is not finite and above 0.
    NotPositive {
        /// The setting.
        setting: &'static str,
        /// Value of the setting.
        value: f64,
    },
    /// A count of 0.
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// Two settings that conflict.
    Apart {
        /// The first setting.
        setting: &'static str,
        /// The second setting.
        other: &'static str,
        /// The conflicting value of the other setting, if only that value conflicts.
        value: Option<&'static str>,
    },
    /// A setting that requires another one.
    Without {
        /// The setting.
        setting: &'static str,
        /// The other setting.
        other: &'static str,
    },
    /// An unknown setting.
    Unknown {
        /// Name of the setting.
        setting: String,
    },
    /// An invalid value of a setting.
    Value {
        /// The setting.
        setting: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl UsageError {
    /// In words, with settings named by `name`.
    pub fn worded(&self, name: impl Fn(&str) -> String) -> String {
        match self {
            Self::OnlyFor { setting, other, values } => {
                format!("{} is for {} {}", name(setting), name(other), values.join(" or "))
            }
            Self::NotPositive { setting, value } => {
                format!("{} is {value}, but it must be a finite number above 0", name(setting))
            }
            Self::Apart { setting, other, value } => {
                let value = value.map_or_else(String::new, |value| format!(" {value}"));
                format!("{} and {}{value} do not go together", name(setting), name(other))
            }
            Self::Without { setting, other } => format!("{} needs {}", name(setting), name(other)),
            Self::Zero { setting } => format!("{} is 0, but it must be at least 1", name(setting)),
            Self::Unknown { setting } => format!("{} is no setting", name(setting)),
            Self::Value { setting, reason } => format!("{} {reason}", name(setting)),
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(str::to_owned))
    }
}

impl Specification {
    /// Creates a specification from settings by name, each of which belongs to one part; null leaves a setting at its default.
    ///
    /// # Errors
    /// [`UsageError::Unknown`] and [`UsageError::Value`]; [`check`](Specification::check) reports the other errors.
    pub fn from_settings(settings: &Map<String, Value>) -> Result<Self, UsageError> {
        let known = serde_json::to_value(Self::default()).unwrap_or_default();
        let mut parts = known.clone();
        for (setting, value) in settings.iter().filter(|(_, value)| !value.is_null()) {
            let place = pointer(&known, setting).and_then(|place| parts.pointer_mut(&place));
            let place = place.ok_or_else(|| UsageError::Unknown { setting: setting.clone() })?;
            *place = value.clone();
            // One at a time, so that the setting at fault is known.
            let read = serde_json::from_value::<Self>(parts.clone());
            read.map_err(|error| UsageError::Value {
                setting: setting.clone(),
                reason: reason(value, &error.to_string()),
            })?;
        }
        serde_json::from_value(parts)
            .map_err(|error| UsageError::Value { setting: "settings".to_owned(), reason: error.to_string() })
    }

    /// Refuses conflicting settings before any work is done.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn check(&self) -> Result<(), UsageError> {
        self.check_model()?;
        self.build.check()?;
        self.check_mixed()?;
        match (&self.design.columns.groups, self.design.collapse) {
            (Some(_), true) => Err(UsageError::Apart { setting: "groups", other: "collapse", value: None }),
            (Some(_), false) => self.build.check_groups(),
            (None, _) => Ok(()),
        }
    }

    fn check_model(&self) -> Result<(), UsageError> {
        let ModelSpecification { model, link, sigma, degrees, prior_sd, ref priors } = self.model;
        let given = [
            ("link", link.is_some()),
            ("exposure", self.design.columns.exposure.is_some()),
            ("trials", self.design.columns.trials.is_some()),
            ("event", self.design.columns.event.is_some()),
            ("positive", self.design.positive.is_some()),
            ("levels", self.design.levels.is_some()),
            ("weights", self.design.columns.weights.is_some()),
            ("offset", self.design.columns.offset.is_some()),
            ("collapse", self.design.collapse),
            ("sigma", sigma.is_some()),
            ("degrees", degrees.is_some()),
        ];
        if let Some((setting, _)) = given.into_iter().find(|&(setting, given)| given && !model.takes(setting))
        {
            return Err(UsageError::OnlyFor { setting, other: "model", values: BuiltIn::takers(setting) });
        }
        positive("sigma", sigma)?;
        positive("degrees", degrees.and_then(Degrees::given))?;
        positive("prior_sd", prior_sd)?;
        match (priors, self.build.method) {
            (Some(_), _) if prior_sd.is_some() => {
                Err(UsageError::Apart { setting: "priors", other: "prior_sd", value: None })
            }
            (Some(priors), Selector::SparseVi(_)) if !priors.are_normal() => Err(UsageError::Value {
                setting: "priors".to_owned(),
                reason: "must all be normal for the method sparse-vi".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// What goes with random effects, and what does not.
    fn check_mixed(&self) -> Result<(), UsageError> {
        let MixedSpecification { random, sd_prior, lkj, nodes } = &self.mixed;
        let given = [("sd_prior", sd_prior.is_some()), ("lkj", lkj.is_some()), ("nodes", nodes.is_some())];
        let Some(random) = random else {
            return match given.into_iter().find(|&(_, given)| given) {
                Some((setting, _)) => Err(UsageError::Without { setting, other: "random" }),
                None => Ok(()),
            };
        };
        positive("lkj", *lkj)?;
        if nodes.is_some_and(|nodes| !(3..=61).contains(&nodes)) {
            let reason = "must be between 3 and 61".to_owned();
            return Err(UsageError::Value { setting: "nodes".to_owned(), reason });
        }
        if lkj.is_some() && !random.terms().iter().any(RandomEffects::has_correlation) {
            let reason = format!("is for a correlation, but {random} has none");
            return Err(UsageError::Value { setting: "lkj".to_owned(), reason });
        }
        let apart = [
            ("groups", self.design.columns.groups.is_some()),
            ("collapse", self.design.collapse),
            ("max_kl", self.build.max_kl.is_some()),
            ("rounds", self.build.rounds.is_some()),
            ("rest", self.build.rest == RestChoice::Gaussian),
            ("method", self.build.method != Selector::default()),
        ];
        match apart.into_iter().find(|&(_, given)| given) {
            Some((other, _)) => Err(UsageError::Apart { setting: "random", other, value: None }),
            None => Ok(()),
        }
    }

    /// The design, which depends on the model: the groups of random effects are a column of it.
    pub fn design(&self) -> DesignOptions {
        let mut design = DesignOptions { outcome: self.model.model.outcome(), ..self.design.clone() };
        if let Some(random) = &self.mixed.random {
            design.columns.factors = random.columns();
        }
        design
    }
}

impl BuildSpecification {
    fn check(&self) -> Result<(), UsageError> {
        let only = |setting, other, values: &[_]| {
            Err(UsageError::OnlyFor { setting, other, values: values.to_vec() })
        };
        let thresholding = matches!(self.method, Selector::Embedded(method) if method.can_hold_total());
        if self.reference && !thresholding {
            return only("reference", "method", &["iht", "a-iht", "a-iht-2"]);
        }
        if self.max_kl.is_some() && !matches!(self.method, Selector::Embedded(Method::Pursuit(_))) {
            return only("max_kl", "method", &["pursuit"]);
        }
        if self.max_kl.is_some() && self.rounds_by != RoundsBy::Laplace {
            return only("max_kl", "rounds_by", &["laplace"]);
        }
        if self.rest == RestChoice::Gaussian {
            if !matches!(self.method, Selector::Embedded(Method::Pursuit(_))) {
                return only("rest", "method", &["pursuit"]);
            }
            if self.max_kl.is_some() {
                return Err(UsageError::Apart { setting: "max_kl", other: "rest", value: Some("gaussian") });
            }
        }
        if self.k == Some(0) && self.rest == RestChoice::None {
            return Err(UsageError::Zero { setting: "k" });
        }
        if self.rounds == Some(0) {
            return Err(UsageError::Zero { setting: "rounds" });
        }
        positive("max_kl", self.max_kl)
    }

    /// Groups are chosen once, in one embedding.
    fn check_groups(&self) -> Result<(), UsageError> {
        let given = [
            ("method", Some("sparse-vi"), matches!(self.method, Selector::SparseVi(_))),
            ("max_kl", None, self.max_kl.is_some()),
            ("rounds", None, self.rounds.is_some_and(|rounds| rounds > 1)),
            ("rounds_by", None, self.rounds_by != RoundsBy::Laplace),
            ("rest", Some("gaussian"), self.rest == RestChoice::Gaussian),
        ];
        match given.into_iter().find(|&(.., given)| given) {
            Some((other, value, _)) => Err(UsageError::Apart { setting: "groups", other, value }),
            None => Ok(()),
        }
    }

    /// The rounds that are asked for.
    pub fn rounds(&self) -> RoundOptions {
        RoundOptions { rounds: self.rounds, by: self.rounds_by, from_all_rows: self.start == Start::Full }
    }

    /// The same, looking for as many points as a good divergence takes where it says neither.
    #[must_use]
    pub(super) fn searching(&self) -> Self {
        let pursuit = matches!(self.method, Selector::Embedded(Method::Pursuit(_)));
        let searches = pursuit && self.rest == RestChoice::None && self.rounds_by == RoundsBy::Laplace;
        let unsaid = self.k.is_none() && self.max_kl.is_none();
        Self { max_kl: self.max_kl.or((searches && unsaid).then_some(SOUGHT_NATS)), ..self.clone() }
    }

    /// The options for `rows` rows and so many parameters. A `k` that was left out never exceeds the rows.
    pub fn options(&self, rows: usize, parameters: usize) -> BuildOptions {
        let default = match self.max_kl {
            Some(_) => MAX_KL_POINTS,
            None => BuildOptions::default().k.max(POINTS_A_PARAMETER * parameters),
        };
        BuildOptions {
            method: self.method.with_step(self.reference),
            k: self.k.unwrap_or(default.min(rows)),
            max_kl: self.max_kl,
            embedding: self.embedding,
            seed: self.seed,
            polish: self.polish,
            rest: self.rest,
            ..BuildOptions::default()
        }
    }
}

/// Where a setting is among the parts, which are what is an object by default, as a JSON pointer.
fn pointer(part: &Value, setting: &str) -> Option<String> {
    part.as_object()?.iter().find_map(|(name, value)| {
        let below = if value.is_object() { pointer(value, setting)? } else { String::new() };
        (value.is_object() || name == setting).then(|| format!("/{name}{below}"))
    })
}

/// What is wrong with a value, from what serde says of it.
fn reason(value: &Value, error: &str) -> String {
    let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
    match error.split_once("expected one of ") {
        Some((_, names)) => {
            let names = names.replace('`', "");
            let near = value.as_str().map_or_else(String::new, |name| did_you_mean(name, names.split(", ")));
            format!("is {shown}{near}, but it must be one of {names}")
        }
        None if value.is_object() => format!("cannot be used: {error}"),
        None => format!("is {shown}: {error}"),
    }
}

fn positive(setting: &'static str, value: Option<f64>) -> Result<(), UsageError> {
    match value {
        Some(value) if !(value > 0.0 && value.is_finite()) => Err(UsageError::NotPositive { setting, value }),
        _ => Ok(()),
    }
}
