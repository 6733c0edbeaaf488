//! Log-likelihoods of several predictors: their derivatives and their differences, against plain twins.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use std::sync::Arc;

use corelet::linalg::dot;
use corelet::model::{
    Exponential, Gamma, Inputs, JointFamily, JointJets, NearShifts, NegativeBinomial, Normal, Ordinal,
    Softmax, Student, StudentDegrees, Weibull,
};

/// Every family, with targets it can have.
fn families() -> Vec<(Arc<dyn JointFamily>, Vec<f64>)> {
    vec![
        (Arc::new(Normal), vec![-2.5, 0.0, 40.0]),
        (Arc::new(Student::new(4.0).unwrap()), vec![-2.5, 0.0, 40.0]),
        (Arc::new(StudentDegrees), vec![-2.5, 0.0, 40.0]),
        (Arc::new(NegativeBinomial), vec![0.0, 1.0, 7.0, 300.0]),
        (Arc::new(Gamma), vec![0.02, 1.0, 35.0]),
        (Arc::new(Weibull), vec![0.02, 1.0, 35.0]),
        (Arc::new(Exponential), vec![0.02, 1.0, 35.0]),
        (Arc::new(Softmax::new(2).unwrap()), vec![0.0, 1.0]),
        (Arc::new(Softmax::new(3).unwrap()), vec![0.0, 1.0, 2.0]),
        (Arc::new(Softmax::new(6).unwrap()), vec![0.0, 3.0, 5.0]),
        (Arc::new(Ordinal::new(2).unwrap()), vec![0.0, 1.0]),
        (Arc::new(Ordinal::new(3).unwrap()), vec![0.0, 1.0, 2.0]),
        (Arc::new(Ordinal::new(6).unwrap()), vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ]
}

/// ∇ℓ and ∇²ℓ.
fn slopes(family: &dyn JointFamily, zeta: &[f64], target: (f64, f64)) -> (Vec<f64>, Vec<f64>) {
    let r = zeta.len();
    let (mut gradient, mut hessian) = (vec![f64::NAN; r], vec![f64::NAN; r * r]);
    family.derivatives(zeta, target, &mut gradient, &mut hessian);
    (gradient, hessian)
}

#[test]
fn derivatives_are_slopes() {
    let step = 1e-5;
    for (family, targets) in families() {
        let r = family.predictors().len();
        for y in targets {
            for at in 0..12 {
                let zeta: Vec<f64> = (0..r).map(|a| 1.5 * (1.7 * at as f64 + 2.3 * a as f64).sin()).collect();
                let target = (y, 1.0);
                let (gradient, hessian) = slopes(&*family, &zeta, target);
                for a in 0..r {
                    let moved = |by: f64| {
                        let mut moved = zeta.clone();
                        moved[a] += by;
                        moved
                    };
                    let (above, below) = (moved(step), moved(-step));
                    let slope = (family.value(&above, target) - family.value(&below, target)) / (2.0 * step);
                    let size = 1.0 + slope.abs();
                    assert!((gradient[a] - slope).abs() < 2e-6 * size, "{} {y} {zeta:?} {a}", family.name());
                    let (above, below) =
                        (slopes(&*family, &above, target).0, slopes(&*family, &below, target).0);
                    for b in 0..r {
                        let slope = (above[b] - below[b]) / (2.0 * step);
                        let error = (hessian[a * r + b] - slope).abs();
                        assert!(error < 2e-6 * (1.0 + slope.abs()), "{} {y} {zeta:?} {a} {b}", family.name());
                    }
                }
            }
        }
    }
}

#[test]
fn extreme_predictors_stay_finite() {
    for (family, targets) in families() {
        let r = family.predictors().len();
        for y in targets {
            for code in 0..3_usize.pow(r as u32) {
                let zeta: Vec<f64> =
                    (0..r).map(|a| [-400.0, 0.5, 400.0][code / 3_usize.pow(a as u32) % 3]).collect();
                let (gradient, hessian) = slopes(&*family, &zeta, (y, 1.0));
                let value = family.value(&zeta, (y, 1.0));
                let all = gradient.iter().chain(&hessian).chain([&value]);
                assert!(all.into_iter().all(|x| x.is_finite()), "{} {y} {zeta:?}: {value}", family.name());
            }
        }
    }
}

/// The same family with the default `difference`.
struct Plain(Arc<dyn JointFamily>);

impl JointFamily for Plain {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn predictors(&self) -> &[Inputs] {
        self.0.predictors()
    }
    fn check_target(&self, target: (f64, f64)) -> Result<(), &'static str> {
        self.0.check_target(target)
    }
    fn value(&self, zeta: &[f64], target: (f64, f64)) -> f64 {
        self.0.value(zeta, target)
    }
    fn derivatives(&self, zeta: &[f64], target: (f64, f64), gradient: &mut [f64], hessian: &mut [f64]) {
        self.0.derivatives(zeta, target, gradient, hessian);
    }
}

