//! Theorem 1 and Corollary 1 of the paper on random Gaussian matrices small enough to know all of their constants.

use anyhow::Context;
use corelet::generate::gaussian_paper;
use corelet::rows::Observations;
use corelet::words::number;
use corelet_cli::figure::{Axis, Curve, Dash, Grid, Mark, Panel, Style};
use corelet_cli::output::{csv_line, csv_number};
use sparse_nnls::{Dense, Weights};

use super::isometry::Contraction;
use super::length;
use super::trace::{TracePoint, trace};
use crate::claims::{Claim, Verdict};
use crate::curves::Figure;
use crate::study::Study;

/// ‖ε‖ as a share of ‖Φw*‖ in the two panels.
const NOISE: [f64; 2] = [0.0, 0.01];
/// Distances below this share of ‖w*‖ are rounding.
const ROUNDING: f64 = 1e-12;

/// The iterates of A-IHT on one problem.
pub(crate) struct Run {
    trial: usize,
    noise: f64,
    contraction: Contraction,
    /// ‖w*‖.
    size: f64,
    points: Vec<TracePoint>,
}

/// The runs of all trials, without and with noise.
pub(crate) fn run(study: &Study) -> anyhow::Result<Vec<Run>> {
    let k = *study.plan.sizes.first().context("the theory needs a size")?;
    let mut runs = Vec::new();
    for trial in 0..study.plan.trials {
        let (rows, columns) = (study.plan.cell.rows, study.plan.cell.dim);
        let seed = study.seed.wrapping_add(trial as u64);
        let scale = 1.0 / (rows as f64).sqrt();
        let entries: Vec<f64> =
            gaussian_paper(columns, rows, seed).features.iter().map(|&x| scale * f64::from(x)).collect();
        let planted = widened(&gaussian_paper(k, 1, seed ^ 0x5eed));
        // Spread over the columns, all clearly positive.
        let pairs = planted.iter().enumerate().map(|(i, x)| (i * columns / k, 0.5 + x.abs()));
        let optimum = Weights::from_pairs(pairs);
        let noise_direction = widened(&gaussian_paper(1, rows, seed ^ 0xe951));
        let phi = Dense::new(entries.clone(), rows)?;
        let contraction = Contraction::brute_force(&phi, k)?;
        for noise in NOISE {
            let target = noisy_target(&entries, rows, &optimum, &noise_direction, noise);
            let points = trace(&phi, &target, &optimum, &contraction, study.plan.cell.iterations)?;
            runs.push(Run { trial, noise, contraction, size: length(&optimum.values), points });
        }
    }
    Ok(runs)
}

/// Φw* + ε with ‖ε‖ = noise·‖Φw*‖.
fn noisy_target(entries: &[f64], rows: usize, optimum: &Weights, direction: &[f64], noise: f64) -> Vec<f64> {
    let mut target = vec![0.0; rows];
    for (&id, weight) in optimum.ids.iter().zip(&optimum.values) {
        target.iter_mut().zip(&entries[id * rows..][..rows]).for_each(|(y, x)| *y += weight * x);
    }
    let scale = noise * length(&target) / length(direction);
    target.iter_mut().zip(direction).for_each(|(y, e)| *y += scale * e);
    target
}

/// Distances by iteration under the bounds, without noise on the left and with noise on the right.
pub(crate) fn figure(study: &Study, runs: &[Run]) -> Figure {
    let panels = NOISE.map(|noise| panel(runs, noise)).to_vec();
    let (k, columns) = (study.plan.sizes[0], study.plan.cell.dim);
    let rho = runs.iter().map(|run| run.contraction.rho).fold(0.0, f64::max);
    let caption = format!(
        "‖w_t − w*‖ of A-IHT with exact steps by iteration, on {} Gaussian matrices of {columns} columns and {} rows with \
         a planted w* of k = {k} weights; one line a matrix. Theorem 1 bounds each distance by the two before, Corollary 1 \
         all of them by the first; their constants are known by brute force over all supports, ρ ≤ {}.",
        study.plan.trials,
        study.plan.cell.rows,
        number(rho)
    );
    let grid = Grid { columns: 2, cell: (430.0, 330.0), panels };
    Figure { name: "theory".to_owned(), caption, grid }
}

