//! Certificates of anybody's draws against closed forms: a linear model with known noise has a Gaussian posterior.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use corelet::data::{Columns, DesignOptions, Source};
use corelet::generate;
use corelet::model::BuiltIn;
use corelet::posterior::Gaussian;
use corelet::random::Stream;
use corelet::study::{GivenDraws, ModelSpecification, Specification, Study, unheard};
use corelet::trust::{Certificate, Claim, Draws, Grade, Reason, Scores, certify};
use corelet::words::certified;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, StandardNormal};

/// A linear model of n rows, σ known.
fn study(n: usize, seed: u64) -> Study {
    let mut rows = generate::logistic(n, 4, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for y in rows.target.iter_mut() {
        let noise: f64 = StandardNormal.sample(&mut rng);
        *y += 0.3 * noise;
    }
    let source = Source::of_table(generate::to_table(&rows, "generated").unwrap());
    let design = DesignOptions { columns: Columns::predicting("y"), ..DesignOptions::default() };
    let model =
        ModelSpecification { model: BuiltIn::Linear, sigma: Some(0.8), ..ModelSpecification::default() };
    Study::open(&source, &Specification { design, model, ..Specification::default() }).unwrap()
}

fn exact(study: &Study) -> Gaussian {
    study.full(&mut unheard).unwrap().posterior.clone()
}

/// Independent draws of a Gaussian, moved and stretched in units of its standard deviations, and their log density.
fn drawn(posterior: &Gaussian, count: usize, moved: f64, scale: f64, chains: Option<usize>) -> GivenDraws {
    let dim = posterior.dim();
    let shifts = posterior.shifts(count, 7, Stream::HeldOut);
    let sd: Vec<f64> = posterior.sds().collect();
    let theta: Vec<f64> = (0..count)
        .flat_map(|s| {
            let of = |(j, d): (usize, &f64)| {
                let off = if j == 1 { moved * sd[j] } else { 0.0 };
                posterior.mean[j] + off + scale * d
            };
            shifts.row(s).iter().enumerate().map(of).collect::<Vec<f64>>()
        })
        .collect();
    let density = |theta: &[f64]| {
        let back: Vec<f64> = theta
            .iter()
            .enumerate()
            .map(|(j, x)| {
                let off = if j == 1 { moved * sd[j] } else { 0.0 };
                posterior.mean[j] + (x - posterior.mean[j] - off) / scale
            })
            .collect();
        posterior.log_density(&back) - dim as f64 * scale.ln()
    };
    let log_density = chains.is_none().then(|| theta.chunks_exact(dim).map(density).collect());
    GivenDraws { draws: Draws { theta, dim, chains, log_weights: None }, log_density, diverged: 0 }
}

fn judged(study: &Study, given: &GivenDraws) -> Certificate {
    study.certify(given, &mut unheard).unwrap()
}

fn has(certificate: &Certificate, reason: Reason) -> bool {
    certificate.verdict.reasons.contains(&reason)
}

#[test]
fn draws_of_the_posterior_are_certified_whether_their_density_is_known_or_not() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    for chains in [Some(4), None] {
        let certificate = judged(&study, &drawn(&posterior, 4000, 0.0, 1.0, chains));
        assert_eq!(certificate.verdict.grade, Grade::A, "{:?}", certificate.verdict.reasons);
        for offset in &certificate.parameters {
            assert!(offset.shift.abs() < 4.0 * offset.shift_error && offset.shift_error < 0.04, "{offset:?}");
            assert!((offset.scale - 1.0).abs() < 4.0 * offset.scale_error, "{offset:?}");
        }
        let said = certified(&certificate, &study.frame().names, study.all_rows(), true);
        assert!(said[0].starts_with("A - trusted: these 4 000 draws are of the posterior of all 2 000 rows"));
    }
    // The evidence is that of the closed form, up to the constant that both lack.
    let certificate = judged(&study, &drawn(&posterior, 4000, 0.0, 1.0, None));
    assert!(certificate.verdict.divergence.variance < 1e-12);
}

