//! The modes of a posterior: one if that is certain, and otherwise those at which climbs from dispersed starts end.
//!
//! A log-concave likelihood under a log-concave prior has one mode, and nothing is looked for. Elsewhere a sample of the rows is
//! climbed by Newton's method from curves through a few rows, from the rows that the known fit explains worst, from rows without
//! leverage, from the prior and from the known fit; what is new is climbed again on all rows.

use rand::seq::index;

use super::starts::starts;
use super::{
    Chain, Chains, Gaussian, Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, Prior,
    effective_sample_size, laplace,
};
use crate::linalg::quadratic_form;
use crate::parallel;
use crate::random::Stream;
use crate::rows::{All, At, LogLikelihood, Rows, RowsError, Weighted};

/// A mode whose mass is below this many times the best one's is as good as none: a posterior that lacks it is off by as many nats.
pub const NEGLIGIBLE_SHARE: f64 = 4.539_992_976_248_485e-5;

/// Rows that are climbed from every start, and as many a parameter. A mode that matters shows in a sample of them, since the
/// log-likelihood of all rows is n/m times as high there as that of the sample.
const SAMPLE: usize = 4000;
const SAMPLE_EACH: usize = 40;

/// Ends of climbs on the sample that are looked at on all rows.
const MOST_ENDS: usize = 5;

/// A climb on the sample, and one on all rows.
const CLIMB: LaplaceSettings = LaplaceSettings { tolerance: 1e-6, max_iterations: 60 };
const CLIMB_ALL: LaplaceSettings = LaplaceSettings { tolerance: 1e-6, max_iterations: 20 };

/// A climb that ends this near to a mode, in standard deviations, has found it.
const AT_MODE: f64 = 1e-3;

/// Two ends of climbs that are nearer than this, in standard deviations, are one.
const SAME: f64 = 1e-2;

/// Two modes are one where the density between them falls by less than this, in nats: chains pass there freely.
pub const MODE_DIP: f64 = 0.1;

/// Points between two modes at which the density is looked at: evenly, and ever nearer to either, since one may be far narrower than
/// the way to the other is long.
const EVENLY: usize = 11;
const NEARER: i32 = 12;

/// Chains visit modes in proportion where their share of draws in each is worth this many independent ones: known to 0.025.
pub const PROPORTION_DRAWS: f64 = 400.0;

/// A mode of a posterior.
#[derive(Debug, Clone)]
pub struct Mode {
    /// The Laplace fit there.
    pub fit: Laplace,
    /// log of ∫ of the density by that fit: log p(θ̂) + ½D log 2π − ½ log det(−∇²log p).
    pub log_mass: f64,
}

impl Mode {
    fn new(fit: Laplace) -> Self {
        let dim = fit.posterior.dim() as f64;
        let log_mass = fit.log_posterior
            + 0.5 * (dim * (2.0 * std::f64::consts::PI).ln() - fit.posterior.log_det_precision);
        Self { fit, log_mass }
    }

    /// Location of the mode.
    pub fn theta(&self) -> &[f64] {
        &self.fit.posterior.mean
    }
}

/// The modes that were found, the one with the most mass first.
#[derive(Debug, Clone)]
pub struct Modes {
    modes: Vec<Mode>,
}

impl Modes {
    /// Of at least one, of which the first is the best where another is better by rounding alone.
    fn of(mut modes: Vec<Mode>) -> Option<Self> {
        const ROUNDING: f64 = 1e-6;
        let first = modes.first()?.log_mass;
        let mass = |mode: &Mode| if (mode.log_mass - first).abs() < ROUNDING { first } else { mode.log_mass };
        modes.sort_by(|a, b| mass(b).total_cmp(&mass(a)));
        Some(Self { modes })
    }

    /// Best first.
    pub fn all(&self) -> &[Mode] {
        &self.modes
    }

    /// The one with the most mass.
    pub fn best(&self) -> &Mode {
        &self.modes[0]
    }

    /// Whether a Gaussian fit is that of the best one.
    pub fn is_best(&self, fit: &Gaussian) -> bool {
        distance(&self.best().fit.posterior, fit) < SAME
    }

    /// The mass of a mode over that of the best.
    pub fn share(&self, mode: &Mode) -> f64 {
        (mode.log_mass - self.best().log_mass).exp()
    }

    /// Those with at least this share of the best one's mass, which is among them.
    pub fn with_share(&self, least: f64) -> Modes {
        Self { modes: self.modes.iter().filter(|mode| self.share(mode) >= least).cloned().collect() }
    }

