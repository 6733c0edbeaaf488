//! Sums of log-likelihood differences over data, for many draws at once: one virtual pass, in f64 sums.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::blocks::sum_in_blocks;
use super::{Differences, Model, Shifts};

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
    let partials: Vec<Vec<f64>> = ids
        .par_chunks(TILE)
        .zip(weights.par_chunks(TILE))
        .map(|(ids, weights)| {
            let mut rows = vec![0.0; ids.len() * count];
            prepared.wide(ids, &mut rows);
            let mut sum = vec![0.0; count];
            for (row, &weight) in rows.chunks_exact(count.max(1)).zip(weights) {
                add(&mut sum, row, weight);
            }
            sum
        })
        .collect();
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
    let (mut sum, mut rows, mut scratch) = (vec![0.0; count], vec![0.0; TILE * count], Vec::new());
    for ids in ids.chunks(TILE) {
        let rows = &mut rows[..ids.len() * count];
        prepared.narrow(ids, &mut scratch, rows);
        for row in rows.chunks_exact(count.max(1)) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    }
    sum
}

fn add(sum: &mut [f64], x: &[f64], weight: f64) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}
