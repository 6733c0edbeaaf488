//! `Coreset.sample` and `corelet.check`: draws of the coreset's posterior, and whether they can be trusted.

use std::time::Instant;

use corelet::coreset::{ModelOptions, make_model, make_prior};
use corelet::data::{Dataset, Standardisation, Task, design_view};
use corelet::laplace::{LaplaceSettings, Prior, laplace};
use corelet::model::{Model, Rows};
use corelet::observations::Observations;
use corelet::sample::{Chains, Diagnostics, Phase, SampleSettings, Stats, resample, sample};
use corelet::trust;
use corelet::verdict::{Draws, Grade, Verdict, verdict, verdict_of_errors};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sparse_nnls::Info;

use crate::build::{Keywords, MODELS, one_of};
use crate::columns::{self, Part};
use crate::errors::{Failure, refuse};
use crate::run::{Control, run};

/// Draws on which a verdict rests at most; further ones are thinned.
const VERDICT_DRAWS: usize = 4000;

/// The keyword arguments, all of them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SampleKeywords {
    chains: usize,
    warmup: usize,
    draws: usize,
    target_accept: f64,
    max_depth: usize,
    seed: u64,
}

impl SampleKeywords {
    fn settings(&self) -> PyResult<SampleSettings> {
        let Self { chains, warmup, draws, target_accept, max_depth, .. } = *self;
        let settings = SampleSettings { chains, warmup, draws, target_accept, max_depth };
        settings.check().map_err(|error| Failure::new(&error))?;
        Ok(settings)
    }
}

/// A weighted posterior as the Python class keeps it: k standardised rows and what else it is made of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Kept<'py> {
    features: PyReadonlyArray2<'py, f64>,
    target: PyReadonlyArray1<'py, f64>,
    exposure: Option<PyReadonlyArray1<'py, f64>>,
    model: String,
    link: String,
    sigma: Option<f64>,
    prior_sd: f64,
    standardisation: String,
}

impl Kept<'_> {
    fn observations(&self) -> PyResult<Observations> {
        Ok(Observations {
            features: self.features.as_slice()?.to_vec(),
            dim: self.features.shape()[1],
            target: self.target.as_slice()?.to_vec(),
            exposure: self.exposure.as_ref().map(|e| e.as_slice().map(<[f64]>::to_vec)).transpose()?,
        })
    }

    fn options(&self) -> PyResult<ModelOptions> {
        Ok(ModelOptions {
            kind: one_of("model", &self.model, &MODELS)?,
            link: one_of("link", &self.link, &crate::build::LINKS)?,
            sigma: self.sigma,
            prior_sd: self.prior_sd,
        })
    }
}

/// NUTS draws of a coreset's posterior.
#[pyfunction]
pub(crate) fn sample_coreset<'py>(
    py: Python<'py>,
    kept: Kept<'py>,
    weights: PyReadonlyArray1<'py, f64>,
    keywords: SampleKeywords,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = keywords.settings()?;
    let (observations, options) = (kept.observations()?, kept.options()?);
    let standardisation = standardisation(&kept.standardisation)?;
    let weights = weights.as_slice()?.to_vec();
    let chains = run(py, progress, threads, move |control| {
        let (model, prior) = model_of(observations, &options)?;
        let ids: Vec<usize> = (0..weights.len()).collect();
        draw(control, &*model, &prior, &ids, &weights, &settings, keywords.seed)
    })?;
    let scale = Scale { task: kept.options()?.kind, standardisation };
    fields(py, &chains, &scale, true)
}

