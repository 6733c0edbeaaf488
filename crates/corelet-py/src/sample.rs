//! `Coreset.sample` and `corelet.check`: draws of the coreset's posterior, and whether they can be trusted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use corelet::coreset::WrittenWeights;
use corelet::data::{KeptDesign, Standardisation};
use corelet::posterior::{Chains, Phase, Stats};
use corelet::rows::{Observations, Rest};
use corelet::study::{Drawn, REST, Resolved, Study, StudyError, design_of, sample_kept_with_rest};
use corelet::trust::{Fidelity, Mixing, Move, Moves, Verdict};
use corelet::words;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::design;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::run::{Execution, run};
use crate::specification::{sampling, specification};

/// A weighted posterior as the Python class keeps it: k standardised rows and what else it is made of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Kept<'py> {
    features: PyReadonlyArray2<'py, f32>,
    target: PyReadonlyArray1<'py, f64>,
    exposure: Option<PyReadonlyArray1<'py, f64>>,
    offset: Option<PyReadonlyArray1<'py, f64>>,
    model: String,
    rest: Option<String>,
    standardisation: String,
}

impl Kept<'_> {
    pub(crate) fn observations(&self) -> PyResult<Observations> {
        let column = |given: &Option<PyReadonlyArray1<'_, f64>>| {
            given.as_ref().map(|column| column.as_slice().map(|column| column.to_vec().into())).transpose()
        };
        Ok(Observations {
            features: self.features.as_slice()?.to_vec().into(),
            dim: self.features.shape()[1],
            target: self.target.as_slice()?.to_vec().into(),
            exposure: column(&self.exposure)?,
            offset: column(&self.offset)?,
            // Those of the coreset are of the rows' own log-likelihoods.
            weights: None,
        })
    }

    pub(crate) fn model(&self) -> PyResult<Resolved> {
        serde_json::from_str(&self.model).map_err(|error| refuse(format!("the coreset's model: {error}")))
    }

    fn rest(&self) -> PyResult<Option<Arc<Rest>>> {
        rest(self.rest.as_deref())
    }

    fn scale(&self) -> PyResult<Scale> {
        let standardisation = serde_json::from_str(&self.standardisation)
            .map_err(|error| refuse(format!("the coreset's standardisation: {error}")))?;
        Ok(Scale { model: self.model()?, standardisation })
    }
}

/// The Gaussian part of a coreset, as its file has it.
fn rest(text: Option<&str>) -> PyResult<Option<Arc<Rest>>> {
    let read = text.map(serde_json::from_str).transpose();
    let read = read.map_err(|error| refuse(format!("the coreset's Gaussian part: {error}")))?;
    Ok(read.map(Arc::new))
}

/// The way back to the original scale.
struct Scale {
    model: Resolved,
    standardisation: Standardisation,
}

/// Parameters, one a line, on the original scale of the data.
#[pyfunction]
pub(crate) fn original_scale<'py>(
    py: Python<'py>,
    model: &str,
    standardisation: &str,
    theta: PyReadonlyArray2<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let failed = |error: serde_json::Error| refuse(error.to_string());
    let model: Resolved = serde_json::from_str(model).map_err(failed)?;
    let standardisation: Standardisation = serde_json::from_str(standardisation).map_err(failed)?;
    let dim = theta.shape()[1].max(1);
    let lines = theta.as_slice()?.chunks_exact(dim).map(|line| model.to_original(&standardisation, line));
    PyArray2::from_vec2(py, &lines.collect::<Vec<_>>()).map_err(|error| refuse(error.to_string()))
}

/// NUTS draws of a coreset's posterior.
#[pyfunction]
pub(crate) fn sample_coreset<'py>(
    py: Python<'py>,
    kept: Kept<'py>,
    weights: PyReadonlyArray1<'py, f64>,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let (settings, seed) = sampling(keywords)?;
    let (observations, model, scale, rest) =
        (kept.observations()?, kept.model()?, kept.scale()?, kept.rest()?);
    let weights = WrittenWeights::from(weights.as_slice()?.to_vec());
    let chains = run(py, &execution, move |control| {
        let mut heard = |progress: corelet::study::Progress<'_>| control.heard(progress);
        sample_kept_with_rest((observations, &weights, rest), &model, &settings, seed, &mut heard)
            .map_err(|error| Failure::new(&error))
    })?;
    fields(py, &chains, &scale, true)
}

