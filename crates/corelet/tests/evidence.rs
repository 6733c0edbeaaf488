//! Log evidence by bridge sampling against closed forms and grids; differences between models.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::data::{Column, Columns, DesignOptions, Source, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::{Density, SampleSettings};
use corelet::random::Stream;
use corelet::rows::{All, At, LogLikelihood};
use corelet::study::{ModelSpecification, Specification, Study, unheard};
use corelet::trust::Draws;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// n rows of some features, of which the first matters.
fn study(n: usize, features: usize, model: ModelSpecification) -> Study {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let classes = model.model == BuiltIn::Logistic;
    let mut columns = vec![Vec::new(); features + 1];
    for _ in 0..n {
        let x: Vec<f64> = (0..features).map(|_| StandardNormal.sample(&mut rng)).collect();
        let noise: f64 = StandardNormal.sample(&mut rng);
        let eta = 0.4 + 0.8 * x[0];
        let y = if classes {
            f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta).exp())))
        } else {
            eta + 0.7 * noise
        };
        columns.iter_mut().zip(x.into_iter().chain([y])).for_each(|(column, x)| column.push(x));
    }
    let name = |at: usize| if at == features { "y".to_owned() } else { format!("x{at}") };
    let number = |(at, values)| Column { name: name(at), values: Values::Number { values, integer: false } };
    let table = Table::new("rows", columns.into_iter().enumerate().map(number).collect()).unwrap();
    let design = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
    Study::open(&Source::of_table(table), &Specification { design, model, ..Specification::default() })
        .unwrap()
}

fn linear(n: usize, features: usize) -> Study {
    let model = BuiltIn::Linear;
    study(n, features, ModelSpecification { model, sigma: Some(0.8), ..ModelSpecification::default() })
}

/// log p(y) of a linear model with known noise, row after row: each is normal given those before it.
fn exact(study: &Study) -> f64 {
    let rows = study.problem().rows.fetch(&(0..study.len()).collect::<Vec<_>>()).unwrap();
    let normal = |density: &Density| match density {
        Density::Normal { mean, sd } => (*mean, *sd),
        _ => panic!("the prior is normal"),
    };
    let (mut mean, sd): (Vec<f64>, Vec<f64>) = study.resolved().priors.iter().map(normal).unzip();
    let dim = mean.len();
    let mut covariance: Vec<f64> =
        (0..dim * dim).map(|at| if at / dim == at % dim { sd[at / dim].powi(2) } else { 0.0 }).collect();
    let mut sum = 0.0;
    for i in 0..rows.len() {
        let x = rows.wide_row(i);
        let gain: Vec<f64> =
            (0..dim).map(|a| (0..dim).map(|b| covariance[a * dim + b] * x[b]).sum()).collect();
        let variance = 0.64 + x.iter().zip(&gain).map(|(x, g)| x * g).sum::<f64>();
        let off = rows.target(i).0 - x.iter().zip(&mean).map(|(x, m)| x * m).sum::<f64>();
        sum -= 0.5 * (off * off / variance + (std::f64::consts::TAU * variance).ln());
        mean.iter_mut().zip(&gain).for_each(|(m, g)| *m += g * off / variance);
        for a in 0..dim {
            (0..dim).for_each(|b| covariance[a * dim + b] -= gain[a] * gain[b] / variance);
        }
    }
    sum
}

/// Independent draws of the Laplace fit, which is exact here, stretched; and what weights them back.
fn drawn(study: &Study, scale: f64) -> (Draws, Option<Vec<f64>>) {
    let posterior = &study.full(&mut unheard).unwrap().posterior;
    let shifts = posterior.shifts(2000, 9, Stream::HeldOut);
    let theta: Vec<f64> = (0..2000)
        .flat_map(|s| {
            posterior.mean.iter().zip(shifts.row(s)).map(|(m, d)| m + scale * d).collect::<Vec<f64>>()
        })
        .collect();
    let draws = Draws { theta, dim: posterior.dim(), chains: None, log_weights: None };
    let log_weight = |s: usize| {
        let z = posterior.whitened(shifts.row(s));
        -0.5 * (scale * scale - 1.0) * z.iter().map(|z| z * z).sum::<f64>()
    };
    let weights = (scale != 1.0).then(|| (0..draws.len()).map(log_weight).collect());
    (draws, weights)
}

