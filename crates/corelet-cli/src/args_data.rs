//! The flags for data: what is read, what each column is for, and how cells become numbers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corelet::data::{
    Bytes, Columns, DataError, DesignOptions, Format, NameList, Standardise, Storage, input_files,
};
use corelet::study::Specification;

use crate::args::ModelArgs;

/// What is read, and where its rows are kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Data file: .csv, .tsv (also .gz, .zst), .parquet, .arrow, .libsvm, .npz, .npy, or - for CSV on standard input; several
    /// files with the same columns, a quoted pattern ('parts/*.parquet') or a folder form one table
    #[arg(required = true, help_heading = None::<&str>)]
    pub(crate) data: Vec<PathBuf>,
    /// Format of the file, if its extension does not tell it: csv, tsv, parquet, arrow, libsvm, npz, npy
    #[arg(long)]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    cells: CellArgs,
    /// Memory that the rows may take, such as 4GiB; rows that need more go to a scratch file [default: half of the available memory]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Folder for scratch files and for data from a pipe [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// What each column is for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
struct ColumnArgs {
    /// Column to predict (LIBSVM and NPZ files carry their own)
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Columns to predict from; put a name with a comma in double quotes [default: all others]
    #[arg(long, value_name = "A,B,C")]
    features: Option<NameList>,
    /// Columns to leave out of the features
    #[arg(long, value_name = "A,B,C", conflicts_with = "features")]
    exclude: Option<NameList>,
    /// Column with the exposure of each row, for counts
    #[arg(long, value_name = "COLUMN")]
    exposure: Option<String>,
    /// Column with the number of trials of each row, for binomial
    #[arg(long, value_name = "COLUMN")]
    trials: Option<String>,
    /// Column that is 1 if the event was observed and 0 if the time is right-censored, for weibull and exponential
    /// [default: always observed]
    #[arg(long, value_name = "COLUMN")]
    event: Option<String>,
    /// Column with frequency weights, > 0: a row counts as that many equal rows
    #[arg(long, value_name = "COLUMN")]
    weights: Option<String>,
    /// Column with an offset, a term added to the linear predictor of each row
    #[arg(long, value_name = "COLUMN")]
    offset: Option<String>,
    /// Column with the group of each row: -k whole groups are chosen; the column is not a feature
    #[arg(long, value_name = "COLUMN")]
    groups: Option<String>,
}

/// How cells become numbers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
struct CellArgs {
    /// Columns to treat as categories even if their cells are numbers
    #[arg(long, value_name = "A,B,C")]
    categories: Option<NameList>,
    /// Additional texts that mean a missing value, besides an empty cell, NA, NaN and null
    #[arg(long, value_name = "TEXT,TEXT", allow_hyphen_values = true)]
    missing: Option<NameList>,
    /// Level of the target that counts as success, for logistic
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    positive: Option<String>,
    /// Levels of the target from low to high, for ordinal; not needed for numbers
    #[arg(long, value_name = "LOW,…,HIGH", allow_hyphen_values = true)]
    levels: Option<NameList>,
    /// Add no intercept
    #[arg(long)]
    no_intercept: bool,
    /// How features are standardised
    #[arg(long, default_value = "scale")]
    standardise: StandardiseArg,
    /// Leave out rows with missing values
    #[arg(long)]
    drop_missing: bool,
    /// Merge equal rows and add their weights; if no more than -k distinct rows remain, they are the coreset, which is exact
    #[arg(long)]
    collapse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StandardiseArg {
    /// No change
    None,
    /// Mean 0 and standard deviation 1
    Scale,
    /// Mean 0 and identity covariance, as in the paper
    Whiten,
}

/// The names of a list; none if it was not given.
fn all(names: Option<&NameList>) -> Vec<String> {
    names.map(|names| names.0.clone()).unwrap_or_default()
}

impl ColumnArgs {
    fn columns(&self) -> Columns {
        Columns {
            target: self.target.clone(),
            features: self.features.as_ref().map(|names| names.0.clone()),
            exclude: all(self.exclude.as_ref()),
            exposure: self.exposure.clone(),
            trials: self.trials.clone(),
            event: self.event.clone(),
            weights: self.weights.clone(),
            offset: self.offset.clone(),
            groups: self.groups.clone(),
            factors: Vec::new(),
        }
    }
}

impl CellArgs {
    fn design(&self, columns: Columns) -> DesignOptions {
        DesignOptions {
            columns,
            categories: all(self.categories.as_ref()),
            missing: all(self.missing.as_ref()),
            positive: self.positive.clone(),
            levels: self.levels.as_ref().map(|names| names.0.clone()),
            intercept: !self.no_intercept,
            standardise: match self.standardise {
                StandardiseArg::None => Standardise::None,
                StandardiseArg::Scale => Standardise::Scale,
                StandardiseArg::Whiten => Standardise::Whiten,
            },
            drop_missing: self.drop_missing,
            collapse: self.collapse,
            ..DesignOptions::default()
        }
    }
}

impl DataArgs {
    /// All data files.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, DataError> {
        input_files(&self.data, self.format)
    }

    /// The specification of these flags and those of the model.
    pub(crate) fn specification(&self, model: &ModelArgs) -> Specification {
        let storage = Storage { memory: self.memory, scratch: self.scratch.clone() };
        let design = self.cells.design(self.columns.columns());
        let model = model.specification();
        Specification { design, storage, model, ..Specification::default() }
    }
}
