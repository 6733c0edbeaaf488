//! One run at one size: what was measured, and how it is written.

use corelet_cli::output::{csv_line, csv_number};
use serde::{Deserialize, Serialize};

use crate::args::Experiment;
use crate::series::Series;

/// What tells one cell from another inside an experiment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The data set.
    pub(crate) data: String,
    /// `generated`, or the name of the file: cells of other data are others.
    pub(crate) source: String,
    pub(crate) method: Series,
    pub(crate) k: usize,
    pub(crate) trial: usize,
}

/// One run at one size. What could not be computed is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub(crate) key: Key,
    pub(crate) embedding: String,
    pub(crate) points: usize,
    pub(crate) status: String,
    #[serde(flatten)]
    pub(crate) quality: Quality,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// The rows and their weights, where a picture needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) coreset: Option<(Vec<usize>, Vec<f64>)>,
    /// ‖y − Φw‖ after every iteration, where a picture needs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trace: Vec<f64>,
}

/// How good the weighted rows are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quality {
    pub(crate) kl_forward: Option<f64>,
    pub(crate) kl_reverse: Option<f64>,
    pub(crate) kl_symmetrised: Option<f64>,
    pub(crate) map_distance: Option<f64>,
    /// ‖y − Φw‖ in the embedding.
    pub(crate) residual: Option<f64>,
    /// The same on draws that no method saw.
    pub(crate) heldout_residual: Option<f64>,
}

/// What they took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// From the data to the weights, from scratch: the embedding and the run for this size.
    pub(crate) seconds: f64,
    /// As the paper counts: without the embedding, and along one run for methods that add point by point.
    pub(crate) seconds_paper: f64,
    pub(crate) passes: f64,
    pub(crate) iterations: usize,
}

/// A column of the tables that is summed up over trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    Points,
    KlForward,
    KlReverse,
    KlSymmetrised,
    MapDistance,
    Residual,
    HeldoutResidual,
    Seconds,
    SecondsPaper,
    Passes,
}

impl Metric {
    pub(crate) const ALL: [Self; 10] = [
        Self::Points,
        Self::KlForward,
        Self::KlReverse,
        Self::KlSymmetrised,
        Self::MapDistance,
        Self::Residual,
        Self::HeldoutResidual,
        Self::Seconds,
        Self::SecondsPaper,
        Self::Passes,
    ];

    /// The name of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::KlForward => "kl_forward",
            Self::KlReverse => "kl_reverse",
            Self::KlSymmetrised => "kl_symmetrised",
            Self::MapDistance => "map_distance",
            Self::Residual => "residual",
            Self::HeldoutResidual => "heldout_residual",
            Self::Seconds => "seconds",
            Self::SecondsPaper => "seconds_paper",
            Self::Passes => "passes",
        }
    }

    /// What an axis calls it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::KlForward => "forward KL (nats)",
            Self::KlReverse => "reverse KL (nats)",
            Self::KlSymmetrised => "symmetrised KL (nats)",
            Self::MapDistance => "distance of MAP estimates",
            Self::Residual => "‖y − Φw‖",
            Self::HeldoutResidual => "‖y − Φw‖ on held-out draws",
            Self::Seconds => "seconds, from scratch",
            Self::SecondsPaper => "seconds, as in the paper",
            Self::Passes => "passes over the data",
        }
    }
}

impl Cell {
    pub(crate) fn get(&self, metric: Metric) -> Option<f64> {
        let Self { quality, cost, .. } = self;
        match metric {
            Metric::Points => Some(self.points as f64),
            Metric::KlForward => quality.kl_forward,
            Metric::KlReverse => quality.kl_reverse,
            Metric::KlSymmetrised => quality.kl_symmetrised,
            Metric::MapDistance => quality.map_distance,
            Metric::Residual => quality.residual,
            Metric::HeldoutResidual => quality.heldout_residual,
            Metric::Seconds => Some(cost.seconds),
            Metric::SecondsPaper => Some(cost.seconds_paper),
            Metric::Passes => Some(cost.passes),
        }
    }
}

/// The first columns, which say what a row is about.
const LEADING: [&str; 9] =
    ["experiment", "data", "source", "method", "embedding", "k", "trial", "status", "iterations"];

/// Every cell as CSV.
pub(crate) fn to_csv(cells: &[(Experiment, Vec<Cell>)]) -> String {
    let header = LEADING.into_iter().chain(Metric::ALL.map(Metric::name));
    let mut text = csv_line(header.map(str::to_owned));
    for (experiment, cells) in cells {
        for cell in cells {
            let Key { data, source, method, k, trial } = &cell.key;
            let leading = [
                experiment.name().to_owned(),
                data.clone(),
                source.clone(),
                method.to_string(),
                cell.embedding.clone(),
                k.to_string(),
                trial.to_string(),
                cell.status.clone(),
                cell.cost.iterations.to_string(),
            ];
            let numbers = Metric::ALL.map(|metric| csv_number(cell.get(metric)));
            text += &csv_line(leading.into_iter().chain(numbers));
        }
    }
    text
}
