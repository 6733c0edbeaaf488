//! The virtual embedding by draws against its dense twin, and embeddings that are stored or stacked.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use corelet::data::{DesignOptions, Outcome, Standardise, design, read};
use corelet::embed::{
    ByDraws, Choice, EmbedError, Embedding, Layout, Precision, RowPolynomials, Stacked, Stored, embed,
};
use corelet::linalg::{dot, quadratic_form};
use corelet::model::{Family, GaussianMean, Linear, Link, Logistic, Model, Over, Poisson};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, laplace};
use corelet::random::Stream;
use corelet::rows::{Memory, Observations, RowsError, Summed};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparse_nnls::{Batch, Candidate, Dictionary, Method, Query, Ranking, Score, Settings, Solver};
use std::sync::Arc;

fn normals(count: usize, seed: u64) -> Vec<f64> {
    StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(seed)).take(count).collect()
}

/// n rows with an intercept last and a zero row at 3, and targets that a family accepts.
fn observations(n: usize, dim: usize, target: impl Fn(f64, f64) -> f64) -> Observations {
    let mut features = normals(n * dim, 1);
    features.iter_mut().skip(dim - 1).step_by(dim).for_each(|x| *x = 1.0);
    if n > 3 {
        features[3 * dim..4 * dim].fill(0.0);
    }
    let rows = features.chunks(dim).zip(normals(n, 2));
    let target = rows.map(|(x, e)| target(0.4 * x.iter().sum::<f64>(), e)).collect();
    Observations::new(&features, dim, target)
}

fn models(n: usize, dim: usize) -> Vec<Arc<dyn Model>> {
    let sign = |eta: f64, e: f64| if eta + e > 0.0 { 1.0 } else { -1.0 };
    let count = |eta: f64, e: f64| (eta + 0.5 * e).exp().round();
    let number = |eta: f64, e: f64| eta + e;
    let covariance: Vec<f64> =
        (0..dim * dim).map(|at| 0.5f64.powi((at / dim).abs_diff(at % dim) as i32)).collect();
    let mut counts = observations(n, dim, count);
    counts.exposure = Some((0..n).map(|i| 0.5 + (i % 5) as f64).collect());
    vec![
        Arc::new(Logistic::model(observations(n, dim, sign)).unwrap()),
        Arc::new(Poisson::model(counts.clone(), Link::Log).unwrap()),
        Arc::new(Poisson::model(counts, Link::Softplus).unwrap()),
        Arc::new(Linear::model(observations(n, dim, number), 0.7).unwrap()),
        Arc::new(GaussianMean::new(observations(n, dim, number), &covariance).unwrap()),
    ]
}

fn fit(model: &dyn Model) -> Gaussian {
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    laplace(&Summed { model, over: Over::All }, &prior, None, &LaplaceSettings::default()).unwrap().posterior
}

fn draws(model: &Arc<dyn Model>, posterior: &Gaussian, count: usize, seed: u64, stream: Stream) -> ByDraws {
    ByDraws::new(model, &posterior.mean, posterior.shifts(count, seed, stream), 0).unwrap()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn top(dictionary: &dyn Dictionary, query: &Query<'_>) -> Vec<Vec<Candidate>> {
    let mut answers = vec![Vec::new(); query.rankings.len()];
    dictionary.top(query, &mut answers).unwrap();
    answers
}

/// All columns by every score; by id, so that near ties may stand in another order.
fn all_scores(
    dictionary: &dyn Dictionary,
    u: &[f64],
    v: &[f64],
    exclude: &[usize],
    batch: Option<Batch>,
) -> Vec<Vec<Candidate>> {
    let count = dictionary.len();
    let scores = [Score::Raw, Score::Absolute, Score::NormScaled, Score::Geodesic, Score::Race { seed: 4 }];
    let rankings = scores.map(|score| Ranking { score, count });
    let mut answers = top(dictionary, &Query { vectors: &[u, v], rankings: &rankings, exclude, batch });
    for answer in &mut answers {
        assert!(answer.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.id < b.id)));
        answer.sort_by_key(|candidate| candidate.id);
    }
    answers
}

