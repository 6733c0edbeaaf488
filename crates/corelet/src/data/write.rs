//! Chosen rows of a table, with their weights, as CSV, Parquet or JSON: whole or not at all.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tempfile::NamedTempFile;

use super::error::DataError;
use super::table::Table;
use super::view::{ColumnView, TableView, ValuesView};

/// The integers that a float holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A column of an output that the table does not have.
#[derive(Debug, Clone, PartialEq)]
pub enum Extra {
    /// Numbers, such as weights.
    Float(Vec<f64>),
    /// Integers.
    Integer(Vec<i64>),
}

impl Extra {
    fn to_array(&self) -> ArrayRef {
        match self {
            Self::Float(values) => Arc::new(Float64Array::from(values.clone())),
            Self::Integer(values) => Arc::new(Int64Array::from(values.clone())),
        }
    }
}

/// What an output file can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Csv,
    Parquet,
    Json,
}

impl Output {
    pub(super) fn from_path(path: &Path) -> Result<Self, DataError> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Ok(Self::Csv),
            "parquet" | "pq" => Ok(Self::Parquet),
            "json" => Ok(Self::Json),
            _ => Err(DataError::UnknownOutput { file: path.to_path_buf() }),
        }
    }
}

/// Refuses, before any work is done, an output that could not be written after it.
pub fn ensure_writable(path: &Path) -> Result<(), DataError> {
    Output::from_path(path)?;
    if path.is_dir() {
        return Err(DataError::write(path, &"it is a folder"));
    }
    temporary_beside(path).map(drop)
}

/// Writes `rows` of `table` to `path`, as CSV, Parquet or JSON by its extension.
///
/// The first column is `row`, the number of the row in the input; then come the `extra` columns (by convention the
/// first is `weight`), then those of the table. A column of the table whose name is taken is called `original_...`.
/// `metadata` goes into Parquet's key-value metadata, or into `metadata` beside `rows` in JSON; CSV has no place for it.
/// A temporary file beside `path` is renamed at the end, so that nothing half-written is ever left.
pub fn write_rows(
    table: &Table,
    rows: &[usize],
    extra: &[(&str, Extra)],
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), DataError> {
    let view = table.view();
    let batch = chosen_rows(&view, rows, rows, extra, path)?;
    write_batch(&batch, metadata, path)
}

/// [`write_rows`] of a table that holds the chosen rows alone: row j of it was row `numbers[j]` of the input.
pub fn write_chosen(
    chosen: &TableView<'_>,
    numbers: &[usize],
    extra: &[(&str, Extra)],
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), DataError> {
    let rows: Vec<usize> = (0..numbers.len()).collect();
    let batch = chosen_rows(chosen, &rows, numbers, extra, path)?;
    write_batch(&batch, metadata, path)
}

/// Writes these columns, of equal length, to `path` in the same way. A name that is taken becomes `original_...`.
pub fn write_columns(
    columns: &[(String, Extra)],
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), DataError> {
    let mut taken = HashSet::new();
    let arrays = columns.iter().map(|(name, values)| (free_name(name, &mut taken), values.to_array(), false));
    let batch = RecordBatch::try_from_iter_with_nullable(arrays).map_err(|e| DataError::write(path, &e))?;
    write_batch(&batch, metadata, path)
}

fn write_batch(
    batch: &RecordBatch,
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), DataError> {
    let output = Output::from_path(path)?;
    let mut temporary = temporary_beside(path)?;
    let mut writer = BufWriter::new(temporary.as_file_mut());
    let written = match output {
        Output::Csv => write_csv(batch, &mut writer),
        Output::Parquet => write_parquet(batch, metadata, &mut writer),
        Output::Json => write_json(batch, metadata, &mut writer),
    };
    written.and_then(|()| Ok(writer.flush()?)).map_err(|e| DataError::write(path, &e))?;
    drop(writer);
    temporary.persist(path).map_err(|e| DataError::write(path, &e.error))?;
    Ok(())
}

type WriteResult = Result<(), Box<dyn std::error::Error>>;

fn temporary_beside(path: &Path) -> Result<NamedTempFile, DataError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".corelet-");
    readable_by_others(&mut builder);
    builder.tempfile_in(folder).map_err(|e| DataError::write(path, &e.kind()))
}

