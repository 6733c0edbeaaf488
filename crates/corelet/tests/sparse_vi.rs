//! SparseVI against closed forms, finite differences and plain formulas.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, Selector, select_by_sparse_vi};
use corelet::embed::{Choice, embed};
use corelet::generate;
use corelet::model::{GaussianMean, Linear, Link, Logistic, Model, Over, Poisson};
use corelet::posterior::{Gaussian, LaplaceError, LaplaceSettings, Prior, kl_gaussian, laplace};
use corelet::random::Stream;
use corelet::rows::{Memory, Observations, Problem, Summed};
use corelet::sparse_vi::{
    SparseViError, SparseViPoint, SparseViSettings, StepSize, descend, kl_gradient, sparse_vi,
};
use corelet::trust::residual_in;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparse_nnls::{Dictionary, Info, Limits, Status};

/// n rows of D standard normal numbers, and targets that follow from them.
fn observations(n: usize, dim: usize, seed: u64, target: impl Fn(&[f64], f64) -> f64) -> Observations {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let features: Vec<f64> = StandardNormal.sample_iter(&mut random).take(n * dim).collect();
    let noise: Vec<f64> = StandardNormal.sample_iter(&mut random).take(n).collect();
    let target = features.chunks(dim).zip(&noise).map(|(x, e)| target(x, *e)).collect();
    Observations::new(&features, dim, target)
}

/// A prior with correlations and a mean, and a Gaussian mean and a linear regression under it.
fn conjugate(n: usize, dim: usize) -> (Prior, [Arc<dyn Model>; 2]) {
    let near = |i: usize, j: usize, diagonal: f64| if i == j { diagonal } else { 0.3 / (i + j) as f64 };
    let square = |diagonal: f64| -> Vec<f64> {
        (0..dim * dim).map(|at| near(at / dim, at % dim, diagonal + (at % dim) as f64 * 0.2)).collect()
    };
    let prior = Prior::new((0..dim).map(|i| 0.3 * i as f64 - 0.2).collect(), square(0.8)).unwrap();
    let mean = GaussianMean::new(observations(n, dim, 1, |_, _| 0.0), &square(1.5)).unwrap();
    let line = observations(n, dim, 2, |x, e| x.iter().sum::<f64>() + 0.5 * e);
    (prior, [Arc::new(mean), Arc::new(Linear::model(line, 0.4).unwrap())])
}

fn posterior(model: &dyn Model, prior: &Prior, rows: &[usize], weights: &[f64]) -> Gaussian {
    let rows = Over::Weighted { ids: rows, weights };
    laplace(&Summed { model, over: rows }, prior, None, &LaplaceSettings::default()).unwrap().posterior
}

fn full(model: &dyn Model, prior: &Prior) -> Gaussian {
    laplace(&Summed { model, over: Over::All }, prior, None, &LaplaceSettings::default()).unwrap().posterior
}

fn reverse_kl(model: &dyn Model, prior: &Prior, rows: &[usize], weights: &[f64]) -> f64 {
    kl_gaussian(&posterior(model, prior, rows, weights), &full(model, prior)).unwrap()
}

