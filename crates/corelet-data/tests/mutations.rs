//! Damaged files of every format: an error or a table, never a panic, and never part of a binary file as if it were whole.
//!
//! `CORELET_MUTATIONS` says how many (`make fuzz N=100000`), `CORELET_MUTATION_SEED` where they begin; without them a few
//! hundred are tried, always the same ones.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::fs;
use std::io::Write;
use std::panic;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use corelet_data::{Columns, DataError, DesignOptions, Outcome, Source, panic_is_caught};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROWS: usize = 300;

/// A file before it is damaged.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    target: Option<&'static str>,
    /// Whether a file that ends early can always be told.
    framed: bool,
}

fn batch() -> RecordBatch {
    let n = ROWS as i64;
    let kinds = ["a", "b", "c", "a text of more than twelve bytes"];
    let numbers = (0..n).map(|i| (i % 17 != 3).then_some((i * 37 % 101) as f64 / 7.0));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new(numbers.collect::<Float64Array>())),
        ("n", Arc::new(Int32Array::from_iter_values((0..n).map(|i| (i * 13 % 29) as i32)))),
        ("long", Arc::new(Int64Array::from_iter_values((0..n).map(|i| (1 << 60) + i)))),
        ("flag", Arc::new((0..n).map(|i| Some(i % 3 == 0)).collect::<BooleanArray>())),
        ("text", Arc::new((0..n).map(|i| Some(kinds[(i * i % 4) as usize])).collect::<StringArray>())),
        ("kind", Arc::new((0..n).map(|i| kinds[(i % 3) as usize]).collect::<DictionaryArray<Int32Type>>())),
        ("day", Arc::new(Date32Array::from_iter_values((0..n).map(|i| i as i32)))),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(0..n).with_timezone("UTC"))),
        ("y", Arc::new(Int64Array::from_iter_values((0..n).map(|i| i * 7 % 5 % 2)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn parquet(compression: Compression, version: WriterVersion) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_writer_version(version)
        .set_max_row_group_row_count(Some(ROWS / 2))
        .set_data_page_row_count_limit(50)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch().schema(), Some(properties)).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow_file(compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch().schema(), options).unwrap();
    parts().iter().for_each(|part| writer.write(part).unwrap());
    writer.into_inner().unwrap()
}

fn arrow_stream() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    parts().iter().for_each(|part| writer.write(part).unwrap());
    writer.into_inner().unwrap()
}

fn parts() -> Vec<RecordBatch> {
    (0..3).map(|i| batch().slice(i * 100, 100)).collect()
}

fn csv(delimiter: char) -> String {
    let lines = (0..ROWS).map(|i| {
        let text = ["a", "\"b,\nc\"", "d"][i * i % 3];
        let cells = [
            format!("{}.5", i * 37 % 101),
            format!("{}", i % 7),
            text.to_owned(),
            format!("{}", i * 7 % 5 % 2),
        ];
        cells.join(&delimiter.to_string()) + "\n"
    });
    ["x", "n", "text", "y"].join(&delimiter.to_string()) + "\n" + &lines.collect::<String>()
}

fn npy(columns: usize, fortran: &str) -> Vec<u8> {
    let shape = format!("({ROWS}, {columns})");
    let header = format!("{{'descr': '<f8', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let numbers = (0..ROWS * columns)
        .flat_map(|i| ((i * 7 % 5 % 2 + i % columns * (i * 37 % 11)) as f64).to_le_bytes());
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), &numbers.collect::<Vec<u8>>()].concat()
}

