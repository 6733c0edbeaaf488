//! Bad input is a typed error that names the value; nothing panics.

mod common;

use std::ops::ControlFlow;

use common::{all_methods, random_matrix};
use sparse_nnls::{
    Candidate, Dense, Dictionary, DictionaryError, Error, HardThresholding, Limits, Method, Oracle, Pursuit,
    Query, Settings, Solver, Status, Sum, nnls_on_support,
};

fn attempt(
    target: Option<&[f64]>,
    method: &Method,
    settings: &Settings,
) -> Result<sparse_nnls::Solution, Error> {
    let phi = random_matrix(1, 8, 3).dense();
    let solver = Solver::new(&phi, settings.clone());
    match target {
        Some(target) => solver.target(target),
        None => solver,
    }
    .run(method)
}

#[test]
fn every_bad_value_is_named() {
    let k = |k| Settings { k, ..Settings::default() };
    let good = k(2);
    let omp = Method::Omp;
    let says = |result: Result<sparse_nnls::Solution, Error>, text: &str| {
        let message = result.expect_err(text).to_string();
        assert!(message.contains(text), "{message:?} does not say {text:?}");
    };
    says(attempt(None, &omp, &k(0)), "k = 0");
    says(attempt(None, &omp, &k(9)), "k = 9 points cannot be chosen from 8 columns");
    says(attempt(Some(&[1.0, f64::NAN, 0.0]), &omp, &good), "entry 1 of the target is NaN");
    says(attempt(Some(&[f64::INFINITY, 0.0, 0.0]), &omp, &good), "entry 0 of the target is inf");
    says(attempt(Some(&[1.0]), &omp, &good), "the target has 1 entries");
    let thresholding = |settings| Method::AIht(settings);
    for total in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let settings = Settings { total: Some(total), ..good.clone() };
        says(
            attempt(None, &thresholding(HardThresholding::default()), &settings),
            &format!("total = {total}"),
        );
    }
    says(attempt(None, &omp, &Settings { total: Some(1.0), ..k(2) }), "omp cannot hold the total");
    for batch in [0.0, -0.1, 1.1, f64::NAN] {
        let method = thresholding(HardThresholding { batch, ..Default::default() });
        says(attempt(None, &method, &good), &format!("batch = {batch}"));
    }
    let method = thresholding(HardThresholding { tolerance: f64::NAN, ..Default::default() });
    says(attempt(None, &method, &good), "tolerance = NaN");
    for pursuit in [
        Pursuit { overshoot: Some(-1.0), ..Default::default() },
        Pursuit { refine_share: 1.0, ..Default::default() },
        Pursuit { pool: Some(0), ..Default::default() },
        Pursuit { residual: Some(-1.0), ..Default::default() },
        Pursuit { max_passes: f64::NAN, ..Default::default() },
        Pursuit { look: Some(0), ..Default::default() },
    ] {
        says(attempt(None, &Method::Pursuit(pursuit), &good), "out of range");
    }
    let limits = Limits { seconds: Some(-1.0), ..Default::default() };
    says(attempt(None, &omp, &Settings { limits, ..good }), "limits.seconds = -1");
}

#[test]
fn a_dictionary_must_be_a_matrix_of_finite_numbers() {
    assert!(matches!(
        Dense::<f64>::new(vec![], 3),
        Err(Error::EmptyDictionary { columns: 0, coordinates: 3 })
    ));
    assert!(matches!(Dense::new(vec![1.0_f64; 4], 0), Err(Error::EmptyDictionary { .. })));
    assert!(matches!(
        Dense::new(vec![1.0_f64; 4], 3),
        Err(Error::RaggedColumns { entries: 4, coordinates: 3 })
    ));
    let bad = Dense::new(vec![1.0_f32, 2.0, 3.0, f32::NAN], 2).map(|_| ());
    assert_eq!(
        bad.unwrap_err().to_string(),
        "coordinate 1 of column 1 is NaN: every entry must be a finite number"
    );
}

#[test]
fn a_support_must_be_made_of_columns() {
    let phi = random_matrix(1, 8, 3).dense();
    let oracle = Oracle::new(&phi);
    for ids in [vec![1, 1], vec![0, 8]] {
        assert!(matches!(
            nnls_on_support(&oracle, &[1.0, 2.0, 3.0], &ids, None),
            Err(Error::BadColumn { .. })
        ));
    }
}

#[test]
fn a_zero_target_and_a_zero_dictionary_are_answered_with_nothing() {
    let zeros = Dense::new(vec![0.0_f64; 12], 3).unwrap();
    for (name, method) in all_methods() {
        let settings = Settings { k: 2, ..Settings::default() };
        let solution = Solver::new(&zeros, settings).run(&method).unwrap();
        assert_eq!(solution.residual, 0.0, "{name}");
        assert!(solution.weights.values.iter().all(|w| w.is_finite()), "{name}");
    }
}

/// A dictionary that breaks at its second pass.
struct Broken(std::sync::atomic::AtomicUsize);

impl Dictionary for Broken {
    fn len(&self) -> usize {
        10
    }
    fn coordinates(&self) -> usize {
        2
    }
    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(Sum { vector: vec![1.0, 1.0], norms: 5.0 })
    }
    fn top(&self, _: &Query<'_>, _: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Err(DictionaryError::new("the disk is gone"))
    }
    fn columns(&self, _: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        out.fill(1.0);
        Ok(())
    }
}

#[test]
fn a_failing_dictionary_is_an_error_and_is_not_asked_again() {
    for (name, method) in all_methods().into_iter().filter(|(name, _)| !name.starts_with("uniform")) {
        let broken = Broken(0.into());
        let settings = Settings { k: 2, ..Settings::default() };
        let result = Solver::new(&broken, settings).run(&method);
        assert!(result.unwrap_err().to_string().contains("the disk is gone"), "{name}");
        assert_eq!(broken.0.load(std::sync::atomic::Ordering::Relaxed), 1, "{name}");
    }
}

#[test]
fn limits_and_the_callback_stop_a_run_and_say_so() {
    let phi = random_matrix(3, 400, 60).dense();
    let method = Method::AIht(HardThresholding { tolerance: 1e-300, ..Default::default() });
    let run = |limits: Limits, stop_at: usize| {
        let settings = Settings { k: 5, limits, ..Settings::default() };
        let callback = |info: &sparse_nnls::Info| {
            if info.iterations >= stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        Solver::new(&phi, settings).callback(callback).run(&method).unwrap()
    };
    let solution = run(Limits { iterations: Some(7), ..Default::default() }, usize::MAX);
    assert_eq!((solution.status, solution.iterations), (Status::IterationLimit, 7));
    let solution = run(Limits { passes: Some(4.0), ..Default::default() }, usize::MAX);
    assert_eq!((solution.status, solution.passes), (Status::PassLimit, 4.0));
    let solution = run(Limits { seconds: Some(1e-9), ..Default::default() }, usize::MAX);
    assert_eq!((solution.status, solution.iterations), (Status::TimeLimit, 1));
    let solution = run(Limits::default(), 3);
    assert_eq!((solution.status, solution.iterations), (Status::Stopped, 3));
    assert!(!solution.weights.is_empty() && !solution.status.is_natural());
}
