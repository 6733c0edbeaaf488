//! Requested priors: of all coefficients, of some by name or pattern, of the intercept and of other parameters of a model.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::posterior::Density;

/// The word for a weakly informative prior.
const AUTO: &str = "auto";

/// The word for the prior of the paper.
const PAPER: &str = "paper";

/// Priors by name. What none of it speaks of keeps the prior that it has without.
///
/// | field | purpose |
/// | --- | --- |
/// | `default` | the prior of every coefficient but the intercept that `coefficients` does not name |
/// | `scale` | whether priors of coefficients refer to the `standardised` or the `original` scale, unless a prior says so itself |
/// | `intercept` | the prior of the linear predictor at the mean of every feature |
/// | `coefficients` | priors by the name of a coefficient, or by a pattern in which `*` is any text: a name goes before a pattern, and a pattern before one with fewer other letters |
/// | `others` | priors of the parameters that belong to no feature, such as `log_sigma`; in a file they stand beside `default` |
///
/// The word `auto` alone is [`Priors::auto`], the default, and `paper` is [`Priors::paper`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Priors {
    /// The prior of every coefficient that no name or pattern matches.
    pub default: Option<AskedPrior>,
    /// The default scale of priors.
    pub scale: PriorScale,
    /// Prior of the intercept.
    pub intercept: Option<AskedPrior>,
    /// Priors by name or pattern.
    pub coefficients: BTreeMap<String, AskedPrior>,
    /// Priors of parameters that belong to no feature, by name.
    pub others: BTreeMap<String, AskedPrior>,
}

impl Priors {
    /// The weakly informative prior of every coefficient and of the intercept: normal(0, 2.5) for a step from 0 to 1 of a feature
    /// that is 0 or 1, as a level is, and for a step of one standard deviation of any other; times the standard deviation of the
    /// target where the model has the scale of its target. That of the intercept lies around the link of the mean outcome, so that
    /// another unit of the target changes nothing.
    pub fn auto() -> Self {
        Self::default().or_auto()
    }

    /// N(0, 1) of every coefficient of the standardised features and of the intercept, as in the paper.
    pub fn paper() -> Self {
        let unit = AskedPrior::Given { density: Density::Normal { mean: 0.0, sd: 1.0 }, scale: None };
        Self { default: Some(unit), intercept: Some(unit), ..Self::default() }
    }

    /// The same, with weakly informative priors for unspecified coefficients and intercept.
    #[must_use]
    pub(super) fn or_auto(self) -> Self {
        let auto = Some(AskedPrior::Auto);
        Self { default: self.default.or(auto), intercept: self.intercept.or(auto), ..self }
    }

    /// All requested priors.
    fn all(&self) -> impl Iterator<Item = &AskedPrior> {
        let named = self.coefficients.values().chain(self.others.values());
        self.default.iter().chain(&self.intercept).chain(named)
    }

    /// Whether the weakly informative prior is requested.
    pub(super) fn ask_auto(&self) -> bool {
        self.all().any(|asked| *asked == AskedPrior::Auto)
    }

    /// Whether every prior is normal.
    pub fn are_normal(&self) -> bool {
        let mut densities = self.all().filter_map(AskedPrior::density);
        densities.all(|density| matches!(density, Density::Normal { .. }))
    }
}

/// The scale that a prior of a coefficient is meant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorScale {
    /// A step of one standard deviation of the feature.
    #[default]
    Standardised,
    /// A step of one in the units of the data.
    Original,
}

impl fmt::Display for PriorScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standardised => "standardised",
            Self::Original => "original",
        })
    }
}

/// A requested prior: `"normal(0, 2.5)"`, `{ normal = [0, 2.5], scale = "original" }` or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AskedPrior {
    /// The weakly informative one, see [`Priors::auto`].
    Auto,
    /// A density that was given.
    Given {
        /// The density.
        density: Density,
        /// Its scale, if it names one.
        scale: Option<PriorScale>,
    },
}

impl AskedPrior {
    /// The density; none for `auto`.
    pub(super) fn density(&self) -> Option<Density> {
        match self {
            Self::Auto => None,
            Self::Given { density, .. } => Some(*density),
        }
    }
}

/// Fields as a file has them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<AskedPrior>,
    scale: PriorScale,
    #[serde(skip_serializing_if = "Option::is_none")]
    intercept: Option<AskedPrior>,
    coefficients: BTreeMap<String, AskedPrior>,
    #[serde(flatten)]
    others: BTreeMap<String, AskedPrior>,
}

