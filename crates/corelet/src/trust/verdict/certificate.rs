//! Certificates: given draws tested against the posterior of all rows, by Stein's identities, and by importance weights if the density of the
//! draws is known.
//!
//! For draws of p, E ∇log p = 0 and E ∇log p (θ − m)ᵀ = −I; in a direction of variance 1, E ∇log p ((θ − m)² − 1) = 0 too, which
//! distinguishes a skewed posterior from a Gaussian with its mean and variance. It takes gradients at S draws from any source.

use super::judge::{Evidence, judge};
use super::measure::measure;
use super::policy::{FEWEST_DRAWS, PROVING_DRAWS, TRUSTED_SHARE, TRUSTED_VARIANCE};
use super::stein::{Mean, Standardised, column};
use super::{Draws, Reason, Scores, Verdict, VerdictError};
use crate::linalg::{Cholesky, LinalgError, dot, gram, row_major};
use crate::posterior::{effective_sample_size, systematic};

/// Draws per parameter below which the gradient is not regressed on all parameters at once.
const DRAWS_A_PARAMETER: usize = 4;

/// Draws that claim to be from a posterior, and the log density and gradient of that posterior at some of them.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// All draws.
    pub draws: &'a Draws,
    /// The gradient of the log posterior of all rows at some of them.
    pub scores: Scores,
    /// The log posterior there, up to a constant.
    pub log_posterior: Vec<f64>,
    /// The log density of the distribution from which they were drawn, at the same draws, if known.
    pub log_density: Option<Vec<f64>>,
    /// Number of divergent draws.
    pub diverged: usize,
    /// Preconditions that cap the grade.
    pub found: Vec<Reason>,
}

/// The certificate of given draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// The verdict. Its weights belong to the draws that were tested.
    pub verdict: Verdict,
    /// The offset of the draws for each parameter, in their order.
    pub parameters: Vec<Offset>,
    /// Number of draws.
    pub draws: usize,
    /// Whether the density of the draws was known.
    pub has_density: bool,
    /// The parameters to which the draws seem to belong, if they are far from the posterior of the parameters that were named.
    pub seems_of: Option<&'static str>,
}

/// How far draws are from the posterior in one parameter, with standard errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// The mean of the draws.
    pub mean: f64,
    /// Their standard deviation.
    pub sd: f64,
    /// Their mean minus that of the posterior, in standard deviations of the posterior.
    pub shift: f64,
    /// Its standard error.
    pub shift_error: f64,
    /// Their standard deviation divided by that of the posterior.
    pub scale: f64,
    /// Its standard error.
    pub scale_error: f64,
}

/// Judges a claim by the score test, by the chains, and by V, k̂ and the efficiency of the weights if the density of the draws is known.
///
/// If importance weights are needed, the score test uses the reweighted draws, because these are the draws to use. Draws
/// that are neither several chains nor of a known density get at most a B: the score test examines only moments.
///
/// # Errors
/// Fewer than 100 draws, or inconsistent lengths.
pub fn certify(claim: Claim<'_>) -> Result<Certificate, VerdictError> {
    let Claim { draws, scores, log_posterior, log_density, diverged, mut found } = claim;
    draws.check(draws.dim)?;
    let looked = scores.draws.clone();
    looked.check(draws.dim)?;
    for (what, got) in
        [("log posteriors", Some(log_posterior.len())), ("log densities", log_density.as_ref().map(Vec::len))]
    {
        if let Some(got) = got.filter(|&got| got != looked.len()) {
            return Err(VerdictError::Length { what, got, expected: looked.len() });
        }
    }
    let parameters = offsets(draws, &scores);
    let errors: Vec<f64> = match &log_density {
        Some(density) => log_posterior.iter().zip(density).map(|(p, q)| p - q).collect(),
        None => vec![0.0; looked.len()],
    };
    let at_anchor = errors.iter().copied().find(|x| x.is_finite()).unwrap_or(0.0);
    let errors: Vec<f64> = errors.iter().map(|x| x - at_anchor).collect();
    found.extend(doubts(draws, &looked, log_density.is_some()));
    let scores = weighed(scores, &errors);
    let evidence = Evidence {
        all: Some(draws),
        errors,
        at_anchor,
        weighted: log_posterior,
        scores: Some(scores),
        diverged,
        found,
        ..Evidence::of(&looked)
    };
    let verdict = judge(evidence)?;
    let has_density = log_density.is_some();
    Ok(Certificate { verdict, parameters, draws: draws.len(), has_density, seems_of: None })
}

