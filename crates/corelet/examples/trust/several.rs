//! Posteriors with several modes, or shapes that chains find hard: whole studies (fit, search for modes, coreset, chains, verdict) of random
//! data that are made to have them, against a grid of all parameters.

use std::fmt::Write;

use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::model::{BuiltIn, Degrees};
use corelet::posterior::SampleSettings;
use corelet::rows::All;
use corelet::study::{BuildSpecification, ModelSpecification, Specification, Study, unheard};
use corelet::trust::Grade;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};
use rayon::prelude::*;
use serde_json::json;

use super::grid::Grid;
use super::liars::WRONG;

/// Distribution functions that differ by more make an A wrong: a shift of 0.45 standard deviations, which is 0.2 nats, is 0.18.
const APART: f64 = 0.18;

/// A feature, targets, a model of them without an intercept, and its prior.
struct Data {
    x: Vec<f64>,
    y: Vec<f64>,
    model: ModelSpecification,
    intercept: bool,
}

struct Scenario {
    name: &'static str,
    data: fn(&mut ChaCha8Rng) -> Data,
}

const SCENARIOS: [Scenario; 8] = [
    Scenario { name: "Student-t, two crossing lines", data: crossing },
    Scenario { name: "Student-t, ν unknown, two crossing lines", data: crossing_unknown },
    Scenario { name: "Student-t, features misread", data: misread },
    Scenario { name: "Student-t, few rows", data: few_rows },
    Scenario { name: "logistic, Cauchy prior, an outlier", data: logistic_outlier },
    Scenario { name: "ordinal, Cauchy prior, an outlier", data: ordinal_outlier },
    Scenario { name: "linear, heavy-tailed prior far off", data: far_prior },
    Scenario { name: "negative binomial, outliers", data: count_outliers },
];

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// One of these.
fn one<T: Copy>(of: &[T], rng: &mut ChaCha8Rng) -> T {
    of[rng.random_range(0..of.len())]
}

fn student(degrees: Degrees) -> ModelSpecification {
    ModelSpecification { model: BuiltIn::Student, degrees: Some(degrees), ..ModelSpecification::default() }
}

fn under(model: BuiltIn, prior: &str) -> ModelSpecification {
    let priors = Some(serde_json::from_value(json!({ "default": prior })).unwrap());
    ModelSpecification { model, priors, ..ModelSpecification::default() }
}

fn crossing_rows(rng: &mut ChaCha8Rng) -> (Vec<f64>, Vec<f64>) {
    let n = one(&[60, 150, 300, 600], rng);
    let (share, noise) = (one(&[0.5, 0.45, 0.35, 0.2], rng), one(&[0.1, 0.3, 0.6], rng));
    let (first, second) = (1.0 + rng.random::<f64>(), -2.0 + 2.5 * rng.random::<f64>());
    let row = |_| {
        let x = normal(rng);
        let slope = if rng.random::<f64>() < share { second } else { first };
        (x, slope * x + noise * normal(rng))
    };
    (0..n).map(row).unzip()
}

fn crossing(rng: &mut ChaCha8Rng) -> Data {
    let degrees = one(&[1.0, 1.5, 3.0], rng);
    let (x, y) = crossing_rows(rng);
    Data { x, y, model: student(Degrees::Given(degrees)), intercept: false }
}

fn crossing_unknown(rng: &mut ChaCha8Rng) -> Data {
    let (x, y) = crossing_rows(rng);
    Data { x, y, model: student("estimated".parse().unwrap()), intercept: false }
}

fn misread(rng: &mut ChaCha8Rng) -> Data {
    let (n, degrees) = (one(&[80, 200, 600, 1500], rng), one(&[1.0, 2.0, 4.0], rng));
    let (share, factor) = (0.01 + 0.15 * rng.random::<f64>(), one(&[5.0, 10.0, 30.0, 100.0], rng));
    let tails = StudentT::new(degrees).unwrap();
    let row = |_| {
        let x = normal(rng);
        let y = 1.5 * x + 0.4 * tails.sample(rng);
        (if rng.random::<f64>() < share { factor * x } else { x }, y)
    };
    let (x, y) = (0..n).map(row).unzip();
    Data { x, y, model: student(Degrees::Given(degrees)), intercept: false }
}

fn few_rows(rng: &mut ChaCha8Rng) -> Data {
    let (n, degrees) = (one(&[20, 40, 70], rng), one(&[1.0, 2.0], rng));
    let tails = StudentT::new(1.0).unwrap();
    let row = |_| {
        let x = normal(rng);
        let slope = one(&[1.0, 1.0, -2.0], rng);
        (x, slope * x + 0.2 * f64::clamp(tails.sample(rng), -50.0, 50.0))
    };
    let (x, y) = (0..n).map(row).unzip();
    Data { x, y, model: student(Degrees::Given(degrees)), intercept: false }
}

