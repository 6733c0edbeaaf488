//! Weights that are counts: the model of the rows that they stand for, from standardisation and priors to the posterior.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use common::observations;
use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::{Density, kl_gaussian};
use corelet::study::{BuildSpecification, ModelSpecification, Priors, Specification, Study, unheard};

/// Numbers, a flag and text, a target of every kind, and counts that depend on all of them: the level and the class that most rows
/// have are not those with the largest weight.
fn table(n: usize) -> Table {
    let rows = observations(n, 4, 31, |eta, noise| eta + 0.6 * noise);
    let cell = |i: usize, j: usize| (f64::from(rows.row(i)[j]) * 16.0).round() / 16.0;
    let number =
        |of: &dyn Fn(usize) -> f64| Values::Number { values: (0..n).map(of).collect(), integer: false };
    let codes: Vec<u32> = (0..n).map(|i| [0, 0, 0, 1, 1, 2][i % 6]).collect();
    let kind = |i: usize| (1.0 + rows.target[i]).round().clamp(0.0, 2.0);
    let times =
        |i: usize| 1.0 + f64::from(8 * codes[i] * codes[i]) + 30.0 * f64::from(u8::from(kind(i) > 1.0));
    let columns = [
        ("a", number(&|i| 40.0 + 3.0 * cell(i, 0))),
        ("b", number(&|i| cell(i, 1) + 0.5 * cell(i, 0))),
        ("flag", Values::Bool((0..n).map(|i| Some(i % 5 == 0 || cell(i, 2) > 1.0)).collect())),
        (
            "word",
            Values::Text { codes: codes.clone(), levels: ["left", "right", "up"].map(String::from).to_vec() },
        ),
        ("size", number(&|i| 100.0 + 7.0 * rows.target[i])),
        ("class", number(&|i| f64::from(u8::from(rows.target[i] > 0.1)))),
        ("kind", number(&kind)),
        ("times", number(&times)),
    ];
    let columns = columns.into_iter().map(|(name, values)| Column { name: name.to_owned(), values });
    Table::new("counts", columns.collect()).unwrap()
}

/// Each row as often as its count says.
fn repeated(table: &Table) -> Table {
    let Values::Number { values: times, .. } = &table.columns[7].values else { panic!("counts are numbers") };
    fn each<T: Clone>(values: &[T], times: &[f64]) -> Vec<T> {
        values.iter().zip(times).flat_map(|(x, &f)| std::iter::repeat_n(x.clone(), f as usize)).collect()
    }
    let column = |column: &Column| {
        let values = match &column.values {
            Values::Number { values, integer } => {
                Values::Number { values: each(values, times), integer: *integer }
            }
            Values::Bool(values) => Values::Bool(each(values, times)),
            Values::Text { codes, levels } => {
                Values::Text { codes: each(codes, times), levels: levels.clone() }
            }
        };
        Column { name: column.name.clone(), values }
    };
    Table::new("repeated", table.columns.iter().map(column).collect()).unwrap()
}

/// Something else that is asked.
type Change<'a> = &'a dyn Fn(&mut Specification);

/// The counts multiplied by this.
fn in_units(mut table: Table, unit: f64) -> Table {
    if let Values::Number { values, .. } = &mut table.columns[7].values {
        values.iter_mut().for_each(|weight| *weight *= unit);
    }
    table
}

fn asked(model: BuiltIn, target: &str, weights: bool) -> Specification {
    let columns = Columns {
        features: Some(["a", "b", "flag", "word"].map(String::from).to_vec()),
        weights: weights.then(|| "times".to_owned()),
        ..Columns::predicting(target)
    };
    Specification {
        design: DesignOptions { columns, ..DesignOptions::default() },
        model: ModelSpecification { model, ..ModelSpecification::default() },
        build: BuildSpecification { k: Some(60), ..BuildSpecification::default() },
        ..Specification::default()
    }
}

fn open(table: &Table, asked: &Specification) -> Study {
    asked.check().unwrap();
    Study::open(&Source::of_view(table.view()), asked).unwrap()
}

