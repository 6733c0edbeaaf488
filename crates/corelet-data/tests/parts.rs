//! Several files as one table: the bits and the cells of one file, and errors that name the part and the row in it.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use corelet_data::{Columns, DesignOptions, Format, Source, Storage, input_files, write_rows};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

const ROWS: usize = 5000;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn rows(range: std::ops::Range<usize>) -> RecordBatch {
    let uniform = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 10_007) as f64 / 997.0;
    let kinds = ["red", "green", "blue"];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(range.clone().map(|i| Some(uniform(i, 1))).collect::<Float64Array>())),
        ("kind", Arc::new(range.clone().map(|i| Some(kinds[(i % 7) % 3])).collect::<StringArray>())),
        ("y", Arc::new(range.map(|i| Some(i64::from(uniform(i, 3) > 4.0))).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn csv(batch: &RecordBatch) -> String {
    let options = arrow_cast::display::FormatOptions::default();
    let cells: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| arrow_cast::display::ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let line =
        |row: usize| cells.iter().map(|cell| cell.value(row).to_string()).collect::<Vec<_>>().join(",");
    (0..batch.num_rows()).fold("a,kind,y\n".to_owned(), |text, row| text + &line(row) + "\n")
}

/// The rows as `all.EXTENSION` and as parts of 0, 1 and many rows in the folder `parts-EXTENSION`.
fn written(place: &Path, extension: &str) -> (PathBuf, PathBuf) {
    let write = |path: &Path, batch: &RecordBatch| match extension {
        "csv" => fs::write(path, csv(batch)).unwrap(),
        _ => write_parquet(path, batch),
    };
    let (whole, parts) = (place.join(format!("all.{extension}")), place.join(format!("parts-{extension}")));
    write(&whole, &rows(0..ROWS));
    fs::create_dir(&parts).unwrap();
    let cuts = [0, 1700, 1700, 1701, 4000, ROWS];
    for (at, cut) in cuts.windows(2).enumerate() {
        write(&parts.join(format!("part-{at}.{extension}")), &rows(cut[0]..cut[1]));
    }
    fs::write(parts.join("_SUCCESS"), "").unwrap();
    fs::write(parts.join("notes.txt"), "no data").unwrap();
    (whole, parts)
}

fn options() -> DesignOptions {
    DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() }
}

#[test]
fn parts_are_one_table_to_the_bit() {
    let folder = folder();
    let (whole, _) = written(folder.path(), "parquet");
    let expected = Source::open(&whole, None).unwrap().design(&options()).unwrap();
    let chosen = [4999, 0, 1700, 1699, 1701, 4000, 17];
    for extension in ["parquet", "csv"] {
        let parts = folder.path().join(format!("parts-{extension}"));
        let whole = if extension == "csv" { written(folder.path(), "csv").0 } else { whole.clone() };
        let pattern = parts.join(format!("part-*.{extension}"));
        let listed = input_files(&[&pattern], None).unwrap();
        assert_eq!(listed.len(), 5);
        for paths in [vec![parts], vec![pattern], listed] {
            let source = Source::open_all(&paths, None, &Storage::default()).unwrap();
            // Before anything was looked at, and after.
            for _ in 0..2 {
                let file = |name: &str| folder.path().join(name);
                let cells = |source: &Source<'_>, out: &str| {
                    write_rows(&source.cells(&chosen).unwrap(), &[], &Default::default(), &file(out))
                        .unwrap();
                    fs::read(file(out)).unwrap()
                };
                let one = Source::open(&whole, None).unwrap();
                assert!(cells(&source, "parts-out.parquet") == cells(&one, "one-out.parquet"));
                assert!(cells(&source, "parts-out.csv") == cells(&one, "one-out.csv"));
                let error = source.cells(&[ROWS]).unwrap_err().to_string();
                assert!(
                    error.contains("row 5000 was requested") && error.contains("has 5000 rows"),
                    "{error}"
                );
                let found = source.design(&options()).unwrap();
                assert!(found.observations == expected.observations, "{}", source.name());
                assert_eq!(
                    (found.standardisation, found.rows),
                    (expected.standardisation.clone(), expected.rows.clone())
                );
            }
        }
    }
}

