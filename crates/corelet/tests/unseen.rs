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

/// y ~ N(c, 1) of the rows, and two more parameters that only the prior knows; the sampler draws independently, from one mode.
struct Beside {
    y: Vec<f64>,
    /// log p(c, a, b) with its slope.
    prior: fn(&[f64], &mut [f64]) -> f64,
    /// a and b of the mode that the sampler knows, by two normal numbers.
    drawn: fn(f64, f64) -> [f64; 2],
}

impl Beside {
    fn new(rows: usize, prior: fn(&[f64], &mut [f64]) -> f64, drawn: fn(f64, f64) -> [f64; 2]) -> Self {
        Self {
            y: StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(5)).take(rows).collect(),
            prior,
            drawn,
        }
    }

    fn fitted(&self) -> TargetFit {
        let target = AnyModel { model: self, begin: Begin::Apart, gives: Gives::Gradient, seed: 0 };
        let plan = Plan {
            k: 20,
            max_k: 20,
            pilot: 500,
            max_rounds: 4,
            draws: None,
            seed: 3,
            advice: Advice::Silent,
        };
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        fit(&target, Units::of_rows(self.y.len()), plan, RestChoice::None, None, go_on).unwrap()
    }
}

impl Model for Beside {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        3
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let left = self.y[row] - theta[0];
        slope[0] += weight * left;
        -0.5 * left * left
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        (self.prior)(theta, slope)
    }

    fn sample(&self, rows: &[usize], weights: &[f64]) -> Option<Sample> {
        let total: f64 = weights.iter().sum();
        let mean = rows.iter().zip(weights).map(|(&row, w)| w * self.y[row]).sum::<f64>() / total;
        let mut noise = StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(rows.len() as u64));
        let mut normal = || -> f64 { noise.next().unwrap_or_default() };
        let mut draw = || {
            let c = mean + normal() / total.sqrt();
            let [a, b] = (self.drawn)(normal(), normal());
            [c, a, b]
        };
        Some(Sample::new((0..4000).flat_map(|_| draw()).collect(), 3, 4, true, 0))
    }
}

/// log Σ of densities and its slope, by theirs.
fn either(parts: [(f64, f64); 2]) -> (f64, f64) {
    let most = parts[0].0.max(parts[1].0);
    let shares = parts.map(|(log, _)| (log - most).exp());
    let sum = shares[0] + shares[1];
    (most + sum.ln(), (shares[0] * parts[0].1 + shares[1] * parts[1].1) / sum)
}

/// The precision of b given a: steep where a is low.
fn precision(a: f64) -> (f64, f64) {
    let share = 1.0 / (1.0 + (4.0 * (a + 6.0)).exp());
    (1.0 + 1e6 * share, -4e6 * share * (1.0 - share))
}

/// a ~ N(0, 1) or, with some of the mass, about −60, on slopes of 0.1 a unit; b | a ~ N(0, 1/precision).
fn beyond_a_slope(theta: &[f64], slope: &mut [f64]) -> f64 {
    let (a, b) = (theta[1], theta[2]);
    let root = ((a + 60.0).powi(2) + 1.0).sqrt();
    let (f, by_a) = either([(-0.5 * a * a, -a), (-2.0 - 0.1 * root, -0.1 * (a + 60.0) / root)]);
    let (p, by) = precision(a);
    slope[1] += by_a + 0.5 * by / p - 0.5 * by * b * b;
    slope[2] -= p * b;
    f + 0.5 * p.ln() - 0.5 * p * b * b
}

/// Climbs by gradients stand still on that slope, since b is steep beside it.
#[test]
fn a_mode_beyond_an_even_slope_is_no_a() {
    let fit = Beside::new(ROWS, beyond_a_slope, |x, y| [x, y / precision(x).0.sqrt()]).fitted();
    assert_eq!((fit.verdict.grade, &fit.verdict.reasons[..]), (Grade::C, &[Reason::SecondMode][..]));
    let said = fit.notes.join(" ");
    assert!(said.contains("parameter 1 is -59") || said.contains("parameter 1 is -60"), "{said}");
}

/// a ~ N(2, 0.4²) or N(−2, 0.4²), b ~ N(a², 0.02²).
fn two_on_a_ridge(theta: &[f64], slope: &mut [f64]) -> f64 {
    let (a, b) = (theta[1], theta[2]);
    let of = |at: f64| (-0.5 * ((a - at) / 0.4).powi(2), -(a - at) / 0.16);
    let (f, by_a) = either([of(2.0), of(-2.0)]);
    let off = (b - a * a) / 4e-4;
    slope[1] += by_a + 2.0 * a * off;
    slope[2] -= off;
    f - 0.5 * off * (b - a * a)
}

/// The same ridge, on which a ~ N(2, 0.7²).
fn one_on_a_ridge(theta: &[f64], slope: &mut [f64]) -> f64 {
    let (a, b) = (theta[1], theta[2]);
    let off = (b - a * a) / 4e-4;
    slope[1] += -(a - 2.0) / 0.49 + 2.0 * a * off;
    slope[2] -= off;
    -0.5 * ((a - 2.0) / 0.7).powi(2) - 0.5 * off * (b - a * a)
}

