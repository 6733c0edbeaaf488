//! What a curve stands for: a method with the settings of the paper, and the embedding that it works in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sparse_nnls::{HardThresholding, LineSearch, Method};

use crate::settings::CellSettings;

/// Names that are not those of a solver method.
const SPARSE_VI: &str = "sparse-vi";
const BATCH: &str = "a-iht-batch";
const HERMITE: &str = "pursuit-hermite";
const EXACT: &str = "pursuit-exact";
const DESCENT: &str = "pursuit-descent";

/// Which embedding a method works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// The paper's: draws, or its closed forms.
    Paper,
    /// Hermite: what `corelet build` would choose.
    Hermite,
    /// Closed form without truncation.
    Exact,
}

/// A method in an embedding, by the name a user types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Series(String);

impl Series {
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Every name.
    pub(crate) fn names() -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Method::all().iter().map(Method::name).collect();
        names.extend([SPARSE_VI, BATCH, HERMITE, EXACT, DESCENT]);
        names
    }

    /// What figures and tables call it.
    pub(crate) fn label(&self) -> &str {
        match self.name() {
            "uniform" => "Uniform",
            "giga" => "GIGA",
            "frank-wolfe" => "Frank–Wolfe",
            "omp" => "OMP",
            "iht" => "IHT",
            "a-iht" => "A-IHT",
            "a-iht-2" => "A-IHT II",
            SPARSE_VI => "SparseVI",
            BATCH => "A-IHT, batch gradient",
            "pursuit" => "pursuit",
            HERMITE => "pursuit, Hermite",
            EXACT => "pursuit, exact",
            DESCENT => "pursuit, reverse KL",
            other => other,
        }
    }

    /// Whether it sits above the dictionary and is no method of the solver.
    pub(crate) fn is_sparse_vi(&self) -> bool {
        self.name() == SPARSE_VI
    }

    /// Whether its weights go on to descend the reverse KL.
    pub(crate) fn descends(&self) -> bool {
        self.name() == DESCENT
    }

    /// Whether a run to k points goes through all smaller sizes, so that the paper counts its time along one run.
    pub(crate) fn is_incremental(&self) -> bool {
        matches!(self.name(), "giga" | "frank-wolfe" | "omp")
    }

    pub(crate) fn space(&self) -> Space {
        match self.name() {
            HERMITE => Space::Hermite,
            EXACT | DESCENT => Space::Exact,
            _ => Space::Paper,
        }
    }

    /// The solver's method, with the authors' step where it has one; `None` for SparseVI.
    pub(crate) fn method(&self, settings: &CellSettings) -> Option<Method> {
        let name = match self.name() {
            BATCH => "a-iht",
            HERMITE | EXACT | DESCENT => "pursuit",
            name => name,
        };
        let mut method = Method::from_name(name)?;
        if let Method::Iht(own) | Method::AIht(own) | Method::AIht2(own) = &mut method {
            *own = HardThresholding {
                line_search: LineSearch::Reference,
                max_iterations: settings.iterations,
                batch: if self.name() == BATCH { settings.batch } else { 1.0 },
                ..*own
            };
        }
        Some(method)
    }
}

impl FromStr for Series {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if Self::names().contains(&name) {
            Ok(Self(name.to_owned()))
        } else {
            Err(format!("{name:?} is not a method: it must be one of {}", Self::names().join(", ")))
        }
    }
}

impl TryFrom<String> for Series {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Series> for String {
    fn from(series: Series) -> Self {
        series.0
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_method_or_sparse_vi() {
        let settings = CellSettings { iterations: 7, batch: 0.2, ..CellSettings::default() };
        for name in Series::names() {
            let series: Series = name.parse().unwrap();
            assert_eq!(series.method(&settings).is_none(), series.is_sparse_vi(), "{name}");
        }
        let batch = "a-iht-batch".parse::<Series>().unwrap().method(&settings).unwrap();
        let Method::AIht(own) = batch else { panic!("{batch:?}") };
        assert_eq!((own.max_iterations, own.batch, own.line_search), (7, 0.2, LineSearch::Reference));
        assert!("a-iht-3".parse::<Series>().unwrap_err().contains("a-iht-2"));
    }
}
