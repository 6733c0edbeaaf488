//! What can be wrong with a data file, each as one line: the file, the column, the row, and what to do.

use std::path::{Path, PathBuf};

use super::table::Place;

/// Everything that reading, designing or writing can refuse.
///
/// Rows count from 0, as in every output; where the file is text, the line (from 1) is given as well.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are what the message shows")]
pub enum DataError {
    #[error("{}: cannot be opened: {reason}", file.display())]
    Open { file: PathBuf, reason: String },

    #[error("{file}: reading stopped: {reason}; the file may be truncated or damaged")]
    Read { file: String, reason: String },

    #[error(
        "{file}: not a readable {format} file: {reason}; it may be truncated, damaged or of another format"
    )]
    Damaged { file: String, format: &'static str, reason: String },

    #[error("{}: no known data format has this extension; name it with --format ({known})", file.display())]
    UnknownExtension { file: PathBuf, known: String },

    #[error("unknown data format '{name}'; known are {known}")]
    UnknownFormat { name: String, known: String },

    #[error("standard input can hold csv, tsv or libsvm text, not {format}; give a file instead")]
    BinaryStandardInput { format: &'static str },

    #[error("{file}: the file has no header line with column names")]
    NoHeader { file: String },

    #[error("{file}: {place} has {found} fields where the header has {expected}; fix or quote that line")]
    Ragged { file: String, place: Place, found: u64, expected: u64 },

    #[error("{file}: column '{column}', {place}: the text is not UTF-8; convert the file")]
    NotUtf8 { file: String, column: String, place: Place },

    #[error(
        "{file}: column '{column}', {place}: {value} is not a finite number; remove the row or leave it empty"
    )]
    NonFinite { file: String, column: String, place: Place, value: String },

    #[error("{file}: column '{column}' appears twice, at positions {first} and {second}; rename one")]
    DuplicateColumn { file: String, column: String, first: usize, second: usize },

    #[error("{file}: column '{column}' has {found} rows where the table has {expected}")]
    ColumnLength { file: String, column: String, found: usize, expected: usize },

    #[error("{file}: {place}: {reason}")]
    BadLine { file: String, place: Place, reason: String },

    #[error(
        "{file}: array '{array}' holds pickled Python objects, which are never loaded; save it as plain numbers"
    )]
    Pickled { file: String, array: String },

    #[error("{file}: array '{array}' has type {dtype}; integers, floats and booleans can be read")]
    ArrayType { file: String, array: String, dtype: String },

    #[error("{file}: array '{array}' has shape ({shape}), expected {expected}")]
    ArrayShape { file: String, array: String, shape: String, expected: &'static str },

    #[error("{file}: there is no array '{array}'; the file has {found}")]
    NoArray { file: String, array: &'static str, found: String },

    #[error("{file}: there is no column '{column}'; the columns are {known}")]
    UnknownColumn { file: String, column: String, known: String },

    #[error("{file}: name the column to predict with --target; the columns are {known}")]
    NoTarget { file: String, known: String },

    #[error("{file}: column '{column}' is {first} and {second} at once; it can be one of them")]
    TwoRoles { file: String, column: String, first: &'static str, second: &'static str },

    #[error("{file}: no feature is left besides the target; name some with --features")]
    NoFeatures { file: String },

    #[error(
        "{file}: column '{column}' has type {kind}, which no model can use; leave it out with --features"
    )]
    UnsupportedType { file: String, column: String, kind: String },

    #[error(
        "{file}: text column '{column}' has {levels} distinct values, over {limit}; leave it out with --features"
    )]
    TooManyLevels { file: String, column: String, levels: usize, limit: usize },

    #[error(
        "{file}: {affected} of {rows} rows have missing values ({columns}); --drop-missing leaves those rows out"
    )]
    Missing { file: String, affected: usize, rows: usize, columns: String },

    #[error(
        "{file}: column '{column}' has the same value, {value}, in every row; leave it out with --features"
    )]
    Constant { file: String, column: String, value: String },

    #[error("{file}: column '{column}' spans a range too large to standardise; rescale it")]
    Overflow { file: String, column: String },

    #[error(
        "{file}: whitening needs independent columns, but these are linear combinations of the others: {columns}; \
         leave them out with --features or use --standardise scale"
    )]
    Collinear { file: String, columns: String },

    #[error("{file}: {rows} usable row{}, at least 2 are needed", if *rows == 1 { "" } else { "s" })]
    TooFewRows { file: String, rows: usize },

    #[error("{file}: more features ({features}) than rows ({rows}){hint}; choose fewer with --features")]
    MoreFeaturesThanRows { file: String, features: usize, rows: usize, hint: String },

    #[error("{file}: column '{column}' as {role} must be numeric, but {place} holds '{value}'")]
    NotNumeric { file: String, column: String, role: &'static str, place: Place, value: String },

    #[error(
        "{file}: target '{column}', {place}: {value} is neither 0/1 nor -1/+1, which logistic regression needs"
    )]
    NotBinary { file: String, column: String, place: Place, value: f64 },

    #[error(
        "{file}: target '{column}' is text; name the level that counts as success with --positive, one of {levels}"
    )]
    PositiveNeeded { file: String, column: String, levels: String },

    #[error("{file}: target '{column}' has no level '{positive}'; the levels are {levels}")]
    UnknownPositive { file: String, column: String, positive: String, levels: String },

    #[error("{file}: target '{column}' must have two levels, but has {count}: {levels}")]
    LevelCount { file: String, column: String, count: usize, levels: String },

    #[error("{file}: target '{column}' is {value} in every row; logistic regression needs both classes")]
    OneClass { file: String, column: String, value: String },

    #[error("{file}: target '{column}', {place}: {value} is not a count (0, 1, 2, ...), which Poisson needs")]
    NotCount { file: String, column: String, place: Place, value: f64 },

    #[error("{file}: exposure '{column}', {place}: {value} is not positive")]
    NotPositive { file: String, column: String, place: Place, value: f64 },

    #[error("{}: cannot be written: {reason}", file.display())]
    Write { file: PathBuf, reason: String },

    #[error("{}: the extension of an output file must be .csv, .parquet or .json", file.display())]
    UnknownOutput { file: PathBuf },

    #[error("{file}: not a coreset file: {reason}")]
    NotCoreset { file: String, reason: String },

    #[error("row {row} was asked for, but {file} has {rows} rows")]
    RowOutOfRange { file: String, row: usize, rows: usize },
}