fn logistic_outlier(rng: &mut ChaCha8Rng) -> Data {
    let n = one(&[40, 100, 300], rng);
    let (slope, far) = (3.0 * rng.random::<f64>(), 10f64.powf(0.5 + 3.5 * rng.random::<f64>()));
    let mut x: Vec<f64> = (0..n).map(|_| normal(rng)).collect();
    let y: Vec<f64> = x.iter().map(|x| f64::from(u8::from(slope * x + 1.5 * normal(rng) > 0.0))).collect();
    for i in 0..one(&[1, 1, 2], rng) {
        // On either side of where the others would have it.
        x[i] = if rng.random::<bool>() { far } else { -far } * (2.0 * y[i] - 1.0);
    }
    Data { x, y, model: under(BuiltIn::Logistic, "student_t(1, 0, 2.5)"), intercept: true }
}

fn ordinal_outlier(rng: &mut ChaCha8Rng) -> Data {
    let n = one(&[40, 100, 300], rng);
    let (slope, far) = (3.0 * rng.random::<f64>(), 10f64.powf(0.5 + 3.5 * rng.random::<f64>()));
    let mut x: Vec<f64> = (0..n).map(|_| normal(rng)).collect();
    let mut y: Vec<f64> =
        x.iter().map(|x| (slope * x + 1.5 * normal(rng) + 1.0).round().clamp(0.0, 2.0)).collect();
    (y[0], y[1], y[2]) = (0.0, 1.0, 2.0);
    let row = 3 + rng.random_range(0..2);
    x[row] = if rng.random::<bool>() { far } else { -far };
    Data { x, y, model: under(BuiltIn::Ordinal, "student_t(1, 0, 2.5)"), intercept: true }
}

fn far_prior(rng: &mut ChaCha8Rng) -> Data {
    let n = one(&[6, 12, 30, 100], rng);
    let (degrees, scale) = (one(&[1, 2, 4], rng), 10f64.powf(-2.0 + rng.random::<f64>()));
    let (at, noise) = (one(&[1.0, 3.0, 10.0], rng), one(&[0.3, 1.0, 3.0], rng));
    let row = |_| {
        let x = normal(rng);
        (x, noise * normal(rng))
    };
    let (x, y) = (0..n).map(row).unzip();
    let model = under(BuiltIn::Linear, &format!("student_t({degrees}, {at}, {scale})"));
    Data { x, y, model, intercept: false }
}

fn count_outliers(rng: &mut ChaCha8Rng) -> Data {
    let (n, far) = (one(&[60, 200, 600], rng), one(&[5.0, 10.0, 20.0], rng));
    let share = 0.1 * rng.random::<f64>();
    let row = |_| {
        let x = normal(rng);
        let y = (0.7 * x + 0.6 * normal(rng) + 0.5).exp().floor();
        (if rng.random::<f64>() < share { far * x } else { x }, y)
    };
    let (x, y) = (0..n).map(row).unzip();
    Data { x, y, model: under(BuiltIn::NegativeBinomial, "student_t(1, 0, 2.5)"), intercept: false }
}

fn study(data: &Data) -> Study {
    let numbers = |name: &str, values: &[f64]| Column {
        name: name.to_owned(),
        values: Values::Number { values: values.to_vec(), integer: false },
    };
    let columns = vec![numbers("x", &data.x), numbers("y", &data.y)];
    let design = DesignOptions {
        columns: Columns::predicting("y"),
        intercept: data.intercept,
        standardise: Standardise::None,
        ..DesignOptions::default()
    };
    let specification = Specification { design, model: data.model.clone(), ..Specification::default() };
    Study::open(&Source::of_table(Table::new("rows", columns).unwrap()), &specification).unwrap()
}

struct Case {
    scenario: usize,
    seed: u64,
    k: usize,
    grade: Grade,
    kl: f64,
    apart: f64,
    reasons: String,
}

const SIZES: [usize; 2] = [14, 40];

/// Every scenario × seed, from this one on, × size, each with data of its own.
pub(crate) fn run(seeds: u64, first: u64, only: &str) -> String {
    let cells: Vec<(usize, u64)> = (0..SCENARIOS.len())
        .filter(|&scenario| SCENARIOS[scenario].name.contains(only))
        .flat_map(|scenario| (first..first + seeds).map(move |seed| (scenario, seed)))
        .collect();
    let cases: Vec<(usize, Option<Vec<Case>>)> =
        cells.into_par_iter().map(|(scenario, seed)| (scenario, of_seed(scenario, seed))).collect();
    to_table(&cases)
}

