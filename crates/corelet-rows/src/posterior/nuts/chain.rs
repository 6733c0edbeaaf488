//! The one file that knows nuts-rs: NUTS on a log density, log π₀(θ) + Σ wᵢℓᵢ(θ) for instance, in the coordinates of a Gaussian fit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nuts_rs::{
    Chain as _, CpuLogpFunc, CpuMath, CpuMathError, DiagNutsSettings, HasDims, LogpError, Settings as _,
};
use rand_distr::{Distribution, StandardNormal};
use thiserror::Error;

use super::{Chain, Chains, LogDensity, SampleCallback, SampleError, SampleProgress, SampleSettings, exact};
use crate::parallel;
use crate::posterior::{Gaussian, Prior};
use crate::random::Stream;
use crate::rows::{At, LogLikelihood, Newton};

/// Draws between two reports to the callback.
const REPORT_EVERY: usize = 20;

/// Standard deviation of the starting points in the coordinates of the fit, where the posterior has about 1.
const START_SPREAD: f64 = 2.0;

/// Draws from the posterior ∝ π₀(θ)·exp(L(θ)) by NUTS, chains in parallel.
///
/// `start` = N(θ̂, LLᵀ) is a Gaussian fit of it, usually the Laplace fit of these very rows: the chains run over z with
/// θ = θ̂ + Lz, where the posterior is nearly N(0, I), and start at z ~ N(0, 4I). A gradient over weighted rows costs
/// what these rows cost, whatever the number of all rows. A chain is a function of (seed, its number) alone.
///
/// Where log-likelihood and log prior are quadratic functions the posterior is a Gaussian, and the draws are independent ones of it.
///
/// Divergences, saturated trajectories and chains that have not mixed are in the result, for
/// [`Diagnostics`](super::Diagnostics) to report; they are no errors.
///
/// # Errors
/// See [`SampleError`].
pub fn sample(
    likelihood: &dyn LogLikelihood,
    prior: &Prior,
    start: &Gaussian,
    settings: &SampleSettings,
    seed: u64,
    callback: &mut SampleCallback<'_>,
) -> Result<Chains, SampleError> {
    settings.check()?;
    let dim = likelihood.dim();
    for (what, got) in [("prior mean", prior.dim()), ("Gaussian fit", start.dim())] {
        if got != dim {
            return Err(SampleError::Length { what, got, expected: dim });
        }
    }
    if let Some(rest) = likelihood.quadratic().filter(|_| prior.is_gaussian())
        && let Ok(posterior) = rest.posterior(prior)
    {
        return Ok(exact::draw(rest, prior, &posterior, settings, seed));
    }
    sample_density(&Posterior { likelihood, prior }, start, settings, seed, callback)
}

/// Coordinates z with θ = m + Cz in which a density is nearly N(0, I).
pub trait Coordinates: Sync {
    /// Number of parameters, D.
    fn dim(&self) -> usize;

    /// Appends θ.
    fn push_theta(&self, z: &[f64], theta: &mut Vec<f64>);

    /// ∇_z = Cᵀ∇_θ.
    fn pull_back(&self, slope: &[f64], gradient: &mut [f64]);
}

/// m + Lz.
impl Coordinates for Gaussian {
    fn dim(&self) -> usize {
        self.mean.len()
    }

    fn push_theta(&self, z: &[f64], theta: &mut Vec<f64>) {
        let dim = z.len();
        for (i, mean) in self.mean.iter().enumerate() {
            let row = &self.factor[i * dim..][..=i];
            theta.push(mean + row.iter().zip(z).map(|(l, z)| l * z).sum::<f64>());
        }
    }

    fn pull_back(&self, slope: &[f64], gradient: &mut [f64]) {
        // L is lower triangular.
        gradient.fill(0.0);
        for (row, slope) in self.factor.chunks_exact(gradient.len().max(1)).zip(slope) {
            gradient.iter_mut().zip(row).for_each(|(g, l)| *g += l * slope);
        }
    }
}

/// Draws from any density by NUTS, chains in parallel, as [`sample`] runs them.
///
/// # Errors
/// See [`SampleError`].
pub fn sample_density(
    density: &dyn LogDensity,
    coordinates: &dyn Coordinates,
    settings: &SampleSettings,
    seed: u64,
    callback: &mut SampleCallback<'_>,
) -> Result<Chains, SampleError> {
    settings.check()?;
    let dim = coordinates.dim();
    let (callback, stopped) = (Mutex::new(callback), AtomicBool::new(false));
    let report = |progress: &SampleProgress| {
        let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
        if callback(progress).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
        !stopped.load(Ordering::Relaxed)
    };
    let run = |chain: usize| {
        let target = Target { density, coordinates, theta: Vec::with_capacity(dim), slope: vec![0.0; dim] };
        run_chain(target, settings, seed, chain, &report)
    };
    let chains: Result<Vec<Chain>, SampleError> = match density.one_by_one() {
        true => (0..settings.chains).map(run).collect(),
        false => parallel::map(0..settings.chains, run).into_iter().collect(),
    };
    Ok(Chains { dim, chains: chains? })
}

