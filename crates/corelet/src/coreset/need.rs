//! The embedding that the accuracy needs: a cheap one first, a richer one on its pool where that is what limits; and how
//! many points would do where those asked for are far too few.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{
    Dense, Dictionary, Method, Oracle, PathPoint, Pursuit, Settings, Solution, Solver, Status, Weights,
    residual_norm,
};

use crate::coreset::build::Callback;
use crate::coreset::policy::{
    AS_GOOD_AS_NONE, FINE_NATS, FRESH, GOOD_NATS, LIMITED, POINTS_A_PARAMETER, ROOMY, TRIED_A_PARAMETER,
    USELESS_NATS,
};
use crate::coreset::{BuildError, BuildOptions, Selector};
use crate::embed::{Choice, Description, Embedded, Embedding, Recipe, embed, may_be_richer, richer};
use crate::posterior::Gaussian;
use crate::rows::{Gather, Gathered, Rows};
use crate::trust::{Columns, Estimate, HeldOut};

/// What is known of a number of points that is far too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooFew {
    /// The number of parameters.
    pub parameters: usize,
    /// About how many points bring the estimate on fresh draws below 0.05 nats, from pursuit's path in a pool
    /// for many points; where no number that was tried does, so many a parameter that they usually do, and twice as many as there were.
    pub enough: usize,
}

/// What a search came to.
pub(super) struct Sought {
    pub(super) solution: Solution,
    pub(super) embedding: Description,
    pub(super) too_few: Option<TooFew>,
    pub(super) aim: Aim,
    /// What the held-out draws see of it; none of one that was stopped, which need not wait for them.
    pub(super) estimate: Option<Estimate>,
}

/// What a search was after: the sum of all rows in an embedding.
pub(super) struct Aim {
    recipe: Arc<Recipe>,
    sum: Vec<f64>,
}

impl Aim {
    /// ‖y − Φw‖ of these rows and weights, without a look at the others.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub(super) fn residual(
        &self,
        rows: &dyn Rows,
        ids: &[usize],
        weights: &[f64],
    ) -> Result<f64, BuildError> {
        let columns = among(rows, &self.recipe, ids)?;
        let weights = Weights::from_pairs(weights.iter().copied().enumerate());
        Ok(residual_norm(&Oracle::new(&columns), &self.sum, &weights)?)
    }
}

impl Sought {
    /// Becomes what one more pass found in another embedding, where that is better on the held-out draws, which see `nats`
    /// now.
    fn keep_better(
        &mut self,
        (found, embedding, aim): (Solution, Description, Aim),
        nats: f64,
        columns: &mut Columns<'_, '_>,
    ) -> Result<(), BuildError> {
        let passes = self.solution.passes + 1.0;
        if !found.status.is_natural() {
            self.solution.status = found.status;
        } else {
            let estimate = columns.estimate(&found.weights.ids, &found.weights.values)?;
            if estimate.nats() < nats {
                (self.embedding, self.aim, self.estimate) = (embedding, aim, Some(estimate));
                self.solution = Solution { iterations: self.solution.iterations + found.iterations, ..found };
            }
        }
        self.solution.passes = passes;
        Ok(())
    }
}

/// One build: rows, π̂, the embedding to begin with, draws that judge, and what is asked for.
pub(super) struct Need<'a, 'o> {
    pub(super) rows: &'a dyn Rows,
    pub(super) posterior: &'o Gaussian,
    pub(super) options: &'o BuildOptions,
    pub(super) embedding: Embedded<'a>,
    pub(super) judge: HeldOut<'a>,
}

