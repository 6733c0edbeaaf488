//! Groups with a common mean and spread, centred and not, through the engine for any model: the truth of both is a grid, the groups
//! integrated out one by one.

use std::fmt::Write;
use std::ops::ControlFlow;

use corelet::coreset::RestChoice;
use corelet::engine::{Advice, Plan, TargetFit, Units, fit};
use corelet::trust::Grade;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson, StandardNormal};
use rayon::prelude::*;

use super::any_model::{AnyModel, Begin, Gives, Model};

/// Distribution functions that differ by more make an A wrong; see `several`.
const APART: f64 = 0.18;

/// What a row says of its group's level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// y ~ N(level, 1).
    Gaussian,
    /// y ~ Poisson(e^level).
    Poisson,
}

/// y of each row given the level of its group; levels ~ N(μ, τ²); μ ~ N(0, 5²), τ half-normal of scale 1.
/// θ = (μ, log τ, levels), or with (level − μ)/τ in place of levels.
struct Groups {
    family: Family,
    centred: bool,
    group: Vec<usize>,
    y: Vec<f64>,
    groups: usize,
}

const MEAN_SD: f64 = 5.0;

impl Groups {
    fn level(&self, group: usize, theta: &[f64]) -> f64 {
        if self.centred { theta[2 + group] } else { theta[0] + theta[1].exp() * theta[2 + group] }
    }

    fn of_level(&self, y: f64, level: f64) -> (f64, f64) {
        match self.family {
            Family::Gaussian => (-0.5 * (y - level).powi(2), y - level),
            Family::Poisson => (y * level - level.exp(), y - level.exp()),
        }
    }
}

impl Model for Groups {
    fn rows(&self) -> usize {
        self.y.len()
    }

    fn dim(&self) -> usize {
        2 + self.groups
    }

    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
        let group = self.group[row];
        let (value, by_level) = self.of_level(self.y[row], self.level(group, theta));
        let by_level = weight * by_level;
        if self.centred {
            slope[2 + group] += by_level;
        } else {
            let tau = theta[1].exp();
            slope[0] += by_level;
            slope[1] += by_level * tau * theta[2 + group];
            slope[2 + group] += by_level * tau;
        }
        value
    }

    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64 {
        let (mean, log, tau) = (theta[0], theta[1], theta[1].exp());
        let mut value = -0.5 * (mean / MEAN_SD).powi(2) - 0.5 * tau * tau + log;
        slope[0] -= mean / MEAN_SD.powi(2);
        slope[1] += 1.0 - tau * tau;
        for (x, slope_at) in theta[2..].iter().zip(2..) {
            let z = if self.centred { (x - mean) / tau } else { *x };
            value -= 0.5 * z * z;
            if self.centred {
                value -= log;
                slope[slope_at] -= z / tau;
                slope[0] += z / tau;
                slope[1] += z * z - 1.0;
            } else {
                slope[slope_at] -= z;
            }
        }
        value
    }

    fn spread(&self) -> f64 {
        0.5
    }
}

/// Distribution functions of μ and of log τ, each at ascending places.
struct Truth([Vec<(f64, f64)>; 2]);

impl Truth {
    /// By a grid about where the mass is, in two looks.
    fn new(model: &Groups) -> Self {
        let stats = statistics(model);
        let (mut means, mut logs) = ((-6.0, 6.0), (-9.0, 2.5));
        for look in 0..3 {
            let side: usize = if look < 2 { 60 } else { 160 };
            let place =
                |(low, high): (f64, f64), i: usize| low + (high - low) * (i as f64 + 0.5) / side as f64;
            let cells: Vec<f64> = (0..side * side)
                .into_par_iter()
                .map(|at| marginal(model.family, &stats, place(means, at / side), place(logs, at % side)))
                .collect();
            assert!(cells.iter().all(|cell| !cell.is_nan()), "a grid with holes");
            let best = cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mass: Vec<f64> = cells.iter().map(|cell| (cell - best).exp()).collect();
            let total: f64 = mass.iter().sum();
            let by = |key: &dyn Fn(usize) -> usize| {
                let mut sums = vec![0.0; side];
                mass.iter().enumerate().for_each(|(at, mass)| sums[key(at)] += mass / total);
                sums
            };
            let (of_mean, of_log) = (by(&|at| at / side), by(&|at| at % side));
            if look == 2 {
                return Self([
                    ascending(&of_mean, &|i| place(means, i)),
                    ascending(&of_log, &|i| place(logs, i)),
                ]);
            }
            (means, logs) = (range(&of_mean, means), range(&of_log, logs));
        }
        unreachable!("the third look returns")
    }

