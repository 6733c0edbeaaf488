//! Models in Python whose rows are groups with a latent variable integrated out: chains of corelet's own, and what is said of the integrals.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use corelet::engine::{TargetFit, Units};
use corelet::mixed::Quadrature;
use corelet::posterior::{Gaussian, LogDensity, SampleError, SampleSettings, sample_density};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::target::{sample_stats, theta_of};

/// A Python function of a line of numbers: the log density there and its gradient.
struct Density {
    function: Py<PyAny>,
    /// What it raised first, or what ended the chains.
    raised: Mutex<Option<PyErr>>,
}

impl Density {
    fn keep(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn has_raised(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl LogDensity for Density {
    fn one_by_one(&self) -> bool {
        true
    }

    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64> {
        if self.has_raised() {
            return None;
        }
        let answer = Python::attach(|py| -> PyResult<f64> {
            let (value, slope): (f64, PyReadonlyArray1<'_, f64>) =
                self.function.bind(py).call1((PyArray1::from_slice(py, theta),))?.extract()?;
            gradient.copy_from_slice(slope.as_slice()?);
            Ok(value)
        });
        match answer {
            Ok(value) => (value.is_finite() && gradient.iter().all(|x| x.is_finite())).then_some(value),
            Err(error) => {
                self.keep(error);
                None
            }
        }
    }
}

/// Chains of NUTS from a density with its gradient, in the coordinates of a Gaussian of this mean and precision: chains × draws × numbers,
/// and the statistics of the draws. `length` are chains, warm-up, draws and the acceptance rate.
#[pyfunction]
pub(crate) fn sample_function<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    mean: PyReadonlyArray1<'py, f64>,
    precision: PyReadonlyArray2<'py, f64>,
    length: (usize, usize, usize, f64),
    seed: u64,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
    let failed = |error: &dyn std::fmt::Display| PyRuntimeError::new_err(error.to_string());
    let fit = Gaussian::from_precision(mean.as_slice()?.to_vec(), precision.as_slice()?.to_vec())
        .map_err(|error| failed(&error))?;
    let (chains, warmup, draws, target_accept) = length;
    let settings = SampleSettings { chains, warmup, draws, target_accept, ..SampleSettings::default() };
    let density = Density { function, raised: Mutex::default() };
    let found = py.detach(|| {
        sample_density(&density, &fit, &settings, seed, &mut |_| {
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                density.keep(error);
            }
            if density.has_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    if let Some(error) = density.raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let found = found.map_err(|error| match error {
        SampleError::Stopped => PyKeyboardInterrupt::new_err(()),
        error => failed(&error),
    })?;
    let shape = [found.chains.len(), found.draws_per_chain(), found.dim];
    let theta = PyArray1::from_vec(py, found.theta()).reshape(shape)?.into_any();
    Ok((theta, sample_stats(py, &found)?))
}

/// A fit whose rows are groups with an integral in each, in terms of the rows that `bridge.members` numbers by their groups, and with what
/// the integrals take from its grade. As it is where the bridge integrates nothing out.
pub(crate) fn with_integrals(
    py: Python<'_>,
    bridge: &Bound<'_, PyAny>,
    mut fitted: TargetFit,
) -> PyResult<TargetFit> {
    let members: Option<PyReadonlyArray1<'_, i64>> = bridge.getattr("members")?.extract()?;
    let Some(members) = members else { return Ok(fitted) };
    let codes: Vec<usize> = members.as_slice()?.iter().map(|&code| code as usize).collect();
    let units = Units::of_groups(&codes);
    let coreset = &mut fitted.coreset;
    // A Gaussian in place of all groups has none of them.
    (coreset.rows, coreset.row_weights) = units.expand(&coreset.units, &coreset.weights);
    coreset.summary = coreset.summary.clone().of_groups(units.rows(), units.len(), coreset.units.len());
    let asked = bridge.call_method1("integrals", (theta_of(py, &fitted.draws)?,))?;
    let (nodes, compared_with, groups, bias): (usize, usize, usize, f64) = asked.extract()?;
    let quadrature = Quadrature { nodes, compared_with, groups, bias, given: false };
    let reasons: Vec<_> = quadrature.against().into_iter().collect();
    fitted.verdict = fitted.verdict.with(&reasons);
    Ok(fitted)
}
