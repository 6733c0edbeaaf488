//! Posteriors with several modes, against the integral of the density over a grid: the best one is found, the others are named, and no
//! draws that miss one get an A.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use corelet::coreset::{Start, start_fit};
use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::model::{BuiltIn, Degrees};
use corelet::posterior::{Mode, Modes, SampleSettings, has_one_mode, modes, modes_of_weighted};
use corelet::rows::{At, LogLikelihood};
use corelet::study::{BuildSpecification, Drawn, ModelSpecification, Specification, Study, unheard};
use corelet::trust::{Grade, Reason};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};
use serde_json::json;

/// Of each family, in the test that takes them all.
const SEEDS: u64 = 3;
const SIZES: [usize; 2] = [14, 40];

fn numbers(name: &str, values: &[f64]) -> Column {
    Column { name: name.to_owned(), values: Values::Number { values: values.to_vec(), integer: false } }
}

/// A study of y given features, as they are and without an intercept, so that two parameters of one feature are all there are.
fn study(model: ModelSpecification, features: &[Vec<f64>], y: &[f64], intercept: bool) -> Study {
    let mut columns: Vec<Column> =
        features.iter().enumerate().map(|(j, x)| numbers(&format!("x{}", j + 1), x)).collect();
    columns.push(numbers("y", y));
    let design = DesignOptions {
        columns: Columns::predicting("y"),
        intercept,
        standardise: if intercept { Standardise::default() } else { Standardise::None },
        ..DesignOptions::default()
    };
    let specification = Specification { design, model, ..Specification::default() };
    Study::open(&Source::of_table(Table::new("lines", columns).unwrap()), &specification).unwrap()
}

