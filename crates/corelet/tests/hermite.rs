//! The Hermite embedding against draws, closed forms, its stored twin, and the solver.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{count, observations, sign};
use corelet::data::{Columns, DesignOptions, Standardise, design, read};
use corelet::embed::{Choice, EmbedError, Embedding, Hermite, embed, paper};
use corelet::linalg::{congruence, dot, quadratic_form};
use corelet::model::{GaussianMean, Linear, Link, Logistic, Model, Over, Poisson};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, kl_gaussian, laplace};
use corelet::random::Stream;
use corelet::rows::{Memory, Observations, Summed, Weighted};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparse_nnls::{
    Batch, Candidate, Dense, Dictionary, Method, Query, Ranking, Score, Settings, Solver, Status,
};

fn number(eta: f64, noise: f64) -> f64 {
    eta + noise
}

fn covariance(dim: usize) -> Vec<f64> {
    (0..dim * dim).map(|at| 0.5f64.powi((at / dim).abs_diff(at % dim) as i32)).collect()
}

fn models(n: usize, dim: usize, seed: u64) -> Vec<Arc<dyn Model>> {
    let mut counts = observations(n, dim, seed, count);
    counts.exposure = Some((0..n).map(|i| 0.5 + (i % 5) as f64).collect());
    vec![
        Arc::new(Logistic::model(observations(n, dim, seed, sign)).unwrap()),
        Arc::new(Poisson::model(counts.clone(), Link::Log).unwrap()),
        Arc::new(Poisson::model(counts, Link::Softplus).unwrap()),
        Arc::new(Linear::model(observations(n, dim, seed, number), 0.7).unwrap()),
        Arc::new(GaussianMean::new(observations(n, dim, seed, number), &covariance(dim)).unwrap()),
    ]
}

fn fit(model: &dyn Model) -> Gaussian {
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    laplace(&Summed { model, over: Over::All }, &prior, None, &LaplaceSettings::default()).unwrap().posterior
}

fn all_columns(dictionary: &dyn Dictionary) -> Vec<f64> {
    let ids: Vec<usize> = (0..dictionary.len()).collect();
    let mut out = vec![f64::NAN; ids.len() * dictionary.coordinates()];
    dictionary.columns(&ids, &mut out).unwrap();
    out
}

#[test]
fn inner_products_are_those_of_a_million_draws() {
    const DRAWS: usize = 1_000_000;
    for model in models(150, 3, 7) {
        let posterior = fit(&*model);
        let all = Memory::new(Arc::clone(&model));
        let embedding = embed(&all, &posterior, Choice::Hermite(3), 10, 0).unwrap();
        let rows = 5;
        let shifts = posterior.shifts(DRAWS, 3, Stream::Build);
        let mut values = vec![0.0; rows * DRAWS];
        model.differences_f64(0..rows, &posterior.mean, &shifts, &mut values);
        for row in values.chunks_exact_mut(DRAWS) {
            let mean = row.iter().sum::<f64>() / DRAWS as f64;
            row.iter_mut().for_each(|x| *x -= mean);
        }
        let columns = all_columns(&embedding);
        let column = |i: usize| &columns[i * embedding.coordinates()..][..embedding.coordinates()];
        for i in 0..rows {
            for j in 0..=i {
                let (a, b) = (&values[i * DRAWS..][..DRAWS], &values[j * DRAWS..][..DRAWS]);
                let products: Vec<f64> = a.iter().zip(b).map(|(a, b)| a * b).collect();
                let mean = products.iter().sum::<f64>() / DRAWS as f64;
                let variance = products.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / DRAWS as f64;
                let error = (variance / DRAWS as f64).sqrt();
                let got = dot(column(i), column(j));
                assert!((got - mean).abs() < 4.5 * error, "{} {i} {j}: {got} {mean} ± {error}", model.name());
            }
        }
    }
}

