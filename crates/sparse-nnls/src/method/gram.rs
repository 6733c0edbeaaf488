//! The inner products of a pool's unit columns, by rows, computed by blocks and kept: the search reads the columns for nothing else.

use crate::kernel::{correlate, inner_products};
use crate::method::tiles::LANES;
use crate::parallel::by_blocks;

/// Columns that one worker takes.
const CHUNK: usize = 32;

/// Rows that are worth computing together: few where the columns stay in a cache, many where they must be read from memory.
const FEW: usize = 4;
const MANY: usize = 32;

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
    /// Takes in more unit columns.
    pub(super) fn extend(&mut self, columns: &[f64], target: &[f64]) {
        let (dim, known) = (target.len(), self.len());
        self.columns.extend_from_slice(columns);
        let len = self.columns.len() / dim;
        self.with_target.resize(len, 0.0);
        correlate(columns, target, &mut self.with_target[known..]);
        let asked: Vec<usize> = (0..known).filter(|&column| self.places[column] != ABSENT).collect();
        self.places.resize(len, ABSENT);
        let products = self.products(&asked, &(known..len).collect::<Vec<_>>());
        for (at, column) in asked.iter().enumerate() {
            let row = &mut self.rows[self.places[*column]];
            row.truncate(known);
            row.extend(products.iter().skip(at).step_by(asked.len()));
            row.resize(len.next_multiple_of(LANES), 0.0);
        }
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

    /// Computes the products of these columns with all others, where they are not known yet. Those with a column that was asked
    /// for before are among its own.
    pub(super) fn ask(&mut self, columns: &[usize]) {
        let asked: Vec<usize> = columns.iter().copied().filter(|&at| self.places[at] == ABSENT).collect();
        let unknown: Vec<usize> = (0..self.len()).filter(|&at| self.places[at] == ABSENT).collect();
        let products = self.products(&asked, &unknown);
        for (at, &column) in asked.iter().enumerate() {
            let mut row = vec![0.0; self.len().next_multiple_of(LANES)];
            for (product, &place) in row.iter_mut().zip(&self.places).filter(|pair| *pair.1 != ABSENT) {
                *product = self.rows[place][column];
            }
            let new = products.iter().skip(at).step_by(asked.len());
            unknown.iter().zip(new).for_each(|(&other, product)| row[other] = *product);
            self.rows.push(row);
        }
        let first = self.rows.len() - asked.len();
        asked.into_iter().enumerate().for_each(|(at, column)| self.places[column] = first + at);
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

    /// Whether the products of a column are known.
    pub(super) fn knows(&self, at: usize) -> bool {
        self.places[at] != ABSENT
    }

    /// ⟨aᵢ, aⱼ⟩ for all j of a column that was asked for, with zeros up to a multiple of [`LANES`].
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
