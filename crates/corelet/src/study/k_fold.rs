//! K-fold cross-validation: K coresets from one embedding, each of all rows but those of one fold, which it then predicts.

use std::ops::Range;
use std::sync::Arc;

use rand::seq::SliceRandom;
use sparse_nnls::{Info, Method, Settings, Solver, Status};

use super::{Listener, Progress, Study, StudyError};
use crate::coreset::{BuildError, BuildOptions, Selector};
use crate::embed::{Choice, Embedded, embed};
use crate::model::Model;
use crate::parallel;
use crate::posterior::{SampleError, SampleSettings, sample};
use crate::random::Stream;
use crate::review::{Asked, outcome_of};
use crate::rows::{Gather, Memory, Rows, RowsError, Weighted};
use crate::trust::{Draws, Grade, verdict_without};

/// Draws at which the rows of a fold are predicted, and at which its coreset is judged.
const DRAWS: usize = 1000;

/// Rows whose log-likelihoods are held at once by one thread.
const TILE: usize = 32;

/// The settings of a K-fold cross-validation.
#[derive(Debug, Clone, PartialEq)]
pub struct KFoldSettings {
    /// How many folds, K.
    pub folds: usize,
    /// Largest number of points of each coreset; by default 300.
    pub k: Option<usize>,
    /// The chains.
    pub sample: SampleSettings,
    /// Seed of folds, points and chains.
    pub seed: u64,
}

/// One fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// Number of rows in the fold.
    pub rows: usize,
    /// Points of the coreset of all others.
    pub points: usize,
    /// The grade of that coreset, by a pass over all rows.
    pub grade: Grade,
    /// V of the coreset of the fold, in nats².
    pub variance: f64,
    /// Σ log p(yᵢ | the rows of other folds).
    pub elpd: f64,
}

/// All folds.
#[derive(Debug, Clone, PartialEq)]
pub struct KFold {
    /// Σ log p(yᵢ | the rows of other folds).
    pub elpd: f64,
    /// Its standard error over rows.
    pub se: f64,
    /// Fold by fold.
    pub folds: Vec<Fold>,
    /// log p(yᵢ | the rows of other folds) of each row.
    pub pointwise: Vec<f64>,
    /// The fold of each row.
    pub fold_of: Vec<usize>,
    /// The outcome of each row, as [`Review`](crate::review::Review) has it.
    pub outcomes: Vec<f64>,
}

impl Study {
    /// K-fold cross-validation. With y = Σφᵢ in one embedding under the posterior of all rows, the target of a fold's coreset is y minus the
    /// columns of the fold: one gather for all folds, and a small one for each. Rows of the fold may be among the points, as functions
    /// of θ like any other. Δ is computed over the other rows alone, and its weights turn the draws into draws of their posterior. Rows
    /// of a group are in one fold.
    ///
    /// # Errors
    /// Impossible numbers of folds or points; and see [`StudyError`].
    pub fn k_fold(&self, asked: &KFoldSettings, listener: &mut Listener<'_>) -> Result<KFold, StudyError> {
        let fold_of = self.folds(asked)?;
        asked.sample.check_for(self.rows.dim())?;
        let k = asked.k.unwrap_or(300.min(self.len()));
        BuildOptions { k, ..BuildOptions::default() }.check(self.len())?;
        let posterior = self.full(listener)?.posterior.rounded();
        let _ = listener(Progress::Embedding);
        let embedding = embed(&self.rows, &posterior, Choice::default(), k, asked.seed)?;
        let whole = Gather { recipe: embedding.recipe().clone(), seed: asked.seed, count: 0, apart: 0 };
        let y = self.rows.gather(&whole)?.sum;
        let mut found = KFold {
            elpd: 0.0,
            se: 0.0,
            folds: Vec::new(),
            pointwise: vec![0.0; self.len()],
            fold_of: fold_of.clone(),
            outcomes: vec![0.0; self.len()],
        };
        for fold in 0..asked.folds {
            let ids: Vec<usize> = (0..self.len()).filter(|&row| fold_of[row] == fold).collect();
            let held = Memory::new(self.rows.bind(self.rows.fetch(&ids)?)?);
            let less = held.gather(&whole)?.sum;
            let target: Vec<f64> = y.iter().zip(&less).map(|(y, less)| y - less).collect();
            let (points, each) =
                self.one_fold(&embedding, &target, (&ids, &held), (fold, k, asked), listener)?;
            for (at, (&row, elpd)) in ids.iter().zip(&each).enumerate() {
                found.pointwise[row] = *elpd;
                found.outcomes[row] = outcome_of(self.model.model, held.model().observations(), at);
            }
            found.folds.push(points);
        }
        let rows = found.pointwise.len() as f64;
        found.elpd = found.pointwise.iter().sum();
        let mean = found.elpd / rows;
        found.se = found.pointwise.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt();
        Ok(found)
    }