#[test]
fn linear_and_gaussian_models_are_exact() {
    let linear = Linear::model(observations(60, 4, 1, number), 0.7).unwrap();
    let posterior = fit(&linear);
    let all = Memory::new(Arc::new(linear.clone()));
    let embedding = embed(&all, &posterior, Choice::Auto, 10, 0).unwrap();
    assert_eq!((embedding.description().name.as_str(), embedding.description().tail), ("hermite:2", 0.0));
    let columns = all_columns(&embedding);
    let column = |i: usize| &columns[i * embedding.coordinates()..][..embedding.coordinates()];
    let data = linear.observations();
    let slope = |i: usize| (data.target[i] - dot(&data.wide_row(i), &posterior.mean)) / 0.7;
    for i in 0..60 {
        for j in 0..60 {
            let scaled: Vec<f64> =
                posterior.covariance.chunks(4).map(|row| dot(row, &data.wide_row(j))).collect();
            let shared = dot(&data.wide_row(i), &scaled);
            // Cov(aδ − δ²/2σ², bε − ε²/2σ²) for δ, ε jointly normal with covariance t is abt + t²/2σ⁴.
            let want = slope(i) * slope(j) * shared + 0.5 * (shared / 0.7).powi(2);
            let size = dot(column(i), column(i)).sqrt() * dot(column(j), column(j)).sqrt();
            assert!((dot(column(i), column(j)) - want).abs() < 1e-13 * size);
        }
    }

    let gaussian = GaussianMean::new(observations(60, 4, 2, number), &covariance(4)).unwrap();
    let posterior = fit(&gaussian);
    let all = Memory::new(Arc::new(gaussian.clone()));
    let embedding = embed(&all, &posterior, Choice::Auto, 10, 0).unwrap();
    assert_eq!((embedding.coordinates(), embedding.description().tail), (5, 0.0));
    let columns = all_columns(&embedding);
    let precision = gaussian.precision();
    let curvature = congruence(&posterior.factor, precision, 4);
    let slope = |i: usize| -> Vec<f64> {
        let shift: Vec<f64> =
            gaussian.observations().wide_row(i).iter().zip(&posterior.mean).map(|(x, m)| x - m).collect();
        precision.chunks(4).map(|row| dot(row, &shift)).collect()
    };
    for i in 0..60 {
        for j in 0..60 {
            let (a, b) = (slope(i), slope(j));
            let sum: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            let form = |x: &[f64]| quadratic_form(&posterior.covariance, x);
            let want = 0.5 * (form(&sum) - form(&a) - form(&b)) + 0.5 * dot(&curvature, &curvature);
            let got = dot(&columns[i * 5..][..5], &columns[j * 5..][..5]);
            assert!((got - want).abs() < 1e-12 * (1.0 + want.abs()), "{got} {want}");
        }
    }
}

/// Any direction that is not special.
fn direction(length: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..length).map(|_| random.random::<f64>() - 0.5).collect()
}

fn rank(dictionary: &dyn Dictionary, query: &Query<'_>) -> Vec<Candidate> {
    let mut answers = vec![Vec::new()];
    dictionary.top(query, &mut answers).unwrap();
    answers.swap_remove(0)
}

