//! Reviews against brute force: refits without a row, closed forms, and outcomes of other models than the one that is fitted.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::data::{Column, Columns, DesignOptions, Source, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::Gaussian;
use corelet::random::Stream;
use corelet::review::Review;
use corelet::study::{GivenDraws, ModelSpecification, ReviewSettings, Specification, Study, unheard};
use corelet::trust::Draws;
use corelet::words::{misfits, reviewed};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, Poisson, StandardNormal, StudentT};

/// n rows of two features, and outcomes.
fn study(
    n: usize,
    model: ModelSpecification,
    groups: Option<usize>,
    mut outcome: impl FnMut(&[f64], &mut ChaCha8Rng) -> f64,
) -> Study {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut columns = vec![Vec::new(); 3];
    for _ in 0..n {
        let x: Vec<f64> = (0..2).map(|_| StandardNormal.sample(&mut rng)).collect();
        let y = outcome(&x, &mut rng);
        [x[0], x[1], y].iter().zip(&mut columns).for_each(|(value, column)| column.push(*value));
    }
    let number = |(name, values): (&str, Vec<f64>)| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    };
    let mut table: Vec<Column> = ["a", "b", "y"].into_iter().zip(columns).map(number).collect();
    if let Some(groups) = groups {
        table.push(number(("who", (0..n).map(|i| (i % groups) as f64).collect())));
    }
    let source = Source::of_table(Table::new("generated", table).unwrap());
    let columns = Columns {
        target: Some("y".to_owned()),
        groups: groups.map(|_| "who".to_owned()),
        ..Columns::default()
    };
    let design = DesignOptions { columns, ..DesignOptions::default() };
    Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap()
}

fn of(model: BuiltIn) -> ModelSpecification {
    ModelSpecification { model, ..ModelSpecification::default() }
}

fn linear(sigma: f64) -> ModelSpecification {
    ModelSpecification { sigma: Some(sigma), ..of(BuiltIn::Linear) }
}

/// Independent draws of the Laplace fit.
fn drawn(study: &Study, count: usize) -> GivenDraws {
    let posterior = &study.full(&mut unheard).unwrap().posterior;
    let shifts = posterior.shifts(count, 5, Stream::HeldOut);
    let theta: Vec<f64> = (0..count)
        .flat_map(|s| shifts.row(s).iter().zip(&posterior.mean).map(|(d, m)| d + m).collect::<Vec<f64>>())
        .collect();
    let draws = Draws { theta, dim: posterior.dim(), chains: Some(4), log_weights: None };
    GivenDraws { draws, log_density: None, diverged: 0 }
}

fn review(study: &Study, draws: usize) -> Review {
    let settings = ReviewSettings { draws, pointwise: true, ..ReviewSettings::default() };
    study.review(&drawn(study, draws), None, &settings, &mut unheard).unwrap()
}

/// The exact posterior of all rows but these.
fn without(study: &Study, gone: &[usize]) -> Gaussian {
    let all: Vec<usize> = (0..study.len()).collect();
    let weights: Vec<f64> = all.iter().map(|row| f64::from(u8::from(!gone.contains(row)))).collect();
    study.weighted(&all, &weights.into()).unwrap().fit(study.problem().prior).unwrap().posterior
}

#[test]
fn leave_one_out_is_that_of_refits() {
    let study = study(60, linear(0.7), None, |x, rng| {
        let noise: f64 = StandardNormal.sample(rng);
        x[0] - 0.5 * x[1] + 0.7 * noise
    });
    let review = review(&study, 8000);
    let rows = study.problem().rows.fetch(&(0..60).collect::<Vec<_>>()).unwrap();
    let exact: Vec<f64> = (0..60)
        .map(|i| {
            let left = without(&study, &[i]);
            let x: Vec<f64> = rows.row(i).iter().map(|&x| f64::from(x)).collect();
            let dim = x.len();
            let quadratic: f64 =
                (0..dim * dim).map(|at| x[at / dim] * left.covariance[at] * x[at % dim]).sum();
            let variance = 0.49 + quadratic;
            let mean: f64 = x.iter().zip(&left.mean).map(|(x, m)| x * m).sum();
            -0.5 * ((rows.target(i).0 - mean).powi(2) / variance
                + (2.0 * std::f64::consts::PI * variance).ln())
        })
        .collect();
    let pointwise = review.loo.pointwise.as_ref().unwrap();
    for (i, (found, exact)) in pointwise.elpd.iter().zip(&exact).enumerate() {
        assert!((found - exact).abs() < 0.03, "row {i}: {found} {exact}");
    }
    let total: f64 = exact.iter().sum();
    assert!((review.loo.elpd - total).abs() < 0.1, "{} {total}", review.loo.elpd);
    assert!((review.loo.waic - total).abs() < 0.5 && (review.loo.p - 3.0).abs() < 1.0, "{:?}", review.loo.p);
    assert_eq!(review.loo.by_k.iter().sum::<usize>(), 60);
}

