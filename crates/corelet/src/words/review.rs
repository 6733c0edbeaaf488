//! The words for a review: how well rows are predicted, whether the model fits, and which rows are influential.

use super::estimates::figures;
use super::numbers::{count, number, percent, plural};
use crate::review::{Bin, Checked, Evidence, Loo, Moving, Outcomes, Review};
#[cfg(feature = "sampling")]
use crate::study::KFold;
#[cfg(feature = "sampling")]
use crate::trust::Grade;

/// Pearson's statistic is reported if the variance is off by this factor, in either direction.
const FAR_DISPERSION: f64 = 1.5;

/// Probabilities are reported if they are off by more, and beyond this many standard errors.
const FAR_PROBABILITY: f64 = 0.05;
const SIGNIFICANT: f64 = 4.0;

/// A bin is reported if it has at least this many rows, and this share of all rows.
const BIN_ROWS: usize = 50;
const BIN_SHARE: f64 = 0.01;

/// Zeros are reported if they are off by this factor.
const FAR_ZEROS: f64 = 1.25;

/// Rows beyond all simulated outcomes are reported if there are this many times the expected number.
const FAR_TAILS: f64 = 3.0;

/// The distance of the PIT from a uniform distribution that is reported.
const FAR_PIT: f64 = 0.05;

/// Number of parameters that are named; a few more are named too, rather than counted.
const SHOWN: usize = 12;
const FEW: usize = 4;

/// The whole review in lines of text.
pub fn reviewed(review: &Review, names: &[String], file_row: &dyn Fn(usize) -> usize) -> Vec<String> {
    let mut lines = predicted(&review.loo, file_row);
    match &review.checks {
        Some(checked) => lines.extend(fits(checked)),
        None => lines.push("  outcomes       not checked".to_owned()),
    }
    lines.extend(by_level(&review.by));
    if let Some(found @ Evidence { log, se, draws, gap }) = review.evidence {
        lines.push(format!(
            "  log evidence   {log:.2} ± {se:.2}, by bridge sampling from {} draws",
            count(draws)
        ));
        if found.is_doubtful() {
            lines.push(format!(
                "                 not reliable: bridges that agree for draws of this posterior differ by {} ± {}; certify the draws",
                number(gap.0.abs()),
                number(gap.1)
            ));
        }
    }
    if review.no_overlap {
        let why = "draws and a Gaussian fitted to them have hardly anything in common";
        lines.push(format!("  log evidence   not to be had by bridge sampling: {why}"));
    }
    lines.extend(driven(&review.influence.each, review.influence.clusters, names, file_row));
    lines
}

/// The result of a K-fold cross-validation, and the grades of its coresets.
#[cfg(feature = "sampling")]
pub fn k_folded(found: &KFold) -> Vec<String> {
    let KFold { elpd, se, folds, pointwise, .. } = found;
    let points = folds.iter().map(|fold| fold.points).max().unwrap_or_default();
    let of = |grade: Grade| folds.iter().filter(|fold| fold.grade == grade).count();
    let grades: Vec<String> = [Grade::A, Grade::B, Grade::C]
        .into_iter()
        .filter(|grade| of(*grade) > 0)
        .map(|grade| format!("{} {grade:?}", of(grade)))
        .collect();
    let head = format!("{}-fold", folds.len());
    let mut lines = vec![format!(
        "  {head:<14} elpd {elpd:.1} ± {se:.1}, of {} rows; coresets of at most {}, by grade {}",
        count(pointwise.len()),
        plural(points, "weighted row"),
        grades.join(", ")
    )];
    if of(Grade::C) > 0 {
        let k = "                 the coresets of some folds are not certified: the elpd of their rows is not reliable; use more points";
        lines.push(k.to_owned());
    }
    lines
}

/// How well left-out rows are predicted: a line for each estimate.
pub fn predicted(loo: &Loo, file_row: &dyn Fn(usize) -> usize) -> Vec<String> {
    let mut lines = vec![
        format!(
            "  leave-one-out  elpd {:.1} ± {:.1}, effective parameters {}, of {} rows",
            loo.elpd,
            loo.se,
            number(loo.p),
            count(loo.rows)
        ),
        format!(
            "                 WAIC gives elpd {:.1} ± {:.1}, effective parameters {}",
            loo.waic,
            loo.waic_se,
            number(loo.p_waic)
        ),
    ];
    let [_, bad, useless] = loo.by_k;
    if bad + useless > 0 {
        let named: Vec<String> =
            loo.worst.iter().take(5).map(|(row, k)| format!("{} ({})", file_row(*row), number(*k))).collect();
        lines.push(format!(
            "                 Pareto k is above {} for {} rows (above 1 for {}): the elpd of these rows is not reliable; rows {}",
            number(loo.good_k),
            count(bad + useless),
            count(useless),
            named.join(", ")
        ));
    }
    lines
}

