//! `corelet.build_from_loglik`: a coreset of any model, from its log-likelihoods at draws of its posterior.

use std::ops::{ControlFlow, Range};

use corelet::study::{
    BuildSpecification, ChosenData, LogLikelihoodStudy, PooledLogLikelihoods, Progress, StudyError,
};
use corelet::words::Summary;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use sparse_nnls::DictionaryError;

use crate::errors::{Failure, refuse};
use crate::run::{Execution, Here, run, run_here};
use crate::specification::specification;

/// From a matrix of draws by data, row-major, whose last `held_out` draws are not built on.
#[pyfunction]
pub(crate) fn build_matrix<'py>(
    py: Python<'py>,
    matrix: PyReadonlyArray2<'py, f64>,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?.build;
    let (draws, n) = (matrix.shape()[0], matrix.shape()[1]);
    let numbers = matrix.as_slice()?;
    let study = py.detach(|| LogLikelihoodStudy::of_matrix(&asked, numbers, n, draws, held_out));
    build(py, study, &execution)
}

/// The log-likelihoods of a pool of data, data by draws, and their sum over all n data at each draw.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Pool<'py> {
    data: PyReadonlyArray1<'py, i64>,
    columns: PyReadonlyArray2<'py, f64>,
    totals: PyReadonlyArray1<'py, f64>,
    n: usize,
}

/// From a pool of data. The last `held_out` draws are not built on.
#[pyfunction]
pub(crate) fn build_pool<'py>(
    py: Python<'py>,
    pool: Pool<'py>,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?.build;
    let data: Vec<usize> = pool.data.as_slice()?.iter().map(|&datum| datum as usize).collect();
    let (lines, totals) = (pool.columns.as_slice()?, pool.totals.as_slice()?);
    let pooled = PooledLogLikelihoods { data: &data, lines, totals, n: pool.n };
    let study = py.detach(|| LogLikelihoodStudy::of_pool(&asked, pooled, held_out));
    build(py, study, &execution)
}

fn refused(error: StudyError) -> Failure {
    Failure::of(LogLikelihoodStudy::NAME, &error)
}

/// Builds on a thread of its own. What was chosen before it was stopped is judged.
pub(crate) fn build<'py>(
    py: Python<'py>,
    study: Result<LogLikelihoodStudy<'static>, StudyError>,
    execution: &Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let study = study.map_err(refused)?;
    let chosen = run(py, execution, move |control| {
        let mut heard = |progress: Progress<'_>| match progress {
            Progress::Choosing { info, .. } => control.follow(info),
            _ => ControlFlow::Continue(()),
        };
        study.build(&mut heard).map_err(refused)
    })?;
    fields(py, &chosen)
}

/// A Python function of the draws and a slice of rows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Function {
    function: Py<PyAny>,
    theta: Py<PyAny>,
    draws: usize,
    n: usize,
}

/// From a function, which is called block by block; nothing is stored.
#[pyfunction]
pub(crate) fn build_function<'py>(
    py: Python<'py>,
    function: Function,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = specification(keywords)?.build;
    let here = Here::new(&execution);
    let chosen = run_here(py, &execution, || build_here(function, held_out, &asked, here))?;
    fields(py, &chosen)
}

/// Builds on this thread, which calls Python itself.
fn build_here(
    function: Function,
    held_out: usize,
    asked: &BuildSpecification,
    here: Here,
) -> Result<ChosenData, Failure> {
    let (n, draws) = (function.n, function.draws);
    let source =
        move |rows: Range<usize>, out: &mut [f64]| function.fill(rows, out).map_err(DictionaryError::new);
    let study = LogLikelihoodStudy::of_function(asked, Box::new(source), n, draws, held_out);
    let chosen = study.and_then(|study| study.build(&mut |progress| here.heard(progress))).map_err(refused);
    here.finish(chosen)
}

impl Function {
    /// Calls it, with the GIL taken for as long as that lasts, and checks what it returns.
    fn fill(&self, rows: Range<usize>, out: &mut [f64]) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let slice = PySlice::new(py, rows.start as isize, rows.end as isize, 1);
            let answer = self.function.bind(py).call1((&self.theta, slice))?;
            let numpy = py.import("numpy")?;
            let array = numpy.call_method1("asarray", (&answer, "float64")).map_err(|error| {
                let kind = answer.get_type();
                let refused =
                    refuse(format!("the function returned {kind}, which is not an array of numbers"));
                refused.set_cause(py, Some(error));
                refused
            })?;
            let shape = array.getattr("shape")?;
            if !shape.eq((self.draws, rows.len()))? {
                let (draws, count) = (self.draws, rows.len());
                return Err(refuse(format!(
                    "the function returned an array of shape {shape} for rows {} to {}; it must be ({draws}, {count}), \
                     draws by rows",
                    rows.start, rows.end
                )));
            }
            let array: PyReadonlyArrayDyn<'_, f64> =
                numpy.call_method1("ascontiguousarray", (array,))?.extract()?;
            for (draw, entries) in array.as_slice()?.chunks_exact(rows.len()).enumerate() {
                let column = out[draw..].iter_mut().step_by(self.draws);
                column.zip(entries).for_each(|(out, x)| *out = *x);
            }
            Ok(())
        })
    }
}

/// What the Python class `Coreset` is made of.
pub(crate) fn fields<'py>(py: Python<'py>, chosen: &ChosenData) -> PyResult<Bound<'py, PyDict>> {
    let ChosenData { coreset, summary, .. } = chosen;
    summary_fields(py, (&coreset.rows, &coreset.weights), summary)
}

/// Weighted data, and what is said of them.
pub(crate) fn summary_fields<'py>(
    py: Python<'py>,
    (rows, weights): (&[usize], &[f64]),
    summary: &Summary,
) -> PyResult<Bound<'py, PyDict>> {
    let json = summary.to_json().map_err(|error| refuse(error.to_string()))?;
    let metadata = PyDict::new(py);
    metadata.set_item("corelet", &json)?;
    let fields = PyDict::new(py);
    fields.set_item("columns", PyDict::new(py))?;
    fields.set_item("rows", PyArray1::from_iter(py, rows.iter().map(|&row| row as i64)))?;
    fields.set_item("weights", PyArray1::from_slice(py, weights))?;
    fields.set_item("summary", json)?;
    fields.set_item("lines", summary.lines())?;
    fields.set_item("warnings", summary.warnings())?;
    fields.set_item("metadata", metadata)?;
    fields.set_item("sampling", PyDict::new(py))?;
    Ok(fields)
}