/// What keeps the score test from being a proof.
fn doubts(draws: &Draws, looked: &Draws, has_density: bool) -> Vec<Reason> {
    let mut found = Vec::new();
    if draws.parameters().iter().any(|series| !varies(series)) {
        found.push(Reason::Narrow);
    }
    let own = draws.share_of_own();
    if has_density {
        // Weights of copies seem to agree with each other.
        if own * (looked.len() as f64) < FEWEST_DRAWS {
            found.push(Reason::Blunt);
        }
        return found;
    }
    if draws.chains.is_none_or(|chains| chains < 2) {
        found.push(Reason::NoDensity);
    }
    let chains = looked.chains.unwrap_or(1).max(1);
    let effective = |series: Vec<f64>| {
        let length = (series.len() / chains).max(1);
        effective_sample_size(&series.chunks_exact(length).map(<[f64]>::to_vec).collect::<Vec<_>>())
    };
    let least = looked.parameters().into_iter().map(effective).fold(f64::INFINITY, f64::min);
    if least * own < PROVING_DRAWS {
        found.push(Reason::Blunt);
    }
    found
}

fn varies(series: &[f64]) -> bool {
    let first = series.first().copied().unwrap_or_default();
    series.iter().any(|x| (x - first).abs() > 1e-12 * first.abs())
}

/// The draws as they are, or by their importance weights where these are called for: the ones that are to be used.
fn weighed(scores: Scores, errors: &[f64]) -> Scores {
    let measured = measure(&scores.draws, errors.to_vec(), 0.0);
    let as_they_are = measured.divergence.variance_upper < TRUSTED_VARIANCE
        && measured.reweighting.ess_share > TRUSTED_SHARE;
    if as_they_are || !errors.iter().all(|x| x.is_finite()) {
        return scores;
    }
    let dim = scores.draws.dim;
    let chosen = systematic(&measured.log_weights);
    let take = |values: &[f64]| chosen.iter().flat_map(|&s| &values[s * dim..][..dim]).copied().collect();
    // Copies of a draw stand side by side, so that they count as the correlated draws that they are.
    let draws =
        Draws { theta: take(&scores.draws.theta), dim, chains: scores.draws.chains, log_weights: None };
    Scores { gradient: take(&scores.gradient), draws }
}

/// How far the draws are off, by parameter: with ∇log p ≈ −Λ(θ − μ), a regression of the gradients on the draws has μ and Λ.
///
/// For a Gaussian posterior it has them without an error; else what the regression leaves over is the error of both.
fn offsets(draws: &Draws, scores: &Scores) -> Vec<Offset> {
    let all = moments(draws);
    let fit = fitted(scores);
    let of = |(j, (mean, sd)): (usize, (f64, f64))| match fit.get(&j) {
        Some(&[shift, shift_error, scale, scale_error]) => {
            Offset { mean, sd, shift, shift_error, scale, scale_error }
        }
        None => Offset {
            mean,
            sd,
            shift: f64::NAN,
            shift_error: f64::NAN,
            scale: f64::NAN,
            scale_error: f64::NAN,
        },
    };
    all.into_iter().enumerate().map(of).collect()
}

