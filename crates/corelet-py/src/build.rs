//! `corelet.build`: from columns or a file to a judged coreset, by the library's pipeline.

use std::ops::ControlFlow;
use std::time::Instant;

use corelet::data::{Dataset, Reading, Source};
use corelet::rows::{Observations, Rest};
use corelet::study::{BuildSpecification, Chosen, Drawn, Specification, Study};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::run::{Control, Execution, run};
use crate::specification::specification;

/// The design that is asked for, with the GIL let go; Ctrl-C is raised after the block that is being read.
pub(crate) fn design(py: Python<'_>, source: &Source<'_>, asked: &Specification) -> PyResult<Dataset> {
    let mut raised = None;
    let watch = &mut |_: &Reading| match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            raised = Some(error);
            ControlFlow::Break(())
        }
    };
    let dataset = py.detach(|| source.design_watched(&asked.design(), &asked.storage, watch));
    match raised {
        Some(error) => Err(error),
        None => Ok(dataset.map_err(|error| Failure::new(&error))?),
    }
}

/// Builds a coreset.
#[pyfunction]
pub(crate) fn build<'py>(
    py: Python<'py>,
    data: Data<'py>,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let asked = specification(keywords)?;
    let source = data.source(py, &asked.storage)?;
    let dataset = design(py, &source, &asked)?;
    let group_column = asked.design.columns.groups.clone();
    let (name, read) = (source.name().to_owned(), start.elapsed().as_secs_f64());
    let (study, chosen) = run(py, &execution, move |control| {
        let study = Study::new(&name, dataset, &asked, read).map_err(|error| Failure::of(&name, &error))?;
        let chosen = choose(control, &study, &asked.build)?;
        Ok((study, chosen))
    })?;
    let rows = study.frame().rows_of(&chosen.coreset().rows);
    let cells = source.cells(&rows).map_err(|error| Failure::new(&error))?;
    let fields = fields(py, &study, &chosen, None)?;
    fields.set_item("columns", columns::chosen(py, &cells)?)?;
    fields.set_item("group_column", group_column)?;
    Ok(fields)
}

fn choose<T: Send>(
    control: &mut Control<T>,
    study: &Study,
    asked: &BuildSpecification,
) -> Result<Chosen, Failure> {
    let source = &study.frame().source;
    let chosen = study.build(asked, &mut |progress| control.heard(progress));
    let chosen = chosen.map_err(|error| Failure::of(source, &error))?;
    chosen.ok_or_else(|| Failure::Refused(format!("{source}: stopped before there was a coreset")))
}

/// What the Python class `Coreset` is made of, but for the cells of the chosen rows.
pub(crate) fn fields<'py>(
    py: Python<'py>,
    study: &Study,
    chosen: &Chosen,
    drawn: Option<&Drawn>,
) -> PyResult<Bound<'py, PyDict>> {
    let (coreset, summary, frame) = (chosen.coreset(), &chosen.summary, study.frame());
    let mut warnings = study.warnings();
    warnings.extend(summary.warnings());
    let failed = |error: serde_json::Error| refuse(error.to_string());
    let rows = study.frame().rows_of(&coreset.rows);
    let fields = PyDict::new(py);
    fields.set_item("rows", PyArray1::from_iter(py, rows.iter().map(|&row| row as i64)))?;
    fields.set_item("weights", PyArray1::from_slice(py, chosen.weights.values()))?;
    fields.set_item("summary", summary.to_json().map_err(failed)?)?;
    fields.set_item("lines", summary.lines())?;
    fields.set_item("warnings", warnings)?;
    let mut metadata = frame.metadata(summary, study.resolved(), coreset.rest.as_deref()).map_err(failed)?;
    metadata.extend([study.blocks(drawn, coreset.rows.len()).metadata().map_err(failed)?]);
    fields.set_item("metadata", metadata)?;
    fields.set_item("names", frame.names.clone())?;
    fields.set_item("target", frame.target.clone())?;
    let groups = chosen.built.groups.as_ref();
    let groups = groups.map(|groups| PyArray1::from_iter(py, groups.iter().map(|&group| group as i64)));
    fields.set_item("groups", groups)?;
    fields.set_item("sampling", kept(py, study, chosen)?)?;
    Ok(fields)
}

/// The weighted posterior: the k standardised rows with what else it is made of.
fn kept<'py>(py: Python<'py>, study: &Study, chosen: &Chosen) -> PyResult<Bound<'py, PyDict>> {
    let coreset = chosen.coreset();
    let kept = PyDict::new(py);
    if coreset.rows.is_empty() && coreset.rest.is_none() {
        return Ok(kept);
    }
    let weighted = study.weighted_with_rest(&coreset.rows, &chosen.weights, coreset.rest.as_ref());
    let weighted = weighted.map_err(|error| Failure::new(&error))?;
    let none = Observations { dim: study.frame().features, ..Observations::default() };
    let observations = weighted.model().map_or(&none, |model| model.observations());
    kept_fields(py, study, observations, coreset.rows.len(), coreset.rest.as_deref())
}

/// These rows, with the model of a study and a Gaussian part.
pub(crate) fn kept_fields<'py>(
    py: Python<'py>,
    study: &Study,
    observations: &Observations,
    points: usize,
    rest: Option<&Rest>,
) -> PyResult<Bound<'py, PyDict>> {
    let kept = PyDict::new(py);
    let features = PyArray1::from_slice(py, &observations.features);
    let shape = [points, observations.dim];
    kept.set_item("features", features.reshape(shape)?)?;
    kept.set_item("target", PyArray1::from_slice(py, &observations.target))?;
    let exposure = observations.exposure.as_ref().map(|exposure| PyArray1::from_slice(py, exposure));
    kept.set_item("exposure", exposure)?;
    let offset = observations.offset.as_ref().map(|offset| PyArray1::from_slice(py, offset));
    kept.set_item("offset", offset)?;
    let json = |value: serde_json::Result<String>| value.map_err(|error| refuse(error.to_string()));
    kept.set_item("model", json(serde_json::to_string(study.resolved()))?)?;
    let rest = rest.map(serde_json::to_string).transpose();
    kept.set_item("rest", rest.map_err(|error| refuse(error.to_string()))?)?;
    kept.set_item("standardisation", json(serde_json::to_string(&study.frame().standardisation))?)?;
    Ok(kept)
}