fn run(model: &Arc<dyn Model>, prior: &Prior, k: usize, settings: &SparseViSettings) -> Vec<SparseViPoint> {
    sparse_vi(model, prior, k, settings, 3, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn brief(steps: usize) -> SparseViSettings {
    SparseViSettings { draws: 100, steps, ..SparseViSettings::default() }
}

#[test]
fn exact_gradients_are_the_slopes_of_the_divergence() {
    let (prior, models) = conjugate(40, 5);
    // A row with weight zero is active too; more rows than parameters.
    let rows = [7, 3, 31, 12, 0, 22, 39, 5];
    let weights = [2.0, 0.5, 0.0, 1.3, 4.0, 0.2, 1.0, 3.0];
    for model in &models {
        let gradient = kl_gradient(model, &prior, &rows, &weights, &SparseViSettings::default(), 0).unwrap();
        for (a, got) in gradient.iter().enumerate() {
            // At w = 0 only weights above it make sense: second-order differences from one side.
            let at = |shift: f64| {
                let mut moved = weights;
                moved[a] += shift;
                reverse_kl(&**model, &prior, &rows, &moved)
            };
            let h = 1e-4;
            let want = if weights[a] > h {
                (at(h) - at(-h)) / (2.0 * h)
            } else {
                (4.0 * at(h) - at(2.0 * h) - 3.0 * at(0.0)) / (2.0 * h)
            };
            assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "{}: {got} {want}", model.name());
        }
    }
}

/// Σⱼ(1 − wⱼ)(νₐνⱼqₐⱼ + ½qₐⱼ²)/σ⁴ row by row, with q and ν from the posterior in D dimensions.
fn plain_linear_gradient(
    observations: &Observations,
    variance: f64,
    posterior: &Gaussian,
    rows: &[usize],
    weights: &[f64],
) -> Vec<f64> {
    let dim = observations.dim;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let whitened = |i: usize| -> Vec<f64> {
        let x = observations.wide_row(i);
        (0..dim).map(|j| (j..dim).map(|l| posterior.factor[l * dim + j] * x[l]).sum()).collect()
    };
    let all: Vec<Vec<f64>> = (0..observations.len()).map(whitened).collect();
    let nu = |i: usize| observations.target[i] - dot(&observations.wide_row(i), &posterior.mean);
    let gradient = |&a: &usize| {
        let covariance = |j: usize| {
            let weight = rows.iter().position(|&row| row == j).map_or(0.0, |at| weights[at]);
            let q = dot(&all[a], &all[j]);
            (1.0 - weight) * (nu(a) * nu(j) * q + 0.5 * q * q)
        };
        -(0..all.len()).map(covariance).sum::<f64>() / (variance * variance)
    };
    rows.iter().map(gradient).collect()
}

/// Radial basis functions of a plane: rows nearly parallel, a prior far wider than the posterior and with a mean that
/// predicts nonsense, as in the paper's experiment.
#[test]
fn exact_gradients_keep_their_digits_on_nearly_parallel_rows() {
    let places = observations(300, 2, 4, |x, e| 5.0 + 0.3 * (x[0] + x[1]).sin() + 0.3 * e);
    let (dim, variance) = (61, 0.1);
    let mut features = Vec::new();
    for x in places.features.chunks(2) {
        for j in 0..dim {
            let (centre, scale) = (&places.features[8 * j..][..2], [0.2_f32, 0.4, 0.8, 1.2, 1.6, 2.0][j % 6]);
            let square = (x[0] - centre[0]).powi(2) + (x[1] - centre[1]).powi(2);
            features.push(f64::from((-0.5 * square / (scale * scale)).exp()));
        }
    }
    let data = Observations::new(&features, dim, places.target.to_vec());
    let model: Arc<dyn Model> = Arc::new(Linear::model(data.clone(), variance).unwrap());
    let precision = (0..dim * dim).map(|at| if at % (dim + 1) == 0 { 1.0 / 25.0 } else { 0.0 }).collect();
    let prior = Prior::new(vec![5.0; dim], precision).unwrap();
    let rows: Vec<usize> = (0..120).map(|i| (i * 7) % 300).collect();
    let weights: Vec<f64> = (0..120)
        .map(|i| if i % 9 == 0 { 0.0 } else { 0.01 + (i as f64 * 1.7).sin().powi(2) * 12.0 })
        .collect();
    let got = kl_gradient(&model, &prior, &rows, &weights, &SparseViSettings::default(), 0).unwrap();
    let posterior = posterior(&*model, &prior, &rows, &weights);
    let want = plain_linear_gradient(&data, variance, &posterior, &rows, &weights);
    let size = want.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let error = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(error < 1e-6 * size, "{error:e} of {size:e}");
}

#[test]
fn exact_gradients_are_those_of_many_draws() {
    let (prior, models) = conjugate(30, 3);
    let (rows, weights) = ([4, 17, 9], [3.0, 0.0, 6.0]);
    for model in &models {
        let exact = kl_gradient(model, &prior, &rows, &weights, &SparseViSettings::default(), 0).unwrap();
        let plain = plain_gradient(&**model, &prior, &rows, &weights, 100_000, 5);
        for (exact, (plain, error)) in exact.iter().zip(&plain) {
            assert!((exact - plain).abs() < 5.0 * error, "{}: {exact} {plain} ± {error}", model.name());
        }
    }
}

/// −Cov(ℓₐ, L − L_w) over the draws that SparseVI makes first, from ℓᵢ(θ) itself in f64, with its standard error.
fn plain_gradient(
    model: &dyn Model,
    prior: &Prior,
    rows: &[usize],
    weights: &[f64],
    draws: usize,
    seed: u64,
) -> Vec<(f64, f64)> {
    let posterior = posterior(model, prior, rows, weights);
    let shifts = posterior.shifts_at(draws, seed, Stream::SparseVi, 0);
    let thetas: Vec<Vec<f64>> =
        (0..draws).map(|s| shifts.row(s).iter().zip(&posterior.mean).map(|(d, m)| d + m).collect()).collect();
    let centred = |values: Vec<f64>| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / draws as f64;
        values.iter().map(|x| x - mean).collect()
    };
    let of = |row: usize| centred(thetas.iter().map(|theta| model.log_likelihood(row, theta)).collect());
    let mut residual = vec![0.0; draws];
    for row in 0..model.len() {
        let weight = rows.iter().position(|&r| r == row).map_or(0.0, |at| weights[at]);
        residual.iter_mut().zip(of(row)).for_each(|(r, x)| *r += (1.0 - weight) * x);
    }
    let gradient = |&row: &usize| {
        let products: Vec<f64> = of(row).iter().zip(&residual).map(|(x, r)| -x * r).collect();
        let mean = products.iter().sum::<f64>() / draws as f64;
        let variance = products.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / draws as f64;
        (mean, (variance / draws as f64).sqrt())
    };
    rows.iter().map(gradient).collect()
}

