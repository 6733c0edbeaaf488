//! Is there mass far out that draws do not have? Laplace's approximation of the marginal of one parameter, out into its tails.
//!
//! p(θⱼ = t) ∝ p(θ̂(t)) |−∇²₋ⱼ log p(θ̂(t))|^(−½), θ̂(t) the mode of the others where θⱼ is t (Tierney and Kadane 1986). It is computed at
//! places that stand ever farther apart: a tail whose density is e⁻¹⁰ of that at the mode may still have most of the mass, and chains
//! that begin at the mode may never enter it.

use super::{Chains, Laplace, LaplaceError, LaplaceSettings, Prior, effective_sample_size, laplace};
use crate::parallel;
use crate::rows::{At, LogLikelihood, RowsError};

/// Places of a first look: sinh of multiples of this, in standard deviations from a mode.
const COARSE: f64 = 1.0;
/// As many parts of it where a tail was seen.
const PARTS: i32 = 4;

/// So far out, in widths of the prior: beyond, a Cauchy density has a ten-thousandth of its mass.
const REACH: f64 = 3000.0;

/// Standard deviations from a mode beyond which the tail begins.
const CORE: f64 = 6.0;

/// Mass in the tail, of a first look, that makes a second one worth it. Its places are so far apart that it is off by a factor of 2 or so.
const SEEN: f64 = 5e-3;

/// Up to so many parameters all of them are looked at, beyond only those under a prior with heavy tails.
const FEW: usize = 20;

/// The modes of the others need few digits.
const PATH: LaplaceSettings = LaplaceSettings { tolerance: 1e-3, max_iterations: 30 };

/// A tail with much mass, of one parameter.
#[derive(Debug, Clone)]
pub struct Tail {
    /// Which parameter.
    pub at: usize,
    /// θⱼ, ascending.
    places: Vec<f64>,
    /// The modes of all parameters there.
    path: Vec<Vec<f64>>,
    /// log of the marginal density there times the width of its cell, up to a constant.
    log_mass: Vec<f64>,
}

/// How the draws of a parameter differ from the mass that it has by Laplace's approximation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missed {
    /// Which parameter.
    pub at: usize,
    /// Where the two distribution functions differ most: the step of the path there.
    pub step: usize,
    /// Whether it is on the upper side of the median of the draws.
    pub above: bool,
    /// The mass beyond that place, on that side, and the share of draws there.
    pub mass: f64,
    /// See `mass`.
    pub draws: f64,
}

impl Missed {
    /// By how much the distribution functions differ.
    pub fn distance(&self) -> f64 {
        (self.mass - self.draws).abs()
    }
}

/// The tails with mass of these parameters of a posterior, of which these are modes; of all parameters where there are few of them. One
/// whose prior depends on other parameters is left out.
///
/// # Errors
/// If the rows did not answer.
pub fn tails(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    modes: &[&Laplace],
) -> Result<Vec<Tail>, RowsError> {
    let wanted: Vec<usize> = match prior.dim() {
        0..=FEW => (0..prior.dim()).collect(),
        _ => prior.heavy_tailed(),
    };
    let wanted = wanted.into_iter().filter(|&at| prior.stands_alone(at));
    let of = |at: usize| Tail::of(likelihood, prior, modes, at);
    let found: Result<Vec<Option<Tail>>, RowsError> = parallel::map(wanted, of).into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

impl Tail {
    fn of(
        likelihood: &dyn LogLikelihood,
        prior: &Prior,
        modes: &[&Laplace],
        at: usize,
    ) -> Result<Option<Self>, RowsError> {
        let look = |step: f64| -> Result<Self, RowsError> {
            let walks = modes.iter().map(|mode| Walk::new(likelihood, prior, mode, at).go(step));
            Ok(Self::joined(at, walks.collect::<Result<Vec<_>, _>>()?.concat()))
        };
        let near = |t: f64| {
            modes.iter().any(|mode| {
                (t - mode.posterior.mean[at]).abs() < CORE * mode.posterior.sds().nth(at).unwrap_or(0.0)
            })
        };
        // The proportions of modes that chains pass between show in a close look alone.
        if modes.len() > 1 {
            return look(COARSE / f64::from(PARTS)).map(Some);
        }
        let coarse = look(COARSE)?;
        let mass = coarse.mass();
        let out = coarse.places.iter().zip(&mass).filter(|(t, _)| !near(**t)).map(|(_, mass)| mass);
        if out.sum::<f64>() < SEEN { Ok(None) } else { look(COARSE / f64::from(PARTS)).map(Some) }
    }

    /// Places of several walks side by side, each with the cell between the midpoints to its neighbours.
    fn joined(at: usize, mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.theta[at].total_cmp(&b.theta[at]));
        points.dedup_by(|a, b| a.theta[at] == b.theta[at]);
        let places: Vec<f64> = points.iter().map(|point| point.theta[at]).collect();
        let edge = |i: usize| 0.5 * (places[i] + places[i + 1]);
        let last = places.len().saturating_sub(1);
        let width = |i: usize| {
            let low = if i == 0 { places[0] } else { edge(i - 1) };
            let high = if i == last { places[last] } else { edge(i) };
            high - low
        };
        let log_mass = (0..points.len()).map(|i| points[i].log_density + width(i).ln()).collect();
        Self { at, path: points.into_iter().map(|point| point.theta).collect(), places, log_mass }
    }

    /// The share of the mass at each place.
    fn mass(&self) -> Vec<f64> {
        shares(&self.log_mass)
    }

    /// The modes of all parameters at each place: where another likelihood is to be looked at.
    pub fn path(&self) -> &[Vec<f64>] {
        &self.path
    }

    /// The same under a likelihood that differs by so much at each place of the path.
    #[must_use]
    pub fn reweighted(&self, differences: &[f64]) -> Self {
        let add = |(mass, more): (&f64, &f64)| if more.is_finite() { mass + more } else { f64::NEG_INFINITY };
        let log_mass = self.log_mass.iter().zip(differences).map(add).collect();
        Self { log_mass, ..self.clone() }
    }

    /// Where the draws of chains differ most from this mass, less what sampling explains; none if they do not.
    pub fn against(&self, chains: &Chains) -> Option<Missed> {
        /// Standard errors of a share of the draws.
        const SAMPLING: f64 = 3.0;
        let dim = chains.dim.max(1);
        let of = |j: usize| -> Vec<Vec<f64>> {
            let column = |theta: &[f64]| theta.iter().skip(j).step_by(dim).copied().collect();
            chains.chains.iter().map(|chain| column(&chain.draws.theta)).collect()
        };
        let series = of(self.at);
        let effective = effective_sample_size(&series).max(1.0);
        let mut draws = series.concat();
        draws.sort_by(f64::total_cmp);
        let middle = *draws.get(draws.len() / 2)?;
        let count = draws.len() as f64;
        let mut below = 0.0;
        let mut worst: Option<(f64, Missed)> = None;
        for (i, mass) in self.mass().iter().enumerate().take(self.places.len() - 1) {
            below += mass;
            let place = 0.5 * (self.places[i] + self.places[i + 1]);
            let drawn = draws.partition_point(|&x| x < place) as f64 / count;
            let error = SAMPLING * (0.25 / effective).sqrt();
            let excess = (below - drawn).abs() - error;
            let above = place > middle;
            let (mass, draws) = if above { (1.0 - below, 1.0 - drawn) } else { (below, drawn) };
            if excess > 0.0 && worst.as_ref().is_none_or(|(known, _)| excess > *known) {
                worst = Some((excess, Missed { at: self.at, step: i, above, mass, draws }));
            }
        }
        worst.map(|(_, missed)| missed)
    }
}

