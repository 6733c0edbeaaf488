//! From the flags to a model with its Laplace fit.

use std::ops::Deref;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use corelet::coreset::ModelOptions;
use corelet::data::{self, Dataset, DesignOptions, Format, Table};
use corelet::fitted;
use corelet::laplace::{Laplace, LaplaceError, LaplaceSettings, Prior, laplace};
use corelet::model::{Model, Rows};

use crate::summary::Subject;
use crate::terminal::Terminal;
use crate::wording::count;

/// A data file and what models are built on.
pub(crate) struct Data {
    table: Table,
    dataset: Dataset,
    read_seconds: f64,
}

/// A data file, a model of it and its Laplace fit, which it can be used as.
pub(crate) struct Fitted {
    pub(crate) table: Table,
    fitted: fitted::Fitted,
    pub(crate) read_seconds: f64,
    pub(crate) laplace_seconds: f64,
}

impl Deref for Fitted {
    type Target = fitted::Fitted;

    fn deref(&self) -> &fitted::Fitted {
        &self.fitted
    }
}

/// Reads the file and makes the design.
pub(crate) fn read(
    path: &Path,
    format: Option<Format>,
    options: &DesignOptions,
    terminal: &Terminal,
) -> anyhow::Result<Data> {
    let start = Instant::now();
    let _progress = terminal.progress(format!("reading {}", path.display()));
    let table = data::read(path, format)?;
    design(table, options, start, terminal)
}

/// Makes the design of a table that has been read, or generated, since `start`.
pub(crate) fn design(
    table: Table,
    options: &DesignOptions,
    start: Instant,
    terminal: &Terminal,
) -> anyhow::Result<Data> {
    let dataset = data::design(&table, options)?;
    if dataset.dropped > 0 {
        let (dropped, rows) = (count(dataset.dropped), count(table.rows));
        terminal.warn(&format!("{dropped} of {rows} rows have missing values and were left out"));
    }
    dataset.warnings.iter().for_each(|warning| terminal.warn(warning));
    Ok(Data { table, dataset, read_seconds: start.elapsed().as_secs_f64() })
}

impl Data {
    /// Number of usable rows, n.
    pub(crate) fn len(&self) -> usize {
        self.dataset.observations.len()
    }

    /// How messages name the file.
    pub(crate) fn source(&self) -> &str {
        &self.table.source
    }

    /// The observation that each row of the data file became; `coreset` is the file that names them.
    pub(crate) fn observations_of(&self, file_rows: &[usize], coreset: &Path) -> anyhow::Result<Vec<usize>> {
        let source = self.source();
        let find = |&row: &usize| match self.dataset.rows.binary_search(&row) {
            Ok(observation) => Ok(observation),
            Err(_) if row < self.table.rows => {
                bail!("row {row} has missing values in {source} and was left out")
            }
            Err(_) => bail!("row {row} is named, but {source} has {} rows", self.table.rows),
        };
        let rows: anyhow::Result<Vec<usize>> = file_rows.iter().map(find).collect();
        rows.with_context(|| coreset.display().to_string())
    }

    /// Fits the model to all rows.
    pub(crate) fn fit(self, options: &ModelOptions, terminal: &Terminal) -> anyhow::Result<Fitted> {
        self.fit_with(options, terminal, |model, prior| {
            laplace(model, prior, Rows::All, None, &LaplaceSettings::default())
        })
    }

    /// Fits the model in the way given.
    pub(crate) fn fit_with(
        self,
        options: &ModelOptions,
        terminal: &Terminal,
        fit: impl FnOnce(&dyn Model, &Prior) -> Result<Laplace, LaplaceError>,
    ) -> anyhow::Result<Fitted> {
        let Self { table, dataset, read_seconds } = self;
        let start = Instant::now();
        let _progress = terminal.progress("fitting the posterior");
        let fitted = fitted::fit_with(dataset, options, fit).with_context(|| table.source.clone())?;
        fitted.warnings.iter().for_each(|warning| terminal.warn(warning));
        Ok(Fitted { table, fitted, read_seconds, laplace_seconds: start.elapsed().as_secs_f64() })
    }
}

impl Fitted {
    /// Number of observations, n.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// What a summary says of it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject {
            data: &self.table.source,
            n: self.len(),
            names: &self.names,
            model: self.model.name(),
            dropped: self.dropped,
        }
    }
}
