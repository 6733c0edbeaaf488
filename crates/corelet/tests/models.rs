//! Every model against finite differences, plain subtraction and closed forms, and its Laplace fits.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{count, observations, sign};
use corelet::data::Values;
use corelet::linalg::{Cholesky, dot, quadratic_form};
use corelet::model::{
    Derivatives, Family, GaussianMean, Glm, Linear, Link, Logistic, Model, Over, Poisson, RbfMap, Shifts,
};
use corelet::posterior::{Laplace, LaplaceSettings, LaplaceStatus, Prior, kl_gaussian, laplace};
use corelet::rows::{Observations, Summed};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const LOG: Poisson = Poisson { link: Link::Log };
const SOFTPLUS: Poisson = Poisson { link: Link::Softplus };

fn models(n: usize, dim: usize, seed: u64) -> Vec<Arc<dyn Model>> {
    let number = |eta: f64, noise: f64| eta + noise;
    let covariance: Vec<f64> =
        (0..dim * dim).map(|at| 0.5f64.powi((at / dim).abs_diff(at % dim) as i32)).collect();
    let mut counts = observations(n, dim, seed, count);
    counts.exposure = Some((0..n).map(|i| 0.5 + (i % 5) as f64).collect());
    vec![
        Arc::new(Logistic::model(observations(n, dim, seed, sign)).unwrap()),
        Arc::new(Poisson::model(counts.clone(), Link::Log).unwrap()),
        Arc::new(Poisson::model(counts, Link::Softplus).unwrap()),
        Arc::new(Linear::model(observations(n, dim, seed, number), 0.7).unwrap()),
        Arc::new(GaussianMean::new(observations(n, dim, seed, number), &covariance).unwrap()),
    ]
}

fn close(got: f64, want: f64, relative: f64, absolute: f64) -> bool {
    got == want || (got - want).abs() <= relative * want.abs() + absolute
}

