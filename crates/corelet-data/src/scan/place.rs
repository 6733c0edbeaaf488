//! Where a row is: its number, and its line in a text file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a row is: its number from 0, and its line from 1 in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Row number, from 0, the header not counted.
    pub row: usize,
    /// Line number in a text file, from 1.
    pub line: Option<u64>,
}

impl Place {
    /// The same place counted from the beginning of the file, where `before` comes before what it was counted from.
    pub(crate) fn after(self, before: Extent) -> Self {
        Self { row: self.row + before.rows, line: self.line.map(|line| line + before.lines) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line})", self.row),
            None => write!(f, "row {}", self.row),
        }
    }
}

/// How much of a file something takes: rows, and lines where it is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) lines: u64,
}

impl Extent {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.lines += other.lines;
    }
}

/// Numbers that mostly follow one another, stored only where one is not the successor of the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs {
    /// (position, number there) where a run begins.
    starts: Vec<(usize, u64)>,
}

impl Runs {
    /// Notes that `position`, after all that were noted, has `number`.
    pub(crate) fn note(&mut self, position: usize, number: u64) {
        if self.starts.is_empty() || self.number(position) != number {
            self.starts.push((position, number));
        }
    }

    /// The number at `position`.
    pub(crate) fn number(&self, position: usize) -> u64 {
        let after = self.starts.partition_point(|&(start, _)| start <= position);
        match after.checked_sub(1) {
            Some(last) => self.starts[last].1 + (position - self.starts[last].0) as u64,
            None => position as u64,
        }
    }

    /// The position that may have `number`, where numbers ascend: it has to be compared.
    pub(crate) fn position(&self, number: u64) -> Option<usize> {
        let after = self.starts.partition_point(|&(_, start)| start <= number);
        let &(position, start) = self.starts.get(after.checked_sub(1)?)?;
        Some(position + (number - start) as usize)
    }

    /// Appends the runs of what follows, given where it begins.
    pub(crate) fn append(&mut self, other: &Self, position: usize, number: u64) {
        for &(start, first) in &other.starts {
            self.note(start + position, first + number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_their_runs() {
        let mut runs = Runs::default();
        for (position, number) in [(0, 2), (1, 3), (2, 7), (3, 8)] {
            runs.note(position, number);
        }
        assert_eq!(runs.starts.len(), 2);
        assert_eq!((0..4).map(|position| runs.number(position)).collect::<Vec<_>>(), [2, 3, 7, 8]);
        assert_eq!((runs.position(3), runs.position(7), runs.position(1)), (Some(1), Some(2), None));
        let mut both = runs.clone();
        both.append(&runs, 4, 7);
        assert_eq!((both.number(4), both.number(7), both.starts.len()), (9, 15, 3));
    }
}