fn student(degrees: f64) -> ModelSpecification {
    ModelSpecification {
        model: BuiltIn::Student,
        degrees: Some(Degrees::Given(degrees)),
        ..ModelSpecification::default()
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// Rows along y = 2x and as many along y = −2x, each with its mirror image, so that both modes have the same mass; and a few rows more,
/// so that they have not quite.
fn crossing(n: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let pairs = (0..n / 2).map(|_| {
        let (x, noise) = (normal(&mut rng), normal(&mut rng));
        (x, 2.0 * x + 0.3 * noise)
    });
    let mut rows: Vec<(f64, f64)> = pairs.flat_map(|(x, y)| [(x, y), (x, -y)]).collect();
    rows.extend((0..seed % 3).map(|_| (0.5, 0.6)));
    rows.into_iter().unzip()
}

/// y = 2x with heavy tails, where x was read 30 times too large in some rows.
fn misread(n: usize, share: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tails = StudentT::new(4.0).unwrap();
    let row = |_: usize| {
        let x = normal(&mut rng);
        let y = 2.0 * x + 0.5 * tails.sample(&mut rng);
        (if rng.random::<f64>() < share { 30.0 * x } else { x }, y)
    };
    (0..n).map(row).unzip()
}

/// log of the posterior mass over ranges of both parameters, by a grid.
fn log_mass(study: &Study, first: (f64, f64), second: (f64, f64)) -> f64 {
    sheared_log_mass(study, first, second, 0.0, FINE)
}

/// Steps of that grid along a parameter.
const FINE: usize = 60;

/// The same where the second range moves along with the first parameter, so many times as far; in so many steps of the first.
fn sheared_log_mass(
    study: &Study,
    first: (f64, f64),
    second: (f64, f64),
    shear: f64,
    first_steps: usize,
) -> f64 {
    let problem = study.problem();
    let at = |range: (f64, f64), step: usize, steps: usize| {
        range.0 + (range.1 - range.0) * (step as f64 + 0.5) / steps as f64
    };
    let mut values = Vec::new();
    for (i, j) in (0..first_steps).flat_map(|i| (0..FINE).map(move |j| (i, j))) {
        let moving = at(first, i, first_steps);
        let theta = [moving, at(second, j, FINE) + shear * moving];
        let value = problem.rows.newton(&At { theta: &theta, derivatives: 0 }).unwrap().value;
        values.push(value + problem.prior.log_density(&theta));
    }
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let cell = (first.1 - first.0) * (second.1 - second.0) / (first_steps * FINE) as f64;
    most + values.iter().map(|value| (value - most).exp()).sum::<f64>().ln() + cell.ln()
}

fn found(study: &Study) -> Modes {
    let problem = study.problem();
    let fit = start_fit(problem, Start::Full, 0).ok();
    modes(problem.rows, problem.prior, fit.as_ref(), 0).unwrap().unwrap()
}

/// Builds, samples and judges.
fn fitted(study: &Study, k: usize, seed: u64) -> Drawn {
    let specification = BuildSpecification { k: Some(k), seed, ..BuildSpecification::default() };
    let chosen = study.build(&specification, &mut unheard).unwrap().unwrap();
    let coreset = chosen.coreset();
    let weighted = study.weighted(&coreset.rows, &chosen.weights).unwrap();
    study.sample(Some(&weighted), &SampleSettings::default(), seed, &mut unheard).unwrap()
}

#[test]
fn crossing_lines_have_two_modes_with_their_masses() {
    for (n, seed) in [(60, 1), (300, 2), (300, 3), (400, 4), (1000, 5), (9000, 6), (20_000, 7)] {
        let (x, y) = crossing(n, seed);
        let study = study(student(1.0), &[x], &y, false);
        let found = found(&study);
        let of = |sign: f64| {
            let mode = found.all().iter().find(|mode| sign * mode.theta()[0] > 1.0);
            mode.unwrap_or_else(|| panic!("no mode at {sign}: {n} {seed}"))
        };
        let about = |sign: f64| {
            let (mode, width) = (of(sign).theta(), (15.0 / (n as f64).sqrt()).min(1.5));
            let around = |centre: f64| (centre - width, centre + width);
            log_mass(&study, around(mode[0]), around(mode[1]))
        };
        let by_grid = about(-1.0) - about(1.0);
        let by_fits = of(-1.0).log_mass - of(1.0).log_mass;
        assert!((by_grid - by_fits).abs() < 0.3, "{n} {seed}: {by_grid} {by_fits}");
        assert!(by_grid.abs() < 9.0, "{n} {seed}: {by_grid}");
        assert_eq!(found.with_share(1e-4).all().len(), 2, "{n} {seed}");
    }
}

#[test]
fn crossing_lines_are_never_certified() {
    for seed in 0..8 {
        let n = [200, 300, 500, 1000, 6000][seed as usize % 5];
        let (x, y) = crossing(n, seed);
        let study = study(student(1.0), &[x], &y, true);
        for k in [20, 60] {
            let drawn = fitted(&study, k, seed);
            let verdict = drawn.verdict.as_ref().unwrap();
            assert_eq!(verdict.grade, Grade::C, "{n} {seed} {k}");
            assert!(verdict.reasons.contains(&Reason::SecondMode), "{n} {seed} {k}: {:?}", verdict.reasons);
        }
        let said = study.warnings().join("\n");
        assert!(said.contains("another mode, where x1 is"), "{n} {seed}: {said}");
    }
}

#[test]
fn misread_features_do_not_hide_the_slope() {
    let mut certified = 0;
    for seed in 0..6 {
        let n = [500, 1000, 2000, 20_000][seed as usize % 4];
        let (x, y) = misread(n, 0.04, seed);
        // Two parameters: the better of the two places by the grid.
        let plain = study(student(4.0), std::slice::from_ref(&x), &y, false);
        let at = |slopes: (f64, f64)| log_mass(&plain, slopes, (-1.5, 0.5));
        let ratio = at((1.7, 2.3)) - at((-0.3, 0.3));
        assert!(ratio > 50.0, "{n} {seed}: {ratio}");
        assert!((found(&plain).best().theta()[0] - 1.95).abs() < 0.1, "{n} {seed}");
        let study = study(student(4.0), &[x], &y, true);
        let drawn = fitted(&study, 60, seed);
        let slope = drawn.marginals(&study)[0].0.mean;
        assert!((slope - 1.95).abs() < 0.1, "{n} {seed}: {slope}");
        certified += usize::from(drawn.grade() == Some(Grade::A));
    }
    assert!(certified >= 4, "{certified} of 6");
}

/// Few rows with heavy tails have modes of all kinds: those that a grid has, with a density near that of the best, are found.
#[test]
fn modes_of_few_rows_are_those_of_a_grid() {
    const STEPS: [usize; 2] = [241, 121];
    const ALIKE: f64 = 1e-4;
    let (mut several, mut missed) = (0, 0);
    for seed in 0..120 {
        let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
        let (n, degrees) = ([6, 10, 20, 40][seed as usize % 4], [0.5, 1.0, 2.0][seed as usize % 3]);
        let tails = StudentT::new(degrees).unwrap();
        let row = |i: usize| {
            let x = normal(&mut rng);
            let (slope, noise): (f64, f64) =
                (if i.is_multiple_of(3) { -2.0 } else { 1.0 }, tails.sample(&mut rng));
            (x, slope * x + 0.2 * noise.clamp(-40.0, 40.0))
        };
        let (x, y): (Vec<f64>, Vec<f64>) = (0..n).map(row).unzip();
        let study = study(student(degrees), std::slice::from_ref(&x), &y, false);
        let problem = study.problem();
        let found = found(&study);
        let place = |i: usize, j: usize| [-6.0 + 0.05 * i as f64, -5.0 + 0.06 * j as f64];
        // As it is defined, row by row, up to a constant; it must be the library's, and takes less time where rows are few.
        let density = |theta: &[f64; 2]| {
            let scale = degrees * (2.0 * theta[1]).exp();
            let row =
                |(x, y): (&f64, &f64)| 0.5 * (degrees + 1.0) * ((y - theta[0] * x).powi(2) / scale).ln_1p();
            let rows: f64 = x.iter().zip(&y).map(row).sum();
            problem.prior.log_density(theta) - rows - n as f64 * theta[1]
        };
        let apart = |theta: [f64; 2]| {
            problem.rows.newton(&At { theta: &theta, derivatives: 0 }).unwrap().value
                + problem.prior.log_density(&theta)
                - density(&theta)
        };
        let constant = apart([0.0, 0.0]);
        for theta in [[1.0, -1.0], [-2.0, 0.5], [4.0, 2.0], [0.3, -3.0]] {
            let difference = (apart(theta) - constant).abs();
            assert!(difference < ALIKE * n as f64, "{seed}: {difference} at {theta:?}");
        }
        let column = |i: usize| (0..STEPS[1]).map(|j| density(&place(i, j))).collect();
        let grid: Vec<Vec<f64>> = (0..STEPS[0]).map(column).collect();
        let best = grid.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut peaks = 0;
        for i in 2..STEPS[0] - 2 {
            for j in 2..STEPS[1] - 2 {
                let around = (i - 2..=i + 2).flat_map(|a| (j - 2..=j + 2).map(move |b| (a, b)));
                let is_peak = around.filter(|&next| next != (i, j)).all(|(a, b)| grid[a][b] < grid[i][j]);
                if !is_peak || grid[i][j] < best - 5.0 {
                    continue;
                }
                peaks += 1;
                // A peak from which the density hardly falls on the way to a mode that was found is that one's shoulder.
                let (peak, height) = (place(i, j), grid[i][j]);
                let is_shoulder_of = |mode: &Mode| {
                    let between = |t: f64| [0, 1].map(|a| (1.0 - t) * peak[a] + t * mode.theta()[a]);
                    (0..=100).all(|step| density(&between(f64::from(step) / 100.0)) > height - 0.3)
                };
                missed += usize::from(!found.all().iter().any(is_shoulder_of));
            }
        }
        several += usize::from(peaks > 1);
    }
    assert!(several > 10 && missed == 0, "several in {several} cases, {missed} missed");
}

/// Plain robust regressions have one mode: what they were graded without a search they are graded with it.
#[test]
fn a_posterior_with_one_mode_keeps_its_grade() {
    let (mut certified, mut lost) = (0, 0);
    for seed in 0..36 {
        let degrees = [1.0, 2.0, 4.0, 10.0][seed as usize % 4];
        let (n, dim) = ([200, 400, 1000, 6000][seed as usize / 4 % 4], 1 + seed as usize % 3);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tails = StudentT::new(degrees).unwrap();
        let x: Vec<Vec<f64>> = (0..dim).map(|_| (0..n).map(|_| normal(&mut rng)).collect()).collect();
        let y: Vec<f64> =
            (0..n).map(|i| x.iter().map(|x| x[i]).sum::<f64>() + tails.sample(&mut rng)).collect();
        let mut model = student(degrees);
        if seed % 5 == 4 {
            model.degrees = "estimated".parse().ok();
        }
        let study = study(model, &x, &y, true);
        let drawn = fitted(&study, 40 * (dim + 2), seed);
        let verdict = drawn.verdict.as_ref().unwrap();
        let (modes, others): (Vec<Reason>, Vec<Reason>) =
            verdict.reasons.iter().partition(|reason| matches!(reason, Reason::SecondMode | Reason::OwnMode));
        lost += usize::from(others.is_empty() && !modes.is_empty());
        certified += usize::from(verdict.grade == Grade::A);
    }
    assert!(certified >= 30 && lost == 0, "{certified} of 36, {lost} lost to modes");
}

/// So do plain data of every family whose posterior is searched, some of them under Cauchy priors.
#[test]
fn plain_data_of_all_families_keep_their_grades() {
    let families = [
        BuiltIn::Linear,
        BuiltIn::Gamma,
        BuiltIn::NegativeBinomial,
        BuiltIn::Weibull,
        BuiltIn::Ordinal,
        BuiltIn::Student,
        BuiltIn::Logistic,
    ];
    let (mut certified, mut lost) = (0, 0);
    for (model, seed) in families.into_iter().flat_map(|model| (0..SEEDS).map(move |seed| (model, seed))) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x: Vec<Vec<f64>> = (0..3).map(|_| (0..400).map(|_| normal(&mut rng)).collect()).collect();
        let target = |i: usize| {
            let (eta, noise) = (0.5 * x[0][i] - 0.3 * x[1][i] + 0.5 * x[2][i], normal(&mut rng));
            match model {
                BuiltIn::Linear | BuiltIn::Student => eta + noise,
                BuiltIn::Gamma | BuiltIn::Weibull => (0.3 * eta + 0.5 * noise).exp(),
                BuiltIn::NegativeBinomial => (0.3 * eta + 0.8 * noise + 0.5).exp().floor(),
                BuiltIn::Ordinal => (eta + 1.5 * noise + 1.5).round().clamp(0.0, 3.0),
                _ => f64::from(u8::from(eta + noise > 0.0)),
            }
        };
        let y: Vec<f64> = (0..400).map(target).collect();
        let heavy = model == BuiltIn::Logistic || !seed.is_multiple_of(2);
        let priors =
            heavy.then(|| serde_json::from_value(json!({ "default": "student_t(1, 0, 2.5)" })).unwrap());
        let degrees = if model == BuiltIn::Student && seed == 2 { "estimated".parse().ok() } else { None };
        let study = study(ModelSpecification { model, priors, degrees, ..Default::default() }, &x, &y, true);
        for k in SIZES {
            let drawn = fitted(&study, k, seed);
            let verdict = drawn.verdict.as_ref().unwrap();
            let by_modes = |reason: &&Reason| matches!(reason, Reason::SecondMode | Reason::OwnMode);
            lost += usize::from(verdict.reasons.iter().any(|reason| by_modes(&reason)));
            certified += usize::from(verdict.grade == Grade::A);
        }
    }
    let cases = families.len() * SEEDS as usize * SIZES.len();
    assert!(lost == 0 && certified + 3 > cases, "{certified} of {cases}, {lost} lost to modes");
}

/// One row whose weight is beyond ν times that of the others: a line through it gains without end as its noise vanishes, and only the
/// prior of σ keeps that from being the whole posterior. All rows have no such mode.
#[test]
fn a_spike_of_few_weighted_rows_is_found() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let tails = StudentT::new(1.0).unwrap();
    let row = |i: usize| {
        let x = normal(&mut rng);
        if i == 29 { (1.0, 1.5) } else { (x, x + 0.05 * tails.sample(&mut rng)) }
    };
    let (x, y): (Vec<f64>, Vec<f64>) = (0..300).map(row).unzip();
    let study = study(student(0.3), &[x], &y, false);
    let ids: Vec<usize> = (0..30).collect();
    for heavy in [1.0, 14.0] {
        let mut weights = vec![1.0; 30];
        weights[29] = heavy;
        let weighted = study.weighted(&ids, &weights.into()).unwrap();
        let prior = study.problem().prior;
        let modes = modes_of_weighted(&weighted, prior, &[], 1).unwrap().unwrap();
        let spike = modes.all().iter().find(|mode| mode.theta()[1] < -4.0);
        assert_eq!(spike.is_some(), heavy > 1.0);
        let drawn = study.sample(Some(&weighted), &SampleSettings::default(), 1, &mut unheard).unwrap();
        let reasons = drawn.verdict.unwrap().reasons;
        assert_eq!(reasons.contains(&Reason::OwnMode), heavy > 1.0, "{heavy}: {reasons:?}");
        let Some(spike) = spike else { continue };
        // Its mass by a grid of log σ and of where the line passes the row, in units of σ: no Gaussian, but near enough to count.
        let cell = (8.0f64 / 150.0) * (3.0 / 150.0);
        let mut masses = Vec::new();
        for i in 0..300 {
            let log_sigma = spike.theta()[1] + 8.0 * (f64::from(i) / 150.0 - 1.0);
            for j in 0..300 {
                let theta = [1.5 + 3.0 * log_sigma.exp() * (f64::from(j) / 150.0 - 1.0), log_sigma];
                let value = weighted.evaluate(&At { theta: &theta, derivatives: 0 }).unwrap().value;
                masses.push(value + prior.log_density(&theta) + log_sigma + cell.ln());
            }
        }
        let most = masses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let by_grid = most + masses.iter().map(|mass| (mass - most).exp()).sum::<f64>().ln();
        assert!((by_grid - spike.log_mass).abs() < 2.0, "{by_grid} {}", spike.log_mass);
    }
}

