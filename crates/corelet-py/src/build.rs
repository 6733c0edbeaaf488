//! `corelet.build`: from columns or a file to a judged coreset, by the pipeline of the command.

use std::path::PathBuf;
use std::time::Instant;

use corelet::coreset::{
    BuildOptions, BuildRequest, Built, Coreset, HeldOut, ModelRequest, RoundOptions, RoundsBy, Selector,
    Start, build_in_rounds, start_fit,
};
use corelet::data::{self, DesignOptions, Format, Standardise, Table, TableView, Task, design_view};
use corelet::evaluate::{Evaluation, evaluate_built};
use corelet::fitted::{Fitted, fit_with};
use corelet::laplace::Prior;
use corelet::model::{GaussianMean, Link, Model};
use corelet::summary::{Seconds, Subject, Summary};
use corelet::wording::count;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sparse_nnls::{Info, Method};

use crate::columns::{self, Part};
use crate::errors::{Failure, refuse};
use crate::run::{Control, run};

/// The keyword arguments, all of them; the names are the flags of the command.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Keywords {
    model: String,
    target: Option<String>,
    features: Option<Vec<String>>,
    exposure: Option<String>,
    positive: Option<String>,
    intercept: bool,
    standardise: String,
    drop_missing: bool,
    link: Option<String>,
    sigma: Option<f64>,
    prior_sd: f64,
    k: Option<usize>,
    max_kl: Option<f64>,
    method: String,
    reference: bool,
    embedding: String,
    seed: u64,
    polish: bool,
    start: String,
    rounds: Option<usize>,
    rounds_by: String,
}

impl Keywords {
    pub(crate) fn design(&self) -> PyResult<DesignOptions> {
        Ok(DesignOptions {
            task: self.task()?,
            target: self.target.clone(),
            features: self.features.clone(),
            exposure: self.exposure.clone(),
            positive: self.positive.clone(),
            intercept: self.intercept,
            standardise: one_of("standardise", &self.standardise, &STANDARDISE)?,
            drop_missing: self.drop_missing,
        })
    }

    fn task(&self) -> PyResult<Task> {
        one_of("model", &self.model, &MODELS)
    }

    pub(crate) fn model(&self) -> PyResult<ModelRequest> {
        let link = self.link.as_ref().map(|link| one_of("link", link, &LINKS)).transpose()?;
        for (name, value) in
            [("sigma", self.sigma), ("prior_sd", Some(self.prior_sd)), ("max_kl", self.max_kl)]
        {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
                return Err(refuse(format!("{name} is {value}, but it must be a finite number above 0")));
            }
        }
        let request = ModelRequest {
            kind: self.task()?,
            link,
            sigma: self.sigma,
            prior_sd: self.prior_sd,
            exposure: self.exposure.is_some(),
            positive: self.positive.is_some(),
        };
        request.check().map_err(|error| Failure::new(&error))?;
        Ok(request)
    }

    fn build(&self) -> PyResult<BuildRequest> {
        let request = BuildRequest {
            method: selector(&self.method)?,
            reference: self.reference,
            k: self.k,
            max_kl: self.max_kl,
            embedding: self.embedding.parse().map_err(|text: String| refuse(text))?,
            seed: self.seed,
            polish: self.polish,
            start: self.start.parse().map_err(|text: String| refuse(text))?,
            rounds: self.rounds,
            rounds_by: one_of("rounds_by", &self.rounds_by, &ROUNDS_BY)?,
        };
        if self.rounds == Some(0) {
            return Err(refuse("rounds is 0, but it must be at least 1"));
        }
        request.check().map_err(|error| Failure::new(&error))?;
        Ok(request)
    }
}

pub(crate) const MODELS: [(&str, Task); 4] = [
    ("gaussian", Task::Gaussian),
    ("linear", Task::Linear),
    ("logistic", Task::Logistic),
    ("poisson", Task::Poisson),
];
const STANDARDISE: [(&str, Standardise); 3] =
    [("none", Standardise::None), ("scale", Standardise::Scale), ("whiten", Standardise::Whiten)];
