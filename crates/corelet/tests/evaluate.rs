//! Evaluations against closed forms and against each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;

use corelet::coreset::{BuildOptions, select};
use corelet::embed::{Choice, embed};
use corelet::generate;
use corelet::model::BuiltIn;
use corelet::posterior::{Laplace, LaplaceError, LaplaceSettings, Prior, laplace};
use corelet::rows::{All, Memory, Observations, Problem, RowsError};
use corelet::study::{ModelSpecification, Resolved};
use corelet::trust::{Evaluation, FitStatus, HeldOut, evaluate, residual_in};

struct Fit {
    rows: Memory,
    prior: Prior,
    laplace: Laplace,
}

impl Fit {
    fn new(observations: Observations, asked: &ModelSpecification) -> Self {
        let model = Resolved::new(asked, &observations, None);
        let rows = Memory::new(model.bind(observations).unwrap());
        let prior = model.prior().unwrap();
        let laplace = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
        Self { rows, prior, laplace }
    }

    fn held_out(&self) -> HeldOut<'_> {
        HeldOut::new(&self.rows, &self.laplace.posterior, 0)
    }

    fn evaluate(&self, rows: &[usize], weights: &[f64]) -> Result<Evaluation, LaplaceError> {
        let problem = Problem { rows: &self.rows, prior: &self.prior };
        let estimate = self.held_out().estimate(rows, weights)?;
        evaluate(problem, Some(&self.laplace), Some(&estimate), rows, weights)
    }
}

fn logistic(n: usize) -> Fit {
    Fit::new(generate::logistic_paper(n, 3), &ModelSpecification::default())
}

#[test]
fn all_rows_with_weight_one_are_the_posterior_itself() {
    let fit = logistic(200);
    let rows: Vec<usize> = (0..200).collect();
    let evaluation = fit.evaluate(&rows, &vec![1.0; 200]).unwrap();
    assert_eq!(evaluation.fit, FitStatus::Converged);
    assert!(evaluation.heldout_residual.unwrap() < 1e-11);
    assert!(evaluation.kl_forward.unwrap() < 1e-12 && evaluation.kl_reverse.unwrap() < 1e-12);
    assert!(evaluation.map_distance.unwrap() < 1e-8);
    assert!(
        evaluation.parameters.iter().all(|p| p.mean_shift.abs() < 1e-8 && (p.sd_ratio - 1.0).abs() < 1e-8)
    );
}

/// One-dimensional Gaussian mean, prior N(0, 1), unit variance: the posterior has precision 1 + Σw.
#[test]
fn a_conjugate_model_has_its_closed_form() {
    let observations = Observations::new(&[0.5, -1.0, 2.0, 0.25], 1, Vec::new());
    let fit = Fit::new(
        observations,
        &ModelSpecification { model: BuiltIn::Gaussian, ..ModelSpecification::default() },
    );
    let evaluation = fit.evaluate(&[0, 2], &[2.5, 1.0]).unwrap();
    let (p, m) = (5.0, 1.75 / 5.0);
    let (q, l) = (4.5, (2.5 * 0.5 + 2.0) / 4.5);
    let kl = |p: f64, m: f64, q: f64, l: f64| 0.5 * (q / p - 1.0 - (q / p).ln() + q * (m - l).powi(2));
    let near = |got: Option<f64>, want: f64| assert!((got.unwrap() - want).abs() < 1e-12, "{got:?} {want}");
    near(evaluation.kl_forward, kl(p, m, q, l));
    near(evaluation.kl_reverse, kl(q, l, p, m));
    near(evaluation.kl_symmetrised, kl(p, m, q, l) + kl(q, l, p, m));
    near(evaluation.map_distance, (m - l).abs());
    let shift = evaluation.parameters[0];
    near(Some(shift.mean_shift), (l - m) * p.sqrt());
    near(Some(shift.sd_ratio), (p / q).sqrt());
}

#[test]
fn fresh_draws_agree_with_the_divergence() {
    let fit = logistic(2000);
    let options = BuildOptions { k: 12, embedding: Choice::Draws(2000), ..BuildOptions::default() };
    let posterior = &fit.laplace.posterior;
    let go_on = &mut |_: &sparse_nnls::Info| ControlFlow::Continue(());
    let embedding = embed(&fit.rows, posterior, Choice::Draws(2000), 12, 0).unwrap();
    let coreset = select(&embedding, &options, go_on).unwrap();
    let evaluation = fit.evaluate(&coreset.rows, &coreset.weights).unwrap();
    let ratio = evaluation.kl_forward.unwrap() / evaluation.heldout_nats.unwrap();
    assert!((0.2..3.0).contains(&ratio), "{ratio}: {evaluation:?}");
    let residual = residual_in(&embedding, &coreset.rows, &coreset.weights).unwrap();
    assert!((residual - coreset.fit.residual).abs() <= 1e-9 * coreset.fit.target_norm);
}

/// Fewer draws of many rows are no other estimate, only a noisier one, and say by how much.
#[test]
fn fewer_draws_agree_with_many_within_their_standard_error() {
    let fit = logistic(3000);
    let rows: Vec<usize> = (0..3000).step_by(100).collect();
    let weights = vec![100.0; rows.len()];
    let posterior = &fit.laplace.posterior;
    let of = |seed: u64, draws: usize| {
        let held_out = HeldOut::with_draws(&fit.rows, posterior, seed, draws);
        let estimate = held_out.estimate(&rows, &weights).unwrap();
        (estimate.nats(), estimate.standard_error)
    };
    let (exact, se) = of(99, 40_000);
    assert!(se < 0.02 * exact, "{se} of {exact}");
    let few: Vec<(f64, f64)> = (0..40).map(|seed| of(seed, 250)).collect();
    let mean = few.iter().map(|few| few.0).sum::<f64>() / 40.0;
    let spread = (few.iter().map(|few| (few.0 - mean).powi(2)).sum::<f64>() / 39.0).sqrt();
    let said = few.iter().map(|few| few.1).sum::<f64>() / 40.0;
    assert!((mean - exact).abs() < 3.0 * spread / 40.0_f64.sqrt() + 3.0 * se, "{mean} {exact}");
    assert!((0.7..1.4).contains(&(said / spread)), "said {said}, is {spread}");
}

#[test]
fn an_empty_coreset_is_the_prior() {
    let fit = logistic(100);
    let evaluation = fit.evaluate(&[], &[]).unwrap();
    assert_eq!(evaluation.fit, FitStatus::Converged);
    assert!(evaluation.kl_forward.unwrap() > 1.0);
}

#[test]
fn extreme_weights_give_a_status_and_finite_numbers() {
    let fit = logistic(100);
    for weight in [1e-300, 1e12, 1e200, 1e308] {
        let evaluation = fit.evaluate(&[0, 1], &[weight, weight]).unwrap();
        let numbers = [evaluation.kl_forward, evaluation.kl_reverse, evaluation.heldout_residual];
        assert!(numbers.iter().flatten().all(|x| x.is_finite()), "{weight}: {evaluation:?}");
        let text = serde_json::to_string(&evaluation).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

#[test]
fn bad_weights_are_refused() {
    let fit = logistic(100);
    let refused = |row, weight| match fit.evaluate(&[row], &[weight]) {
        Err(LaplaceError::Rows(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(100, 1.0), RowsError::NoSuchRow { row: 100, rows: 100 });
    for weight in [-1.0, f64::NAN] {
        assert!(matches!(refused(0, weight), RowsError::Weight { row: 0, .. }));
    }
}