impl Serialize for Priors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { default, scale, intercept, coefficients, others } = self.clone();
        Table { default, scale, intercept, coefficients, others }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Priors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriorsVisitor)
    }
}

struct PriorsVisitor;

impl<'de> Visitor<'de> for PriorsVisitor {
    type Value = Priors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("priors by name, or one of the words auto and paper")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Priors, E> {
        match text {
            AUTO => Ok(Priors::auto()),
            PAPER => Ok(Priors::paper()),
            _ => Err(E::custom("it must be priors by name, or one of the words auto and paper")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Priors, A::Error> {
        let Table { default, scale, intercept, coefficients, others } =
            Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Priors { default, scale, intercept, coefficients, others })
    }
}

impl Serialize for AskedPrior {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => AUTO.serialize(serializer),
            Self::Given { density, scale: None } => density.serialize(serializer),
            Self::Given { density, scale: Some(scale) } => {
                let (family, numbers) = density.parts();
                let numbers = serde_json::Value::from(numbers);
                let scale = serde_json::Value::from(scale.to_string());
                BTreeMap::from([(family, numbers), ("scale", scale)]).serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for AskedPrior {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AskedVisitor)
    }
}

struct AskedVisitor;

impl<'de> Visitor<'de> for AskedVisitor {
    type Value = AskedPrior;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prior such as \"normal(0, 2.5)\" or { normal = [0, 2.5], scale = \"original\" }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AskedPrior, E> {
        if text == AUTO {
            return Ok(AskedPrior::Auto);
        }
        let density = text.parse().map_err(E::custom)?;
        Ok(AskedPrior::Given { density, scale: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AskedPrior, A::Error> {
        let (mut found, mut scale) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "scale" {
                scale = Some(map.next_value()?);
                continue;
            }
            let numbers: Vec<f64> = map.next_value()?;
            let refuse =
                |reason: String| A::Error::custom(format!("{key} = {numbers:?} is no prior: {reason}"));
            if found.is_some() {
                return Err(refuse("there is another beside it".to_owned()));
            }
            found = Some(Density::new(&key, &numbers).map_err(refuse)?);
        }
        let density = found.ok_or_else(|| A::Error::custom("a prior without a distribution"))?;
        Ok(AskedPrior::Given { density, scale })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn a_file_is_what_is_written_of_it() {
        let text = json!({
            "default": "normal(0, 2.5)",
            "scale": "original",
            "intercept": "student_t(4, 0, 10)",
            "log_sigma": "normal(0, 1)",
            "coefficients": { "carrier_*": "laplace(0, 1)", "hour": { "normal": [0, 0.5], "scale": "standardised" }, "day": "auto" },
        });
        let priors: Priors = from_value(text).unwrap();
        assert_eq!(
            priors.others["log_sigma"],
            AskedPrior::Given { density: "normal(0, 1)".parse().unwrap(), scale: None }
        );
        assert_eq!(priors.coefficients["day"], AskedPrior::Auto);
        assert!(!priors.are_normal() && Priors::auto().are_normal());
        assert_eq!(from_value::<Priors>(to_value(&priors).unwrap()).unwrap(), priors);
        assert_eq!(from_value::<Priors>(json!("auto")).unwrap(), Priors::auto());
        assert_eq!(from_value::<Priors>(json!("paper")).unwrap(), Priors::paper());
    }

    #[test]
    fn what_is_no_prior_is_named() {
        for (text, why) in [
            (json!("weak"), "it must be priors by name, or one of the words auto and paper"),
            (json!({ "default": "normal(0)" }), "'normal(0)' is no prior"),
            (
                json!({ "default": { "normal": [0, -1] } }),
                "normal = [0.0, -1.0] is no prior: its scale is -1",
            ),
            (json!({ "default": { "normal": [0, 1], "laplace": [0, 1] } }), "there is another beside it"),
            (json!({ "default": { "scale": "original" } }), "without a distribution"),
            (json!({ "default": 3 }), "expected a prior such as"),
            (json!({ "scale": "log" }), "unknown variant `log`"),
            (json!({ "typo": 1 }), "expected a prior such as"),
        ] {
            let error = from_value::<Priors>(text.clone()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
