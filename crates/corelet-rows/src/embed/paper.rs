//! Closed-form embeddings: the mean of a Gaussian, exactly, and the variants of the paper's experiments, for reproduction.
//!
//! A quadratic log-likelihood ℓᵢ(θ) = −½θᵀAᵢθ + bᵢᵀθ + cᵢ under π̂ = N(μ, LLᵀ) is, with θ = μ + Lz,
//! a linear form zᵀgᵢ with gᵢ = Lᵀ(bᵢ − Aᵢμ) and a quadratic form −½zᵀMᵢz with Mᵢ = LᵀAᵢL, so that
//!
//! > Cov(ℓᵢ, ℓⱼ) = gᵢᵀgⱼ + ½ tr(MᵢMⱼ),
//!
//! which is the inner product of the vectors [gᵢ; −vec(Mᵢ)/√2].

use crate::embed::{Description, EmbedError, Precision, Stored};
use crate::linalg::{
    congruence, dot, dot_features, gram, leading_eigenvectors, mirror_lower, multiply, row_major,
};
use crate::model::{GaussianMean, Glm, Linear, Model};
use crate::posterior::Gaussian;

/// √½·‖M‖_F is what the quadratic part of a Gaussian's log-likelihood weighs.
const EXACT: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// What it weighs in the authors' experiments.
const REFERENCE: f64 = 0.25;

/// φᵢ = [LᵀΣ⁻¹(xᵢ − μ); −‖LᵀΣ⁻¹L‖_F/√2]: the mean of a Gaussian, in D + 1 coordinates.
///
/// Exact, nothing is truncated: Aᵢ = Σ⁻¹ is the same for all data, so the D² coordinates of its quadratic part lie on
/// one line, and one coordinate carries their length.
///
/// # Errors
/// [`EmbedError::Dimension`] where π̂ has another dimension than the model.
pub fn gaussian_exact(model: &GaussianMean, posterior: &Gaussian) -> Result<Stored, EmbedError> {
    gaussian(model, posterior, EXACT, "hermite:2")
}

/// [`gaussian_exact`] with ¼ in place of 1/√2 before the last coordinate, as in the code of the paper's experiments.
///
/// Not the covariance of the log-likelihoods: the total weight of a coreset counts for less than it should. It is
/// here so that the authors' curves can be matched.
///
/// # Errors
/// See [`gaussian_exact`].
pub fn gaussian_reference(model: &GaussianMean, posterior: &Gaussian) -> Result<Stored, EmbedError> {
    gaussian(model, posterior, REFERENCE, "gaussian:reference")
}

fn gaussian(
    model: &GaussianMean,
    posterior: &Gaussian,
    weight: f64,
    name: &str,
) -> Result<Stored, EmbedError> {
    let dim = check_dimension(model, posterior)?;
    let spread = congruence(&posterior.factor, model.precision(), dim);
    let last = -weight * dot(&spread, &spread).sqrt();
    let transposed = transpose(&posterior.factor, dim);
    let description = Description { name: name.to_owned(), coordinates: dim + 1, tail: 0.0 };
    Stored::of_blocks(model.len(), description, Precision::Double, |ids, out| {
        let (mut residual, mut slope) = (vec![0.0; dim], vec![0.0; dim]);
        for (&i, out) in ids.iter().zip(out.chunks_exact_mut(dim + 1)) {
            let x = model.observations().row(i);
            residual.iter_mut().zip(x).zip(&posterior.mean).for_each(|((r, &x), m)| *r = f64::from(x) - m);
            multiply(model.precision(), &residual, &mut slope);
            multiply(&transposed, &slope, &mut out[..dim]);
            out[dim] = last;
        }
        Ok(())
    })
}

/// φᵢ = [(yᵢ − xᵢᵀμ)βᵢ; −vec(γᵢγᵢᵀ)/√2]/σ² with βᵢ = Lᵀxᵢ and γᵢ = Vᵀβᵢ, V the leading `directions` eigenvectors of
/// Σᵢβᵢβᵢᵀ: linear regression, as in the paper's radial-basis experiment, where `directions` is 20.
///
/// Exact in the linear part, which keeps all D coordinates; the quadratic part βᵢβᵢᵀ is truncated to the plane of the
/// leading eigenvectors, and exact where `directions` = D. Its symmetric entries are kept once, times √2 off the
/// diagonal, which leaves all inner products as they are: D + d(d+1)/2 coordinates for the paper's D + d². The tail in
/// the description is what the truncation drops of the full log-likelihood, ¼‖Σᵢ(βᵢβᵢᵀ − VVᵀβᵢβᵢᵀVVᵀ)‖²/σ⁴ nats.
///
/// # Errors
/// [`EmbedError::Dimension`] where π̂ has another dimension than the model; [`EmbedError::Length`] where `directions` is
/// above D; [`EmbedError::Linalg`] where there are no eigenvectors.
pub fn rbf_truncated(
    model: &Glm<Linear>,
    posterior: &Gaussian,
    directions: usize,
) -> Result<Stored, EmbedError> {
    let dim = check_dimension(model, posterior)?;
    if directions > dim {
        return Err(EmbedError::Length { what: "the truncated basis", got: directions, expected: dim });
    }
    let (observations, variance) = (model.observations(), model.family().variance());
    let transposed = transpose(&posterior.factor, dim);
    let scatter =
        congruence(&posterior.factor, &gram(&widened(&observations.features), observations.len(), dim), dim);
    let basis = leading_eigenvectors(&scatter, dim, directions)?;
    let coordinates = dim + directions * (directions + 1) / 2;
    let tail = dropped(&scatter, &basis, dim) / (variance * variance);
    let description = Description { name: format!("rbf:{directions}"), coordinates, tail };
    Stored::of_blocks(model.len(), description, Precision::Double, |ids, out| {
        let (mut beta, mut gamma) = (vec![0.0; dim], vec![0.0; directions]);
        for (&i, out) in ids.iter().zip(out.chunks_exact_mut(coordinates)) {
            let x = &observations.wide_row(i)[..];
            multiply(&transposed, x, &mut beta);
            multiply(&basis, &beta, &mut gamma);
            let (linear, quadratic) = out.split_at_mut(dim);
            let slope = (observations.target[i] - dot(x, &posterior.mean)) / variance;
            linear.iter_mut().zip(&beta).for_each(|(out, b)| *out = slope * b);
            write_square(&gamma, -EXACT / variance, quadratic);
        }
        Ok(())
    })
}

