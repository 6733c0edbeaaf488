//! `corelet.certify`: anybody's draws against the posterior of all rows, of a built-in family or of a model that lives in Python.

use corelet::study::{GivenDraws, LOG_DENSITY, Study};
use corelet::trust::policy::{FEWEST_SCORED, scored_draws};
use corelet::trust::{Certificate, Claim, Draws, Offset, Scores, certify as certified};
use corelet::words;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::design;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::run::{Execution, run};
use crate::sample::verdict_fields;
use crate::specification::specification;

/// Draws by name, chains one after the other.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NamedDraws<'py> {
    /// A line a draw.
    theta: PyReadonlyArray2<'py, f64>,
    /// The names of the columns; none if they are in the order of the model's parameters.
    names: Option<Vec<String>>,
    chains: usize,
    original: bool,
    diverged: usize,
    log_density: Option<PyReadonlyArray1<'py, f64>>,
    log_weights: Option<PyReadonlyArray1<'py, f64>>,
}

/// The same without Python.
pub(crate) struct Named {
    theta: Vec<f64>,
    width: usize,
    names: Option<Vec<String>>,
    chains: usize,
    original: bool,
    diverged: usize,
    log_density: Option<Vec<f64>>,
    pub(crate) log_weights: Option<Vec<f64>>,
}

impl NamedDraws<'_> {
    pub(crate) fn taken(&self) -> PyResult<Named> {
        let array = |given: &Option<PyReadonlyArray1<'_, f64>>| {
            given.as_ref().map(|given| given.as_slice().map(<[f64]>::to_vec)).transpose()
        };
        Ok(Named {
            theta: self.theta.as_slice()?.to_vec(),
            width: self.theta.shape()[1],
            names: self.names.clone(),
            chains: self.chains,
            original: self.original,
            diverged: self.diverged,
            log_density: array(&self.log_density)?,
            log_weights: array(&self.log_weights)?,
        })
    }
}

impl Named {
    /// In the coordinates of a study.
    pub(crate) fn of(&self, study: &Study) -> Result<GivenDraws, Failure> {
        let names = match &self.names {
            Some(names) => names.clone(),
            None => {
                let (have, known) = (self.width, &study.frame().names);
                if have != known.len() {
                    return Err(Failure::Refused(format!(
                        "the draws have {have} parameters, the model {}: {}",
                        known.len(),
                        known.join(", ")
                    )));
                }
                known.clone()
            }
        };
        let count = self.theta.len() / self.width.max(1);
        let column = |j: usize| self.theta.iter().skip(j).step_by(self.width.max(1)).copied().collect();
        let mut columns: Vec<(String, Vec<f64>)> =
            names.into_iter().enumerate().map(|(j, name)| (name, column(j))).collect();
        let length = (count / self.chains.max(1)).max(1);
        columns.push(("chain".to_owned(), (0..count).map(|s| (s / length) as f64).collect()));
        columns.extend(self.log_density.clone().map(|density| (LOG_DENSITY.to_owned(), density)));
        let given = study.draws_of(&columns, "the draws", self.original);
        let given = given.map_err(|error| Failure::new(&error))?;
        Ok(GivenDraws { diverged: self.diverged, ..given })
    }
}

/// Draws of the parameters of a built-in family.
#[pyfunction]
pub(crate) fn certify<'py>(
    py: Python<'py>,
    data: Data<'py>,
    keywords: &Bound<'py, PyDict>,
    draws: NamedDraws<'py>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?;
    let named = draws.taken()?;
    let source = data.source(py, &asked.storage)?;
    let dataset = design(py, &source, &asked)?;
    let name = source.name().to_owned();
    let (study, certificate) = run(py, &execution, move |control| {
        let study = Study::new(&name, dataset, &asked, 0.0).map_err(|error| Failure::of(&name, &error))?;
        let given = named.of(&study)?;
        let certificate = study.certify(&given, &mut |progress| control.heard(progress));
        Ok((study, certificate.map_err(|error| Failure::new(&error))?))
    })?;
    let one_mode = study.has_one_mode().map_err(|error| Failure::new(&error))?;
    let fields = fields(py, &certificate, &study.frame().names, study.all_rows(), one_mode)?;
    fields.set_item("warnings", study.warnings())?;
    Ok(fields)
}