/// NUTS draws of a coreset's posterior and the verdict on them: the log-likelihood of all rows against the coreset's.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are the arguments of the Python function")]
pub(crate) fn check_columns<'py>(
    py: Python<'py>,
    source: &str,
    parts: Vec<Part<'py>>,
    build: Keywords,
    rows: PyReadonlyArray1<'py, i64>,
    weights: PyReadonlyArray1<'py, f64>,
    keywords: SampleKeywords,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = keywords.settings()?;
    let table = columns::table(source, &parts)?;
    let (design, request) = (build.design()?, build.model()?);
    let dataset = py.detach(|| design_view(&table, &design)).map_err(|error| Failure::new(&error))?;
    let scale = Scale { task: request.kind, standardisation: dataset.standardisation.clone() };
    let ids = observations_of(&dataset, rows.as_slice()?, table.rows)?;
    let weights = weights.as_slice()?.to_vec();
    let n = dataset.observations.len();
    let options = request.options();
    let points = ids.len();
    let (chains, judged) = run(py, progress, threads, move |control| {
        let (model, prior) = model_of(dataset.observations, &options)?;
        let chains = draw(control, &*model, &prior, &ids, &weights, &settings, keywords.seed)?;
        let draws = Draws::from_chains(&chains, VERDICT_DRAWS);
        let judged = verdict(&*model, &ids, &weights, &draws).map_err(|error| Failure::new(&error))?;
        Ok((chains, judged))
    })?;
    let answer = verdict_fields(py, &judged, points, n)?;
    let reweighted =
        (judged.grade == Grade::B).then(|| resample(&chains.thinned(VERDICT_DRAWS), &judged.log_weights));
    answer.set_item(
        "draws",
        fields(py, reweighted.as_ref().unwrap_or(&chains), &scale, reweighted.is_none())?,
    )?;
    answer.set_item("resampled", reweighted.is_some())?;
    let warnings = Diagnostics::new(&chains).warnings();
    answer.set_item("warnings", warnings)?;
    Ok(answer)
}

/// The verdict on errors L(θ) − L_w(θ) that were computed elsewhere.
#[pyfunction]
pub(crate) fn check_errors<'py>(
    py: Python<'py>,
    errors: PyReadonlyArray1<'py, f64>,
    chains: Option<usize>,
    points: usize,
    n: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let errors = errors.as_slice()?.to_vec();
    let judged = verdict_of_errors(errors, chains).map_err(|error| Failure::new(&error))?;
    verdict_fields(py, &judged, points, n)
}

fn model_of(observations: Observations, options: &ModelOptions) -> Result<(Box<dyn Model>, Prior), Failure> {
    let model = make_model(observations, options).map_err(|error| Failure::new(&error))?;
    let prior = make_prior(model.dim(), options).map_err(|error| Failure::new(&error))?;
    Ok((model, prior))
}

/// Chains from the Laplace fit of the weighted rows, as `corelet sample` runs them.
fn draw<T: Send>(
    control: &mut Control<T>,
    model: &dyn Model,
    prior: &Prior,
    ids: &[usize],
    weights: &[f64],
    settings: &SampleSettings,
    seed: u64,
) -> Result<Chains, Failure> {
    let rows = Rows::Weighted { ids, weights };
    let start = laplace(model, prior, rows, None, &LaplaceSettings::default())
        .map_err(|error| Failure::new(&error))?
        .posterior;
    let (clock, mut done) = (Instant::now(), vec![0; settings.chains]);
    let chains = sample(model, prior, rows, &start, settings, seed, &mut |step| {
        done[step.chain] = step.done;
        let (steps, total) = (done.iter().sum(), step.total * settings.chains);
        control.follow(&steps_as_points(steps, total, clock.elapsed().as_secs_f64()))
    });
    chains.map_err(|error| Failure::new(&error))
}

/// The observation that each row of the data became.
fn observations_of(dataset: &Dataset, rows: &[i64], total: usize) -> PyResult<Vec<usize>> {
    let find = |&row: &i64| {
        let known = usize::try_from(row).ok().and_then(|row| dataset.rows.binary_search(&row).ok());
        known.ok_or_else(|| {
            refuse(format!("row {row} of the coreset is not a usable one of the {total} rows of the data"))
        })
    };
    rows.iter().map(find).collect()
}

fn standardisation(json: &str) -> PyResult<Standardisation> {
    serde_json::from_str(json).map_err(|error| refuse(format!("the coreset's standardisation: {error}")))
}

/// The way back to the original scale.
struct Scale {
    task: Task,
    standardisation: Standardisation,
}

impl Scale {
    fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        match self.task {
            Task::Gaussian => self.standardisation.point_to_original(theta),
            _ => self.standardisation.to_original(theta),
        }
    }
}

/// Draws on both scales with their statistics, and the same of the warm-up: chains × draws (× parameters).
fn fields<'py>(
    py: Python<'py>,
    chains: &Chains,
    scale: &Scale,
    warmup: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let draws: Vec<&Phase> = chains.chains.iter().map(|chain| &chain.draws).collect();
    phase(py, &fields, "", &draws, chains.dim, scale)?;
    if warmup {
        let warmup: Vec<&Phase> = chains.chains.iter().map(|chain| &chain.warmup).collect();
        phase(py, &fields, "warmup_", &warmup, chains.dim, scale)?;
    }
    Ok(fields)
}

