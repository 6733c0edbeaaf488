//! `corelet.fit(random=…)`: a mixed model, its coreset of whole groups, and the random effects of all of them.

use std::time::Instant;

use corelet::data::{Besides, Storage, Unseen};
use corelet::study::{
    FitSpecification, GroupPolicy, MixedFit, MixedPrediction, MixedStudy, PredictedEffects, PredictedKind,
    PredictionSettings,
};
use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::design;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::fit::round_fields;
use crate::run::{Execution, run};
use crate::sample::verdict_fields;
use crate::specification::{sampling, specification};

/// Groups whose random effects are computed between two looks at signals.
const AT_ONCE: usize = 4096;

/// A fitted mixed model, kept for its random effects.
#[pyclass(frozen)]
pub(crate) struct FittedMixed {
    study: MixedStudy,
    fit: MixedFit,
}

/// What is asked of a prediction: which of both, quantiles, the seed, whether unseen levels are the base level, which effects, and what
/// becomes of unseen groups.
type Asked = (String, Vec<f64>, u64, bool, String, String);

#[pymethods]
impl FittedMixed {
    /// The predictive distribution of new rows: mean, sd and quantiles, numbers a row, and the classes.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        data: Data<'py>,
        exposure: Option<PyReadonlyArray1<'py, f64>>,
        asked: Asked,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Self { study, fit } = self;
        let (kind, quantiles, seed, baseline, effects, unseen_groups) = asked;
        let kind = if kind == "outcome" { PredictedKind::Outcome } else { PredictedKind::Mean };
        let effects = match effects.as_str() {
            "new" => PredictedEffects::New,
            "population" => PredictedEffects::Population,
            _ => PredictedEffects::Own,
        };
        let unseen = match unseen_groups.as_str() {
            "new" => GroupPolicy::New,
            "population" => GroupPolicy::Population,
            _ => GroupPolicy::Error,
        };
        let settings = PredictionSettings { kind, quantiles, seed };
        let asked = MixedPrediction { settings, effects, unseen };
        let source = data.source(py, &Storage::default())?;
        let besides = if exposure.is_some() { Besides::Nothing } else { Besides::Exposure };
        let policy = if baseline { Unseen::Baseline } else { Unseen::Error };
        let frame = study.frame();
        let (levels, scale) = (&frame.levels, &frame.standardisation);
        let encoded = match effects {
            PredictedEffects::Own => frame.encoding.encode_groups(&source, besides, policy, levels, scale),
            _ => frame
                .encoding
                .encode_noting(&source, besides, policy, levels, scale)
                .map(|(rows, notes)| (rows, Vec::new(), notes)),
        };
        let (mut rows, groups, warnings) = encoded.map_err(|error| Failure::new(&error))?;
        if let Some(exposure) = exposure {
            rows = rows.with_exposure(exposure.as_slice()?.to_vec());
        }
        let columns = frame.encoding.factors();
        let made = py.detach(|| study.posterior(fit).predict(&rows, 0, (columns, &groups), &asked));
        let made = made.map_err(|error| Failure::new(&error))?;
        let fields = PyDict::new(py);
        fields.set_item("mean", PyArray1::from_vec(py, made.mean))?;
        fields.set_item("sd", PyArray1::from_vec(py, made.sd))?;
        fields.set_item("quantiles", PyArray1::from_vec(py, made.quantiles))?;
        fields.set_item("columns", made.columns)?;
        fields.set_item("classes", frame.encoding.classes())?;
        fields.set_item("warnings", warnings)?;
        Ok(fields)
    }

    /// A Stan program of the chosen groups and its data, and these with everything else that a program of another language needs.
    fn marginal(&self) -> PyResult<(String, String, String)> {
        let marginal = self.study.marginal(&self.fit).map_err(|error| Failure::new(&error))?;
        let json = |text: serde_json::Result<String>| text.map_err(|error| refuse(error.to_string()));
        let data = marginal.data().and_then(|data| serde_json::to_string(&data));
        Ok((marginal.stan(), json(data)?, json(serde_json::to_string(&marginal))?))
    }

    /// The log posterior of the chosen groups at these parameters, up to a constant.
    fn log_posterior(&self, theta: PyReadonlyArray1<'_, f64>) -> PyResult<f64> {
        let theta = theta.as_slice()?;
        if theta.len() != self.fit.sample.draws.dim {
            return Err(refuse(format!(
                "theta has {} numbers, but there are {} parameters",
                theta.len(),
                self.fit.sample.draws.dim
            )));
        }
        Ok(self.study.log_posterior(&self.fit, theta))
    }

    /// group, effect, rows, and mean, sd and quantiles of the posterior, an entry for every effect of every group.
    fn random_effects<'py>(&self, py: Python<'py>, quantiles: Vec<f64>) -> PyResult<Bound<'py, PyDict>> {
        let Self { study, fit } = self;
        if let Some(bad) = quantiles.iter().find(|q| !(**q > 0.0 && **q < 1.0)) {
            return Err(refuse(format!("a quantile is {bad}, but it must be between 0 and 1")));
        }
        let terms = study.random().terms();
        let (mut labels, mut names, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut means, mut sds) = (Vec::new(), Vec::new());
        let mut columns = vec![Vec::new(); quantiles.len()];
        for start in (0..study.groups()).step_by(AT_ONCE) {
            py.check_signals()?;
            let groups = start..study.groups().min(start + AT_ONCE);
            let found = py.detach(|| study.random_effects(fit, groups.clone()));
            for (group, effects) in groups.zip(found) {
                for (term, effect) in terms.iter().zip(effects) {
                    labels.push(study.labels()[group].as_str());
                    names.push(*term);
                    rows.push(study.rows_in(group) as i64);
                    means.push(effect.mean);
                    sds.push(effect.sd);
                    columns
                        .iter_mut()
                        .zip(&quantiles)
                        .for_each(|(column, q)| column.push(effect.quantile(*q)));
                }
            }
        }
        let table = PyDict::new(py);
        table.set_item("group", labels)?;
        table.set_item("effect", names)?;
        table.set_item("rows", PyArray1::from_vec(py, rows))?;
        table.set_item("mean", PyArray1::from_vec(py, means))?;
        table.set_item("sd", PyArray1::from_vec(py, sds))?;
        for (q, column) in quantiles.iter().zip(columns) {
            // 0.07 of a hundred is 7.000000000000001.
            table.set_item(format!("q{}", (1e6 * q).round() / 1e4), PyArray1::from_vec(py, column))?;
        }
        Ok(table)
    }
}

