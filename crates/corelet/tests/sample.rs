//! NUTS against closed forms, and its diagnostics against ArviZ and known processes.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use std::ops::ControlFlow;

use corelet::generate;
use corelet::model::{Derivatives, Glm, Linear, Logistic, Model, Over};
use corelet::posterior::{
    Chains, Diagnostics, SampleError, SampleSettings, effective_sample_size, ess_bulk, ess_tail, r_hat,
    sample,
};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::rows::{Observations, Summed};
use corelet::trust::psis;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    chains: Vec<GoldenChains>,
    weights: Vec<GoldenWeights>,
}

#[derive(Deserialize)]
struct GoldenChains {
    name: String,
    draws: Vec<Vec<f64>>,
    r_hat: Option<f64>,
    ess_bulk: f64,
    ess_tail: f64,
}

#[derive(Deserialize)]
struct GoldenWeights {
    name: String,
    log_weights: Vec<f64>,
    efficiency: f64,
    smoothed: Vec<f64>,
    pareto_k: f64,
}

/// What ArviZ said; the file names its source.
fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/arviz.json")).unwrap()
}

fn close(got: f64, want: f64) -> bool {
    (got - want).abs() <= 1e-9 * want.abs().max(1.0)
}

#[test]
fn diagnostics_are_those_of_arviz() {
    for case in golden().chains {
        let name = &case.name;
        match case.r_hat {
            Some(want) => assert!(close(r_hat(&case.draws), want), "{name}: {} {want}", r_hat(&case.draws)),
            None => assert!(r_hat(&case.draws).is_nan(), "{name}"),
        }
        let (bulk, tail) = (ess_bulk(&case.draws), ess_tail(&case.draws));
        assert!(close(bulk, case.ess_bulk), "{name}: bulk {bulk} {}", case.ess_bulk);
        assert!(close(tail, case.ess_tail), "{name}: tail {tail} {}", case.ess_tail);
    }
}

#[test]
fn smoothed_weights_are_those_of_arviz() {
    for case in golden().weights {
        let smoothed = psis(&case.log_weights, case.efficiency);
        let name = &case.name;
        assert!((smoothed.pareto_k - case.pareto_k).abs() < 1e-9, "{name}: {}", smoothed.pareto_k);
        for (got, want) in smoothed.log_weights.iter().zip(&case.smoothed) {
            assert!((got - want).abs() < 1e-8, "{name}: {got} {want}");
        }
    }
}

/// Four chains of x_t = ρ·x_{t−1} + √(1−ρ²)·z.
fn ar1(rho: f64, draws: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut chain = || {
        let mut x: f64 = StandardNormal.sample(&mut rng);
        (0..draws)
            .map(|_| {
                let z: f64 = StandardNormal.sample(&mut rng);
                x = rho * x + (1.0 - rho * rho).sqrt() * z;
                x
            })
            .collect()
    };
    (0..4).map(|_| chain()).collect()
}

#[test]
fn effective_sizes_have_their_closed_form() {
    // Of an AR(1) process the effective size is N(1 − ρ)/(1 + ρ).
    for rho in [0.0, 0.5, 0.9, -0.3] {
        let chains = ar1(rho, 10_000, 5);
        let want = 40_000.0 * (1.0 - rho) / (1.0 + rho);
        for got in [effective_sample_size(&chains), ess_bulk(&chains)] {
            assert!((got / want - 1.0).abs() < 0.1, "{rho}: {got} {want}");
        }
        assert!(r_hat(&chains) < 1.01);
    }
    assert_eq!(effective_sample_size(&[vec![1.0; 10], vec![1.0; 10]]), 20.0);
    assert!(ess_bulk(&[vec![f64::NAN; 10]]).is_nan());
}