/// NUTS draws of a coreset's posterior and the verdict on them: the log-likelihood of all rows against the coreset's. Without
/// a coreset, draws of the posterior of all rows, which need none.
#[pyfunction]
pub(crate) fn check<'py>(
    py: Python<'py>,
    data: Data<'py>,
    build: &Bound<'py, PyDict>,
    coreset: Option<WeightedRows<'py>>,
    keywords: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let (settings, seed) = sampling(keywords)?;
    let mut asked = specification(build)?;
    let coreset = coreset.map(|coreset| known(&coreset)).transpose()?;
    asked.design.like = coreset.as_ref().map(KnownRows::design).transpose()?.flatten().map(Box::new);
    let source = data.source(py, &asked.storage)?;
    let clock = Instant::now();
    let dataset = design(py, &source, &asked)?;
    let study = Study::new(source.name(), dataset, &asked, clock.elapsed().as_secs_f64());
    let mut study = study.map_err(|error| Failure::new(&error))?;
    let coreset = coreset.map(|coreset| chosen(&mut study, &coreset)).transpose()?;
    let points = coreset.as_ref().map_or(study.len(), |(rows, ..)| rows.len());
    let (study, drawn) = run(py, &execution, move |control| {
        let draw = || -> Result<_, StudyError> {
            let weighted =
                coreset.map(|(rows, weights, rest)| study.weighted_with_rest(&rows, &weights, rest.as_ref()));
            let weighted = weighted.transpose()?;
            study.sample(weighted.as_ref(), &settings, seed, &mut |progress| control.heard(progress))
        };
        let drawn = draw().map_err(|error| Failure::new(&error))?;
        Ok((study, drawn))
    })?;
    let answer = drawn_fields(py, &study, &drawn, points)?;
    if drawn.verdict.is_some() {
        let (_, blocks) =
            study.blocks(Some(&drawn), points).metadata().map_err(|error| refuse(error.to_string()))?;
        answer.set_item("blocks", blocks)?;
    }
    Ok(answer)
}

/// Rows as the data number them, their weights, and the metadata of the coreset.
pub(crate) type WeightedRows<'py> =
    (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f64>, BTreeMap<String, String>);

/// The same without Python, with the Gaussian part.
pub(crate) struct KnownRows {
    pub(crate) rows: Vec<usize>,
    weights: WrittenWeights,
    notes: BTreeMap<String, String>,
    rest: Option<Arc<Rest>>,
}

impl KnownRows {
    /// How they were encoded, so that the rows that they are judged on become the same.
    pub(crate) fn design(&self) -> Result<Option<KeptDesign>, Failure> {
        design_of(&self.notes, "the coreset").map_err(|error| Failure::new(&error))
    }
}

pub(crate) fn known((rows, weights, notes): &WeightedRows<'_>) -> PyResult<KnownRows> {
    let rows: Result<Vec<usize>, _> = rows.as_slice()?.iter().map(|&row| usize::try_from(row)).collect();
    let rows = rows.map_err(|_| refuse("a row of the coreset is negative"))?;
    let rest = rest(notes.get(REST).map(String::as_str))?;
    Ok(KnownRows { rows, weights: weights.as_slice()?.to_vec().into(), notes: notes.clone(), rest })
}

/// Observations, their weights, and the Gaussian part.
type ChosenRows = (Vec<usize>, WrittenWeights, Option<Arc<Rest>>);

/// The observations, the weights and the Gaussian part of a coreset of these data.
pub(crate) fn chosen(
    study: &mut Study,
    KnownRows { rows, weights, notes, rest }: &KnownRows,
) -> Result<ChosenRows, Failure> {
    let observations = study.frame().observations_of(rows).map_err(|error| Failure::new(&error))?;
    study.expect_notes(notes, "the coreset").map_err(|error| Failure::new(&error))?;
    Ok((observations, weights.clone(), rest.clone()))
}

