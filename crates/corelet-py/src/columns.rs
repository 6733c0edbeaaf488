//! NumPy arrays as the columns of a table, borrowed and never copied.

use corelet::data::{ColumnView, MISSING, Numbers, Strided, TableView, ValuesView};
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
/// Python hands over `(names, array, integer, levels)`, the array C-contiguous: float64 or float32 of one or two
/// dimensions; uint8 booleans with 2 for missing; or uint32 codes into `levels`, 2³² − 1 for missing.
pub(crate) struct Part<'py> {
    names: Vec<String>,
    cells: Cells<'py>,
    integer: bool,
}

enum Cells<'py> {
    Doubles(PyReadonlyArrayDyn<'py, f64>),
    Singles(PyReadonlyArrayDyn<'py, f32>),
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

/// The chosen rows of each column, by name: arrays of numbers, lists of booleans or text.
pub(crate) fn chosen<'py>(
    py: Python<'py>,
    table: &TableView<'_>,
    rows: &[usize],
) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for column in &table.columns {
        let values = match column.values {
            ValuesView::Number { values, integer } => {
                let chosen: Vec<f64> = rows.iter().map(|&row| values.get(row)).collect();
                if integer && chosen.iter().all(|x| x.abs() < 2f64.powi(53)) {
                    PyArray1::from_iter(py, chosen.into_iter().map(|x| x as i64)).into_any()
                } else {
                    PyArray1::from_vec(py, chosen).into_any()
                }
            }
            ValuesView::Bool(values) => PyList::new(py, rows.iter().map(|&row| values[row]))?.into_any(),
            ValuesView::Text { codes, levels } => {
                let text = |&row: &usize| (codes[row] != MISSING).then(|| &levels[codes[row] as usize]);
                PyList::new(py, rows.iter().map(text))?.into_any()
            }
            ValuesView::Other(_) => continue,
        };
        columns.set_item(column.name, values)?;
    }
    Ok(columns)
}
