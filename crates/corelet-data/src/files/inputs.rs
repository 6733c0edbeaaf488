//! The files of a table: named files, files that match a pattern, files in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::content::is_standard_input;
use super::format::Format;
use crate::error::DataError;

/// The files that `paths` stand for, in order: a file for itself; a pattern with `*`, `?` or `[…]` for what matches it, and a
/// folder for its files of a known format (of any, where `format` is given), each sorted by name. What begins with `.` or `_`
/// is no data.
///
/// # Errors
/// If a pattern or a folder has no file.
pub fn input_files<P: AsRef<Path>>(paths: &[P], format: Option<Format>) -> Result<Vec<PathBuf>, DataError> {
    if paths.is_empty() {
        return Err(DataError::NoParts { path: PathBuf::new(), reason: "no file is named".to_owned() });
    }
    let mut files = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        if is_standard_input(path) {
            files.push(path.to_path_buf());
        } else if path.is_dir() {
            files.extend(in_folder(path, format)?);
        } else if !path.exists() && is_pattern(path) {
            files.extend(matching(path)?);
        } else {
            files.push(path.to_path_buf());
        }
    }
    Ok(files)
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

fn matching(pattern: &Path) -> Result<Vec<PathBuf>, DataError> {
    let none = |reason: &str| DataError::NoParts { path: pattern.to_path_buf(), reason: reason.to_owned() };
    let found = glob::glob(pattern.to_str().unwrap_or_default()).map_err(|e| none(e.msg))?;
    let mut files: Vec<PathBuf> = found.flatten().filter(|path| !path.is_dir() && !is_hidden(path)).collect();
    files.sort_unstable();
    if files.is_empty() { Err(none("no file matches it")) } else { Ok(files) }
}

fn in_folder(folder: &Path, format: Option<Format>) -> Result<Vec<PathBuf>, DataError> {
    let none = |reason: String| DataError::NoParts { path: folder.to_path_buf(), reason };
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|e| none(e.to_string()))?;
    let is_data = |path: &PathBuf| {
        !path.is_dir() && !is_hidden(path) && (format.is_some() || Format::from_path(path).is_ok())
    };
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_data).collect();
    files.sort_unstable();
    if files.is_empty() {
        Err(none("the folder has no file of a known format".to_owned()))
    } else {
        Ok(files)
    }
}

/// Marks of a finished job and files in the making, as engines leave them beside the parts.
fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(['.', '_']))
}
