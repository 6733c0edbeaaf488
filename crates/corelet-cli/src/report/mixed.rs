//! The report of a mixed model: the verdict, estimates, variance components with shrinkage, and the random effects of some groups.

use std::fmt::Write as _;

use corelet::mixed::GroupEffects;
use corelet::study::{MixedFit, MixedStudy};
use corelet::words::{Estimate, HEADS, cells, headline, lines};

use super::coreset::{badge_of, command_line, trimmed};
use crate::page::{Page, Section, Table};
use crate::words::{count, number, percent, plural};

/// Groups at either end of a caterpillar, and between them.
const EXTREMES: usize = 12;
const BETWEEN: usize = 16;
/// Letters of a group's name that there is room for.
const LETTERS: usize = 14;

/// Everything a report is made of.
pub(crate) struct MixedSubject<'a> {
    pub(crate) study: &'a MixedStudy,
    pub(crate) fit: &'a MixedFit,
    /// The random effects of every group.
    pub(crate) effects: &'a [GroupEffects],
    /// The estimates on the scale of the data.
    pub(crate) parameters: &'a [Estimate],
    /// Of each factor that is kept: the mean over draws of the variance of its effects.
    pub(crate) kept_variances: &'a [f64],
}

/// The report as one HTML file.
///
/// # Errors
/// If the page cannot be made.
pub(crate) fn to_html(subject: &MixedSubject<'_>) -> anyhow::Result<String> {
    let MixedSubject { study, fit, .. } = subject;
    let points = fit.groups.iter().map(|&group| study.rows_in(group)).sum();
    let mut judged = Section::new("How it was judged");
    judged.list(trimmed(&lines(&fit.verdict, fit.groups.len(), study.groups())));
    judged.list(trimmed(&study.lines(fit)));
    judged.list(study.warnings().iter().map(|warning| format!("Warning: {warning}.")).collect());
    let mut repeat = Section::new("How to repeat it");
    repeat.code(command_line(std::env::args()));
    let page = Page {
        title: format!("{} of {}", count(fit.groups.len()), plural(study.groups(), "group")),
        lead: format!("A mixed model, {}, of {}.", study.factors().worded(), study.frame().source),
        badge: Some(badge_of(&headline(&fit.verdict, points, study.rows()), fit.verdict.grade)),
        themed: true,
        sections: vec![estimates(subject), components(subject), random_effects(subject), judged, repeat],
        footer: format!("corelet {}", env!("CARGO_PKG_VERSION")),
    };
    page.to_html()
}

fn estimates(subject: &MixedSubject<'_>) -> Section {
    let mut section = Section::new("Estimates");
    section.table(Table {
        caption: "All parameters on the scale of the data, by the draws.".to_owned(),
        header: HEADS.map(|head| if head.is_empty() { "parameter" } else { head }.to_owned()).to_vec(),
        rows: cells(subject.parameters).into_iter().map(Vec::from).collect(),
        numeric: true,
    });
    section.heading("Priors");
    section.list(subject.study.prior_lines());
    section
}

/// The spread of each effect, and how far the groups are drawn to the mean of all.
fn components(subject: &MixedSubject<'_>) -> Section {
    let MixedSubject { study, effects, parameters, kept_variances, .. } = subject;
    let mut section = Section::new("Variance components");
    let sd_of = |name: &str| parameters.iter().find(|known| known.name == name).map(|known| known.figures[0]);
    let mut rows = Vec::new();
    let of_terms = study.random().terms().into_iter().zip(study.random().names());
    for (at, (term, name)) in of_terms.enumerate() {
        let Some(sd) = sd_of(&name) else { continue };
        let means: Vec<f64> = effects.iter().map(|group| group[at].mean).collect();
        let own = effects.iter().map(|group| group[at].sd.powi(2)).sum::<f64>() / means.len().max(1) as f64;
        rows.push(component(
            &format!("{term} of {}", study.random().group),
            sd,
            &means,
            variance(&means) + own,
        ));
    }
    for (kept, spread) in study.factors().kept.iter().zip(*kept_variances) {
        let Some(sd) = sd_of(&format!("1|{}_sigma", kept.effects.group)) else { continue };
        let of = |label: &String| sd_of(&format!("1|{}[{label}]", kept.effects.group)).unwrap_or_default();
        let means: Vec<f64> = kept.labels.iter().map(of).collect();
        rows.push(component(&format!("1 of {}", kept.effects.group), sd, &means, *spread));
    }
    section.table(Table {
        caption: "Standard deviations: σ of the effects in the model, of the effects of these groups, and of their posterior means. Shrinkage is 1 − \
                  the ratio of the squares of the last two: 0 % if each group's own rows determine its effect, 100 % if they say nothing about it."
            .to_owned(),
        header: ["effect", "groups", "σ", "of these groups", "of their means", "shrinkage"].map(str::to_owned).to_vec(),
        rows,
        numeric: true,
    });
    section
}

/// Pooling as Gelman and Pardoe (2006) have it: `all` is the variance of the effects themselves, on average over the posterior.
fn component(name: &str, sd: f64, means: &[f64], all: f64) -> Vec<String> {
    let of_means = variance(means);
    let shrinkage = if all > 0.0 { (1.0 - of_means / all).clamp(0.0, 1.0) } else { 1.0 };
    let numbers = [sd, all.sqrt(), of_means.sqrt()].map(number);
    let [sd, all, of_means] = numbers;
    vec![name.to_owned(), count(means.len()), sd, all, of_means, percent(shrinkage)]
}

