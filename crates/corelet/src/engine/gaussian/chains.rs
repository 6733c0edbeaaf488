//! NUTS on a surrogate: the model's own prior, weighted rows where there are some, and a Gaussian factor.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::super::{Interrupted, Sample, Target, TargetError, Wanted};
use super::derivatives::{Argument, Derivatives, Length};
use super::sparse::{Sparse, Whitened};
use crate::posterior::{LogDensity, SampleError, SampleSettings, sample_density};
use crate::rows::Rest;

/// Chains of a round that is not the last, and their warm-up: their coordinates are the posterior's already.
const CHAINS: usize = 2;
const WARMUP: usize = 300;

/// log prior + Σ wᵢℓᵢ + bᵀ(η − c) + ½(η − c)ᵀA(η − c), with η(u) what the likelihood sees of the coordinates.
pub(super) struct Surrogate<'m> {
    model: &'m dyn Derivatives,
    argument: Argument<'m>,
    rows: Option<(&'m [usize], &'m [f64])>,
    rest: &'m Rest,
    curvature: Sparse,
    /// The first error of the model's own code.
    failed: Mutex<Option<TargetError>>,
}

impl<'m> Surrogate<'m> {
    pub(super) fn new(
        model: &'m dyn Derivatives,
        rows: Option<(&'m [usize], &'m [f64])>,
        rest: &'m Rest,
    ) -> Self {
        let curvature = Sparse::of(&rest.curvature, rest.dim());
        Self {
            model,
            argument: Argument::of(model),
            rows: rows.filter(|(rows, _)| !rows.is_empty()),
            rest,
            curvature,
            failed: Mutex::new(None),
        }
    }

    /// Values and gradients at several points.
    pub(super) fn at(&self, points: &[f64]) -> Result<(Vec<f64>, Vec<f64>), TargetError> {
        let prior = self.model.log_prior(points)?;
        let (mut values, mut gradients) = (prior.values, prior.gradients);
        if let Some((rows, weights)) = self.rows {
            let own = self.model.weighted(points, rows, weights)?;
            values.iter_mut().zip(&own.values).for_each(|(sum, x)| *sum += x);
            gradients.iter_mut().zip(&own.gradients).for_each(|(sum, x)| *sum += x);
        }
        let dim = self.rest.dim().max(1);
        let seen = self.argument.at(points)?;
        let mut slopes = vec![0.0; seen.len()];
        let mut curved = vec![0.0; dim];
        for ((value, at), slope) in
            values.iter_mut().zip(seen.chunks_exact(dim)).zip(slopes.chunks_exact_mut(dim))
        {
            let shift: Vec<f64> = at.iter().zip(&self.rest.centre).map(|(x, c)| x - c).collect();
            self.curvature.multiply(&shift, &mut curved);
            for (((slope, b), a), d) in slope.iter_mut().zip(&self.rest.gradient).zip(&curved).zip(&shift) {
                *value += (b + 0.5 * a) * d;
                *slope = b + a;
            }
        }
        let slopes = self.argument.pull_back(points, slopes)?;
        gradients.iter_mut().zip(&slopes).for_each(|(sum, x)| *sum += x);
        Ok((values, gradients))
    }
}

impl LogDensity for Surrogate<'_> {
    fn one_by_one(&self) -> bool {
        self.model.one_by_one()
    }

    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64> {
        match self.at(theta) {
            Ok((values, slopes)) => {
                gradient.copy_from_slice(&slopes);
                values.first().copied()
            }
            Err(error) => {
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                None
            }
        }
    }
}

/// Chains of a surrogate in these coordinates, so long, whose step size is adapted to this acceptance rate.
///
/// # Errors
/// Errors of the model and of NUTS, and the user's wish to stop.
pub(super) fn chains<T: Target + ?Sized>(
    target: &T,
    surrogate: &Surrogate<'_>,
    coordinates: &Whitened,
    (wanted, target_accept): (Wanted, f64),
    seed: u64,
) -> Result<Sample, TargetError> {
    let Length { chains, warmup, draws, .. } = surrogate.model.length();
    let settings = match wanted {
        Wanted::Draws(draws) => {
            let draws = draws.div_ceil(CHAINS).max(100);
            SampleSettings {
                chains: CHAINS,
                warmup: WARMUP,
                draws,
                target_accept,
                ..SampleSettings::default()
            }
        }
        Wanted::Final { .. } => {
            SampleSettings { chains, warmup, draws, target_accept, ..SampleSettings::default() }
        }
    };
    let stopped = Mutex::new(None);
    let failed = || surrogate.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    let found = sample_density(surrogate, coordinates, &settings, seed, &mut |_| {
        let lasting = surrogate.failed.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        match target.poll() {
            Ok(()) if lasting => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(error) => {
                stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed() {
        return Err(error);
    }
    match found {
        Ok(found) => {
            let sample = surrogate.model.constrained(&found.theta(), Some(&found))?;
            Ok(Sample { e_bfmi: Some(found.e_bfmi()), ..sample })
        }
        Err(SampleError::Stopped) => {
            let error = stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
            Err(error.unwrap_or_else(|| Box::new(Interrupted)))
        }
        Err(error) => Err(Box::new(error)),
    }
}
