//! Sums over rows in fixed blocks, combined in block order: the same bits for any number of threads.

use rayon::prelude::*;
use std::ops::Range;

/// Rows in a block.
const BLOCK: usize = 4096;
/// Blocks in flight, which bounds the memory of their partial sums.
const WAVE: usize = 64;

/// Folds `combine` over `partial(block)` for the blocks of 0..n, computed on all threads, combined in order.
pub(crate) fn sum_in_blocks<T: Send>(
    n: usize,
    mut total: T,
    partial: impl Fn(Range<usize>) -> T + Sync,
    combine: impl Fn(&mut T, T),
) -> T {
    let blocks = n.div_ceil(BLOCK);
    for wave in (0..blocks).step_by(WAVE) {
        let sums: Vec<T> = (wave..blocks.min(wave + WAVE))
            .into_par_iter()
            .map(|block| partial(block * BLOCK..n.min((block + 1) * BLOCK)))
            .collect();
        for sum in sums {
            combine(&mut total, sum);
        }
    }
    total
}
