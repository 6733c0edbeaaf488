//! `Coreset.predict` and `Coreset.score`: what draws of a coreset's posterior say of other rows, and of its own.

use std::collections::BTreeMap;

use corelet::data::{Besides, Encoding, Standardisation, Storage, TextLevels, Unseen};
use corelet::rows::Observations;
use corelet::study::{
    PredictedKind, PredictionSettings, Resolved, predict as predicted, predictive_draws, score,
};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::sample::Kept;

/// What a coreset says of itself, by key.
type Notes = BTreeMap<String, String>;

/// How a coreset's rows were encoded.
fn encoding(notes: &Notes) -> PyResult<Encoding> {
    note(notes, "corelet.encoding", |text| serde_json::from_str(text))
}

/// Its model and its prior.
fn model(notes: &Notes) -> PyResult<Resolved> {
    note(notes, "corelet.model", |text| serde_json::from_str(text))
}

fn note<T>(notes: &Notes, key: &str, read: impl Fn(&str) -> serde_json::Result<T>) -> PyResult<T> {
    let text = notes.get(key).ok_or_else(|| refuse("the coreset does not say how its rows were encoded"))?;
    read(text).map_err(|error| refuse(format!("the coreset's {key}: {error}")))
}

/// Rows of Python, encoded as those of a coreset.
fn encoded(
    py: Python<'_>,
    data: Data<'_>,
    notes: &Notes,
    besides: Besides,
    unseen: Unseen,
) -> PyResult<(Observations, Vec<String>)> {
    let source = data.source(py, &Storage::default())?;
    let levels: Vec<TextLevels> = note(notes, "corelet.levels", |text| serde_json::from_str(text))?;
    let scale: Standardisation = note(notes, "corelet.standardisation", |text| serde_json::from_str(text))?;
    let encoding = encoding(notes)?;
    let encoded = encoding.encode_noting(&source, besides, unseen, &levels, &scale);
    Ok(encoded.map_err(|error| Failure::new(&error))?)
}

/// Which of both, which quantiles, the seed, and whether unseen levels are taken as the base level.
type Asked = (String, Vec<f64>, u64, bool);

/// The predictive distribution of new rows: mean, sd and quantiles, numbers a row, and the classes.
#[pyfunction]
#[pyo3(signature = (data, notes, draws, exposure, asked))]
pub(crate) fn predict<'py>(
    py: Python<'py>,
    data: Data<'py>,
    notes: Notes,
    draws: PyReadonlyArray2<'py, f64>,
    exposure: Option<PyReadonlyArray1<'py, f64>>,
    asked: Asked,
) -> PyResult<Bound<'py, PyDict>> {
    let (kind, quantiles, seed, baseline) = asked;
    let unseen = if baseline { Unseen::Baseline } else { Unseen::Error };
    let kind = if kind == "outcome" { PredictedKind::Outcome } else { PredictedKind::Mean };
    let (encoding, model) = (encoding(&notes)?, model(&notes)?);
    let besides = if exposure.is_some() { Besides::Nothing } else { Besides::Exposure };
    let (mut rows, warnings) = encoded(py, data, &notes, besides, unseen)?;
    if let Some(exposure) = exposure {
        rows = rows.with_exposure(exposure.as_slice()?.to_vec());
    }
    let draws = draws.as_slice()?.to_vec();
    let settings = PredictionSettings { kind, quantiles, seed };
    let made =
        py.detach(|| predicted(&model, &rows, &draws, &settings)).map_err(|error| Failure::new(&error))?;
    let fields = PyDict::new(py);
    fields.set_item("mean", PyArray1::from_vec(py, made.mean))?;
    fields.set_item("sd", PyArray1::from_vec(py, made.sd))?;
    fields.set_item("quantiles", PyArray1::from_vec(py, made.quantiles))?;
    fields.set_item("columns", made.columns)?;
    fields.set_item("classes", encoding.classes())?;
    fields.set_item("warnings", warnings)?;
    Ok(fields)
}

/// The log predictive density of each row, whose targets are known.
#[pyfunction]
pub(crate) fn score_rows<'py>(
    py: Python<'py>,
    data: Data<'py>,
    notes: Notes,
    draws: PyReadonlyArray2<'py, f64>,
) -> PyResult<Numbers<'py>> {
    let model = model(&notes)?;
    let (rows, _) = encoded(py, data, &notes, Besides::Target, Unseen::Error)?;
    let draws = draws.as_slice()?.to_vec();
    let scored = py.detach(|| score(&model, rows, &draws)).map_err(|error| Failure::new(&error))?;
    Ok(PyArray1::from_vec(py, scored.each))
}

/// Numbers for Python.
type Numbers<'py> = Bound<'py, PyArray1<f64>>;

/// Log-likelihoods of a coreset's own rows at draws, and outcomes drawn there: draws × rows each, the second none if the model
/// has no outcome.
#[pyfunction]
pub(crate) fn pointwise<'py>(
    py: Python<'py>,
    kept: Kept<'py>,
    draws: PyReadonlyArray2<'py, f64>,
    seed: u64,
) -> PyResult<(Numbers<'py>, Option<Numbers<'py>>)> {
    let (rows, model) = (kept.observations()?, kept.model()?);
    let draws = draws.as_slice()?.to_vec();
    let bound = model.bind(rows.clone()).map_err(|error| Failure::new(&error))?;
    let (values, outcomes) = py.detach(|| {
        let of_draw = |theta: &[f64]| -> Vec<f64> {
            (0..bound.len()).map(|i| bound.log_likelihood(i, theta)).collect()
        };
        let values: Vec<f64> = draws.par_chunks_exact(bound.dim()).flat_map_iter(of_draw).collect();
        (values, predictive_draws(&model, &rows, &draws, seed).ok())
    });
    Ok((PyArray1::from_vec(py, values), outcomes.map(|outcomes| PyArray1::from_vec(py, outcomes))))
}
