//! Groups of rows: their columns against brute force, their coresets against those of rows, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;

use corelet::coreset::{
    BuildError, BuildOptions, Coreset, RoundOptions, Selector, build_in_rounds, build_of_groups,
};
use corelet::data::{Column, Columns, DataError, DesignOptions, Groups, Source, Table, Values};
use corelet::embed::{Choice, embed};
use corelet::generate;
use corelet::model::Logistic;
use corelet::posterior::{Laplace, LaplaceSettings, Prior, laplace};
use corelet::rows::{All, GroupsAtHand, Memory, Problem};
use corelet::sparse_vi::SparseViSettings;
use corelet::study::{BuildSpecification, Specification, Study, StudyError, UsageError, unheard};
use corelet::trust::Grade;
use sparse_nnls::{Dictionary, Info, Method};

struct Fit {
    rows: Memory,
    prior: Prior,
    laplace: Laplace,
}

fn logistic(n: usize) -> Fit {
    let model = Logistic::model(generate::logistic_paper(n, 7)).unwrap();
    let rows = Memory::new(std::sync::Arc::new(model));
    let prior = Prior::isotropic(3, 1.0).unwrap();
    let laplace = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    Fit { rows, prior, laplace }
}

/// Groups of different sizes whose rows are not neighbours, one of them a quarter of all rows.
fn scattered(n: usize) -> Groups {
    let name = |i: usize| if i % 4 == 1 { "large".to_owned() } else { (i * i % 37).to_string() };
    Groups::of_names(&(0..n).map(name).collect::<Vec<_>>())
}

fn go_on(_: &Info) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn of_groups(fit: &Fit, groups: &Groups, options: &BuildOptions) -> Result<Coreset, BuildError> {
    let posterior = &fit.laplace.posterior;
    let groups = at_hand(fit, groups);
    let built = build_of_groups(&fit.rows, &groups, posterior, options, &mut go_on)?;
    let of_rows = built.groups.unwrap();
    assert!(
        built.coreset.rows.iter().zip(of_rows).all(|(row, group)| group_of(groups.groups(), *row) == group)
    );
    Ok(built.coreset)
}

fn at_hand(fit: &Fit, groups: &Groups) -> GroupsAtHand {
    GroupsAtHand::new(fit.rows.model().clone(), 0, groups.clone())
}

fn group_of(groups: &Groups, row: usize) -> usize {
    (0..groups.len()).find(|&group| groups.members(group).contains(&row)).unwrap()
}

#[test]
fn the_column_of_a_group_is_the_sum_of_its_rows() {
    let (n, fit) = (3000, logistic(3000));
    let groups = scattered(n);
    for choice in [Choice::Hermite(3), Choice::Draws(50), Choice::HermiteDraws(40)] {
        let embedding = embed(&fit.rows, &fit.laplace.posterior, choice, 20, 0).unwrap();
        let grouped = embedding.grouped(&at_hand(&fit, &groups)).unwrap();
        let length = embedding.coordinates();
        assert_eq!((grouped.len(), grouped.coordinates()), (groups.len(), length));
        let mut of_rows = vec![0.0; n * length];
        embedding.columns(&(0..n).collect::<Vec<_>>(), &mut of_rows).unwrap();
        let mut sums = vec![0.0; groups.len() * length];
        for (row, column) in of_rows.chunks_exact(length).enumerate() {
            let sum = &mut sums[group_of(&groups, row) * length..][..length];
            sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += x);
        }
        let mut columns = vec![0.0; sums.len()];
        grouped.columns(&(0..groups.len()).collect::<Vec<_>>(), &mut columns).unwrap();
        let largest = sums.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!(sums.iter().zip(&columns).all(|(a, b)| (a - b).abs() <= 1e-12 * largest), "{choice}");
        // The sum over groups is the sum over rows.
        let (all, of_groups) = (embedding.sum().unwrap().vector, grouped.sum().unwrap().vector);
        let size = all.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(all.iter().zip(&of_groups).all(|(a, b)| (a - b).abs() <= 1e-5 * size), "{choice}");
    }
}