    /// The largest distance of the draws' distribution functions from these.
    fn distance(&self, theta: &[f64], dim: usize) -> f64 {
        let of = |(j, truth): (usize, &Vec<(f64, f64)>)| {
            let mut values: Vec<f64> = theta.iter().skip(j).step_by(dim).copied().collect();
            values.sort_by(f64::total_cmp);
            let drawn = |place: f64| values.partition_point(|&x| x < place) as f64 / values.len() as f64;
            truth.iter().map(|&(place, below)| (below - drawn(place)).abs()).fold(0.0, f64::max)
        };
        self.0.iter().enumerate().map(of).fold(0.0, f64::max)
    }
}

/// The upper edge of each cell, and the mass below it.
fn ascending(mass: &[f64], place: &dyn Fn(usize) -> f64) -> Vec<(f64, f64)> {
    let half = 0.5 * (place(1) - place(0));
    let mut below = 0.0;
    let cell = |(i, mass): (usize, &f64)| {
        below += mass;
        (place(i) + half, below)
    };
    mass.iter().enumerate().map(cell).collect()
}

/// Where all but a millionth of the mass is, with a cell more on either side.
fn range(mass: &[f64], (low, high): (f64, f64)) -> (f64, f64) {
    let held = |i: &usize| mass[*i] > 1e-6;
    let first = (0..mass.len()).find(held).unwrap_or(0);
    let last = (0..mass.len()).rev().find(held).unwrap_or(mass.len() - 1);
    let width = (high - low) / mass.len() as f64;
    (low + width * (first as f64 - 1.0), low + width * (last as f64 + 2.0))
}

/// Rows and the sum of y of each group.
fn statistics(model: &Groups) -> Vec<(f64, f64)> {
    let mut stats = vec![(0.0, 0.0); model.groups];
    for (&group, y) in model.group.iter().zip(&model.y) {
        stats[group].0 += 1.0;
        stats[group].1 += y;
    }
    stats
}

/// log ∫ of the posterior over all levels at μ and log τ, up to a constant.
fn marginal(family: Family, stats: &[(f64, f64)], mean: f64, log: f64) -> f64 {
    let tau = log.exp();
    let prior = -0.5 * (mean / MEAN_SD).powi(2) - 0.5 * tau * tau + log;
    prior + stats.iter().map(|&(n, sum)| of_group(family, n, sum, mean, tau)).sum::<f64>()
}

/// log ∫ of the likelihood of a group over its level ~ N(mean, tau²): in closed form, or by the trapezium rule about its mode.
fn of_group(family: Family, n: f64, sum: f64, mean: f64, tau: f64) -> f64 {
    if family == Family::Gaussian {
        // ȳ ~ N(mean, τ² + 1/n).
        let variance = tau * tau + 1.0 / n;
        return -0.5 * (variance.ln() + (sum / n - mean).powi(2) / variance);
    }
    // Newton's method comes down from rates beyond all numbers too.
    let rate = |z: f64| n * (mean + tau * z).min(300.0).exp();
    let slope = |z: f64| tau * (sum - rate(z)) - z;
    let bend = |z: f64| 1.0 + tau * tau * rate(z);
    let (mut z, most) = (0.0, tau.recip().max(1.0));
    for _ in 0..100 {
        z += (slope(z) / bend(z)).clamp(-most, most);
    }
    assert!(slope(z).abs() < 1e-3 * bend(z).sqrt(), "no mode of a level: {mean}, {tau}");
    let value = |z: f64| sum * (mean + tau * z) - rate(z) - 0.5 * z * z;
    let (top, step) = (value(z), 0.5 / bend(z).sqrt());
    let sum: f64 = (-16..=16).map(|i| (value(z + step * f64::from(i)) - top).exp()).sum();
    top + (step * sum).ln()
}

struct Kind {
    name: &'static str,
    family: Family,
    groups: usize,
    /// Rows a group.
    each: usize,
    tau: f64,
    mean: f64,
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "Gaussian, 8 groups of 50",
        family: Family::Gaussian,
        groups: 8,
        each: 50,
        tau: 0.3,
        mean: 1.0,
    },
    Kind {
        name: "Gaussian, 8 groups of 200, small spread",
        family: Family::Gaussian,
        groups: 8,
        each: 200,
        tau: 0.05,
        mean: 1.0,
    },
    Kind {
        name: "Gaussian, 30 groups of 200",
        family: Family::Gaussian,
        groups: 30,
        each: 200,
        tau: 0.4,
        mean: 1.0,
    },
    Kind {
        name: "Gaussian, 100 groups of 20",
        family: Family::Gaussian,
        groups: 100,
        each: 20,
        tau: 0.3,
        mean: 1.0,
    },
    Kind {
        name: "Poisson, 30 groups of 200",
        family: Family::Poisson,
        groups: 30,
        each: 200,
        tau: 0.4,
        mean: 1.5,
    },
    Kind {
        name: "Poisson, 30 groups of 30",
        family: Family::Poisson,
        groups: 30,
        each: 30,
        tau: 0.3,
        mean: 0.5,
    },
    Kind {
        name: "Poisson, 100 groups of 60",
        family: Family::Poisson,
        groups: 100,
        each: 60,
        tau: 0.5,
        mean: 1.5,
    },
    Kind {
        name: "Poisson, 200 groups of 30",
        family: Family::Poisson,
        groups: 200,
        each: 30,
        tau: 0.4,
        mean: 1.5,
    },
];

