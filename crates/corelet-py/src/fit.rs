//! `corelet.fit` and `corelet.fit_model`: the engine's rounds over a built-in family, or over a model that lives in Python.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use corelet::coreset::RestChoice;
use corelet::engine::{
    Advice, Derivatives, Effects, Length, Plan, Pool, PoolCoreset, Round, Rows, Sample, Slopes, Step, Target,
    TargetError, TargetFit, Units, Wanted, fit as fit_by, pass,
};
use corelet::posterior::{Chains, Stats};
use corelet::study::{FitSpecification, Study, rest_metadata};
use corelet::trust::{Draws, Evidence, Reason, Scores, judge as judged};
use corelet::words::headline_with_rest;
use numpy::{
    PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyArithmeticError, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice};

use crate::build::{design, fields as coreset_fields};
use crate::columns;
use crate::data::Data;
use crate::errors::{CoreletError, Failure, refuse};
use crate::log_likelihood::summary_fields;
use crate::marginal::with_integrals;
use crate::run::{Execution, report_round, run_for_best, run_here};
use crate::sample::{drawn_fields, verdict_fields};
use crate::specification::{sampling, specification};

/// Chains as Python hands them over: chains × draws × parameters, whether the chains are known, and divergent draws.
type GivenSample<'py> = (PyReadonlyArray3<'py, f64>, bool, usize);

fn sample_of((theta, chained, diverged): &GivenSample<'_>) -> PyResult<Sample> {
    let (chains, dim) = (theta.shape()[0], theta.shape()[2]);
    Ok(Sample::new(theta.as_slice()?.to_vec(), dim, chains, *chained, *diverged))
}

pub(crate) fn theta_of<'py>(py: Python<'py>, sample: &Sample) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let shape = [sample.chains(), sample.len() / sample.chains(), sample.draws.dim];
    PyArray1::from_slice(py, &sample.draws.theta).reshape(shape)
}

/// A model in Python: an object with the methods of `corelet.adapters.bridge.Bridge`.
pub(crate) struct PythonTarget {
    bridge: Py<PyAny>,
    /// Number of coordinates in which the model has gradients; 0 where it has none.
    coordinates: usize,
    /// Number of effects that the likelihood sees of them; 0 where it sees the coordinates themselves.
    effects: usize,
    length: Length,
    rows: usize,
    parameters: usize,
    at_once: usize,
    final_steps: usize,
}

impl PythonTarget {
    pub(crate) fn new(bridge: &Bound<'_, PyAny>) -> PyResult<Self> {
        let number = |name: &str| bridge.getattr(name)?.extract::<usize>();
        Ok(Self {
            rows: number("n")?,
            coordinates: number("coordinates")?,
            effects: number("effects")?,
            length: length_of(bridge)?,
            parameters: number("parameters")?,
            at_once: number("at_once")?,
            final_steps: number("final_steps")?,
            bridge: bridge.clone().unbind(),
        })
    }

    /// Calls Python with the GIL taken for as long as that lasts.
    fn ask<R>(
        &self,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Result<R, TargetError> {
        Python::attach(|py| work(py, self.bridge.bind(py))).map_err(TargetError::from)
    }
}

/// Draws, warm-up and number of the final chains, and the acceptance rate they adapt to.
fn length_of(bridge: &Bound<'_, PyAny>) -> PyResult<Length> {
    let (draws, warmup, chains, target_accept) = bridge.getattr("length")?.extract()?;
    Ok(Length { chains, warmup, draws, target_accept })
}

fn numbers<'py>(py: Python<'py>, rows: &[usize]) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_iter(py, rows.iter().map(|&row| row as i64))
}

impl Target for PythonTarget {
    type Place = Py<PyAny>;

    fn rows(&self) -> usize {
        self.rows
    }

    fn parameters(&self) -> usize {
        self.parameters
    }

    fn at_once(&self) -> usize {
        self.at_once
    }

    fn final_steps(&self) -> usize {
        self.final_steps
    }

    fn sample(
        &self,
        rows: &[usize],
        weights: &[f64],
        start: Option<&Sample>,
        wanted: Wanted,
    ) -> Result<Sample, TargetError> {
        self.ask(|py, bridge| {
            let start = start.map(|start| theta_of(py, start)).transpose()?;
            let (draws, last) = match wanted {
                Wanted::Draws(draws) => (draws, false),
                Wanted::Final { draws } => (draws, true),
            };
            let given = (numbers(py, rows), PyArray1::from_slice(py, weights), start, draws, last);
            sample_of(&bridge.call_method1("sample", given)?.extract()?)
        })
    }

