//! SparseVI as the experiments run it: one run that goes through every size.

use std::ops::ControlFlow;

use corelet::sparse_vi::{SparseViPoint, SparseViSettings, sparse_vi};

use super::problem::Problem;

/// Runs SparseVI up to the largest of `sizes` and hands back the coresets of these sizes, as far as it came.
pub(crate) fn run(
    problem: &Problem,
    sizes: &[usize],
    settings: &SparseViSettings,
    seed: u64,
    go_on: &dyn Fn() -> ControlFlow<()>,
) -> anyhow::Result<Vec<(usize, SparseViPoint)>> {
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let path = sparse_vi(problem.model(), &problem.prior, largest, settings, seed, &mut |_| go_on())?;
    let reached = sizes.iter().filter_map(|&k| Some((k, path.get(k.checked_sub(1)?)?.clone())));
    Ok(reached.collect())
}
