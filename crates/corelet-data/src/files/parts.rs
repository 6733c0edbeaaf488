//! Several files as one table: their rows run on, and errors name the file and the row in it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;

use super::cells::{CellColumn, check_range, within};
use crate::error::DataError;
use crate::scan::blocks::{Block, Blocks, ColumnInfo, Declared, Kind, Wanted, Worked, in_order};
use crate::scan::place::{Extent, Place};
use crate::scan::source::{Reader, Stored};
use crate::scan::text_cells::Markers;

/// Files with the same columns, one after the other.
pub(crate) struct Parts {
    name: String,
    parts: Vec<Part>,
    /// What the last look found of the sizes of the parts.
    latest: Mutex<Arc<Tally>>,
}

/// One of the files.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) reader: Box<dyn Reader>,
}

/// Rows and lines of each part as far as one look has read them.
#[derive(Default)]
struct Tally {
    parts: Vec<(AtomicUsize, AtomicU64)>,
    blocks: AtomicUsize,
    read: AtomicUsize,
    ended: AtomicBool,
}

impl Tally {
    fn new(parts: usize) -> Self {
        Self { parts: (0..parts).map(|_| Default::default()).collect(), ..Self::default() }
    }

    fn add(&self, part: usize, extent: Extent) {
        self.parts[part].0.fetch_add(extent.rows, Ordering::Relaxed);
        self.parts[part].1.fetch_add(extent.lines, Ordering::Relaxed);
        self.read.fetch_add(1, Ordering::Release);
    }

    fn is_complete(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            && self.read.load(Ordering::Acquire) == self.blocks.load(Ordering::Acquire)
    }

    /// What comes before each part, and all.
    fn starts(&self) -> Vec<Extent> {
        let mut before = Extent::default();
        let mut starts = vec![before];
        for (rows, lines) in &self.parts {
            before.add(Extent { rows: rows.load(Ordering::Acquire), lines: lines.load(Ordering::Acquire) });
            starts.push(before);
        }
        starts
    }
}

impl Parts {
    /// Refuses files whose columns differ from those of the first.
    pub(crate) fn new(name: String, parts: Vec<Part>) -> Result<Self, DataError> {
        if let Some((first, others)) = parts.split_first() {
            others.iter().try_for_each(|part| check_columns(first, part))?;
        }
        Ok(Self { name, parts, latest: Mutex::default() })
    }

    fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rows before each part and in all: known from the last look, else from one that counts.
    fn rows_before(&self) -> Result<Vec<usize>, DataError> {
        if !self.tally().is_complete() {
            let markers = Markers::default();
            let work = |block: Block<'_>| {
                let upto = block.upto;
                Ok(Worked { result: (), extent: block.read(&mut |_| Ok(()))?, upto })
            };
            in_order(self.blocks(&[], &markers)?, Extent::default(), work, |_, _| Ok(()))?;
        }
        Ok(self.tally().starts().iter().map(|start| start.rows).collect())
    }
}

impl Reader for Parts {
    fn columns(&self) -> &[ColumnInfo] {
        self.parts[0].reader.columns()
    }

    fn stored(&self) -> Option<&dyn Stored> {
        self.parts.iter().all(|part| part.reader.stored().is_some()).then_some(self)
    }

    fn own_target(&self) -> Option<usize> {
        self.parts[0].reader.own_target()
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        let tally = Arc::new(Tally::new(self.parts.len()));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&tally);
        let ended = Arc::clone(&tally);
        let mut bytes = 0;
        // Opened one after the other, and each only when its turn has come.
        let blocks = self.parts.iter().enumerate().flat_map(move |(at, part)| {
            let before = bytes;
            bytes += part.reader.stored().map_or(0, Stored::len);
            let tally = Arc::clone(&tally);
            let blocks = part.reader.blocks(wanted, markers);
            let (blocks, error) = match blocks {
                Ok(blocks) => (Some(blocks), None),
                Err(error) => (None, Some(Err(error))),
            };
            error.into_iter().chain(blocks.into_iter().flatten().map(move |block| {
                let (block, tally) = (block?, Arc::clone(&tally));
                tally.blocks.fetch_add(1, Ordering::AcqRel);
                Ok(Block::new(before + block.upto, move |visit| {
                    let extent = block.read(visit)?;
                    tally.add(at, extent);
                    Ok(extent)
                }))
            }))
        });
        let end = std::iter::once_with(move || {
            ended.ended.store(true, Ordering::Release);
            None
        });
        Ok(Box::new(blocks.map(Some).chain(end).flatten()))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        let starts = self.rows_before()?;
        check_range(&self.name, rows, starts.last().copied().unwrap_or_default())?;
        let mut found: Vec<Vec<CellColumn>> = self.columns().iter().map(|_| Vec::new()).collect();
        for (part, bounds) in self.parts.iter().zip(starts.windows(2)) {
            let wanted = &rows[within(rows, bounds[0], bounds[1] - bounds[0])];
            if wanted.is_empty() && !rows.is_empty() {
                continue;
            }
            let local: Vec<usize> = wanted.iter().map(|row| row - bounds[0]).collect();
            let cells = part.reader.cells(&local)?;
            found.iter_mut().zip(cells).for_each(|(found, cells)| found.push(cells));
        }
        let joined = found.iter().map(|columns| join(columns));
        joined.collect::<Result<_, _>>().map_err(|e| DataError::read(&self.name, &e))
    }

    fn locate(&self, file: &str, place: Place) -> Option<(String, Place)> {
        let starts = self.tally().starts();
        // Where a block failed, the sizes of its part and the later ones are not known, but it names its file.
        let named = self.parts.iter().position(|part| part.name == file);
        let after = starts[..self.parts.len()].partition_point(|start| start.rows <= place.row);
        let at = named.unwrap_or(after.saturating_sub(1));
        let header = self.parts[at].reader.first();
        let line = place.line.map(|line| line + header.lines - starts[at].lines);
        Some((self.parts[at].name.clone(), Place { row: place.row - starts[at].rows, line }))
    }
}