    /// The mode that a draw belongs to: the one whose Gaussian is densest there.
    fn home(&self, theta: &[f64]) -> usize {
        let density = |mode: &Mode| mode.fit.posterior.log_density(theta);
        let mut best = (0, f64::NEG_INFINITY);
        for (at, mode) in self.modes.iter().enumerate() {
            let here = density(mode);
            if here > best.1 {
                best = (at, here);
            }
        }
        best.0
    }

    /// Whether the chains pass between these modes so often that the share of draws in each is that of its mass.
    pub fn are_mixed_by(&self, chains: &Chains) -> bool {
        let homes = self.homes(chains);
        let is_known = |at: usize| {
            let inside =
                |chain: &Vec<usize>| chain.iter().map(|&home| f64::from(u8::from(home == at))).collect();
            let inside: Vec<Vec<f64>> = homes.iter().map(inside).collect();
            let visited = inside.concat().contains(&1.0);
            visited && effective_sample_size(&inside) >= PROPORTION_DRAWS
        };
        self.modes.len() < 2 || (0..self.modes.len()).all(is_known)
    }

    /// Whether most draws of every chain belong to modes with at least this share of the best one's mass.
    pub fn hold(&self, chains: &Chains, least: f64) -> bool {
        let matters: Vec<bool> = self.modes.iter().map(|mode| self.share(mode) >= least).collect();
        let held =
            |homes: &Vec<usize>| 2 * homes.iter().filter(|&&home| matters[home]).count() >= homes.len();
        self.homes(chains).iter().all(held)
    }

    fn homes(&self, chains: &Chains) -> Vec<Vec<usize>> {
        let dim = chains.dim.max(1);
        let of = |chain: &Chain| chain.draws.theta.chunks_exact(dim).map(|theta| self.home(theta)).collect();
        chains.chains.iter().map(of).collect()
    }

    /// Whether one of these modes is where this one is: within some standard deviations of either.
    pub fn contain(&self, mode: &Mode) -> bool {
        let reach = 3.0 + (mode.theta().len() as f64).sqrt();
        self.modes.iter().any(|known| distance(&known.fit.posterior, &mode.fit.posterior) < reach)
    }
}

/// Whether the posterior certainly has one mode: a concave log-likelihood under a log-concave prior.
///
/// # Errors
/// If the rows did not answer.
pub fn has_one_mode(rows: &dyn Rows, prior: &Prior) -> Result<bool, RowsError> {
    Ok(prior.is_log_concave() && rows.is_log_concave()?)
}

/// The modes of the posterior of all rows, of which `fit` is one and keeps its bits; without it, whatever climbs from elsewhere end at,
/// if they do. Deterministic for a seed, whatever the number of threads.
///
/// # Errors
/// If the rows did not answer.
pub fn modes(
    rows: &dyn Rows,
    prior: &Prior,
    fit: Option<&Laplace>,
    seed: u64,
) -> Result<Option<Modes>, LaplaceError> {
    let mut found: Vec<Mode> = fit.cloned().map(Mode::new).into_iter().collect();
    if has_one_mode(rows, prior)? {
        return Ok(Modes::of(found));
    }
    let count = SAMPLE.max(SAMPLE_EACH * rows.dim()).min(rows.len());
    let mut ids = index::sample(&mut Stream::Modes.rng(seed, 0), rows.len(), count).into_vec();
    ids.sort_unstable();
    let each = rows.len() as f64 / count as f64;
    let sample = Weighted::fetch(rows, &ids, &vec![each; count])?;
    let (all, is_all) = (All(rows), count == rows.len());
    let likelihood: &dyn LogLikelihood = if is_all { &sample } else { &all };
    let known: Vec<&[f64]> = fit.iter().map(|fit| &*fit.posterior.mean).collect();
    let mut others = ends(&sample, prior, &known, seed)?;
    for place in known {
        // Where the sample has the mode that is known.
        if let Some(own) = climb(&sample, prior, place, &CLIMB)? {
            others.retain(|end| distance(&own.posterior, &end.fit.posterior) >= SAME);
        }
    }
    for end in others.into_iter().take(MOST_ENDS) {
        let end = match is_all {
            true => Some(end.fit),
            false if is_promising(rows, prior, &end.fit, &found, each)? => {
                climb(likelihood, prior, end.theta(), &CLIMB_ALL)?
            }
            false => None,
        };
        let Some(end) = end else { continue };
        add(likelihood, prior, &mut found, Mode::new(end))?;
    }
    Ok(Modes::of(found))
}

/// The modes of the posterior of weighted rows, looked for from `known` places too; none if no climb ends at one.
///
/// # Errors
/// If the rows did not answer.
pub fn modes_of_weighted(
    rows: &Weighted,
    prior: &Prior,
    known: &[&[f64]],
    seed: u64,
) -> Result<Option<Modes>, LaplaceError> {
    Ok(Modes::of(ends(rows, prior, known, seed)?))
}

