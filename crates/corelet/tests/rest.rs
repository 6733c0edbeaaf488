//! k rows and one Gaussian: means of derivatives against brute force, exactness where it is exact, A ⪯ 0, and files.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{count, observations, sign};
use corelet::coreset::{BuildError, BuildOptions, Built, RestChoice, RoundOptions, build_in_rounds};
use corelet::generate;
use corelet::linalg::{row_major, symmetric_eigenvalues};
use corelet::model::{
    Derivatives, GaussianMean, Linear, Link, Logistic, Model, NegativeBinomial, Normal, Over, Poisson,
    Softmax, Spread, Student,
};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, SampleSettings, laplace, sample};
use corelet::rows::{
    All, At, LogLikelihood, Memory, Newton, Observations, Problem, Rest, Rows, Under, Weighted,
};
use corelet::trust::{Draws, Grade, Verdict, verdict};

/// Nodes and weights of the 9-point Gauss rule for z ~ N(0, 1), from tables (Abramowitz and Stegun 25.10, scaled).
const GAUSS: [(f64, f64); 5] = [
    (0.0, 0.406_349_206_349_206_3),
    (1.023_255_663_789_132_5, 0.244_097_502_894_939),
    (2.076_847_978_677_83, 0.049_916_406_765_217_9),
    (3.205_429_002_856_470_3, 0.002_789_141_321_231_770_6),
    (4.512_745_863_399_783, 0.000_022_345_844_007_746_6),
];

/// A Gaussian over so many parameters whose predictors spread widely enough to matter.
fn spread(dim: usize, width: f64) -> Gaussian {
    let precision =
        row_major(
            dim,
            |i, j| if i == j { (1.0 + 0.3 * i as f64) / (width * width) } else { 0.2 / (width * width) },
        );
    Gaussian::from_precision((0..dim).map(|i| 0.1 * (i as f64 - 0.7)).collect(), precision).unwrap()
}

/// The means of the derivatives by a product rule over all parameters.
fn brute_force(model: &dyn Model, under: &Gaussian) -> Newton {
    let dim = model.dim();
    let rule: Vec<(f64, f64)> = GAUSS
        .iter()
        .flat_map(|&(z, w)| if z == 0.0 { vec![(z, w)] } else { vec![(z, w), (-z, w)] })
        .collect();
    let mut sum = Newton { value: 0.0, gradient: vec![0.0; dim], hessian: vec![0.0; dim * dim] };
    for code in 0..rule.len().pow(dim as u32) {
        let nodes: Vec<(f64, f64)> =
            (0..dim).map(|axis| rule[code / rule.len().pow(axis as u32) % rule.len()]).collect();
        let weight: f64 = nodes.iter().map(|node| node.1).product();
        let shift = |i: usize| (0..=i).map(|j| under.factor[i * dim + j] * nodes[j].0).sum::<f64>();
        let theta: Vec<f64> = (0..dim).map(|i| under.mean[i] + shift(i)).collect();
        let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
        sum.value +=
            weight * model.evaluate(Over::All, &theta, Derivatives::both(&mut gradient, &mut hessian));
        sum.gradient.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += weight * x);
        sum.hessian.iter_mut().zip(hessian).for_each(|(sum, x)| *sum += weight * x);
    }
    sum
}

fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    let size = want.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * size, "{what} {at}: {got} {want}");
    }
}