const ROUNDS_BY: [(&str, RoundsBy); 2] = [("laplace", RoundsBy::Laplace), ("nuts", RoundsBy::Nuts)];
pub(crate) const LINKS: [(&str, Link); 2] = [("log", Link::Log), ("softplus", Link::Softplus)];

/// The value of that name.
pub(crate) fn one_of<T: Copy>(keyword: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(other, _)| *other == name).map(|&(_, value)| value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        refuse(format!("{keyword} is '{name}', but it must be one of {}", names.join(", ")))
    })
}

/// The method of that name, with its default settings.
pub(crate) fn method(name: &str) -> PyResult<Method> {
    let all = Method::all();
    let named: Vec<(&str, Method)> = all.iter().map(|method| (method.name(), *method)).collect();
    one_of("method", name, &named)
}

/// The same of a build, which has SparseVI too.
fn selector(name: &str) -> PyResult<Selector> {
    let all = Selector::names().into_iter().filter_map(|name| Some((name, Selector::from_name(name)?)));
    one_of("method", name, &all.collect::<Vec<_>>())
}

/// Everything that the worker makes.
struct Chosen {
    fitted: Fitted,
    options: BuildOptions,
    built: Built,
    start: Start,
    evaluation: Evaluation,
    seconds: Seconds,
}

/// Builds a coreset of columns that Python holds.
#[pyfunction]
pub(crate) fn build_columns<'py>(
    py: Python<'py>,
    source: &str,
    parts: Vec<Part<'py>>,
    keywords: Keywords,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let table = columns::table(source, &parts)?;
    build_table(py, &table, &keywords, progress, threads, Instant::now())
}

/// Builds a coreset of a data file.
#[pyfunction]
pub(crate) fn build_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    format: Option<String>,
    keywords: Keywords,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let format = format.map(|name| name.parse::<Format>()).transpose().map_err(|e| Failure::new(&e))?;
    let table: Table = py.detach(|| data::read(&path, format)).map_err(|error| Failure::new(&error))?;
    build_table(py, &table.view(), &keywords, progress, threads, start)
}

fn build_table<'py>(
    py: Python<'py>,
    table: &TableView<'_>,
    keywords: &Keywords,
    progress: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
    start: Instant,
) -> PyResult<Bound<'py, PyDict>> {
    let (design, model, request) = (keywords.design()?, keywords.model()?, keywords.build()?);
    let dataset = py.detach(|| design_view(table, &design)).map_err(|error| Failure::new(&error))?;
    py.check_signals()?;
    let mut warnings = dataset.warnings.clone();
    if dataset.dropped > 0 {
        let (dropped, rows) = (count(dataset.dropped), count(table.rows));
        warnings.insert(0, format!("{dropped} of {rows} rows have missing values and were left out"));
    }
    let target_name = dataset.target_name.clone();
    let rows = dataset.observations.len();
    let options = request.options(rows);
    options.check(rows).map_err(|error| Failure::of(table.source, &error))?;
    let (source, model_options, read) =
        (table.source.to_owned(), model.options(), start.elapsed().as_secs_f64());
    let chosen = run(py, progress, threads, move |control| {
        let clock = Instant::now();
        let first = |model: &dyn Model, prior: &Prior| start_fit(model, prior, request.start, options.seed);
        let fitted =
            fit_with(dataset, &model_options, first).map_err(|error| Failure::of(&source, &error))?;
        let laplace = clock.elapsed().as_secs_f64();
        let seconds = Seconds { read, laplace, ..Seconds::default() };
        let asked = Asked { options, rounds: request.rounds(), start: request.start };
        choose_and_judge(control, fitted, asked, seconds).map_err(|error| Failure::of(&source, &*error))
    })?;
    warnings.extend(chosen.fitted.warnings.clone());
    let fields = fields(py, table, &chosen, warnings)?;
    fields.set_item("target", target_name)?;
    Ok(fields)
}

/// A build as the library takes it.
struct Asked {
    options: BuildOptions,
    rounds: RoundOptions,
    start: Start,
}

