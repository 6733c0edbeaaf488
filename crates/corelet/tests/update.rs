//! Updates against the posterior of all rows that ever came: the earlier rows are not there, and the certificate must not say more than
//! is true of them.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::coreset::RestChoice;
use corelet::data::{Column, Columns, DesignOptions, Source, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::{LaplaceSettings, SampleSettings, laplace};
use corelet::rows::{All, Memory, Observations, Weighted};
use corelet::study::{
    Blocks, BuildSpecification, FitSpecification, KeptCoreset, ModelSpecification, Specification, Study,
    UpdateSpecification, Updated, unheard,
};
use corelet::trust::{Draws, Grade, Reason, verdict};
use corelet::words::updated;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson, StandardNormal};

/// Rows of three numbers and a column of levels, with labels or counts by these coefficients.
fn table(n: usize, seed: u64, slopes: [f64; 3], model: BuiltIn, levels: &[&str]) -> Table {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut columns = vec![Vec::new(); 4];
    let mut codes = Vec::new();
    for _ in 0..n {
        let x: [f64; 3] = std::array::from_fn(|_| StandardNormal.sample(&mut rng));
        let level = rng.random_range(0..levels.len());
        let eta: f64 = 0.3 + 0.4 * level as f64 + x.iter().zip(slopes).map(|(x, b)| x * b).sum::<f64>();
        let y = match model {
            BuiltIn::Poisson => Poisson::new(eta.exp()).unwrap().sample(&mut rng),
            _ => f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta).exp()))),
        };
        columns.iter_mut().zip(x.into_iter().chain([y])).for_each(|(column, x)| column.push(x));
        codes.push(level as u32);
    }
    let number = |(name, values): (&str, Vec<f64>)| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    };
    let mut all: Vec<Column> = ["a", "b", "c", "y"].into_iter().zip(columns).map(number).collect();
    let levels = levels.iter().map(|&level| level.to_owned()).collect();
    all.push(Column { name: "kind".to_owned(), values: Values::Text { codes, levels } });
    Table::new("rows", all).unwrap()
}

const SLOPES: [f64; 3] = [0.5, -0.3, 0.2];
const KINDS: [&str; 2] = ["p", "q"];

fn specification(model: BuiltIn, rest: RestChoice, k: usize) -> Specification {
    Specification {
        design: DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() },
        model: ModelSpecification { model, ..ModelSpecification::default() },
        build: BuildSpecification { k: Some(k), rest, ..BuildSpecification::default() },
        ..Specification::default()
    }
}

/// A coreset of these rows as a file of it would be read.
fn fitted(first: Table, model: BuiltIn, rest: RestChoice, k: usize) -> KeptCoreset {
    let asked = specification(model, rest, k);
    let study = Study::open(&Source::of_table(first), &asked).unwrap();
    let fit =
        FitSpecification { build: asked.build, max_k: Some(k), sample: SampleSettings::default(), seed: 1 };
    let fit = study.fit(&fit, &mut unheard).unwrap();
    let (chosen, drawn) = (fit.chosen.unwrap(), fit.drawn.unwrap());
    let coreset = chosen.coreset();
    let mut notes =
        study.frame().metadata(&chosen.summary, study.resolved(), coreset.rest.as_deref()).unwrap();
    notes.extend([study.blocks(Some(&drawn), coreset.rows.len()).metadata().unwrap()]);
    let rows = study.problem().rows.fetch(&coreset.rows).unwrap();
    KeptCoreset::of_notes(rows, chosen.weights.clone(), &notes, "core").unwrap()
}

fn asked(rest: RestChoice) -> UpdateSpecification {
    UpdateSpecification { rest, sample: SampleSettings::default(), allow_repeats: false, seed: 3 }
}

fn update(kept: &KeptCoreset, new: Table, earlier: Option<Table>, rest: RestChoice) -> Updated {
    let encode = |table| kept.encode_data(&Source::of_table(table), false).unwrap();
    let (rows, of) = encode(new);
    let earlier = earlier.map(|table| encode(table).0);
    kept.update(("new", rows, of.total()), earlier, &asked(rest), &mut unheard).unwrap()
}

fn refused(kept: &KeptCoreset, new: Table, earlier: Option<Table>) -> String {
    let encode = |table| kept.encode_data(&Source::of_table(table), false);
    let (rows, of) = match encode(new) {
        Ok(encoded) => encoded,
        Err(error) => return error.to_string(),
    };
    let earlier = earlier.map(|table| encode(table).unwrap().0);
    let updated = kept.update(("new", rows, of.total()), earlier, &asked(RestChoice::Auto), &mut unheard);
    updated.err().unwrap().to_string()
}