/// The cases of one data set; none where its posterior has no grid, or no coreset.
fn of_seed(scenario: usize, seed: u64) -> Option<Vec<Case>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | scenario as u64);
    let data = (SCENARIOS[scenario].data)(&mut rng);
    let study = study(&data);
    let problem = study.problem();
    let all = All(problem.rows);
    let truth = Grid::new(&all, problem.prior, data.x.len())?;
    let sizes = SIZES.into_iter().filter(|&k| k < data.x.len());
    let case = |k: usize| {
        let specification = BuildSpecification { k: Some(k), seed, ..BuildSpecification::default() };
        let chosen = study.build(&specification, &mut unheard).ok()??;
        let coreset = chosen.coreset();
        let weighted = study.weighted(&coreset.rows, &chosen.weights).ok()?;
        let drawn = study.sample(Some(&weighted), &SampleSettings::default(), seed, &mut unheard).ok()?;
        let verdict = drawn.verdict.as_ref()?;
        let (mut kl, mut apart) = (f64::NAN, f64::NAN);
        // What a C is off by is of no interest.
        if verdict.grade != Grade::C {
            let own = Grid::new(&weighted, problem.prior, data.x.len());
            kl = own.map_or(f64::NAN, |own| truth.symmetrised_kl(&own, &all, &weighted));
            let draws = match verdict.grade {
                Grade::B => drawn.resampled()?.theta(),
                _ => drawn.chains.theta(),
            };
            apart = truth.distance(&draws, drawn.chains.dim);
        }
        let reasons = format!("{:?}", verdict.reasons);
        let case = Case { scenario, seed, k, grade: verdict.grade, kl, apart, reasons };
        if is_wrong(&case) {
            println!("wrong: {}, seed {seed}, k {k}: {kl:.3} nats, {apart:.3}", SCENARIOS[scenario].name);
        }
        Some(case)
    };
    Some(sizes.filter_map(case).collect())
}

fn is_wrong(case: &Case) -> bool {
    // A second mode of the weighted rows that no chain of a verdict entered shows in the first alone.
    case.grade == Grade::A && (case.kl > WRONG || case.apart > APART)
}

fn to_table(cases: &[(usize, Option<Vec<Case>>)]) -> String {
    let mut text = String::from(
        "| posterior | data sets | cases | A | B | C | of these by modes | A wrong | largest true KL at A | largest distance at A, at B |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut without = 0;
    for (at, name) in SCENARIOS.iter().map(|s| s.name).chain(["all"]).enumerate() {
        let sets = cases.iter().filter(|(scenario, _)| at == SCENARIOS.len() || *scenario == at);
        let of: Vec<&Case> = sets.clone().filter_map(|(_, found)| found.as_ref()).flatten().collect();
        without = sets.clone().filter(|(_, found)| found.is_none()).count();
        let count = |grade| of.iter().filter(|case| case.grade == grade).count();
        let most = |value: fn(&Case) -> f64, grade| {
            of.iter().filter(|c| c.grade == grade).map(|c| value(c)).fold(f64::NAN, f64::max)
        };
        writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {:.3} | {:.3}, {:.3} |",
            sets.count() - without,
            of.len(),
            count(Grade::A),
            count(Grade::B),
            count(Grade::C),
            of.iter().filter(|case| case.reasons.contains("Mode")).count(),
            of.iter().filter(|case| is_wrong(case)).count(),
            most(|c| c.kl, Grade::A),
            most(|c| c.apart, Grade::A),
            most(|c| c.apart, Grade::B),
        )
        .unwrap();
    }
    writeln!(text, "{without} data sets have too spread a posterior for a grid, and are not counted")
        .unwrap();
    for case in cases.iter().filter_map(|(_, found)| found.as_ref()).flatten().filter(|case| is_wrong(case)) {
        let Case { scenario, seed, k, kl, apart, .. } = case;
        let name = SCENARIOS[*scenario].name;
        writeln!(text, "wrong A: {name}, seed {seed}, k {k}: {kl:.3} nats, distance {apart:.3}").unwrap();
    }
    let unknown = cases.iter().filter_map(|(_, found)| found.as_ref()).flatten();
    let unknown = unknown.filter(|case| case.grade == Grade::A && case.kl.is_nan());
    for Case { scenario, seed, k, apart, .. } in unknown {
        let name = SCENARIOS[*scenario].name;
        writeln!(text, "no grid of the coreset: {name}, seed {seed}, k {k}: distance {apart:.3}").unwrap();
    }
    text
}
