//! Reading back a coreset file: which rows, with what weights.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::content::{Content, source_name};
use super::error::DataError;
use super::source::Source;
use super::write::Output;

/// The `row` and `weight` columns of a file that [`write_rows`](super::write_rows) wrote, CSV, Parquet or JSON.
///
/// Rows must be distinct whole numbers, weights finite and not negative.
pub fn read_coreset(path: &Path) -> Result<(Vec<usize>, Vec<f64>), DataError> {
    let file = source_name(path);
    let (rows, weights) = match Output::from_path(path)? {
        Output::Json => read_json(path, &file)?,
        Output::Csv | Output::Parquet => {
            let source = Source::open(path, None)?;
            let [rows, weights] = ["row", "weight"].map(|name| numbers(&source, name));
            (rows?, weights?)
        }
    };
    check(&rows, &weights).map_err(|reason| DataError::NotCoreset { file, reason })?;
    Ok((rows.into_iter().map(|row| row as usize).collect(), weights))
}

#[derive(Deserialize)]
struct JsonCoreset {
    rows: Vec<JsonPoint>,
}

#[derive(Deserialize)]
struct JsonPoint {
    row: f64,
    weight: f64,
}

fn read_json(path: &Path, file: &str) -> Result<(Vec<f64>, Vec<f64>), DataError> {
    let coreset: JsonCoreset = serde_json::from_reader(Content::open(path)?.reader(0))
        .map_err(|e| DataError::NotCoreset { file: file.to_owned(), reason: e.to_string() })?;
    Ok(coreset.rows.into_iter().map(|point| (point.row, point.weight)).unzip())
}

fn numbers(source: &Source<'_>, name: &str) -> Result<Vec<f64>, DataError> {
    source.numbers(name)?.ok_or_else(|| DataError::NotCoreset {
        file: source.name().to_owned(),
        reason: format!("column '{name}' is not numeric"),
    })
}

fn check(rows: &[f64], weights: &[f64]) -> Result<(), String> {
    if rows.is_empty() {
        return Err("it has no row".to_owned());
    }
    let mut seen = HashSet::new();
    for (i, (&row, &weight)) in rows.iter().zip(weights).enumerate() {
        if !(row >= 0.0 && row < 2f64.powi(53) && row.fract() == 0.0) {
            return Err(format!("column 'row', row {i}: {row} is not a row number"));
        }
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(format!("column 'weight', row {i}: {weight} is not a weight"));
        }
        if !seen.insert(row.to_bits()) {
            return Err(format!("column 'row', row {i}: row {row} appears twice"));
        }
    }
    Ok(())
}
