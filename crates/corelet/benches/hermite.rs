//! A Hermite pass against the floors it is built against, as ratios within one run:
//! reading X once from memory (order 2), and the multiply-add rate of a matrix product in cache (order 3).
//!
//! `cargo bench -p corelet --bench hermite [-- ROWS]`

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use corelet::embed::{Embedding, Hermite, JointHermite};
use corelet::model::{Linear, Logistic, Model, Normal, Over};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::rows::{Observations, Summed};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use sparse_nnls::{Query, Ranking, Score};

/// The fastest of this many runs is reported, so that whatever else the machine does counts least.
const REPEATS: usize = 25;

/// Read between the runs, so that each of them starts from memory and not from a cache.
const EVICTED_BYTES: usize = 512 << 20;

/// Seconds of the fastest run.
fn fastest(mut run: impl FnMut()) -> f64 {
    let other = vec![1_u64; EVICTED_BYTES / size_of::<u64>()];
    let time = |_| {
        black_box(other.par_iter().sum::<u64>());
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(time).fold(f64::INFINITY, f64::min)
}

fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
    pool.install(run)
}

struct Total<'a>(&'a [f32]);

impl WithSimd for Total<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat_f32s(0.0); 8];
        for chunk in S::as_simd_f32s(self.0).0.as_chunks::<8>().0 {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum = simd.add_f32s(*sum, *x);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

/// Seconds to read n × dim numbers of f32 once, on the threads of this pool.
fn read_once(n: usize, dim: usize) -> f64 {
    let x: Vec<f32> = (0..n * dim).map(|i| i as f32).collect();
    fastest(|| {
        let total: f32 = x.par_chunks(1024 * dim).map(|chunk| Arch::new().dispatch(Total(chunk))).sum();
        black_box(total);
    })
}

/// Multiply-adds a second of an f32 product of 256 × 256 matrices (256 KB each) in one thread.
fn product_rate() -> f64 {
    const SIZE: usize = 256;
    let a = Mat::<f32>::from_fn(SIZE, SIZE, |i, j| ((i * 7 + j) % 11) as f32);
    let b = Mat::<f32>::from_fn(SIZE, SIZE, |i, j| ((i + j * 5) % 13) as f32);
    let mut c = Mat::<f32>::zeros(SIZE, SIZE);
    let seconds = fastest(|| {
        for _ in 0..20 {
            matmul(&mut c, Accum::Replace, black_box(&a), &b, 1.0, Par::Seq);
        }
    });
    20.0 * (SIZE * SIZE * SIZE) as f64 / seconds
}

/// Seconds of one pass for the best 1000 columns by norm-scaled correlation with the sum.
fn pass(embedding: &dyn Embedding) -> f64 {
    let u = embedding.sum().expect("in memory").vector;
    let rankings = [Ranking { score: Score::NormScaled, count: 1000.min(embedding.len()) }];
    let query = Query { vectors: &[&u], rankings: &rankings, exclude: &[], batch: None };
    let mut answers = vec![Vec::new()];
    fastest(|| embedding.top(&query, &mut answers).expect("in memory"))
}

fn logistic(n: usize, dim: usize) -> impl Model {
    let features: Vec<f64> = (0..n * dim)
        .map(|at| if at % dim == dim - 1 { 1.0 } else { ((at * 7919) as f64 * 0.37).sin() * 1.7 })
        .collect();
    let label = |(i, x): (usize, &[f64])| if x[0] + x[1] > ((i * 31) as f64).sin() { 1.0 } else { -1.0 };
    let target = features.chunks(dim).enumerate().map(label).collect();
    Logistic::model(Observations::new(&features, dim, target)).expect("valid data")
}

/// A pass of order 2 with two predictors a row, η and log σ, against one with σ known, on all cores.
fn two_predictors(n: usize, dim: usize, cores: usize) {
    let observations = logistic(n, dim).observations().clone();
    let one = Linear::model(observations.clone(), 0.5).expect("valid data");
    let two = Normal::model(observations).expect("valid data");
    let fit = |model: &dyn Model| {
        let prior = Prior::isotropic(model.dim(), 1.0).expect("a prior");
        let all = Summed { model, over: Over::All };
        laplace(&all, &prior, None, &LaplaceSettings::default()).expect("a fit").posterior
    };
    let clock = Instant::now();
    let one = Hermite::new(one.linear().expect("a linear predictor"), &fit(&one), 2).expect("an embedding");
    let first = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let two = JointHermite::new(two.joint().expect("predictors"), &fit(&two), 2).expect("an embedding");
    let second = clock.elapsed().as_secs_f64();
    let (alone, both) = (with_threads(cores, || pass(&one)), with_threads(cores, || pass(&two)));
    println!(
        "two predictors, order 2: pass {:7.2} ms = {:.2} × that of one; fitted and built in {second:.2} s, {:.2} × one",
        1e3 * both,
        both / alone,
        second / first
    );
}

fn main() {
    let argument = std::env::args().skip(1).find_map(|argument| argument.parse::<usize>().ok());
    let n = argument.unwrap_or(1_000_000);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let product = product_rate();
    println!(
        "n = {n}, {cores} cores; matrix product in cache: {:.1} G multiply-adds/s a core",
        product / 1e9
    );
    for (dim, n) in [(10, n), (27, n / 3)] {
        let model = logistic(n, dim);
        let prior = Prior::isotropic(dim, 1.0).expect("a prior");
        let fit =
            laplace(&Summed { model: &model, over: Over::All }, &prior, None, &LaplaceSettings::default())
                .expect("a fit");
        let read = with_threads(cores, || read_once(n, dim));
        println!("\nD = {dim}, n = {n}: reading X in f32 once: {:.2} ms on all cores", 1e3 * read);
        two_predictors(n, dim, cores);
        for order in 1..=3 {
            let start = Instant::now();
            let linear = model.linear().expect("a linear predictor");
            let hermite = Hermite::new(linear, &fit.posterior, order).expect("an embedding");
            let build = start.elapsed().as_secs_f64();
            let (one, two, all) = (
                with_threads(1, || pass(&hermite)),
                with_threads(2, || pass(&hermite)),
                with_threads(cores, || pass(&hermite)),
            );
            let coordinates = hermite.description().coordinates;
            let rate = n as f64 * coordinates as f64 / one;
            println!(
                "order {order}, {coordinates:>4} coordinates: pass {:7.2} ms = {:5.2} × reading X; one thread {:7.2} ms, \
                 two threads {:.2} × faster; {:5.1} G multiply-adds/s a core = {:2.0} % of the product; built in {build:.2} s, \
                 tail {:.1e} nats",
                1e3 * all,
                all / read,
                1e3 * one,
                one / two,
                rate / 1e9,
                100.0 * rate / product,
                hermite.description().tail,
            );
        }
    }
}