#[test]
fn how_far_draws_are_off_is_measured_in_posterior_standard_deviations() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    let certificate = judged(&study, &drawn(&posterior, 4000, 0.6, 1.0, Some(4)));
    assert_eq!(certificate.verdict.grade, Grade::C);
    assert!(has(&certificate, Reason::Shifted));
    let offset = certificate.parameters[1];
    assert!((offset.shift - 0.6).abs() < 4.0 * offset.shift_error, "{offset:?}");
    let said = certified(&certificate, &study.frame().names, study.all_rows(), true);
    let name = &study.frame().names[1];
    assert!(
        said.iter().any(|line| line.starts_with(&format!("  off            {name}: mean 0."))),
        "{said:#?}"
    );

    // As narrow as ADVI without correlations may be.
    let certificate = judged(&study, &drawn(&posterior, 4000, 0.0, 0.6, Some(4)));
    assert_eq!(certificate.verdict.grade, Grade::C);
    assert!(has(&certificate, Reason::Misscaled));
    for offset in &certificate.parameters {
        assert!((offset.scale - 0.6).abs() < 4.0 * offset.scale_error, "{offset:?}");
    }
}

#[test]
fn weights_mend_draws_that_are_too_wide_and_not_those_that_are_too_narrow() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    let wide = judged(&study, &drawn(&posterior, 4000, 0.2, 1.3, None));
    assert_eq!(wide.verdict.grade, Grade::B, "{:?}", wide.verdict.reasons);
    assert!(has(&wide, Reason::Variance) && !has(&wide, Reason::Shifted) && !has(&wide, Reason::Misscaled));
    let narrow = judged(&study, &drawn(&posterior, 4000, 0.0, 0.6, None));
    assert_eq!(narrow.verdict.grade, Grade::C);
    assert!(has(&narrow, Reason::ParetoK), "{:?}", narrow.verdict.reasons);
    // A density that is not that of the draws: narrow draws that are said to be wide ones.
    let mut lie = drawn(&posterior, 4000, 0.0, 0.6, None);
    lie.log_density =
        Some(lie.draws.theta.chunks_exact(posterior.dim()).map(|x| posterior.log_density(x)).collect());
    let lie = judged(&study, &lie);
    assert_eq!(lie.verdict.grade, Grade::C);
    assert!(has(&lie, Reason::Misscaled), "{:?}", lie.verdict.reasons);
}

#[test]
fn chains_that_stick_and_draws_of_other_data_are_refused() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    let mut stuck = drawn(&posterior, 4000, 0.0, 1.0, Some(4));
    let dim = posterior.dim();
    let first = stuck.draws.theta[..dim].to_vec();
    stuck.draws.theta[..1000 * dim].chunks_exact_mut(dim).for_each(|row| row.copy_from_slice(&first));
    let certificate = judged(&study, &stuck);
    assert_eq!(certificate.verdict.grade, Grade::C);
    assert!(has(&certificate, Reason::NotMixed), "{:?}", certificate.verdict.reasons);
    stuck.draws.theta.chunks_exact_mut(dim).for_each(|row| row.copy_from_slice(&first));
    let certificate = judged(&study, &stuck);
    assert_eq!(certificate.verdict.grade, Grade::C);
    assert!(has(&certificate, Reason::Narrow));
    let mut one = drawn(&posterior, 4000, 0.0, 1.0, Some(4));
    one.draws.theta.chunks_exact_mut(dim).for_each(|row| row[2] = first[2]);
    assert!(has(&judged(&study, &one), Reason::Narrow), "one parameter that does not move");

    let other = exact(&self::study(2000, 4));
    let certificate = judged(&study, &drawn(&other, 4000, 0.0, 1.0, Some(4)));
    assert_eq!(certificate.verdict.grade, Grade::C);
    assert!(has(&certificate, Reason::Shifted));
    let too_few = study.certify(&drawn(&posterior, 50, 0.0, 1.0, Some(2)), &mut unheard).unwrap_err();
    assert_eq!(too_few.to_string(), "50 draws are too few for a verdict: at least 100 are needed");
}

#[test]
fn what_was_not_proved_is_no_better_than_a_b() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    let one_chain = judged(&study, &drawn(&posterior, 4000, 0.0, 1.0, Some(1)));
    assert_eq!(
        (one_chain.verdict.grade, &one_chain.verdict.reasons[..]),
        (Grade::B, &[Reason::NoDensity][..])
    );
    let few = judged(&study, &drawn(&posterior, 500, 0.0, 1.0, Some(4)));
    assert_eq!((few.verdict.grade, &few.verdict.reasons[..]), (Grade::B, &[Reason::Blunt][..]));
}

