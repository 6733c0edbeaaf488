//! Coreset files: written whole, read back exactly, and refused before the work where they cannot be.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use corelet_data::{
    Column, DataError, Extra, Source, Table, Values, ensure_writable, read, read_coreset, write_row_blocks,
    write_rows,
};

fn table() -> Table {
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    let columns = vec![
        column("x", Values::Number { values: vec![0.1, f64::NAN, 1e300, -0.5], integer: false }),
        column("n", Values::Number { values: vec![1.0, 2.0, f64::NAN, 4.0], integer: true }),
        column("flag", Values::Bool(vec![Some(true), None, Some(false), Some(true)])),
        column(
            "text",
            Values::Text { codes: vec![0, 1, u32::MAX, 0], levels: vec!["a,b".into(), "c\"d".into()] },
        ),
        column("weight", Values::Number { values: vec![5.0, 6.0, 7.0, 8.0], integer: true }),
    ];
    Table::new("made", columns).unwrap()
}

const ROWS: [usize; 3] = [3, 1, 2];
const WEIGHTS: [f64; 3] = [0.1 + 0.2, 1.0 / 3.0, 1e-17];

fn write(path: &Path) {
    let metadata = BTreeMap::from([("method".to_owned(), "pursuit \"x\"".to_owned())]);
    let cells = Source::of_table(table()).cells(&ROWS).unwrap();
    write_rows(&cells, &[("weight", Extra::Float(WEIGHTS.to_vec()))], &metadata, path).unwrap();
}

#[test]
fn every_form_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["core.csv", "core.parquet", "core.json"] {
        let path = folder.path().join(name);
        ensure_writable(&path).unwrap();
        assert!(!path.exists());
        write(&path);
        write(&path);
        let coreset = read_coreset(&path).unwrap();
        assert_eq!((&coreset.rows[..], &coreset.weights[..]), (&ROWS[..], &WEIGHTS[..]), "{name}");
        coreset.check_rows(&Source::of_table(table())).unwrap();
        let mut other = table();
        if let Values::Text { codes, .. } = &mut other.columns[3].values {
            codes.swap(2, 3);
        }
        let refused = coreset.check_rows(&Source::of_table(other)).unwrap_err().to_string();
        assert!(refused.contains("row 3 is not that row of made: 'text'"), "{name}: {refused}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "temporary files are left");
}

#[test]
fn csv_and_parquet_keep_the_original_columns() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["core.csv", "core.parquet"] {
        let path = folder.path().join(name);
        write(&path);
        let back = read(&path, None).unwrap();
        let names: Vec<&str> = back.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["row", "weight", "x", "n", "flag", "text", "original_weight"]);
        let Values::Number { values, .. } = &back.column("x").unwrap().values else { panic!("numbers") };
        assert!(values[0] == -0.5 && values[1].is_nan() && values[2] == 1e300);
        assert!(matches!(back.column("n").unwrap().values, Values::Number { integer: true, .. }));
        let Values::Text { codes, levels } = &back.column("text").unwrap().values else { panic!("text") };
        assert_eq!((levels[codes[0] as usize].as_str(), levels[codes[1] as usize].as_str()), ("a,b", "c\"d"));
    }
}

#[test]
fn json_and_parquet_carry_metadata() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let (json, parquet) = (folder.path().join("core.json"), folder.path().join("core.parquet"));
    write(&json);
    write(&parquet);
    let value: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(value["metadata"]["method"], "pursuit \"x\"");
    assert_eq!(value["rows"][0]["text"], "a,b");
    assert_eq!(value["rows"][1]["x"], serde_json::Value::Null);
    assert_eq!(value["rows"][0]["n"], 4);
    let reader = SerializedFileReader::new(fs::File::open(parquet).unwrap()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(pairs.iter().any(|pair| pair.key == "method" && pair.value.as_deref() == Some("pursuit \"x\"")));
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path, part: &str| {
        let message = ensure_writable(path).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains(&path.display().to_string()), "{message}");
        let cells = Source::of_table(table()).cells(&[0]).unwrap();
        assert!(write_rows(&cells, &[], &BTreeMap::new(), path).is_err());
    };
    refused(&folder.path().join("absent").join("core.csv"), "cannot be written");
    fs::write(folder.path().join("file"), "").unwrap();
    refused(&folder.path().join("file").join("core.csv"), "cannot be written");
    refused(&folder.path().join("core.txt"), ".csv, .parquet or .json");
    fs::create_dir(folder.path().join("folder.json")).unwrap();
    refused(&folder.path().join("folder.json"), "folder");
    let path = folder.path().join("core.csv");
    let out_of_range = Source::of_table(table()).cells(&[4]).unwrap_err();
    assert_eq!(out_of_range.to_string(), "row 4 was requested, but made has 4 rows");
    assert!(!path.exists());
}

#[test]
fn files_that_are_no_coresets() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: &str, part: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let message = read_coreset(&path).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains(name) && !message.contains('\n'), "{message}");
    };
    refused("a.csv", "row,w\n1,2\n", "no column 'weight'");
    refused("b.csv", "row,weight\n1.5,2\n", "not a row number");
    refused("c.csv", "row,weight\n1,-2\n", "not a weight");
    refused("d.csv", "row,weight\n1,2\n1,3\n", "appears twice");
    refused("e.csv", "row,weight\na,2\n", "not numeric");
    refused("f.json", "{\"rows\": [{\"row\": 1}]}", "weight");
    refused("g.json", "{\"rows\": [", "EOF");
    refused("h.json", "{\"rows\": []}", "no row");
    refused("i.csv", "row,weight\n", "no row");
}

#[test]
fn blocks_of_rows_are_the_file_of_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::of_table(table());
    for name in ["rows.csv", "rows.parquet", "rows.json"] {
        let (whole, blocks) = (folder.path().join(format!("whole-{name}")), folder.path().join(name));
        let extra = |rows: &[usize]| Extra::Float(rows.iter().map(|&row| 0.5 * row as f64).collect());
        let all = [0, 1, 2, 3];
        write_rows(&source.cells(&all).unwrap(), &[("mean", extra(&all))], &BTreeMap::new(), &whole).unwrap();
        let mut left = all.chunks(3);
        let mut next = || -> Result<_, DataError> {
            let Some(rows) = left.next() else { return Ok(None) };
            Ok(Some((source.cells(rows)?, vec![("mean".to_owned(), extra(rows))])))
        };
        write_row_blocks(&blocks, &mut next).unwrap();
        if name.ends_with("parquet") {
            let (whole, blocks) = (read(&whole, None).unwrap(), read(&blocks, None).unwrap());
            assert_eq!(format!("{:?}", whole.columns), format!("{:?}", blocks.columns));
        } else {
            assert_eq!(fs::read(&whole).unwrap(), fs::read(&blocks).unwrap(), "{name}");
        }
        // What ends the work is what is said, and nothing is written.
        let never = folder.path().join(format!("never-{name}"));
        let mut blocks = 0;
        let ended = write_row_blocks(&never, &mut || -> Result<_, Box<dyn std::error::Error>> {
            blocks += 1;
            if blocks == 2 { Err("enough".into()) } else { Ok(Some((source.cells(&[0])?, Vec::new()))) }
        });
        assert_eq!((ended.unwrap_err().to_string().as_str(), never.exists()), ("enough", false));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "no temporary file is left");
}
