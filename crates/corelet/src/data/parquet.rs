//! Parquet files.

use std::path::Path;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::arrow_columns::ArrowTable;
use super::error::DataError;
use super::input::{open_file, source_name};
use super::table::Table;

const FORMAT: &str = "Parquet";
const BATCH_ROWS: usize = 1 << 15;

/// Reads a Parquet file, one batch of rows at a time.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let file = source_name(path);
    let builder = ParquetRecordBatchReaderBuilder::try_new(open_file(path)?)
        .map_err(|e| DataError::damaged(&file, FORMAT, &e))?;
    let mut table = ArrowTable::new(&file, FORMAT, builder.schema())?;
    let batches = builder.with_batch_size(BATCH_ROWS).build();
    for batch in batches.map_err(|e| DataError::damaged(&file, FORMAT, &e))? {
        table.append(&batch.map_err(|e| DataError::damaged(&file, FORMAT, &e))?)?;
    }
    table.finish()
}
