//! `corelet.sparse_nnls`: the solver alone, over a matrix of the caller's.

use corelet::coreset::Selector;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sparse_nnls::{Dense, Limits, Method, Settings, Solution, Solver, Status};

use crate::errors::{Failure, refuse};
use crate::run::{Execution, run};

/// The keyword arguments, all of them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Keywords {
    k: usize,
    method: String,
    reference: bool,
    total: Option<f64>,
    seed: u64,
    polish: bool,
    max_iterations: Option<usize>,
    max_passes: Option<f64>,
    max_seconds: Option<f64>,
}

/// min ‖y − Φw‖², w ≥ 0, ‖w‖₀ ≤ k. Rows of `columns` are the columns of Φ, so that each is contiguous.
#[pyfunction]
pub(crate) fn solve_dense<'py>(
    py: Python<'py>,
    columns: PyReadonlyArray2<'py, f64>,
    target: Option<PyReadonlyArray1<'py, f64>>,
    keywords: Keywords,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let Keywords { k, seed, polish, total, .. } = keywords;
    let limits = Limits {
        iterations: keywords.max_iterations,
        passes: keywords.max_passes,
        seconds: keywords.max_seconds,
    };
    let named = Method::from_name(&keywords.method).ok_or_else(|| {
        let names: Vec<&str> = Method::all().iter().map(Method::name).collect();
        refuse(format!("method is '{}', but it must be one of {}", keywords.method, names.join(", ")))
    })?;
    if keywords.reference && !named.can_hold_total() {
        return Err(refuse("reference is for method iht or a-iht or a-iht-2"));
    }
    let Selector::Embedded(method) = Selector::from(named).with_step(keywords.reference) else {
        return Err(refuse("SparseVI needs a model"));
    };
    let settings = Settings { k, total, seed, polish, limits };
    let (coordinates, entries) = (columns.shape()[1], columns.as_slice()?);
    let dense = py.detach(|| Dense::new(entries.to_vec(), coordinates)).map_err(|e| Failure::new(&e))?;
    let target = target.map(|target| target.as_slice().map(<[f64]>::to_vec)).transpose()?;
    let solution = run(py, &execution, move |control| {
        let solver = Solver::new(&dense, settings).callback(|info| control.follow(info));
        let solver = match &target {
            Some(target) => solver.target(target),
            None => solver,
        };
        solver.run(&method).map_err(|error| Failure::new(&error))
    })?;
    fields(py, &solution)
}

/// What the Python class `Solution` is made of.
fn fields<'py>(py: Python<'py>, solution: &Solution) -> PyResult<Bound<'py, PyDict>> {
    let ids = |ids: &[usize]| PyArray1::from_iter(py, ids.iter().map(|&id| id as i64));
    let fields = PyDict::new(py);
    fields.set_item("ids", ids(&solution.weights.ids))?;
    fields.set_item("weights", PyArray1::from_slice(py, &solution.weights.values))?;
    fields.set_item("residual", solution.residual)?;
    fields.set_item("target_norm", solution.target_norm)?;
    fields.set_item("status", status_name(solution.status))?;
    fields.set_item("iterations", solution.iterations)?;
    fields.set_item("passes", solution.passes)?;
    fields.set_item("seconds", solution.seconds)?;
    let path = solution.path.iter().map(|point| {
        (ids(&point.weights.ids), PyArray1::from_slice(py, &point.weights.values), point.residual)
    });
    fields.set_item("path", path.collect::<Vec<_>>())?;
    Ok(fields)
}

/// A status as JSON names it.
fn status_name(status: Status) -> String {
    status.to_string().replace(' ', "-")
}