/// A way along a ridge joins ends of one mode, however it bends, and not two modes.
#[test]
fn two_modes_on_a_curved_ridge_are_no_a_and_one_is() {
    let one = Beside::new(ROWS, one_on_a_ridge, |x, y| {
        let a = 2.0 + 0.7 * x;
        [a, a * a + 0.02 * y]
    });
    let fit = one.fitted();
    assert_eq!(fit.verdict.grade, Grade::A, "{:?} {:?}", fit.verdict.reasons, fit.notes);
    let two = Beside::new(ROWS, two_on_a_ridge, |x, y| {
        let a = 2.0 + 0.4 * x;
        [a, a * a + 0.02 * y]
    });
    let fit = two.fitted();
    assert_eq!((fit.verdict.grade, &fit.verdict.reasons[..]), (Grade::C, &[Reason::SecondMode][..]));
}

/// a ~ N(2, 0.4²) with nine tenths of the mass, or N(−2, 0.4²), b ~ N(0, 1).
fn nine_in_ten(theta: &[f64], slope: &mut [f64]) -> f64 {
    let (a, b) = (theta[1], theta[2]);
    let of = |share: f64, at: f64| (share.ln() - 0.5 * ((a - at) / 0.4).powi(2), -(a - at) / 0.16);
    let (f, by_a) = either([of(0.9, 2.0), of(0.1, -2.0)]);
    slope[1] += by_a;
    slope[2] -= b;
    f - 0.5 * b * b
}

/// One of so many sides, by a digit of a normal number.
fn side(x: f64, of: i64) -> f64 {
    if ((x * 1e6) as i64).rem_euclid(of) == 0 { -2.0 } else { 2.0 }
}

/// Within each mode all is right, and between them nothing is, so that no gradient tells how many draws each should have.
#[test]
fn modes_out_of_proportion_are_no_a() {
    let honest = Beside::new(1000, nine_in_ten, |x, y| [side(x, 10) + 0.4 * x, y]).fitted();
    assert_eq!(honest.verdict.grade, Grade::A, "{:?} {:?}", honest.verdict.reasons, honest.notes);
    let flipped = Beside::new(1000, nine_in_ten, |x, y| [side(x, 2) + 0.4 * x, y]).fitted();
    assert_eq!((flipped.verdict.grade, &flipped.verdict.reasons[..]), (Grade::C, &[Reason::SecondMode][..]));
    assert!(flipped.notes.iter().any(|note| note.contains("of the mass, and")), "{:?}", flipped.notes);
}

/// Levels μ + τz of groups under z ~ N(0, 1), with rows y ~ N(level, 1): θ = (μ, log τ, z).
struct Levels {
    y: Vec<f64>,
    groups: usize,
}

impl Levels {
    fn new(groups: usize, each: usize, tau: f64, seed: u64) -> Self {
        let mut noise = StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(seed));
        let mut normal = || -> f64 { noise.next().unwrap_or_default() };
        let levels: Vec<f64> = (0..groups).map(|_| 1.0 + tau * normal()).collect();
        Self { y: (0..groups * each).map(|row| levels[row % groups] + normal()).collect(), groups }
    }
}

impl Model for Levels {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        2 + self.groups
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let (z, tau) = (2 + row % self.groups, theta[1].exp());
        let left = self.y[row] - theta[0] - tau * theta[z];
        slope[0] += weight * left;
        slope[1] += weight * left * tau * theta[z];
        slope[z] += weight * left * tau;
        -0.5 * left * left
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        let tau = theta[1].exp();
        slope[0] -= theta[0] / 25.0;
        slope[1] += 1.0 - tau * tau;
        slope[2..].iter_mut().zip(&theta[2..]).for_each(|(slope, z)| *slope -= z);
        let of_levels: f64 = theta[2..].iter().map(|z| -0.5 * z * z).sum();
        of_levels - 0.02 * theta[0] * theta[0] - 0.5 * tau * tau + theta[1]
    }

    fn spread(&self) -> f64 {
        0.5
    }
}

/// Spread and levels trade off along a curve, on which climbs end here and there.
#[test]
fn levels_that_are_not_centred_have_one_mode() {
    let few = [1, 2, 3].map(|seed| (8, 50, seed, RestChoice::Gaussian));
    let mut trusted = 0;
    for (groups, each, seed, rest) in [(12, 333, 1, RestChoice::None)].into_iter().chain(few) {
        let model = Levels::new(groups, each, 0.3, seed);
        let target = AnyModel { model: &model, begin: Begin::Apart, gives: Gives::Density, seed };
        let plan = Plan {
            k: 300,
            max_k: 300,
            pilot: 500,
            max_rounds: 6,
            draws: None,
            seed: 1,
            advice: Advice::Heeded,
        };
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let fit = fit(&target, Units::of_rows(model.rows()), plan, rest, None, go_on).unwrap();
        let reasons = &fit.verdict.reasons;
        let modes = [Reason::SecondMode, Reason::ManyModes];
        assert!(!modes.iter().any(|reason| reasons.contains(reason)), "{reasons:?} {:?}", fit.notes);
        trusted += usize::from(fit.verdict.grade == Grade::A);
    }
    // Of eight groups a Gaussian in place of the rows may stand far off, which V says.
    assert!(trusted >= 2, "{trusted} of 4");
}