/// A claim that was gathered in Python, on the unconstrained scale.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenClaim<'py> {
    /// All draws, chains one after the other, and those that were looked at.
    theta: PyReadonlyArray2<'py, f64>,
    looked: PyReadonlyArray2<'py, f64>,
    chains: usize,
    gradient: PyReadonlyArray2<'py, f64>,
    log_posterior: PyReadonlyArray1<'py, f64>,
    log_density: Option<PyReadonlyArray1<'py, f64>>,
    diverged: usize,
    names: Vec<String>,
    n: usize,
}

/// Draws of a model whose log posterior Python knows.
#[pyfunction]
pub(crate) fn certify_claim<'py>(py: Python<'py>, claim: GivenClaim<'py>) -> PyResult<Bound<'py, PyDict>> {
    let dim = claim.theta.shape()[1];
    let log_density =
        claim.log_density.as_ref().map(|density| density.as_slice().map(<[f64]>::to_vec)).transpose()?;
    let independent = log_density.is_some() && claim.chains == 1;
    let chains = if independent { None } else { Some(claim.chains) };
    let draws = |theta: &PyReadonlyArray2<'_, f64>| -> PyResult<Draws> {
        Ok(Draws { theta: theta.as_slice()?.to_vec(), dim, chains, log_weights: None })
    };
    let all = draws(&claim.theta)?;
    if claim.looked.shape()[1] != dim || claim.gradient.shape() != claim.looked.shape() {
        return Err(refuse("gradients must have the shape of the draws that they are of"));
    }
    let scores = Scores { draws: draws(&claim.looked)?, gradient: claim.gradient.as_slice()?.to_vec() };
    let log_posterior = claim.log_posterior.as_slice()?.to_vec();
    let diverged = claim.diverged;
    let certificate = py
        .detach(|| {
            let found = Vec::new();
            certified(Claim { draws: &all, scores, log_posterior, log_density, diverged, found })
        })
        .map_err(|error| Failure::new(&error))?;
    fields(py, &certificate, &claim.names, claim.n, false)
}

/// What the Python class `Certificate` is made of.
pub(crate) fn fields<'py>(
    py: Python<'py>,
    certificate: &Certificate,
    names: &[String],
    rows: usize,
    one_mode: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let lines = words::certified(certificate, names, rows, one_mode);
    let fields = PyDict::new(py);
    let verdict = verdict_fields(py, &certificate.verdict, certificate.verdict.draws, rows)?;
    verdict.set_item("headline", &lines[0])?;
    verdict.set_item("lines", &lines[1..])?;
    fields.set_item("verdict", verdict)?;
    fields.set_item("names", names)?;
    fields.set_item("has_density", certificate.has_density)?;
    let column = |of: fn(&Offset) -> f64| PyArray1::from_iter(py, certificate.parameters.iter().map(of));
    fields.set_item("mean", column(|offset| offset.mean))?;
    fields.set_item("sd", column(|offset| offset.sd))?;
    fields.set_item("shift", column(|offset| offset.shift))?;
    fields.set_item("shift_error", column(|offset| offset.shift_error))?;
    fields.set_item("scale", column(|offset| offset.scale))?;
    fields.set_item("scale_error", column(|offset| offset.scale_error))?;
    Ok(fields)
}

/// At how many draws of so many parameters the gradient of all rows is looked at, at most.
#[pyfunction]
pub(crate) fn draws_looked_at(parameters: usize) -> usize {
    scored_draws(parameters).max(FEWEST_SCORED)
}
