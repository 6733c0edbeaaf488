//! The verdict against closed forms: where both posteriors are Gaussian, everything it says is known exactly.

#![allow(clippy::unwrap_used)] // a test's helpers are tests too

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::generate;
use corelet::model::{Linear, Logistic};
use corelet::posterior::{Laplace, LaplaceSettings, Prior, SampleSettings, kl_gaussian, laplace, sample};
use corelet::rows::{All, Memory, Rows, Weighted};
use corelet::trust::policy::scored_draws;
use corelet::trust::{
    Draws, Evidence, Grade, Reason, Scores, Verdict, judge as judged, verdict, verdict_of_errors,
};
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
    verdict(rows, &prior(rows), coreset, &Draws::from_chains(&chains, 4000), 0).unwrap()
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
    let judged = verdict(&rows, &prior(&rows), &coreset, &draws, 0).unwrap();
    assert_eq!(judged.grade, Grade::B, "{:?}", judged.reasons);
    assert!((judged.log_weights.iter().map(|w| w.exp()).sum::<f64>() - 1.0).abs() < 1e-12);
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
    let by_gaussian = verdict(&rows, &prior(&rows), &coreset, &of_gaussian, 0).unwrap();
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
        verdict(&rows, &prior(&rows), &coreset, &draws, 0).unwrap()
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
    let sound = verdict(&rows, &prior(&rows), &coreset, &draws, 0).unwrap();
    assert_eq!(
        (sound.grade, sound.divergence.variance < 1e-20, sound.reweighting.ess_share > 0.999),
        (Grade::A, true, true)
    );
    draws.theta[..1000 * DIM].iter_mut().for_each(|x| *x += 1.0);
    let apart = verdict(&rows, &prior(&rows), &coreset, &draws, 0).unwrap();
    assert_eq!((apart.grade, apart.reasons[0]), (Grade::C, Reason::NotMixed));
}

#[test]
fn what_a_caller_found_takes_the_grade_down_and_is_said() {
    let errors: Vec<f64> = (0..400).map(|s| 0.01 * f64::from(s % 7)).collect();
    let draws = Draws { theta: Vec::new(), dim: 0, chains: None, log_weights: None };
    let sound = judged(Evidence { errors: errors.clone(), ..Evidence::of(&draws) }).unwrap();
    assert_eq!(sound.grade, Grade::A);
    assert!(words::lines(&sound, 10, 400).iter().all(|line| !line.contains("Pareto")), "no tail under an A");
    let bare = sound.with(&[Reason::NoChains]);
    assert_eq!((bare.grade, bare.reasons.as_slice()), (Grade::B, &[Reason::NoChains][..]));
    assert!(words::headline(&bare, 10, 400).starts_with("B - trusted with a reservation"));
    let apart = bare.with(&[Reason::PilotNotMixed, Reason::NoChains]);
    assert_eq!((apart.grade, apart.reasons.len()), (Grade::C, 2));
    assert!(words::headline(&apart, 10, 400).contains("the model or its sampler is at fault"));
    assert!(words::lines(&apart, 10, 400).iter().any(|line| line.contains("pass draws with their chains")));
    // Chains of which nothing is known but Δ are taken on trust.
    let trusted = verdict_of_errors(&errors, Some(4)).unwrap();
    assert_eq!((trusted.grade, trusted.reasons.as_slice()), (Grade::B, &[Reason::OnTrust][..]));
}

/// One effective draw is not all of them, however large the errors are.
#[test]
fn the_share_of_one_huge_weight_is_one_draw() {
    let errors: Vec<f64> = (0..400).map(|s| if s == 7 { 1e17 } else { 0.0 }).collect();
    let share = verdict_of_errors(&errors, Some(4)).unwrap().reweighting.ess_share;
    assert!((share * 400.0 - 1.0).abs() < 1e-9, "{share}");
}

/// What a sampler makes of the draw of a parameter.
type Lie = fn(usize, f64) -> f64;

/// Draws of a Gaussian with correlated parameters, as a sampler would hand them over, and what it does to them.
struct Liar {
    dim: usize,
    draws: usize,
    lie: Lie,
    /// The correlation of a draw with the one before it in its chain.
    memory: f64,
}

