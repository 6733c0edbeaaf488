//! Is the verdict right? Grades against the true symmetrised KL over data sets, sizes, methods and seeds.
//!
//! The truth is E_π Δ − E_{π_w} Δ with draws of long chains on either posterior, other ones than the verdict's.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use corelet::data::{DesignOptions, Standardise, design, read};
use corelet::embed::Choice;
use corelet::generate;
use corelet::model::{BuiltIn, Linear, Link, Logistic, Model, Poisson};
use corelet::posterior::SampleSettings;
use corelet::rows::{Observations, Rows};
use corelet::trust::{Draws, Grade};
use rayon::prelude::*;
use sparse_nnls::Method;

use super::common::{Setting, Truth};

/// Sizes of the coresets.
pub(crate) const SIZES: [usize; 9] = [6, 10, 15, 20, 30, 40, 60, 90, 130];

const METHODS: [&str; 5] = ["pursuit", "omp", "giga", "a-iht-2", "importance-nnls"];

/// A true symmetrised KL above this makes an A wrong.
pub(crate) const WRONG: f64 = 0.2;

pub(crate) struct Case {
    pub(crate) set: String,
    pub(crate) method: &'static str,
    pub(crate) k: usize,
    pub(crate) seed: u64,
    pub(crate) grade: Grade,
    pub(crate) variance: f64,
    pub(crate) upper: f64,
    pub(crate) kl_estimate: f64,
    pub(crate) kl_true: f64,
}

/// Generated sets, and the paper's where `CORELET_DATA` names their folder.
pub(crate) fn sets() -> Vec<Setting> {
    let mut sets = small_sets();
    sets.push(Setting::new("logistic 1000 × 8", logistic(generate::logistic(1000, 8, 6)), 1.0));
    sets.push(Setting::new(
        "linear 400 × 5",
        Arc::new(Linear::plug_in(generate::logistic(400, 5, 7)).unwrap()),
        1.0,
    ));
    let Some(folder) = std::env::var_os("CORELET_DATA").filter(|folder| !folder.is_empty()) else {
        return sets;
    };
    for (name, built_in) in [
        ("synth_lr", BuiltIn::Logistic),
        ("phishing", BuiltIn::Logistic),
        ("ds1", BuiltIn::Logistic),
        ("synth_poiss", BuiltIn::Poisson),
        ("biketrips", BuiltIn::Poisson),
        ("airportdelays", BuiltIn::Poisson),
    ] {
        let table = read(&PathBuf::from(&folder).join(format!("{name}.npz")), None).unwrap();
        let options = DesignOptions {
            outcome: built_in.outcome(),
            standardise: Standardise::Whiten,
            ..DesignOptions::default()
        };
        let observations = design(&table, &options).unwrap().observations;
        let model: Arc<dyn Model> = match built_in {
            BuiltIn::Logistic => logistic(observations),
            _ => Arc::new(Poisson::model(observations, Link::Softplus).unwrap()),
        };
        sets.push(Setting::new(name, model, 1.0));
    }
    sets
}

/// Four small ones.
pub(crate) fn small_sets() -> Vec<Setting> {
    vec![
        Setting::new("logistic 500 × 3", logistic(generate::logistic_paper(500, 1)), 1.0),
        Setting::new("logistic 300 × 5", logistic(generate::logistic(300, 5, 2)), 1.0),
        Setting::new("rare events 400 × 3", logistic(rare_events(400, 3, 10, 3)), 3.0),
        Setting::new(
            "Poisson 500 × 2",
            Arc::new(Poisson::model(generate::poisson_paper(500, 4), Link::Log).unwrap()),
            1.0,
        ),
    ]
}

fn logistic(observations: Observations) -> Arc<dyn Model> {
    Arc::new(Logistic::model(observations).unwrap())
}

/// A logistic set in which few targets are successes: every seventh of the rows that a linear predictor ranks first.
pub(crate) fn rare_events(n: usize, dim: usize, successes: usize, seed: u64) -> Observations {
    let mut observations = generate::logistic(n, dim, seed);
    let rows: Vec<f32> = observations.features.chunks_exact(dim).map(|x| 0.8 * x[0] - 0.5 * x[1]).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| rows[b].total_cmp(&rows[a]));
    observations.target.fill(-1.0);
    order.iter().step_by(7).take(successes).for_each(|&i| observations.target[i] = 1.0);
    observations
}

