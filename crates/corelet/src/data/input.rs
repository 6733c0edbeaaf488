//! Where text comes from: a file, perhaps compressed, or standard input.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::error::DataError;

/// A text input that can be read from its beginning more than once.
#[derive(Debug)]
pub(super) enum TextInput {
    File(PathBuf),
    /// Standard input cannot be read twice, so it is kept.
    Kept(Vec<u8>),
}

impl TextInput {
    /// `-` is standard input.
    pub(super) fn new(path: &Path) -> Result<Self, DataError> {
        if !is_standard_input(path) {
            return Ok(Self::File(path.to_path_buf()));
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(|e| DataError::read(&source_name(path), &e))?;
        Ok(Self::Kept(bytes))
    }

    /// A reader of the decompressed text, from the beginning.
    pub(super) fn open(&self) -> Result<Box<dyn Read + '_>, DataError> {
        match self {
            Self::Kept(bytes) => Ok(Box::new(Cursor::new(bytes))),
            Self::File(path) => decompressed(path),
        }
    }
}

/// True for the path `-`.
pub(super) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How messages name `path`.
pub(super) fn source_name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Opens a file, with an error that names it.
pub(super) fn open_file(path: &Path) -> Result<File, DataError> {
    let failed = |reason: String| DataError::Open { file: path.to_path_buf(), reason };
    let file = File::open(path).map_err(|e| failed(e.to_string()))?;
    // Opening a folder succeeds on Unix and only reading it fails, with a message that explains nothing.
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(failed("it is a folder".to_owned()));
    }
    Ok(file)
}

fn decompressed(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let file = open_file(path)?;
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "gz" => Ok(Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file)))),
        "zst" => {
            let decoder = zstd::Decoder::new(file).map_err(|e| DataError::read(&source_name(path), &e))?;
            Ok(Box::new(decoder))
        }
        _ => Ok(Box::new(file)),
    }
}
