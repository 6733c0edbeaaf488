//! SparseVI at the settings of the paper's logistic regressions, 500 draws and 500 steps a point, k = 50: seconds, and
//! the divergence at k = 20 and k = 50, against what the authors' code took and reached.
//!
//! `cargo bench -p corelet --bench sparse_vi -- [SEEDS]` on `synth_lr.npz` and `phishing.npz` of the folder that
//! `CORELET_DATA` names, and on generated data where there is none. `-- --conjugate` for models with exact gradients, at
//! the sizes of the paper's Gaussian and radial-basis experiments: 100 steps a point, k = 300.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use corelet::data::{DesignOptions, Standardise, design, read};
use corelet::generate;
use corelet::model::{GaussianMean, Linear, Logistic, Model};
use corelet::posterior::{LaplaceSettings, Prior, laplace};
use corelet::rows::Observations;
use corelet::rows::{All, Memory, Problem};
use corelet::sparse_vi::{SparseViSettings, StepSize, sparse_vi};
use corelet::trust::evaluate;

const POINTS: usize = 50;

/// Seconds of processor time of this process so far, which other work on the machine does not lengthen much.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or("");
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Lowest, median and highest.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let middle = 0.5 * (values[values.len() / 2] + values[(values.len() - 1) / 2]);
    format!("{middle:.2e} [{:.1e}, {:.1e}]", values[0], values[values.len() - 1])
}

fn measure(name: &str, observations: Observations, seeds: u64, reference: f64) {
    let model: Arc<dyn Model> = Arc::new(Logistic::model(observations).unwrap());
    let rows = Memory::new(Arc::clone(&model));
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    let settings = SparseViSettings::default();
    println!("{name}: {} rows, {} coefficients, {settings:?}", model.len(), model.dim());
    let mut divergences = vec![Vec::new(); 4];
    for seed in 0..seeds {
        let before = processor_seconds();
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let path = sparse_vi(&model, &prior, POINTS, &settings, seed, go_on).unwrap();
        let busy = processor_seconds() - before;
        let mut judged = Vec::new();
        for (at, k) in [20, POINTS].into_iter().enumerate() {
            let point = &path[k - 1];
            let judgement = evaluate(
                Problem { rows: &rows, prior: &prior },
                Some(&full),
                None,
                &point.rows,
                &point.weights,
            )
            .unwrap();
            let (forward, reverse) = (judgement.kl_forward.unwrap(), judgement.kl_reverse.unwrap());
            divergences[2 * at].push(forward);
            divergences[2 * at + 1].push(reverse);
            judged.push(format!("k = {k}: {} points, {forward:.1e} / {reverse:.1e}", point.points));
        }
        let seconds = path[POINTS - 1].seconds;
        println!(
            "  seed {seed}: {}; {seconds:.2} s ({busy:.2} s of processor time), {:.0} times faster than {reference} s",
            judged.join("; "),
            reference / seconds
        );
    }
    let spreads: Vec<String> = divergences.into_iter().map(spread).collect();
    println!("  forward / reverse KL, median [lowest, highest]: k = 20: {} / {}", spreads[0], spreads[1]);
    println!("  k = {POINTS}: {} / {}", spreads[2], spreads[3]);
}

/// The paper's Gaussian (D = 200, N = 600) and a regression of the size of its radial-basis experiment.
fn measure_conjugate() {
    let settings =
        SparseViSettings { steps: 100, step_size: StepSize::OverT { scale: 1.0 }, ..Default::default() };
    let gaussian = generate::gaussian_paper(600, 200, 1);
    let identity: Vec<f64> = (0..200 * 200).map(|at| if at % 201 == 0 { 1.0 } else { 0.0 }).collect();
    let mut regression = generate::gaussian_paper(1000, 301, 2);
    regression.target = (0..1000).map(|i| regression.wide_row(i)[..10].iter().sum()).collect();
    let models: [Arc<dyn Model>; 2] = [
        Arc::new(GaussianMean::new(gaussian, &identity).unwrap()),
        Arc::new(Linear::model(regression, 1.0).unwrap()),
    ];
    for model in models {
        let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
        let before = processor_seconds();
        let path = sparse_vi(&model, &prior, 300, &settings, 0, &mut |_| ControlFlow::Continue(())).unwrap();
        let last = &path[299];
        println!(
            "{}: {} rows, {} coefficients: {} points in {:.1} s ({:.1} s of processor time), {} passes",
            model.name(),
            model.len(),
            model.dim(),
            last.points,
            last.seconds,
            processor_seconds() - before,
            last.passes
        );
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--conjugate") {
        return measure_conjugate();
    }
    let seeds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(3);
    let Some(folder) = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty()) else {
        return measure("generated", generate::logistic_paper(500, 1), seeds, 796.0);
    };
    for (name, reference) in [("synth_lr", 796.0), ("phishing", 835.0)] {
        let table = read(&PathBuf::from(&folder).join(format!("{name}.npz")), None).unwrap();
        let options = DesignOptions { standardise: Standardise::Whiten, ..DesignOptions::default() };
        measure(name, design(&table, &options).unwrap().observations, seeds, reference);
    }
}
