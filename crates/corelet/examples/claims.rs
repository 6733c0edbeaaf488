//! `cargo run --release -p corelet --example claims -- FILE.parquet [ROWS [SEED]]`: the policies of an insurer, for the benchmarks.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use corelet::data::Values;
use corelet::generate;
use parquet::arrow::ArrowWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file is to be written?")?;
    let rows = arguments.next().map_or(Ok(700_000), |rows| rows.parse())?;
    let seed = arguments.next().map_or(Ok(0), |seed| seed.parse())?;
    let table = generate::claims(rows, seed)?;
    let columns = table.columns.iter().map(|column| (&column.name, array(&column.values)));
    let batch = RecordBatch::try_from_iter(columns)?;
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Number { values, integer: true } => {
            Arc::new(Int64Array::from_iter_values(values.iter().map(|&x| x as i64)))
        }
        Values::Number { values, .. } => Arc::new(Float64Array::from(values.clone())),
        Values::Bool(values) => Arc::new(arrow_array::BooleanArray::from(values.clone())),
        Values::Text { codes, levels } => {
            let cell = |&code: &u32| levels.get(code as usize).map(String::as_str);
            Arc::new(codes.iter().map(cell).collect::<StringArray>())
        }
    }
}
