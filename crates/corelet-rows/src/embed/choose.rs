//! Which embedding: the rule behind `auto`.

use std::sync::Arc;

use sparse_nnls::Pursuit;

use super::hermite::coordinates;
use super::{Choice, EmbedError, Embedded, Embedding, Recipe};
use crate::model::Shifts;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::Rows;

/// The largest number of coordinates that `auto` chooses: a pool of 1000 columns then takes 48 MB, and a pass over a million rows
/// about a tenth of a second on two cores. It admits order 3 up to D = 31 and order 2 up to D = 108.
const MOST_COORDINATES: usize = 6000;

/// A part of the full log-likelihood that is below this, in nats, need not be matched by any coreset.
const NEGLIGIBLE: f64 = 1e-6;

/// Number of rows that decide whether a likelihood is quadratic.
const SAMPLE: usize = 1000;

/// Draws that are taken unasked: four a point, but at least and at most so many. Beyond, what draws miss is small beside
/// what a coreset of a thousand points does, and a pass only takes longer.
const FEWEST_DRAWS: usize = 500;
const MOST_DRAWS: usize = 4000;

/// Passes over all rows that a pursuit is reckoned at; most make fewer.
const PASSES: f64 = 8.0;

/// The cost of a draw in a pass, in multiply-adds: a log-likelihood, compared with one product for a coordinate.
const DRAW: f64 = 10.0;

/// Multiply-adds of a pursuit that takes a few tenths of a second, whatever the embedding.
const CHEAP: f64 = 3e9;

/// Embeds rows under π̂. `k` is the number of points; the default number of draws depends on it.
///
/// For a model with a linear predictor, `auto` takes
/// 1. order 2 if ℓ‴ = 0, because nothing is dropped;
/// 2. else the rich embedding if it costs little: order 3 if it has at most 6000 coordinates (D ≤ 31), and either
///    at least 2k of them or a tail of less than 10⁻⁶ nats (with as many points as coordinates it is exact, so near that
///    number more points would gain nothing); else order 2 with draws of the remainder;
/// 3. else order 2 if it has at most 6000 coordinates (D ≤ 108): the held-out draws tell whether that is enough, and
///    [`richer`] continues otherwise;
/// 4. else draws;
///
/// A model with several predictors per row has no order 3. For it `auto` takes order 2 with draws if that
/// costs little, else order 2, else draws.
///
/// The Gaussian mean has its own exact embedding, whatever order is requested.
///
/// # Errors
/// See [`EmbedError`].
pub fn embed<'a>(
    rows: &'a dyn Rows,
    posterior: &Gaussian,
    choice: Choice,
    k: usize,
    seed: u64,
) -> Result<Embedded<'a>, EmbedError> {
    let recipes = Recipes::new(posterior, choice, k, seed)?;
    if let Choice::Hermite(order) = choice
        && !(1..=3).contains(&order)
    {
        return Err(EmbedError::Order { order });
    }
    let sample = Pursuit::default().first_pool(k);
    let made = |recipe| Embedded::sampled(rows, recipe, seed, sample);
    let kind = Kind::of(rows, posterior)?;
    match (choice, kind) {
        (Choice::Draws(_), _) | (Choice::Auto, Kind::Other) => made(recipes.draws()),
        (_, Kind::Other) => Err(EmbedError::NoLinearPredictor { model: rows.name() }),
        (_, Kind::GaussianMean) => made(Recipe::GaussianMean { posterior: recipes.posterior }),
        (Choice::Hermite(order), _) => made(recipes.hermite(order)),
        (Choice::HermiteDraws(_), _) => made(recipes.both()),
        (Choice::Auto, _) if recipes.size(2) > MOST_COORDINATES => made(recipes.draws()),
        (Choice::Auto, Kind::Linear { quadratic: true }) => made(recipes.hermite(2)),
        (Choice::Auto, Kind::Linear { quadratic: false }) => {
            let n = rows.len();
            if recipes.size(3) <= MOST_COORDINATES && recipes.work(n, recipes.size(3), 0) <= CHEAP {
                let third = made(recipes.hermite(3))?;
                if 2 * k <= recipes.size(3) || third.description().tail <= NEGLIGIBLE {
                    return Ok(third);
                }
            }
            made(recipes.second(n))
        }
        (Choice::Auto, Kind::Joint) => made(recipes.second(rows.len())),
    }
}

/// What rows are chosen by beside a Gaussian, which has the orders 1 and 2: the remainders beyond them. Of one predictor a row and few
/// parameters order 3 exactly, where that has at most 6000 coordinates (D ≤ 31); else draws of the remainders, whose number does not grow
/// with D.
///
/// # Errors
/// See [`EmbedError`].
pub fn beyond_order_two(
    rows: &dyn Rows,
    posterior: &Gaussian,
    k: usize,
    seed: u64,
) -> Result<Recipe, EmbedError> {
    let recipes = Recipes::new(posterior, Choice::Auto, k, seed)?;
    let one_predictor = matches!(Kind::of(rows, posterior)?, Kind::Linear { .. });
    let posterior = Arc::clone(&recipes.posterior);
    Ok(if one_predictor && recipes.size(3) <= MOST_COORDINATES {
        Recipe::Third { posterior }
    } else {
        Recipe::Remainder { posterior, shifts: recipes.shifts() }
    })
}

/// Whether an embedding is one that `auto` may go on from: order 2, and more than nothing dropped.
pub fn may_be_richer(embedding: &Embedded<'_>) -> bool {
    matches!(**embedding.recipe(), Recipe::Hermite { order: 2, .. }) && embedding.description().tail > 0.0
}

