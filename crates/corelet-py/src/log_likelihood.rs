//! `corelet.build_from_loglik`: a coreset of any model, from its log-likelihoods at draws of its posterior.

use std::ops::{ControlFlow, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use corelet::coreset::{BuildOptions, Coreset, select};
use corelet::embed::{Blocks, Description, EmbedError, Embedding, Layout, Precision, Stored};
use corelet::trust::{Evaluation, FitStatus};
use corelet::words::{Seconds, Subject, Summary};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use sparse_nnls::{Candidate, Dictionary, DictionaryError, Gathered, Info, Query, Sum};

use crate::errors::{Failure, refuse};
use crate::run::{report, run, run_here};
use crate::specification::specification;

/// How messages name the data.
const SOURCE: &str = "log-likelihood";

/// The build that keywords ask for, of `n` data.
fn options(keywords: &Bound<'_, PyDict>, n: usize) -> PyResult<BuildOptions> {
    let asked = specification(keywords)?.build;
    let options = asked.options(n);
    options.check(n).map_err(|error| Failure::of(SOURCE, &error))?;
    Ok(options)
}

/// A coreset with its residual on the draws that it was not built on.
struct ChosenColumns {
    coreset: Coreset,
    residual: Option<f64>,
    seconds: Seconds,
}

/// From a matrix of draws by data, row-major, whose last `held_out` draws are not built on.
#[pyfunction]
pub(crate) fn build_matrix<'py>(
    py: Python<'py>,
    matrix: PyReadonlyArray2<'py, f64>,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let (draws, n) = (matrix.shape()[0] - held_out, matrix.shape()[1]);
    let options = options(keywords, n)?;
    let (seen, unseen) = matrix.as_slice()?.split_at(draws * n);
    let unseen_is_finite = || match unseen.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (row, draw, value) = (at % n, draws + at / n, unseen[at]);
            Err(corelet::embed::EmbedError::NotFinite { row, draw, value })
        }
    };
    let stored = py.detach(|| {
        let stored = Stored::from_log_likelihood(seen, n, draws, Layout::DrawsByData, Precision::Double)?;
        unseen_is_finite().map(|()| stored)
    });
    let stored = stored.map_err(|error| Failure::of(SOURCE, &error))?;
    let read = start.elapsed().as_secs_f64();
    let wanted = options.clone();
    let (coreset, build) = run(py, progress, threads, move |control| {
        let start = Instant::now();
        let coreset = select(&stored, &wanted, &mut |info| control.follow(info));
        let coreset = coreset.map_err(|error| Failure::of(SOURCE, &error))?;
        Ok((coreset, start.elapsed().as_secs_f64()))
    })?;
    let start = Instant::now();
    let residual = py.detach(|| held_out_residual(unseen, n, &coreset));
    let evaluate = start.elapsed().as_secs_f64();
    let seconds = Seconds { read, build, evaluate, ..Seconds::default() };
    fields(py, n, held_out, &options, &ChosenColumns { coreset, residual, seconds })
}

/// ‖Φ1 − Φw‖ over the rows of `unseen`, each one draw of all n data.
fn held_out_residual(unseen: &[f64], n: usize, coreset: &Coreset) -> Option<f64> {
    let first = unseen.get(..n)?;
    // Each datum less its value at the first draw: constants do not matter, and only cost digits.
    let error = |draw: &[f64]| {
        let all: f64 = draw.iter().zip(first).map(|(x, first)| x - first).sum();
        let chosen = coreset.rows.iter().zip(&coreset.weights);
        all - chosen.map(|(&i, weight)| weight * (draw[i] - first[i])).sum::<f64>()
    };
    standard_deviation(&unseen.chunks_exact(n).map(error).collect::<Vec<f64>>())
}

/// Of two numbers or more.
fn standard_deviation(x: &[f64]) -> Option<f64> {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (x.len() > 1 && variance.is_finite()).then(|| variance.sqrt())
}

/// From the log-likelihoods of a pool of data, data by draws, and the sum over all n of them at each draw. The last
/// `held_out` draws are not built on.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are the arguments of the Python function")]
pub(crate) fn build_pool<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, i64>,
    columns: PyReadonlyArray2<'py, f64>,
    totals: PyReadonlyArray1<'py, f64>,
    n: usize,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let (size, width) = (columns.shape()[0], columns.shape()[1]);
    let draws = width - held_out;
    let (data, columns, totals) = (data.as_slice()?, columns.as_slice()?, totals.as_slice()?);
    let options = options(keywords, size)?;
    let pool = py.detach(|| Pool::new(columns, size, draws, &totals[..draws]));
    let pool = pool.map_err(|error| Failure::of(SOURCE, &error))?;
    let read = start.elapsed().as_secs_f64();
    let wanted = options.clone();
    let (mut coreset, build) = run(py, progress, threads, move |control| {
        let start = Instant::now();
        let coreset = select(&pool, &wanted, &mut |info| control.follow(info));
        let coreset = coreset.map_err(|error| Failure::of(SOURCE, &error))?;
        Ok((coreset, start.elapsed().as_secs_f64()))
    })?;
    let errors: Vec<f64> = (draws..width)
        .map(|s| {
            let chosen = coreset.rows.iter().zip(&coreset.weights);
            totals[s] - chosen.map(|(&i, weight)| weight * columns[i * width + s]).sum::<f64>()
        })
        .collect();
    coreset.rows.iter_mut().for_each(|row| *row = data[*row] as usize);
    let seconds = Seconds { read, build, ..Seconds::default() };
    fields(
        py,
        n,
        held_out,
        &options,
        &ChosenColumns { coreset, residual: standard_deviation(&errors), seconds },
    )
}

