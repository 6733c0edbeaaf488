//! Which order, if any: the rule behind `--embedding auto`.

use super::tensor::coordinates;
use super::{GaussianExact, Hermite};
use crate::embed::{Choice, EmbedError, Embedding};
use crate::laplace::Gaussian;
use crate::linalg::dot;
use crate::model::{LinearPredictor, Model};

/// Most coordinates that are chosen unasked: a pool of 1000 columns then takes 48 MB, and a pass over a million rows
/// about a tenth of a second on two cores. It admits order 3 up to D = 31 and order 2 up to D = 108.
const MOST_COORDINATES: usize = 6000;

/// Rows looked at to see whether a likelihood is quadratic.
const SAMPLE: usize = 1000;

/// The Hermite embedding that `choice` asks for, or `None` where draws should be used.
///
/// `auto` takes, of a model with a linear predictor,
/// 1. order 2 where ℓ‴ = 0, since nothing is dropped;
/// 2. else order 3, where it has at most 6000 coordinates (D ≤ 31): a coreset of order 2 can be no better than the
///    third-order part of L − L_w, and is exact, with nothing left to gain, at as many points as coordinates;
/// 3. else order 2, where it has at most 6000 coordinates (D ≤ 108) and at least k: past that, more points would
///    change nothing;
/// 4. else draws.
///
/// The Gaussian mean has its own exact embedding, whatever the order asked for.
pub(in crate::embed) fn embed<'a>(
    model: &'a dyn Model,
    posterior: &'a Gaussian,
    choice: Choice,
    k: usize,
) -> Result<Option<Box<dyn Embedding + 'a>>, EmbedError> {
    if !matches!(choice, Choice::Draws(_))
        && let Some(gaussian) = model.gaussian_mean()
    {
        return Ok(Some(Box::new(GaussianExact::new(gaussian, posterior)?)));
    }
    let order = match (choice, model.linear()) {
        (Choice::Draws(_), _) | (Choice::Auto, None) => None,
        (Choice::Auto, Some(linear)) => order(&linear, posterior, k),
        (Choice::Hermite(order), _) => Some(order),
    };
    let Some(order) = order else { return Ok(None) };
    let linear = model.linear().ok_or(EmbedError::NoLinearPredictor { model: model.name() })?;
    Ok(Some(Box::new(Hermite::new(linear, posterior, order)?)))
}

/// The order that `auto` takes, `None` for draws.
fn order(model: &LinearPredictor<'_>, posterior: &Gaussian, k: usize) -> Option<usize> {
    let size = |order| coordinates(posterior.dim(), order);
    if is_quadratic(model, posterior) {
        return (size(2) <= MOST_COORDINATES).then_some(2);
    }
    match (size(3) <= MOST_COORDINATES, size(2) <= MOST_COORDINATES && k <= size(2)) {
        (true, _) => Some(3),
        (false, true) => Some(2),
        (false, false) => None,
    }
}

/// Whether ℓ‴ = 0 on evenly spaced rows.
fn is_quadratic(model: &LinearPredictor<'_>, posterior: &Gaussian) -> bool {
    let n = model.observations.len();
    (0..n).step_by(n.div_ceil(SAMPLE).max(1)).all(|i| {
        let (y, exposure) = model.target(i);
        let eta = dot(model.observations.row(i), &posterior.mean);
        model.family.derivatives(eta, y, exposure)[2] == 0.0
    })
}
