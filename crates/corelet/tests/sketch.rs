//! The log-likelihood of all rows from a sample of them, against the pass that it stands for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, select};
use corelet::embed::{Choice, Recipe, Sketch, embed};
use corelet::generate;
use corelet::model::{Link, Logistic, Model, Normal, Poisson, Softmax, Student, StudentDegrees, Weibull};
use corelet::posterior::{Gaussian, LaplaceSettings, Prior, laplace};
use corelet::random::Stream;
use corelet::rows::{All, Counted, Gather, Memory, Observations, Rows, Totals};
use corelet::trust::HeldOut;

/// Rows of three features and a target made of them.
fn observations(n: usize, target: impl Fn(f64, f64) -> f64) -> Observations {
    let given = generate::logistic(n, 3, 5);
    let features: Vec<f64> = given.features.iter().map(|&x| f64::from(x)).collect();
    let noise = |i: usize| ((i * 7919 % 1009) as f64 + 0.5) / 1009.0;
    let of = |(i, x): (usize, &[f64])| target(0.5 * x[0] - 0.3 * x[1] + 0.2 * x[2], noise(i));
    let targets = features.chunks_exact(3).enumerate().map(of).collect();
    Observations::new(&features, 3, targets)
}

fn models(n: usize) -> Vec<Arc<dyn Model>> {
    let count = |eta: f64, u: f64| (eta.exp() * -(1.0 - u).ln() * 2.0).round();
    let weights = (0..n).map(|i| 0.5 + (i % 5) as f64).collect();
    vec![
        Arc::new(
            Logistic::model(observations(
                n,
                |eta, u| if u < 1.0 / (1.0 + (-eta).exp()) { 1.0 } else { -1.0 },
            ))
            .unwrap(),
        ),
        Arc::new(Poisson::model(observations(n, count).with_weights(weights), Link::Log).unwrap()),
        Arc::new(Normal::model(observations(n, |eta, u| eta + u)).unwrap()),
        Arc::new(Student::model(observations(n, |eta, u| eta + (u / (1.0 - u)).ln()), 4.0).unwrap()),
        Arc::new(StudentDegrees::model(observations(n, |eta, u| eta + (u / (1.0 - u)).ln())).unwrap()),
        Arc::new(
            Weibull::model(observations(n, |eta, u| eta.exp() * -(1.0 - u).ln()).with_exposure(vec![1.0; n]))
                .unwrap(),
        ),
        Arc::new(
            Softmax::model(observations(n, |eta, u| (3.0 * (u + 0.1 * eta)).clamp(0.0, 2.5).floor()), 3)
                .unwrap(),
        ),
    ]
}

fn posterior(rows: &Memory) -> Gaussian {
    let prior = Prior::isotropic(rows.dim(), 2.0).unwrap();
    laplace(&All(rows), &prior, None, &LaplaceSettings::default()).unwrap().posterior
}

fn sketch(rows: &Memory, recipe: &Arc<Recipe>, seed: u64, apart: usize) -> Sketch {
    let question = Gather { recipe: Arc::clone(recipe), seed, count: 20, apart };
    Sketch::new(rows, &question, &rows.gather(&question).unwrap()).unwrap().unwrap()
}

fn centred(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| x - mean).collect()
}

/// A sample of all rows is no sample: what is left is that orders 1 and 2 are what the sum says they are, at draws of π̂ and elsewhere.
#[test]
fn with_all_rows_it_is_the_pass() {
    for model in models(300) {
        let rows = Memory::new(model);
        let posterior = posterior(&rows);
        let elsewhere: Vec<f64> =
            posterior.mean.iter().zip(posterior.sds()).map(|(m, sd)| m + 1.5 * sd).collect();
        let shifts = posterior.shifts(40, 3, Stream::HeldOut);
        let third = rows.model().joint().is_none().then_some(3);
        for order in [Some(2), third].into_iter().flatten() {
            let recipe = Arc::new(Recipe::Hermite { posterior: Arc::new(posterior.clone()), order });
            let sketch = sketch(&rows, &recipe, 1, 301);
            for anchor in [&posterior.mean, &elsewhere] {
                let totals = rows.totals(&Totals::new(anchor, &shifts, 300)).unwrap();
                let at_draws = sketch.at(anchor, &shifts).unwrap();
                let error = at_draws.error(&totals);
                assert_eq!((error.added, error.standard_error), (0.0, 0.0));
                for (got, want) in centred(&at_draws.totals).iter().zip(centred(&totals)) {
                    assert!((got - want).abs() < 1e-9 * (1.0 + want.abs()), "{}: {got} {want}", rows.name());
                }
            }
        }
    }
}

