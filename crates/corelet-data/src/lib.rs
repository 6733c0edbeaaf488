//! From a file to numbers: tables of any supported format, design matrices, and coreset files.
//!
//! A [`Source`] is a table that can be looked at several times, a few blocks in memory at a time, decoded on all cores.
//! [`Source::design`] makes the [`Dataset`] that models use in two looks: what the columns are, then the rows themselves.
//! What that makes are [`observations`]: the numbers of n rows, in memory or in scratch files.
//!
//! With the feature `files`, `Source::open` opens a file of any format, `Source::cells` fetches chosen rows as they are in it,
//! and `write_rows` writes them; without it, tables are in memory.

#![cfg_attr(not(feature = "files"), allow(dead_code, reason = "some of it only files need"))]

mod blocks;
mod classes;
mod collect;
mod collinear;
mod design;
mod encoding;
mod error;
mod examination;
mod features;
#[cfg(feature = "files")]
mod files;
mod fill;
mod groups;
pub mod hint;
mod in_memory;
mod kept_rows;
mod levels;
mod memory;
mod names;
pub mod observations;
mod options;
mod partitions;
mod place;
mod roles;
mod shares;
mod source;
mod split;
mod standardise;
mod storage;
mod sums;
mod survey;
mod table;
mod target;
mod text_cells;
mod view;

pub use blocks::{Reading, Watch};
pub use design::Dataset;
pub use encoding::{Besides, Encoding, Unseen};
pub use error::{DataError, Looks};
pub use features::TextLevels;
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
pub use groups::{Groups, NamedGroups};
pub use kept_rows::KeptRows;
pub use memory::{address_space, available, size};
pub use names::NameList;
pub use options::{Columns, DesignOptions, Outcome, Standardise};
pub use partitions::{
    AskPartitions, PartColumns, PartEncoding, PartRows, PartSurvey, Partitioned, WeightScale,
    design_partitions, locate,
};
pub use place::Place;
pub use source::Source;
pub use standardise::Standardisation;
pub use storage::{Bytes, Storage};
pub use sums::Twofold;
pub use table::{Column, MISSING, Table, Values};
pub use view::{ColumnView, Numbers, Strided, TableView, ValuesView};

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
