//! Arrow IPC, in its file and its stream form.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};

use super::arrow_columns::ArrowTable;
use super::error::DataError;
use super::guard::guarded;
use super::input::{open_file, source_name};
use super::table::Table;

const FORMAT: &str = "Arrow IPC";
const FILE_MAGIC: &[u8] = b"ARROW1";

/// Reads an Arrow IPC file; the form is told by its first bytes.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let (file, content) = (source_name(path), open_file(path)?);
    guarded(&file, FORMAT, || read_content(content, &file))
}

fn read_content(content: File, file: &str) -> Result<Table, DataError> {
    let mut reader = BufReader::new(content);
    let damaged = |e: ArrowError| DataError::damaged(file, FORMAT, &e);
    if starts_with_file_magic(&mut reader).map_err(|e| DataError::read(file, &e))? {
        let batches = FileReader::try_new(reader, None).map_err(damaged)?;
        collect(ArrowTable::new(file, FORMAT, &batches.schema())?, batches, damaged)
    } else {
        let batches = StreamReader::try_new(reader, None).map_err(damaged)?;
        collect(ArrowTable::new(file, FORMAT, &batches.schema())?, batches, damaged)
    }
}

fn collect(
    mut table: ArrowTable,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    damaged: impl Fn(ArrowError) -> DataError,
) -> Result<Table, DataError> {
    for batch in batches {
        table.append(&batch.map_err(&damaged)?)?;
    }
    table.finish()
}

fn starts_with_file_magic(reader: &mut (impl Read + Seek)) -> std::io::Result<bool> {
    let mut start = Vec::with_capacity(FILE_MAGIC.len());
    reader.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut start)?;
    reader.seek(SeekFrom::Start(0))?;
    Ok(start == FILE_MAGIC)
}