impl Liar {
    /// Correlation ½ between any two parameters, of standard deviations 1, 2, 3, …
    fn verdict(&self, seed: u64, gradient: bool) -> Verdict {
        let &Self { dim, draws: count, lie, memory } = self;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let mut honest: Vec<Vec<f64>> = (0..count)
            .map(|_| {
                let common = normal();
                (0..dim).map(|_| (common + normal()) * 0.5_f64.sqrt()).collect()
            })
            .collect();
        for s in (1..count).filter(|s| s % (count / 4) != 0) {
            let [before, here] = &mut honest[s - 1..=s] else { unreachable!() };
            let fresh = (1.0 - memory * memory).sqrt();
            here.iter_mut().zip(before).for_each(|(z, last)| *z = memory * *last + fresh * *z);
        }
        let (sd, count_f) = (|j: usize| 1.0 + j as f64, dim as f64);
        let told =
            |z: &[f64]| -> Vec<f64> { z.iter().enumerate().map(|(j, z)| lie(j, *z) * sd(j)).collect() };
        let theta: Vec<f64> = honest.iter().flat_map(|z| told(z)).collect();
        // C = ½(I + 11ᵀ), C⁻¹ = 2(I − 11ᵀ/(1 + dim)).
        let solved = |z: &[f64]| -> Vec<f64> {
            let sum: f64 = z.iter().sum();
            z.iter().map(|z| 2.0 * (z - sum / (1.0 + count_f))).collect()
        };
        let at = |row: &[f64]| -> Vec<f64> { row.iter().enumerate().map(|(j, x)| x / sd(j)).collect() };
        let weighted: Vec<f64> = theta
            .chunks_exact(dim)
            .map(|row| -0.5 * at(row).iter().zip(solved(&at(row))).map(|(z, s)| z * s).sum::<f64>())
            .collect();
        let slope = |row: &[f64]| -> Vec<f64> {
            solved(&at(row)).iter().enumerate().map(|(j, s)| -s / sd(j)).collect()
        };
        let draws = Draws { theta, dim, chains: Some(4), log_weights: None };
        let gradient = gradient.then(|| draws.theta.chunks_exact(dim).flat_map(slope).collect());
        let scores = gradient.map(|gradient| Scores { draws: draws.clone(), gradient });
        let errors = vec![0.0; count];
        judged(Evidence { errors, weighted, scores, ..Evidence::of(&draws) }).unwrap()
    }

    fn grades(&self, gradient: bool) -> Vec<Grade> {
        (0..20).map(|seed| self.verdict(seed, gradient).grade).collect()
    }
}

/// Honest draws keep their A, with the gradient of the density and without.
#[test]
fn honest_draws_pass_the_score_test() {
    for (dim, draws) in [(1, 400), (3, 400), (10, 1000), (40, 1000), (40, 4000), (150, 2000)] {
        let honest = Liar { dim, draws, lie: |_, z| z, memory: 0.0 };
        for gradient in [true, false] {
            let grades = honest.grades(gradient);
            let lost = grades.iter().filter(|grade| **grade != Grade::A).count();
            // With few draws a parameter the test is too blunt for an A; without a gradient, too, the sampler is then taken on trust.
            let allowed = match gradient {
                true if draws >= scored_draws(dim) => 1,
                true => 20,
                false if draws >= 50 * dim => 3,
                false => 20,
            };
            assert!(lost <= allowed, "{dim} parameters, {draws} draws, gradient {gradient}: {grades:?}");
            assert!(
                !grades.contains(&Grade::C),
                "{dim} parameters, {draws} draws, gradient {gradient}: {grades:?}"
            );
        }
    }
}

/// Neighbouring draws of a chain are alike: that is no lie. Directions of some draws are tested on others that are independent of them.
#[test]
fn chains_that_move_slowly_pass_the_score_test() {
    for (dim, memory) in [(10, 0.5), (32, 0.6), (32, 0.8)] {
        let grades = Liar { dim, draws: 4000, lie: |_, z| z, memory }.grades(true);
        let lost = grades.iter().filter(|grade| **grade != Grade::A).count();
        assert!(lost <= 1, "{dim} parameters, correlation {memory}: {grades:?}");
    }
    let narrow = Liar { dim: 32, draws: 4000, lie: |_, z| 0.8 * z, memory: 0.6 };
    assert!(narrow.grades(true).iter().all(|grade| *grade == Grade::C));
}