/// A Cauchy prior against data that want a large coefficient, since one row has a feature far out and the others hardly any: a mode at the
/// centre of the prior, and one at that of the data.
#[test]
fn a_cauchy_prior_against_the_data_has_two_modes() {
    let mut two = 0;
    for (seed, far) in [(0, 3000.0), (2, 6000.0), (3, 7000.0), (4, 8000.0), (7, 8000.0), (9, 8500.0)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut x: Vec<f64> = (0..300).map(|_| normal(&mut rng)).collect();
        let y: Vec<f64> =
            x.iter().map(|x| f64::from(u8::from(2.0 * x + 1.5 * normal(&mut rng) > 0.0))).collect();
        let last = y.iter().position(|&y| y == 1.0).unwrap();
        x[last] = far;
        let cauchy = "student_t(1, 0, 1)";
        let priors =
            Some(serde_json::from_value(json!({ "default": cauchy, "intercept": "normal(0, 1)" })).unwrap());
        let model = ModelSpecification { priors, ..ModelSpecification::default() };
        let study = study(model, std::slice::from_ref(&x), &y, true);
        let found = found(&study);
        let places: Vec<f64> = found.all().iter().map(|mode| mode.theta()[0]).collect();
        assert!(places.len() == 2 && places[0] > 30.0 && places[1] < 1.0, "{seed}: {places:?}");
        // Where the feature is 0 in most rows, standardised, so that intercept and coefficient go together; the two modes are divided
        // where the mass over the intercept is least.
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let zero = -mean / (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let within =
            |slopes: (f64, f64), steps: usize| sheared_log_mass(&study, slopes, (-2.0, 2.0), -zero, steps);
        let mass = |slopes: (f64, f64)| within(slopes, FINE);
        let slice = |i: i32| {
            let slope = 1.0 + f64::from(i) * places[0] / 60.0;
            (within((slope - 1e-3, slope + 1e-3), 1), slope)
        };
        let (_, cut) = (1..40).map(slice).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let by_grid = mass((-20.0, cut)) - mass((cut, 2.5 * places[0]));
        let by_fits = found.share(&found.all()[1]).ln();
        // The mode at the centre of the prior has its tails, and is somewhat more than its Gaussian.
        assert!((by_grid - by_fits).abs() < 2.0, "{seed}: {by_grid} {by_fits}");
        let drawn = fitted(&study, 60, seed);
        assert!(drawn.grade() == Some(Grade::C) || by_grid < -15.0, "{seed}: {by_grid}");
        two += usize::from(by_grid > -6.0);
        assert!(drawn.marginals(&study)[0].1.q95 > 0.8 * places[0], "{seed}");
    }
    assert!(two >= 4, "{two}");
}

/// The same bits whatever the number of threads.
#[test]
fn threads_change_nothing() {
    let (x, y) = crossing(9000, 4);
    let study = study(student(1.0), &[x], &y, false);
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| found(&study));
        let all = found.all().iter().flat_map(|mode| mode.theta().iter().copied().chain([mode.log_mass]));
        all.map(f64::to_bits).collect::<Vec<u64>>()
    };
    assert_eq!(of(1), of(4));
    assert_eq!(of(1).len(), 6);
}

