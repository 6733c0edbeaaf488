//! Rows in partitions: the coreset of one machine, whoever holds them and however often they are made again.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

mod common;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::observations;
use corelet::cluster::{Carrier, CarrierError, Shard, look};
use corelet::coreset::{Built, RestChoice, Selector};
use corelet::data::{Column, Columns, DesignOptions, MISSING, Source, Standardise, Table, Values};
use corelet::model::BuiltIn;
use corelet::sparse_vi::SparseViSettings;
use corelet::study::{BuildSpecification, ModelSpecification, Specification, Study, StudyError, unheard};
use corelet::trust::Grade;

/// Partitions of different sizes, some empty.
const SIZES: [usize; 6] = [700, 0, 1, 2000, 0, 299];

/// Partitions whose shards are forgotten now and then, as workers that die forget them.
struct Local {
    partitions: Vec<Table>,
    plan: Mutex<Vec<u8>>,
    shards: Mutex<HashMap<usize, Shard>>,
    /// Every so many questions; 0 for never.
    forget: usize,
    asked: AtomicUsize,
}

impl Local {
    fn new(table: &Table, sizes: &[usize], forget: usize) -> Box<Self> {
        let mut start = 0;
        let part = |(partition, &size): (usize, &usize)| {
            let part = rows_of(table, start, size, &format!("partition {partition}"));
            start += size;
            part
        };
        let partitions = sizes.iter().enumerate().map(part).collect();
        let (plan, shards, asked) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        Box::new(Self { partitions, plan, shards, forget, asked })
    }

    fn source(&self, partition: usize) -> Source<'_> {
        Source::of_view(self.partitions[partition].view())
    }

    fn each(&self, partitions: &[usize], answer: impl Fn(&Shard) -> Vec<u8>) -> Vec<Vec<u8>> {
        let (mut shards, plan) = (self.shards.lock().unwrap(), self.plan.lock().unwrap());
        let of = |&partition: &usize| {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            if self.forget > 0 && asked.is_multiple_of(self.forget) {
                shards.remove(&partition);
            }
            let make = || Shard::new(&self.source(partition), partition, &plan);
            answer(shards.entry(partition).or_insert_with(make))
        };
        partitions.iter().map(of).collect()
    }
}

impl Carrier for Local {
    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError> {
        Ok((0..self.partitions.len()).map(|partition| look(&self.source(partition), question)).collect())
    }

    fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        *self.plan.lock().unwrap() = plan.to_vec();
        self.shards.lock().unwrap().clear();
        Ok(self.each(partitions, Shard::made))
    }

    fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        Ok(self.each(partitions, |shard| shard.answer(question)))
    }
}

fn rows_of(table: &Table, start: usize, size: usize, source: &str) -> Table {
    let cut = |column: &Column| {
        let values = match &column.values {
            Values::Number { values, integer } => {
                Values::Number { values: values[start..start + size].to_vec(), integer: *integer }
            }
            Values::Bool(values) => Values::Bool(values[start..start + size].to_vec()),
            Values::Text { codes, levels } => {
                Values::Text { codes: codes[start..start + size].to_vec(), levels: levels.clone() }
            }
        };
        Column { name: column.name.clone(), values }
    };
    let columns = table.columns.iter().map(cut).collect();
    Table { source: source.to_owned(), columns, rows: size, own_target: None }
}

/// Two numbers, text of which one level is in one partition alone, and a target for every model.
fn table() -> Table {
    let n: usize = SIZES.iter().sum();
    let rows = observations(n, 5, 11, |_, noise| noise);
    let normal = |i: usize, j: usize| f64::from(rows.row(i)[j]);
    let number = |values: Vec<f64>| Values::Number { values, integer: false };
    let words: Vec<u32> =
        (0..n).map(|i| if i == 700 || i == 1500 { 2 } else { (i % 5 > 2) as u32 }).collect();
    let eta: Vec<f64> =
        (0..n).map(|i| normal(i, 0) - 0.5 * normal(i, 1) + 0.4 * f64::from(words[i])).collect();
    let noise = |i: usize| normal(i, 2);
    let columns = [
        ("a", number((0..n).map(|i| 50.0 + 3.0 * normal(i, 0)).collect())),
        ("b", number((0..n).map(|i| normal(i, 1)).collect())),
        ("word", Values::Text { codes: words, levels: ["left", "right", "rare"].map(String::from).to_vec() }),
        ("class", Values::Bool((0..n).map(|i| Some(eta[i] + noise(i) > 0.2)).collect())),
        ("count", number((0..n).map(|i| (eta[i] + 0.5 * noise(i)).exp().floor()).collect())),
        ("size", number((0..n).map(|i| 1000.0 + 20.0 * (eta[i] + noise(i))).collect())),
        ("grade", number((0..n).map(|i| (eta[i] + noise(i)).clamp(-1.0, 1.5).floor()).collect())),
        ("often", number((0..n).map(|i| 1.0 + (i % 3) as f64).collect())),
        ("known", number((0..n).map(|i| 0.2 * normal(i, 3)).collect())),
    ];
    let columns = columns.into_iter().map(|(name, values)| Column { name: name.to_owned(), values });
    Table { source: "rows".to_owned(), columns: columns.collect(), rows: n, own_target: None }
}