impl Stored for Parts {
    fn len(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.reader.stored()).map(Stored::len).sum()
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        self.parts.iter().filter_map(|part| part.reader.stored()).try_for_each(Stored::check_unchanged)
    }
}

/// The same names in the same order, of the same kinds.
fn check_columns(first: &Part, other: &Part) -> Result<(), DataError> {
    let differs = |reason: String| {
        let (file, first) = (other.name.clone(), first.name.clone());
        Err(DataError::PartColumns { file, first, reason })
    };
    let (expected, found) = (first.reader.columns(), other.reader.columns());
    let named = |columns: &[ColumnInfo], name: &str| columns.iter().any(|column| column.name == name);
    if let Some(column) = expected.iter().find(|column| !named(found, &column.name)) {
        return differs(format!("it has no column '{}'", column.name));
    }
    if let Some(column) = found.iter().find(|column| !named(expected, &column.name)) {
        return differs(format!("it has a column '{}' that the other has not", column.name));
    }
    for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected.name != found.name {
            return differs(format!(
                "its column {} is '{}' instead of '{}'",
                at + 1,
                found.name,
                expected.name
            ));
        }
        if expected.declared != found.declared {
            let (here, there) = (kind(&found.declared), kind(&expected.declared));
            return differs(format!("its column '{}' is {here} instead of {there}", found.name));
        }
    }
    Ok(())
}

fn kind(declared: &Declared) -> String {
    match declared {
        Declared::Nothing => "of no declared type".to_owned(),
        Declared::Kind(Kind::Number) => "numbers".to_owned(),
        Declared::Kind(Kind::Bool) => "booleans".to_owned(),
        Declared::Kind(Kind::Text) => "text".to_owned(),
        Declared::Categories => "categories".to_owned(),
        Declared::Unsupported(kind) => kind.clone(),
    }
}

/// The cells of one column, file after file, in a type that all of them go into.
fn join(columns: &[CellColumn]) -> Result<CellColumn, ArrowError> {
    let kinds: Vec<&DataType> = columns.iter().map(|column| column.values.data_type()).collect();
    let spelled: Option<Vec<ArrayRef>> = columns.iter().map(|column| column.spelling.clone()).collect();
    let all = |test: fn(&DataType) -> bool| kinds.iter().all(|kind| test(kind));
    let values = if kinds.windows(2).all(|pair| pair[0] == pair[1]) {
        concatenated(columns.iter().map(|column| Ok(column.values.clone())))?
    } else if all(DataType::is_integer) {
        concatenated(columns.iter().map(|column| cast(&column.values, &DataType::Int64)))?
    } else if all(|kind| kind.is_numeric() || kind.is_null()) {
        concatenated(columns.iter().map(|column| cast(&column.values, &DataType::Float64)))?
    } else {
        concatenated(columns.iter().map(texts))?
    };
    let spelling = spelled.map(|parts| concatenated(parts.into_iter().map(Ok))).transpose()?;
    let name = columns.first().map_or_else(String::new, |column| column.name.clone());
    Ok(CellColumn { name, values, spelling })
}

/// Cells as text, spelled as the file spells them; what is missing stays so.
fn texts(column: &CellColumn) -> Result<ArrayRef, ArrowError> {
    let Some(spelling) = &column.spelling else { return cast(&column.values, &DataType::Utf8) };
    let cells = spelling.as_string::<i32>().iter().enumerate();
    let cells = cells.map(|(row, cell)| cell.filter(|_| column.values.is_valid(row)).map(str::trim));
    Ok(Arc::new(cells.collect::<StringArray>()))
}

fn concatenated(parts: impl Iterator<Item = Result<ArrayRef, ArrowError>>) -> Result<ArrayRef, ArrowError> {
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    concat(&parts.iter().map(|part| &**part as &dyn Array).collect::<Vec<_>>())
}
