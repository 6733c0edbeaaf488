//! A sampler that knows one of two modes: its draws agree with every gradient along their way, and only a search of the engine's own sees
//! the other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/any_model.rs"]
mod any_model;

use std::ops::ControlFlow;

use any_model::{AnyModel, Begin, Gives, Model};
use corelet::coreset::RestChoice;
use corelet::engine::{Advice, Plan, Sample, TargetFit, Units, fit};
use corelet::trust::{Grade, Reason};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const ROWS: usize = 4000;

/// Where the mean of the rows is, as a function of θ, with its slope; the prior is flat.
#[derive(Clone, Copy)]
struct Curve {
    mean: fn(f64) -> f64,
    slope: fn(f64) -> f64,
    /// The θ at which it has this mean, on the side that the sampler knows.
    inverse: fn(f64) -> f64,
}

const STRAIGHT: Curve = Curve { mean: |t| t, slope: |_| 1.0, inverse: |y| y };
/// It has the mean 1.7 at one θ, and nearly that at many: θ = 1.7 + s with s(2 + cos 6s) flat.
const RIPPLED: Curve = Curve {
    mean: |t| 1.7 + (t - 1.7) * (2.0 + (6.0 * (t - 1.7)).cos()),
    slope: |t| 2.0 + (6.0 * (t - 1.7)).cos() - 6.0 * (t - 1.7) * (6.0 * (t - 1.7)).sin(),
    inverse: |y| 1.7 + (y - 1.7) / 3.0,
};
const SQUARE: Curve = Curve { mean: |t| t * t, slope: |t| 2.0 * t, inverse: f64::sqrt };

struct OneSided {
    curve: Curve,
    y: Vec<f64>,
}

impl OneSided {
    fn new(curve: Curve) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let noise = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
        Self { curve, y: (0..ROWS).map(|_| 1.7 + noise(&mut rng)).collect() }
    }
}

impl Model for OneSided {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        1
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.y[row] - (self.curve.mean)(theta[0]);
        slope[0] += weight * left * (self.curve.slope)(theta[0]);
        -0.5 * left * left
    }

    fn prior(&self, _: &[f64], _: &mut [f64]) -> f64 {
        0.0
    }

    /// Exact but for the other mode: independence Metropolis from the Gaussian of this one.
    fn sample(&self, rows: &[usize], weights: &[f64]) -> Option<Sample> {
        let mut rng = ChaCha8Rng::seed_from_u64(rows.len() as u64);
        let total: f64 = weights.iter().sum();
        let mean = rows.iter().zip(weights).map(|(&row, w)| w * self.y[row]).sum::<f64>() / total;
        let centre = (self.curve.inverse)(mean);
        let sd = 1.1 / ((self.curve.slope)(centre).abs() * total.sqrt());
        // Of the posterior over that of the proposal.
        let log = |theta: f64| {
            0.5 * ((theta - centre) / sd).powi(2) - 0.5 * total * (mean - (self.curve.mean)(theta)).powi(2)
        };
        let mut theta = Vec::new();
        for _ in 0..4 {
            let mut at = centre;
            for _ in 0..1000 {
                let z: f64 = StandardNormal.sample(&mut rng);
                let next = centre + sd * z;
                if rng.random::<f64>().ln() < log(next) - log(at) {
                    at = next;
                }
                theta.push(at);
            }
        }
        Some(Sample::new(theta, 1, 4, true, 0))
    }
}

fn fitted(curve: Curve, gives: Gives) -> TargetFit {
    let target = AnyModel { model: &OneSided::new(curve), begin: Begin::Apart, gives, seed: 0 };
    let plan =
        Plan { k: 20, max_k: 20, pilot: 500, max_rounds: 4, draws: None, seed: 3, advice: Advice::Silent };
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    fit(&target, Units::of_rows(ROWS), plan, RestChoice::None, None, go_on).unwrap()
}

