//! From tables to design matrices: coding, standardisation, and everything that is refused.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::fs;
use std::path::Path;

use common::{assert_refused, of_file, options, table};
use corelet_data::{
    Column, ColumnView, Columns, DataError, Dataset, DesignOptions, Numbers, Outcome, Source, Standardise,
    Strided, Table, TableView, Values, ValuesView, design, design_view, read,
};

fn column(dataset: &Dataset, name: &str) -> Vec<f64> {
    let j = dataset.names.iter().position(|other| other == name).unwrap();
    (0..dataset.observations.len()).map(|i| dataset.observations.row(i)[j].into()).collect()
}

/// Three correlated features and a target, made by a small generator.
fn correlated(rows: usize) -> Table {
    let mut state = 7u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut columns = vec![Vec::new(); 4];
    for _ in 0..rows {
        let (a, b, c) = (uniform(), uniform(), uniform());
        let row = [10.0 + a, 3.0 * a - b, 100.0 * c + b, 2.0 * a - c];
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    let named = ["a", "b", "c", "y"].into_iter().zip(columns).map(|(name, values)| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    });
    Table::new("generated", named.collect()).unwrap()
}

#[test]
fn text_becomes_indicators_of_the_most_frequent_level() {
    let text =
        "late,origin,wet\ntrue,JFK,true\nfalse,EWR,false\ntrue,LGA,false\nfalse,EWR,true\ntrue,JFK,false\n";
    let options = DesignOptions { standardise: Standardise::None, ..options(Outcome::Classes, "late") };
    let dataset = design(&table(text), &options).unwrap();
    assert_eq!(dataset.names, ["origin=JFK", "origin=LGA", "wet", "(intercept)"]);
    assert_eq!(dataset.levels[0].base, "EWR");
    assert_eq!(dataset.levels[0].levels, ["JFK", "LGA"]);
    assert_eq!(column(&dataset, "origin=JFK"), [1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(column(&dataset, "wet"), [1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(column(&dataset, "(intercept)"), [1.0; 5]);
    assert_eq!(dataset.observations.target[..], [1.0, -1.0, 1.0, -1.0, 1.0]);
    assert_eq!(dataset.target_name.as_deref(), Some("late"));
}

#[test]
fn missing_rows_are_refused_or_dropped() {
    let text = "y,a,b\n1,1,\n0,NA,2\n1,3,5\n,4,6\n0,7,9\n1,8,1\n";
    let mut options = options(Outcome::Classes, "y");
    let parts = ["3 of 6 rows", "1 in 'a', 1 in 'b', 1 in 'y'"];
    assert_refused(text, &options, &parts);
    options.drop_missing = true;
    let dataset = design(&table(text), &options).unwrap();
    assert_eq!((dataset.dropped, dataset.rows.iter().collect::<Vec<_>>()), (3, vec![2, 4, 5]));
    // A column that is not used may have as many gaps as it likes.
    options = DesignOptions {
        drop_missing: true,
        columns: Columns { features: Some(vec!["a".into()]), ..options.columns },
        ..options
    };
    assert_eq!(design(&table(text), &options).unwrap().dropped, 2);
}

#[test]
fn scaling_gives_unit_moments() {
    let dataset = design(&correlated(500), &options(Outcome::Number, "y")).unwrap();
    for name in ["a", "b", "c"] {
        let values = column(&dataset, name);
        let mean = values.iter().sum::<f64>() / 500.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 499.0;
        // In f64; kept in f32.
        assert!(mean.abs() < 1e-8 && (variance - 1.0).abs() < 1e-8, "{name}: {mean} {variance}");
    }
    assert!(dataset.warnings.is_empty());
}

#[test]
fn whitening_gives_the_identity() {
    let whiten = DesignOptions { standardise: Standardise::Whiten, ..options(Outcome::Number, "y") };
    let dataset = design(&correlated(500), &whiten).unwrap();
    for (i, first) in ["a", "b", "c"].iter().enumerate() {
        for (j, second) in ["a", "b", "c"].iter().enumerate() {
            let (u, v) = (column(&dataset, first), column(&dataset, second));
            let covariance = u.iter().zip(&v).map(|(u, v)| u * v).sum::<f64>() / 499.0;
            assert!((covariance - f64::from(i == j)).abs() < 1e-8, "{first} {second}: {covariance}");
        }
    }
    assert_eq!(column(&dataset, "(intercept)"), [1.0; 500]);
}

#[test]
fn parameters_map_back_to_the_original_scale() {
    let table = correlated(200);
    let raw = |intercept| {
        let plain =
            DesignOptions { standardise: Standardise::None, intercept, ..options(Outcome::Number, "y") };
        design(&table, &plain).unwrap()
    };
    for standardise in [Standardise::None, Standardise::Scale, Standardise::Whiten] {
        for intercept in [true, false] {
            let options = DesignOptions { standardise, intercept, ..options(Outcome::Number, "y") };
            let (dataset, raw) = (design(&table, &options).unwrap(), raw(intercept));
            let theta: Vec<f64> = (0..dataset.names.len()).map(|j| 0.7 - 0.4 * j as f64).collect();
            let original = dataset.standardisation.to_original(&theta);
            for i in 0..200 {
                let dot = |x: &[f64], t: &[f64]| x.iter().zip(t).map(|(x, t)| x * t).sum::<f64>();
                let (here, there) = (
                    dot(&dataset.observations.wide_row(i), &theta),
                    dot(&raw.observations.wide_row(i), &original),
                );
                assert!((here - there).abs() < 1e-5, "{standardise:?} {intercept}: {here} {there}");
                let mut row = raw.observations.wide_row(i);
                dataset.standardisation.apply(&mut row);
                let same =
                    row.iter().zip(dataset.observations.wide_row(i)).all(|(u, v)| (u - v).abs() < 1e-5);
                assert!(same, "{standardise:?} {intercept} {i}");
            }
        }
    }
}

#[test]
fn points_map_back_to_the_original_scale() {
    let table = correlated(50);
    for standardise in [Standardise::None, Standardise::Scale, Standardise::Whiten] {
        let features = Some(["a", "b", "c"].map(str::to_owned).to_vec());
        let gaussian = DesignOptions {
            outcome: Outcome::None,
            columns: Columns { features, ..Columns::default() },
            ..DesignOptions::default()
        };
        let of = |standardise| DesignOptions { standardise, ..gaussian.clone() };
        let (dataset, raw) = (design(&table, &of(standardise)), design(&table, &of(Standardise::None)));
        let (dataset, raw) = (dataset.unwrap(), raw.unwrap());
        assert_eq!(dataset.names, ["a", "b", "c"]);
        assert!(dataset.observations.target.is_empty());
        for i in 0..50 {
            let back = dataset.standardisation.point_to_original(&dataset.observations.wide_row(i));
            let same = back.iter().zip(raw.observations.wide_row(i)).all(|(u, v)| (u - v).abs() < 1e-5);
            assert!(same, "{standardise:?} {i}");
        }
    }
}

#[test]
fn a_constant_column_is_the_intercept() {
    let options = options(Outcome::Number, "y");
    let dataset = design(&table("y,one,a\n1,1,2\n2,1,3\n3,1,5\n"), &options).unwrap();
    assert_eq!(dataset.names, ["one", "a"]);
    assert_eq!(column(&dataset, "one"), [1.0; 3]);
    assert!(dataset.warnings.is_empty());
    let year = design(&table("y,year,a\n1,2013,2\n2,2013,3\n3,2013,5\n"), &options).unwrap();
    assert_eq!(year.standardisation.intercept, Some((0, 2013.0)));
    assert!(year.warnings[0].contains("'year' is 2013"), "{:?}", year.warnings);
}

#[test]
fn other_constant_columns_are_left_out_with_a_word() {
    let options = options(Outcome::Number, "y");
    for (text, names, parts) in [
        ("y,two,one,a\n1,2,1,2\n2,2,1,3\n3,2,1,5\n4,2,1,6\n", ["one", "a"], ["'two'", "value, 2,"]),
        ("y,a,zero\n1,1,0\n2,2,0\n3,4,0\n", ["a", "(intercept)"], ["'zero'", "value, 0,"]),
        ("y,a,t\n1,1,u\n2,2,u\n3,4,u\n", ["a", "(intercept)"], ["'t'", "'u'"]),
        ("y,t,a\n1,true,1\n2,true,2\n3,true,4\n", ["a", "(intercept)"], ["'t'", "value, 1,"]),
    ] {
        let dataset = design(&table(text), &options).unwrap();
        assert_eq!(dataset.names, names);
        let warning = dataset.warnings.last().unwrap();
        assert!(
            parts.iter().all(|part| warning.contains(part)) && warning.ends_with("was left out"),
            "{warning}"
        );
    }
    assert_refused("y,a\n1,7\n2,7\n3,7\n", &options, &["no feature"]);
}

#[test]
fn the_added_intercept_has_a_name_of_its_own() {
    let dataset = design(&table("y,(intercept)\n1,1\n2,2\n3,4\n"), &options(Outcome::Number, "y")).unwrap();
    assert_eq!(dataset.names, ["(intercept)", "added (intercept)"]);
}

#[test]
fn columns_can_be_excluded_or_taken_as_categories() {
    let text = "y,id,zip,a\n1,1,7,2\n2,2,7,3\n3,3,8,5\n4,4,9,6\n";
    let some = DesignOptions {
        categories: vec!["zip".to_owned()],
        columns: Columns { exclude: vec!["id".to_owned()], ..options(Outcome::Number, "y").columns },
        ..options(Outcome::Number, "y")
    };
    assert_eq!(design(&table(text), &some).unwrap().names, ["zip=8", "zip=9", "a", "(intercept)"]);
    let unknown = DesignOptions {
        columns: Columns { exclude: vec!["ID".to_owned()], ..some.clone().columns },
        ..some.clone()
    };
    assert_refused(text, &unknown, &["no column 'ID'"]);
    let target = DesignOptions { columns: Columns { exclude: vec!["y".to_owned()], ..some.columns }, ..some };
    assert_refused(text, &target, &["'y' is left out and the target"]);
}

/// n numbers in a column `a`, the cell of one row replaced.
fn nearly_numeric(n: usize, row: usize, cell: &str) -> String {
    let rows = (0..n).map(|i| {
        let a = if i == row { cell.to_owned() } else { format!("{}", (i * 37) % 101) };
        format!("{},{a}\n", i % 2)
    });
    format!("y,a\n{}", rows.collect::<String>())
}

#[test]
fn numbers_with_a_few_other_cells_are_refused_by_row_and_cell() {
    for cell in ["N/A", "?", "-"] {
        let text = nearly_numeric(500, 321, cell);
        let plain = options(Outcome::Classes, "y");
        assert_refused(
            &text,
            &plain,
            &["'a'", "row 321 (line 323)", &format!("'{cell}'"), "(1 cell is not)"],
        );
        let error = of_file(&text, &plain).unwrap_err();
        assert_eq!(error.hint().unwrap().setting, "missing");
        let missing = DesignOptions { missing: vec![cell.to_owned()], drop_missing: true, ..plain.clone() };
        let dataset = of_file(&text, &missing).unwrap();
        assert_eq!((dataset.dropped, dataset.names.len()), (1, 2));
        let categories = DesignOptions { categories: vec!["a".to_owned()], ..plain };
        assert_eq!(of_file(&text, &categories).unwrap().names.len(), 102);
    }
    // Half of the cells are words: that is a category.
    let mixed: String = (0..60).map(|i| format!("{},{}\n", i % 2, ["1", "2", "x", "z"][i % 4])).collect();
    assert_eq!(
        design(&table(&format!("y,a\n{mixed}")), &options(Outcome::Classes, "y")).unwrap().names.len(),
        4
    );
}

#[test]
fn decimal_commas_are_named() {
    let rows: String = (0..50).map(|i| format!("{}\t{},5\n", i % 2, i)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.tsv");
    fs::write(&path, format!("y\ta\n{rows}")).unwrap();
    let message =
        Source::open(&path, None).unwrap().design(&options(Outcome::Classes, "y")).unwrap_err().to_string();
    assert!(message.contains("'a', row 0 (line 2): '0,5' has a decimal comma"), "{message}");
}

#[test]
fn collinear_columns_warn_or_fail() {
    let text = "y,a,b,sum\n1,1,7,8\n2,2,3,5\n3,4,4,8\n4,9,1,10\n5,3,3,6\n";
    let scale = options(Outcome::Number, "y");
    let dataset = design(&table(text), &scale).unwrap();
    assert_eq!(dataset.warnings.len(), 1);
    assert!(dataset.warnings[0].contains("2 of 3 features are independent"), "{:?}", dataset.warnings);
    // All levels of a category sum to the intercept, and are independent where there is none.
    let levels = table("y,a,b\n1,1,0\n2,0,1\n3,1,0\n4,0,1\n5,1,0\n");
    let dataset = design(&levels, &scale).unwrap();
    assert!(dataset.warnings[0].contains("1 of 2 features are independent"), "{:?}", dataset.warnings);
    let without = DesignOptions { intercept: false, ..scale.clone() };
    assert!(design(&levels, &without).unwrap().warnings.is_empty());
    let whiten = DesignOptions { standardise: Standardise::Whiten, ..scale };
    assert_refused(text, &whiten, &["linear combinations"]);
    // Shifted copies are only collinear where an intercept, or centring, takes up the shift.
    let shifted = "y,a,b\n1,1,6\n2,2,7\n3,4,9\n4,9,14\n";
    let none = DesignOptions { standardise: Standardise::None, ..options(Outcome::Number, "y") };
    assert_eq!(design(&table(shifted), &none).unwrap().warnings.len(), 1);
    let through_zero = DesignOptions { intercept: false, ..none };
    assert!(design(&table(shifted), &through_zero).unwrap().warnings.is_empty());
}

#[test]
fn tables_of_the_wrong_shape() {
    let linear = options(Outcome::Number, "y");
    assert_refused("y,a\n1,1\n", &linear, &["1 usable row,", "at least 2"]);
    assert_refused("y,a\n", &linear, &["0 usable rows"]);
    assert_refused("y,a,b,c\n1,1,5,2\n2,2,4,9\n", &linear, &["more features (3) than rows (2)"]);
    let text_columns = "y,t,a,b\n1,u,3,4\n2,v,5,7\n3,w,1,9\n";
    assert_refused(text_columns, &linear, &["(4) than rows (3)", "2 of them from text column 't'"]);
    assert_refused("y\n1\n2\n3\n", &linear, &["no feature"]);
    let plain = DesignOptions { standardise: Standardise::None, ..linear.clone() };
    let uncentred = DesignOptions { intercept: false, ..linear.clone() };
    for far in [&plain, &uncentred] {
        let blurred = ["'a'", "around 1.0e9", "single precision"];
        assert_refused("y,a\n1,1000000001\n2,1000000002\n3,1000000004\n", far, &blurred);
    }
    assert_refused("y,a\n1,1e40\n2,2e40\n3,4e40\n", &plain, &["'a'", "single precision"]);
    assert!(design(&table("y,a\n1,1999\n2,2007\n3,2024\n"), &plain).is_ok());
    assert!(design(&table("y,a\n1,1000000001\n2,1000000002\n3,1000000004\n"), &linear).is_ok());
    assert_refused("y,a\n1,1e200\n2,-1e200\n3,4\n", &linear, &["'a'", "range too large"]);
    assert_refused("y,a\n1,1e-310\n2,2e-310\n3,4e-310\n", &linear, &["'a'", "range too small"]);
    let text = "y,a\n1,1\n2,2\n3,5\n";
    assert_refused(text, &options(Outcome::Number, "z"), &["no column 'z'", "'y', 'a'"]);
    assert_refused(text, &DesignOptions::default(), &["no column to predict", "'y', 'a'"]);
    let with = |features: &[&str]| DesignOptions {
        columns: Columns {
            features: Some(features.iter().map(|&name| name.to_owned()).collect()),
            ..options(Outcome::Number, "y").columns
        },
        ..options(Outcome::Number, "y")
    };
    assert_refused(text, &with(&["a", "y"]), &["'y' is the target and a feature"]);
    assert_refused(text, &with(&["a", "a"]), &["'a' is a feature and a feature"]);
    assert_refused(text, &with(&["q"]), &["no column 'q'"]);
    let keys: String = (0..1500).map(|i| format!("{i},k{i}\n")).collect();
    assert_refused(&format!("y,key\n{keys}"), &linear, &["'key'", "more than 1000 distinct"]);
}

#[test]
fn options_read_from_partial_text() {
    let options: DesignOptions =
        serde_json::from_str(r#"{"standardise": "whiten", "columns": {"target": "y"}}"#).unwrap();
    assert_eq!(
        options,
        DesignOptions { standardise: Standardise::Whiten, ..self::options(Outcome::default(), "y") }
    );
    for unknown in [r#"{"intercpt": true}"#, r#"{"columns": {"tarjet": "y"}}"#] {
        assert!(serde_json::from_str::<DesignOptions>(unknown).is_err());
    }
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let table = correlated(20_000);
    let whiten = DesignOptions { standardise: Standardise::Whiten, ..options(Outcome::Number, "y") };
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| design(&table, &whiten).unwrap().observations)
    };
    assert_eq!(with_threads(1), with_threads(3));
}

fn real(folder: &Path, name: &str) -> Table {
    read(&folder.join(name), None).unwrap()
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn real_data_of_flights() {
    let folder = common::data_folder();
    let flights = real(&folder, "flights.parquet");
    let mut late = options(Outcome::Classes, "late");
    let message = design(&flights, &late).unwrap_err().to_string();
    assert!(message.contains("of 327346 rows have missing values"), "{message}");
    late.drop_missing = true;
    let dataset = design(&flights, &late).unwrap();
    println!("{} rows dropped, {:?}, {:?}", dataset.dropped, dataset.names, dataset.warnings);
    assert_eq!(dataset.observations.len() + dataset.dropped, 327_346);
    assert!(dataset.names.iter().any(|name| name.starts_with("carrier=")));
    assert!(dataset.observations.features.iter().all(|value| value.is_finite()));
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn real_data_of_phishing_are_collinear() {
    let folder = common::data_folder();
    let phishing = real(&folder, "phishing.libsvm");
    let dataset = design(&phishing, &DesignOptions::default()).unwrap();
    assert_eq!(dataset.names.len(), 69);
    // Rank 39 with the constant, 38 about the mean.
    assert!(dataset.warnings[0].contains("38 of 68"), "{:?}", dataset.warnings);
    let whiten = DesignOptions { standardise: Standardise::Whiten, ..DesignOptions::default() };
    assert!(design(&phishing, &whiten).unwrap_err().to_string().contains("linear combinations"));
}

#[test]
#[ignore = "needs the real data in the folder that CORELET_DATA names"]
fn real_data_in_archives_keep_their_intercept() {
    let folder = common::data_folder();
    let logistic = ["synth_lr", "phishing", "ds1", "synth_lr_large", "phishing_large"];
    let poisson = ["synth_poiss", "biketrips", "airportdelays", "synth_poiss_large"];
    let outcomes = logistic.map(|name| (name, Outcome::Classes)).into_iter();
    for (name, outcome) in outcomes.chain(poisson.map(|name| (name, Outcome::Count))) {
        for standardise in [Standardise::None, Standardise::Scale, Standardise::Whiten] {
            let options = DesignOptions { outcome, standardise, ..DesignOptions::default() };
            let table = real(&folder, &format!("{name}.npz"));
            let dataset = design(&table, &options).unwrap();
            let last = table.columns.len() - 2;
            assert_eq!(dataset.standardisation.intercept, Some((last, 1.0)), "{name}");
            assert_eq!(dataset.names.len(), last + 1);
        }
    }
}

#[test]
fn borrowed_columns_of_a_matrix_make_the_same_design() {
    let (n, width) = (50, 3);
    let entry = |i: usize, j: usize| ((i * (7 + j)) % 11) as f64 + 0.5 * j as f64;
    let matrix: Vec<f64> = (0..n * width).map(|at| entry(at / width, at % width)).collect();
    let single: Vec<f32> = matrix.iter().map(|&x| x as f32).collect();
    let labels: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i % 3 == 0))).collect();
    let names = ["a", "b", "c", "y"];
    let owned: Vec<Column> = (0..width)
        .map(|j| (0..n).map(|i| entry(i, j)).collect::<Vec<f64>>())
        .chain([labels.clone()])
        .zip(names)
        .map(|(values, name)| Column { name: name.into(), values: Values::Number { values, integer: false } })
        .collect();
    let options = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
    let expected = design(&Table::new("t", owned).unwrap(), &options).unwrap();

    let view = |numbers: Vec<Numbers<'_>>| {
        let target = Numbers::Double(Strided::contiguous(&labels));
        let columns = numbers
            .into_iter()
            .chain([target])
            .zip(names)
            .map(|(values, name)| ColumnView { name, values: ValuesView::Number { values, integer: false } });
        design_view(&TableView::new("t", columns.collect()).unwrap(), &options).unwrap()
    };
    let doubles = view((0..width).map(|j| Numbers::Double(Strided::column(&matrix, j, width))).collect());
    let singles = view((0..width).map(|j| Numbers::Single(Strided::column(&single, j, width))).collect());
    for found in [doubles, singles] {
        assert_eq!(found.observations, expected.observations);
        assert_eq!((found.names, found.rows), (expected.names.clone(), expected.rows.clone()));
    }
}

#[test]
fn bad_borrowed_columns_are_refused() {
    let numbers = |values| ValuesView::Number { values: Numbers::Double(values), integer: false };
    let column = |name, values| ColumnView { name, values };
    let infinite =
        TableView::new("t", vec![column("a", numbers(Strided::contiguous(&[1.0, f64::INFINITY])))]);
    assert!(infinite.unwrap_err().to_string().contains("'a', row 1: inf"));
    let short = vec![
        column("a", numbers(Strided::contiguous(&[1.0, 2.0]))),
        column("b", numbers(Strided::column(&[1.0, 2.0], 1, 2))),
    ];
    assert!(matches!(TableView::new("t", short), Err(DataError::ColumnLength { found: 1, expected: 2, .. })));
    let levels = ["x".to_owned()];
    let unknown = vec![column("a", ValuesView::Text { codes: &[0, 7], levels: &levels })];
    assert!(TableView::new("t", unknown).unwrap_err().to_string().contains("level 7"));
}