/// Every answer of two dictionaries, `tolerance` in units of ‖φ‖‖u‖ for `top`.
fn assert_twins(one: &dyn Dictionary, other: &dyn Dictionary, tolerance: f64) {
    let (n, length) = (other.len(), other.coordinates());
    // Without registers a sum in f32 has a few long partial sums in place of many short ones, and more rounding.
    let tolerance = tolerance * if sparse_nnls::simd::in_use() == "portable" { 4.0 } else { 1.0 };
    assert_eq!((one.len(), one.coordinates()), (n, length));
    let (a, b) = (one.sum().unwrap(), other.sum().unwrap());
    assert!((a.norms / b.norms - 1.0).abs() < 1e-12);
    assert!(a.vector.iter().zip(&b.vector).all(|(x, y)| (x - y).abs() <= 1e-12 * b.norms));

    let ids: Vec<usize> = (0..n).rev().collect();
    let (mut a, mut columns) = (vec![0.0; n * length], vec![0.0; n * length]);
    one.columns(&ids, &mut a).unwrap();
    other.columns(&ids, &mut columns).unwrap();
    let mut norms = vec![0.0; n];
    for (i, (x, y)) in a.chunks(length).zip(columns.chunks(length)).enumerate() {
        norms[ids[i]] = norm(y);
        assert!(x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 1e-12 * norms[ids[i]]), "column {}", ids[i]);
    }

    // Of very different lengths, neither of them centred.
    let u: Vec<f64> = normals(length, 7).iter().map(|x| 1e-30 * (x + 0.5)).collect();
    let mut v: Vec<f64> = normals(length, 8).iter().map(|x| x - 2.0).collect();
    let unit = norm(&v);
    v.iter_mut().for_each(|x| *x /= unit);
    let exclude: Vec<usize> = (0..n).step_by(7).collect();
    for exclude in [&[][..], &exclude] {
        for batch in [None, Some(Batch { seed: 5, fraction: 0.3 })] {
            let (a, b) = (all_scores(one, &u, &v, exclude, batch), all_scores(other, &u, &v, exclude, batch));
            for (score, (a, b)) in a.iter().zip(&b).enumerate() {
                assert_eq!(a.len(), b.len());
                for (a, b) in a.iter().zip(b) {
                    assert_eq!(a.id, b.id);
                    // The geodesic score divides by the sine of an angle, which is not small here.
                    let scale =
                        [norms[a.id], norms[a.id], 1.0, 4.0, 1e-4 * b.score / norm(&u)][score] * norm(&u);
                    assert!(
                        (a.score - b.score).abs() <= tolerance * scale,
                        "score {score} of {}: {a:?} {b:?}",
                        a.id
                    );
                }
            }
        }
    }
}

#[test]
fn virtual_draws_equal_their_dense_twin() {
    // One row more than tiles, less than a tile, and fewer rows than go through a product at once.
    for (n, dim, count) in [(513, 6, 100), (700, 3, 37), (40, 4, 500), (5, 2, 2), (2, 2, 16)] {
        for model in models(n, dim) {
            let posterior = fit(model.as_ref());
            for stream in [Stream::Build, Stream::HeldOut] {
                let draws = draws(&model, &posterior, count, 9, stream);
                let twin = Stored::draws_of_stream(&model, &posterior, count, 9, stream).unwrap();
                // Of few draws, what is left of a row once it is centred may be small beside the row.
                assert_twins(&draws, &twin, if count < 16 { 1e-5 } else { 1e-6 });
            }
        }
    }
}

