//! The flags of `corelet-paper`.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use corelet_cli::process::ProcessArgs;
use serde::Deserialize;

use crate::series::Series;

/// The experiments of the paper: cells, tables, figures and a report.
#[derive(Debug, Parser)]
#[command(name = "corelet-paper", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) paper: PaperArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

const EXAMPLES: &str = "\
Examples:
  corelet-paper all --quick
  corelet-paper logistic --data DIR --methods giga,a-iht-2,pursuit --trials 5
  corelet-paper all --data DIR --out paper";

/// Which experiments are run, on what, and how much of them.
#[derive(Debug, Args)]
pub(crate) struct PaperArgs {
    /// The experiment
    name: Name,
    /// Folder with the data files of the paper [default: what CORELET_DATA names]; without it the generated sets are run
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder for cells, tables, figures and the report; a run that was interrupted goes on there
    #[arg(long, value_name = "DIR", default_value = "./corelet-reproduce")]
    pub(crate) out: PathBuf,
    /// A smaller grid: all experiments in about two minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Methods to run in place of those of the paper; also frank-wolfe, omp and others
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    pub(crate) methods: Option<Vec<Series>>,
    /// Trials to run, at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
}

/// An experiment, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The mean of a Gaussian
    Gaussian,
    /// Radial basis functions over house prices
    Rbf,
    /// Logistic regression on three sets
    Logistic,
    /// Poisson regression on three sets
    Poisson,
    /// Two large logistic sets
    Large,
    /// A-IHT with stochastic gradients
    Stochastic,
    /// The distance of MAP estimates, from the cells of logistic and poisson
    MapDistance,
    /// The bounds on A-IHT's iterates
    Theory,
    /// Every one of them
    All,
}

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Experiment {
    Gaussian,
    Rbf,
    Logistic,
    Poisson,
    Large,
    Stochastic,
    MapDistance,
    Theory,
}

impl Experiment {
    pub(crate) const ALL: [Self; 8] = [
        Self::Gaussian,
        Self::Rbf,
        Self::Logistic,
        Self::Poisson,
        Self::Large,
        Self::Stochastic,
        Self::MapDistance,
        Self::Theory,
    ];

    /// The name that a user types.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Rbf => "rbf",
            Self::Logistic => "logistic",
            Self::Poisson => "poisson",
            Self::Large => "large",
            Self::Stochastic => "stochastic",
            Self::MapDistance => "map-distance",
            Self::Theory => "theory",
        }
    }
}

impl PaperArgs {
    /// The experiments that were asked for.
    pub(crate) fn experiments(&self) -> Vec<Experiment> {
        let one = match self.name {
            Name::Gaussian => Experiment::Gaussian,
            Name::Rbf => Experiment::Rbf,
            Name::Logistic => Experiment::Logistic,
            Name::Poisson => Experiment::Poisson,
            Name::Large => Experiment::Large,
            Name::Stochastic => Experiment::Stochastic,
            Name::MapDistance => Experiment::MapDistance,
            Name::Theory => Experiment::Theory,
            Name::All => return Experiment::ALL.to_vec(),
        };
        vec![one]
    }

    /// The folder with data files; an empty name is none.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        let named = self.data.clone().or_else(|| std::env::var_os("CORELET_DATA").map(PathBuf::from));
        named.filter(|folder| !folder.as_os_str().is_empty())
    }

    /// The most trials to run.
    pub(crate) fn trials(&self) -> Option<usize> {
        self.trials.map(|trials| trials as usize)
    }
}
