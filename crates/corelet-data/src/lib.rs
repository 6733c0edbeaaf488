//! From a file to numbers: tables of any supported format, design matrices, and coreset files.
//!
//! A [`Source`] is a table that can be scanned several times, with a few blocks in memory at a time, decoded on all cores.
//! [`Source::design`] creates the [`Dataset`] for models in two scans: one for the columns, one for the rows.
//! The result is [`observations`]: the numbers of n rows, in memory or in scratch files.
//!
//! With the feature `files`, `Source::open` opens a file of any format, `Source::cells` reads chosen rows in their original form,
//! and `write_rows` writes them. Without the feature, tables are in memory.

#![cfg_attr(not(feature = "files"), allow(dead_code, reason = "some of it only files need"))]

mod design;
mod error;
#[cfg(feature = "files")]
mod files;
pub mod hint;
mod listing;
mod looks;
pub mod observations;
mod scan;

#[doc(hidden)]
pub use corelet_kernels::{linalg, parallel};
pub use design::dataset::Dataset;
pub use design::encoding::{Besides, Encoding, Unseen};
pub use design::features::TextLevels;
pub use design::groups::{Groups, NamedGroups};
pub use design::kept::KeptDesign;
pub use design::options::{Columns, DesignOptions, Outcome, Standardise};
pub use design::partitions::{
    AskPartitions, PartColumns, PartEncoding, PartRows, PartSurvey, Partitioned, WeightScale,
    design_partitions, locate,
};
pub use design::standardise::Standardisation;
pub use error::DataError;
#[cfg(feature = "files")]
pub use files::{
    cells::RowCells,
    coreset::{CoresetFile, read_coreset, read_group_coreset},
    format::Format,
    guard::panic_is_caught,
    inputs::input_files,
    output::{STANDARD_OUTPUT, Sink, ensure_place, is_same_file, is_standard_output, write_whole},
    write::{Extra, RowBlock, ensure_writable, write_columns, write_row_blocks, write_rows},
};
pub use looks::Looks;
pub use scan::blocks::{Reading, Watch};
pub use scan::kept_rows::KeptRows;
pub use scan::memory::{address_space, allocation_is_tried, available, size};
pub use scan::names::NameList;
pub use scan::place::Place;
pub use scan::source::Source;
pub use scan::storage::{Bytes, Storage};
pub use scan::sums::Twofold;
pub use scan::table::{Column, MISSING, Table, Values};
pub use scan::view::{ColumnView, Numbers, Strided, TableView, ValuesView};

/// All usable columns of a file, in memory: [`Source::open`] and [`Source::table`] in one.
///
/// # Errors
/// As theirs.
#[cfg(feature = "files")]
pub fn read(path: &std::path::Path, format: Option<Format>) -> Result<Table, DataError> {
    Source::open(path, format)?.table()
}

/// [`Source::design`] of a table in memory.
///
/// # Errors
/// As its.
pub fn design(table: &Table, options: &DesignOptions) -> Result<Dataset, DataError> {
    design_view(&table.view(), options)
}

/// [`Source::design`] of columns that belong to someone else.
///
/// # Errors
/// As its.
pub fn design_view(table: &TableView<'_>, options: &DesignOptions) -> Result<Dataset, DataError> {
    Source::of_view(table.clone()).design(options)
}
