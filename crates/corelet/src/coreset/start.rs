//! The start of a build: the Laplace fit of all rows, or of a subsample.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::posterior::{Laplace, LaplaceError, LaplaceSettings, laplace};
use crate::random::Stream;
use crate::rows::{All, Problem, Weighted};

/// The rows whose Laplace fit is the first π̂.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Start {
    /// All rows.
    #[default]
    Full,
    /// A subsample of this size, chosen uniformly, each row with weight n divided by the size.
    Subsample(usize),
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Subsample(count) => write!(f, "subsample:{count}"),
        }
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.strip_prefix("subsample:").and_then(|digits| digits.parse().ok());
        match (text, count) {
            ("full", _) => Ok(Self::Full),
            (_, Some(count)) if count > 0 => Ok(Self::Subsample(count)),
            _ => Err(format!("{text:?} is not a start: it must be full, or subsample:ROWS with ROWS ≥ 1")),
        }
    }
}

impl TryFrom<String> for Start {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Start> for String {
    fn from(start: Start) -> Self {
        start.to_string()
    }
}

/// The Laplace fit from which a build starts. A subsample of n rows or more means all rows.
///
/// # Errors
/// See [`laplace`].
pub fn start_fit(problem: Problem<'_>, start: Start, seed: u64) -> Result<Laplace, LaplaceError> {
    let Problem { rows, prior } = problem;
    match start {
        Start::Subsample(count) if count < rows.len() => {
            let mut rng = Stream::Subsample.rng(seed, 0);
            let mut ids = rand::seq::index::sample(&mut rng, rows.len(), count).into_vec();
            ids.sort_unstable();
            let weights = vec![rows.len() as f64 / count as f64; count];
            Weighted::fetch(rows, &ids, &weights)?.fit(prior)
        }
        _ => laplace(&All(rows), prior, None, &LaplaceSettings::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for start in [Start::Full, Start::Subsample(200)] {
            assert_eq!(start.to_string().parse(), Ok(start));
        }
        for bad in ["", "subsample", "subsample:0", "subsample:x", "all"] {
            assert!(bad.parse::<Start>().is_err(), "{bad}");
        }
    }
}
