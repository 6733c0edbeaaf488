//! The report of `build` and `fit`: the verdict first, then the pictures behind it, then how to repeat it.

use corelet::coreset::EmbeddedFit;
use corelet::posterior::{Gaussian, Marginal};
use corelet::random::Stream;
use corelet::study::{Chosen, Drawn, Study};
use corelet::trust::Grade;
use corelet::words::{Estimate, HEADS, PriorGroup, cells, lines, misfits};

use super::pictures::{self, Marginals, Sampled};
use crate::page::{Badge, Page, Section, Table};
use crate::posterior::PosteriorSummary;
use crate::words::{count, number, plural};

/// Parameters whose marginals are drawn, those that moved most.
const SHOWN: usize = 6;
/// Letters of a command that stands on one line.
const LINE: usize = 72;

/// Parameters in the table of estimates.
const MOST: usize = 200;

/// Rows in the table of weights.
const HEAVIEST: usize = 8;

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
/// If a picture cannot be drawn.
pub(crate) fn to_html(subject: &Subject<'_>) -> anyhow::Result<String> {
    let Subject { study, chosen, .. } = subject;
    let coreset = chosen.coreset();
    let own = study.own_posterior(&coreset.rows, &chosen.weights, coreset.rest.as_ref())?;
    let full = &chosen.start;
    let sections = [
        Some(estimates(subject, own.as_ref())),
        own.as_ref().map(|own| marginals(subject, full, own)).transpose()?,
        own.as_ref().map(|own| shifts(subject, full, own)),
        (!coreset.rows.is_empty()).then(|| chosen_rows(subject, full)).transpose()?,
        path(subject)?,
        outcomes(subject)?,
        Some(judged(subject)),
        Some(repeat(subject)?),
    ];
    let page = Page {
        title: format!("{} of {}", count(coreset.rows.len()), plural(study.all_rows(), "row")),
        lead: lead(study),
        badge: Some(badge(subject)),
        themed: true,
        sections: sections.into_iter().flatten().collect(),
        footer: format!("corelet {}", env!("CARGO_PKG_VERSION")),
    };
    page.to_html()
}

/// Which data, model and target it is of.
fn lead(study: &Study) -> String {
    let frame = study.frame();
    let target = frame.target.as_ref().map_or_else(String::new, |target| format!(", the target {target}"));
    format!("The data are {}, the model is {}{target}.", frame.source, study.model())
}

/// The grade with one sentence.
fn badge(subject: &Subject<'_>) -> Badge {
    let (points, n) = (subject.chosen.coreset().rows.len(), subject.study.all_rows());
    let judged = subject.drawn.and_then(|drawn| Some((drawn.verdict.as_ref()?, drawn.headline(points, n)?)));
    match judged {
        Some((verdict, line)) => {
            badge_of(&line, verdict.grade)
        }
        None => Badge {
            grade: "–".to_owned(),
            title: "Not sampled".to_owned(),
            words: "The posterior of this coreset has not been sampled, so there is no verdict. corelet fit samples it and gives one."
                .to_owned(),
        },
    }
}

/// The grade with its headline.
pub(super) fn badge_of(line: &str, grade: Grade) -> Badge {
    let (title, words) = line.split_once(": ").unwrap_or((line, ""));
    let mut words = words.to_owned();
    if let Some(first) = words.get(..1).map(str::to_uppercase) {
        words.replace_range(..1, &first);
    }
    Badge { grade: format!("{grade:?}"), title: title.to_owned(), words: words + "." }
}

/// Outcomes against those that the model predicts.
fn outcomes(subject: &Subject<'_>) -> anyhow::Result<Option<Section>> {
    let Some(checked) = subject.drawn.and_then(|drawn| drawn.checked.as_ref()) else { return Ok(None) };
    let Some((drawing, words)) = pictures::outcomes(checked)? else { return Ok(None) };
    let mut section = Section::new("Does the model fit?");
    section.figure(&drawing.svg, words);
    let said = misfits(checked);
    section.list(if said.is_empty() { vec!["Nothing is far off.".to_owned()] } else { said });
    Ok(Some(section))
}

