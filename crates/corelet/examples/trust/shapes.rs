//! Samplers that lie about posteriors that are not Gaussian: skewed, heavy-tailed, with two humps, bent, funnels.
//!
//! A posterior is a product of densities of one variable u, bent by a bijection with a closed form, turned and stretched. A lie is made
//! in u, axis by axis, and the symmetrised KL does not change with a bijection: so the truth is a sum of integrals over a line, by a grid.

use std::fmt::Write;

use corelet::trust::{Draws, Evidence, Grade, Reason, Scores, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, StandardNormal, StudentT};
use rayon::prelude::*;

use super::liars::WRONG;

/// A density of one variable.
#[derive(Debug, Clone, Copy)]
enum Density {
    Normal,
    /// log of a gamma variable of this shape: skewed to the left, as a log standard deviation that few rows know.
    LogGamma(f64),
    /// With so many degrees of freedom.
    Student(f64),
    Logistic,
    /// Halves of N(−d, 1) and N(d, 1).
    Humps(f64),
}

/// A bijection of pairs of variables.
#[derive(Debug, Clone, Copy)]
enum Bend {
    Straight,
    /// (u, v) ↦ (u, v e^{cu}).
    Funnel(f64),
    /// (u, v) ↦ (u, v + c(u² − 1)).
    Banana(f64),
}

struct Shape {
    name: &'static str,
    /// By axis.
    density: fn(usize) -> Density,
    bend: Bend,
}

const SHAPES: [Shape; 9] = [
    Shape { name: "log-gamma, shape 3", density: |_| Density::LogGamma(3.0), bend: Bend::Straight },
    Shape { name: "log-gamma, shape 1", density: |_| Density::LogGamma(1.0), bend: Bend::Straight },
    Shape {
        name: "one log-gamma of shape ½",
        density: |j| if j == 0 { Density::LogGamma(0.5) } else { Density::Normal },
        bend: Bend::Straight,
    },
    Shape { name: "Student-t, ν = 7", density: |_| Density::Student(7.0), bend: Bend::Straight },
    Shape { name: "Student-t, ν = 3", density: |_| Density::Student(3.0), bend: Bend::Straight },
    Shape { name: "logistic", density: |_| Density::Logistic, bend: Bend::Straight },
    Shape { name: "two humps", density: |_| Density::Humps(1.3), bend: Bend::Straight },
    Shape { name: "banana", density: |_| Density::Normal, bend: Bend::Banana(0.5) },
    Shape { name: "funnel", density: |_| Density::Normal, bend: Bend::Funnel(0.5) },
];

/// What a sampler draws in place of u.
#[derive(Debug, Clone, Copy)]
enum Lie {
    Honest,
    /// Off by so many standard deviations.
    Shift(f64),
    /// So many times as wide about the mean.
    Scale(f64),
    /// Nine of ten draws below this quantile (above it, where negative) are missing.
    Thin(f64),
    /// A Gaussian with the right mean and standard deviation.
    Moments,
    /// The Gaussian of the mode and its curvature.
    Laplace,
}

/// A lie, and whether it is told of an axis among so many.
struct Told {
    name: &'static str,
    lie: Lie,
    of: fn(usize, usize) -> bool,
}

const ALL: fn(usize, usize) -> bool = |_, _| true;
const FIRST: fn(usize, usize) -> bool = |j, _| j == 0;
const LAST: fn(usize, usize) -> bool = |j, dim| j + 1 == dim;
const FIFTH: fn(usize, usize) -> bool = |j, _| j % 5 == 0;

