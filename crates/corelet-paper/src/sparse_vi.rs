//! SparseVI as the experiments run it: one run that goes through every size.

use std::ops::ControlFlow;

use corelet::sparse_vi::{SparseViPoint, SparseViSettings, sparse_vi};
use cpu_time::ThreadTime;

use crate::problem::Problem;

/// Runs SparseVI up to the largest of `sizes` and hands back the coresets of these sizes, as far as it came, with the
/// processor time it took to get to each.
pub(crate) fn run(
    problem: &Problem,
    sizes: &[usize],
    settings: &SparseViSettings,
    seed: u64,
    go_on: &dyn Fn() -> ControlFlow<()>,
) -> anyhow::Result<Vec<(usize, SparseViPoint)>> {
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let (start, mut clock) = (ThreadTime::now(), Vec::new());
    let mut path = sparse_vi(problem.model(), &problem.prior, largest, settings, seed, &mut |_| {
        clock.push(start.elapsed().as_secs_f64());
        go_on()
    })?;
    path.iter_mut().zip(clock).for_each(|(point, seconds)| point.seconds = seconds);
    let reached = sizes.iter().filter_map(|&k| Some((k, path.get(k.checked_sub(1)?)?.clone())));
    Ok(reached.collect())
}