#[test]
fn gradients_by_draws_equal_the_plain_formula() {
    let logistic: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(150, 2)).unwrap());
    let counts = observations(150, 3, 8, |x, e| (x[0] + e).abs().floor());
    let poisson: Arc<dyn Model> = Arc::new(Poisson::model(counts, Link::Softplus).unwrap());
    let (rows, weights) = ([3, 140, 77, 20], [5.0, 0.0, 12.0, 0.7]);
    let settings = SparseViSettings { draws: 203, ..SparseViSettings::default() };
    for model in [&logistic, &poisson] {
        let prior = Prior::isotropic(3, 1.0).unwrap();
        let got = kl_gradient(model, &prior, &rows, &weights, &settings, 11).unwrap();
        let want = plain_gradient(&**model, &prior, &rows, &weights, 203, 11);
        for (got, (want, _)) in got.iter().zip(&want) {
            assert!((got - want).abs() < 1e-4 * (1.0 + want.abs()), "{}: {got} {want}", model.name());
        }
    }
}

#[test]
fn weights_descend_to_where_no_weight_can_help() {
    let (prior, models) = conjugate(40, 5);
    let (rows, weights) = ([7, 3, 31, 12], [2.0, 0.5, 6.0, 1.3]);
    let settings = SparseViSettings { steps: 3000, step_size: StepSize::OverT { scale: 4.0 }, ..brief(1) };
    for model in &models {
        let lower = descend(model, &prior, &rows, &weights, &settings, 0).unwrap();
        assert!(reverse_kl(&**model, &prior, &rows, &lower) < reverse_kl(&**model, &prior, &rows, &weights));
        // The optimality conditions: no slope along a weight that is positive, none downwards along one that is zero.
        let before = kl_gradient(model, &prior, &rows, &weights, &settings, 0).unwrap();
        let scale = before.iter().fold(0.0_f64, |most, slope| most.max(slope.abs()));
        for (slope, weight) in
            kl_gradient(model, &prior, &rows, &lower, &settings, 0).unwrap().iter().zip(&lower)
        {
            assert!(
                *slope > -1e-4 * scale && (*weight == 0.0 || *slope < 1e-4 * scale),
                "{slope} at {weight}"
            );
        }
    }
}

