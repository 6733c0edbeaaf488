//! Models of a user with several modes, and honest ones, through the engine: by a sampler alone, with a gradient, with a density; its
//! chains begun apart, or all at one place. The truth is a grid of one or two parameters.

use std::fmt::Write;
use std::ops::ControlFlow;

use corelet::coreset::RestChoice;
use corelet::engine::{Advice, Plan, Units, fit};
use corelet::trust::Grade;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};
use rayon::prelude::*;

use super::any_model::{AnyModel, Begin, Gives, Model};

/// Distribution functions that differ by more make an A wrong; see `several`.
const APART: f64 = 0.18;

/// Half the side of the grid.
const REACH: f64 = 9.0;

/// ℓ of a row (x, y) at θ, and its gradient.
type Likelihood = fn(f64, f64, &[f64]) -> (f64, [f64; 2]);

struct Rows {
    x: Vec<f64>,
    y: Vec<f64>,
    dim: usize,
    likelihood: Likelihood,
    /// Mean of the normal prior of every parameter, and its standard deviation.
    prior: (f64, f64),
}

impl Model for Rows {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let (value, gradient) = (self.likelihood)(self.x[row], self.y[row], theta);
        slope.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += weight * g);
        value
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        let (mean, sd) = self.prior;
        slope.iter_mut().zip(theta).for_each(|(sum, x)| *sum -= (x - mean) / (sd * sd));
        theta.iter().map(|x| -0.5 * ((x - mean) / sd).powi(2)).sum()
    }

    fn spread(&self) -> f64 {
        2.0
    }
}

struct Scenario {
    name: &'static str,
    honest: bool,
    data: fn(&mut ChaCha8Rng) -> Rows,
}

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "the square of a parameter", honest: false, data: square },
    Scenario { name: "Cauchy, two clusters", honest: false, data: clusters },
    Scenario { name: "mixture, labels change places", honest: false, data: mixture },
    Scenario { name: "a frequency", honest: false, data: frequency },
    Scenario { name: "logistic", honest: true, data: logistic },
    Scenario { name: "Student-t location", honest: true, data: location },
    Scenario { name: "few counts", honest: true, data: counts },
];

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn one<T: Copy>(of: &[T], rng: &mut ChaCha8Rng) -> T {
    of[rng.random_range(0..of.len())]
}

fn rows(
    n: usize,
    rng: &mut ChaCha8Rng,
    mut row: impl FnMut(&mut ChaCha8Rng) -> (f64, f64),
) -> (Vec<f64>, Vec<f64>) {
    (0..n).map(|_| row(rng)).unzip()
}

fn square(rng: &mut ChaCha8Rng) -> Rows {
    let (n, at, prior) = (one(&[200, 600], rng), 0.7 + rng.random::<f64>(), one(&[0.0, 0.5, 2.0], rng));
    let (x, y) = rows(n, rng, |rng| (0.0, at * at + normal(rng)));
    let likelihood: Likelihood = |_, y, theta| {
        let left = y - theta[0] * theta[0];
        (-0.5 * left * left, [2.0 * left * theta[0], 0.0])
    };
    Rows { x, y, dim: 1, likelihood, prior: (prior, 3.0) }
}

fn student(left: f64, degrees: f64, scale: f64) -> (f64, f64) {
    let z = left / scale;
    (-0.5 * (degrees + 1.0) * (z * z / degrees).ln_1p(), (degrees + 1.0) * z / (degrees + z * z) / scale)
}

fn clusters(rng: &mut ChaCha8Rng) -> Rows {
    let (n, apart, share) =
        (one(&[200, 600], rng), 2.0 + 2.0 * rng.random::<f64>(), one(&[0.5, 0.49, 0.4], rng));
    let (x, y) = rows(n, rng, |rng| {
        let side = if rng.random::<f64>() < share { -1.0 } else { 1.0 };
        (0.0, side * apart + 0.3 * normal(rng))
    });
    let likelihood: Likelihood = |_, y, theta| {
        let (value, slope) = student(y - theta[0], 1.0, 0.5);
        (value, [slope, 0.0])
    };
    Rows { x, y, dim: 1, likelihood, prior: (0.0, 5.0) }
}

