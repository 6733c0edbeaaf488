//! The flags of commands for given draws: `certify` and `review`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corelet::posterior::SampleSettings;
use corelet::review::By;
use corelet::study::{BuildSpecification, KFoldSettings, ReviewSettings, Specification};

use crate::args::{ModelArgs, positive_count};
use crate::args_data::DataArgs;

/// Draws of a posterior, in a file.
#[derive(Debug, Args)]
pub(crate) struct GivenArgs {
    /// Draws, one per line, with a column for each parameter and optional columns chain, draw and weight: .csv, .parquet, .arrow
    pub(crate) draws: PathBuf,
    /// Scale of the features that the parameters refer to
    #[arg(long, default_value = "original", help_heading = "Data")]
    scale: ScaleArg,
    /// Coreset file that gives the columns, levels and scale of the features, for draws made by `corelet update`
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub(crate) coreset: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScaleArg {
    /// Coefficients of the features in the units of the file
    Original,
    /// Coefficients of the standardised features
    Standardised,
}

impl GivenArgs {
    /// The files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        [self.draws.clone()].into_iter().chain(self.coreset.clone())
    }

    /// Whether parameters are on the scale of the data.
    pub(crate) fn original(&self) -> bool {
        self.scale == ScaleArg::Original
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet certify draws.csv data.parquet --target y --model logistic
  corelet certify advi.parquet data.parquet --target count --model poisson -o weighted.parquet

An optional column log_density holds the log density of the approximation at each draw, on the scale of the draws, up to a constant. \
With it, importance weights correct draws that are nearly right. The exit code is 3 if the draws are not certified.")]
pub(crate) struct CertifyArgs {
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Write the draws that were evaluated, with their importance weights: .parquet, .csv or .json
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
}

impl CertifyArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let build = BuildSpecification { seed, ..BuildSpecification::default() };
        Specification { build, ..self.data.specification(&self.model) }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  corelet review draws.parquet data.parquet --target y --model logistic
  corelet review draws.csv data.csv --target count --model poisson -o rows.parquet
  corelet review draws.parquet data.parquet --target y --by region --evidence
  corelet review draws.parquet data.parquet --target y --k-fold 10 -o rows.parquet
  corelet review draws.parquet new.parquet --target y --against other.parquet -o rows.parquet
  corelet review draws.parquet visits.csv --target cost --model gamma --groups patient

Rows are treated as independent given the parameters; with --groups the jackknife removes all rows of a group together.")]
pub(crate) struct ReviewArgs {
    #[command(flatten)]
    pub(crate) given: GivenArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Number of draws, evenly spaced, at which every row is evaluated
    #[arg(long, default_value_t = 1000, value_parser = positive_count(), help_heading = "Review")]
    most: usize,
    /// Number of draws at which an outcome of every row is simulated for the predictive checks; 0 for none
    #[arg(long, default_value_t = 100, value_name = "DRAWS", help_heading = "Review")]
    outcomes: usize,
    /// Also check outcomes by the levels of this column, or by ranges if it is numeric
    #[arg(long, value_name = "COLUMN", help_heading = "Review")]
    pub(crate) by: Option<String>,
    /// Estimate the log evidence (marginal likelihood) by bridge sampling, in another pass
    #[arg(long, help_heading = "Review")]
    evidence: bool,
    /// Also cross-validate: rows, or groups, are assigned to this many folds at random, and each fold is predicted by a coreset of the others
    #[arg(long, value_name = "FOLDS", value_parser = positive_count(), help_heading = "Review")]
    k_fold: Option<usize>,
    /// Largest number of points of each of these coresets [default: 300]
    #[arg(short, value_name = "POINTS", value_parser = positive_count(), requires = "k_fold", help_heading = "Review")]
    k: Option<usize>,
    /// The -o file of the review of another model of the same rows: report the difference in elpd with its standard error
    #[arg(long, value_name = "FILE", help_heading = "Review")]
    pub(crate) against: Option<PathBuf>,
    /// Write elpd, Pareto k and the elpd of WAIC for every row, and with --k-fold its fold and elpd there: .parquet, .csv or .json
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Write a summary to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with tables and pictures, one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
}

impl ReviewArgs {
    /// The specification of these flags.
    pub(crate) fn specification(&self, seed: u64) -> Specification {
        let build = BuildSpecification { seed, ..BuildSpecification::default() };
        Specification { build, ..self.data.specification(&self.model) }
    }

    /// The requested folds.
    pub(crate) fn folds(&self, seed: u64) -> Option<KFoldSettings> {
        let Self { k_fold, k, .. } = *self;
        k_fold.map(|folds| KFoldSettings { folds, k, sample: SampleSettings::default(), seed })
    }

    /// The settings of the review.
    pub(crate) fn settings(&self, seed: u64, by: Option<By>) -> ReviewSettings {
        let pointwise = self.output.is_some() || self.against.is_some();
        let Self { most, outcomes, evidence, .. } = *self;
        ReviewSettings { draws: most, checked: outcomes, pointwise, seed, by, evidence }
    }
}
