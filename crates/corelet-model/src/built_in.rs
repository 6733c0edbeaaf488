//! The models that have a name: what a specification asks for, and all that the other rooms know of each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::TargetScale;
use super::{
    Link, Model, ModelError, Predictive, binomial, gamma, gaussian, linear, logistic, negative_binomial,
    ordinal, poisson, softmax, student, weibull,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;

/// A model that goes by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuiltIn {
    /// Successes of trials.
    Binomial,
    /// Survival with a constant risk.
    Exponential,
    /// Gamma regression with a log link.
    Gamma,
    /// The mean of Gaussian data.
    Gaussian,
    /// Linear regression.
    Linear,
    /// Logistic regression.
    #[default]
    Logistic,
    /// Negative-binomial regression.
    NegativeBinomial,
    /// Cumulative logistic regression.
    Ordinal,
    /// Poisson regression.
    Poisson,
    /// Multinomial logistic regression.
    Softmax,
    /// Linear regression with Student-t noise.
    Student,
    /// Weibull survival.
    Weibull,
}

/// What a model tells the rooms around it; each has one beside its likelihood.
pub(super) struct Card {
    /// One word.
    pub(super) name: &'static str,
    /// A line of help.
    pub(super) about: &'static str,
    /// What its target is.
    pub(super) outcome: Outcome,
    /// The settings that not every model takes.
    pub(super) settings: &'static [&'static str],
    /// σ where none is given; none where it is then a parameter.
    pub(super) sigma: Option<f64>,
    /// The parameters besides the coefficients of the features, in the order of θ.
    pub(super) dispersions: fn(Numbers) -> &'static [Dispersion],
    /// Whether its coefficients have the scale of its target, and so its default prior.
    pub(super) scaled_by_target: bool,
    /// The model of these observations.
    pub(super) bind: fn(Observations, Numbers) -> Result<Arc<dyn Model>, ModelError>,
    /// What it says of an outcome that is not known.
    pub(super) predictive: Predictive,
}

/// A parameter that belongs to no feature.
pub struct Dispersion {
    /// Its name among the parameters.
    pub name: &'static str,
    /// Mean and standard deviation of its normal prior, given the targets: weakly informative, on the scale of the target.
    pub prior: fn(&TargetScale) -> (f64, f64),
}

/// What a model without parameters besides its coefficients has for [`Card::dispersions`].
pub(super) const NONE: fn(Numbers) -> &'static [Dispersion] = |_| &[];

/// What a model may need besides its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// How a Poisson rate follows from η.
    pub link: Link,
    /// Noise standard deviation of a linear or a Gaussian model; none where it is a parameter.
    pub sigma: Option<f64>,
    /// Degrees of freedom of Student-t noise; none where they are a parameter.
    #[serde(default = "default_degrees")]
    pub degrees: Option<f64>,
    /// Number of classes of a target that has several; 0 of any other.
    #[serde(default)]
    pub classes: usize,
}

fn default_degrees() -> Option<f64> {
    Some(student::DEGREES)
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers { link: Link::default(), sigma: None, degrees: default_degrees(), classes: 0 }
    }
}

impl BuiltIn {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Binomial,
        Self::Exponential,
        Self::Gamma,
        Self::Gaussian,
        Self::Linear,
        Self::Logistic,
        Self::NegativeBinomial,
        Self::Ordinal,
        Self::Poisson,
        Self::Softmax,
        Self::Student,
        Self::Weibull,
    ];

    fn card(self) -> &'static Card {
        match self {
            Self::Binomial => &binomial::CARD,
            Self::Exponential => &weibull::EXPONENTIAL,
            Self::Gamma => &gamma::CARD,
            Self::Gaussian => &gaussian::CARD,
            Self::Linear => &linear::CARD,
            Self::Logistic => &logistic::CARD,
            Self::NegativeBinomial => &negative_binomial::CARD,
            Self::Ordinal => &ordinal::CARD,
            Self::Poisson => &poisson::CARD,
            Self::Softmax => &softmax::CARD,
            Self::Student => &student::CARD,
            Self::Weibull => &weibull::CARD,
        }
    }

    /// One word, as a specification spells it.
    pub fn name(self) -> &'static str {
        self.card().name
    }

    /// A line of help.
    pub fn about(self) -> &'static str {
        self.card().about
    }

    /// What its target is, and so how that is checked and coded.
    pub fn outcome(self) -> Outcome {
        self.card().outcome
    }

    /// The names of the models that take a setting which not every model takes.
    pub fn takers(setting: &str) -> Vec<&'static str> {
        Self::ALL.into_iter().filter(|model| model.takes(setting)).map(Self::name).collect()
    }

    /// Whether it takes a setting that not every model takes.
    pub fn takes(self, setting: &str) -> bool {
        match setting {
            "weights" | "collapse" => self.outcome() != Outcome::None,
            _ => self.card().settings.contains(&setting),
        }
    }

    /// Whether its coefficients have the scale of its target, and so its default prior.
    pub fn is_scaled_by_target(self) -> bool {
        self.card().scaled_by_target
    }

    /// σ where none is given; none where it is then a parameter.
    pub fn default_sigma(self) -> Option<f64> {
        self.card().sigma
    }

    /// The parameters besides the coefficients of the features, in the order of θ.
    pub fn dispersions(self, numbers: Numbers) -> &'static [Dispersion] {
        (self.card().dispersions)(numbers)
    }

    /// Number of classes that these targets, which have all of them, are coded in; 0 where they are not.
    pub fn classes(self, target: &[f64]) -> usize {
        match self.outcome() {
            Outcome::Several | Outcome::Ordered => {
                target.iter().fold(0.0, |most, y| y.max(most)) as usize + 1
            }
            _ => 0,
        }
    }

    /// Number of parameters, D, where there are so many features.
    pub fn parameters(self, features: usize, numbers: Numbers) -> usize {
        features * self.predictors_of_features(numbers) + self.dispersions(numbers).len()
    }

    /// How many predictors have a coefficient for every feature.
    pub fn predictors_of_features(self, numbers: Numbers) -> usize {
        if self.outcome() == Outcome::Several { numbers.classes.max(2) - 1 } else { 1 }
    }

    /// What it says of an outcome that is not known.
    pub fn predictive(self) -> Predictive {
        self.card().predictive
    }

    /// The model of these observations.
    ///
    /// # Errors
    /// Where a number is not one that the model can use; see [`ModelError`].
    pub fn bind(self, observations: Observations, numbers: Numbers) -> Result<Arc<dyn Model>, ModelError> {
        (self.card().bind)(observations, numbers)
    }
}

impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BuiltIn {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| format!("{name:?} is no model: it must be one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_one_name() {
        for model in BuiltIn::ALL {
            assert_eq!(serde_json::to_value(model).unwrap(), model.name());
            assert_eq!(model.name().parse(), Ok(model));
        }
        assert_eq!(BuiltIn::takers("sigma"), ["gaussian", "linear"]);
        assert!("probit".parse::<BuiltIn>().is_err());
    }
}
