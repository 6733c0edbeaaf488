//! A strongly skewed posterior (few rows, weak prior, rare events): rounds by NUTS against the Laplace embedding.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, RoundOptions, RoundsBy, build_in_rounds};
use corelet::embed::Choice;
use corelet::model::Logistic;
use corelet::posterior::{Diagnostics, SampleSettings};
use corelet::trust::Draws;

use super::calibrate::rare_events;
use super::common::{Setting, Truth};

const ROWS: usize = 200;
const DIM: usize = 6;
const SUCCESSES: usize = 3;
/// A prior this wide leaves the tail of the few successes to the likelihood.
const PRIOR_SD: f64 = 10.0;

/// Median true symmetrised KL of each way to build, at one size.
pub(crate) struct Line {
    pub(crate) k: usize,
    pub(crate) hermite: f64,
    pub(crate) draws: f64,
    pub(crate) nuts: f64,
    /// Skewness of the most skewed parameter of the true posterior.
    pub(crate) skewness: f64,
}

/// Sizes of the table.
pub(crate) const SIZES: [usize; 5] = [10, 15, 20, 30, 40];

/// One line a size, over so many seeds; the truth rests on four chains of `draws` draws.
pub(crate) fn run(sizes: &[usize], seeds: u64, draws: usize) -> Vec<Line> {
    let setting = Setting::new(
        "skewed",
        Arc::new(Logistic::model(rare_events(ROWS, DIM, SUCCESSES, 11)).unwrap()),
        PRIOR_SD,
    );
    let long = SampleSettings { draws, target_accept: 0.9, ..SampleSettings::default() };
    let truth = Truth::new(&setting, &long, 77);
    let skewness = skewness(&setting, &long);
    let kl = |k: usize, embedding: Choice, rounds: &RoundOptions, seed: u64| {
        let posterior = &setting.full.posterior;
        let options = BuildOptions { k, seed, embedding, ..BuildOptions::default() };
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let built = build_in_rounds(setting.problem(), posterior, &options, rounds, go_on);
        let coreset = built.unwrap().coreset;
        let own = setting.coreset_chains(&coreset, &long, seed + 1_000_003);
        truth.symmetrised_kl(&setting, &coreset, &Draws::from_chains(&own, usize::MAX))
    };
    let once = RoundOptions { rounds: Some(1), ..RoundOptions::default() };
    let nuts = RoundOptions { by: RoundsBy::Nuts, ..RoundOptions::default() };
    let median = |k, embedding, rounds: &RoundOptions| {
        let mut values: Vec<f64> = (0..seeds).map(|seed| kl(k, embedding, rounds, seed)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    sizes
        .iter()
        .map(|&k| Line {
            k,
            hermite: median(k, Choice::Auto, &once),
            draws: median(k, Choice::Draws(1000), &once),
            nuts: median(k, Choice::Auto, &nuts),
            skewness,
        })
        .collect()
}

/// The largest |skewness| of a parameter under the full posterior.
fn skewness(setting: &Setting, settings: &SampleSettings) -> f64 {
    let chains = setting.chains(settings, 5);
    let summary = Diagnostics::new(&chains);
    let of = |j: usize| {
        let (mean, sd) = (summary.parameters[j].mean, summary.parameters[j].sd);
        let values = chains.parameter(j).concat();
        values.iter().map(|x| ((x - mean) / sd).powi(3)).sum::<f64>() / values.len() as f64
    };
    (0..chains.dim).map(of).fold(0.0, |m, s| if s.abs() > f64::abs(m) { s } else { m })
}

pub(crate) fn to_table(lines: &[Line]) -> String {
    let skewness = lines.first().map_or(f64::NAN, |line| line.skewness);
    let mut text = format!(
        "{ROWS} rows, {SUCCESSES} successes, {DIM} parameters, prior sd {PRIOR_SD}, skewness {skewness:.2}; true symmetrised KL in nats, medians\n\n\
         | k | Laplace, Hermite | Laplace, 1000 draws | rounds by NUTS |\n| --- | --- | --- | --- |\n"
    );
    for Line { k, hermite, draws, nuts, .. } in lines {
        writeln!(text, "| {k} | {hermite:.2e} | {draws:.2e} | {nuts:.2e} |").unwrap();
    }
    text
}