fn panel(runs: &[Run], noise: f64) -> Panel {
    let here = || runs.iter().filter(|run| run.noise == noise);
    let curves = |style: Style, label: &str, value: fn(&TracePoint) -> Option<f64>| -> Vec<Mark> {
        let points = |run: &Run| -> Vec<(f64, f64)> {
            // At rounding the momentum is noise, and so are the bounds that it enters.
            let end = run.points.iter().position(|p| p.distance < ROUNDING * run.size);
            let shown = &run.points[..end.map_or(run.points.len(), |end| end + 1)];
            shown.iter().filter_map(|p| Some((p.iteration as f64, value(p)?))).collect()
        };
        let lines = here().map(points).filter(|points| !points.is_empty());
        lines.map(|points| Mark::Curve(Curve::line(points, style, label))).collect()
    };
    let mut marks =
        curves(Style::line("#E69F00", Dash::LongDot, 1.4), "bound of Corollary 1", |p| p.distance_bound);
    marks.extend(curves(Style::line("#D55E00", Dash::Short, 1.4), "bound of Theorem 1", |p| p.invariant));
    marks.extend(curves(Style::line("#0072B2", Dash::Solid, 1.8), "‖w_t − w*‖", |p| Some(p.distance)));
    let title =
        if noise == 0.0 { "no noise".to_owned() } else { format!("noise, ‖ε‖ = {noise}·‖Φw*‖") };
    let last = here().map(|run| run.points.len()).max().unwrap_or(2);
    Panel {
        title,
        x: Axis::linear("iteration t").with_limits(0.0, last as f64 - 0.7),
        y: Axis::log("‖w_t − w*‖").with_floor(1e-16),
        marks,
        equal_aspect: false,
    }
}

/// Every iterate as CSV.
pub(crate) fn to_csv(runs: &[Run]) -> String {
    let header = ["trial", "noise", "rho", "iteration", "distance", "theorem_1", "corollary_1", "objective"];
    let mut text = csv_line(header.map(str::to_owned));
    for run in runs {
        for point in &run.points {
            text += &csv_line([
                run.trial.to_string(),
                run.noise.to_string(),
                csv_number(Some(run.contraction.rho)),
                point.iteration.to_string(),
                csv_number(Some(point.distance)),
                csv_number(point.invariant),
                csv_number(point.distance_bound),
                csv_number(Some(point.objective)),
            ]);
        }
    }
    text
}

/// Whether the bounds hold.
pub(crate) fn claims(study: &Study, runs: &[Run]) -> Vec<Claim> {
    let count = |bound: fn(&TracePoint) -> Option<f64>| {
        let iterates = runs.iter().flat_map(|run| run.points.iter().map(move |point| (run.size, point)));
        let bounded = iterates.filter_map(|(size, point)| Some((size, point.distance, bound(point)?)));
        bounded.fold((0, 0), |(holds, all), (size, distance, bound)| {
            (holds + usize::from(distance <= bound + ROUNDING * size), all + 1)
        })
    };
    let said = |text: &str, (holds, all): (usize, usize)| {
        let verdict = if holds == all { Verdict::Holds } else { Verdict::Fails };
        let text = format!("{}: {text}", study.settings.title);
        Claim { text, verdict, numbers: format!("{holds} of {all} iterates") }
    };
    vec![
        said("Theorem 1 bounds every iterate of A-IHT by the two before it", count(|point| point.invariant)),
        said("without noise A-IHT converges at the rate of Corollary 1", count(|point| point.distance_bound)),
    ]
}

fn widened(observations: &Observations) -> Vec<f64> {
    observations.features.iter().copied().map(f64::from).collect()
}