/// 400 draws prove little, and no more when they are given ten times: as four chains, one after the other, or in another order.
#[test]
fn copies_of_draws_prove_no_more_than_the_draws() {
    let study = study(2000, 3);
    let posterior = exact(&study);
    let few = drawn(&posterior, 400, 0.0, 1.0, Some(4));
    let of = |places: Vec<usize>, chains| {
        let theta = places.iter().flat_map(|&s| few.draws.row(s)).copied().collect();
        let draws = Draws { theta, chains: Some(chains), ..few.draws.clone() };
        judged(&study, &GivenDraws { draws, log_density: None, diverged: 0 })
    };
    let same_chain = of((0..4000).map(|s| s % 400).collect(), 10);
    let again = of((0..4000).map(|s| s / 1000 * 100 + s % 100).collect(), 4);
    let shuffled = of((0..4000).map(|s| s * 7919 % 4000 % 400).collect(), 4);
    for certificate in [same_chain, again, shuffled] {
        assert!(certificate.verdict.grade != Grade::A && has(&certificate, Reason::Blunt), "{certificate:?}");
    }
    // A chain that rejects most of its steps stays where it is, and is no copy of itself.
    let stays = of((0..2000).map(|s| s / 500 * 100 + s % 500 / 5).collect(), 4);
    assert!(!has(&stays, Reason::NotMixed), "{:?}", stays.verdict.reasons);
}

/// Draws of one number, and the gradient there.
fn of_one(theta: Vec<f64>, gradient: impl Fn(f64) -> f64) -> Certificate {
    let draws = Draws { theta, dim: 1, chains: Some(4), log_weights: None };
    let gradient = draws.theta.iter().map(|&x| gradient(x)).collect();
    let log_posterior = draws.theta.iter().map(|x| -0.5 * x * x).collect();
    let scores = Scores { draws: draws.clone(), gradient };
    certify(Claim { draws: &draws, scores, log_posterior, log_density: None, diverged: 0, found: Vec::new() })
        .unwrap()
}

#[test]
fn a_gaussian_with_the_mean_and_the_variance_of_a_skewed_posterior_is_told_from_it() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let normal: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(4000).collect();
    // To third order the best Gaussian of a log density −½θ² + a(θ³ − 3θ)/6, which has V = a²/6.
    for (a, told) in [(0.2, false), (1.0, true)] {
        let certificate = of_one(normal.clone(), |x| -x + 0.5 * a * (x * x - 1.0));
        assert_eq!(has(&certificate, Reason::Misshapen), told, "{a}: {:?}", certificate.verdict.reasons);
        assert!(!has(&certificate, Reason::Shifted) && !has(&certificate, Reason::Misscaled));
    }
    // Draws of the skewed density itself: log Gamma(2).
    let gamma = Gamma::new(2.0, 1.0).unwrap();
    let skewed: Vec<f64> = gamma.sample_iter(&mut rng).take(4000).map(|x: f64| x.ln()).collect();
    let certificate = of_one(skewed, |x| 2.0 - x.exp());
    assert_eq!(certificate.verdict.grade, Grade::A, "{:?}", certificate.verdict.reasons);
}

#[test]
fn the_original_scale_leads_back_to_the_standardised_one() {
    for standardise in [corelet::data::Standardise::Scale, corelet::data::Standardise::Whiten] {
        let rows = generate::logistic(300, 4, 1);
        let source = Source::of_table(generate::to_table(&rows, "generated").unwrap());
        let design =
            DesignOptions { columns: Columns::predicting("y"), standardise, ..DesignOptions::default() };
        let study = Study::open(&source, &Specification { design, ..Specification::default() }).unwrap();
        let theta: Vec<f64> = (0..study.frame().names.len()).map(|j| 0.3 * j as f64 - 0.7).collect();
        let back = study.to_standardised(&study.to_original(&theta));
        assert!(theta.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12), "{theta:?} {back:?}");
    }
}
