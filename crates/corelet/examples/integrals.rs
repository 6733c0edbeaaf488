//! The rule that is chosen for the integrals of a mixed model against one of 25 nodes, for every family:
//! `cargo run --release --example integrals -- GROUPS ROWS_A_GROUP SD [FAMILY …]`.
//!
//! Prints, for an intercept of each group and two features, by how many posterior standard deviations of log σ the mode of the posterior of
//! all groups by the chosen rule, by three nodes and by five lies from that by 25 nodes.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::sync::Arc;
use std::time::Instant;

use corelet::mixed::{FitStart, MixedModel, MixedPrior, SdPrior};
use corelet::model::mixed::{Effects, Mixed, Nodes};
use corelet::model::special::sigmoid;
use corelet::model::{BuiltIn, Model, Numbers};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, laplace};
use corelet::rows::{All, Memory, Observations};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, Poisson, StandardNormal, StudentT};

const FAMILIES: [BuiltIn; 10] = [
    BuiltIn::Logistic,
    BuiltIn::Binomial,
    BuiltIn::Poisson,
    BuiltIn::NegativeBinomial,
    BuiltIn::Linear,
    BuiltIn::Student,
    BuiltIn::Gamma,
    BuiltIn::Ordinal,
    BuiltIn::Weibull,
    BuiltIn::Exponential,
];

/// The rule that others are held against.
const FINE: usize = 25;
/// The noise of linear and Student-t models, the size of counts, the shape of gamma targets, trials, and when survival is no longer watched.
const NOISE: f64 = 1.0;
const SIZE: f64 = 2.0;
const TRIALS: f64 = 4.0;
const WATCHED: f64 = 2.0;
/// A mode is found where a Newton step is this short, in posterior standard deviations.
const CLOSE: f64 = 1e-4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = arguments.split_off(arguments.len().min(3));
    let numbers: Vec<f64> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [groups, rows, sd] = numbers[..] else { return Err("GROUPS ROWS_A_GROUP SD [FAMILY …]".into()) };
    println!("family             nodes  bias said  off     5 nodes  3 nodes  log sd of 25  seconds");
    let wanted = |family: &BuiltIn| asked.is_empty() || asked.iter().any(|name| name == family.name());
    for family in FAMILIES.into_iter().filter(wanted) {
        compare(family, groups as usize, rows as usize, sd)?;
    }
    Ok(())
}