fn run_chain(
    mut target: Target<'_>,
    settings: &SampleSettings,
    seed: u64,
    chain: usize,
    report: &(dyn Fn(&SampleProgress) -> bool + Sync),
) -> Result<Chain, SampleError> {
    let mut rng = Stream::Chain.rng(seed, chain as u64);
    let position = target.start(&mut rng).ok_or(SampleError::Start { chain })?;
    let coordinates = target.coordinates;
    let failed = |reason: &dyn std::fmt::Display| SampleError::Chain { chain, reason: reason.to_string() };
    let mut sampler = nuts_settings(settings)
        .new_chain(chain as u64, CpuMath::new(target), &mut rng)
        .map_err(|error| failed(&error))?;
    sampler.set_position(&position).map_err(|error| failed(&error))?;
    let mut result = Chain::default();
    let total = settings.warmup + settings.draws;
    let mut divergences = 0;
    for at in 0..total {
        let (position, _, stats, progress) = sampler.expanded_draw().map_err(|error| failed(&error))?;
        let warming_up = at < settings.warmup;
        let phase = if warming_up { &mut result.warmup } else { &mut result.draws };
        coordinates.push_theta(&position, &mut phase.theta);
        let out = &mut phase.stats;
        out.log_posterior.push(stats.point.logp);
        out.energy.push(stats.point.energy);
        out.acceptance.push(stats.adapt.step_size.mean_tree_accept);
        out.step_size.push(progress.step_size);
        out.depth.push(stats.depth);
        out.steps.push(progress.num_steps);
        out.diverging.push(progress.diverging);
        out.max_depth_reached.push(stats.maxdepth_reached);
        divergences += usize::from(progress.diverging && !warming_up);
        let done = at + 1;
        if (done % REPORT_EVERY == 0 || done == total)
            && !report(&SampleProgress {
                chain,
                chains: settings.chains,
                done,
                total,
                warming_up,
                divergences,
            })
        {
            return Err(SampleError::Stopped);
        }
    }
    Ok(result)
}

fn nuts_settings(settings: &SampleSettings) -> DiagNutsSettings {
    let mut nuts = DiagNutsSettings {
        num_tune: settings.warmup as u64,
        num_draws: settings.draws as u64,
        maxdepth: settings.max_depth as u64,
        ..DiagNutsSettings::default()
    };
    nuts.adapt_options.step_size_settings.target_accept = settings.target_accept;
    nuts
}

/// The log posterior of weighted rows.
struct Posterior<'a> {
    likelihood: &'a dyn LogLikelihood,
    prior: &'a Prior,
}

impl LogDensity for Posterior<'_> {
    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64> {
        let answer = self.likelihood.evaluate(&At { theta, derivatives: 1 });
        let Newton { mut value, gradient: mut slope, .. } = answer.ok()?;
        value += self.prior.gradient_and_log_density(theta, Some(&mut slope));
        gradient.copy_from_slice(&slope);
        Some(value)
    }
}

/// The log density as a function of z.
struct Target<'a> {
    density: &'a dyn LogDensity,
    coordinates: &'a dyn Coordinates,
    theta: Vec<f64>,
    slope: Vec<f64>,
}

impl Target<'_> {
    /// A starting point with a finite log posterior: z ~ N(0, 4I), drawn towards θ̂ until there is one.
    fn start(&mut self, rng: &mut rand_chacha::ChaCha8Rng) -> Option<Vec<f64>> {
        let mut z: Vec<f64> = StandardNormal.sample_iter(&mut *rng).take(self.coordinates.dim()).collect();
        z.iter_mut().for_each(|z| *z *= START_SPREAD);
        let mut gradient = vec![0.0; z.len()];
        for _ in 0..40 {
            if self.logp(&z, &mut gradient).is_ok() {
                return Some(z);
            }
            z.iter_mut().for_each(|z| *z *= 0.5);
        }
        None
    }
}

/// The log posterior or its gradient has no value: NUTS takes it as a divergence.
#[derive(Debug, Error)]
#[error("the log posterior is not finite")]
struct NotFinite;

impl LogpError for NotFinite {
    fn is_recoverable(&self) -> bool {
        true
    }
}

impl HasDims for Target<'_> {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([("unconstrained_parameter".to_owned(), self.coordinates.dim() as u64)])
    }
}

impl CpuLogpFunc for Target<'_> {
    type LogpError = NotFinite;
    type FlowParameters = ();
    type ExpandedVector = Vec<f64>;

    fn dim(&self) -> usize {
        self.coordinates.dim()
    }

    fn logp(&mut self, z: &[f64], gradient: &mut [f64]) -> Result<f64, NotFinite> {
        let Target { density, coordinates, theta, slope } = self;
        theta.clear();
        coordinates.push_theta(z, theta);
        let value = density.log_density(theta, slope).ok_or(NotFinite)?;
        coordinates.pull_back(slope, gradient);
        let finite = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if finite { Ok(value) } else { Err(NotFinite) }
    }

    fn expand_vector<R: nuts_rs::rand::Rng + ?Sized>(
        &mut self,
        _rng: &mut R,
        _z: &[f64],
    ) -> Result<Vec<f64>, CpuMathError> {
        Ok(Vec::new())
    }
}
