//! `corelet.review`: what all rows say of draws of their posterior, for a built-in family or a model that lives in Python.

use corelet::engine::{Sample, review as review_of_target};
use corelet::review::{Asked, By, Checked, Moving, Review, evidence_of};
use corelet::study::{ReviewSettings, Study};
use corelet::trust::Draws;
use corelet::words::{misfits, misfits_by_level, reviewed};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::build::design;
use crate::certify::NamedDraws;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::outcomes::OutcomeChecks;
use crate::run::{Execution, run, run_here};
use crate::specification::specification;
use crate::target::PythonTarget;

/// Draws at which rows are looked at, draws of outcomes, whether numbers of each row are kept, the seed, a column by whose levels
/// outcomes are checked, and whether the evidence is wanted.
pub(crate) type Settings = (usize, usize, bool, u64, Option<String>, bool);

/// Rows of a built-in family.
#[pyfunction]
pub(crate) fn review<'py>(
    py: Python<'py>,
    data: Data<'py>,
    keywords: &Bound<'py, PyDict>,
    draws: NamedDraws<'py>,
    settings: Settings,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?;
    let named = draws.taken()?;
    let source = data.source(py, &asked.storage)?;
    let dataset = design(py, &source, &asked)?;
    let name = source.name().to_owned();
    let (draws, checked, pointwise, seed, column, evidence) = settings;
    let cells = column.as_deref().map(|column| source.column(column)).transpose();
    let cells = cells.map_err(|error| Failure::new(&error))?;
    let settings = ReviewSettings { draws, checked, pointwise, seed, by: None, evidence };
    let (study, review) = run(py, &execution, move |control| {
        let study = Study::new(&name, dataset, &asked, 0.0).map_err(|error| Failure::of(&name, &error))?;
        let given = named.of(&study)?;
        let weights = named.log_weights.as_deref();
        let rows: Vec<usize> = study.frame().rows.iter().collect();
        let by = column.zip(cells).map(|(column, cells)| By::of(&column, &cells, &rows));
        let settings = ReviewSettings { by, ..settings };
        let review = study.review(&given, weights, &settings, &mut |progress| control.heard(progress));
        Ok((study, review.map_err(|error| Failure::new(&error))?))
    })?;
    let file_row = |row: usize| study.frame().rows.file_row(row);
    let fields = fields(py, &review, &study.frame().names, &file_row)?;
    fields.set_item("warnings", study.warnings())?;
    Ok(fields)
}

/// What is asked of a model that lives in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenReview<'py> {
    /// Chains × draws × numbers: where the model is asked.
    theta: PyReadonlyArray3<'py, f64>,
    /// The names of the numbers.
    names: Vec<String>,
    chained: bool,
    log_weights: Option<PyReadonlyArray1<'py, f64>>,
    /// The number of each row's group.
    groups: Option<PyReadonlyArray1<'py, i64>>,
    pointwise: bool,
    /// Outcomes that were drawn, where there are any.
    outcomes: Option<PyRef<'py, OutcomeChecks>>,
    /// The levels by which outcomes are looked at.
    levels: Vec<String>,
    /// The outcome of each row, where it is known and numbers of each are kept.
    observed: Option<PyReadonlyArray1<'py, f64>>,
    /// The draws where the log posterior is a density on ℝᵖ, that log posterior, and a seed: where the evidence is wanted.
    evidence: Option<(PyReadonlyArray3<'py, f64>, Py<PyAny>, u64)>,
}

/// Rows of a model that lives in Python.
#[pyfunction]
pub(crate) fn review_target<'py>(
    py: Python<'py>,
    bridge: &Bound<'py, PyAny>,
    given: GivenReview<'py>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let target = PythonTarget::new(bridge)?;
    let (chains, dim) = (given.theta.shape()[0], given.theta.shape()[2]);
    let sample = Sample::new(given.theta.as_slice()?.to_vec(), dim, chains, given.chained, 0);
    let weights = given.log_weights.as_ref().map(|w| w.as_slice().map(<[f64]>::to_vec)).transpose()?;
    if weights.as_ref().is_some_and(|weights| weights.len() != sample.len()) {
        return Err(refuse(format!("there must be one log weight for each of {} draws", sample.len())));
    }
    let codes = given.groups.as_ref().map(|codes| codes.as_slice()).transpose()?;
    let codes: Option<Vec<usize>> = codes.map(|codes| codes.iter().map(|&code| code as usize).collect());
    let count = codes.as_ref().map_or(0, |codes| codes.iter().max().map_or(0, |most| most + 1));
    let pointwise = given.pointwise;
    let mut review = run_here(py, &execution, || {
        let quantities = sample.draws.parameters();
        let efficiency = if sample.chained { sample.draws.efficiency_of_means() } else { 1.0 };
        let asked = Asked::new(sample.len(), weights.as_deref(), &quantities, efficiency);
        let clusters = codes.as_deref().map(|codes| (codes, count));
        review_of_target(&target, &sample, &asked, clusters, pointwise).map_err(|error| Failure::new(&*error))
    })?;
    if let Some(outcomes) = &given.outcomes {
        review.checks = Some(outcomes.finish(dim));
        review.by = outcomes.finish_by(&given.levels);
    }
    review.outcomes = given.observed.map(|outcomes| outcomes.as_slice().map(<[f64]>::to_vec)).transpose()?;
    if let Some((points, log_posterior, seed)) = given.evidence {
        let chains = Some(points.shape()[0]).filter(|_| sample.chained);
        let draws =
            Draws { theta: points.as_slice()?.to_vec(), dim: points.shape()[2], chains, log_weights: None };
        let ask = |at: &Draws| -> PyResult<Vec<f64>> {
            let lines = PyArray1::from_slice(py, &at.theta).reshape([at.len(), at.dim])?;
            let values: PyReadonlyArray1<'_, f64> = log_posterior.bind(py).call1((lines,))?.extract()?;
            Ok(values.as_slice()?.to_vec())
        };
        review.set_evidence(evidence_of(&draws, weights.as_deref(), seed, ask)?);
    }
    fields(py, &review, &given.names, &|row| row)
}

