//! Files that unpack to more than there is memory for: refused in one line, with the sizes.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use crate::common::Place;

/// Runs a build with this much address space; it must end with one line, and not be killed.
fn refuse(place: &Place, megabytes: usize, line: &str, words: &[&str]) {
    let program = crate::common::PROGRAM;
    let limit = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024);
    let output = Command::new("sh")
        .args(["-c", &limit])
        .arg(program)
        .args(line.split_whitespace())
        .args(["--threads", "2"])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}: {message}");
    assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message}");
    }
}

#[test]
fn sparse_rows_that_would_be_dense() {
    let place = Place::new();
    let mut text = String::new();
    for i in 0..100_000 {
        writeln!(text, "{} 1:{}", i % 2, i % 7).unwrap();
    }
    text.push_str("1 65536:1\n");
    place.write("wide.libsvm", text);
    refuse(
        &place,
        2000,
        "build wide.libsvm -k 5 -o core.csv",
        &["100001 rows of 65536 features need 26.2 GB"],
    );
}

#[test]
fn compressed_text_without_lines() {
    let place = Place::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![b'1'; 1 << 20];
    (0..300).for_each(|_| gzip.write_all(&zeros).unwrap());
    place.write("line.csv.gz", gzip.finish().unwrap());
    refuse(&place, 2000, "build line.csv.gz --target y -k 5 -o core.csv", &["line.csv.gz"]);
    refuse(&place, 2000, "build line.csv.gz --format libsvm -k 5 -o core.csv", &["line.csv.gz"]);
}

#[test]
fn compressed_rows_that_do_not_fit() {
    let place = Place::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"a,b,c,d,e,f,g,h,y\n").unwrap();
    let mut rows = String::new();
    for i in 0..50_000 {
        writeln!(rows, "{},1,{},1,2,3,4,5,{}", i % 7, i % 3, i % 2).unwrap();
    }
    (0..200).for_each(|_| gzip.write_all(rows.as_bytes()).unwrap());
    place.write("many.csv.gz", gzip.finish().unwrap());
    refuse(
        &place,
        280,
        "build many.csv.gz --target y --categories b,d -k 5 -o core.csv",
        &["10000000 rows of", "need"],
    );
}

/// Whatever little there is room for above what the program itself takes, a run ends with its result or with one line, and is not killed.
#[test]
fn any_address_space_ends_in_words() {
    let place = Place::new();
    let mut text = String::from("a,b,c,d,e,f,y\n");
    for i in 0..20_000_u64 {
        let x = |by: u64| (i * by % 1009) as f64 / 100.0;
        writeln!(text, "{},{},{},{},{},{},{}", x(7), x(13), x(29), x(101), x(211), x(503), i * 31 % 7 % 2)
            .unwrap();
    }
    place.write("data.csv", text);
    for megabytes in (75..=300).step_by(15) {
        let limit = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024);
        let line = "fit data.csv --target y -k 60 --warmup 50 --draws 100 -o draws.csv";
        let output = Command::new("sh")
            .args(["-c", &limit])
            .arg(crate::common::PROGRAM)
            .args(line.split_whitespace())
            .current_dir(place.path("."))
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1 | 3)), "{megabytes} MB: {code:?} {message}");
        if code == Some(1) {
            assert!(
                message.starts_with("error: ") && message.lines().count() == 1,
                "{megabytes} MB: {message}"
            );
        }
    }
}
