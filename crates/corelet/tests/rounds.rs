//! Rounds repair a poor π̂, and cost nothing where there is nothing to repair.
//!
//! The tests on real data need the folder that `CORELET_DATA` names, and are ignored unless they are asked for.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test's helpers are tests too

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, Built, RoundOptions, RoundsBy, Start, build_in_rounds, start_fit};
use corelet::data::{DesignOptions, Outcome, Standardise, design, read};
use corelet::embed::Choice;
use corelet::generate;
use corelet::model::{Link, Logistic, Model, Poisson};
use corelet::posterior::{Laplace, LaplaceSettings, Prior, kl_gaussian, laplace};
use corelet::rows::{All, Memory, Problem, Weighted};

struct Setting {
    rows: Memory,
    prior: Prior,
    full: Laplace,
}

impl Setting {
    fn new(model: Arc<dyn Model>, prior_sd: f64) -> Self {
        let prior = Prior::isotropic(model.dim(), prior_sd).unwrap();
        let rows = Memory::new(model);
        let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
        Setting { rows, prior, full }
    }

    fn problem(&self) -> Problem<'_> {
        Problem { rows: &self.rows, prior: &self.prior }
    }

    fn build(&self, start: Start, rounds: &RoundOptions, options: &BuildOptions) -> Built {
        let fit = start_fit(self.problem(), start, options.seed).unwrap();
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        build_in_rounds(self.problem(), &fit.posterior, options, rounds, go_on).unwrap()
    }

    /// KL both ways between the Laplace fits.
    fn symmetrised_kl(&self, built: &Built) -> f64 {
        let Built { coreset, .. } = built;
        let coreset = Weighted::fetch(&self.rows, &coreset.rows, &coreset.weights).unwrap();
        let own = coreset.fit(&self.prior).unwrap();
        let (full, own) = (&self.full.posterior, &own.posterior);
        kl_gaussian(full, own).unwrap() + kl_gaussian(own, full).unwrap()
    }
}

fn from_200() -> RoundOptions {
    RoundOptions { from_all_rows: false, ..RoundOptions::default() }
}

#[test]
fn a_good_start_makes_one_round() {
    let setting = Setting::new(Arc::new(Logistic::model(generate::logistic(2000, 5, 3)).unwrap()), 1.0);
    let built = setting.build(Start::Full, &RoundOptions::default(), &BuildOptions::default());
    assert_eq!((built.rounds.len(), built.chosen, built.posterior.is_none()), (1, 0, true));
    assert_eq!(built.rounds[0].variance, None);
}

#[test]
fn so_many_rounds_as_asked_for() {
    let setting = Setting::new(Arc::new(Logistic::model(generate::logistic(1000, 4, 3)).unwrap()), 1.0);
    let options = BuildOptions { k: 30, ..BuildOptions::default() };
    let three = RoundOptions { rounds: Some(3), ..RoundOptions::default() };
    let built = setting.build(Start::Full, &three, &options);
    assert_eq!(built.rounds.len(), 3);
    let best = built.rounds[built.chosen].variance.unwrap();
    assert!(built.rounds.iter().all(|round| round.variance.unwrap() >= best));
}

#[test]
fn rounds_repair_a_start_from_few_rows() {
    let setting = Setting::new(Arc::new(Logistic::model(generate::logistic(5000, 6, 8)).unwrap()), 1.0);
    let options = BuildOptions { k: 60, ..BuildOptions::default() };
    let full = setting.symmetrised_kl(&setting.build(Start::Full, &RoundOptions::default(), &options));
    let once = RoundOptions { rounds: Some(1), ..from_200() };
    let first = setting.symmetrised_kl(&setting.build(Start::Subsample(50), &once, &options));
    let built = setting.build(Start::Subsample(50), &from_200(), &options);
    let repaired = setting.symmetrised_kl(&built);
    assert!(repaired <= 2.0 * full + 1e-6, "{first} → {repaired}, from all rows {full}");
    assert!(repaired < 0.5 * first, "{first} → {repaired}");
}

/// Medians over seeds of the symmetrised KL: from a fit of all rows, from one of 200 rows in one round, and in rounds.
fn compare_starts(cases: &[(usize, Choice)], seeds: u64) {
    let folder = common::data_folder();
    for name in ["airportdelays", "biketrips"] {
        let table = read(&folder.join(format!("{name}.npz")), None).unwrap();
        let options = DesignOptions {
            outcome: Outcome::Count,
            standardise: Standardise::Whiten,
            ..DesignOptions::default()
        };
        let observations = design(&table, &options).unwrap().observations;
        let setting = Setting::new(Arc::new(Poisson::model(observations, Link::Softplus).unwrap()), 1.0);
        for &(k, embedding) in cases {
            let mut kls: [Vec<f64>; 3] = Default::default();
            for seed in 0..seeds {
                let options = BuildOptions { k, seed, embedding, ..BuildOptions::default() };
                let once = |from_all_rows| RoundOptions {
                    rounds: Some(1),
                    from_all_rows,
                    ..RoundOptions::default()
                };
                let builds = [
                    setting.build(Start::Full, &once(true), &options),
                    setting.build(Start::Subsample(200), &once(false), &options),
                    setting.build(Start::Subsample(200), &from_200(), &options),
                ];
                kls.iter_mut().zip(&builds).for_each(|(kls, built)| kls.push(setting.symmetrised_kl(built)));
            }
            let [full, first, repaired] = kls.map(|mut kls| {
                kls.sort_by(f64::total_cmp);
                kls[kls.len() / 2]
            });
            println!(
                "{name} k = {k} {embedding}: all rows {full:.2e}, 200 rows {first:.2e}, rounds {repaired:.2e}"
            );
            assert!(repaired <= 2.0 * full.max(1e-7), "{name} {k}: {repaired} against {full}");
        }
    }
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn rounds_reach_what_the_full_fit_reaches_on_real_data() {
    compare_starts(&[(50, Choice::Auto)], 5);
}

/// `cargo test --release -p corelet --test rounds table -- --ignored --nocapture`: the table of `docs/trust.md`.
#[test]
#[ignore = "two minutes"]
fn the_table_of_starts() {
    compare_starts(&[(50, Choice::Auto), (100, Choice::Auto), (100, Choice::Draws(500))], 5);
}

#[test]
fn rounds_by_nuts_run_and_are_deterministic() {
    let setting = Setting::new(Arc::new(Logistic::model(generate::logistic(500, 3, 3)).unwrap()), 3.0);
    let options = BuildOptions { k: 20, ..BuildOptions::default() };
    let nuts = RoundOptions { rounds: Some(2), by: RoundsBy::Nuts, from_all_rows: true };
    let first = setting.build(Start::Full, &nuts, &options);
    let second = setting.build(Start::Full, &nuts, &options);
    assert_eq!((&first.coreset, &first.rounds), (&second.coreset, &second.rounds));
    assert!(setting.symmetrised_kl(&first) < 0.1);
}
