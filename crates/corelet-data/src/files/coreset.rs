//! Reading back a coreset file: which rows, with what weights, and whether they are rows of these data.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::cell_text::CellTexts;
use super::cells::RowCells;
use super::content::{Content, source_name};
use super::parquet::ParquetFile;
use super::write::{Output, written_names};
use crate::design::encoding::Encoding;
use crate::error::DataError;
use crate::listing::excerpt;
use crate::scan::source::Source;
use crate::scan::table::{Column, Table, Values};

/// Under this name a file's metadata have the summary of what is in it.
const SUMMARY: &str = "corelet";

/// Under this name they have the Gaussian part of a coreset, without which its rows mean nothing.
pub(super) const REST: &str = "corelet.rest";

/// The largest plausible weight; a larger one is a mistake.
const MOST_WEIGHT: f64 = 1e30;

/// The content of a file written by [`write_rows`](crate::write_rows): CSV, Parquet or JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct CoresetFile {
    /// The rows of the data, distinct.
    pub rows: Vec<usize>,
    /// Their weights, finite and not negative.
    pub weights: Vec<f64>,
    /// The fingerprint of the observations on which it was built; CSV has no place for it.
    pub fingerprint: Option<String>,
    /// Other metadata, by key; empty for CSV.
    pub notes: BTreeMap<String, String>,
    file: String,
    /// The other columns, as text; none if a cell is missing.
    cells: Cells,
    /// The column of the weights.
    weight: &'static str,
}

const WEIGHT: &str = "weight";
const GROUP_WEIGHT: &str = "group_weight";

type Notes = BTreeMap<String, String>;
type Cells = BTreeMap<String, Vec<Option<String>>>;

/// Reads a coreset file.
///
/// # Errors
/// Names the file, and the row that is no row or has no weight.
pub fn read_coreset(path: &Path) -> Result<CoresetFile, DataError> {
    let file = source_name(path);
    let written = read_written(path, &file)?;
    if written.is_of_groups() {
        let reason = "its weights are those of groups with random effects integrated out, and no weights of rows; predict takes such a coreset";
        return Err(DataError::NotCoreset { file, reason: reason.to_owned() });
    }
    checked(written, file, WEIGHT)
}

/// Reads a coreset of groups, which has a note under this key; none if the file has not.
///
/// # Errors
/// See [`read_coreset`].
pub fn read_group_coreset(path: &Path, key: &str) -> Result<Option<CoresetFile>, DataError> {
    let file = source_name(path);
    let written = read_written(path, &file)?;
    if written.notes.contains_key(key) {
        return checked(written, file, GROUP_WEIGHT).map(Some);
    }
    if written.is_of_groups() {
        let reason = "its weights are those of groups, and it does not say of which model: CSV has no place for it, write the coreset as \
                      .parquet or .json";
        return Err(DataError::NotCoreset { file, reason: reason.to_owned() });
    }
    Ok(None)
}

impl Written {
    /// Whether it has weights of groups alone.
    fn is_of_groups(&self) -> bool {
        self.cells.contains_key(GROUP_WEIGHT) && !self.cells.contains_key(WEIGHT)
    }
}

/// The content of a file.
fn read_written(path: &Path, file: &str) -> Result<Written, DataError> {
    Ok(match Output::from_path(path)? {
        Output::Json => read_json(path, file)?,
        Output::Csv => read_table(&Source::open(path, None)?, Notes::new())?,
        Output::Parquet => {
            let parquet = ParquetFile::open(Content::open(path, &std::env::temp_dir())?)?;
            let notes = parquet.notes();
            read_table(&Source::of_reader(file.to_owned(), Box::new(parquet)), notes)?
        }
    })
}

fn checked(written: Written, file: String, weight: &'static str) -> Result<CoresetFile, DataError> {
    let Written { rows, cells, notes } = written;
    let refused = |reason: String| DataError::NotCoreset { file: file.clone(), reason };
    let cell_numbers = |name: &str| -> Result<Vec<f64>, DataError> {
        let known: Vec<&String> = cells.keys().collect();
        let texts = cells.get(name).ok_or_else(|| DataError::unknown_column(&file, name, &known))?;
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.trim().parse::<f64>().ok());
        texts
            .iter()
            .map(number)
            .collect::<Option<_>>()
            .ok_or_else(|| refused(format!("column '{name}' is not numeric")))
    };
    let weights = if rows.is_empty() { Vec::new() } else { cell_numbers(weight)? };
    check(&rows, &weights, notes.contains_key(REST))
        .map_err(|reason| DataError::NotCoreset { file: file.clone(), reason })?;
    let rows = rows.into_iter().map(|row| row as usize).collect();
    let known = notes.get(SUMMARY).map(|summary| Known::of_summary(summary)).unwrap_or_default();
    let Known { fingerprint } = known;
    Ok(CoresetFile { rows, weights, fingerprint, notes, file, cells, weight })
}

/// The content of a coreset file, before it is checked.
struct Written {
    rows: Vec<f64>,
    cells: Cells,
    notes: BTreeMap<String, String>,
}

/// The information about observations in a summary.
#[derive(Default, Deserialize)]
struct Known {
    fingerprint: Option<String>,
}

