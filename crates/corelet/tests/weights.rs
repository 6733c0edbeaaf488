//! Weights, offsets and equal rows taken as one: against repeated rows, exposures and plain sums, for every family.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use std::sync::Arc;

use common::{count, observations, sign};
use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::embed::{Choice, Recipe};
use corelet::linalg::dot;
use corelet::model::{BuiltIn, Derivatives, GaussianMean, Link, Model, ModelError, Numbers, Over, Shifts};
use corelet::posterior::{LaplaceSettings, Prior, SampleSettings, kl_gaussian, laplace};
use corelet::random::Stream;
use corelet::rows::{All, Gather, Memory, Moments, Observations, Rows, Weighted};
use corelet::study::{BuildSpecification, ModelSpecification, Specification, Study, unheard};
use corelet::trust::Grade;

/// Every model with a predictor, with and without a noise that is given.
fn families() -> Vec<(BuiltIn, Numbers)> {
    let plain = Numbers { classes: 3, ..Numbers::default() };
    let with_predictor = BuiltIn::ALL.into_iter().filter(|model| *model != BuiltIn::Gaussian);
    let given = [
        (BuiltIn::Linear, Numbers { sigma: Some(0.8), ..plain }),
        (BuiltIn::Poisson, Numbers { link: Link::Softplus, ..plain }),
    ];
    with_predictor.map(|model| (model, plain)).chain(given).collect()
}

/// Rows that a family can have come from.
fn rows(family: BuiltIn, n: usize, dim: usize) -> Observations {
    let positive = |eta: f64, noise: f64| (eta + 0.5 * noise).exp();
    match family {
        BuiltIn::Logistic => observations(n, dim, 1, sign),
        BuiltIn::Poisson | BuiltIn::NegativeBinomial => observations(n, dim, 2, count),
        BuiltIn::Binomial => {
            let trials: Vec<f64> = (0..n).map(|i| (1 + i % 7) as f64).collect();
            let mut rows = observations(n, dim, 3, |eta, noise| 1.0 / (1.0 + (-eta - 0.5 * noise).exp()));
            rows.target = rows.target.iter().zip(&trials).map(|(p, m)| (p * m).round()).collect();
            rows.with_exposure(trials)
        }
        BuiltIn::Softmax | BuiltIn::Ordinal => {
            observations(n, dim, 6, |eta, noise| (1.0 + eta + 0.7 * noise).round().clamp(0.0, 2.0))
        }
        BuiltIn::Gamma | BuiltIn::Weibull | BuiltIn::Exponential => observations(n, dim, 4, positive),
        _ => observations(n, dim, 5, |eta, noise| eta + 0.7 * noise),
    }
}

/// Small counts, and numbers between −1 and 1.
fn beside(n: usize) -> (Vec<f64>, Vec<f64>) {
    let counts = (0..n).map(|i| [1.0, 3.0, 2.0, 1.0, 5.0][i * i % 5]).collect();
    (counts, (0..n).map(|i| (1.3 * i as f64).sin()).collect())
}

/// Weights, and offsets where a family has a place for them: one number is none of several predictors.
fn with_beside(family: BuiltIn, n: usize) -> Observations {
    let (weights, offset) = beside(n);
    let weighted = rows(family, n, 3).with_weights(weights);
    if family.takes("offset") { weighted.with_offset(offset) } else { weighted }
}

/// Each row as often as its weight says.
fn repeated(rows: &Observations) -> Observations {
    let ids: Vec<usize> =
        (0..rows.len()).flat_map(|i| std::iter::repeat_n(i, rows.weight(i) as usize)).collect();
    Observations { weights: None, ..rows.select(&ids) }
}

fn assert_close(a: &[f64], b: &[f64], relative: f64, named: &str) {
    let size = a.iter().chain(b).fold(0.0_f64, |m, x| m.max(x.abs()));
    assert_eq!(a.len(), b.len(), "{named}");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= relative * size.max(1e-300), "{named}: {a} and {b}, of {size}");
    }
}