#[test]
fn passes_are_those_of_the_stored_twin() {
    let mut worst = 0.0_f64;
    for (n, dim) in [(1, 2), (70, 1), (2500, 3), (1500, 6), (1200, 11)] {
        for model in models(n, dim, 5).iter().take(4) {
            let posterior = fit(&**model);
            for order in 1..=3 {
                let hermite = Hermite::new(model.linear().unwrap(), &posterior, order).unwrap();
                let dense = hermite.to_dense().unwrap();
                let (mut u, mut v) =
                    (direction(hermite.coordinates(), 1), direction(hermite.coordinates(), 2));
                let scale = 1.0 / dot(&v, &v).sqrt();
                v.iter_mut().for_each(|v| *v *= scale);
                u.iter_mut().for_each(|u| *u *= 1e-25);
                let length = dot(&u, &u).sqrt();
                let exclude: Vec<usize> = (0..n / 2).step_by(3).collect();
                let columns = all_columns(&dense);
                let norms: Vec<f64> = columns.chunks(v.len()).map(|c| dot(c, c).sqrt()).collect();
                let batches =
                    [None, Some(Batch { seed: 4, fraction: 0.2 }), Some(Batch { seed: 4, fraction: 0.8 })];
                for score in [Score::Raw, Score::Absolute, Score::NormScaled, Score::Geodesic] {
                    for batch in batches {
                        // All that qualify, so that every score can be compared whatever the order of near ties.
                        let ranking = [Ranking { score, count: n }];
                        let query =
                            Query { vectors: &[&u, &v], rankings: &ranking, exclude: &exclude, batch };
                        let sorted = |mut answer: Vec<Candidate>| {
                            answer.sort_by_key(|candidate| candidate.id);
                            answer
                        };
                        let (got, want) = (sorted(rank(&hermite, &query)), sorted(rank(&dense, &query)));
                        assert_eq!(got.len(), want.len());
                        for (got, want) in got.iter().zip(&want) {
                            assert_eq!(got.id, want.id);
                            let unit = matches!(score, Score::Raw | Score::Absolute);
                            let size = length * if unit { norms[got.id] } else { 1.0 };
                            // A geodesic score divides by √(1 − cos²), which magnifies where cos is near 1.
                            let sine = if score == Score::Geodesic {
                                let cosine =
                                    dot(&columns[want.id * v.len()..][..v.len()], &v) / norms[want.id];
                                (1.0 - cosine * cosine).powi(3).sqrt()
                            } else {
                                1.0
                            };
                            let error = (got.score - want.score).abs() / size * sine;
                            worst = worst.max(error);
                            assert!(error < 1e-6, "{} {score:?} {order}: {error}", model.name());
                        }
                    }
                }
                let sum = hermite.sum().unwrap();
                let plain = dense.sum().unwrap();
                assert!((sum.norms / plain.norms - 1.0).abs() < 1e-12);
                let size = dot(&plain.vector, &plain.vector).sqrt().max(1e-3 * plain.norms);
                let error: f64 = sum.vector.iter().zip(&plain.vector).map(|(a, b)| (a - b).powi(2)).sum();
                assert!(error.sqrt() < 1e-12 * size);
            }
        }
    }
    println!("largest error of a pass: {worst:.1e}");
}

#[test]
fn short_rankings_are_those_of_the_stored_twin() {
    let model = Logistic::model(observations(5000, 5, 3, sign)).unwrap();
    let posterior = fit(&model);
    let hermite = Hermite::new(model.linear().unwrap(), &posterior, 3).unwrap();
    let dense = hermite.to_dense().unwrap();
    let u = hermite.sum().unwrap().vector;
    let ranking = [Ranking { score: Score::NormScaled, count: 40 }];
    for batch in [None, Some(Batch { seed: 9, fraction: 0.3 })] {
        let query = Query { vectors: &[&u], rankings: &ranking, exclude: &[3, 17], batch };
        let ids = |answer: Vec<Candidate>| answer.iter().map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(ids(rank(&hermite, &query)), ids(rank(&dense, &query)));
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let model = Poisson::model(observations(20_000, 5, 3, count), Link::Softplus).unwrap();
    let posterior = fit(&model);
    let answer = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let hermite = Hermite::new(model.linear().unwrap(), &posterior, 3).unwrap();
            let u = hermite.sum().unwrap();
            let ranking = [Ranking { score: Score::NormScaled, count: 300 }];
            let query = Query { vectors: &[&u.vector], rankings: &ranking, exclude: &[], batch: None };
            (rank(&hermite, &query), u, hermite.description().clone())
        })
    };
    let one = answer(1);
    assert!(one == answer(2) && one == answer(3));
}

