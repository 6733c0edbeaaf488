//! NumPy archives with arrays `X` and, where there is a target, `y`.

use std::io::{self, BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use super::content::{Content, ContentReader, spool_in};
use super::npy::{Array, ArrayName, NumpyArrays};
use crate::error::DataError;
use crate::listing::list_names;
use crate::scan::memory;

const FORMAT: &str = "NPZ";

type Archive = ZipArchive<BufReader<ContentReader>>;

/// Opens `X` as columns `x1` ... `xD` and `y` as the target `y`; other arrays are left alone. Large arrays are unpacked into `folder`.
pub(crate) fn open(content: &Content, folder: &Path) -> Result<NumpyArrays, DataError> {
    let file = content.name.clone();
    let mut archive = Archive::new(content.reader(0)).map_err(|e| DataError::damaged(&file, FORMAT, &e))?;
    let arrays = archive.file_names().filter_map(|name| Some(name.ok()?.strip_suffix(".npy")?.to_owned()));
    let mut names: Vec<String> = arrays.collect();
    names.sort_unstable();
    let has = |array: &str| names.iter().any(|name| name == array);
    if !has("X") {
        return Err(DataError::NoArray { file, array: "X", found: list_names(&names) });
    }
    let matrix = extract(&mut archive, &file, "X", folder)?;
    let target = if has("y") { Some(extract(&mut archive, &file, "y", folder)?) } else { None };
    if let Some(target) = target.as_ref().filter(|target| target.dim != 1) {
        return Err(DataError::ArrayShape {
            file,
            array: "y".to_owned(),
            shape: format!("n, {}", target.dim),
            expected: "one number a row",
        });
    }
    NumpyArrays::new(file, matrix, target)
}

/// Unpacks an array, whose checksum is compared at its end.
fn extract(archive: &mut Archive, file: &str, array: &str, folder: &Path) -> Result<Array, DataError> {
    let name = ArrayName { file, array, format: FORMAT };
    let mut entry = archive.by_name(&format!("{array}.npy")).map_err(|e| name.damaged(&e))?;
    let size = entry.size();
    memory::require(file, format!("array '{array}'"), size)?;
    let mut spool = spool_in(folder)?;
    let found = io::copy(&mut entry.by_ref().take(size.saturating_add(1)), &mut spool);
    if found.map_err(|e| name.damaged(&e))? != size {
        return Err(name.damaged(&format!("it has not the {size} bytes that the archive says")));
    }
    Array::open(Content::spooled(file.to_owned(), spool)?, name)
}