impl Kind {
    fn data(&self, centred: bool, rng: &mut ChaCha8Rng) -> Groups {
        let levels: Vec<f64> = (0..self.groups)
            .map(|_| {
                let z: f64 = StandardNormal.sample(rng);
                self.mean + self.tau * z
            })
            .collect();
        let rows = self.groups * self.each;
        // Every group has some.
        let group: Vec<usize> = (0..rows)
            .map(|row| if row < self.groups { row } else { rng.random_range(0..self.groups) })
            .collect();
        let y = group
            .iter()
            .map(|&group| match self.family {
                Family::Gaussian => {
                    let z: f64 = StandardNormal.sample(rng);
                    levels[group] + z
                }
                Family::Poisson => Poisson::new(levels[group].exp()).unwrap().sample(rng),
            })
            .collect();
        Groups { family: self.family, centred, group, y, groups: self.groups }
    }
}

struct Case {
    kind: usize,
    centred: bool,
    seed: u64,
    fit: TargetFit,
    apart: f64,
}

pub(crate) fn run(seeds: u64, only: &str) -> String {
    let cells: Vec<(usize, bool, u64)> = (0..KINDS.len())
        .filter(|&kind| KINDS[kind].name.contains(only))
        .flat_map(|kind| [true, false].map(|centred| (kind, centred)))
        .flat_map(|(kind, centred)| (0..seeds).map(move |seed| (kind, centred, seed)))
        .collect();
    let cases: Vec<Case> =
        cells.into_par_iter().map(|(kind, centred, seed)| of_seed(kind, centred, seed)).collect();
    to_table(&cases)
}

fn of_seed(kind: usize, centred: bool, seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed << 8 | kind as u64);
    let model = KINDS[kind].data(centred, &mut rng);
    let truth = Truth::new(&model);
    let target = AnyModel { model: &model, begin: Begin::Apart, gives: Gives::Density, seed };
    let plan =
        Plan { k: 60, max_k: 60, pilot: 500, max_rounds: 6, draws: None, seed, advice: Advice::Heeded };
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let found = fit(&target, Units::of_rows(model.rows()), plan, RestChoice::Gaussian, None, go_on).unwrap();
    let apart = truth.distance(&found.draws.draws.theta, model.dim());
    let case = Case { kind, centred, seed, fit: found, apart };
    println!("{}", said(&case));
    case
}

fn to_table(cases: &[Case]) -> String {
    let mut text = String::from(
        "| posterior | cases | A | B | C | A wrong | largest distance at A | at C |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (at, kind) in KINDS.iter().enumerate() {
        for centred in [true, false] {
            let of: Vec<&Case> =
                cases.iter().filter(|case| case.kind == at && case.centred == centred).collect();
            let with = |grade| of.iter().filter(move |case| case.fit.verdict.grade == grade);
            let most = |grade| with(grade).map(|case| case.apart).fold(f64::NAN, f64::max);
            let wrong = with(Grade::A).filter(|case| case.apart > APART).count();
            writeln!(
                text,
                "| {}, {} | {} | {} | {} | {} | {wrong} | {:.3} | {:.3} |",
                kind.name,
                if centred { "centred" } else { "non-centred" },
                of.len(),
                with(Grade::A).count(),
                with(Grade::B).count(),
                with(Grade::C).count(),
                most(Grade::A),
                most(Grade::C),
            )
            .unwrap();
        }
    }
    text
}

/// A case in a line, as it ends: what was found, and how far the draws are from the truth.
fn said(case: &Case) -> String {
    let Case { kind, centred, seed, fit, apart } = case;
    let verdict = &fit.verdict;
    format!(
        "{:?}: {}, {}, seed {seed}: distance {apart:.3}, V {:.1e}, {} rows, E-BFMI {:.2}, {} diverged, {:?} {:?} {:?}",
        verdict.grade,
        KINDS[*kind].name,
        if *centred { "centred" } else { "non-centred" },
        verdict.divergence.variance,
        fit.coreset.rows.len(),
        fit.draws.e_bfmi.unwrap_or(f64::NAN),
        fit.draws.diverged,
        verdict.mixing.map(|mixing| (mixing.r_hat, mixing.ess_bulk.round(), mixing.ess_tail.round())),
        verdict.fidelity.map(|fidelity| (fidelity.shift, fidelity.scale)),
        verdict.reasons,
    )
}