fn asked(model: BuiltIn, target: &str) -> Specification {
    let features = Some(["a", "b", "word"].map(String::from).to_vec());
    Specification {
        design: DesignOptions {
            columns: Columns { target: Some(target.to_owned()), features, ..Columns::default() },
            ..DesignOptions::default()
        },
        model: ModelSpecification { model, ..ModelSpecification::default() },
        build: BuildSpecification { k: Some(20), ..BuildSpecification::default() },
        ..Specification::default()
    }
}

fn partitioned(
    table: &Table,
    sizes: &[usize],
    forget: usize,
    asked: &Specification,
) -> Result<Study, StudyError> {
    let schema = rows_of(table, 0, 0, "rows");
    Study::of_partitions(&Source::of_table(schema), asked, Local::new(table, sizes, forget))
}

fn chosen(study: &Study, asked: &Specification) -> (Vec<usize>, Vec<f64>) {
    let chosen = study.build(&asked.build, &mut unheard).unwrap().unwrap();
    (chosen.coreset().rows.clone(), chosen.weights.values().to_vec())
}

fn assert_close(one: &(Vec<usize>, Vec<f64>), other: &(Vec<usize>, Vec<f64>), what: &str) {
    assert_eq!(one.0, other.0, "{what}");
    let pairs = one.1.iter().zip(&other.1);
    let off = pairs.map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0.0, f64::max);
    assert!(off < 1e-9, "{what}: {off}");
}

#[test]
fn partitions_choose_the_rows_of_one_machine() {
    let table = table();
    let models = [
        (BuiltIn::Logistic, "class", Standardise::Scale),
        (BuiltIn::Logistic, "class", Standardise::Whiten),
        (BuiltIn::Poisson, "count", Standardise::None),
        (BuiltIn::Linear, "size", Standardise::Scale),
    ];
    for (model, target, standardise) in models {
        let mut asked = asked(model, target);
        asked.design.standardise = standardise;
        let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
        let parts = partitioned(&table, &SIZES, 0, &asked).unwrap();
        assert_eq!((whole.len(), whole.model()), (parts.len(), parts.model()));
        assert_eq!(whole.frame().names, parts.frame().names);
        assert_eq!(whole.warnings(), parts.warnings());
        if standardise != Standardise::Whiten {
            assert_eq!(whole.frame().fingerprint, parts.frame().fingerprint);
        }
        let named = format!("{model} {standardise:?}");
        assert_close(&chosen(&whole, &asked), &chosen(&parts, &asked), &named);
    }
}

#[test]
fn several_predictors_weights_and_offsets_are_those_of_one_machine() {
    let table = table();
    let beside = [(None, None), (Some("often"), None), (Some("often"), Some("known"))];
    let models = [
        (BuiltIn::Softmax, "grade", 2),
        (BuiltIn::Ordinal, "grade", 3),
        (BuiltIn::Logistic, "class", 3),
        (BuiltIn::NegativeBinomial, "count", 3),
        (BuiltIn::Linear, "size", 2),
    ];
    for (model, target, cases) in models {
        for (weights, offset) in &beside[..cases] {
            let mut asked = asked(model, target);
            asked.design.columns.weights = weights.map(String::from);
            asked.design.columns.offset = offset.map(String::from);
            asked.check().unwrap();
            let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
            let parts = partitioned(&table, &SIZES, 5, &asked).unwrap();
            let named = format!("{model} {weights:?} {offset:?}");
            assert_eq!(whole.problem().rows.dim(), parts.problem().rows.dim(), "{named}");
            assert_eq!(
                (&whole.frame().names, &whole.frame().classes, &whole.frame().fingerprint),
                (&parts.frame().names, &parts.frame().classes, &parts.frame().fingerprint),
                "{named}"
            );
            assert_close(&chosen(&whole, &asked), &chosen(&parts, &asked), &named);
        }
    }
}

