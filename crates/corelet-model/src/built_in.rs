//! The models that have a name: what a specification asks for, and all that the other rooms know of each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TargetScale;
use super::{
    Link, Model, ModelError, Predictive, binomial, gamma, gaussian, linear, logistic, negative_binomial,
    ordinal, poisson, softmax, student, weibull,
};
use corelet_data::Outcome;
use corelet_data::observations::Observations;

/// A model that goes by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

/// The properties of a model that other modules need; each model has a card beside its likelihood.
pub(super) struct Card {
    /// One word.
    pub(super) name: &'static str,
    /// A line of help.
    pub(super) about: &'static str,
    /// The kind of target.
    pub(super) outcome: Outcome,
    /// The settings that not every model takes.
    pub(super) settings: &'static [&'static str],
    /// σ where none is given; none if it is then a parameter.
    pub(super) sigma: Option<f64>,
    /// The parameters besides the coefficients of the features, in the order of θ.
    pub(super) dispersions: fn(Numbers) -> &'static [Dispersion],
    /// Whether its coefficients have the scale of its target, and so its default prior.
    pub(super) scaled_by_target: bool,
    /// The linear predictor at which the mean outcome is this.
    pub(super) link: fn(f64, Numbers) -> f64,
    /// The model of these observations.
    pub(super) bind: fn(Observations, Numbers) -> Result<Arc<dyn Model>, ModelError>,
    /// How it predicts an unknown outcome.
    pub(super) predictive: Predictive,
}

/// A parameter that belongs to no feature.
pub struct Dispersion {
    /// Its name among the parameters.
    pub name: &'static str,
    /// Mean and standard deviation of its normal prior, given the targets: weakly informative, on the scale of the target.
    pub prior: fn(&TargetScale) -> (f64, f64),
}

/// [`Card::dispersions`] of a model whose only parameters are coefficients.
pub(super) const NONE: fn(Numbers) -> &'static [Dispersion] = |_| &[];

/// Links that several models have, for [`Card::link`].
pub(super) const IDENTITY: fn(f64, Numbers) -> f64 = |mean, _| mean;
pub(super) const LOG: fn(f64, Numbers) -> f64 = |mean, _| mean.ln();
pub(super) const LOGIT: fn(f64, Numbers) -> f64 = |mean, _| (mean / (1.0 - mean)).ln();
/// A model of classes has several means.
pub(super) const NO_LINK: fn(f64, Numbers) -> f64 = |_, _| 0.0;

/// The numbers that a model may need besides its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// How a Poisson rate follows from η.
    pub link: Link,
    /// Noise standard deviation of a linear or a Gaussian model; none if it is a parameter.
    pub sigma: Option<f64>,
    /// Degrees of freedom of Student-t noise; none if they are a parameter.
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
    /// Every built-in model.
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

    /// The kind of its target, which determines how it is checked and coded.
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

    /// The linear predictor at which the mean outcome is `mean`; 0 where there is no such predictor, or the model is of classes.
    pub fn predictor_of(self, mean: f64, numbers: Numbers) -> f64 {
        let predictor = (self.card().link)(mean, numbers);
        if predictor.is_finite() { predictor } else { 0.0 }
    }

    /// σ where none is given; none if it is then a parameter.
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

    /// Number of parameters, D, for this number of features.
    pub fn parameters(self, features: usize, numbers: Numbers) -> usize {
        features * self.predictors_of_features(numbers) + self.dispersions(numbers).len()
    }

    /// How many predictors have a coefficient for every feature.
    pub fn predictors_of_features(self, numbers: Numbers) -> usize {
        if self.outcome() == Outcome::Several { numbers.classes.max(2) - 1 } else { 1 }
    }

    /// How it predicts an unknown outcome.
    pub fn predictive(self) -> Predictive {
        self.card().predictive
    }

    /// The model of these observations.
    ///
    /// # Errors
    /// If a number is not one that the model can use; see [`ModelError`].
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

    /// The model with this name, with hyphens or underscores.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let hyphened = name.replace('_', "-");
        let found = Self::ALL.into_iter().find(|model| model.name() == hyphened);
        found.ok_or_else(|| format!("unknown model {name:?}, expected one of {}", names()))
    }
}

/// Its name, in every format.
impl Serialize for BuiltIn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for BuiltIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
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
        let at = |model: BuiltIn, mean| model.predictor_of(mean, Numbers::default());
        assert_eq!(
            (at(BuiltIn::Gamma, 1.0), at(BuiltIn::Linear, 7.0), at(BuiltIn::Poisson, 0.0)),
            (0.0, 7.0, 0.0)
        );
        assert!((at(BuiltIn::Logistic, 0.5) - 3_f64.ln()).abs() < 1e-15);
        let softplus = Numbers { link: Link::Softplus, ..Numbers::default() };
        for mean in [0.1_f64, 3.0, 900.0] {
            let eta = BuiltIn::Poisson.predictor_of(mean, softplus);
            assert!((eta.max(0.0) + (-eta.abs()).exp().ln_1p() - mean).abs() < 1e-12 * mean);
        }
        assert_eq!("negative_binomial".parse(), Ok(BuiltIn::NegativeBinomial));
        assert_eq!(
            serde_json::from_str::<BuiltIn>("\"negative_binomial\"").unwrap(),
            BuiltIn::NegativeBinomial
        );
        assert!("probit".parse::<BuiltIn>().is_err());
    }
}
