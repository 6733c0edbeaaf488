//! The paper's synthetic data, larger ones of the same kind, and an insurer's: the same rows for any number of threads.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::data::{Column, DataError, Table, Values};
use crate::linalg::dot;
use crate::model::special::{sigmoid, softplus};
use crate::parallel;
use crate::random::Stream;
use crate::rows::Observations;

/// Rows of one random stream.
const CHUNK: usize = 4096;

/// The paper's logistic set: x ~ N(0, I₂) and an intercept, θ = (3, 3, 0), targets ±1. It has n = 500, or 9000.
pub fn logistic_paper(n: usize, seed: u64) -> Observations {
    rows(n, 2, seed, |x, rng| class(dot(x, &[3.0, 3.0, 0.0]), rng))
}

/// The paper's Poisson set: x ~ N(0, 1) and an intercept, θ = (1, 0), rate log(1 + exp(η)). It has n = 500, or 9000.
pub fn poisson_paper(n: usize, seed: u64) -> Observations {
    rows(n, 1, seed, |x, rng| count(softplus(dot(x, &[1.0, 0.0])), rng))
}

/// The paper's Gaussian set: rows x ~ N(0, I) without a target. It has n = 600 and D = 200.
pub fn gaussian_paper(n: usize, dim: usize, seed: u64) -> Observations {
    let mut observations = rows(n, dim, seed, |_, _| 0.0);
    let rows = observations.features.chunks_exact(dim + 1);
    observations.features = rows.flat_map(|row| &row[..dim]).copied().collect();
    observations.dim = dim;
    observations.target.clear();
    observations
}

/// A logistic set of any size: D − 1 standard normal features and an intercept, θ ~ N(0, I), targets ±1.
pub fn logistic(n: usize, dim: usize, seed: u64) -> Observations {
    let mut rng = Stream::Parameters.rng(seed, 0);
    let theta: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim).collect();
    rows(n, dim.saturating_sub(1), seed, |x, rng| class(dot(x, &theta), rng))
}

/// `count` of the rows 0 … n − 1, drawn uniformly without replacement, in the order in which they were drawn; all of
/// them where there are no more.
pub fn subsample(n: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Stream::Subsample.rng(seed, 0);
    rand::seq::index::sample(&mut rng, n, count.min(n)).into_vec()
}

/// The features as columns x1, x2, … and the target as y. Columns of ones are left out: the design adds its own.
///
/// # Errors
/// If a number is infinite.
pub fn to_table(observations: &Observations, source: &str) -> Result<Table, DataError> {
    let n = observations.len();
    let mut columns: Vec<Column> = Vec::new();
    for j in 0..observations.dim {
        let values: Vec<f64> = (0..n).map(|i| observations.row(i)[j].into()).collect();
        if values.iter().any(|&x| x != 1.0) {
            let name = format!("x{}", columns.len() + 1);
            columns.push(Column { name, values: Values::Number { values, integer: false } });
        }
    }
    if !observations.target.is_empty() {
        let values = observations.target.to_vec();
        let integer = values.iter().all(|y| y.fract() == 0.0);
        columns.push(Column { name: "y".to_owned(), values: Values::Number { values, integer } });
    }
    Table::new(source, columns)
}

/// The text columns of [`claims`]: a name, the number of levels, and how much rarer each is than the one before.
const CLAIM_LEVELS: [(&str, usize, f64); 3] = [("area", 6, 0.5), ("brand", 11, 0.55), ("region", 22, 0.65)];

/// The numbers of [`claims`], and what one of them at its usual size does to the logarithm of the rate.
const CLAIM_NUMBERS: [(&str, f64); 6] = [
    ("power", 0.05),
    ("vehicle_age", -0.1),
    ("driver_age", 0.15),
    ("malus", 0.3),
    ("density", 0.05),
    ("distance", 0.2),
];

