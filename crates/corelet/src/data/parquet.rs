//! Parquet files.

use std::fs::File;
use std::path::Path;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::arrow_columns::ArrowTable;
use super::error::DataError;
use super::guard::guarded;
use super::input::{open_file, source_name};
use super::table::Table;

const FORMAT: &str = "Parquet";
const BATCH_ROWS: usize = 1 << 15;

/// Reads a Parquet file, one batch of rows at a time.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let (file, content) = (source_name(path), open_file(path)?);
    guarded(&file, FORMAT, || read_content(content, &file))
}

fn read_content(content: File, file: &str) -> Result<Table, DataError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(content)
        .map_err(|e| DataError::damaged(file, FORMAT, &e))?;
    let mut table = ArrowTable::new(file, FORMAT, builder.schema())?;
    let batches = builder.with_batch_size(BATCH_ROWS).build();
    for batch in batches.map_err(|e| DataError::damaged(file, FORMAT, &e))? {
        table.append(&batch.map_err(|e| DataError::damaged(file, FORMAT, &e))?)?;
    }
    table.finish()
}
