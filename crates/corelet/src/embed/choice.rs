//! Which embedding: `auto`, `hermite:M` or `draws:S`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The embedding a user asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Choice {
    /// Hermite where the model has a linear predictor and the truncation is small enough, draws otherwise.
    #[default]
    Auto,
    /// Hermite polynomials up to this order.
    Hermite(usize),
    /// This many draws from π̂.
    Draws(usize),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Hermite(order) => write!(f, "hermite:{order}"),
            Self::Draws(count) => write!(f, "draws:{count}"),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| digits.parse::<usize>().ok();
        match text.split_once(':') {
            None if text == "auto" => Ok(Self::Auto),
            Some(("hermite", order)) if number(order).is_some_and(|order| (1..=3).contains(&order)) => {
                Ok(Self::Hermite(number(order).unwrap_or_default()))
            }
            Some(("draws", count)) if number(count).is_some_and(|count| count >= 2) => {
                Ok(Self::Draws(number(count).unwrap_or_default()))
            }
            _ => Err(format!(
                "{text:?} is not an embedding: it must be auto, hermite:1 to hermite:3, or draws:S with S ≥ 2"
            )),
        }
    }
}

impl TryFrom<String> for Choice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for choice in [Choice::Auto, Choice::Hermite(2), Choice::Draws(500)] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for bad in ["", "hermite", "hermite:0", "hermite:9", "draws:1", "draws:x", "draws:-3"] {
            assert!(bad.parse::<Choice>().is_err(), "{bad}");
        }
    }
}
