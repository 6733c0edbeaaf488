//! Which row of the file each observation came from.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::scan::place::Runs;

/// The rows that were not left out, in file order; takes memory only where rows are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeptRows {
    runs: Runs,
    len: usize,
    total: usize,
}

impl KeptRows {
    /// All of `total` rows.
    pub fn all(total: usize) -> Self {
        let mut runs = Runs::default();
        runs.note(0, 0);
        Self { runs, len: total, total }
    }

    /// Number of observations, n.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no row was kept.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of rows in the file.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The row of the file, from 0, that observation `i` came from.
    pub fn file_row(&self, i: usize) -> usize {
        self.runs.number(i) as usize
    }

    /// The observation that `row` of the file became, if it was kept.
    pub fn observation(&self, row: usize) -> Option<usize> {
        let i = self.runs.position(row as u64)?;
        (i < self.len && self.file_row(i) == row).then_some(i)
    }

    /// The rows of the file, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        (0..self.len).map(|i| self.file_row(i))
    }

    /// Those of some observations, ascending.
    pub fn select(&self, observations: &[usize]) -> Self {
        let mut kept = Self::default();
        observations.iter().for_each(|&i| kept.keep(self.file_row(i)));
        kept.end(self.total);
        kept
    }

    /// Appends a row of the file that was kept.
    pub(crate) fn keep(&mut self, row: usize) {
        self.runs.note(self.len, row as u64);
        self.len += 1;
        self.total = self.total.max(row + 1);
    }

    /// Appends consecutive rows of the file that were kept.
    pub(crate) fn keep_all(&mut self, rows: Range<usize>) {
        if !rows.is_empty() {
            self.runs.note(self.len, rows.start as u64);
            self.len += rows.len();
            self.total = self.total.max(rows.end);
        }
    }

    /// Ends a part of the file that has `rows` rows in all.
    pub(crate) fn end(&mut self, rows: usize) {
        self.total = rows;
    }

    /// Appends the rows that were kept of the next part of the file.
    pub(crate) fn append(&mut self, next: &Self) {
        self.runs.append(&next.runs, self.len, self.total as u64);
        self.len += next.len;
        self.total += next.total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_and_rows_find_each_other() {
        let mut run = KeptRows::default();
        run.keep_all(0..0);
        run.keep_all(2..5);
        run.keep(7);
        run.keep_all(8..10);
        run.end(12);
        assert_eq!((run.iter().collect::<Vec<_>>(), run.total()), (vec![2, 3, 4, 7, 8, 9], 12));
        let of = |rows: &[usize], total| {
            let mut kept = KeptRows::default();
            rows.iter().for_each(|&row| kept.keep(row));
            kept.end(total);
            kept
        };
        let (first, empty, last) = (of(&[0, 1, 4], 5), of(&[], 3), of(&[1, 2], 4));
        let mut all = first;
        all.append(&empty);
        all.append(&last);
        let rows = [0, 1, 4, 9, 10];
        assert_eq!(all.iter().collect::<Vec<_>>(), rows);
        assert_eq!((all.len(), all.total()), (5, 12));
        for row in 0..13 {
            assert_eq!(all.observation(row), rows.iter().position(|&kept| kept == row), "{row}");
        }
        assert_eq!(KeptRows::all(7).iter().collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
        let some = all.select(&[0, 3, 4]);
        assert_eq!((some.iter().collect::<Vec<_>>(), some.total()), (vec![0, 9, 10], 12));
        assert_eq!((some.observation(9), some.observation(4)), (Some(1), None));
        assert_eq!(KeptRows::all(7).observation(7), None);
    }
}
