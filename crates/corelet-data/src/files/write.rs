//! Chosen rows of a table, with their weights, as CSV, Parquet or JSON: whole or not at all.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::cell_text::{CellTexts, json_values};
use super::cells::RowCells;
use super::coreset::REST;
use super::output::{Sink, ensure_place, is_standard_output, write_whole};
use crate::error::DataError;

/// A column of an output that the table does not have.
#[derive(Debug, Clone, PartialEq)]
pub enum Extra {
    /// Numbers, such as weights.
    Float(Vec<f64>),
    /// Integers.
    Integer(Vec<i64>),
    /// Names.
    Text(Vec<String>),
}

impl Extra {
    fn to_array(&self) -> ArrayRef {
        match self {
            Self::Float(values) => Arc::new(Float64Array::from(values.clone())),
            Self::Integer(values) => Arc::new(Int64Array::from(values.clone())),
            Self::Text(values) => Arc::new(StringArray::from(values.clone())),
        }
    }
}

/// What an output file can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Csv,
    Parquet,
    Json,
}

impl Output {
    pub(crate) fn from_path(path: &Path) -> Result<Self, DataError> {
        if is_standard_output(path) {
            return Ok(Self::Csv);
        }
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
    ensure_place(path)
}

/// Writes chosen rows to `path`, as CSV, Parquet or JSON by its extension.
///
/// The first column is `row`, the number of the row in the input; then come the `extra` columns (by convention the
/// first is `weight`), then those of the source, every cell as it is there. A column of the source whose name is taken is
/// called `original_...`. `metadata` goes into Parquet's key-value metadata, or into `metadata` beside `rows` in JSON; CSV
/// has no place for it. The file is written by [`write_whole`], so that nothing half-written is ever left.
///
/// # Errors
/// Names the file.
pub fn write_rows(
    cells: &RowCells,
    extra: &[(&str, Extra)],
    metadata: &BTreeMap<String, String>,
    path: &Path,
) -> Result<(), DataError> {
    let output = Output::from_path(path)?;
    if output == Output::Csv && metadata.contains_key(REST) {
        return Err(DataError::write(
            path,
            &"CSV has no place for the Gaussian part of a coreset; write .parquet or .json",
        ));
    }
    let batch = batch_of(cells, extra, output).map_err(|e| DataError::write(path, &e))?;
    write_batch(&batch, metadata, path)
}

/// Some rows, and what stands before their cells.
pub type RowBlock = (RowCells, Vec<(String, Extra)>);

/// The same a block of rows at a time, until `next` has no more, so that no more than one is in memory; what `next` fails with is
/// returned, and nothing is written then.
///
/// # Errors
/// Those of `next`, and what names the file.
pub fn write_row_blocks<E: From<DataError>>(
    path: &Path,
    next: &mut dyn FnMut() -> Result<Option<RowBlock>, E>,
) -> Result<(), E> {
    let output = Output::from_path(path)?;
    let mut failed = None;
    let written = write_whole(path, |writer| {
        let mut batches = None;
        let mut writer = Some(writer);
        loop {
            let (cells, extra) = match next() {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    return Err("the work has ended before".into());
                }
            };
            let extra: Vec<(&str, Extra)> =
                extra.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
            let batch = batch_of(&cells, &extra, output)?;
            if let Some(writer) = writer.take() {
                batches = Some(Batches::begin(output, &batch, &BTreeMap::new(), writer)?);
            }
            if let Some(batches) = &mut batches {
                batches.write(&batch)?;
            }
        }
        batches.map_or(Ok(()), Batches::finish)
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(written?),
    }
}

/// Rows as they are written: their number, what is extra, and their cells.
fn batch_of(cells: &RowCells, extra: &[(&str, Extra)], output: Output) -> Result<RecordBatch, ArrowError> {
    let numbers = Int64Array::from_iter_values(cells.rows.iter().map(|&row| row as i64));
    let mut columns: Vec<(String, ArrayRef)> = vec![("row".to_owned(), Arc::new(numbers))];
    columns.extend(extra.iter().map(|(name, values)| ((*name).to_owned(), values.to_array())));
    let mut taken: HashSet<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    for column in &cells.columns {
        // What came from text goes to text as it was spelled.
        let spelled = column.spelling.as_ref().filter(|_| output == Output::Csv);
        columns.push((free_name(&column.name, &mut taken), spelled.unwrap_or(&column.values).clone()));
    }
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns)
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
    write_whole(path, |writer| {
        let mut batches = Batches::begin(output, batch, metadata, writer)?;
        batches.write(batch)?;
        batches.finish()
    })
}