impl DataError {
    /// The error of an output file that could not be written.
    pub(super) fn write(file: &Path, reason: &impl ToString) -> Self {
        Self::Write { file: file.to_path_buf(), reason: one_line(reason) }
    }

    /// The error of a binary file whose reader gave up.
    pub(super) fn damaged(file: &str, format: &'static str, reason: &impl ToString) -> Self {
        Self::Damaged { file: file.to_owned(), format, reason: one_line(reason) }
    }

    /// The error of a stream that ended or failed midway.
    pub(super) fn read(file: &str, reason: &impl ToString) -> Self {
        Self::Read { file: file.to_owned(), reason: one_line(reason) }
    }
}

/// Messages of other libraries may span lines; ours must not.
fn one_line(reason: &impl ToString) -> String {
    reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A cell or a name as a message can show it: short, and on one line.
pub(super) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// `'a', 'b' and 12 more`: names for a message.
pub(super) fn list_names<S: AsRef<str>>(names: &[S]) -> String {
    list(names.iter().map(|name| format!("'{}'", excerpt(name.as_ref()))))
}

/// All of them, where every one is needed.
pub(super) fn list_all_names<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("'{}'", excerpt(name.as_ref()))).collect::<Vec<_>>().join(", ")
}

/// Items for a message, cut to a readable number.
pub(super) fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 20;
    let count = items.len();
    let shown = items.take(SHOWN).collect::<Vec<_>>().join(", ");
    match count {
        0 => "none".to_owned(),
        _ if count > SHOWN => format!("{shown} and {} more", count - SHOWN),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        let error = DataError::damaged("a.parquet", "Parquet", &"broken\n  footer");
        assert_eq!(
            error.to_string(),
            "a.parquet: not a readable Parquet file: broken footer; it may be truncated, damaged or of another format"
        );
    }

    #[test]
    fn cells_are_shown_on_one_short_line() {
        assert_eq!(excerpt("a\nb"), "a b");
        assert_eq!(excerpt(&"x".repeat(50)), format!("{}...", "x".repeat(40)));
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..25).map(|i| format!("x{i}")).collect();
        assert!(list_names(&names).ends_with("'x19' and 5 more"));
        assert!(list_all_names(&names).ends_with("'x23', 'x24'"));
    }
}
