//! Outcomes that a model in Python drew, against those that were observed: a block of rows at a time.

use std::collections::BTreeMap;

use corelet::data::Storage;
use corelet::review::{By, Checked, CheckedRow, Checks, Outcomes};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::data::Data;
use crate::errors::{Failure, refuse};

/// The levels of the one column of a table, or ranges of its numbers, and the place of each row's.
#[pyfunction]
pub(crate) fn levels_of<'py>(
    py: Python<'py>,
    data: Data<'py>,
    column: &str,
    rows: usize,
) -> PyResult<(Vec<String>, Bound<'py, PyArray1<u32>>)> {
    let cells = data.source(py, &Storage::default())?.column(column);
    let cells = cells.map_err(|error| Failure::new(&error))?;
    let By { labels, codes, .. } = By::of(column, &cells, &(0..rows).collect::<Vec<_>>());
    Ok((labels, PyArray1::from_vec(py, codes)))
}

/// Sums over rows so far.
#[pyclass]
pub(crate) struct OutcomeChecks {
    checks: Checks,
    draws: usize,
    /// The same by the levels of a column, by their places.
    by: BTreeMap<u32, Checks>,
}

#[pymethods]
impl OutcomeChecks {
    #[new]
    fn new(kind: &str, draws: usize) -> PyResult<Self> {
        let checks = match kind {
            "binary" => Checks::new(Outcomes::Binary, draws),
            "counts" => Checks::estimated(Outcomes::Counts, draws),
            "numbers" => Checks::estimated(Outcomes::Numbers, draws),
            _ => return Err(refuse(format!("outcomes are of kind '{kind}', which is not known"))),
        };
        Ok(Self { checks, draws, by: BTreeMap::new() })
    }

    /// Rows: what was observed, what was drawn (draws × rows), and a uniform number each. Of two classes also their probabilities, and
    /// the level of each in a column where they are looked at by one.
    #[pyo3(signature = (y, drawn, uniform, probabilities=None, levels=None))]
    fn add(
        &mut self,
        y: PyReadonlyArray1<'_, f64>,
        drawn: PyReadonlyArray2<'_, f64>,
        uniform: PyReadonlyArray1<'_, f64>,
        probabilities: Option<PyReadonlyArray2<'_, f64>>,
        levels: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<()> {
        let (y, rows) = (y.as_slice()?, drawn.shape()[1]);
        let asked = probabilities.as_ref().map_or(drawn.shape(), |p| p.shape());
        if y.len() != rows || uniform.len() != rows || [drawn.shape(), asked] != [&[self.draws, rows]; 2] {
            return Err(refuse(format!(
                "outcomes that were drawn have shape {:?}; they must be {} draws × {} rows",
                drawn.shape(),
                self.draws,
                y.len()
            )));
        }
        let levels = levels.as_ref().map(|levels| levels.as_slice()).transpose()?;
        if levels.is_some_and(|levels| levels.len() != rows) {
            return Err(refuse(format!("there must be one level for each of {rows} rows")));
        }
        let (drawn, uniform) = (drawn.as_slice()?, uniform.as_slice()?);
        let columns: Vec<Vec<f64>> = (0..rows).map(|at| column(drawn, at, rows)).collect();
        let chances = probabilities.as_ref().map(|p| p.as_slice()).transpose()?;
        let known: Vec<(f64, f64)> = columns.iter().map(|drawn| moments(drawn)).collect();
        // Of rows that hardly vary the variance of some draws may be 0: each has at least that of a typical row.
        let typical = known.iter().map(|(_, variance)| variance).sum::<f64>() / rows.max(1) as f64;
        for (at, drawn) in columns.iter().enumerate() {
            let moments: Vec<(f64, f64)> = match chances {
                Some(chances) => column(chances, at, rows).into_iter().map(|p| (p, p * (1.0 - p))).collect(),
                None => vec![(known[at].0, known[at].1 + typical); self.draws],
            };
            let uniform = uniform[at];
            let row = CheckedRow { y: y[at], censored: false, moments: &moments, drawn, uniform };
            self.checks.add(&row);
            if let Some(levels) = levels {
                self.by.entry(levels[at]).or_insert_with(|| self.checks.empty()).add(&row);
            }
        }
        Ok(())
    }
}

impl OutcomeChecks {
    /// All rows have been.
    pub(crate) fn finish(&self, parameters: usize) -> Checked {
        self.checks.clone().finish(parameters)
    }

    /// The same of each level that has these names. Parameters are fitted to all rows and not to those of a level.
    pub(crate) fn finish_by(&self, labels: &[String]) -> Vec<(String, Checked)> {
        let of = |(&level, checks): (&u32, &Checks)| {
            labels.get(level as usize).map(|label| (label.clone(), checks.clone().finish(0)))
        };
        self.by.iter().filter_map(of).collect()
    }
}

fn column(values: &[f64], at: usize, width: usize) -> Vec<f64> {
    values.iter().skip(at).step_by(width).copied().collect()
}

fn moments(drawn: &[f64]) -> (f64, f64) {
    let count = drawn.len() as f64;
    let mean = drawn.iter().sum::<f64>() / count;
    (mean, drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}
