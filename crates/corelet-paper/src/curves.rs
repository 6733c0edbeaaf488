//! Figures of medians and bands against k: which panels stand where, as in the paper.

use corelet_cli::figure::{Axis, Curve, Grid, Mark, Panel, style_of};

use crate::args::Experiment;
use crate::cell::Metric;
use crate::study::{Shown, Study, ordered};
use crate::summary::Groups;

/// Divergences below this are drawn at it: double precision has little more to say.
const FLOOR: f64 = 1e-14;
const CELL: (f64, f64) = (330.0, 270.0);

/// A figure to be drawn, its file's name and what stands below it.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) caption: String,
    pub(crate) grid: Grid,
}

/// The figures of medians that an experiment has.
pub(crate) fn figures(study: &Study) -> Vec<Figure> {
    match study.experiment {
        Experiment::Logistic | Experiment::Poisson => regressions(study),
        Experiment::Gaussian => vec![gaussian(study)],
        Experiment::Rbf => vec![rbf(study)],
        Experiment::Large => vec![large(study)],
        Experiment::Stochastic => vec![each_set(study, &[study], Metric::KlSymmetrised)],
        Experiment::MapDistance | Experiment::Theory => Vec::new(),
    }
}

/// One panel for each data set of several studies, under the name of `study`.
pub(crate) fn each_set(study: &Study, from: &[&Study], metric: Metric) -> Figure {
    let panels = from
        .iter()
        .flat_map(|study| {
            let groups = study.groups();
            let sets = study.sets(&groups);
            sets.into_iter()
                .map(|shown| panel(&groups, shown, metric, &full_title(shown)))
                .collect::<Vec<_>>()
        })
        .collect();
    let caption = format!("{} against the number of points k. {}", capital(metric.label()), bands(study));
    Figure {
        name: study.experiment.name().to_owned(),
        caption,
        grid: Grid { columns: 3, cell: CELL, panels },
    }
}

/// A row for each data set: forward KL, reverse KL, time as in the paper; and the time from scratch in a figure of its
/// own.
fn regressions(study: &Study) -> Vec<Figure> {
    let groups = study.groups();
    let sets = study.sets(&groups);
    let name = study.experiment.name();
    let metrics = [Metric::KlForward, Metric::KlReverse, Metric::SecondsPaper];
    let panels = sets
        .iter()
        .flat_map(|shown| metrics.map(|metric| panel(&groups, shown, metric, shown.set.label)))
        .collect();
    let caption = format!(
        "Forward KL, reverse KL and running time against the number of points k. The time is counted as in the paper: \
         without the embedding, and along one run for GIGA and SparseVI. {}",
        bands(study)
    );
    let main = Figure { name: name.to_owned(), caption, grid: Grid { columns: 3, cell: CELL, panels } };
    let panels = sets.iter().map(|shown| panel(&groups, shown, Metric::Seconds, shown.set.label)).collect();
    let caption = format!(
        "Seconds of one core from the data to the weights, from scratch for every k and with the embedding, the same \
         for all methods. {}",
        bands(study)
    );
    let time =
        Figure { name: format!("{name}-time"), caption, grid: Grid { columns: 3, cell: CELL, panels } };
    vec![main, time]
}

fn gaussian(study: &Study) -> Figure {
    let groups = study.groups();
    let panels =
        study.sets(&groups).iter().map(|shown| panel(&groups, shown, Metric::KlReverse, "")).collect();
    let caption = format!("Reverse KL against the number of points k, exact. {}", bands(study));
    Figure { name: "gaussian".to_owned(), caption, grid: Grid { columns: 1, cell: (560.0, 380.0), panels } }
}

fn rbf(study: &Study) -> Figure {
    let groups = study.groups();
    let metrics = [Metric::KlForward, Metric::KlReverse];
    let panels = study
        .sets(&groups)
        .iter()
        .flat_map(|shown| metrics.map(|metric| panel(&groups, shown, metric, "")))
        .collect();
    let caption = format!("Forward and reverse KL against the number of points k, exact. {}", bands(study));
    Figure { name: "rbf".to_owned(), caption, grid: Grid { columns: 2, cell: (430.0, 330.0), panels } }
}

fn large(study: &Study) -> Figure {
    let groups = study.groups();
    let metrics = [Metric::KlSymmetrised, Metric::SecondsPaper, Metric::Seconds];
    let panels = study
        .sets(&groups)
        .iter()
        .flat_map(|shown| metrics.map(|metric| panel(&groups, shown, metric, shown.set.label)))
        .collect();
    let caption = format!(
        "Symmetrised KL and running time against the number of points k: as the paper counts it, and from scratch for \
         every k with the embedding. {}",
        bands(study)
    );
    Figure { name: "large".to_owned(), caption, grid: Grid { columns: 3, cell: CELL, panels } }
}

/// Medians with their bands, one curve a method.
fn panel(groups: &Groups<'_>, shown: &Shown, metric: Metric, title: &str) -> Panel {
    let data = shown.set.name;
    let methods = ordered(groups, data);
    let largest = methods.iter().filter_map(|m| groups.sizes(data, m.name()).last().copied()).max();
    let marks = methods
        .into_iter()
        .map(|series| {
            let spreads = groups.curve(data, series.name(), metric);
            Mark::Curve(Curve {
                points: spreads.iter().map(|(k, spread)| (*k as f64, spread.median)).collect(),
                band: spreads.iter().map(|(_, spread)| (spread.low, spread.high)).collect(),
                style: style_of(series.name()),
                markers: true,
                label: series.label().to_owned(),
            })
        })
        .collect();
    let floor = if matches!(metric, Metric::Seconds | Metric::SecondsPaper) { 1e-6 } else { FLOOR };
    Panel {
        title: title.to_owned(),
        x: Axis::linear("k").with_limits(0.0, 1.03 * largest.unwrap_or(1) as f64),
        y: Axis::log(metric.label()).with_floor(floor),
        marks,
        equal_aspect: false,
    }
}

/// The name of a set together with its model, where sets of several models stand side by side.
fn full_title(shown: &Shown) -> String {
    use crate::sets::Kind;
    use corelet::model::BuiltIn;
    match shown.set.kind {
        Kind::Regression(BuiltIn::Poisson) => format!("{} (Poisson)", shown.set.label),
        Kind::Regression(_) => format!("{} (logistic)", shown.set.label),
        _ => shown.set.label.to_owned(),
    }
}

fn bands(study: &Study) -> String {
    let [low, high] = study.settings.band;
    format!(
        "Lines are medians over trials, bands go from the {low}th to the {high}th percentile; values below 10⁻¹⁴ are \
         drawn there."
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