/// V of draws of the coreset on every row that ever came, and by how many posterior standard deviations its means are off the Laplace
/// fit of all of them.
fn truth(updated: &Updated, all: &Observations) -> (f64, f64) {
    let kept = updated.kept();
    let memory = Memory::new(kept.model.bind(all.clone()).unwrap());
    let prior = kept.model.prior().unwrap();
    let own = Memory::new(kept.model.bind(kept.rows.clone()).unwrap());
    let ids: Vec<usize> = (0..kept.rows.len()).collect();
    let weighted = Weighted::fetch_with_rest(&own, &ids, kept.weights.values(), kept.rest.clone()).unwrap();
    let draws = Draws::from_chains(&updated.drawn.chains, 2000);
    let judged = verdict(&memory, &prior, &weighted, &draws, 0).unwrap();
    let full = laplace(&All(&memory), &prior, None, &LaplaceSettings::default()).unwrap().posterior;
    let off = draws
        .mean()
        .iter()
        .zip(&full.mean)
        .zip(full.sds())
        .map(|((a, b), sd)| ((a - b) / sd).abs())
        .fold(0.0, f64::max);
    (judged.divergence.variance, off)
}

/// Block after block, as many as `blocks`; what the bound says must be true of all rows, and the size must stay.
fn stream(model: BuiltIn, rest: RestChoice, (blocks, rows, k): (u64, usize, usize)) -> (Updated, usize) {
    let of = |block: u64| table(rows, 100 + block, SLOPES, model, &KINDS);
    let mut kept = fitted(of(0), model, rest, k);
    assert_eq!(kept.blocks.blocks[0].grade, Some(Grade::A));
    let mut all = kept.encode_data(&Source::of_table(of(0)), false).unwrap().0;
    let (mut last, mut anew) = (None, 0);
    for block in 1..blocks {
        let new = update(&kept, of(block), None, rest);
        all.append(&kept.encode_data(&Source::of_table(of(block)), false).unwrap().0);
        kept = new.kept();
        anew += usize::from(new.compressed);
        assert!(kept.rows.len() <= 2 * k.max(100) + k, "{} rows after {block}", kept.rows.len());
        last = Some(new);
    }
    let last = last.unwrap();
    assert_eq!(kept.blocks.rows(), all.len());
    assert_eq!(kept.blocks.file_rows, all.len());
    let (variance, off) = truth(&last, &all);
    let judged = last.drawn.verdict.as_ref().unwrap();
    assert!(
        variance <= judged.divergence.variance_upper,
        "V {variance} is above its bound {}",
        judged.divergence.variance_upper
    );
    assert!(off < 0.2, "off by {off} sd");
    (last, anew)
}

#[test]
fn twenty_blocks_by_a_gaussian_are_one_build_of_all() {
    let (last, _) = stream(BuiltIn::Logistic, RestChoice::Auto, (20, 2000, 100));
    let judged = last.drawn.verdict.as_ref().unwrap();
    assert_eq!(judged.grade, Grade::A, "{:?} {}", judged.reasons, judged.divergence.variance_upper);
    let said = updated(&last).join("\n");
    assert!(said.contains("2 000 new, added to 38 000 earlier rows in 19 blocks"), "{said}");
    assert!(said.contains("not available"), "{said}");
}

#[test]
fn blocks_of_rows_alone_are_built_anew_when_there_are_too_many() {
    let (last, anew) = stream(BuiltIn::Poisson, RestChoice::None, (8, 2000, 120));
    assert!(anew > 0);
    assert!(last.rest.is_none());
    assert!(last.drawn.verdict.as_ref().unwrap().grade < Grade::C);
}

/// What a coreset says by itself when the posterior goes elsewhere, and what all rows say then.
#[test]
fn another_regime_takes_the_grade_away_until_the_earlier_rows_are_there() {
    let of = |n, seed, slopes| table(n, seed, slopes, BuiltIn::Logistic, &KINDS);
    let kept = fitted(of(3000, 1, SLOPES), BuiltIn::Logistic, RestChoice::Auto, 100);
    let other = || of(9000, 2, [-1.0, 1.2, 0.2]);
    let new = update(&kept, other(), None, RestChoice::Auto);
    let judged = new.drawn.verdict.as_ref().unwrap();
    assert_eq!(judged.grade, Grade::C);
    assert!(judged.reasons.contains(&Reason::Drifted), "{:?}", judged.reasons);
    // It stays away from whatever comes next.
    let next = update(&new.kept(), of(500, 3, [-1.0, 1.2, 0.2]), None, RestChoice::Auto);
    assert!(next.drawn.verdict.as_ref().unwrap().grade == Grade::C);
    // All rows at hand say how good it really is: V on all of them, and nothing rests on an older certificate.
    let seen = update(&kept, other(), Some(of(3000, 1, SLOPES)), RestChoice::Auto);
    let judged = seen.drawn.verdict.as_ref().unwrap();
    let unlike =
        |reason: &Reason| !matches!(reason, Reason::Drifted | Reason::Uncertified | Reason::Inherited);
    assert!(judged.reasons.iter().all(unlike) && seen.carried.is_none(), "{:?}", judged.reasons);
    assert!(judged.divergence.variance > new.drawn.verdict.as_ref().unwrap().divergence.variance);
    assert_eq!((seen.blocks.blocks.len(), seen.blocks.rows()), (1, 12_000));
}