/// Over many samples the mean is that of all rows, and the scatter is what each of them says.
#[test]
fn samples_have_no_bias_and_say_how_far_off_they_are() {
    for model in models(400) {
        let rows = Memory::new(model);
        let posterior = posterior(&rows);
        let shifts = posterior.shifts(12, 3, Stream::HeldOut);
        let truth = centred(&rows.totals(&Totals::new(&posterior.mean, &shifts, 400)).unwrap());
        let recipe = Arc::new(Recipe::Hermite { posterior: Arc::new(posterior.clone()), order: 2 });
        let samples = 600;
        let (mut mean, mut squares, mut said) = (vec![0.0; 12], 0.0, 0.0);
        for seed in 0..samples {
            let at_draws = sketch(&rows, &recipe, seed, 60).at(&posterior.mean, &shifts).unwrap();
            for ((mean, got), want) in mean.iter_mut().zip(centred(&at_draws.totals)).zip(&truth) {
                *mean += (got - want) / samples as f64;
                squares += (got - want).powi(2) / (12 * samples) as f64;
            }
            said += at_draws.error(&truth).added / samples as f64;
        }
        if squares == 0.0 {
            continue;
        }
        let bias = (mean.iter().map(|x| x * x).sum::<f64>() / 12.0).sqrt();
        assert!(bias < 4.0 * (squares / samples as f64).sqrt(), "{}: {bias} {squares}", rows.name());
        assert!((0.7..1.4).contains(&(said / squares)), "{}: said {said}, is {squares}", rows.name());
    }
}

/// 120 000 rows, of which a judge need not look at any: the same estimate within its standard error, on the same draws.
#[test]
fn the_judge_of_many_rows_looks_at_few() {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(generate::logistic(120_000, 4, 2)).unwrap());
    let rows = Counted::new(Box::new(Memory::new(model)));
    let prior = Prior::isotropic(4, 2.0).unwrap();
    let posterior = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let embedding = embed(&rows, &posterior, Choice::Hermite(2), 10, 0).unwrap();
    let options = BuildOptions { k: 10, embedding: Choice::Hermite(2), ..BuildOptions::default() };
    let coreset = select(&embedding, &options, &mut |_: &_| ControlFlow::Continue(())).unwrap();
    let exact = HeldOut::new(&rows, &posterior, 0).estimate(&coreset.rows, &coreset.weights).unwrap();
    assert_eq!(exact.sampled_rows, None);
    let before = rows.looks();
    let held_out = HeldOut::new(&rows, &posterior, 0).with_sketch(embedding.sketch()).unwrap();
    let estimate = held_out.estimate(&coreset.rows, &coreset.weights).unwrap();
    assert!(estimate.sampled_rows.is_some_and(|rows| rows < 5000));
    assert_eq!(rows.looks(), before);
    let nats = |residual: f64| 0.5 * residual * residual;
    let (got, want) = (nats(estimate.residual), nats(exact.residual));
    assert!((got - want).abs() < 0.2 * want, "{got} {want}");
    assert!(estimate.standard_error >= 0.9 * exact.standard_error);
    // Few draws are no reason to fail.
    let few = HeldOut::with_draws(&rows, &posterior, 0, 5).with_sketch(embedding.sketch()).unwrap();
    assert!(few.estimate(&coreset.rows, &coreset.weights).unwrap().residual > 0.0);
    // All rows leave nothing over but rounding, which no sample can tell: a pass is made.
    let all: Vec<usize> = (0..120_000).collect();
    let nothing = held_out.estimate(&all, &vec![1.0; 120_000]).unwrap();
    assert!(nothing.sampled_rows.is_none() && nothing.residual < 1e-6, "{nothing:?}");
    assert_eq!(rows.looks().totals, before.totals + 1);
    // What was asked in between changes no answer.
    assert_eq!(held_out.estimate(&coreset.rows, &coreset.weights).unwrap(), estimate);
}