/// A concave log-likelihood under a log-concave prior: nothing is looked for.
#[test]
fn log_concave_posteriors_are_known_to_have_one_mode() {
    let n = 400;
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let x: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
    let one = |model: BuiltIn, prior: &str, sigma: Option<f64>| {
        let y: Vec<f64> = x
            .iter()
            .enumerate()
            .map(|(i, x)| match model {
                BuiltIn::Logistic | BuiltIn::Softmax => f64::from(u8::from(x + (i % 7) as f64 > 3.0)),
                BuiltIn::Ordinal => (i % 3) as f64,
                BuiltIn::Linear => x + (i % 7) as f64,
                _ => 1.0 + (i % 5) as f64,
            })
            .collect();
        let priors = Some(serde_json::from_value(json!({ "default": prior })).unwrap());
        let model = ModelSpecification { model, priors, sigma, ..ModelSpecification::default() };
        let study = study(model, std::slice::from_ref(&x), &y, true);
        let problem = study.problem();
        has_one_mode(problem.rows, problem.prior).unwrap()
    };
    for model in [BuiltIn::Logistic, BuiltIn::Poisson, BuiltIn::Softmax, BuiltIn::Exponential] {
        assert!(one(model, "normal(0, 1)", None) && one(model, "laplace(0, 1)", None), "{model}");
        assert!(!one(model, "student_t(1, 0, 1)", None), "{model}");
    }
    assert!(one(BuiltIn::Linear, "normal(0, 1)", Some(1.0)) && !one(BuiltIn::Linear, "normal(0, 1)", None));
    for model in
        [BuiltIn::Student, BuiltIn::Gamma, BuiltIn::NegativeBinomial, BuiltIn::Weibull, BuiltIn::Ordinal]
    {
        assert!(!one(model, "normal(0, 1)", None), "{model}");
    }
}
