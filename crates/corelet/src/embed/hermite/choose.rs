//! Which order, if any: the rule behind `--embedding auto`.

use super::Hermite;
use super::tensor::coordinates;
use crate::embed::{Choice, Draws, EmbedError, Embedding, Stacked, Stream, paper};
use crate::laplace::Gaussian;
use crate::linalg::dot;
use crate::model::{LinearPredictor, Model};

/// Most coordinates that are chosen unasked: a pool of 1000 columns then takes 48 MB, and a pass over a million rows
/// about a tenth of a second on two cores. It admits order 3 up to D = 31 and order 2 up to D = 108.
const MOST_COORDINATES: usize = 6000;

/// A part of the full log-likelihood that is below this, in nats, need not be matched by any coreset.
const NEGLIGIBLE: f64 = 1e-6;

/// Rows looked at to see whether a likelihood is quadratic.
const SAMPLE: usize = 1000;

/// The Hermite embedding that `choice` asks for, or `None` where draws should be used.
///
/// `auto` takes, of a model with a linear predictor,
/// 1. order 2 where ℓ‴ = 0, since nothing is dropped;
/// 2. else order 3, where it has at most 6000 coordinates (D ≤ 31), and either at least 2k of them or a tail of less
///    than 10⁻⁶ nats: as many points as coordinates are exact in it, so that near it more points would gain nothing;
/// 3. else order 2, where it has at most 6000 coordinates (D ≤ 108), with `draws` draws on what it leaves over;
/// 4. else draws.
///
/// The Gaussian mean has its own exact embedding, whatever the order asked for.
pub(in crate::embed) fn embed<'a>(
    model: &'a dyn Model,
    posterior: &'a Gaussian,
    choice: Choice,
    k: usize,
    draws: usize,
    seed: u64,
) -> Result<Option<Box<dyn Embedding + 'a>>, EmbedError> {
    if matches!(choice, Choice::Draws(_)) {
        return Ok(None);
    }
    if let Some(gaussian) = model.gaussian_mean() {
        return Ok(Some(Box::new(paper::gaussian_exact(gaussian, posterior)?)));
    }
    let Some(linear) = model.linear() else {
        return if choice == Choice::Auto {
            Ok(None)
        } else {
            Err(EmbedError::NoLinearPredictor { model: model.name() })
        };
    };
    let hermite = |order| Hermite::new(linear, posterior, order);
    let size = |order| coordinates(posterior.dim(), order);
    Ok(Some(match choice {
        Choice::Hermite(order) => Box::new(hermite(order)?),
        Choice::HermiteDraws(_) => Box::new(with_draws(model, posterior, hermite(2)?, draws, seed)?),
        _ if size(2) > MOST_COORDINATES => return Ok(None),
        _ if is_quadratic(&linear, posterior) => Box::new(hermite(2)?),
        _ => {
            if size(3) <= MOST_COORDINATES {
                let third = hermite(3)?;
                if 2 * k <= size(3) || third.description().tail <= NEGLIGIBLE {
                    return Ok(Some(Box::new(third)));
                }
            }
            Box::new(with_draws(model, posterior, hermite(2)?, draws, seed)?)
        }
    }))
}

/// The orders of `hermite`, which must be 2, above draws on the remainder, which is orthogonal to them.
fn with_draws<'a>(
    model: &'a dyn Model,
    posterior: &'a Gaussian,
    hermite: Hermite<'a>,
    draws: usize,
    seed: u64,
) -> Result<Stacked<Hermite<'a>, Draws<'a>>, EmbedError> {
    let polynomials = hermite.polynomials();
    let rest = Draws::remainder(model, posterior, draws, seed, Stream::Build, polynomials)?;
    Stacked::new(hermite, rest)
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