/// Samplers that lie lose theirs: means that are off, draws too narrow or too wide, in one direction or in all.
#[test]
fn lying_samplers_fail_the_score_test() {
    let lies: [(&str, Lie); 6] = [
        ("one mean 12 sd off", |j, z| if j == 3 { z + 12.0 } else { z }),
        ("one mean 0.5 sd off", |j, z| if j == 3 { z + 0.5 } else { z }),
        ("five parameters 0.75 times as wide", |j, z| if j < 5 { 0.75 * z } else { z }),
        ("all 1.3 times as wide", |_, z| 1.3 * z),
        ("all 0.85 times as wide", |_, z| 0.85 * z),
        ("one parameter twice as wide", |j, z| if j == 0 { 2.0 * z } else { z }),
    ];
    for (what, lie) in lies {
        let liar = Liar { dim: 40, draws: 2000, lie, memory: 0.0 };
        let grades = liar.grades(true);
        assert!(grades.iter().all(|grade| *grade == Grade::C), "{what}: {grades:?}");
        // Without a gradient the prior could explain some of it: no A at least.
        let grades = liar.grades(false);
        let subtle = what.starts_with("five");
        let certified = grades.iter().filter(|grade| **grade == Grade::A).count();
        assert!(certified == 0 || subtle, "{what} without a gradient: {grades:?}");
    }
}

/// A sampler that leaves one parameter where it began, and draws the other exactly given that: along the other everything is right. A constant
/// that no density knows is no lie, but nothing shows that it is one.
#[test]
fn a_parameter_that_never_moves_is_no_a() {
    let normals = StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(2));
    let moving: Vec<f64> = normals.take(4000).collect();
    let theta: Vec<f64> = moving.iter().flat_map(|x| [*x, 1.5]).collect();
    let draws = Draws { theta, dim: 2, chains: Some(4), log_weights: None };
    let weighted: Vec<f64> = moving.iter().map(|x| -0.5 * x * x).collect();
    let graded = |by_second: Option<f64>| {
        let score = |by: f64| Scores {
            draws: draws.clone(),
            gradient: moving
                .iter()
                .enumerate()
                .flat_map(|(s, x)| [-x, if s % 2 == 0 { by } else { -by }])
                .collect(),
        };
        let (errors, weighted) = (vec![0.0; 4000], weighted.clone());
        let scores = by_second.map(score);
        judged(Evidence { errors, weighted, scores, ..Evidence::of(&draws) }).unwrap()
    };
    let stuck = graded(Some(0.7));
    assert_eq!((stuck.grade, &stuck.reasons[..]), (Grade::C, &[Reason::Misscaled][..]));
    for unknown in [graded(Some(0.0)), graded(None)] {
        assert_eq!((unknown.grade, &unknown.reasons[..]), (Grade::B, &[Reason::OnTrust][..]));
    }
}

#[test]
fn too_few_draws_and_wrong_lengths_are_errors() {
    let rows = linear(50);
    let one = Weighted::fetch(&rows, &[1], &[1.0]).unwrap();
    let draws = Draws { theta: vec![0.0; 50 * DIM], dim: DIM, chains: None, log_weights: None };
    let error = verdict(&rows, &prior(&rows), &one, &draws, 0).unwrap_err();
    assert_eq!(error.to_string(), "50 draws are too few for a verdict: at least 100 are needed");
    let draws = Draws { theta: vec![0.0; 600], dim: 3, chains: None, log_weights: None };
    assert!(verdict(&rows, &prior(&rows), &one, &draws, 0).is_err());
    assert!(Weighted::fetch(&rows, &[1, 2], &[1.0]).is_err());
    assert!(Weighted::fetch(&rows, &[50], &[1.0]).is_err());
    assert!(Weighted::fetch(&rows, &[1], &[f64::NAN]).is_err());
}