fn families() -> Vec<(Box<dyn Family>, Vec<f64>)> {
    let counts = vec![0.0, 1.0, 2.0, 17.0, 1e6];
    vec![
        (Box::new(Logistic), vec![-1.0, 1.0]),
        (Box::new(LOG), counts.clone()),
        (Box::new(SOFTPLUS), counts),
        (Box::new(Linear::new(0.3).unwrap()), vec![-2.5, 0.0, 40.0]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each derivative of a family is the slope of the one before.
    #[test]
    fn family_derivatives_are_slopes(eta in -25.0f64..15.0, pick in 0usize..5, exposure in 0.1f64..10.0) {
        for (family, targets) in families() {
            let y = targets[pick % targets.len()];
            let step = 1e-4;
            let at = |eta: f64| {
                let [a, b, c] = family.derivatives(eta, y, exposure);
                [family.value(eta, y, exposure), a, b, c]
            };
            let [back, here, next] = [at(eta - step), at(eta), at(eta + step)];
            for order in 1..4 {
                let slope = (next[order - 1] - back[order - 1]) / (2.0 * step);
                let noise = 1e-15 * next[order - 1].abs().max(back[order - 1].abs()) / step + 1e-7 * here[order].abs();
                let noise = noise + 1e-7 * at(eta + step)[3].abs() + 1e-12 * y.abs();
                prop_assert!(close(here[order], slope, 1e-6, noise),
                    "{} y={y} eta={eta} order={order}: {} {slope}", family.name(), here[order]);
            }
            let jet = family.jet(eta, y, exposure);
            for (a, b) in jet.iter().zip(&here) {
                prop_assert!(close(*a, *b, 1e-13, 1e-300));
            }
        }
    }

    /// The difference is the integral of the derivative where δ is small, the plain subtraction where it is large.
    #[test]
    fn differences_of_a_family(
        eta in prop_oneof![-30.0f64..12.0, -1000.0f64..80.0],
        delta in prop_oneof![-1e-9f64..1e-9, -1e-3f64..1e-3, -0.6f64..0.6, -8.0f64..8.0, -200.0f64..60.0],
        pick in 0usize..5,
        exposure in 0.1f64..10.0,
    ) {
        for (family, targets) in families() {
            let y = targets[pick % targets.len()];
            let got = family.difference(eta, delta, y, exposure);
            let [a, b, c] = family.derivatives(eta, y, exposure);
            if delta.abs() < 1e-3 {
                let want = delta * (a + delta * (0.5 * b + delta * c / 6.0));
                let scale = (b * delta * delta).abs().max((c * delta.powi(3)).abs());
                prop_assert!(close(got, want, 1e-9, 1e-3 * scale * delta.abs() + 1e-280),
                    "{} y={y} eta={eta} delta={delta}: {got} {want}", family.name());
            } else {
                let (from, to) = (family.value(eta, y, exposure), family.value(eta + delta, y, exposure));
                let noise = 1e-14 * (from.abs() + to.abs()) * (1.0 + eta.abs() + delta.abs()) + 1e-9 * y.clamp(0.0, 1.0) + 1e-280;
                prop_assert!(close(got, to - from, 1e-11, noise),
                    "{} y={y} eta={eta} delta={delta}: {got} {}", family.name(), to - from);
            }
            // The vectorised kernel sees δ in f32; what it may lose beside is the rounding of δ and of η.
            let narrow = delta as f32;
            let mut row = [narrow; 19];
            family.differences_row(eta, y, exposure, &mut row);
            prop_assert!(row.iter().all(|x| x.to_bits() == row[0].to_bits() || (x - row[0]).abs() <= 2e-6 * x.abs()));
            let want = family.difference(eta, narrow as f64, y, exposure);
            let slope = family.derivatives(eta + narrow as f64, y, exposure)[0].abs();
            let rounding = slope * (eta.abs().max(10.0) + delta.abs()) * 1e-7;
            let parts = a.abs() * narrow.abs() as f64 * 1e-6;
            // A rate that is subnormal in f32 has lost digits, and grows by e^δ at most from there.
            let tiny = if a.abs() < 1e-37 { 1e-12 } else { 1e-30 * (1.0 + y.abs()) };
            // Past the range of f32 a rate is capped.
            let narrow_limit = want.abs() > 1e37 || a.abs().max(b.abs()) > 1e34;
            let by_rounding = if delta.abs() > 0.3 { rounding } else { 0.0 };
            prop_assert!(narrow_limit || close(row[0] as f64, want, 2e-6, by_rounding + parts + tiny),
                "{} y={y} e={exposure} eta={eta} delta={delta}: {} {want}", family.name(), row[0]);
        }
    }

    /// The vectorised kernel in f64 against one difference at a time.
    #[test]
    fn rows_of_differences_in_f64(
        eta in prop_oneof![-30.0f64..12.0, -1000.0f64..80.0],
        delta in prop_oneof![-1e-9f64..1e-9, -1e-3f64..1e-3, -0.6f64..0.6, -8.0f64..8.0, -200.0f64..60.0],
        pick in 0usize..5,
        exposure in 0.1f64..10.0,
    ) {
        for (family, targets) in families() {
            let y = targets[pick % targets.len()];
            // One number out of the range of the series sends the whole row to the kernel, or where it is long to a longer series.
            for (other, length) in [(delta, 19), (0.3, 19), (delta, 130), (0.3, 130)] {
                let mut row = vec![other; length];
                row[0] = delta;
                family.differences_row_f64(eta, y, exposure, &mut row);
                let want = family.difference(eta, delta, y, exposure);
                let [slope, ..] = family.derivatives(eta + delta, y, exposure);
                let [from, ..] = family.derivatives(eta, y, exposure);
                let rounding = 1e-15 * (slope.abs() * (eta.abs() + delta.abs()) + from.abs() * delta.abs());
                let wide = if delta.abs() > 0.2 { 1e-13 * (1.0 + y) } else { 0.0 };
                // Where a rate is capped there is nothing to compare.
                prop_assert!(from.abs() > 1e34 || close(row[0], want, 1e-12, rounding + wide + 1e-280),
                    "{} y={y} e={exposure} eta={eta} delta={delta}: {} {want}", family.name(), row[0]);
            }
        }
    }

    /// Gradients and Hessians of every model, weighted and not, against central differences.
    #[test]
    fn model_derivatives(seed in 0u64..1000, theta in prop::collection::vec(-1.0f64..1.0, 3)) {
        let ids = [3, 0, 11];
        let weights = [0.5, 20.0, 3.0];
        for model in models(40, 3, seed) {
            for rows in [Over::All, Over::Weighted { ids: &ids, weights: &weights }] {
                check_derivatives(model.as_ref(), rows, &theta);
            }
        }
    }
}

fn check_derivatives(model: &dyn Model, rows: Over<'_>, theta: &[f64]) {
    let dim = model.dim();
    let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
    let value = model.evaluate(rows, theta, Derivatives::both(&mut gradient, &mut hessian));
    let plain: f64 = match rows {
        Over::All => (0..model.len()).map(|i| model.log_likelihood(i, theta)).sum(),
        Over::Weighted { ids, weights } => {
            ids.iter().zip(weights).map(|(&i, w)| w * model.log_likelihood(i, theta)).sum()
        }
    };
    assert!(close(value, plain, 1e-12, 1e-10), "{}: {value} {plain}", model.name());
    let step = 1e-5;
    for j in 0..dim {
        let moved = |by: f64| {
            let mut theta = theta.to_vec();
            theta[j] += by;
            let mut gradient = vec![0.0; dim];
            let value = model.evaluate(rows, &theta, Derivatives::gradient(&mut gradient));
            (value, gradient)
        };
        let ((back, back_gradient), (next, next_gradient)) = (moved(-step), moved(step));
        let slope = (next - back) / (2.0 * step);
        assert!(close(gradient[j], slope, 1e-5, 1e-9 * value.abs() + 1e-6), "{} {j}", model.name());
        for i in 0..dim {
            let slope = (next_gradient[i] - back_gradient[i]) / (2.0 * step);
            assert!(close(hessian[i * dim + j], slope, 1e-5, 1e-4), "{} {i} {j}", model.name());
            assert_eq!(hessian[i * dim + j], hessian[j * dim + i]);
        }
    }
}

#[test]
fn tiles_of_differences() {
    for (dim, count) in [(3, 50), (20, 17)] {
        for model in models(30, dim, 5) {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mut uniform = |scale: f64| scale * (random.random::<f64>() - 0.5);
            let anchor: Vec<f64> = (0..dim).map(|_| uniform(1.0)).collect();
            for scale in [1e-6, 1e-2, 1.0] {
                let shifts = Shifts::new((0..dim * count).map(|_| uniform(scale)).collect(), dim);
                let rows = 2..21;
                let mut fast = vec![f32::NAN; rows.len() * count];
                let mut exact = vec![f64::NAN; rows.len() * count];
                model.differences(rows.clone(), &anchor, &shifts, &mut fast);
                model.differences_f64(rows.clone(), &anchor, &shifts, &mut exact);
                for (at, i) in rows.enumerate() {
                    let exact = &exact[at * count..][..count];
                    let size = (dot(exact, exact) / count as f64).sqrt();
                    for s in 0..count {
                        let theta: Vec<f64> = anchor.iter().zip(shifts.row(s)).map(|(a, b)| a + b).collect();
                        let (from, to) = (model.log_likelihood(i, &anchor), model.log_likelihood(i, &theta));
                        assert!(close(exact[s], to - from, 1e-9, 1e-13 * (1.0 + from.abs() + to.abs())));
                        let fast = fast[at * count + s] as f64;
                        assert!(
                            close(fast, exact[s], 1e-6, 2e-6 * size),
                            "{} {fast} {}",
                            model.name(),
                            exact[s]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn extreme_predictors_stay_finite() {
    for (family, targets) in families() {
        for y in targets {
            for eta in [-1e4, -1e3, -745.0, -100.0, 0.0, 100.0, 1e3, 1e4] {
                if family.name() == "poisson" && eta > 700.0 && family.derivatives(0.0, 0.0, 1.0)[1] == -1.0 {
                    // e^1000 is no f64: −∞ is the answer.
                    assert_eq!(family.value(eta, y, 1.0), f64::NEG_INFINITY);
                    continue;
                }
                assert!(family.value(eta, y, 1.0).is_finite(), "{} {eta} {y}", family.name());
                let derivatives = family.derivatives(eta, y, 1.0);
                assert!(derivatives.iter().all(|x| x.is_finite()), "{} {eta} {y}", family.name());
                let mut row = [-2000.0f32, -100.0, -1.0, -1e-9, 0.0, 1e-9, 1.0];
                for delta in row {
                    let difference = family.difference(eta, delta as f64, y, 1.0);
                    assert!(difference.is_finite(), "{} {eta} {y} {delta}", family.name());
                }
                family.differences_row(eta, y, 1.0, &mut row);
                assert!(row.iter().all(|x| x.is_finite()), "{} {eta} {y} {row:?}", family.name());
                assert_eq!(row[4], 0.0);
                let mut row = [-2000.0, -100.0, -1.0, -1e-9, 0.0, 1e-9, 1.0];
                family.differences_row_f64(eta, y, 1.0, &mut row);
                assert!(row.iter().all(|x| x.is_finite()), "{} {eta} {y} {row:?}", family.name());
                assert_eq!(row[4], 0.0);
            }
        }
    }
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    for model in models(30_000, 4, 9) {
        let theta = [0.1, -0.2, 0.3, 0.05];
        let results: Vec<_> = [1, 2, 3]
            .map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let (mut gradient, mut hessian) = (vec![0.0; 4], vec![0.0; 16]);
                    let value =
                        model.evaluate(Over::All, &theta, Derivatives::both(&mut gradient, &mut hessian));
                    let all = [value].into_iter().chain(gradient).chain(hessian);
                    all.map(f64::to_bits).collect::<Vec<_>>()
                })
            })
            .into();
        assert!(results[0] == results[1] && results[0] == results[2], "{}", model.name());
    }
}

fn fit(model: &dyn Model, prior: &Prior, over: Over<'_>) -> Laplace {
    let fit = laplace(&Summed { model, over }, prior, None, &LaplaceSettings::default()).unwrap();
    assert_eq!(fit.status, LaplaceStatus::Converged, "{} {}", model.name(), fit.gradient_norm);
    fit
}

#[test]
fn conjugate_models_have_their_closed_form() {
    let (n, dim, variance) = (200, 3, 0.7);
    let data = observations(n, dim, 3, |eta, noise| eta + noise);
    let prior = Prior::new(vec![0.5, 0.0, -1.0], vec![2.0, 0.3, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0, 4.0]).unwrap();
    // Precision and right-hand side of θ, from the textbook formulas.
    let prior_side: Vec<f64> =
        (0..dim).map(|i| dot(&prior.precision[i * dim..][..dim], &prior.mean)).collect();
    let mut linear = (prior.precision.clone(), prior_side.clone());
    let mut mean = (prior.precision.clone(), prior_side);
    for i in 0..n {
        let x = data.wide_row(i);
        for a in 0..dim {
            linear.1[a] += x[a] * data.target[i] / variance;
            mean.1[a] += x[a] / variance;
            mean.0[a * dim + a] += 1.0 / variance;
            for b in 0..dim {
                linear.0[a * dim + b] += x[a] * x[b] / variance;
            }
        }
    }
    let covariance: Vec<f64> = (0..9).map(|at| if at % 4 == 0 { variance } else { 0.0 }).collect();
    let models: [(Arc<dyn Model>, _); 2] = [
        (Arc::new(Linear::model(data.clone(), variance).unwrap()), linear),
        (Arc::new(GaussianMean::new(data, &covariance).unwrap()), mean),
    ];
    for (model, (precision, mut side)) in models {
        let fit = fit(model.as_ref(), &prior, Over::All);
        assert!(fit.iterations <= 2, "{} {}", model.name(), fit.iterations);
        Cholesky::new(&precision, dim).unwrap().solve(&mut side);
        for (got, want) in fit.posterior.mean.iter().zip(&side) {
            assert!((got - want).abs() < 1e-12, "{}", model.name());
        }
        for (got, want) in fit.posterior.precision.iter().zip(&precision) {
            assert!(close(*got, *want, 1e-12, 1e-11), "{}", model.name());
        }
    }
}

#[test]
fn plug_in_variance_is_that_of_the_residuals() {
    let data = observations(5000, 4, 8, |eta, noise| 3.0 * eta + 0.5 * noise);
    let model = Linear::plug_in(data.clone()).unwrap();
    // A nearly flat prior makes the mode the least-squares fit.
    let theta = fit(&model, &Prior::isotropic(4, 1e4).unwrap(), Over::All).posterior.mean;
    let rss: f64 = (0..5000).map(|i| (data.target[i] - dot(&data.wide_row(i), &theta)).powi(2)).sum();
    assert!(close(model.family().variance(), rss / 4996.0, 1e-8, 0.0));
    assert!((model.family().variance() - 0.25).abs() < 0.02);
    assert!(Linear::plug_in(observations(4, 4, 8, |eta, _| eta)).is_err());
}

#[test]
fn separable_data_have_a_penalised_mode() {
    let data = observations(300, 3, 2, |eta, _| if eta > 0.0 { 1.0 } else { -1.0 });
    let model = Logistic::model(data).unwrap();
    for sd in [1.0, 100.0, 1e4] {
        let fit = fit(&model, &Prior::isotropic(3, sd).unwrap(), Over::All);
        assert!(fit.gradient_norm <= 1e-10);
        assert!(fit.posterior.mean.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn huge_weights_and_large_counts_converge() {
    let ids: Vec<usize> = (0..30).collect();
    let weights: Vec<f64> = (0..30).map(|i| if i % 2 == 0 { 1e6 } else { 1e-6 }).collect();
    for model in models(40, 3, 4) {
        let prior = Prior::isotropic(3, 1.0).unwrap();
        fit(model.as_ref(), &prior, Over::Weighted { ids: &ids, weights: &weights });
    }
    for link in [Link::Log, Link::Softplus] {
        let data = observations(200, 3, 6, |eta, noise| (1e5 * (1.0 + (eta + noise).tanh())).round());
        fit(&Poisson::model(data, link).unwrap(), &Prior::isotropic(3, 10.0).unwrap(), Over::All);
    }
}

#[test]
fn unit_weights_on_all_rows_are_no_divergence() {
    for model in models(500, 4, 12) {
        let prior = Prior::isotropic(4, 1.0).unwrap();
        let all = fit(model.as_ref(), &prior, Over::All);
        let ids: Vec<usize> = (0..500).rev().collect();
        let weights = vec![1.0; 500];
        let weighted = fit(model.as_ref(), &prior, Over::Weighted { ids: &ids, weights: &weights });
        let kl = kl_gaussian(&all.posterior, &weighted.posterior).unwrap();
        assert!(kl.abs() < 1e-18, "{} {kl}", model.name());
        // One weight moved by a little moves the posterior by its square.
        let mut moved = weights.clone();
        moved[7] += 1e-5;
        let moved = fit(model.as_ref(), &prior, Over::Weighted { ids: &ids, weights: &moved });
        let kl = kl_gaussian(&all.posterior, &moved.posterior).unwrap();
        moved_twice(model.as_ref(), &prior, &all, &ids, kl);
    }
}

/// A divergence near 10⁻¹² grows fourfold when the change of the weight doubles, to three digits.
fn moved_twice(model: &dyn Model, prior: &Prior, all: &Laplace, ids: &[usize], kl: f64) {
    let mut weights = vec![1.0; ids.len()];
    weights[7] += 2e-5;
    let twice = fit(model, prior, Over::Weighted { ids, weights: &weights });
    let ratio = kl_gaussian(&all.posterior, &twice.posterior).unwrap() / kl;
    assert!(kl > 0.0 && (ratio - 4.0).abs() < 4e-3, "{} {kl} {ratio}", model.name());
}

#[test]
fn bad_data_are_errors() {
    let good = observations(10, 2, 1, sign);
    let broken = |change: fn(&mut Observations)| {
        let mut data = good.clone();
        change(&mut data);
        Logistic::model(data).unwrap_err().to_string()
    };
    assert_eq!(broken(|d| d.target[3] = 0.0), "target of row 3 is 0, but a logistic model needs -1 or 1");
    assert_eq!(broken(|d| d.features[5] = f32::NAN), "feature of row 2 is not finite (NaN)");
    assert_eq!(
        broken(|d| d.target = d.target[..9].to_vec().into()),
        "target has 9 numbers where 10 are needed"
    );
    let mut counts = observations(10, 2, 1, count);
    counts.exposure = Some(vec![0.0; 10].into());
    assert!(Poisson::model(counts.clone(), Link::Log).is_err());
    counts.exposure = None;
    counts.target[0] = -1.0;
    assert!(Poisson::model(counts, Link::Log).is_err());
    assert!(GaussianMean::new(good.clone(), &[1.0, 2.0, 2.0, 1.0]).is_err());
    let model: Glm<Logistic> = Logistic::model(good).unwrap();
    let prior = Prior::isotropic(3, 1.0).unwrap();
    assert!(
        laplace(&Summed { model: &model, over: Over::All }, &prior, None, &LaplaceSettings::default())
            .is_err()
    );
    assert!(Prior::isotropic(3, 0.0).is_err());
}

#[test]
fn radial_basis_features() {
    let points: Vec<f64> = (0..200).map(|i| (i as f64 * 0.37).sin()).collect();
    let map = RbfMap::random(&points, 2, &[0.2, 1.0], 7, 1).unwrap();
    assert_eq!(map, RbfMap::random(&points, 2, &[0.2, 1.0], 7, 1).unwrap());
    assert_eq!(map.features(), 15);
    let features = map.apply(&points);
    assert_eq!(features.len(), 100 * 15);
    let at_centre = map.apply(&map.centres[..2]);
    assert_eq!([at_centre[0], at_centre[14]], [1.0, 1.0]);
    let square = (points[6] - map.centres[16]).powi(2) + (points[7] - map.centres[17]).powi(2);
    assert!(close(features[3 * 15 + 8], (-0.5 * square).exp(), 1e-14, 0.0));
    assert!(RbfMap::random(&points, 2, &[0.2], 101, 1).is_err());
}

/// X and y of an NPZ file, the features (all but the last column, the intercept) whitened.
fn whitened(path: &std::path::Path) -> Observations {
    let table = corelet::data::read(path, None).unwrap();
    let numbers = |name: &str| match &table.column(name).unwrap().values {
        Values::Number { values, .. } => values.clone(),
        other => panic!("{name} is {other:?}"),
    };
    let (n, dim) = (table.rows, table.columns.len() - 1);
    let columns: Vec<Vec<f64>> = (1..=dim).map(|j| numbers(&format!("x{j}"))).collect();
    let target = numbers("y");
    let entry = |i: usize, j: usize| columns[j][i];
    let d = dim - 1;
    let mean: Vec<f64> = (0..d).map(|j| (0..n).map(|i| entry(i, j)).sum::<f64>() / n as f64).collect();
    let mut covariance = vec![0.0; d * d];
    for i in 0..n {
        for a in 0..d {
            for b in 0..d {
                covariance[a * d + b] += (entry(i, a) - mean[a]) * (entry(i, b) - mean[b]) / (n - 1) as f64;
            }
        }
    }
    let inverse = Cholesky::new(&covariance, d).unwrap().inverse_factor();
    let features: Vec<f64> = (0..n)
        .flat_map(|i| {
            let centred: Vec<f64> = (0..d).map(|j| entry(i, j) - mean[j]).collect();
            let row: Vec<f64> = (0..d).map(|j| dot(&inverse[j * d..][..d], &centred)).collect();
            row.into_iter().chain([1.0])
        })
        .collect();
    Observations::new(&features, dim, target)
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn fits_of_real_data() {
    let folder = common::data_folder();
    for name in ["phishing", "ds1", "synth_lr", "biketrips", "airportdelays", "synth_poiss"] {
        let data = whitened(&folder.join(name).with_extension("npz"));
        let prior = Prior::isotropic(data.dim, 1.0).unwrap();
        let models: Vec<Arc<dyn Model>> = if data.target.iter().all(|y| y.abs() == 1.0) {
            vec![Arc::new(Logistic::model(data).unwrap())]
        } else {
            let log = Poisson::model(data.clone(), Link::Log).unwrap();
            vec![Arc::new(Poisson::model(data, Link::Softplus).unwrap()), Arc::new(log)]
        };
        for model in models {
            let fit = fit(model.as_ref(), &prior, Over::All);
            // Any direction from the mode goes down.
            let mut gradient = vec![0.0; model.dim()];
            model.evaluate(Over::All, &fit.posterior.mean, Derivatives::gradient(&mut gradient));
            prior.gradient_and_log_density(&fit.posterior.mean, Some(&mut gradient));
            let norm = quadratic_form(&fit.posterior.covariance, &gradient).sqrt();
            assert!(norm <= 1e-10, "{name} {norm}");
            println!("{name}: {} steps, log posterior {:.6}", fit.iterations, fit.log_posterior);
        }
    }
}
