//! Bad files: one line on standard error, exit 1, and no output file.

use crate::common::{Place, csv, stderr};

/// Runs a build of `name`, which must fail with one line that has every one of `words`, and leave nothing behind.
fn refuse(place: &Place, name: &str, flags: &str, words: &[&str]) {
    let before = place.files();
    let output = place.run(&format!("build {name} {flags} -k 2 -o core.csv --json summary.json"));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{name} {flags}: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("error: "), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message}");
    }
    assert!(output.stdout.is_empty());
    assert_eq!(place.files(), before);
}

fn refuse_csv(text: &str, flags: &str, words: &[&str]) {
    let place = Place::new();
    place.write("bad.csv", text);
    refuse(&place, "bad.csv", flags, words);
}

#[test]
fn ragged_rows() {
    refuse_csv("a,y\n1,0\n2\n", "--target y", &["bad.csv", "row 1 (line 3)"]);
}

#[test]
fn wrong_types() {
    let text = "a,y\n1,3\n2,x\n3,4\n";
    refuse_csv(text, "--target y --model linear", &["bad.csv", "'y'", "row 1 (line 3)", "'x'"]);
    refuse_csv("a,y\n1,0\n2,1\n3,7\n", "--target y", &["bad.csv", "'y'", "row 2 (line 4)", "7"]);
}

#[test]
fn numbers_that_are_not_finite() {
    refuse_csv("a,y\n1,0\ninf,1\n3,1\n", "--target y", &["bad.csv", "'a'", "row 1 (line 3)", "inf"]);
}

#[test]
fn missing_values() {
    let text = "a,y\n1,0\n,1\n3,1\n2,0\n";
    refuse_csv(text, "--target y", &["bad.csv", "1 in 'a'", "--drop-missing leaves those rows out"]);
    let place = Place::new();
    place.write("bad.csv", text);
    let output = place.run("build bad.csv --target y --drop-missing -k 2 -o core.csv");
    assert!(output.status.success());
    assert!(stderr(&output).contains("1 of 4 rows have missing values"), "{}", stderr(&output));
}

#[test]
fn duplicate_columns() {
    refuse_csv("a,a,y\n1,2,0\n2,3,1\n", "--target y", &["bad.csv", "'a'", "twice"]);
}

#[test]
fn one_class() {
    refuse_csv("a,y\n1,1\n2,1\n3,1\n", "--target y", &["bad.csv", "'y'", "at least two"]);
}

#[test]
fn negative_counts() {
    let flags = "--target y --model poisson";
    refuse_csv("a,y\n1,1\n2,-1\n3,1\n", flags, &["bad.csv", "'y'", "row 1 (line 3)", "-1"]);
}

#[test]
fn too_few_rows() {
    refuse_csv("a,y\n1,1\n", "--target y", &["bad.csv", "1 usable row"]);
    refuse_csv("a,y\n", "--target y", &["bad.csv", "0 usable rows"]);
    refuse_csv("", "--target y", &["bad.csv", "header"]);
}

#[test]
fn more_features_than_rows() {
    let flags = "--target y";
    refuse_csv("a,b,c,d,y\n1,2,3,5,1\n2,1,4,4,0\n3,9,3,1,1\n", flags, &["bad.csv", "more features"]);
}

#[test]
fn constant_columns_are_left_out_with_a_word() {
    let place = Place::new();
    place.write("data.csv", "a,b,y\n0,1,1\n0,2,0\n0,3,1\n0,4,0\n");
    let output = place.run("build data.csv --target y -k 2 -o core.csv");
    assert!(
        output.status.success() && stderr(&output).contains("'a' has the same value, 0,"),
        "{}",
        stderr(&output)
    );
    refuse_csv("a,y\n0,1\n0,0\n0,1\n", "--target y", &["bad.csv", "no feature"]);
}

#[test]
fn numbers_with_other_cells_among_them() {
    let rows: String = (0..100).map(|i| format!("{},{}\n", (i * 7) % 31, i % 2)).collect();
    let text = format!("a,y\n{rows}N/A,1\n");
    refuse_csv(
        &text,
        "--target y",
        &["bad.csv", "'a', row 100 (line 102): 'N/A'", "--missing N/A takes such cells"],
    );
    let place = Place::new();
    place.write("data.csv", &text);
    place.succeed("build data.csv --target y --missing N/A,? --drop-missing -k 5 -o core.csv");
}