fn mixture(rng: &mut ChaCha8Rng) -> Rows {
    let (n, apart) = (one(&[150, 300], rng), 1.5 + 2.0 * rng.random::<f64>());
    let (x, y) = rows(n, rng, |rng| (0.0, one(&[-1.0, 1.0], rng) * apart + normal(rng)));
    let likelihood: Likelihood = |_, y, theta| {
        let (a, b) = (-0.5 * (y - theta[0]).powi(2), -0.5 * (y - theta[1]).powi(2));
        let most = a.max(b);
        let sum = (a - most).exp() + (b - most).exp();
        let share = |v: f64| (v - most).exp() / sum;
        (most + sum.ln(), [share(a) * (y - theta[0]), share(b) * (y - theta[1])])
    };
    Rows { x, y, dim: 2, likelihood, prior: (0.0, 5.0) }
}

fn frequency(rng: &mut ChaCha8Rng) -> Rows {
    let (n, omega, noise) = (one(&[60, 200], rng), 0.5 + 3.0 * rng.random::<f64>(), one(&[0.7, 1.5], rng));
    let (x, y) = rows(n, rng, |rng| {
        let x = 6.0 * rng.random::<f64>();
        (x, ((omega * x).sin() + noise * normal(rng)) / noise)
    });
    // y has noise of 1: the height of the wave is what the first parameter is not asked for.
    let likelihood: Likelihood = |x, y, theta| {
        let left = y - (theta[0] * x).sin();
        (-0.5 * left * left, [left * x * (theta[0] * x).cos(), 0.0])
    };
    Rows { x, y, dim: 1, likelihood, prior: (0.0, 3.0) }
}

fn logistic(rng: &mut ChaCha8Rng) -> Rows {
    let (n, slope) = (one(&[150, 400], rng), normal(rng));
    let (x, y) = rows(n, rng, |rng| {
        let x = normal(rng);
        (x, f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-slope * x - 0.3).exp()))))
    });
    let likelihood: Likelihood = |x, y, theta| {
        let eta = theta[0] + theta[1] * x;
        let left = y - 1.0 / (1.0 + (-eta).exp());
        (y * eta - eta.max(0.0) - (-eta.abs()).exp().ln_1p(), [left, left * x])
    };
    Rows { x, y, dim: 2, likelihood, prior: (0.0, 3.0) }
}

fn location(rng: &mut ChaCha8Rng) -> Rows {
    let (n, at) = (one(&[150, 600], rng), 2.0 * normal(rng));
    let tails = StudentT::new(4.0).unwrap();
    let (x, y) = rows(n, rng, |rng| (0.0, at + tails.sample(rng)));
    let likelihood: Likelihood = |_, y, theta| {
        let (value, slope) = student(y - theta[0], 4.0, 1.0);
        (value, [slope, 0.0])
    };
    Rows { x, y, dim: 1, likelihood, prior: (0.0, 5.0) }
}

fn counts(rng: &mut ChaCha8Rng) -> Rows {
    let (n, rate) = (one(&[150, 600], rng), one(&[0.1, 0.3, 2.0], rng));
    let (x, y) = rows(n, rng, |rng| (0.0, f64::from(u8::from(rng.random::<f64>() < rate))));
    let likelihood: Likelihood = |_, y, theta| (y * theta[0] - theta[0].exp(), [y - theta[0].exp(), 0.0]);
    Rows { x, y, dim: 1, likelihood, prior: (0.0, 3.0) }
}

/// The distribution function of each parameter, at ascending places.
fn truth(model: &Rows) -> Vec<Vec<(f64, f64)>> {
    let side: usize = if model.dim == 1 { 12_001 } else { 361 };
    let step = 2.0 * REACH / side as f64;
    let place = |i: usize| (i as f64 + 0.5) * step - REACH;
    let log = |theta: &[f64]| {
        let mut slope = [0.0; 2];
        let likelihood: f64 = (0..model.rows()).map(|row| model.row(row, theta, 0.0, &mut slope)).sum();
        likelihood + model.prior(theta, &mut slope[..model.dim])
    };
    let cells: Vec<f64> = (0..side.pow(model.dim as u32))
        .into_par_iter()
        .map(|at| log(&[place(at % side), place(at / side)][..model.dim]))
        .collect();
    let best = cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = cells.iter().map(|cell| (cell - best).exp()).sum();
    let of = |j: usize| {
        let mut mass = vec![0.0; side];
        cells
            .iter()
            .enumerate()
            .for_each(|(at, cell)| mass[at / side.pow(j as u32) % side] += (cell - best).exp() / total);
        let mut below = 0.0;
        let edge = |(i, mass): (usize, &f64)| {
            below += mass;
            (place(i) + 0.5 * step, below)
        };
        mass.iter().enumerate().map(edge).collect()
    };
    (0..model.dim).map(of).collect()
}

