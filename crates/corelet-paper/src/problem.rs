//! A posterior to be approximated: the model of one trial, its prior, its Laplace fit and its embeddings.

use std::sync::Arc;

use anyhow::Context;
use corelet::data::{self, Columns, DataError, DesignOptions, Standardise, Table, Values};
use corelet::embed::{Choice, Embedded, Embedding, Stored, embed, paper, richer};
use corelet::generate;
use corelet::linalg::{dot, gram, leading_eigenvectors, quadratic_form, row_major};
use corelet::model::{BuiltIn, GaussianMean, Glm, Linear, Link, Model, RbfMap};
use corelet::posterior::{Laplace, LaplaceSettings, Prior, laplace};
use corelet::rows::{self, All, Memory, Observations, Rows};
use corelet::study::{ModelSpecification, Resolved};
use corelet::trust::HeldOut;

use crate::radial::Prices;
use crate::series::Space;
use crate::sets::{Kind, Set, Source};
use crate::settings::CellSettings;

/// The likelihood, by what the paper's embedding of it needs to know.
enum Likelihood {
    Mean(Arc<GaussianMean>),
    Linear(Arc<Glm<Linear>>),
    Other(Arc<dyn Model>),
}

/// A posterior to be approximated.
pub(crate) struct Problem {
    likelihood: Likelihood,
    rows: Memory,
    pub(crate) prior: Prior,
    pub(crate) full: Laplace,
    /// Where the rows lie on the map, and the basis over it, for radial basis functions.
    pub(crate) map: Option<(Vec<f64>, RbfMap)>,
}

impl Problem {
    fn new(likelihood: Likelihood, prior: Prior, map: Option<(Vec<f64>, RbfMap)>) -> anyhow::Result<Self> {
        let rows = Memory::new(likelihood.model());
        let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default())?;
        Ok(Self { likelihood, rows, prior, full, map })
    }

    pub(crate) fn model(&self) -> &Arc<dyn Model> {
        self.rows.model()
    }

    pub(crate) fn rows(&self) -> &dyn Rows {
        &self.rows
    }

    /// The posterior that is approximated.
    pub(crate) fn posed(&self) -> rows::Problem<'_> {
        rows::Problem { rows: &self.rows, prior: &self.prior }
    }

    /// Draws to judge a coreset by, where the divergence between Laplace fits is not exact already.
    pub(crate) fn held_out(&self, seed: u64) -> Option<HeldOut<'_>> {
        let exact = !matches!(self.likelihood, Likelihood::Other(_));
        (!exact).then(|| HeldOut::new(&self.rows, &self.full.posterior, seed))
    }

    /// The embedding of this kind; `None` where the model has none.
    pub(crate) fn embed(
        &self,
        space: Space,
        settings: &CellSettings,
        k: usize,
        seed: u64,
    ) -> anyhow::Result<Option<Box<dyn Embedding + '_>>> {
        let posterior = &self.full.posterior;
        Ok(Some(match (&self.likelihood, space) {
            (Likelihood::Mean(model), Space::Paper) => Box::new(paper::gaussian_reference(model, posterior)?),
            (Likelihood::Mean(model), Space::Exact) => Box::new(paper::gaussian_exact(model, posterior)?),
            (Likelihood::Linear(model), Space::Paper) => {
                Box::new(paper::rbf_truncated(model, posterior, settings.directions)?)
            }
            (Likelihood::Linear(model), Space::Exact) => Box::new(paper::linear_exact(model, posterior)?),
            (Likelihood::Other(model), Space::Paper) => {
                Box::new(Stored::draws(model, posterior, settings.draws, seed)?)
            }
            (Likelihood::Other(_), Space::Hermite) => {
                // All sizes up to k share one: that which `auto` goes on with where it begins with less.
                let first = embed(&self.rows, posterior, Choice::Auto, k, seed)?;
                Box::new(match richer(&first, posterior, k, seed)? {
                    Some(recipe) => Embedded::new(&self.rows, recipe)?,
                    None => first,
                })
            }
            _ => return Ok(None),
        }))
    }
}

impl Likelihood {
    fn model(&self) -> Arc<dyn Model> {
        match self {
            Self::Mean(model) => Arc::clone(model) as Arc<dyn Model>,
            Self::Linear(model) => Arc::clone(model) as Arc<dyn Model>,
            Self::Other(model) => Arc::clone(model),
        }
    }
}

/// What the problems of all trials of a set are made of.
pub(crate) enum Material {
    /// One problem for all.
    Fixed(Arc<Problem>),
    /// Data of its own for each.
    GaussianMean,
    RadialBasis(Prices),
}

impl Material {
    /// Reads or generates what there is to read or to generate once; warnings go to `warn`.
    pub(crate) fn load(
        set: &Set,
        source: &Source,
        seed: u64,
        warn: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        match (set.kind, source) {
            (Kind::GaussianMean, _) => Ok(Self::GaussianMean),
            (Kind::RadialBasis, Source::File(path)) => {
                let table = data::read(path, None)?;
                Ok(Self::RadialBasis(Prices::new(&table)?))
            }
            (Kind::RadialBasis, Source::Generated(_)) => anyhow::bail!("{} cannot be generated", set.name),
            (Kind::Regression(model), source) => {
                let (table, target) = match source {
                    Source::File(path) => (data::read(path, None)?, None),
                    Source::Generated(rows) => (generated(model, *rows, seed)?, Some("y".to_owned())),
                };
                let problem =
                    regression(&table, model, target, warn).with_context(|| table.source.clone())?;
                Ok(Self::Fixed(Arc::new(problem)))
            }
        }
    }