const LIES: [Told; 14] = [
    Told { name: "honest", lie: Lie::Honest, of: ALL },
    Told { name: "first mean 2 sd off", lie: Lie::Shift(2.0), of: FIRST },
    Told { name: "last mean 0.8 sd off", lie: Lie::Shift(0.8), of: LAST },
    Told { name: "all means 0.3 sd off", lie: Lie::Shift(-0.3), of: ALL },
    Told { name: "all 0.75 times as wide", lie: Lie::Scale(0.75), of: ALL },
    Told { name: "a fifth 0.6 times as wide", lie: Lie::Scale(0.6), of: FIFTH },
    Told { name: "first 0.4 times as wide", lie: Lie::Scale(0.4), of: FIRST },
    Told { name: "all 1.4 times as wide", lie: Lie::Scale(1.4), of: ALL },
    Told { name: "last twice as wide", lie: Lie::Scale(2.0), of: LAST },
    Told { name: "lowest fifth missing, first", lie: Lie::Thin(0.2), of: FIRST },
    Told { name: "lowest tenth missing, all", lie: Lie::Thin(0.1), of: ALL },
    Told { name: "highest fifth missing, last", lie: Lie::Thin(-0.2), of: LAST },
    Told { name: "Gaussian of the same moments", lie: Lie::Moments, of: ALL },
    Told { name: "Gaussian at the mode", lie: Lie::Laplace, of: ALL },
];

impl Density {
    /// log p up to a constant, and its derivative.
    fn log(self, u: f64) -> (f64, f64) {
        match self {
            Self::Normal => (-0.5 * u * u, -u),
            Self::LogGamma(shape) => (shape * u - u.exp(), shape - u.exp()),
            Self::Student(nu) => (-0.5 * (nu + 1.0) * (u * u / nu).ln_1p(), -(nu + 1.0) * u / (nu + u * u)),
            Self::Logistic => (-u.abs() - 2.0 * (-u.abs()).exp().ln_1p(), -(0.5 * u).tanh()),
            Self::Humps(d) => {
                let far = (u.abs() * d).mul_add(-2.0, 0.0).exp();
                (-0.5 * (u.abs() - d).powi(2) + far.ln_1p(), -u + d * (d * u).tanh())
            }
        }
    }

    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        let normal = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
        match self {
            Self::Normal => normal(rng),
            Self::LogGamma(shape) => Gamma::new(shape, 1.0).unwrap().sample(rng).ln(),
            Self::Student(nu) => StudentT::new(nu).unwrap().sample(rng),
            Self::Logistic => {
                let p: f64 = rng.random();
                (p / (1.0 - p)).ln()
            }
            Self::Humps(d) => normal(rng) + if rng.random::<bool>() { d } else { -d },
        }
    }
}

/// A density on a grid, with what lies need to know of it.
struct Line {
    density: Density,
    /// u, the width of its cell, log p.
    cells: Vec<(f64, f64, f64)>,
    mean: f64,
    sd: f64,
    mode: f64,
    curvature: f64,
}

impl Line {
    fn new(density: Density) -> Self {
        const HALF: i32 = 6000;
        // Finely about 0, ever coarser in the tails.
        let at = |i: i32| f64::from(i) / f64::from(HALF) * 14.0;
        let step = 14.0 / f64::from(HALF);
        let mut cells: Vec<(f64, f64, f64)> = (-HALF..=HALF)
            .map(|i| (at(i).sinh(), step * at(i).cosh(), density.log(at(i).sinh()).0))
            .collect();
        let total: f64 = cells.iter().map(|(_, width, log)| width * log.exp()).sum();
        cells.iter_mut().for_each(|cell| cell.2 -= total.ln());
        let mean: f64 = cells.iter().map(|(u, width, log)| u * width * log.exp()).sum();
        let variance: f64 = cells.iter().map(|(u, width, log)| (u - mean).powi(2) * width * log.exp()).sum();
        let mode = cells.iter().copied().max_by(|a, b| a.2.total_cmp(&b.2)).unwrap().0;
        let slope = |u: f64| density.log(u).1;
        let curvature = (slope(mode - 1e-4) - slope(mode + 1e-4)) / 2e-4;
        Self { density, cells, mean, sd: variance.sqrt(), mode, curvature }
    }

    /// The point below which this share of the mass is.
    fn quantile(&self, share: f64) -> f64 {
        let mut sum = 0.0;
        let found = self.cells.iter().find(|(_, width, log)| {
            sum += width * log.exp();
            sum >= share
        });
        found.unwrap().0
    }

