//! `Coreset.update`: rows that arrive, joined to a coreset.

use std::collections::BTreeMap;

use corelet::data::{KeptRows, Storage};
use corelet::rows::Observations;
use corelet::study::{Block, Blocks, KeptCoreset, Part, UpdateSpecification, Updated};
use corelet::trust::{Draws, Grade};
use corelet::words::{updated, updated_model};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::build::kept_fields;
use crate::columns;
use crate::data::Data;
use crate::errors::{Failure, refuse};
use crate::fit::rest_choice;
use crate::run::{Execution, run};
use crate::sample::{Kept, drawn_fields};
use crate::specification::sampling;
use crate::target::blocks_of;

/// A coreset as Python has it: its rows, where there are any, their weights, and its metadata.
type Known<'py> = (Option<Kept<'py>>, PyReadonlyArray1<'py, f64>, BTreeMap<String, String>);

/// Joins rows to a coreset; `earlier` are all rows that it stands for, where they are at hand.
#[pyfunction]
#[pyo3(signature = (data, earlier, coreset, asked, chains, execution))]
pub(crate) fn update<'py>(
    py: Python<'py>,
    data: Data<'py>,
    earlier: Option<Data<'py>>,
    coreset: Known<'py>,
    asked: (String, bool, bool),
    chains: &Bound<'py, PyDict>,
    execution: Execution<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let (rest, drop_missing, allow_repeats) = asked;
    let (sample, seed) = sampling(chains)?;
    let asked = UpdateSpecification { rest: rest_choice(&rest)?, sample, allow_repeats, seed };
    let (rows, weights, notes) = coreset;
    let rows = rows.map_or_else(|| Ok(Observations::default()), |kept| kept.observations())?;
    let kept = KeptCoreset::of_notes(rows, weights.as_slice()?.to_vec().into(), &notes, "the coreset");
    let kept = kept.map_err(|error| Failure::new(&error))?;
    let source = data.source(py, &Storage::default())?;
    let (new, of) = kept.encode_data(&source, drop_missing).map_err(|error| Failure::new(&error))?;
    let earlier = earlier.map(|earlier| earlier_rows(py, &kept, &earlier, drop_missing)).transpose()?;
    let (first, own, name) = (kept.blocks.file_rows, kept.weights.values().len(), source.name().to_owned());
    let total = of.total();
    let result = run(py, &execution, move |control| {
        let rows = (name.as_str(), new, total);
        kept.update(rows, earlier, &asked, &mut |progress| control.heard(progress))
            .map_err(|error| Failure::of(&name, &error))
    })?;
    let fresh: Vec<usize> =
        result.rows.iter().filter(|row| **row >= own).map(|row| of.file_row(row - own)).collect();
    let cells = source.cells(&fresh).map_err(|error| Failure::new(&error))?;
    let answer = PyDict::new(py);
    let coreset = fields(py, &result)?;
    coreset.set_item("columns", columns::chosen(py, &cells)?)?;
    answer.set_item("coreset", coreset)?;
    let places = result.rows.iter().filter(|row| **row < own).map(|&row| row as i64);
    answer.set_item("places", PyArray1::from_iter(py, places))?;
    answer.set_item("fresh", PyArray1::from_iter(py, fresh.iter().map(|row| (first + row) as i64)))?;
    answer.set_item("dropped", dropped(&of))?;
    let mut lines = updated(&result);
    let verdict = drawn_fields(py, &result.study, &result.drawn, result.rows.len())?;
    let said: Vec<String> =
        verdict.get_item("lines")?.map_or_else(|| Ok(Vec::new()), |lines| lines.extract())?;
    lines.splice(..0, said);
    verdict.set_item("lines", lines)?;
    answer.set_item("verdict", verdict)?;
    answer.set_item("compressed", result.compressed)?;
    answer.set_item("carried", result.carried)?;
    Ok(answer)
}

/// What certifies the rows of a fit of any model: those of `before`, where there are any, and so many more by a grade and a bound on V, at
/// draws × numbers on ℝᵖ. As JSON, with what is said of it.
#[pyfunction]
pub(crate) fn certified_blocks(
    before: Option<String>,
    size: (usize, usize),
    judged: (String, f64),
    at: PyReadonlyArray2<'_, f64>,
) -> PyResult<(String, Vec<String>)> {
    let ((rows, points), (grade, bound)) = (size, judged);
    let failed = |error: serde_json::Error| refuse(error.to_string());
    let grade: Grade = serde_json::from_str(&format!("\"{grade}\"")).map_err(failed)?;
    let draws = Draws { theta: at.as_slice()?.to_vec(), dim: at.shape()[1], chains: None, log_weights: None };
    let part = Part { rows, fingerprint: None, marks: None };
    let (blocks, lines) = match blocks_of(before)? {
        Some(before) => {
            let carried = before.carried_to(&draws).0.powi(2);
            let lines = updated_model(&before, rows, carried);
            (before.then(part, points, (grade, bound), &draws), lines)
        }
        None => {
            let block = Block::of(vec![part], grade, bound, &draws);
            (Blocks { blocks: vec![block], file_rows: rows, points, whole: None }, Vec::new())
        }
    };
    Ok((blocks.metadata().map_err(failed)?.1, lines))
}

fn earlier_rows(
    py: Python<'_>,
    kept: &KeptCoreset,
    earlier: &Data<'_>,
    drop_missing: bool,
) -> PyResult<Observations> {
    let source = earlier.source(py, &Storage::default())?;
    Ok(kept.encode_data(&source, drop_missing).map_err(|error| Failure::new(&error))?.0)
}

fn dropped(of: &KeptRows) -> usize {
    of.total() - of.len()
}

/// What the Python class `Coreset` is made of, but for its rows and their cells, which are of two tables.
fn fields<'py>(py: Python<'py>, result: &Updated) -> PyResult<Bound<'py, PyDict>> {
    let failed = |error: serde_json::Error| refuse(error.to_string());
    let fields = PyDict::new(py);
    fields.set_item("weights", PyArray1::from_slice(py, result.weights.values()))?;
    fields.set_item("summary", result.summary.to_json().map_err(failed)?)?;
    fields.set_item("lines", result.summary.lines())?;
    fields.set_item("warnings", result.study.warnings())?;
    fields.set_item("metadata", result.metadata().map_err(failed)?)?;
    fields.set_item("names", result.study.frame().names.clone())?;
    let kept = kept_fields(py, &result.study, &result.chosen, result.rows.len(), result.rest.as_deref())?;
    fields.set_item("sampling", kept)?;
    Ok(fields)
}