    /// The fold of each row: rows, or groups of them, in a random order, dealt out.
    fn folds(&self, asked: &KFoldSettings) -> Result<Vec<usize>, StudyError> {
        let clusters = self.clusters()?;
        let units = clusters.as_ref().map_or(self.len(), |(_, count)| *count);
        if asked.folds < 2 || asked.folds > units {
            return Err(StudyError::Folds { folds: asked.folds, units });
        }
        let mut order: Vec<usize> = (0..units).collect();
        order.shuffle(&mut Stream::Subsample.rng(asked.seed, 1));
        let mut of = vec![0; units];
        order.iter().enumerate().for_each(|(place, &unit)| of[unit] = place % asked.folds);
        Ok(clusters.map_or(of.clone(), |(codes, _)| codes.iter().map(|&code| of[code]).collect()))
    }

    /// The coreset of the other rows, sampled and judged on them, and its predictions of the rows of the fold.
    fn one_fold(
        &self,
        embedding: &Embedded<'_>,
        target: &[f64],
        (ids, held): (&[usize], &Memory),
        (fold, k, asked): (usize, usize, &KFoldSettings),
        listener: &mut Listener<'_>,
    ) -> Result<(Fold, Vec<f64>), StudyError> {
        let selector = Selector::default();
        let settings = Settings { k, seed: asked.seed, ..Settings::default() };
        let callback = |info: &Info| {
            listener(Progress::Choosing { info, run: (fold + 1, asked.folds), method: &selector })
        };
        let solver = Solver::new(embedding, settings).target(target).callback(callback);
        let solution = solver.run(&Method::default())?;
        if solution.status == Status::Stopped {
            return Err(SampleError::Stopped.into());
        }
        let (rows, weights) = (&solution.weights.ids, &solution.weights.values);
        if rows.is_empty() {
            return Err(BuildError::NoRound.into());
        }
        let weighted = Weighted::fetch(&self.rows, rows, weights)?;
        let prior = self.problem().prior;
        let start = weighted.fit(prior).map(|fit| fit.posterior);
        let start = start.or_else(|_| self.full(listener).map(|full| full.posterior.clone()))?;
        let chains = sample(&weighted, prior, &start, &asked.sample, asked.seed, &mut |progress| {
            listener(Progress::Sampling(progress))
        })?;
        let _ = listener(Progress::Judging);
        let draws = Draws::from_chains(&chains, DRAWS);
        let judged =
            verdict_without(&self.rows, Some(held), (prior, &weighted), &draws, chains.divergences())?;
        let judged = judged.with(&self.known).with(&self.against_draws(None, &chains));
        let weights = Some(&judged.log_weights[..]).filter(|weights| weights.len() == draws.len());
        let review = Asked::new(draws.len(), weights, &[], draws.efficiency_of_means());
        let each = log_densities(held.model(), &review, &draws, ids)?;
        let fold = Fold {
            rows: ids.len(),
            points: rows.len(),
            grade: judged.grade,
            variance: judged.divergence.variance,
            elpd: each.iter().sum(),
        };
        Ok((fold, each))
    }
}

/// log Σₛ wₛ p(yᵢ | θₛ) of each row, which have these numbers among all.
fn log_densities(
    model: &Arc<dyn Model>,
    asked: &Asked,
    draws: &Draws,
    ids: &[usize],
) -> Result<Vec<f64>, RowsError> {
    let (anchor, count) = (draws.mean(), draws.len());
    let prepared = Arc::clone(model).prepare(&anchor, draws.shifts(&anchor));
    let of_tile = |rows: Range<usize>| -> Result<Vec<f64>, RowsError> {
        let places: Vec<usize> = rows.collect();
        let mut values = vec![0.0; places.len() * count];
        prepared.wide(&places, &mut values);
        let of_row = |(&row, values): (&usize, &[f64])| {
            let here = model.log_likelihood(row, &anchor);
            let unusable = |(draw, value)| RowsError::NotFinite { row: ids[row], draw, value };
            asked.log_density(values).map(|density| here + density).map_err(unusable)
        };
        places.iter().zip(values.chunks_exact(count.max(1))).map(of_row).collect()
    };
    let tiles = parallel::map(parallel::parts(model.len(), TILE), of_tile);
    let mut all = Vec::with_capacity(model.len());
    for tile in tiles {
        all.extend(tile?);
    }
    Ok(all)
}