#[test]
fn narrow_posteriors_keep_relative_precision() {
    for model in models(400, 3, 2).iter().take(3) {
        let posterior = fit(&**model);
        let precision = posterior.precision.iter().map(|p| p * 1e12).collect();
        let narrow = Gaussian::from_precision(posterior.mean.clone(), precision).unwrap();
        let hermite = Hermite::new(model.linear().unwrap(), &narrow, 3).unwrap();
        let linear = model.linear().unwrap();
        let columns = all_columns(&hermite);
        let dim = 3;
        for (i, column) in columns.chunks(hermite.coordinates()).enumerate() {
            let x = &linear.observations.wide_row(i)[..];
            let (y, e) = linear.observations.target(i);
            let d = linear.family.derivatives(dot(x, &narrow.mean), y, e);
            let s = quadratic_form(&narrow.covariance, x).sqrt();
            let orders = [&column[..dim], &column[dim..dim + 6], &column[dim + 6..]];
            let wants = [d[0] * s, d[1] * s * s / 2.0_f64.sqrt(), d[2] * s * s * s / 6.0_f64.sqrt()];
            for (part, want) in orders.iter().zip(wants) {
                let got = dot(part, part).sqrt();
                assert!((got - want.abs()).abs() < 1e-10 * want.abs(), "{}: {got:e} {want:e}", model.name());
            }
        }
    }
}

