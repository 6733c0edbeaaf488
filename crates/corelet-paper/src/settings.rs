//! The settings of the experiments: one readable file each, kept in the program.

use std::collections::BTreeMap;

use anyhow::Context;
use corelet::sparse_vi::SparseViSettings;
use serde::{Deserialize, Serialize};

use crate::args::Experiment;
use crate::series::Series;

/// One experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    pub(crate) title: String,
    /// What the paper shows with it.
    pub(crate) about: String,
    /// The figures of the paper that it stands beside.
    pub(crate) figures: String,
    /// The data sets, by name.
    #[serde(default)]
    pub(crate) data: Vec<String>,
    /// The experiments whose cells it shows, where it has none of its own.
    #[serde(default)]
    pub(crate) shows: Vec<Experiment>,
    /// The percentiles between which a band is drawn.
    pub(crate) band: [f64; 2],
    pub(crate) full: Plan,
    pub(crate) quick: Plan,
}

/// What to run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Plan {
    pub(crate) trials: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) methods: Vec<Series>,
    /// Fewer trials or sizes for some methods.
    pub(crate) only: BTreeMap<String, Restriction>,
    /// The coresets kept for pictures.
    pub(crate) keep: Keep,
    /// All that a number in a cell depends on.
    pub(crate) cell: CellSettings,
}

/// Fewer trials or sizes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Restriction {
    pub(crate) trials: Option<usize>,
    pub(crate) sizes: Option<Vec<usize>>,
}

/// Which coresets are kept, and at which size the residual is followed by iteration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keep {
    pub(crate) trials: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) trace: Option<usize>,
}

/// All that a number in a cell depends on, but the seed: cells made with other settings are not taken up again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct CellSettings {
    /// S: draws of the paper's embedding.
    pub(crate) draws: usize,
    /// Most iterations of the hard-thresholding methods.
    pub(crate) iterations: usize,
    /// The share of the data that a stochastic gradient looks at.
    pub(crate) batch: f64,
    /// Rows and parameters, where the data are generated or sub-sampled.
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    /// Radial basis functions: centres for each scale, the scales, and the directions of the paper's embedding.
    pub(crate) centres: usize,
    pub(crate) scales: Vec<f64>,
    pub(crate) directions: usize,
    pub(crate) sparse_vi: SparseViSettings,
    /// How the weights of a pursuit descend the reverse KL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) descent: Option<SparseViSettings>,
}

impl Plan {
    /// The trials of one method.
    pub(crate) fn trials_of(&self, series: &Series) -> usize {
        let only = self.only.get(series.name()).and_then(|only| only.trials);
        only.map_or(self.trials, |trials| trials.min(self.trials))
    }

    /// The sizes of one method, ascending.
    pub(crate) fn sizes_of(&self, series: &Series) -> &[usize] {
        let only = self.only.get(series.name()).and_then(|only| only.sizes.as_deref());
        only.unwrap_or(&self.sizes)
    }
}

/// The settings of an experiment.
pub(crate) fn settings(experiment: Experiment) -> anyhow::Result<Settings> {
    let text = match experiment {
        Experiment::Gaussian => include_str!("../experiments/gaussian.toml"),
        Experiment::Rbf => include_str!("../experiments/rbf.toml"),
        Experiment::Logistic => include_str!("../experiments/logistic.toml"),
        Experiment::Poisson => include_str!("../experiments/poisson.toml"),
        Experiment::Large => include_str!("../experiments/large.toml"),
        Experiment::Stochastic => include_str!("../experiments/stochastic.toml"),
        Experiment::MapDistance => include_str!("../experiments/map-distance.toml"),
        Experiment::Theory => include_str!("../experiments/theory.toml"),
    };
    toml::from_str(text).with_context(|| format!("the settings of {}", experiment.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_settings_file_can_be_read() {
        for experiment in Experiment::ALL {
            let settings = settings(experiment).unwrap();
            assert!(settings.band[0] < settings.band[1] && settings.band[1] <= 100.0);
            for plan in [&settings.full, &settings.quick] {
                assert!(plan.sizes.is_sorted(), "{experiment:?}: sizes ascend");
                let named = |name: &String| plan.methods.iter().any(|series| series.name() == name);
                assert!(plan.only.keys().all(named), "{experiment:?}: a restriction of no method");
                assert_eq!(settings.data.is_empty(), plan.methods.is_empty(), "{experiment:?}");
            }
            assert!(settings.quick.trials <= settings.full.trials);
        }
    }
}
