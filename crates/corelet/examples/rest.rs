//! The Gaussian part of a coreset for a logistic regression of many parameters: `cargo run --release --example rest -- ROWS PARAMETERS [POINTS]`.
//!
//! Prints seconds of the fit of all rows, of the build and of chains with verdict, and V.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use corelet::coreset::{BuildOptions, RestChoice, RoundOptions, build_in_rounds};
use corelet::generate;
use corelet::model::Logistic;
use corelet::model::special::sigmoid;
use corelet::posterior::{LaplaceSettings, Prior, SampleSettings, laplace, sample};
use corelet::rows::{All, Memory, Observations, Problem, Weighted};
use corelet::trust::{Draws, verdict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Standard normal features with an intercept last, and labels whose predictor has a standard deviation of one.
fn data(n: usize, dim: usize) -> Observations {
    let mut rows = generate::logistic(n, dim, 1);
    let size = (dim as f64).sqrt().recip();
    let theta: Vec<f64> = (0..dim).map(|j| if j % 2 == 0 { size } else { -size }).collect();
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let label =
        |i: usize| if random.random::<f64>() < sigmoid(rows.predictor(i, &theta)) { 1.0 } else { -1.0 };
    rows.target = (0..n).map(label).collect();
    rows
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [n, dim, points @ ..] = numbers.as_slice() else { return Err("ROWS PARAMETERS [POINTS]".into()) };
    let k = points.first().copied().unwrap_or(0);
    let rows = Memory::new(Arc::new(Logistic::model(data(*n, *dim))?));
    let prior = Prior::isotropic(*dim, 1.0)?;
    let clock = Instant::now();
    let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default())?;
    println!("fit      {:.2} s, {} steps", clock.elapsed().as_secs_f64(), full.iterations);
    let clock = Instant::now();
    let options = BuildOptions { k, rest: RestChoice::Gaussian, ..BuildOptions::default() };
    let problem = Problem { rows: &rows, prior: &prior };
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let built = build_in_rounds(problem, &full.posterior, &options, &RoundOptions::default(), go_on)?;
    println!(
        "build    {:.2} s, {} rows, V {:?}",
        clock.elapsed().as_secs_f64(),
        built.coreset.rows.len(),
        built.rounds.iter().filter_map(|round| round.variance).collect::<Vec<_>>()
    );
    let coreset = &built.coreset;
    let weighted = Weighted::fetch_with_rest(&rows, &coreset.rows, &coreset.weights, coreset.rest.clone())?;
    let clock = Instant::now();
    let fit = weighted.fit(&prior)?.posterior;
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let chains = sample(&weighted, &prior, &fit, &SampleSettings::default(), 0, go_on)?;
    println!("chains   {:.2} s, {} gradients", clock.elapsed().as_secs_f64(), chains.gradients());
    let clock = Instant::now();
    let judged = verdict(&rows, &prior, &weighted, &Draws::from_chains(&chains, 4000), 0)?;
    println!(
        "verdict  {:.2} s: {:?}, V {:.2e} (at most {:.2e})",
        clock.elapsed().as_secs_f64(),
        judged.grade,
        judged.divergence.variance,
        judged.divergence.variance_upper
    );
    Ok(())
}
