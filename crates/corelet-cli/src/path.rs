//! `corelet path`: the divergence against the number of points, as a table and as CSV.

use std::path::Path;

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use corelet::coreset::{PathRow, PathTable};

use crate::args_sampling::PathArgs;
use crate::figure::Drawing;
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::output::{csv_line, csv_number};
use crate::report::path_figure;
use crate::terminal::Terminal;
use crate::words::{count, number, optional};
use crate::{Outcome, output};

/// Sizes that the table shows; the CSV has them all.
const SHOWN: usize = 20;

pub(crate) fn run(
    args: &PathArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let outputs: Vec<&Path> = args.output.iter().chain(&args.figure).map(|path| path.as_path()).collect();
    let picture = args.figure.as_deref().map(picture_format).transpose()?;
    output::check(&outputs, &args.data.files()?)?;
    let specification = args.specification(seed);
    let opened = load::open(&args.data, &specification, terminal)?;
    let mut follower = Follower::new(terminal, interrupt);
    let table = opened
        .study
        .path(&specification.build, &mut |progress| follower.heard(progress))
        .with_context(|| opened.study.frame().source.clone())?;
    drop(follower);
    opened.warn(terminal);

    interrupt.writing();
    if let Some(path) = &args.output {
        output::write_text(path, &to_csv(&table))?;
    }
    if let (Some(path), Some(format)) = (&args.figure, picture) {
        let drawing = draw(&table)?;
        match format {
            Picture::Svg => output::write_text(path, &drawing.svg)?,
            Picture::Png => output::write_bytes(path, &drawing.png)?,
        }
    }
    let (n, embedding) = (count(opened.study.all_rows()), &table.embedding.name);
    terminal.say(&format!("{n} rows, {embedding}; divergences in nats\n\n{}", to_table(&table)));
    terminal.say(&match table.knee {
        Some(at) => format!("\nthe knee is at {} points: further ones help less", table.rows[at].points),
        None => "\nno knee: every further point helps as much as those before".to_owned(),
    });
    if let Some(path) = &args.output {
        terminal.say(&format!("every size is in {}", path.display()));
    }
    if let Some(path) = &args.figure {
        terminal.say(&format!("the picture is in {}", path.display()));
    }
    if interrupt.asked() {
        terminal.warn("interrupted: the path ends where pursuit was stopped");
        return Ok(Outcome::Interrupted);
    }
    Ok(Outcome::Done)
}

/// What a picture is written as.
#[derive(Debug, Clone, Copy)]
enum Picture {
    Svg,
    Png,
}

fn picture_format(path: &Path) -> anyhow::Result<Picture> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(Picture::Svg),
        Some("png") => Ok(Picture::Png),
        _ => bail!("{}: a figure must be named .svg or .png", path.display()),
    }
}

/// The estimates against the number of points, the knee picked out.
fn draw(table: &PathTable) -> anyhow::Result<Drawing> {
    let curve = |of: &dyn Fn(&PathRow) -> Option<f64>| -> Vec<(f64, f64)> {
        table.rows.iter().filter_map(|row| Some((row.points as f64, of(row)?))).collect()
    };
    let curves = [
        ("held-out draws", curve(&|row| Some(row.heldout_nats))),
        ("forward KL", curve(&|row| row.kl_forward)),
        ("in the embedding", curve(&|row| Some(row.residual_nats))),
    ];
    let knee = table.knee.map(|at| (table.rows[at].points as f64, table.rows[at].heldout_nats));
    path_figure(&curves, knee)
}

fn to_csv(table: &PathTable) -> String {
    let header = ["points", "residual_nats", "heldout_nats", "kl_forward", "knee"];
    let mut text = csv_line(header.map(str::to_owned));
    for (at, row) in table.rows.iter().enumerate() {
        text += &csv_line([
            row.points.to_string(),
            csv_number(Some(row.residual_nats)),
            csv_number(Some(row.heldout_nats)),
            csv_number(row.kl_forward),
            u8::from(table.knee == Some(at)).to_string(),
        ]);
    }
    text
}

/// Sizes that grow by about the same factor, the knee and the last among them.
fn to_table(table: &PathTable) -> String {
    let mut shown = Table::new();
    shown.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    shown.set_header(["points", "in sample", "held out", "forward KL", ""]);
    let last = table.rows.len().saturating_sub(1);
    let largest = table.rows.last().map_or(1.0, |row| row.points as f64);
    let mut next = 0.0;
    for (at, row) in table.rows.iter().enumerate() {
        let knee = table.knee == Some(at);
        let PathRow { points, residual_nats, heldout_nats, kl_forward } = row;
        if (*points as f64) < next && at != last && !knee {
            continue;
        }
        next = next.max(*points as f64 * largest.powf(1.0 / SHOWN as f64));
        let mark = if knee { "knee" } else { "" };
        let numbers = [number(*residual_nats), number(*heldout_nats), optional(*kl_forward)];
        let [residual, held_out, forward] = numbers;
        shown.add_row([points.to_string(), residual, held_out, forward, mark.to_owned()]);
    }
    shown.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    shown.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
