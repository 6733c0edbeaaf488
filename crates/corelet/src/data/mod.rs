//! From a file to numbers: tables of any supported format, design matrices, and coreset files.
//!
//! [`read`] gives a [`Table`], [`design`] turns it into a [`Dataset`] that models can use, and [`write_rows`] writes
//! chosen rows of the table back.

use std::path::Path;

mod arrow_columns;
mod arrow_ipc;
mod collinear;
mod coreset;
mod csv;
mod design;
mod encode;
mod error;
mod format;
mod guard;
mod input;
mod libsvm;
mod moments;
mod npy;
mod npz;
mod parquet;
mod standardise;
mod table;
mod target;
mod view;
mod write;

pub use coreset::read_coreset;
pub use design::{Dataset, DesignOptions, Standardise, Task, design, design_view};
pub use encode::TextLevels;
pub use error::DataError;
pub use format::Format;
pub use standardise::Standardisation;
pub use table::{Column, Lines, MISSING, Place, Table, Values};
pub use view::{ColumnView, Numbers, Strided, TableView, ValuesView};
pub use write::{Extra, ensure_writable, write_chosen, write_columns, write_rows};

/// Reads a table from `path`, or from standard input where it is `-`.
///
/// The format is that of the file's extension unless given; standard input is CSV unless given. Missing are: an empty
/// field, `NA`, `NaN` or `null` in a text file, a null in Parquet or Arrow, and a NaN in a binary file. An infinity is
/// an error.
pub fn read(path: &Path, format: Option<Format>) -> Result<Table, DataError> {
    let standard_input = input::is_standard_input(path);
    let format = match format {
        Some(format) => format,
        None if standard_input => Format::Csv,
        None => Format::from_path(path)?,
    };
    if standard_input && !format.is_text() {
        return Err(DataError::BinaryStandardInput { format: format.name() });
    }
    match format {
        Format::Csv => csv::read(path, b','),
        Format::Tsv => csv::read(path, b'\t'),
        Format::Parquet => parquet::read(path),
        Format::Arrow => arrow_ipc::read(path),
        Format::Libsvm => libsvm::read(path),
        Format::Npz => npz::read(path),
        Format::Npy => npy::read(path),
    }
}
