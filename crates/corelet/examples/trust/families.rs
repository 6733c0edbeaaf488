//! Generated sets of the families with more than a coefficient a feature, and of successes and survival times.

use std::sync::Arc;

use corelet::model::special::sigmoid;
use corelet::model::{
    Binomial, Exponential, Gamma, Model, NegativeBinomial, Normal, Ordinal, Softmax, Student, StudentDegrees,
    Weibull,
};
use corelet::rows::Observations;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

use super::common::Setting;

/// One set of each.
pub(crate) fn sets() -> Vec<Setting> {
    let models: Vec<(&str, Arc<dyn Model>)> = vec![
        ("linear, σ unknown 400 × 5", Arc::new(Normal::model(rows(400, 5, 11, noisy)).unwrap())),
        ("Student-t 400 × 4", Arc::new(Student::model(rows(400, 4, 12, heavy), 4.0).unwrap())),
        ("negative binomial 500 × 4", Arc::new(NegativeBinomial::model(rows(500, 4, 13, count)).unwrap())),
        ("gamma 400 × 4", Arc::new(Gamma::model(rows(400, 4, 14, skewed)).unwrap())),
        ("binomial 300 × 4", Arc::new(Binomial::model(successes(300, 4, 15)).unwrap())),
        ("Weibull 400 × 4", Arc::new(Weibull::model(censored(400, 4, 16)).unwrap())),
        ("exponential 400 × 4", Arc::new(Exponential::model(censored(400, 4, 17)).unwrap())),
        ("Student-t, ν unknown 400 × 4", Arc::new(StudentDegrees::model(rows(400, 4, 18, heavy)).unwrap())),
        ("softmax, 3 classes 500 × 3", Arc::new(Softmax::model(rows(500, 3, 19, class), 3).unwrap())),
        ("softmax, 5 classes 800 × 3", Arc::new(Softmax::model(rows(800, 3, 20, level::<5>), 5).unwrap())),
        ("ordinal, 4 levels 400 × 4", Arc::new(Ordinal::model(rows(400, 4, 21, level::<4>), 4).unwrap())),
        ("ordinal, 7 levels 600 × 3", Arc::new(Ordinal::model(rows(600, 3, 22, level::<7>), 7).unwrap())),
    ];
    models.into_iter().map(|(name, model)| Setting::new(name, model, 2.0)).collect()
}

/// Standard normal features with an intercept last, and targets by η.
fn rows(n: usize, dim: usize, seed: u64, target: impl Fn(f64, &mut ChaCha8Rng) -> f64) -> Observations {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut features, mut targets) = (Vec::with_capacity(n * dim), Vec::with_capacity(n));
    for _ in 0..n {
        let x: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim - 1).collect();
        let eta = 0.3 + 0.5 * x[0] - 0.3 * x[1];
        features.extend(x);
        features.push(1.0);
        targets.push(target(eta, &mut rng));
    }
    Observations::new(&features, dim, targets)
}

fn noisy(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    eta + 0.8 * z
}

fn heavy(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (z, w): (f64, f64) = (StandardNormal.sample(rng), Exp1.sample(rng));
    eta + 0.5 * z / (0.1 + w).sqrt()
}

fn skewed(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (a, b): (f64, f64) = (Exp1.sample(rng), Exp1.sample(rng));
    eta.exp() * (0.5 * (a + b)).max(1e-3)
}

fn count(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    skewed(eta + 1.0, rng).round()
}

/// One of three classes without an order.
fn class(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let scores = [0.0, eta, 0.5 - eta].map(|score| {
        let noise: f64 = Exp1.sample(rng);
        score - noise.ln()
    });
    (0..3).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or_default() as f64
}

/// One of so many levels, higher where η is.
fn level<const LEVELS: u8>(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (levels, z): (f64, f64) = (f64::from(LEVELS), StandardNormal.sample(rng));
    (levels * sigmoid(1.5 * eta + 1.2 * z)).floor().min(levels - 1.0)
}

/// Successes of three to seven trials.
fn successes(n: usize, dim: usize, seed: u64) -> Observations {
    let mut probabilities = rows(n, dim, seed, |eta, rng| {
        let z: f64 = StandardNormal.sample(rng);
        sigmoid(eta + 0.5 * z)
    });
    let trials: Vec<f64> = (0..n).map(|i| (3 + i % 5) as f64).collect();
    probabilities.target.iter_mut().zip(&trials).for_each(|(p, trials)| *p = (*p * trials).round());
    probabilities.with_exposure(trials)
}

/// Times, every fourth of which is one until which nothing was seen.
fn censored(n: usize, dim: usize, seed: u64) -> Observations {
    let events = (0..n).map(|i: usize| if i.is_multiple_of(4) { 0.0 } else { 1.0 }).collect();
    rows(n, dim, seed, skewed).with_exposure(events)
}
