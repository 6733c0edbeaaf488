//! The report of `build` and `fit`: the verdict first, then the pictures behind it, then how to repeat it.

use corelet::coreset::EmbeddedFit;
use corelet::posterior::Gaussian;
use corelet::study::{Chosen, Drawn, Study};
use corelet::trust::Grade;
use corelet::words::{headline, lines};

use super::pictures::{self, Marginals, Sampled};
use crate::page::{Page, Section, Table};
use crate::words::{count, number};

/// Parameters that the report shows, those that moved most.
const SHOWN: usize = 6;

/// Everything a report is made of.
pub(crate) struct Subject<'a> {
    pub(crate) study: &'a Study,
    pub(crate) chosen: &'a Chosen,
    /// What the reference posterior was fitted to, in words.
    pub(crate) reference: String,
    /// The draws of the coreset's posterior and the verdict on them.
    pub(crate) drawn: Option<&'a Drawn>,
    /// What was said on the terminal, besides the verdict.
    pub(crate) lines: Vec<String>,
    /// What the user should not overlook.
    pub(crate) warnings: Vec<String>,
}

/// The report as one HTML file.
///
/// # Errors
/// Where a picture cannot be drawn.
pub(crate) fn to_html(subject: &Subject<'_>) -> anyhow::Result<String> {
    let Subject { study, chosen, .. } = subject;
    let coreset = chosen.coreset();
    let own = study.own_posterior(&coreset.rows, &coreset.weights, coreset.rest.as_ref())?;
    let full = &chosen.start;
    let sections = [
        Some(verdict(subject)),
        path(subject)?,
        own.as_ref().map(|own| parameters(subject, full, own)).transpose()?,
        (!coreset.rows.is_empty()).then(|| chosen_rows(subject, full)).transpose()?,
        Some(repeat(subject)?),
    ];
    let (points, n) = (count(coreset.rows.len()), count(study.all_rows()));
    let page = Page {
        title: format!("{points} of {n} rows"),
        lead: format!("A coreset of {} for a {} model.", study.frame().source, study.model()),
        sections: sections.into_iter().flatten().collect(),
        footer: format!("corelet {}", env!("CARGO_PKG_VERSION")),
    };
    page.to_html()
}

fn verdict(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("Verdict");
    let (points, n) = (subject.chosen.coreset().rows.len(), subject.study.all_rows());
    match subject.drawn.and_then(|drawn| drawn.verdict.as_ref()) {
        Some(verdict) => {
            section.text(headline(verdict, points, n));
            section.list(trimmed(&lines(verdict)));
        }
        None => section.text(
            "The posterior of this coreset has not been sampled, so there is no verdict; what is known of it is below. \
             corelet fit samples it and gives one.",
        ),
    }
    section.list(trimmed(&subject.lines));
    section.list(subject.warnings.iter().map(|warning| format!("Warning: {warning}.")).collect());
    section
}

