//! Where the rows are: in columns that Python holds, in files, or in a stream that was kept.

use std::fs::File;
use std::path::PathBuf;

use corelet::data::{Format, Source, Storage};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use crate::columns::{self, Part};
use crate::errors::Failure;

/// Python hands over `(name, parts)` with a list of parts, `(paths, format)`, or the handle of a file of Arrow's format.
pub(crate) enum Data<'py> {
    Columns { name: String, parts: Vec<Part<'py>> },
    Files { paths: Vec<PathBuf>, format: Option<String> },
    Stream { handle: i32 },
}

impl<'py> FromPyObject<'_, 'py> for Data<'py> {
    type Error = PyErr;

    fn extract(data: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if data.is_instance_of::<PyInt>() {
            return Ok(Self::Stream { handle: data.extract()? });
        }
        let (first, second): (Bound<'py, PyAny>, Bound<'py, PyAny>) = data.extract()?;
        Ok(if second.is_instance_of::<PyList>() {
            Self::Columns { name: first.extract()?, parts: second.extract()? }
        } else {
            Self::Files { paths: first.extract()?, format: second.extract()? }
        })
    }
}

impl Data<'_> {
    /// Opens files, of the named format where their extensions do not say it, what can be read only once in the folder of scratch files; columns are borrowed.
    pub(crate) fn source(&self, py: Python<'_>, storage: &Storage) -> PyResult<Source<'_>> {
        match self {
            Self::Columns { name, parts } => Ok(Source::of_view(columns::table(name, parts)?)),
            Self::Files { paths, format } => {
                let format = format.as_deref().map(str::parse::<Format>).transpose();
                let format = format.map_err(|error| Failure::new(&error))?;
                Ok(py
                    .detach(|| Source::open_all(paths, format, storage))
                    .map_err(|error| Failure::new(&error))?)
            }
            Self::Stream { handle } => {
                let file = File::open(format!("/dev/fd/{handle}"))?;
                Ok(Source::of_file("data", file, Format::Arrow).map_err(|error| Failure::new(&error))?)
            }
        }
    }
}