fn phase<'py>(
    py: Python<'py>,
    fields: &Bound<'py, PyDict>,
    prefix: &str,
    phases: &[&Phase],
    dim: usize,
    scale: &Scale,
) -> PyResult<()> {
    let length = phases.first().map_or(0, |phase| phase.stats.energy.len());
    let shape = [phases.len(), length, dim];
    let theta: Vec<f64> = phases.iter().flat_map(|phase| phase.theta.iter().copied()).collect();
    let original: Vec<f64> =
        theta.chunks_exact(dim.max(1)).flat_map(|draw| scale.to_original(draw)).collect();
    let posterior = PyDict::new(py);
    posterior.set_item("original", PyArray1::from_vec(py, original).reshape(shape)?)?;
    posterior.set_item("standardised", PyArray1::from_vec(py, theta).reshape(shape)?)?;
    fields.set_item(format!("{prefix}posterior"), posterior)?;
    let statistics = PyDict::new(py);
    let shape = [phases.len(), length];
    let numbers = |of: fn(&Stats) -> &Vec<f64>| {
        let values: Vec<f64> = phases.iter().flat_map(|phase| of(&phase.stats).iter().copied()).collect();
        PyArray1::from_vec(py, values).reshape(shape)
    };
    statistics.set_item("lp", numbers(|stats| &stats.log_posterior)?)?;
    statistics.set_item("energy", numbers(|stats| &stats.energy)?)?;
    statistics.set_item("acceptance_rate", numbers(|stats| &stats.acceptance)?)?;
    statistics.set_item("step_size", numbers(|stats| &stats.step_size)?)?;
    let counts = |of: fn(&Stats) -> &Vec<u64>| {
        let values: Vec<u64> = phases.iter().flat_map(|phase| of(&phase.stats).iter().copied()).collect();
        PyArray1::from_vec(py, values).reshape(shape)
    };
    statistics.set_item("tree_depth", counts(|stats| &stats.depth)?)?;
    statistics.set_item("n_steps", counts(|stats| &stats.steps)?)?;
    let flags = |of: fn(&Stats) -> &Vec<bool>| {
        let values: Vec<bool> = phases.iter().flat_map(|phase| of(&phase.stats).iter().copied()).collect();
        PyArray1::from_vec(py, values).reshape(shape)
    };
    statistics.set_item("diverging", flags(|stats| &stats.diverging)?)?;
    statistics.set_item("reached_max_treedepth", flags(|stats| &stats.max_depth_reached)?)?;
    fields.set_item(format!("{prefix}sample_stats"), statistics)
}

/// What the Python class `Verdict` is made of.
fn verdict_fields<'py>(
    py: Python<'py>,
    judged: &Verdict,
    points: usize,
    n: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let json = |value: serde_json::Result<String>| value.map_err(|error| refuse(error.to_string()));
    let fields = PyDict::new(py);
    fields.set_item("grade", format!("{:?}", judged.grade))?;
    fields.set_item("headline", trust::headline(judged, points, n))?;
    fields.set_item("lines", trust::lines(judged))?;
    fields.set_item("reasons", json(serde_json::to_string(&judged.reasons))?)?;
    fields.set_item("n_draws", judged.draws)?;
    fields.set_item("variance", judged.variance)?;
    fields.set_item("variance_upper", judged.variance_upper)?;
    fields.set_item("kl_symmetrised", judged.kl_symmetrised)?;
    fields.set_item("log_evidence_ratio", judged.log_evidence_ratio)?;
    fields.set_item("ess", judged.ess)?;
    fields.set_item("ess_share", judged.ess_share)?;
    fields.set_item("pareto_k", judged.pareto_k)?;
    fields.set_item("pareto_threshold", judged.pareto_threshold)?;
    fields.set_item("log_weights", PyArray1::from_slice(py, &judged.log_weights))?;
    Ok(fields)
}

/// What a sampler tells, in the words of a solver: steps of all chains for points.
fn steps_as_points(done: usize, total: usize, seconds: f64) -> Info {
    Info { iterations: done, passes: 0.0, seconds, points: done, k: total, residual: 0.0, target_norm: 0.0 }
}