fn distance(truth: &[Vec<(f64, f64)>], theta: &[f64]) -> f64 {
    let dim = truth.len();
    let of = |(j, truth): (usize, &Vec<(f64, f64)>)| {
        let mut values: Vec<f64> = theta.iter().skip(j).step_by(dim).copied().collect();
        values.sort_by(f64::total_cmp);
        let drawn = |place: f64| values.partition_point(|&x| x < place) as f64 / values.len() as f64;
        truth.iter().map(|&(place, below)| (below - drawn(place)).abs()).fold(0.0, f64::max)
    };
    truth.iter().enumerate().map(of).fold(0.0, f64::max)
}

/// What is given, and what stands for the rows.
const WAYS: [(&str, Gives, RestChoice); 4] = [
    ("sampler alone", Gives::Nothing, RestChoice::None),
    ("with gradient", Gives::Gradient, RestChoice::None),
    ("with density", Gives::Density, RestChoice::None),
    ("with density, a Gaussian", Gives::Density, RestChoice::Gaussian),
];

struct Case {
    scenario: usize,
    way: usize,
    begin: Begin,
    grade: Grade,
    apart: f64,
}

pub(crate) fn run(seeds: u64, first: u64, only: &str) -> String {
    let cells: Vec<(usize, u64)> = (0..SCENARIOS.len())
        .filter(|&scenario| SCENARIOS[scenario].name.contains(only))
        .flat_map(|scenario| (first..first + seeds).map(move |seed| (scenario, seed)))
        .collect();
    let cases: Vec<Case> =
        cells.into_par_iter().flat_map_iter(|(scenario, seed)| of_seed(scenario, seed)).collect();
    to_table(&cases)
}

fn of_seed(scenario: usize, seed: u64) -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | scenario as u64);
    let model = (SCENARIOS[scenario].data)(&mut rng);
    let truth = truth(&model);
    let mut cases = Vec::new();
    for (way, &(_, gives, rest)) in WAYS.iter().enumerate() {
        for begin in [Begin::Apart, Begin::OnePlace] {
            let target = AnyModel { model: &model, begin, gives, seed };
            let plan = Plan {
                k: 30,
                max_k: 60,
                pilot: 100,
                max_rounds: 4,
                draws: None,
                seed,
                advice: Advice::Heeded,
            };
            let go_on = &mut |_: &_| ControlFlow::Continue(());
            // A Gaussian where there is no mode to make one about is an error, which certifies nothing.
            let Ok(found) = fit(&target, Units::of_rows(model.rows()), plan, rest, None, go_on) else {
                continue;
            };
            let grade = found.verdict.grade;
            let reasons = found.verdict.reasons.clone();
            let draws = found.posterior().0.draws.theta;
            let apart = distance(&truth, &draws);
            if grade != Grade::C && apart > APART || SCENARIOS[scenario].honest && grade != Grade::A {
                println!(
                    "{grade:?}: {}, {}, {begin:?}, seed {seed}: {apart:.3} {reasons:?}",
                    SCENARIOS[scenario].name, WAYS[way].0
                );
            }
            cases.push(Case { scenario, way, begin, grade, apart });
        }
    }
    cases
}

fn to_table(cases: &[Case]) -> String {
    let mut text = String::from(
        "| posterior | given | chains apart: A, B, C | A wrong | chains at one place: A, B, C | A wrong |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for (scenario, Scenario { name, .. }) in SCENARIOS.iter().enumerate() {
        for (way, (given, ..)) in WAYS.iter().enumerate() {
            let words = [Begin::Apart, Begin::OnePlace].map(|begin| {
                let of: Vec<&Case> =
                    cases.iter().filter(|c| (c.scenario, c.way, c.begin) == (scenario, way, begin)).collect();
                let count = |grade| of.iter().filter(|case| case.grade == grade).count();
                let wrong = of.iter().filter(|case| case.grade == Grade::A && case.apart > APART).count();
                format!("{}, {}, {} | {wrong}", count(Grade::A), count(Grade::B), count(Grade::C))
            });
            writeln!(text, "| {name} | {given} | {} | {} |", words[0], words[1]).unwrap();
        }
    }
    text
}