#[test]
fn zero_rows_and_extreme_rows_are_legal() {
    let mut features: Vec<f32> = observations(64, 3, 4, sign).features.to_vec();
    features[..3].fill(0.0);
    features[3..6].copy_from_slice(&[800.0, 0.0, 0.0]);
    features[6..9].copy_from_slice(&[-800.0, 0.0, 0.0]);
    features[9..12].copy_from_slice(&[1e9, -1e9, 1e-9]);
    let posterior =
        Gaussian::from_precision(vec![1.0, 0.2, 0.0], vec![9.0, 0.0, 0.0, 0.0, 5.0, 1.0, 0.0, 1.0, 4.0])
            .unwrap();
    let make = |target: f64| Observations {
        features: features.clone().into(),
        dim: 3,
        target: vec![target; 64].into(),
        ..Observations::default()
    };
    let models: [Arc<dyn Model>; 4] = [
        Arc::new(Logistic::model(make(-1.0)).unwrap()),
        Arc::new(Poisson::model(make(1e6), Link::Log).unwrap()),
        Arc::new(Poisson::model(make(1e6), Link::Softplus).unwrap()),
        Arc::new(Linear::model(make(1e6), 1.0).unwrap()),
    ];
    for model in &models {
        for order in 1..=3 {
            let hermite = Hermite::new(model.linear().unwrap(), &posterior, order).unwrap();
            let columns = all_columns(&hermite);
            assert!(columns.iter().all(|x| x.is_finite()), "{} {order}", model.name());
            assert!(columns[..hermite.coordinates()].iter().all(|x| *x == 0.0));
            assert!(hermite.description().tail.is_finite());
            let u = direction(hermite.coordinates(), 5);
            let rankings = [Ranking { score: Score::NormScaled, count: 64 }];
            let query = Query { vectors: &[&u], rankings: &rankings, exclude: &[], batch: None };
            let answer = rank(&hermite, &query);
            assert_eq!(answer.len(), 63);
            assert!(answer.iter().all(|c| c.id != 0 && c.score.is_finite()));
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let model = Logistic::model(observations(20, 3, 4, sign)).unwrap();
    let posterior = fit(&model);
    for order in [0, 4] {
        let error = Hermite::new(model.linear().unwrap(), &posterior, order).err().unwrap();
        assert!(matches!(error, EmbedError::Order { .. }), "{error}");
    }
    let other = Gaussian::from_precision(vec![0.0], vec![1.0]).unwrap();
    assert!(matches!(Hermite::new(model.linear().unwrap(), &other, 2), Err(EmbedError::Dimension { .. })));
    let gaussian = GaussianMean::new(observations(20, 3, 4, number), &covariance(3)).unwrap();
    assert!(matches!(paper::gaussian_exact(&gaussian, &other), Err(EmbedError::Dimension { .. })));
    let hermite = Hermite::new(model.linear().unwrap(), &posterior, 2).unwrap();
    assert!(hermite.columns(&[20], &mut vec![0.0; hermite.coordinates()]).is_err());
}

/// The tail is the norm of the next tensors of the full sum, here built entry by entry.
#[test]
fn the_tail_is_what_the_sum_drops() {
    for model in models(400, 3, 8).iter().take(3) {
        let posterior = fit(&**model);
        let third = Hermite::new(model.linear().unwrap(), &posterior, 3).unwrap();
        let second = Hermite::new(model.linear().unwrap(), &posterior, 2).unwrap();
        let dropped = &third.sum().unwrap().vector[second.coordinates()..];
        let exact = 0.5 * dot(dropped, dropped) + third.description().tail;
        let ratio = second.description().tail / exact;
        println!(
            "{}: tail {:.2e} of order 2, {:.2e} of order 3",
            model.name(),
            exact,
            third.description().tail
        );
        assert!((0.4..2.5).contains(&ratio), "{}: {ratio}", model.name());
        assert!(third.description().tail < second.description().tail);
    }
}

#[test]
fn auto_follows_the_rule() {
    let name = |dim: usize, k: usize| {
        let model = Logistic::model(observations(300, dim, 1, sign)).unwrap();
        let posterior = fit(&model);
        let all = Memory::new(Arc::new(model));
        embed(&all, &posterior, Choice::Auto, k, 0).unwrap().description().name.clone()
    };
    assert_eq!(name(10, 50), "hermite:3");
    assert_eq!(name(10, 143), "hermite:2+draws:572");
    assert_eq!(name(3, 20), "hermite:2+draws:500");
    assert_eq!(name(31, 250), "hermite:3");
    assert_eq!(name(32, 250), "hermite:2+draws:1000");
    assert_eq!(name(109, 10), "draws:500");
}

/// The exact orders and the draws beneath them: virtual answers are those of the columns, and the inner products are
/// those of the log-likelihoods.
#[test]
fn order_two_above_draws_is_the_whole_log_likelihood() {
    for model in models(300, 4, 5).iter().filter(|model| model.linear().is_some()) {
        let posterior = fit(&**model);
        let all = Memory::new(Arc::clone(model));
        let embedding = embed(&all, &posterior, Choice::HermiteDraws(400), 10, 0).unwrap();
        assert_eq!(embedding.description().name, "hermite:2+draws:400");
        let (length, columns) = (embedding.coordinates(), all_columns(&embedding));
        assert_eq!(length, 4 + 10 + 400);
        let target = embedding.sum().unwrap().vector;
        for (at, total) in target.iter().enumerate() {
            let sum: f64 = columns.chunks_exact(length).map(|column| column[at]).sum();
            assert!((sum - total).abs() <= 1e-10 * dot(&target, &target).sqrt(), "{}", model.name());
        }
        let ranking = Ranking { score: Score::Raw, count: 300 };
        let query = Query { vectors: &[&target], rankings: &[ranking], exclude: &[], batch: None };
        let mut answers = vec![Vec::new()];
        embedding.top(&query, &mut answers).unwrap();
        for candidate in &answers[0] {
            let column = &columns[candidate.id * length..][..length];
            let scale = dot(column, column).sqrt() * dot(&target, &target).sqrt();
            assert!((candidate.score - dot(column, &target)).abs() <= 1e-6 * scale, "{}", model.name());
        }
        // Of a row's own variance the draws see the small part that is left, so they hardly add noise to it.
        let exact = embed(&all, &posterior, Choice::Draws(100_000), 10, 0).unwrap();
        let mut column = vec![0.0; 100_000];
        for i in 0..5 {
            exact.columns(&[i], &mut column).unwrap();
            let (got, want) = (&columns[i * length..][..length], dot(&column, &column));
            assert!((dot(got, got) / want - 1.0).abs() < 0.05, "{}: {} {want}", model.name(), dot(got, got));
        }
    }
}

fn pursue(embedding: &dyn Embedding, k: usize) -> sparse_nnls::Solution {
    let settings = Settings { k, ..Settings::default() };
    Solver::new(embedding, settings).run(&Method::default()).unwrap()
}

#[test]
fn pursuit_over_order_two_ends_at_as_many_points_as_coordinates() {
    let model = Logistic::model(observations(4000, 4, 1, sign)).unwrap();
    let posterior = fit(&model);
    let all = Memory::new(Arc::new(model));
    let embedding = embed(&all, &posterior, Choice::Hermite(2), 60, 0).unwrap();
    let solution = pursue(&embedding, 60);
    let target = embedding.sum().unwrap().vector;
    assert!(solution.weights.len() <= embedding.coordinates());
    assert!(solution.residual < 1e-8 * dot(&target, &target).sqrt(), "{:e}", solution.residual);
}

/// On the paper's phishing set, where `CORELET_DATA` names the folder it is in.
#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn pursuit_on_real_data_reaches_the_floor() {
    let folder = common::data_folder();
    let table = read(&folder.join("phishing.npz"), None).unwrap();
    let options = DesignOptions { standardise: Standardise::Whiten, ..DesignOptions::default() };
    let model = Logistic::model(design(&table, &options).unwrap().observations).unwrap();
    let posterior = fit(&model);
    let all = Memory::new(Arc::new(model.clone()));
    let second = embed(&all, &posterior, Choice::Hermite(2), 100, 0).unwrap();
    let solution = pursue(&second, 100);
    println!(
        "order 2: {} points of {}, residual {:.2e}, {:?}, {} passes, tail {:.2e}",
        solution.weights.len(),
        second.coordinates(),
        solution.residual,
        solution.status,
        solution.passes,
        second.description().tail
    );
    assert!(solution.weights.len() <= second.coordinates() && solution.residual < 1e-7);
    let third = embed(&all, &posterior, Choice::Auto, 100, 0).unwrap();
    assert_eq!(third.description().name, "hermite:3");
    let solution = pursue(&third, 100);
    println!(
        "order 3: {} points of {}, residual {:.2e}, {:?}, {} passes, tail {:.2e}",
        solution.weights.len(),
        third.coordinates(),
        solution.residual,
        solution.status,
        solution.passes,
        third.description().tail
    );
    assert!(solution.residual < 0.1 && solution.status != Status::Stopped);
    let virtual_twin = Hermite::new(model.linear().unwrap(), &posterior, 3).unwrap();
    let stored: Dense<f64> = virtual_twin.to_dense().unwrap();
    assert_eq!(stored.len(), third.len());
}

/// On the flights, 27 coefficients, where `CORELET_DATA` names the folder they are in. Order 3 has 4059 coordinates and
/// order 2 has 405, but only the residual of order 3 tells the divergence: ½‖r‖² is within a factor of it.
#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn real_data_of_flights_are_within_a_thousandth_of_a_nat() {
    let folder = common::data_folder();
    let table = read(&folder.join("flights.parquet"), None).unwrap();
    let options = DesignOptions {
        drop_missing: true,
        columns: Columns::predicting("late"),
        ..DesignOptions::default()
    };
    let model = Logistic::model(design(&table, &options).unwrap().observations).unwrap();
    let posterior = fit(&model);
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    let all = Memory::new(Arc::new(model));
    assert_eq!(embed(&all, &posterior, Choice::Auto, 200, 0).unwrap().description().name, "hermite:2");
    for (choice, limit) in [(Choice::Hermite(2), 1e-2), (Choice::Hermite(3), 1e-3)] {
        let embedding = embed(&all, &posterior, choice, 200, 0).unwrap();
        let solution = pursue(&embedding, 200);
        let weights = &solution.weights;
        let coreset = Weighted::fetch(&all, &weights.ids, &weights.values).unwrap();
        let coreset = coreset.fit(&prior).unwrap().posterior;
        let divergence = kl_gaussian(&posterior, &coreset).unwrap();
        println!(
            "{:?}: {} points, {} passes, {:.2} s, residual {:.2e}, forward KL {divergence:.2e}",
            embedding.description(),
            solution.weights.len(),
            solution.passes,
            solution.seconds,
            solution.residual,
        );
        assert!(divergence < limit);
        let told = 0.5 * solution.residual.powi(2);
        assert!(choice == Choice::Hermite(2) || (0.5..2.0).contains(&(divergence / told)));
    }
}
