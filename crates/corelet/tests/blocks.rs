//! Log-likelihoods from a function: the same answers as a matrix in memory, honest held-out draws, errors as they were.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::error::Error;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use corelet::coreset::{BuildOptions, Coreset, select};
use corelet::embed::{Blocks, EmbedError, Embedding, Layout, Precision, Stored};
use sparse_nnls::{Dictionary, DictionaryError, Limits, Method};

const N: usize = 1200;
const DRAWS: usize = 120;
const HELD_OUT: usize = 40;

/// ℓᵢ(θ_s) of a smooth function of three parameters, with a constant a datum that must not matter.
fn log_likelihood(i: usize, s: usize) -> f64 {
    let wave = |seed: usize| ((seed * 7919 % 10_007) as f64 * 0.61).sin();
    let x = [wave(i), wave(i + 20_000), wave(i + 40_000)];
    let theta = [wave(s + 3), wave(s + 50_003), wave(s + 90_003)];
    let eta: f64 = x.iter().zip(theta).map(|(x, t)| x * t).sum();
    -(1.0 + eta.exp()).ln() + 5.0 * wave(i + 7)
}

/// All of them, computed once: hard thresholding makes hundreds of passes.
fn table() -> &'static [f64] {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    let row = |i| (0..DRAWS + HELD_OUT).map(move |s| log_likelihood(i, s));
    TABLE.get_or_init(|| (0..N).flat_map(row).collect())
}

fn fill(rows: Range<usize>, out: &mut [f64]) {
    out.copy_from_slice(&table()[rows.start * (DRAWS + HELD_OUT)..][..out.len()]);
}

fn function() -> Blocks<'static> {
    let source = |rows: Range<usize>, out: &mut [f64]| -> Result<(), DictionaryError> {
        fill(rows, out);
        Ok(())
    };
    Blocks::new(Box::new(source), N, DRAWS, HELD_OUT).unwrap()
}

fn matrix() -> Stored {
    let entries: Vec<f64> = (0..N).flat_map(|i| (0..DRAWS).map(move |s| log_likelihood(i, s))).collect();
    Stored::from_log_likelihood(&entries, N, DRAWS, Layout::DataByDraws, Precision::Double).unwrap()
}

fn choose(embedding: &dyn Embedding, method: Method) -> Coreset {
    // Hard thresholding does not settle, so that after some steps rounding decides where it is.
    let limits = Limits { iterations: method.can_hold_total().then_some(5), ..Limits::default() };
    let options = BuildOptions { k: 30, method: method.into(), limits, ..BuildOptions::default() };
    select(embedding, &options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn every_method_chooses_as_from_a_matrix() {
    let (function, matrix) = (function(), matrix());
    for method in Method::all() {
        let (found, expected) = (choose(&function, method), choose(&matrix, method));
        assert_eq!(found.rows.len(), expected.rows.len(), "{}", method.name());
        let (a, b) = (found.fit.residual, expected.fit.residual);
        assert!((a - b).abs() <= 1e-6 * b.max(1e-9 * expected.fit.target_norm), "{}: {a} {b}", method.name());
    }
}

#[test]
fn pursuit_asks_for_each_row_about_once_a_pass() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = move |rows: Range<usize>, out: &mut [f64]| -> Result<(), DictionaryError> {
        count.fetch_add(rows.len(), Ordering::Relaxed);
        fill(rows, out);
        Ok(())
    };
    let blocks = Blocks::new(Box::new(source), N, DRAWS, HELD_OUT).unwrap();
    let coreset = choose(&blocks, Method::default());
    let per_pass = asked.load(Ordering::Relaxed) as f64 / (coreset.passes * N as f64);
    assert!((0.5..1.3).contains(&per_pass), "{per_pass} times a pass, {} passes", coreset.passes);
}

#[test]
fn held_out_draws_are_those_after_the_first() {
    let blocks = function();
    let (rows, weights) = ([5, 400, 1199], [300.0, 400.0, 500.5]);
    let errors: Vec<f64> = (DRAWS..DRAWS + HELD_OUT)
        .map(|s| {
            let all: f64 = (0..N).map(|i| log_likelihood(i, s)).sum();
            let own: f64 = rows.iter().zip(weights).map(|(&i, w)| w * log_likelihood(i, s)).sum();
            all - own
        })
        .collect();
    let mean = errors.iter().sum::<f64>() / HELD_OUT as f64;
    let plain = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / HELD_OUT as f64).sqrt();
    let found = blocks.held_out_residual(&rows, &weights).unwrap().unwrap();
    assert!((found - plain).abs() < 1e-9 * plain, "{found} {plain}");
}

#[test]
fn what_a_function_does_wrong_is_told() {
    let nan = |rows: Range<usize>, out: &mut [f64]| -> Result<(), DictionaryError> {
        fill(rows, out);
        out[3 * (DRAWS + HELD_OUT) + 7] = f64::NAN;
        Ok(())
    };
    let refused = Blocks::new(Box::new(nan), N, DRAWS, HELD_OUT).err().unwrap();
    assert!(matches!(refused, EmbedError::NotFinite { row: 3, draw: 7, .. }), "{refused}");

    let mut calls = 0;
    let failing = move |rows: Range<usize>, out: &mut [f64]| -> Result<(), DictionaryError> {
        calls += 1;
        fill(rows, out);
        if calls > 1 { Err(DictionaryError::new(std::fmt::Error)) } else { Ok(()) }
    };
    let blocks = Blocks::new(Box::new(failing), N, DRAWS, HELD_OUT).unwrap();
    let options = BuildOptions { k: 30, ..BuildOptions::default() };
    let error = select(&blocks, &options, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.source().is_some_and(|cause| cause.is::<std::fmt::Error>()), "{error:?}");

    let few = |_: Range<usize>, _: &mut [f64]| -> Result<(), DictionaryError> { Ok(()) };
    assert!(matches!(Blocks::new(Box::new(few), N, 1, 0), Err(EmbedError::TooFewDraws { count: 1 })));
    assert_eq!(function().len(), N);
}
