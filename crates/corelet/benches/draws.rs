//! A virtual pass over 500 draws against one over a stored f32 Φ of that size, in one run, on one and all threads.
//!
//! `cargo bench -p corelet --bench draws -- [ROWS]`, 200 000 rows unless given: Φ then takes 400 MB, which no cache
//! holds, and every figure below is a ratio or a rate that does not depend on the number of rows beyond that.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use corelet::embed::{ByDraws, Embedding, Precision, Stored};
use corelet::model::{Link, Logistic, Model, Over, Poisson};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::random::Stream;
use corelet::rows::{Observations, Summed};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use sparse_nnls::{Dictionary, Query, Ranking, Score};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const DRAWS: usize = 500;
const DIM: usize = 10;

fn observations(n: usize, target: impl Fn(f64, f64) -> f64) -> Observations {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut features: Vec<f64> = StandardNormal.sample_iter(&mut random).take(n * DIM).collect();
    features.iter_mut().skip(DIM - 1).step_by(DIM).for_each(|x| *x = 1.0);
    let noise: Vec<f64> = StandardNormal.sample_iter(&mut random).take(n).collect();
    let target =
        features.chunks(DIM).zip(&noise).map(|(x, e)| target(x.iter().sum::<f64>() * 0.3, *e)).collect();
    Observations::new(&features, DIM, target)
}

/// The best of `times` runs, in seconds.
fn seconds(times: usize, mut work: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn pass(dictionary: &dyn Dictionary, vector: &[f64]) -> f64 {
    let rankings = [Ranking { score: Score::NormScaled, count: 500 }];
    let mut answers = vec![Vec::new()];
    let query = Query { vectors: &[vector], rankings: &rankings, exclude: &[], batch: None };
    seconds(15, || {
        dictionary.top(&query, &mut answers).unwrap();
        black_box(&answers);
    })
}

fn threads(count: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap()
}

fn main() {
    let n = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(200_000);
    let cores = rayon::current_num_threads();
    let gigabytes = (n * DRAWS * 4) as f64 / 1e9;
    println!(
        "{n} rows, {DIM} parameters, {DRAWS} draws, {cores} threads; a stored f32 Φ takes {gigabytes:.2} GB"
    );
    let sign = |eta: f64, e: f64| if eta + 1.7 * e > 0.0 { 1.0 } else { -1.0 };
    let counts = |eta: f64, e: f64| (eta + 0.5 * e).exp().round();
    let logistic = Logistic::model(observations(n, sign)).unwrap();
    let log = Poisson::model(observations(n, counts), Link::Log).unwrap();
    let softplus = Poisson::model(observations(n, counts), Link::Softplus).unwrap();
    let prior = Prior::isotropic(DIM, 1.0).unwrap();
    let models: [(&str, Arc<dyn Model>); 3] = [
        ("logistic", Arc::new(logistic)),
        ("poisson, log", Arc::new(log)),
        ("poisson, softplus", Arc::new(softplus)),
    ];
    let mut read = 0.0;
    for (name, model) in models {
        let fit =
            laplace(&Summed { model: &*model, over: Over::All }, &prior, None, &LaplaceSettings::default())
                .unwrap();
        let start = Instant::now();
        let draws =
            ByDraws::new(&model, &fit.posterior.mean, fit.posterior.shifts(DRAWS, 1, Stream::Build), 0)
                .unwrap();
        let construction = start.elapsed().as_secs_f64();
        let vector = draws.sum().unwrap().vector;
        if read == 0.0 {
            read = stored(&draws, &vector, gigabytes);
        }
        let all = pass(&draws, &vector);
        let one = threads(1).install(|| pass(&draws, &vector));
        let two = threads(2).install(|| pass(&draws, &vector));
        println!(
            "{name:18} virtual pass {all:.4} s = {:.2} × reading Φ; two threads {:.2} × one; norms and sum {construction:.2} s",
            all / read,
            one / two,
        );
    }
}

/// Prints what a stored Φ costs, and returns the seconds of reading it.
fn stored(draws: &dyn Embedding, vector: &[f64], gigabytes: f64) -> f64 {
    let entries = vec![1.0_f32; (gigabytes * 2.5e8).round() as usize];
    let read = seconds(7, || {
        entries.par_chunks(1 << 16).for_each(|part| {
            let mut sums = [0.0_f32; 64];
            part.as_chunks::<64>().0.iter().for_each(|c| sums.iter_mut().zip(c).for_each(|(s, x)| *s += x));
            black_box(sums);
        });
    });
    println!("reading Φ          {read:.4} s, {:.1} GB/s", gigabytes / read);
    drop(entries);
    let stored = Stored::copy_of(draws, Precision::Single).unwrap();
    let dense = pass(&stored, vector);
    println!("pass over stored Φ {dense:.4} s, {:.1} GB/s", gigabytes / dense);
    read
}
