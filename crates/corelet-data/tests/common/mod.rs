//! What several test files share.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "helpers of tests are tests too, and no file needs all of them"
)]

use std::fs;
use std::path::PathBuf;

use corelet_data::{Columns, DataError, Dataset, DesignOptions, Outcome, Source, Table, read};

/// The folder that `CORELET_DATA` names, with the data files of the paper, for tests that are ignored unless they are asked for.
pub(crate) fn data_folder() -> PathBuf {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    folder.map(PathBuf::from).expect("CORELET_DATA must name the folder with the data files")
}

/// The table of a CSV.
pub(crate) fn table(text: &str) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    fs::write(&path, text).unwrap();
    read(&path, None).unwrap()
}

/// What predicts `target`, with everything else as it is by default.
pub(crate) fn options(outcome: Outcome, target: &str) -> DesignOptions {
    DesignOptions { outcome, columns: Columns::predicting(target), ..DesignOptions::default() }
}

/// The design of a file.
pub(crate) fn of_file(text: &str, options: &DesignOptions) -> Result<Dataset, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    fs::write(&path, text).unwrap();
    Source::open(&path, None).unwrap().design(options)
}

/// The error of `of_file`: one line, which names the file and holds each of `parts`.
pub(crate) fn assert_refused(text: &str, options: &DesignOptions, parts: &[&str]) {
    let message = of_file(text, options).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts.iter().chain([&"rows.csv"]) {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}
