//! Many runs side by side: one cell for each method, size and seed, as CSV and as a table of medians.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Context;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use corelet::coreset::{
    BuildError, BuildOptions, Callback, Coreset, HeldOut, Selector, select, select_by_sparse_vi,
};
use corelet::embed::{Choice, Embedding, embed};
use corelet::evaluate::{Evaluation, evaluate};
use corelet::fitted;
use sparse_nnls::{Limits, Status};

use crate::interrupt::Interrupt;
use crate::load::Fitted;
use crate::output::{csv_line, csv_number};
use crate::percentile::median;
use crate::terminal::Terminal;
use crate::wording::{duration, optional};

/// Which runs to make.
pub(crate) struct Plan {
    pub(crate) methods: Vec<Selector>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) seeds: std::ops::Range<u64>,
    pub(crate) embedding: Choice,
    pub(crate) limits: Limits,
}

/// One run.
pub(crate) struct Cell {
    pub(crate) seed: u64,
    pub(crate) coreset: Coreset,
    pub(crate) evaluation: Evaluation,
    pub(crate) build_seconds: f64,
    pub(crate) evaluate_seconds: f64,
}

impl Plan {
    /// Refuses what cannot be done with so many rows.
    pub(crate) fn check(&self, rows: usize) -> anyhow::Result<()> {
        for &k in &self.sizes {
            BuildOptions { k, ..BuildOptions::default() }.check(rows)?;
        }
        Ok(())
    }

    /// Makes the runs, one embedding a seed, until done or interrupted.
    pub(crate) fn run(
        &self,
        fitted: &Fitted,
        terminal: &Terminal,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<Cell>> {
        let largest = self.sizes.iter().copied().max().unwrap_or(1);
        let total = self.methods.len() * self.sizes.len() * self.seeds.clone().count();
        let posterior = &fitted.laplace.posterior;
        let progress = terminal.progress("embedding the data");
        let mut cells: Vec<Cell> = Vec::with_capacity(total);
        for seed in self.seeds.clone() {
            let embedding = embed(&*fitted.model, posterior, self.embedding, largest, seed)?;
            let held_out = HeldOut::new(&*fitted.model, posterior, seed);
            for (&k, method) in self.sizes.iter().flat_map(|k| self.methods.iter().map(move |m| (k, m))) {
                let options =
                    BuildOptions { method: *method, k, seed, limits: self.limits, ..BuildOptions::default() };
                let prefix = format!("run {} of {total}, ", cells.len() + 1);
                let start = Instant::now();
                let coreset = choose(fitted, &*embedding, &options, &mut |info| {
                    progress.follow(&prefix, method, info);
                    if interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .with_context(|| fitted.table.source.clone())?;
                if coreset.status == Status::Stopped {
                    return Ok(cells);
                }
                cells.push(finish(fitted, &held_out, coreset, seed, start)?);
                interrupt.worth_writing();
            }
        }
        Ok(cells)
    }
}

/// Chooses points in an embedding that exists already.
fn choose(
    fitted: &Fitted,
    embedding: &dyn Embedding,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Coreset, BuildError> {
    match &options.method {
        Selector::Embedded(_) => select(embedding, options, callback),
        Selector::SparseVi(settings) => {
            let fitted::Fitted { model, prior, .. } = &**fitted;
            select_by_sparse_vi(&**model, prior, embedding, settings, options, callback)
        }
    }
}

fn finish(
    fitted: &Fitted,
    held_out: &HeldOut<'_>,
    coreset: Coreset,
    seed: u64,
    start: Instant,
) -> anyhow::Result<Cell> {
    let build_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let fitted::Fitted { model, prior, laplace, .. } = &**fitted;
    let evaluation = evaluate(&**model, prior, laplace, Some(held_out), &coreset.rows, &coreset.weights)?;
    Ok(Cell { seed, coreset, evaluation, build_seconds, evaluate_seconds: start.elapsed().as_secs_f64() })
}

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
            coreset.embedding.name.clone(),
            coreset.embedding.coordinates.to_string(),
            csv_number(Some(coreset.residual)),
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
            optional(of(|cell| Some(cell.coreset.residual))),
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