    /// The problem of one trial.
    pub(crate) fn problem(&self, settings: &CellSettings, seed: u64) -> anyhow::Result<Arc<Problem>> {
        match self {
            Self::Fixed(problem) => Ok(Arc::clone(problem)),
            Self::GaussianMean => Ok(Arc::new(gaussian_mean(settings, seed)?)),
            Self::RadialBasis(prices) => {
                let (model, prior, map) = prices.sample(settings, seed)?;
                Ok(Arc::new(Problem::new(Likelihood::Linear(Arc::new(model)), prior, Some(map))?))
            }
        }
    }
}

fn generated(model: BuiltIn, rows: usize, seed: u64) -> anyhow::Result<Table> {
    let observations = match model {
        BuiltIn::Poisson => generate::poisson_paper(rows, seed),
        _ => generate::logistic_paper(rows, seed),
    };
    Ok(generate::to_table(&observations, "generated rows")?)
}

/// As in the paper: whitened covariates, prior N(0, I), softplus rates.
fn regression(
    table: &Table,
    model: BuiltIn,
    target: Option<String>,
    warn: &mut dyn FnMut(&str),
) -> anyhow::Result<Problem> {
    let whiten = DesignOptions {
        outcome: model.outcome(),
        standardise: Standardise::Whiten,
        columns: Columns { target, ..Columns::default() },
        ..DesignOptions::default()
    };
    let dataset = match data::design(table, &whiten) {
        Err(DataError::Collinear { .. }) => {
            let scale = DesignOptions { standardise: Standardise::Scale, ..whiten };
            let mut dataset = data::design(table, &scale)?;
            let before = dataset.observations.dim;
            dataset.observations = whiten_dependent(&dataset.observations)?;
            let after = dataset.observations.dim;
            warn(&format!("{}: {after} of {before} columns are independent, and whitened", table.source));
            dataset
        }
        other => other?,
    };
    let asked =
        ModelSpecification { model, link: Some(Link::Softplus), prior_sd: Some(1.0), ..Default::default() };
    let resolved = Resolved::new(&asked, &dataset.observations, None);
    let (model, prior) = (resolved.bind(dataset.observations)?, resolved.prior()?);
    Problem::new(Likelihood::Other(model), prior, None)
}

/// Columns with mean 0 and identity covariance that span what the features span, and the intercept: whitening where
/// some features are linear combinations of others, by the pseudo-inverse of their covariance. Under a prior N(0, I)
/// any two ways of whitening give the same posterior up to a rotation.
fn whiten_dependent(observations: &Observations) -> anyhow::Result<Observations> {
    let (n, dim) = (observations.len(), observations.dim);
    let is_intercept = |j: &usize| (0..n).all(|i| observations.row(i)[*j] == 1.0);
    let (constant, varying): (Vec<usize>, Vec<usize>) = (0..dim).partition(is_intercept);
    let p = varying.len();
    let columns: Vec<f64> =
        (0..n).flat_map(|i| varying.iter().map(move |&j| f64::from(observations.row(i)[j]))).collect();
    let covariance: Vec<f64> = gram(&columns, n, p).iter().map(|x| x / (n as f64 - 1.0)).collect();
    let vectors = leading_eigenvectors(&covariance, p, p)?;
    let variance = |v: &[f64]| quadratic_form(&covariance, v);
    let least = 1e-10 * vectors.chunks_exact(p).map(variance).fold(0.0, f64::max);
    let directions: Vec<Vec<f64>> = vectors
        .chunks_exact(p)
        .filter(|v| variance(v) > least)
        .map(|v| v.iter().map(|x| x / variance(v).sqrt()).collect())
        .collect();
    let mut features = Vec::with_capacity(n * (directions.len() + constant.len()));
    for row in columns.chunks_exact(p) {
        features.extend(directions.iter().map(|direction| dot(direction, row)));
        features.extend(constant.iter().map(|_| 1.0));
    }
    let dim = directions.len() + constant.len();
    let exposure = observations.exposure.clone();
    Ok(Observations { exposure, ..Observations::new(&features, dim, observations.target.to_vec()) })
}

/// θ ~ N(0, I), x ~ N(θ, I), prior N(0, I).
fn gaussian_mean(settings: &CellSettings, seed: u64) -> anyhow::Result<Problem> {
    let CellSettings { rows, dim, .. } = *settings;
    let mut observations = generate::gaussian_paper(rows + 1, dim, seed);
    let mut features = observations.features.to_vec();
    let theta = features.split_off(rows * dim);
    observations.features = features.into();
    for x in observations.features.chunks_exact_mut(dim) {
        x.iter_mut().zip(&theta).for_each(|(x, t)| *x += t);
    }
    let identity = row_major(dim, |i, j| if i == j { 1.0 } else { 0.0 });
    let model = GaussianMean::new(observations, &identity)?;
    Problem::new(Likelihood::Mean(Arc::new(model)), Prior::isotropic(dim, 1.0)?, None)
}

/// The numbers of a column.
pub(super) fn numbers<'t>(table: &'t Table, name: &str) -> anyhow::Result<&'t [f64]> {
    match &table.column(name)?.values {
        Values::Number { values, .. } => Ok(values),
        _ => anyhow::bail!("{}: column '{name}' holds no numbers", table.source),
    }
}

/// A linear model over features that have been made already.
pub(super) fn linear(
    features: &[f64],
    dim: usize,
    target: Vec<f64>,
    variance: f64,
) -> anyhow::Result<Glm<Linear>> {
    Ok(Linear::model(Observations::new(features, dim, target), variance)?)
}
