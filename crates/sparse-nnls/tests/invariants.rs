//! The one list of invariants, run over every method on random problems with zero columns and duplicates.

mod common;

use std::ops::ControlFlow;

use common::{all_methods, awkward_matrix, random_matrix, run};
use proptest::prelude::*;
use sparse_nnls::{Dense, HardThresholding, Method, Settings, Solution, Solver, Weights};

fn settings(k: usize, seed: u64) -> Settings {
    Settings { k, seed, ..Settings::default() }
}

/// nnz ≤ k, w > 0 and finite, ids ascending and in range.
fn is_legal(solution: &Solution, k: usize, n: usize) -> bool {
    let Weights { ids, values } = &solution.weights;
    ids.len() <= k
        && ids.len() == values.len()
        && ids.windows(2).all(|pair| pair[0] < pair[1])
        && ids.last().is_none_or(|&id| id < n)
        && values.iter().all(|w| *w > 0.0 && w.is_finite())
}

fn close(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * scale.max(f64::MIN_POSITIVE)
}

/// Hard thresholding cut short: its iterates are chaotic, and once they stand still τ divides rounding by rounding, so
/// the order of a sum would show.
fn few_iterations(method: Method) -> Method {
    let cut =
        |settings: HardThresholding| HardThresholding { max_iterations: 3, tolerance: 1e-10, ..settings };
    match method {
        Method::Iht(settings) => Method::Iht(cut(settings)),
        Method::AIht(settings) => Method::AIht(cut(settings)),
        Method::AIht2(settings) => Method::AIht2(cut(settings)),
        other => other,
    }
}

