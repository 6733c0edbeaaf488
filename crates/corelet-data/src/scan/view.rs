//! Columns that belong to someone else: a [`Table`](crate::Table), or arrays of a caller.

use std::ops::Range;

use crate::error::DataError;
use crate::scan::place::Place;
use crate::scan::table::{MISSING, check_distinct};

/// Columns of equal length that belong to someone else, with where they came from.
#[derive(Debug, Clone)]
pub struct TableView<'a> {
    /// The file or array, as messages name it.
    pub source: &'a str,
    /// The columns, with distinct names.
    pub columns: Vec<ColumnView<'a>>,
    /// Number of rows.
    pub rows: usize,
    /// The column that the source itself marks as the target.
    pub own_target: Option<&'a str>,
}

/// One named column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnView<'a> {
    /// The name, unique in its table.
    pub name: &'a str,
    /// The cells.
    pub values: ValuesView<'a>,
}

/// The cells of a column; what each means is said at [`Values`](crate::Values).
#[derive(Debug, Clone, Copy)]
pub enum ValuesView<'a> {
    /// Finite numbers, or NaN where missing.
    Number {
        /// The numbers.
        values: Numbers<'a>,
        /// True where only integers can occur.
        integer: bool,
    },
    /// Booleans, `None` where missing.
    Bool(&'a [Option<bool>]),
    /// Text as codes into the distinct values.
    Text {
        /// Index into `levels`, or [`MISSING`].
        codes: &'a [u32],
        /// Distinct values.
        levels: &'a [String],
    },
}

/// Numbers at a fixed stride in memory that belongs to someone else: a vector, or one column of a matrix.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// f64.
    Double(Strided<'a, f64>),
    /// f32, each widened as it is read.
    Single(Strided<'a, f32>),
    /// i64, rounded to a double as it is read, and written out exactly.
    Long(Strided<'a, i64>),
}

/// Every `stride`-th entry of a slice, from `start` on.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, T> {
    entries: &'a [T],
    start: usize,
    stride: usize,
}

impl<'a, T: Copy> Strided<'a, T> {
    /// All entries of a vector.
    pub fn contiguous(entries: &'a [T]) -> Self {
        Self { entries, start: 0, stride: 1 }
    }

    /// Column `column` of a row-major matrix of `width` columns.
    pub fn column(entries: &'a [T], column: usize, width: usize) -> Self {
        Self { entries, start: column, stride: width.max(1) }
    }

    fn len(&self) -> usize {
        self.entries.len().saturating_sub(self.start).div_ceil(self.stride)
    }

    pub(crate) fn get(&self, row: usize) -> T {
        self.entries[self.start + row * self.stride]
    }

    fn iter(&self) -> impl Iterator<Item = T> + 'a {
        self.entries[self.start.min(self.entries.len())..].iter().step_by(self.stride).copied()
    }

    /// Whether one of them is so; without a branch where they follow one another.
    fn any(&self, is_so: impl Fn(T) -> bool) -> bool {
        if self.stride > 1 {
            return self.iter().any(is_so);
        }
        let entries = &self.entries[self.start.min(self.entries.len())..];
        entries.chunks(1024).any(|part| part.iter().fold(false, |any, &entry| any | is_so(entry)))
    }

    fn slice(&self, rows: Range<usize>) -> Self {
        let (start, end) = (rows.start * self.stride, rows.end * self.stride);
        let entries = &self.entries[start.min(self.entries.len())..end.min(self.entries.len())];
        Self { entries, start: self.start, stride: self.stride }
    }
}

