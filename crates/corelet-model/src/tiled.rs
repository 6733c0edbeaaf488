//! Hessians so large that there is room for few: one sum, whose tiles are the tasks, over chunks of rows.

use std::ops::Range;

use corelet_data::observations::BLOCK;
use corelet_kernels::linalg::add_cross_product_in_tiles;
use corelet_kernels::parallel;

use super::Over;

/// From this number of features on a Hessian is summed in tiles. A partial one a task, as for fewer, would take 64 times its size.
pub(super) const LEAST: usize = 320;

/// Rows that go by at once, and those of them that are one task.
const CHUNK: usize = 2048;
const PIECE: usize = 256;

/// Some of the rows that a sum goes over.
pub(super) enum Piece<'a> {
    Range(Range<usize>),
    Weighted(&'a [usize], &'a [f64]),
}

/// What a sum over rows must be able to do. The sum of a piece has, for each sum of xxᵀ, a number a row by which its xxᵀ is multiplied.
pub(super) trait Tiled {
    type Sum: Send + Sync;

    fn zero(&self) -> Self::Sum;

    /// Everything of a piece but the sums of xxᵀ.
    fn piece(&self, rows: &Piece<'_>) -> Self::Sum;

    /// Adds what a piece gave, or a block of them.
    fn add(&self, sum: &mut Self::Sum, other: &Self::Sum);

    /// Row i of the features.
    fn row(&self, i: usize) -> &[f32];

    /// The numbers by which the xxᵀ of a piece are multiplied, one vector a sum.
    fn scales(of_piece: &Self::Sum) -> &[Vec<f64>];

    /// The sums of xxᵀ, in the same order.
    fn squares(sum: &mut Self::Sum) -> Vec<&mut [f64]>;
}

/// Sums over rows, chunk by chunk; blocks of rows are added up before they join those before, as everywhere.
pub(super) fn sum<T: Tiled + Sync>(tiled: &T, n: usize, rows: Over<'_>) -> T::Sum {
    let count = if let Over::Weighted { ids, .. } = rows { ids.len() } else { n };
    let id = |at: usize| if let Over::Weighted { ids, .. } = rows { ids[at] } else { at };
    let mut total = tiled.zero();
    let (mut plain, mut scaled) = (Vec::new(), Vec::new());
    for block in parallel::parts(count, BLOCK) {
        let mut of_block = tiled.zero();
        for chunk in parallel::parts(block.len(), CHUNK) {
            let first = block.start + chunk.start;
            let pieces = parallel::map(parallel::parts(chunk.len(), PIECE), |part| {
                let part = first + part.start..first + part.end;
                tiled.piece(&match rows {
                    Over::All => Piece::Range(part),
                    Over::Weighted { ids, weights } => Piece::Weighted(&ids[part.clone()], &weights[part]),
                })
            });
            pieces.iter().for_each(|piece| tiled.add(&mut of_block, piece));
            let dim = tiled.row(id(first)).len();
            fill(&mut plain, chunk.len(), dim, |at, to| {
                to.iter_mut().zip(tiled.row(id(first + at))).for_each(|(to, &x)| *to = f64::from(x));
            });
            for (at, square) in T::squares(&mut of_block).into_iter().enumerate() {
                let scale = |row: usize| T::scales(&pieces[row / PIECE])[at][row % PIECE];
                fill(&mut scaled, chunk.len(), dim, |row, to| {
                    let (scale, x) = (scale(row), &plain[row * dim..(row + 1) * dim]);
                    to.iter_mut().zip(x).for_each(|(to, x)| *to = scale * x);
                });
                add_cross_product_in_tiles(square, &plain, &scaled, chunk.len(), dim);
            }
        }
        tiled.add(&mut total, &of_block);
    }
    total
}

/// Fills rows of `dim` numbers on all threads.
fn fill(rows: &mut Vec<f64>, count: usize, dim: usize, of: impl Fn(usize, &mut [f64]) + Sync) {
    rows.resize(count * dim, 0.0);
    parallel::map(rows.chunks_mut(PIECE * dim.max(1)).enumerate(), |(piece, rows)| {
        rows.chunks_exact_mut(dim.max(1)).enumerate().for_each(|(at, row)| of(piece * PIECE + at, row));
    });
}