#[test]
fn weights_on_draws_lead_to_the_posterior_that_they_are_weights_for() {
    let outcome = |x: &[f64], rng: &mut ChaCha8Rng| {
        let noise: f64 = StandardNormal.sample(rng);
        x[0] + 0.7 * noise
    };
    let study = study(200, linear(0.7), None, outcome);
    let posterior = study.full(&mut unheard).unwrap().posterior.clone();
    // Draws that are wider, and the weights that make them those of the posterior.
    let mut given = drawn(&study, 8000);
    let dim = posterior.dim();
    for theta in given.draws.theta.chunks_exact_mut(dim) {
        theta.iter_mut().zip(&posterior.mean).for_each(|(x, m)| *x = m + 1.3 * (*x - m));
    }
    let log_weight = |theta: &[f64]| {
        let back: Vec<f64> = theta.iter().zip(&posterior.mean).map(|(x, m)| m + (x - m) / 1.3).collect();
        posterior.log_density(theta) - posterior.log_density(&back)
    };
    let weights: Vec<f64> = given.draws.theta.chunks_exact(dim).map(log_weight).collect();
    let settings = ReviewSettings { draws: 8000, checked: 0, ..ReviewSettings::default() };
    let weighted = study.review(&given, Some(&weights), &settings, &mut unheard).unwrap();
    let plain = review(&study, 8000);
    assert!((weighted.loo.elpd - plain.loo.elpd).abs() < 0.1, "{} {}", weighted.loo.elpd, plain.loo.elpd);
    assert!((weighted.loo.p - plain.loo.p).abs() < 0.15);
    for (a, b) in weighted.influence.each.iter().zip(&plain.influence.each) {
        assert!(
            (a.sd / b.sd - 1.0).abs() < 0.05 && (a.jackknife / b.jackknife - 1.0).abs() < 0.05,
            "{a:?} {b:?}"
        );
    }
    let unweighted = study.review(&given, None, &settings, &mut unheard).unwrap();
    assert!((unweighted.loo.p / plain.loo.p - 1.3 * 1.3).abs() < 0.2, "{}", unweighted.loo.p);
}

#[test]
fn influence_is_what_a_refit_without_the_row_says() {
    let study = study(400, linear(1.0), None, |x, rng| {
        let noise: f64 = StandardT::sample(rng);
        0.1 * x[0] - 0.5 * x[1] + noise
    });
    let review = review(&study, 8000);
    let all = study.to_original(&study.full(&mut unheard).unwrap().posterior.mean);
    for (j, moving) in review.influence.each.iter().enumerate() {
        assert!((moving.mean - all[j]).abs() < 0.05 * moving.sd, "{j}");
        for mover in moving.against.iter().take(3).chain(moving.along.iter().take(3)) {
            let left = study.to_original(&without(&study, &[mover.row]).mean);
            let change = left[j] - all[j];
            assert!(
                (mover.change - change).abs() < 0.15 * change.abs() + 0.01 * moving.sd,
                "{j} {mover:?} {change}"
            );
        }
        // Those whose removal turns the sign do turn it, and one fewer does not, to first order: give or take a row in ten.
        if let Some(rows) = moving.to_turn {
            let gone = |count: usize| moving.against[..count].iter().map(|m| m.row).collect::<Vec<_>>();
            let mean = |count: usize| study.to_original(&without(&study, &gone(count)).mean)[j];
            let margin = 1 + rows / 5;
            let (few, many) = (rows.saturating_sub(margin), (rows + margin).min(moving.against.len()));
            assert!(mean(few) * all[j] > 0.0 || rows <= 2, "{j}: {rows}");
            assert!(mean(many) * all[j] < 0.0, "{j}: {rows}");
        }
    }
    assert!(review.influence.each[0].to_turn.is_some(), "a slope of 0.1 hangs on few rows");
}

struct StandardT;

impl StandardT {
    fn sample(rng: &mut ChaCha8Rng) -> f64 {
        StudentT::new(4.0).unwrap().sample(rng)
    }
}

#[test]
fn the_jackknife_is_right_where_the_model_is_not() {
    // σ is said to be 1 and is 2; and rows come in groups of copies, each of which counts once.
    let wide = |x: &[f64], rng: &mut ChaCha8Rng| {
        let noise: f64 = StandardNormal.sample(rng);
        x[0] + 2.0 * noise
    };
    let plain = review(&study(4000, linear(1.0), None, wide), 4000);
    for moving in &plain.influence.each {
        assert!((moving.jackknife / moving.sd - 2.0).abs() < 0.2, "{} {}", moving.jackknife, moving.sd);
    }
    // The noise of a group is common to its rows: the intercept is known as badly as √(rows a group) says.
    let mut shared: Vec<f64> = Vec::new();
    let mut at = 0;
    let grouped = study(4000, linear(1.0), Some(100), |x, rng| {
        if shared.len() < 100 {
            shared.push(StandardNormal.sample(rng));
        }
        let common = shared[at % 100];
        at += 1;
        let noise: f64 = StandardNormal.sample(rng);
        x[0] + common + 0.1 * noise
    });
    let grouped = review(&grouped, 4000);
    assert_eq!(grouped.influence.clusters, Some(100));
    let intercept = &grouped.influence.each[2];
    let expected = 1.0 / 10.0;
    assert!((intercept.jackknife / expected - 1.0).abs() < 0.25, "{}", intercept.jackknife);
}