    fn lied(&self, lie: Lie, cut: f64, rng: &mut ChaCha8Rng) -> f64 {
        let normal = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
        match lie {
            Lie::Honest => self.density.draw(rng),
            Lie::Shift(by) => self.density.draw(rng) + by * self.sd,
            Lie::Scale(by) => self.mean + by * (self.density.draw(rng) - self.mean),
            Lie::Thin(share) => loop {
                let u = self.density.draw(rng);
                if !is_missing(share, cut, u) || rng.random::<f64>() < 0.1 {
                    return u;
                }
            },
            Lie::Moments => self.mean + self.sd * normal(rng),
            Lie::Laplace => self.mode + self.curvature.sqrt().recip() * normal(rng),
        }
    }

    /// Where a lie cuts, so that it is looked up once.
    fn cut(&self, lie: Lie) -> f64 {
        match lie {
            Lie::Thin(share) => self.quantile(if share > 0.0 { share } else { 1.0 + share }),
            _ => 0.0,
        }
    }

    /// KL(p‖q) + KL(q‖p) = ∫ (p − q)(log p − log q).
    fn divergence(&self, lie: Lie) -> f64 {
        let total: f64 = self.cells.iter().map(|(_, width, log)| width * log.exp()).sum();
        let constant = self.cells.iter().map(|(u, _, log)| log - self.density.log(*u).0).next().unwrap();
        let log = |u: f64| self.density.log(u).0 + constant;
        let gaussian = |u: f64, mean: f64, sd: f64| {
            -0.5 * ((u - mean) / sd).powi(2) - sd.ln() - 0.5 * std::f64::consts::TAU.ln()
        };
        let cut = self.cut(lie);
        let kept = |share: f64| total - 0.9 * share.abs();
        let lied = |u: f64| match lie {
            Lie::Honest => log(u),
            Lie::Shift(by) => log(u - by * self.sd),
            Lie::Scale(by) => log(self.mean + (u - self.mean) / by) - by.ln(),
            Lie::Thin(share) => {
                let factor: f64 = if is_missing(share, cut, u) { 0.1 } else { 1.0 };
                log(u) + factor.ln() - kept(share).ln()
            }
            Lie::Moments => gaussian(u, self.mean, self.sd),
            Lie::Laplace => gaussian(u, self.mode, self.curvature.sqrt().recip()),
        };
        let each = |&(u, width, log): &(f64, f64, f64)| {
            let other = lied(u);
            // Where neither has mass there is nothing to count.
            let part = width * (log.exp() - other.exp()) * (log - other);
            if log.exp() < 1e-300 && other.exp() < 1e-300 { 0.0 } else { part }
        };
        self.cells.iter().map(each).sum()
    }
}

/// Whether a draw is among those that a sampler misses, of this share below a cut, or above it where the share is negative.
fn is_missing(share: f64, cut: f64, u: f64) -> bool {
    if share > 0.0 { u < cut } else { u > cut }
}

impl Bend {
    /// Where u goes, and the gradient of log p there from that in u.
    fn apply(self, u: &mut [f64], slopes: &mut [f64]) {
        for (u, slopes) in u.chunks_exact_mut(2).zip(slopes.chunks_exact_mut(2)) {
            let (first, second) = (u[0], u[1]);
            match self {
                Self::Straight => {}
                // log p(z) = log p(u) − cu₀, u₁ = z₁ e^{−cu₀}.
                Self::Funnel(c) => {
                    u[1] = second * (c * first).exp();
                    slopes[0] -= c + c * second * slopes[1];
                    slopes[1] *= (-c * first).exp();
                }
                Self::Banana(c) => {
                    u[1] = second + c * (first * first - 1.0);
                    slopes[0] -= 2.0 * c * first * slopes[1];
                }
            }
        }
    }

    /// −log of the volume that it makes of one.
    fn log_volume(self, u: &[f64]) -> f64 {
        match self {
            Self::Funnel(c) => u.chunks_exact(2).map(|u| -c * u[0]).sum(),
            _ => 0.0,
        }
    }
}

