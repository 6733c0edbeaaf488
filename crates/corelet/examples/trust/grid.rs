//! Truth of posteriors of two or three parameters, by a grid that is refined where there is mass.

use corelet::posterior::Prior;
use corelet::rows::{At, LogLikelihood};

/// Cells at most in one refinement; where more would matter the posterior is too spread for a grid.
const MOST: usize = 90_000;

/// How far θ reaches: |θⱼ| up to sinh(6), some 200.
const REACH: f64 = 6.0;

/// A cell: its centre and half widths in u = asinh θ, and log of the mass in it.
#[derive(Clone)]
struct Cell {
    centre: Vec<f64>,
    half: f64,
    log_mass: f64,
}

/// Cells that hold the mass of a posterior.
pub(crate) struct Grid {
    cells: Vec<Cell>,
}

fn theta(u: &[f64]) -> Vec<f64> {
    u.iter().map(|u| u.sinh()).collect()
}

/// log of the density of u, up to a constant.
fn log_density(likelihood: &dyn LogLikelihood, prior: &Prior, u: &[f64]) -> f64 {
    let place = theta(u);
    let value = likelihood.evaluate(&At { theta: &place, derivatives: 0 }).unwrap().value;
    let log = value + prior.log_density(&place) + u.iter().map(|u| u.cosh().ln()).sum::<f64>();
    if log.is_nan() { f64::NEG_INFINITY } else { log }
}

/// By how much it may rise within a cell: along each axis as far as its edges say, or a parabola through them where the middle is higher.
fn rise(likelihood: &dyn LogLikelihood, prior: &Prior, u: &[f64], half: f64, here: f64) -> f64 {
    let edge = |j: usize, by: f64| {
        let mut place = u.to_vec();
        place[j] += by;
        log_density(likelihood, prior, &place) - here
    };
    let along = |j: usize| {
        let (low, high) = (edge(j, -half), edge(j, half));
        let (slope, bend) = (0.5 * (high - low), -0.5 * (high + low));
        let top = if bend > 0.0 { 0.25 * slope * slope / bend } else { 0.0 };
        let ends = low.max(high).max(0.0);
        if top.is_finite() && top < 100.0 { ends.max(top) } else { ends }
    };
    (0..u.len()).map(along).sum()
}

impl Grid {
    /// Of the posterior of this likelihood under a prior; none where more cells would be needed than can be looked at.
    pub(crate) fn new(likelihood: &dyn LogLikelihood, prior: &Prior, rows: usize) -> Option<Self> {
        let dim = likelihood.dim();
        let (first, enough): (usize, f64) = if dim == 2 { (60, 1500.0) } else { (20, 500.0) };
        let mut half = REACH / first as f64;
        let count = first.pow(dim as u32);
        let mut centres: Vec<Vec<f64>> = (0..count)
            .map(|at| {
                (0..dim)
                    .map(|j| half * (2.0 * (at / first.pow(j as u32) % first) as f64 + 1.0) - REACH)
                    .collect()
            })
            .collect();
        // What a cell may at most be better than its middle, some nats a row: less in a smaller cell, as its square.
        let mut slack = 100.0 + 3.0 * rows as f64;
        for _ in 0..12 {
            let values: Vec<f64> = centres.iter().map(|u| log_density(likelihood, prior, u)).collect();
            let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_total = best + values.iter().map(|v| (v - best).exp()).sum::<f64>().ln();
            let share = |value: &f64| (value - log_total).max(-700.0);
            let entropy: f64 = -values.iter().map(|v| share(v) * share(v).exp()).sum::<f64>();
            if entropy.exp() > enough {
                let cells = centres
                    .into_iter()
                    .zip(values)
                    .map(|(centre, v)| Cell { centre, half, log_mass: v - log_total })
                    .filter(|cell| cell.log_mass > -60.0)
                    .collect();
                return Some(Self { cells });
            }
            // Where the mass is known to be, its outer tails are not refined any more.
            let floor = best - if entropy.exp() > 50.0 { 15.0 } else { 30.0 };
            // Cells that have mass, or might by their slope, in three parts along each axis.
            let mut kept: Vec<(f64, Vec<f64>)> = values
                .iter()
                .zip(centres)
                .filter_map(|(&value, u)| {
                    let near = value > floor || value < floor - slack;
                    let most = if near { value } else { value + rise(likelihood, prior, &u, half, value) };
                    (most > floor).then_some((most, u))
                })
                .collect();
            let parts = 3usize.pow(dim as u32);
            if kept.len() * parts > MOST {
                kept.sort_by(|a, b| b.0.total_cmp(&a.0));
                if kept[MOST / parts].0 > best - 10.0 {
                    return None;
                }
                kept.truncate(MOST / parts);
            }
            half /= 3.0;
            slack = 30.0 + slack / 9.0;
            centres = kept
                .iter()
                .flat_map(|(_, u)| {
                    (0..parts).map(move |at| {
                        u.iter()
                            .enumerate()
                            .map(|(j, u)| u + 2.0 * half * ((at / 3usize.pow(j as u32) % 3) as f64 - 1.0))
                            .collect()
                    })
                })
                .collect();
        }
        None
    }

    /// KL(π‖π_w) + KL(π_w‖π), where `self` is of π and `other` of π_w: the expectation of the difference of their log densities under
    /// each, which needs no constants.
    pub(crate) fn symmetrised_kl(
        &self,
        other: &Self,
        all: &dyn LogLikelihood,
        chosen: &dyn LogLikelihood,
    ) -> f64 {
        let mean = |grid: &Self| -> f64 {
            let at = |cell: &Cell| {
                let place = theta(&cell.centre);
                let of =
                    |l: &dyn LogLikelihood| l.evaluate(&At { theta: &place, derivatives: 0 }).unwrap().value;
                cell.log_mass.exp() * (of(all) - of(chosen))
            };
            grid.cells.iter().map(at).sum()
        };
        mean(self) - mean(other)
    }

    /// The largest distance, over the parameters, between the distribution functions of the grid and of these draws.
    pub(crate) fn distance(&self, draws: &[f64], dim: usize) -> f64 {
        (0..dim)
            .map(|j| {
                let mut mass: Vec<(f64, f64, f64)> = self
                    .cells
                    .iter()
                    .map(|cell| {
                        ((cell.centre[j] - cell.half), (cell.centre[j] + cell.half), cell.log_mass.exp())
                    })
                    .collect();
                mass.sort_by(|a, b| a.0.total_cmp(&b.0));
                let mut values: Vec<f64> = draws.iter().skip(j).step_by(dim).map(|x| x.asinh()).collect();
                values.sort_by(f64::total_cmp);
                // At some quantiles of the draws, and at the edges of cells between which the grid has its mass.
                let quantiles = (1..200).map(|q| values[q * values.len() / 200]);
                let step = (mass.len() / 200).max(1);
                let edges = mass.iter().step_by(step).map(|cell| cell.0);
                let points: Vec<f64> = quantiles.chain(edges).collect();
                points
                    .iter()
                    .map(|&at| {
                        let below: f64 = mass
                            .iter()
                            .map(|(low, high, m)| m * ((at - low) / (high - low)).clamp(0.0, 1.0))
                            .sum();
                        let drawn = values.partition_point(|&x| x < at) as f64 / values.len() as f64;
                        (below - drawn).abs()
                    })
                    .fold(0.0, f64::max)
            })
            .fold(0.0, f64::max)
    }
}
