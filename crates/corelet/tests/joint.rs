//! Models with several predictors a row: their sums, their embedding of order 2, their fits and their coresets, against plain twins.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, select};
use corelet::embed::{Choice, EmbedError, JointHermite, embed};
use corelet::linalg::dot;
use corelet::model::special::sigmoid;
use corelet::model::{
    Binomial, Derivatives, Exponential, Gamma, Inputs, Joint, Model, NegativeBinomial, Normal, Ordinal, Over,
    Softmax, Student, StudentDegrees, Weibull, total_differences,
};
use corelet::posterior::{
    Gaussian, Laplace, LaplaceSettings, LaplaceStatus, Prior, SampleSettings, laplace, sample,
};
use corelet::random::Stream;
use corelet::rows::{All, Memory, Observations, Weighted};
use corelet::trust::{Draws, Grade, verdict};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use sparse_nnls::{Dictionary, Query, Ranking, Score};

/// Rows (x, 1) and targets by `target` of η and a standard normal.
fn observations(n: usize, dim: usize, target: impl Fn(f64, &mut ChaCha8Rng) -> f64) -> Observations {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut features, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let mut x: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(dim - 1).collect();
        x.push(1.0);
        let eta = 0.4 * x[0] - 0.3 * x[dim - 1] + if dim > 2 { 0.2 * x[1] } else { 0.0 };
        targets.push(target(eta, &mut rng));
        features.extend(x);
    }
    Observations::new(&features, dim, targets)
}

fn normal(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    eta + 0.7 * z
}

/// η and noise with heavy tails.
fn heavy(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (z, w): (f64, f64) = (StandardNormal.sample(rng), Exp1.sample(rng));
    eta + 0.4 * z / (0.2 + w).sqrt()
}

/// A positive number of mean e^η.
fn skewed(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let (a, b): (f64, f64) = (Exp1.sample(rng), Exp1.sample(rng));
    eta.exp() * (0.5 * (a + b)).max(1e-3)
}

/// Times, every third of which is one until which nothing was seen.
fn censored(n: usize, dim: usize) -> Observations {
    let events = (0..n).map(|i: usize| if i.is_multiple_of(3) { 0.0 } else { 1.0 }).collect();
    observations(n, dim, skewed).with_exposure(events)
}

/// A count that varies more than a Poisson one.
fn count(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    skewed(eta + 1.0, rng).round()
}

/// One of three classes without an order.
fn class(eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    let scores = [0.0, eta, 0.5 - eta].map(|score| score - f64::ln(Exp1.sample(rng)));
    if scores[0] > scores[1].max(scores[2]) {
        0.0
    } else if scores[1] > scores[2] {
        1.0
    } else {
        2.0
    }
}

/// One of so many levels, higher where η is.
fn level(eta: f64, rng: &mut ChaCha8Rng, levels: usize) -> f64 {
    let z: f64 = StandardNormal.sample(rng);
    (levels as f64 * sigmoid(1.5 * eta + 1.2 * z)).floor().min(levels as f64 - 1.0)
}

/// A model of every family.
fn models(n: usize, dim: usize) -> Vec<Arc<dyn Model>> {
    vec![
        Arc::new(Normal::model(observations(n, dim, normal)).unwrap()),
        Arc::new(Student::model(observations(n, dim, heavy), 4.0).unwrap()),
        Arc::new(StudentDegrees::model(observations(n, dim, heavy)).unwrap()),
        Arc::new(NegativeBinomial::model(observations(n, dim, count)).unwrap()),
        Arc::new(Gamma::model(observations(n, dim, skewed)).unwrap()),
        Arc::new(Weibull::model(censored(n, dim)).unwrap()),
        Arc::new(Exponential::model(censored(n, dim)).unwrap()),
        Arc::new(Softmax::model(observations(n, dim, class), 3).unwrap()),
        Arc::new(Softmax::model(observations(n, dim, |eta, rng| level(eta, rng, 5)), 5).unwrap()),
        Arc::new(Ordinal::model(observations(n, dim, |eta, rng| level(eta, rng, 3)), 3).unwrap()),
        Arc::new(Ordinal::model(observations(n, dim, |eta, rng| level(eta, rng, 6)), 6).unwrap()),
    ]
}

