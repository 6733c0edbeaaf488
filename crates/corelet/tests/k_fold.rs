//! K-fold by K coresets of one embedding against K posteriors of the other rows, by closed forms and by refits.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::data::{Column, Columns, DesignOptions, Source, Table, Values};
use corelet::model::BuiltIn;
use corelet::posterior::{Density, SampleSettings};
use corelet::study::{KFold, KFoldSettings, ModelSpecification, Specification, Study, unheard};
use corelet::trust::Grade;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

fn study(n: usize, model: ModelSpecification, groups: Option<usize>) -> Study {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut columns = vec![Vec::new(); 3];
    for _ in 0..n {
        let x: [f64; 2] = std::array::from_fn(|_| StandardNormal.sample(&mut rng));
        let noise: f64 = StandardNormal.sample(&mut rng);
        let eta = 0.3 + 0.7 * x[0] - 0.4 * x[1];
        let y = match model.model {
            BuiltIn::Linear => eta + 0.6 * noise,
            _ => f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta).exp()))),
        };
        columns.iter_mut().zip([x[0], x[1], y]).for_each(|(column, x)| column.push(x));
    }
    let number = |(name, values): (&str, Vec<f64>)| Column {
        name: name.to_owned(),
        values: Values::Number { values, integer: false },
    };
    let mut table: Vec<Column> = ["a", "b", "y"].into_iter().zip(columns).map(number).collect();
    if let Some(groups) = groups {
        table.push(number(("who", (0..n).map(|i| (i % groups) as f64).collect())));
    }
    let groups = groups.map(|_| "who".to_owned());
    let columns = Columns { groups, ..Columns::predicting("y") };
    let design = DesignOptions { columns, ..DesignOptions::default() };
    let source = Source::of_table(Table::new("rows", table).unwrap());
    Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap()
}

fn k_fold(study: &Study, folds: usize, k: usize) -> KFold {
    let asked = KFoldSettings { folds, k: Some(k), sample: SampleSettings::default(), seed: 4 };
    study.k_fold(&asked, &mut unheard).unwrap()
}

/// log p(yᵢ | rows of other folds) of a linear model with known noise: the posterior is a Gaussian.
fn exact(study: &Study, fold_of: &[usize], sigma: f64) -> Vec<f64> {
    let rows = study.problem().rows.fetch(&(0..study.len()).collect::<Vec<_>>()).unwrap();
    let dim = rows.dim;
    let prior: Vec<(f64, f64)> = study
        .resolved()
        .priors
        .iter()
        .map(|density| match density {
            Density::Normal { mean, sd } => (*mean, *sd),
            _ => panic!("the prior is normal"),
        })
        .collect();
    let posterior = |fold: usize| {
        let mut mean: Vec<f64> = prior.iter().map(|(mean, _)| *mean).collect();
        let mut covariance: Vec<f64> = (0..dim * dim)
            .map(|at| if at / dim == at % dim { prior[at / dim].1.powi(2) } else { 0.0 })
            .collect();
        for i in (0..rows.len()).filter(|&i| fold_of[i] != fold) {
            let x = rows.wide_row(i);
            let gain: Vec<f64> =
                (0..dim).map(|a| (0..dim).map(|b| covariance[a * dim + b] * x[b]).sum()).collect();
            let variance = sigma * sigma + x.iter().zip(&gain).map(|(x, g)| x * g).sum::<f64>();
            let off = rows.target(i).0 - x.iter().zip(&mean).map(|(x, m)| x * m).sum::<f64>();
            mean.iter_mut().zip(&gain).for_each(|(m, g)| *m += g * off / variance);
            for a in 0..dim {
                (0..dim).for_each(|b| covariance[a * dim + b] -= gain[a] * gain[b] / variance);
            }
        }
        (mean, covariance)
    };
    let folds = fold_of.iter().max().unwrap() + 1;
    let all: Vec<_> = (0..folds).map(posterior).collect();
    (0..rows.len())
        .map(|i| {
            let (mean, covariance) = &all[fold_of[i]];
            let x = rows.wide_row(i);
            let spread: f64 = (0..dim * dim).map(|at| x[at / dim] * covariance[at] * x[at % dim]).sum();
            let variance = sigma * sigma + spread;
            let off = rows.target(i).0 - x.iter().zip(mean).map(|(x, m)| x * m).sum::<f64>();
            -0.5 * (off * off / variance + (std::f64::consts::TAU * variance).ln())
        })
        .collect()
}

#[test]
fn a_linear_model_has_its_closed_form() {
    let linear =
        ModelSpecification { model: BuiltIn::Linear, sigma: Some(0.6), ..ModelSpecification::default() };
    for groups in [None, Some(40)] {
        let study = study(400, linear.clone(), groups);
        let found = k_fold(&study, 5, 60);
        let truth = exact(&study, &found.fold_of, 0.6);
        assert!(found.folds.iter().all(|fold| fold.grade == Grade::A), "{:?}", found.folds);
        let worst = found.pointwise.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 0.03, "{worst}");
        assert!((found.elpd - truth.iter().sum::<f64>()).abs() < 0.5, "{}", found.elpd);
        assert_eq!(found.folds.iter().map(|fold| fold.rows).sum::<usize>(), 400);
        // Rows of a group are left out together.
        if let Some(groups) = groups {
            assert!((0..400).all(|i| found.fold_of[i] == found.fold_of[i % groups]));
        }
    }
}

/// A fit of each four fifths by themselves, through another path: all rows of those folds by NUTS.
#[test]
fn a_logistic_model_is_that_of_refits_without_each_fold() {
    let study = study(600, ModelSpecification::default(), None);
    let found = k_fold(&study, 4, 80);
    let rows = study.problem().rows;
    let prior = study.problem().prior;
    let mut total = 0.0;
    for fold in 0..4 {
        let of = |inside: bool| -> Vec<usize> {
            (0..600).filter(|&i| (found.fold_of[i] == fold) == inside).collect()
        };
        let others = rows.bind(rows.fetch(&of(false)).unwrap()).unwrap();
        let memory = corelet::rows::Memory::new(others);
        let all = corelet::rows::All(&memory);
        let start =
            corelet::posterior::laplace(&all, prior, None, &corelet::posterior::LaplaceSettings::default());
        let start = start.unwrap().posterior;
        let settings = SampleSettings { draws: 2000, ..SampleSettings::default() };
        let mut go_on = |_: &corelet::posterior::SampleProgress| std::ops::ControlFlow::Continue(());
        let chains = corelet::posterior::sample(&all, prior, &start, &settings, 7, &mut go_on).unwrap();
        let theta = chains.theta();
        let left = rows.bind(rows.fetch(&of(true)).unwrap()).unwrap();
        for i in 0..left.len() {
            let draws = theta.chunks_exact(3);
            let count = draws.len() as f64;
            total += (draws.map(|theta| left.log_likelihood(i, theta).exp()).sum::<f64>() / count).ln();
        }
    }
    assert!((found.elpd - total).abs() < 0.5, "{} {total}", found.elpd);
    assert!(found.se > 1.0 && found.folds.iter().all(|fold| fold.grade == Grade::A), "{:?}", found.folds);
    let refused = KFoldSettings { folds: 1, k: None, sample: SampleSettings::default(), seed: 0 };
    let said = study.k_fold(&refused, &mut unheard).unwrap_err().to_string();
    assert!(said.contains("1 folds cannot be made"), "{said}");
}
