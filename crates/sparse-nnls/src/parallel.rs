//! Work on pairs of blocks, shared among threads where there is enough of it. The results do not depend on whether it was.

use rayon::prelude::*;

/// Whether there are other threads, and enough multiply-adds that waking them pays.
pub(crate) fn is_shared(work: usize) -> bool {
    work >= 1 << 19 && rayon::current_num_threads() > 1
}

/// Calls `each` with every block of `from`, `size` numbers long, and its block of `out`, `out_size` long.
pub(crate) fn by_blocks<A: Sync, B: Send>(
    work: usize,
    (from, size): (&[A], usize),
    (out, out_size): (&mut [B], usize),
    each: impl Fn(&[A], &mut [B]) + Sync + Send,
) {
    // Nothing to work on has blocks of no length.
    let (size, out_size) = (size.max(1), out_size.max(1));
    if is_shared(work) {
        from.par_chunks(size).zip(out.par_chunks_mut(out_size)).for_each(|(from, out)| each(from, out));
    } else {
        from.chunks(size).zip(out.chunks_mut(out_size)).for_each(|(from, out)| each(from, out));
    }
}