/// How the sampler is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Gradient,
    /// The log-likelihood, under a flat prior.
    Likelihood,
    /// The log-likelihood beside a normal prior that is three times as wide as the posterior.
    LikelihoodAndPrior,
}

const WAYS: [By; 3] = [By::Gradient, By::Likelihood, By::LikelihoodAndPrior];

struct Case {
    shape: usize,
    lie: usize,
    by: usize,
    truth: f64,
    grade: Grade,
    on_trust: bool,
    /// Parameters, draws, seed.
    cell: (usize, usize, u64),
    reasons: Vec<Reason>,
}

/// Every shape × lie × parameters × draws × seeds × way to judge.
pub(crate) fn run(seeds: u64, only: &str) -> String {
    let mut cells = Vec::new();
    for (shape, lie) in (0..SHAPES.len()).flat_map(|shape| (0..LIES.len()).map(move |lie| (shape, lie))) {
        if !LIES[lie].name.contains(only) {
            continue;
        }
        for dim in [1, 2, 5, 20, 60] {
            if dim == 1 && !matches!(SHAPES[shape].bend, Bend::Straight) {
                continue;
            }
            for draws in [1000, 4000] {
                cells.extend((0..seeds).map(|seed| (shape, lie, dim, draws, seed)));
            }
        }
    }
    let cases: Vec<Case> = cells
        .into_par_iter()
        .flat_map_iter(|(shape, lie, dim, draws, seed)| {
            let (told, form) = (&LIES[lie], &SHAPES[shape]);
            let lines: Vec<Line> = (0..dim.min(2)).map(|j| Line::new((form.density)(j))).collect();
            let line = |j: usize| &lines[j.min(1).min(dim - 1)];
            let truth = (0..dim)
                .filter(|&j| (told.of)(j, dim))
                .map(|j| if j < 2 { line(j).divergence(told.lie) } else { 0.0 })
                .sum::<f64>()
                + if dim > 2 {
                    let others = (2..dim).filter(|&j| (told.of)(j, dim)).count();
                    others as f64 * line(1).divergence(told.lie)
                } else {
                    0.0
                };
            (0..WAYS.len())
                .map(|by| {
                    let cell = (dim, draws, seed);
                    let (grade, reasons) = graded(form, told, &lines, cell, WAYS[by]);
                    let said = [Reason::OnTrust, Reason::PriorDominates];
                    let on_trust = reasons.iter().any(|reason| said.contains(reason));
                    Case { shape, lie, by, truth, grade, on_trust, cell, reasons }
                })
                .collect::<Vec<_>>()
        })
        .collect();
    to_table(&cases)
}

fn graded(
    shape: &Shape,
    told: &Told,
    lines: &[Line],
    (dim, count, seed): (usize, usize, u64),
    by: By,
) -> (Grade, Vec<Reason>) {
    let mut rng = ChaCha8Rng::seed_from_u64(0x5ea9e << 20 | seed << 8 | dim as u64);
    let mirrors: Vec<Vec<f64>> =
        (0..3).map(|_| StandardNormal.sample_iter(&mut rng).take(dim).collect()).collect();
    let sd = |j: usize| 10f64.powf(if dim > 1 { 2.0 * (j as f64 / (dim - 1) as f64) - 1.0 } else { 0.0 });
    let line = |j: usize| &lines[j.min(1).min(dim - 1)];
    let lie = |j: usize| if (told.of)(j, dim) { told.lie } else { Lie::Honest };
    let cuts: Vec<f64> = (0..dim).map(|j| line(j).cut(lie(j))).collect();
    let (mut theta, mut slopes, mut weighted) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let mut z: Vec<f64> = (0..dim).map(|j| line(j).lied(lie(j), cuts[j], &mut rng)).collect();
        let logs: Vec<(f64, f64)> = z.iter().enumerate().map(|(j, &u)| line(j).density.log(u)).collect();
        let mut slope: Vec<f64> = logs.iter().map(|log| log.1).collect();
        let mut value = logs.iter().map(|log| log.0).sum::<f64>() + shape.bend.log_volume(&z);
        shape.bend.apply(&mut z, &mut slope);
        if by == By::LikelihoodAndPrior {
            value += z
                .iter()
                .enumerate()
                .map(|(j, z)| 0.5 * ((z - line(j).mean) / (3.0 * line(j).sd)).powi(2))
                .sum::<f64>();
        }
        weighted.push(value);
        theta.extend(turned(z.iter().enumerate().map(|(j, z)| z * sd(j)).collect(), &mirrors));
        slopes.extend(turned(slope.iter().enumerate().map(|(j, z)| z / sd(j)).collect(), &mirrors));
    }
    let draws = Draws { theta, dim, chains: Some(4), log_weights: None };
    let scores = (by == By::Gradient).then(|| Scores { draws: draws.clone(), gradient: slopes });
    let evidence = Evidence { errors: vec![0.0; count], weighted, scores, ..Evidence::of(&draws) };
    let verdict = judge(evidence).unwrap();
    (verdict.grade, verdict.reasons)
}

