//! k rows and one Gaussian: a Gaussian factor represents the quadratic part of the log-likelihood, and rows represent the remainder.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Method, PathPoint, Pursuit, Solver, Status};

use super::build::Callback;
use super::policy::{
    AFFORDABLE, AS_IT_IS, ENOUGH, ENOUGH_FOR_MANY, MOST_BY_ROWS, MOST_PROJECTIONS, STILL, WORTH,
};
use super::rounds::build_of_rows;
use super::{BuildError, BuildOptions, Built, Coreset, EmbeddedFit, Multiples, Round, RoundOptions};
use crate::embed::{Description, Embedded, Embedding, beyond_order_two};
use crate::linalg::{
    Cholesky, congruence, power_of_two_below, quadratic_form, row_major, symmetric_eigenvalues, to_multiple,
};
use crate::posterior::Gaussian;
use crate::random::Stream;
use crate::rows::{LogLikelihood, Newton, Problem, Rest, RowsError, Under, Weighted};
use crate::trust::{Draws, VerdictError, affordable_draws, variances};

/// Whether a Gaussian factor accompanies the rows of a coreset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RestChoice {
    /// Rows alone.
    #[default]
    None,
    /// A Gaussian factor, and rows only for the remainder.
    Gaussian,
    /// Whichever has the smaller divergence at this number of rows.
    Auto,
}

impl RestChoice {
    /// How many held-out draws a coreset of so many rows and parameters is judged on: of many parameters fewer where a Gaussian carries these.
    pub(crate) fn held_out_draws(self, rows: usize, dim: usize) -> usize {
        match self {
            Self::None => affordable_draws(rows, dim),
            _ => judging_draws(rows, dim),
        }
    }
}

impl fmt::Display for RestChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gaussian => "gaussian",
            Self::Auto => "auto",
        })
    }
}

/// How many draws a coreset with a Gaussian is judged on while it is built.
fn judging_draws(rows: usize, dim: usize) -> usize {
    let worth = AFFORDABLE / (rows.max(1) * dim.max(1)) as f64;
    affordable_draws(rows, dim).min((worth as usize).clamp(250, 1000))
}

/// Builds a coreset according to `options.rest`, see [`RestChoice`]. With `auto` and k of at least D(D + 3)/2, the number of coordinates of orders 1
/// and 2, rows alone are tried first; with a smaller k the Gaussian factor is tried first.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn build_with_rest(
    problem: Problem<'_>,
    posterior: &Gaussian,
    draws: usize,
    options: &BuildOptions,
    rounds: &RoundOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    let dim = problem.rows.dim();
    let builder = Builder { problem, options };
    let alone = BuildOptions { rest: RestChoice::None, ..options.clone() };
    let by_rows =
        |callback: &mut Callback<'_>| build_of_rows(problem, posterior, draws, &alone, rounds, callback);
    let both = options.rest == RestChoice::Auto && options.k > 0;
    if both && options.k >= dim * (dim + 3) / 2 {
        let rows = by_rows(callback)?;
        let little = rows.estimate.is_some_and(|estimate| 2.0 * estimate.nats() <= ENOUGH);
        if rows.coreset.status == Status::Stopped || little {
            return Ok(rows);
        }
        return match builder.build(posterior, callback) {
            Ok((with_rest, variance)) if variance < builder.variance_of(&rows)? => Ok(with_rest),
            Ok(_) | Err(BuildError::NoGaussian) => Ok(rows),
            Err(error) => Err(error),
        };
    }
    let (with_rest, variance) = match builder.build(posterior, callback) {
        Err(BuildError::NoGaussian) if both => return by_rows(callback),
        built => built?,
    };
    let hopeless = dim > MOST_BY_ROWS || options.k < 2 * dim;
    if !both || hopeless || variance <= ENOUGH || with_rest.coreset.status == Status::Stopped {
        return Ok(with_rest);
    }
    let rows = by_rows(callback)?;
    Ok(if builder.variance_of(&rows)? < variance { rows } else { with_rest })
}

