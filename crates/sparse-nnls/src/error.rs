//! What can be wrong with a problem. Not converging is a [`Status`](crate::Status), not an error.

use thiserror::Error;

/// An error of a dictionary: the message of its back end (a file, a device, a cluster).
#[derive(Debug, Error)]
#[error("the dictionary could not answer: {0}")]
pub struct DictionaryError(#[from] Box<dyn std::error::Error + Send + Sync>);

impl DictionaryError {
    /// Wraps the cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// A problem that cannot be posed, with the value at fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The dictionary has no column or no coordinate.
    #[error("the dictionary is empty: {columns} columns of {coordinates} coordinates")]
    EmptyDictionary {
        /// Number of columns, n.
        columns: usize,
        /// Length of a column.
        coordinates: usize,
    },
    /// The number of points is 0 or above n.
    #[error("k = {k} points cannot be chosen from {columns} columns: k must be between 1 and {columns}")]
    PointsOutOfRange {
        /// The requested value.
        k: usize,
        /// Number of columns, n.
        columns: usize,
    },
    /// y has another length than the columns.
    #[error("the target has {target} entries, the columns of the dictionary have {coordinates}")]
    TargetLength {
        /// Length of y.
        target: usize,
        /// Length of a column.
        coordinates: usize,
    },
    /// y has an entry that is not a finite number.
    #[error("entry {index} of the target is {value}: every entry must be a finite number")]
    TargetNotFinite {
        /// Where.
        index: usize,
        /// NaN or ±∞.
        value: f64,
    },
    /// Stored data has an entry that is not a finite number.
    #[error("coordinate {coordinate} of column {column} is {value}: every entry must be a finite number")]
    ColumnNotFinite {
        /// Which column.
        column: usize,
        /// Which of its entries.
        coordinate: usize,
        /// NaN or ±∞.
        value: f64,
    },
    /// The length of a matrix is not a multiple of its column length.
    #[error("{entries} entries do not make columns of {coordinates} coordinates")]
    RaggedColumns {
        /// Number of entries given.
        entries: usize,
        /// Length of a column.
        coordinates: usize,
    },
    /// A setting lies outside its range.
    #[error("{name} = {value} is out of range: {expected}")]
    Setting {
        /// The field.
        name: &'static str,
        /// Value of the setting.
        value: f64,
        /// Values that are allowed.
        expected: &'static str,
    },
    /// The method has no form with Σw = L.
    #[error(
        "{method} cannot hold the total weight fixed; use iht, a-iht or a-iht-2, or leave the total free"
    )]
    TotalNotSupported {
        /// The method's name.
        method: &'static str,
    },
    /// A column was named that the dictionary does not have, or named twice.
    #[error("column {id} is named twice or is not one of the {columns} columns")]
    BadColumn {
        /// The id at fault.
        id: usize,
        /// Number of columns, n.
        columns: usize,
    },
    /// The dictionary failed.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
}