#[test]
fn means_of_derivatives_are_those_of_brute_force() {
    let weights = |n: usize| (0..n).map(|i| 0.5 + (i % 3) as f64).collect::<Vec<f64>>();
    let offset = |n: usize| (0..n).map(|i| 0.1 * (i % 4) as f64).collect::<Vec<f64>>();
    let number = |eta: f64, noise: f64| eta + noise;
    let class = |eta: f64, noise: f64| (eta + noise).abs().floor().min(2.0);
    let beside = |rows: Observations| {
        let n = rows.len();
        rows.with_weights(weights(n)).with_offset(offset(n))
    };
    let identity: Vec<f64> = row_major(3, |i, j| if i == j { 1.3 } else { 0.2 });
    let models: Vec<(Arc<dyn Model>, f64, f64)> = vec![
        (Arc::new(Logistic::model(observations(40, 3, 1, sign)).unwrap()), 0.4, 1e-5),
        (Arc::new(Logistic::model(beside(observations(40, 3, 1, sign))).unwrap()), 0.1, 1e-9),
        (Arc::new(Poisson::model(beside(observations(40, 3, 2, count)), Link::Log).unwrap()), 0.2, 1e-8),
        (Arc::new(Linear::model(observations(40, 3, 3, number), 0.7).unwrap()), 0.4, 1e-12),
        (Arc::new(Student::model(observations(40, 3, 4, number), 4.0).unwrap()), 0.05, 1e-4),
        (Arc::new(Normal::model(observations(40, 2, 5, number)).unwrap()), 0.1, 1e-4),
        (Arc::new(NegativeBinomial::model(observations(40, 2, 6, count)).unwrap()), 0.05, 1e-4),
        (Arc::new(Softmax::model(observations(40, 2, 7, class), 3).unwrap()), 0.1, 1e-4),
        (Arc::new(GaussianMean::new(observations(40, 3, 8, number), &identity).unwrap()), 0.4, 1e-12),
    ];
    for (model, width, tolerance) in models {
        let under = spread(model.dim(), width);
        let want = brute_force(&*model, &under);
        let got = Memory::new(Arc::clone(&model)).expect(&Under::from(&under)).unwrap();
        let name = model.name();
        assert!(
            (got.value - want.value).abs() <= tolerance * want.value.abs(),
            "{name} {} {}",
            got.value,
            want.value
        );
        near(&got.gradient, &want.gradient, tolerance, &format!("{name} gradient"));
        near(&got.hessian, &want.hessian, tolerance, &format!("{name} Hessian"));
    }
}

/// So many parameters that the Hessian is summed in tiles: the same as summed row by row, and the same bits for any number of threads.
#[test]
fn large_hessians_are_those_of_single_rows() {
    let (n, dim) = (3000, 330);
    let scaled = |classes: usize, features: usize| {
        let mut rows = generate::logistic(n, features, 3);
        rows.features = rows.features.iter().map(|x| 0.1 * x).collect();
        if classes > 2 {
            rows.target = (0..n).map(|i| (i * 7 % classes) as f64).collect();
        }
        rows
    };
    let models: [Arc<dyn Model>; 2] = [
        Arc::new(Logistic::model(scaled(2, dim)).unwrap()),
        Arc::new(Softmax::model(scaled(3, 165), 3).unwrap()),
    ];
    for model in models {
        let (dim, rows) = (model.dim(), Memory::new(Arc::clone(&model)));
        let theta: Vec<f64> = (0..dim).map(|j| 0.05 * (j as f64).sin()).collect();
        let under = Gaussian::from_precision(
            theta.clone(),
            row_major(dim, |i, j| f64::from(u8::from(i == j)) * 50.0),
        );
        let under = under.unwrap();
        let plain = |expected: bool| {
            let mut sum = Newton { value: 0.0, gradient: vec![0.0; dim], hessian: vec![0.0; dim * dim] };
            for part in (0..n).collect::<Vec<usize>>().chunks(1000) {
                let ones = vec![1.0; part.len()];
                let over = Over::Weighted { ids: part, weights: &ones };
                let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
                let asked = Derivatives::both(&mut gradient, &mut hessian);
                let spread = Spread { mean: &under.mean, factor: &under.factor };
                let value = if expected {
                    model.expected(over, &spread, asked)
                } else {
                    model.evaluate(over, &theta, asked)
                };
                sum.add(&Newton { value, gradient, hessian });
            }
            sum
        };
        for expected in [false, true] {
            let ask = || match expected {
                true => rows.expect(&Under::from(&under)).unwrap(),
                false => rows.newton(&At { theta: &theta, derivatives: 2 }).unwrap(),
            };
            let (got, want) = (ask(), plain(expected));
            near(&got.gradient, &want.gradient, 1e-12, "gradient");
            near(&got.hessian, &want.hessian, 1e-12, "Hessian");
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(ask);
            let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap().install(ask);
            assert_eq!(one, two);
        }
    }
}

