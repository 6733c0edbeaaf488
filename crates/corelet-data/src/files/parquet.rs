//! Parquet files, a row group at a time on each core.

use std::collections::BTreeMap;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowSelection,
};
use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use arrow_array::{ArrayRef, RecordBatch, new_empty_array};

use super::arrow_columns::{Decoder, columns_of};
use super::cells::{CellColumn, check_range, gathered, within};
use super::content::{Content, ContentReader};
use super::guard::guarded;
use super::parquet_pages::check_pages;
use crate::error::DataError;
use crate::scan::blocks::{Block, Blocks, ColumnInfo, Fault, Visit, Wanted};
use crate::scan::place::Extent;
use crate::scan::source::{Reader, Stored};
use crate::scan::text_cells::Markers;
use corelet_kernels::parallel;

const FORMAT: &str = "Parquet";
const BATCH_ROWS: usize = 1 << 15;

/// A Parquet file whose footer has been read.
pub(crate) struct ParquetFile {
    content: Content,
    metadata: ArrowReaderMetadata,
    columns: Vec<ColumnInfo>,
    /// Rows before each row group, and in all.
    starts: Vec<usize>,
}

impl ParquetFile {
    /// Reads the footer.
    pub(crate) fn open(content: Content) -> Result<Self, DataError> {
        let file = content.name.clone();
        guarded(&file, FORMAT, || {
            let damaged = |e: ParquetError| DataError::damaged(&file, FORMAT, &e);
            let metadata = ArrowReaderMetadata::load(&content, ArrowReaderOptions::new()).map_err(damaged)?;
            let columns = columns_of(&file, metadata.schema())?;
            let starts = row_counts(&file, &metadata)?;
            check_codecs(&file, &metadata)?;
            Ok(Self { content, metadata, columns, starts })
        })
    }

    /// What the file's metadata say, by key.
    pub(super) fn notes(&self) -> BTreeMap<String, String> {
        let notes = self.metadata.metadata().file_metadata().key_value_metadata();
        let notes = notes.into_iter().flatten();
        notes.filter_map(|note| Some((note.key.clone(), note.value.clone()?))).collect()
    }

    /// Rows of a row group.
    fn rows(&self, group: usize) -> usize {
        self.starts[group + 1] - self.starts[group]
    }

    /// Bytes of the file up to the end of a row group.
    fn upto(&self, group: usize) -> u64 {
        let columns = self.metadata.metadata().row_group(group).columns().iter();
        let end = |start: i64, length: i64| start.max(0).saturating_add(length.max(0)) as u64;
        columns.map(|column| end(column.data_page_offset(), column.compressed_size())).max().unwrap_or(0)
    }