#[test]
fn a_mode_that_the_sampler_does_not_know_is_no_a_and_is_named() {
    let fit = fitted(SQUARE, Gives::Gradient);
    assert_eq!((fit.verdict.grade, &fit.verdict.reasons[..]), (Grade::C, &[Reason::SecondMode][..]));
    let said = fit.notes.join(" ");
    assert!(said.contains("another mode, where parameter 0 is -1.3") && said.contains("not 1.3"), "{said}");
}

/// A prior may rule the other side out, and nobody but the user knows it.
#[test]
fn without_a_gradient_it_is_taken_on_trust() {
    let fit = fitted(SQUARE, Gives::Nothing);
    assert_eq!((fit.verdict.grade, &fit.verdict.reasons[..]), (Grade::B, &[Reason::OnTrust][..]));
    assert!(fit.notes.iter().any(|note| note.contains("likelihood, without the prior")), "{:?}", fit.notes);
}

#[test]
fn one_mode_is_an_a() {
    for gives in [Gives::Gradient, Gives::Nothing] {
        let fit = fitted(STRAIGHT, gives);
        assert_eq!(fit.verdict.grade, Grade::A, "{gives:?}: {:?}", fit.verdict.reasons);
    }
}

/// None of them has any mass, but a search that finds so many cannot have found all.
#[test]
fn many_other_modes_are_no_a() {
    let fit = fitted(RIPPLED, Gives::Gradient);
    assert_eq!((fit.verdict.grade, &fit.verdict.reasons[..]), (Grade::B, &[Reason::ManyModes][..]));
    assert!(fit.notes.iter().any(|note| note.contains("other modes were found")), "{:?}", fit.notes);
}

/// Independent means, one for each of so many kinds of rows, under a flat prior.
struct Means {
    dim: usize,
    y: Vec<f64>,
}

impl Means {
    fn new(dim: usize) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(3);
        Self { dim, y: StandardNormal.sample_iter(rng).take(10 * dim).collect() }
    }
}

impl Model for Means {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.y[row] - theta[row % self.dim];
        slope[row % self.dim] += weight * left;
        -0.5 * left * left
    }

    fn prior(&self, _: &[f64], _: &mut [f64]) -> f64 {
        0.0
    }

    /// Independent draws.
    fn sample(&self, rows: &[usize], weights: &[f64]) -> Option<Sample> {
        let (mut totals, mut sums) = (vec![1e-9; self.dim], vec![0.0; self.dim]);
        for (&row, weight) in rows.iter().zip(weights) {
            totals[row % self.dim] += weight;
            sums[row % self.dim] += weight * self.y[row];
        }
        let mut noise = StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(11));
        let mut draw = |(total, sum): (&f64, &f64)| -> f64 {
            let noise: f64 = noise.next().unwrap_or_default();
            sum / total + noise / total.sqrt()
        };
        let theta: Vec<f64> =
            (0..4000).flat_map(|_| totals.iter().zip(&sums).map(&mut draw).collect::<Vec<_>>()).collect();
        Some(Sample::new(theta, self.dim, 4, true, 0))
    }
}

/// Of more parameters than can be searched, by a sampler whose chains may have begun anywhere: not an A, and it is said why.
#[test]
fn what_cannot_be_searched_is_no_a() {
    for (dim, grade) in [(12, Grade::A), (101, Grade::B)] {
        let model = Means::new(dim);
        let target = AnyModel { model: &model, begin: Begin::Apart, gives: Gives::Gradient, seed: 0 };
        let k = model.y.len();
        let plan =
            Plan { k, max_k: k, pilot: k, max_rounds: 4, draws: None, seed: 3, advice: Advice::Silent };
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let fit = fit(&target, Units::of_rows(k), plan, RestChoice::None, None, go_on).unwrap();
        assert_eq!(fit.verdict.grade, grade, "{:?}", fit.verdict.reasons);
        let said = fit.notes.iter().any(|note| note.contains("no other modes were looked for"));
        assert_eq!(said, fit.verdict.reasons.contains(&Reason::Unsearched), "{:?}", fit.notes);
        assert_eq!(said, dim > 100);
    }
}
