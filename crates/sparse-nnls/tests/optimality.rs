//! Brute force over all supports of small problems: how far each method's residual is from the optimum.
//!
//! `cargo test -p sparse-nnls --test optimality -- --nocapture` prints the table of `docs/benchmarks.md`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test's helpers are tests too

mod common;

use common::{Matrix, random_matrix, run};
use sparse_nnls::{Method, Oracle, Settings, nnls_on_support};

const INSTANCES: u64 = 200;

/// The best residual over all supports of k columns.
fn optimum(matrix: &Matrix, k: usize) -> f64 {
    let (phi, y) = (matrix.dense(), matrix.sum());
    let oracle = Oracle::new(&phi);
    let n = matrix.len();
    (0_u32..1 << n)
        .filter(|mask| mask.count_ones() as usize == k)
        .map(|mask| {
            let ids: Vec<usize> = (0..n).filter(|i| mask >> i & 1 == 1).collect();
            nnls_on_support(&oracle, &y, &ids, None).unwrap().residual
        })
        .fold(f64::INFINITY, f64::min)
}

/// residual / optimum − 1, with everything below rounding counted as optimal.
fn gap(residual: f64, best: f64, scale: f64) -> f64 {
    if residual <= best + 1e-9 * scale { 0.0 } else { residual / best - 1.0 }
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

#[test]
fn pursuit_is_within_five_percent_of_optimal_nine_times_in_ten() {
    let methods = Method::all();
    let mut gaps = vec![Vec::new(); methods.len()];
    for seed in 0..INSTANCES {
        let (n, dim, k) = (8 + seed as usize % 7, 4 + seed as usize % 9, 2 + seed as usize % 3);
        let matrix = random_matrix(seed, n, dim);
        let best = optimum(&matrix, k);
        for (method, gaps) in methods.iter().zip(&mut gaps) {
            let solution = run(&matrix.dense(), None, method, &Settings { k, seed, ..Settings::default() });
            gaps.push(gap(solution.residual, best, solution.target_norm));
        }
    }
    println!("| method | optimal | within 5 % | median gap | 90 % gap |\n| --- | --- | --- | --- | --- |");
    for (method, gaps) in methods.iter().zip(&mut gaps) {
        gaps.sort_by(f64::total_cmp);
        let share =
            |limit: f64| 100.0 * gaps.iter().filter(|gap| **gap <= limit).count() as f64 / gaps.len() as f64;
        let (median, ninety) = (100.0 * quantile(gaps, 0.5), 100.0 * quantile(gaps, 0.9));
        println!(
            "| {} | {:.0} % | {:.0} % | {median:.1} % | {ninety:.0} % |",
            method.name(),
            share(0.0),
            share(0.05)
        );
        if *method == Method::default() {
            assert!(share(0.05) >= 90.0, "pursuit is within 5 % of optimal in only {} %", share(0.05));
        }
    }
}