impl Numbers<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Double(values) => values.len(),
            Self::Single(values) => values.len(),
            Self::Long(values) => values.len(),
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of `row`.
    pub fn get(&self, row: usize) -> f64 {
        match self {
            Self::Double(values) => values.get(row),
            Self::Single(values) => f64::from(values.get(row)),
            Self::Long(values) => values.get(row) as f64,
        }
    }

    /// Whether one of them is missing.
    pub(crate) fn has_gaps(&self) -> bool {
        match self {
            Self::Double(values) => values.any(f64::is_nan),
            Self::Single(values) => values.any(f32::is_nan),
            Self::Long(_) => false,
        }
    }

    /// The number of `row` in digits, all of them.
    pub(crate) fn text(&self, row: usize) -> String {
        match self {
            Self::Long(values) => values.get(row).to_string(),
            // Adding 0 makes -0 and 0 one number.
            _ => (self.get(row) + 0.0).to_string(),
        }
    }

    /// The numbers of some rows.
    fn slice(&self, rows: Range<usize>) -> Self {
        match self {
            Self::Double(values) => Self::Double(values.slice(rows)),
            Self::Single(values) => Self::Single(values.slice(rows)),
            Self::Long(values) => Self::Long(values.slice(rows)),
        }
    }

    /// Puts all numbers, in order, into `out`.
    pub(crate) fn copy_to(&self, out: &mut Vec<f64>) {
        out.clear();
        match self {
            Self::Double(values) => out.extend(values.iter()),
            Self::Single(values) => out.extend(values.iter().map(f64::from)),
            Self::Long(values) => out.extend(values.iter().map(|value| value as f64)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl ValuesView<'_> {
    /// Some of the cells.
    pub(crate) fn slice(&self, rows: Range<usize>) -> Self {
        match *self {
            Self::Number { values, integer } => Self::Number { values: values.slice(rows), integer },
            Self::Bool(values) => Self::Bool(&values[rows]),
            Self::Text { codes, levels } => Self::Text { codes: &codes[rows], levels },
        }
    }

    /// The numbers of these rows; none if the cells are of another kind.
    pub(crate) fn numbers_of(&self, rows: &[usize]) -> Option<Vec<f64>> {
        match self {
            Self::Number { values, .. } => Some(rows.iter().map(|&row| values.get(row)).collect()),
            Self::Bool(_) | Self::Text { .. } => None,
        }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Number { values, .. } => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text { codes, .. } => codes.len(),
        }
    }

    /// True if there is no cell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where cell `row` is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Self::Number { values, .. } => values.get(row).is_nan(),
            Self::Bool(values) => values[row].is_none(),
            Self::Text { codes, .. } => codes[row] == MISSING,
        }
    }
}

impl<'a> TableView<'a> {
    /// A view of `columns`, checked: distinct names, equal lengths, no infinity, no code without a level.
    ///
    /// # Errors
    /// Names the column, and the row where there is one.
    pub fn new(source: &'a str, columns: Vec<ColumnView<'a>>) -> Result<Self, DataError> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        let view = Self { source, columns, rows, own_target: None };
        view.check()?;
        Ok(view)
    }

    pub(crate) fn check(&self) -> Result<(), DataError> {
        check_distinct(self.source, self.columns.iter().map(|column| column.name))?;
        self.check_lengths()?;
        self.columns.iter().try_for_each(|column| self.check_cells(column))
    }

    fn check_lengths(&self) -> Result<(), DataError> {
        match self.columns.iter().find(|column| column.values.len() != self.rows) {
            None => Ok(()),
            Some(column) => Err(DataError::ColumnLength {
                file: self.source.to_owned(),
                column: column.name.to_owned(),
                found: column.values.len(),
                expected: self.rows,
            }),
        }
    }

    fn check_cells(&self, column: &ColumnView<'_>) -> Result<(), DataError> {
        let infinite = match &column.values {
            ValuesView::Number { values, .. } => {
                values.iter().position(f64::is_infinite).map(|row| (row, values.get(row).to_string()))
            }
            ValuesView::Text { codes, levels } => {
                let unknown = |&code: &u32| code != MISSING && code as usize >= levels.len();
                codes.iter().position(unknown).map(|row| (row, format!("level {}", codes[row])))
            }
            ValuesView::Bool(_) => None,
        };
        match infinite {
            None => Ok(()),
            Some((row, value)) => Err(DataError::NonFinite {
                file: self.source.to_owned(),
                column: column.name.to_owned(),
                place: Place { row, line: None },
                value,
            }),
        }
    }
}
