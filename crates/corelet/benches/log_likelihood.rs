//! The vectorised rows of log-likelihood differences, f32 and f64, against the scalar f64 one, per 500 shifts; and whole passes.

use corelet::model::{Derivatives, Family, Linear, Link, Logistic, Model, Over, Poisson, Shifts};
use corelet::rows::Observations;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

const SHIFTS: usize = 500;

fn rows(c: &mut Criterion) {
    let families: [(&str, Box<dyn Family>, f64); 4] = [
        ("logistic", Box::new(Logistic), 1.0),
        ("poisson_log", Box::new(Poisson { link: Link::Log }), 3.0),
        ("poisson_softplus", Box::new(Poisson { link: Link::Softplus }), 3.0),
        ("linear", Box::new(Linear::new(0.5).expect("0.5 is a variance")), 0.3),
    ];
    // Wide enough that no row is answered by a short series, and narrow enough that every row is.
    let wide: Vec<f32> = (0..SHIFTS).map(|s| 0.9 * (s as f32 * 0.7).sin()).collect();
    let narrow: Vec<f32> = wide.iter().map(|delta| 0.2 * delta).collect();
    for (name, family, y) in families {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(SHIFTS as u64));
        for eta in [-0.8, 0.8] {
            // What a straightforward implementation does: subtract two values from the standard library's functions.
            group.bench_function(format!("scalar_f64/{eta}"), |b| {
                let mut out = vec![0.0f64; SHIFTS];
                b.iter(|| {
                    let eta = black_box(eta);
                    let at_anchor = family.value(eta, y, 1.0);
                    for (out, &delta) in out.iter_mut().zip(&wide) {
                        *out = family.value(eta + delta as f64, y, 1.0) - at_anchor;
                    }
                    black_box(&out);
                });
            });
            group.bench_function(format!("difference_f64/{eta}"), |b| {
                let mut out = vec![0.0f64; SHIFTS];
                b.iter(|| {
                    for (out, &delta) in out.iter_mut().zip(&wide) {
                        *out = family.difference(black_box(eta), delta as f64, y, 1.0);
                    }
                    black_box(&out);
                });
            });
            for (width, deltas) in [("wide", &wide), ("narrow", &narrow)] {
                group.bench_function(format!("vector_f32_{width}/{eta}"), |b| {
                    let mut out = deltas.clone();
                    b.iter(|| {
                        out.copy_from_slice(deltas);
                        family.differences_row(black_box(eta), y, 1.0, &mut out);
                        black_box(&out);
                    });
                });
            }
            group.bench_function(format!("vector_f64_wide/{eta}"), |b| {
                let deltas: Vec<f64> = wide.iter().map(|&delta| f64::from(delta)).collect();
                let mut out = deltas.clone();
                b.iter(|| {
                    out.copy_from_slice(&deltas);
                    family.differences_row_f64(black_box(eta), y, 1.0, &mut out);
                    black_box(&out);
                });
            });
        }
        group.finish();
    }
}

fn passes(c: &mut Criterion) {
    let (n, dim) = (100_000, 10);
    let features: Vec<f64> = (0..n * dim).map(|i| ((i * 7919) as f64 * 0.37).sin()).collect();
    let target: Vec<f64> = (0..n).map(|i| if (i * 31) % 7 < 3 { 1.0 } else { -1.0 }).collect();
    let model = Logistic::model(Observations::new(&features, dim, target)).expect("valid data");
    let theta = vec![0.1; dim];
    let mut group = c.benchmark_group("pass");
    group.sample_size(20).throughput(Throughput::Elements(n as u64));
    group.bench_function("evaluate_with_hessian", |b| {
        let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
        b.iter(|| model.evaluate(Over::All, &theta, Derivatives::both(&mut gradient, &mut hessian)));
    });
    let shifts = Shifts::new((0..dim * SHIFTS).map(|i| 0.01 * (i as f64 * 1.7).sin()).collect(), dim);
    let tile = 64;
    let mut out = vec![0.0f32; tile * SHIFTS];
    group.bench_function("differences_500_one_thread", |b| {
        b.iter(|| {
            for start in (0..n).step_by(tile) {
                let rows = start..n.min(start + tile);
                let out = &mut out[..rows.len() * SHIFTS];
                model.differences(rows, &theta, &shifts, out);
                black_box(&out);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, rows, passes);
criterion_main!(benches);
