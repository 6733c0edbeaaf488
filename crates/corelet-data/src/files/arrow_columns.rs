//! Arrow arrays as columns, for Parquet and Arrow IPC.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::ArrowError;
use arrow_schema::{DataType, Schema};
use serde::Deserialize;

use crate::error::DataError;
use crate::scan::blocks::{Batch, BatchColumn, ColumnInfo, Declared, Fault, Kind, Visit, Wanted};
use crate::scan::table::{MISSING, Values, check_distinct, clean_name};
use crate::scan::text_cells::Markers;

/// The columns of a schema.
pub(crate) fn columns_of(file: &str, schema: &Schema) -> Result<Vec<ColumnInfo>, DataError> {
    let index = pandas_index(schema);
    let columns = schema.fields().iter().map(|field| ColumnInfo {
        name: clean_name(field.name()),
        declared: declared(field.data_type()),
        index: index.contains(field.name()),
    });
    let columns: Vec<ColumnInfo> = columns.collect();
    check_distinct(file, columns.iter().map(|column| column.name.as_str()))?;
    Ok(columns)
}

/// The columns that are the index of the data frame which was written, as pandas notes them.
fn pandas_index(schema: &Schema) -> Vec<String> {
    #[derive(Deserialize)]
    struct Pandas {
        index_columns: Vec<serde_json::Value>,
    }
    let noted = schema.metadata().get("pandas").and_then(|text| serde_json::from_str::<Pandas>(text).ok());
    let columns = noted.map(|noted| noted.index_columns).unwrap_or_default();
    columns.iter().filter_map(|column| column.as_str().map(str::to_owned)).collect()
}

fn declared(kind: &DataType) -> Declared {
    match kind {
        DataType::Dictionary(_, values) => match declared(values) {
            Declared::Kind(Kind::Text) => Declared::Categories,
            other => other,
        },
        DataType::Boolean => Declared::Kind(Kind::Bool),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Declared::Kind(Kind::Text),
        DataType::Null => Declared::Kind(Kind::Number),
        _ if kind.is_numeric() => Declared::Kind(Kind::Number),
        _ => Declared::Unsupported(kind.to_string()),
    }
}

/// Record batches as batches of wanted columns.
pub(crate) struct Decoder<'a> {
    file: &'a str,
    format: &'static str,
    wanted: &'a [Wanted],
    /// Where each wanted column is among those of a batch, which come in file order.
    positions: Vec<usize>,
    markers: &'a Markers,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(
        file: &'a str,
        format: &'static str,
        wanted: &'a [Wanted],
        markers: &'a Markers,
    ) -> Self {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_unstable_by_key(|&i| wanted[i].column);
        let mut positions = vec![0; wanted.len()];
        order.iter().enumerate().for_each(|(position, &i)| positions[i] = position);
        Self { file, format, wanted, positions, markers }
    }

    /// Decodes the wanted columns of rows that come after `start` others and hands them on.
    pub(crate) fn visit(
        &self,
        batch: &RecordBatch,
        start: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault> {
        let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(self.file, self.format, &reason);
        let columns = self.wanted.iter().zip(&self.positions).map(|(wanted, &position)| {
            let array = batch.columns().get(position).ok_or_else(|| damaged(&"a batch lacks columns"))?;
            values_of(array, wanted.kind.unwrap_or(Kind::Text), self.markers).map_err(|e| damaged(&e))
        });
        let columns = columns.collect::<Result<Vec<_>, DataError>>()?;
        let columns = columns.iter().zip(self.wanted);
        let columns =
            columns.map(|(values, wanted)| BatchColumn { kind: wanted.kind, values: values.view() });
        visit(&Batch { start, rows: batch.num_rows(), columns: columns.collect(), lines: None })
    }
}

