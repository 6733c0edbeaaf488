//! Errors of data files, each as one line: the file, the column, the row, and what to do.

use std::path::{Path, PathBuf};

use crate::hint::{Hint, did_you_mean};
use crate::listing::list_names;
use crate::looks::Looks;
use crate::observations::ScratchError;
use crate::scan::memory;
use crate::scan::place::Place;

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

    #[error("{}: no data: {reason}", path.display())]
    NoParts { path: PathBuf, reason: String },

    #[error("{file}: its columns are not those of {first}: {reason}")]
    PartColumns { file: String, first: String, reason: String },

    #[error("{}: no known data format has this extension; known are {known}", file.display())]
    UnknownExtension { file: PathBuf, known: String },

    #[error("unknown data format '{name}'; known are {known}")]
    UnknownFormat { name: String, known: String },

    #[error("{file}: the file has no header line with column names")]
    NoHeader { file: String },

    #[error("{file}: the name of column {position} is not UTF-8 text; convert the file to UTF-8")]
    HeaderNotUtf8 { file: String, position: usize },

    #[error("{file}: the text is UTF-16 or no text at all; convert the file to UTF-8")]
    Encoding { file: String },

    #[error("{file}: {place} has {found} field{} where the header has {expected}; fix or quote that line", if *found == 1 { "" } else { "s" })]
    Ragged { file: String, place: Place, found: u64, expected: u64 },

    #[error(
        "{file}: {place}: the quote that opens there is never closed; close it, or double it if it is text"
    )]
    UnclosedQuote { file: String, place: Place },

    #[error(
        "{file}: {place}: a field that is quoted from there on goes on after its closing quote; \
         close the quote before it, or double quotes that are text"
    )]
    QuoteWithin { file: String, place: Place },

    #[error(
        "{file}: column '{column}', {place}: the text is not UTF-8; convert the file (iconv -f latin1 -t utf-8)"
    )]
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

    #[error("{file}: there is no column '{column}'{nearest}; the columns are {known}")]
    UnknownColumn { file: String, column: String, nearest: String, known: String },

    #[error("{file}: no column to predict is named; the columns are {known}")]
    NoTarget { file: String, known: String },

    #[error("{file}: column '{column}' is {first} and {second} at once; it can be one of them")]
    TwoRoles { file: String, column: String, first: &'static str, second: &'static str },

    #[error("{file}: no feature that varies is left besides the target")]
    NoFeatures { file: String },

    #[error("{file}: column '{column}' has type {kind}, which no model can use")]
    UnsupportedType { file: String, column: String, kind: String },

    #[error("{file}: text column '{column}' has more than {limit} distinct values, too many for a category")]
    TooManyLevels { file: String, column: String, limit: usize },

    #[error(
        "{file}: column '{column}', {place}: '{value}' is not a number, but nearly all of the column is \
         ({others} cell{} not)",
        if *others == 1 { " is" } else { "s are" }
    )]
    NearlyNumeric { file: String, column: String, place: Place, value: String, others: usize },

    #[error(
        "{file}: column '{column}', {place}: '{value}' has a decimal comma; write it with a point (sed 's|,|.|g' does so where the file \
         has no other commas)"
    )]
    DecimalComma { file: String, column: String, place: Place, value: String },

    #[error(
        "{file}: column '{column}', {place}: '{value}' has commas between thousands; write it without them, as {}",
        value.replace(',', "")
    )]
    Thousands { file: String, column: String, place: Place, value: String },

    #[error(
        "{file}: column '{column}', {place}: '{value}' is a number with {}; write numbers alone, as {number}",
        if value.contains('%') { "a per cent sign" } else { "a currency" }
    )]
    Unit { file: String, column: String, place: Place, value: Box<str>, number: Box<str> },

    #[error(
        "{file}: column '{column}' is stored as text, but every cell is a number, such as '{value}' ({place}); store it as numbers"
    )]
    NumbersAsText { file: String, column: String, place: Place, value: String },

    #[error("{file}: column '{column}' is empty in every row")]
    EmptyColumn { file: String, column: String, feature: bool },

    #[error("{file}: {affected} of {rows} rows have missing values ({columns})")]
    Missing { file: String, affected: usize, rows: usize, columns: String },

    #[error(
        "{file}: its pages are compressed with {codec}, which this build does not read; write it with zstd or snappy, or for brotli \
         build the program with the feature of that name"
    )]
    Codec { file: String, codec: &'static str },

    #[error(
        "{file}: row {row} is not that row of {data}: {difference}; it was built \
         on other rows, or the same in another order"
    )]
    OtherRows { file: String, data: String, row: usize, difference: String },

    #[error("{file}: column '{column}' spans a range too large to standardise; rescale it")]
    Overflow { file: String, column: String },

    #[error("{file}: column '{column}' spans a range too small to standardise; rescale it")]
    Underflow { file: String, column: String },

    #[error(
        "{file}: column '{column}' lies around {mean:.1e} with a spread of {sd:.1e}, and features are kept in single precision, which does \
         not tell its values apart; standardise the features, or shift and rescale the column"
    )]
    Precision { file: String, column: String, mean: f64, sd: f64 },

    #[error(
        "{file}: whitening needs independent columns, but these are linear combinations of the others: {columns}"
    )]
    Collinear { file: String, columns: String },

    #[error("{file}: {rows} usable row{}, at least 2 are needed", if *rows == 1 { "" } else { "s" })]
    TooFewRows { file: String, rows: usize },

    #[error("{file}: more features ({features}) than rows ({rows}){}", from_text(text))]
    MoreFeaturesThanRows { file: String, features: usize, rows: usize, text: Option<(String, usize)> },

    #[error(
        "{file}: column '{column}' as {role} must be numeric, but {place} holds '{value}'{}",
        seems(looks)
    )]
    NotNumeric {
        file: String,
        column: String,
        role: &'static str,
        place: Place,
        value: Box<str>,
        looks: Option<Looks>,
    },

    #[error(
        "{file}: target '{column}', {place}: {value} is neither 0/1 nor -1/+1, which logistic regression needs; the column {looks}"
    )]
    NotBinary { file: String, column: String, place: Place, value: f64, looks: Looks },

    #[error("{file}: target '{column}' is text, and which of {levels} counts as success is not said")]
    PositiveNeeded { file: String, column: String, levels: String, last: Box<str> },

    #[error("{file}: target '{column}' has no level '{positive}'; the levels are {levels}")]
    UnknownPositive { file: String, column: String, positive: String, levels: String },

    #[error("{file}: target '{column}' must have two levels, but has {count}: {levels}")]
    LevelCount { file: String, column: String, count: usize, levels: String },

    #[error(
        "{file}: target '{column}' is {value} in every row; a model of classes needs at least two of them"
    )]
    OneClass { file: String, column: String, value: String },

    #[error("{file}: {affected} of {rows} rows have missing values ({columns}); new rows must have none")]
    Gaps { file: String, affected: usize, rows: usize, columns: String },

    #[error(
        "{file}: column '{column}', {place}: '{value}' is an unseen level; the coreset's data had {known}"
    )]
    UnknownLevel { file: String, column: String, place: Place, value: String, known: String },

    #[error(
        "{file}: column '{column}', {place}: '{value}' is an unseen level; the coreset's data had {known}"
    )]
    UnseenLevel { file: String, column: String, place: Place, value: String, known: Box<str> },

    #[error(
        "{file}: column '{column}', a feature of the coreset's data, is not a feature here; the features here are {features}"
    )]
    NotOfDesign { file: String, column: String, features: String },

    #[error("{file}: column '{column}' was {was} in the coreset's data, and is not here")]
    OtherKind { file: String, column: String, was: &'static str },

    #[error("{file}: target '{column}' has more than {limit} classes, too many for a classification")]
    ManyClasses { file: String, column: String, limit: usize },

    #[error("{file}: target '{column}' is text; say the order of the levels {levels}")]
    LevelsNeeded { file: String, column: String, levels: String },

    #[error("{file}: target '{column}' has the levels {found}, but the order given is {said}")]
    OtherLevels { file: String, column: String, said: String, found: String },

    #[error(
        "{file}: {role} '{column}', {place}: {value} is not a count (0, 1, 2, ...), which the model needs{}",
        seems(looks)
    )]
    NotCount {
        file: String,
        column: String,
        role: &'static str,
        place: Place,
        value: f64,
        looks: Option<Looks>,
    },

    #[error("{file}: the event '{column}', {place}: {value} is neither 1 (observed) nor 0 (right-censored)")]
    NotEvent { file: String, column: String, place: Place, value: f64 },

    #[error(
        "{file}: {role} '{column}', {place}: {value} is not a positive number (1e-30 to 1e30), which the model needs{}",
        seems(looks)
    )]
    NotPositive {
        file: String,
        column: String,
        role: &'static str,
        place: Place,
        value: f64,
        looks: Option<Looks>,
    },

    #[error("{file}: {role} '{column}', {place}: {value} is neither 0 nor a positive number (1e-30 to 1e30)")]
    NotExposure { file: String, column: String, role: &'static str, place: Place, value: f64 },

    #[error(
        "{file}: the target '{column}', {place}: {value} with an exposure of 0 in '{beside}', where nothing can be counted; correct the one or \
         the other, or leave the row out"
    )]
    CountedNothing { file: String, column: String, place: Place, value: f64, beside: Box<str> },

    #[error(
        "{file}: the target '{column}', {place}: {value} successes are more than the {trials} trials in '{beside}'"
    )]
    MoreThanTrials { file: String, column: String, place: Place, value: f64, trials: f64, beside: Box<str> },

    #[error(
        "{file}: {what} need {}, but {} of memory are available",
        memory::size(*needed),
        memory::size(*available)
    )]
    Memory { file: String, what: String, needed: u64, available: u64 },

    #[error("{}: the scratch file: {reason}", folder.display())]
    Scratch { folder: PathBuf, reason: String },

    #[error("{0}")]
    Partition(String),

    #[error("{file}: the file changed while it was read")]
    Changed { file: String },

    #[error("reading was stopped")]
    Stopped,

    #[error("{}: cannot be written: {reason}", file.display())]
    Write { file: PathBuf, reason: String },

    #[error("{}: the extension of an output file must be .csv, .parquet or .json", file.display())]
    UnknownOutput { file: PathBuf },

    #[error("{file}: not a coreset file: {reason}")]
    NotCoreset { file: String, reason: String },

    #[error("row {row} was requested, but {file} has {rows} rows")]
    RowOutOfRange { file: String, row: usize, rows: usize },
}