/// The predictive checks, a line each, and large deviations.
fn fits(checked: &Checked) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((ratio, (low, high))) = checked.dispersion {
        lines.push(format!(
            "  dispersion     {} times the variance of the model (simulated outcomes: {} to {})",
            number(ratio),
            number(low),
            number(high)
        ));
    }
    if let Some((zeros, expected, sd)) = checked.zeros {
        lines.push(format!(
            "  zeros          {}, where the model expects {} ± {}",
            count(zeros),
            count(expected.max(0.0).round() as usize),
            count(sd.max(0.0).round() as usize)
        ));
    }
    if let Some(([below, above], expected)) = checked.outside {
        lines.push(format!(
            "  tails          {} rows below and {} above all of their {} simulated outcomes; {} expected on each side",
            count(below),
            count(above),
            checked.draws,
            number(expected)
        ));
    }
    for Bin { rows, predicted, observed, error } in &checked.calibration {
        lines.push(format!(
            "  calibration    predicted {}, observed {} ± {} ({})",
            percent(*predicted),
            percent(*observed),
            percent(*error),
            plural(*rows, "row")
        ));
    }
    let warnings = misfits(checked);
    if warnings.is_empty() {
        lines.push("  fit            nothing is far off".to_owned());
    }
    lines.extend(warnings.into_iter().map(|warning| format!("  fit            {warning}")));
    lines
}

/// Large deviations: a warning for each.
pub fn misfits(checked: &Checked) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((ratio, (low, high))) = checked.dispersion
        && !(low..=high).contains(&ratio)
        && !(1.0 / FAR_DISPERSION..=FAR_DISPERSION).contains(&ratio)
    {
        let (which, what) = if ratio > 1.0 {
            ("more", "standard deviations are too small by a factor of its square root")
        } else {
            ("less", "standard deviations are too large: multiply them by its square root")
        };
        found.push(format!(
            "outcomes vary {which} than the model says: Pearson's dispersion is {}, not 1; {what}, if the means are right",
            number(ratio)
        ));
    }
    if let Some((zeros, expected, sd)) = checked.zeros {
        let ratio = (zeros as f64 + 1.0) / (expected + 1.0);
        let far = !(1.0 / FAR_ZEROS..=FAR_ZEROS).contains(&ratio);
        let significant = (zeros as f64 - expected).abs() > SIGNIFICANT * sd.max(1.0);
        if far && significant && (zeros as f64 - expected).abs() > 1e-3 * checked.rows as f64 {
            found.push(format!(
                "there are {} zeros, where the model expects {}",
                count(zeros),
                number(expected)
            ));
        }
    }
    if let Some((sides, expected)) = checked.outside {
        for (rows, side) in sides.into_iter().zip(["below", "above"]) {
            let significant = rows as f64 - expected > SIGNIFICANT * expected.sqrt().max(1.0);
            if rows as f64 > FAR_TAILS * expected && significant {
                found.push(format!(
                    "{} rows are {side} all of their {} simulated outcomes, where {} are expected: tails are heavier than the \
                     model's",
                    count(rows),
                    checked.draws,
                    number(expected)
                ));
            }
        }
    }
    let distance = checked.pit_distance();
    // A sample of a uniform distribution reaches 1.6/√n once in a hundred times.
    if distance > FAR_PIT + 1.6 / (checked.rows.max(1) as f64).sqrt() {
        found.push(format!(
            "outcomes are not distributed as the model predicts: their PIT (predictive quantiles) is up to {} away from uniform",
            percent(distance)
        ));
    }
    let worst = checked
        .calibration
        .iter()
        .filter(|bin| bin.rows >= BIN_ROWS && bin.rows as f64 > BIN_SHARE * checked.rows as f64)
        .max_by(|a, b| (a.predicted - a.observed).abs().total_cmp(&(b.predicted - b.observed).abs()));
    if let Some(bin) = worst {
        let off = (bin.predicted - bin.observed).abs();
        if off > FAR_PROBABILITY && off > SIGNIFICANT * bin.error {
            let what = if checked.kind == Outcomes::Binary { "successes" } else { "classes" };
            found.push(format!(
                "probabilities are not calibrated: where {} of {what} are predicted, {} are observed ({} rows)",
                percent(bin.predicted),
                percent(bin.observed),
                count(bin.rows)
            ));
        }
    }
    found
}