fn variance(values: &[f64]) -> f64 {
    let count_of = values.len().max(1) as f64;
    let centre = values.iter().sum::<f64>() / count_of;
    values.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / count_of
}

fn random_effects(subject: &MixedSubject<'_>) -> Section {
    let MixedSubject { study, effects, .. } = subject;
    let mut section = Section::new("Random effects");
    for (at, term) in study.random().terms().into_iter().enumerate() {
        let mut order: Vec<usize> = (0..effects.len()).collect();
        order.sort_by(|&a, &b| effects[a][at].mean.total_cmp(&effects[b][at].mean).then(a.cmp(&b)));
        let shown = some_of(&order);
        let bars: Vec<Bar> = shown
            .iter()
            .map(|&group| {
                let effect = &effects[group][at];
                let ends = [effect.quantile(0.05), effect.quantile(0.95)];
                Bar {
                    name: study.labels()[group].clone(),
                    mean: effect.mean,
                    ends,
                    rows: study.rows_in(group),
                }
            })
            .collect();
        let which = if shown.len() < effects.len() {
            format!(
                "the {EXTREMES} lowest and {EXTREMES} highest of {} and {BETWEEN} between them",
                count(effects.len())
            )
        } else {
            "all groups".to_owned()
        };
        section.figure(
            &caterpillar(&bars),
            format!("The effect {term} of {which}: means and 90 % intervals, with the number of rows."),
        );
    }
    section
}

/// Both ends of an order and some between, in that order.
fn some_of(order: &[usize]) -> Vec<usize> {
    if order.len() <= 2 * EXTREMES + BETWEEN {
        return order.to_vec();
    }
    let inner = &order[EXTREMES..order.len() - EXTREMES];
    let between = (0..BETWEEN).map(|i| inner[(2 * i + 1) * inner.len() / (2 * BETWEEN)]);
    order[..EXTREMES]
        .iter()
        .copied()
        .chain(between)
        .chain(order[order.len() - EXTREMES..].iter().copied())
        .collect()
}

/// A group in a caterpillar.
struct Bar {
    name: String,
    mean: f64,
    ends: [f64; 2],
    rows: usize,
}

/// A line a group: its interval and its mean, the lowest at the bottom. The colours are those that the page gives another theme.
fn caterpillar(bars: &[Bar]) -> String {
    const WIDTH: f64 = 460.0;
    const LEFT: f64 = 118.0;
    const RIGHT: f64 = 52.0;
    const LINE: f64 = 14.0;
    let low = bars.iter().map(|bar| bar.ends[0]).fold(0.0, f64::min);
    let high = bars.iter().map(|bar| bar.ends[1]).fold(0.0, f64::max);
    let span = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / span;
    let bottom = 10.0 + LINE * bars.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-family=\"sans-serif\" font-size=\"10\">",
        bottom + 24.0
    );
    let zero = x(0.0);
    let _ = write!(
        svg,
        "<line x1=\"{zero:.1}\" y1=\"6\" x2=\"{zero:.1}\" y2=\"{bottom:.1}\" stroke=\"#cccccc\"/>"
    );
    for (i, bar) in bars.iter().rev().enumerate() {
        let y = 10.0 + LINE * (i as f64 + 0.5);
        let [from, to] = bar.ends.map(x);
        let short: String = bar.name.chars().take(LETTERS).collect();
        let name = if short.len() < bar.name.len() { short + "…" } else { short };
        let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"#0072B2\" stroke-width=\"2\"/>\
             <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#0072B2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 3.5,
            x(bar.mean),
            WIDTH - RIGHT + 8.0,
            y + 3.5,
            count(bar.rows)
        );
    }
    let _ = write!(
        svg,
        "<line x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{:.1}\" y2=\"{bottom:.1}\" stroke=\"#222222\"/>",
        WIDTH - RIGHT
    );
    for value in [low, 0.0, high] {
        let near_zero = value != 0.0 && (x(value) - zero).abs() < 40.0;
        if !near_zero {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x(value),
                bottom + 15.0,
                number(value)
            );
        }
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_and_some_between_are_shown() {
        let order: Vec<usize> = (0..1000).rev().collect();
        let shown = some_of(&order);
        assert_eq!(shown.len(), 2 * EXTREMES + BETWEEN);
        assert!(
            shown.is_sorted_by(|a, b| a > b)
                && shown[..EXTREMES] == order[..EXTREMES]
                && shown.last() == Some(&0)
        );
        assert_eq!(some_of(&order[..40]), order[..40]);
    }

    #[test]
    fn names_are_escaped_and_shortened() {
        let bar = |name: &str, mean: f64| Bar {
            name: name.to_owned(),
            mean,
            ends: [mean - 1.0, mean + 1.0],
            rows: 1234,
        };
        let svg = caterpillar(&[bar("<script>alert(1)", -0.5), bar("b", 0.5)]);
        assert!(
            !svg.contains("<script")
                && svg.contains("&lt;script&gt;alert")
                && svg.contains('…')
                && svg.contains("1 234")
        );
        assert!(!svg.contains("NaN") && svg.starts_with("<svg ") && svg.ends_with("</svg>"));
    }
}
