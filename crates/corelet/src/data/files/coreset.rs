//! Reading back a coreset file: which rows, with what weights, and whether they are rows of these data.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::cell_text::CellTexts;
use super::cells::RowCells;
use super::content::{Content, source_name};
use super::write::{Output, written_names};
use crate::data::error::{DataError, excerpt};
use crate::data::source::Source;

/// A weight stands for so many rows; beyond this it is a slip.
const MOST_WEIGHT: f64 = 1e30;

/// What a file that [`write_rows`](crate::data::write_rows) wrote says, CSV, Parquet or JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct CoresetFile {
    /// The rows of the data, distinct.
    pub rows: Vec<usize>,
    /// Their weights, finite and not negative.
    pub weights: Vec<f64>,
    file: String,
    /// The other columns, as text; none where a cell is missing.
    cells: BTreeMap<String, Vec<Option<String>>>,
}

/// Reads a coreset file.
///
/// # Errors
/// Names the file, and the row that is no row or has no weight.
pub fn read_coreset(path: &Path) -> Result<CoresetFile, DataError> {
    let file = source_name(path);
    let (rows, weights, cells) = match Output::from_path(path)? {
        Output::Json => read_json(path, &file)?,
        Output::Csv | Output::Parquet => {
            let source = Source::open(path, None)?;
            let [rows, weights] = ["row", "weight"].map(|name| numbers(&source, name));
            let (rows, weights) = (rows?, weights?);
            let all: Vec<usize> = (0..rows.len()).collect();
            (rows, weights, texts(&source.cells(&all)?))
        }
    };
    check(&rows, &weights).map_err(|reason| DataError::NotCoreset { file: file.clone(), reason })?;
    Ok(CoresetFile { rows: rows.into_iter().map(|row| row as usize).collect(), weights, file, cells })
}

impl CoresetFile {
    /// Refuses a coreset whose rows are not those of `source`: every column that both have must have the same cells.
    ///
    /// # Errors
    /// [`DataError::OtherRows`] names the first row that differs; also where `source` cannot be read.
    pub fn check_rows(&self, source: &Source<'_>) -> Result<(), DataError> {
        if self.cells.is_empty() {
            return Ok(());
        }
        let there = texts(&source.cells(&self.rows)?);
        let names = source.column_names();
        for (name, written) in names.iter().zip(written_names(&names, &["weight"])) {
            let (Some(here), Some(there)) = (self.cells.get(&written), there.get(*name)) else { continue };
            let differs = |&i: &usize| !same(here[i].as_deref(), there[i].as_deref());
            if let Some(i) = (0..self.rows.len()).find(differs) {
                let show = |cell: &Option<String>| cell.as_deref().map_or("nothing".to_owned(), excerpt);
                let (here, there) = (show(&here[i]), show(&there[i]));
                let difference = format!("'{name}' is {here} in the coreset and {there} in the data");
                let (file, data) = (self.file.clone(), source.name().to_owned());
                return Err(DataError::OtherRows { file, data, row: self.rows[i], difference });
            }
        }
        Ok(())
    }
}

/// Whether two cells are the same, spelled by different formats.
fn same(a: Option<&str>, b: Option<&str>) -> bool {
    let missing = |cell: Option<&str>| cell.is_none_or(|text| text.trim().is_empty());
    let (Some(a), Some(b)) = (a, b) else { return missing(a) && missing(b) };
    let (a, b) = (a.trim(), b.trim());
    a.eq_ignore_ascii_case(b) || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

fn texts(cells: &RowCells) -> BTreeMap<String, Vec<Option<String>>> {
    let of_column = |column: &super::cells::CellColumn| {
        let mut texts = Vec::with_capacity(cells.rows.len());
        let Ok(()) = CellTexts::new(column.spelling.as_ref().unwrap_or(&column.values)).for_each(|text| {
            texts.push(text.map(str::to_owned));
            Ok::<(), Infallible>(())
        });
        (column.name.clone(), texts)
    };
    cells.columns.iter().map(of_column).collect()
}

#[derive(Deserialize)]
struct JsonCoreset {
    rows: Vec<JsonPoint>,
}

#[derive(Deserialize)]
struct JsonPoint {
    row: f64,
    weight: f64,
    #[serde(flatten)]
    cells: Map<String, Value>,
}

type Columns = (Vec<f64>, Vec<f64>, BTreeMap<String, Vec<Option<String>>>);

fn read_json(path: &Path, file: &str) -> Result<Columns, DataError> {
    let coreset: JsonCoreset = serde_json::from_reader(Content::open(path)?.reader(0))
        .map_err(|e| DataError::NotCoreset { file: file.to_owned(), reason: e.to_string() })?;
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let names = coreset.rows.first().map(|point| point.cells.keys().cloned().collect::<Vec<_>>());
    let column = |name: String| {
        let cells = coreset.rows.iter().map(|point| point.cells.get(&name).and_then(text));
        (name.clone(), cells.collect())
    };
    let cells = names.unwrap_or_default().into_iter().map(column).collect();
    let (rows, weights) = coreset.rows.iter().map(|point| (point.row, point.weight)).unzip();
    Ok((rows, weights, cells))
}

fn numbers(source: &Source<'_>, name: &str) -> Result<Vec<f64>, DataError> {
    source.numbers(name)?.ok_or_else(|| DataError::NotCoreset {
        file: source.name().to_owned(),
        reason: format!("column '{name}' is not numeric"),
    })
}

fn check(rows: &[f64], weights: &[f64]) -> Result<(), String> {
    if rows.is_empty() {
        return Err("it has no row".to_owned());
    }
    let mut seen = HashSet::new();
    for (i, (&row, &weight)) in rows.iter().zip(weights).enumerate() {
        if !(row >= 0.0 && row < 2f64.powi(53) && row.fract() == 0.0) {
            return Err(format!("column 'row', row {i}: {row} is not a row number"));
        }
        if !(0.0..=MOST_WEIGHT).contains(&weight) {
            return Err(format!("column 'weight', row {i}: {weight} is not a weight"));
        }
        if !seen.insert(row.to_bits()) {
            return Err(format!("column 'row', row {i}: row {row} appears twice"));
        }
    }
    Ok(())
}