/// The Gaussian of all rows, projected under π̂.
struct Projected {
    rest: Arc<Rest>,
    /// Directions that the data do not determine.
    undetermined: usize,
    /// The π̂ of the projection.
    under: Gaussian,
    /// Its own posterior.
    fit: Gaussian,
}

struct Builder<'a> {
    problem: Problem<'a>,
    options: &'a BuildOptions,
}

impl Builder<'_> {
    /// The Gaussian first, judged, and rows where V asks for them; with V.
    fn build(&self, start: &Gaussian, callback: &mut Callback<'_>) -> Result<(Built, f64), BuildError> {
        let projected = self.project(start)?;
        let points = Weighted::of_rest(Arc::clone(&projected.rest));
        let variance = self.variance(&points, &projected.fit)?;
        let mut rounds = vec![Round { points: 0, variance: finite(variance) }];
        let alone = self.gaussian_alone(&projected, variance);
        let usual = if self.rows_could() { ENOUGH } else { ENOUGH_FOR_MANY };
        let enough = self.options.enough.unwrap_or(usual);
        let built = |coreset, rounds: Vec<Round>| {
            let (chosen, posterior) = (rounds.len() - 1, Some(projected.under.clone()));
            Built { coreset, groups: None, posterior, estimate: None, rounds, chosen }
        };
        if self.options.k == 0 || variance <= enough {
            return Ok((built(alone, rounds), variance));
        }
        let (coreset, with_rows) = self.with_rows(&projected, callback)?;
        if coreset.status == Status::Stopped || with_rows >= WORTH * variance {
            let status = if coreset.status == Status::Stopped { Status::Stopped } else { alone.status };
            return Ok((built(Coreset { status, ..alone }, rounds), variance));
        }
        rounds.push(Round { points: coreset.rows.len(), variance: finite(with_rows) });
        Ok((built(coreset, rounds), with_rows))
    }

    /// Whether rows could carry the parameters by themselves.
    fn rows_could(&self) -> bool {
        let dim = self.problem.rows.dim();
        dim <= MOST_BY_ROWS && self.options.k >= 2 * dim
    }

    /// Projects under π̂, then under the posterior of that, and so on, until its mean stays where it is: Newton steps whose derivatives are
    /// means.
    fn project(&self, start: &Gaussian) -> Result<Projected, BuildError> {
        let Problem { rows, prior } = self.problem;
        let mut under = start.clone();
        let mut left = MOST_PROJECTIONS;
        loop {
            let (gradient, hessian) = rounded(&rows.expect(&Under::from(&under))?, &under);
            let (rest, undetermined) =
                Rest::of(&under, gradient, hessian).map_err(|_| BuildError::NoGaussian)?;
            let fit = if prior.is_gaussian() {
                rest.posterior(prior).map_err(|_| BuildError::NoGaussian)?
            } else {
                let fit = Weighted::of_rest(Arc::new(rest.clone())).fit(prior);
                fit.map_err(|_| BuildError::NoGaussian)?.posterior
            };
            left -= 1;
            let step: Vec<f64> = fit.mean.iter().zip(&under.mean).map(|(a, b)| a - b).collect();
            let moved = (quadratic_form(&under.precision, &step) / step.len() as f64).sqrt();
            if moved <= STILL || left == 0 {
                return Ok(Projected { rest: Arc::new(rest), undetermined, under, fit });
            }
            under = fit.rounded();
        }
    }

    /// V of weighted rows and a Gaussian by draws of their Gaussian fit; infinite if it cannot be told.
    fn variance(&self, points: &Weighted, fit: &Gaussian) -> Result<f64, BuildError> {
        Ok(self.variances(&[(points.clone(), fit.clone())])?.first().copied().unwrap_or(f64::INFINITY))
    }

    /// The same of several, from one pass.
    fn variances(&self, fitted: &[(Weighted, Gaussian)]) -> Result<Vec<f64>, BuildError> {
        let Problem { rows, prior } = self.problem;
        let (count, seed) = (judging_draws(rows.len(), rows.dim()), self.options.seed);
        let draw = |(points, fit): &(Weighted, Gaussian)| -> Result<Draws, RowsError> {
            if !(prior.is_gaussian() && points.quadratic().is_some()) {
                return Draws::from_gaussian(points, prior, fit, count, seed);
            }
            let shifts = fit.shifts(count, seed, Stream::Verdict);
            let draw = |s: usize| fit.mean.iter().zip(shifts.row(s)).map(|(mean, shift)| mean + shift);
            let theta = (0..count).flat_map(draw).collect();
            Ok(Draws { theta, dim: fit.dim(), chains: None, log_weights: None })
        };
        let draws = fitted.iter().map(draw).collect::<Result<Vec<Draws>, _>>()?;
        let judged: Vec<(&Weighted, &Draws)> = fitted.iter().map(|(points, _)| points).zip(&draws).collect();
        match variances(None, rows, &judged) {
            Ok(variances) => Ok(variances),
            Err(VerdictError::Rows(error)) => Err(error.into()),
            Err(_) => Ok(vec![f64::INFINITY; fitted.len()]),
        }
    }

    /// V of a coreset of rows alone.
    fn variance_of(&self, built: &Built) -> Result<f64, BuildError> {
        let Coreset { rows, weights, .. } = &built.coreset;
        let points = Weighted::fetch(self.problem.rows, rows, weights)?;
        match points.fit(self.problem.prior) {
            Ok(fit) => self.variance(&points, &fit.posterior),
            Err(_) => Ok(f64::INFINITY),
        }
    }

    fn gaussian_alone(&self, projected: &Projected, variance: f64) -> Coreset {
        let embedding = Description { name: "gaussian".to_owned(), coordinates: 0, tail: 0.0 };
        Coreset {
            rows: Vec::new(),
            weights: Multiples::default(),
            k: self.options.k,
            method: "gaussian".to_owned(),
            fit: EmbeddedFit { embedding, residual: variance.sqrt(), target_norm: 0.0, path: Vec::new() },
            status: Status::Completed,
            iterations: 0,
            passes: 0.0,
            reached: None,
            too_few: None,
            groups: None,
            rest: Some(Arc::clone(&projected.rest)),
            undetermined: projected.undetermined,
        }
    }

    /// Rows whose remainders beyond order 2 add up to those of all, and the Gaussian of what they leave over; with V.
    ///
    /// Where the weights of k points must be held back for A ⪯ 0, half and a quarter of them are tried too, and V decides.
    fn with_rows(
        &self,
        projected: &Projected,
        callback: &mut Callback<'_>,
    ) -> Result<(Coreset, f64), BuildError> {
        let Problem { rows, prior } = self.problem;
        let (k, seed) = (self.options.k, self.options.seed);
        let recipe = beyond_order_two(rows, &projected.under, k, seed)?;
        let embedding = Embedded::sampled(rows, recipe, seed, Pursuit::default().first_pool(k))?;
        let solution = Solver::new(&embedding, self.options.settings(k))
            .callback(callback)
            .run(self.options.solver()?)?;
        let path = solution.path.clone();
        let most = Coreset::new(solution, embedding.description(), self.options.method.name(), k);
        if most.status == Status::Stopped {
            return Ok((most, f64::INFINITY));
        }
        let mut tried: Vec<(Coreset, (Weighted, Gaussian))> = Vec::new();
        for part in [1, 2, 4] {
            let Some(chosen) = smaller(&most, &path, most.rows.len() / part) else { break };
            let points = Weighted::fetch(rows, &chosen.rows, &chosen.weights)?;
            let Some(LeftOver { scale, rest }) = left_over(&points, projected) else { continue };
            let (rest, mut coreset) = (Arc::new(rest), chosen);
            coreset.weights.iter_mut().for_each(|weight| *weight *= scale);
            let points = points.with_weights(coreset.weights.to_vec()).with_rest(Some(Arc::clone(&rest)))?;
            (coreset.rest, coreset.undetermined) = (Some(rest), projected.undetermined);
            if let Ok(fit) = points.fit(prior) {
                tried.push((coreset, (points, fit.posterior)));
            }
            if scale >= AS_IT_IS {
                break;
            }
        }
        let (coresets, fitted): (Vec<Coreset>, Vec<(Weighted, Gaussian)>) = tried.into_iter().unzip();
        let judged = coresets.into_iter().zip(self.variances(&fitted)?);
        Ok(judged.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((most, f64::INFINITY)))
    }
}

