//! SparseVI at the settings of the paper's logistic regressions, 500 draws and 500 steps a point, k = 50: seconds, and
//! the divergence at k = 20 and k = 50, against what the authors' code took and reached.
//!
//! `cargo bench -p corelet --bench sparse_vi -- [SEEDS]` on `synth_lr.npz` and `phishing.npz` of the folder that
//! `CORELET_DATA` names, and on generated data where there is none.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::PathBuf;

use corelet::data::{DesignOptions, Standardise, design, read};
use corelet::evaluate::evaluate;
use corelet::generate;
use corelet::laplace::{LaplaceSettings, Prior, laplace};
use corelet::model::{Logistic, Model, Rows};
use corelet::observations::Observations;
use corelet::sparse_vi::{SparseViSettings, sparse_vi};

const POINTS: usize = 50;

fn measure(name: &str, observations: Observations, seeds: u64, reference: f64) {
    let model = Logistic::model(observations).unwrap();
    let prior = Prior::isotropic(model.dim(), 1.0).unwrap();
    let full = laplace(&model, &prior, Rows::All, None, &LaplaceSettings::default()).unwrap();
    let settings = SparseViSettings::default();
    println!("{name}: {} rows, {} coefficients, {settings:?}", model.len(), model.dim());
    for seed in 0..seeds {
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let path = sparse_vi(&model, &prior, POINTS, &settings, seed, go_on).unwrap();
        let judged = [20, POINTS].map(|k| {
            let point = &path[k - 1];
            let judged = evaluate(&model, &prior, &full, None, &point.rows, &point.weights).unwrap();
            let (forward, reverse) = (judged.kl_forward.unwrap(), judged.kl_reverse.unwrap());
            format!("k = {k}: {} points, {forward:.1e} / {reverse:.1e}", point.points)
        });
        let last = &path[POINTS - 1];
        println!(
            "  seed {seed}: {}; {:.2} s, {:.0} times faster than {reference} s; {:.3} ms a pass",
            judged.join("; "),
            last.seconds,
            reference / last.seconds,
            1e3 * last.seconds / last.passes
        );
    }
}

fn main() {
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
