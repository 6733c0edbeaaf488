//! The paper's closed-form embeddings against closed-form covariances, and what their truncation drops.

#![allow(clippy::unwrap_used)]

use corelet::embed::{EmbedError, Embedding, paper};
use corelet::linalg::{congruence, dot};
use corelet::model::{Derivatives, GaussianMean, Linear, Model, Over};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, laplace};
use corelet::rows::{Observations, Summed};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparse_nnls::Dictionary;

fn observations(n: usize, dim: usize) -> Observations {
    let numbers: Vec<f64> =
        StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(3)).take(n * (dim + 1)).collect();
    let (features, target) = numbers.split_at(n * dim);
    Observations::new(features, dim, target.to_vec())
}

fn gaussian_mean(n: usize, dim: usize) -> GaussianMean {
    let covariance: Vec<f64> =
        (0..dim * dim).map(|at| 0.6f64.powi((at / dim).abs_diff(at % dim) as i32)).collect();
    GaussianMean::new(observations(n, dim), &covariance).unwrap()
}

fn fit(model: &dyn Model) -> Gaussian {
    let prior = Prior::isotropic(model.dim(), 1.5).unwrap();
    laplace(&Summed { model, over: Over::All }, &prior, None, &LaplaceSettings::default()).unwrap().posterior
}

/// Cov(ℓᵢ, ℓⱼ) = gᵢᵀΣgⱼ + ½ tr(HᵢΣHⱼΣ) for quadratic log-likelihoods with gradient g and Hessian H at μ.
fn covariance(model: &dyn Model, posterior: &Gaussian, i: usize, j: usize) -> f64 {
    let dim = model.dim();
    let [a, b] = [i, j].map(|row| {
        let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
        let rows = Over::Weighted { ids: &[row], weights: &[1.0] };
        model.evaluate(rows, &posterior.mean, Derivatives::both(&mut gradient, &mut hessian));
        let image: Vec<f64> = posterior.covariance.chunks(dim).map(|row| dot(row, &gradient)).collect();
        (gradient, image, congruence(&posterior.factor, &hessian, dim))
    });
    dot(&a.0, &b.1) + 0.5 * dot(&a.2, &b.2)
}

fn columns(embedding: &dyn Embedding) -> Vec<Vec<f64>> {
    let ids: Vec<usize> = (0..embedding.len()).collect();
    let mut entries = vec![0.0; ids.len() * embedding.coordinates()];
    embedding.columns(&ids, &mut entries).unwrap();
    entries.chunks(embedding.coordinates()).map(<[f64]>::to_vec).collect()
}

fn assert_exact(model: &dyn Model, posterior: &Gaussian, embedding: &dyn Embedding) {
    let phi = columns(embedding);
    for i in 0..phi.len() {
        for j in 0..=i {
            let (got, want) = (dot(&phi[i], &phi[j]), covariance(model, posterior, i, j));
            let scale = (dot(&phi[i], &phi[i]) * dot(&phi[j], &phi[j])).sqrt();
            assert!((got - want).abs() <= 1e-12 * scale, "{i} {j}: {got} {want}");
        }
    }
}

#[test]
fn the_gaussian_embedding_is_exact() {
    let model = gaussian_mean(30, 7);
    let posterior = fit(&model);
    let embedding = paper::gaussian_exact(&model, &posterior).unwrap();
    assert_eq!((embedding.coordinates(), embedding.description().tail), (8, 0.0));
    assert_exact(&model, &posterior, &embedding);
    // The reference differs in the weight of the last coordinate alone.
    let (exact, reference) =
        (columns(&embedding), columns(&paper::gaussian_reference(&model, &posterior).unwrap()));
    for (a, b) in exact.iter().zip(&reference) {
        assert_eq!(a[..7], b[..7]);
        assert!((b[7] / a[7] - 0.25 * 2f64.sqrt()).abs() < 1e-14);
    }
}

#[test]
fn the_radial_basis_embedding_is_exact_with_every_direction() {
    let model = Linear::model(observations(40, 6), 0.3).unwrap();
    let posterior = fit(&model);
    let embedding = paper::rbf_truncated(&model, &posterior, 6).unwrap();
    assert_eq!(embedding.coordinates(), 6 + 21);
    assert!(embedding.description().tail < 1e-10);
    assert_exact(&model, &posterior, &embedding);
}

#[test]
fn the_linear_embedding_is_exact_in_no_more_coordinates_than_rows() {
    for (n, dim) in [(40, 6), (20, 9)] {
        let model = Linear::model(observations(n, dim), 0.3).unwrap();
        let posterior = fit(&model);
        let embedding = paper::linear_exact(&model, &posterior).unwrap();
        assert!(embedding.coordinates() <= n.min(dim + dim * (dim + 1) / 2));
        assert_exact(&model, &posterior, &embedding);
    }
}

#[test]
fn truncation_drops_what_the_description_says() {
    let model = Linear::model(observations(40, 6), 0.3).unwrap();
    let posterior = fit(&model);
    let half_variance = |directions| {
        let embedding = paper::rbf_truncated(&model, &posterior, directions).unwrap();
        let y = embedding.sum().unwrap().vector;
        (0.5 * dot(&y, &y), embedding.description().tail)
    };
    let (full, _) = half_variance(6);
    let mut before = f64::INFINITY;
    for directions in 0..6 {
        let (kept, tail) = half_variance(directions);
        assert!((full - kept - tail).abs() < 1e-10 * full, "{directions}: {full} {kept} {tail}");
        assert!(tail < before);
        before = tail;
    }
}

#[test]
fn dimensions_must_agree() {
    let (model, other) = (gaussian_mean(30, 4), gaussian_mean(30, 3));
    let error = paper::gaussian_exact(&model, &fit(&other)).err().unwrap();
    assert!(matches!(error, EmbedError::Dimension { posterior: 3, model: 4 }));
    let linear = Linear::model(observations(40, 6), 0.3).unwrap();
    let error = paper::rbf_truncated(&linear, &fit(&linear), 7).err().unwrap();
    assert!(matches!(error, EmbedError::Length { got: 7, expected: 6, .. }));
}