fn fit(rows: &dyn Rows, prior: &Prior) -> corelet::posterior::Laplace {
    laplace(&All(rows), prior, None, &LaplaceSettings::default()).unwrap()
}

/// L, its gradient and its Hessian over `over`.
fn evaluated(model: &dyn Model, over: Over<'_>, theta: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
    let dim = model.dim();
    let (mut gradient, mut hessian) = (vec![0.0; dim], vec![0.0; dim * dim]);
    let value = model.evaluate(over, theta, Derivatives::both(&mut gradient, &mut hessian));
    (value, gradient, hessian)
}

#[test]
fn log_likelihoods_have_their_weights_and_offsets() {
    let (n, step) = (40, 1e-5);
    for (family, numbers) in families() {
        let plain = family.bind(rows(family, n, 3), numbers).unwrap();
        let all = with_beside(family, n);
        let model = family.bind(all.clone(), numbers).unwrap();
        let theta: Vec<f64> = (0..model.dim()).map(|j| 0.3 - 0.2 * j as f64).collect();
        let named = model.name();
        let (value, gradient, hessian) = evaluated(&*model, Over::All, &theta);
        let sum: f64 = (0..n).map(|i| model.log_likelihood(i, &theta)).sum();
        assert_close(&[value], &[sum], 1e-12, named);
        // The intercept is the last feature: an offset moves it, for its own row.
        for i in 0..n {
            let mut moved = theta.clone();
            moved[2] += all.offset(i);
            let own = all.weight(i) * plain.log_likelihood(i, &moved);
            assert_close(&[model.log_likelihood(i, &theta)], &[own], 1e-12, named);
        }
        for j in 0..theta.len() {
            let at = |by: f64| {
                let mut moved = theta.clone();
                moved[j] += by;
                evaluated(&*model, Over::All, &moved)
            };
            let (up, down) = (at(step), at(-step));
            assert_close(&[gradient[j]], &[(up.0 - down.0) / (2.0 * step)], 1e-5, named);
            let slope: Vec<f64> = up.1.iter().zip(&down.1).map(|(a, b)| (a - b) / (2.0 * step)).collect();
            assert_close(&hessian[j * theta.len()..][..theta.len()], &slope, 1e-5, named);
        }
        // Weights of a sum multiply those of the rows.
        let (ids, twice) = ((0..n).collect::<Vec<_>>(), vec![2.0; n]);
        let doubled = evaluated(&*model, Over::Weighted { ids: &ids, weights: &twice }, &theta);
        assert_close(&[doubled.0], &[2.0 * value], 1e-12, named);
        assert_close(&doubled.1, &gradient.iter().map(|g| 2.0 * g).collect::<Vec<_>>(), 1e-12, named);
    }
}

#[test]
fn differences_have_their_weights_and_offsets() {
    let n = 30;
    for (family, numbers) in families() {
        let model = family.bind(with_beside(family, n), numbers).unwrap();
        let dim = model.dim();
        let anchor: Vec<f64> = (0..dim).map(|j| 0.2 - 0.1 * j as f64).collect();
        let shifts = Shifts::new((0..7 * dim).map(|at| 0.2 * (0.9 * at as f64).sin()).collect(), dim);
        let (mut wide, mut narrow) = (vec![0.0; n * 7], vec![0.0_f32; n * 7]);
        model.differences_f64(0..n, &anchor, &shifts, &mut wide);
        model.differences(0..n, &anchor, &shifts, &mut narrow);
        for i in 0..n {
            for s in 0..7 {
                let there: Vec<f64> = anchor.iter().zip(shifts.row(s)).map(|(a, b)| a + b).collect();
                let plain = model.log_likelihood(i, &there) - model.log_likelihood(i, &anchor);
                let (wide, narrow) = (wide[i * 7 + s], f64::from(narrow[i * 7 + s]));
                assert!((wide - plain).abs() < 1e-11 * (1.0 + plain.abs()), "{}", model.name());
                assert!((narrow - plain).abs() < 2e-5 * (1.0 + plain.abs()), "{}", model.name());
            }
        }
    }
}

