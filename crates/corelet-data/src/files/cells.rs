//! The cells of chosen rows as they are in the file, with their types.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, UInt64Array,
};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::error::DataError;
use crate::scan::blocks::ColumnInfo;
use crate::scan::view::{Numbers, ValuesView};

/// The integers that a double holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The chosen cells of one column.
#[derive(Debug, Clone)]
pub(crate) struct CellColumn {
    pub(crate) name: String,
    /// The cells, in the type that the file has for them, or one that loses nothing.
    pub(crate) values: ArrayRef,
    /// How a text file spells them.
    pub(crate) spelling: Option<ArrayRef>,
}

/// The cells of chosen rows, all columns of the file.
#[derive(Debug, Clone)]
pub struct RowCells {
    pub(crate) rows: Vec<usize>,
    pub(crate) columns: Vec<CellColumn>,
}

impl RowCells {
    /// The rows of the file, in the order in which they were asked for.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The same cells under other row numbers, as where they were gathered before.
    pub fn with_rows(self, rows: Vec<usize>) -> Self {
        Self { rows, ..self }
    }

    /// The columns by name, as Arrow arrays.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&str, &ArrayRef)> {
        self.columns.iter().map(|column| (column.name.as_str(), &column.values))
    }
}

/// Those of the sorted `rows` that are among `count` from `first` on, by their positions.
pub(crate) fn within(rows: &[usize], first: usize, count: usize) -> Range<usize> {
    let start = rows.partition_point(|&row| row < first);
    start..rows.partition_point(|&row| row < first.saturating_add(count))
}

/// Refuses sorted `rows` that the file does not have.
pub(crate) fn check_range(file: &str, rows: &[usize], total: usize) -> Result<(), DataError> {
    match rows.last() {
        Some(&row) if row >= total => {
            Err(DataError::RowOutOfRange { file: file.to_owned(), row, rows: total })
        }
        _ => Ok(()),
    }
}

/// Parts that were gathered one after another, as columns of `count` cells.
pub(crate) fn gathered(
    file: &str,
    format: &'static str,
    columns: &[ColumnInfo],
    parts: &[Vec<ArrayRef>],
    count: usize,
) -> Result<Vec<CellColumn>, DataError> {
    let joined = columns.iter().zip(parts).map(|(info, parts)| {
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let values = concat(&parts).map_err(|e| DataError::damaged(file, format, &e))?;
        if values.len() != count {
            return Err(DataError::Changed { file: file.to_owned() });
        }
        Ok(CellColumn { name: info.name.clone(), values, spelling: None })
    });
    joined.collect()
}

/// Puts the cells of sorted, distinct rows into the order in which `wanted` names them.
pub(crate) fn in_order(
    columns: Vec<CellColumn>,
    sorted: &[usize],
    wanted: &[usize],
) -> Result<Vec<CellColumn>, ArrowError> {
    let positions = wanted.iter().map(|&row| sorted.partition_point(|&other| other < row) as u64);
    let positions = UInt64Array::from_iter_values(positions);
    let reordered = columns.into_iter().map(|column| {
        let CellColumn { name, values, spelling } = column;
        let values = take(&values, &positions, None)?;
        let spelling = spelling.map(|texts| take(&texts, &positions, None)).transpose()?;
        Ok(CellColumn { name, values, spelling })
    });
    reordered.collect()
}

/// Chosen cells of a column in memory, in a type that loses nothing.
pub(crate) fn of_values(values: &ValuesView<'_>, rows: &[usize]) -> ArrayRef {
    match values {
        ValuesView::Number { values: Numbers::Long(values), .. } => {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|&row| values.get(row))))
        }
        ValuesView::Number { values, integer } => {
            let chosen = rows.iter().map(|&row| Some(values.get(row)).filter(|value| !value.is_nan()));
            if *integer && values.iter().all(|value| value.is_nan() || value.abs() <= EXACT) {
                return Arc::new(chosen.map(|value| value.map(|v| v as i64)).collect::<Int64Array>());
            }
            match values {
                Numbers::Single(_) => {
                    Arc::new(chosen.map(|value| value.map(|v| v as f32)).collect::<Float32Array>())
                }
                _ => Arc::new(chosen.collect::<Float64Array>()),
            }
        }
        ValuesView::Bool(values) => Arc::new(rows.iter().map(|&row| values[row]).collect::<BooleanArray>()),
        ValuesView::Text { codes, levels } => {
            Arc::new(rows.iter().map(|&row| levels.get(codes[row] as usize)).collect::<StringArray>())
        }
    }
}
