//! Arrow cells as text and as JSON: every value as it is, whatever its type.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::ArrowError;
use arrow_schema::{DataType, TimeUnit};
use serde_json::Value;

/// The cells of one column, ready to be written.
pub(crate) struct CellTexts {
    array: ArrayRef,
    /// What follows each cell: times of a zone are written in UTC, and say so.
    suffix: &'static str,
}

impl CellTexts {
    pub(crate) fn new(array: &ArrayRef) -> Self {
        match in_utc(array) {
            Some(array) => Self { array, suffix: "Z" },
            None => Self { array: array.clone(), suffix: "" },
        }
    }

    /// Hands the text of each cell, or none if it is null, to `each`.
    pub(crate) fn for_each<E>(&self, mut each: impl FnMut(Option<&str>) -> Result<(), E>) -> Result<(), E> {
        let options = FormatOptions::default().with_display_error(false);
        let formatter = ArrayFormatter::try_new(self.array.as_ref(), &options).ok();
        let mut text = String::new();
        for row in 0..self.array.len() {
            if self.array.is_null(row) {
                each(None)?;
                continue;
            }
            text.clear();
            let written =
                formatter.as_ref().is_some_and(|cells| write!(text, "{}", cells.value(row)).is_ok());
            if written {
                text.push_str(self.suffix);
            } else {
                text = self.stored(row);
            }
            each(Some(&text))?;
        }
        Ok(())
    }

    /// What stands in the file for a date that no calendar shows, or for a type that cannot be spelled.
    fn stored(&self, row: usize) -> String {
        let cell = self.array.slice(row, 1);
        let wide = if cell.data_type().primitive_width() == Some(4) {
            cast(&cell, &DataType::Int32).and_then(|cell| cast(&cell, &DataType::Int64))
        } else {
            cast(&cell, &DataType::Int64)
        };
        match wide {
            Ok(number) if !number.is_null(0) => number.as_primitive::<Int64Type>().value(0).to_string(),
            _ => format!("{cell:?}").split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Times of a zone as the same instants without one.
fn in_utc(array: &ArrayRef) -> Option<ArrayRef> {
    fn stripped<T>(array: &ArrayRef) -> ArrayRef
    where
        T: arrow_array::types::ArrowTimestampType,
    {
        std::sync::Arc::new(array.as_primitive::<T>().clone().with_timezone_opt(None::<String>))
    }
    let DataType::Timestamp(unit, Some(_)) = array.data_type() else { return None };
    Some(match unit {
        TimeUnit::Second => stripped::<TimestampSecondType>(array),
        TimeUnit::Millisecond => stripped::<TimestampMillisecondType>(array),
        TimeUnit::Microsecond => stripped::<TimestampMicrosecondType>(array),
        TimeUnit::Nanosecond => stripped::<TimestampNanosecondType>(array),
    })
}

/// The cells as JSON values: numbers and booleans where JSON has them, text for all else.
pub(crate) fn json_values(array: &ArrayRef) -> Result<Vec<Value>, ArrowError> {
    fn finite(value: f64, shown: impl Into<Value>) -> Value {
        if value.is_finite() { shown.into() } else { Value::Null }
    }
    let kind = array.data_type();
    let present = |row: usize, value: &dyn Fn(usize) -> Value| {
        if array.is_null(row) { Value::Null } else { value(row) }
    };
    let all = |value: &dyn Fn(usize) -> Value| (0..array.len()).map(|row| present(row, value)).collect();
    Ok(match kind {
        DataType::Boolean => {
            let cells = array.as_boolean();
            all(&|row| cells.value(row).into())
        }
        DataType::Float64 => {
            let cells = array.as_primitive::<Float64Type>();
            all(&|row| finite(cells.value(row), cells.value(row)))
        }
        DataType::Float32 => {
            let cells = array.as_primitive::<Float32Type>();
            // By way of its own digits: widened first, 0.1 would show the rounding of single precision.
            all(&|row| {
                finite(cells.value(row).into(), cells.value(row).to_string().parse::<f64>().unwrap_or(0.0))
            })
        }
        _ if kind.is_unsigned_integer() => {
            let wide = cast(array, &DataType::UInt64)?;
            let cells = wide.as_primitive::<UInt64Type>();
            all(&|row| cells.value(row).into())
        }
        _ if kind.is_signed_integer() => {
            let wide = cast(array, &DataType::Int64)?;
            let cells = wide.as_primitive::<Int64Type>();
            all(&|row| cells.value(row).into())
        }
        _ => {
            let mut values = Vec::with_capacity(array.len());
            CellTexts::new(array).for_each(|text| {
                values.push(text.map_or(Value::Null, Into::into));
                Ok::<(), ArrowError>(())
            })?;
            values
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Date32Array, Date64Array, Float32Array, TimestampMicrosecondArray, UInt64Array};

    use super::*;

    fn texts(array: impl arrow_array::Array + 'static) -> Vec<Option<String>> {
        let mut found = Vec::new();
        let array: ArrayRef = Arc::new(array);
        CellTexts::new(&array)
            .for_each(|text| {
                found.push(text.map(str::to_owned));
                Ok::<(), ()>(())
            })
            .unwrap();
        found
    }

    #[test]
    fn times_of_a_zone_are_written_in_utc() {
        for zone in ["Europe/Berlin", "UTC", "+02:00", "Mars/Olympus"] {
            let times = TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone(zone);
            assert_eq!(texts(times), [Some("1970-01-01T00:00:00Z".to_owned()), None], "{zone}");
        }
    }

    #[test]
    fn dates_beyond_the_calendar_are_their_numbers() {
        assert_eq!(texts(Date32Array::from(vec![i32::MAX])), [Some(i32::MAX.to_string())]);
        assert_eq!(texts(Date64Array::from(vec![i64::MAX])), [Some(i64::MAX.to_string())]);
        let times = TimestampMicrosecondArray::from(vec![i64::MIN]).with_timezone("UTC");
        assert_eq!(texts(times), [Some(i64::MIN.to_string())]);
    }

    #[test]
    fn json_keeps_every_digit() {
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert_eq!(json_values(&large).unwrap(), [Value::from(u64::MAX)]);
        let single: ArrayRef = Arc::new(Float32Array::from(vec![0.1, f32::NAN]));
        assert_eq!(json_values(&single).unwrap(), [Value::from(0.1), Value::Null]);
    }
}
