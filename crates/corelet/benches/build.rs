//! A whole build at n = 1 000 000, D = 10, k = 100, data in memory: ours against the NumPy A-IHT II of
//! `benches/numpy_baseline.py`, which runs on the file that this writes.
//!
//! `cargo bench -p corelet --bench build -- --data FILE` and then `python benches/numpy_baseline.py FILE`;
//! `cargo bench -p corelet --bench build -- --scale` for the cost from n = 10⁵ to 10⁷.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use corelet::embed::{Choice, Embedding, embed};
use corelet::generate;
use corelet::model::Logistic;
use corelet::posterior::{LaplaceSettings, Prior, kl_gaussian, laplace};
use corelet::rows::{All, Memory, Observations, Weighted};
use sparse_nnls::{Method, Settings, Solver};

const DIM: usize = 10;
const POINTS: usize = 100;

/// The peak of resident memory, in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1000.0
}

fn measure(observations: Observations, choice: Choice) {
    let n = observations.len();
    let rows = Memory::new(Arc::new(Logistic::model(observations).unwrap()));
    let prior = Prior::isotropic(DIM, 1.0).unwrap();
    let start = Instant::now();
    let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    let fitted = start.elapsed().as_secs_f64();
    let dictionary = embed(&rows, &full.posterior, choice, POINTS, 1).unwrap();
    let embedded = start.elapsed().as_secs_f64();
    let settings = Settings { k: POINTS, seed: 1, ..Settings::default() };
    let solution = Solver::new(&dictionary, settings).run(&Method::default()).unwrap();
    let whole = start.elapsed().as_secs_f64();
    let weights = &solution.weights;
    let core = Weighted::fetch(&rows, &weights.ids, &weights.values).unwrap().fit(&prior).unwrap();
    let kl = kl_gaussian(&full.posterior, &core.posterior).unwrap();
    println!(
        "corelet: n = {n}, {}, {} points, residual {:.3e}, forward KL {kl:.3e}, {} passes: Laplace {fitted:.2} s, \
         embedding {:.2} s, pursuit {:.2} s, {whole:.2} s in all; peak memory {:.0} MB",
        dictionary.description().name,
        solution.weights.len(),
        solution.residual,
        solution.passes,
        embedded - fitted,
        whole - embedded,
        peak_memory()
    );
}

/// Writes each row's features and target as f64 numbers, one row after the other.
fn write(observations: &Observations, path: &str) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for (i, y) in observations.target.iter().enumerate() {
        for x in observations.wide_row(i).iter().chain([y]) {
            file.write_all(&x.to_le_bytes()).unwrap();
        }
    }
    file.flush().unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    if arguments.iter().any(|a| a == "--scale") {
        for n in [100_000, 1_000_000, 10_000_000] {
            measure(generate::logistic(n, DIM, 1), Choice::Auto);
        }
        return;
    }
    let observations = generate::logistic(1_000_000, DIM, 1);
    if let Some(path) = after("--data") {
        write(&observations, path);
    }
    measure(observations, Choice::Auto);
}