#[test]
fn conjugate_models_are_matched_when_there_are_points_enough() {
    let (prior, models) = conjugate(60, 3);
    for model in &models {
        // The Gaussian mean has D + 1 coordinates, the regression D(D + 3)/2.
        let settings =
            SparseViSettings { steps: 2000, step_size: StepSize::OverT { scale: 1.0 }, ..brief(1) };
        let path = run(model, &prior, 25, &settings);
        let kl = |point: &SparseViPoint| reverse_kl(&**model, &prior, &point.rows, &point.weights);
        let (first, last) = (kl(&path[0]), kl(&path[24]));
        assert!(first > 1.0 && last < 1e-4, "{}: {first} {last}", model.name());
    }
}

#[test]
fn the_first_point_correlates_best_under_the_prior() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(80, 4)).unwrap());
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let path = run(&model, &prior, 1, &brief(1));
    // With no weights the gradient is −Cov(ℓᵢ, L), and the variance that of each row alone.
    let prior_posterior = posterior(&*model, &prior, &[], &[]);
    let draws = 100;
    let shifts = prior_posterior.shifts_at(draws, 3, Stream::SparseVi, 0);
    let column = |row: usize| {
        let values: Vec<f64> = (0..draws).map(|s| model.log_likelihood(row, shifts.row(s))).collect();
        let mean = values.iter().sum::<f64>() / draws as f64;
        values.iter().map(|x| x - mean).collect::<Vec<f64>>()
    };
    let columns: Vec<Vec<f64>> = (0..80).map(column).collect();
    let sum: Vec<f64> = (0..draws).map(|s| columns.iter().map(|c| c[s]).sum()).collect();
    let score = |c: &Vec<f64>| {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        dot(c, &sum) / dot(c, c).sqrt()
    };
    let scores: Vec<f64> = columns.iter().map(score).collect();
    let best = (0..80).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
    assert_eq!(path[0].rows, [best]);
}

#[test]
fn exact_models_choose_by_the_correlation_in_their_exact_embedding() {
    let (prior, models) = conjugate(40, 6);
    for model in &models {
        let path = run(model, &prior, 8, &brief(50));
        let mut chosen = 0;
        let mut before = (Vec::new(), Vec::new());
        for point in path {
            let posterior = posterior(&**model, &prior, &before.0, &before.1);
            let all = Memory::new(Arc::clone(model));
            let embedding = embed(&all, &posterior, Choice::Hermite(2), 8, 0).unwrap();
            let size = embedding.coordinates();
            let mut columns = vec![0.0; 40 * size];
            embedding.columns(&(0..40).collect::<Vec<_>>(), &mut columns).unwrap();
            let mut residual = embedding.sum().unwrap().vector;
            for (&row, weight) in before.0.iter().zip(&before.1) {
                residual.iter_mut().zip(&columns[row * size..]).for_each(|(r, x)| *r -= weight * x);
            }
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            let score = |row: usize| {
                let column = &columns[row * size..][..size];
                let score = dot(column, &residual) / dot(column, column).sqrt();
                if before.0.contains(&row) { score.abs() } else { score }
            };
            let best = (0..40).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap();
            for row in point.rows.iter().filter(|row| !before.0.contains(row)) {
                assert_eq!(*row, best, "{}", model.name());
                chosen += 1;
            }
            before = (point.rows, point.weights);
        }
        assert!(chosen >= 6, "{}: only {chosen} new points to check", model.name());
    }
}

