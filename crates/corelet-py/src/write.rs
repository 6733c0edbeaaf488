//! `Coreset.to_parquet`: the file that the command writes, and the command's words.

use std::collections::BTreeMap;
use std::path::PathBuf;

use corelet::data::{Extra, Source, write_rows};
use corelet::words;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::columns::{self, Part};
use crate::errors::{Failure, refuse};

/// Writes the chosen rows with their weights and columns.
#[pyfunction]
pub(crate) fn write_coreset<'py>(
    source: &str,
    parts: Vec<Part<'py>>,
    rows: PyReadonlyArray1<'py, i64>,
    weights: PyReadonlyArray1<'py, f64>,
    metadata: BTreeMap<String, String>,
    path: PathBuf,
) -> PyResult<()> {
    let table = columns::table(source, &parts)?;
    let rows: Vec<usize> = rows
        .as_slice()?
        .iter()
        .map(|&row| usize::try_from(row).map_err(|_| refuse(format!("row {row} is negative"))))
        .collect::<PyResult<_>>()?;
    let weights = Extra::Float(weights.as_slice()?.to_vec());
    let all: Vec<usize> = (0..table.rows).collect();
    let cells = Source::of_view(table).cells(&all).map_err(|error| Failure::new(&error))?;
    write_rows(&cells.with_rows(rows), &[("weight", weights)], &metadata, &path)
        .map_err(|error| Failure::new(&error).into())
}

/// What a divergence of so many nats means.
#[pyfunction]
pub(crate) fn judgement(nats: f64) -> String {
    words::judgement(nats)
}