/// What the Python class `Review` is made of.
pub(crate) fn fields<'py>(
    py: Python<'py>,
    review: &Review,
    names: &[String],
    file_row: &dyn Fn(usize) -> usize,
) -> PyResult<Bound<'py, PyDict>> {
    let loo = &review.loo;
    let fields = PyDict::new(py);
    fields.set_item("lines", reviewed(review, names, file_row))?;
    fields.set_item("n_draws", review.draws)?;
    fields.set_item("n", loo.rows)?;
    fields.set_item("loo", (loo.elpd, loo.se, loo.p))?;
    fields.set_item("waic", (loo.waic, loo.waic_se, loo.p_waic))?;
    fields.set_item("waic_doubtful", loo.waic_doubtful)?;
    fields.set_item("good_k", loo.good_k)?;
    fields.set_item("by_k", loo.by_k.to_vec())?;
    let rows: Vec<(usize, f64)> = loo.worst.iter().map(|&(row, k)| (file_row(row), k)).collect();
    fields.set_item("worst", rows)?;
    let pointwise = loo.pointwise.as_ref().map(|each| {
        let array = |values: &Vec<f64>| PyArray1::from_slice(py, values);
        (array(&each.elpd), array(&each.pareto_k), array(&each.waic))
    });
    fields.set_item("pointwise", pointwise)?;
    let outcomes = review.outcomes.as_ref().map(|outcomes| PyArray1::from_slice(py, outcomes));
    fields.set_item("outcomes", outcomes)?;
    fields.set_item("clusters", review.influence.clusters)?;
    let influence = PyList::empty(py);
    for (name, moving) in names.iter().zip(&review.influence.each) {
        influence.append(influence_fields(py, name, moving, file_row)?)?;
    }
    fields.set_item("influence", influence)?;
    if let Some(checked) = &review.checks {
        fields.set_item("checks", check_fields(py, checked, misfits(checked))?)?;
    }
    let by = PyList::empty(py);
    for level in &review.by {
        let prefix = format!("{}: ", level.0);
        let said = misfits_by_level(std::slice::from_ref(level));
        let said = said.iter().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect();
        by.append((&level.0, check_fields(py, &level.1, said)?))?;
    }
    fields.set_item("by", by)?;
    fields.set_item(
        "evidence",
        review.evidence.map(|found| (found.log, found.se, found.draws, found.is_doubtful())),
    )?;
    Ok(fields)
}

/// What the Python class `Fits` is made of.
fn check_fields<'py>(
    py: Python<'py>,
    checked: &Checked,
    misfits: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let checks = PyDict::new(py);
    checks.set_item("misfits", misfits)?;
    checks.set_item("n", checked.rows)?;
    checks.set_item("mean", checked.mean)?;
    checks.set_item("dispersion", checked.dispersion.map(|(ratio, _)| ratio))?;
    checks.set_item("zeros", checked.zeros)?;
    checks.set_item("outside", checked.outside.map(|([below, above], expected)| (below, above, expected)))?;
    checks.set_item("pit", checked.pit.clone())?;
    let bins = checked.calibration.iter().map(|bin| (bin.rows, bin.predicted, bin.observed, bin.error));
    checks.set_item("calibration", bins.collect::<Vec<_>>())?;
    Ok(checks)
}

fn influence_fields<'py>(
    py: Python<'py>,
    name: &str,
    moving: &Moving,
    file_row: &dyn Fn(usize) -> usize,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", name)?;
    fields.set_item("mean", moving.mean)?;
    fields.set_item("sd", moving.sd)?;
    fields.set_item("jackknife_se", moving.jackknife)?;
    fields.set_item("rows_to_turn", moving.to_turn)?;
    for (key, movers) in [("against", &moving.against), ("along", &moving.along)] {
        let rows = PyArray1::from_iter(py, movers.iter().map(|mover| file_row(mover.row) as i64));
        let changes = PyArray1::from_iter(py, movers.iter().map(|mover| mover.change));
        fields.set_item(key, (rows, changes))?;
    }
    Ok(fields)
}