#[test]
fn numbers_of_different_types_go_together() {
    let folder = folder();
    let paths = ["1.csv", "2.csv", "3.csv"].map(|name| folder.path().join(name));
    for (path, cells) in paths.iter().zip([["1", "2"], ["2.50", "NA"], ["x ", "4"]]) {
        fs::write(path, format!("v,y\n{},0\n{},1\n", cells[0], cells[1])).unwrap();
    }
    let texts = |paths: &[PathBuf]| {
        let cells = Source::open_all(paths, None, &Storage::default()).unwrap().cells(&[0, 1, 2, 3]).unwrap();
        let values = cells.columns().next().unwrap().1.clone();
        let text = arrow_cast::cast(&values, &arrow_schema::DataType::Utf8).unwrap();
        let text = arrow_array::cast::AsArray::as_string::<i32>(&text);
        (values.data_type().to_string(), text.iter().map(|cell| cell.map(str::to_owned)).collect::<Vec<_>>())
    };
    let some = |cells: [&str; 4]| cells.map(|cell| (cell != "NA").then(|| cell.to_owned())).to_vec();
    assert_eq!(texts(&paths[..2]), ("Float64".to_owned(), some(["1.0", "2.0", "2.5", "NA"])));
    assert_eq!(texts(&paths[1..]), ("Utf8".to_owned(), some(["2.50", "NA", "x", "4"])));
    let columns = |x: ArrayRef| RecordBatch::try_from_iter([("x", x)]).unwrap();
    let paths = ["1.parquet", "2.parquet"].map(|name| folder.path().join(name));
    write_parquet(&paths[0], &columns(Arc::new(Int32Array::from(vec![1, 2]))));
    write_parquet(&paths[1], &columns(Arc::new(Int64Array::from(vec![3, 4]))));
    assert_eq!(texts(&paths), ("Int64".to_owned(), some(["1", "2", "3", "4"])));
}

fn refused(paths: &[PathBuf], expected: &[&str]) {
    let design = |paths: &[PathBuf]| Source::open_all(paths, None, &Storage::default())?.design(&options());
    let message = design(paths).unwrap_err().to_string();
    for words in expected {
        assert!(message.contains(words), "'{words}' is not in: {message}");
    }
}

#[test]
fn errors_name_the_part_and_its_row() {
    let folder = folder();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let good = file("1.csv", "x,y\n1,0\n\n2,1\n3,1\n");
    let second = |text: &str| vec![good.clone(), good.clone(), file("2.csv", text), good.clone()];
    refused(&second("x,y\n4,0\n5\n"), &["2.csv: row 1 (line 3) has 1 field"]);
    refused(&second("x,y\n4,0\n5,1\ninf,1\n"), &["2.csv: column 'x', row 2 (line 4): inf"]);
    refused(&second("\n\nx,y\n4,0\n5,7\n"), &["2.csv: target 'y', row 1 (line 5): 7"]);
    refused(&second("x,y\n4,0\n\"5,1\n"), &["2.csv: row 1 (line 3): the quote"]);
    refused(&second("x,z\n4,0\n"), &["2.csv: its columns are not those of", "1.csv: it has no column 'y'"]);
    refused(&second("y,x\n4,0\n"), &["2.csv: its columns", "its column 1 is 'y' instead of 'x'"]);
    refused(&second("x,y,z\n4,0,1\n"), &["it has a column 'z' that the other has not"]);
    let columns = |x: ArrayRef| RecordBatch::try_from_iter([("x", x)]).unwrap();
    let paths = ["1.parquet", "2.parquet"].map(|name| folder.path().join(name));
    write_parquet(&paths[0], &columns(Arc::new(Int32Array::from(vec![1, 2]))));
    write_parquet(&paths[1], &columns(Arc::new(StringArray::from(vec!["a", "b"]))));
    refused(&paths, &["2.parquet: its columns", "its column 'x' is text instead of numbers"]);
    refused(&[good, folder.path().join("none.csv")], &["none.csv: cannot be opened"]);
}

#[test]
fn a_place_without_parts_is_refused() {
    let folder = folder();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("notes.txt"), "").unwrap();
    fs::write(empty.join(".hidden.csv"), "").unwrap();
    refused(std::slice::from_ref(&empty), &["empty: no data: the folder has no file of a known format"]);
    refused(&[empty.join("*.parquet")], &["*.parquet: no data: no file matches it"]);
    refused(&[], &["no file is named"]);
    assert_eq!(input_files(&[&empty], Some(Format::Csv)).unwrap(), [empty.join("notes.txt")]);
    // A file that is there is itself, whatever its name looks like.
    let odd = folder.path().join("a[1].csv");
    fs::write(&odd, "x,y\n1,0\n2,1\n3,1\n4,0\n").unwrap();
    assert_eq!(input_files(&[&odd], None).unwrap(), [odd]);
}