fn compare(family: BuiltIn, groups: usize, rows: usize, sd: f64) -> Result<(), Box<dyn std::error::Error>> {
    let clock = Instant::now();
    let observations = data(family, groups, rows, sd);
    let numbers = Numbers { classes: if family == BuiltIn::Ordinal { 4 } else { 0 }, ..Numbers::default() };
    let bound = family.bind(observations, numbers)?;
    let starts = (0..=groups).map(|group| group * rows).collect();
    let mixed = Mixed::new(&*bound, Effects::intercepts(), starts)?;
    let prior = MixedPrior {
        fixed: Prior::isotropic(mixed.fixed(), 2.5)?,
        sds: vec![SdPrior::HalfNormal { scale: 2.5 }],
        lkj: None,
        kept: Vec::new(),
    };
    let first = start(&bound, &prior)?;
    let mut model = MixedModel { mixed, nodes: Nodes::new(1, 1), prior };
    let (modes, rule) = model.fit(FitStart { first: &first, others: &[], spread: 1.0 }, None, 0)?;
    let fit = &modes[0].fit;
    let at = model.mixed.fixed();
    let scale = fit.sds().nth(at).unwrap_or(f64::NAN);
    let mut log_sd = |nodes: usize| {
        model.nodes = Nodes::new(nodes, 1);
        mode(&model, fit)[at]
    };
    let fine = log_sd(FINE);
    let [chosen, five, three] = [rule.nodes, 5, 3].map(|nodes| (log_sd(nodes) - fine) / scale);
    println!(
        "{:<18} {:<6} {:<10.4} {chosen:<7.4} {five:<8.4} {three:<8.4} {fine:.4} ± {scale:.4} {:.0}",
        family.name(),
        rule.nodes,
        rule.bias,
        clock.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The mode of the model's rule, by Newton steps with the covariance of the fit.
fn mode(model: &MixedModel, fit: &Gaussian) -> Vec<f64> {
    let mut theta = fit.mean.clone();
    let dim = theta.len();
    for _ in 0..50 {
        let mut gradient = model.gradient(&theta);
        model.prior.add_to(&theta, &mut gradient);
        let line = |j: usize| &fit.covariance[j * dim..(j + 1) * dim];
        let step: Vec<f64> =
            (0..dim).map(|j| line(j).iter().zip(&gradient).map(|(a, b)| a * b).sum()).collect();
        theta.iter_mut().zip(&step).for_each(|(theta, step)| *theta += step);
        let length: f64 = step.iter().zip(&gradient).map(|(a, b)| a * b).sum();
        if length.max(0.0).sqrt() < CLOSE {
            break;
        }
    }
    theta
}

/// The fit without random effects, and a moderate spread.
fn start(rows: &Arc<dyn Model>, prior: &MixedPrior) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let memory = Memory::new(Arc::clone(rows));
    let fit = laplace(&All(&memory), &prior.fixed, None, &LaplaceSettings::default())?;
    Ok([&fit.posterior.mean[..], &[0.5_f64.ln()]].concat())
}

/// Rows group by group: two features and an intercept, η = 0.5x₁ − 0.3x₂ + 0.2 + u_g.
fn data(family: BuiltIn, groups: usize, rows: usize, sd: f64) -> Observations {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut features, mut target, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..groups {
        let normal: f64 = StandardNormal.sample(&mut random);
        let effect = sd * normal;
        for _ in 0..rows {
            let [x, z]: [f64; 2] = std::array::from_fn(|_| StandardNormal.sample(&mut random));
            features.extend([x, z]);
            // Cuts between levels are intercepts already.
            features.extend((family != BuiltIn::Ordinal).then_some(1.0));
            let (y, e) = outcome(family, 0.5 * x - 0.3 * z + 0.2 + effect, &mut random);
            target.push(y);
            beside.push(e);
        }
    }
    let observations = Observations::new(&features, if family == BuiltIn::Ordinal { 2 } else { 3 }, target);
    match family {
        BuiltIn::Binomial | BuiltIn::Weibull | BuiltIn::Exponential => observations.with_exposure(beside),
        _ => observations,
    }
}

/// A target with this predictor, and what stands beside it.
fn outcome(family: BuiltIn, eta: f64, random: &mut ChaCha8Rng) -> (f64, f64) {
    let mean = eta.clamp(-30.0, 30.0).exp();
    let uniform: f64 = 1.0 - random.random::<f64>();
    let count = |mean: f64, random: &mut ChaCha8Rng| match Poisson::new(mean.max(1e-12)) {
        Ok(counts) => counts.sample(random),
        Err(_) => 0.0,
    };
    let gamma = |shape: f64, mean: f64, random: &mut ChaCha8Rng| match Gamma::new(shape, mean / shape) {
        Ok(values) => values.sample(random).max(1e-12),
        Err(_) => mean,
    };
    let noise = |random: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(random) };
    let seen = |time: f64| (time.min(WATCHED), if time < WATCHED { 1.0 } else { 0.0 });
    match family {
        BuiltIn::Logistic => (if uniform < sigmoid(eta) { 1.0 } else { -1.0 }, 1.0),
        BuiltIn::Binomial => {
            let successes = (0..TRIALS as usize).filter(|_| random.random::<f64>() < sigmoid(eta)).count();
            (successes as f64, TRIALS)
        }
        BuiltIn::Poisson => (count(mean, random), 1.0),
        BuiltIn::NegativeBinomial => {
            let mean = gamma(SIZE, mean, random);
            (count(mean, random), 1.0)
        }
        BuiltIn::Student => (eta + NOISE * StudentT::new(4.0).map_or(0.0, |noise| noise.sample(random)), 1.0),
        BuiltIn::Gamma => (gamma(SIZE, mean, random), 1.0),
        // Levels by where η and logistic noise fall.
        BuiltIn::Ordinal => {
            let latent = eta + (uniform / (1.0 - uniform).max(1e-12)).ln();
            ([-1.0, 0.5, 2.0].into_iter().filter(|cut| latent > *cut).count() as f64, 1.0)
        }
        // Shape 1.5, and hazards that are constant.
        BuiltIn::Weibull => seen(mean * (-uniform.ln()).powf(1.0 / 1.5)),
        BuiltIn::Exponential => seen(-mean * uniform.ln()),
        _ => (eta + NOISE * noise(random), 1.0),
    }
}
