//! Which embedding: the rule behind `auto`.

use std::sync::Arc;

use super::hermite::coordinates;
use super::{Choice, EmbedError, Embedded, Embedding, Recipe};
use crate::linalg::dot_features;
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::Rows;

/// Most coordinates that are chosen unasked: a pool of 1000 columns then takes 48 MB, and a pass over a million rows
/// about a tenth of a second on two cores. It admits order 3 up to D = 31 and order 2 up to D = 108.
const MOST_COORDINATES: usize = 6000;

/// A part of the full log-likelihood that is below this, in nats, need not be matched by any coreset.
const NEGLIGIBLE: f64 = 1e-6;

/// Rows looked at to see whether a likelihood is quadratic.
const SAMPLE: usize = 1000;

/// Draws that are taken unasked: four a point, but at least and at most so many. Beyond, what draws miss is small beside
/// what a coreset of a thousand points does, and a pass only takes longer.
const FEWEST_DRAWS: usize = 500;
const MOST_DRAWS: usize = 4000;

/// Embeds rows under π̂. `k` is the number of points wanted, on which the default number of draws depends.
///
/// `auto` takes, of a model with a linear predictor,
/// 1. order 2 where ℓ‴ = 0, since nothing is dropped;
/// 2. else order 3, where it has at most 6000 coordinates (D ≤ 31), and either at least 2k of them or a tail of less
///    than 10⁻⁶ nats: as many points as coordinates are exact in it, so that near it more points would gain nothing;
/// 3. else order 2, where it has at most 6000 coordinates (D ≤ 108), with draws on what it leaves over;
/// 4. else draws.
///
/// The Gaussian mean has its own exact embedding, whatever the order asked for.
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
    let count = match choice {
        Choice::Draws(count) | Choice::HermiteDraws(count) => count,
        _ => (4 * k).clamp(FEWEST_DRAWS, MOST_DRAWS),
    };
    if count < 2 {
        return Err(EmbedError::TooFewDraws { count });
    }
    if let Choice::Hermite(order) = choice
        && !(1..=3).contains(&order)
    {
        return Err(EmbedError::Order { order });
    }
    let made = |recipe| Embedded::new(rows, recipe);
    let shared = Arc::new(posterior.clone());
    let shifts = || posterior.shifts(count, seed, Stream::Build);
    let draws = || Recipe::Draws { anchor: posterior.mean.clone(), shifts: shifts() };
    let hermite = |order| Recipe::Hermite { posterior: Arc::clone(&shared), order };
    let both = || Recipe::HermiteDraws { posterior: Arc::clone(&shared), shifts: shifts() };
    let kind = Kind::of(rows, posterior)?;
    let size = |order| coordinates(posterior.dim(), order);
    match (choice, kind) {
        (Choice::Draws(_), _) | (Choice::Auto, Kind::Other) => made(draws()),
        (_, Kind::Other) => Err(EmbedError::NoLinearPredictor { model: rows.name() }),
        (_, Kind::GaussianMean) => made(Recipe::GaussianMean { posterior: shared }),
        (Choice::Hermite(order), _) => made(hermite(order)),
        (Choice::HermiteDraws(_), _) => made(both()),
        (Choice::Auto, _) if size(2) > MOST_COORDINATES => made(draws()),
        (Choice::Auto, Kind::Linear { quadratic: true }) => made(hermite(2)),
        (Choice::Auto, Kind::Linear { quadratic: false }) => {
            if size(3) <= MOST_COORDINATES {
                let third = made(hermite(3))?;
                if 2 * k <= size(3) || third.description().tail <= NEGLIGIBLE {
                    return Ok(third);
                }
            }
            made(both())
        }
    }
}

/// What the embedding of a model depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    GaussianMean,
    /// θ enters through a linear predictor; whether ℓ‴ = 0 on evenly spaced rows.
    Linear {
        quadratic: bool,
    },
    Other,
}

impl Kind {
    fn of(rows: &dyn Rows, posterior: &Gaussian) -> Result<Self, EmbedError> {
        let ids: Vec<usize> = (0..rows.len()).step_by(rows.len().div_ceil(SAMPLE).max(1)).collect();
        let model = rows.bind(rows.fetch(&ids)?).map_err(crate::rows::RowsError::from)?;
        if model.gaussian_mean().is_some() {
            return Ok(Self::GaussianMean);
        }
        let Some(linear) = model.linear() else { return Ok(Self::Other) };
        let quadratic = (0..model.len()).all(|i| {
            let (y, exposure) = linear.target(i);
            let eta = dot_features(linear.observations.row(i), &posterior.mean);
            linear.family.derivatives(eta, y, exposure)[2] == 0.0
        });
        Ok(Self::Linear { quadratic })
    }
}