/// Through these mirrors, one after the other.
pub(crate) fn turned(mut x: Vec<f64>, mirrors: &[Vec<f64>]) -> Vec<f64> {
    for mirror in mirrors {
        let (along, size): (f64, f64) =
            x.iter().zip(mirror).fold((0.0, 0.0), |(a, s), (x, m)| (a + x * m, s + m * m));
        x.iter_mut().zip(mirror).for_each(|(x, m)| *x -= 2.0 * along / size * m);
    }
    x
}

/// A line for each lie, one for each shape of honest draws, and every A that is wrong.
fn to_table(cases: &[Case]) -> String {
    let grades = |of: &[&Case], by: usize| {
        let count = |grade| of.iter().filter(|case| case.by == by && case.grade == grade).count();
        format!("{}, {}, {}", count(Grade::A), count(Grade::B), count(Grade::C))
    };
    let mut text = String::from(
        "| draws | true KL | cases | gradient A, B, C | likelihood A, B, C | likelihood beside a prior A, B, C | A wrong | B wrong | of these on trust |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut line = |name: &str, of: Vec<&Case>| {
        let low = of.iter().map(|case| case.truth).fold(f64::INFINITY, f64::min);
        let high = of.iter().map(|case| case.truth).fold(0.0, f64::max);
        let wrong = |grade| {
            let found = of.iter().filter(move |case| case.grade == grade && case.truth > WRONG);
            (found.clone().count(), found.filter(|case| case.on_trust).count())
        };
        let [gradient, likelihood, prior] = [0, 1, 2].map(|by| grades(&of, by));
        writeln!(
            text,
            "| {name} | {low:.2} to {high:.1} | {} | {gradient} | {likelihood} | {prior} | {} | {} | {} |",
            of.len(),
            wrong(Grade::A).0,
            wrong(Grade::B).0,
            wrong(Grade::B).1
        )
        .unwrap();
    };
    for (at, told) in LIES.iter().enumerate() {
        line(told.name, cases.iter().filter(|case| case.lie == at).collect());
    }
    for (at, shape) in SHAPES.iter().enumerate() {
        line(
            &format!("honest: {}", shape.name),
            cases.iter().filter(|c| c.lie == 0 && c.shape == at).collect(),
        );
    }
    for (at, shape) in SHAPES.iter().enumerate() {
        line(
            &format!("all lies: {}", shape.name),
            cases.iter().filter(|c| c.lie != 0 && c.shape == at).collect(),
        );
    }
    line("all", cases.iter().collect());
    let said = |case: &&Case| match case.grade {
        Grade::A => case.truth > WRONG,
        Grade::B => false,
        Grade::C => case.lie == 0 && case.by == 0,
    };
    for Case { shape, lie, by, truth, grade, cell, reasons, .. } in cases.iter().filter(said) {
        let (shape, lie, way) = (SHAPES[*shape].name, LIES[*lie].name, WAYS[*by]);
        writeln!(text, "wrong {grade:?}: {shape}, {lie}, {way:?}, {truth:.2} nats, {cell:?}, {reasons:?}")
            .unwrap();
    }
    text
}