#[test]
fn differences_keep_their_digits() {
    for (family, targets) in families() {
        let r = family.predictors().len();
        let plain = Plain(Arc::clone(&family));
        for y in targets {
            for (at, size) in [1e-9, 1e-5, 1e-2, 0.2, 0.24, 0.9, 3.0].into_iter().enumerate() {
                let wave = |a: usize, by: f64| (1.7 * (at + 1) as f64 + by * a as f64).sin();
                let zeta: Vec<f64> = (0..r).map(|a| 1.2 * wave(a, 2.3)).collect();
                let delta: Vec<f64> = (0..r).map(|a| size * wave(a, 4.1)).collect();
                let (got, want) =
                    (family.difference(&zeta, &delta, (y, 1.0)), plain.difference(&zeta, &delta, (y, 1.0)));
                // Where the default subtracts, it leaves the rounding of both values.
                let value = family.value(&zeta, (y, 1.0)).abs();
                let noise = if size > 0.25 { 1e-14 * value } else { 1e-14 * dot(&delta, &delta).sqrt() };
                let error = (got - want).abs();
                assert!(error <= 1e-11 * want.abs() + noise, "{} {y} {size}: {got} {want}", family.name());
            }
        }
    }
}

#[test]
fn rows_of_differences_are_their_plain_twins() {
    for (family, targets) in families() {
        let r = family.predictors().len();
        for y in targets {
            for (at, size) in [1e-9, 1e-4, 1e-2, 0.2, 1.5].into_iter().enumerate() {
                let wave = |s: usize, a: usize| (1.7 * (at + 3 * s + 1) as f64 + 4.1 * a as f64).sin();
                let zeta: Vec<f64> = (0..r).map(|a| 1.2 * wave(0, a)).collect();
                let deltas: Vec<f64> = (0..r * 5).map(|place| size * wave(place % 5, place / 5)).collect();
                let constants: Vec<(f64, &[f64])> = (0..r)
                    .filter(|&a| family.predictors()[a] == Inputs::Constant)
                    .map(|a| (zeta[a], &deltas[a * 5..][..5]))
                    .collect();
                let mut row = [f64::NAN; 5];
                let table = family.table(&constants);
                family.differences_row(&zeta, (y, 1.0), &deltas, &table, &mut row);
                for (s, got) in row.into_iter().enumerate() {
                    let delta: Vec<f64> = (0..r).map(|a| deltas[a * 5 + s]).collect();
                    let want = family.difference(&zeta, &delta, (y, 1.0));
                    let (gradient, _) = slopes(&*family, &zeta, (y, 1.0));
                    let size =
                        want.abs() + gradient.iter().zip(&delta).map(|(g, d)| (g * d).abs()).sum::<f64>();
                    let scale = size + y.abs() * dot(&delta, &delta).sqrt();
                    assert!(
                        (got - want).abs() <= 1e-13 * scale,
                        "{} {y} {delta:?}: {got} {want}",
                        family.name()
                    );
                }
            }
        }
    }
}

