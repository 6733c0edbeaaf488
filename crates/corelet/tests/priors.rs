//! Priors by name: who gets which, on which scale, what is refused, and the posteriors that follow.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::Selector;
use corelet::data::{Column, Columns, DesignOptions, Source, Standardise, Table, Values};
use corelet::generate;
use corelet::model::{BuiltIn, Logistic};
use corelet::posterior::{Density, LaplaceSettings, LaplaceStatus, Prior, SampleSettings, laplace, sample};
use corelet::rows::{All, Memory, Rows, Weighted};
use corelet::sparse_vi::{SparseViError, SparseViSettings, sparse_vi};
use corelet::study::{ModelSpecification, Priors, Specification, Study, StudyError, UsageError, unheard};
use corelet::trust::Grade;
use serde_json::{Value, json};

fn numbers(name: &str, values: impl Iterator<Item = f64>) -> Column {
    Column { name: name.to_owned(), values: Values::Number { values: values.collect(), integer: false } }
}

/// Hours, a flag, three carriers and a target of any kind.
fn source(n: usize, y: impl Fn(f64) -> f64) -> Source<'static> {
    let hour = |i: usize| (i * 7 % 24) as f64;
    let codes: Vec<u32> = (0..n).map(|i| [0, 0, 1, 0, 2, 1][i * 31 % 97 % 6]).collect();
    let eta = |i: usize| 0.1 * hour(i) - 1.0 + f64::from(codes[i]) * 0.3;
    let target: Vec<f64> = (0..n).map(|i| y(eta(i) + ((i * 37 % 101) as f64 / 50.0 - 1.0))).collect();
    let levels = ["AA", "B6", "DL"].map(str::to_owned).to_vec();
    let columns = vec![
        numbers("hour", (0..n).map(hour)),
        numbers("weekend", (0..n).map(|i| f64::from(u8::from(i % 7 >= 5)))),
        Column { name: "carrier".to_owned(), values: Values::Text { codes: codes.clone(), levels } },
        numbers("y", target.into_iter()),
    ];
    Source::of_table(Table::new("flights", columns).unwrap())
}

/// The class of a row of [`source`] by [`classes`].
fn is_success(i: usize) -> bool {
    let code = f64::from([0_u8, 0, 1, 0, 2, 1][i * 31 % 97 % 6]);
    let eta = 0.1 * (i * 7 % 24) as f64 - 1.0 + code * 0.3 + ((i * 37 % 101) as f64 / 50.0 - 1.0);
    classes(eta) == 1.0
}

fn classes(eta: f64) -> f64 {
    f64::from(u8::from(eta > 0.3))
}

fn asked(model: BuiltIn, priors: Value) -> Specification {
    Specification {
        design: DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() },
        model: ModelSpecification {
            model,
            priors: Some(serde_json::from_value(priors).unwrap()),
            ..Default::default()
        },
        ..Specification::default()
    }
}

fn study(priors: Value) -> Result<Study, StudyError> {
    Study::open(&source(600, classes), &asked(BuiltIn::Logistic, priors))
}

fn prior_of(study: &Study, name: &str) -> Density {
    let at = study.frame().names.iter().position(|known| known == name).unwrap();
    study.resolved().priors[at]
}

fn density(text: &str) -> Density {
    text.parse().unwrap()
}

#[test]
fn a_name_goes_before_a_pattern_and_a_longer_pattern_before_a_shorter_one() {
    let study = study(json!({
        "default": "normal(0, 3)",
        "intercept": "student_t(4, 1, 10)",
        "coefficients": { "*": "normal(0, 9)", "carrier*": "laplace(0, 1)", "carrier=DL": "normal(0, 0.5)" },
    }))
    .unwrap();
    assert_eq!(study.frame().names, ["hour", "weekend", "carrier=B6", "carrier=DL", "(intercept)"]);
    assert_eq!(prior_of(&study, "hour"), density("normal(0, 9)"));
    assert_eq!(prior_of(&study, "carrier=B6"), density("laplace(0, 1)"));
    assert_eq!(prior_of(&study, "carrier=DL"), density("normal(0, 0.5)"));
    assert_eq!(prior_of(&study, "(intercept)"), density("student_t(4, 1, 10)"));
    let said: Vec<String> = study.resolved().said.iter().map(|group| group.line()).collect();
    assert_eq!(
        said,
        [
            "* (2) ~ normal(0, 9) on the standardised scale",
            "carrier* ~ laplace(0, 1) on the standardised scale",
            "carrier=DL ~ normal(0, 0.5) on the standardised scale",
            "(intercept) ~ student_t(4, 1, 10)",
        ]
    );
}

