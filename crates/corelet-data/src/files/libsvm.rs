//! LIBSVM text: a target and the non-zero features of each row.

use std::collections::HashMap;

use arrow_array::{Float64Array, Int64Array};
use memchr::memrchr;

use super::cells::{CellColumn, check_range, within};
use super::content::Content;
use super::text_file::{Chunk, TextFile, is_too_long, too_long};
use crate::error::DataError;
use crate::listing::excerpt;
use crate::scan::blocks::{
    Batch, BatchColumn, Block, Blocks, ColumnInfo, Declared, Fault, Kind, Visit, Wanted, Worked, in_order,
};
use crate::scan::memory;
use crate::scan::place::{Extent, Place, Runs};
use crate::scan::source::{Reader, Stored};
use crate::scan::table::{MAX_COLUMNS, Values};
use crate::scan::text_cells::Markers;

/// Cells of a dense batch.
const BATCH_CELLS: usize = 1 << 19;

/// `target index:value ...` lines, indices from 1 and ascending, as columns `x1` ... `xD` and `y`.
pub(crate) struct LibsvmText {
    text: TextFile,
    columns: Vec<ColumnInfo>,
}

/// A row: its target and its entries, by feature from 0.
#[derive(Debug, PartialEq)]
struct Row {
    target: f64,
    entries: Vec<(usize, f64)>,
}

impl LibsvmText {
    /// Goes through the text once, for the number of features and to see that every line can be read.
    pub(crate) fn open(content: Content) -> Result<Self, DataError> {
        let mut text = Self { text: TextFile::new(content)?, columns: Vec::new() };
        let (mut width, mut rows) = (0, 0u64);
        let work = |chunk: Chunk| {
            let mut width = 0;
            let extent = text.for_each_row(&chunk, |_, row| {
                width = row.entries.last().map_or(width, |&(feature, _)| width.max(feature + 1));
                Ok(())
            })?;
            Ok(Worked { result: width, extent, upto: chunk.upto })
        };
        in_order(text.chunks()?, Extent::default(), work, |_, worked| {
            width = width.max(worked.result);
            rows += worked.extent.rows as u64;
            Ok(())
        })?;
        let needed = rows.saturating_mul(width as u64).saturating_mul(4);
        memory::require(text.text.name(), format!("{rows} rows of {width} features"), needed)?;
        let number = |name| ColumnInfo::new(name, Declared::Kind(Kind::Number));
        text.columns = (1..=width).map(|j| number(format!("x{j}"))).collect();
        text.columns.push(number("y".to_owned()));
        Ok(text)
    }

    fn chunks(&self) -> Result<impl Iterator<Item = Result<Chunk, DataError>> + Send + 'static, DataError> {
        self.text.chunks(|text| memrchr(b'\n', text).map(|at| at + 1))
    }

    fn for_each_row(
        &self,
        chunk: &Chunk,
        mut each: impl FnMut(Place, Row) -> Result<(), Fault>,
    ) -> Result<Extent, Fault> {
        let mut extent = Extent::default();
        let long = is_too_long(&chunk.text);
        for line in chunk.text.split_inclusive(|&byte| byte == b'\n') {
            extent.lines += 1;
            let place = Place { row: extent.rows, line: Some(extent.lines) };
            let fail = |wrong: Wrong| {
                let file = self.text.name().to_owned();
                Fault::at(place, move |place| wrong.at(file, place))
            };
            if long && line.len() == chunk.text.len() {
                let file = self.text.name().to_owned();
                return Err(Fault::at(place, move |place| too_long(&file, place)));
            }
            let line =
                std::str::from_utf8(line).map_err(|_| fail(Wrong::Syntax("it is not UTF-8".to_owned())))?;
            let content = line.split('#').next().unwrap_or_default();
            if !content.trim().is_empty() {
                each(place, parse_row(content).map_err(fail)?)?;
                extent.rows += 1;
            }
        }
        Ok(extent)
    }

    fn read_chunk(
        &self,
        chunk: &Chunk,
        wanted: &[Wanted],
        markers: &Markers,
        visit: &mut Visit<'_>,
    ) -> Result<Extent, Fault> {
        let mut rows = Vec::new();
        let mut lines = Runs::default();
        let extent = self.for_each_row(chunk, |place, row| {
            lines.note(place.row, place.line.unwrap_or_default());
            rows.push(row);
            Ok(())
        })?;
        let slots: HashMap<usize, usize> =
            wanted.iter().enumerate().map(|(slot, wanted)| (wanted.column, slot)).collect();
        let target = self.columns.len() - 1;
        let step = (BATCH_CELLS / wanted.len().max(1)).max(1);
        for (start, rows) in (0..).step_by(step).zip(rows.chunks(step)) {
            let zero = markers.number(0.0);
            let mut columns = vec![vec![zero; rows.len()]; wanted.len()];
            for (i, row) in rows.iter().enumerate() {
                for &(feature, value) in row.entries.iter().chain([&(target, row.target)]) {
                    if let Some(&slot) = slots.get(&feature) {
                        columns[slot][i] = markers.number(value);
                    }
                }
            }
            let values = columns.into_iter().map(|values| Values::Number { values, integer: false });
            let values: Vec<Values> = values.collect();
            let columns =
                values.iter().map(|values| BatchColumn { kind: Some(Kind::Number), values: values.view() });
            visit(&Batch { start, rows: rows.len(), columns: columns.collect(), lines: Some(&lines) })?;
        }
        Ok(extent)
    }
}