#[test]
fn a_weight_is_as_many_equal_rows() {
    let n = 400;
    for (family, numbers) in families() {
        let weighted = with_beside(family, n);
        let each = repeated(&weighted);
        assert_eq!(each.len() as f64, weighted.total_weight());
        let (one, two) = (Moments::of(&weighted), Moments::of(&each));
        let rss = [one, two].map(|moments| moments.residual_sum_of_squares());
        assert_close(&rss[..1], &rss[1..], 1e-10, family.name());
        let (few, many) = (family.bind(weighted, numbers).unwrap(), family.bind(each, numbers).unwrap());
        let prior = Prior::isotropic(few.dim(), 2.0).unwrap();
        let (few, many) = (Memory::new(few), Memory::new(many));
        let (one, two) = (fit(&few, &prior), fit(&many, &prior));
        assert_close(&one.posterior.mean, &two.posterior.mean, 1e-8, family.name());
        assert_close(&one.posterior.covariance, &two.posterior.covariance, 1e-8, family.name());
        let posterior = Arc::new(one.posterior.clone());
        let shifts = posterior.shifts(40, 3, Stream::Build);
        let mut recipes = vec![
            Recipe::Hermite { posterior: Arc::clone(&posterior), order: 2 },
            Recipe::Draws { anchor: posterior.mean.clone(), shifts: shifts.clone() },
            Recipe::HermiteDraws { posterior: Arc::clone(&posterior), shifts },
        ];
        if few.model().joint().is_none() {
            recipes.push(Recipe::Hermite { posterior, order: 3 });
        }
        for recipe in recipes {
            let named = format!("{} {}", family.name(), recipe.name());
            // The columns in f64 are those of the passes.
            let columns = recipe.columns(few.model()).unwrap();
            let length = recipe.coordinates();
            let sum: Vec<f64> = (0..length).map(|j| columns[j..].iter().step_by(length).sum()).collect();
            let norms: f64 = columns.chunks_exact(length).map(|column| dot(column, column).sqrt()).sum();
            let gather = Gather { recipe: Arc::new(recipe), seed: 1, count: 0, apart: 0 };
            let (one, two) = (few.gather(&gather).unwrap(), many.gather(&gather).unwrap());
            assert_close(&one.sum, &two.sum, 1e-9, &named);
            assert_close(&one.sum, &sum, 1e-9, &named);
            assert_close(&[one.norms, one.norms], &[two.norms, norms], 1e-9, &named);
            // Summed in f32, of which most is then taken away.
            assert_close(&one.dropped, &two.dropped, 1e-5, &named);
        }
    }
}

#[test]
fn an_exposure_is_the_offset_of_its_logarithm() {
    let n = 500;
    let exposure: Vec<f64> = (0..n).map(|i| 0.3 + (i % 9) as f64).collect();
    let logs: Vec<f64> = exposure.iter().map(|e| e.ln()).collect();
    for family in [BuiltIn::Poisson, BuiltIn::NegativeBinomial] {
        let bind = |rows: Observations| Memory::new(family.bind(rows, Numbers::default()).unwrap());
        let exposed = bind(rows(family, n, 3).with_exposure(exposure.clone()));
        let offset = bind(rows(family, n, 3).with_offset(logs.clone()));
        let prior = Prior::isotropic(exposed.dim(), 2.0).unwrap();
        let (one, two) = (fit(&exposed, &prior).posterior, fit(&offset, &prior).posterior);
        assert_close(&one.mean, &two.mean, 1e-9, family.name());
        assert!(kl_gaussian(&one, &two).unwrap() < 1e-12);
        let (posterior, shifts) = (Arc::new(one.clone()), one.shifts(50, 2, Stream::Build));
        let recipes = [
            Recipe::Hermite { posterior: Arc::clone(&posterior), order: 2 },
            Recipe::Draws { anchor: one.mean.clone(), shifts: shifts.clone() },
            Recipe::HermiteDraws { posterior, shifts },
        ];
        for recipe in recipes {
            let [one, two] = [&exposed, &offset].map(|rows| recipe.columns(rows.model()).unwrap());
            assert_close(&one, &two, 1e-10, &recipe.name());
        }
    }
}

