//! NumPy archives with arrays `X` and, where there is a target, `y`.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use npyz::npz::NpzArchive;

use super::error::{DataError, list_names};
use super::input::{open_file, source_name};
use super::npy::{Array, ArrayName, read_array};
use super::table::{Column, Table, Values};

const FORMAT: &str = "NPZ";

type Archive = NpzArchive<BufReader<File>>;

/// Reads `X` as columns `x1` ... `xD` and `y` as the target `y`; other arrays are left alone.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let file = source_name(path);
    let reader = BufReader::new(open_file(path)?);
    let mut archive = Archive::new(reader).map_err(|e| DataError::damaged(&file, FORMAT, &e))?;
    let mut names: Vec<String> = archive.array_names().map(str::to_owned).collect();
    names.sort_unstable();
    if !names.iter().any(|name| name == "X") {
        return Err(DataError::NoArray { file, array: "X", found: list_names(&names) });
    }
    let mut columns = extract(&mut archive, &file, "X")?.into_columns();
    let has_target = names.iter().any(|name| name == "y");
    if has_target {
        columns.push(target_column(extract(&mut archive, &file, "y")?, &file)?);
    }
    let mut table = Table::new(file, columns)?;
    table.own_target = has_target.then(|| "y".to_owned());
    Ok(table)
}

fn extract(archive: &mut Archive, file: &str, array: &str) -> Result<Array, DataError> {
    let name = ArrayName { file, array, format: FORMAT };
    let mut entry = archive.zip_archive().by_name(&format!("{array}.npy")).map_err(|e| name.damaged(&e))?;
    let values = read_array(&mut entry, name)?;
    // The checksum is compared at the end of the entry, so it has to be reached.
    io::copy(&mut entry, &mut io::sink()).map_err(|e| name.damaged(&e))?;
    Ok(values)
}

fn target_column(array: Array, file: &str) -> Result<Column, DataError> {
    let integer = array.integer;
    match <[Vec<f64>; 1]>::try_from(array.columns) {
        Ok([values]) => Ok(Column { name: "y".to_owned(), values: Values::Number { values, integer } }),
        Err(columns) => Err(DataError::ArrayShape {
            file: file.to_owned(),
            array: "y".to_owned(),
            shape: format!("n, {}", columns.len()),
            expected: "one number a row",
        }),
    }
}
