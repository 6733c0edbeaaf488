//! Every format read back as it was written, and every bad file refused with its file, column and row.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray,
};
use corelet_data::{Format, Table, Values, read};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn numbers<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    match &table.column(name).unwrap().values {
        Values::Number { values, .. } => values,
        other => panic!("column {name} is {other:?}"),
    }
}

/// The cells of a text column, missing ones as `None`.
fn texts<'a>(table: &'a Table, name: &str) -> Vec<Option<&'a str>> {
    match &table.column(name).unwrap().values {
        Values::Text { codes, levels } => {
            codes.iter().map(|&code| levels.get(code as usize).map(String::as_str)).collect()
        }
        other => panic!("column {name} is {other:?}"),
    }
}

fn booleans<'a>(table: &'a Table, name: &str) -> &'a [Option<bool>] {
    match &table.column(name).unwrap().values {
        Values::Bool(values) => values,
        other => panic!("column {name} is {other:?}"),
    }
}

/// The error of reading `path`: one line, which names the file and holds each of `parts`.
fn assert_refused(path: &Path, parts: &[&str]) {
    let message = read(path, None).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    let name = path.file_name().unwrap().to_str().unwrap();
    for part in parts.iter().chain([&name]) {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

const MIXED: &str = "a,late,origin,n\n1.5,TRUE,JFK,1\n-2e3,false,\"EWR, NJ\",NA\n,NULL,JFK,3\n";

fn assert_mixed(table: &Table) {
    assert_eq!(table.rows, 3);
    assert_eq!(numbers(table, "a")[..2], [1.5, -2000.0]);
    assert!(numbers(table, "a")[2].is_nan());
    assert_eq!(booleans(table, "late"), [Some(true), Some(false), None]);
    assert_eq!(texts(table, "origin"), [Some("JFK"), Some("EWR, NJ"), Some("JFK")]);
    assert!(numbers(table, "n")[1].is_nan());
    assert!(matches!(table.column("n").unwrap().values, Values::Number { integer: true, .. }));
    assert!(matches!(table.column("a").unwrap().values, Values::Number { integer: false, .. }));
}

#[test]
fn csv_in_every_wrapping() {
    let folder = folder();
    assert_mixed(&read(&file(&folder, "a.csv", MIXED), None).unwrap());
    assert_mixed(&read(&file(&folder, "crlf.csv", MIXED.replace('\n', "\r\n")), None).unwrap());
    assert_mixed(&read(&file(&folder, "bom.csv", format!("\u{feff}{MIXED}")), None).unwrap());
    assert_mixed(&read(&file(&folder, "open.csv", MIXED.trim_end()), None).unwrap());
    assert_mixed(&read(&file(&folder, "data.txt", MIXED), Some(Format::Csv)).unwrap());

    let tabs = MIXED.replace("\"EWR, NJ\"", "EWR; NJ").replace(',', "\t").replace(';', ",");
    assert_mixed(&read(&file(&folder, "a.tsv", tabs), None).unwrap());

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(MIXED.as_bytes()).unwrap();
    assert_mixed(&read(&file(&folder, "a.csv.gz", gzip.finish().unwrap()), None).unwrap());
    let zst = zstd::encode_all(MIXED.as_bytes(), 1).unwrap();
    assert_mixed(&read(&file(&folder, "a.csv.zst", zst), None).unwrap());
}

#[test]
fn csv_text_after_numbers_keeps_its_spelling() {
    let folder = folder();
    let path = file(&folder, "a.csv", "id,flag,x\n007,true,\n1.0,false,\nNA,7,\nB2,no,\n");
    let table = read(&path, None).unwrap();
    assert_eq!(texts(&table, "id"), [Some("007"), Some("1.0"), None, Some("B2")]);
    assert_eq!(texts(&table, "flag"), [Some("true"), Some("false"), Some("7"), Some("no")]);
    assert!(numbers(&table, "x").iter().all(|value| value.is_nan()));
}

#[test]
fn csv_infinity_in_text_is_text() {
    let folder = folder();
    let table = read(&file(&folder, "a.csv", "name\n1\ninf\nBob\n"), None).unwrap();
    assert_eq!(texts(&table, "name"), [Some("1"), Some("inf"), Some("Bob")]);
}

#[test]
fn bad_csv_files() {
    let folder = folder();
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        assert_refused(&file(&folder, name, content), parts);
    };
    refused("ragged.csv", b"a,b\n1,2\n3\n", &["row 1 (line 3)", "1 field", "header has 2"]);
    refused("long.csv", b"a,b\n1,2\n\n3,4,5\n", &["row 1 (line 4)", "3 fields"]);
    refused("twice.csv", b"a,b,a\n1,2,3\n", &["'a' appears twice", "1 and 3"]);
    refused("inf.csv", b"a,b\n1,2\n3,-inf\n", &["'b'", "row 1 (line 3)", "-inf"]);
    refused("huge.csv", b"a,b\n1,2e999\n", &["'b'", "row 0 (line 2)"]);
    refused("latin.csv", b"a,b\n1,\xe9t\xe9\n", &["'b'", "row 0 (line 2)", "UTF-8"]);
    refused("empty.csv", b"", &["no header"]);
    refused("cut.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0], &["truncated"]);
    refused("not.csv.zst", b"a,b\n1,2\n", &["damaged"]);
    refused("open.csv", b"a,b\n1,2\n3,\"4\n5,6\n7,8\n", &["row 1 (line 3)", "never closed"]);
    refused("within.csv", b"a,b\n1,2\n\"3,4\n5,6\n\"7\",8\n", &["row 1 (line 3)", "closing quote"]);
    refused("wide.csv", b"\xff\xfea\0,\0b\0\n\0", &["UTF-16"]);
    refused("wide2.csv", b"a\0,\0b\0\n\x001\0", &["UTF-16"]);
    refused("header.csv", b"a,\xe9t\xe9\n1,2\n", &["column 2", "UTF-8"]);
    refused("table.xlsx", b"", &["no known data format", "parquet"]);
    assert_refused(&folder.path().join("absent.csv"), &["cannot be opened"]);
    assert_refused(&folder.path().join("absent.parquet"), &["cannot be opened"]);
    fs::create_dir(folder.path().join("folder.csv")).unwrap();
    assert_refused(&folder.path().join("folder.csv"), &["folder"]);
}

fn arrow_batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("double", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)]))),
        ("single", Arc::new(Float32Array::from(vec![0.5, 1.0, 2.0]))),
        ("int", Arc::new(Int32Array::from(vec![Some(7), None, Some(-1)]))),
        ("long", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("text", Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]))),
        ("view", Arc::new(StringViewArray::from(vec!["x", "y", "a text longer than twelve bytes"]))),
        ("dictionary", Arc::new(["u", "v", "u"].into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("date", Arc::new(Date32Array::from(vec![0, 1, 2]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn assert_arrow(table: &Table) {
    assert_eq!(table.rows, 6);
    let double = numbers(table, "double");
    assert!(double[0] == 1.5 && double[1].is_nan() && double[2].is_nan() && double[3] == 1.5);
    assert_eq!(numbers(table, "single")[..3], [0.5, 1.0, 2.0]);
    assert_eq!(numbers(table, "int")[2], -1.0);
    assert!(table.column("int").unwrap().values.view().is_missing(4));
    assert_eq!(booleans(table, "flag")[..3], [Some(true), None, Some(false)]);
    assert_eq!(texts(table, "text")[..3], [Some("a"), None, Some("b")]);
    assert_eq!(texts(table, "view")[2], Some("a text longer than twelve bytes"));
    assert_eq!(texts(table, "dictionary")[3..], [Some("u"), Some("v"), Some("u")]);
    assert!(table.column("date").is_err(), "no model can use a date");
}

fn parquet_bytes(batches: &[RecordBatch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    bytes
}

fn arrow_file_bytes(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn arrow_stream_bytes(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn parquet_and_arrow() {
    let folder = folder();
    let batches = [arrow_batch(), arrow_batch()];
    assert_arrow(&read(&file(&folder, "a.parquet", parquet_bytes(&batches)), None).unwrap());
    assert_arrow(&read(&file(&folder, "a.arrow", arrow_file_bytes(&batches)), None).unwrap());
    assert_arrow(&read(&file(&folder, "s.arrows", arrow_stream_bytes(&batches)), None).unwrap());
}

#[test]
fn bad_parquet_and_arrow_files() {
    let folder = folder();
    let batches = [arrow_batch()];
    let kinds = [
        ("parquet", parquet_bytes(&batches), "Parquet"),
        ("arrow", arrow_file_bytes(&batches), "Arrow IPC"),
        ("arrows", arrow_stream_bytes(&batches), "Arrow IPC"),
    ];
    for (extension, bytes, format) in kinds {
        for length in [0, 3, 10, bytes.len() / 3, bytes.len() / 2] {
            let name = format!("cut{length}.{extension}");
            assert_refused(&file(&folder, &name, &bytes[..length]), &[format, "truncated"]);
        }
        assert_refused(&file(&folder, &format!("text.{extension}"), MIXED), &[format]);
    }
    let infinite: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::INFINITY]));
    let infinite = RecordBatch::try_from_iter([("speed", infinite)]).unwrap();
    assert_refused(&file(&folder, "inf.parquet", parquet_bytes(&[infinite])), &["'speed', row 1: inf"]);
}

#[test]
fn duplicate_names_in_arrow_are_refused() {
    let folder = folder();
    let column = arrow_batch().column(0).clone();
    let twice = RecordBatch::try_from_iter([("a", column.clone()), ("a", column)]).unwrap();
    assert_refused(&file(&folder, "twice.arrow", arrow_file_bytes(&[twice])), &["'a' appears twice"]);
}

#[test]
fn libsvm_text() {
    let folder = folder();
    let content = "+1 1:0.5 3:2 # note\n\n-1 2:1e-3\n";
    let table = read(&file(&folder, "a.libsvm", content), None).unwrap();
    assert_eq!((table.rows, table.columns.len()), (2, 4));
    assert_eq!(numbers(&table, "x1"), [0.5, 0.0]);
    assert_eq!(numbers(&table, "x2"), [0.0, 1e-3]);
    assert_eq!(numbers(&table, "x3"), [2.0, 0.0]);
    assert_eq!(numbers(&table, "y"), [1.0, -1.0]);
    let zst = zstd::encode_all(content.as_bytes(), 1).unwrap();
    assert_eq!(read(&file(&folder, "a.svm.zst", zst), None).unwrap().rows, 2);

    assert_refused(&file(&folder, "order.libsvm", "1 1:1\n1 3:1 2:1\n"), &["row 1 (line 2)", "ascend"]);
    assert_refused(&file(&folder, "zero.libsvm", "1 0:1\n"), &["row 0 (line 1)", "index 0"]);
    assert_refused(&file(&folder, "word.libsvm", "1 1:one\n"), &["line 1", "'x1'", "'one'"]);
    assert_refused(&file(&folder, "inf.libsvm", "1 1:1\n2 1:inf\n"), &["'x1'", "row 1 (line 2)", "inf"]);
    assert_refused(&file(&folder, "csv.libsvm", MIXED), &["line 1", "not a number"]);
}

fn npy_bytes(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn npz_bytes(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn npy_arrays() {
    let folder = folder();
    let data: Vec<u8> = (0..6).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    let rows = read(&file(&folder, "c.npy", npy_bytes("'<f8'", "False", "(3, 2)", &data)), None).unwrap();
    assert_eq!((numbers(&rows, "x1"), numbers(&rows, "x2")), (&[0.0, 2.0, 4.0][..], &[1.0, 3.0, 5.0][..]));
    let columns = read(&file(&folder, "f.npy", npy_bytes("'<f8'", "True", "(3, 2)", &data)), None).unwrap();
    assert_eq!(numbers(&columns, "x2"), [3.0, 4.0, 5.0]);
    let vector = npy_bytes("'|i1'", "False", "(3,)", &[1, 255, 3]);
    assert_eq!(numbers(&read(&file(&folder, "v.npy", vector), None).unwrap(), "x1"), [1.0, -1.0, 3.0]);
}

#[test]
fn bad_npy_files() {
    let folder = folder();
    let refused = |name: &str, content: Vec<u8>, parts: &[&str]| {
        assert_refused(&file(&folder, name, content), parts);
    };
    let double = [0u8; 8];
    refused("cut.npy", npy_bytes("'<f8'", "False", "(2,)", &double), &["ends before", "truncated"]);
    refused("big.npy", npy_bytes("'<f8'", "False", "(9000000000000000000, 2)", &double), &["ends before"]);
    refused("wide.npy", npy_bytes("'<f8'", "False", "(1, 9000000000000000000)", &double), &["columns"]);
    refused("cube.npy", npy_bytes("'<f8'", "False", "(1, 1, 1)", &double), &["shape (1, 1, 1)"]);
    refused("scalar.npy", npy_bytes("'<f8'", "False", "()", &double), &["shape ()"]);
    refused("text.npy", npy_bytes("'<U2'", "False", "(1,)", &double), &["type <U2"]);
    refused("pickle.npy", npy_bytes("'|O'", "False", "(1,)", b"cos\nsystem\n"), &["pickled", "never loaded"]);
    refused("record.npy", npy_bytes("[('a', '<f8'), ('b', '|O')]", "False", "(1,)", &double), &["pickled"]);
    refused("short.npy", b"\x93NUMPY\x01".to_vec(), &["NPY"]);
    refused("other.npy", MIXED.as_bytes().to_vec(), &["NumPy"]);
    let infinite = npy_bytes("'<f8'", "False", "(1,)", &f64::INFINITY.to_le_bytes());
    refused("inf.npy", infinite, &["'x1', row 0: inf"]);
}

#[test]
fn npz_archives() {
    let folder = folder();
    let matrix: Vec<u8> =
        [1.0_f32, 2.0, 3.0, 4.0, f32::NAN, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let target: Vec<u8> = [1_i64, -1, 1].iter().flat_map(|y| y.to_le_bytes()).collect();
    let arrays = npz_bytes(&[
        ("X", npy_bytes("'<f4'", "False", "(3, 2)", &matrix)),
        ("y", npy_bytes("'<i8'", "False", "(3,)", &target)),
    ]);
    let table = read(&file(&folder, "a.npz", arrays), None).unwrap();
    assert_eq!(table.own_target.as_deref(), Some("y"));
    assert_eq!(numbers(&table, "x2"), [2.0, 4.0, 6.0]);
    assert_eq!(numbers(&table, "y"), [1.0, -1.0, 1.0]);
    assert!(table.column("x1").unwrap().values.view().is_missing(2));
}

#[test]
fn bad_npz_files() {
    let folder = folder();
    let data: Vec<u8> = (0..400).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    let matrix = npy_bytes("'<f8'", "False", "(200, 2)", &data);
    let target = |rows: usize| npy_bytes("'<f8'", "False", &format!("({rows},)"), &data[..8 * rows]);
    let refused = |name: &str, content: &[u8], parts: &[&str]| {
        assert_refused(&file(&folder, name, content), parts);
    };
    let good = npz_bytes(&[("X", matrix.clone()), ("y", target(200))]);
    assert_eq!(read(&file(&folder, "good.npz", &good), None).unwrap().rows, 200);
    for length in [0, 20, good.len() / 2, good.len() - 10] {
        refused(&format!("cut{length}.npz"), &good[..length], &["NPZ", "truncated"]);
    }
    let mut damaged = good;
    damaged[300] ^= 1;
    refused("damaged.npz", &damaged, &["NPZ", "'X'"]);
    let pickled = npy_bytes("'|O'", "False", "(1,)", b"cos\nsystem\n");
    refused("pickle.npz", &npz_bytes(&[("X", pickled.clone())]), &["'X'", "pickled"]);
    refused("target.npz", &npz_bytes(&[("X", matrix.clone()), ("y", pickled)]), &["'y'", "pickled"]);
    refused("names.npz", &npz_bytes(&[("data", matrix.clone())]), &["no array 'X'", "'data'"]);
    refused("lengths.npz", &npz_bytes(&[("X", matrix.clone()), ("y", target(9))]), &["'y'", "9", "200"]);
    refused("wide.npz", &npz_bytes(&[("X", matrix.clone()), ("y", matrix)]), &["'y'", "one number a row"]);
}

/// Whatever a bit flip does, it must not do more than give an error or a table.
#[test]
fn flipped_bits_never_panic() {
    let folder = folder();
    let batches = [arrow_batch(), arrow_batch()];
    let matrix = npy_bytes("'<f8'", "False", "(2, 2)", &[0; 32]);
    let kinds = [
        ("flip.parquet", parquet_bytes(&batches)),
        ("flip.arrow", arrow_file_bytes(&batches)),
        ("flip.arrows", arrow_stream_bytes(&batches)),
        ("flip.npz", npz_bytes(&[("X", matrix.clone())])),
        ("flip.npy", matrix),
        ("flip.csv", MIXED.as_bytes().to_vec()),
        ("flip.libsvm", b"1 1:2 2:3\n0 2:4\n".to_vec()),
    ];
    for (name, bytes) in kinds {
        let step = (bytes.len() / 150).max(1);
        for position in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[position] ^= 1 << (position % 8);
            let _ = read(&file(&folder, name, flipped), None);
        }
    }
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn files_of_real_data() {
    let folder = common::data_folder();
    let flights = read(&folder.join("flights.parquet"), None).unwrap();
    assert_eq!(flights.rows, 327_346);
    assert!(matches!(flights.column("origin").unwrap().values, Values::Text { .. }));
    let phishing = read(&folder.join("phishing.libsvm"), None).unwrap();
    assert_eq!((phishing.rows, phishing.columns.len()), (11_055, 69));
    let prices = read(&folder.join("uk_prices_latlon_2018.npy"), None).unwrap();
    assert_eq!((prices.rows, prices.columns.len()), (114_483, 3));
    assert!(numbers(&prices, "x1").iter().all(|latitude| (49.0..61.0).contains(latitude)));
    for (name, rows, dim) in [
        ("synth_lr", 500, 3),
        ("phishing", 500, 11),
        ("ds1", 500, 11),
        ("synth_poiss", 500, 2),
        ("biketrips", 500, 9),
        ("airportdelays", 500, 16),
        ("synth_lr_large", 9000, 3),
        ("phishing_large", 9950, 11),
        ("synth_poiss_large", 9000, 2),
    ] {
        let table = read(&folder.join(format!("{name}.npz")), None).unwrap();
        assert_eq!((table.rows, table.columns.len()), (rows, dim + 1), "{name}");
        assert!(numbers(&table, &format!("x{dim}")).iter().all(|&one| one == 1.0), "{name}");
    }
}
