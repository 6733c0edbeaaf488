//! `corelet.fit` and `corelet.fit_model`: the engine's rounds over a built-in family, or over a model that lives in Python.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use corelet::coreset::RestChoice;
use corelet::engine::{
    Advice, Plan, Pool, PoolCoreset, Round, Sample, Step, Target, TargetFit, Units, fit as fit_by, pass,
};
use corelet::study::{FitSpecification, Study, rest_metadata};
use corelet::trust::{Draws, Evidence, Reason, judge as judged};
use corelet::words::headline_with_rest;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::build::{design, fields as coreset_fields};
use crate::columns;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::log_likelihood::summary_fields;
use crate::marginal::with_integrals;
use crate::run::{Execution, report_round, run_for_best, run_here};
use crate::sample::{drawn_fields, verdict_fields};
use crate::specification::{sampling, specification};
use crate::target::{GivenSample, PythonTarget, numbers, sample_of, theta_of};
/// The numbers of each row's group, where groups are chosen.
type Codes<'py> = PyReadonlyArray1<'py, i64>;

fn units_of(target: &PythonTarget, groups: Option<&Codes<'_>>) -> PyResult<Units> {
    Ok(match groups {
        None => Units::of_rows(target.rows()),
        Some(codes) => {
            Units::of_groups(&codes.as_slice()?.iter().map(|&code| code as usize).collect::<Vec<_>>())
        }
    })
}

/// A pass over all units of a model that lives in Python, at so many draws that its bridge knows: totals at each draw, a pool of
/// `size` candidates and those to `keep`, and their columns, candidates × draws.
#[pyfunction]
pub(crate) fn gather<'py>(
    py: Python<'py>,
    bridge: &Bound<'py, PyAny>,
    groups: Option<Codes<'py>>,
    draws: usize,
    pool: (usize, Codes<'py>, u64),
) -> PyResult<Bound<'py, PyDict>> {
    let target = PythonTarget::new(bridge)?;
    let units = units_of(&target, groups.as_ref())?;
    let (size, keep, seed) = pool;
    let keep: Vec<usize> = keep.as_slice()?.iter().map(|&unit| unit as usize).collect();
    // The bridge has the draws themselves.
    let numbered = Sample::new(vec![0.0; draws], 1, 1, false, 0);
    let seen = py.detach(|| {
        pass(&target, &units, numbered, &Pool { size, keep: &keep, seed, index: 0, strict: true })
    });
    let seen = seen.map_err(|error| Failure::new(&*error))?;
    let fields = PyDict::new(py);
    fields.set_item("totals", PyArray1::from_slice(py, &seen.totals))?;
    fields.set_item("pool", numbers(py, &seen.pool))?;
    let columns = PyArray1::from_vec(py, seen.columns).reshape([seen.pool.len(), draws])?;
    fields.set_item("columns", columns)?;
    fields.set_item("not_finite", seen.not_finite)?;
    Ok(fields)
}

/// k, the most points, rows of the pilot, the most rounds, draws of a pass, the seed, and whether to go on where it does not pay.
type GivenPlan = (usize, usize, usize, usize, Option<usize>, u64, bool);

