//! `Coreset.to_parquet`: the file that the command writes, and the command's words.

use std::collections::BTreeMap;
use std::path::PathBuf;

use corelet::data::{Extra, Source, write_rows};
use corelet::posterior::{ess_bulk, ess_tail, r_hat};
use corelet::words;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
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

/// Mean, standard deviation and the ends of an interval of each parameter, as text: see `corelet::words::figures`.
#[pyfunction]
pub(crate) fn figures(rows: PyReadonlyArray2<'_, f64>) -> PyResult<Vec<[String; 4]>> {
    let rows: Vec<[f64; 4]> =
        rows.as_slice()?.chunks_exact(4).map(|row| [row[0], row[1], row[2], row[3]]).collect();
    Ok(words::figures(&rows))
}

/// What chains say of one parameter.
type Diagnostic = fn(&[Vec<f64>]) -> f64;

/// R̂ and effective sample sizes, bulk and tail, of each parameter: of draws as parameters × chains × draws.
#[pyfunction]
pub(crate) fn diagnose<'py>(
    py: Python<'py>,
    draws: PyReadonlyArray3<'py, f64>,
) -> PyResult<Vec<Bound<'py, PyArray1<f64>>>> {
    let (chains, length) = (draws.shape()[1], draws.shape()[2]);
    let values = draws.as_slice()?;
    let of: [Diagnostic; 3] = [r_hat, ess_bulk, ess_tail];
    let columns: [Vec<f64>; 3] = py.detach(|| {
        let each = values.chunks_exact((chains * length).max(1));
        let split: Vec<Vec<Vec<f64>>> =
            each.map(|all| all.chunks_exact(length.max(1)).map(<[f64]>::to_vec).collect()).collect();
        of.map(|of| split.iter().map(|chains| of(chains)).collect())
    });
    Ok(columns.into_iter().map(|column| PyArray1::from_vec(py, column)).collect())
}

/// What a divergence of so many nats means.
#[pyfunction]
pub(crate) fn judgement(nats: f64) -> String {
    words::judgement(nats)
}