impl Reader for LibsvmText {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn stored(&self) -> Option<&dyn Stored> {
        Some(&self.text.content)
    }

    fn own_target(&self) -> Option<usize> {
        Some(self.columns.len() - 1)
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        Ok(Box::new(self.chunks()?.map(move |chunk| {
            let chunk = chunk?;
            Ok(Block::new(chunk.upto, move |visit| self.read_chunk(&chunk, wanted, markers, visit)))
        })))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        let target = self.columns.len() - 1;
        let mut columns = vec![vec![0.0; rows.len()]; self.columns.len()];
        let work = |chunk: Chunk| {
            let mut found = Vec::new();
            let extent = self.for_each_row(&chunk, |_, row| {
                found.push(row);
                Ok(())
            })?;
            Ok(Worked { result: found, extent, upto: chunk.upto })
        };
        let mut total = 0;
        in_order(self.chunks()?, Extent::default(), work, |before, worked| {
            total += worked.extent.rows;
            for position in within(rows, before.rows, worked.extent.rows) {
                let row = &worked.result[rows[position] - before.rows];
                for &(feature, value) in row.entries.iter().chain([&(target, row.target)]) {
                    columns[feature][position] = value;
                }
            }
            Ok(())
        })?;
        check_range(self.text.name(), rows, total)?;
        let named = self.columns.iter().zip(columns);
        Ok(named.map(|(info, values)| numbers_as_cells(&info.name, &values)).collect())
    }
}

/// Numbers as integers where all of them are, NaN as missing.
pub(crate) fn numbers_as_cells(name: &str, values: &[f64]) -> CellColumn {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = values.iter().all(|value| value.is_nan() || (value.fract() == 0.0 && value.abs() <= EXACT));
    let present = values.iter().map(|&value| Some(value).filter(|value| !value.is_nan()));
    let values: arrow_array::ArrayRef = if whole {
        std::sync::Arc::new(present.map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
    } else {
        std::sync::Arc::new(present.collect::<Float64Array>())
    };
    CellColumn { name: name.to_owned(), values, spelling: None }
}

/// What is wrong with a line, before the file and the line are known.
#[derive(Debug, PartialEq)]
enum Wrong {
    Syntax(String),
    Infinite { column: String, value: String },
}

impl Wrong {
    fn at(self, file: String, place: Place) -> DataError {
        match self {
            Self::Syntax(reason) => DataError::BadLine { file, place, reason },
            Self::Infinite { column, value } => DataError::NonFinite { file, column, place, value },
        }
    }
}

fn parse_row(content: &str) -> Result<Row, Wrong> {
    let mut fields = content.split_ascii_whitespace();
    let target = parse_number(fields.next().unwrap_or_default(), || "y".to_owned())?;
    let mut entries: Vec<(usize, f64)> = Vec::new();
    for field in fields {
        let (index, value) = parse_entry(field)?;
        if let Some(last) = entries.last().map(|&(feature, _)| feature + 1).filter(|&last| index <= last) {
            return Err(Wrong::Syntax(format!("index {index} follows {last}; indices must ascend from 1")));
        }
        entries.push((index - 1, value));
    }
    Ok(Row { target, entries })
}

fn parse_entry(field: &str) -> Result<(usize, f64), Wrong> {
    let malformed = || Wrong::Syntax(format!("'{}' is not index:value", excerpt(field)));
    let (index, value) = field.split_once(':').ok_or_else(malformed)?;
    let index: usize = index.parse().map_err(|_| malformed())?;
    if index == 0 || index > MAX_COLUMNS {
        return Err(Wrong::Syntax(format!("index {index} is not in 1 to {MAX_COLUMNS}")));
    }
    Ok((index, parse_number(value, || format!("x{index}"))?))
}

fn parse_number(text: &str, column: impl FnOnce() -> String) -> Result<f64, Wrong> {
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() => Err(Wrong::Infinite { column: column(), value: text.to_owned() }),
        Ok(value) => Ok(value),
        Err(_) => Err(Wrong::Syntax(format!("column '{}': '{}' is not a number", column(), excerpt(text)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sparse() {
        let row = parse_row("-1 1:3 3:0.5").unwrap();
        assert_eq!(row, Row { target: -1.0, entries: vec![(0, 3.0), (2, 0.5)] });
    }

    #[test]
    fn malformed_entries_are_refused() {
        for line in ["a 1:2", "1 2", "1 0:1", "1 2:1 2:1", "1 1:x", "1 99999999:1", "1 1:inf", "1 qid:3"] {
            assert!(parse_row(line).is_err(), "{line}");
        }
    }
}