#[test]
fn weights_and_offsets_are_checked() {
    let n = 20;
    let plain = || rows(BuiltIn::Logistic, n, 3);
    let with = |at: usize, value: f64| {
        let mut numbers = vec![1.0; n];
        numbers[at] = value;
        numbers
    };
    let bind = |rows: Observations| BuiltIn::Logistic.bind(rows, Numbers::default()).err().unwrap();
    assert_eq!(bind(plain().with_weights(with(3, 0.0))), ModelError::Weight { row: 3, value: 0.0 });
    assert_eq!(bind(plain().with_weights(with(4, -1.0))), ModelError::Weight { row: 4, value: -1.0 });
    let error = bind(plain().with_weights(with(5, f64::INFINITY)));
    assert_eq!(error.to_string(), "weight of row 5 is not finite (inf)");
    assert!(matches!(bind(plain().with_offset(with(6, f64::NAN))), ModelError::NotFinite { row: 6, .. }));
    assert!(matches!(bind(plain().with_offset(vec![0.0; 3])), ModelError::Length { got: 3, .. }));
    let identity: Vec<f64> = (0..9).map(|at| if at % 4 == 0 { 1.0 } else { 0.0 }).collect();
    let mean = |rows: Observations| GaussianMean::new(rows, &identity).err().unwrap().to_string();
    assert_eq!(mean(plain().with_weights(vec![1.0; n])), "a gaussian model takes no weights");
    assert_eq!(mean(plain().with_offset(vec![1.0; n])), "a gaussian model takes no offset");
    let classes = rows(BuiltIn::Softmax, n, 3).with_offset(vec![1.0; n]);
    let numbers = Numbers { classes: 3, ..Numbers::default() };
    let refused = BuiltIn::Softmax.bind(classes, numbers).err().unwrap().to_string();
    assert_eq!(refused, "a softmax model takes no offset");
}