/// Temporary files are private by default; an output should be as readable as any other file the user makes.
#[cfg(unix)]
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_others(_builder: &mut tempfile::Builder<'_, '_>) {}

fn chosen_rows(
    table: &TableView<'_>,
    rows: &[usize],
    numbers: &[usize],
    extra: &[(&str, Extra)],
    path: &Path,
) -> Result<RecordBatch, DataError> {
    if let Some(&row) = rows.iter().find(|&&row| row >= table.rows) {
        return Err(DataError::RowOutOfRange { file: table.source.to_owned(), row, rows: table.rows });
    }
    let numbers = Int64Array::from_iter_values(numbers.iter().map(|&row| row as i64));
    let mut columns: Vec<(String, ArrayRef)> = vec![("row".to_owned(), Arc::new(numbers))];
    columns.extend(extra.iter().map(|(name, values)| ((*name).to_owned(), values.to_array())));
    let mut taken: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    for column in &table.columns {
        let array = gather(column, rows).map_err(|e| DataError::write(path, &e))?;
        columns.push((free_name(column.name, &mut taken), array));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .map_err(|e| DataError::write(path, &e))
}

fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut free = name.to_owned();
    while !taken.insert(free.clone()) {
        free.insert_str(0, "original_");
    }
    free
}

fn gather(column: &ColumnView<'_>, rows: &[usize]) -> Result<ArrayRef, arrow::error::ArrowError> {
    Ok(match column.values {
        ValuesView::Number { values, integer } => {
            let chosen = rows.iter().map(|&row| Some(values.get(row)).filter(|value| !value.is_nan()));
            if integer && values.iter().all(|value| value.is_nan() || value.abs() <= EXACT) {
                Arc::new(chosen.map(|value| value.map(|v| v as i64)).collect::<Int64Array>())
            } else {
                Arc::new(chosen.collect::<Float64Array>())
            }
        }
        ValuesView::Bool(values) => Arc::new(rows.iter().map(|&row| values[row]).collect::<BooleanArray>()),
        ValuesView::Text { codes, levels } => {
            Arc::new(rows.iter().map(|&row| levels.get(codes[row] as usize)).collect::<StringArray>())
        }
        ValuesView::Other(array) => {
            let indices = UInt64Array::from_iter_values(rows.iter().map(|&row| row as u64));
            arrow::compute::take(array, &indices, None)?
        }
    })
}

fn write_csv(batch: &RecordBatch, writer: &mut impl Write) -> WriteResult {
    let mut csv = ::csv::Writer::from_writer(writer);
    csv.write_record(batch.schema().fields().iter().map(|field| field.name()))?;
    let options = FormatOptions::default();
    let cells = batch
        .columns()
        .iter()
        .map(|array| ArrayFormatter::try_new(array.as_ref(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        for cell in &cells {
            csv.write_field(cell.value(row).try_to_string()?)?;
        }
        csv.write_record(None::<&[u8]>)?;
    }
    Ok(csv.flush()?)
}

fn write_parquet(
    batch: &RecordBatch,
    metadata: &BTreeMap<String, String>,
    writer: &mut (impl Write + Send),
) -> WriteResult {
    let pairs = metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(pairs))
        .build();
    let mut parquet = ArrowWriter::try_new(writer, batch.schema(), Some(properties))?;
    parquet.write(batch)?;
    parquet.close()?;
    Ok(())
}

fn write_json(
    batch: &RecordBatch,
    metadata: &BTreeMap<String, String>,
    writer: &mut impl Write,
) -> WriteResult {
    writer.write_all(b"{\"metadata\": ")?;
    serde_json::to_writer(&mut *writer, metadata)?;
    writer.write_all(b", \"rows\": [")?;
    for row in 0..batch.num_rows() {
        writer.write_all(if row == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *writer, &JsonRow { batch, row })?;
    }
    Ok(writer.write_all(b"\n]}\n")?)
}

/// A row as an object with its keys in column order.
struct JsonRow<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(self.batch.num_columns()))?;
        for (field, array) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            object.serialize_entry(field.name(), &json_cell(array, self.row))?;
        }
        object.end()
    }
}

fn json_cell(array: &ArrayRef, row: usize) -> serde_json::Value {
    if array.is_null(row) {
        return serde_json::Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        _ => arrow::util::display::array_value_to_string(array, row)
            .map_or(serde_json::Value::Null, Into::into),
    }
}