/// The cells of an array as `kind`.
fn values_of(array: &ArrayRef, kind: Kind, markers: &Markers) -> Result<Values, ArrowError> {
    match kind {
        Kind::Number => {
            let mut values = numbers(array)?;
            if let Some(nulls) = array.logical_nulls() {
                let missing = values.iter_mut().zip(&nulls).filter(|(_, valid)| !valid);
                missing.for_each(|(value, _)| *value = f64::NAN);
            }
            if !markers.is_empty() {
                values.iter_mut().for_each(|value| *value = markers.number(*value));
            }
            Ok(Values::Number { values, integer: false })
        }
        Kind::Bool => Ok(Values::Bool(cast(array, &DataType::Boolean)?.as_boolean().iter().collect())),
        Kind::Text => texts(array, markers),
    }
}

/// All cells as doubles, whatever stands where one is missing.
fn numbers(array: &ArrayRef) -> Result<Vec<f64>, ArrowError> {
    fn wide<T: ArrowPrimitiveType>(array: &ArrayRef, double: impl Fn(T::Native) -> f64) -> Vec<f64> {
        array.as_primitive::<T>().values().iter().map(|&value| double(value)).collect()
    }
    Ok(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().values().to_vec(),
        DataType::Float32 => wide::<Float32Type>(array, f64::from),
        DataType::Int64 => wide::<Int64Type>(array, |value| value as f64),
        DataType::Int32 => wide::<Int32Type>(array, f64::from),
        DataType::Int16 => wide::<Int16Type>(array, f64::from),
        DataType::Int8 => wide::<Int8Type>(array, f64::from),
        DataType::UInt64 => wide::<UInt64Type>(array, |value| value as f64),
        DataType::UInt32 => wide::<UInt32Type>(array, f64::from),
        DataType::UInt16 => wide::<UInt16Type>(array, f64::from),
        DataType::UInt8 => wide::<UInt8Type>(array, f64::from),
        _ => cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().values().to_vec(),
    })
}

fn texts(array: &ArrayRef, markers: &Markers) -> Result<Values, ArrowError> {
    Ok(match array.data_type() {
        DataType::Dictionary(..) => return dictionary(array, markers),
        DataType::Utf8 => coded(array.as_string::<i32>().iter(), markers),
        DataType::LargeUtf8 => coded(array.as_string::<i64>().iter(), markers),
        DataType::Utf8View => coded(array.as_string_view().iter(), markers),
        _ => coded(cast(array, &DataType::LargeUtf8)?.as_string::<i64>().iter(), markers),
    })
}

/// Texts as codes, in the order in which they first come.
fn coded<'a>(texts: impl ExactSizeIterator<Item = Option<&'a str>>, markers: &Markers) -> Values {
    let mut index: HashMap<&str, u32> = HashMap::new();
    let mut levels = Vec::new();
    let mut codes = Vec::with_capacity(texts.len());
    for text in texts {
        let text = text.filter(|text| !markers.has_text(text.trim().as_bytes()));
        codes.push(text.map_or(MISSING, |text| {
            *index.entry(text).or_insert_with(|| {
                levels.push(text.to_owned());
                levels.len() as u32 - 1
            })
        }));
    }
    Values::Text { codes, levels }
}

/// Codes stay codes; the dictionary may hold a text twice, or a null.
fn dictionary(array: &ArrayRef, markers: &Markers) -> Result<Values, ArrowError> {
    let dictionary = array.as_any_dictionary();
    let Values::Text { codes: meaning, levels } = texts(dictionary.values(), markers)? else {
        return Err(ArrowError::CastError("a dictionary of dictionaries".to_owned()));
    };
    // Keys of a dictionary without a value must not be asked for.
    let keys = if meaning.is_empty() { vec![usize::MAX; array.len()] } else { dictionary.normalized_keys() };
    let code = |(row, key): (usize, usize)| {
        if array.is_null(row) { MISSING } else { meaning.get(key).copied().unwrap_or(MISSING) }
    };
    let codes = keys.into_iter().enumerate().map(code).collect();
    Ok(Values::Text { codes, levels })
}
