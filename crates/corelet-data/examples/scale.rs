//! `cargo run --release -p corelet-data --example scale -- write PATH ROWS [PARTS]`: rows of a logistic regression with ten features
//! as one Parquet file, or a folder of parts; `… -- wide PATH.csv.gz ROWS`: 48 numbers, 12 texts and a target as compressed text;
//! `… -- decode PATH.parquet...`: decodes all of them and does nothing else, on all threads.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{File, create_dir_all};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int8Array, RecordBatch};
use flate2::write::GzEncoder;
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
        ["wide", path, rows] => write_wide(Path::new(path), rows.parse::<usize>()?.div_ceil(CHUNK)),
        ["decode", paths @ ..] => decode(paths),
        _ => Err("write PATH ROWS [PARTS], wide PATH ROWS, or decode PATH...".into()),
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

/// Numbers and texts of a wide row.
const WIDE: [usize; 2] = [48, 12];

/// A header, then a compressed member a chunk, made on all threads.
fn write_wide(path: &Path, chunks: usize) -> Result<(), Failed> {
    let [numbers, texts] = WIDE;
    let names = (1..=numbers).map(|j| format!("x{j}")).chain((1..=texts).map(|j| format!("t{j}")));
    let header = format!("y,{}\n", names.collect::<Vec<_>>().join(","));
    let mut file = File::create(path)?;
    file.write_all(&compressed(header.as_bytes())?)?;
    for start in (0..chunks).step_by(64) {
        let chunks: Vec<usize> = (start..chunks.min(start + 64)).collect();
        let made = chunks.par_iter().map(|&chunk| Ok(compressed(wide_rows(chunk)?.as_bytes())?));
        made.collect::<Result<Vec<_>, Failed>>()?.iter().try_for_each(|member| file.write_all(member))?;
    }
    Ok(())
}

fn compressed(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut member = GzEncoder::new(Vec::new(), flate2::Compression::new(4));
    member.write_all(text)?;
    member.finish()
}

/// Numbers of four decimals, the first ten of which matter; texts of 3 to 6 levels, fewer rows of the later ones.
fn wide_rows(chunk: usize) -> Result<String, std::fmt::Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(chunk as u64);
    let mut text = String::new();
    for _ in 0..CHUNK {
        let numbers: Vec<f32> = (0..WIDE[0]).map(|_| StandardNormal.sample(&mut rng)).collect();
        let levels: Vec<usize> =
            (0..WIDE[1]).map(|j| (rng.random::<f32>().powi(2) * (3 + j % 4) as f32) as usize).collect();
        let eta = numbers[..FEATURES].iter().sum::<f32>() / 3.0 + 0.3 * levels[0] as f32 - 0.5;
        let y = u8::from(rng.random::<f32>() < 1.0 / (1.0 + (-eta).exp()));
        write!(text, "{y}")?;
        numbers.iter().try_for_each(|x| write!(text, ",{x:.4}"))?;
        levels.iter().try_for_each(|level| write!(text, ",level-{level}"))?;
        text.push('\n');
    }
    Ok(text)
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
