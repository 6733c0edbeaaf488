//! Passes over rows of every family, in rows a second of one thread, and how long each takes beside logistic regression with the same
//! features: Newton's (value, gradient and Hessian), the first look of a Hermite embedding of order 2 and a pass over it, and the
//! judge's at 250 draws.
//!
//! `cargo bench -p corelet --bench families [-- ROWS [FAMILY]]`, of families whose name begins so, beside logistic regression.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use corelet::embed::Recipe;
use corelet::model::{BuiltIn, Model, Numbers};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::random::Stream;
use corelet::rows::{All, At, Gather, Memory, Observations, Rows, Top, Totals};
use sparse_nnls::{Ranking, Score};

/// Features, the intercept among them.
const DIM: usize = 11;

/// Draws that the judge looks at.
const DRAWS: usize = 250;

/// The fastest of this many runs is reported.
const REPEATS: usize = 15;

/// A family, what it needs besides its data, and what its target is made of: a predictor and noise that is nearly standard normal.
type Case = (&'static str, BuiltIn, Numbers, fn(f64, f64) -> f64);

fn cases() -> Vec<Case> {
    let plain = Numbers::default();
    let classes = |classes: usize| Numbers { classes, ..plain };
    let positive = |eta: f64, noise: f64| (eta + 0.6 * noise).exp();
    let counts = |eta: f64, noise: f64| (2.0 * (eta + 0.6 * noise).exp()).round();
    let number = |eta: f64, noise: f64| eta + 0.7 * noise;
    fn level<const LEVELS: u8>(eta: f64, noise: f64) -> f64 {
        let middle = f64::from(LEVELS - 1) / 2.0;
        (middle + eta + 0.4 * middle * noise).round().clamp(0.0, 2.0 * middle)
    }
    vec![
        ("logistic", BuiltIn::Logistic, plain, |eta, noise| if eta + noise > 0.0 { 1.0 } else { -1.0 }),
        ("poisson", BuiltIn::Poisson, plain, counts),
        ("binomial", BuiltIn::Binomial, plain, |eta, noise| {
            (4.0 + 2.0 * (eta + noise)).round().clamp(0.0, 8.0)
        }),
        ("exponential", BuiltIn::Exponential, plain, positive),
        ("linear, σ given", BuiltIn::Linear, Numbers { sigma: Some(0.7), ..plain }, number),
        ("linear", BuiltIn::Linear, plain, number),
        ("student", BuiltIn::Student, plain, number),
        ("student, ν unknown", BuiltIn::Student, Numbers { degrees: None, ..plain }, number),
        ("negative-binomial", BuiltIn::NegativeBinomial, plain, counts),
        ("gamma", BuiltIn::Gamma, plain, positive),
        ("weibull", BuiltIn::Weibull, plain, positive),
        ("ordinal, 4 levels", BuiltIn::Ordinal, classes(4), level::<4>),
        ("ordinal, 7 levels", BuiltIn::Ordinal, classes(7), level::<7>),
        ("softmax, 3 classes", BuiltIn::Softmax, classes(3), level::<3>),
        ("softmax, 5 classes", BuiltIn::Softmax, classes(5), level::<5>),
    ]
}

/// Numbers between −1 and 1 without a pattern that a model could find.
fn scattered(at: usize) -> f64 {
    let bits = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn model_of(n: usize, dim: usize, (_, family, numbers, target): &Case) -> Arc<dyn Model> {
    let feature = |at: usize| if at % dim == dim - 1 { 1.0 } else { 1.7 * scattered(at) };
    let features: Vec<f64> = (0..n * dim).map(feature).collect();
    let noise = |i: usize| (0..6).map(|j| scattered(7 * n * dim + 6 * i + j)).sum::<f64>() * 0.7;
    let made = |(i, x): (usize, &[f64])| target(0.4 * (x[0] - x[1] + x[2]), noise(i));
    let targets = features.chunks_exact(dim).enumerate().map(made).collect();
    let mut rows = Observations::new(&features, dim, targets);
    if *family == BuiltIn::Binomial {
        rows = rows.with_exposure(vec![8.0; n]);
    }
    family.bind(rows, *numbers).expect("valid data")
}

/// Seconds of the fastest run.
fn fastest(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(time).fold(f64::INFINITY, f64::min)
}

/// Seconds of Newton's pass, of the first look of order 2, of a pass over it, and of the judge's.
fn passes(model: &Arc<dyn Model>) -> [f64; 4] {
    let rows = Memory::new(Arc::clone(model));
    let prior = Prior::isotropic(rows.dim(), 1.0).expect("a prior");
    let fit = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).expect("a fit");
    let posterior = Arc::new(fit.posterior);
    let at = At { theta: &posterior.mean, derivatives: 2 };
    let recipe = Arc::new(Recipe::Hermite { posterior: Arc::clone(&posterior), order: 2 });
    let gather = Gather { recipe: Arc::clone(&recipe), seed: 1, count: 100, apart: 0 };
    let sum = rows.gather(&gather).expect("in memory").sum;
    let rankings = vec![Ranking { score: Score::NormScaled, count: 100 }];
    let top = Top { recipe, vectors: vec![sum], rankings, exclude: Vec::new(), batch: None };
    let shifts = posterior.shifts(DRAWS, 1, Stream::Build);
    let totals = Totals { anchor: &posterior.mean, shifts: &shifts, wide: false };
    [
        fastest(|| drop(black_box(rows.newton(&at)))),
        // Rows remember what they made of a recipe.
        fastest(|| drop(black_box(Memory::new(Arc::clone(model)).gather(&gather)))),
        fastest(|| drop(black_box(rows.top(&top)))),
        fastest(|| drop(black_box(rows.totals(&totals)))),
    ]
}

fn main() {
    let argument = std::env::args().skip(1).find_map(|argument| argument.parse::<usize>().ok());
    let n = argument.unwrap_or(100_000);
    let asked = std::env::args().skip(1).find(|argument| argument.starts_with(char::is_alphabetic));
    let wanted = |name: &str| {
        name.starts_with("logistic") || asked.as_ref().is_none_or(|asked| name.starts_with(asked))
    };
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("a thread pool");
    println!(
        "n = {n}, D = {DIM} features, one thread; rows a second, and times the pass of logistic regression\n"
    );
    println!(
        "| family | parameters | Newton | | order 2, made | | order 2, pass | | judge, {DRAWS} draws | |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut logistic = None;
    // As many parameters as softmax of three classes has.
    let wide: Case =
        ("logistic, 22 features", BuiltIn::Logistic, Numbers::default(), |eta, noise| (eta + noise).signum());
    let cases = cases().into_iter().filter(|case| wanted(case.0)).map(|case| (case, DIM));
    for (case, dim) in cases.chain([(wide, 2 * DIM)]) {
        let model = model_of(n, dim, &case);
        let seconds = passes(&model);
        let first = *logistic.get_or_insert(seconds);
        let cells = seconds
            .iter()
            .zip(first)
            .map(|(seconds, first)| format!("{:.2e} | {:.1}", n as f64 / seconds, seconds / first));
        println!("| {} | {} | {} |", case.0, model.dim(), cells.collect::<Vec<_>>().join(" | "));
    }
}