/// Builds in rounds and evaluates, as the command does.
fn choose_and_judge(
    control: &mut Control<Chosen>,
    fitted: Fitted,
    asked: Asked,
    mut seconds: Seconds,
) -> Result<Chosen, Box<dyn std::error::Error>> {
    let Asked { options, rounds, start } = asked;
    let clock = Instant::now();
    let Fitted { model, prior, laplace, .. } = &fitted;
    let held_out = HeldOut::new(&**model, &laplace.posterior, options.seed);
    let mut follow = |info: &Info| control.follow(info);
    let built =
        build_in_rounds(&**model, prior, &laplace.posterior, &held_out, &options, &rounds, &mut follow)?;
    seconds.build = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let evaluation = evaluate_built(&**model, prior, laplace, &held_out, &built, start, options.seed)?;
    seconds.evaluate = clock.elapsed().as_secs_f64();
    drop(held_out);
    Ok(Chosen { fitted, options, built, start, evaluation, seconds })
}

/// What the Python class `Coreset` is made of.
fn fields<'py>(
    py: Python<'py>,
    table: &TableView<'_>,
    chosen: &Chosen,
    mut warnings: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let Chosen { fitted, options, built, start, evaluation, seconds } = chosen;
    let coreset = &built.coreset;
    let subject = Subject {
        data: table.source,
        n: fitted.rows.len(),
        names: &fitted.names,
        model: fitted.model.name(),
        dropped: fitted.dropped,
    };
    let summary = Summary::of_build(&subject, options, coreset, evaluation, *seconds);
    let summary = summary.with_rounds(*start, &built.rounds, built.chosen);
    warnings.extend(summary.warnings());
    let failed = |error: serde_json::Error| refuse(error.to_string());
    let rows: Vec<usize> = coreset.rows.iter().map(|&i| fitted.rows[i]).collect();
    let fields = PyDict::new(py);
    fields.set_item("columns", columns::chosen(py, table, &rows)?)?;
    fields.set_item("rows", PyArray1::from_iter(py, rows.iter().map(|&row| row as i64)))?;
    fields.set_item("weights", PyArray1::from_vec(py, coreset.weights.clone()))?;
    fields.set_item("summary", summary.to_json().map_err(failed)?)?;
    fields.set_item("lines", summary.lines())?;
    fields.set_item("warnings", warnings)?;
    let metadata = summary.metadata(&fitted.levels, &fitted.standardisation).map_err(failed)?;
    fields.set_item("metadata", metadata)?;
    fields.set_item("names", fitted.names.clone())?;
    fields.set_item("sampling", sampling(py, fitted, coreset)?)?;
    Ok(fields)
}

/// The weighted posterior: the k standardised rows with what else it is made of.
fn sampling<'py>(py: Python<'py>, fitted: &Fitted, coreset: &Coreset) -> PyResult<Bound<'py, PyDict>> {
    let (linear, gaussian) = (fitted.model.linear(), fitted.model.gaussian_mean());
    let observations = linear.map(|linear| linear.observations).or(gaussian.map(GaussianMean::observations));
    let sampling = PyDict::new(py);
    let Some(observations) = observations else { return Ok(sampling) };
    let chosen =
        |values: &[f64]| PyArray1::from_iter(py, coreset.rows.iter().filter_map(|&i| values.get(i).copied()));
    let features: Vec<f64> = coreset.rows.iter().flat_map(|&i| observations.row(i).to_vec()).collect();
    let shape = [coreset.rows.len(), observations.dim];
    sampling.set_item("features", PyArray1::from_vec(py, features).reshape(shape)?)?;
    sampling.set_item("target", chosen(&observations.target))?;
    sampling.set_item("exposure", observations.exposure.as_ref().map(|exposure| chosen(exposure)))?;
    // Of a linear model the second derivative is −1/σ², whether σ was given or estimated from all rows.
    let curvature =
        linear.filter(|_| fitted.task == Task::Linear).map(|linear| linear.family.jet(0.0, 0.0, 1.0)[2]);
    sampling.set_item("sigma", curvature.map(|curvature| (-1.0 / curvature).sqrt()))?;
    Ok(sampling)
}