/// Rounds over a model that lives in Python; `groups` are the numbers of each row's group.
#[pyfunction]
pub(crate) fn fit_target<'py>(
    py: Python<'py>,
    bridge: &Bound<'py, PyAny>,
    groups: Option<Codes<'py>>,
    plan: GivenPlan,
    rest: &str,
    pilot: Option<GivenSample<'py>>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let rest = rest_choice(rest)?;
    let target = PythonTarget::new(bridge)?;
    let units = units_of(&target, groups.as_ref())?;
    let (k, max_k, pilot_rows, max_rounds, draws, seed, force) = plan;
    let advice = if force { Advice::Told } else { Advice::Heeded };
    let plan = Plan { k, max_k, pilot: pilot_rows, max_rounds, draws, seed, advice };
    let what = if units.are_groups() { "groups" } else { "rows" };
    plan.check(units.len(), what).map_err(|error| refuse(error.to_string()))?;
    let plan = Plan { max_k: plan.max_k.min(units.len()), pilot: plan.pilot.min(units.rows()), ..plan };
    let pilot = pilot.as_ref().map(sample_of).transpose()?;
    let report = execution.progress();
    let mut raised = None;
    let fitted = run_here(py, &execution, || {
        let fitted =
            fit_by(&target, units, plan, rest, pilot, &mut |step| told(report.as_ref(), step, &mut raised));
        fitted.map_err(|error| Failure::new(&*error))
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let names: Vec<String> = bridge.call_method0("entries")?.extract()?;
    let mut fitted = with_integrals(py, bridge, fitted?)?;
    if let Some(rows) = target.stands_for() {
        fitted.coreset.summary = fitted.coreset.summary.clone().of_update(rows, None);
    }
    fitted.verdict = fitted.verdict.named(&names);
    target_fields(py, fitted)
}

pub(crate) fn rest_choice(rest: &str) -> PyResult<RestChoice> {
    match rest {
        "none" => Ok(RestChoice::None),
        "gaussian" => Ok(RestChoice::Gaussian),
        "auto" => Ok(RestChoice::Auto),
        other => Err(refuse(format!("rest is '{other}', but it must be one of auto, gaussian, none"))),
    }
}

/// Tells Python where a fit stands; what its callback raises ends the fit.
fn told(report: Option<&Py<PyAny>>, step: &Step, raised: &mut Option<PyErr>) -> ControlFlow<()> {
    let stop = AtomicBool::new(false);
    let heard = Python::attach(|py| -> PyResult<()> {
        py.check_signals()?;
        report_round(report.map(|report| report.bind(py)), step, &stop)
    });
    match heard {
        Ok(()) if !stop.load(Ordering::Relaxed) => ControlFlow::Continue(()),
        Ok(()) => ControlFlow::Break(()),
        Err(error) => {
            // Ctrl-C hands over the best round so far, anything else is the caller's own exception.
            if !Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)) {
                *raised = Some(error);
            }
            ControlFlow::Break(())
        }
    }
}

fn target_fields(py: Python<'_>, fitted: TargetFit) -> PyResult<Bound<'_, PyDict>> {
    let (rounds, notes, verdict) = (fitted.rounds.clone(), fitted.notes.clone(), fitted.verdict.clone());
    let PoolCoreset { units, weights, rows, row_weights, summary, fingerprint, rest } =
        fitted.coreset.clone();
    let summary = summary.judged_on_own(verdict.nats(), verdict.draws);
    let (points, n) = (rows.len(), summary.rows());
    let coreset = summary_fields(py, (&rows, &row_weights), &summary)?;
    if let Some((names, rest)) = &rest {
        let (key, text) = rest_metadata(names, rest).map_err(|error| refuse(error.to_string()))?;
        coreset.get_item("metadata")?.map_or(Ok(()), |metadata| metadata.set_item(key, text))?;
        coreset.set_item("names", names)?;
    }
    let (sample, resampled) = fitted.posterior();
    let answer = PyDict::new(py);
    answer.set_item("coreset", coreset)?;
    answer.set_item("units", numbers(py, &units))?;
    answer.set_item("unit_weights", PyArray1::from_slice(py, &weights))?;
    let known = fingerprint.map(|known| (numbers(py, &known.rows), PyArray1::from_slice(py, &known.means)));
    answer.set_item("fingerprint", known)?;
    let judged = verdict_fields(py, &verdict, points, n)?;
    if rest.is_some() {
        judged.set_item("headline", headline_with_rest(&verdict, points, n))?;
    }
    answer.set_item("verdict", judged)?;
    answer.set_item("resampled", resampled)?;
    answer.set_item("theta", theta_of(py, &sample)?)?;
    answer.set_item("chained", sample.chained)?;
    answer.set_item("rounds", round_fields(py, &rounds)?)?;
    answer.set_item("notes", notes)?;
    Ok(answer)
}

/// What the Python class `Round` is made of.
pub(crate) fn round_fields<'py>(py: Python<'py>, rounds: &[Round]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for round in rounds {
        let seconds = PyDict::new(py);
        round.seconds.iter().try_for_each(|(name, value)| seconds.set_item(*name, *value))?;
        let fields = PyDict::new(py);
        fields.set_item("k", round.k)?;
        fields.set_item("points", round.points)?;
        fields.set_item("draws", round.draws)?;
        fields.set_item("variance", round.variance)?;
        fields.set_item("variance_upper", round.variance_upper)?;
        fields.set_item("shift", round.shift)?;
        fields.set_item("scale", round.scale)?;
        fields.set_item("r_hat", round.r_hat)?;
        fields.set_item("seconds", seconds)?;
        fields.set_item("full_length", round.full_length)?;
        fields.set_item("next", &round.next)?;
        list.append(fields)?;
    }
    Ok(list)
}