#[test]
fn many_rows_have_the_derivatives_of_each() {
    for (family, targets) in families() {
        let inputs = family.predictors();
        let r = inputs.len();
        // More rows than a kernel takes at a time, and predictors so far out that exponentials are held.
        let places = (0..150).map(|i| 0.031 * f64::from(i) - 2.3).chain([-400.0, -35.0, 12.0, 60.0, 400.0]);
        let places: Vec<f64> = places.collect();
        for (at, &y) in targets.iter().enumerate() {
            for constant in [-3.0, 0.4, 2.0 + at as f64] {
                let mut rows = JointJets::new(inputs);
                let columns = rows.zeta.iter_mut().enumerate();
                columns.for_each(|(a, zeta)| zeta.extend(places.iter().map(|x| x * (1.0 - 0.4 * a as f64))));
                let constants = rows.constants.iter_mut().enumerate();
                constants.for_each(|(a, zeta)| *zeta = constant - 0.3 * a as f64);
                rows.y = places.iter().enumerate().map(|(i, _)| targets[(at + i) % targets.len()]).collect();
                rows.y[0] = y;
                rows.exposure = vec![1.0; places.len()];
                family.jets(rows.asked());
                for i in 0..places.len() {
                    let (mut columns, mut constants) = (rows.zeta.iter(), rows.constants.iter());
                    let of = |input: &Inputs| match input {
                        Inputs::Features => columns.next().unwrap()[i],
                        Inputs::Constant => *constants.next().unwrap(),
                    };
                    let zeta: Vec<f64> = inputs.iter().map(of).collect();
                    let target = (rows.y[i], 1.0);
                    let (gradient, hessian) = slopes(&*family, &zeta, target);
                    let lower = (0..r).flat_map(|a| (0..=a).map(move |b| a * r + b));
                    let want = [family.value(&zeta, target)].into_iter().chain(gradient.clone());
                    let want = want.chain(lower.map(|at| hessian[at]));
                    let got = [&rows.value].into_iter().chain(&rows.gradient).chain(&rows.hessian);
                    let size = hessian.iter().chain(&gradient).fold(1.0_f64, |m, x| m.max(x.abs()));
                    for (got, want) in got.map(|column| column[i]).zip(want) {
                        let near = (got - want).abs() <= 1e-12 * want.abs() + 1e-13 * size;
                        assert!(near, "{} {zeta:?} {target:?}: {got} {want}", family.name());
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_curved_is_what_differences_leave_of_a_gradient() {
    const SHIFTS: usize = 16;
    let mut reached = 0;
    for (family, targets) in families() {
        let inputs = family.predictors();
        let r = inputs.len();
        for y in targets {
            for (at, size) in [1e-6, 1e-3, 0.02, 0.2, 0.6].into_iter().enumerate() {
                let wave = |s: usize, a: usize| (1.7 * (at + 3 * s + 1) as f64 + 4.1 * a as f64).sin();
                let zeta: Vec<f64> = (0..r).map(|a| 1.2 * wave(0, a)).collect();
                // As f32 has them, so that shifts are the same for both.
                let shift = |a: usize, s: usize| f64::from((size * wave(s, a)) as f32);
                let column = |a: usize| (0..SHIFTS).map(|s| shift(a, s)).collect::<Vec<f64>>();
                let columns: Vec<Vec<f64>> = (0..r).map(column).collect();
                let of = |input: Inputs| (0..r).filter(move |&a| inputs[a] == input);
                let constants: Vec<(f64, &[f64])> =
                    of(Inputs::Constant).map(|a| (zeta[a], &columns[a][..])).collect();
                let Some(table) = family.curved_table(&constants) else { continue };
                let deltas: Vec<f32> =
                    of(Inputs::Features).flat_map(|a| columns[a].iter().map(|x| *x as f32)).collect();
                let reach = vec![size; r];
                let (gradient, hessian) = slopes(&*family, &zeta, (y, 1.0));
                let mut sum = [0.25; SHIFTS];
                let shifts = NearShifts::new(&deltas, SHIFTS, &gradient, &reach, &table);
                if !family.add_curved(&zeta, (y, 1.0), &shifts, &mut sum) {
                    assert_eq!(sum, [0.25; SHIFTS]);
                    continue;
                }
                sum = [0.0; SHIFTS];
                family.add_curved(&zeta, (y, 1.0), &shifts, &mut sum);
                reached += 1;
                for (s, got) in sum.into_iter().enumerate() {
                    let delta: Vec<f64> = columns.iter().map(|column| column[s]).collect();
                    let want = family.difference(&zeta, &delta, (y, 1.0)) - dot(&gradient, &delta);
                    // Of second order: what a matrix of the size of the Hessian, or of the gradient's square, makes of the shift.
                    let bend = hessian.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                    let linear: f64 = gradient.iter().zip(&delta).map(|(g, d)| (g * d).abs()).sum();
                    let scale = want.abs() + bend * dot(&delta, &delta) + linear * linear;
                    let noise = 1e-15 * (1.0 + linear);
                    let error = (f64::from(got) - want).abs();
                    assert!(error <= 3e-6 * scale + noise, "{} {y} {size} {s}: {got} {want}", family.name());
                }
            }
        }
    }
    assert!(reached > 80, "{reached}");
}

#[test]
fn noise_that_vanishes_explains_no_residual() {
    let student: Arc<dyn JointFamily> = Arc::new(Student::new(4.0).unwrap());
    let noisy: [(Arc<dyn JointFamily>, &[f64]); 3] =
        [(Arc::new(Normal), &[]), (student, &[]), (Arc::new(StudentDegrees), &[-2.0])];
    for (family, rest) in noisy {
        let zeta = |log_sigma: f64| [&[0.3, log_sigma], rest].concat();
        let scales = [-2.0, -50.0, -99.0, -101.0, -250.0, -299.0, -301.0, -700.0];
        let values = scales.map(|log_sigma| family.value(&zeta(log_sigma), (1.0, 1.0)));
        assert!(values.is_sorted_by(|near, far| near >= far), "{}: {values:?}", family.name());
        let mut rows = JointJets::new(family.predictors());
        (rows.zeta[0], rows.y, rows.exposure) = (vec![0.3], vec![1.0], vec![1.0]);
        for (log_sigma, value) in scales.into_iter().zip(values) {
            rows.constants.copy_from_slice(&zeta(log_sigma)[1..]);
            family.jets(rows.asked());
            assert!((rows.value[0] / value - 1.0).abs() < 1e-12, "{} {log_sigma}", family.name());
        }
    }
}
