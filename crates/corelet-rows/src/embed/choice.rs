//! Which embedding: `auto`, `hermite:M` or `draws:S`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How many draws an embedding may have. What they see of a coreset grows no further long before the end of it.
const DRAWS: std::ops::RangeInclusive<usize> = 2..=65_536;

/// The embedding a user asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Choice {
    /// Hermite where the model has a linear predictor, with draws for the rest where that is too much, or draws.
    #[default]
    Auto,
    /// Hermite polynomials up to this order.
    Hermite(usize),
    /// This many draws from π̂.
    Draws(usize),
    /// Hermite polynomials up to order 2, and this many draws for the rest of each log-likelihood.
    HermiteDraws(usize),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Hermite(order) => write!(f, "hermite:{order}"),
            Self::Draws(count) => write!(f, "draws:{count}"),
            Self::HermiteDraws(count) => write!(f, "hermite:2+draws:{count}"),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let order = |text: &str| text.strip_prefix("hermite:")?.parse().ok().filter(|m| (1..=3).contains(m));
        let draws =
            |text: &str| text.strip_prefix("draws:")?.parse().ok().filter(|count| DRAWS.contains(count));
        let both = |text: &str| draws(text.strip_prefix("hermite:2+")?).map(Self::HermiteDraws);
        let named = (text == "auto").then_some(Self::Auto);
        named
            .or_else(|| order(text).map(Self::Hermite))
            .or_else(|| draws(text).map(Self::Draws))
            .or_else(|| both(text))
            .ok_or_else(|| {
                format!(
                    "{text:?} is not an embedding: it must be auto, hermite:1 to hermite:3, draws:S with S from 2 to 65536, or \
                     hermite:2+draws:S"
                )
            })
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
        for choice in [Choice::Auto, Choice::Hermite(2), Choice::Draws(500), Choice::HermiteDraws(9)] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for bad in [
            "",
            "hermite",
            "hermite:0",
            "hermite:9",
            "draws:1",
            "draws:x",
            "draws:-3",
            "hermite:3+draws:9",
            "hermite:2+draws:1",
        ] {
            assert!(bad.parse::<Choice>().is_err(), "{bad}");
        }
    }
}