/// The verdict, where there is one, with the draws that it allows to use.
pub(crate) fn drawn_fields<'py>(
    py: Python<'py>,
    study: &Study,
    drawn: &Drawn,
    points: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let mut warnings = drawn.diagnostics.warnings();
    warnings.extend(drawn.missed.iter().cloned());
    warnings.extend(drawn.misfits.iter().map(|line| format!("the model does not fit: {line}")));
    let answer = match &drawn.verdict {
        Some(judged) => {
            let fields = verdict_fields(py, judged, points, study.all_rows())?;
            fields.set_item("headline", drawn.headline(points, study.all_rows()))?;
            fields
        }
        None => {
            warnings.splice(..0, study.warnings());
            all_rows(py, study)?
        }
    };
    let resampled = drawn.resampled();
    let scale =
        Scale { model: study.resolved().clone(), standardisation: study.frame().standardisation.clone() };
    let chains = resampled.as_ref().unwrap_or(&drawn.chains);
    answer.set_item("draws", fields(py, chains, &scale, resampled.is_none())?)?;
    answer.set_item("resampled", resampled.is_some())?;
    answer.set_item("warnings", warnings)?;
    Ok(answer)
}

/// What the posterior of all rows is the posterior of.
fn all_rows<'py>(py: Python<'py>, study: &Study) -> PyResult<Bound<'py, PyDict>> {
    let observations: Vec<usize> = (0..study.len()).collect();
    let rows = study.frame().rows_of(&observations).into_iter().map(|row| row as i64);
    let all = PyDict::new(py);
    all.set_item("rows", PyArray1::from_iter(py, rows))?;
    all.set_item("names", study.frame().names.clone())?;
    let weights = study.weights_of(&observations).map_err(|error| Failure::new(&error))?;
    all.set_item("weights", PyArray1::from_vec(py, weights))?;
    all.set_item("n", study.all_rows())?;
    all.set_item("dropped", study.frame().lineage.dropped)?;
    Ok(all)
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
    // Independent draws of a Gaussian have none.
    if warmup && chains.chains.iter().any(|chain| !chain.warmup.stats.energy.is_empty()) {
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
    let original: Vec<f64> = theta
        .chunks_exact(dim.max(1))
        .flat_map(|draw| scale.model.to_original(&scale.standardisation, draw))
        .collect();
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
pub(crate) fn verdict_fields<'py>(
    py: Python<'py>,
    judged: &Verdict,
    points: usize,
    n: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let json = |value: serde_json::Result<String>| value.map_err(|error| refuse(error.to_string()));
    let fields = PyDict::new(py);
    fields.set_item("grade", format!("{:?}", judged.grade))?;
    fields.set_item("headline", words::headline(judged, points, n))?;
    fields.set_item("lines", words::lines(judged, points, n))?;
    fields.set_item("reasons", json(serde_json::to_string(&judged.reasons))?)?;
    fields.set_item("n_draws", judged.draws)?;
    fields.set_item("variance", judged.divergence.variance)?;
    fields.set_item("variance_upper", judged.divergence.variance_upper)?;
    fields.set_item("kl_symmetrised", judged.divergence.kl_symmetrised)?;
    fields.set_item("log_evidence_ratio", judged.divergence.log_evidence_ratio)?;
    fields.set_item("ess", judged.reweighting.ess)?;
    fields.set_item("ess_share", judged.reweighting.ess_share)?;
    fields.set_item("pareto_k", judged.reweighting.pareto_k)?;
    fields.set_item("pareto_threshold", judged.reweighting.pareto_threshold)?;
    fields.set_item("log_weights", PyArray1::from_slice(py, &judged.log_weights))?;
    if let Some(Mixing { r_hat, ess_bulk, ess_tail }) = judged.mixing {
        fields.set_item("r_hat", r_hat)?;
        fields.set_item("ess_bulk", ess_bulk)?;
        fields.set_item("ess_tail", ess_tail)?;
    }
    if let Some(Fidelity { shift, scale }) = judged.fidelity {
        fields.set_item("score_shift", shift)?;
        fields.set_item("score_scale", scale)?;
    }
    if let Some(Moves { shift, ratio }) = &judged.moves {
        let of = |Move { name, by, error, .. }: &Move| (name.clone(), *by, *error);
        fields.set_item("largest_shift", of(shift))?;
        fields.set_item("largest_ratio", of(ratio))?;
    }
    Ok(fields)
}
