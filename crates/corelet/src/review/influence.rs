//! Which rows move a quantity: Cov(q, ℓᵢ) is, to first order, by how much its posterior mean falls when row i is left out.
//!
//! Their sum of squares over rows, or over groups of rows, is the variance of the posterior mean over data sets, whatever the model:
//! the infinitesimal jackknife (Giordano and Broderick 2023), beside which the posterior variance is right only where the model is.

use serde::{Deserialize, Serialize};

use super::{Asked, Row};
use crate::data::Twofold;

/// Rows that are kept for each quantity and sign: those by which a sign may turn.
const KEPT: usize = 1000;

/// The influence of rows on every quantity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Influence {
    /// One entry a quantity.
    pub each: Vec<Moving>,
    /// Groups that rows were taken together in; none where each was for itself.
    pub clusters: Option<usize>,
}

/// What moves one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Moving {
    /// Its posterior mean.
    pub mean: f64,
    /// Its posterior standard deviation.
    pub sd: f64,
    /// Its standard error over data sets, by the infinitesimal jackknife.
    pub jackknife: f64,
    /// The rows that move it most towards and beyond zero when they are left out, the first the most.
    pub against: Vec<Mover>,
    /// Those that move it most the other way.
    pub along: Vec<Mover>,
    /// The fewest rows whose removal turns its sign, to first order; none if a thousand do not.
    pub to_turn: Option<usize>,
}

/// A row, and by how much the mean changes when it is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mover {
    /// The row.
    pub row: usize,
    /// The change of the mean.
    pub change: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sums {
    quantities: usize,
    count: usize,
    /// Σ Iᵢ and Σ Iᵢ², over rows.
    sum: Vec<Twofold>,
    squares: Vec<Twofold>,
    /// Σ Var ℓᵢ.
    variance: Twofold,
    /// Σ Iᵢ of each group.
    clusters: Option<Vec<Twofold>>,
    /// The rows with the smallest and the largest Iᵢ, of each quantity.
    low: Vec<Extreme>,
    high: Vec<Extreme>,
}

/// The rows with the largest values so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Extreme {
    rows: Vec<(f64, usize)>,
    /// What a value must exceed to be among them.
    least: f64,
}

impl Extreme {
    fn add(&mut self, value: f64, row: usize) {
        if value <= self.least {
            return;
        }
        self.rows.push((value, row));
        if self.rows.len() >= 2 * KEPT {
            self.cut();
            self.least = self.rows.last().map_or(0.0, |last| last.0);
        }
    }

    fn cut(&mut self) {
        self.rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.rows.truncate(KEPT);
    }
}

impl Sums {
    pub(super) fn new(quantities: usize, clusters: Option<usize>) -> Self {
        let extremes = || (0..quantities).map(|_| Extreme::default()).collect();
        Self {
            quantities,
            count: 0,
            sum: vec![Twofold::default(); quantities],
            squares: vec![Twofold::default(); quantities],
            variance: Twofold::default(),
            clusters: clusters.map(|clusters| vec![Twofold::default(); clusters * quantities]),
            low: extremes(),
            high: extremes(),
        }
    }

    pub(super) fn add(&mut self, at: usize, row: &Row, cluster: Option<usize>) {
        self.count += 1;
        self.variance = self.variance.plus(row.predictive.variance.into());
        for (j, &moves) in row.moves.iter().enumerate() {
            self.sum[j] = self.sum[j].plus(moves.into());
            self.squares[j] = self.squares[j].plus((moves * moves).into());
            self.high[j].add(moves, at);
            self.low[j].add(-moves, at);
        }
        if let (Some(clusters), Some(cluster)) = (&mut self.clusters, cluster) {
            let line = &mut clusters[cluster * self.quantities..][..self.quantities];
            line.iter_mut().zip(&row.moves).for_each(|(sum, &moves)| *sum = sum.plus(moves.into()));
        }
    }

    /// Further rows; `clusters` are the numbers that their groups have here.
    pub(super) fn append(&mut self, other: Self, clusters: Option<&[usize]>) {
        self.count += other.count;
        self.variance = self.variance.plus(other.variance);
        let add = |all: &mut [Twofold], part: &[Twofold]| {
            all.iter_mut().zip(part).for_each(|(sum, part)| *sum = sum.plus(*part));
        };
        add(&mut self.sum, &other.sum);
        add(&mut self.squares, &other.squares);
        if let (Some(all), Some(other), Some(numbers)) = (&mut self.clusters, other.clusters, clusters) {
            let width = self.quantities;
            for (&group, part) in numbers.iter().zip(other.chunks_exact(width.max(1))) {
                add(&mut all[group * width..][..width], part);
            }
        }
        let extremes = |all: &mut Vec<Extreme>, part: Vec<Extreme>| {
            for (all, part) in all.iter_mut().zip(part) {
                part.rows.into_iter().for_each(|(value, row)| all.add(value, row));
            }
        };
        extremes(&mut self.low, other.low);
        extremes(&mut self.high, other.high);
    }

    pub(super) fn finish(mut self, asked: &Asked) -> Influence {
        self.low.iter_mut().chain(&mut self.high).for_each(Extreme::cut);
        let groups = self.clusters.as_ref().map(|clusters| clusters.len() / self.quantities.max(1));
        let jackknife = |j: usize, sd: f64| {
            let (count, squares) = match &self.clusters {
                None => (self.count as f64, self.squares[j].value()),
                Some(clusters) => {
                    let of = clusters.iter().skip(j).step_by(self.quantities.max(1));
                    (groups.unwrap_or(1) as f64, of.map(|x| x.value().powi(2)).sum())
                }
            };
            let spread = squares - self.sum[j].value().powi(2) / count.max(1.0);
            // A covariance over S draws has an error of its own, whose square is in the sum.
            let noise = sd * sd * self.variance.value() / (asked.draws() as f64 * asked.efficiency);
            (spread - noise).max(0.0).sqrt()
        };
        let each = asked.moments().enumerate().map(|(j, (mean, sd))| {
            // Leaving out a row that has held the mean up moves it down.
            let down: Vec<Mover> = movers(&self.high[j], -1.0);
            let up: Vec<Mover> = movers(&self.low[j], 1.0);
            let (against, along) = if mean >= 0.0 { (down, up) } else { (up, down) };
            let mut left = mean.abs();
            let to_turn = against.iter().position(|mover| {
                left -= mover.change.abs();
                left < 0.0
            });
            Moving {
                mean,
                sd,
                jackknife: jackknife(j, sd),
                to_turn: to_turn.map(|at| at + 1),
                against,
                along,
            }
        });
        Influence { each: each.collect(), clusters: groups }
    }
}

fn movers(extreme: &Extreme, sign: f64) -> Vec<Mover> {
    extreme.rows.iter().map(|&(value, row)| Mover { row, change: sign * value }).collect()
}