/// Numbers without a pattern.
fn mixed(mut bits: u64) -> u64 {
    for _ in 0..2 {
        bits = (bits ^ (bits >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    bits
}

/// A table of few levels: three features, a class, a weight and an offset of each row.
fn table(n: usize) -> Table {
    let level = |i: usize, of: u64, count: u64| (mixed(i as u64 * 64 + of) >> 40) % count;
    let number = |name: &str, of: &dyn Fn(usize) -> f64| Column {
        name: name.to_owned(),
        values: Values::Number { values: (0..n).map(of).collect(), integer: false },
    };
    let [a, b, c] = [(3, 4), (5, 3), (11, 2)].map(|(of, count)| move |i: usize| level(i, of, count) as f64);
    let wins = |i: usize| {
        let eta = 0.5 * a(i) - 0.8 * b(i) + 0.4 * c(i);
        f64::from(u8::from((level(i, 9, 1000) as f64) < 1000.0 / (1.0 + (-eta).exp())))
    };
    let columns = vec![
        number("a", &a),
        number("b", &b),
        number("c", &c),
        number("y", &wins),
        number("f", &|i| (1 + i % 3) as f64),
        number("o", &|i| 0.25 * (i % 2) as f64),
    ];
    Table { source: "levels".to_owned(), columns, rows: n, own_target: None }
}

fn asked(weights: bool, offset: bool, collapse: bool, k: usize) -> Specification {
    let name = |on: bool, name: &str| on.then(|| name.to_owned());
    let unused = [(weights, "f"), (offset, "o")].into_iter().filter(|(on, _)| !on);
    let columns = Columns {
        weights: name(weights, "f"),
        offset: name(offset, "o"),
        exclude: unused.map(|(_, name)| name.to_owned()).collect(),
        ..Columns::predicting("y")
    };
    Specification {
        design: DesignOptions { columns, collapse, ..DesignOptions::default() },
        build: BuildSpecification { k: Some(k), ..BuildSpecification::default() },
        ..Specification::default()
    }
}

fn short() -> SampleSettings {
    SampleSettings { chains: 2, warmup: 400, draws: 500, ..SampleSettings::default() }
}

#[test]
fn weighted_rows_have_a_certified_coreset_that_is_read_back() {
    let source = Source::of_table(table(4000));
    let asked = asked(true, true, false, 60);
    let study = Study::open(&source, &asked).unwrap();
    assert_eq!(study.frame().names, ["a", "b", "c", "(intercept)"]);
    let chosen = study.build(&asked.build, &mut unheard).unwrap().unwrap();
    let coreset = chosen.coreset();
    assert!(chosen.evaluation.kl_forward.unwrap() < 1e-3, "{:?}", chosen.evaluation);
    // Counts of rows: their sum is nearly that of the weights, not their number.
    let total: f64 = chosen.weights.values().iter().sum();
    assert!((total / 8000.0 - 1.0).abs() < 0.2, "{total}");
    let (rows, weights) = (&coreset.rows, &chosen.weights);
    let again = study.evaluate(rows, weights, Choice::Auto, 0, &mut unheard).unwrap();
    let kl = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["kl_forward"].as_f64();
    let (built, read) = (kl(&chosen.summary.to_json().unwrap()), kl(&again.to_json().unwrap()));
    assert_close(&[built.unwrap()], &[read.unwrap()], 1e-6, "evaluated again");
    let weighted = study.weighted(rows, weights).unwrap();
    let drawn = study.sample(Some(&weighted), &short(), 1, &mut unheard).unwrap();
    assert_eq!(drawn.grade(), Some(Grade::A));

    // A user has the rows, the offsets and one column of weights: the same posterior, to rounding.
    let observations = Observations { weights: None, ..weighted.model().unwrap().observations().clone() };
    let model = study.resolved().bind(observations).unwrap();
    let plain =
        Weighted::fetch(&Memory::new(model), &(0..rows.len()).collect::<Vec<_>>(), weights.values()).unwrap();
    let prior = study.resolved().prior().unwrap();
    let (one, two) = (weighted.fit(&prior).unwrap().posterior, plain.fit(&prior).unwrap().posterior);
    assert!(kl_gaussian(&one, &two).unwrap() < 1e-12);

    let few = study.build(&BuildSpecification { k: Some(4), ..asked.build }, &mut unheard).unwrap().unwrap();
    let weighted = study.weighted(&few.coreset().rows, &few.weights).unwrap();
    let drawn = study.sample(Some(&weighted), &short(), 1, &mut unheard).unwrap();
    assert_ne!(drawn.grade(), Some(Grade::A));
}

#[test]
fn every_method_knows_weights() {
    let source = Source::of_table(table(1500));
    let asked = asked(true, true, false, 40);
    let study = Study::open(&source, &asked).unwrap();
    for method in ["uniform", "importance", "giga", "a-iht-2", "omp", "sparse-vi"] {
        let method = corelet::coreset::Selector::from_name(method).unwrap();
        let build = BuildSpecification { method, rounds: Some(1), ..asked.build.clone() };
        let build =
            if method.name() == "sparse-vi" { BuildSpecification { k: Some(3), ..build } } else { build };
        let chosen = study.build(&build, &mut unheard).unwrap().unwrap();
        let coreset = chosen.coreset();
        if method.name() == "uniform" {
            // n/k times the row's own weight, draws of the same row taken together.
            let own = |row: usize| (1 + row % 3) as f64;
            let each = coreset
                .rows
                .iter()
                .zip(chosen.weights.values())
                .map(|(&row, w)| w / own(row) / (1500.0 / 40.0));
            let draws: Vec<f64> = each.collect();
            assert!(draws.iter().all(|x| (x - x.round()).abs() < 1e-9 && *x >= 1.0 - 1e-9), "{draws:?}");
        }
        assert!(chosen.evaluation.heldout_nats.unwrap().is_finite(), "{}", method.name());
    }
}

/// Σ over distinct rows is Σ over all: the same fit, the same posterior, and where the points suffice nothing but rounding.
#[test]
fn collapsed_rows_are_all_rows() {
    let source = Source::of_table(table(4000));
    for (weights, offset) in [(false, false), (true, true)] {
        let all = Study::open(&source, &asked(weights, offset, false, 100)).unwrap();
        let asked = asked(weights, offset, true, 100);
        let few = Study::open(&source, &asked).unwrap();
        assert_eq!(
            (all.len(), few.all_rows(), few.frame().fingerprint.clone()),
            (4000, 4000, all.frame().fingerprint.clone())
        );
        let distinct = few.len();
        assert!(distinct < 100, "{distinct}");
        let (one, two) = (all.full(&mut unheard).unwrap(), few.full(&mut unheard).unwrap());
        assert_close(&one.posterior.mean, &two.posterior.mean, 1e-9, "fit");
        assert!(kl_gaussian(&one.posterior, &two.posterior).unwrap() < 1e-12);

        let chosen = few.build(&asked.build, &mut unheard).unwrap().unwrap();
        assert_eq!((chosen.coreset().rows.len(), chosen.coreset().method.as_str()), (distinct, "collapse"));
        assert!(chosen.evaluation.kl_forward.unwrap() < 1e-12, "{:?}", chosen.evaluation);
        let total: f64 = chosen.weights.values().iter().sum();
        assert!((total - if weights { 7999.0 } else { 4000.0 }).abs() < 1e-6, "{total}");
        let line = &chosen.summary.lines()[0];
        assert_eq!(
            *line,
            format!("{distinct} of 4 000 rows, {distinct} distinct, stand for all (collapse, exact)")
        );

        // The rows of the file and their weights, judged by a study that knows nothing of a collapse.
        let rows = few.frame().rows_of(&chosen.coreset().rows);
        let observations = all.frame().observations_of(&rows).unwrap();
        let weighted = all.weighted(&observations, &chosen.weights).unwrap();
        let drawn = all.sample(Some(&weighted), &short(), 3, &mut unheard).unwrap();
        assert_eq!(drawn.grade(), Some(Grade::A));
        let verdict = drawn.verdict.as_ref().unwrap();
        assert!(verdict.divergence.variance_upper < 1e-14, "{:?}", verdict.divergence);
        let headline = corelet::words::headline(verdict, distinct, 4000);
        assert!(headline.starts_with("A - exact: "), "{headline}");

        // Fewer points than distinct rows: chosen among these.
        let build = BuildSpecification { k: Some(30), ..asked.build.clone() };
        let chosen = few.build(&build, &mut unheard).unwrap().unwrap();
        assert!(chosen.coreset().rows.len() <= 30 && chosen.coreset().method == "pursuit");
        assert!(chosen.evaluation.kl_forward.unwrap() < 0.05);
        let tiny = BuildSpecification { k: Some(3), ..asked.build.clone() };
        let chosen = few.build(&tiny, &mut unheard).unwrap().unwrap();
        let weighted = few.weighted(&chosen.coreset().rows, &chosen.weights).unwrap();
        let drawn = few.sample(Some(&weighted), &short(), 3, &mut unheard).unwrap();
        assert_ne!(drawn.grade(), Some(Grade::A));
        // A row that is counted elsewhere says so.
        let merged = (0..4000).find(|row| few.frame().rows.observation(*row).is_none()).unwrap();
        let error = few.frame().observations_of(&[merged]).unwrap_err().to_string();
        assert!(error.contains("equal to an earlier row"), "{error}");
    }
}

/// The prior of a linear model has the scale of its target, which is that of all rows.
#[test]
fn collapse_leaves_the_prior_alone() {
    let source = Source::of_table(table(900));
    let open = |collapse: bool| {
        let asked = asked(false, true, collapse, 50);
        let design = DesignOptions { standardise: Standardise::Scale, ..asked.design };
        let model = ModelSpecification { model: BuiltIn::Linear, ..ModelSpecification::default() };
        Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap()
    };
    let (all, few) = (open(false), open(true));
    assert_eq!(all.resolved(), few.resolved());
    let [one, two] = [&all, &few].map(|study| study.full(&mut unheard).unwrap().posterior.clone());
    assert!(kl_gaussian(&one, &two).unwrap() < 1e-12);
}

#[test]
fn columns_in_these_roles_are_checked() {
    let open = |change: &dyn Fn(&mut Table, &mut Specification)| {
        let (mut table, mut asked) = (table(200), asked(true, true, false, 20));
        change(&mut table, &mut asked);
        asked.check().map_err(|error| error.to_string())?;
        let study = Study::open(&Source::of_table(table), &asked);
        study.map(|study| study.warnings()).map_err(|error| error.to_string())
    };
    let cell = |table: &mut Table, column: usize, row: usize, cell: f64| {
        if let Values::Number { values, .. } = &mut table.columns[column].values {
            values[row] = cell;
        }
    };
    assert!(open(&|_, _| {}).unwrap().is_empty());
    let error = open(&|table, _| cell(table, 4, 17, 0.0)).unwrap_err();
    assert!(error.contains("levels") && error.contains("'f'") && error.contains("row 17"), "{error}");
    assert!(open(&|table, _| cell(table, 4, 9, -2.0)).unwrap_err().contains("the weights"));
    let error = open(&|table, _| cell(table, 4, 8, f64::INFINITY)).unwrap_err();
    assert!(error.contains("'f'") && error.contains("row 8"), "{error}");
    let error = open(&|table, _| cell(table, 5, 7, f64::NEG_INFINITY)).unwrap_err();
    assert!(error.contains("'o'") && error.contains("row 7"), "{error}");
    let error = open(&|table, _| cell(table, 4, 8, f64::NAN)).unwrap_err();
    assert!(error.contains("1 in 'f'"), "{error}");
    let error = open(&|_, asked| asked.design.columns.weights = Some("g".into())).unwrap_err();
    assert!(error.contains("no column 'g'"), "{error}");
    let error = open(&|_, asked| asked.design.columns.offset = Some("f".into())).unwrap_err();
    assert!(error.contains("'f' is the weights and the offset at once"), "{error}");
    for (model, setting) in [("gaussian", "weights"), ("gaussian", "offset"), ("gaussian", "collapse")] {
        let error = open(&|_, asked| {
            asked.model.model = model.parse().unwrap();
            asked.design.columns = Columns { target: None, ..Columns::default() };
            match setting {
                "weights" => asked.design.columns.weights = Some("f".into()),
                "offset" => asked.design.columns.offset = Some("o".into()),
                _ => asked.design.collapse = true,
            }
        });
        assert!(error.unwrap_err().starts_with(&format!("{setting} is for model")));
    }
    let error = open(&|_, asked| {
        asked.design.columns.groups = Some("a".into());
        asked.design.collapse = true;
    });
    assert_eq!(error.unwrap_err(), "groups and collapse do not go together");
    let shares = open(&|table, _| (0..200).for_each(|row| cell(table, 4, row, 0.005 + 1e-6 * row as f64)));
    assert!(shares.unwrap()[0].contains("survey weights should be divided by their mean"));
}