    fn place(&self, sample: &Sample) -> Result<Py<PyAny>, TargetError> {
        self.ask(|py, bridge| Ok(bridge.call_method1("place", (theta_of(py, sample)?,))?.unbind()))
    }

    fn log_likelihoods(
        &self,
        place: &Py<PyAny>,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError> {
        self.ask(|py, bridge| {
            let which = match rows {
                Rows::Range(range) => {
                    PySlice::new(py, range.start as isize, range.end as isize, 1).into_any()
                }
                Rows::Some(rows) => numbers(py, rows).into_any(),
            };
            let answer: PyReadonlyArray2<'_, f64> =
                bridge.call_method1("log_likelihood", (place, which))?.extract()?;
            let values = answer.as_slice()?;
            // The array is nobody else's, so that others may run while it is read.
            py.detach(|| see(values));
            Ok(())
        })
    }

    fn scores(
        &self,
        rows: &[usize],
        weights: &[f64],
        sample: &Sample,
        most: usize,
    ) -> Result<Option<Scores>, TargetError> {
        self.ask(|py, bridge| {
            let given = (numbers(py, rows), PyArray1::from_slice(py, weights), theta_of(py, sample)?, most);
            let answer = bridge.call_method1("scores", given)?;
            if answer.is_none() {
                return Ok(None);
            }
            let (theta, gradient, chains): (PyReadonlyArray2<'_, f64>, PyReadonlyArray2<'_, f64>, usize) =
                answer.extract()?;
            let draws = Draws {
                theta: theta.as_slice()?.to_vec(),
                dim: theta.shape()[1],
                chains: Some(chains),
                log_weights: None,
            };
            Ok(Some(Scores { draws, gradient: gradient.as_slice()?.to_vec() }))
        })
    }

    fn derivatives(&self) -> Option<&dyn Derivatives> {
        (self.coordinates > 0).then_some(self)
    }

    fn poll(&self) -> Result<(), TargetError> {
        Ok(Python::attach(|py| py.check_signals())?)
    }

    fn is_interrupt(&self, error: &TargetError) -> bool {
        let raised = error.downcast_ref::<PyErr>();
        raised.is_some_and(|error| Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py)))
    }

    fn may_retry(&self, error: &TargetError) -> bool {
        let Some(raised) = error.downcast_ref::<PyErr>() else { return false };
        Python::attach(|py| {
            let numerical = raised.is_instance_of::<PyArithmeticError>(py)
                || raised.is_instance_of::<PyRuntimeError>(py)
                || raised.is_instance_of::<PyValueError>(py);
            numerical && !raised.is_instance_of::<CoreletError>(py)
        })
    }
}

/// Lines of so many numbers as an array.
fn lines<'py>(py: Python<'py>, at: &[f64], wide: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyArray1::from_slice(py, at).reshape([at.len() / wide, wide])?.into_any())
}

/// The numbers of such an array.
fn flat(answer: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let found: PyReadonlyArray2<'_, f64> = answer.extract()?;
    Ok(found.as_slice()?.to_vec())
}

impl PythonTarget {
    /// Points as an array with a line for each.
    fn lines<'py>(&self, py: Python<'py>, at: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        lines(py, at, self.coordinates)
    }

    fn slopes(answer: &Bound<'_, PyAny>) -> PyResult<Slopes> {
        let (values, gradients): (PyReadonlyArray1<'_, f64>, PyReadonlyArray2<'_, f64>) = answer.extract()?;
        Ok(Slopes { values: values.as_slice()?.to_vec(), gradients: gradients.as_slice()?.to_vec() })
    }
}

impl Derivatives for PythonTarget {
    fn dimension(&self) -> usize {
        self.coordinates
    }

    fn names(&self) -> Result<Vec<String>, TargetError> {
        self.ask(|_, bridge| bridge.call_method0("names")?.extract())
    }

    fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError> {
        self.ask(|_, bridge| flat(&bridge.call_method1("starts", (count,))?))
    }

    fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
        self.ask(|py, bridge| flat(&bridge.call_method1("unconstrained", (theta_of(py, sample)?,))?))
    }

    fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        self.ask(|py, bridge| {
            let some = rows.map(|rows| numbers(py, rows));
            Self::slopes(&bridge.call_method1("slopes", (self.lines(py, at)?, some))?)
        })
    }

    fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError> {
        self.ask(|py, bridge| Self::slopes(&bridge.call_method1("prior_slopes", (self.lines(py, at)?,))?))
    }

    fn weighted(&self, at: &[f64], rows: &[usize], weights: &[f64]) -> Result<Slopes, TargetError> {
        self.ask(|py, bridge| {
            let given = (self.lines(py, at)?, numbers(py, rows), PyArray1::from_slice(py, weights));
            Self::slopes(&bridge.call_method1("slopes", given)?)
        })
    }

    fn constrained(&self, points: &[f64], chains: Option<&Chains>) -> Result<Sample, TargetError> {
        self.ask(|py, bridge| {
            let count = chains.map_or(1, |chains| chains.chains.len());
            let shape = [count, points.len() / self.coordinates / count, self.coordinates];
            let points = PyArray1::from_slice(py, points).reshape(shape)?;
            let stats = chains.map(|chains| sample_stats(py, chains)).transpose()?;
            sample_of(&bridge.call_method1("constrained", (points, stats))?.extract()?)
        })
    }

    fn effects(&self) -> Option<&dyn Effects> {
        (self.effects > 0).then_some(self)
    }

    fn one_by_one(&self) -> bool {
        true
    }

    fn length(&self) -> Length {
        self.length
    }
}

impl Effects for PythonTarget {
    fn count(&self) -> usize {
        self.effects
    }

    fn names(&self) -> Result<Vec<String>, TargetError> {
        self.ask(|_, bridge| bridge.call_method0("effect_names")?.extract())
    }

    fn at(&self, points: &[f64]) -> Result<Vec<f64>, TargetError> {
        self.ask(|py, bridge| {
            flat(&bridge.call_method1("effects_at", (lines(py, points, self.coordinates)?,))?)
        })
    }

    fn pull_back(&self, points: &[f64], slopes: &[f64]) -> Result<Vec<f64>, TargetError> {
        self.ask(|py, bridge| {
            let given = (lines(py, points, self.coordinates)?, lines(py, slopes, self.effects)?);
            flat(&bridge.call_method1("pull_back", given)?)
        })
    }

    fn log_likelihood(&self, effects: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        self.ask(|py, bridge| {
            let some = rows.map(|rows| numbers(py, rows));
            Self::slopes(&bridge.call_method1("effect_slopes", (lines(py, effects, self.effects)?, some))?)
        })
    }
}

/// Statistics of NUTS under the names that ArviZ gives them, chains × draws.
pub(crate) fn sample_stats<'py>(py: Python<'py>, chains: &Chains) -> PyResult<Bound<'py, PyDict>> {
    let shape = [chains.chains.len(), chains.draws_per_chain()];
    let of = |name: fn(&Stats) -> Vec<f64>| {
        let values = chains.chains.iter().flat_map(|chain| name(&chain.draws.stats)).collect();
        PyArray1::from_vec(py, values).reshape(shape)
    };
    let fields = PyDict::new(py);
    fields.set_item("lp", of(|stats| stats.log_posterior.clone())?)?;
    fields.set_item("energy", of(|stats| stats.energy.clone())?)?;
    fields.set_item("acceptance_rate", of(|stats| stats.acceptance.clone())?)?;
    fields.set_item("step_size", of(|stats| stats.step_size.clone())?)?;
    fields.set_item("tree_depth", of(|stats| stats.depth.iter().map(|&x| x as f64).collect())?)?;
    fields.set_item("n_steps", of(|stats| stats.steps.iter().map(|&x| x as f64).collect())?)?;
    fields.set_item(
        "diverging",
        of(|stats| stats.diverging.iter().map(|&x| f64::from(u8::from(x))).collect())?,
    )?;
    Ok(fields)
}

/// The numbers of each row's group, where groups are chosen.
type Codes<'py> = PyReadonlyArray1<'py, i64>;

fn units_of(target: &PythonTarget, groups: Option<&Codes<'_>>) -> PyResult<Units> {
    Ok(match groups {
        None => Units::of_rows(target.rows),
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