#[test]
fn groups_of_one_row_are_rows() {
    let (n, fit) = (500, logistic(500));
    let groups = Groups::of_names(&(0..n).map(|i| i.to_string()).collect::<Vec<_>>());
    let problem = Problem { rows: &fit.rows, prior: &fit.prior };
    let once = RoundOptions { rounds: Some(1), ..RoundOptions::default() };
    for method in [Method::default(), Method::from_name("omp").unwrap(), Method::from_name("giga").unwrap()] {
        let options = BuildOptions {
            method: method.into(),
            k: 12,
            embedding: Choice::Draws(200),
            ..BuildOptions::default()
        };
        let posterior = &fit.laplace.posterior;
        let plain = build_in_rounds(problem, posterior, &options, &once, &mut go_on).unwrap();
        let coreset = of_groups(&fit, &groups, &options).unwrap();
        assert_eq!(coreset.rows, plain.coreset.rows, "{}", method.name());
        for (a, b) in coreset.weights.iter().zip(&plain.coreset.weights) {
            assert!((a - b).abs() <= 1e-4 * b, "{}: {a} {b}", method.name());
        }
        assert_eq!((coreset.groups, plain.coreset.groups), (Some(coreset.rows.len()), None));
    }
}

#[test]
fn chosen_groups_are_whole_and_every_method_keeps_to_k() {
    let fit = logistic(2000);
    let groups = scattered(2000);
    for method in Method::all() {
        let options = BuildOptions {
            method: method.into(),
            k: 9,
            embedding: Choice::Draws(200),
            ..BuildOptions::default()
        };
        let coreset = of_groups(&fit, &groups, &options).unwrap();
        let mut weights = vec![None; groups.len()];
        for (&row, &weight) in coreset.rows.iter().zip(&coreset.weights) {
            let known = weights[group_of(&groups, row)].get_or_insert((weight, 0));
            assert!(weight > 0.0 && weight == known.0, "{}", method.name());
            known.1 += 1;
        }
        let chosen = weights.iter().flatten().count();
        assert!((1..=9).contains(&chosen) && coreset.points() == chosen, "{}", method.name());
        for (group, known) in weights.iter().enumerate() {
            assert!(known.is_none_or(|(_, rows)| rows == groups.members(group).len()), "{}", method.name());
        }
        assert!(coreset.rows.is_sorted());
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let fit = logistic(3000);
    let groups = scattered(3000);
    let options = BuildOptions { k: 15, ..BuildOptions::default() };
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| of_groups(&fit, &groups, &options).unwrap())
    };
    assert_eq!(with(1), with(3));
}

/// 300 patients with 4 to 10 visits each.
fn visits() -> Source<'static> {
    let n = 2100;
    let mut table = generate::to_table(&generate::logistic_paper(n, 3), "visits").unwrap();
    let patients = (0..n).map(|i| format!("p{}", (i * 7919 + i / 11) % 300));
    let levels: Vec<String> = (0..300).map(|i| format!("p{i}")).collect();
    let codes = patients.map(|name| levels.iter().position(|level| *level == name).unwrap() as u32).collect();
    table.columns.push(Column { name: "patient".into(), values: Values::Text { codes, levels } });
    Source::of_table(table)
}

fn asked(k: usize) -> Specification {
    let (target, groups) = (Some("y".to_owned()), Some("patient".to_owned()));
    let design = DesignOptions {
        columns: Columns { target, groups, ..Columns::default() },
        ..DesignOptions::default()
    };
    let build = BuildSpecification { k: Some(k), ..BuildSpecification::default() };
    Specification { design, build, ..Specification::default() }
}

#[test]
fn a_study_of_groups_is_certified() {
    let asked = asked(40);
    let study = Study::open(&visits(), &asked).unwrap();
    let groups = study.problem().rows.groups().unwrap();
    assert_eq!((groups.len(), study.frame().names.len()), (300, 3));
    let chosen = study.build(&asked.build, &mut unheard).unwrap().unwrap();
    let coreset = chosen.coreset();
    assert!(coreset.groups.unwrap() <= 40 && coreset.rows.len() > 100);
    assert!(chosen.evaluation.kl_forward.unwrap() < 0.01, "{:?}", chosen.evaluation.kl_forward);
    let weighted = study.weighted(&coreset.rows, &chosen.weights).unwrap();
    let drawn = study.sample(Some(&weighted), &asked.sample, 0, &mut unheard).unwrap();
    assert_eq!(drawn.grade(), Some(Grade::A));
    let summary: serde_json::Value = serde_json::from_str(&chosen.summary.to_json().unwrap()).unwrap();
    assert_eq!((&summary["groups"], &summary["points"]), (&300.into(), &coreset.rows.len().into()));
    assert_eq!(summary["groups_chosen"].as_u64().unwrap() as usize, coreset.points());
    assert!(chosen.summary.lines()[0].contains("of 300 groups"), "{}", chosen.summary.lines()[0]);
}