fn moments(draws: &Draws) -> Vec<(f64, f64)> {
    let of = |series: Vec<f64>| {
        let count = series.len() as f64;
        let mean = series.iter().sum::<f64>() / count;
        (mean, (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
    };
    draws.parameters().into_iter().map(of).collect()
}

/// Shift and scale with their errors, of the parameters that move; none if there are too few draws for all of them, or the gradients
/// are those of no density with one peak.
fn fitted(scores: &Scores) -> std::collections::HashMap<usize, [f64; 4]> {
    let none = std::collections::HashMap::new;
    let Standardised { values, moving } = Standardised::new(&scores.draws);
    let (dim, count) = (moving.len(), scores.draws.len());
    if dim == 0
        || count < DRAWS_A_PARAMETER * dim + 10
        || !scores.gradient.iter().all(|x| x.is_finite())
        || scores.gradient.len() != count * scores.draws.dim
    {
        return none();
    }
    let scaled = |row: &[f64]| moving.iter().map(|&(j, scale)| row[j] * scale).collect::<Vec<f64>>();
    let gradients: Vec<f64> = scores.gradient.chunks_exact(scores.draws.dim).flat_map(scaled).collect();
    let Ok(Regressed { shifts, errors, variances }) =
        regressed(&values, &gradients, dim, scores.draws.chains.unwrap_or(1).max(1))
    else {
        return none();
    };
    let each = moving.iter().enumerate().map(|(at, &(j, _))| {
        // Of the posterior, in standard deviations of the draws.
        let sd = variances[at].sqrt();
        let effective = Mean::of(&column(&values, dim, at), scores.draws.chains.unwrap_or(1).max(1)).error;
        // The draws' own mean and standard deviation are known to sampling error, and the slope to that of the regression.
        let shift_error = errors[at].hypot(effective) / sd;
        let scale_error = effective.hypot(errors[at]) / std::f64::consts::SQRT_2 / sd;
        (j, [-shifts[at] / sd, shift_error, 1.0 / sd, scale_error])
    });
    each.collect()
}

/// μ, the errors of μ, and the diagonal of Λ⁻¹.
struct Regressed {
    shifts: Vec<f64>,
    errors: Vec<f64>,
    variances: Vec<f64>,
}

fn regressed(values: &[f64], gradients: &[f64], dim: usize, chains: usize) -> Result<Regressed, LinalgError> {
    let count = values.len() / dim;
    let mean = |j: usize| column(gradients, dim, j).iter().sum::<f64>() / count as f64;
    let means: Vec<f64> = (0..dim).map(mean).collect();
    let cholesky = Cholesky::new(&gram(values, count, dim), dim)?;
    // Column by column, so that the solutions stand one after the other: line j is the slope of gradient j.
    let mut slopes = vec![0.0; dim * dim];
    for (x, g) in values.chunks_exact(dim).zip(gradients.chunks_exact(dim)) {
        for (line, g) in slopes.chunks_exact_mut(dim).zip(g) {
            line.iter_mut().zip(x).for_each(|(sum, x)| *sum += g * x);
        }
    }
    cholesky.solve(&mut slopes);
    let precision = row_major(dim, |i, j| -0.5 * (slopes[i * dim + j] + slopes[j * dim + i]));
    let precision = Cholesky::new(&precision, dim)?;
    let mut shifts = means.clone();
    precision.solve(&mut shifts);
    // What is left of the gradients, as it moves the mean.
    let mut left: Vec<f64> = Vec::with_capacity(count * dim);
    for (x, g) in values.chunks_exact(dim).zip(gradients.chunks_exact(dim)) {
        let mut line: Vec<f64> =
            (0..dim).map(|j| g[j] - means[j] - dot(&slopes[j * dim..][..dim], x)).collect();
        precision.solve(&mut line);
        left.extend(line);
    }
    let errors = (0..dim).map(|j| Mean::of(&column(&left, dim, j), chains).error).collect();
    let covariance = precision.inverse();
    Ok(Regressed { shifts, errors, variances: (0..dim).map(|j| covariance[j * dim + j]).collect() })
}
