//! Rows beside the Gaussian, for what it leaves over: chosen by the odd part of log-likelihoods about the centre, less its linear part.
//!
//! At c ± δ the odd part ½(ℓ(c + δ) − ℓ(c − δ)) has orders 1, 3, 5 … of ℓ and none that a curvature could have. Taken off what is linear in
//! δ, by least squares over all pairs, order 3 and beyond are left: most of what a quadratic function cannot have. That takes
//! log-likelihoods of rows and no derivatives of single rows. Orders 1 and 2 of the chosen rows are then taken out of the Gaussian.

use std::ops::ControlFlow;

use super::super::pass::{Pool, pass};
use super::super::{Plan, Target, TargetError, Units};
use super::derivatives::Derivatives;
use crate::linalg::{Cholesky, gram, product, row_major};
use crate::study::{BuildSpecification, ChosenData, LogLikelihoodStudy, PooledLogLikelihoods};

/// Pairs for each of k rows, beside one for each coordinate: columns in fewer dimensions than there are weights can be matched by chance.
const PAIRS_A_ROW: usize = 3;

/// Pairs of points at which k rows are chosen.
pub(super) fn pairs(k: usize, dim: usize) -> usize {
    dim + PAIRS_A_ROW * k + 100
}

/// Up to k rows, or groups of them, whose odd parts beyond the linear one at centre ± shift add up to those of all.
///
/// # Errors
/// Errors of the model and the solver.
pub(super) fn choose<T: Target + ?Sized>(
    (target, units): (&T, &Units),
    model: &dyn Derivatives,
    (centre, shifts): (&[f64], &[f64]),
    (k, plan, index): (usize, &Plan, u64),
) -> Result<ChosenData, TargetError> {
    let dim = centre.len();
    let mut points = Vec::with_capacity(2 * shifts.len());
    for shift in shifts.chunks_exact(dim.max(1)) {
        points.extend(centre.iter().zip(shift).map(|(c, d)| c + d));
        points.extend(centre.iter().zip(shift).map(|(c, d)| c - d));
    }
    let pool = Pool { size: plan.pool_at(k), keep: &[], seed: plan.seed, index, strict: false };
    let seen = pass(target, units, model.constrained(&points, None)?, &pool)?;
    let finite = |pair: usize| seen.totals[2 * pair..2 * pair + 2].iter().all(|x| x.is_finite());
    let kept: Vec<usize> = (0..seen.totals.len() / 2).filter(|&pair| finite(pair)).collect();
    let odd = |values: &[f64]| -> Vec<f64> {
        kept.iter().map(|&pair| 0.5 * (values[2 * pair] - values[2 * pair + 1])).collect()
    };
    let kept_shifts: Vec<f64> = kept.iter().flat_map(|&pair| &shifts[pair * dim..][..dim]).copied().collect();
    let beyond = beyond_linear(&kept_shifts, dim)?;
    let totals = product(&odd(&seen.totals), &beyond, kept.len(), false);
    let lines: Vec<f64> = seen.columns.chunks_exact(seen.totals.len()).flat_map(odd).collect();
    let lines = product(&lines, &beyond, kept.len(), false);
    let k = k.min(seen.pool.len());
    let asked =
        BuildSpecification { k: Some(k), reference: false, seed: plan.seed, ..BuildSpecification::default() };
    let pooled = PooledLogLikelihoods { data: &seen.pool, lines: &lines, totals: &totals, n: units.len() };
    let mut polled = Ok(());
    let chosen = LogLikelihoodStudy::of_pool(&asked, pooled, 0)?.build(&mut |_| {
        if polled.is_ok() {
            polled = target.poll();
        }
        if polled.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    polled?;
    Ok(chosen)
}

/// I − X(XᵀX)⁻¹Xᵀ for the matrix X of these lines of `dim` numbers, row-major.
fn beyond_linear(lines: &[f64], dim: usize) -> Result<Vec<f64>, TargetError> {
    let count = lines.len() / dim.max(1);
    let mut scales = vec![0.0_f64; dim];
    for line in lines.chunks_exact(dim.max(1)) {
        scales.iter_mut().zip(line).for_each(|(sum, x)| *sum += x * x);
    }
    let scaled: Vec<f64> = lines
        .chunks_exact(dim.max(1))
        .flat_map(|line| line.iter().zip(&scales).map(|(x, sum)| x / sum.max(f64::MIN_POSITIVE).sqrt()))
        .collect();
    let cholesky = Cholesky::new(&gram(&scaled, count, dim), dim)?;
    // Rows of L⁻¹x: their products are those of the hat matrix.
    let inverse = cholesky.inverse_factor();
    let transposed = row_major(dim, |i, j| inverse[j * dim + i]);
    let white = product(&scaled, &transposed, dim, false);
    let mut hat = vec![0.0; count * count];
    for (i, out) in hat.chunks_exact_mut(count.max(1)).enumerate() {
        let own = &white[i * dim..][..dim];
        for (j, (out, other)) in out.iter_mut().zip(white.chunks_exact(dim.max(1))).enumerate() {
            *out = f64::from(u8::from(i == j)) - crate::linalg::dot(own, other);
        }
    }
    Ok(hat)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is linear in the lines vanishes; what is not keeps what no linear function has.
    #[test]
    fn linear_parts_are_taken_off() {
        let (count, dim) = (40, 3);
        let at = |s: usize, j: usize| ((s * 13 + j * 7) % 17) as f64 / 8.0 - 1.0;
        let lines: Vec<f64> = (0..count * dim).map(|x| at(x / dim, x % dim)).collect();
        let beyond = match beyond_linear(&lines, dim) {
            Ok(found) => found,
            Err(error) => panic!("{error}"),
        };
        let linear: Vec<f64> = (0..count).map(|s| 2.0 * at(s, 0) - 3.0 * at(s, 2)).collect();
        assert!(product(&linear, &beyond, count, false).iter().all(|x| x.abs() < 1e-12));
        let cubic: Vec<f64> = (0..count).map(|s| at(s, 1).powi(3)).collect();
        let left = product(&cubic, &beyond, count, false);
        for j in 0..dim {
            let along: f64 = left.iter().enumerate().map(|(s, x)| x * at(s, j)).sum();
            assert!(along.abs() < 1e-12, "{along}");
        }
        assert!(left.iter().map(|x| x * x).sum::<f64>() > 0.1);
    }
}