/// Weakly informative priors are the default; the word `paper` is N(0, 1) for all, as the number 1 is.
#[test]
fn what_is_not_spoken_of_stays_as_it_is() {
    let plain = Specification { model: ModelSpecification::default(), ..asked(BuiltIn::Logistic, json!({})) };
    let source = source(600, classes);
    let plain = Study::open(&source, &plain).unwrap();
    assert_eq!(plain.resolved(), study(json!("auto")).unwrap().resolved());
    let paper = study(json!("paper")).unwrap();
    assert!(paper.resolved().priors.iter().all(|&prior| prior == density("normal(0, 1)")));
    let said: Vec<String> = paper.resolved().said.iter().map(|group| group.line()).collect();
    assert_eq!(
        said,
        ["coefficients (4) ~ normal(0, 1) on the standardised scale", "(intercept) ~ normal(0, 1)"]
    );
    let mut without = asked(BuiltIn::Logistic, json!("paper"));
    without.design.intercept = false;
    let without = Study::open(&source, &without).unwrap();
    assert!(without.resolved().priors.iter().all(|&prior| prior == density("normal(0, 1)")));
    let one = study(json!({ "coefficients": { "hour": "normal(0, 2)" } })).unwrap();
    assert_eq!(one.resolved().priors[1..], plain.resolved().priors[1..]);
    // One prior for all by name is that of the number, to the bit.
    let wide = study(json!({ "default": "normal(0, 2)", "intercept": "normal(0, 2)" })).unwrap();
    let number = Specification {
        model: ModelSpecification { prior_sd: Some(2.0), ..Default::default() },
        ..asked(BuiltIn::Logistic, json!({}))
    };
    let number = Study::open(&source, &number).unwrap();
    assert_eq!(wide.full(&mut unheard).unwrap().posterior, number.full(&mut unheard).unwrap().posterior);
}

#[test]
fn the_original_scale_is_that_of_the_data() {
    let study = study(json!({
        "default": "normal(0.5, 2)",
        "scale": "original",
        "coefficients": { "hour": { "student_t": [3, 0, 0.1], "scale": "original" }, "weekend": { "normal": [0, 1], "scale": "standardised" } },
    }))
    .unwrap();
    let sd = |name: &str| {
        let at = study.frame().names.iter().position(|known| known == name).unwrap();
        study.frame().standardisation.scale[at]
    };
    assert!((sd("hour") - 6.9).abs() < 0.1);
    assert_eq!(prior_of(&study, "hour"), density("student_t(3, 0, 0.1)").moved(0.0, sd("hour")));
    assert_eq!(prior_of(&study, "carrier=B6"), density("normal(0.5, 2)").moved(0.0, sd("carrier=B6")));
    assert_eq!(prior_of(&study, "weekend"), density("normal(0, 1)"));
    let scales: Vec<_> = study.resolved().said.iter().map(|group| group.scale.as_deref()).collect();
    assert_eq!(scales, [Some("original"), Some("standardised"), Some("original"), None]);

    // A point among the data moves with them.
    let points =
        asked(BuiltIn::Gaussian, json!({ "scale": "original", "coefficients": { "y": "normal(10, 4)" } }));
    let columns = Columns { features: Some(vec!["hour".into(), "y".into()]), ..Columns::default() };
    let design = DesignOptions { columns, ..DesignOptions::default() };
    let study = Study::open(&source(600, |eta| 10.0 + eta), &Specification { design, ..points }).unwrap();
    let standardisation = &study.frame().standardisation;
    let (mean, sd) = (standardisation.means[1], standardisation.scale[1]);
    assert!((prior_of(&study, "y").mean() - (10.0 - mean) / sd).abs() < 1e-12);
    assert!((prior_of(&study, "y").scale() - 4.0 / sd).abs() < 1e-12);
}

