//! One table, however it comes: the same rows to the bit, the cells as they were, and nothing lost on the way.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::DataType;
use corelet_data::{
    Columns, DataError, Dataset, DesignOptions, Extra, Format, Outcome, Source, Standardise, Storage,
    write_rows,
};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

/// n rows: two numbers, a text and a target.
fn batch(n: usize) -> RecordBatch {
    let uniform = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 10_007) as f64 / 997.0;
    let kinds = ["red", "green", "blue"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new((0..n).map(|i| Some(1e6 + uniform(i, 1))).collect::<Float64Array>())),
        ("b", Arc::new((0..n).map(|i| Some(uniform(i, 2))).collect::<Float64Array>())),
        ("kind", Arc::new((0..n).map(|i| Some(kinds[(i % 7) % 3])).collect::<StringArray>())),
        ("y", Arc::new((0..n).map(|i| Some(i64::from(uniform(i, 3) > 4.0))).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn csv(batch: &RecordBatch) -> String {
    let mut text = String::from("a,b,kind,y\n");
    let options = arrow_cast::display::FormatOptions::default();
    let cells = batch
        .columns()
        .iter()
        .map(|column| arrow_cast::display::ArrayFormatter::try_new(column.as_ref(), &options).unwrap());
    let cells: Vec<_> = cells.collect();
    for row in 0..batch.num_rows() {
        let line: Vec<String> = cells.iter().map(|cell| cell.value(row).to_string()).collect();
        text += &(line.join(",") + "\n");
    }
    text
}

fn parquet(batch: &RecordBatch, group_rows: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow_stream(batch: &RecordBatch, rows: usize) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for start in (0..batch.num_rows()).step_by(rows) {
        writer.write(&batch.slice(start, rows.min(batch.num_rows() - start))).unwrap();
    }
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn options() -> DesignOptions {
    DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() }
}

fn design(path: &Path, options: &DesignOptions) -> Result<Dataset, DataError> {
    Source::open(path, None)?.design(options)
}

fn assert_refused(path: &Path, parts: &[&str]) {
    let message = design(path, &options()).unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn the_same_bits_from_every_format_and_any_number_of_threads() {
    let folder = folder();
    let batch = batch(20_000);
    let text = csv(&batch);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let paths = [
        file(&folder, "whole.parquet", parquet(&batch, 1 << 20)),
        file(&folder, "groups.parquet", parquet(&batch, 777)),
        file(&folder, "rows.arrow", arrow_file(&batch, None)),
        file(&folder, "packed.arrow", arrow_file(&batch, Some(CompressionType::ZSTD))),
        file(&folder, "stream.arrows", arrow_stream(&batch, 1234)),
        file(&folder, "rows.csv", &text),
        file(&folder, "rows.csv.gz", gzip.finish().unwrap()),
    ];
    for (standardise, left_out) in [(Standardise::Scale, None), (Standardise::None, Some("a"))] {
        let exclude = left_out.map(str::to_owned).into_iter().collect();
        let options =
            DesignOptions { standardise, columns: Columns { exclude, ..options().columns }, ..options() };
        let expected = design(&paths[0], &options).unwrap();
        let names = ["a", "b", "kind=blue", "kind=green", "(intercept)"];
        assert_eq!(expected.names, names[usize::from(left_out.is_some())..]);
        for path in &paths {
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let found = pool.install(|| design(path, &options)).unwrap();
                assert!(found.observations == expected.observations, "{}", path.display());
                assert_eq!(found.standardisation, expected.standardisation, "{}", path.display());
                assert_eq!((found.names, found.rows), (expected.names.clone(), expected.rows.clone()));
            }
        }
        let table = Source::open(&paths[0], None).unwrap().table().unwrap();
        let in_memory = Source::of_table(table).design(&options).unwrap();
        assert!(in_memory.observations == expected.observations);
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_whole() {
    let folder = folder();
    let batch = batch(30_000);
    let files = [
        ("text", csv(&batch).into_bytes(), Format::Csv),
        ("rows", parquet(&batch, 5000), Format::Parquet),
        ("stream", arrow_stream(&batch, 999), Format::Arrow),
    ];
    for (name, bytes, format) in files {
        let pipe = folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (writer, into) = (pipe.clone(), bytes);
        let writing = std::thread::spawn(move || fs::write(writer, into));
        let source = Source::open(&pipe, Some(format)).unwrap();
        writing.join().unwrap().unwrap();
        let dataset = source.design(&options()).unwrap();
        assert_eq!(dataset.observations.len(), 30_000, "{name}");
        assert_eq!(source.cells(&[29_999]).unwrap().columns().len(), 4);
    }
}

/// Cells that no double holds, and dates that no calendar shows.
fn exact_batch() -> RecordBatch {
    let n = 6;
    let times = TimestampMicrosecondArray::from_iter_values((0..n).map(|i| i * 3_600_000_000));
    let mut days: Vec<i32> = (0..n as i32).collect();
    days[4] = i32::MAX;
    let decimals = Decimal128Array::from_iter_values((0..n).map(|i| 10_i128.pow(30) + i128::from(i)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values((0..n).map(|i| (1 << 60) + i)))),
        ("amount", Arc::new(decimals.with_precision_and_scale(38, 4).unwrap())),
        ("at", Arc::new(times.with_timezone("Europe/Berlin"))),
        ("day", Arc::new(Date32Array::from(days))),
        ("a", Arc::new(Float64Array::from_iter_values((0..n).map(|i| (i * i) as f64)))),
        ("y", Arc::new(Int64Array::from_iter_values((0..n).map(|i| i % 2)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn cells_are_written_as_they_were() {
    let folder = folder();
    let batch = exact_batch();
    let rows = [4, 1];
    for source in [
        file(&folder, "in.parquet", parquet(&batch, 4)),
        file(&folder, "in.arrow", arrow_file(&batch, Some(CompressionType::LZ4_FRAME))),
        file(&folder, "in.arrows", arrow_stream(&batch, 4)),
    ] {
        let cells = Source::open(&source, None).unwrap().cells(&rows).unwrap();
        for (name, array) in cells.columns() {
            let original = batch.column_by_name(name).unwrap();
            assert_eq!(array.data_type(), original.data_type(), "{name}");
            for (k, &row) in rows.iter().enumerate() {
                assert_eq!(&array.slice(k, 1), &original.slice(row, 1), "{name}");
            }
        }
        let written = |name: &str| {
            let path = folder.path().join(name);
            let weights = Extra::Float(vec![2.0, 3.0]);
            write_rows(&cells, &[("weight", weights)], &BTreeMap::new(), &path).unwrap();
            path
        };
        let text = fs::read_to_string(written("out.csv")).unwrap();
        assert_eq!(
            text,
            "row,weight,id,amount,at,day,a,y\n\
             4,2.0,1152921504606846980,100000000000000000000000000.0004,1970-01-01T04:00:00Z,2147483647,16.0,0\n\
             1,3.0,1152921504606846977,100000000000000000000000000.0001,1970-01-01T01:00:00Z,1970-01-02,1.0,1\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(written("out.json")).unwrap()).unwrap();
        assert_eq!(json["rows"][0]["id"], 1_152_921_504_606_846_980_u64);
        assert_eq!(json["rows"][1]["at"], "1970-01-01T01:00:00Z");
        let back = Source::open(&written("out.parquet"), None).unwrap().cells(&[0, 1]).unwrap();
        let id = back.columns().find(|(name, _)| *name == "id").unwrap().1.clone();
        assert_eq!(id.as_ref(), &Int64Array::from(vec![(1 << 60) + 4, (1 << 60) + 1]) as &dyn Array);
    }
}

#[test]
fn text_is_written_as_it_was_spelled() {
    let folder = folder();
    let text = "zip,id,price,a,y\n00007,18446744073709551615,1.50,1,0\n12345,3,NA,2,1\n00100,4,2.25,5,0\n";
    let path = file(&folder, "in.csv", text);
    let cells = Source::open(&path, None).unwrap().cells(&[2, 0, 1]).unwrap();
    let kinds: Vec<DataType> = cells.columns().map(|(_, array)| array.data_type().clone()).collect();
    assert_eq!(kinds, [DataType::Utf8, DataType::Utf8, DataType::Float64, DataType::Int64, DataType::Int64]);
    let out = folder.path().join("out.csv");
    write_rows(&cells, &[], &BTreeMap::new(), &out).unwrap();
    assert_eq!(
        fs::read_to_string(out).unwrap(),
        "row,zip,id,price,a,y\n2,00100,4,2.25,5,0\n0,00007,18446744073709551615,1.50,1,0\n1,12345,3,NA,2,1\n"
    );
    assert!(Source::open(&path, None).unwrap().cells(&[3]).unwrap_err().to_string().contains("row 3"));
}

#[test]
fn rows_that_are_named_twice_come_twice() {
    let folder = folder();
    let batch = batch(50);
    for path in [
        file(&folder, "in.parquet", parquet(&batch, 20)),
        file(&folder, "in.arrow", arrow_file(&batch, None)),
        file(&folder, "in.csv", csv(&batch)),
    ] {
        let cells = Source::open(&path, None).unwrap().cells(&[7, 3, 7]).unwrap();
        let a = cells.columns().next().unwrap().1.clone();
        assert_eq!(a.slice(0, 1).as_ref(), a.slice(2, 1).as_ref());
        assert_ne!(a.slice(0, 1).as_ref(), a.slice(1, 1).as_ref());
    }
}

#[test]
fn a_stream_that_was_cut_is_refused() {
    let folder = folder();
    let whole = arrow_stream(&batch(40), 10);
    // The mark that ends a stream is its last eight bytes.
    assert_refused(
        &file(&folder, "cut.arrows", &whole[..whole.len() - 8]),
        &["mark that ends a stream is missing"],
    );
    assert_refused(&file(&folder, "more.arrows", [&whole[..], &whole[..]].concat()), &["more follows"]);
    assert_eq!(design(&file(&folder, "whole.arrows", &whole), &options()).unwrap().observations.len(), 40);
}

/// The file with another footer.
fn with_footer(bytes: &[u8], rows: impl Fn(i64) -> i64, values: impl Fn(i64) -> i64) -> Vec<u8> {
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.to_vec())).unwrap();
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let mut builder = metadata.into_builder();
    let groups: Vec<_> = builder.take_row_groups();
    for group in groups {
        let mut columns = group.columns().to_vec();
        for column in &mut columns {
            let count = values(column.num_values());
            *column = column.clone().into_builder().set_num_values(count).build().unwrap();
        }
        let count = rows(group.num_rows());
        let group = group.into_builder().set_num_rows(count).set_column_metadata(columns).build().unwrap();
        builder = builder.add_row_group(group);
    }
    let mut out = bytes[..bytes.len() - 8 - length].to_vec();
    ParquetMetaDataWriter::new(&mut out, &builder.build()).finish().unwrap();
    out
}

#[test]
fn a_footer_that_does_not_agree_with_its_pages_is_refused() {
    let folder = folder();
    let whole = parquet(&batch(100), 50);
    let plain = |count: i64| count;
    assert_eq!(
        design(&file(&folder, "same.parquet", with_footer(&whole, plain, plain)), &options())
            .unwrap()
            .rows
            .len(),
        100
    );
    for (name, change) in [("fewer", -1), ("more", 1), ("many", 1 << 40)] {
        let changed = |count: i64| count + change;
        assert_refused(&file(&folder, "rows.parquet", with_footer(&whole, changed, plain)), &["rows"]);
        // Row groups and file agree, the pages do not.
        let both = with_footer(&whole, changed, changed);
        assert_refused(&file(&folder, &format!("{name}.parquet"), both), &["Parquet", "the footer says"]);
    }
}

#[test]
fn a_flipped_bit_in_a_checked_page_is_refused() {
    let folder = folder();
    // Written by another library with checksums: one column of 64 doubles, plain, uncompressed.
    let whole = include_bytes!("files/checksums.parquet");
    let path = file(&folder, "good.parquet", whole);
    let gaussian = DesignOptions { outcome: Outcome::None, ..DesignOptions::default() };
    assert_eq!(design(&path, &gaussian).unwrap().observations.len(), 64);
    let needle = 40.0f64.to_le_bytes();
    let at = whole.windows(8).position(|window| window == needle).unwrap();
    let mut flipped = whole.to_vec();
    flipped[at] ^= 1;
    let message = design(&file(&folder, "bad.parquet", flipped), &gaussian).unwrap_err().to_string();
    assert!(message.contains("CRC"), "{message}");
}

#[test]
fn stored_lengths_are_not_believed() {
    let folder = folder();
    for codec in [CompressionType::ZSTD, CompressionType::LZ4_FRAME] {
        let whole = arrow_file(&batch(3000), Some(codec));
        // Each compressed buffer begins with its length, 24 000 bytes for the columns of numbers.
        let length = 24_000_i64.to_le_bytes();
        let at = whole.windows(8).position(|window| window == length).unwrap();
        for byte in 2..8 {
            let mut bytes = whole.clone();
            bytes[at + byte] ^= 0x40;
            assert_refused(&file(&folder, "length.arrow", bytes), &["length.arrow"]);
        }
    }
}

#[test]
fn an_index_of_pandas_is_no_feature() {
    let folder = folder();
    let batch = batch(30);
    let index: ArrayRef = Arc::new(Int64Array::from_iter_values(0..30));
    let mut columns: Vec<(String, ArrayRef)> =
        batch.schema().fields().iter().map(|f| f.name().clone()).zip(batch.columns().to_vec()).collect();
    columns.push(("__index_level_0__".to_owned(), index));
    let with_index = RecordBatch::try_from_iter(columns).unwrap();
    let note =
        BTreeMap::from([("pandas".to_owned(), r#"{"index_columns": ["__index_level_0__"]}"#.to_owned())]);
    let schema = with_index
        .schema()
        .as_ref()
        .clone()
        .with_metadata(note.into_iter().collect::<std::collections::HashMap<_, _>>());
    let with_index = with_index.with_schema(Arc::new(schema)).unwrap();
    for path in [
        file(&folder, "a.parquet", parquet(&with_index, 100)),
        file(&folder, "a.arrow", arrow_file(&with_index, None)),
    ] {
        let names = design(&path, &options()).unwrap().names;
        assert!(!names.iter().any(|name| name.contains("index")), "{names:?}");
        let named = DesignOptions {
            columns: Columns {
                features: Some(vec!["__index_level_0__".into(), "a".into()]),
                ..options().columns
            },
            ..options()
        };
        assert_eq!(design(&path, &named).unwrap().names.len(), 3);
    }
}

#[test]
fn whoever_watches_may_stop_it() {
    let folder = folder();
    let path = file(&folder, "a.parquet", parquet(&batch(5000), 500));
    let source = Source::open(&path, None).unwrap();
    let mut seen = Vec::new();
    source
        .design_watched(&options(), &Storage::default(), &mut |reading| {
            seen.push((reading.look, reading.rows));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen.len(), 20);
    assert_eq!((seen[0], seen[9], seen[19]), ((1, 500), (1, 5000), (2, 5000)));
    let stopped = source.design_watched(&options(), &Storage::default(), &mut |reading| {
        if reading.rows >= 2000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stopped.unwrap_err(), DataError::Stopped);
}

#[test]
fn text_may_turn_up_late() {
    let folder = folder();
    // More than one chunk of numbers comes before the first word, and words are too many to be mistakes.
    let numbers: String = (0..200_000).map(|i| format!("{},{}\n", i % 7, i % 2)).collect();
    let words: String = (0..200_000).map(|i| format!("{},{}\n", ["x", "z"][i % 2], i % 2)).collect();
    let path = file(&folder, "late.csv", format!("a,y\n{numbers}{words}"));
    let dataset = design(&path, &options()).unwrap();
    assert_eq!(dataset.names.len(), 9);
    assert_eq!(dataset.observations.len(), 400_000);
}

#[test]
fn a_wide_header_takes_no_time() {
    let folder = folder();
    let names: Vec<String> = (0..200_000).map(|j| format!("c{j}")).collect();
    let row = vec!["1"; 200_000].join(",");
    let path = file(&folder, "wide.csv", format!("{}\n{row}\n{row}\n", names.join(",")));
    let options = DesignOptions {
        outcome: Outcome::Number,
        columns: Columns::predicting("c0"),
        ..DesignOptions::default()
    };
    assert!(
        design(&path, &options).unwrap_err().to_string().contains("more features (199999) than rows (2)")
    );
}