type WriteResult = Result<(), Box<dyn std::error::Error>>;

/// The names that columns of a table get in an output, after `row` and these others.
pub(crate) fn written_names(names: &[&str], others: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = others.iter().chain(&["row"]).map(|&name| name.to_owned()).collect();
    names.iter().map(|name| free_name(name, &mut taken)).collect()
}

fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut free = name.to_owned();
    while !taken.insert(free.clone()) {
        free.insert_str(0, "original_");
    }
    free
}

/// A file that takes one batch of rows after the other, all with the columns of the first.
enum Batches<'w, 's> {
    Csv(Box<::csv::Writer<&'w mut Sink<'s>>>),
    Parquet(Box<ArrowWriter<&'w mut Sink<'s>>>),
    Json { writer: &'w mut Sink<'s>, rows: usize },
}

impl<'w, 's> Batches<'w, 's> {
    fn begin(
        output: Output,
        first: &RecordBatch,
        metadata: &BTreeMap<String, String>,
        writer: &'w mut Sink<'s>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        match output {
            Output::Csv => {
                let mut csv = ::csv::Writer::from_writer(writer);
                csv.write_record(first.schema().fields().iter().map(|field| field.name()))?;
                Ok(Self::Csv(Box::new(csv)))
            }
            Output::Parquet => {
                let pairs =
                    metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_key_value_metadata(Some(pairs))
                    .build();
                let parquet = ArrowWriter::try_new(writer, first.schema(), Some(properties))?;
                Ok(Self::Parquet(Box::new(parquet)))
            }
            Output::Json => {
                writer.write_all(b"{\"metadata\": ")?;
                serde_json::to_writer(&mut *writer, metadata)?;
                writer.write_all(b", \"rows\": [")?;
                Ok(Self::Json { writer, rows: 0 })
            }
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> WriteResult {
        match self {
            Self::Csv(csv) => {
                let columns: Vec<Vec<String>> = batch.columns().iter().map(texts).collect();
                for row in 0..batch.num_rows() {
                    csv.write_record(columns.iter().map(|cells| &cells[row]))?;
                }
            }
            Self::Parquet(parquet) => parquet.write(batch)?,
            Self::Json { writer, rows } => {
                let columns: Vec<Vec<serde_json::Value>> =
                    batch.columns().iter().map(json_values).collect::<Result<_, _>>()?;
                for row in 0..batch.num_rows() {
                    writer.write_all(if *rows == 0 { b"\n" } else { b",\n" })?;
                    serde_json::to_writer(&mut **writer, &JsonRow { batch, columns: &columns, row })?;
                    *rows += 1;
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> WriteResult {
        match self {
            Self::Csv(mut csv) => csv.flush()?,
            Self::Parquet(parquet) => drop(parquet.close()?),
            Self::Json { writer, .. } => writer.write_all(b"\n]}\n")?,
        }
        Ok(())
    }
}

fn texts(array: &ArrayRef) -> Vec<String> {
    let mut cells = Vec::with_capacity(array.len());
    let Ok(()) = CellTexts::new(array).for_each(|text| {
        cells.push(text.unwrap_or_default().to_owned());
        Ok::<(), Infallible>(())
    });
    cells
}

/// A row as an object with its keys in column order.
struct JsonRow<'a> {
    batch: &'a RecordBatch,
    columns: &'a [Vec<serde_json::Value>],
    row: usize,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(self.batch.num_columns()))?;
        for (field, cells) in self.batch.schema().fields().iter().zip(self.columns) {
            object.serialize_entry(field.name(), &cells[self.row])?;
        }
        object.end()
    }
}
