//! The paper's Theorem 1 and Corollary 1 on random Gaussian matrices, with every constant known by brute force.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparse_nnls::{Dense, Error, Weights};

use super::isometry::{Contraction, Gram, RestrictedIsometry};
use super::length;
use super::trace::{TracePoint, trace};

/// Columns one after the other.
struct Matrix {
    entries: Vec<f64>,
    dim: usize,
}

impl Matrix {
    fn len(&self) -> usize {
        self.entries.len() / self.dim
    }

    fn column(&self, i: usize) -> &[f64] {
        &self.entries[i * self.dim..(i + 1) * self.dim]
    }

    fn dense(&self) -> Dense<f64> {
        Dense::new(self.entries.clone(), self.dim).unwrap()
    }

    /// ‖y − Φw‖.
    fn residual(&self, y: &[f64], weights: &Weights) -> f64 {
        let mut r = y.to_vec();
        for (&id, &w) in weights.ids.iter().zip(&weights.values) {
            r.iter_mut().zip(self.column(id)).for_each(|(r, x)| *r -= w * x);
        }
        length(&r)
    }
}

/// A standard normal number.
fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// m × n with entries N(0, scale²/m), so that columns are about `scale` long.
fn gaussian(seed: u64, m: usize, n: usize, scale: f64) -> Matrix {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let size = scale / (m as f64).sqrt();
    Matrix { entries: (0..m * n).map(|_| size * normal(&mut rng)).collect(), dim: m }
}

/// k non-negative weights, and y = Φw* + ε with ‖ε‖ about `noise` times ‖Φw*‖.
fn planted(matrix: &Matrix, k: usize, seed: u64, noise: f64) -> (Weights, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let mut ids: Vec<usize> = (0..matrix.len()).collect();
    for at in 0..k {
        ids.swap(at, rng.random_range(at..matrix.len()));
    }
    let optimum = Weights::from_pairs(ids[..k].iter().map(|&id| (id, 0.2 + 3.0 * rng.random::<f64>())));
    let mut target = vec![0.0; matrix.dim];
    for (&id, weight) in optimum.ids.iter().zip(&optimum.values) {
        target.iter_mut().zip(matrix.column(id)).for_each(|(y, x)| *y += weight * x);
    }
    let size = noise * length(&target) / (matrix.dim as f64).sqrt();
    target.iter_mut().for_each(|y| *y += size * normal(&mut rng));
    (optimum, target)
}

/// Shapes in which ρ is small enough for the theorem to promise something: rows, columns, k.
const SHAPES: [(usize, usize, usize); 3] = [(3000, 9, 2), (12000, 12, 2), (12000, 14, 3)];

#[test]
fn isometry_constants_of_pairs_have_their_closed_form() {
    let matrix = gaussian(1, 30, 7, 1.0);
    let dot = |i: usize, j: usize| -> f64 {
        matrix.column(i).iter().zip(matrix.column(j)).map(|(a, b)| a * b).sum()
    };
    let (mut alpha, mut beta) = (f64::INFINITY, 0.0_f64);
    for i in 0..7 {
        for j in 0..i {
            let (middle, half) = (0.5 * (dot(i, i) + dot(j, j)), 0.5 * (dot(i, i) - dot(j, j)));
            let radius = half.hypot(dot(i, j));
            alpha = alpha.min(middle - radius);
            beta = beta.max(middle + radius);
        }
    }
    let found = RestrictedIsometry::brute_force(&Gram::new(&matrix.dense()).unwrap(), 2).unwrap();
    assert!((found.alpha - alpha).abs() < 1e-13 && (found.beta - beta).abs() < 1e-13, "{found:?}");
}

#[test]
fn isometry_constants_hold_for_sparse_vectors_and_are_nested() {
    let matrix = gaussian(2, 40, 9, 1.5);
    let gram = Gram::new(&matrix.dense()).unwrap();
    let constants: Vec<RestrictedIsometry> =
        (1..=11).map(|s| RestrictedIsometry::brute_force(&gram, s).unwrap()).collect();
    assert!(constants.windows(2).all(|w| w[1].alpha <= w[0].alpha && w[0].beta <= w[1].beta));
    // There are only nine columns.
    assert_eq!(constants[10].alpha, constants[8].alpha);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..3000 {
        let share = rng.random::<f64>();
        let mut weights = [0.0; 9];
        weights.iter_mut().filter(|_| rng.random::<f64>() < share).for_each(|w| *w = 1.0);
        weights.iter_mut().filter(|w| **w > 0.0).for_each(|w| *w = normal(&mut rng));
        let Some(sparsity) = weights.iter().filter(|w| **w != 0.0).count().checked_sub(1) else { continue };
        let mut image = vec![0.0; matrix.dim];
        for (id, weight) in weights.iter().enumerate() {
            image.iter_mut().zip(matrix.column(id)).for_each(|(y, x)| *y += weight * x);
        }
        let ratio = (length(&image) / length(&weights)).powi(2);
        let RestrictedIsometry { alpha, beta, .. } = constants[sparsity];
        assert!(alpha <= ratio + 1e-12 && ratio <= beta + 1e-12, "{alpha} {ratio} {beta}");
    }
    // Orthonormal columns: every constant is one.
    let identity = Dense::new((0..25).map(|at| if at % 6 == 0 { 1.0 } else { 0.0 }).collect(), 5).unwrap();
    let found = RestrictedIsometry::brute_force(&Gram::new(&identity).unwrap(), 3).unwrap();
    assert!((found.alpha - 1.0).abs() < 1e-15 && (found.beta - 1.0).abs() < 1e-15);
    assert!(Contraction::brute_force(&identity, 1).unwrap().rho.abs() < 1e-14);
}