/// Each column a second time, and columns of zeros.
fn duplicates_and_zeros_change_nothing(seed: u64, n: usize, dim: usize) {
    let matrix = random_matrix(seed, n, dim);
    let y = matrix.sum();
    let mut wider = matrix.clone();
    wider.entries.extend_from_slice(&matrix.entries);
    wider.entries.extend(std::iter::repeat_n(0.0, 3 * dim));
    let k = n.div_ceil(3);
    for method in [Method::Omp, Method::Giga, Method::default()] {
        let plain = run(&matrix.dense(), Some(&y), &method, &settings(k, seed));
        let other = run(&wider.dense(), Some(&y), &method, &settings(k, seed));
        assert!(other.residual <= plain.residual + 1e-9 * plain.target_norm, "{}", method.name());
        assert!(other.weights.ids.iter().all(|&id| id < 2 * n), "a zero column was chosen");
        // Pursuit takes the first of equal columns, and does what it does without the others.
        if method == Method::default() {
            assert_eq!(other.weights, plain.weights);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn weights_are_legal_and_the_residual_is_the_true_one(
        seed in any::<u64>(), n in 1..60_usize, dim in 1..40_usize, share in 0.01..1.0_f64,
    ) {
        let matrix = awkward_matrix(seed, n, dim);
        let k = ((share * n as f64).ceil() as usize).clamp(1, n);
        let (phi, y) = (matrix.dense(), matrix.sum());
        for (name, method) in all_methods() {
            let solution = run(&phi, None, &method, &settings(k, seed));
            prop_assert!(is_legal(&solution, k, n), "{name}: {:?}", solution.weights);
            let scale = solution.target_norm.max(solution.residual);
            prop_assert!(close(solution.residual, matrix.residual(&y, &solution.weights), scale), "{name}");
            for (points, point) in solution.path.iter().enumerate() {
                prop_assert!(point.weights.len() <= points + 1, "{name}");
                prop_assert!(close(point.residual, matrix.residual(&y, &point.weights), scale), "{name}");
            }
            if let Some(last) = solution.path.last() {
                prop_assert!(close(last.residual, solution.residual, scale), "{name}: path ends elsewhere");
            }
            prop_assert!(solution.path.windows(2).all(|pair| pair[1].residual <= pair[0].residual), "{name}");
        }
    }

    #[test]
    fn the_residual_falls_where_that_is_promised(seed in any::<u64>(), n in 2..60_usize, dim in 1..40_usize) {
        let phi = awkward_matrix(seed, n, dim).dense();
        for (name, method) in all_methods().into_iter().filter(|(_, method)| method.is_monotone()) {
            let mut last = f64::INFINITY;
            let mut rises = false;
            let check = |info: &sparse_nnls::Info| {
                rises |= info.residual > last * (1.0 + 1e-9) + 1e-12 * info.target_norm;
                last = info.residual;
                ControlFlow::Continue(())
            };
            Solver::new(&phi, settings(n.div_ceil(2), seed)).callback(check).run(&method).unwrap();
            prop_assert!(!rises, "{name}");
        }
    }

    #[test]
    fn scaling_y_or_phi_scales_the_answer(seed in any::<u64>(), n in 2..40_usize, dim in 1..30_usize) {
        let matrix = random_matrix(seed, n, dim);
        let y = matrix.sum();
        let k = n.div_ceil(3);
        // Powers of two, so that no rounding hides a dependence on the scale; beyond any absolute tolerance.
        let (up, down) = (2.0_f64.powi(60), 2.0_f64.powi(-70));
        let mut scaled = matrix.clone();
        scaled.entries.iter_mut().for_each(|x| *x *= down);
        let scaled_y: Vec<f64> = y.iter().map(|x| x * up).collect();
        for (name, method) in all_methods() {
            // Unbiased sampling does not look at y, and Frank–Wolfe's polytope does not grow with it.
            if !["uniform", "importance", "frank-wolfe"].contains(&name.as_str()) {
                let plain = run(&matrix.dense(), Some(&y), &method, &settings(k, seed));
                let other = run(&matrix.dense(), Some(&scaled_y), &method, &settings(k, seed));
                prop_assert_eq!(&plain.weights.ids, &other.weights.ids, "y scaled, {}", name);
                prop_assert!(close(other.residual, up * plain.residual, up * plain.target_norm), "y scaled, {name}");
            }
            let other = run(&scaled.dense(), None, &method, &settings(k, seed));
            let plain = run(&matrix.dense(), None, &method, &settings(k, seed));
            prop_assert_eq!(&plain.weights.ids, &other.weights.ids, "Φ scaled, {}", name);
            prop_assert!(close(other.residual, down * plain.residual, down * plain.target_norm), "Φ scaled, {name}");
        }
    }

    #[test]
    fn the_order_of_the_columns_does_not_matter(seed in any::<u64>(), n in 2..40_usize, dim in 2..30_usize) {
        let matrix = random_matrix(seed, n, dim);
        let order: Vec<usize> = (0..n).map(|i| (i * 7 + 3) % n).collect();
        prop_assume!({ let mut o = order.clone(); o.sort_unstable(); o.dedup(); o.len() == n });
        let permuted = matrix.map_columns(&order);
        let y = matrix.sum();
        let k = n.div_ceil(3);
        for (name, method) in all_methods().into_iter().filter(|(_, method)| !method.is_random()) {
            let method = few_iterations(method);
            let plain = run(&matrix.dense(), Some(&y), &method, &settings(k, seed));
            let other = run(&permuted.dense(), Some(&y), &method, &settings(k, seed));
            let back = Weights::from_pairs(other.weights.ids.iter().map(|&i| order[i]).zip(other.weights.values.clone()));
            // Where y is met exactly, many supports tie.
            if plain.relative_residual() > 1e-9 {
                prop_assert_eq!(&plain.weights.ids, &back.ids, "{}", name);
            }
            prop_assert!(close(plain.residual, other.residual, plain.target_norm), "{name}");
        }
    }

    #[test]
    fn duplicates_and_zeros_change_nothing_for_those_that_ignore_them(seed in any::<u64>(), n in 2..30_usize, dim in 2..20_usize) {
        duplicates_and_zeros_change_nothing(seed, n, dim);
    }

    #[test]
    fn a_fixed_total_is_held(seed in any::<u64>(), n in 2..40_usize, dim in 1..30_usize, total in 0.1..50.0_f64) {
        let phi = awkward_matrix(seed, n, dim).dense();
        let k = n.div_ceil(3);
        for (name, method) in all_methods().into_iter().filter(|(_, method)| method.can_hold_total()) {
            let solution = run(&phi, None, &method, &Settings { total: Some(total), ..settings(k, seed) });
            prop_assert!(is_legal(&solution, k, n), "{name}");
            let sum: f64 = solution.weights.values.iter().sum();
            prop_assert!((sum - total).abs() <= 1e-9 * total, "{name}: {sum} for {total}");
        }
    }

    #[test]
    fn polishing_never_hurts(seed in any::<u64>(), n in 2..40_usize, dim in 1..30_usize) {
        let phi = awkward_matrix(seed, n, dim).dense();
        let k = n.div_ceil(3);
        for (name, method) in all_methods() {
            let plain = run(&phi, None, &method, &settings(k, seed));
            let polished = run(&phi, None, &method, &Settings { polish: true, ..settings(k, seed) });
            prop_assert!(polished.residual <= plain.residual + 1e-9 * plain.target_norm, "{name}");
        }
    }
}

/// Among fewer columns more shakes are affordable: were equal ones not taken as one, the search would end elsewhere here.
#[test]
fn pursuit_does_not_depend_on_duplicates() {
    duplicates_and_zeros_change_nothing(17_868_434_102_621_329_733, 18, 7);
}

#[test]
fn same_seed_same_bits_for_any_number_of_threads() {
    let matrix = awkward_matrix(11, 3000, 37);
    let narrow: Vec<f32> = matrix.entries.iter().map(|x| *x as f32).collect();
    let (wide, narrow) = (matrix.dense(), Dense::new(narrow, matrix.dim).unwrap());
    for (name, method) in all_methods() {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                (run(&wide, None, &method, &settings(25, 3)), run(&narrow, None, &method, &settings(25, 3)))
            })
        };
        let (wide_one, narrow_one) = with(1);
        for threads in [2, 3, 7] {
            let (wide_many, narrow_many) = with(threads);
            assert_eq!(wide_one.weights, wide_many.weights, "{name}, f64, {threads} threads");
            assert_eq!(narrow_one.weights, narrow_many.weights, "{name}, f32, {threads} threads");
            assert_eq!(wide_one.residual.to_bits(), wide_many.residual.to_bits(), "{name}");
        }
    }
}

#[test]
fn unbiased_sampling_is_unbiased() {
    let matrix = awkward_matrix(5, 20, 3);
    let (phi, y) = (matrix.dense(), matrix.sum());
    for name in ["uniform", "importance"] {
        let method = Method::from_name(name).unwrap();
        let rounds = 20_000;
        let mut mean = vec![0.0; y.len()];
        for seed in 0..rounds {
            let solution = run(&phi, None, &method, &settings(6, seed));
            for (&id, w) in solution.weights.ids.iter().zip(&solution.weights.values) {
                mean.iter_mut().zip(matrix.column(id)).for_each(|(m, x)| *m += w * x / rounds as f64);
            }
        }
        let scale = y.iter().map(|x| x.abs()).fold(0.0, f64::max);
        for (m, y) in mean.iter().zip(&y) {
            assert!((m - y).abs() < 0.05 * scale, "{name}: {mean:?} for {y:?}");
        }
    }
}