impl<'a, 'o> Need<'a, 'o> {
    /// Embeds for `k` points. The judge, of so many draws, may use what the embedding has seen.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub(super) fn new(
        rows: &'a dyn Rows,
        posterior: &'o Gaussian,
        options: &'o BuildOptions,
        (k, draws): (usize, usize),
    ) -> Result<Self, BuildError> {
        let embedding = embed(rows, posterior, options.embedding, k, options.seed)?;
        let judge = HeldOut::with_draws(rows, posterior, options.seed, draws);
        let judge = judge.with_sketch(embedding.sketch())?;
        Ok(Self { rows, posterior, options, embedding, judge })
    }

    /// The embedding for another number of points.
    pub(super) fn embed(&self, k: usize) -> Result<Embedded<'a>, BuildError> {
        Ok(embed(self.rows, self.posterior, self.options.embedding, k, self.options.seed)?)
    }

    /// Chooses at most `k` points. `auto` goes on with a richer embedding where the estimate on the held-out draws is above
    /// what was asked for and well above the residual inside: y is one more pass, and the points are chosen among the rows whose
    /// columns were looked at and a sample that comes with y. The better of the two by the held-out draws is returned.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub(super) fn solve(
        &self,
        embedding: &Embedded<'_>,
        k: usize,
        callback: &mut Callback<'_>,
    ) -> Result<Sought, BuildError> {
        let options = self.options;
        let solver = Solver::new(embedding, options.settings(k)).callback(&mut *callback);
        let solution = solver.run(&self.first(embedding)?)?;
        let description = embedding.description().clone();
        let sum = Oracle::new(embedding).sum().map_err(sparse_nnls::Error::from)?.vector;
        let aim = Aim { recipe: Arc::clone(embedding.recipe()), sum };
        let mut sought = Sought { solution, embedding: description, too_few: None, aim, estimate: None };
        if sought.solution.status == Status::Stopped {
            return Ok(sought);
        }
        let weights = &sought.solution.weights;
        let estimate = self.judge.estimate(&weights.ids, &weights.values)?;
        sought.estimate = Some(estimate);
        let pursuit = matches!(options.method, Selector::Embedded(Method::Pursuit(_)));
        if !pursuit || !sought.solution.status.is_natural() {
            return Ok(sought);
        }
        let parameters = self.rows.dim();
        let mut columns = Columns::new(&self.judge);
        let nats = estimate.nats();
        if options.max_kl.is_none() && (k < parameters || nats > USELESS_NATS) {
            let usual = (POINTS_A_PARAMETER * parameters).max(2 * k).min(self.rows.len());
            let enough = self.enough(embedding, &sought.aim.sum, &mut columns)?.unwrap_or(usual);
            sought.too_few = Some(TooFew { parameters, enough });
            return Ok(sought);
        }
        let limited = nats > LIMITED * 0.5 * sought.solution.residual.powi(2);
        if options.embedding == Choice::Auto
            && limited
            && nats > self.asked()
            && let Some(recipe) = richer(embedding, self.posterior, k, options.seed)?
        {
            let from = &sought.solution.weights;
            let found = self.solve_among(&embedding.pool(), from, recipe, k, callback)?;
            sought.keep_better(found, nats, &mut columns)?;
        }
        Ok(sought)
    }

    /// The divergence that is good enough, in nats.
    fn asked(&self) -> f64 {
        self.options.max_kl.unwrap_or(GOOD_NATS)
    }

    /// The method in the first embedding. Where a richer one may follow, its last digits are worth nothing.
    fn first(&self, embedding: &Embedded<'_>) -> Result<Method, BuildError> {
        Ok(match *self.options.solver()? {
            Method::Pursuit(settings)
                if self.options.embedding == Choice::Auto && may_be_richer(embedding) =>
            {
                let residual = settings.residual.unwrap_or((2.0 * AS_GOOD_AS_NONE * self.asked()).sqrt());
                Method::Pursuit(Pursuit { residual: Some(residual), ..settings })
            }
            method => method,
        })
    }

    /// Goes on from a coreset among these rows and a fresh sample, toward the sum of all: one pass.
    fn solve_among(
        &self,
        known: &[usize],
        from: &Weights,
        recipe: Recipe,
        k: usize,
        callback: &mut Callback<'_>,
    ) -> Result<(Solution, Description, Aim), BuildError> {
        let recipe = Arc::new(recipe);
        let (target, pool) = self.widen(known, &recipe, k)?;
        let dictionary = among(self.rows, &recipe, &pool)?;
        let settings = self.options.settings(k.min(pool.len()));
        let solver = Solver::new(&dictionary, settings).target(&target).callback(callback);
        let found = match *self.options.solver()? {
            Method::Pursuit(pursuit) => {
                let place = |(id, weight): (&usize, &f64)| Some((pool.binary_search(id).ok()?, *weight));
                let from = Weights::from_pairs(from.ids.iter().zip(&from.values).filter_map(place));
                let method = Pursuit { pool: Some(pool.len()), ..pursuit }.resume(from);
                solver.run(&method)?
            }
            method => solver.run(&method)?,
        };
        let (name, coordinates) = (recipe.name(), recipe.coordinates());
        let description = Description { name, coordinates, tail: 0.0 };
        Ok((renamed(found, &pool), description, Aim { recipe, sum: target }))
    }

    /// The sum of all rows in an embedding, and the rows known with those of a sample that comes with it, ascending.
    fn widen(
        &self,
        known: &[usize],
        recipe: &Arc<Recipe>,
        k: usize,
    ) -> Result<(Vec<f64>, Vec<usize>), BuildError> {
        let count = (FRESH * Pursuit::default().first_pool(k) as f64) as usize;
        let ask = Gather { recipe: Arc::clone(recipe), seed: self.options.seed, count, apart: 0 };
        let Gathered { sum, sample, .. } = self.rows.gather(&ask)?;
        let mut pool = [known, &sample.ids].concat();
        pool.sort_unstable();
        pool.dedup();
        Ok((sum, pool))
    }

    /// The fewest points that are fine by the held-out draws, on the path of a plain pursuit in the first pool; where that is too
    /// small, in one for many points, which is a pass.
    fn enough(
        &self,
        embedding: &Embedded<'_>,
        target: &[f64],
        columns: &mut Columns<'_, '_>,
    ) -> Result<Option<usize>, BuildError> {
        let most = TRIED_A_PARAMETER * self.rows.dim();
        let (seed, at_hand) = (self.options.seed, Pursuit::default().first_pool(self.options.k));
        let mut pool: Vec<usize> = if at_hand as f64 >= ROOMY * most as f64 {
            let known = Oracle::new(embedding).gather(seed, at_hand.min(embedding.len()));
            known.map_err(sparse_nnls::Error::from)?.sample.iter().map(|candidate| candidate.id).collect()
        } else {
            let (recipe, count) = (Arc::clone(embedding.recipe()), Pursuit::default().first_pool(most));
            self.rows.gather(&Gather { recipe, seed, count, apart: 0 })?.sample.ids
        };
        pool.sort_unstable();
        let dictionary = among(self.rows, embedding.recipe(), &pool)?;
        let method =
            Method::Pursuit(Pursuit { overshoot: Some(0.0), refine_share: 0.0, ..Pursuit::default() });
        let k = most.clamp(self.options.k, self.options.k.max(pool.len()));
        let settings = Settings { k: k.min(pool.len()), seed: self.options.seed, ..Settings::default() };
        let path = renamed(Solver::new(&dictionary, settings).target(target).run(&method)?, &pool).path;
        for point in path {
            if columns.estimate(&point.weights.ids, &point.weights.values)?.nats() <= FINE_NATS {
                return Ok(Some(point.weights.len()));
            }
        }
        Ok(None)
    }
}

