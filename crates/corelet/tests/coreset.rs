//! Builds from generated data: sizes, targets in nats, interruption, determinism.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;

use corelet::coreset::{BuildError, BuildOptions, Callback, Coreset, RoundOptions, build_in_rounds};
use corelet::data::Values;
use corelet::embed::Choice;
use corelet::generate;
use corelet::model::{BuiltIn, Link};
use corelet::posterior::{Laplace, LaplaceSettings, Prior, laplace};
use corelet::rows::{All, Memory, Observations, Problem, Rows};
use corelet::study::{ModelSpecification, Resolved, Specification, UsageError};
use corelet::trust::HeldOut;
use sparse_nnls::{Info, Method, Status};

struct Fit {
    rows: Memory,
    prior: Prior,
    laplace: Laplace,
}

fn fit(observations: Observations, asked: &ModelSpecification) -> Fit {
    let model = Resolved::new(asked, &observations, None);
    let rows = Memory::new(model.bind(observations).unwrap());
    let prior = model.prior().unwrap();
    let laplace = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    Fit { rows, prior, laplace }
}

fn logistic(n: usize) -> Fit {
    fit(generate::logistic_paper(n, 7), &ModelSpecification::default())
}

fn go_on(_: &Info) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn build_of(fit: &Fit, options: &BuildOptions) -> Result<Coreset, BuildError> {
    build_heard(fit, options, &mut go_on)
}

