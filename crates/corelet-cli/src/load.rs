//! From the flags to a model with its Laplace fit.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use corelet::coreset::{ModelOptions, make_model, make_prior};
use corelet::data::{self, Dataset, DesignOptions, Format, Standardisation, Table, Task, TextLevels};
use corelet::laplace::{Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, Prior, laplace};
use corelet::model::{Model, Rows};

use crate::terminal::Terminal;
use crate::wording::{count, number};

/// A fit whose mode is known to this many posterior standard deviations is as good as converged.
const CLOSE_ENOUGH: f64 = 1e-4;

/// A data file and what models are built on.
pub(crate) struct Data {
    table: Table,
    dataset: Dataset,
    read_seconds: f64,
}

/// A model of the data and its Laplace fit.
pub(crate) struct Fitted {
    pub(crate) table: Table,
    /// The name of each parameter.
    pub(crate) names: Vec<String>,
    /// The row of the file that each observation came from, ascending.
    pub(crate) rows: Vec<usize>,
    pub(crate) levels: Vec<TextLevels>,
    pub(crate) standardisation: Standardisation,
    pub(crate) task: Task,
    /// Rows left out for missing values.
    pub(crate) dropped: usize,
    pub(crate) model: Box<dyn Model>,
    pub(crate) prior: Prior,
    pub(crate) laplace: Laplace,
    pub(crate) read_seconds: f64,
    pub(crate) laplace_seconds: f64,
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
        if options.kind == Task::Linear {
            warn_of_tight_prior(&dataset.observations.target, options.prior_sd, terminal);
        }
        let source = || table.source.clone();
        let Dataset { observations, names, rows, levels, standardisation, dropped, .. } = dataset;
        let model = make_model(observations, options).with_context(source)?;
        let prior = make_prior(model.dim(), options)?;
        let laplace = fit(&*model, &prior).with_context(source)?;
        if laplace.status != LaplaceStatus::Converged && laplace.gradient_norm > CLOSE_ENOUGH {
            let off = number(laplace.gradient_norm);
            terminal
                .warn(&format!("the Laplace fit has not converged: its mode is off by {off} posterior sd"));
        }
        let laplace_seconds = start.elapsed().as_secs_f64();
        Ok(Fitted {
            table,
            names,
            rows,
            levels,
            standardisation,
            task: options.kind,
            dropped,
            model,
            prior,
            laplace,
            read_seconds,
            laplace_seconds,
        })
    }
}

impl Fitted {
    /// Number of observations, n.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Parameters on the original scale of the data.
    pub(crate) fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        match self.task {
            Task::Gaussian => self.standardisation.point_to_original(theta),
            _ => self.standardisation.to_original(theta),
        }
    }
}

/// A prior of sd 1 makes sense for log odds and log rates; a linear target has whatever scale it has.
fn warn_of_tight_prior(target: &[f64], prior_sd: f64, terminal: &Terminal) {
    let n = target.len() as f64;
    let mean = target.iter().sum::<f64>() / n;
    let square = target.iter().map(|y| y * y).sum::<f64>() / n;
    let (scale, sd) = (square.sqrt(), (square - mean * mean).max(0.0).sqrt());
    if scale > 10.0 * prior_sd {
        terminal.warn(&format!(
            "the target has mean {} and sd {}, so that a prior of sd {} holds its coefficients near 0; consider \
             --prior-sd {}",
            number(mean),
            number(sd),
            number(prior_sd),
            10f64.powf(scale.log10().ceil())
        ));
    }
}
