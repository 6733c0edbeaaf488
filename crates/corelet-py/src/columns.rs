//! NumPy arrays as the columns of a table, borrowed and never copied.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::ArrowError;
use arrow_schema::DataType;
use corelet::data::{ColumnView, Numbers, RowCells, Strided, TableView, ValuesView};
use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Failure, wrong_type};

/// The code of a missing boolean.
const MISSING_BOOL: u8 = 2;

/// One column, or the columns of one row-major matrix.
///
/// Python hands over `(names, array, integer, levels)`, the array C-contiguous: float64, float32 or int64 of one
/// or two dimensions; uint8 booleans with 2 for missing; or uint32 codes into `levels`, 2³² − 1 for missing.
pub(crate) struct Part<'py> {
    names: Vec<String>,
    cells: Cells<'py>,
    integer: bool,
}

enum Cells<'py> {
    Doubles(PyReadonlyArrayDyn<'py, f64>),
    Singles(PyReadonlyArrayDyn<'py, f32>),
    Longs(PyReadonlyArrayDyn<'py, i64>),
    Bools(Vec<Option<bool>>),
    Text { codes: PyReadonlyArray1<'py, u32>, levels: Vec<String> },
}

impl<'py> FromPyObject<'_, 'py> for Part<'py> {
    type Error = PyErr;

    fn extract(part: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Given<'py> = (Vec<String>, Bound<'py, PyAny>, bool, Option<Vec<String>>);
        let (names, array, integer, levels): Given<'py> = part.extract()?;
        let cells = if let Some(levels) = levels {
            Cells::Text { codes: readonly_vector(&array)?, levels }
        } else if let Ok(array) = array.cast::<PyArrayDyn<f64>>() {
            Cells::Doubles(array.try_readonly().map_err(PyErr::from)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            Cells::Singles(array.try_readonly().map_err(PyErr::from)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
            Cells::Longs(array.try_readonly().map_err(PyErr::from)?)
        } else {
            let codes: PyReadonlyArray1<'py, u8> = readonly_vector(&array)?;
            let decode = |&code: &u8| (code != MISSING_BOOL).then_some(code == 1);
            Cells::Bools(codes.as_slice()?.iter().map(decode).collect())
        };
        Ok(Self { names, cells, integer })
    }
}

fn readonly_vector<'py, T: Element>(array: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, T>> {
    let array = array.cast::<PyArray1<T>>().map_err(|_| {
        wrong_type(format!("a column is {array}, which is not an array of the type it should have"))
    })?;
    Ok(array.try_readonly()?)
}

impl Part<'_> {
    fn views(&self) -> PyResult<Vec<ColumnView<'_>>> {
        let numbers = |values| ValuesView::Number { values, integer: self.integer };
        let (width, dimensions) = match &self.cells {
            Cells::Doubles(array) => (self.names.len(), array.ndim()),
            Cells::Singles(array) => (self.names.len(), array.ndim()),
            Cells::Longs(array) => (self.names.len(), array.ndim()),
            Cells::Bools(_) | Cells::Text { .. } => (1, 1),
        };
        let width = if dimensions == 1 { 1 } else { width };
        let values = |column: usize| -> PyResult<ValuesView<'_>> {
            Ok(match &self.cells {
                Cells::Doubles(array) => {
                    numbers(Numbers::Double(Strided::column(array.as_slice()?, column, width)))
                }
                Cells::Singles(array) => {
                    numbers(Numbers::Single(Strided::column(array.as_slice()?, column, width)))
                }
                Cells::Longs(array) => {
                    numbers(Numbers::Long(Strided::column(array.as_slice()?, column, width)))
                }
                Cells::Bools(values) => ValuesView::Bool(values),
                Cells::Text { codes, levels } => ValuesView::Text { codes: codes.as_slice()?, levels },
            })
        };
        let named = self.names.iter().enumerate();
        named.map(|(column, name)| Ok(ColumnView { name, values: values(column)? })).collect()
    }
}

/// The table of these parts.
pub(crate) fn table<'a>(source: &'a str, parts: &'a [Part<'_>]) -> PyResult<TableView<'a>> {
    let mut columns = Vec::new();
    for part in parts {
        columns.extend(part.views()?);
    }
    TableView::new(source, columns).map_err(|error| Failure::new(&error).into())
}

/// The chosen cells of each column, by name: arrays of numbers, lists of booleans or text.
pub(crate) fn chosen<'py>(py: Python<'py>, cells: &RowCells) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, array) in cells.columns() {
        let values = values(py, array)?.map_err(|error| Failure::new(&error))?;
        columns.set_item(name, values)?;
    }
    Ok(columns)
}

fn values<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Result<Bound<'py, PyAny>, ArrowError>> {
    let kind = array.data_type();
    let integer = kind.is_integer() && array.null_count() == 0 && *kind != DataType::UInt64;
    let wanted = match kind {
        _ if integer => DataType::Int64,
        _ if kind.is_numeric() => DataType::Float64,
        DataType::Boolean => DataType::Boolean,
        _ => DataType::Utf8,
    };
    let array = match cast(array, &wanted) {
        Ok(array) => array,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(match wanted {
        DataType::Int64 => PyArray1::from_slice(py, array.as_primitive::<Int64Type>().values()).into_any(),
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>().iter().map(|value| value.unwrap_or(f64::NAN));
            PyArray1::from_iter(py, numbers).into_any()
        }
        DataType::Boolean => PyList::new(py, array.as_boolean().iter().collect::<Vec<_>>())?.into_any(),
        _ => PyList::new(py, array.as_string::<i32>().iter().collect::<Vec<_>>())?.into_any(),
    }))
}