fn assert_close(one: &[f64], other: &[f64], relative: f64, named: &str) {
    assert_eq!(one.len(), other.len(), "{named}");
    for (a, b) in one.iter().zip(other) {
        assert!((a - b).abs() <= relative * a.abs().max(1e-3), "{named}: {a} and {b}");
    }
}

fn assert_same_design(one: &Study, other: &Study, named: &str) {
    let [a, b] = [one, other].map(|study| &study.frame().standardisation);
    assert_eq!(
        (&one.frame().names, &one.frame().classes),
        (&other.frame().names, &other.frame().classes),
        "{named}"
    );
    assert_eq!(one.frame().levels, other.frame().levels, "{named}");
    assert_eq!((a.intercept, &a.columns), (b.intercept, &b.columns), "{named}");
    for (a, b) in [(&a.means, &b.means), (&a.scale, &b.scale), (&a.factor, &b.factor)] {
        assert_close(a, b, 1e-9, named);
    }
    let [a, b] = [one, other].map(|study| &study.resolved().priors);
    for (a, b) in a.iter().zip(b) {
        let numbers = |density: &Density| [density.mean(), density.scale()];
        assert_close(&numbers(a), &numbers(b), 1e-9, named);
    }
}

#[test]
fn counts_are_the_rows_that_they_stand_for() {
    let table = table(300);
    let all = repeated(&table);
    let with = |asked: Specification, change: Change<'_>| {
        let mut asked = asked;
        change(&mut asked);
        asked
    };
    let auto = |asked: &mut Specification| asked.model.priors = Some(Priors::auto());
    let changes: [(&str, Change<'_>); 5] = [
        ("as it is", &|_| {}),
        ("auto", &auto),
        ("whiten", &|asked| asked.design.standardise = Standardise::Whiten),
        ("no intercept", &|asked| asked.design.intercept = false),
        ("collapse", &|asked| asked.design.collapse = true),
    ];
    let models = [(BuiltIn::Linear, "size"), (BuiltIn::Logistic, "class"), (BuiltIn::Softmax, "kind")];
    for (model, target) in models {
        for (what, change) in changes {
            let named = format!("{model} {what}");
            let counted = open(&table, &with(asked(model, target, true), change));
            let plain = open(&all, &with(asked(model, target, false), change));
            assert_same_design(&counted, &plain, &named);
            let [one, two] = [&counted, &plain].map(|study| &study.full(&mut unheard).unwrap().posterior);
            assert!(kl_gaussian(one, two).unwrap() < 1e-8, "{named}: {:?}", kl_gaussian(one, two));
        }
    }
    let study = open(&table, &asked(BuiltIn::Softmax, "kind", true));
    let base = (study.frame().levels[0].base.as_str(), study.frame().classes[0].as_str());
    let unweighted = open(&table, &asked(BuiltIn::Softmax, "kind", false));
    let by_rows = (unweighted.frame().levels[0].base.as_str(), unweighted.frame().classes[0].as_str());
    assert_eq!((base, by_rows), (("up", "2"), ("left", "1")));
}

/// The unit of survey weights moves neither the standardisation nor a default prior, nor do weights that are all the same.
#[test]
fn survey_weights_have_no_unit() {
    let table = in_units(table(300), 0.3);
    let asked = asked(BuiltIn::Linear, "size", true);
    let one = open(&table, &asked);
    for unit in [1e-3, 0.7, 1e5 / 3.0] {
        assert_same_design(&one, &open(&in_units(table.clone(), unit), &asked), &format!("{unit}"));
    }
    let mut same = table;
    if let Values::Number { values, .. } = &mut same.columns[7].values {
        values.fill(0.4);
    }
    let plain = Specification {
        design: DesignOptions {
            columns: Columns { weights: None, ..asked.design.columns.clone() },
            ..asked.design.clone()
        },
        ..asked.clone()
    };
    assert_same_design(&open(&same, &asked), &open(&same, &plain), "equal weights");
}
