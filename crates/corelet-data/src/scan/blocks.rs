//! A look at a file: blocks of rows, worked on by all cores, with the results handed on in file order.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::scan::place::{Extent, Place, Runs};
use crate::scan::view::ValuesView;
use corelet_kernels::parallel;

/// What a reader knows of a column before any row is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnInfo {
    pub(crate) name: String,
    pub(crate) declared: Declared,
    /// Whether it is a data frame's index, which is used only where it is named.
    pub(crate) index: bool,
}

impl ColumnInfo {
    pub(crate) fn new(name: String, declared: Declared) -> Self {
        Self { name, declared, index: false }
    }
}

/// What a file says of a column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Declared {
    /// Nothing: text files do not say.
    Nothing,
    /// It can be used as this.
    Kind(Kind),
    /// Categories, which may well look like numbers.
    Categories,
    /// No model can use it.
    Unsupported(String),
}

/// What the cells of a column in use are taken as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Number,
    Bool,
    Text,
}

/// A column that a look is to bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its position in the file.
    pub(crate) column: usize,
    /// What its cells are taken as; to be guessed, block by block, where none is given.
    pub(crate) kind: Option<Kind>,
}

/// Rows of a block, as many as are in memory at a time.
pub(crate) struct Batch<'a> {
    /// Rows of the block that came before.
    pub(crate) start: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    /// The wanted columns.
    pub(crate) columns: Vec<BatchColumn<'a>>,
    /// The line of each row of the block, from 1, in a text file.
    pub(crate) lines: Option<&'a Runs>,
}

/// Cells of one wanted column.
#[derive(Clone, Copy)]
pub(crate) struct BatchColumn<'a> {
    /// What they were taken as; none if all of them are missing.
    pub(crate) kind: Option<Kind>,
    pub(crate) values: ValuesView<'a>,
}

impl Batch<'_> {
    /// Where a row of the batch is, counted from the beginning of the block.
    pub(crate) fn place(&self, i: usize) -> Place {
        let row = self.start + i;
        Place { row, line: self.lines.map(|lines| lines.number(row)) }
    }
}

/// An error whose place, if it has one, is counted from the beginning of a block.
pub(crate) enum Fault {
    /// Of the file as a whole.
    File(DataError),
    /// An error of one row, made when its place in the file is known.
    Row(Place, Box<dyn FnOnce(Place) -> DataError + Send>),
}

impl Fault {
    pub(crate) fn at(place: Place, error: impl FnOnce(Place) -> DataError + Send + 'static) -> Self {
        Self::Row(place, Box::new(error))
    }

    /// The error, given what comes before the block.
    pub(crate) fn after(self, before: Extent) -> DataError {
        match self {
            Self::File(error) => error,
            Self::Row(place, error) => error(place.after(before)),
        }
    }
}

impl From<DataError> for Fault {
    fn from(error: DataError) -> Self {
        Self::File(error)
    }
}

/// Hears of each batch of a block.
pub(crate) type Visit<'v> = dyn FnMut(&Batch<'_>) -> Result<(), Fault> + 'v;

type ReadBlock<'a> = dyn FnOnce(&mut Visit<'_>) -> Result<Extent, Fault> + Send + 'a;

/// Rows that one core decodes by itself.
pub(crate) struct Block<'a> {
    /// Bytes of the file that have been read once this block has.
    pub(crate) upto: u64,
    read: Box<ReadBlock<'a>>,
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        upto: u64,
        read: impl FnOnce(&mut Visit<'_>) -> Result<Extent, Fault> + Send + 'a,
    ) -> Self {
        Self { upto, read: Box::new(read) }
    }

    /// Hands every batch to `visit`, in order, and tells how much it was.
    pub(crate) fn read(self, visit: &mut Visit<'_>) -> Result<Extent, Fault> {
        (self.read)(visit)
    }
}

/// The blocks of a file, in order.
pub(crate) type Blocks<'a> = Box<dyn Iterator<Item = Result<Block<'a>, DataError>> + Send + 'a>;

/// How far a look has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Which look at the data this is, from 1.
    pub look: usize,
    /// Rows that have been read in this look.
    pub rows: usize,
    /// Bytes of the file that have been read in this look.
    pub bytes: u64,
    /// Bytes of the file.
    pub total_bytes: u64,
}

/// Hears how far a look has come, and may stop it.
pub type Watch<'w> = dyn FnMut(&Reading) -> ControlFlow<()> + 'w;

/// What came of one block.
pub(crate) struct Worked<T> {
    pub(crate) result: T,
    pub(crate) extent: Extent,
    pub(crate) upto: u64,
}

/// Works on each job, several at a time, and hands the results to `fold` in order, on this thread.
///
/// Jobs are made one after another while earlier ones are worked on. Which results there are, and their order, does
/// not depend on the number of threads.
pub(crate) fn in_order<J: Send, T: Send>(
    mut jobs: impl Iterator<Item = Result<J, DataError>> + Send,
    start: Extent,
    work: impl Fn(J) -> Result<Worked<T>, Fault> + Sync,
    mut fold: impl FnMut(Extent, Worked<T>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let width = 2 * rayon::current_num_threads();
    let mut before = start;
    let (mut next, mut failed) = take(&mut jobs, width);
    while !next.is_empty() {
        let current = std::mem::take(&mut next);
        let end = failed.is_some();
        let (mut current, mut taken, mut done) = (Some(current), (Vec::new(), None), Vec::new());
        parallel::both(
            &mut || {
                if !end {
                    taken = take(&mut jobs, width);
                }
            },
            &mut || done = parallel::map(current.take().unwrap_or_default(), &work),
        );
        for result in done {
            let worked = result.map_err(|fault| fault.after(before))?;
            let extent = worked.extent;
            fold(before, worked)?;
            before.add(extent);
        }
        next = taken.0;
        failed = failed.or(taken.1);
    }
    failed.map_or(Ok(()), Err)
}

/// Up to `count` jobs, and the error that ended them.
fn take<J>(
    jobs: &mut impl Iterator<Item = Result<J, DataError>>,
    count: usize,
) -> (Vec<J>, Option<DataError>) {
    let mut taken = Vec::with_capacity(count);
    for job in jobs.take(count) {
        match job {
            Ok(job) => taken.push(job),
            Err(error) => return (taken, Some(error)),
        }
    }
    (taken, None)
}