#[test]
fn dispersions_and_the_intercept_have_priors_of_their_own() {
    let open =
        |priors| Study::open(&source(600, |eta| 50.0 + 3.0 * eta), &asked(BuiltIn::Linear, priors)).unwrap();
    let study = open(json!({ "log_sigma": "student_t(3, 1, 2)", "intercept": "normal(40, 5)" }));
    assert_eq!(prior_of(&study, "log_sigma"), density("student_t(3, 1, 2)"));
    assert_eq!(prior_of(&study, "(intercept)"), density("normal(40, 5)"));
    assert!(prior_of(&study, "hour").scale() > 5.0, "2.5 sd of the target");
    // A tight one of each moves what it is of.
    let mode = |study: &Study, at: usize| study.full(&mut unheard).unwrap().posterior.mean[at];
    let (tight, plain) =
        (open(json!({ "log_sigma": "normal(3, 0.001)", "intercept": "normal(0, 0.001)" })), open(json!({})));
    let (intercept, log_sigma) = (4, 5);
    assert!((mode(&tight, log_sigma) - 3.0).abs() < 0.01 && mode(&plain, log_sigma) < 1.5);
    assert!(mode(&tight, intercept).abs() < 0.1 && (mode(&plain, intercept) - 50.0).abs() < 3.0);
}

#[test]
fn weak_priors_know_flags_from_numbers() {
    let study = study(json!("auto")).unwrap();
    assert_eq!(prior_of(&study, "hour"), density("normal(0, 2.5)"));
    // Around the log odds of a success among all rows.
    let successes = (0..600).filter(|&i| is_success(i)).count() as f64;
    let centre = (successes / (600.0 - successes)).ln();
    let Density::Normal { mean, sd } = prior_of(&study, "(intercept)") else { panic!("it is normal") };
    assert!((mean - centre).abs() < 1e-8 && sd == 2.5, "{mean} {centre}");
    for name in ["weekend", "carrier=B6", "carrier=DL"] {
        let at = study.frame().names.iter().position(|known| known == name).unwrap();
        let sd = study.frame().standardisation.scale[at];
        assert!(sd < 0.5);
        assert_eq!(prior_of(&study, name), density("normal(0, 2.5)").moved(0.0, sd));
    }
    let said: Vec<String> = study.resolved().said.iter().map(|group| group.line()).collect();
    assert_eq!(
        said,
        [
            "coefficients ~ normal(0, 2.5) on the standardised scale",
            "0/1 features (3) ~ normal(0, 2.5) on the original scale",
            study.resolved().said[2].line().as_str()
        ]
    );
    assert!(said[2].starts_with("(intercept) ~ normal("), "{}", said[2]);
    let mut without = asked(BuiltIn::Logistic, json!("auto"));
    without.design.intercept = false;
    let without = Study::open(&source(600, classes), &without).unwrap();
    let lines: Vec<String> = without.resolved().said.iter().map(|group| group.line()).collect();
    assert_eq!(lines, said[..2]);
    let linear =
        Study::open(&source(600, |eta| 50.0 + 3.0 * eta), &asked(BuiltIn::Linear, json!("auto"))).unwrap();
    let plain =
        Study::open(&source(600, |eta| 50.0 + 3.0 * eta), &asked(BuiltIn::Linear, json!({}))).unwrap();
    assert_eq!(prior_of(&linear, "hour"), prior_of(&plain, "hour"));
    assert_eq!(prior_of(&linear, "(intercept)"), prior_of(&plain, "(intercept)"));
}

#[test]
fn each_class_has_coefficients_of_its_own() {
    let three = |eta: f64| (eta + 1.0).clamp(0.0, 2.0).floor();
    let plain = Study::open(&source(600, three), &asked(BuiltIn::Softmax, json!({}))).unwrap();
    let (one, other) = (&plain.frame().classes[1], &plain.frame().classes[2]);
    let hour = format!("{other}:hour");
    let priors = json!({
        "intercept": "normal(0, 3)",
        "coefficients": { "*:hour": { "normal": [0, 0.1], "scale": "original" }, &hour: "laplace(0, 1)" },
    });
    let study = Study::open(&source(600, three), &asked(BuiltIn::Softmax, priors)).unwrap();
    let sd = study.frame().standardisation.scale[0];
    assert_eq!(prior_of(&study, &format!("{one}:hour")), density("normal(0, 0.1)").moved(0.0, sd));
    assert_eq!(prior_of(&study, &hour), density("laplace(0, 1)"));
    for class in [one, other] {
        assert_eq!(prior_of(&study, &format!("{class}:(intercept)")), density("normal(0, 3)"));
        let weekend = format!("{class}:weekend");
        assert_eq!(prior_of(&study, &weekend), prior_of(&plain, &weekend));
    }
    let said: Vec<String> = study.resolved().said.iter().map(|group| group.line()).collect();
    assert!(said.contains(&"intercepts (2) ~ normal(0, 3)".to_owned()), "{said:?}");
}

