//! `corelet.k_fold`: K-fold cross-validation of a built-in family.

use corelet::study::{Fold, KFold, KFoldSettings, Study};
use corelet::trust::Grade;
use corelet::words;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::design;
use crate::data::Data;
use crate::errors::Failure;
use crate::run::{Execution, run};
use crate::specification::{sampling, specification};

/// Folds, and points of each coreset at most.
pub(crate) type Settings = (usize, Option<usize>);

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
    fields(py, &study, found)
}

/// What is said of folds whose coresets have so many points and these grades.
#[pyfunction]
pub(crate) fn k_folded(elpd: f64, se: f64, rows: usize, folds: Vec<(usize, String)>) -> Vec<String> {
    let fold = |(points, grade): (usize, String)| {
        let grade = match grade.as_str() {
            "A" => Grade::A,
            "B" => Grade::B,
            _ => Grade::C,
        };
        Fold { rows: 0, points, grade, variance: 0.0, elpd: 0.0 }
    };
    let folds = folds.into_iter().map(fold).collect();
    words::k_folded(&KFold {
        elpd,
        se,
        folds,
        pointwise: vec![0.0; rows],
        fold_of: Vec::new(),
        outcomes: Vec::new(),
    })
}

/// What the Python class `KFold` is made of.
pub(crate) fn fields<'py>(py: Python<'py>, study: &Study, found: KFold) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("lines", words::k_folded(&found))?;
    fields.set_item("warnings", study.warnings())?;
    fields.set_item("elpd", found.elpd)?;
    fields.set_item("se", found.se)?;
    fields.set_item("elpd_i", PyArray1::from_vec(py, found.pointwise))?;
    fields.set_item("outcomes", PyArray1::from_vec(py, found.outcomes))?;
    fields.set_item("fold_i", PyArray1::from_iter(py, found.fold_of.iter().map(|&fold| fold as i64)))?;
    let fold = |fold: &Fold| (fold.rows, fold.points, format!("{:?}", fold.grade), fold.variance, fold.elpd);
    fields.set_item("folds", found.folds.iter().map(fold).collect::<Vec<_>>())?;
    Ok(fields)
}