/// Fits a mixed model.
#[pyfunction]
pub(crate) fn fit_mixed<'py>(
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
    let (name, read) = (source.name().to_owned(), start.elapsed().as_secs_f64());
    let (study, fitted) = run(py, &execution, move |control| {
        let study = MixedStudy::new(&name, dataset, &asked, read).map_err(|error| Failure::of(&name, &error));
        let mut study = study?;
        let asked = FitSpecification { build: asked.build, max_k, sample, seed };
        let fitted = study.fit(&asked, &mut |progress| control.heard(progress));
        Ok((study, fitted.map_err(|error| Failure::of(&name, &error))?))
    })?;
    let Some(fit) = fitted else { return Err(PyKeyboardInterrupt::new_err(())) };
    fields(py, study, fit)
}

fn fields(py: Python<'_>, study: MixedStudy, fit: MixedFit) -> PyResult<Bound<'_, PyDict>> {
    let rows: Vec<Vec<usize>> = fit.groups.iter().map(|&group| study.rows_of(group)).collect();
    let points = rows.iter().map(Vec::len).sum();
    let answer = PyDict::new(py);
    answer.set_item("verdict", verdict_fields(py, &fit.verdict, points, study.rows())?)?;
    answer.set_item("names", study.names())?;
    let theta = &fit.sample.draws;
    let original: Vec<f64> =
        theta.theta.chunks_exact(theta.dim.max(1)).flat_map(|draw| study.to_original(draw)).collect();
    let shape = [fit.sample.chains(), theta.len() / fit.sample.chains(), theta.dim];
    let draws: Bound<'_, PyArray3<f64>> = PyArray1::from_vec(py, original).reshape(shape)?;
    answer.set_item("draws", draws)?;
    answer.set_item("resampled", fit.resampled)?;
    answer.set_item("diverged", fit.sample.diverged)?;
    let labels: Vec<&str> = fit.groups.iter().map(|&group| study.labels()[group].as_str()).collect();
    answer.set_item("groups", labels)?;
    answer.set_item("group_weights", PyArray1::from_slice(py, &fit.weights))?;
    let numbered = |rows: &Vec<usize>| PyArray1::from_iter(py, rows.iter().map(|&row| row as i64));
    answer.set_item("rows", rows.iter().map(numbered).collect::<Vec<_>>())?;
    answer.set_item("lines", study.lines(&fit))?;
    answer.set_item("warnings", study.warnings())?;
    answer.set_item("rounds", round_fields(py, &fit.rounds)?)?;
    answer.set_item("notes", fit.notes.clone())?;
    answer.set_item("n", study.rows())?;
    answer.set_item("n_groups", study.groups())?;
    answer.set_item("effects", study.factors().worded())?;
    answer.set_item("columns", study.frame().encoding.factors())?;
    answer.set_item("nodes", fit.quadrature.nodes)?;
    answer.set_item("quadrature_bias", fit.quadrature.bias)?;
    answer.set_item("native", Py::new(py, FittedMixed { study, fit })?)?;
    Ok(answer)
}
