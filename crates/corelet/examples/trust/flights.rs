//! Flights: build, sample and judge a coreset of k rows, against NUTS on all rows with the same number of draws.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use corelet::data::{Columns, DesignOptions, design, read};
use corelet::embed::Choice;
use corelet::model::Logistic;
use corelet::posterior::{Chains, Diagnostics, SampleSettings};
use corelet::rows::Rows;
use sparse_nnls::Method;

use super::common::Setting;

pub(crate) fn run(k: usize, draws: usize) -> String {
    let Some(folder) = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty()) else {
        return "CORELET_DATA does not name the folder with flights.parquet".to_owned();
    };
    let table = read(&PathBuf::from(folder).join("flights.parquet"), None).unwrap();
    let target = Some("late".to_owned());
    let options = DesignOptions {
        drop_missing: true,
        columns: Columns { target, ..Columns::default() },
        ..DesignOptions::default()
    };
    let observations = design(&table, &options).unwrap().observations;
    let model = Arc::new(Logistic::model(observations).unwrap());
    let settings = SampleSettings { draws, ..SampleSettings::default() };

    let clock = Instant::now();
    let setting = Setting::new("flights", model, 1.0);
    let coreset = setting.coreset(Method::default(), k, Choice::Auto, 0);
    let built = clock.elapsed().as_secs_f64();
    let chains = setting.coreset_chains(&coreset, &settings, 0);
    let sampled = clock.elapsed().as_secs_f64();
    let judged = setting.verdict(&coreset, &chains);
    let ours = clock.elapsed().as_secs_f64();
    let head = format!(
        "k = {k}, {} draws: grade {:?}, V {:.2e} (95 % below {:.2e}); fit and build {built:.1} s, sample {:.1} s, verdict \
         {:.1} s, in all {ours:.1} s",
        chains.total_draws(),
        judged.grade,
        judged.divergence.variance,
        judged.divergence.variance_upper,
        sampled - built,
        ours - sampled,
    );
    println!("{head}");

    let clock = Instant::now();
    let full = setting.chains(&settings, 1);
    let theirs = clock.elapsed().as_secs_f64();
    let (shift, ratio) = compare(&chains, &full);
    format!(
        "NUTS on all {} rows: {theirs:.1} s, {} gradients against {}; ratio {:.1}; largest mean shift {shift:.3} sd, \
         largest sd ratio {ratio:.3}",
        setting.rows.len(),
        full.gradients(),
        chains.gradients(),
        theirs / ours,
    )
}

/// The largest shift of a mean in standard deviations, and the largest ratio of standard deviations, either way.
fn compare(ours: &Chains, full: &Chains) -> (f64, f64) {
    let (ours, full) = (Diagnostics::new(ours), Diagnostics::new(full));
    let pairs = ours.parameters.iter().zip(&full.parameters);
    pairs.fold((0.0, 1.0), |(shift, ratio): (f64, f64), (a, b)| {
        let sd = a.sd / b.sd;
        (shift.max(((a.mean - b.mean) / b.sd).abs()), ratio.max(sd).max(1.0 / sd))
    })
}
