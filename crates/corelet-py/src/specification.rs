//! Keyword arguments as the library's specification, and its refusals in the words of Python.

use corelet::posterior::SampleSettings;
use corelet::study::{Specification, UsageError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::refuse;

/// The specification that keywords ask for, checked.
pub(crate) fn specification(keywords: &Bound<'_, PyDict>) -> PyResult<Specification> {
    let specification = Specification::from_settings(&settings(keywords)?).map_err(worded)?;
    specification.check().map_err(worded)?;
    Ok(specification)
}

/// The chains that keywords ask for, and their seed.
pub(crate) fn sampling(keywords: &Bound<'_, PyDict>) -> PyResult<(SampleSettings, u64)> {
    let Specification { sample, build, .. } = specification(keywords)?;
    sample.check().map_err(|error| refuse(error.to_string()))?;
    Ok((sample, build.seed))
}

fn settings(keywords: &Bound<'_, PyDict>) -> PyResult<serde_json::Map<String, serde_json::Value>> {
    let text: String = keywords.py().import("json")?.call_method1("dumps", (keywords,))?.extract()?;
    serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))
}

fn worded(error: UsageError) -> PyErr {
    refuse(error.worded(str::to_owned))
}