#[test]
fn paths_keep_their_promises() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(300, 5)).unwrap());
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let mut seen = Vec::new();
    let path = sparse_vi(&model, &prior, 12, &brief(60), 7, &mut |point| {
        seen.push(point.clone());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(path, seen);
    assert_eq!(path.len(), 12);
    for (at, point) in path.iter().enumerate() {
        assert!(point.points <= at + 1 && point.rows.len() == point.points);
        assert_eq!(point.weights.len(), point.points);
        assert!(point.rows.is_sorted() && point.weights.iter().all(|&w| w > 0.0 && w.is_finite()));
        // Two passes a selection and one a step.
        assert_eq!(point.passes, 62.0 * (at + 1) as f64);
    }
    assert!(path.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
    let kl = |point: &SparseViPoint| reverse_kl(&*model, &prior, &point.rows, &point.weights);
    assert!(kl(&path[11]) < 0.5 * kl(&path[3]));
}

#[test]
fn the_same_seed_gives_the_same_bits_for_any_number_of_threads() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(700, 6)).unwrap());
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let of = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut go_on = |_: &SparseViPoint| ControlFlow::Continue(());
        pool.install(|| sparse_vi(&model, &prior, 5, &brief(20), seed, &mut go_on)).unwrap()
    };
    let bare = |path: Vec<SparseViPoint>| -> Vec<(Vec<usize>, Vec<f64>)> {
        path.into_iter().map(|point| (point.rows, point.weights)).collect()
    };
    let once = bare(of(1, 1));
    assert_eq!(once, bare(of(3, 1)));
    assert_ne!(once, bare(of(1, 2)));
}

#[test]
fn a_callback_that_stops_leaves_what_there_is() {
    let (prior, models) = conjugate(40, 3);
    for model in &models {
        let stop = &mut |point: &SparseViPoint| {
            if point.passes >= 4.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let path = sparse_vi(model, &prior, 20, &brief(10), 0, stop).unwrap();
        assert_eq!(path.len(), 3);
    }
}

#[test]
fn a_coreset_by_sparse_vi_is_judged_in_the_embedding() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(200, 6)).unwrap());
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let posterior = full(&*model, &prior);
    let all = Memory::new(Arc::clone(&model));
    let problem = Problem { rows: &all, prior: &prior };
    let embedding = embed(&all, &posterior, Choice::Draws(100), 6, 0).unwrap();
    let select = |options: &BuildOptions, stop_at: usize| {
        let callback = &mut |info: &Info| {
            if info.iterations == stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        select_by_sparse_vi(problem, &embedding, &brief(30), options, callback)
    };
    let options = BuildOptions { k: 6, seed: 3, ..BuildOptions::default() };
    let whole = select(&options, 0).unwrap();
    let last = run(&model, &prior, 6, &brief(30)).pop().unwrap();
    assert_eq!((&whole.rows, &*whole.weights, whole.passes), (&last.rows, &last.weights[..], last.passes));
    assert_eq!((whole.status, whole.iterations, whole.fit.path.len()), (Status::Completed, 6, 6));
    assert_eq!((whole.method.as_str(), whole.fit.embedding.name.as_str()), ("sparse-vi", "draws:100"));
    assert_eq!(whole.fit.residual, residual_in(&embedding, &whole.rows, &whole.weights).unwrap());
    assert_eq!(whole.fit.path[5], (last.points, whole.fit.residual));

    let stopped = select(&options, 2).unwrap();
    assert_eq!((stopped.status, stopped.iterations), (Status::Stopped, 2));
    // What the callback says to the last point changes nothing.
    assert_eq!(select(&options, 6).unwrap().status, Status::Completed);
    let limits = Limits { passes: Some(50.0), ..Limits::default() };
    let limited = select(&BuildOptions { limits, ..options }, 0).unwrap();
    assert_eq!((limited.status, limited.iterations), (Status::PassLimit, 2));
    let polished = select(&BuildOptions { polish: true, ..options }, 0).unwrap();
    assert!(polished.fit.residual < whole.fit.residual && polished.weights.iter().all(|&w| w > 0.0));
    for refused in [
        BuildOptions { max_kl: Some(0.1), ..options },
        BuildOptions { total: Some(200.0), ..options },
        BuildOptions { k: 201, ..options },
    ] {
        assert!(select(&refused, 0).is_err());
    }
}