/// A level is reported if its mean is off by this share of itself (a probability by [`FAR_PROBABILITY`]), and beyond [`SIGNIFICANT`]
/// standard deviations.
const FAR_MEAN: f64 = 0.1;

/// Number of levels that are shown.
const MOST_SHOWN: usize = 30;

/// A line for each level of a column, and large deviations.
fn by_level(by: &[(String, Checked)]) -> Vec<String> {
    let mut lines = Vec::new();
    let width = by.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    for (at, (label, checked)) in by.iter().enumerate().take(MOST_SHOWN) {
        let head = if at == 0 { "  by level       " } else { "                 " };
        let mut said = vec![format!("{} rows", count(checked.rows))];
        if let Some((mean, expected, sd)) = checked.mean {
            said.push(format!("mean {}, expected {} ± {}", number(mean), number(expected), number(sd)));
        }
        if let Some((ratio, _)) = checked.dispersion {
            said.push(format!("dispersion {}", number(ratio)));
        }
        if let Some((zeros, expected, _)) = checked.zeros {
            said.push(format!("zeros {}, expected {}", count(zeros), number(expected)));
        }
        lines.push(format!("{head}{label:width$}  {}", said.join("; ")));
    }
    if by.len() > MOST_SHOWN {
        lines.push(format!("                 and {} more", by.len() - MOST_SHOWN));
    }
    lines.extend(misfits_by_level(by).into_iter().map(|warning| format!("  fit            {warning}")));
    lines
}

/// Levels whose outcomes are far from the model's expectation: a warning for each.
pub fn misfits_by_level(by: &[(String, Checked)]) -> Vec<String> {
    let of = |(label, checked): &(String, Checked)| {
        let mut found = misfits(checked);
        if let Some((mean, expected, sd)) = checked.mean {
            let limit = if checked.kind == Outcomes::Binary {
                FAR_PROBABILITY
            } else {
                FAR_MEAN * expected.abs().max(sd)
            };
            if (mean - expected).abs() > limit.max(SIGNIFICANT * sd) {
                found.insert(
                    0,
                    format!(
                        "outcomes are {} on average, where the model expects {}",
                        number(mean),
                        number(expected)
                    ),
                );
            }
        }
        found.into_iter().map(|line| format!("{label}: {line}")).collect::<Vec<String>>()
    };
    by.iter().flat_map(of).collect()
}

/// Mean, posterior sd and jackknife of a parameter as text, with the digits that the sd asks for.
pub fn moved(moving: &Moving) -> [String; 3] {
    let [mean, sd, jackknife, _] =
        figures(&[[moving.mean, moving.sd, moving.jackknife, moving.mean]]).swap_remove(0);
    [mean, sd, jackknife]
}

fn driven(
    each: &[Moving],
    clusters: Option<usize>,
    names: &[String],
    file_row: &dyn Fn(usize) -> usize,
) -> Vec<String> {
    let by = clusters.map_or_else(
        || "infinitesimal jackknife".to_owned(),
        |n| format!("infinitesimal jackknife by {} groups", count(n)),
    );
    let mut lines = vec![format!("  coefficients   posterior sd, and standard error by the {by}")];
    let shown = if names.len() > SHOWN + FEW { SHOWN } else { names.len() };
    let width = names.iter().take(shown).map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, moving) in names.iter().zip(each).take(shown) {
        let most = moving.against.first().map_or_else(String::new, |mover| {
            format!(", removing row {} changes it by {}", file_row(mover.row), number(mover.change))
        });
        let turn = moving.to_turn.map_or_else(String::new, |rows| {
            let rows = if rows == 1 { "one row".to_owned() } else { format!("{} rows", count(rows)) };
            format!(", removing {rows} changes its sign")
        });
        let [mean, sd, jackknife] = moved(moving);
        lines.push(format!(
            "                 {name:width$}  {mean} ± {sd} (jackknife {jackknife}){most}{turn}"
        ));
    }
    if names.len() > shown {
        lines.push(format!("                 and {} more", names.len() - shown));
    }
    lines
}
