//! Truth of posteriors of two or three parameters, by a grid that is refined where there is mass.

use corelet::posterior::Prior;
use corelet::rows::{At, LogLikelihood};

/// Cells at most in one refinement; where more would matter the posterior is too spread for a grid.
const MOST: usize = 90_000;

/// The log density changes by less from the middle of a cell to its edges, on average over the mass: half a standard deviation of a
/// Gaussian. Along an axis where it changes by more, cells are divided further.
const RESOLVED: f64 = 0.45;

/// Refinements at most: 3⁻¹⁴ of the first cells.
const REFINEMENTS: usize = 14;

/// How far θ reaches: |θⱼ| up to sinh(6), some 200.
const REACH: f64 = 6.0;

/// A cell: its centre in u = asinh θ, and log of the mass in it.
#[derive(Clone)]
struct Cell {
    centre: Vec<f64>,
    log_mass: f64,
}

/// Cells that hold the mass of a posterior, all of one shape: half as wide as this along each axis.
pub(crate) struct Grid {
    cells: Vec<Cell>,
    half: Vec<f64>,
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

/// By how much it may rise within a cell, along each axis: as far as its edges say, or a parabola through them where the middle is higher;
/// and by how much it changes to an edge.
fn along(likelihood: &dyn LogLikelihood, prior: &Prior, u: &[f64], half: &[f64], here: f64) -> Vec<[f64; 2]> {
    let edge = |j: usize, by: f64| {
        let mut place = u.to_vec();
        place[j] += by;
        log_density(likelihood, prior, &place) - here
    };
    let along = |j: usize| {
        let (low, high) = (edge(j, -half[j]), edge(j, half[j]));
        let (slope, bend) = (0.5 * (high - low), -0.5 * (high + low));
        // Where its vertex is in the cell, or not far from it.
        let top = if bend > 0.0 && slope.abs() < 3.0 * bend { 0.25 * slope * slope / bend } else { 0.0 };
        let rise = low.max(high).max(0.0).max(top);
        [rise, low.abs().max(high.abs()).min(1e3)]
    };
    (0..u.len()).map(along).collect()
}

/// A cell that has mass, or may have.
struct Candidate {
    centre: Vec<f64>,
    value: f64,
    /// What it may reach within.
    most: f64,
    /// By how much it changes to an edge of each axis.
    changes: Vec<f64>,
}

/// Whether cells are small enough along each axis, on average over the mass that they may have.
fn resolved(cells: &[Candidate], dim: usize) -> Vec<bool> {
    let best = cells.iter().map(|cell| cell.most).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = cells.iter().map(|cell| (cell.most - best).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mean =
        |j: usize| cells.iter().zip(&weights).map(|(cell, w)| w * cell.changes[j]).sum::<f64>() / total;
    (0..dim).map(|j| mean(j) < RESOLVED).collect()
}

/// The middles of the parts of a cell along each axis, which are so wide.
fn divided(centre: Vec<f64>, half: &[f64], parts: &[usize]) -> Vec<Vec<f64>> {
    let mut all = vec![centre];
    for (j, _) in parts.iter().enumerate().filter(|(_, parts)| **parts == 3) {
        let moved = |centre: Vec<f64>| {
            [-2.0, 0.0, 2.0].map(|by| {
                let mut part = centre.clone();
                part[j] += by * half[j];
                part
            })
        };
        all = all.into_iter().flat_map(moved).collect();
    }
    all
}

impl Grid {
    /// Of the posterior of this likelihood under a prior; none where more cells would be needed than can be looked at.
    pub(crate) fn new(likelihood: &dyn LogLikelihood, prior: &Prior, rows: usize) -> Option<Self> {
        let dim = likelihood.dim();
        let first: usize = if dim == 2 { 60 } else { 20 };
        let mut half = vec![REACH / first as f64; dim];
        let middle =
            |at: usize, j: usize| half[j] * (2.0 * (at / first.pow(j as u32) % first) as f64 + 1.0) - REACH;
        let mut centres: Vec<Vec<f64>> =
            (0..first.pow(dim as u32)).map(|at| (0..dim).map(|j| middle(at, j)).collect()).collect();
        // What a cell may at most be better than its middle, some nats a row: less in a smaller cell, as its square.
        let mut slack = 100.0 + 3.0 * rows as f64;
        for _ in 0..REFINEMENTS {
            let values: Vec<f64> = centres.iter().map(|u| log_density(likelihood, prior, u)).collect();
            let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_total = best + values.iter().map(|v| (v - best).exp()).sum::<f64>().ln();
            let share = |value: &f64| (value - log_total).max(-700.0);
            let entropy: f64 = -values.iter().map(|v| share(v) * share(v).exp()).sum::<f64>();
            // Where the mass is known to be, its outer tails are not refined any more.
            let floor = best - if entropy.exp() > 50.0 { 15.0 } else { 30.0 };
            // Cells that have mass, or might by their slope.
            let mut kept: Vec<Candidate> = values
                .iter()
                .zip(centres)
                .filter(|(value, _)| **value > floor - slack)
                .map(|(&value, centre)| {
                    let axes = along(likelihood, prior, &centre, &half, value);
                    let most = value + axes.iter().map(|[rise, _]| rise).sum::<f64>();
                    Candidate {
                        centre,
                        value,
                        most,
                        changes: axes.iter().map(|[_, change]| *change).collect(),
                    }
                })
                .filter(|cell| cell.most > floor)
                .collect();
            let resolved = resolved(&kept, dim);
            if resolved.iter().all(|resolved| *resolved) {
                let cell = |cell: Candidate| Cell { centre: cell.centre, log_mass: cell.value - log_total };
                return Some(Self { cells: kept.into_iter().map(cell).collect(), half });
            }
            // In three along each axis that wants it.
            let parts: Vec<usize> = resolved.iter().map(|resolved| if *resolved { 1 } else { 3 }).collect();
            let most = MOST / parts.iter().product::<usize>();
            if kept.len() > most {
                kept.sort_by(|a, b| b.most.total_cmp(&a.most));
                if kept[most].most > best - 10.0 {
                    return None;
                }
                kept.truncate(most);
            }
            half.iter_mut().zip(&parts).for_each(|(half, parts)| *half /= *parts as f64);
            slack = 30.0 + slack / 9.0;
            centres = kept.into_iter().flat_map(|cell| divided(cell.centre, &half, &parts)).collect();
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
                        (
                            (cell.centre[j] - self.half[j]),
                            (cell.centre[j] + self.half[j]),
                            cell.log_mass.exp(),
                        )
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
