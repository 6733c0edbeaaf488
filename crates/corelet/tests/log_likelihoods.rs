//! A model that is known by its log-likelihoods alone: the same coreset from a matrix, a pool and a function, judged honestly.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::ops::{ControlFlow, Range};

use corelet::study::{
    BuildSpecification, ChosenData, LogLikelihoodStudy, PooledLogLikelihoods, Progress, StudyError, unheard,
};
use sparse_nnls::DictionaryError;

const N: usize = 400;
const DRAWS: usize = 100;
const HELD_OUT: usize = 20;

/// ℓᵢ(θ_s) of a smooth function of two parameters, with a constant a datum that must not matter.
fn log_likelihood(i: usize, s: usize) -> f64 {
    let wave = |seed: usize| ((seed * 7919 % 10_007) as f64 * 0.61).sin();
    let eta = wave(i) * wave(s + 3) + wave(i + 20_000) * wave(s + 50_003);
    -(1.0 + eta.exp()).ln() + 5.0 * wave(i + 7)
}

/// Draws by data.
fn matrix() -> Vec<f64> {
    (0..DRAWS).flat_map(|s| (0..N).map(move |i| log_likelihood(i, s))).collect()
}

fn asked(k: usize) -> BuildSpecification {
    BuildSpecification { k: Some(k), ..BuildSpecification::default() }
}

fn of_matrix(matrix: &[f64]) -> Result<LogLikelihoodStudy<'static>, StudyError> {
    LogLikelihoodStudy::of_matrix(&asked(12), matrix, N, DRAWS, HELD_OUT)
}

/// The deviation of Σ ℓᵢ − Σ wᵢℓᵢ over the held-out draws.
fn residual(chosen: &ChosenData, of: impl Fn(usize) -> usize) -> f64 {
    let error = |s: usize| {
        let weighted = chosen.coreset.rows.iter().zip(&chosen.coreset.weights);
        let all: f64 = (0..N).map(|i| log_likelihood(i, s)).sum();
        all - weighted.map(|(&row, w)| w * log_likelihood(of(row), s)).sum::<f64>()
    };
    let errors: Vec<f64> = (DRAWS - HELD_OUT..DRAWS).map(error).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (errors.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / errors.len() as f64).sqrt()
}

#[test]
fn a_matrix_a_pool_and_a_function_give_the_same() {
    let by_matrix = of_matrix(&matrix()).unwrap().build(&mut unheard).unwrap();
    let source = |rows: Range<usize>, out: &mut [f64]| -> Result<(), DictionaryError> {
        let numbers = rows.flat_map(|i| (0..DRAWS).map(move |s| log_likelihood(i, s)));
        out.iter_mut().zip(numbers).for_each(|(out, x)| *out = x);
        Ok(())
    };
    let function = LogLikelihoodStudy::of_function(&asked(12), Box::new(source), N, DRAWS, HELD_OUT).unwrap();
    let by_function = function.build(&mut unheard).unwrap();
    // All data, under other numbers.
    let data: Vec<usize> = (0..N).map(|i| i + 1000).collect();
    let lines: Vec<f64> = (0..N).flat_map(|i| (0..DRAWS).map(move |s| log_likelihood(i, s))).collect();
    let totals: Vec<f64> = (0..DRAWS).map(|s| (0..N).map(|i| log_likelihood(i, s)).sum()).collect();
    let pool = PooledLogLikelihoods { data: &data, lines: &lines, totals: &totals, n: 5 * N };
    let pool = LogLikelihoodStudy::of_pool(&asked(12), pool, HELD_OUT).unwrap();
    let by_pool = pool.build(&mut unheard).unwrap();
    for (chosen, offset) in [(&by_matrix, 0), (&by_function, 0), (&by_pool, 1000)] {
        let rows: Vec<usize> = chosen.coreset.rows.iter().map(|row| row - offset).collect();
        assert_eq!(rows, by_matrix.coreset.rows);
        let judged = chosen.evaluation.heldout_residual.unwrap();
        let expected = residual(chosen, |row| row - offset);
        assert!((judged - expected).abs() <= 1e-9 * expected.max(1.0), "{judged} {expected}");
        assert_eq!(chosen.evaluation.heldout_draws, HELD_OUT);
    }
}

#[test]
fn who_stops_at_the_judgement_gets_the_coreset_without() {
    let chosen = of_matrix(&matrix()).unwrap().build(&mut |progress| match progress {
        Progress::Evaluating => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let chosen = chosen.unwrap();
    assert!(!chosen.coreset.rows.is_empty() && chosen.evaluation.heldout_residual.is_none());
}

#[test]
fn what_cannot_be_used_is_an_error() {
    let text = |study: Result<LogLikelihoodStudy<'_>, StudyError>| study.err().unwrap().to_string();
    let mut bad = matrix();
    bad[(DRAWS - 1) * N + 3] = f64::NAN;
    assert_eq!(text(of_matrix(&bad)), "the log-likelihood of row 3 at draw 99 is not finite (NaN)");
    let short = text(of_matrix(&bad[1..]));
    assert_eq!(short, "the log-likelihood matrix has 39999 numbers where 40000 are needed");
    let many = LogLikelihoodStudy::of_matrix(&asked(N + 1), &bad, N, DRAWS, HELD_OUT);
    assert!(text(many).starts_with("k = 401 points cannot be chosen from 400 rows"));
    let few = LogLikelihoodStudy::of_matrix(&asked(5), &bad, N, DRAWS, DRAWS + 1);
    assert!(text(few).starts_with("0 draws are too few"));
    let pool = PooledLogLikelihoods { data: &[1, 2], lines: &[0.0; 7], totals: &[0.0; 4], n: 9 };
    let pool = text(LogLikelihoodStudy::of_pool(&asked(1), pool, 1));
    assert_eq!(pool, "the log-likelihood of the pool has 7 numbers where 8 are needed");
}
