//! The report of `review`: how rows are predicted, whether the model fits, and which rows drive it.

use corelet::review::{Checked, Mover, Moving, Review};
use corelet::study::{KFold, Study};
use corelet::words::{k_folded, misfits, moved, predicted};

use super::pictures;
use crate::page::{Page, Section, Table};
use crate::words::{count, number, plural};

/// Levels that have a picture of their own: those that are said to be far off, the others are in the table.
const PICTURED: usize = 6;

/// Parameters in the table, and rows that are named for each.
const MOST: usize = 200;
const NAMED: usize = 3;

/// The report as one HTML file.
///
/// # Errors
/// If a picture cannot be drawn.
pub(crate) fn to_html(study: &Study, review: &Review, folds: Option<&KFold>) -> anyhow::Result<String> {
    let file_row = |row: usize| study.frame().rows.file_row(row);
    let mut left_out = Section::new("Rows that are left out");
    let lines = predicted(&review.loo, &file_row).into_iter().chain(folds.into_iter().flat_map(k_folded));
    left_out.list(lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect());
    let mut sections = vec![left_out];
    sections.extend(review.checks.as_ref().map(fits).transpose()?);
    if !review.by.is_empty() {
        sections.push(levels(&review.by)?);
    }
    sections.push(driven(study, review));
    let page = Page {
        title: format!("Review of {}", plural(study.all_rows(), "row")),
        lead: format!(
            "{} under a {} model, at {} draws.",
            study.frame().source,
            study.model(),
            count(review.draws)
        ),
        badge: None,
        themed: true,
        sections,
        footer: format!("corelet {}", env!("CARGO_PKG_VERSION")),
    };
    page.to_html()
}

/// Outcomes against those that the model predicts.
fn fits(checked: &Checked) -> anyhow::Result<Section> {
    let mut section = Section::new("Does the model fit?");
    if let Some((drawing, words)) = pictures::outcomes(checked)? {
        section.figure(&drawing.svg, words);
    }
    let said = misfits(checked);
    section.list(if said.is_empty() { vec!["Nothing is far off.".to_owned()] } else { said });
    Ok(section)
}

/// The same by the levels of a column.
fn levels(by: &[(String, Checked)]) -> anyhow::Result<Section> {
    let mut section = Section::new("By level");
    let optional = |x: Option<f64>| x.map_or(String::new(), number);
    let row = |(level, checked): &(String, Checked)| {
        let mean = checked.mean;
        vec![
            level.clone(),
            count(checked.rows),
            optional(mean.map(|(seen, _, _)| seen)),
            optional(mean.map(|(_, expected, _)| expected)),
            optional(mean.map(|(_, _, sd)| sd)),
            optional(checked.dispersion.map(|(ratio, _)| ratio)),
        ]
    };
    section.table(Table {
        caption: "The mean outcome, its expectation under the model, and the standard deviation of means of simulated outcomes.".to_owned(),
        header: ["level", "rows", "mean", "expected", "sd", "dispersion"].map(str::to_owned).to_vec(),
        rows: by.iter().map(row).collect(),
        numeric: true,
    });
    let far = by.iter().filter(|(_, checked)| !misfits(checked).is_empty());
    for (level, checked) in far.take(PICTURED) {
        if let Some((drawing, _)) = pictures::outcomes(checked)? {
            section.figure(&drawing.svg, format!("{level}: {}", misfits(checked).join("; ")));
        }
    }
    Ok(section)
}

/// The rows that move each parameter most.
fn driven(study: &Study, review: &Review) -> Section {
    let mut section = Section::new("Which rows drive it?");
    let named = |movers: &[Mover]| {
        let each = movers
            .iter()
            .take(NAMED)
            .map(|mover| format!("{} ({})", study.frame().rows.file_row(mover.row), number(mover.change)));
        each.collect::<Vec<_>>().join(", ")
    };
    let row = |(name, moving): (&String, &Moving)| {
        let [mean, sd, jackknife] = moved(moving);
        vec![
            name.clone(),
            mean,
            sd,
            jackknife,
            moving.to_turn.map_or("–".to_owned(), count),
            named(&moving.against),
        ]
    };
    let each = study.frame().names.iter().zip(&review.influence.each);
    section.table(Table {
        caption: "Posterior standard deviations, and standard errors of the mean by the infinitesimal jackknife; the smallest number of \
                  rows whose removal changes the sign; and the rows whose removal moves the mean most towards zero, with the change."
            .to_owned(),
        header: ["parameter", "mean", "sd", "jackknife", "rows to turn it", "rows (change)"].map(str::to_owned).to_vec(),
        rows: each.take(MOST).map(row).collect(),
        numeric: true,
    });
    section
}
