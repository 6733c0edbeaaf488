//! `corelet.dask` and `corelet.spark`: what a worker does with a partition, and the driver that asks all of them.

use std::sync::{Arc, Mutex, PoisonError};

use corelet::cluster::{self, Carrier, CarrierError};
use corelet::data::Storage;
use corelet::study::{KFoldSettings, ReviewSettings, Specification, Study, StudyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::build::fields;
use crate::certify::{NamedDraws, fields as certificate_fields};
use crate::columns;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::run::{Execution, Here, run_here};
use crate::sample::{WeightedRows, chosen, drawn_fields, known};
use crate::specification::{sampling, specification};
use crate::{k_fold, review};

/// What a partition as it came answers.
#[pyfunction]
pub(crate) fn look<'py>(py: Python<'py>, data: Data<'py>, question: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let source = data.source(py, &Storage::default())?;
    Ok(PyBytes::new(py, &py.detach(|| cluster::look(&source, question))))
}

/// Rows of a partition as they are there, column by column.
#[pyfunction]
pub(crate) fn cells<'py>(py: Python<'py>, data: Data<'py>, rows: Vec<usize>) -> PyResult<Bound<'py, PyDict>> {
    let cells = data.source(py, &Storage::default())?.cells(&rows).map_err(|error| Failure::new(&error))?;
    columns::chosen(py, &cells)
}

/// The rows of one partition, where it is.
#[pyclass(module = "corelet._lib", frozen)]
pub(crate) struct Shard(cluster::Shard);

#[pymethods]
impl Shard {
    /// Makes the rows of a partition by the driver's plan.
    #[new]
    fn new(py: Python<'_>, data: Data<'_>, partition: usize, plan: &[u8]) -> PyResult<Self> {
        let source = data.source(py, &Storage::default())?;
        Ok(Self(py.detach(|| cluster::Shard::new(&source, partition, plan))))
    }

    /// What the driver wants to know once it is made.
    fn made<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.made())
    }

    /// The answer to a question.
    fn answer<'py>(&self, py: Python<'py>, question: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.answer(question)))
    }

    /// One that was moved, or on disk.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| cluster::Shard::from_bytes(bytes)).map(Self).map_err(refuse)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = py.detach(|| self.0.to_bytes());
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (PyBytes::new(py, &bytes),)))
    }

    /// Engines place and spill by this.
    fn __sizeof__(&self) -> usize {
        self.0.size()
    }
}

/// An engine of Python: `partitions`, and the methods `look`, `hold` and `ask`, which take and give bytes.
struct Engine {
    object: Py<PyAny>,
    partitions: usize,
    /// What one of them raised.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Engine {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let partitions = object.getattr("partitions")?.extract()?;
        Ok(Self { object: object.clone().unbind(), partitions, raised: Arc::default() })
    }

    fn call(
        &self,
        method: &str,
        question: &[u8],
        partitions: Option<&[usize]>,
    ) -> Result<Vec<Vec<u8>>, CarrierError> {
        let answers = Python::attach(|py| -> PyResult<Vec<Vec<u8>>> {
            py.check_signals()?;
            let (object, question) = (self.object.bind(py), PyBytes::new(py, question));
            let answers = match partitions {
                Some(partitions) => object.call_method1(method, (question, partitions.to_vec()))?,
                None => object.call_method1(method, (question,))?,
            };
            answers.try_iter()?.map(|answer| Ok(answer?.cast::<PyBytes>()?.as_bytes().to_vec())).collect()
        });
        answers.map_err(|error| {
            let text = error.to_string();
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            text.into()
        })
    }
}

impl Carrier for Engine {
    fn partitions(&self) -> usize {
        self.partitions
    }

    fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.call("look", question, None)
    }

    fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.call("hold", plan, Some(partitions))
    }

    fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.call("ask", question, Some(partitions))
    }
}

/// Runs `work` on a study of the partitions. What the engine raised is raised again.
fn studied<T: Send>(
    py: Python<'_>,
    schema: &Data<'_>,
    engine: &Bound<'_, PyAny>,
    asked: &Specification,
    execution: &Execution<'_>,
    work: impl FnOnce(Study, &Here) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (source, engine, here) =
        (schema.source(py, &Storage::default())?, Engine::new(engine)?, Here::new(execution));
    let raised = Arc::clone(&engine.raised);
    let result = run_here(py, execution, move || {
        let study = Study::of_partitions(&source, asked, Box::new(engine)).map_err(|error| match error {
            // As it is, so that its advice is found.
            StudyError::Data(error) => Failure::new(&error),
            other => Failure::new(&other),
        });
        let done = study.and_then(|study| work(study, &here));
        here.finish(done)
    });
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (result, raised) {
        (Err(_), Some(raised)) => Err(raised),
        (result, _) => result,
    }
}