impl DataError {
    /// The error of a column that is not there, with the name that may have been meant.
    pub(super) fn unknown_column<S: AsRef<str>>(file: &str, column: &str, known: &[S]) -> Self {
        let nearest = did_you_mean(column, known.iter().map(AsRef::as_ref));
        Self::UnknownColumn {
            file: file.to_owned(),
            column: column.to_owned(),
            nearest,
            known: list_names(known),
        }
    }

    /// The same of rows that a model is fitted to, or judged on: what predictions may do with such rows, these may not.
    #[must_use]
    pub fn of_data(self) -> Self {
        match self {
            Self::UnseenLevel { file, column, place, value, known } => {
                Self::UnknownLevel { file, column, place, value, known: known.into() }
            }
            Self::Gaps { file, affected, rows, columns } => Self::Missing { file, affected, rows, columns },
            error => error,
        }
    }

    /// A name for the kind of error that stays the same whatever the message says.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Read { .. } => "read",
            Self::Damaged { .. } => "damaged",
            Self::NoParts { .. } => "no_parts",
            Self::PartColumns { .. } => "part_columns",
            Self::UnknownExtension { .. } => "unknown_extension",
            Self::UnknownFormat { .. } => "unknown_format",
            Self::NoHeader { .. } => "no_header",
            Self::HeaderNotUtf8 { .. } => "header_not_utf8",
            Self::Encoding { .. } => "encoding",
            Self::Ragged { .. } => "ragged",
            Self::UnclosedQuote { .. } => "unclosed_quote",
            Self::QuoteWithin { .. } => "quote_within",
            Self::NotUtf8 { .. } => "not_utf8",
            Self::NonFinite { .. } => "non_finite",
            Self::DuplicateColumn { .. } => "duplicate_column",
            Self::ColumnLength { .. } => "column_length",
            Self::BadLine { .. } => "bad_line",
            Self::Pickled { .. } => "pickled",
            Self::ArrayType { .. } => "array_type",
            Self::ArrayShape { .. } => "array_shape",
            Self::NoArray { .. } => "no_array",
            Self::UnknownColumn { .. } => "unknown_column",
            Self::NoTarget { .. } => "no_target",
            Self::TwoRoles { .. } => "two_roles",
            Self::NoFeatures { .. } => "no_features",
            Self::UnsupportedType { .. } => "unsupported_type",
            Self::TooManyLevels { .. } => "too_many_levels",
            Self::NearlyNumeric { .. } => "nearly_numeric",
            Self::DecimalComma { .. } => "decimal_comma",
            Self::Thousands { .. } => "thousands",
            Self::Unit { .. } => "unit",
            Self::NumbersAsText { .. } => "numbers_as_text",
            Self::EmptyColumn { .. } => "empty_column",
            Self::Missing { .. } => "missing",
            Self::Codec { .. } => "codec",
            Self::OtherRows { .. } => "other_rows",
            Self::Overflow { .. } => "overflow",
            Self::Underflow { .. } => "underflow",
            Self::Precision { .. } => "precision",
            Self::Collinear { .. } => "collinear",
            Self::TooFewRows { .. } => "too_few_rows",
            Self::MoreFeaturesThanRows { .. } => "more_features_than_rows",
            Self::NotNumeric { .. } => "not_numeric",
            Self::NotBinary { .. } => "not_binary",
            Self::PositiveNeeded { .. } => "positive_needed",
            Self::UnknownPositive { .. } => "unknown_positive",
            Self::LevelCount { .. } => "level_count",
            Self::OneClass { .. } => "one_class",
            Self::Gaps { .. } => "gaps",
            Self::UnknownLevel { .. } => "unknown_level",
            Self::UnseenLevel { .. } => "unseen_level",
            Self::NotOfDesign { .. } => "not_of_design",
            Self::OtherKind { .. } => "other_kind",
            Self::ManyClasses { .. } => "many_classes",
            Self::LevelsNeeded { .. } => "levels_needed",
            Self::OtherLevels { .. } => "other_levels",
            Self::NotCount { .. } => "not_count",
            Self::NotEvent { .. } => "not_event",
            Self::NotPositive { .. } => "not_positive",
            Self::NotExposure { .. } => "not_exposure",
            Self::CountedNothing { .. } => "counted_nothing",
            Self::MoreThanTrials { .. } => "more_than_trials",
            Self::Memory { .. } => "memory",
            Self::Scratch { .. } => "scratch",
            Self::Partition(_) => "partition",
            Self::Changed { .. } => "changed",
            Self::Stopped => "stopped",
            Self::Write { .. } => "write",
            Self::UnknownOutput { .. } => "unknown_output",
            Self::NotCoreset { .. } => "not_coreset",
            Self::RowOutOfRange { .. } => "row_out_of_range",
        }
    }

    /// The setting that may help, if any.
    pub fn hint(&self) -> Option<Hint> {
        const OUT: &str = "leaves it out";
        Some(match self {
            Self::UnknownExtension { .. } => Hint::value("format", "FORMAT", "names the format"),
            Self::NoTarget { .. } => Hint::value("target", "COLUMN", "names it"),
            Self::UnsupportedType { column, .. }
            | Self::TooManyLevels { column, .. }
            | Self::EmptyColumn { column, feature: true, .. } => Hint::value("exclude", column, OUT),
            Self::NearlyNumeric { value, .. } => Hint::value("missing", value, "takes such cells as missing"),
            Self::Missing { .. } => Hint::switch("drop_missing", "leaves those rows out"),
            Self::Scratch { .. } => Hint::value("scratch", "DIR", "names another folder"),
            Self::Collinear { .. } => Hint::value("standardise", "scale", "can do with them"),
            Self::MoreFeaturesThanRows { text: Some((column, _)), .. } => Hint::value("exclude", column, OUT),
            Self::MoreFeaturesThanRows { text: None, .. } => {
                Hint::value("features", "COLUMNS", "chooses fewer")
            }
            Self::UnseenLevel { .. } => Hint::value("unseen", "baseline", "predicts it as the base level"),
            Self::NumbersAsText { column, .. } | Self::Unit { column, .. } => {
                Hint::value("categories", column, "takes its values as levels")
            }
            Self::NotBinary { looks, .. } if *looks != Looks::TwoValues => {
                Hint::value("model", looks.model(), "suits such a target")
            }
            Self::NotCount { looks: Some(looks), .. }
            | Self::NotPositive { looks: Some(looks), .. }
            | Self::NotNumeric { looks: Some(looks), .. } => {
                Hint::value("model", looks.model(), "suits such a target")
            }
            Self::PositiveNeeded { last, .. } => Hint::value("positive", &**last, "takes this one"),
            Self::NotBinary { .. } => Hint::value("positive", "LEVEL", "says which value counts as success"),
            Self::LevelCount { .. } => Hint::value("model", Looks::Words.model(), "takes several classes"),
            Self::LevelsNeeded { .. } | Self::OtherLevels { .. } => {
                Hint::value("levels", "LOW,…,HIGH", "says the order of all of them")
            }
            _ => return None,
        })
    }

    /// Without a word on what the target seems to be.
    pub(super) fn without_looks(mut self) -> Self {
        if let Self::NotPositive { looks, .. } = &mut self {
            *looks = None;
        }
        self
    }

    /// The file and the place in it, where the error is of one row.
    pub(super) fn spot(&mut self) -> Option<(&mut String, &mut Place)> {
        match self {
            Self::Ragged { file, place, .. }
            | Self::UnclosedQuote { file, place }
            | Self::QuoteWithin { file, place }
            | Self::NotUtf8 { file, place, .. }
            | Self::NonFinite { file, place, .. }
            | Self::BadLine { file, place, .. }
            | Self::NearlyNumeric { file, place, .. }
            | Self::DecimalComma { file, place, .. }
            | Self::Thousands { file, place, .. }
            | Self::Unit { file, place, .. }
            | Self::NumbersAsText { file, place, .. }
            | Self::NotNumeric { file, place, .. }
            | Self::NotBinary { file, place, .. }
            | Self::NotCount { file, place, .. }
            | Self::NotEvent { file, place, .. }
            | Self::NotPositive { file, place, .. } => Some((file, place)),
            _ => None,
        }
    }

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

impl From<ScratchError> for DataError {
    fn from(error: ScratchError) -> Self {
        let ScratchError { folder, reason } = error;
        Self::Scratch { folder, reason }
    }
}

/// The kind of target that the values suggest, as the end of a sentence.
fn seems(looks: &Option<Looks>) -> String {
    looks.map_or_else(String::new, |looks| format!("; the column {looks}"))
}

/// Where many features come from.
fn from_text(text: &Option<(String, usize)>) -> String {
    text.as_ref().map_or_else(String::new, |(column, levels)| {
        format!(", {levels} of them from text column '{column}'")
    })
}

/// Messages of other libraries may span lines; ours must not.
fn one_line(reason: &impl ToString) -> String {
    reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn codes_and_hints_belong_to_the_kind_of_error() {
        let missing =
            DataError::Missing { file: "a".into(), affected: 1, rows: 2, columns: "1 in 'x'".into() };
        assert_eq!(missing.code(), "missing");
        assert_eq!(missing.hint(), Some(Hint::switch("drop_missing", "leaves those rows out")));
        assert_eq!(DataError::Stopped.code(), "stopped");
        assert_eq!(DataError::Stopped.hint(), None);
    }
}
