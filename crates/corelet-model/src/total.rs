//! Sums of log-likelihood differences over data, for many draws at once: one virtual pass, in f64 sums.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::sum_in_blocks;
use super::prepared::Scratch;
use super::{Differences, Model, Shifts};
use corelet_kernels::parallel;

/// Rows whose log-likelihoods are held at once.
const TILE: usize = 32;

/// L(θ̂ + Δₛ) − L(θ̂) = Σᵢ ℓᵢ(θ̂ + Δₛ) − ℓᵢ(θ̂) for each shift: one pass over the data.
///
/// Unless `wide`, that pass takes log-likelihoods in f32, with full relative precision, and sums in f64: an error of about
/// 10⁻⁷·√Σ‖φᵢ‖², far below any residual worth reporting. The same bits for any number of threads.
pub fn total_differences(model: &Arc<dyn Model>, anchor: &[f64], shifts: &Shifts, wide: bool) -> Vec<f64> {
    let (n, count) = (model.len(), shifts.len());
    let prepared = Arc::clone(model).prepare(anchor, shifts.clone());
    let partial = |rows: Range<usize>| {
        let ids: Vec<usize> = rows.collect();
        if wide { wide_sum(&*prepared, &ids, count) } else { narrow_sum(&*prepared, &ids, count) }
    };
    sum_in_blocks(n, || vec![0.0; count], partial, |total, sum| add(total, &sum, 1.0))
}

/// L_w(θ̂ + Δₛ) − L_w(θ̂) = Σⱼ wⱼ(ℓⱼ(θ̂ + Δₛ) − ℓⱼ(θ̂)) for each shift, in f64: one weight a row.
pub fn weighted_differences(
    model: &Arc<dyn Model>,
    anchor: &[f64],
    shifts: &Shifts,
    weights: &[f64],
) -> Vec<f64> {
    let count = shifts.len();
    let prepared = Arc::clone(model).prepare(anchor, shifts.clone());
    let ids: Vec<usize> = (0..weights.len()).collect();
    let partials: Vec<Vec<f64>> =
        parallel::map(ids.chunks(TILE).zip(weights.chunks(TILE)), |(ids, weights)| {
            let mut rows = vec![0.0; ids.len() * count];
            prepared.wide(ids, &mut rows);
            let mut sum = vec![0.0; count];
            for (row, &weight) in rows.chunks_exact(count.max(1)).zip(weights) {
                add(&mut sum, row, weight);
            }
            sum
        });
    let mut total = vec![0.0; count];
    partials.iter().for_each(|partial| add(&mut total, partial, 1.0));
    total
}

fn wide_sum(prepared: &dyn Differences, ids: &[usize], count: usize) -> Vec<f64> {
    let (mut sum, mut rows) = (vec![0.0; count], vec![0.0; TILE * count]);
    for ids in ids.chunks(TILE) {
        let rows = &mut rows[..ids.len() * count];
        prepared.wide(ids, rows);
        rows.chunks_exact(count.max(1)).for_each(|row| add(&mut sum, row, 1.0));
    }
    sum
}

fn narrow_sum(prepared: &dyn Differences, ids: &[usize], count: usize) -> Vec<f64> {
    let (mut sum, mut scratch) = (vec![0.0; count], Scratch::default());
    ids.chunks(TILE).for_each(|ids| prepared.add_narrow(ids, &mut scratch, &mut sum));
    sum
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Logistic, Poisson};
    use corelet_data::observations::Observations;

    #[test]
    fn sums_in_single_precision_are_those_in_double_precision() {
        let (n, dim) = (333, 3);
        // Every fiftieth row is so long that no series reaches it.
        let size = |i: usize| if i % 50 == 7 { 300.0 } else { 1.0 };
        let features: Vec<f64> = (0..n * dim).map(|at| size(at / dim) * (1.3 * at as f64).sin()).collect();
        let signs = (0..n).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
        let counts = (0..n).map(|i| (i % 4) as f64).collect();
        let counts = Observations::new(&features, dim, counts).with_exposure(vec![0.7; n]);
        let (weights, offset) = ((0..n).map(|i| 0.5 + (i % 3) as f64), (0..n).map(|i| 0.1 * (i % 5) as f64));
        let weighted = counts.clone().with_weights(weights.collect()).with_offset(offset.collect());
        let models: [Arc<dyn Model>; 4] = [
            Arc::new(Logistic::model(Observations::new(&features, dim, signs)).expect("signs")),
            Arc::new(Poisson::model(counts.clone(), Link::Log).expect("counts")),
            Arc::new(Poisson::model(weighted, Link::Log).expect("counts")),
            Arc::new(Poisson::model(counts, Link::Softplus).expect("counts")),
        ];
        let shifts = Shifts::new((0..40 * dim).map(|i| 0.003 * (0.7 * i as f64).cos()).collect(), dim);
        for model in models {
            let sums = |wide| total_differences(&model, &[0.01, -0.02, 0.005], &shifts, wide);
            for (narrow, wide) in sums(false).into_iter().zip(sums(true)) {
                assert!(
                    (narrow - wide).abs() < 1e-5 * (1.0 + wide.abs()),
                    "{}: {narrow} {wide}",
                    model.name()
                );
            }
        }
    }
}
