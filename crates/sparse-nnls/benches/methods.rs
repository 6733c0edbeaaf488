//! Every method side by side on one problem of the size of `phishing_large` (9 950 columns of 500 draws), in one run.
//!
//! `cargo bench -p sparse-nnls --bench methods`
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparse_nnls::{Dense, Method, Settings, Solver};

const ROWS: usize = 9_950;
const FEATURES: usize = 11;
const DRAWS: usize = 500;

fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Log-likelihoods of a logistic regression at draws from a Gaussian of the posterior's size, centred.
fn dictionary() -> Dense<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let spread = 2.0 / (ROWS as f64).sqrt();
    let truth: Vec<f64> = (0..FEATURES).map(|_| normal(&mut rng)).collect();
    let draws: Vec<f64> =
        (0..DRAWS * FEATURES).map(|i| truth[i % FEATURES] + spread * normal(&mut rng)).collect();
    let mut entries = Vec::with_capacity(ROWS * DRAWS);
    for _ in 0..ROWS {
        let x: Vec<f64> = (0..FEATURES).map(|_| normal(&mut rng)).collect();
        let dot = |theta: &[f64]| x.iter().zip(theta).map(|(x, t)| x * t).sum::<f64>();
        let sign = if rng.random::<f64>() < 1.0 / (1.0 + (-dot(&truth)).exp()) { 1.0 } else { -1.0 };
        let row: Vec<f64> = draws.chunks(FEATURES).map(|theta| -(-sign * dot(theta)).exp().ln_1p()).collect();
        let mean = row.iter().sum::<f64>() / DRAWS as f64;
        entries.extend(row.iter().map(|l| (l - mean) / (DRAWS as f64).sqrt()));
    }
    Dense::new(entries, DRAWS).unwrap()
}

fn main() {
    let phi = dictionary();
    println!(
        "| k | method | points | residual | passes | iterations | seconds |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    for k in [100, 200] {
        for method in Method::all() {
            let settings = Settings { k, seed: 1, ..Settings::default() };
            // Once to warm the caches, once to count.
            let run = || Solver::new(&phi, settings.clone()).run(&method).unwrap();
            run();
            let s = run();
            println!(
                "| {k} | {} | {} | {:.2e} | {:.0} | {} | {:.3} |",
                method.name(),
                s.weights.len(),
                s.residual,
                s.passes,
                s.iterations,
                s.seconds
            );
        }
    }
}