#[test]
fn iterates_keep_the_invariant_of_theorem_1() {
    let (mut checked, mut promising) = (0, 0);
    for (m, n, k) in SHAPES {
        for seed in 0..6 {
            let matrix = gaussian(seed, m, n, 0.3 + seed as f64);
            let dense = matrix.dense();
            let contraction = Contraction::brute_force(&dense, k).unwrap();
            assert!(contraction.rho < 0.9, "ρ = {} promises nothing", contraction.rho);
            for noise in [0.0, 1e-3, 0.1] {
                let (optimum, target) = planted(&matrix, k, seed, noise);
                let points = trace(&dense, &target, &optimum, &contraction, 12).unwrap();
                let rounding = 1e-12 * length(&optimum.values);
                for (now, next) in points.iter().zip(&points[1..]) {
                    let bound = next.invariant.unwrap();
                    assert!(next.distance <= bound + rounding, "{m} × {n}, k = {k}, {noise}: {next:?}");
                    checked += 1;
                    promising += usize::from(bound < now.distance);
                }
            }
        }
    }
    // Not vacuous: the theorem promises progress at most of the iterates that are not at the noise yet.
    assert!(checked > 300 && promising > 100, "{promising} of {checked}");
}

#[test]
fn without_noise_iterates_converge_at_the_rate_of_corollary_1() {
    for (m, n, k) in SHAPES {
        for seed in 10..16 {
            let matrix = gaussian(seed, m, n, 1.0);
            let dense = matrix.dense();
            let contraction = Contraction::brute_force(&dense, k).unwrap();
            let (optimum, target) = planted(&matrix, k, seed, 0.0);
            let points = trace(&dense, &target, &optimum, &contraction, 12).unwrap();
            let tau = points.iter().map(|point| point.tau.abs()).take(6).fold(0.0, f64::max);
            let rate = contraction.rate(tau);
            assert!(rate < 1.0 && contraction.rho < 1.0 / (1.0 + 2.0 * tau), "φ = {rate}, τ = {tau}");
            let size = length(&optimum.values);
            for point in &points[1..] {
                let TracePoint { distance, objective, .. } = *point;
                assert!(distance <= point.distance_bound.unwrap() + 1e-12 * size, "{point:?}");
                assert!(objective <= point.objective_bound.unwrap() + 1e-24 * size * size, "{point:?}");
            }
            let last = points.last().unwrap();
            assert_eq!(last.weights.ids, optimum.ids);
            assert!(last.distance < 1e-9 * size, "{last:?}");
        }
    }
}

/// Scaled columns give the printed noise term the wrong unit: it is far below what noise does.
#[test]
fn the_printed_noise_term_is_no_bound() {
    let matrix = gaussian(4, 4000, 10, 0.05);
    let dense = matrix.dense();
    let contraction = Contraction::brute_force(&dense, 1).unwrap();
    let (optimum, target) = planted(&matrix, 1, 4, 0.1);
    let epsilon = matrix.residual(&target, &optimum);
    let points = trace(&dense, &target, &optimum, &contraction, 8).unwrap();
    let printed = Contraction { noise: contraction.printed_noise, ..contraction };
    let broken = points.windows(3).filter(|w| {
        w[2].distance > printed.invariant(w[1].tau, w[1].distance, w[0].distance, epsilon) + 1e-12
    });
    assert!(broken.count() > 0);
    assert!(points[1..].iter().all(|point| point.distance <= point.invariant.unwrap()));
}

#[test]
fn what_is_too_large_for_brute_force_is_refused() {
    let dense = gaussian(5, 4, 60, 1.0).dense();
    for sparsity in [0, 20] {
        let error = RestrictedIsometry::brute_force(&Gram::new(&dense).unwrap(), sparsity).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Error::Setting { name: "sparsity", .. })), "{error}");
    }
    let contraction = Contraction::brute_force(&dense, 1).unwrap();
    let refused = |target: &[f64], id: usize| {
        let optimum = Weights { ids: vec![id], values: vec![1.0] };
        trace(&dense, target, &optimum, &contraction, 3).unwrap_err().downcast::<Error>().unwrap()
    };
    assert!(matches!(refused(&[0.0; 4], 60), Error::BadColumn { id: 60, columns: 60 }));
    assert!(matches!(refused(&[0.0; 3], 0), Error::TargetLength { target: 3, coordinates: 4 }));
}