fn run(model: &dyn Model, over: Over<'_>, settings: &SampleSettings, seed: u64) -> Chains {
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    let summed = Summed { model, over };
    let fit = laplace(&summed, &prior, None, &LaplaceSettings::default()).unwrap();
    sample(&summed, &prior, &fit.posterior, settings, seed, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// A linear regression, whose weighted posterior is the Gaussian of its Laplace fit.
fn linear() -> Glm<Linear> {
    let mut observations: Observations = generate::logistic(400, 4, 3);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for y in observations.target.iter_mut() {
        let noise: f64 = StandardNormal.sample(&mut rng);
        *y += 0.3 * noise;
    }
    Linear::model(observations, 0.5).unwrap()
}

#[test]
fn draws_of_a_weighted_linear_regression_are_those_of_its_gaussian() {
    let model = linear();
    let ids: Vec<usize> = (0..400).step_by(9).collect();
    let weights: Vec<f64> = ids.iter().map(|&i| 0.5 + (i % 7) as f64).collect();
    let rows = Over::Weighted { ids: &ids, weights: &weights };
    let prior = Prior::isotropic(4, 1.0).unwrap();
    let exact = laplace(&Summed { model: &model, over: rows }, &prior, None, &LaplaceSettings::default())
        .unwrap()
        .posterior;
    let chains = run(&model, rows, &SampleSettings::default(), 7);
    let diagnostics = Diagnostics::new(&chains);
    assert!(diagnostics.mixed() && diagnostics.warnings().is_empty(), "{:?}", diagnostics.warnings());
    assert_eq!((chains.total_draws(), chains.chains[0].warmup.stats.energy.len()), (4000, 500));
    for (j, summary) in diagnostics.parameters.iter().enumerate() {
        let sd = exact.covariance[j * 4 + j].sqrt();
        let error = (summary.mean - exact.mean[j]) / sd * summary.ess_bulk.sqrt();
        assert!(error.abs() < 4.0, "mean {j}: off by {error} of its Monte-Carlo error");
        assert!((summary.sd / sd - 1.0).abs() < 0.06, "sd {j}: {} {sd}", summary.sd);
        assert!((summary.q95 - summary.q5) / (2.0 * 1.645 * sd) < 1.1);
    }
    // The log posterior that is reported is the one that was asked for.
    let first = &chains.chains[1].draws;
    let value =
        model.evaluate(rows, &first.theta[..4], Derivatives::none()) + prior.log_density(&first.theta[..4]);
    assert!((first.stats.log_posterior[0] - value).abs() < 1e-8);
}

#[test]
fn the_same_seed_gives_the_same_bits_for_any_number_of_threads() {
    let model = Logistic::model(generate::logistic(300, 3, 2)).unwrap();
    let settings = SampleSettings { warmup: 60, draws: 50, ..SampleSettings::default() };
    let with = |threads, rows, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&model, rows, &settings, seed))
    };
    let ids: Vec<usize> = (0..50).collect();
    let weights = vec![6.0; 50];
    for rows in [Over::All, Over::Weighted { ids: &ids, weights: &weights }] {
        assert_eq!(with(1, rows, 9), with(3, rows, 9));
        assert_ne!(with(1, rows, 9), with(1, rows, 10));
    }
}

#[test]
fn chains_that_have_not_mixed_say_so() {
    let model = Logistic::model(generate::logistic(300, 3, 2)).unwrap();
    let settings = SampleSettings { warmup: 60, draws: 200, ..SampleSettings::default() };
    let mut chains = run(&model, Over::All, &settings, 1);
    assert!(Diagnostics::new(&chains).mixed());
    chains.chains[2].draws.theta.iter_mut().for_each(|x| *x += 5.0);
    chains.chains[0].draws.stats.diverging[3] = true;
    let diagnostics = Diagnostics::new(&chains);
    assert!(!diagnostics.mixed());
    let warnings = diagnostics.warnings().join("\n");
    assert!(warnings.contains("not mixed") && warnings.contains("1 of 800 draws diverged"), "{warnings}");
}

#[test]
fn bad_settings_and_a_stop_are_errors() {
    let model = Logistic::model(generate::logistic(100, 3, 2)).unwrap();
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let all = Summed { model: &model, over: Over::All };
    let fit = laplace(&all, &prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let mut go = |_: &_| ControlFlow::Continue(());
    let bad = SampleSettings { draws: 2, ..SampleSettings::default() };
    let error = sample(&all, &prior, &fit, &bad, 0, &mut go).unwrap_err();
    assert_eq!(error.to_string(), "draws = 2 cannot be used: it must be 4 to 1000000");
    let mut stop = |_: &_| ControlFlow::Break(());
    let error = sample(&all, &prior, &fit, &SampleSettings::default(), 0, &mut stop).unwrap_err();
    assert!(matches!(error, SampleError::Stopped));
}
