//! An experiment with the cells it has: what figures, tables and claims are made from.

use crate::args::Experiment;
use crate::cell::Cell;
use crate::problem::Material;
use crate::series::Series;
use crate::sets::Set;
use crate::settings::{Plan, Settings};
use crate::summary::Groups;

/// The order in which figures and tables show the methods.
const ORDER: [&str; 16] = [
    "uniform",
    "uniform-nnls",
    "importance",
    "importance-nnls",
    "frank-wolfe",
    "giga",
    "omp",
    "sparse-vi",
    "iht",
    "a-iht",
    "a-iht-batch",
    "a-iht-2",
    "pursuit",
    "pursuit-hermite",
    "pursuit-exact",
    "pursuit-descent",
];

/// A data set as a study sees it.
pub(crate) struct Shown {
    pub(crate) set: Set,
    /// The source of its cells.
    pub(crate) source: String,
    /// What its problems are made of, where pictures need it.
    pub(crate) material: Option<Material>,
}

/// An experiment and its cells.
pub(crate) struct Study {
    pub(crate) experiment: Experiment,
    pub(crate) settings: Settings,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) cells: Vec<Cell>,
    pub(crate) data: Vec<Shown>,
    /// Why some data sets were not run.
    pub(crate) missing: Vec<String>,
}

impl Study {
    /// The cells by data set, method and size.
    pub(crate) fn groups(&self) -> Groups<'_> {
        Groups::new(&self.cells, self.settings.band)
    }

    /// The data sets that have cells, in the order of the settings.
    pub(crate) fn sets<'s>(&'s self, groups: &Groups<'_>) -> Vec<&'s Shown> {
        self.data.iter().filter(|shown| groups.has(shown.set.name)).collect()
    }
}

/// The methods of a data set in the order in which they are shown.
pub(crate) fn ordered<'c>(groups: &Groups<'c>, data: &str) -> Vec<&'c Series> {
    let mut methods = groups.methods(data);
    methods.sort_by_key(|series| ORDER.iter().position(|name| *name == series.name()));
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_its_place() {
        for name in Series::names() {
            assert!(ORDER.contains(&name), "{name}");
        }
    }
}