    /// A reader of some columns of one row group, whose pages have been compared with the footer.
    fn reader(
        &self,
        group: usize,
        mask: &ProjectionMask,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader, DataError> {
        let row_group = self.metadata.metadata().row_group(group);
        for (leaf, column) in row_group.columns().iter().enumerate() {
            if mask.leaf_included(leaf) {
                check_pages(&self.content, row_group, column)?;
            }
        }
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.content.clone(), self.metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(mask.clone())
                .with_batch_size(BATCH_ROWS);
        let builder = match selection {
            Some(selection) => builder.with_row_selection(selection),
            None => builder,
        };
        builder.build().map_err(|e| DataError::damaged(&self.content.name, FORMAT, &e))
    }

    fn read_group(
        &self,
        group: usize,
        wanted: &[Wanted],
        markers: &Markers,
        visit: &mut Visit<'_>,
    ) -> Result<Extent, Fault> {
        let file = &self.content.name;
        let mask =
            ProjectionMask::roots(self.metadata.parquet_schema(), wanted.iter().map(|wanted| wanted.column));
        let decoder = Decoder::new(file, FORMAT, wanted, markers);
        let mut start = 0;
        for batch in self.reader(group, &mask, None)? {
            let batch = batch.map_err(|e| DataError::damaged(file, FORMAT, &e))?;
            decoder.visit(&batch, start, visit)?;
            start += batch.num_rows();
        }
        if start != self.rows(group) {
            let reason = format!("row group {group} has {start} rows, the footer says {}", self.rows(group));
            return Err(DataError::damaged(file, FORMAT, &reason).into());
        }
        Ok(Extent { rows: start, lines: 0 })
    }

    fn gather(&self, group: usize, rows: &[usize]) -> Result<Vec<RecordBatch>, DataError> {
        let first = self.starts[group];
        let ranges = rows.iter().map(|&row| row - first..row - first + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.rows(group));
        let reader = self.reader(group, &ProjectionMask::all(), Some(selection))?;
        reader.collect::<Result<_, _>>().map_err(|e| DataError::damaged(&self.content.name, FORMAT, &e))
    }
}

/// Where row groups begin, checked against the number of rows that the file claims.
fn row_counts(file: &str, metadata: &ArrowReaderMetadata) -> Result<Vec<usize>, DataError> {
    let metadata = metadata.metadata();
    let mut starts = vec![0usize];
    for group in metadata.row_groups() {
        let rows = usize::try_from(group.num_rows()).ok();
        let next = rows.and_then(|rows| starts.last().copied().unwrap_or_default().checked_add(rows));
        starts.push(next.ok_or_else(|| DataError::damaged(file, FORMAT, &"a row group of negative length"))?);
    }
    let total = starts.last().copied().unwrap_or_default();
    let claimed = metadata.file_metadata().num_rows();
    if usize::try_from(claimed) == Ok(total) {
        return Ok(starts);
    }
    let reason = format!("its row groups have {total} rows, the footer says {claimed}");
    Err(DataError::damaged(file, FORMAT, &reason))
}

/// Refuses pages in a compression that this build does not read.
fn check_codecs(file: &str, metadata: &ArrowReaderMetadata) -> Result<(), DataError> {
    let mut columns = metadata.metadata().row_groups().iter().flat_map(|group| group.columns());
    let unread = |codec: Compression| match codec {
        Compression::LZO => Some("LZO"),
        Compression::BROTLI(_) if !cfg!(feature = "brotli") => Some("brotli"),
        _ => None,
    };
    match columns.find_map(|column| unread(column.compression())) {
        Some(codec) => Err(DataError::Codec { file: file.to_owned(), codec }),
        None => Ok(()),
    }
}

impl Reader for ParquetFile {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn stored(&self) -> Option<&dyn Stored> {
        Some(&self.content)
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        let groups = 0..self.starts.len() - 1;
        Ok(Box::new(groups.map(move |group| {
            Ok(Block::new(self.upto(group), move |visit| {
                guarded(&self.content.name, FORMAT, || self.read_group(group, wanted, markers, visit))
            }))
        })))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        check_range(&self.content.name, rows, self.starts.last().copied().unwrap_or_default())?;
        let file = &self.content.name;
        let fields = self.metadata.schema().fields();
        let mut parts: Vec<Vec<ArrayRef>> =
            fields.iter().map(|field| vec![new_empty_array(field.data_type())]).collect();
        let found: Vec<Vec<RecordBatch>> = parallel::map(
            (0..self.starts.len() - 1)
                .map(|group| (group, &rows[within(rows, self.starts[group], self.rows(group))]))
                .filter(|(_, wanted)| !wanted.is_empty()),
            |(group, wanted)| guarded(file, FORMAT, || self.gather(group, wanted)),
        )
        .into_iter()
        .collect::<Result<_, _>>()?;
        for batch in found.iter().flatten() {
            parts.iter_mut().zip(batch.columns()).for_each(|(part, array)| part.push(array.clone()));
        }
        gathered(file, FORMAT, &self.columns, &parts, rows.len())
    }
}

impl Length for Content {
    fn len(&self) -> u64 {
        Content::len(self)
    }
}

impl ChunkReader for Content {
    type T = std::io::BufReader<ContentReader>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.reader(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        Ok(self.bytes(start, length as u64)?.into())
    }
}