impl Known {
    fn of_summary(summary: &str) -> Self {
        serde_json::from_str(summary).unwrap_or_default()
    }
}

fn read_table(source: &Source<'_>, notes: BTreeMap<String, String>) -> Result<Written, DataError> {
    if !source.column_names().contains(&"row") {
        let reason = "it has no column 'row'; write one with build, or with fit --coreset".to_owned();
        return Err(DataError::NotCoreset { file: source.name().to_owned(), reason });
    }
    let rows = numbers(source, "row")?;
    let all: Vec<usize> = (0..rows.len()).collect();
    Ok(Written { rows, cells: texts(&source.cells(&all)?), notes })
}

impl CoresetFile {
    /// The columns that an encoding reads, as a table of their own.
    ///
    /// # Errors
    /// [`DataError::UnknownColumn`] where one is not in the file.
    pub fn source(&self, encoding: &Encoding) -> Result<Source<'static>, DataError> {
        let column = |(name, text): (&str, bool)| {
            // `row` and the weight are the coreset's own.
            let own = ["row", self.weight].contains(&name);
            let written = if own { format!("original_{name}") } else { name.to_owned() };
            let cells = self.cells.get(&written).ok_or_else(|| {
                let known: Vec<&String> = self.cells.keys().collect();
                DataError::unknown_column(&self.file, name, &known)
            })?;
            Ok(Column { name: name.to_owned(), values: values_of(cells, text) })
        };
        let columns = encoding.columns().into_iter().map(column).collect::<Result<Vec<_>, DataError>>()?;
        Ok(Source::of_table(Table::new(&self.file, columns)?))
    }

    /// The cells of some of its rows, by their places in the file, and then those of some rows of another source, all with the columns of
    /// this file; a column that is not there has no cells there. The rows have the numbers `numbers`.
    ///
    /// # Errors
    /// If `source` cannot be read.
    pub fn joined(
        &self,
        places: &[usize],
        (source, rows): (&Source<'_>, &[usize]),
        numbers: Vec<usize>,
    ) -> Result<RowCells, DataError> {
        let there = texts(&source.cells(rows)?);
        let names = source.column_names();
        let written = written_names(&names, &["weight"]);
        let find = |name: &String| {
            let at = written.iter().position(|written| written == name)?;
            there.get(names[at])
        };
        let column = |(name, here): (&String, &Vec<Option<String>>)| {
            let mut cells: Vec<Option<String>> = places.iter().map(|&place| here[place].clone()).collect();
            cells.extend(find(name).cloned().unwrap_or_else(|| vec![None; rows.len()]));
            Column { name: name.clone(), values: values_of(&cells, false) }
        };
        // A file of a Gaussian alone has no cell that could say which columns there were.
        let columns: Vec<Column> = if self.rows.is_empty() {
            let named = names.iter().zip(&written);
            named
                .filter_map(|(name, written)| Some((written, there.get(*name)?)))
                .map(|(name, cells)| Column { name: name.clone(), values: values_of(cells, false) })
                .collect()
        } else {
            self.cells.iter().map(column).collect()
        };
        let all: Vec<usize> = (0..numbers.len()).collect();
        Ok(Source::of_table(Table::new(&self.file, columns)?).cells(&all)?.with_rows(numbers))
    }

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
        for (name, written) in names.iter().zip(written_names(&names, &[self.weight])) {
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

fn texts(cells: &RowCells) -> Cells {
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

/// Cells as they look: numbers, booleans, else text.
fn values_of(cells: &[Option<String>], text: bool) -> Values {
    let each = |of: fn(&str) -> Option<f64>| {
        let values: Option<Vec<f64>> =
            cells.iter().map(|cell| cell.as_deref().map_or(Some(f64::NAN), of)).collect();
        values.filter(|_| !text)
    };
    if let Some(values) = each(|cell| cell.trim().parse().ok()) {
        return Values::Number { values, integer: false };
    }
    let truth = |cell: &Option<String>| match cell.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None => Some(None),
        Some("true") => Some(Some(true)),
        Some("false") => Some(Some(false)),
        _ => None,
    };
    match cells.iter().map(truth).collect::<Option<Vec<_>>>() {
        Some(values) if !text => Values::Bool(values),
        _ => Values::of_texts(cells.iter().cloned()),
    }
}

#[derive(Deserialize)]
struct JsonCoreset {
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    rows: Vec<JsonPoint>,
}

#[derive(Deserialize)]
struct JsonPoint {
    row: f64,
    #[serde(flatten)]
    cells: Map<String, Value>,
}

fn read_json(path: &Path, file: &str) -> Result<Written, DataError> {
    let coreset: JsonCoreset = serde_json::from_reader(Content::open(path, &std::env::temp_dir())?.reader(0))
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
    let rows = coreset.rows.iter().map(|point| point.row).collect();
    Ok(Written { rows, cells, notes: coreset.metadata })
}

fn numbers(source: &Source<'_>, name: &str) -> Result<Vec<f64>, DataError> {
    source.numbers(name)?.ok_or_else(|| DataError::NotCoreset {
        file: source.name().to_owned(),
        reason: format!("column '{name}' is not numeric"),
    })
}

fn check(rows: &[f64], weights: &[f64], has_rest: bool) -> Result<(), String> {
    if rows.is_empty() && !has_rest {
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
