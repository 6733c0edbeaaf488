//! What several test files share.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::PathBuf;

/// The folder that `CORELET_DATA` names, with the data files of the paper; `None`, and a word about it, where it names none.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty());
    if folder.is_none() {
        println!("skipped: CORELET_DATA names no folder with data files");
    }
    folder.map(PathBuf::from)
}
