//! Tails under priors with heavy tails: Laplace's approximation of a marginal against integrals over a grid, and draws that lack a tail
//! against draws that have it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::{Chain, Chains, Phase, tails};
use corelet::rows::{All, At, LogLikelihood};
use corelet::study::{ModelSpecification, Specification, Study, unheard};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde_json::json;

/// Binary outcomes of a feature, under a Cauchy prior. Noise of 0 separates them, so that the data allow any large slope.
fn study(n: usize, noise: f64) -> Study {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
    let (x, y) = (0..n)
        .map(|_| {
            let x = normal();
            (x, f64::from(u8::from(x + noise * normal() > 0.0)))
        })
        .unzip();
    let numbers = |name: &str, values: Vec<f64>| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    };
    let design = DesignOptions {
        columns: Columns::predicting("y"),
        intercept: true,
        standardise: Standardise::None,
        ..DesignOptions::default()
    };
    let priors = Some(serde_json::from_value(json!({ "default": "student_t(1, 0, 2.5)" })).unwrap());
    let model = ModelSpecification { model: BuiltIn::Logistic, priors, ..ModelSpecification::default() };
    let specification = Specification { design, model, ..Specification::default() };
    let table = Table::new("rows", vec![numbers("x", x), numbers("y", y)]).unwrap();
    Study::open(&Source::of_table(table), &specification).unwrap()
}

/// The distribution function of the slope at places that stand ever farther apart, by a grid over both parameters.
fn by_grid(study: &Study) -> Vec<(f64, f64)> {
    let problem = study.problem();
    let all = All(problem.rows);
    let scale = |i: i32| (0.02 * f64::from(i)).sinh();
    let density = |slope: f64, intercept: f64| {
        let theta = [slope, intercept];
        let value = all.evaluate(&At { theta: &theta, derivatives: 0 }).unwrap().value;
        (value + problem.prior.log_density(&theta)).exp()
    };
    let of_slope = |i: i32| {
        let slope = scale(i);
        // cosh is what a step of u is in the parameter.
        let inner: f64 = (-400..400).map(|j| density(slope, scale(j)) * (0.02 * f64::from(j)).cosh()).sum();
        (slope, inner * (0.02 * f64::from(i)).cosh())
    };
    let masses: Vec<(f64, f64)> = (-200..600).map(of_slope).collect();
    let total: f64 = masses.iter().map(|(_, mass)| mass).sum();
    let mut below = 0.0;
    masses
        .into_iter()
        .map(|(slope, mass)| {
            below += mass / total;
            (slope, below)
        })
        .collect()
}

/// Four chains of independent draws of the slope, from all but the uppermost `missing` of its mass.
fn drawn(truth: &[(f64, f64)], missing: f64) -> Chains {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let count = 2000;
    let mut slopes: Vec<f64> = (0..count)
        .map(|s| {
            let wanted = (1.0 - missing) * (s as f64 + rng.random::<f64>()) / count as f64;
            truth[truth.partition_point(|&(_, below)| below < wanted).min(truth.len() - 1)].0
        })
        .collect();
    slopes.shuffle(&mut rng);
    let chain = |slopes: &[f64]| {
        let theta = slopes.iter().flat_map(|&slope| [slope, 0.0]).collect();
        Chain { draws: Phase { theta, ..Phase::default() }, ..Chain::default() }
    };
    Chains { dim: 2, chains: slopes.chunks(count / 4).map(chain).collect() }
}

#[test]
fn a_tail_that_draws_lack_is_found_and_one_that_they_have_is_not() {
    let study = study(40, 0.0);
    let mode = study.full(&mut unheard).unwrap();
    let problem = study.problem();
    let found = tails(&All(problem.rows), problem.prior, &[mode]).unwrap();
    let tail = found.iter().find(|tail| tail.at == 0).unwrap();
    let truth = by_grid(&study);
    assert_eq!(tail.against(&drawn(&truth, 0.0)), None);
    for missing in [0.2, 0.5] {
        let missed = tail.against(&drawn(&truth, missing)).unwrap();
        assert!(missed.above && missed.at == 0, "{missed:?}");
        assert!((missed.distance() - missing).abs() < 0.1, "{missing}: {missed:?}");
    }
}

/// Data that determine the parameters leave no tail, whatever the prior.
#[test]
fn a_posterior_without_tails_has_none() {
    let study = study(500, 1.5);
    let mode = study.full(&mut unheard).unwrap();
    let problem = study.problem();
    assert!(tails(&All(problem.rows), problem.prior, &[mode]).unwrap().is_empty());
}