/// A level of two rows without an event: under N(0, 1) nothing holds it, which is said; under weak priors it is held.
#[test]
fn a_level_of_which_the_data_say_nothing_is_named() {
    let n = 4000;
    let codes: Vec<u32> = (0..n).map(|i| if i % 2000 == 7 { 1 } else { 2 * u32::from(i % 3 == 0) }).collect();
    let counts = codes.iter().enumerate().map(|(i, &code)| if code == 1 { 0.0 } else { (i % 4) as f64 });
    let levels = ["usual", "rare", "other"].map(str::to_owned).to_vec();
    let columns = vec![
        numbers("y", counts.collect::<Vec<_>>().into_iter()),
        Column { name: "kind".to_owned(), values: Values::Text { codes, levels } },
    ];
    let source = Source::of_table(Table::new("claims", columns).unwrap());
    for (priors, warned) in [(json!("paper"), true), (json!({}), false)] {
        let study = Study::open(&source, &asked(BuiltIn::Poisson, priors)).unwrap();
        study.full(&mut unheard).unwrap();
        let warnings = study.warnings();
        let said = |warning: &String| warning.starts_with("the data do not inform 'kind=rare', which");
        assert_eq!(warnings.iter().any(said), warned, "{warnings:?}");
    }
}

#[test]
fn names_that_are_none_are_refused_with_those_that_are() {
    for (priors, why) in [
        (
            json!({ "coefficients": { "hours": "normal(0, 1)" } }),
            "'hours', which is no coefficient (did you mean 'hour'?); there are 'hour', 'weekend'",
        ),
        (
            json!({ "coefficients": { "origin*": "normal(0, 1)" } }),
            "no coefficient matches 'origin*' of the priors; there are 'hour'",
        ),
        (json!({ "coefficients": { "(int*": "normal(0, 1)" } }), "no coefficient matches"),
        (
            json!({ "coefficients": { "w*nd": "normal(0, 1)", "wee*": "normal(0, 1)" } }),
            "'weekend' matches 'w*nd' and 'wee*' of the priors, which are equally specific",
        ),
        (
            json!({ "log_sigma": "normal(0, 1)" }),
            "'log_sigma', which is no parameter beside the coefficients; there are 'default', 'scale'",
        ),
        (json!({ "defalt": "normal(0, 1)" }), "did you mean 'default'?"),
    ] {
        let error = study(priors.clone()).err().unwrap().to_string();
        assert!(error.contains(why), "{priors}: {error}");
    }
    let without = |standardise, intercept, priors| {
        let asked = asked(BuiltIn::Logistic, priors);
        let design = DesignOptions { standardise, intercept, ..asked.design.clone() };
        Study::open(&source(600, classes), &Specification { design, ..asked })
            .err()
            .map(|error| error.to_string())
    };
    let none = without(Standardise::Scale, false, json!({ "intercept": "normal(0, 1)" })).unwrap();
    assert!(none.contains("there is none"), "{none}");
    let original = json!({ "default": "normal(0, 1)", "scale": "original" });
    let white = without(Standardise::Whiten, true, original).unwrap();
    assert!(white.contains("'hour' is meant on the original scale, but each whitened feature"), "{white}");
    assert_eq!(without(Standardise::Whiten, true, json!({ "default": "laplace(0, 1)" })), None);
    assert_eq!(without(Standardise::Whiten, true, json!("auto")), None);
}

#[test]
fn what_does_not_go_together_is_refused_before_any_work() {
    let both = Specification {
        model: ModelSpecification { prior_sd: Some(1.0), priors: Some(Priors::auto()), ..Default::default() },
        ..Specification::default()
    };
    assert_eq!(both.check(), Err(UsageError::Apart { setting: "priors", other: "prior_sd", value: None }));
    let mut heavy = asked(BuiltIn::Logistic, json!({ "default": "laplace(0, 1)" }));
    heavy.check().unwrap();
    heavy.build.method = Selector::SparseVi(SparseViSettings::default());
    assert!(heavy.check().unwrap_err().to_string().contains("must all be normal for the method sparse-vi"));
    let model = Arc::new(Logistic::model(generate::logistic_paper(50, 1)).unwrap());
    let prior = Prior::of_densities(&[density("laplace(0, 1)"); 3]).unwrap();
    let refused = sparse_vi(&(model as _), &prior, 2, &SparseViSettings::default(), 0, &mut |_| {
        ControlFlow::Continue(())
    });
    assert!(matches!(refused, Err(SparseViError::Prior)));
}

