//! Failures as Python exceptions: the texts of the command, and a callable's own exception as it was raised.

use std::error::Error;

use corelet::data::DataError;
use corelet::engine::NotWorthIt;
use corelet::study::StudyError;
use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    corelet,
    CoreletError,
    PyValueError,
    "What corelet refuses, in one line: what is wrong, where, and what to do."
);

/// Why some work did not end in a result. It may cross threads, which a Python exception in the making may not.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error in words.
    Refused(String),
    /// What a Python callable raised.
    Raised(PyErr),
}

impl Failure {
    /// From any error of the library; one that a callable raised is found again among its causes.
    pub(crate) fn new(error: &(dyn Error + 'static)) -> Self {
        let error = plain(error);
        let raised = std::iter::successors(Some(error), |error| (*error).source())
            .find_map(|error| error.downcast_ref::<PyErr>());
        match raised {
            Some(raised) => Python::attach(|py| Self::Raised(raised.clone_ref(py))),
            None => Self::Refused(one_line(&(error.to_string() + &advice(error)))),
        }
    }

    /// The same, with the data named in front as the command does.
    pub(crate) fn of(source: &str, error: &(dyn Error + 'static)) -> Self {
        match Self::new(error) {
            refused if plain(error).is::<DataError>() => refused,
            Self::Refused(text) => Self::Refused(format!("{source}: {text}")),
            raised => raised,
        }
    }
}

/// An error of the data as it is: it names them itself, and may have a hint.
fn plain<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    match error.downcast_ref::<StudyError>() {
        Some(StudyError::Data(error)) => error,
        _ => error,
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(text) => CoreletError::new_err(text),
            Failure::Raised(error) => error,
        }
    }
}

/// What may help, in terms of a keyword: `; drop_missing=True leaves those rows out`.
fn advice(error: &(dyn Error + 'static)) -> String {
    const LISTS: [&str; 4] = ["features", "exclude", "categories", "missing"];
    if error.is::<NotWorthIt>() {
        return "; sample all rows, or go on with force=True".to_owned();
    }
    if let Some(StudyError::AlreadyIn { .. }) = error.downcast_ref() {
        return "; allow_repeats=True adds them, where they are other rows that are equal".to_owned();
    }
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    let hint = causes.find_map(|error| error.downcast_ref::<DataError>()?.hint());
    hint.map_or_else(String::new, |hint| {
        let value = match hint.value {
            None => "True".to_owned(),
            Some(value) if LISTS.contains(&hint.setting) => format!("[{value:?}]"),
            Some(value) => format!("{value:?}"),
        };
        format!("; {}={value} {}", hint.setting, hint.effect)
    })
}

/// Refuses a value.
pub(crate) fn refuse(text: impl Into<String>) -> PyErr {
    CoreletError::new_err(text.into())
}

/// Refuses a type.
pub(crate) fn wrong_type(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
