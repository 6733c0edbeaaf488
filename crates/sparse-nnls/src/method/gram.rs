//! The inner products of a pool's unit columns, by rows, computed by blocks and kept: the search reads the columns for nothing else.

use crate::kernel::{correlate, inner_products};
use crate::parallel::by_blocks;

/// Columns that one worker takes.
const CHUNK: usize = 32;

/// Rows that are worth computing together: few where the columns stay in a cache, many where they must be read from memory.
const FEW: usize = 4;
const MANY: usize = 60;

/// Numbers in the columns of a pool that stay in a cache.
const CACHED: usize = 1 << 20;

/// A row that has not been asked for.
const ABSENT: usize = usize::MAX;

/// Unit columns, their products with y, and those with each other that were asked for.
#[derive(Debug, Default)]
pub(super) struct Gram {
    columns: Vec<f64>,
    with_target: Vec<f64>,
    /// Where the products of a column are among the rows.
    places: Vec<usize>,
    rows: Vec<Vec<f64>>,
}

impl Gram {
    /// Takes in more unit columns. Products with them are computed where they are asked for.
    pub(super) fn extend(&mut self, columns: Vec<f64>, target: &[f64]) {
        let known = self.len();
        self.with_target.resize(known + columns.len() / target.len(), 0.0);
        correlate(&columns, target, &mut self.with_target[known..]);
        if known == 0 {
            self.columns = columns;
        } else {
            self.columns.extend(columns);
        }
        self.places.resize(self.len(), ABSENT);
    }

    /// Number of columns.
    pub(super) fn len(&self) -> usize {
        self.with_target.len()
    }

    /// The unit columns, one after the other.
    pub(super) fn columns(&self) -> &[f64] {
        &self.columns
    }

    /// One of the unit columns.
    pub(super) fn column(&self, at: usize) -> &[f64] {
        let dim = self.dim();
        &self.columns[at * dim..(at + 1) * dim]
    }

    fn dim(&self) -> usize {
        self.columns.len() / self.len().max(1)
    }

    /// How many columns to ask for at once where about `room` are to enter: not all that promise anything will.
    pub(super) fn worth_asking(&self, room: usize) -> usize {
        let most = if self.columns.len() < CACHED { FEW } else { MANY };
        (room / 2).clamp(FEW, most)
    }

    /// Computes the products of these columns with all others, where they are not known yet. A product with a column that was asked for
    /// before is known by symmetry, and is reused.
    pub(super) fn ask(&mut self, columns: &[usize]) {
        self.complete(columns);
        let asked: Vec<usize> = columns.iter().copied().filter(|&at| self.places[at] == ABSENT).collect();
        let unknown: Vec<usize> = (0..self.len()).filter(|&at| !self.knows(at)).collect();
        let products = self.products(&asked, &unknown);
        let mut rows = vec![vec![0.0; self.len()]; asked.len()];
        let known: Vec<usize> = (0..self.len()).filter(|&at| self.knows(at)).collect();
        let columns: Vec<(usize, usize)> = asked.iter().copied().enumerate().collect();
        // A number read far from the last one takes as long as many multiply-adds.
        let work = 32 * columns.len() * known.len();
        by_blocks(work, (&columns, 1), (&mut rows, 1), |columns, rows| {
            let (&(at, column), row) = (&columns[0], &mut rows[0]);
            known.iter().for_each(|&other| row[other] = self.row(other)[column]);
            let products = products.chunks_exact(asked.len()).map(|products| products[at]);
            unknown.iter().zip(products).for_each(|(&other, product)| row[other] = product);
        });
        for (row, column) in rows.into_iter().zip(asked) {
            self.places[column] = self.rows.len();
            self.rows.push(row);
        }
    }

    /// Computes the products of those of these columns that were asked for before with the columns that have come since.
    fn complete(&mut self, columns: &[usize]) {
        let behind = |at: &usize| self.places[*at] != ABSENT && !self.knows(*at);
        let mut behind: Vec<usize> = columns.iter().copied().filter(behind).collect();
        while let Some(known) = behind.first().map(|&at| self.row(at).len()) {
            let (asked, others): (Vec<usize>, Vec<usize>) =
                behind.into_iter().partition(|&at| self.row(at).len() == known);
            let products = self.products(&asked, &(known..self.len()).collect::<Vec<_>>());
            for products in products.chunks_exact(asked.len()) {
                for (&column, product) in asked.iter().zip(products) {
                    self.rows[self.places[column]].push(*product);
                }
            }
            behind = others;
        }
    }

    /// The products of `asked` with the columns `others`, those of one of the latter side by side.
    fn products(&self, asked: &[usize], others: &[usize]) -> Vec<f64> {
        let (dim, count) = (self.dim(), asked.len());
        let mut out = vec![0.0; count * others.len()];
        if count == 0 {
            return out;
        }
        let block: Vec<f64> = asked.iter().flat_map(|&at| self.column(at)).copied().collect();
        by_blocks(out.len() * dim, (others, CHUNK), (&mut out, CHUNK * count), |others, out| {
            inner_products(&self.columns, others, &block, dim, out);
        });
        out
    }

    /// The products of all columns with these vectors, which stand one after the other: those of one column side by side.
    pub(super) fn correlate_with(&self, vectors: &[f64], out: &mut Vec<f64>) {
        let (dim, all) = (self.dim(), (0..self.len()).collect::<Vec<_>>());
        let count = vectors.len() / dim.max(1);
        out.resize(count * self.len(), 0.0);
        by_blocks(out.len() * dim, (&all, CHUNK), (out, CHUNK * count), |columns, out| {
            inner_products(&self.columns, columns, vectors, dim, out);
        });
    }

    /// Whether the products of a column with all others are known.
    pub(super) fn knows(&self, at: usize) -> bool {
        self.places[at] != ABSENT && self.row(at).len() == self.len()
    }

    /// ⟨aᵢ, aⱼ⟩ of a column that was asked for, for all j that were there when it last was.
    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.rows[self.places[i]]
    }

    /// ⟨aᵢ, y⟩.
    pub(super) fn with_target(&self) -> &[f64] {
        &self.with_target
    }

    /// out ← ⟨a, v⟩ for every column.
    pub(super) fn correlate(&self, v: &[f64], out: &mut Vec<f64>) {
        out.resize(self.len(), 0.0);
        let columns = (&self.columns[..], CHUNK * v.len());
        by_blocks(self.columns.len(), columns, (out, CHUNK), |columns, out| correlate(columns, v, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::dot;

    #[test]
    fn products_are_complete_once_asked_for_whenever_columns_came() {
        let (dim, target) = (9, [1.0; 9]);
        let columns: Vec<f64> = (0..20 * dim).map(|i| ((i * 7919) as f64 * 0.137).sin()).collect();
        let mut gram = Gram::default();
        gram.extend(columns[..8 * dim].to_vec(), &target);
        gram.ask(&[1, 5]);
        gram.extend(columns[8 * dim..11 * dim].to_vec(), &target);
        gram.ask(&[5, 9]);
        gram.extend(columns[11 * dim..].to_vec(), &target);
        assert!(!gram.knows(1) && !gram.knows(9) && !gram.knows(15));
        gram.ask(&[1, 5, 9, 15]);
        for asked in [1, 5, 9, 15] {
            assert!(gram.knows(asked));
            let plain = columns.chunks(dim).map(|other| dot(gram.column(asked), other));
            assert!(gram.row(asked).iter().zip(plain).all(|(got, plain)| (got - plain).abs() < 1e-14));
        }
    }
}
