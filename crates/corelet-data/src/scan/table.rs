//! A table in memory: named columns of numbers, booleans or text.

use std::collections::HashMap;

use crate::error::DataError;
use crate::scan::view::{ColumnView, Numbers, Strided, TableView, ValuesView};

/// The code of a missing value in a text column.
pub const MISSING: u32 = u32::MAX;

/// Beyond this a dense design is hopeless, and a damaged file could ask for all the memory there is.
pub(crate) const MAX_COLUMNS: usize = 1 << 16;

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
    /// Numbers; every one is finite or, where missing, NaN.
    Number {
        /// The numbers. Integers beyond 2⁵³ are rounded.
        values: Vec<f64>,
        /// True where only integers can occur.
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
}

impl Values {
    /// Text cells, missing where there is none.
    pub(crate) fn of_texts(texts: impl Iterator<Item = Option<String>>) -> Self {
        let mut index: HashMap<String, u32> = HashMap::new();
        let mut levels = Vec::new();
        let code = |text: Option<String>| {
            text.map_or(MISSING, |text| {
                *index.entry(text).or_insert_with_key(|text| {
                    levels.push(text.clone());
                    levels.len() as u32 - 1
                })
            })
        };
        let codes = texts.map(code).collect();
        Self::Text { codes, levels }
    }

    /// So many missing cells, of booleans or of numbers.
    pub(crate) fn missing(bools: bool, count: usize) -> Self {
        if bools {
            Self::Bool(vec![None; count])
        } else {
            Self::Number { values: vec![f64::NAN; count], integer: false }
        }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// True if there is no cell.
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
        }
    }
}

impl Table {
    /// A table of `columns`, checked: distinct names, equal lengths, no infinity.
    pub fn new(source: impl Into<String>, columns: Vec<Column>) -> Result<Self, DataError> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        let table = Self { source: source.into(), columns, rows, own_target: None };
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
        }
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Result<&Column, DataError> {
        let found = self.columns.iter().find(|column| column.name == name);
        let known = || self.columns.iter().map(|column| &column.name).collect::<Vec<_>>();
        found.ok_or_else(|| DataError::unknown_column(&self.source, name, &known()))
    }
}

/// A column name without line breaks and the like, which would break up every message and table it appears in.
pub(crate) fn clean_name(name: &str) -> String {
    name.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Refuses a name that appears twice.
pub(crate) fn check_distinct<'a>(file: &str, names: impl Iterator<Item = &'a str>) -> Result<(), DataError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str, values: &[f64]) -> Column {
        Column { name: name.into(), values: Values::Number { values: values.to_vec(), integer: false } }
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