/// Lines for a terminal, without the columns they are set in.
fn trimmed(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn path(subject: &Subject<'_>) -> anyhow::Result<Option<Section>> {
    let coreset = subject.chosen.coreset();
    let EmbeddedFit { path, residual, .. } = &coreset.fit;
    if path.len() < 2 {
        return Ok(None);
    }
    let mut section = Section::new("Divergence against the number of points");
    let nats = |residual: f64| 0.5 * residual * residual;
    let curve: Vec<(f64, f64)> = path.iter().map(|&(points, r)| (points as f64, nats(r))).collect();
    let drawing =
        pictures::path(&[("in the embedding", curve)], Some((coreset.points() as f64, nats(*residual))))?;
    section.figure(
        &drawing.svg,
        "Half the squared residual in the embedding, in nats, along the path of the solver; the dot is this coreset.",
    );
    Ok(Some(section))
}

fn parameters(subject: &Subject<'_>, full: &Gaussian, own: &Gaussian) -> anyhow::Result<Section> {
    let Subject { study, reference, drawn, .. } = subject;
    let names = &study.frame().names;
    let moved = by_shift(full, own);
    let shown = &moved[..moved.len().min(SHOWN)];
    let sampled = drawn.map(|drawn| {
        let (chains, weights) = drawn.kept();
        let reweighted = drawn.grade() == Some(Grade::B);
        Sampled { theta: chains.theta(), weights: reweighted.then_some(weights) }
    });
    let marginals = Marginals { names, full, own, reference, sampled: sampled.as_ref() };
    let mut section = Section::new("Parameters");
    section.text(format!(
        "The {} parameters that moved most, on the standardised scale, by how far the mean of the coreset's posterior \
         lies from that of {reference}, in posterior standard deviations.",
        shown.len()
    ));
    section.figure(&marginals.densities(shown)?.svg, "Marginal posteriors.");
    if let [first, second, ..] = *shown {
        let caption =
            "Ellipses of two standard deviations of the Gaussian fits, for the two that moved most.";
        section.figure(&marginals.ellipses(first, second)?.svg, caption);
    }
    let sd = |gaussian: &Gaussian, j: usize| gaussian.covariance[j * full.dim() + j].sqrt();
    let row = |&j: &usize| {
        let shift = (own.mean[j] - full.mean[j]) / sd(full, j);
        vec![names[j].clone(), number(shift), number(sd(own, j) / sd(full, j))]
    };
    section.table(Table {
        caption: "Shift of the mean in standard deviations, and ratio of the standard deviations, by the Gaussian fits."
            .to_owned(),
        header: ["parameter", "mean shift", "sd ratio"].map(str::to_owned).to_vec(),
        rows: moved.iter().take(4 * SHOWN).map(row).collect(),
        numeric: true,
    });
    Ok(section)
}

/// The parameters, those whose mean moved most first.
fn by_shift(full: &Gaussian, own: &Gaussian) -> Vec<usize> {
    let dim = full.dim();
    let shift = |j: usize| (own.mean[j] - full.mean[j]).abs() / full.covariance[j * dim + j].sqrt();
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&a, &b| shift(b).total_cmp(&shift(a)).then(a.cmp(&b)));
    order
}

fn chosen_rows(subject: &Subject<'_>, full: &Gaussian) -> anyhow::Result<Section> {
    let (study, coreset) = (subject.study, subject.chosen.coreset());
    let mut section = Section::new("The chosen rows");
    let weights = &coreset.weights;
    let total: f64 = weights.iter().sum();
    let largest = weights.iter().copied().fold(0.0, f64::max);
    section.text(format!(
        "{} rows with a total weight of {} where all {} would have {}; the largest weight is {}.",
        count(weights.len()),
        number(total),
        count(study.all_rows()),
        count(study.all_rows()),
        number(largest)
    ));
    if let Some(leverages) = study.leverages(&coreset.rows, full)? {
        let drawing = pictures::leverages(leverages, coreset)?;
        section.figure(
            &drawing.svg,
            "Weight of each chosen row against its leverage, |ℓ″|·xᵀΣx: how much it says by itself. The lines are the \
             median and the 99th percentile of all rows, by a sample of them.",
        );
    }
    Ok(section)
}

fn repeat(subject: &Subject<'_>) -> anyhow::Result<Section> {
    let mut section = Section::new("How to repeat it");
    section.text(command_line(std::env::args()));
    let summary: serde_json::Value = serde_json::from_str(&subject.chosen.summary.to_json()?)?;
    let plain = |(key, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::Array(_) | serde_json::Value::Null => None,
        serde_json::Value::Object(parts) => {
            let parts: Vec<String> = parts.iter().map(|(part, value)| format!("{part} {value}")).collect();
            Some(vec![key.clone(), parts.join(", ")])
        }
        serde_json::Value::String(text) => Some(vec![key.clone(), text.clone()]),
        value => Some(vec![key.clone(), value.to_string()]),
    };
    section.table(Table {
        caption: "Settings and results, as --json has them.".to_owned(),
        header: ["key", "value"].map(str::to_owned).to_vec(),
        rows: summary.as_object().into_iter().flatten().filter_map(plain).collect(),
        numeric: false,
    });
    Ok(section)
}

/// The command as a shell would take it again.
fn command_line(mut arguments: impl Iterator<Item = String>) -> String {
    arguments.next();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=+@%".contains(c);
    let quote = |argument: String| {
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    std::iter::once("corelet".to_owned()).chain(arguments.map(quote)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let given = ["/usr/bin/corelet", "build", "my data.csv", "--target", "it's", "-k", "20", ""];
        let line = command_line(given.into_iter().map(str::to_owned));
        assert_eq!(line, r"corelet build 'my data.csv' --target 'it'\''s' -k 20 ''");
    }
}