/// The embedding of linear regression without truncation, in at most n coordinates in place of D + D(D+1)/2.
///
/// With gᵢ = (yᵢ − xᵢᵀμ)βᵢ/σ² and βᵢ = Lᵀxᵢ, Cov(ℓᵢ, ℓⱼ) = gᵢᵀgⱼ + ½(βᵢᵀβⱼ)²/σ⁴ = Kᵢⱼ. The columns of Λ^½Vᵀ, K = VΛVᵀ, have
/// these inner products, and n vectors need no more than n coordinates. Meant for n below D², as in the paper's
/// radial-basis experiment: it takes O(n³).
///
/// # Errors
/// [`EmbedError::Length`] where π̂ has another dimension than the model; [`EmbedError::Linalg`] where K has no
/// eigenvectors.
pub fn linear_exact(model: &Glm<Linear>, posterior: &Gaussian) -> Result<Stored, EmbedError> {
    let dim = check_dimension(model, posterior)?;
    let (observations, variance) = (model.observations(), model.family().variance());
    let n = model.len();
    let transposed = transpose(&posterior.factor, dim);
    let mut beta = vec![0.0; n * dim];
    for (i, beta) in beta.chunks_exact_mut(dim).enumerate() {
        multiply(&transposed, &observations.wide_row(i), beta);
    }
    let slope =
        |i: usize| (observations.target[i] - dot_features(observations.row(i), &posterior.mean)) / variance;
    let slopes: Vec<f64> = (0..n).map(slope).collect();
    let mut kernel = row_major(n, |i, j| {
        let product = if j <= i { dot(&beta[i * dim..][..dim], &beta[j * dim..][..dim]) } else { 0.0 };
        slopes[i] * slopes[j] * product + (EXACT * product / variance).powi(2)
    });
    mirror_lower(&mut kernel, n);
    let basis = leading_eigenvectors(&kernel, n, n)?;
    let mut image = vec![0.0; n];
    let lengths: Vec<f64> = basis
        .chunks_exact(n)
        .map(|v| {
            multiply(&kernel, v, &mut image);
            dot(v, &image).max(0.0).sqrt()
        })
        .collect();
    let least = 1e-8 * lengths.first().copied().unwrap_or(0.0);
    let coordinates = lengths.iter().take_while(|&&length| length > least).count().max(1);
    let description = Description { name: "linear:exact".to_owned(), coordinates, tail: 0.0 };
    Stored::of_blocks(n, description, Precision::Double, |ids, out| {
        for (&i, out) in ids.iter().zip(out.chunks_exact_mut(coordinates)) {
            out.iter_mut().enumerate().for_each(|(m, out)| *out = lengths[m] * basis[m * n + i]);
        }
        Ok(())
    })
}

/// The lower triangle of scale·γγᵀ, row by row, times √2 off the diagonal.
fn write_square(gamma: &[f64], scale: f64, out: &mut [f64]) {
    let pairs = (0..gamma.len()).flat_map(|a| (0..=a).map(move |b| (a, b)));
    for ((a, b), out) in pairs.zip(out) {
        let twice = if a == b { 1.0 } else { std::f64::consts::SQRT_2 };
        *out = scale * twice * gamma[a] * gamma[b];
    }
}

/// ¼(‖C‖² − ‖VᵀCV‖²) for C = Σβᵢβᵢᵀ: since V holds eigenvectors of C, VᵀCV is diagonal.
fn dropped(scatter: &[f64], basis: &[f64], dim: usize) -> f64 {
    let mut image = vec![0.0; dim];
    let kept: f64 = basis
        .chunks_exact(dim)
        .map(|v| {
            multiply(scatter, v, &mut image);
            dot(v, &image).powi(2)
        })
        .sum();
    0.25 * (dot(scatter, scatter) - kept).max(0.0)
}

fn widened(features: &[f32]) -> Vec<f64> {
    features.iter().copied().map(f64::from).collect()
}

fn transpose(a: &[f64], dim: usize) -> Vec<f64> {
    row_major(dim, |i, j| a[j * dim + i])
}

fn check_dimension(model: &dyn Model, posterior: &Gaussian) -> Result<usize, EmbedError> {
    let (got, expected) = (posterior.dim(), model.dim());
    if got == expected { Ok(got) } else { Err(EmbedError::Dimension { posterior: got, model: expected }) }
}