/// Builds a coreset of rows in partitions; their cells are for the engine to fetch.
#[pyfunction]
pub(crate) fn build_partitions<'py>(
    py: Python<'py>,
    schema: Data<'py>,
    engine: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?;
    let (study, chosen) = studied(py, &schema, engine, &asked, &execution, |study, here| {
        let source = study.frame().source.clone();
        let chosen = study.build(&asked.build, &mut |progress| here.heard(progress));
        let chosen = chosen.map_err(|error| Failure::of(&source, &error))?;
        let stopped = || Failure::Refused(format!("{source}: stopped before there was a coreset"));
        Ok((study, chosen.ok_or_else(stopped)?))
    })?;
    // The chosen rows are asked for once more, to be kept for sampling.
    let fields = fields(py, &study, &chosen, None)?;
    fields.set_item("group_column", asked.design.columns.groups)?;
    fields.set_item("partitions", study.frame().lineage.partitions.clone())?;
    Ok(fields)
}

/// Anybody's draws against all rows in their partitions.
#[pyfunction]
pub(crate) fn certify_partitions<'py>(
    py: Python<'py>,
    schema: Data<'py>,
    engine: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    draws: NamedDraws<'py>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let (asked, named) = (specification(keywords)?, draws.taken()?);
    let (study, one_mode, certificate) = studied(py, &schema, engine, &asked, &execution, |study, here| {
        let given = named.of(&study)?;
        let judged = || -> Result<_, StudyError> {
            let certificate = study.certify(&given, &mut |progress| here.heard(progress))?;
            Ok((study.has_one_mode()?, certificate))
        };
        let (one_mode, certificate) = judged().map_err(|error| Failure::new(&error))?;
        Ok((study, one_mode, certificate))
    })?;
    let fields = certificate_fields(py, &certificate, &study.frame().names, study.all_rows(), one_mode)?;
    fields.set_item("warnings", study.warnings())?;
    Ok(fields)
}

/// What all rows in their partitions say of draws of their posterior.
#[pyfunction]
pub(crate) fn review_partitions<'py>(
    py: Python<'py>,
    schema: Data<'py>,
    engine: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    draws: NamedDraws<'py>,
    settings: (review::Settings, Execution<'py>),
) -> PyResult<Bound<'py, PyDict>> {
    let (asked, named) = (specification(keywords)?, draws.taken()?);
    let ((draws, checked, pointwise, seed, _, evidence), execution) = settings;
    let settings = ReviewSettings { draws, checked, pointwise, seed, by: None, evidence };
    let (study, found) = studied(py, &schema, engine, &asked, &execution, |study, here| {
        let given = named.of(&study)?;
        let weights = named.log_weights.as_deref();
        let found = study.review(&given, weights, &settings, &mut |progress| here.heard(progress));
        Ok((study, found.map_err(|error| Failure::new(&error))?))
    })?;
    let file_row = |row: usize| study.frame().rows.file_row(row);
    let fields = review::fields(py, &found, &study.frame().names, &file_row)?;
    fields.set_item("warnings", study.warnings())?;
    Ok(fields)
}

/// The elpd of each row by the rows of other folds, of rows in partitions.
#[pyfunction]
pub(crate) fn k_fold_partitions<'py>(
    py: Python<'py>,
    schema: Data<'py>,
    engine: &Bound<'py, PyAny>,
    keywords: &Bound<'py, PyDict>,
    settings: k_fold::Settings,
    chains: (Bound<'py, PyDict>, Execution<'py>),
) -> PyResult<Bound<'py, PyDict>> {
    let (chains, execution) = chains;
    let ((sample, seed), asked) = (sampling(&chains)?, specification(keywords)?);
    let (folds, k) = settings;
    let settings = KFoldSettings { folds, k, sample, seed };
    let (study, found) = studied(py, &schema, engine, &asked, &execution, |study, here| {
        let found = study.k_fold(&settings, &mut |progress| here.heard(progress));
        Ok((study, found.map_err(|error| Failure::new(&error))?))
    })?;
    k_fold::fields(py, &study, found)
}

/// Draws of a coreset's posterior, and the verdict on them by all rows in their partitions.
#[pyfunction]
pub(crate) fn check_partitions<'py>(
    py: Python<'py>,
    schema: Data<'py>,
    engine: &Bound<'py, PyAny>,
    build: &Bound<'py, PyDict>,
    coreset: WeightedRows<'py>,
    settings: (Bound<'py, PyDict>, Execution<'py>),
) -> PyResult<Bound<'py, PyDict>> {
    let (keywords, execution) = settings;
    let ((settings, seed), mut asked) = (sampling(&keywords)?, specification(build)?);
    let known = known(&coreset)?;
    asked.design.like = known.design()?.map(Box::new);
    let points = known.rows.len();
    let (study, drawn) = studied(py, &schema, engine, &asked, &execution, |mut study, here| {
        let (rows, weights, rest) = chosen(&mut study, &known)?;
        let draw = || -> Result<_, StudyError> {
            let weighted = study.weighted_with_rest(&rows, &weights, rest.as_ref())?;
            study.sample(Some(&weighted), &settings, seed, &mut |progress| here.heard(progress))
        };
        let drawn = draw().map_err(|error| Failure::new(&error))?;
        Ok((study, drawn))
    })?;
    drawn_fields(py, &study, &drawn, points)
}
