//! `corelet.k_fold`: K-fold cross-validation of a built-in family.

use corelet::study::{KFoldSettings, Study};
use corelet::words::k_folded;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::design;
use crate::data::Data;
use crate::errors::Failure;
use crate::run::{Execution, run};
use crate::specification::{sampling, specification};

/// Folds, and points of each coreset at most.
type Settings = (usize, Option<usize>);

/// The elpd of each row by the rows of other folds, and what each fold rests on.
#[pyfunction]
pub(crate) fn k_fold<'py>(
    py: Python<'py>,
    data: Data<'py>,
    keywords: &Bound<'py, PyDict>,
    settings: Settings,
    chains: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?;
    let (sample, seed) = sampling(chains)?;
    let (folds, k) = settings;
    let source = data.source(py, &asked.storage)?;
    let dataset = design(py, &source, &asked)?;
    let name = source.name().to_owned();
    let (study, found) = run(py, &execution, move |control| {
        let study = Study::new(&name, dataset, &asked, 0.0).map_err(|error| Failure::of(&name, &error))?;
        let settings = KFoldSettings { folds, k, sample, seed };
        let found = study.k_fold(&settings, &mut |progress| control.heard(progress));
        let found = found.map_err(|error| Failure::of(&name, &error))?;
        Ok((study, found))
    })?;
    let fields = PyDict::new(py);
    fields.set_item("lines", k_folded(&found))?;
    fields.set_item("warnings", study.warnings())?;
    fields.set_item("elpd", found.elpd)?;
    fields.set_item("se", found.se)?;
    fields.set_item("elpd_i", PyArray1::from_vec(py, found.pointwise))?;
    fields.set_item("outcomes", PyArray1::from_vec(py, found.outcomes))?;
    fields.set_item("fold_i", PyArray1::from_iter(py, found.fold_of.iter().map(|&fold| fold as i64)))?;
    let fold = |fold: &corelet::study::Fold| {
        (fold.rows, fold.points, format!("{:?}", fold.grade), fold.variance, fold.elpd)
    };
    fields.set_item("folds", found.folds.iter().map(fold).collect::<Vec<_>>())?;
    Ok(fields)
}
