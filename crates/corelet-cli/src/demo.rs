//! `corelet demo`: the paper's large synthetic logistic set, every method side by side.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use corelet::coreset::Selector;
use corelet::data::{Columns, DesignOptions, Source, Table, Values, ensure_writable};
use corelet::embed::Choice;
use corelet::generate;
use corelet::study::{Cell, Comparison, ModelSpecification, Specification, Study};
use sparse_nnls::{Limits, Method};

use crate::Outcome;
use crate::args::DemoArgs;
use crate::cells::{to_csv, to_table};
use crate::interrupt::Interrupt;
use crate::load::{self, Follower};
use crate::memory;
use crate::output;
use crate::terminal::Terminal;
use crate::words::{count, judgement};

/// Points each method may choose.
const POINTS: usize = 10;

/// Passes each method may make: enough for the paper's 300 iterations, and a demo must not take long.
const MAX_PASSES: f64 = 400.0;

/// The files of the demo.
struct Files {
    data: PathBuf,
    coreset: PathBuf,
    table: PathBuf,
    summary: PathBuf,
}

pub(crate) fn run(
    args: &DemoArgs,
    seed: u64,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let files = prepare(args)?;
    let start = Instant::now();
    let observations = generate::logistic_paper(args.n as usize, seed);
    let table = generate::to_table(&observations, &files.data.display().to_string())?;
    drop(observations);
    let data_csv = table_as_csv(&table);
    let design = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
    let model = ModelSpecification { prior_sd: Some(1.0), ..ModelSpecification::default() };
    let specification = Specification { design, model, ..Specification::default() };
    let opened = load::study(Source::of_table(table), &specification, start, terminal)?;
    let comparison = Comparison {
        methods: Method::all().into_iter().map(Selector::from).collect(),
        sizes: vec![POINTS],
        seeds: seed..seed.saturating_add(1),
        embedding: Choice::Auto,
        limits: Limits { passes: Some(MAX_PASSES), ..Limits::default() },
    };
    let mut follower = Follower::new(terminal, interrupt);
    let cells = opened
        .study
        .compare(&comparison, &mut |_| interrupt.worth_writing(), &mut |progress| follower.heard(progress))?;
    drop(follower);

    interrupt.writing();
    output::write_text(&files.data, &data_csv)?;
    output::write_text(&files.table, &to_csv(&cells)?)?;
    if interrupt.asked() {
        terminal.warn(&format!("interrupted: {} of the methods were finished", cells.len()));
        return Ok(Outcome::Interrupted);
    }
    let best = cells.last().context("no method was run")?;
    // The last of all methods is the default one.
    let summary = opened.study.summary_of_cell(best).with_peak_memory(memory::peak_bytes());
    opened.write_coreset((&best.coreset, &best.weights), &summary, None, &files.coreset)?;
    output::write_text(&files.summary, &summary.to_json()?)?;
    report(args, &files, &opened.study, &cells, best, terminal);
    Ok(Outcome::Done)
}

fn prepare(args: &DemoArgs) -> anyhow::Result<Files> {
    let out = &args.out;
    std::fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
    let files = Files {
        data: out.join("data.csv"),
        coreset: out.join("core.parquet"),
        table: out.join("table.csv"),
        summary: out.join("summary.json"),
    };
    ensure_writable(&files.coreset)?;
    output::check(&[&files.data, &files.coreset, &files.table, &files.summary], &[])?;
    Ok(files)
}

fn table_as_csv(table: &Table) -> String {
    let mut text = output::csv_line(table.columns.iter().map(|column| column.name.clone()));
    for row in 0..table.rows {
        text += &output::csv_line(table.columns.iter().map(|column| match &column.values {
            Values::Number { values, .. } => values[row].to_string(),
            _ => String::new(),
        }));
    }
    text
}

fn report(args: &DemoArgs, files: &Files, study: &Study, cells: &[Cell], best: &Cell, terminal: &Terminal) {
    let (n, points) = (count(study.len()), best.coreset.rows.len());
    let Files { data, coreset, table, summary } = files;
    let [data, coreset, table, summary] = [data, coreset, table, summary].map(|path| path.display());
    terminal.say(&format!(
        "Logistic regression on {n} generated rows (x ~ N(0, I), coefficients 3, 3 and 0).\nEach method may choose \
         {POINTS} rows and weigh them; divergences from the posterior of all rows are in nats.\n\n{}\n",
        to_table(cells)
    ));
    if let Some(nats) = best.evaluation.kl_forward {
        terminal.say(&format!("pursuit, with {points} points: {}.\n", judgement(nats)));
    }
    terminal.say(&format!(
        "Files in {}:\n  {data}  the data\n  {coreset}  pursuit's coreset: row, weight and the original columns\n  \
         {table}  the table above\n  {summary}  pursuit's summary\n\nTry next:\n  corelet build {data} --target y \
         --max-kl 0.001 -o core.csv\n  corelet evaluate {data} --target y --coreset {coreset}\n  corelet compare \
         {data} --target y -k 5,10,20 --methods pursuit,giga,uniform --seeds 5\n  corelet build YOUR.csv --target \
         COLUMN -k 100 -o core.csv",
        args.out.display()
    ));
}
