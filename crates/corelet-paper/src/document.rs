//! The files of a run: CSV of cells and summaries, figures, and the report.

use std::path::Path;

use corelet::words::{count, duration, number};
use corelet_cli::output;
use corelet_cli::page::{Page, Section, Table};

use crate::args::Experiment;
use crate::cell::{Cell, Metric, to_csv};
use crate::curves::{self, Figure};
use crate::series::Series;
use crate::study::{Study, ordered};
use crate::summary::{Groups, csv_header};
use crate::theory::experiment as theory;
use crate::{claims, pictures};

/// Sizes that tables show, of those that were run.
const TABLE_SIZES: [usize; 8] = [10, 20, 50, 100, 200, 300, 500, 1000];

/// What was written.
pub(crate) struct Written {
    /// For the terminal.
    pub(crate) summary: String,
}

/// Writes all files of the studies into `out`.
pub(crate) fn write(out: &Path, studies: &[Study], quick: bool, seed: u64) -> anyhow::Result<Written> {
    let cells: Vec<(Experiment, Vec<Cell>)> =
        studies.iter().map(|study| (study.experiment, study.cells.clone())).collect();
    output::write_text(&out.join("cells.csv"), &to_csv(&cells))?;
    let mut summary = csv_header();
    studies.iter().for_each(|study| study.groups().to_csv(study.experiment, &mut summary));
    output::write_text(&out.join("summary.csv"), &summary)?;

    let mut page = Page {
        title: "Bayesian coresets: the paper, reproduced".to_owned(),
        lead: lead(studies, quick, seed),
        badge: None,
        themed: false,
        sections: Vec::new(),
        footer: format!(
            "Made by corelet {}. Every number is in cells.csv, medians and bands are in summary.csv.",
            env!("CARGO_PKG_VERSION")
        ),
    };
    let theory = match studies.iter().find(|study| study.experiment == Experiment::Theory) {
        Some(study) => theory::run(study)?,
        None => Vec::new(),
    };
    let claims = all_claims(studies, &theory);
    page.sections.push(claims_section(&claims, quick));
    if !theory.is_empty() {
        output::write_text(&out.join("theory.csv"), &theory::to_csv(&theory))?;
    }
    let mut figures = 0;
    for study in studies {
        page.sections.push(study_section(out, study, studies, &theory, &mut figures)?);
    }
    page.sections.push(how_section());
    output::write_text(&out.join("report.html"), &page.to_html()?)?;

    let total: usize = studies.iter().map(|study| study.cells.len()).sum();
    let holds = claims.iter().filter(|claim| claim.verdict == claims::Verdict::Holds).count();
    let folder = out.display();
    let summary = format!(
        "{} cells of {} experiments, {figures} figures; {holds} of {} claims hold\n  {folder}/report.html  what was \
         run, the figures, the tables and the claims\n  {folder}/cells.csv     every cell\n  {folder}/summary.csv   \
         medians and percentiles\n  {folder}/figures       SVG and PNG",
        count(total),
        studies.len(),
        claims.len()
    );
    Ok(Written { summary })
}

fn all_claims(studies: &[Study], runs: &[theory::Run]) -> Vec<claims::Claim> {
    let theory = studies.iter().filter(|study| study.experiment == Experiment::Theory);
    let theory = theory.flat_map(|study| theory::claims(study, runs));
    claims::all(studies).into_iter().chain(theory).collect()
}

fn lead(studies: &[Study], quick: bool, seed: u64) -> String {
    let names: Vec<&str> = studies.iter().map(|study| study.experiment.name()).collect();
    let grid = if quick { "the reduced grid of --quick" } else { "the full grid" };
    format!("Experiments: {}; {grid}; seed {seed}.", names.join(", "))
}

fn claims_section(claims: &[claims::Claim], quick: bool) -> Section {
    let mut section = Section::new("Claims of the paper, and ours");
    section.text(
        "Each claim is checked against the medians of this run. “Holds” means in at least nine of ten comparisons, \
         “partly” in at least half of them.",
    );
    if quick {
        section.text(
            "This is the reduced grid: smaller problems, one to three trials, and SparseVI with fewer steps and draws than \
             the paper gives it. The verdicts are about this run, not about the paper.",
        );
    }
    let rows = claims
        .iter()
        .map(|claim| vec![claim.text.clone(), claim.verdict.to_string(), claim.numbers.clone()])
        .collect();
    let header = ["claim", "here", "numbers"].map(str::to_owned).to_vec();
    section.table(Table { header, rows, ..Table::default() });
    section
}

fn study_section(
    out: &Path,
    study: &Study,
    studies: &[Study],
    theory: &[theory::Run],
    figures: &mut usize,
) -> anyhow::Result<Section> {
    let mut section = Section::new(study.settings.title.clone());
    section.text(format!("{} ({})", study.settings.about, study.settings.figures));
    section.list(settings_lines(study));
    section.list(study.missing.iter().map(|line| format!("Not run: {line}.")).collect());
    for figure in all_figures(study, studies, theory)? {
        if figure.grid.panels.is_empty() {
            continue;
        }
        let svg = write_figure(&out.join("figures"), &figure)?;
        section.figure(&svg, figure.caption);
        *figures += 1;
    }
    let groups = study.groups();
    if !study.cells.is_empty() {
        section.heading("Medians");
    }
    for shown in study.sets(&groups) {
        let caption = format!("{} ({})", shown.set.label, shown.source);
        section.table(medians(study, &groups, shown.set.name, &caption));
    }
    Ok(section)
}