/// A build with a Gaussian, and the rows that it is of.
fn build(rows: &Memory, prior: &Prior, k: usize, rest: RestChoice) -> Result<(Built, Gaussian), BuildError> {
    let full = laplace(&All(rows), prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let options = BuildOptions { k, rest, ..BuildOptions::default() };
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let problem = Problem { rows, prior };
    let built = build_in_rounds(problem, &full, &options, &RoundOptions::default(), go_on)?;
    Ok((built, full))
}

fn weighted(rows: &Memory, built: &Built) -> Weighted {
    let coreset = &built.coreset;
    Weighted::fetch_with_rest(rows, &coreset.rows, &coreset.weights, coreset.rest.clone()).unwrap()
}

fn judged(rows: &Memory, prior: &Prior, points: &Weighted, draws: &Draws) -> Verdict {
    verdict(rows, prior, points, draws, 0).unwrap()
}

#[test]
fn a_quadratic_log_likelihood_needs_no_row() {
    let number = |eta: f64, noise: f64| eta + noise;
    let rows = Memory::new(Arc::new(Linear::model(observations(2000, 4, 3, number), 0.7).unwrap()));
    let prior = Prior::isotropic(4, 1.0).unwrap();
    let (built, full) = build(&rows, &prior, 50, RestChoice::Gaussian).unwrap();
    assert!(built.coreset.rows.is_empty() && built.coreset.undetermined == 0);
    assert!(built.rounds[0].variance.unwrap() < 1e-12, "{:?}", built.rounds);
    let points = weighted(&rows, &built);
    let fit = points.fit(&prior).unwrap().posterior;
    near(&fit.mean, &full.mean, 1e-8, "mean");
    near(&fit.precision, &full.precision, 1e-8, "precision");
    // Independent draws in place of chains, and a verdict on them.
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let chains = sample(&points, &prior, &fit, &SampleSettings::default(), 5, go_on).unwrap();
    assert_eq!((chains.total_draws(), chains.gradients()), (4000, 0));
    let judged = judged(&rows, &prior, &points, &Draws::from_chains(&chains, 4000));
    assert_eq!(judged.grade, Grade::A);
    assert!(judged.divergence.variance < 1e-12);
    for j in 0..4 {
        let draws = chains.parameter(j).concat();
        let mean = draws.iter().sum::<f64>() / 4000.0;
        let sd = full.covariance[j * 5].sqrt();
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!((mean - full.mean[j]).abs() < 5.0 * sd / 4000f64.sqrt(), "{j}");
        assert!((variance / (sd * sd) - 1.0).abs() < 0.15, "{j}");
        let energy = &chains.chains[0].draws.stats.log_posterior[0];
        let theta = &chains.chains[0].draws.theta[..4];
        let value = points.evaluate(&At { theta, derivatives: 0 }).unwrap().value + prior.log_density(theta);
        assert!((energy - value).abs() < 1e-9 * value.abs(), "{energy} {value}");
    }
}

/// Twenty parameters and 600 rows: a hundred rows alone are of no use, the Gaussian alone is good, and rows beside it make it better.
#[test]
fn a_gaussian_carries_what_few_rows_cannot() {
    let rows = Memory::new(Arc::new(Logistic::model(observations(600, 20, 1, sign)).unwrap()));
    let prior = Prior::isotropic(20, 1.0).unwrap();
    let variance = |k: usize, rest: RestChoice| {
        let (built, _) = build(&rows, &prior, k, rest).unwrap();
        let points = weighted(&rows, &built);
        let fit = points.fit(&prior).unwrap().posterior;
        let draws = Draws::from_gaussian(&points, &prior, &fit, 1000, 9).unwrap();
        (judged(&rows, &prior, &points, &draws).divergence.variance, built)
    };
    let (by_rows, _) = variance(60, RestChoice::None);
    let (alone, without) = variance(0, RestChoice::Gaussian);
    let (both, with) = variance(200, RestChoice::Gaussian);
    let (auto, chosen) = variance(60, RestChoice::Auto);
    assert!(without.coreset.rows.is_empty() && !with.coreset.rows.is_empty(), "{:?}", with.rounds);
    assert!(alone < 0.1 * by_rows && both < 0.7 * alone, "{by_rows} {alone} {both}");
    assert!(chosen.coreset.rest.is_some() && auto <= 1.1 * alone, "{auto}");
    // The judge's own V, on other draws, is the same.
    let said = without.rounds[0].variance.unwrap();
    assert!((said / alone - 1.0).abs() < 0.3, "{said} {alone}");
}

#[test]
fn the_curvature_is_never_positive() {
    let number = |eta: f64, noise: f64| eta + noise * noise * noise;
    for seed in 0..6 {
        let models: [Arc<dyn Model>; 3] = [
            Arc::new(Logistic::model(observations(400, 5, seed, sign)).unwrap()),
            Arc::new(Poisson::model(observations(400, 5, seed, count), Link::Log).unwrap()),
            Arc::new(Student::model(observations(400, 5, seed, number), 3.0).unwrap()),
        ];
        for model in models {
            let (name, rows) = (model.name(), Memory::new(model));
            let prior = Prior::isotropic(rows.dim(), 2.0).unwrap();
            for k in [0, 5, 40] {
                let (built, _) = build(&rows, &prior, k, RestChoice::Gaussian).unwrap();
                let rest = built.coreset.rest.as_ref().unwrap();
                let most = symmetric_eigenvalues(&rest.curvature, rest.dim()).unwrap();
                let (least, most) = (most[0].abs(), most[rest.dim() - 1]);
                assert!(most <= 1e-9 * least, "{name} {seed} {k}: {most} {least}");
                assert!(built.coreset.weights.iter().all(|&weight| weight >= 0.0));
            }
        }
    }
}

/// A feature that is always zero, and another that another repeats with the opposite sign in a log-likelihood: what the data do not say is
/// left to the prior.
#[test]
fn what_the_data_do_not_determine_is_left_to_the_prior() {
    let mut data = observations(500, 4, 1, sign);
    data.features = data.features.chunks_exact(4).flat_map(|x| [x[0], x[0], 0.0, x[3]]).collect();
    let rows = Memory::new(Arc::new(Logistic::model(data).unwrap()));
    let prior = Prior::isotropic(4, 1.5).unwrap();
    let (built, full) = build(&rows, &prior, 0, RestChoice::Gaussian).unwrap();
    assert_eq!(built.coreset.undetermined, 2);
    let rest = built.coreset.rest.as_ref().unwrap();
    assert!(rest.gradient[2].abs() < 1e-9 && (rest.gradient[0] - rest.gradient[1]).abs() < 1e-9);
    let fit = weighted(&rows, &built).fit(&prior).unwrap().posterior;
    assert!((fit.covariance[2 * 4 + 2] - 2.25).abs() < 1e-9 && fit.mean[2].abs() < 1e-9);
    // Along (1, −1) the prior alone: a variance of 2·1.5².
    let along = fit.covariance[0] - 2.0 * fit.covariance[1] + fit.covariance[5];
    assert!((along - 4.5).abs() < 1e-6, "{along}");
    assert!(full.covariance[2 * 4 + 2] > 2.0);
}

#[test]
fn a_gaussian_part_reads_back_and_nonsense_is_refused() {
    let rows = Memory::new(Arc::new(Logistic::model(observations(500, 3, 1, sign)).unwrap()));
    let (built, _) = build(&rows, &Prior::isotropic(3, 1.0).unwrap(), 0, RestChoice::Gaussian).unwrap();
    let rest = built.coreset.rest.as_ref().unwrap();
    let text = serde_json::to_string(rest).unwrap();
    assert_eq!(serde_json::from_str::<Rest>(&text).unwrap(), **rest);
    let short = r#"{"centre": [0, 0], "gradient": [1], "curvature": [1, 2, 3]}"#;
    let refused = serde_json::from_str::<Rest>(short).unwrap_err().to_string();
    assert!(refused.contains("2 parameters has 1 numbers in its gradient"), "{refused}");
    let other = Weighted::fetch(&rows, &[1], &[1.0]).unwrap().with_rest(Some(Arc::new(
        serde_json::from_str(r#"{"centre": [0], "gradient": [1], "curvature": [-1]}"#).unwrap(),
    )));
    assert!(other.is_err());
    // A k of 0 is for a Gaussian, and a Gaussian for pursuit.
    let none = BuildOptions { k: 0, ..BuildOptions::default() };
    assert!(matches!(none.check(10), Err(BuildError::PointsOutOfRange { k: 0, .. })));
    let giga = corelet::coreset::Selector::from_name("giga").unwrap();
    let asked = BuildOptions { method: giga, rest: RestChoice::Gaussian, ..BuildOptions::default() };
    assert!(matches!(asked.check(1000), Err(BuildError::NoRest { method: "giga" })));
}
