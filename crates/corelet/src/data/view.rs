//! A table as the design sees it: columns borrowed from a [`Table`](super::Table) or from arrays that a caller owns.

use arrow::array::{Array, ArrayRef};

use super::error::{DataError, list_names};
use super::table::{Lines, MISSING, Place, check_distinct};

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
    /// The line of each row, for text formats.
    pub lines: Option<&'a Lines>,
}

/// One named column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnView<'a> {
    /// The name, unique in its table.
    pub name: &'a str,
    /// The cells.
    pub values: ValuesView<'a>,
}

/// The cells of a column; what each means is said at [`Values`](super::Values).
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
    /// A type without a numeric meaning.
    Other(&'a ArrayRef),
}

/// Numbers at a fixed stride in memory that belongs to someone else: a vector, or one column of a matrix.
#[derive(Debug, Clone, Copy)]
pub enum Numbers<'a> {
    /// f64.
    Double(Strided<'a, f64>),
    /// f32, each widened as it is read.
    Single(Strided<'a, f32>),
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

    fn get(&self, row: usize) -> T {
        self.entries[self.start + row * self.stride]
    }
}

impl Numbers<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Double(values) => values.len(),
            Self::Single(values) => values.len(),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of `row`.
    pub fn get(&self, row: usize) -> f64 {
        match self {
            Self::Double(values) => values.get(row),
            Self::Single(values) => f64::from(values.get(row)),
        }
    }

    /// Hands the number of each of `rows`, in order, to `each`.
    pub(super) fn for_each(&self, rows: &[usize], mut each: impl FnMut(usize, f64)) {
        let rows = rows.iter().enumerate();
        match self {
            Self::Double(values) => rows.for_each(|(i, &row)| each(i, values.get(row))),
            Self::Single(values) => rows.for_each(|(i, &row)| each(i, f64::from(values.get(row)))),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = f64> {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl ValuesView<'_> {
    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Number { values, .. } => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text { codes, .. } => codes.len(),
            Self::Other(array) => array.len(),
        }
    }

    /// True where there is no cell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where cell `row` is missing.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Self::Number { values, .. } => values.get(row).is_nan(),
            Self::Bool(values) => values[row].is_none(),
            Self::Text { codes, .. } => codes[row] == MISSING,
            Self::Other(array) => array.is_null(row),
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
        let view = Self { source, columns, rows, own_target: None, lines: None };
        view.check()?;
        Ok(view)
    }

    /// The column called `name`.
    ///
    /// # Errors
    /// Where there is none, naming those that there are.
    pub fn column(&self, name: &str) -> Result<ColumnView<'a>, DataError> {
        self.columns.iter().copied().find(|column| column.name == name).ok_or_else(|| {
            DataError::UnknownColumn {
                file: self.source.to_owned(),
                column: name.to_owned(),
                known: self.known_columns(),
            }
        })
    }

    /// Where `row` is, for messages.
    pub fn place(&self, row: usize) -> Place {
        Place { row, line: self.lines.map(|lines| lines.line(row)) }
    }

    /// The column names, for messages.
    pub(super) fn known_columns(&self) -> String {
        list_names(&self.columns.iter().map(|column| column.name).collect::<Vec<_>>())
    }

    pub(super) fn check(&self) -> Result<(), DataError> {
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
            ValuesView::Bool(_) | ValuesView::Other(_) => None,
        };
        match infinite {
            None => Ok(()),
            Some((row, value)) => Err(DataError::NonFinite {
                file: self.source.to_owned(),
                column: column.name.to_owned(),
                place: self.place(row),
                value,
            }),
        }
    }
}
