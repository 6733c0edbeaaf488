//! A function with several values, applied to many rows whose numbers stand in columns, several rows at a time.

use super::{Kernel, dispatch};

/// A function of M numbers with N values, applied to many rows by [`map_rows`].
pub trait Rowwise<const M: usize, const N: usize> {
    /// f(x). An implementation must be `#[inline(always)]` and free of branches that depend on `x`.
    fn apply<const FMA: bool>(&self, x: [f64; M]) -> [f64; N];
}

/// Rows at a time. Their values go through arrays of the kernel's own, which cannot overlap with what is read: several columns at
/// once would take more checks of that than a compiler makes.
const ROWS: usize = 64;

struct MapRows<'a, R, const M: usize, const N: usize>(&'a R, [&'a [f64]; M], [&'a mut [f64]; N]);

impl<R: Rowwise<M, N>, const M: usize, const N: usize> Kernel for MapRows<'_, R, M, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let MapRows(function, from, mut to) = self;
        let count = to.iter().map(|column| column.len()).min().unwrap_or(0);
        let mut values = [[0.0; ROWS]; N];
        for start in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - start);
            let from = from.map(|column| &column[start..start + rows]);
            for at in 0..rows {
                let value = function.apply::<FMA>(from.map(|column| column[at]));
                for n in 0..N {
                    values[n][at] = value[n];
                }
            }
            for (column, values) in to.iter_mut().zip(&values) {
                column[start..start + rows].copy_from_slice(&values[..rows]);
            }
        }
    }
}

/// `function` of each row, whose numbers stand in the columns `from`, into the columns `to`, vectorised; all of one length.
#[inline]
pub fn map_rows<R: Rowwise<M, N>, const M: usize, const N: usize>(
    function: &R,
    from: [&[f64]; M],
    to: [&mut [f64]; N],
) {
    dispatch(MapRows(function, from, to));
}

/// A function of M numbers, summed by [`add_terms`].
pub trait Term<const M: usize>: Copy {
    /// f(x). An implementation must be `#[inline(always)]` and free of branches that depend on `x`.
    fn apply<const FMA: bool>(self, x: [f32; M]) -> f32;
}

struct AddTerms<'a, T, const M: usize>(T, f32, [&'a [f32]; M], &'a mut [f32]);

impl<T: Term<M>, const M: usize> Kernel for AddTerms<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddTerms(term, weight, columns, sum) = self;
        let columns = columns.map(|column| &column[..sum.len()]);
        for (at, sum) in sum.iter_mut().enumerate() {
            *sum += weight * term.apply::<FMA>(columns.map(|column| column[at]));
        }
    }
}

/// Adds `weight` times the term of each place, whose numbers stand in the columns, to the sum of that place, vectorised.
#[inline]
pub fn add_terms<T: Term<M>, const M: usize>(term: T, weight: f32, columns: [&[f32]; M], sum: &mut [f32]) {
    dispatch(AddTerms(term, weight, columns, sum));
}
