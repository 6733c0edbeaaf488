//! A model that lives in Python as the engine sees it: what its adapter answers, and draws on their way between the two.

use corelet::engine::{Derivatives, Effects, Length, Rows, Sample, Slopes, Target, TargetError, Wanted};
use corelet::posterior::{Chains, Stats};
use corelet::study::Blocks;
use corelet::trust::{Draws, Scores, Verdict};
use numpy::{
    PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyArithmeticError, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};

use crate::errors::{CoreletError, refuse};

/// Chains as Python hands them over: chains × draws × parameters, whether the chains are known, and divergent draws.
pub(crate) type GivenSample<'py> = (PyReadonlyArray3<'py, f64>, bool, usize);

pub(crate) fn sample_of((theta, chained, diverged): &GivenSample<'_>) -> PyResult<Sample> {
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
    /// What certifies the rows that some of these stand for, and how many rows all stand for.
    blocks: Option<Blocks>,
    stands_for: usize,
}

/// Draws by which a certificate is carried to another posterior.
const CARRIED_BY: usize = 2000;

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
            blocks: blocks_of(bridge.getattr("blocks")?.extract()?)?,
            stands_for: number("stands_for")?,
            bridge: bridge.clone().unbind(),
        })
    }

    /// How many rows these stand for, where they are more than there are.
    pub(crate) fn stands_for(&self) -> Option<usize> {
        self.blocks.as_ref().map(|_| self.stands_for)
    }

    /// Calls Python with the GIL taken for as long as that lasts.
    fn ask<R>(
        &self,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Result<R, TargetError> {
        Python::attach(|py| work(py, self.bridge.bind(py))).map_err(TargetError::from)
    }
}

/// What certifies rows, as JSON.
pub(crate) fn blocks_of(text: Option<String>) -> PyResult<Option<Blocks>> {
    let read = |text: String| serde_json::from_str(&text).map_err(|error| refuse(error.to_string()));
    text.map(read).transpose()
}

/// Draws, warm-up and number of the final chains, and the acceptance rate they adapt to.
fn length_of(bridge: &Bound<'_, PyAny>) -> PyResult<Length> {
    let (draws, warmup, chains, target_accept) = bridge.getattr("length")?.extract()?;
    Ok(Length { chains, warmup, draws, target_accept })
}

pub(crate) fn numbers<'py>(py: Python<'py>, rows: &[usize]) -> Bound<'py, PyArray1<i64>> {
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

    fn certified(&self, verdict: Verdict, sample: &Sample) -> Result<Verdict, TargetError> {
        let Some(blocks) = &self.blocks else { return Ok(verdict) };
        let some = sample.thinned(CARRIED_BY);
        if self.coordinates == 0 {
            return Ok(blocks.certify(verdict, &some.draws));
        }
        let theta = Derivatives::unconstrained(self, &some)?;
        let draws = Draws { theta, dim: self.coordinates, chains: some.draws.chains, log_weights: None };
        Ok(blocks.certify(verdict, &draws))
    }

    fn derivatives(&self) -> Option<&dyn Derivatives> {
        (self.coordinates > 0).then_some(self)
    }

    fn before_all_rows(&self, seconds: f64) -> Result<(), TargetError> {
        self.ask(|_, bridge| bridge.call_method1("before_all_rows", (seconds,)).map(drop))
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
