//! Where the rows are: in columns that Python holds, or in a file.

use std::path::{Path, PathBuf};

use corelet::data::{Format, Source};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::columns::{self, Part};
use crate::errors::Failure;

/// Python hands over `(name, parts)` with a list of parts, or `(path, format)`.
pub(crate) enum Data<'py> {
    Columns { name: String, parts: Vec<Part<'py>> },
    File { path: PathBuf, format: Option<String> },
}

impl<'py> FromPyObject<'_, 'py> for Data<'py> {
    type Error = PyErr;

    fn extract(data: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (first, second): (Bound<'py, PyAny>, Bound<'py, PyAny>) = data.extract()?;
        Ok(if second.is_instance_of::<PyList>() {
            Self::Columns { name: first.extract()?, parts: second.extract()? }
        } else {
            Self::File { path: first.extract()?, format: second.extract()? }
        })
    }
}

impl Data<'_> {
    /// Opens a file; columns are borrowed.
    pub(crate) fn source(&self, py: Python<'_>) -> PyResult<Source<'_>> {
        match self {
            Self::Columns { name, parts } => Ok(Source::of_view(columns::table(name, parts)?)),
            Self::File { path, format } => open(py, path, format.as_deref()),
        }
    }
}

/// A data file, of the named format where its extension does not say it.
fn open(py: Python<'_>, path: &Path, format: Option<&str>) -> PyResult<Source<'static>> {
    let format = format.map(str::parse::<Format>).transpose().map_err(|error| Failure::new(&error))?;
    Ok(py.detach(|| Source::open(path, format)).map_err(|error| Failure::new(&error))?)
}