/// Without a certificate of the earlier rows there is none of the update; with the rows there is.
#[test]
fn a_coreset_that_was_never_judged_certifies_nothing() {
    let of = |n, seed| table(n, seed, SLOPES, BuiltIn::Logistic, &KINDS);
    let mut kept = fitted(of(3000, 1), BuiltIn::Logistic, RestChoice::Auto, 100);
    kept.blocks = Blocks {
        blocks: kept
            .blocks
            .blocks
            .iter()
            .cloned()
            .map(|block| corelet::study::Block { grade: None, ..block })
            .collect(),
        ..kept.blocks
    };
    let new = update(&kept, of(1000, 2), None, RestChoice::Auto);
    assert!(new.drawn.verdict.as_ref().unwrap().reasons.contains(&Reason::Uncertified));
    let seen = update(&kept, of(1000, 2), Some(of(3000, 1)), RestChoice::Auto);
    assert_eq!(seen.drawn.grade(), Some(Grade::A));
    assert!(update(&seen.kept(), of(1000, 4), None, RestChoice::Auto).drawn.grade() == Some(Grade::A));
}

/// Without the earlier rows an update takes their certificate at its word, and says that it does; with them it finds out.
#[test]
fn a_certificate_that_lies_is_found_out_by_the_earlier_rows_alone() {
    let of = |n, seed| table(n, seed, SLOPES, BuiltIn::Logistic, &KINDS);
    let mut kept = fitted(of(3000, 1), BuiltIn::Logistic, RestChoice::Auto, 100);
    // Half of the rows' weight is lost, and half of the Gaussian.
    kept.weights = kept.weights.values().iter().map(|weight| 0.5 * weight).collect::<Vec<f64>>().into();
    kept.rest = kept.rest.map(|rest| {
        let half = |values: &[f64]| values.iter().map(|x| 0.5 * x).collect();
        let (gradient, curvature) = (half(&rest.gradient), half(&rest.curvature));
        std::sync::Arc::new(corelet::rows::Rest { gradient, curvature, ..(*rest).clone() })
    });
    let blind = update(&kept, of(1000, 2), None, RestChoice::Auto);
    assert!(blind.carried.is_some() && updated(&blind).join("\n").contains("not available"));
    let seen = update(&kept, of(1000, 2), Some(of(3000, 1)), RestChoice::Auto);
    assert_ne!(seen.drawn.grade(), Some(Grade::A));
    assert!(seen.drawn.verdict.as_ref().unwrap().divergence.variance > 0.1);
}

#[test]
fn rows_that_cannot_be_added_are_refused_with_the_reason() {
    let of = |n, seed| table(n, seed, SLOPES, BuiltIn::Logistic, &KINDS);
    let kept = fitted(of(2000, 1), BuiltIn::Logistic, RestChoice::Auto, 60);
    assert!(refused(&kept, of(2000, 1), None).contains("these 2 000 rows are in the coreset already"));
    let new = update(&kept, of(500, 2), None, RestChoice::Auto).kept();
    assert!(refused(&new, of(500, 2), None).contains("these 500 rows are in the coreset already"));
    let unseen = table(500, 3, SLOPES, BuiltIn::Logistic, &["p", "z"]);
    let said = refused(&kept, unseen, None);
    assert!(said.contains("'kind'") && said.contains("'z'"), "{said}");
    let mut less = of(500, 3);
    less.columns.retain(|column| column.name != "b");
    let said = refused(&kept, less, None);
    assert!(said.contains("'b'"), "{said}");
    let said = refused(&kept, of(500, 3), Some(of(1999, 1)));
    assert!(said.contains("1999 rows, and the coreset represents 2000"), "{said}");
    let said = refused(&kept, of(500, 3), Some(of(2000, 9)));
    assert!(said.contains("rows 0 to 1999 are others"), "{said}");
}

/// These rows of a table.
fn some(table: &Table, rows: &[usize]) -> Table {
    let of = |column: &Column| Column {
        name: column.name.clone(),
        values: match &column.values {
            Values::Number { values, integer } => {
                Values::Number { values: rows.iter().map(|&row| values[row]).collect(), integer: *integer }
            }
            Values::Text { codes, levels } => {
                Values::Text { codes: rows.iter().map(|&row| codes[row]).collect(), levels: levels.clone() }
            }
            Values::Bool(values) => Values::Bool(rows.iter().map(|&row| values[row]).collect()),
        },
    };
    Table::new("rows", table.columns.iter().map(of).collect()).unwrap()
}

