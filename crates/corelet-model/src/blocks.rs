//! Sums over rows in fixed blocks, combined in block order: the same bits for any number of threads.

use std::ops::Range;

use corelet_data::observations::BLOCK;
use corelet_kernels::parallel;

/// Rows whose sum is one task.
pub(super) const PART: usize = 4096;

/// Blocks that are worked on at a time: threads wait for each other at the end of them.
const AHEAD: usize = 4;

/// Folds `combine` over the blocks of 0..n, and inside a block over `partial(part)` from `zero`: computed on all threads,
/// combined in order.
pub(crate) fn sum_in_blocks<T: Send>(
    n: usize,
    zero: impl Fn() -> T,
    partial: impl Fn(Range<usize>) -> T + Sync,
    combine: impl Fn(&mut T, T),
) -> T {
    let mut total = zero();
    for start in (0..n).step_by(AHEAD * BLOCK) {
        let ahead = parallel::parts(n.min(start + AHEAD * BLOCK) - start, PART);
        let parts = parallel::map(ahead, |part| partial(start + part.start..start + part.end));
        let mut parts = parts.into_iter().peekable();
        while parts.peek().is_some() {
            let mut block = zero();
            parts.by_ref().take(BLOCK / PART).for_each(|part| combine(&mut block, part));
            combine(&mut total, block);
        }
    }
    total
}
