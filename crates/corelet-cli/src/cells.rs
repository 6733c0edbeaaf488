//! Many runs side by side, as CSV and as a table of medians.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use corelet::study::Cell;

use crate::output::{csv_line, csv_number};
use crate::percentile::median;
use crate::words::{duration, optional};

const CSV_HEADER: [&str; 19] = [
    "method",
    "k",
    "seed",
    "points",
    "status",
    "embedding",
    "coordinates",
    "residual",
    "heldout_residual",
    "heldout_nats",
    "kl_forward",
    "kl_reverse",
    "kl_symmetrised",
    "map_distance",
    "coreset_fit",
    "passes",
    "iterations",
    "build_seconds",
    "evaluate_seconds",
];

/// Every cell as CSV.
pub(crate) fn to_csv(cells: &[Cell]) -> anyhow::Result<String> {
    let mut text = csv_line(CSV_HEADER.map(str::to_owned));
    for cell in cells {
        let Cell { seed, coreset, evaluation, .. } = cell;
        text += &csv_line([
            coreset.method.clone(),
            coreset.k.to_string(),
            seed.to_string(),
            coreset.rows.len().to_string(),
            name_of(&coreset.status)?,
            coreset.fit.embedding.name.clone(),
            coreset.fit.embedding.coordinates.to_string(),
            csv_number(Some(coreset.fit.residual)),
            csv_number(evaluation.heldout_residual),
            csv_number(evaluation.heldout_nats),
            csv_number(evaluation.kl_forward),
            csv_number(evaluation.kl_reverse),
            csv_number(evaluation.kl_symmetrised),
            csv_number(evaluation.map_distance),
            name_of(&evaluation.fit)?,
            csv_number(Some(coreset.passes)),
            coreset.iterations.to_string(),
            csv_number(Some(cell.build_seconds)),
            csv_number(Some(cell.evaluate_seconds)),
        ]);
    }
    Ok(text)
}

/// A status as JSON names it.
fn name_of(status: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(status)?.trim_matches('"').to_owned())
}

/// A line for each method and size: medians over the seeds.
pub(crate) fn to_table(cells: &[Cell]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "method",
        "k",
        "points",
        "residual",
        "held-out nats",
        "forward KL",
        "MAP distance",
        "passes",
        "time",
    ]);
    let mut groups: Vec<(&str, usize, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let (method, k) = (cell.coreset.method.as_str(), cell.coreset.k);
        match groups.iter_mut().find(|group| (group.0, group.1) == (method, k)) {
            Some(group) => group.2.push(cell),
            None => groups.push((method, k, vec![cell])),
        }
    }
    for (method, k, cells) in &groups {
        let of = |f: fn(&Cell) -> Option<f64>| median(cells.iter().filter_map(|cell| f(cell)).collect());
        table.add_row([
            (*method).to_owned(),
            k.to_string(),
            optional(of(|cell| Some(cell.coreset.rows.len() as f64))),
            optional(of(|cell| Some(cell.coreset.fit.residual))),
            optional(of(|cell| cell.evaluation.heldout_nats)),
            optional(of(|cell| cell.evaluation.kl_forward)),
            optional(of(|cell| cell.evaluation.map_distance)),
            optional(of(|cell| Some(cell.coreset.passes))),
            of(|cell| Some(cell.build_seconds)).map_or_else(String::new, duration),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