/// Rows that count twice leave no trace in any draw: the posterior is that of the rows with the double ones. A file that has grown, rows in
/// another order, a part of a block and new rows among old ones are known by the rows themselves.
#[test]
fn rows_that_come_again_are_not_counted_twice() {
    let of = |n, seed| table(n, seed, SLOPES, BuiltIn::Logistic, &KINDS);
    let kept = fitted(of(2000, 1), BuiltIn::Logistic, RestChoice::Auto, 60);
    let kept = update(&kept, of(1000, 2), None, RestChoice::Auto).kept();
    let (old, second, fresh) = (of(2000, 1), of(1000, 2), of(3000, 7));
    let backwards = some(&old, &(0..2000).rev().collect::<Vec<_>>());
    let half = some(&old, &(500..1500).collect::<Vec<_>>());
    let mixed = some(&joined(&[&second, &fresh]), &(0..4000).map(|i| i * 1597 % 4000).collect::<Vec<_>>());
    for (again, said) in [
        (joined(&[&old, &fresh]), "the first 2 000 of 5 000 rows are in"),
        (joined(&[&old, &second, &fresh]), "the first 3 000 of 6 000 rows are in"),
        (joined(&[&fresh, &second]), "the last 1 000 of"),
        (backwards, "about 2 000 of 2 000 rows are in"),
        (half, "of 1 000 rows are in"),
        (mixed, "about 1 000 of 4 000 rows are in"),
    ] {
        let words = refused(&kept, again, None);
        assert!(words.contains(said) && words.contains("would count twice"), "{said}: {words}");
    }
    // Rows of the same kind, and equal ones where that is what they are.
    let (rows, of_file) = kept.encode_data(&Source::of_table(half_of(&old)), false).unwrap();
    let asked = UpdateSpecification { allow_repeats: true, ..asked(RestChoice::Auto) };
    let twice = kept.update(("new", rows, of_file.total()), None, &asked, &mut unheard).unwrap();
    assert_eq!(twice.kept().blocks.rows(), 4000);
    assert_eq!(update(&kept, fresh, None, RestChoice::Auto).kept().blocks.rows(), 6000);
}

fn half_of(table: &Table) -> Table {
    some(table, &(500..1500).collect::<Vec<_>>())
}

/// Tables of the same columns, one after the other.
fn joined(tables: &[&Table]) -> Table {
    let of = |at: usize| {
        let mut values = tables[0].columns[at].values.clone();
        for table in &tables[1..] {
            match (&mut values, &table.columns[at].values) {
                (Values::Number { values, .. }, Values::Number { values: more, .. }) => values.extend(more),
                (Values::Text { codes, .. }, Values::Text { codes: more, .. }) => codes.extend(more),
                _ => panic!("columns of one kind"),
            }
        }
        Column { name: tables[0].columns[at].name.clone(), values }
    };
    Table::new("rows", (0..tables[0].columns.len()).map(of).collect()).unwrap()
}

/// Rows of few distinct kinds equal each other by chance, and are new all the same.
#[test]
fn equal_rows_of_few_kinds_are_new() {
    let of = |n, seed| {
        let mut table = table(n, seed, SLOPES, BuiltIn::Logistic, &KINDS);
        for column in table.columns.iter_mut().filter(|column| column.name != "y") {
            if let Values::Number { values, .. } = &mut column.values {
                values.iter_mut().for_each(|x| *x = x.signum().max(0.0));
            }
        }
        table
    };
    let kept = fitted(of(2000, 1), BuiltIn::Logistic, RestChoice::Auto, 32);
    assert_eq!(update(&kept, of(3000, 2), None, RestChoice::Auto).kept().blocks.rows(), 5000);
    let grown = joined(&[&of(2000, 1), &of(500, 3)]);
    assert!(refused(&kept, grown, None).contains("the first 2 000 of 2 500 rows"), "a file that has grown");
}

/// The same seed gives the same bits.
#[test]
fn an_update_is_deterministic() {
    let of = |n, seed| table(n, seed, SLOPES, BuiltIn::Poisson, &KINDS);
    let kept = fitted(of(2000, 1), BuiltIn::Poisson, RestChoice::Auto, 60);
    let again = || update(&kept, of(1000, 2), None, RestChoice::Auto);
    let (one, two) = (again(), again());
    assert_eq!((one.rows, one.weights, one.rest), (two.rows, two.weights, two.rest));
    assert_eq!(one.blocks, two.blocks);
}