/// The Gaussian part of rows in partitions, and the rows beside it, are those of one machine.
#[test]
fn a_gaussian_part_is_that_of_one_machine() {
    let table = table();
    for (model, target) in
        [(BuiltIn::Logistic, "class"), (BuiltIn::Poisson, "count"), (BuiltIn::NegativeBinomial, "count")]
    {
        let mut asked = asked(model, target);
        asked.build.rest = RestChoice::Gaussian;
        let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
        let parts = partitioned(&table, &SIZES, 0, &asked).unwrap();
        let [one, other] =
            [&whole, &parts].map(|study| study.build(&asked.build, &mut unheard).unwrap().unwrap());
        let (one, other) = (one.coreset(), other.coreset());
        let both = [one, other].map(|coreset| (coreset.rows.clone(), coreset.weights.to_vec()));
        assert_close(&both[0], &both[1], &model.to_string());
        let (one, other) = (one.rest.as_ref().unwrap(), other.rest.as_ref().unwrap());
        let size = one.curvature.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let off = one.curvature.iter().zip(&other.curvature).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off <= 1e-8 * size, "{model}: {off} {size}");
    }
}

#[test]
fn shards_that_are_made_again_give_the_same_bits() {
    let (table, asked) = (table(), asked(BuiltIn::Logistic, "class"));
    let kept = chosen(&partitioned(&table, &SIZES, 0, &asked).unwrap(), &asked);
    for forget in [1, 3, 7] {
        assert_eq!(kept, chosen(&partitioned(&table, &SIZES, forget, &asked).unwrap(), &asked), "{forget}");
    }
}

#[test]
fn the_mean_of_gaussian_data_is_found_in_partitions() {
    let (table, mut asked) = (table(), asked(BuiltIn::Gaussian, "class"));
    asked.design.columns.target = None;
    asked.design.columns.features = Some(vec!["a".to_owned(), "b".to_owned()]);
    let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
    let parts = partitioned(&table, &SIZES, 2, &asked).unwrap();
    assert_close(&chosen(&whole, &asked), &chosen(&parts, &asked), "gaussian");
}

/// Groups that lie in one partition and in several, some of which come first in a later one.
fn grouped_table() -> Table {
    let mut table = table();
    let of = |i: usize| if i % 4 == 1 { 40 } else { (i / 60 * 7 + i % 3) % 40 } as u32;
    let codes = (0..table.rows).map(of).collect();
    let levels = (0..41).map(|i| format!("patient {i}")).collect();
    table.columns.push(Column { name: "patient".to_owned(), values: Values::Text { codes, levels } });
    table
}

#[test]
fn groups_in_several_partitions_are_those_of_one_machine() {
    let table = grouped_table();
    let models = [(BuiltIn::Logistic, "class"), (BuiltIn::Poisson, "count"), (BuiltIn::Linear, "size")];
    for (model, target) in models {
        let mut asked = asked(model, target);
        asked.design.columns.groups = Some("patient".to_owned());
        asked.check().unwrap();
        let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
        let expected = whole.build(&asked.build, &mut unheard).unwrap().unwrap().built;
        for sizes in [&SIZES[..], &[3000], &[10, 20, 30, 2000, 940]] {
            let parts = partitioned(&table, sizes, 3, &asked).unwrap();
            let count = |study: &Study| study.problem().rows.groups().unwrap().len();
            assert_eq!(
                (count(&whole), &whole.frame().fingerprint),
                (count(&parts), &parts.frame().fingerprint)
            );
            let found = parts.build(&asked.build, &mut unheard).unwrap().unwrap().built;
            assert_eq!((&found.groups, found.coreset.groups), (&expected.groups, expected.coreset.groups));
            // Sums of groups have digits to spare, so that not even the last one of a weight shows the partitions.
            let of = |built: &Built| (built.coreset.rows.clone(), built.coreset.weights.clone());
            assert_eq!(of(&found), of(&expected), "{model} {sizes:?}");
        }
    }
}