#[test]
fn quotes_that_are_never_closed() {
    let rows: String =
        (0..60).map(|i| format!("{},{},{}\n", if i == 11 { "\"x" } else { "x" }, i, i % 2)).collect();
    let text = format!("t,a,y\n{rows}");
    refuse_csv(&text, "--target y", &["bad.csv", "row 11 (line 13)", "never closed"]);
}

#[test]
fn columns_that_are_not_there() {
    refuse_csv("a,y\n1,1\n2,0\n", "--target z", &["bad.csv", "'z'", "'a', 'y'"]);
    refuse_csv("a,y\n1,1\n2,0\n", "", &["bad.csv", "--target"]);
}

#[test]
fn more_points_than_rows() {
    let place = Place::new();
    place.write("data.csv", csv(20));
    let output = place.run("build data.csv --target late --features a,b -k 21 -o core.csv");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: data.csv: k = 21 points cannot be chosen from 20 rows"));
    let output = place.run("compare data.csv --target late --features a,b -k 5,21 -o core.csv");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(place.files(), ["data.csv"]);
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::new();
    refuse(&place, "nothing.csv", "--target y", &["nothing.csv", "cannot be opened"]);
    place.write("table.xlsx", "x");
    refuse(&place, "table.xlsx", "--target y", &["table.xlsx", "--format FORMAT names the format"]);
}

#[test]
fn truncated_parquet() {
    let place = Place::new();
    place.write("data.csv", csv(60));
    place.succeed("build data.csv --target late --features a,b -k 30 -o whole.parquet");
    let whole = std::fs::read(place.path("whole.parquet")).unwrap();
    for length in [0, 3, whole.len() / 2, whole.len() - 1] {
        place.write("cut.parquet", &whole[..length]);
        refuse(&place, "cut.parquet", "--target late", &["cut.parquet", "Parquet"]);
    }
}

#[test]
fn truncated_npz() {
    let place = Place::new();
    let whole =
        npz(&[("X.npy", &npy("<f8", "(3, 1)", &[0; 24])), ("y.npy", &npy("|i1", "(3,)", &[1, 0, 1]))]);
    for length in [0, 30, whole.len() / 2, whole.len() - 1] {
        place.write("cut.npz", &whole[..length]);
        refuse(&place, "cut.npz", "", &["cut.npz"]);
    }
}

#[test]
fn pickled_objects_are_refused() {
    let place = Place::new();
    place.write("evil.npz", npz(&[("X.npy", &npy("|O", "(1, 1)", b"\x80\x03]q\x00."))]));
    refuse(&place, "evil.npz", "", &["evil.npz", "pickled", "'X'"]);
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    place.write("data.csv", csv(20));
    std::fs::create_dir(place.path("folder.csv")).unwrap();
    let before = place.files();
    for (flags, word) in [
        ("-o nowhere/core.csv", "nowhere/core.csv"),
        ("-o core.xlsx", "core.xlsx"),
        ("-o folder.csv", "folder"),
        ("-o data.csv", "overwrite"),
        ("-o core.json --json core.json", "two outputs"),
        ("-o core.json --json ./core.json", "two outputs"),
        ("-o core.json --json folder.csv/../core.json", "two outputs"),
        ("-o core.csv --json nowhere/summary.json", "nowhere/summary.json"),
    ] {
        let output = place.run(&format!("build data.csv --target late -k 2 {flags}"));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{flags}: {message}");
        assert!(message.lines().count() == 1 && message.contains(word), "{message}");
        assert_eq!(place.files(), before);
    }
}

/// An array file as NumPy writes it.
fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), data].concat()
}

/// An archive of stored entries.
fn npz(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let offset = (archive.len() as u32).to_le_bytes();
        let size = (data.len() as u32).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        let shared = [
            b"\x14\x00\x00\x00\x00\x00\x00\x00\x21\x00".as_slice(),
            &crc32(data).to_le_bytes(),
            &size,
            &size,
            &name_length,
            &[0; 2],
        ]
        .concat();
        archive.extend([b"PK\x03\x04".as_slice(), &shared, name.as_bytes(), data].concat());
        directory
            .extend([b"PK\x01\x02\x14\x00".as_slice(), &shared, &[0; 10], &offset, name.as_bytes()].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let (size, offset) = ((directory.len() as u32).to_le_bytes(), (archive.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06\x00\x00\x00\x00".as_slice(), &count, &count, &size, &offset, &[0; 2]].concat();
    [archive, directory, end].concat()
}

fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, _: u8| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}
