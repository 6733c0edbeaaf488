//! What several test files share.
#![allow(dead_code, reason = "no test file needs all of it")]

use std::path::PathBuf;

use corelet::rows::Observations;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The folder that `CORELET_DATA` names, with the data files of the paper, for tests that are ignored unless they are asked for.
pub(crate) fn data_folder() -> PathBuf {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    folder.map(PathBuf::from).expect("CORELET_DATA must name the folder with the data files")
}

/// n standard normal rows with an intercept last, and targets that a family accepts.
pub(crate) fn observations(
    n: usize,
    dim: usize,
    seed: u64,
    target: impl Fn(f64, f64) -> f64,
) -> Observations {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let features: Vec<f64> =
        (0..n * dim).map(|at| if at % dim == dim - 1 { 1.0 } else { normal() }).collect();
    let noise: Vec<f64> = (0..n).map(|_| normal()).collect();
    let target = features
        .chunks_exact(dim)
        .zip(noise)
        .map(|(x, noise)| target(x.iter().sum::<f64>() / dim as f64, noise))
        .collect();
    Observations::new(&features, dim, target)
}

/// A label.
pub(crate) fn sign(eta: f64, noise: f64) -> f64 {
    if eta + noise > 0.0 { 1.0 } else { -1.0 }
}

/// A count.
pub(crate) fn count(eta: f64, noise: f64) -> f64 {
    (2.0 * (eta + 0.5 * noise).exp()).round()
}