/// All parameters on the scale of the data.
fn estimates(subject: &Subject<'_>, own: Option<&Gaussian>) -> Section {
    let mut section = Section::new("Estimates");
    let Subject { study, drawn, .. } = subject;
    let of_draws = drawn.map(|drawn| PosteriorSummary::new(study, drawn).estimates(study));
    let (all, by) = match (of_draws, own) {
        (Some(estimates), _) => {
            let reweighted = drawn.is_some_and(Drawn::is_reweighted);
            (estimates, if reweighted { "by the draws, reweighted" } else { "by the draws" })
        }
        (None, Some(own)) => (by_gaussian(study, own), "by the Gaussian fit of the coreset's posterior"),
        (None, None) => {
            section.text("The coreset's posterior has no Gaussian fit.");
            return section;
        }
    };
    let more = all.len().saturating_sub(MOST);
    let kept = if more > 0 {
        format!("; the first {MOST}, and {} more in the files", count(more))
    } else {
        String::new()
    };
    let columns = if drawn.is_some() { HEADS.len() } else { HEADS.len() - 2 };
    let take = |line: [String; 6]| line.into_iter().take(columns).collect::<Vec<String>>();
    section.table(Table {
        caption: format!("All parameters on the scale of the data, {by}{kept}."),
        header: take(HEADS.map(|head| if head.is_empty() { "parameter" } else { head }.to_owned())),
        rows: cells(&all[..all.len() - more]).into_iter().map(take).collect(),
        numeric: true,
    });
    let priors = study.resolved().said.iter().map(PriorGroup::line).collect();
    section.heading("Priors");
    section.list(priors);
    section
}

/// Mean, sd and interval of each parameter by a Gaussian, which on the scale of the data is one as well.
fn by_gaussian(study: &Study, own: &Gaussian) -> Vec<Estimate> {
    const DRAWS: usize = 4000;
    let shifts = own.shifts(DRAWS, 0, Stream::HeldOut);
    let draw = |s: usize| -> Vec<f64> {
        let theta: Vec<f64> = own.mean.iter().zip(shifts.row(s)).map(|(mean, shift)| mean + shift).collect();
        study.to_original(&theta)
    };
    let draws: Vec<Vec<f64>> = (0..DRAWS).map(draw).collect();
    let named = study.frame().names.iter().enumerate();
    named
        .map(|(j, name)| {
            let values: Vec<f64> = draws.iter().map(|draw| draw[j]).collect();
            let Marginal { mean, sd, q5, q95, .. } = Marginal::new(&values, &[1.0; DRAWS]);
            Estimate { name: name.clone(), figures: [mean, sd, q5, q95], chains: None }
        })
        .collect()
}

/// What stands behind the verdict.
fn judged(subject: &Subject<'_>) -> Section {
    let mut section = Section::new("How it was judged");
    let (points, n) = (subject.chosen.coreset().rows.len(), subject.study.all_rows());
    if let Some(verdict) = subject.drawn.and_then(|drawn| drawn.verdict.as_ref()) {
        section.list(trimmed(&lines(verdict, points, n)));
    }
    section.list(trimmed(&subject.lines));
    section.list(subject.warnings.iter().map(|warning| format!("Warning: {warning}.")).collect());
    section
}