#[test]
fn outcomes_of_another_model_are_told_and_those_of_the_model_are_not() {
    let poisson = |mean: f64, rng: &mut ChaCha8Rng| Poisson::new(mean).unwrap().sample(rng);
    let told = |model: ModelSpecification, outcome: &mut dyn FnMut(&[f64], &mut ChaCha8Rng) -> f64| {
        let study = study(4000, model, None, outcome);
        let review = review(&study, 400);
        let checks = review.checks.as_ref().unwrap();
        // A glance at few draws sees what is far off too.
        let glance = study.glance(&drawn(&study, 400).draws, 0).unwrap().unwrap();
        assert_eq!(misfits(&glance).is_empty(), misfits(checks).is_empty(), "{glance:?}");
        let lines = reviewed(&review, &study.frame().names, &|row| row);
        assert!(lines.iter().any(|line| line.starts_with("  leave-one-out  elpd -")), "{lines:#?}");
        misfits(checks).join("\n")
    };
    let normal = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let happens = |p: f64, rng: &mut ChaCha8Rng| f64::from(u8::from(rng.random::<f64>() < p));

    // As they should be.
    assert_eq!(told(of(BuiltIn::Poisson), &mut |x, rng| poisson((0.5 * x[0]).exp(), rng)), "");
    assert_eq!(told(of(BuiltIn::Logistic), &mut |x, rng| happens(sigmoid(x[0] - x[1]), rng)), "");
    assert_eq!(told(of(BuiltIn::Linear), &mut |x, rng| 3.0 * x[0] + 2.0 * normal(rng)), "");
    let gamma =
        |shape: f64, mean: f64, rng: &mut ChaCha8Rng| Gamma::new(shape, mean / shape).unwrap().sample(rng);
    assert_eq!(told(of(BuiltIn::Gamma), &mut |x, rng| gamma(3.0, x[0].exp(), rng)), "");
    let mixed =
        |x: &[f64], rng: &mut ChaCha8Rng| poisson(gamma(0.7, (0.5 * x[0] + 1.0).exp(), rng).max(1e-9), rng);
    assert_eq!(told(of(BuiltIn::NegativeBinomial), &mut |x, rng| mixed(x, rng)), "");

    // Counts that vary more than Poisson's, with more zeros.
    let counts = told(of(BuiltIn::Poisson), &mut |x, rng| mixed(x, rng));
    assert!(counts.contains("outcomes vary more") && counts.contains("zeros"), "{counts}");
    // Probabilities that are never near 0 or 1 where a logistic curve is.
    let flat =
        told(of(BuiltIn::Logistic), &mut |x, rng| happens(if x[0] * x[1] > 0.0 { 0.9 } else { 0.2 }, rng));
    assert_eq!(flat, "", "each prediction is about the mean, which is calibrated");
    let curved = told(of(BuiltIn::Logistic), &mut |x, rng| {
        happens(if x[0].abs() < 0.5 { 0.05 } else { sigmoid(2.0 * x[0]) }, rng)
    });
    assert!(curved.contains("not calibrated"), "{curved}");
    // Heavy tails under Gaussian noise, and claim amounts whose variance is many times the model's.
    let heavy = told(of(BuiltIn::Linear), &mut |x, rng| x[0] + StudentT::new(1.5).unwrap().sample(rng));
    assert!(heavy.contains("tails are heavier") || heavy.contains("not distributed"), "{heavy}");
    let claims = told(of(BuiltIn::Gamma), &mut |x, rng| (0.3 * x[0] + 2.5 * normal(rng)).exp());
    assert!(claims.contains("outcomes"), "{claims}");
}

#[test]
fn a_review_is_the_same_for_any_number_of_threads_and_refuses_what_it_cannot_use() {
    let study = study(500, of(BuiltIn::Poisson), None, |x, rng| {
        Poisson::new((0.3 * x[0]).exp()).unwrap().sample(rng)
    });
    let once = review(&study, 300);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = pool.install(|| review(&study, 300));
    assert_eq!((&once.loo, &once.influence, &once.checks), (&alone.loo, &alone.influence, &alone.checks));
    let few = study.review(&drawn(&study, 20), None, &ReviewSettings::default(), &mut unheard).unwrap_err();
    assert_eq!(few.to_string(), "the draws: 20 draws are too few for a review: at least 100 are needed");
    let weights = vec![0.0; 7];
    let error = study.review(&drawn(&study, 200), Some(&weights), &ReviewSettings::default(), &mut unheard);
    assert_eq!(error.unwrap_err().to_string(), "the draws: there are 7 weights for 200 draws");
}