/// exp of each, over their sum.
fn shares(logs: &[f64]) -> Vec<f64> {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let each: Vec<f64> = logs.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = each.iter().filter(|x| x.is_finite()).sum();
    each.iter().map(|x| if x.is_finite() { x / sum } else { 0.0 }).collect()
}

/// A place of a path.
#[derive(Clone)]
struct Point {
    theta: Vec<f64>,
    log_density: f64,
}

/// From a mode outwards, one parameter held at each place and the others following.
struct Walk<'a> {
    likelihood: &'a dyn LogLikelihood,
    prior: &'a Prior,
    mode: &'a Laplace,
    at: usize,
    sd: f64,
    reach: f64,
}

impl<'a> Walk<'a> {
    fn new(likelihood: &'a dyn LogLikelihood, prior: &'a Prior, mode: &'a Laplace, at: usize) -> Self {
        let sd = mode.posterior.sds().nth(at).unwrap_or(1.0);
        let reach = (REACH * prior.scales()[at] / sd).max(2.0 * CORE).asinh();
        Self { likelihood, prior, mode, at, sd, reach }
    }

    fn go(&self, step: f64) -> Result<Vec<Point>, RowsError> {
        let mut points = vec![self.look(&self.mode.posterior.mean)?];
        for side in [-1.0, 1.0] {
            let mut from = self.mode.posterior.mean.clone();
            for i in 1..=(self.reach / step).ceil() as usize {
                from[self.at] = self.mode.posterior.mean[self.at] + side * self.sd * (step * i as f64).sinh();
                let point = self.look(&from)?;
                if point.log_density.is_finite() {
                    from.clone_from(&point.theta);
                }
                points.push(point);
            }
        }
        Ok(points)
    }

    /// The mode of the others from here. A place without a density, or where they have no mode, has no mass.
    fn look(&self, from: &[f64]) -> Result<Point, RowsError> {
        let held = self.prior.held(self.at, from[self.at], self.sd);
        let none = Point { theta: from.to_vec(), log_density: f64::NEG_INFINITY };
        let fit = match laplace(self.likelihood, &held, Some(from), &PATH) {
            Ok(fit) => fit,
            Err(LaplaceError::Rows(error)) => return Err(error),
            Err(_) => return Ok(none),
        };
        let mut theta = fit.posterior.mean;
        theta[self.at] = from[self.at];
        let value = self.likelihood.evaluate(&At { theta: &theta, derivatives: 0 })?.value
            + self.prior.log_density(&theta);
        let log_density = value - 0.5 * fit.posterior.log_det_precision;
        Ok(if log_density.is_finite() { Point { theta, log_density } } else { none })
    }
}