fn all_figures(study: &Study, studies: &[Study], theory: &[theory::Run]) -> anyhow::Result<Vec<Figure>> {
    let mut figures = curves::figures(study);
    figures.extend(pictures::figures(study)?);
    if study.experiment == Experiment::MapDistance {
        let from: Vec<&Study> =
            studies.iter().filter(|other| study.settings.shows.contains(&other.experiment)).collect();
        figures.push(curves::each_set(study, &from, Metric::MapDistance));
    }
    if study.experiment == Experiment::Theory {
        figures.push(theory::figure(study, theory));
    }
    Ok(figures)
}

/// What was run, in words.
fn settings_lines(study: &Study) -> Vec<String> {
    if study.plan.methods.is_empty() {
        return Vec::new();
    }
    let groups = study.groups();
    let mut lines = Vec::new();
    for shown in study.sets(&groups) {
        let methods: Vec<String> = ordered(&groups, shown.set.name)
            .into_iter()
            .map(|series| {
                let sizes = groups.sizes(shown.set.name, series.name());
                let trials =
                    sizes.iter().map(|&k| groups.cells(shown.set.name, series.name(), k).len()).max();
                format!("{} ({} trials)", series.label(), trials.unwrap_or(0))
            })
            .collect();
        lines.push(format!("{}: {}.", shown.set.label, methods.join(", ")));
    }
    let cell = &study.plan.cell;
    let mut words = vec![format!("at most {} iterations of A-IHT and A-IHT II", cell.iterations)];
    if cell.draws > 0 {
        words.push(format!("S = {} draws", cell.draws));
    }
    if cell.rows > 0 {
        words.push(format!("{} rows", cell.rows));
    }
    if cell.batch > 0.0 {
        words.push(format!("batches of {} of the rows", number(cell.batch)));
    }
    let greedy = &cell.sparse_vi;
    if study.plan.methods.iter().any(Series::is_sparse_vi) {
        words.push(format!(
            "SparseVI with {} steps a point and {} draws a gradient",
            greedy.steps, greedy.draws
        ));
    }
    lines.push(format!("Settings: {}.", words.join("; ")));
    lines
}

/// Medians of forward / reverse KL at some sizes, and the time at the largest.
fn medians(study: &Study, groups: &Groups<'_>, data: &str, caption: &str) -> Table {
    let methods = ordered(groups, data);
    let run: Vec<usize> = study.plan.sizes.clone();
    let mut sizes: Vec<usize> = run.iter().copied().filter(|k| TABLE_SIZES.contains(k)).collect();
    if sizes.len() < 2 {
        sizes = run.iter().rev().take(4).rev().copied().collect();
    }
    let mut header = vec!["method".to_owned()];
    header.extend(sizes.iter().map(|k| format!("k = {k}")));
    header.extend(["time as in the paper", "from scratch", "passes"].map(str::to_owned));
    let rows = methods
        .iter()
        .map(|series| {
            let at = |k: usize, metric: Metric| groups.median(data, series.name(), k, metric);
            let text = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), number);
            let mut row = vec![series.label().to_owned()];
            row.extend(sizes.iter().map(|&k| match (at(k, Metric::KlForward), at(k, Metric::KlReverse)) {
                (None, None) => "–".to_owned(),
                (forward, reverse) => format!("{} / {}", text(forward), text(reverse)),
            }));
            let largest = groups.sizes(data, series.name()).last().copied().unwrap_or(0);
            let time = |metric| at(largest, metric).map_or_else(|| "–".to_owned(), duration);
            row.extend([
                time(Metric::SecondsPaper),
                time(Metric::Seconds),
                text(at(largest, Metric::Passes)),
            ]);
            row
        })
        .collect();
    let caption = format!(
        "{caption}: median forward / reverse KL in nats; times and passes over the data at the largest k of each method."
    );
    Table { caption, header, rows, numeric: true }
}

/// Writes one figure as SVG and PNG into `folder`; the SVG.
fn write_figure(folder: &Path, figure: &Figure) -> anyhow::Result<String> {
    let drawing = figure.grid.draw()?;
    output::write_text(&folder.join(format!("{}.svg", figure.name)), &drawing.svg)?;
    output::write_bytes(&folder.join(format!("{}.png", figure.name)), &drawing.png)?;
    Ok(drawing.svg)
}

fn how_section() -> Section {
    let mut section = Section::new("How it was measured");
    section.list(
        [
            "Divergences are between the Laplace fits of the posterior of all data and of the coreset's, as in the \
             paper; for the Gaussian mean and for radial basis functions they are exact.",
            "A-IHT and A-IHT II take half the exact step, as the code of the paper's authors does.",
            "Uniform, GIGA, A-IHT, A-IHT II and pursuit work in the paper's embedding; “pursuit, Hermite” and “pursuit, \
             exact” work in the embedding without Monte Carlo noise or truncation.",
            "Every trial runs on one thread of its own, while others run beside it: times are those of one core under \
             load, good for comparing methods, not for absolute speed.",
            "The time as in the paper leaves out the embedding and counts methods that add point by point along one run; \
             the time from scratch counts the embedding and a run of its own for every k. For SparseVI, which embeds as it \
             goes, the two are the same.",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    section
}
