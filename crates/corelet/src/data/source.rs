//! A table that can be looked at several times, wherever it is: a file of any format, standard input, or memory.

use std::ops::ControlFlow;
use std::path::Path;

use super::arrow_ipc::ArrowFile;
use super::blocks::{Blocks, ColumnInfo, Reading, Wanted, Watch};
use super::cells::{CellColumn, RowCells, in_order};
use super::content::{Content, is_standard_input};
use super::csv::DelimitedText;
use super::design::{Dataset, DesignOptions, design};
use super::error::{DataError, list_names};
use super::format::Format;
use super::in_memory::InMemory;
use super::libsvm::LibsvmText;
use super::npy::NumpyArrays;
use super::npz;
use super::parquet::ParquetFile;
use super::place::Extent;
use super::table::Table;
use super::text_cells::Markers;
use super::view::TableView;

/// What every format can do.
pub(super) trait Reader: Send + Sync {
    /// The columns, with distinct names.
    fn columns(&self) -> &[ColumnInfo];

    /// The bytes that it reads, where it reads bytes.
    fn content(&self) -> Option<&Content>;

    /// What comes before the first row.
    fn first(&self) -> Extent {
        Extent::default()
    }

    /// The column that the format itself marks as the target.
    fn own_target(&self) -> Option<usize> {
        None
    }

    /// The wanted columns of all rows, in blocks that depend on nothing but the file.
    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError>;

    /// The cells of `rows`, sorted and distinct, in all columns.
    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError>;
}

/// A table, of which no more than a few blocks are in memory at a time.
///
/// What can be read only once (standard input, a pipe) is kept: in memory where it is small, otherwise in a temporary file
/// without a name.
pub struct Source<'a> {
    name: String,
    reader: Box<dyn Reader + 'a>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("columns", &self.column_names()).finish()
    }
}

impl Source<'static> {
    /// Opens a file, or standard input where the path is `-`.
    ///
    /// The format is that of the file's extension unless given; standard input is CSV unless given. Missing are: an
    /// empty field, `NA`, `NaN` or `null` in a text file, a null in Parquet or Arrow, and a NaN in a binary file; a
    /// [design](DesignOptions) may name more.
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
            Format::Csv => Box::new(DelimitedText::open(content, b',')?),
            Format::Tsv => Box::new(DelimitedText::open(content, b'\t')?),
            Format::Parquet => Box::new(ParquetFile::open(content)?),
            Format::Arrow => Box::new(ArrowFile::open(content)?),
            Format::Libsvm => Box::new(LibsvmText::open(content)?),
            Format::Npz => Box::new(npz::open(&content)?),
            Format::Npy => Box::new(NumpyArrays::open(content)?),
        };
        Ok(Self { name, reader })
    }

    /// A table in memory.
    pub fn of_table(table: Table) -> Self {
        Self { name: table.source.clone(), reader: Box::new(InMemory::of_table(table)) }
    }
}

impl<'a> Source<'a> {
    /// A table in memory that belongs to someone else. Nothing is copied.
    pub fn of_view(view: TableView<'a>) -> Self {
        Self { name: view.source.to_owned(), reader: Box::new(InMemory::of_view(view)) }
    }

    /// How messages name it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of all columns, in file order.
    pub fn column_names(&self) -> Vec<&str> {
        self.reader.columns().iter().map(|column| column.name.as_str()).collect()
    }

    /// What models are built on.
    ///
    /// # Errors
    /// Names the file, the column and the row.
    pub fn design(&self, options: &DesignOptions) -> Result<Dataset, DataError> {
        self.design_watched(options, &mut |_| ControlFlow::Continue(()))
    }

    /// [`design`](Self::design), with someone who hears how far it has come, and may stop it.
    ///
    /// # Errors
    /// As before, and [`DataError::Stopped`].
    pub fn design_watched(
        &self,
        options: &DesignOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Dataset, DataError> {
        design(self, options, watch)
    }

    /// The cells of chosen rows of the file, as they are there.
    ///
    /// # Errors
    /// Where there is no such row, or the file cannot be read any more.
    pub fn cells(&self, rows: &[usize]) -> Result<RowCells, DataError> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let columns = self.reader.cells(&sorted)?;
        let columns = in_order(columns, &sorted, rows).map_err(|e| DataError::read(&self.name, &e))?;
        Ok(RowCells { rows: rows.to_vec(), columns })
    }

    pub(super) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// The position of the column called `name`.
    pub(super) fn unknown_column(&self, name: &str) -> DataError {
        DataError::UnknownColumn {
            file: self.name.clone(),
            column: name.to_owned(),
            known: self.known_columns(),
        }
    }

    /// The column names, for messages.
    pub(super) fn known_columns(&self) -> String {
        list_names(&self.column_names())
    }
}

/// Tells how far a look has come; an error where that is far enough.
pub(super) fn report(
    reader: &dyn Reader,
    look: usize,
    rows: usize,
    bytes: u64,
    watch: &mut Watch<'_>,
) -> Result<(), DataError> {
    let total_bytes = reader.content().map_or(0, Content::len);
    match watch(&Reading { look, rows, bytes: bytes.min(total_bytes), total_bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(DataError::Stopped),
    }
}