/// The columns of these rows, held.
fn among(rows: &dyn Rows, recipe: &Recipe, pool: &[usize]) -> Result<Dense<f64>, BuildError> {
    let model = rows.bind(rows.fetch(pool)?).map_err(crate::rows::RowsError::from)?;
    Ok(Dense::new(recipe.columns(&model)?, recipe.coordinates())?)
}

/// The same with the rows that the columns of a pool are of.
fn renamed(solution: Solution, pool: &[usize]) -> Solution {
    let rename = |mut point: PathPoint| {
        point.weights.ids.iter_mut().for_each(|id| *id = pool[*id]);
        point
    };
    let mut weights = solution.weights;
    weights.ids.iter_mut().for_each(|id| *id = pool[*id]);
    Solution { weights, path: solution.path.into_iter().map(rename).collect(), ..solution }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::generate;
    use crate::model::Logistic;
    use crate::posterior::{LaplaceSettings, Prior, laplace};
    use crate::rows::{All, Memory};

    /// Order 2 has nine coordinates of three parameters, and so nothing to do for more than nine points: what it leaves over is
    /// found among the rows it looked at and a sample.
    #[test]
    fn a_richer_embedding_goes_on_among_more_rows() {
        let model = Logistic::model(generate::logistic_paper(3000, 1)).unwrap();
        let rows = Memory::new(Arc::new(model));
        let prior = Prior::isotropic(3, 1.0).unwrap();
        let fit = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
        let options = BuildOptions { k: 40, embedding: Choice::Hermite(2), ..BuildOptions::default() };
        let need = Need::new(&rows, &fit.posterior, &options, (40, 1000)).unwrap();
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let mut sought = need.solve(&need.embedding, 40, go_on).unwrap();
        assert!(sought.solution.weights.len() <= 9 && sought.too_few.is_none());
        let mut columns = Columns::new(&need.judge);
        let before = sought.estimate.unwrap().nats();
        let passes = sought.solution.passes;
        let recipe = richer(&need.embedding, &fit.posterior, 40, 0).unwrap().unwrap();
        let known = need.embedding.pool();
        let (_, pool) = need.widen(&known, &Arc::new(recipe.clone()), 40).unwrap();
        assert!(pool.len() > known.len() && pool.is_sorted_by(|a, b| a < b));
        assert!(known.iter().all(|id| pool.binary_search(id).is_ok()));
        let found = need.solve_among(&known, &sought.solution.weights, recipe, 40, go_on).unwrap();
        sought.keep_better(found, before, &mut columns).unwrap();
        let after = sought.estimate.unwrap().nats();
        assert!(after < 0.01 * before, "{after} {before}");
        assert_eq!(sought.embedding.name, "hermite:2+draws:500");
        assert_eq!(sought.solution.passes, passes + 1.0);
        assert!(sought.solution.weights.ids.iter().all(|id| pool.binary_search(id).is_ok()));
        assert!(sought.solution.weights.len() <= 40);
    }
}