fn build_heard(
    fit: &Fit,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Coreset, BuildError> {
    let problem = Problem { rows: &fit.rows, prior: &fit.prior };
    let once = RoundOptions { rounds: Some(1), ..RoundOptions::default() };
    let built = build_in_rounds(problem, &fit.laplace.posterior, options, &once, callback)?;
    Ok(built.coreset)
}

#[test]
fn every_method_keeps_to_k_points() {
    let fit = logistic(400);
    for method in Method::all() {
        let options = BuildOptions {
            method: method.into(),
            k: 15,
            embedding: Choice::Draws(200),
            ..BuildOptions::default()
        };
        let coreset = build_of(&fit, &options).unwrap();
        assert!((1..=15).contains(&coreset.rows.len()), "{}", coreset.method);
        assert!(coreset.rows.is_sorted() && coreset.weights.iter().all(|&w| w > 0.0), "{}", coreset.method);
        assert_eq!(coreset.rows.len(), coreset.weights.len());
        assert_eq!(coreset.fit.embedding.name, "draws:200");
        assert_eq!(coreset.method, method.name());
        assert_eq!(coreset.reached, None);
    }
}

#[test]
fn max_kl_takes_the_fewest_points() {
    let fit = logistic(600);
    let held_out = HeldOut::new(&fit.rows, &fit.laplace.posterior, 0);
    let mut sizes = Vec::new();
    for max_kl in [1.0, 1e-2, 1e-4] {
        let options = BuildOptions { k: 60, max_kl: Some(max_kl), ..BuildOptions::default() };
        let coreset = build_of(&fit, &options).unwrap();
        let estimate = held_out.estimate(&coreset.rows, &coreset.weights).unwrap().nats();
        assert!(estimate <= max_kl, "{estimate} {max_kl}");
        assert_eq!((coreset.reached, coreset.status), (Some(true), Status::TargetReached));
        sizes.push(coreset.rows.len());
    }
    assert!(sizes.is_sorted() && sizes[0] < sizes[2], "{sizes:?}");
}

#[test]
fn a_max_kl_out_of_reach_is_said() {
    let fit = logistic(300);
    let options = BuildOptions { k: 3, max_kl: Some(1e-12), ..BuildOptions::default() };
    let coreset = build_of(&fit, &options).unwrap();
    assert_eq!(coreset.reached, Some(false));
    assert!(!coreset.rows.is_empty() && coreset.rows.len() <= 3);
}

#[test]
fn a_stopped_build_returns_what_it_has() {
    let fit = logistic(500);
    let options = BuildOptions { method: Method::Omp.into(), k: 50, ..BuildOptions::default() };
    let mut steps = 0;
    let mut stop_at_five = |_: &Info| {
        steps += 1;
        if steps < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let coreset = build_heard(&fit, &options, &mut stop_at_five).unwrap();
    assert_eq!(coreset.status, Status::Stopped);
    assert!((1..=5).contains(&coreset.rows.len()));
}

#[test]
fn what_cannot_be_built_is_refused() {
    let fit = logistic(100);
    let refused = |options: BuildOptions| build_of(&fit, &options).unwrap_err().to_string();
    let too_many = refused(BuildOptions { k: 101, ..BuildOptions::default() });
    assert_eq!(too_many, "k = 101 points cannot be chosen from 100 rows: k must be between 1 and 100");
    assert!(refused(BuildOptions { max_kl: Some(-1.0), k: 5, ..BuildOptions::default() }).contains("-1"));
    let giga =
        BuildOptions { method: Method::Giga.into(), max_kl: Some(0.1), k: 5, ..BuildOptions::default() };
    assert!(refused(giga).contains("giga"));
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let fit = fit(generate::logistic(9000, 4, 3), &ModelSpecification::default());
            let options = BuildOptions { k: 20, embedding: Choice::Draws(100), ..BuildOptions::default() };
            let coreset = build_of(&fit, &options).unwrap();
            let held_out = HeldOut::new(&fit.rows, &fit.laplace.posterior, 0);
            let estimate = held_out.estimate(&coreset.rows, &coreset.weights).unwrap();
            (coreset, estimate.residual.to_bits())
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn generated_data_have_their_parameters() {
    let fit = logistic(20_000);
    for (mean, truth) in fit.laplace.posterior.mean.iter().zip([3.0, 3.0, 0.0]) {
        assert!((mean - truth).abs() < 0.2, "{mean} {truth}");
    }
    let (model, link) = (BuiltIn::Poisson, Some(Link::Softplus));
    let asked = ModelSpecification { model, link, ..ModelSpecification::default() };
    let poisson = self::fit(generate::poisson_paper(20_000, 1), &asked);
    for (mean, truth) in poisson.laplace.posterior.mean.iter().zip([1.0, 0.0]) {
        assert!((mean - truth).abs() < 0.05, "{mean} {truth}");
    }
    let gaussian = generate::gaussian_paper(600, 200, 1);
    assert_eq!((gaussian.len(), gaussian.dim, gaussian.target.len()), (600, 200, 0));
    let square =
        gaussian.features.iter().map(|x| f64::from(x * x)).sum::<f64>() / gaussian.features.len() as f64;
    assert!((square - 1.0).abs() < 0.02, "{square}");
}

#[test]
fn a_generated_table_leaves_the_intercept_to_the_design() {
    let table = generate::to_table(&generate::logistic(50, 4, 0), "generated").unwrap();
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["x1", "x2", "x3", "y"]);
}

#[test]
fn generated_claims_are_skewed_and_have_rare_levels() {
    let table = generate::claims(50_000, 0).unwrap();
    let Values::Text { codes, levels } = &table.column("region").unwrap().values else { panic!("text") };
    let share = |level: usize| codes.iter().filter(|&&code| code as usize == level).count() as f64 / 5e4;
    assert!(levels.len() == 22 && share(0) > 0.3 && share(19) < 3e-4, "{} {}", share(0), share(19));
    let Values::Number { values, .. } = &table.column("claims").unwrap().values else { panic!("numbers") };
    let most = values.iter().fold(0.0_f64, |most, &y| most.max(y));
    let mean = values.iter().sum::<f64>() / 5e4;
    assert!((0.02..0.2).contains(&mean) && most >= 3.0, "{mean} {most}");
}

#[test]
fn hopelessly_few_points_are_said_at_once_with_how_many_would_do() {
    let fit = fit(generate::logistic(20_000, 30, 3), &ModelSpecification::default());
    let parameters = fit.rows.dim();
    let posterior = &fit.laplace.posterior;
    let build = |k: usize| {
        let options = BuildOptions { k, ..BuildOptions::default() };
        let problem = Problem { rows: &fit.rows, prior: &fit.prior };
        let automatic = RoundOptions::default();
        build_in_rounds(problem, posterior, &options, &automatic, &mut go_on).unwrap()
    };
    let few = build(parameters - 5);
    let said = few.coreset.too_few.unwrap();
    assert_eq!((said.parameters, few.rounds.len()), (parameters, 1));
    let enough = said.enough;
    assert!((60..500).contains(&enough), "{enough}");
    let advised = build(enough);
    assert_eq!(advised.coreset.too_few, None);
    let held_out = HeldOut::new(&fit.rows, posterior, 1);
    let nats = held_out.estimate(&advised.coreset.rows, &advised.coreset.weights).unwrap().nats();
    assert!(nats <= 0.07, "{nats}");
}

#[test]
fn options_are_read_back() {
    let options = BuildOptions { max_kl: Some(0.1), embedding: Choice::Draws(9), ..BuildOptions::default() };
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<BuildOptions>(&text).unwrap(), options);
    assert!(serde_json::from_str::<BuildOptions>("{\"kk\": 3}").is_err());
}

#[test]
fn settings_by_name_are_checked_one_by_one() {
    let of = |json: &str| Specification::from_settings(serde_json::from_str(json).as_ref().unwrap());
    let asked =
        of(r#"{"model": "poisson", "link": "softplus", "k": 30, "method": "giga", "target": "y"}"#).unwrap();
    assert_eq!((asked.model.model, asked.model.link), (BuiltIn::Poisson, Some(Link::Softplus)));
    assert_eq!((asked.build.k, asked.build.method.name()), (Some(30), "giga"));
    assert_eq!(asked.design.columns.target.as_deref(), Some("y"));
    assert_eq!(of(r#"{"k": null, "seed": 0}"#).unwrap(), Specification::default());
    for unknown in ["kk", "design", "columns"] {
        let error = of(&format!(r#"{{"{unknown}": 3}}"#)).unwrap_err();
        assert_eq!(error, UsageError::Unknown { setting: unknown.to_owned() });
    }
    let worded = |json: &str| of(json).unwrap_err().to_string();
    assert!(
        worded(r#"{"model": "probit"}"#).starts_with("model is 'probit', but it must be one of binomial, ")
    );
    assert!(worded(r#"{"method": "best"}"#).starts_with("method is 'best', but it must be one of uniform"));
    let clash = of(r#"{"max_kl": 0.1, "method": "giga"}"#).unwrap().check().unwrap_err();
    let flag = |setting: &str| format!("--{}", setting.replace('_', "-"));
    assert_eq!(clash.worded(flag), "--max-kl is for --method pursuit");
}

/// A setting is found by its name alone, so no two parts may have one of the same name.
#[test]
fn every_setting_belongs_to_one_part() {
    fn add(part: &serde_json::Value, names: &mut Vec<String>) {
        for (name, value) in part.as_object().into_iter().flatten() {
            match value.is_object() {
                true => add(value, names),
                false => names.push(name.clone()),
            }
        }
    }
    let mut names = Vec::new();
    add(&serde_json::to_value(Specification::default()).unwrap(), &mut names);
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() == count && count > 25, "{count} names, {} of them different", names.len());
}