#[test]
fn a_row_that_comes_back_in_another_group_is_an_error() {
    let (one, mut asked) = (grouped_table(), asked(BuiltIn::Logistic, "class"));
    asked.design.columns.groups = Some("patient".to_owned());
    let mut other = one.clone();
    if let Some(Column { values: Values::Text { codes, .. }, .. }) = other.columns.last_mut() {
        codes.swap(900, 901);
    }
    let carrier = Shuffled(Local::new(&one, &SIZES, 0), Local::new(&other, &SIZES, 0));
    let schema = Source::of_table(rows_of(&one, 0, 0, "rows"));
    let built = Study::of_partitions(&schema, &asked, Box::new(carrier))
        .and_then(|study| study.build(&asked.build, &mut unheard).map(|_| ()));
    let error = built.err().unwrap().to_string();
    assert!(error.starts_with("partition 3: its rows are not those that it had before"), "{error}");
}

#[test]
fn a_verdict_asks_the_partitions() {
    let (table, asked) = (table(), asked(BuiltIn::Logistic, "class"));
    let study = partitioned(&table, &SIZES, 0, &asked).unwrap();
    let (rows, weights) = chosen(&study, &asked);
    let weighted = study.weighted(&rows, &weights.into()).unwrap();
    let drawn = study.sample(Some(&weighted), &asked.sample, 1, &mut unheard).unwrap();
    assert_eq!(drawn.grade(), Some(Grade::A));
}

/// The error of partitions in which one cell was changed.
fn refused(asked: &Specification, change: impl FnOnce(&mut Table)) -> String {
    let mut table = table();
    change(&mut table);
    partitioned(&table, &SIZES, 0, asked).err().unwrap().to_string()
}

#[test]
fn errors_name_the_partition_and_its_row() {
    let set = |column: usize, row: usize, value: f64| {
        move |table: &mut Table| match &mut table.columns[column].values {
            Values::Number { values, .. } => values[row] = value,
            Values::Bool(values) => values[row] = None,
            Values::Text { codes, .. } => codes[row] = MISSING,
        }
    };
    // Partition 3 has rows 701 to 2700 of all.
    let classes = asked(BuiltIn::Logistic, "class");
    let error = refused(&classes, set(1, 701 + 55, f64::INFINITY));
    assert!(error.contains("partition 3") && error.contains("row 55") && error.contains("'b'"), "{error}");
    let counts = asked(BuiltIn::Poisson, "count");
    let error = refused(&counts, set(4, 2999, -1.0));
    assert!(error.contains("partition 5") && error.contains("row 298"), "{error}");
    let error = refused(&classes, set(2, 3, 0.0));
    assert!(error.contains("1 in 'word'") && error.contains("1 of 3000"), "{error}");
    let error = refused(&classes, |table| table.columns[1].name = "c".to_owned());
    assert!(error.contains("'b'"), "{error}");
}

#[test]
fn rows_with_missing_values_are_left_out_of_their_partitions() {
    let (mut table, mut asked) = (table(), asked(BuiltIn::Logistic, "class"));
    if let Values::Number { values, .. } = &mut table.columns[0].values {
        (0..3000).filter(|i| i % 17 == 3 || *i == 700).for_each(|i| values[i] = f64::NAN);
    }
    asked.design.drop_missing = true;
    let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
    let parts = partitioned(&table, &SIZES, 0, &asked).unwrap();
    assert_eq!(whole.frame().fingerprint, parts.frame().fingerprint);
    let (one, other) = (chosen(&whole, &asked), chosen(&parts, &asked));
    assert_close(&one, &other, "missing");
    assert_eq!(whole.frame().rows_of(&one.0), parts.frame().rows_of(&other.0));
}

#[test]
fn a_partition_of_nothing_but_missing_cells_may_have_any_type() {
    let (table, mut asked) = (table(), asked(BuiltIn::Logistic, "class"));
    asked.design.drop_missing = true;
    let mut local = Local::new(&table, &SIZES, 0);
    local.partitions[2].columns[0].values = Values::Text { codes: vec![MISSING], levels: Vec::new() };
    let schema = Source::of_table(rows_of(&table, 0, 0, "rows"));
    assert_eq!(Study::of_partitions(&schema, &asked, local).unwrap().len(), 2999);
    let mut local = Local::new(&table, &SIZES, 0);
    local.partitions[2].columns[0].values = Values::Text { codes: vec![0], levels: vec!["x".to_owned()] };
    let error = Study::of_partitions(&schema, &asked, local).err().unwrap().to_string();
    let expected = "partition 2: its columns are not those of the table: its column 'a' is of another type";
    assert_eq!(error, expected);
}

/// Partitions that come back with their rows in another order.
struct Shuffled(Box<Local>, Box<Local>);

