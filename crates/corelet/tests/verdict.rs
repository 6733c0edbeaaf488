//! The verdict against closed forms: where both posteriors are Gaussian, everything it says is known exactly.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::generate;
use corelet::model::{Linear, Logistic};
use corelet::posterior::{Laplace, LaplaceSettings, Prior, SampleSettings, kl_gaussian, laplace, sample};
use corelet::rows::{All, Memory, Rows, Weighted};
use corelet::trust::{Draws, Grade, Reason, Verdict, verdict, verdict_of_errors};
use corelet::words;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const DIM: usize = 4;

/// A linear regression of n rows.
fn linear(n: usize) -> Memory {
    let mut observations = generate::logistic(n, DIM, 3);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for y in observations.target.iter_mut() {
        let noise: f64 = StandardNormal.sample(&mut rng);
        *y += 0.3 * noise;
    }
    Memory::new(Arc::new(Linear::model(observations, 0.5).unwrap()))
}

fn prior(rows: &Memory) -> Prior {
    Prior::isotropic(rows.dim(), 1.0).unwrap()
}

fn fit(rows: &Memory) -> Laplace {
    laplace(&All(rows), &prior(rows), None, &LaplaceSettings::default()).unwrap()
}

/// All rows, with weights that are off by a factor of 1 ± `off` each.
fn perturbed(rows: &Memory, off: f64, seed: u64) -> Weighted {
    let (n, mut rng) = (rows.len(), ChaCha8Rng::seed_from_u64(seed));
    let weights: Vec<f64> =
        StandardNormal.sample_iter(&mut rng).take(n).map(|z: f64| (off * z).exp()).collect();
    Weighted::fetch(rows, &(0..n).collect::<Vec<_>>(), &weights).unwrap()
}

fn judge(rows: &Memory, coreset: &Weighted, seed: u64) -> Verdict {
    let start = coreset.fit(&prior(rows)).unwrap().posterior;
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let chains = sample(coreset, &prior(rows), &start, &SampleSettings::default(), seed, go_on).unwrap();
    verdict(rows, coreset, &Draws::from_chains(&chains, 4000)).unwrap()
}

/// log of the evidence, exact for a Gaussian posterior.
fn log_evidence(fit: &Laplace) -> f64 {
    let dim = fit.posterior.dim() as f64;
    fit.log_posterior + 0.5 * (dim * (2.0 * std::f64::consts::PI).ln() - fit.posterior.log_det_precision)
}

#[test]
fn divergence_evidence_and_grades_are_those_of_the_closed_form() {
    let rows = linear(400);
    let full = fit(&rows);
    let mut grades = Vec::new();
    for (off, seed) in [(0.02, 1), (0.05, 2), (0.1, 3), (0.3, 4), (0.6, 5), (1.2, 6), (2.5, 7)] {
        let coreset = perturbed(&rows, off, seed);
        let own = coreset.fit(&prior(&rows)).unwrap();
        let forward = kl_gaussian(&full.posterior, &own.posterior).unwrap();
        let exact = forward + kl_gaussian(&own.posterior, &full.posterior).unwrap();
        let judged = judge(&rows, &coreset, seed);
        if exact < 0.3 {
            assert!(
                (judged.divergence.kl_symmetrised / exact - 1.0).abs() < 0.2,
                "{off}: {} {exact}",
                judged.divergence.kl_symmetrised
            );
            assert!(
                (judged.divergence.variance / exact - 1.0).abs() < 0.5,
                "{off}: {} {exact}",
                judged.divergence.variance
            );
            let ratio = log_evidence(&full) - log_evidence(&own);
            assert!(
                (judged.divergence.log_evidence_ratio - ratio).abs() < 0.02 + 0.1 * exact.sqrt(),
                "{off}: {ratio}"
            );
        }
        assert!(
            judged.divergence.variance_upper > judged.divergence.variance
                && judged.divergence.variance_upper < 2.0 * judged.divergence.variance
        );
        assert!(judged.grade != Grade::A || exact < 0.2, "{off}: A at {exact}");
        assert_eq!(judged.grade == Grade::A, judged.reasons.is_empty());
        grades.push(judged.grade);
    }
    assert!(grades.is_sorted(), "{grades:?}");
    assert!(
        grades.contains(&Grade::A) && grades.contains(&Grade::B) && grades.contains(&Grade::C),
        "{grades:?}"
    );
}

#[test]
fn reweighted_draws_of_grade_b_have_the_moments_of_the_full_posterior() {
    let rows = linear(400);
    let full = fit(&rows).posterior;
    let coreset = perturbed(&rows, 0.3, 4);
    let own = coreset.fit(&prior(&rows)).unwrap().posterior;
    let draws = Draws::from_gaussian(&coreset, &prior(&rows), &own, 4000, 3).unwrap();
    let judged = verdict(&rows, &coreset, &draws).unwrap();
    assert_eq!(judged.grade, Grade::B, "{:?}", judged.reasons);
    assert!(judged.log_weights.iter().map(|w| w.exp()).sum::<f64>() - 1.0 < 1e-12);
    for j in 0..DIM {
        let sd = full.covariance[j * DIM + j].sqrt();
        let mean: f64 = judged.log_weights.iter().enumerate().map(|(s, w)| w.exp() * draws.row(s)[j]).sum();
        assert!(((mean - full.mean[j]) / sd).abs() < 0.2, "{j}");
        let before = (own.mean[j] - full.mean[j]) / sd;
        assert!(((mean - full.mean[j]) / sd).abs() < before.abs().max(0.1), "{j}: {before}");
    }
}