fn prior(model: &dyn Model) -> Prior {
    Prior::isotropic(model.dim(), 2.0).unwrap()
}

fn fit(model: &Arc<dyn Model>) -> Laplace {
    let rows = Memory::new(Arc::clone(model));
    laplace(&All(&rows), &prior(&**model), None, &LaplaceSettings::default()).unwrap()
}

#[test]
fn sums_have_the_derivatives_of_their_rows() {
    for model in models(700, 4) {
        let (dim, step) = (model.dim(), 1e-5);
        let theta: Vec<f64> = (0..dim).map(|j| 0.3 * (1.3 * j as f64).cos()).collect();
        let evaluate = |theta: &[f64]| {
            let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
            let value = model.evaluate(Over::All, theta, Derivatives::both(&mut gradient, &mut hessian));
            (value, gradient, hessian)
        };
        let (value, gradient, hessian) = evaluate(&theta);
        let plain: f64 = (0..model.len()).map(|i| model.log_likelihood(i, &theta)).sum();
        assert!((value - plain).abs() < 1e-9 * plain.abs());
        for j in 0..dim {
            let moved = |by: f64| {
                let mut moved = theta.clone();
                moved[j] += by;
                evaluate(&moved)
            };
            let (above, below) = (moved(step), moved(-step));
            let slope = (above.0 - below.0) / (2.0 * step);
            assert!((gradient[j] - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{} {j}", model.name());
            for l in 0..dim {
                let slope = (above.1[l] - below.1[l]) / (2.0 * step);
                assert!(
                    (hessian[j * dim + l] - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                    "{} {j} {l}",
                    model.name()
                );
                assert_eq!(hessian[j * dim + l], hessian[l * dim + j]);
            }
        }
        let ids: Vec<usize> = (0..model.len()).collect();
        let over = Over::Weighted { ids: &ids, weights: &vec![1.0; ids.len()] };
        assert!((model.evaluate(over, &theta, Derivatives::none()) - value).abs() < 1e-9 * value.abs());
    }
}

#[test]
fn sums_in_single_precision_are_those_in_double_precision() {
    for model in models(400, 4) {
        let posterior = fit(&model).posterior;
        let n = model.len();
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
        let weighted = model.bind(model.observations().clone().with_weights(weights)).unwrap();
        let shifts = posterior.shifts(37, 1, Stream::Build);
        for model in [model, weighted] {
            let sums = |wide| total_differences(&model, &posterior.mean, &shifts, wide);
            for (narrow, wide) in sums(false).into_iter().zip(sums(true)) {
                let near = (narrow - wide).abs() < 1e-5 * (1.0 + wide.abs());
                assert!(near, "{}: {narrow} {wide}", model.name());
            }
        }
    }
}

/// Points and weights for expectations over r standard normals: a fine grid up to r = 2, else draws and their mirror images.
fn brute_force(r: usize) -> Vec<(Vec<f64>, f64)> {
    if r <= 2 {
        let place = |at: usize| (at % 81) as f64 / 5.0 - 8.0;
        let points = (0..81_usize.pow(r as u32)).map(|at| vec![place(at), place(at / 81)][..r].to_vec());
        return points.map(|z| (z.clone(), (-0.5 * dot(&z, &z)).exp())).collect();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut draw = || StandardNormal.sample_iter(&mut rng).take(r).collect::<Vec<f64>>();
    let mirrored = |z: Vec<f64>| [z.iter().map(|z| -z).collect(), z];
    (0..20_000).flat_map(|_| mirrored(draw())).map(|z| (z, 1.0)).collect()
}

/// E[∇ℓ] and E[∇²ℓ] of row `i` by brute force, LᵀAᵀ and what follows, entry by entry.
fn plain_column(model: &dyn Model, posterior: &Gaussian, i: usize) -> Vec<f64> {
    let (joint, dim) = (model.joint().unwrap(), model.dim());
    let r = joint.layout.predictors();
    let x = joint.observations.wide_row(i);
    let inputs: Vec<Vec<f64>> = joint
        .layout
        .blocks()
        .map(|(input, block)| {
            let mut row = vec![0.0; dim];
            match input {
                Inputs::Features => row[block].copy_from_slice(&x),
                Inputs::Constant => row[block.start] = 1.0,
            }
            row
        })
        .collect();
    let whiten = |a: &[f64]| -> Vec<f64> {
        (0..dim).map(|j| (0..dim).map(|l| posterior.factor[l * dim + j] * a[l]).sum()).collect()
    };
    let v: Vec<Vec<f64>> = inputs.iter().map(|a| whiten(a)).collect();
    // ζ = ζ̂ + Cz with CCᵀ the covariance of ζ.
    let mut c = vec![0.0; r * r];
    for (a, b) in (0..r).flat_map(|a| (0..=a).map(move |b| (a, b))) {
        let rest = dot(&v[a], &v[b]) - dot(&c[a * r..a * r + b], &c[b * r..b * r + b]);
        c[a * r + b] = if a == b { rest.max(0.0).sqrt() } else { rest / c[b * r + b] };
    }
    let (mut gradient, mut hessian, mut total) = (vec![0.0; r], vec![0.0; r * r], 0.0);
    for (z, weight) in brute_force(r) {
        let zeta: Vec<f64> =
            (0..r).map(|a| dot(&inputs[a], &posterior.mean) + dot(&c[a * r..][..r], &z)).collect();
        let (mut g, mut h) = (vec![f64::NAN; r], vec![f64::NAN; r * r]);
        joint.family.derivatives(&zeta, joint.observations.target(i), &mut g, &mut h);
        gradient.iter_mut().zip(g).for_each(|(sum, g)| *sum += weight * g);
        hessian.iter_mut().zip(h).for_each(|(sum, h)| *sum += weight * h);
        total += weight;
    }
    let mut column: Vec<f64> =
        (0..dim).map(|j| (0..r).map(|a| v[a][j] * gradient[a]).sum::<f64>() / total).collect();
    for j in 0..dim {
        for l in j..dim {
            let entry: f64 =
                (0..r * r).map(|at| v[at / r][j] * hessian[at] * v[at % r][l]).sum::<f64>() / total;
            column.push(entry * if j == l { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 });
        }
    }
    column
}

#[test]
fn columns_are_those_of_steins_lemma() {
    for (n, tolerance) in [(40, 1e-2), (400, 3e-4), (6000, 1e-5)] {
        for model in models(n, 4) {
            let posterior = fit(&model).posterior;
            let predictors = model.joint().unwrap().layout.predictors();
            let hermite = JointHermite::new(model.joint().unwrap(), &posterior, 2).unwrap();
            let mut column = vec![0.0; hermite.coordinates()];
            // What draws leave, and for many predictors the points of degree 5 where these are wide.
            let tolerance = if predictors > 2 { f64::max(tolerance, 1e-3) * 3.0 } else { tolerance };
            for i in [0, 7, 23] {
                hermite.columns(&[i], &mut column).unwrap();
                let want = plain_column(&*model, &posterior, i);
                let (error, size) = (distance(&column, &want), dot(&want, &want).sqrt());
                assert!(error < tolerance * size, "{} of {n}: {error} of {size}", model.name());
            }
        }
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn passes_agree_with_columns_for_any_number_of_threads() {
    for model in models(3000, 5) {
        let posterior = fit(&model).posterior;
        for order in [1, 2] {
            let answer = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let hermite = JointHermite::new(model.joint().unwrap(), &posterior, order).unwrap();
                    let sum = hermite.sum().unwrap();
                    let rankings = [Ranking { score: Score::Raw, count: 40 }];
                    let query =
                        Query { vectors: &[&sum.vector], rankings: &rankings, exclude: &[], batch: None };
                    let mut best = vec![Vec::new()];
                    hermite.top(&query, &mut best).unwrap();
                    (sum, best.remove(0), hermite)
                })
            };
            let ((sum, best, hermite), (other_sum, other_best, _)) = (answer(1), answer(3));
            assert_eq!((&sum, &best), (&other_sum, &other_best));
            let (ids, length): (Vec<usize>, usize) = ((0..3000).collect(), hermite.coordinates());
            let mut all = vec![0.0; 3000 * length];
            hermite.columns(&ids, &mut all).unwrap();
            let mut total = vec![0.0; length];
            all.chunks(length).for_each(|column| total.iter_mut().zip(column).for_each(|(t, c)| *t += c));
            assert!(distance(&total, &sum.vector) < 1e-9 * sum.norms);
            let plain = |id: usize| dot(&all[id * length..][..length], &sum.vector);
            let size = dot(&sum.vector, &sum.vector).sqrt();
            for candidate in &best {
                let column = &all[candidate.id * length..][..length];
                let error = (candidate.score - plain(candidate.id)).abs();
                assert!(error < 1e-5 * size * dot(column, column).sqrt(), "{}", model.name());
            }
        }
        let error = JointHermite::new(model.joint().unwrap(), &posterior, 3).err().unwrap();
        assert!(matches!(error, EmbedError::JointOrder { order: 3, .. }));
    }
}

#[test]
fn what_is_dropped_is_known() {
    // With the exact posterior variance of all log-likelihoods by draws as the measure of what order 2 leaves.
    for model in models(300, 3) {
        let posterior = fit(&model).posterior;
        let rows = Memory::new(Arc::clone(&model));
        let order_two = embed(&rows, &posterior, Choice::Hermite(2), 30, 0).unwrap();
        let whole = embed(&rows, &posterior, Choice::Draws(4000), 30, 0).unwrap();
        let both = embed(&rows, &posterior, Choice::HermiteDraws(4000), 30, 0).unwrap();
        let square = |dictionary: &dyn Dictionary| {
            let sum = dictionary.sum().unwrap().vector;
            dot(&sum, &sum)
        };
        let tail = corelet::embed::Embedding::description(&order_two).tail;
        let rest = square(&both) - square(&order_two);
        // A mean of 32 squares of a skewed polynomial.
        assert!(tail > 0.2 * 0.5 * rest && tail < 5.0 * 0.5 * rest, "{}: {tail} {rest}", model.name());
        assert!((square(&whole) / square(&both) - 1.0).abs() < 0.1, "{}", model.name());
    }
}

/// Two hundred rows (x, 1), with targets by x and a number u between 0 and 1, and exposures by the row.
fn small(target: impl Fn(f64, f64) -> f64, exposure: impl Fn(usize) -> f64) -> Observations {
    let x = |i: usize| (i % 16) as f64 / 8.0 - 1.0;
    let u = |i: usize| (((i * 7919) % 997) as f64 + 0.5) / 997.0;
    let features: Vec<f64> = (0..200).flat_map(|i| [x(i), 1.0]).collect();
    let targets = (0..200).map(|i| target(x(i), u(i))).collect();
    Observations::new(&features, 2, targets).with_exposure((0..200).map(exposure).collect())
}

/// A model, the mode of its posterior, and the standard deviations there.
type KnownFit = (Arc<dyn Model>, Vec<f64>, Vec<f64>);

/// What scipy finds: the mode under N(0, 2²) of each parameter and the standard deviations there, with
///
/// ```python
/// i = np.arange(200); x = (i % 16) / 8 - 1; u = ((i * 7919) % 997 + 0.5) / 997; X = np.column_stack([x, np.ones(200)])
/// f = lambda theta: -loglik(theta).sum() + 0.5 * np.sum(theta**2) / 4
/// mode = scipy.optimize.minimize(f, np.zeros(d), method="BFGS").x  # and Newton steps; sd by the inverse Hessian at it
/// # linear: scipy.stats.norm.logpdf(0.5 + x + 2 * (u - 0.5), X @ theta[:2], np.exp(theta[2]))
/// # student: scipy.stats.t.logpdf(0.5 + x + 0.5 * np.log(u / (1 - u)), 4, X @ theta[:2], np.exp(theta[2]))
/// # student, ν unknown: the same with np.exp(theta[3]) in the place of 4
/// # negative-binomial: s = np.exp(theta[2]); y = np.floor(2 * np.exp(0.5 * x) * (-np.log(u))**1.5)
/// #     scipy.stats.nbinom.logpmf(y, s, s / (s + np.exp(X @ theta[:2])))
/// # gamma: a = np.exp(theta[2]); y = np.exp(0.3 + 0.5 * x) * (-np.log(u))**0.8 + 0.05
/// #     scipy.stats.gamma.logpdf(y, a, scale=np.exp(X @ theta[:2]) / a)
/// # weibull: k = np.exp(theta[2]); t = np.exp(0.3 + 0.4 * x) * (-np.log(u))**0.6 + 0.01; d = i % 4 != 0
/// #     z = k * (np.log(t) - X @ theta[:2]); d * (np.log(k) - np.log(t) + z) - np.exp(z); exponential: k = 1
/// # binomial: m = 5 + i % 3; y = np.floor(u * (m + 1) * scipy.special.expit(0.3 + x))
/// #     scipy.stats.binom.logpmf(y, m, scipy.special.expit(X @ theta))
/// # softmax: y = np.minimum(np.floor(3 * (u + 0.2 * x * (1 - u))), 2).clip(0)
/// #     z = np.column_stack([0 * x, X @ theta[:2], X @ theta[2:]]); z[i, y] - scipy.special.logsumexp(z, axis=1)
/// # ordinal: y = np.minimum(np.floor(4 * (u + 0.3 * x * (1 - u))), 3).clip(0)
/// #     c = np.array([-np.inf, -np.exp(theta[2]), 0, np.exp(theta[3]), np.inf])
/// #     np.log(scipy.special.expit(c[y + 1] - X @ theta[:2]) - scipy.special.expit(c[y] - X @ theta[:2]))
/// ```
fn known_fits() -> Vec<KnownFit> {
    let unit = |_: usize| 1.0;
    let logit = |x: f64, u: f64| 0.5 + x + 0.5 * (u / (1.0 - u)).ln();
    let counts = |x: f64, u: f64| (2.0 * (0.5 * x).exp() * (-u.ln()).powf(1.5)).floor();
    let times = |x: f64, u: f64| (0.3 + 0.4 * x).exp() * (-u.ln()).powf(0.6) + 0.01;
    let event = |i: usize| if i.is_multiple_of(4) { 0.0 } else { 1.0 };
    let mut successes = small(|x, u| u * sigmoid(0.3 + x), |i| (5 + i % 3) as f64);
    (0..200)
        .for_each(|i| successes.target[i] = (successes.target[i] * (successes.target(i).1 + 1.0)).floor());
    let coded = |classes: f64, share: f64| (classes * share).floor().clamp(0.0, classes - 1.0);
    let positive = |x: f64, u: f64| (0.3 + 0.5 * x).exp() * (-u.ln()).powf(0.8) + 0.05;
    vec![
        (
            Arc::new(Normal::model(small(|x, u| 0.5 + x + 2.0 * (u - 0.5), unit)).unwrap()),
            vec![0.98749488, 0.53261559, -0.54385451],
            vec![0.071234, 0.0414577, 0.0500015],
        ),
        (
            Arc::new(Student::model(small(logit, unit), 4.0).unwrap()),
            vec![0.95873943, 0.54125311, -0.321548],
            vec![0.107515, 0.0613827, 0.0653166],
        ),
        (
            Arc::new(StudentDegrees::model(small(logit, unit)).unwrap()),
            vec![0.963892378, 0.54269434, -0.29047293, 1.563545089],
            vec![0.108606412, 0.061953406, 0.08367577, 0.324339759],
        ),
        (
            Arc::new(NegativeBinomial::model(small(counts, unit)).unwrap()),
            vec![0.35294856, 0.70329591, -0.96844085],
            vec![0.2038417, 0.1257136, 0.1517595],
        ),
        (
            Arc::new(Gamma::model(small(positive, unit)).unwrap()),
            vec![0.43071054, 0.22173443, 0.46356739],
            vec![0.0948274, 0.0565928, 0.0913774],
        ),
        (
            Arc::new(Weibull::model(small(times, event)).unwrap()),
            vec![0.23905648, 0.43430513, 0.46597225],
            vec![0.0863943, 0.0514619, 0.0646423],
        ),
        (
            Arc::new(Exponential::model(small(times, event)).unwrap()),
            vec![0.18729196, 0.43481],
            vec![0.1393949, 0.0815982],
        ),
        (
            Arc::new(Binomial::model(successes).unwrap()),
            vec![0.7001059, -1.09276355],
            vec![0.1199294, 0.0679536],
        ),
        (
            Arc::new(Softmax::model(small(|x, u| coded(3.0, u + 0.2 * x * (1.0 - u)), unit), 3).unwrap()),
            vec![0.618774509, 0.125232204, 0.490121233, 0.165657905],
            vec![0.307204725, 0.180355056, 0.302902355, 0.178828895],
        ),
        (
            Arc::new(Ordinal::model(small(|x, u| coded(4.0, u + 0.3 * x * (1.0 - u)), unit), 4).unwrap()),
            vec![0.610935501, 0.137327042, 0.169314421, 0.144146584],
            vec![0.221637288, 0.143047681, 0.129064728, 0.124226379],
        ),
    ]
}

#[test]
fn fits_are_those_of_scipy() {
    for (model, mode, sd) in known_fits() {
        let fit = fit(&model);
        let dim = model.dim();
        assert_eq!(fit.status, LaplaceStatus::Converged, "{}", model.name());
        for j in 0..dim {
            let (mean, variance) = (fit.posterior.mean[j], fit.posterior.covariance[j * dim + j]);
            assert!((mean - mode[j]).abs() < 1e-5 * sd[j] + 2e-8, "{} {j}: {mean}", model.name());
            assert!((variance.sqrt() / sd[j] - 1.0).abs() < 1e-5, "{} {j}: {variance}", model.name());
        }
    }
}

/// The grade of a coreset of k points by chains on its posterior.
fn grade(model: &Arc<dyn Model>, k: usize) -> Grade {
    let (rows, prior) = (Memory::new(Arc::clone(model)), prior(&**model));
    let full = fit(model).posterior;
    let embedding = embed(&rows, &full, Choice::Auto, k, 0).unwrap();
    let options = BuildOptions { k, ..BuildOptions::default() };
    let coreset = select(&embedding, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let weighted = Weighted::fetch(&rows, &coreset.rows, &coreset.weights).unwrap();
    // So few points that a line goes through them all have no mode but where σ vanishes.
    let start = weighted.fit(&prior).map_or(full, |fit| fit.posterior);
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let settings = SampleSettings { warmup: 300, draws: 500, max_depth: 7, ..SampleSettings::default() };
    let chains = sample(&weighted, &prior, &start, &settings, 0, go_on).unwrap();
    let draws = Draws::from_chains(&chains, 2000);
    verdict(&rows, &prior, &weighted, &draws, chains.divergences()).unwrap().grade
}

#[test]
fn enough_points_are_an_a_and_few_are_not() {
    for model in models(3000, 4) {
        assert_eq!(grade(&model, 80), Grade::A, "{}", model.name());
        assert_ne!(grade(&model, 3), Grade::A, "{}", model.name());
    }
}

#[test]
fn bad_data_are_refused() {
    let good = observations(10, 2, normal);
    let short = Observations { target: vec![1.0; 3].into(), ..good.clone() };
    assert!(Joint::new(short, Normal).is_err());
    let endless = Observations { target: vec![f64::NAN; 10].into(), ..good };
    assert!(Joint::new(endless, Normal).is_err());
    let negative = Observations { target: vec![-1.0; 10].into(), ..observations(10, 2, normal) };
    assert!(NegativeBinomial::model(negative.clone()).is_err() && Gamma::model(negative.clone()).is_err());
    assert!(Student::model(negative.clone(), 0.0).is_err() && Weibull::model(negative).is_err());
    let more = observations(10, 2, count).with_exposure(vec![1.0; 10]);
    assert!(Binomial::model(Observations { target: vec![2.0; 10].into(), ..more }).is_err());
    let unclear = observations(10, 2, skewed).with_exposure(vec![0.5; 10]);
    assert!(Weibull::model(unclear).is_err());
    let third = Observations { target: vec![3.0; 10].into(), ..observations(10, 2, normal) };
    assert!(Softmax::model(third.clone(), 3).is_err() && Ordinal::model(third.clone(), 3).is_err());
    assert!(Softmax::model(third.clone(), 1).is_err() && Ordinal::model(third, 1).is_err());
}

#[test]
fn every_model_is_fitted_at_every_size() {
    for n in [40, 100, 400, 700, 1000, 2500] {
        for (at, model) in models(n, 4).into_iter().enumerate() {
            let prior = prior(&*model);
            let fit = laplace(&All(&Memory::new(model)), &prior, None, &LaplaceSettings::default());
            let status = fit.map(|fit| fit.status);
            assert_eq!(status, Ok(LaplaceStatus::Converged), "{n} rows, model {at}");
        }
    }
}