/// The largest coreset on a path with at most so many points.
fn smaller(most: &Coreset, path: &[PathPoint], points: usize) -> Option<Coreset> {
    if points == most.rows.len() {
        return Some(most.clone());
    }
    let fits = |point: &&PathPoint| (1..=points).contains(&point.weights.len());
    let PathPoint { weights, residual } = path.iter().rev().find(fits)?;
    let mut smaller = most.clone();
    (smaller.rows, smaller.weights) = (weights.ids.clone(), weights.values.clone().into());
    smaller.fit.residual = *residual;
    Some(smaller)
}

/// What weights must be multiplied by, and the Gaussian of what they leave over then.
struct LeftOver {
    scale: f64,
    rest: Rest,
}

/// b = g − s·Σwᵢgᵢ and A = H − s·ΣwᵢHᵢ, with the largest s ≤ 1 for which A ⪯ 0: where the rows bend more than all of them together in
/// some direction, their weights are held back.
fn left_over(points: &Weighted, projected: &Projected) -> Option<LeftOver> {
    let (under, whole) = (&projected.under, &projected.rest);
    let chosen = points.expected(&Under::from(under));
    let scale = 1.0 / most_share(&whole.curvature, &chosen.hessian, under)?.max(1.0);
    let less = |all: &[f64], some: &[f64]| -> Vec<f64> {
        all.iter().zip(some).map(|(all, some)| all - scale * some).collect()
    };
    // Where nothing is left of A the rows have it all, and the slope beside them stays.
    let rest = Rest {
        centre: under.mean.clone(),
        gradient: less(&whole.gradient, &chosen.gradient),
        curvature: less(&whole.curvature, &chosen.hessian),
    };
    let finite = rest.gradient.iter().chain(&rest.curvature).all(|x| x.is_finite());
    finite.then_some(LeftOver { scale, rest })
}