/// Lines for a terminal, without the columns they are set in: `label: text`, and what goes on under the same label behind it.
pub(super) fn trimmed(lines: &[String]) -> Vec<String> {
    const TEXT: usize = 17;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found: Vec<String> = Vec::new();
    for line in lines {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        match (text.split_once("  "), found.last_mut()) {
            (_, Some(last)) if indent >= TEXT => last.push_str(&format!("; {}", words(text))),
            (Some((label, rest)), _) if indent > 0 => found.push(format!("{label}: {}", words(rest))),
            _ => found.push(words(text)),
        }
    }
    found
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

fn marginals(subject: &Subject<'_>, full: &Gaussian, own: &Gaussian) -> anyhow::Result<Section> {
    let Subject { study, reference, drawn, .. } = subject;
    let names = &study.frame().names;
    let moved = by_shift(full, own);
    let shown = &moved[..moved.len().min(SHOWN)];
    let sampled = drawn.map(|drawn| {
        let (chains, weights) = drawn.kept();
        let reweighted = drawn.is_reweighted();
        Sampled { theta: chains.theta(), weights: reweighted.then_some(weights) }
    });
    let marginals = Marginals { names, full, own, reference, sampled: sampled.as_ref() };
    let mut section = Section::new("Marginal posteriors");
    section.gallery(
        marginals.densities(shown)?,
        marginals.keys(),
        match moved.len() - shown.len() {
            0 => "All parameters, on the standardised scale.".to_owned(),
            _ => format!(
                "The {} of {} whose means differ most, on the standardised scale.",
                count(shown.len()),
                plural(moved.len(), "parameter")
            ),
        },
    );
    if let [first, second, ..] = *shown {
        let caption = "Ellipses of two standard deviations of the Gaussian fits, for the two parameters whose means differ most.";
        section.figure(&marginals.ellipses(first, second)?.svg, caption);
    }
    Ok(section)
}

fn shifts(subject: &Subject<'_>, full: &Gaussian, own: &Gaussian) -> Section {
    let Subject { study, reference, .. } = subject;
    let (names, moved) = (&study.frame().names, by_shift(full, own));
    let sd = |gaussian: &Gaussian, j: usize| gaussian.covariance[j * full.dim() + j].sqrt();
    let row = |&j: &usize| {
        let shift = (own.mean[j] - full.mean[j]) / sd(full, j);
        // Drops the sign of a value that rounds to 0.
        let shift = (1e3 * shift).round() / 1e3 + 0.0;
        vec![names[j].clone(), format!("{shift:.3}"), format!("{:.3}", sd(own, j) / sd(full, j))]
    };
    let most = 4 * SHOWN;
    let more = match moved.len().saturating_sub(most) {
        0 => String::new(),
        _ => format!(" The {most} of {} parameters whose means differ most.", count(moved.len())),
    };
    let mut section = Section::new("Shifts");
    section.table(Table {
        caption: format!(
            "Posterior means of the coreset minus those of {reference}, in posterior standard deviations, and ratios of the standard \
             deviations, both from Gaussian fits.{more}"
        ),
        header: ["parameter", "mean shift", "sd ratio"].map(str::to_owned).to_vec(),
        rows: moved.iter().take(most).map(row).collect(),
        numeric: true,
    });
    section
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
    let weights = subject.chosen.weights.values();
    let total: f64 = weights.iter().sum();
    section.text(format!(
        "{} with a total weight of {}; the data have {}.",
        plural(weights.len(), "row"),
        if total < 1000.0 { number(total) } else { count(total.round() as usize) },
        plural(study.all_rows(), "row"),
    ));
    if let Some(leverages) = study.leverages(&coreset.rows, full)? {
        let drawing = pictures::leverages(leverages, weights)?;
        section.figure(
            &drawing.svg,
            "Weight of each chosen row against its leverage, |ℓ″|·xᵀΣx: how much information it carries. The lines are the \
             median and the 99th percentile of all rows, from a sample of them.",
        );
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    let rows = study.frame().rows_of(&coreset.rows);
    let row =
        |&i: &usize| vec![count(rows[i]), number(weights[i]), format!("{:.1} %", 100.0 * weights[i] / total)];
    section.table(Table {
        caption: "The rows with the largest weights; rows are numbered from 0.".to_owned(),
        header: ["row", "weight", "share"].map(str::to_owned).to_vec(),
        rows: order.iter().take(HEAVIEST).map(row).collect(),
        numeric: true,
    });
    Ok(section)
}

fn repeat(subject: &Subject<'_>) -> anyhow::Result<Section> {
    let mut section = Section::new("How to repeat it");
    section.code(command_line(std::env::args()));
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
    section.folded(Table {
        caption: "Settings and results, as --json has them".to_owned(),
        header: ["key", "value"].map(str::to_owned).to_vec(),
        rows: summary.as_object().into_iter().flatten().filter_map(plain).collect(),
        numeric: false,
    });
    Ok(section)
}

/// The command as a shell would take it again.
pub(super) fn command_line(mut arguments: impl Iterator<Item = String>) -> String {
    arguments.next();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=+@%".contains(c);
    let quote = |argument: String| {
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let words: Vec<String> = arguments.map(quote).collect();
    let is_long = words.iter().map(|word| word.chars().count() + 1).sum::<usize>() > LINE;
    words.iter().fold("corelet".to_owned(), |line, word| {
        line + if is_long && word.starts_with("--") { " \\\n    " } else { " " } + word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_terminal_become_labelled_sentences() {
        let lines = [
            "5 of 9 rows stand for all",
            "  prior          a ~ normal",
            "                 b ~ normal",
            "  largest shift  age",
        ];
        let found = trimmed(&lines.map(str::to_owned));
        assert_eq!(
            found,
            ["5 of 9 rows stand for all", "prior: a ~ normal; b ~ normal", "largest shift: age"]
        );
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let given = ["/usr/bin/corelet", "build", "my data.csv", "--target", "it's", "-k", "20", ""];
        let line = command_line(given.into_iter().map(str::to_owned));
        assert_eq!(line, r"corelet build 'my data.csv' --target 'it'\''s' -k 20 ''");
        let given = [
            "corelet",
            "fit",
            "a.csv",
            "--target",
            "-- y",
            "--exclude",
            "customer,signup",
            "--report",
            "report.html",
        ];
        let line = command_line(given.into_iter().map(str::to_owned).chain(["--drop-missing".to_owned()]));
        assert_eq!(
            line,
            "corelet fit a.csv \\\n    --target '-- y' \\\n    --exclude customer,signup \\\n    --report report.html \\\n    --drop-missing"
        );
    }
}
