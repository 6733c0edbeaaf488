//! Outcomes by the levels of a column against plain sums over the rows of each, and levels that a model has wrong.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::data::{Column, Columns, DesignOptions, Source, Table, Values};
use corelet::model::BuiltIn;
use corelet::random::Stream;
use corelet::review::{By, Review};
use corelet::study::{GivenDraws, ModelSpecification, ReviewSettings, Specification, Study, unheard};
use corelet::trust::Draws;
use corelet::words::{misfits_by_level, reviewed};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson, StandardNormal};

const ROWS: usize = 6000;

/// Counts, or labels, of which those of region c are others than a model without regions says.
fn source(model: BuiltIn) -> (Source<'static>, Vec<f64>, Vec<u32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut x, mut y, mut codes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROWS {
        let value: f64 = StandardNormal.sample(&mut rng);
        let region = rng.random_range(0..4_u32);
        let eta = 0.5 + 0.4 * value + if region == 2 { 0.9 } else { 0.0 };
        y.push(match model {
            BuiltIn::Poisson => Poisson::new(eta.exp()).unwrap().sample(&mut rng),
            _ => f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta).exp()))),
        });
        x.push(value);
        codes.push(region);
    }
    let number = |name: &str, values: Vec<f64>| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    };
    let levels = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let region = Column { name: "region".to_owned(), values: Values::Text { codes: codes.clone(), levels } };
    let table = Table::new("rows", vec![number("x", x), number("y", y.clone()), region]).unwrap();
    (Source::of_table(table), y, codes)
}

fn review(model: BuiltIn, column: &str, draws: usize) -> (Review, Vec<f64>, Vec<u32>) {
    let (source, y, codes) = source(model);
    let columns = Columns { features: Some(vec!["x".to_owned()]), ..Columns::predicting("y") };
    let design = DesignOptions { columns, ..DesignOptions::default() };
    let model = ModelSpecification { model, ..ModelSpecification::default() };
    let study = Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap();
    let posterior = study.full(&mut unheard).unwrap().posterior.clone();
    let shifts = posterior.shifts(draws, 5, Stream::HeldOut);
    let theta = (0..draws)
        .flat_map(|s| posterior.mean.iter().zip(shifts.row(s)).map(|(m, d)| m + d).collect::<Vec<f64>>())
        .collect();
    let draws = Draws { theta, dim: posterior.dim(), chains: None, log_weights: None };
    let given = GivenDraws { draws, log_density: None, diverged: 0 };
    let rows: Vec<usize> = (0..study.len()).collect();
    let by = By::of(column, &source.column(column).unwrap(), &rows);
    let settings = ReviewSettings { by: Some(by), ..ReviewSettings::default() };
    (study.review(&given, None, &settings, &mut unheard).unwrap(), y, codes)
}

#[test]
fn each_level_has_the_sums_of_its_rows() {
    for model in [BuiltIn::Poisson, BuiltIn::Logistic] {
        let (review, y, codes) = review(model, "region", 200);
        assert_eq!(review.by.len(), 4);
        let all = review.checks.as_ref().unwrap();
        for (level, (label, checked)) in review.by.iter().enumerate() {
            let own: Vec<f64> =
                y.iter().zip(&codes).filter(|(_, code)| **code == level as u32).map(|(y, _)| *y).collect();
            assert_eq!((label.as_str(), checked.rows), (["a", "b", "c", "d"][level], own.len()));
            let (mean, expected, sd) = checked.mean.unwrap();
            assert!((mean - own.iter().sum::<f64>() / own.len() as f64).abs() < 1e-12);
            if let Some((zeros, ..)) = checked.zeros {
                assert_eq!(zeros, own.iter().filter(|y| **y == 0.0).count());
            }
            // Region c has more than a model without regions expects, and the others less.
            assert_eq!(mean > expected, level == 2, "{label}: {mean} {expected}");
            assert!(sd > 0.0 && sd < 0.1, "{sd}");
        }
        assert_eq!(review.by.iter().map(|(_, checked)| checked.rows).sum::<usize>(), all.rows);
        let (mean, expected, sd) = all.mean.unwrap();
        assert!((mean - expected).abs() < 3.0 * sd, "with an intercept the mean of all is right");
        let found = misfits_by_level(&review.by);
        assert!(found[..].iter().any(|line| line.starts_with("c: outcomes are")), "{found:?}");
        let said = reviewed(&review, &["(intercept)".to_owned(), "x".to_owned()], &|row| row).join("\n");
        assert!(said.contains("  by level       a") && said.contains("expected"), "{said}");
    }
}

/// The sd of a level's mean is that of outcomes drawn from the model: Poisson variance over the rows.
#[test]
fn ranges_of_a_number_that_the_model_has_right_are_not_told() {
    let (review, ..) = review(BuiltIn::Poisson, "x", 400);
    assert_eq!(review.by.len(), 10);
    for (_, checked) in &review.by {
        let (_, expected, sd) = checked.mean.unwrap();
        let poisson = (expected / checked.rows as f64).sqrt();
        assert!((0.7..1.5).contains(&(sd / poisson)), "{sd} {poisson}");
    }
}
