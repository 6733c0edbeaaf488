//! NNLS on a support against brute force, under scaling, and with columns that are parallel or nearly so.

mod common;

use common::{Matrix, random_matrix};
use proptest::prelude::*;
use sparse_nnls::{Oracle, SupportFit, nnls_on_support};

/// The least-squares residual on a set of columns by modified Gram–Schmidt, twice; None where a weight is negative.
fn unconstrained(matrix: &Matrix, y: &[f64], ids: &[usize]) -> Option<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let (mut q, mut r): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (vec![], vec![]);
    for &id in ids {
        let (mut v, mut coefficients) = (matrix.column(id).to_vec(), vec![0.0; q.len()]);
        for _ in 0..2 {
            for (basis, c) in q.iter().zip(&mut coefficients) {
                let overlap = dot(basis, &v);
                *c += overlap;
                v.iter_mut().zip(basis).for_each(|(v, b)| *v -= overlap * b);
            }
        }
        let height = dot(&v, &v).sqrt();
        if height < 1e-12 * dot(matrix.column(id), matrix.column(id)).sqrt() {
            return None;
        }
        coefficients.push(height);
        q.push(v.iter().map(|x| x / height).collect());
        r.push(coefficients);
    }
    let mut weights = vec![0.0; ids.len()];
    for i in (0..ids.len()).rev() {
        let known: f64 = (i + 1..ids.len()).map(|j| r[j][i] * weights[j]).sum();
        weights[i] = (dot(&q[i], y) - known) / r[i][i];
    }
    let mut residual = y.to_vec();
    q.iter().for_each(|basis| {
        let share = dot(basis, &residual);
        residual.iter_mut().zip(basis).for_each(|(r, b)| *r -= share * b);
    });
    weights.iter().all(|w| *w >= 0.0).then(|| dot(&residual, &residual).sqrt())
}

/// The NNLS optimum by trying every subset.
fn brute_force(matrix: &Matrix, y: &[f64]) -> f64 {
    let n = matrix.len();
    (0_u32..1 << n)
        .filter_map(|mask| {
            let ids: Vec<usize> = (0..n).filter(|i| mask >> i & 1 == 1).collect();
            unconstrained(matrix, y, &ids)
        })
        .fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn finds_the_optimum(seed in any::<u64>(), n in 1..9_usize, dim in 1..10_usize, warm in any::<bool>()) {
        let matrix = random_matrix(seed, n, dim);
        let y = random_matrix(seed ^ 1, 1, dim).entries;
        let phi = matrix.dense();
        let ids: Vec<usize> = (0..n).collect();
        let start: Vec<f64> = (0..n).map(|i| (i % 3) as f64).collect();
        let solved = nnls_on_support(&Oracle::new(&phi), &y, &ids, warm.then_some(&start[..])).unwrap();
        let best = brute_force(&matrix, &y);
        let scale = y.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!((solved.residual - best).abs() <= 1e-9 * scale, "{} for {best}", solved.residual);
        prop_assert!(solved.kkt <= 1e-10, "kkt {}", solved.kkt);
    }

    #[test]
    fn scaling_a_column_divides_its_weight(seed in any::<u64>(), n in 1..12_usize, dim in 1..12_usize, power in -200..200_i32) {
        let matrix = random_matrix(seed, n, dim);
        let y = matrix.sum();
        let scale = 2.0_f64.powi(power);
        let mut scaled = matrix.clone();
        scaled.entries[..dim].iter_mut().for_each(|x| *x *= scale);
        let ids: Vec<usize> = (0..n).collect();
        let (plain, other) = (matrix.dense(), scaled.dense());
        let plain = nnls_on_support(&Oracle::new(&plain), &y, &ids, None).unwrap();
        let other = nnls_on_support(&Oracle::new(&other), &y, &ids, None).unwrap();
        prop_assert_eq!(&plain.ids, &other.ids);
        for ((id, a), b) in plain.ids.iter().zip(&plain.weights).zip(&other.weights) {
            let expected = if *id == 0 { b * scale } else { *b };
            prop_assert!((a - expected).abs() <= 1e-9 * a.abs());
        }
    }

    #[test]
    fn survives_parallel_and_nearly_parallel_columns(seed in any::<u64>(), n in 2..8_usize, dim in 3..12_usize, power in 3..17_i32) {
        let mut matrix = random_matrix(seed, n, dim);
        let noise = random_matrix(seed ^ 2, n, dim);
        let nudge = 10.0_f64.powi(-power);
        // Each column again, doubled and barely turned, and once more exactly doubled.
        let turned: Vec<f64> = matrix.entries.iter().zip(&noise.entries).map(|(x, e)| 2.0 * (x + nudge * e)).collect();
        let doubled: Vec<f64> = matrix.entries.iter().map(|x| 2.0 * x).collect();
        let plain = brute_force(&matrix, &matrix.sum());
        let y = matrix.sum();
        matrix.entries.extend(turned);
        matrix.entries.extend(doubled);
        let phi = matrix.dense();
        let ids: Vec<usize> = (0..3 * n).collect();
        let solved = nnls_on_support(&Oracle::new(&phi), &y, &ids, None).unwrap();
        let scale = y.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!(solved.residual <= plain + 1e-9 * scale);
        prop_assert!(solved.weights.iter().all(|w| w.is_finite() && *w > 0.0));
        prop_assert!(solved.ids.len() <= dim);
    }
}

#[test]
fn a_fit_survives_thousands_of_changes() {
    let matrix = random_matrix(9, 300, 40);
    let y = matrix.sum();
    let mut fit = SupportFit::new(&y, 8);
    for step in 0..3000 {
        let id = (step * 7919) % 300;
        if !fit.ids().contains(&id) && fit.push(id, matrix.column(id)) {
            fit.reoptimise();
        }
        assert!(fit.len() <= 40 && fit.weights().iter().all(|w| *w >= 0.0));
    }
    let kept = fit.residual().to_vec();
    fit.refresh_residual();
    let drift = kept.iter().zip(fit.residual()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(drift <= 1e-11 * fit.target_norm(), "drift {drift}");
    assert!(fit.kkt() <= 1e-11, "kkt {}", fit.kkt());
}