#[test]
fn stacked_dictionaries_equal_their_dense_twin() {
    for model in models(300, 3) {
        let posterior = fit(model.as_ref());
        let part = |count, seed| draws(&model, &posterior, count, seed, Stream::Build);
        let stacked = Stacked::new(part(50, 1), part(33, 2)).unwrap();
        assert_eq!((stacked.coordinates(), stacked.description().name.as_str()), (83, "draws:50+draws:33"));
        assert_twins(&stacked, &Stored::copy_of(&stacked, Precision::Double).unwrap(), 1e-6);
    }
    let (long, short) = (models(300, 3), models(20, 3));
    let [long, short] = [&long[0], &short[0]].map(|model| draws(model, &fit(&**model), 5, 1, Stream::Build));
    let error = Stacked::new(long, short).err().unwrap();
    assert!(matches!(error, EmbedError::Length { got: 20, expected: 300, .. }), "{error}");
}

#[test]
fn a_remainder_is_what_the_polynomials_leave() {
    for model in &models(60, 3)[..4] {
        let posterior = fit(model.as_ref());
        let (linear, count) = (model.linear().unwrap(), 40);
        // Second-order expansions, by way of Hermite coefficients; exact for linear regression.
        let spread: Vec<f64> = (0..60)
            .map(|i| quadratic_form(&posterior.covariance, &linear.observations.wide_row(i)).sqrt())
            .collect();
        let derivatives = |i: usize| {
            let (y, exposure) = linear.observations.target(i);
            linear.family.derivatives(dot(&linear.observations.wide_row(i), &posterior.mean), y, exposure)
        };
        let first: Vec<f64> = (0..60).map(|i| spread[i] * derivatives(i)[0]).collect();
        let second: Vec<f64> = (0..60).map(|i| 0.5 * spread[i] * spread[i] * derivatives(i)[1]).collect();
        let polynomials = RowPolynomials::from_hermite(&first, &second, &spread);
        let whole = draws(model, &posterior, count, 1, Stream::Build);
        let shifts = posterior.shifts(count, 1, Stream::Build);
        let (anchor, given) = (&posterior.mean, shifts.clone());
        let remainder = ByDraws::remainder(model, anchor, given, polynomials.clone(), 0).unwrap();
        let ids: Vec<usize> = (0..60).collect();
        let (mut before, mut after) = (vec![0.0; 60 * count], vec![0.0; 60 * count]);
        whole.columns(&ids, &mut before).unwrap();
        remainder.columns(&ids, &mut after).unwrap();
        let u = normals(count, 4);
        let rankings = [Ranking { score: Score::Raw, count: 60 }];
        let mut scores =
            top(&remainder, &Query { vectors: &[&u], rankings: &rankings, exclude: &[], batch: None });
        scores[0].sort_by_key(|candidate| candidate.id);
        for i in ids {
            let mut part: Vec<f64> = (0..count)
                .map(|s| dot(&linear.observations.wide_row(i), shifts.row(s)))
                .map(|delta| delta * (polynomials.slope[i] + polynomials.curvature[i] * delta))
                .collect();
            let mean = part.iter().sum::<f64>() / count as f64;
            part.iter_mut().for_each(|x| *x = (*x - mean) / (count as f64).sqrt());
            let (before, after) = (&before[i * count..][..count], &after[i * count..][..count]);
            let size = norm(before);
            for s in 0..count {
                assert!((before[s] - part[s] - after[s]).abs() <= 1e-13 * size, "{} {i}", model.name());
            }
            assert!(
                (scores[0][i].score - dot(after, &u)).abs() <= 1e-6 * size * norm(&u),
                "{} {i}",
                model.name()
            );
            assert!(model.name() != "linear" || norm(after) <= 1e-13 * size);
        }
    }
    let models = models(60, 3);
    let short = RowPolynomials { slope: vec![0.0; 60].into(), curvature: vec![0.0; 59].into() };
    let make = |model: usize| {
        let (model, posterior) = (&models[model], fit(models[model].as_ref()));
        let shifts = posterior.shifts(5, 1, Stream::Build);
        ByDraws::remainder(model, &posterior.mean, shifts, short.clone(), 0).err().unwrap()
    };
    assert!(matches!(make(0), RowsError::Length { got: 59, expected: 60, .. }));
    assert!(matches!(make(4), RowsError::NoEmbedding { model: "gaussian", .. }));
}