fn npz() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in [("X", npy(4, "False")), ("y", npy(1, "False"))] {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn samples() -> Vec<Sample> {
    let sample = |name, bytes, target, framed| Sample { name, bytes, target, framed };
    let libsvm: String = (0..ROWS).map(|i| format!("{} 1:{} 3:{}\n", i % 2, i % 7, i * 3 % 11)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv(',').as_bytes()).unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    vec![
        sample("a.csv", csv(',').into_bytes(), Some("y"), false),
        sample("a.tsv", csv('\t').into_bytes(), Some("y"), false),
        sample("a.csv.gz", gzip.finish().unwrap(), Some("y"), true),
        sample("a.csv.zst", zstd::encode_all(csv(',').as_bytes(), 1).unwrap(), Some("y"), true),
        sample("a.parquet", parquet(Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0), Some("y"), true),
        sample("snappy.parquet", parquet(Compression::SNAPPY, WriterVersion::PARQUET_2_0), Some("y"), true),
        sample("zstd.parquet", parquet(zstd, WriterVersion::PARQUET_1_0), Some("y"), true),
        sample("a.arrow", arrow_file(None), Some("y"), true),
        sample("lz4.arrow", arrow_file(Some(CompressionType::LZ4_FRAME)), Some("y"), true),
        sample("zstd.arrow", arrow_file(Some(CompressionType::ZSTD)), Some("y"), true),
        sample("a.arrows", arrow_stream(), Some("y"), true),
        sample("a.libsvm", libsvm.into_bytes(), None, false),
        sample("a.npy", npy(3, "False"), Some("x1"), true),
        sample("f.npy", npy(3, "True"), Some("x1"), true),
        sample("a.npz", npz(), None, true),
    ]
}

/// Damages `bytes`; true where all that was done is to cut off its end.
fn damage(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) -> bool {
    let cut = random.random_range(0..10) == 0;
    if cut {
        let length = random.random_range(0..bytes.len());
        bytes.truncate(length);
        return true;
    }
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..7) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => {
                let word = [0u64, u64::MAX, 1 << 31, 1 << 40, 0x7fff_ffff][random.random_range(0..5)];
                let width = [2, 4, 8][random.random_range(0..3)];
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&word.to_le_bytes()[..width])
                    .for_each(|(byte, new)| *byte = *new);
            }
            3 => {
                let end = bytes.len().min(at + random.random_range(1..64));
                bytes.drain(at..end);
            }
            4 => {
                let mut noise = vec![0; random.random_range(1..32)];
                random.fill_bytes(&mut noise);
                bytes.splice(at..at, noise);
            }
            5 => {
                let (end, to) = (bytes.len().min(at + 48), random.random_range(0..bytes.len()));
                let copy = bytes[at..end].to_vec();
                bytes.iter_mut().skip(to).zip(copy).for_each(|(byte, new)| *byte = new);
            }
            _ => {
                let special = b"\"\n,\0\r#:-e";
                bytes[at] = special[random.random_range(0..special.len())];
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    false
}

/// Reads all there is to read; the number of rows.
fn read(path: &Path, target: Option<&str>) -> Result<usize, DataError> {
    let source = Source::open(path, None)?;
    let options = DesignOptions {
        outcome: Outcome::Number,
        drop_missing: true,
        columns: Columns {
            target: target.map(str::to_owned),
            exclude: ["day", "at"]
                .iter()
                .filter(|name| source.column_names().contains(name))
                .map(|&n| n.to_owned())
                .collect(),
            ..Columns::default()
        },
        ..DesignOptions::default()
    };
    let dataset = source.design(&options);
    let rows = dataset.as_ref().map_or(0, |dataset| dataset.rows.total());
    if let Ok(dataset) = &dataset {
        assert!(dataset.observations.features.iter().all(|value| value.is_finite()));
        assert!(dataset.observations.target.iter().all(|value| value.is_finite()));
        source.cells(&[rows - 1, 0])?;
    }
    dataset.map(|_| rows)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn damaged_files_are_refused_or_read() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !panic_is_caught() {
            previous(info);
        }
    }));
    let (count, first) = (setting("CORELET_MUTATIONS", 600), setting("CORELET_MUTATION_SEED", 0));
    let folder = tempfile::tempdir().unwrap();
    let samples = samples();
    for sample in &samples {
        let path = folder.path().join(sample.name);
        fs::write(&path, &sample.bytes).unwrap();
        assert_eq!(read(&path, sample.target), Ok(ROWS), "{}", sample.name);
    }
    let (mut refused, mut taken) = (0, 0);
    for seed in first..first + count {
        let sample = &samples[(seed % samples.len() as u64) as usize];
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = sample.bytes.clone();
        let cut = damage(&mut bytes, &mut random);
        let path = folder.path().join(sample.name);
        fs::write(&path, bytes).unwrap();
        let result = read(&path, sample.target);
        if let Err(error) = &result {
            assert!(!error.to_string().contains('\n'), "seed {seed}: {error}");
            refused += 1;
        } else {
            assert!(!(cut && sample.framed), "seed {seed}: {} was cut and read as if whole", sample.name);
            taken += 1;
        }
    }
    println!("{count} damaged files: {refused} refused, {taken} read");
}
