//! From a file to numbers: tables of any supported format, design matrices, and coreset files.
//!
//! A [`Source`] is a table that can be looked at several times, a few blocks in memory at a time, decoded on all cores.
//! [`Source::design`] makes the [`Dataset`] that models use in two looks: what the columns are, then the rows themselves.
//! [`Source::cells`] fetches chosen rows as they are in the file, and [`write_rows`] writes them.

use std::path::Path;

mod arrow_columns;
mod arrow_ipc;
mod blocks;
mod cell_text;
mod cells;
mod collect;
mod collinear;
mod content;
mod coreset;
mod csv;
mod design;
mod error;
mod features;
mod fill;
mod format;
mod guard;
mod in_memory;
mod kept_rows;
mod levels;
mod libsvm;
mod memory;
mod names;
mod npy;
mod npz;
mod output;
mod parquet;
mod parquet_pages;
mod place;
mod roles;
mod source;
mod split;
mod standardise;
mod sums;
mod survey;
mod table;
mod target;
mod text_cells;
mod text_file;
mod view;
mod write;

pub use blocks::{Reading, Watch};
pub use cells::RowCells;
pub use coreset::read_coreset;
pub use design::{Dataset, DesignOptions, Standardise, Task};
pub use error::DataError;
pub use features::TextLevels;
pub use format::Format;
pub use guard::panic_is_caught;
pub use kept_rows::KeptRows;
pub use names::NameList;
pub use output::{Sink, ensure_place, is_same_file, write_whole};
pub use place::Place;
pub use source::Source;
pub use standardise::Standardisation;
pub use table::{Column, MISSING, Table, Values};
pub use view::{ColumnView, Numbers, Strided, TableView, ValuesView};
pub use write::{Extra, ensure_writable, write_columns, write_rows};

/// All usable columns of a file, in memory: [`Source::open`] and [`Source::table`] in one.
///
/// # Errors
/// As theirs.
pub fn read(path: &Path, format: Option<Format>) -> Result<Table, DataError> {
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