#[test]
fn a_copy_in_f32_is_close() {
    let models = models(200, 4);
    let draws = draws(&models[0], &fit(models[0].as_ref()), 64, 3, Stream::Build);
    let single = Stored::copy_of(&draws, Precision::Single).unwrap();
    let u = normals(64, 1);
    let query = |count| [Ranking { score: Score::NormScaled, count }];
    let rankings = query(200);
    let query = Query { vectors: &[&u], rankings: &rankings, exclude: &[], batch: None };
    let (a, b) = (top(&single, &query), top(&draws, &query));
    assert_eq!((a[0].len(), b[0].len()), (199, 199));
    for (a, b) in a[0].iter().zip(&b[0]) {
        assert!((a.score - b.score).abs() < 3e-6 * norm(&u));
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let answers = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            models(3000, 4)
                .iter()
                .map(|model| {
                    let posterior = fit(model.as_ref());
                    let draws = draws(model, &posterior, 50, 1, Stream::Build);
                    let sum = draws.sum().unwrap();
                    let batch = Some(Batch { seed: 1, fraction: 0.5 });
                    let v: Vec<f64> = sum.vector.iter().map(|x| x / norm(&sum.vector)).collect();
                    let passes =
                        [None, batch].map(|batch| all_scores(&draws, &normals(50, 3), &v, &[], batch));
                    let mut columns = vec![0.0; 100 * 50];
                    draws.columns(&(0..100).collect::<Vec<_>>(), &mut columns).unwrap();
                    (sum, passes, columns)
                })
                .collect::<Vec<_>>()
        })
    };
    let one = answers(1);
    assert!(one == answers(2) && one == answers(3));
}

#[test]
fn bad_requests_are_errors() {
    let models = models(20, 2);
    let posterior = fit(models[0].as_ref());
    let all = Memory::new(Arc::clone(&models[0]));
    let error = embed(&all, &posterior, Choice::Draws(1), 3, 1).err().unwrap();
    assert!(matches!(error, EmbedError::TooFewDraws { count: 1 }));
    let draws = draws(&models[0], &posterior, 4, 1, Stream::Build);
    assert!(draws.columns(&[20], &mut [0.0; 4]).unwrap_err().to_string().contains("column 20"));
    // A posterior so wide that the rate of a Poisson model overflows at some draw.
    let wide = Gaussian::from_precision(vec![0.0; 2], vec![1e-8, 0.0, 0.0, 1e-8]).unwrap();
    let shifts = wide.shifts(50, 1, Stream::Build);
    let error = ByDraws::new(&models[1], &wide.mean, shifts, 0).err().unwrap();
    assert!(matches!(error, RowsError::NotFinite { .. }), "{error}");
    let chosen = embed(&all, &posterior, Choice::Draws(7), 3, 1).unwrap();
    assert_eq!((chosen.coordinates(), chosen.description().name.as_str()), (7, "draws:7"));
}