/// n rows of one feature, without an intercept.
fn slope(n: usize) -> Memory {
    let rows = generate::logistic(n, 1, 5);
    Memory::new(Arc::new(Logistic::model(rows).unwrap()))
}

/// NUTS against sums over a fine grid, for the exact densities, kinks and tails included.
#[test]
fn chains_have_the_moments_of_an_integrated_posterior() {
    for prior in ["laplace(0, 0.1)", "student_t(2, -1, 0.2)", "normal(0.4, 0.1)"] {
        let rows = slope(40);
        let density = density(prior);
        let prior = Prior::of_densities(&[density]).unwrap();
        let prior = prior.clone().with_spreads(&prior.spreads(&All(&rows)).unwrap());
        let fit = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
        assert_eq!(fit.status, LaplaceStatus::Converged);
        let grid: Vec<f64> = (0..40_000).map(|i| -6.0 + 12.0 * (f64::from(i) + 0.5) / 40_000.0).collect();
        let log: Vec<f64> = grid
            .iter()
            .map(|&x| {
                let at = corelet::rows::At { theta: &[x], derivatives: 0 };
                rows.newton(&at).unwrap().value + density.at(x).value
            })
            .collect();
        let top = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let moment = |power: i32, centre: f64| {
            let terms = grid.iter().zip(&log).map(|(x, l)| ((x - centre).powi(power), (l - top).exp()));
            let (sum, total) = terms.fold((0.0, 0.0), |(s, t), (x, w)| (s + x * w, t + w));
            sum / total
        };
        let mean = moment(1, 0.0);
        let sd = moment(2, mean).sqrt();
        let settings = SampleSettings { draws: 5000, ..SampleSettings::default() };
        let chains =
            sample(&All(&rows), &prior, &fit.posterior, &settings, 3, &mut |_| ControlFlow::Continue(()))
                .unwrap();
        let draws = chains.theta();
        let own = draws.iter().sum::<f64>() / draws.len() as f64;
        let spread = (draws.iter().map(|x| (x - own).powi(2)).sum::<f64>() / draws.len() as f64).sqrt();
        assert!((own - mean).abs() < 0.05 * sd, "{density}: {own} {mean} ± {sd}");
        assert!((spread / sd - 1.0).abs() < 0.05, "{density}: {spread} {sd}");
        // The Gaussian that stands for it is where it is, and about as wide.
        assert!(
            (fit.posterior.mean[0] - mean).abs() < 0.5 * sd,
            "{density}: {} {mean}",
            fit.posterior.mean[0]
        );
        assert!((fit.posterior.sds().next().unwrap() / sd).ln().abs() < 0.5, "{density}");
    }
}

/// Far from its kink a Laplace density is a constant pull; near it the fit holds the coefficient, and the fit of a coreset with all
/// rows is that of all rows to rounding.
#[test]
fn fits_of_all_rows_and_of_weighted_ones_see_one_prior() {
    let rows = Memory::new(Arc::new(Logistic::model(generate::logistic(3000, 4, 2)).unwrap()));
    let prior = Prior::of_densities(
        &["laplace(0, 0.02)", "student_t(3, 0, 0.1)", "normal(0, 1)", "laplace(0, 5)"].map(density),
    )
    .unwrap();
    let prior = prior.clone().with_spreads(&prior.spreads(&All(&rows)).unwrap());
    let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
    let ids: Vec<usize> = (0..3000).collect();
    let own = Weighted::fetch(&rows, &ids, &[1.0; 3000]).unwrap().fit(&prior).unwrap();
    for (a, b) in full.posterior.mean.iter().zip(&own.posterior.mean) {
        assert!((a - b).abs() < 1e-9);
    }
    assert_eq!(full.status, LaplaceStatus::Converged);
    let flat =
        laplace(&All(&rows), &Prior::isotropic(4, 1e3).unwrap(), None, &LaplaceSettings::default()).unwrap();
    assert!(full.posterior.mean[0].abs() < flat.posterior.mean[0].abs());
}