#[test]
fn settings_are_read_as_they_are_written() {
    let text = r#"{"steps": 100, "step_size": {"over-t": {"scale": 1.0}}}"#;
    let settings: SparseViSettings = serde_json::from_str(text).unwrap();
    let want = SparseViSettings { steps: 100, step_size: StepSize::OverT { scale: 1.0 }, draws: 500 };
    assert_eq!(settings, want);
    assert_eq!(
        serde_json::from_str::<SparseViSettings>(&serde_json::to_string(&want).unwrap()).unwrap(),
        want
    );
    assert!(serde_json::from_str::<SparseViSettings>(r#"{"step": 100}"#).is_err());
}

#[test]
fn names_lead_back_to_what_they_name() {
    for name in Selector::names() {
        assert_eq!(Selector::from_name(name).unwrap().name(), name);
    }
    assert_eq!(Selector::from_name("nonsense"), None);
}

#[test]
fn rows_that_say_nothing_are_never_chosen() {
    let mut data = generate::logistic_paper(50, 9);
    for row in [0, 7] {
        data.features[row * 3..(row + 1) * 3].fill(0.0);
    }
    let model: Arc<dyn Model> = Arc::new(Logistic::model(data).unwrap());
    let path = run(&model, &Prior::isotropic(3, 1.0).unwrap(), 10, &brief(20));
    assert!(path.iter().all(|point| !point.rows.contains(&0) && !point.rows.contains(&7)));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic_paper(50, 9)).unwrap());
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let go_on = &mut |_: &SparseViPoint| ControlFlow::Continue(());
    for k in [0, 51] {
        let error = sparse_vi(&model, &prior, k, &brief(1), 0, go_on).unwrap_err();
        assert_eq!(error, SparseViError::PointsOutOfRange { k, rows: 50 });
    }
    let settings = [
        SparseViSettings { draws: 1, ..brief(1) },
        brief(0),
        SparseViSettings { step_size: StepSize::OverT { scale: 0.0 }, ..brief(1) },
        SparseViSettings { step_size: StepSize::OverOnePlusT { scale: f64::NAN }, ..brief(1) },
    ];
    for settings in settings {
        let error = sparse_vi(&model, &prior, 5, &settings, 0, go_on).unwrap_err();
        assert!(matches!(error, SparseViError::Setting { .. }), "{error}");
    }
    let wide = Prior::isotropic(4, 1.0).unwrap();
    let error = sparse_vi(&model, &wide, 5, &brief(1), 0, go_on).unwrap_err();
    assert!(matches!(error, SparseViError::Laplace(LaplaceError::Length { .. })), "{error}");
    for (rows, weights) in [(&[50][..], &[1.0][..]), (&[0], &[-1.0]), (&[0, 1], &[1.0])] {
        assert!(kl_gradient(&model, &prior, rows, weights, &brief(1), 0).is_err());
    }
}

#[test]
fn a_likelihood_that_overflows_under_the_prior_is_an_error_with_advice() {
    let counts = observations(20, 2, 3, |_, e| e.abs().floor());
    let model: Arc<dyn Model> = Arc::new(Poisson::model(counts, Link::Log).unwrap());
    let prior = Prior::isotropic(2, 1e6).unwrap();
    let error = sparse_vi(&model, &prior, 3, &brief(1), 0, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, SparseViError::NotFinite { .. }), "{error}");
    assert!(error.to_string().contains("standardise"), "{error}");
}
