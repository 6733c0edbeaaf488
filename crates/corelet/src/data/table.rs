//! A table as read: named columns of numbers, booleans, text or types that no model can use.

use std::collections::HashMap;
use std::fmt;

use arrow::array::ArrayRef;

use super::error::DataError;
use super::view::{ColumnView, Numbers, Strided, TableView, ValuesView};

/// The code of a missing value in a text column.
pub const MISSING: u32 = u32::MAX;

/// Beyond this a dense design is hopeless, and a damaged file could ask for all the memory there is.
pub(super) const MAX_COLUMNS: usize = 1 << 16;

/// Columns of equal length, with where they came from.
#[derive(Debug, Clone)]
pub struct Table {
    /// The file, as messages name it.
    pub source: String,
    /// The columns, in file order, with distinct names.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub rows: usize,
    /// The column that the format itself marks as the target (`y` in LIBSVM and NPZ).
    pub own_target: Option<String>,
    /// The line of each row, for text formats.
    pub lines: Option<Lines>,
}

/// One named column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The name, unique in its table.
    pub name: String,
    /// The cells.
    pub values: Values,
}

impl Column {
    /// The same column, borrowed.
    pub fn view(&self) -> ColumnView<'_> {
        ColumnView { name: &self.name, values: self.values.view() }
    }
}

/// The cells of a column.
#[derive(Debug, Clone)]
pub enum Values {
    /// Numbers; every one is finite or, where missing, NaN. No other use is made of NaN: readers refuse infinities
    /// and take a NaN of a binary file as a missing value.
    Number {
        /// The numbers. Integers beyond 2⁵³ are rounded.
        values: Vec<f64>,
        /// True where the file declares, or a text file shows, integers only.
        integer: bool,
    },
    /// Booleans, `None` where missing.
    Bool(Vec<Option<bool>>),
    /// Text as codes into the distinct values.
    Text {
        /// Index into `levels`, or [`MISSING`].
        codes: Vec<u32>,
        /// Distinct values in order of appearance.
        levels: Vec<String>,
    },
    /// A type without a numeric meaning (dates, lists, ...), kept only so that it can be written out again.
    Other(ArrayRef),
}

impl Values {
    /// Number of cells.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// True where there is no cell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where cell `row` is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        self.view().is_missing(row)
    }

    /// The cells, borrowed.
    pub fn view(&self) -> ValuesView<'_> {
        match self {
            Self::Number { values, integer } => {
                let values = Numbers::Double(Strided::contiguous(values));
                ValuesView::Number { values, integer: *integer }
            }
            Self::Bool(values) => ValuesView::Bool(values),
            Self::Text { codes, levels } => ValuesView::Text { codes, levels },
            Self::Other(array) => ValuesView::Other(array),
        }
    }
}

/// Where a row is: its number from 0, and its line from 1 in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Row number, from 0, the header not counted.
    pub row: usize,
    /// Line number in a text file, from 1.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "row {} (line {line})", self.row),
            None => write!(f, "row {}", self.row),
        }
    }
}

/// The line of each row, stored only where it is not the line after the previous row's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    jumps: Vec<(usize, u64)>,
}

impl Lines {
    /// Notes that `row` begins at `line`; rows must come in order.
    pub(super) fn note(&mut self, row: usize, line: u64) {
        if self.jumps.is_empty() || self.line(row) != line {
            self.jumps.push((row, line));
        }
    }

    /// The line at which `row` begins.
    pub fn line(&self, row: usize) -> u64 {
        let after = self.jumps.partition_point(|&(start, _)| start <= row);
        match after.checked_sub(1) {
            Some(last) => self.jumps[last].1 + (row - self.jumps[last].0) as u64,
            None => row as u64 + 1,
        }
    }
}

impl Table {
    /// A table of `columns`, checked: distinct names, equal lengths, no infinity.
    pub fn new(source: impl Into<String>, columns: Vec<Column>) -> Result<Self, DataError> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        let table = Self { source: source.into(), columns, rows, own_target: None, lines: None };
        table.view().check()?;
        Ok(table)
    }

    /// The same table, borrowed.
    pub fn view(&self) -> TableView<'_> {
        TableView {
            source: &self.source,
            columns: self.columns.iter().map(Column::view).collect(),
            rows: self.rows,
            own_target: self.own_target.as_deref(),
            lines: self.lines.as_ref(),
        }
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Result<&Column, DataError> {
        let found = self.columns.iter().find(|column| column.name == name);
        found.ok_or_else(|| DataError::UnknownColumn {
            file: self.source.clone(),
            column: name.to_owned(),
            known: self.view().known_columns(),
        })
    }

    /// Where `row` is, for messages.
    pub fn place(&self, row: usize) -> Place {
        self.view().place(row)
    }
}

/// A column name without line breaks and the like, which would break up every message and table it appears in.
pub(super) fn clean_name(name: &str) -> String {
    name.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Refuses a name that appears twice.
pub(super) fn check_distinct<'a>(file: &str, names: impl Iterator<Item = &'a str>) -> Result<(), DataError> {
    let mut seen = HashMap::new();
    for (i, name) in names.enumerate() {
        if let Some(first) = seen.insert(name, i) {
            return Err(DataError::DuplicateColumn {
                file: file.to_owned(),
                column: name.to_owned(),
                first: first + 1,
                second: i + 1,
            });
        }
    }
    Ok(())
}

/// Collects text cells as codes into their distinct values.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    codes: Vec<u32>,
    levels: Vec<String>,
    index: HashMap<String, u32>,
}

impl TextBuilder {
    pub(super) fn push(&mut self, text: &str) {
        let code = match self.index.get(text) {
            Some(&code) => code,
            None => self.add_level(text),
        };
        self.codes.push(code);
    }

    pub(super) fn push_missing(&mut self) {
        self.codes.push(MISSING);
    }

    pub(super) fn finish(self) -> Values {
        Values::Text { codes: self.codes, levels: self.levels }
    }

    fn add_level(&mut self, text: &str) -> u32 {
        let code = self.levels.len() as u32;
        self.levels.push(text.to_owned());
        self.index.insert(text.to_owned(), code);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str, values: &[f64]) -> Column {
        Column { name: name.into(), values: Values::Number { values: values.to_vec(), integer: false } }
    }

    #[test]
    fn lines_follow_jumps() {
        let mut lines = Lines::default();
        for (row, line) in [(0, 2), (1, 3), (2, 7), (3, 8)] {
            lines.note(row, line);
        }
        assert_eq!(lines.jumps.len(), 2);
        assert_eq!((0..4).map(|row| lines.line(row)).collect::<Vec<_>>(), [2, 3, 7, 8]);
    }

    #[test]
    fn bad_tables_are_refused() {
        let twice = Table::new("t", vec![numbers("a", &[1.0]), numbers("a", &[2.0])]);
        assert!(matches!(twice, Err(DataError::DuplicateColumn { first: 1, second: 2, .. })));
        let ragged = Table::new("t", vec![numbers("a", &[1.0]), numbers("b", &[])]);
        assert!(matches!(ragged, Err(DataError::ColumnLength { .. })));
        let infinite = Table::new("t", vec![numbers("a", &[1.0, f64::NEG_INFINITY])]).unwrap_err();
        assert!(infinite.to_string().contains("'a', row 1: -inf"), "{infinite}");
    }
}