#[test]
fn draws_of_the_gaussian_and_of_chains_agree() {
    // A logistic posterior of 300 rows is not quite Gaussian; the base weights correct for that.
    let rows = Memory::new(Arc::new(Logistic::model(generate::logistic(300, 3, 2)).unwrap()));
    let coreset = perturbed(&rows, 0.2, 9);
    let own = coreset.fit(&prior(&rows)).unwrap().posterior;
    let of_gaussian = Draws::from_gaussian(&coreset, &prior(&rows), &own, 4000, 3).unwrap();
    let by_gaussian = verdict(&rows, &coreset, &of_gaussian).unwrap();
    let by_chains = judge(&rows, &coreset, 4);
    assert!((by_gaussian.divergence.variance / by_chains.divergence.variance - 1.0).abs() < 0.15);
    assert!((by_gaussian.divergence.kl_symmetrised / by_chains.divergence.kl_symmetrised - 1.0).abs() < 0.15);
    assert!(
        (by_gaussian.divergence.log_evidence_ratio - by_chains.divergence.log_evidence_ratio).abs() < 0.02
    );
    assert_eq!(by_gaussian.grade, by_chains.grade);
}

#[test]
fn the_upper_bound_covers() {
    // V of the exact Gaussian, 200 sets of 1000 draws each: the bound must lie above it in about 95 % of them.
    let rows = linear(400);
    let coreset = perturbed(&rows, 0.3, 4);
    let own = coreset.fit(&prior(&rows)).unwrap().posterior;
    let of = |count, seed| {
        let mut draws = Draws::from_gaussian(&coreset, &prior(&rows), &own, count, seed).unwrap();
        // For a linear regression the Gaussian is the posterior.
        draws.log_weights = None;
        verdict(&rows, &coreset, &draws).unwrap()
    };
    let truth = of(40_000, 1).divergence.variance;
    let covered = (100..300).filter(|&seed| of(1000, seed).divergence.variance_upper >= truth).count();
    assert!((180..=198).contains(&covered), "{covered} of 200");
}

#[test]
fn chains_that_have_not_mixed_are_never_certified() {
    let rows = linear(400);
    let coreset = perturbed(&rows, 0.0, 1);
    let own = fit(&rows).posterior;
    let mut draws = Draws::from_gaussian(&coreset, &prior(&rows), &own, 4000, 3).unwrap();
    draws.log_weights = None;
    draws.chains = Some(4);
    let sound = verdict(&rows, &coreset, &draws).unwrap();
    assert_eq!(
        (sound.grade, sound.divergence.variance < 1e-20, sound.reweighting.ess_share > 0.999),
        (Grade::A, true, true)
    );
    draws.theta[..1000 * DIM].iter_mut().for_each(|x| *x += 1.0);
    let apart = verdict(&rows, &coreset, &draws).unwrap();
    assert_eq!((apart.grade, apart.reasons[0]), (Grade::C, Reason::NotMixed));
}

#[test]
fn what_a_caller_found_takes_the_grade_down_and_is_said() {
    let errors: Vec<f64> = (0..400).map(|s| 0.01 * f64::from(s % 7)).collect();
    let sound = verdict_of_errors(errors, Some(4)).unwrap();
    assert_eq!(sound.grade, Grade::A);
    assert!(words::lines(&sound).iter().all(|line| !line.contains("Pareto")), "no tail under an A");
    let bare = sound.with(&[Reason::NoChains]);
    assert_eq!((bare.grade, bare.reasons.as_slice()), (Grade::B, &[Reason::NoChains][..]));
    assert!(words::headline(&bare, 10, 400).starts_with("B - trusted with a reservation"));
    let apart = bare.with(&[Reason::PilotNotMixed, Reason::NoChains]);
    assert_eq!((apart.grade, apart.reasons.len()), (Grade::C, 2));
    assert!(words::headline(&apart, 10, 400).contains("the model or its sampler is at fault"));
    assert!(words::lines(&apart).iter().any(|line| line.contains("look at the model")));
}

#[test]
fn too_few_draws_and_wrong_lengths_are_errors() {
    let rows = linear(50);
    let one = Weighted::fetch(&rows, &[1], &[1.0]).unwrap();
    let draws = Draws { theta: vec![0.0; 50 * DIM], dim: DIM, chains: None, log_weights: None };
    let error = verdict(&rows, &one, &draws).unwrap_err();
    assert_eq!(error.to_string(), "50 draws are too few for a verdict: at least 100 are needed");
    let draws = Draws { theta: vec![0.0; 600], dim: 3, chains: None, log_weights: None };
    assert!(verdict(&rows, &one, &draws).is_err());
    assert!(Weighted::fetch(&rows, &[1, 2], &[1.0]).is_err());
    assert!(Weighted::fetch(&rows, &[50], &[1.0]).is_err());
    assert!(Weighted::fetch(&rows, &[1], &[f64::NAN]).is_err());
}
