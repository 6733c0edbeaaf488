//! Sums over rows in fixed blocks, combined in block order: the same bits for any number of threads.

use std::ops::Range;

use crate::parallel;

/// Rows in a block. The sum of a block does not depend on the rows before it, so that a block may also be held and
/// summed elsewhere.
pub(crate) const BLOCK: usize = 1 << 16;

/// Rows whose sum is one task.
const PART: usize = 4096;

/// Folds `combine` over the blocks of 0..n, and inside a block over `partial(part)` from `zero`: computed on all threads,
/// combined in order.
pub(crate) fn sum_in_blocks<T: Send>(
    n: usize,
    zero: impl Fn() -> T,
    partial: impl Fn(Range<usize>) -> T + Sync,
    combine: impl Fn(&mut T, T),
) -> T {
    let mut total = zero();
    for start in (0..n).step_by(BLOCK) {
        let in_block = parallel::parts(BLOCK.min(n - start), PART);
        let parts = parallel::map(in_block, |part| partial(start + part.start..start + part.end));
        let mut block = zero();
        parts.into_iter().for_each(|part| combine(&mut block, part));
        combine(&mut total, block);
    }
    total
}
