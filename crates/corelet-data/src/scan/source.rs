//! A table that can be looked at several times, wherever it is: a file of any format, standard input, or memory.

use std::ops::ControlFlow;

use crate::design::dataset::{Dataset, design};
use crate::design::options::DesignOptions;
use crate::error::DataError;
#[cfg(feature = "files")]
use crate::files::cells::CellColumn;
use crate::listing::list_names;
use crate::scan::blocks::{Blocks, ColumnInfo, Reading, Wanted, Watch};
use crate::scan::in_memory::InMemory;
use crate::scan::place::{Extent, Place};
use crate::scan::storage::Storage;
use crate::scan::table::Table;
use crate::scan::text_cells::Markers;
use crate::scan::view::TableView;

/// What every format can do.
pub(crate) trait Reader: Send + Sync {
    /// The columns, with distinct names.
    fn columns(&self) -> &[ColumnInfo];

    /// What it reads, where that is bytes.
    fn stored(&self) -> Option<&dyn Stored> {
        None
    }

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

    /// The file of several, and the place in it, of a place that an error of the last look gives; `file` is the one that it
    /// names. None if there is one file, in which places are what they are.
    fn locate(&self, _file: &str, _place: Place) -> Option<(String, Place)> {
        None
    }

    /// The cells of `rows`, sorted and distinct, in all columns.
    #[cfg(feature = "files")]
    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError>;
}

/// Bytes in a file, or kept of a pipe.
pub(crate) trait Stored {
    /// How many.
    fn len(&self) -> u64;

    /// Refuses a file that is not what it was when it was opened.
    fn check_unchanged(&self) -> Result<(), DataError>;
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

    /// What a format reads.
    pub(crate) fn of_reader(name: String, reader: Box<dyn Reader + 'a>) -> Self {
        Self { name, reader }
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
        self.design_watched(options, &Storage::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// [`design`](Self::design), with a say in where the rows are kept, and with someone who hears how far it has come and may
    /// stop it.
    ///
    /// # Errors
    /// As before, [`DataError::Scratch`] and [`DataError::Stopped`].
    pub fn design_watched(
        &self,
        options: &DesignOptions,
        storage: &Storage,
        watch: &mut Watch<'_>,
    ) -> Result<Dataset, DataError> {
        design(self, options, storage, watch).map_err(|error| self.located(error))
    }

    /// The same error with the file of several, and the row in that file.
    pub(crate) fn located(&self, mut error: DataError) -> DataError {
        if let Some((file, place)) = error.spot()
            && let Some(found) = self.reader.locate(file, *place)
        {
            (*file, *place) = found;
        }
        error
    }

    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    /// The position of the column called `name`.
    pub(crate) fn unknown_column(&self, name: &str) -> DataError {
        DataError::unknown_column(&self.name, name, &self.column_names())
    }

    /// The column names, for messages.
    pub(crate) fn known_columns(&self) -> String {
        list_names(&self.column_names())
    }
}

/// Tells how far a look has come; an error where that is far enough.
pub(crate) fn report(
    reader: &dyn Reader,
    look: usize,
    rows: usize,
    bytes: u64,
    watch: &mut Watch<'_>,
) -> Result<(), DataError> {
    let total_bytes = reader.stored().map_or(0, Stored::len);
    match watch(&Reading { look, rows, bytes: bytes.min(total_bytes), total_bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(DataError::Stopped),
    }
}