/// The embedding with which `auto` continues for `k` points if order 2 limits the accuracy; none if there is nothing better.
///
/// # Errors
/// See [`EmbedError`].
pub fn richer(
    embedding: &Embedded<'_>,
    posterior: &Gaussian,
    k: usize,
    seed: u64,
) -> Result<Option<Recipe>, EmbedError> {
    if !may_be_richer(embedding) {
        return Ok(None);
    }
    let recipes = Recipes::new(posterior, Choice::Auto, k, seed)?;
    let one_predictor = Kind::of(embedding.rows(), posterior)? != Kind::Joint;
    let third = one_predictor && recipes.size(3) <= MOST_COORDINATES && 2 * k <= recipes.size(3);
    Ok(Some(if third { recipes.hermite(3) } else { recipes.both() }))
}

/// The recipes under one π̂ for one number of points.
struct Recipes {
    posterior: Arc<Gaussian>,
    k: usize,
    count: usize,
    seed: u64,
}

impl Recipes {
    fn new(posterior: &Gaussian, choice: Choice, k: usize, seed: u64) -> Result<Self, EmbedError> {
        let count = match choice {
            Choice::Draws(count) | Choice::HermiteDraws(count) => count,
            _ => (4 * k).clamp(FEWEST_DRAWS, MOST_DRAWS),
        };
        if count < 2 {
            return Err(EmbedError::TooFewDraws { count });
        }
        Ok(Self { posterior: Arc::new(posterior.clone()), k, count, seed })
    }

    fn size(&self, order: usize) -> usize {
        coordinates(self.posterior.dim(), order)
    }

    fn shifts(&self) -> Shifts {
        self.posterior.shifts(self.count, self.seed, Stream::Build)
    }

    fn draws(&self) -> Recipe {
        Recipe::Draws { anchor: self.posterior.mean.clone(), shifts: self.shifts() }
    }

    fn hermite(&self, order: usize) -> Recipe {
        Recipe::Hermite { posterior: Arc::clone(&self.posterior), order }
    }

    /// Order 2 of `n` rows, with draws where these cost little.
    fn second(&self, n: usize) -> Recipe {
        let rich = self.work(n, self.size(2), self.count) <= CHEAP;
        if rich { self.both() } else { self.hermite(2) }
    }

    fn both(&self) -> Recipe {
        Recipe::HermiteDraws { posterior: Arc::clone(&self.posterior), shifts: self.shifts() }
    }

    /// Multiply-adds of a pursuit among `n` rows: its passes, and the inner products of its pool.
    fn work(&self, n: usize, exact: usize, draws: usize) -> f64 {
        let pool = n.min(1000.max(2 * self.k)) as f64;
        let (exact, draws) = (exact as f64, draws as f64);
        PASSES * n as f64 * (exact + DRAW * draws) + 0.5 * pool * pool * (exact + draws)
    }
}

/// The properties of a model on which its embedding depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    GaussianMean,
    /// θ enters through a linear predictor; whether ℓ‴ = 0 on evenly spaced rows.
    Linear {
        quadratic: bool,
    },
    /// θ enters through several predictors a row.
    Joint,
    Other,
}

impl Kind {
    fn of(rows: &dyn Rows, posterior: &Gaussian) -> Result<Self, EmbedError> {
        let ids: Vec<usize> = (0..rows.len()).step_by(rows.len().div_ceil(SAMPLE).max(1)).collect();
        let model = rows.bind(rows.fetch(&ids)?).map_err(crate::rows::RowsError::from)?;
        if model.gaussian_mean().is_some() {
            return Ok(Self::GaussianMean);
        }
        if model.joint().is_some() {
            return Ok(Self::Joint);
        }
        let Some(linear) = model.linear() else { return Ok(Self::Other) };
        let quadratic = (0..model.len()).all(|i| linear.derivatives(i, &posterior.mean)[2] == 0.0);
        Ok(Self::Linear { quadratic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::row_major;

    fn recipes(dim: usize, k: usize) -> Recipes {
        let identity = row_major(dim, |i, j| f64::from(u8::from(i == j)));
        let posterior = Gaussian::from_precision(vec![0.0; dim], identity).unwrap();
        Recipes::new(&posterior, Choice::Auto, k, 0).unwrap()
    }

    #[test]
    fn a_pursuit_is_reckoned_at_its_passes_and_the_products_of_its_pool() {
        // 8 passes over 10 rows of 3 coordinates and 2 draws, a draw as 10 coordinates; half of 10 × 10 products of 5 numbers.
        assert_eq!(recipes(2, 5).work(10, 3, 2), 8.0 * 10.0 * 23.0 + 50.0 * 5.0);
        // Of many rows 1000 are in the pool, or two for each point.
        for (k, pool) in [(5, 1000.0), (900, 1800.0)] {
            let work = recipes(2, k).work(5000, 3, 0);
            assert_eq!(work, 8.0 * 5000.0 * 3.0 + 0.5 * pool * pool * 3.0, "k = {k}");
        }
    }

    #[test]
    fn the_rich_embedding_is_given_up_once_as_rows_grow_and_sooner_with_more_parameters() {
        let rich_up_to = |dim: usize| {
            let recipes = recipes(dim, 100);
            let rich = |power: u32| matches!(recipes.second(1 << power), Recipe::HermiteDraws { .. });
            let answers: Vec<bool> = (4..27).map(rich).collect();
            assert!(answers[0] && !answers[22] && answers.is_sorted_by(|a, b| a >= b), "{dim}: {answers:?}");
            answers.iter().filter(|rich| **rich).count()
        };
        let limits = [2, 30, 100].map(rich_up_to);
        assert!(limits.is_sorted_by(|a, b| a >= b) && limits[2] < limits[0], "{limits:?}");
    }
}