/// `corelet.fit`: rounds over a built-in family. The data are read once.
#[pyfunction]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    data: Data<'py>,
    keywords: &Bound<'py, PyDict>,
    max_k: Option<usize>,
    chains: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let asked = specification(keywords)?;
    let (sample, seed) = sampling(chains)?;
    let source = data.source(py, &asked.storage)?;
    let dataset = design(py, &source, &asked)?;
    let group_column = asked.design.columns.groups.clone();
    let (name, read) = (source.name().to_owned(), start.elapsed().as_secs_f64());
    let (study, fitted) = run_for_best(py, &execution, move |control| {
        let study = Study::new(&name, dataset, &asked, read).map_err(|error| Failure::of(&name, &error))?;
        let asked = FitSpecification { build: asked.build, max_k, sample, seed };
        let fitted = study.fit(&asked, &mut |progress| control.heard(progress));
        let fitted = fitted.map_err(|error| Failure::of(&name, &error))?;
        Ok((study, fitted))
    })?;
    let (Some(chosen), Some(drawn)) = (&fitted.chosen, &fitted.drawn) else {
        return Err(PyKeyboardInterrupt::new_err(()));
    };
    let rows = study.frame().rows_of(&chosen.coreset().rows);
    let cells = source.cells(&rows).map_err(|error| Failure::new(&error))?;
    let coreset = coreset_fields(py, &study, chosen, Some(drawn))?;
    coreset.set_item("columns", columns::chosen(py, &cells)?)?;
    coreset.set_item("group_column", group_column)?;
    let answer = PyDict::new(py);
    answer.set_item("coreset", coreset)?;
    answer.set_item("verdict", drawn_fields(py, &study, drawn, rows.len())?)?;
    answer.set_item("rounds", round_fields(py, &fitted.rounds)?)?;
    answer.set_item("notes", fitted.notes)?;
    Ok(answer)
}

/// Whether a Gaussian in place of all rows is tried before rows.
#[pyfunction]
pub(crate) fn gaussian_first(rest: &str, coordinates: usize, k: usize) -> PyResult<bool> {
    Ok(corelet::engine::gaussian_first(rest_choice(rest)?, coordinates, k))
}

/// Rows that are asked for at once, of n, at so many draws.
#[pyfunction]
pub(crate) fn block_size(n: usize, draws: usize) -> usize {
    corelet::engine::block_size(draws).min(n)
}

/// Draws of a pass, of a plan that says or does not say so many, with k points and so many parameters.
#[pyfunction]
pub(crate) fn draws_of_pass(draws: Option<usize>, k: usize, parameters: usize) -> usize {
    let plan = Plan { k, max_k: k, pilot: 2, max_rounds: 1, draws, seed: 0, advice: Advice::Silent };
    plan.draws_at(k, parameters)
}

/// Evidence that was gathered in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenEvidence<'py> {
    /// Δ and L_w at each draw, chains one after the other.
    errors: PyReadonlyArray1<'py, f64>,
    weighted: PyReadonlyArray1<'py, f64>,
    chains: usize,
    chained: bool,
    /// The draws, where they are known.
    theta: Option<PyReadonlyArray3<'py, f64>>,
    /// The names of their parameters.
    names: Vec<String>,
    diverged: usize,
    held_out: Option<f64>,
    points: usize,
    n: usize,
}

/// The one judge's verdict on a weighted fit of any model.
#[pyfunction]
pub(crate) fn judge<'py>(py: Python<'py>, given: GivenEvidence<'py>) -> PyResult<Bound<'py, PyDict>> {
    let (theta, dim) = match &given.theta {
        Some(theta) => (theta.as_slice()?.to_vec(), theta.shape()[2]),
        None => (Vec::new(), 0),
    };
    let draws = Draws { theta, dim, chains: Some(given.chains), log_weights: None };
    let found = if given.chained { Vec::new() } else { vec![Reason::NoChains] };
    let (errors, weighted) = (given.errors.as_slice()?.to_vec(), given.weighted.as_slice()?.to_vec());
    let anchor = errors.iter().copied().find(|x| x.is_finite()).unwrap_or(0.0);
    let errors = errors.iter().map(|x| x - anchor).collect();
    let (diverged, held_out) = (given.diverged, given.held_out);
    let verdict = py
        .detach(|| {
            let evidence = Evidence {
                errors,
                at_anchor: anchor,
                weighted,
                diverged,
                held_out,
                found,
                ..Evidence::of(&draws)
            };
            judged(evidence)
        })
        .map_err(|error| Failure::new(&error))?;
    verdict_fields(py, &verdict.named(&given.names), given.points, given.n)
}