/// Some of the columns, toward the sum of all.
struct Pool {
    stored: Stored,
    sum: Sum,
}

impl Pool {
    /// The first `draws` numbers of each of `size` lines, and the sum of such numbers over all data.
    fn new(lines: &[f64], size: usize, draws: usize, totals: &[f64]) -> Result<Self, EmbedError> {
        let width = lines.len() / size.max(1);
        let seen: Vec<f64> =
            lines.chunks_exact(width.max(1)).flat_map(|line| &line[..draws]).copied().collect();
        let stored = Stored::from_log_likelihood(&seen, size, draws, Layout::DataByDraws, Precision::Double)?;
        let (mean, scale) = (totals.iter().sum::<f64>() / draws as f64, (draws as f64).sqrt());
        let vector = totals.iter().map(|total| (total - mean) / scale).collect();
        let norms = stored.sum()?.norms;
        Ok(Self { stored, sum: Sum { vector, norms } })
    }
}

impl Dictionary for Pool {
    fn len(&self) -> usize {
        self.stored.len()
    }

    fn coordinates(&self) -> usize {
        self.stored.coordinates()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.sum.clone())
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        let gathered = self.stored.gather(seed, count)?;
        Ok(Gathered { sum: self.sum.clone(), ..gathered })
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.stored.top(query, answers)
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        self.stored.columns(ids, out)
    }
}

impl Embedding for Pool {
    fn description(&self) -> &Description {
        self.stored.description()
    }
}

/// From a function of the draws and a slice of rows, which is called block by block; nothing is stored.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are the arguments of the Python function")]
pub(crate) fn build_function<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    theta: &Bound<'py, PyAny>,
    n: usize,
    draws: usize,
    held_out: usize,
    keywords: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options(keywords, n)?;
    let caller = Caller { function: function.clone().unbind(), theta: theta.clone().unbind(), draws };
    let progress: Option<Py<PyAny>> = progress.map(|progress| progress.clone().unbind());
    let chosen = run_here(py, threads, || choose(caller, n, held_out, &options, progress.as_ref()))?;
    fields(py, n, held_out, &options, &chosen)
}

fn choose(
    caller: Caller,
    n: usize,
    held_out: usize,
    options: &BuildOptions,
    progress: Option<&Py<PyAny>>,
) -> Result<ChosenColumns, Failure> {
    let refused = |error: &(dyn std::error::Error + 'static)| Failure::of(SOURCE, error);
    let start = Instant::now();
    let draws = caller.draws - held_out;
    let source =
        move |rows: Range<usize>, out: &mut [f64]| caller.fill(rows, out).map_err(DictionaryError::new);
    let blocks = Blocks::new(Box::new(source), n, draws, held_out).map_err(|e| refused(&e))?;
    let read = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let (stop, raised) = (AtomicBool::new(false), Mutex::new(None));
    let mut follow = |info: &Info| {
        let heard = Python::attach(|py| {
            py.check_signals()?;
            report(progress.map(|progress| progress.bind(py)), info, &stop)
        });
        if let (Err(error), Ok(mut raised)) = (heard, raised.lock()) {
            *raised = Some(error);
            return ControlFlow::Break(());
        }
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let coreset = select(&blocks, options, &mut follow).map_err(|error| refused(&error))?;
    if let Ok(Some(error)) = raised.into_inner() {
        return Err(Failure::Raised(error));
    }
    let build = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let residual = blocks.held_out_residual(&coreset.rows, &coreset.weights).map_err(|e| refused(&e))?;
    let seconds = Seconds { read, build, evaluate: start.elapsed().as_secs_f64(), ..Seconds::default() };
    Ok(ChosenColumns { coreset, residual, seconds })
}

/// A Python function of the draws and a slice of rows.
struct Caller {
    function: Py<PyAny>,
    theta: Py<PyAny>,
    draws: usize,
}

impl Caller {
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
fn fields<'py>(
    py: Python<'py>,
    n: usize,
    held_out: usize,
    options: &BuildOptions,
    chosen: &ChosenColumns,
) -> PyResult<Bound<'py, PyDict>> {
    let ChosenColumns { coreset, residual, seconds } = chosen;
    let evaluation = Evaluation {
        heldout_residual: *residual,
        heldout_nats: residual.map(|r| 0.5 * r * r),
        heldout_nats_se: None,
        heldout_draws: held_out,
        fit: FitStatus::NotFitted,
        kl_forward: None,
        kl_reverse: None,
        kl_symmetrised: None,
        map_distance: None,
        parameters: Vec::new(),
    };
    let subject = Subject {
        data: SOURCE,
        n,
        names: &[],
        features: 0,
        model: "log-likelihood",
        dropped: 0,
        fingerprint: None,
        groups: None,
    };
    let summary = Summary::of_build(&subject, options, coreset, &evaluation, *seconds);
    let json = summary.to_json().map_err(|error| refuse(error.to_string()))?;
    let metadata = PyDict::new(py);
    metadata.set_item("corelet", &json)?;
    let fields = PyDict::new(py);
    fields.set_item("columns", PyDict::new(py))?;
    fields.set_item("rows", PyArray1::from_iter(py, coreset.rows.iter().map(|&row| row as i64)))?;
    fields.set_item("weights", PyArray1::from_slice(py, &coreset.weights))?;
    fields.set_item("summary", json)?;
    fields.set_item("lines", summary.lines())?;
    fields.set_item("warnings", summary.warnings())?;
    fields.set_item("metadata", metadata)?;
    fields.set_item("sampling", PyDict::new(py))?;
    Ok(fields)
}