#[test]
fn a_linear_model_has_its_closed_form() {
    for (n, features) in [(60, 2), (3000, 6)] {
        let study = linear(n, features);
        let truth = exact(&study);
        for scale in [1.0, 1.2] {
            let (draws, weights) = drawn(&study, scale);
            let found = study.evidence(&draws, weights.as_deref(), 3).unwrap().unwrap();
            assert!((found.log - truth).abs() < 4.0 * found.se, "{found:?}, {truth} at scale {scale}");
            assert!(found.se < 0.08 && found.se > 1e-4, "{found:?}");
            assert!(!found.is_doubtful(), "{found:?}");
        }
        // Draws that are stretched and not weighted back are another posterior's.
        let (draws, _) = drawn(&study, 1.4);
        let wrong = study.evidence(&draws, None, 3).unwrap().unwrap();
        assert!((wrong.log - truth).abs() > 3.0 * wrong.se && wrong.is_doubtful(), "{wrong:?}");
        // A parameter that does not move has no density.
        let mut still = drawn(&study, 1.0).0;
        still.theta.chunks_exact_mut(still.dim).for_each(|draw| draw[0] = 0.3);
        assert!(study.evidence(&still, None, 3).unwrap().is_none());
    }
}

#[test]
fn chains_of_a_logistic_model_give_that_of_a_grid() {
    let study = study(150, 1, ModelSpecification::default());
    let fit = study.full(&mut unheard).unwrap().posterior.clone();
    let log_posterior = |theta: &[f64]| {
        let rows = study.problem().rows;
        let value = All(rows).evaluate(&At { theta, derivatives: 0 }).unwrap().value;
        value + study.problem().prior.log_density(theta)
    };
    // In the coordinates of the Gaussian fit, seven standard deviations each way.
    let (steps, width) = (240, 14.0 / 240.0);
    let at = |i: usize| -7.0 + (i as f64 + 0.5) * width;
    let centre = log_posterior(&fit.mean);
    let mut sum = 0.0;
    for (a, b) in (0..steps).flat_map(|i| (0..steps).map(move |j| (i, j))) {
        let z = [at(a), at(b)];
        let theta: Vec<f64> =
            (0..2).map(|i| fit.mean[i] + fit.factor[2 * i] * z[0] + fit.factor[2 * i + 1] * z[1]).collect();
        sum += (log_posterior(&theta) - centre).exp();
    }
    let truth = centre + (sum * width * width).ln() - 0.5 * fit.log_det_precision;
    let settings = SampleSettings { draws: 2000, ..SampleSettings::default() };
    let chains = study.sample(None, &settings, 1, &mut unheard).unwrap().chains;
    let draws = Draws::from_chains(&chains, 4000);
    let found = study.evidence(&draws, None, 3).unwrap().unwrap();
    assert!((found.log - truth).abs() < 4.0 * found.se.max(2e-3), "{found:?} {truth}");
    assert!(found.se < 0.03, "{found:?}");
}

/// The standard error is that of repetitions.
#[test]
fn the_standard_error_is_honest() {
    let study = linear(200, 3);
    let truth = exact(&study);
    let (draws, _) = drawn(&study, 1.0);
    let posterior = study.full(&mut unheard).unwrap().posterior.clone();
    let of = |seed: u64| {
        let shifts = posterior.shifts(1000, seed, Stream::HeldOut);
        let theta: Vec<f64> = (0..1000)
            .flat_map(|s| posterior.mean.iter().zip(shifts.row(s)).map(|(m, d)| m + d).collect::<Vec<f64>>())
            .collect();
        let found = study.evidence(&Draws { theta, ..draws.clone() }, None, seed).unwrap().unwrap();
        [(found.log - truth) / found.se, found.gap.0 / found.gap.1]
    };
    let scores: Vec<[f64; 2]> = (0..40).map(of).collect();
    for which in [0, 1] {
        let spread = (scores.iter().map(|z| z[which] * z[which]).sum::<f64>() / 40.0).sqrt();
        assert!((0.6..1.5).contains(&spread), "{which}: {spread}");
    }
}