#[test]
fn what_groups_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut Specification)| {
        let mut asked = asked(40);
        change(&mut asked);
        asked.check().unwrap_err()
    };
    let apart = |other, value| UsageError::Apart { setting: "groups", other, value };
    let sparse_vi = Selector::SparseVi(SparseViSettings::default());
    assert_eq!(refused(&|asked| asked.build.method = sparse_vi), apart("method", Some("sparse-vi")));
    assert_eq!(refused(&|asked| asked.build.max_kl = Some(0.1)), apart("max_kl", None));
    assert_eq!(refused(&|asked| asked.build.rounds = Some(2)), apart("rounds", None));
    assert_eq!(apart("max_kl", None).to_string(), "groups and max_kl do not go together");

    let study = Study::open(&visits(), &asked(301)).unwrap();
    let error = study.build(&asked(301).build, &mut unheard).err().unwrap().to_string();
    assert_eq!(error, "k = 301 groups cannot be chosen from 300 groups of rows: k must be between 1 and 300");
    let error = study.path(&asked(40).build, &mut unheard).unwrap_err();
    assert!(matches!(error, StudyError::Build(BuildError::RowsOnly { what: "a path" })), "{error}");

    let open = |change: &dyn Fn(&mut Columns)| {
        let mut asked = asked(40);
        change(&mut asked.design.columns);
        Study::open(&visits(), &asked).err().map(|error| error.to_string())
    };
    let error = open(&|columns| columns.groups = Some("doctor".into())).unwrap();
    assert!(error.starts_with("visits: there is no column 'doctor'"), "{error}");
    let error = open(&|columns| columns.features = Some(vec!["x1".into(), "patient".into()])).unwrap();
    assert!(error.contains("'patient' is a feature and the group at once"), "{error}");
    assert_eq!(open(&|columns| columns.exclude = vec!["patient".into()]), None);
}

/// Identifiers beyond 2⁵³ stay apart, and rows whose group is missing are missing.
#[test]
fn groups_are_told_apart_by_every_digit() {
    let number = |values: Vec<f64>| Values::Number { values, integer: false };
    let ids = [9_007_199_254_740_993_i64, 9_007_199_254_740_992, 9_007_199_254_740_993, 4, 5, 6];
    let x: Vec<f64> = (0..6).map(|i| f64::from(i * i)).collect();
    let y = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0];
    let column = |name, values| corelet::data::ColumnView { name, values };
    let numbers = |values| corelet::data::ValuesView::Number {
        values: corelet::data::Numbers::Double(corelet::data::Strided::contiguous(values)),
        integer: false,
    };
    let long = corelet::data::ValuesView::Number {
        values: corelet::data::Numbers::Long(corelet::data::Strided::contiguous(&ids)),
        integer: true,
    };
    let columns = vec![column("x", numbers(&x)), column("y", numbers(&y)), column("id", long)];
    let view = corelet::data::TableView::new("ids", columns).unwrap();
    let options = DesignOptions {
        columns: Columns { target: Some("y".into()), groups: Some("id".into()), ..Columns::default() },
        ..DesignOptions::default()
    };
    let groups = Source::of_view(view).design(&options).unwrap().groups.unwrap();
    assert_eq!((groups.len(), groups.members(0), groups.members(1)), (5, &[0, 2][..], &[1][..]));

    let ids = vec![1.0, f64::NAN, 1.0, 2.0, -0.0, 0.0];
    let column = |name: &str, values| Column { name: name.into(), values };
    let columns = vec![column("x", number(x)), column("y", number(y.to_vec())), column("id", number(ids))];
    let table = Table { source: "ids".into(), columns, rows: 6, own_target: None };
    let error = corelet::data::design(&table, &options).unwrap_err();
    assert!(matches!(&error, DataError::Missing { columns, .. } if columns == "1 in 'id'"), "{error}");
    let options = DesignOptions { drop_missing: true, ..options };
    let dataset = corelet::data::design(&table, &options).unwrap();
    let groups = dataset.groups.unwrap();
    assert_eq!((dataset.dropped, groups.len()), (1, 3));
    assert_eq!((groups.members(0), groups.members(2)), (&[0, 1][..], &[3, 4][..]));
}
