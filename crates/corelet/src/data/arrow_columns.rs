//! Arrow arrays to columns, for Parquet and Arrow IPC.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::error::ArrowError;

use super::error::DataError;
use super::table::{Column, Table, TextBuilder, Values, check_distinct, clean_name};

/// Collects record batches of one schema into a table.
pub(super) struct ArrowTable {
    file: String,
    format: &'static str,
    columns: Vec<(String, Builder)>,
}

enum Builder {
    Number { values: Vec<f64>, integer: bool },
    Bool(Vec<Option<bool>>),
    Text(TextBuilder),
    Other { kind: DataType, parts: Vec<ArrayRef> },
}

impl ArrowTable {
    /// An empty table with the columns of `schema`.
    pub(super) fn new(file: &str, format: &'static str, schema: &Schema) -> Result<Self, DataError> {
        let columns = schema.fields().iter().map(|field| (clean_name(field.name()), Builder::new(field)));
        let columns: Vec<(String, Builder)> = columns.collect();
        check_distinct(file, columns.iter().map(|(name, _)| name.as_str()))?;
        Ok(Self { file: file.to_owned(), format, columns })
    }

    /// Adds the rows of `batch`.
    pub(super) fn append(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        if batch.num_columns() != self.columns.len() {
            return Err(DataError::damaged(&self.file, self.format, &"a batch lacks columns"));
        }
        for ((_, builder), array) in self.columns.iter_mut().zip(batch.columns()) {
            builder.append(array).map_err(|e| DataError::damaged(&self.file, self.format, &e))?;
        }
        Ok(())
    }

    /// The table, checked.
    pub(super) fn finish(self) -> Result<Table, DataError> {
        let Self { file, format, columns } = self;
        let columns = columns
            .into_iter()
            .map(|(name, builder)| Ok(Column { name, values: builder.finish()? }))
            .collect::<Result<Vec<_>, ArrowError>>()
            .map_err(|e| DataError::damaged(&file, format, &e))?;
        Table::new(file, columns)
    }
}

impl Builder {
    fn new(field: &Field) -> Self {
        Self::for_type(field.data_type())
    }

    fn for_type(kind: &DataType) -> Self {
        match kind {
            DataType::Dictionary(_, values) => Self::for_type(values),
            DataType::Boolean => Self::Bool(Vec::new()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text(TextBuilder::default()),
            DataType::Null => Self::Number { values: Vec::new(), integer: false },
            _ if kind.is_integer() => Self::Number { values: Vec::new(), integer: true },
            _ if kind.is_numeric() => Self::Number { values: Vec::new(), integer: false },
            _ => Self::Other { kind: kind.clone(), parts: Vec::new() },
        }
    }

    fn append(&mut self, array: &ArrayRef) -> Result<(), ArrowError> {
        match self {
            Self::Number { values, .. } => {
                let numbers = cast(array, &DataType::Float64)?;
                values.extend(numbers.as_primitive::<Float64Type>().iter().map(|v| v.unwrap_or(f64::NAN)));
            }
            Self::Bool(values) => values.extend(cast(array, &DataType::Boolean)?.as_boolean().iter()),
            Self::Text(text) => append_text(text, array)?,
            Self::Other { parts, .. } => parts.push(array.clone()),
        }
        Ok(())
    }

    fn finish(self) -> Result<Values, ArrowError> {
        Ok(match self {
            Self::Number { values, integer } => Values::Number { values, integer },
            Self::Bool(values) => Values::Bool(values),
            Self::Text(text) => text.finish(),
            Self::Other { kind, parts } if parts.is_empty() => {
                Values::Other(arrow::array::new_empty_array(&kind))
            }
            Self::Other { parts, .. } => {
                Values::Other(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?)
            }
        })
    }
}

fn append_text(text: &mut TextBuilder, array: &ArrayRef) -> Result<(), ArrowError> {
    let strings = cast(array, &DataType::LargeUtf8)?;
    for value in strings.as_string::<i64>() {
        match value {
            Some(value) => text.push(value),
            None => text.push_missing(),
        }
    }
    Ok(())
}