/// One case for each set, method, size and seed; the truth rests on four chains of `draws` draws.
pub(crate) fn run(sets: &[Setting], sizes: &[usize], seeds: u64, draws: usize) -> Vec<Case> {
    let long = SampleSettings { draws, ..SampleSettings::default() };
    sets.iter()
        .flat_map(|setting| {
            let truth = Truth::new(setting, &long, 1_000_003);
            let cells: Vec<(&'static str, usize, u64)> = METHODS
                .iter()
                .flat_map(|&method| {
                    sizes.iter().flat_map(move |&k| (0..seeds).map(move |seed| (method, k, seed)))
                })
                .filter(|(_, k, _)| *k < setting.rows.len())
                .collect();
            cells
                .into_par_iter()
                .map(|(method, k, seed)| case(setting, &truth, (method, k, seed), draws))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn case(setting: &Setting, truth: &Truth, cell: (&'static str, usize, u64), draws: usize) -> Case {
    let (method, k, seed) = cell;
    // The methods of the paper in the paper's embedding, ours in ours.
    let embedding = if method == "pursuit" { Choice::Auto } else { Choice::Draws(500) };
    let coreset = setting.coreset(Method::from_name(method).unwrap(), k, embedding, seed);
    let chains = setting.coreset_chains(&coreset, &SampleSettings::default(), seed);
    let judged = setting.verdict(&coreset, &chains);
    let draws = if judged.grade == Grade::C { 500 } else { draws };
    let again = SampleSettings { draws, ..SampleSettings::default() };
    let own = setting.coreset_chains(&coreset, &again, seed + 1_000_003);
    let kl_true = truth.symmetrised_kl(setting, &coreset, &Draws::from_chains(&own, usize::MAX));
    Case {
        set: setting.name.clone(),
        method,
        k,
        seed,
        grade: judged.grade,
        variance: judged.divergence.variance,
        upper: judged.divergence.variance_upper,
        kl_estimate: judged.divergence.kl_symmetrised,
        kl_true,
    }
}

/// An A although the divergence is above [`WRONG`].
pub(crate) fn is_wrong(case: &Case) -> bool {
    case.grade == Grade::A && case.kl_true > WRONG
}

/// A line for each set and one for all: grades, A's that were wrong, the worst A, and what a C hides.
pub(crate) fn to_table(cases: &[Case]) -> String {
    let mut text = String::from(
        "| data | cases | A | B | C | A wrong | largest true KL at A | KL/V at A and B, least to most |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut names: Vec<&str> = cases.iter().map(|case| case.set.as_str()).collect();
    names.dedup();
    for name in names.into_iter().chain(["all"]) {
        let of: Vec<&Case> = cases.iter().filter(|case| name == "all" || case.set == name).collect();
        let count = |grade| of.iter().filter(|case| case.grade == grade).count();
        let trusted = || of.iter().filter(|case| case.grade == Grade::A);
        let worst = trusted().map(|case| case.kl_true).fold(f64::NAN, f64::max);
        let failed = trusted().filter(|case| is_wrong(case)).count();
        // Below this the true divergence is known too badly for a ratio.
        let known = of.iter().filter(|case| case.grade != Grade::C && case.variance > 3e-2);
        let ratios: Vec<f64> = known.map(|case| case.kl_true / case.variance).collect();
        let least = ratios.iter().copied().fold(f64::NAN, f64::min);
        let most = ratios.iter().copied().fold(f64::NAN, f64::max);
        writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {failed} | {worst:.3} | {least:.2} to {most:.2} |",
            of.len(),
            count(Grade::A),
            count(Grade::B),
            count(Grade::C)
        )
        .unwrap();
    }
    text
}

/// Every case.
pub(crate) fn to_csv(cases: &[Case]) -> String {
    let mut text = String::from("set,method,k,seed,grade,variance,variance_upper,kl_estimate,kl_true\n");
    for case in cases {
        let Case { set, method, k, seed, grade, variance, upper, kl_estimate, kl_true } = case;
        writeln!(text, "{set},{method},{k},{seed},{grade:?},{variance},{upper},{kl_estimate},{kl_true}")
            .unwrap();
    }
    text
}
