//! Files: every format that tables are read from and rows are written to.

use std::path::Path;

use super::error::DataError;
use super::source::{Reader, Source};

pub(super) mod arrow_columns;
pub(super) mod arrow_ipc;
pub(super) mod cell_text;
pub(super) mod cells;
pub(super) mod content;
pub(super) mod coreset;
pub(super) mod csv;
pub(super) mod format;
pub(super) mod guard;
pub(super) mod libsvm;
pub(super) mod npy;
pub(super) mod npz;
pub(super) mod output;
pub(super) mod parquet;
pub(super) mod parquet_pages;
pub(super) mod text_file;
pub(super) mod write;

use cells::{RowCells, in_order};
use content::{Content, is_standard_input};
use format::Format;

impl Source<'static> {
    /// Opens a file, or standard input where the path is `-`.
    ///
    /// The format is that of the file's extension unless given; standard input is CSV unless given. Missing are: an
    /// empty field, `NA`, `NaN` or `null` in a text file, a null in Parquet or Arrow, and a NaN in a binary file; a
    /// [design](super::DesignOptions) may name more.
    ///
    /// # Errors
    /// Names the file and what is wrong with it. Rows are not looked at yet.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, DataError> {
        let format = match format {
            Some(format) => format,
            None if is_standard_input(path) => Format::Csv,
            None => Format::from_path(path)?,
        };
        let content = Content::open(path)?;
        let name = content.name.clone();
        let reader: Box<dyn Reader> = match format {
            Format::Csv => Box::new(csv::DelimitedText::open(content, b',')?),
            Format::Tsv => Box::new(csv::DelimitedText::open(content, b'\t')?),
            Format::Parquet => Box::new(parquet::ParquetFile::open(content)?),
            Format::Arrow => Box::new(arrow_ipc::ArrowFile::open(content)?),
            Format::Libsvm => Box::new(libsvm::LibsvmText::open(content)?),
            Format::Npz => Box::new(npz::open(&content)?),
            Format::Npy => Box::new(npy::NumpyArrays::open(content)?),
        };
        Ok(Self::of_reader(name, reader))
    }
}

impl Source<'_> {
    /// The cells of chosen rows of the file, as they are there.
    ///
    /// # Errors
    /// Where there is no such row, or the file cannot be read any more.
    pub fn cells(&self, rows: &[usize]) -> Result<RowCells, DataError> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let columns = self.reader().cells(&sorted)?;
        let columns = in_order(columns, &sorted, rows).map_err(|e| DataError::read(self.name(), &e))?;
        Ok(RowCells { rows: rows.to_vec(), columns })
    }
}