/// Policies like those of an insurer, for a Poisson regression of `claims` with the `exposure`: six skewed
/// numbers, three text columns of 6, 11 and 22 levels the last of which are rare (one row in 25 000), mostly no claim, and now
/// and then many. With an intercept that is D = 43.
///
/// # Errors
/// None that is known: those of a table.
pub fn claims(n: usize, seed: u64) -> Result<Table, DataError> {
    let mut rng = Stream::Parameters.rng(seed, 0);
    let effects = CLAIM_LEVELS.map(|(_, levels, _)| {
        let normal = StandardNormal.sample_iter(&mut rng);
        normal.take(levels).map(|x: f64| 0.25 * x).collect::<Vec<f64>>()
    });
    let chunks = parallel::map(parallel::parts(n, CHUNK).enumerate(), |(chunk, rows)| {
        let mut rng = Stream::Generate.rng(seed, chunk as u64);
        rows.map(|_| Policy::draw(&effects, &mut rng)).collect::<Vec<Policy>>()
    });
    let policies: Vec<Policy> = chunks.into_iter().flatten().collect();
    let number = |name: &str, integer: bool, of: &dyn Fn(&Policy) -> f64| Column {
        name: name.to_owned(),
        values: Values::Number { values: policies.iter().map(of).collect(), integer },
    };
    let mut columns = vec![
        number("claims", true, &|policy| policy.claims),
        number("exposure", false, &|policy| policy.exposure),
    ];
    for (j, (name, _)) in CLAIM_NUMBERS.iter().enumerate() {
        columns.push(number(name, false, &|policy| policy.numbers[j]));
    }
    for (j, (name, levels, _)) in CLAIM_LEVELS.iter().enumerate() {
        let codes = policies.iter().map(|policy| policy.levels[j]).collect();
        let levels = (0..*levels).map(|level| format!("{}{level}", &name[..1])).collect();
        columns.push(Column { name: (*name).to_owned(), values: Values::Text { codes, levels } });
    }
    Table::new("claims", columns)
}

struct Policy {
    numbers: [f64; 6],
    levels: [u32; 3],
    exposure: f64,
    claims: f64,
}

impl Policy {
    fn draw(effects: &[Vec<f64>; 3], rng: &mut ChaCha8Rng) -> Self {
        // Exponential: skewed, and with rows far out.
        let numbers = CLAIM_NUMBERS.map(|_| -> f64 { Exp1.sample(rng) });
        let levels = CLAIM_LEVELS.map(|(_, levels, ratio)| {
            let rarity: f64 = Exp1.sample(rng);
            (rarity / -ratio.ln()).min(levels as f64 - 1.0) as u32
        });
        let exposure = (1.3 * rng.random::<f64>()).clamp(0.01, 1.0);
        let by_number = CLAIM_NUMBERS.iter().zip(numbers).map(|((_, effect), x)| effect * (x - 1.0));
        let by_level = effects.iter().zip(levels).map(|(effects, level)| effects[level as usize]);
        let luck: f64 = StandardNormal.sample(rng);
        let eta = -3.0 + by_number.sum::<f64>() + by_level.sum::<f64>() + 0.7 * luck;
        let claims = count(exposure * eta.min(3.0).exp(), rng);
        Self { numbers, levels, exposure, claims }
    }
}

/// n rows of `normals` standard normal features and an intercept, and the target that `draw` gives them.
fn rows(
    n: usize,
    normals: usize,
    seed: u64,
    draw: impl Fn(&[f64], &mut ChaCha8Rng) -> f64 + Sync,
) -> Observations {
    let dim = normals + 1;
    let (mut features, mut target) = (vec![1.0; n * dim], vec![0.0; n]);
    let chunks = features.chunks_mut(CHUNK * dim).zip(target.chunks_mut(CHUNK)).enumerate();
    parallel::map(chunks, |(chunk, (features, target))| {
        let mut rng = Stream::Generate.rng(seed, chunk as u64);
        let mut row = vec![1.0; dim];
        for (x, y) in features.chunks_exact_mut(dim).zip(target) {
            row[..normals].iter_mut().for_each(|x| *x = StandardNormal.sample(&mut rng));
            x.iter_mut().zip(&row).for_each(|(to, x)| *to = *x as f32);
            *y = draw(&row, &mut rng);
        }
    });
    Observations { features: features.into(), dim, target: target.into(), ..Observations::default() }
}

fn class(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    if rng.random::<f64>() < sigmoid(eta) { 1.0 } else { -1.0 }
}

/// A Poisson count by inversion, which needs rates of moderate size only.
fn count(rate: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (mut left, mut chance, mut count) = (rng.random::<f64>(), (-rate).exp(), 0.0);
    while left > chance && chance > 0.0 {
        left -= chance;
        count += 1.0;
        chance *= rate / count;
    }
    count
}