impl Carrier for Shuffled {
    fn partitions(&self) -> usize {
        self.0.partitions()
    }

    fn look(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.0.look(question)
    }

    fn hold(&self, plan: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.1.hold(plan, partitions)?;
        self.0.hold(plan, partitions)
    }

    fn ask(&self, question: &[u8], partitions: &[usize]) -> Result<Vec<Vec<u8>>, CarrierError> {
        self.1.ask(question, partitions)
    }
}

#[test]
fn a_partition_that_comes_back_otherwise_is_an_error() {
    let (one, asked) = (table(), asked(BuiltIn::Logistic, "class"));
    let mut other = one.clone();
    if let Values::Number { values, .. } = &mut other.columns[0].values {
        values.swap(900, 901);
    }
    let carrier = Shuffled(Local::new(&one, &SIZES, 0), Local::new(&other, &SIZES, 0));
    let schema = Source::of_table(rows_of(&one, 0, 0, "rows"));
    let built = Study::of_partitions(&schema, &asked, Box::new(carrier))
        .and_then(|study| study.build(&asked.build, &mut unheard).map(|_| ()));
    let error = built.err().unwrap().to_string();
    assert!(error.starts_with("partition 3: its rows are not those that it had before"), "{error}");
}

#[test]
fn sparse_vi_brings_all_rows_to_one_place() {
    let table = table();
    let settings = SparseViSettings { draws: 20, steps: 20, ..SparseViSettings::default() };
    for (model, target) in [(BuiltIn::Logistic, "class"), (BuiltIn::Linear, "size")] {
        let mut asked = asked(model, target);
        asked.build.method = Selector::SparseVi(settings);
        asked.build.k = Some(4);
        asked.model.sigma = (model == BuiltIn::Linear).then_some(20.0);
        asked.check().unwrap();
        let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
        let parts = partitioned(&table, &SIZES, 3, &asked).unwrap();
        assert_close(&chosen(&whole, &asked), &chosen(&parts, &asked), &model.to_string());
    }
}

#[test]
fn equal_rows_of_several_partitions_are_taken_as_one() {
    let table = table();
    // Of two texts and counts some are in one partition alone; of numbers no two are equal.
    let few = ["word", "grade"].map(String::from).to_vec();
    let some = ["word", "often", "count"].map(String::from).to_vec();
    let all = ["a", "word"].map(String::from).to_vec();
    let cases = [
        (few.clone(), None, 20),
        (some.clone(), None, 20),
        (some, Some("known"), 20),
        (all, None, 20),
        (few, None, 3),
    ];
    for (features, weights, k) in cases {
        let mut table = table.clone();
        if let Values::Number { values, .. } = &mut table.columns[8].values {
            values.iter_mut().for_each(|weight| *weight = 3.0 * weight.abs() + 0.01);
        }
        let mut asked = asked(BuiltIn::Logistic, "class");
        asked.design.columns.features = Some(features);
        asked.design.columns.weights = weights.map(String::from);
        (asked.design.collapse, asked.build.k) = (true, Some(k));
        asked.check().unwrap();
        let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
        let parts = partitioned(&table, &SIZES, 3, &asked).unwrap();
        assert_eq!((whole.len(), whole.all_rows()), (parts.len(), parts.all_rows()));
        assert_eq!(
            (whole.warnings(), &whole.frame().fingerprint),
            (parts.warnings(), &parts.frame().fingerprint)
        );
        let (one, other) = (chosen(&whole, &asked), chosen(&parts, &asked));
        assert_close(&one, &other, &format!("{:?}", asked.design.columns));
        assert_eq!(whole.frame().rows_of(&one.0), parts.frame().rows_of(&other.0));
        if weights.is_none() && parts.len() < parts.all_rows() {
            assert_eq!(one, other);
        }
    }
}

#[test]
fn weights_that_are_no_counts_are_said_of_partitions_too() {
    let (mut table, mut asked) = (table(), asked(BuiltIn::Logistic, "class"));
    if let Values::Number { values, .. } = &mut table.columns[7].values {
        values.iter_mut().for_each(|weight| *weight *= 12.5);
    }
    asked.design.columns.weights = Some("often".to_owned());
    let whole = Study::open(&Source::of_view(table.view()), &asked).unwrap();
    let parts = partitioned(&table, &SIZES, 0, &asked).unwrap();
    assert!(parts.warnings()[0].contains("survey weights should be divided"), "{:?}", parts.warnings());
    assert_eq!(parts.warnings(), whole.warnings());
}
