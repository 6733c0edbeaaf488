//! k ≥ rank(Φ): w = 1 has no residual, so by Carathéodory's theorem rank(Φ) points are enough, and pursuit finds them.

mod common;

use common::{Matrix, normal, run};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparse_nnls::{Method, Oracle, Pursuit, Settings, Status, nnls_on_support};

/// n columns of length `dim` in a space of `rank` dimensions.
fn low_rank(seed: u64, n: usize, dim: usize, rank: usize) -> Matrix {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let basis: Vec<f64> = (0..rank * dim).map(|_| normal(&mut rng)).collect();
    let entries = (0..n)
        .flat_map(|_| {
            let c: Vec<f64> = (0..rank).map(|_| normal(&mut rng)).collect();
            (0..dim).map(|j| (0..rank).map(|r| c[r] * basis[r * dim + j]).sum()).collect::<Vec<f64>>()
        })
        .collect();
    Matrix { entries, dim }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn pursuit_reaches_the_floor_with_at_most_rank_points(
        seed in any::<u64>(), n in 60..600_usize, rank in 1..30_usize, extra in 0..20_usize, pool in prop::option::of(30..80_usize),
    ) {
        let phi = low_rank(seed, n, rank + extra, rank).dense();
        let settings = Settings { k: (rank + 10).min(n), ..Settings::default() };
        let method = Method::Pursuit(Pursuit { pool, ..Default::default() });
        let solution = run(&phi, None, &method, &settings);
        prop_assert!(solution.relative_residual() <= 1e-10, "{:e}", solution.relative_residual());
        prop_assert!(solution.weights.len() <= rank, "{} points for rank {rank}", solution.weights.len());
        prop_assert_eq!(solution.status, Status::NumericalFloor);
    }
}

#[test]
fn pursuit_stops_at_a_residual_and_says_so() {
    let phi = low_rank(4, 500, 60, 60).dense();
    let settings = Settings { k: 60, ..Settings::default() };
    let whole = run(&phi, None, &Method::default(), &settings);
    let wanted = 0.1 * whole.target_norm;
    let method = Method::Pursuit(Pursuit { residual: Some(wanted), ..Default::default() });
    let solution = run(&phi, None, &method, &settings);
    assert_eq!(solution.status, Status::TargetReached);
    assert!(solution.residual <= wanted && solution.weights.len() < 60);
    let points = solution.weights.len();
    assert!(solution.path[points - 2].residual > wanted, "a smaller support on its path met the target");
}

#[test]
fn the_path_holds_every_size() {
    let phi = low_rank(5, 400, 80, 80).dense();
    let solution = run(&phi, None, &Method::default(), &Settings { k: 30, ..Settings::default() });
    assert_eq!(solution.path.len(), 30);
    for (at, point) in solution.path.iter().enumerate() {
        assert!(point.weights.len() <= at + 1);
        let alone = run(&phi, None, &Method::Omp, &Settings { k: at + 1, ..Settings::default() });
        assert!(
            point.residual <= alone.residual * 1.1,
            "size {}: path {} omp {}",
            at + 1,
            point.residual,
            alone.residual
        );
    }
    assert_eq!(solution.path[29].residual, solution.residual);
}

#[test]
fn clusters_of_nearly_parallel_columns_do_not_stop_pursuit() {
    // 40 directions, each a cluster of 100 columns that differ by a millionth: a pool holds few clusters at a time.
    let centres = low_rank(6, 40, 60, 40);
    let noise = low_rank(7, 4000, 60, 60);
    let entries = (0..4000).flat_map(|i| {
        let turned = centres.column(i % 40).iter().zip(noise.column(i)).map(|(x, e)| x + 1e-6 * e);
        turned.collect::<Vec<f64>>()
    });
    let phi = Matrix { entries: entries.collect(), dim: 60 }.dense();
    let settings = Settings { k: 30, ..Settings::default() };
    let method = Method::Pursuit(Pursuit { pool: Some(150), ..Default::default() });
    let (pursuit, omp) = (run(&phi, None, &method, &settings), run(&phi, None, &Method::Omp, &settings));
    assert_ne!(pursuit.status, Status::Optimal);
    assert_eq!(pursuit.weights.len(), 30);
    assert!(pursuit.residual <= omp.residual, "pursuit {:e}, omp {:e}", pursuit.residual, omp.residual);
}

#[test]
fn the_last_digits_end_near_the_minimum() {
    // Exponentials of many rates span little more than thirty directions: columns change places there without end.
    let (n, dim) = (300, 80);
    let number = |at: usize| (-(0.2 + 0.02 * (at / dim) as f64) * (at % dim) as f64 / 10.0).exp();
    let phi = Matrix { entries: (0..n * dim).map(number).collect(), dim }.dense();
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let whole: Vec<f64> = (0..dim).map(|j| (0..n).map(|i| number(i * dim + j)).sum()).collect();
    let target: Vec<f64> = whole.iter().map(|y| y + 1e-5 * normal(&mut rng)).collect();
    let solution = run(&phi, Some(&target), &Method::default(), &Settings { k: 60, ..Settings::default() });
    let all: Vec<usize> = (0..n).collect();
    let least = nnls_on_support(&Oracle::new(&phi), &target, &all, None).unwrap().residual;
    assert!(solution.relative_residual() < 1e-6 && solution.status == Status::NumericalFloor);
    assert!(solution.residual <= 1.02 * least, "{:e} {least:e}", solution.residual);
}