/// λ_max(H⁻¹H_w), with a little of the precision of π̂ where H is singular.
pub(crate) fn most_share(whole: &[f64], chosen: &[f64], under: &Gaussian) -> Option<f64> {
    /// Share of the precision that keeps H invertible, and room for rounding.
    const RIDGE: f64 = 1e-9;
    let dim = under.dim();
    let precision: Vec<f64> = under.precision.iter().zip(whole).map(|(p, h)| RIDGE * p - h).collect();
    let inverse = Cholesky::new(&precision, dim).ok()?.inverse_factor();
    let transposed = row_major(dim, |i, j| inverse[j * dim + i]);
    let bent: Vec<f64> = chosen.iter().map(|h| -h).collect();
    let shares = symmetric_eigenvalues(&congruence(&transposed, &bent, dim), dim).ok()?;
    shares.last().map(|most| most * (1.0 + RIDGE))
}

/// Gradient and Hessian without the digits in which sums over rows differ by their order, as other partitions have them: to 2⁻³⁰ of what
/// moves the posterior by its width.
fn rounded(newton: &Newton, under: &Gaussian) -> (Vec<f64>, Vec<f64>) {
    const DIGITS: f64 = 1.0 / 1_073_741_824.0;
    let dim = under.dim();
    let units: Vec<f64> = (0..dim).map(|i| power_of_two_below(under.precision[i * dim + i].sqrt())).collect();
    let gradient =
        newton.gradient.iter().zip(&units).map(|(g, unit)| to_multiple(*g, DIGITS * unit)).collect();
    let entry = |i: usize, j: usize| to_multiple(newton.hessian[i * dim + j], DIGITS * units[i] * units[j]);
    (gradient, row_major(dim, entry))
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// Whether points are chosen by the one method that a Gaussian goes with.
pub(super) fn suits(options: &BuildOptions) -> bool {
    matches!(options.method, super::Selector::Embedded(Method::Pursuit(_)))
}