/// Where climbs on the sample end, each once, those with the most mass first.
fn ends(sample: &Weighted, prior: &Prior, known: &[&[f64]], seed: u64) -> Result<Vec<Mode>, LaplaceError> {
    let starts = starts(sample, prior, known, seed);
    let ends = parallel::map(starts, |start| climb(sample, prior, &start, &CLIMB));
    let ends: Vec<Option<Laplace>> = ends.into_iter().collect::<Result<_, _>>()?;
    let mut ends: Vec<Mode> = ends.into_iter().flatten().map(Mode::new).collect();
    ends.sort_by(|a, b| b.log_mass.total_cmp(&a.log_mass));
    let mut distinct: Vec<Mode> = Vec::new();
    for end in ends {
        add(sample, prior, &mut distinct, end)?;
    }
    Ok(distinct)
}

/// Adds a mode that is not there yet. Of two with no dip between them the one with more mass stays.
fn add(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    found: &mut Vec<Mode>,
    mode: Mode,
) -> Result<(), RowsError> {
    for known in found.iter_mut() {
        if distance(&known.fit.posterior, &mode.fit.posterior) < SAME {
            return Ok(());
        }
        if !are_apart(likelihood, prior, &known.fit, &mode.fit)? {
            if mode.log_mass > known.log_mass {
                *known = mode;
            }
            return Ok(());
        }
    }
    found.push(mode);
    Ok(())
}

/// The mode that a climb from `start` ends at, if it does.
fn climb(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    start: &[f64],
    settings: &LaplaceSettings,
) -> Result<Option<Laplace>, LaplaceError> {
    match laplace(likelihood, prior, Some(start), settings) {
        Ok(fit) if fit.status == LaplaceStatus::Converged || fit.gradient_norm < AT_MODE => Ok(Some(fit)),
        Err(error @ LaplaceError::Rows(_)) => Err(error),
        // A place without a finite density, or a plateau: no mode.
        _ => Ok(None),
    }
}

/// Whether a mode of the sample may have a mass on all rows that counts. The mode of all rows is √(n/m) standard deviations away
/// from it in every direction, or so, and the density as much higher there.
fn is_promising(
    rows: &dyn Rows,
    prior: &Prior,
    end: &Laplace,
    found: &[Mode],
    each: f64,
) -> Result<bool, RowsError> {
    let theta = &end.posterior.mean;
    let value = rows.newton(&At { theta, derivatives: 0 })?.value + prior.log_density(theta);
    let here = Mode::new(Laplace { log_posterior: value, ..end.clone() });
    let dim = theta.len() as f64;
    let gain = each * (dim + 4.0 * (2.0 * dim).sqrt() + 8.0);
    let best = found.iter().map(|mode| mode.log_mass).fold(f64::NEG_INFINITY, f64::max);
    Ok(here.log_mass + gain > best + NEGLIGIBLE_SHARE.ln())
}

/// Whether the density falls between the two.
fn are_apart(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    one: &Laplace,
    other: &Laplace,
) -> Result<bool, RowsError> {
    let at = |t: f64| -> Result<f64, RowsError> {
        let ends = one.posterior.mean.iter().zip(&other.posterior.mean);
        let theta: Vec<f64> = ends.map(|(a, b)| (1.0 - t) * a + t * b).collect();
        let value = likelihood.evaluate(&At { theta: &theta, derivatives: 0 })?.value;
        Ok(value + prior.log_density(&theta))
    };
    let floor = at(0.0)?.min(at(1.0)?) - MODE_DIP;
    // From the middle outwards: one look is mostly enough.
    let side = |step: usize| if step.is_multiple_of(2) { 0.5 } else { -0.5 };
    let evenly = (0..EVENLY).map(|step| 0.5 + side(step) * step.div_ceil(2) as f64 / (EVENLY / 2 + 1) as f64);
    let nearer = (2..=NEARER).flat_map(|halvings| [0.5f64.powi(halvings), 1.0 - 0.5f64.powi(halvings)]);
    for t in evenly.chain(nearer) {
        // A density that is no number is no bridge.
        let here = at(t)?;
        if here < floor || here.is_nan() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How far apart they are, in standard deviations of the one that is wider there.
fn distance(one: &Gaussian, other: &Gaussian) -> f64 {
    let shift: Vec<f64> = one.mean.iter().zip(&other.mean).map(|(a, b)| a - b).collect();
    let by = |gaussian: &Gaussian| quadratic_form(&gaussian.precision, &shift).max(0.0).sqrt();
    by(one).min(by(other))
}
