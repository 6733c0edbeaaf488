//! `cargo run --release -p corelet-data --example scale -- write PATH ROWS [PARTS]`: rows of a logistic regression with ten features
//! as one Parquet file, or a folder of parts; `… -- decode PATH...`: decodes all of them and does nothing else, on all threads.

use std::error::Error;
use std::fs::{File, create_dir_all};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int8Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

const FEATURES: usize = 10;

/// Rows of a row group, as most writers have it.
const GROUP: usize = 1 << 20;

/// Rows of one random stream, of which a part of a file has whole ones: the same rows however many parts there are.
const CHUNK: usize = 10_000;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path, rows] => write(Path::new(path), 0..rows.parse::<usize>()?.div_ceil(CHUNK)),
        ["write", folder, rows, parts] => {
            write_parts(Path::new(folder), rows.parse::<usize>()?.div_ceil(CHUNK), parts.parse()?)
        }
        ["decode", paths @ ..] => decode(paths),
        _ => Err("write PATH ROWS [PARTS], or decode PATH...".into()),
    }
}

fn write_parts(folder: &Path, chunks: usize, parts: usize) -> Result<(), Failed> {
    create_dir_all(folder)?;
    (0..parts).try_for_each(|part| {
        let path = folder.join(format!("part-{part:03}.parquet"));
        write(&path, part * chunks / parts..(part + 1) * chunks / parts)
    })
}

fn write(path: &Path, chunks: std::ops::Range<usize>) -> Result<(), Failed> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, rows(0)?.schema(), Some(properties))?;
    let chunks: Vec<usize> = chunks.collect();
    for chunks in chunks.chunks(64) {
        let made: Vec<RecordBatch> = chunks.par_iter().map(|&chunk| rows(chunk)).collect::<Result<_, _>>()?;
        made.iter().try_for_each(|batch| writer.write(batch))?;
    }
    writer.close()?;
    Ok(())
}

/// x ~ N(0, I), y = ±1 with the odds exp(Σ ±xⱼ/2).
fn rows(chunk: usize) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let mut rng = ChaCha8Rng::seed_from_u64(chunk as u64);
    let mut columns: Vec<Vec<f32>> = (0..FEATURES).map(|_| Vec::with_capacity(CHUNK)).collect();
    let mut target = Vec::with_capacity(CHUNK);
    for _ in 0..CHUNK {
        let mut eta = 0.0;
        for (j, column) in columns.iter_mut().enumerate() {
            let x: f32 = StandardNormal.sample(&mut rng);
            eta += if j % 2 == 0 { 0.5 * x } else { -0.5 * x };
            column.push(x);
        }
        target.push(if rng.random::<f32>() < 1.0 / (1.0 + (-eta).exp()) { 1i8 } else { 0 });
    }
    let features = columns.into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef);
    let named = features.enumerate().map(|(j, column)| (format!("x{}", j + 1), column));
    let target: ArrayRef = Arc::new(Int8Array::from(target));
    RecordBatch::try_from_iter(named.chain([("y".to_owned(), target)]))
}

/// The floor of every build: what it takes to have the cells once.
fn decode(paths: &[&str]) -> Result<(), Failed> {
    let clock = Instant::now();
    let mut groups: Vec<(PathBuf, ArrowReaderMetadata, usize)> = Vec::new();
    for path in paths {
        let metadata = ArrowReaderMetadata::load(&File::open(path)?, Default::default())?;
        let count = metadata.metadata().num_row_groups();
        groups.extend((0..count).map(|group| (PathBuf::from(path), metadata.clone(), group)));
    }
    let decoded = groups.par_iter().map(|(path, metadata, group)| -> Result<usize, Failed> {
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(File::open(path)?, metadata.clone())
            .with_row_groups(vec![*group])
            .with_batch_size(1 << 15)
            .build()?;
        reader.map(|batch| Ok(batch?.num_rows())).sum()
    });
    let rows: usize = decoded.sum::<Result<usize, Failed>>()?;
    writeln!(std::io::stdout(), "{rows} rows in {:.2} s", clock.elapsed().as_secs_f64())?;
    Ok(())
}