/// A coreset under heavy-tailed priors is certified as one under a normal prior is, whatever the fit starts from; and three rows are not.
#[test]
fn coresets_under_heavy_tails_are_judged() {
    let mut asked = asked(
        BuiltIn::Logistic,
        json!({ "default": "laplace(0, 0.5)", "intercept": "student_t(3, 0, 2.5)", "coefficients": { "carrier*": "student_t(4, 0, 1)" } }),
    );
    let source = source(3000, classes);
    let study = Study::open(&source, &asked).unwrap();
    let grade = |asked: &Specification| {
        let chosen = study.build(&asked.build, &mut unheard).unwrap().unwrap();
        let weighted = study.weighted(&chosen.coreset().rows, &chosen.weights).unwrap();
        study.sample(Some(&weighted), &asked.sample, 0, &mut unheard).unwrap().grade()
    };
    asked.build.k = Some(60);
    assert_eq!(grade(&asked), Some(Grade::A));
    asked.build.start = "subsample:500".parse().unwrap();
    assert_eq!(grade(&asked), Some(Grade::A));
    asked.build.k = Some(3);
    asked.build.rounds = Some(1);
    assert_ne!(grade(&asked), Some(Grade::A));
}

#[test]
fn a_kept_model_has_its_priors() {
    let study = study(json!({ "default": "laplace(0, 0.3)", "scale": "original" })).unwrap();
    let kept = serde_json::to_string(study.resolved()).unwrap();
    let back: corelet::study::Resolved = serde_json::from_str(&kept).unwrap();
    assert_eq!(&back, study.resolved());
    assert_eq!(back.spreads.len(), 5);
    let theta = [0.1, -0.2, 0.3, 0.0, 1.0];
    assert_eq!(
        back.prior().unwrap().log_density(&theta),
        study.resolved().prior().unwrap().log_density(&theta)
    );
}

/// Under the default priors another unit of the target moves the intercept by its logarithm, and nothing else.
#[test]
fn default_priors_do_not_know_the_unit_of_the_target() {
    for (model, beside) in
        [(BuiltIn::Gamma, None), (BuiltIn::Exponential, Some("seen")), (BuiltIn::Weibull, Some("seen"))]
    {
        let fit = |unit: f64| {
            let n = 40;
            let x = |i: usize| ((i * 7 % 40) as f64 - 20.0) / 10.0;
            let noise = |i: usize| (0.3 * ((i * 13 % 17) as f64 - 8.0) / 8.0).exp();
            let y = (0..n).map(|i| unit * 1500.0 * (0.3 * x(i)).exp() * noise(i));
            let columns = vec![
                numbers("x", (0..n).map(x)),
                numbers("seen", (0..n).map(|i| f64::from(u8::from(i % 5 > 0)))),
                numbers("y", y),
            ];
            let source = Source::of_table(Table::new("costs", columns).unwrap());
            let design = DesignOptions {
                columns: Columns {
                    features: Some(vec!["x".to_owned()]),
                    event: beside.map(str::to_owned),
                    ..Columns::predicting("y")
                },
                ..DesignOptions::default()
            };
            let model = ModelSpecification { model, ..ModelSpecification::default() };
            let study =
                Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap();
            let full = study.full(&mut unheard).unwrap().posterior.clone();
            let sds: Vec<f64> = full.sds().collect();
            (study.to_original(&full.mean), sds)
        };
        let (plain, sds) = fit(1.0);
        assert!(
            (plain[1] - 1500_f64.ln()).abs() < 0.5 && (plain[0] - 0.3).abs() < 0.15,
            "{model}: {plain:?}"
        );
        for unit in [1e-3, 100.0] {
            let (other, other_sds) = fit(unit);
            assert!((other[1] - unit.ln() - plain[1]).abs() < 1e-7, "{model}: {other:?} {plain:?}");
            let others = (0..plain.len()).filter(|&j| j != 1);
            assert!(
                others.into_iter().all(|j| (other[j] - plain[j]).abs() < 1e-7),
                "{model}: {other:?} {plain:?}"
            );
            assert!(sds.iter().zip(&other_sds).all(|(a, b)| (a / b - 1.0).abs() < 1e-6), "{model}");
        }
    }
}