#[test]
fn a_users_matrix_in_either_layout() {
    let (n, draws) = (130, 9);
    let by_data: Vec<f64> = normals(n * draws, 5).iter().map(|x| x - 1000.0).collect();
    let by_draws: Vec<f64> = (0..n * draws).map(|at| by_data[at % n * draws + at / n]).collect();
    let first =
        Stored::from_log_likelihood(&by_data, n, draws, Layout::DataByDraws, Precision::Double).unwrap();
    let second =
        Stored::from_log_likelihood(&by_draws, n, draws, Layout::DrawsByData, Precision::Double).unwrap();
    assert_twins(&first, &second, 1e-15);
    let mut columns = vec![0.0; 2 * draws];
    first.columns(&[7, 129], &mut columns).unwrap();
    for (&row, column) in [7, 129].iter().zip(columns.chunks(draws)) {
        let entries = &by_data[row * draws..][..draws];
        let mean = entries.iter().sum::<f64>() / draws as f64;
        let variance = entries.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws as f64;
        assert!(column.iter().sum::<f64>().abs() < 1e-12);
        assert!((norm(column).powi(2) / variance - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_users_matrix_that_cannot_be_used() {
    let mut entries = vec![0.5; 12];
    let make = |entries: &[f64], n, draws, layout| {
        Stored::from_log_likelihood(entries, n, draws, layout, Precision::Single).err().unwrap().to_string()
    };
    let message = make(&entries, 4, 4, Layout::DataByDraws);
    assert_eq!(message, "the log-likelihood matrix has 12 numbers where 16 are needed");
    assert!(make(&entries, 12, 1, Layout::DataByDraws).contains("1 draws are too few"));
    entries[7] = f64::NEG_INFINITY;
    let message = make(&entries, 4, 3, Layout::DataByDraws);
    assert_eq!(message, "the log-likelihood of row 2 at draw 1 is not finite (-inf)");
    let message = make(&entries, 4, 3, Layout::DrawsByData);
    assert_eq!(message, "the log-likelihood of row 3 at draw 1 is not finite (-inf)");
}

#[test]
fn rows_of_differences_in_f64_equal_single_ones() {
    let families: [(Box<dyn Family>, Vec<f64>); 3] = [
        (Box::new(Logistic), vec![-1.0, 1.0]),
        (Box::new(Poisson { link: Link::Log }), vec![0.0, 3.0]),
        (Box::new(Poisson { link: Link::Softplus }), vec![0.0, 3.0, 50.0]),
    ];
    for (family, targets) in &families {
        for eta in [-30.0, -3.0, -0.2, 0.0, 0.9, 4.0, 20.0] {
            for &y in targets {
                // Many of them are worth a longer series, up to 1.5.
                let cases =
                    [(1e-6, 10), (1e-2, 10), (0.25, 10), (2.0, 10), (0.3, 100), (1.5, 100), (1.6, 100)];
                for (scale, half) in cases {
                    let step = |i: i32| scale * f64::from(i - half) / f64::from(half);
                    let deltas: Vec<f64> = (0..=2 * half).map(step).collect();
                    let mut row = deltas.clone();
                    family.differences_row_f64(eta, y, 1.3, &mut row);
                    let want: Vec<f64> = deltas.iter().map(|d| family.difference(eta, *d, y, 1.3)).collect();
                    let size = want.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                    for (got, want) in row.iter().zip(&want) {
                        assert!(
                            (got - want).abs() <= 2e-13 * size,
                            "{} {eta} {y} {scale}: {got} {want}",
                            family.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn pursuit_over_virtual_draws_of_real_data_chooses_what_it_chooses_over_stored_ones() {
    let folder = common::data_folder();
    let table = read(&folder.join("phishing.npz"), None).unwrap();
    let options = DesignOptions {
        outcome: Outcome::Classes,
        standardise: Standardise::Whiten,
        ..DesignOptions::default()
    };
    let model = Logistic::model(design(&table, &options).unwrap().observations).unwrap();
    let posterior = fit(&model);
    let model: Arc<dyn Model> = Arc::new(model);
    let stored = Stored::draws(&model, &posterior, 500, 1).unwrap();
    let draws = draws(&model, &posterior, 500, 1, Stream::Build);
    for k in [10, 50, 100] {
        let settings = Settings { k, ..Settings::default() };
        let [a, b] = [&draws as &dyn Dictionary, &stored]
            .map(|dictionary| Solver::new(dictionary, settings.clone()).run(&Method::default()).unwrap());
        // Of two points that are worth the same the last digits choose, and of the many on the way to k = 50 there are some.
        let shared = a.weights.ids.iter().filter(|id| b.weights.ids.contains(id)).count();
        assert!(shared + 2 >= k, "k = {k}: {shared} shared");
        assert!((a.residual / b.residual - 1.0).abs() < 0.01, "k = {k}: {} {}", a.residual, b.residual);
        let mut weights = a.weights.values.iter().zip(&b.weights.values);
        let same = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-6 * y.abs().max(1.0);
        assert!(shared < k || weights.all(same), "k = {k}");
    }
}
