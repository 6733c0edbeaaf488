//! A model of a user as the engine sees it: rows with slopes, a prior, and NUTS whose chains begin where the user lets them, or a sampler of
//! its own.
#![allow(dead_code, reason = "no test file needs all of it")]

use std::ops::ControlFlow;

use corelet::engine::{Derivatives, Effects, Length, Rows, Sample, Slopes, Target, TargetError, Wanted};
use corelet::posterior::{Chains, Coordinates, LogDensity, SampleSettings, sample_density};
use corelet::trust::{Draws, Scores};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A log-likelihood by rows and a prior, on ℝᵖ.
pub(crate) trait Model: Sync + Send {
    fn rows(&self) -> usize;

    fn dim(&self) -> usize;

    /// ℓᵢ(θ), with its gradient times `weight` added to `slope`.
    fn row(&self, row: usize, theta: &[f64], weight: f64, slope: &mut [f64]) -> f64;

    /// log prior, with its gradient added to `slope`.
    fn prior(&self, theta: &[f64], slope: &mut [f64]) -> f64;

    /// Standard deviations of the points from which chains and searches begin, about 0.
    fn spread(&self) -> f64 {
        1.0
    }

    /// Points to climb from, where they are not such.
    fn starts(&self, _count: usize) -> Option<Vec<f64>> {
        None
    }

    /// Draws by a sampler of its own; none where NUTS is to be it.
    fn sample(&self, _rows: &[usize], _weights: &[f64]) -> Option<Sample> {
        None
    }

    /// What the log-likelihood sees of the coordinates, where that is said.
    fn effects(&self) -> Option<&dyn Effects> {
        None
    }

    /// Steps of the final chains of that sampler, where it may be asked to sample all rows.
    fn final_steps(&self) -> usize {
        0
    }

    /// Before all rows are sampled, which takes so many seconds.
    fn before_all_rows(&self, _seconds: f64) -> Result<(), TargetError> {
        Ok(())
    }

    /// Of the chains that run on the Gaussian.
    fn length(&self) -> Length {
        Length { chains: 4, warmup: 500, draws: 1000, target_accept: 0.8 }
    }
}

/// log N(θ; 0, sd²) but for a constant, with its gradient added to `slope`.
pub(crate) fn normal_prior(theta: &[f64], sd: f64, slope: &mut [f64]) -> f64 {
    slope.iter_mut().zip(theta).for_each(|(sum, x)| *sum -= x / (sd * sd));
    theta.iter().map(|x| -0.5 * (x / sd).powi(2)).sum()
}

/// Where the chains of the user's sampler begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Each at a point of its own, later at a draw of the last round.
    Apart,
    /// All at one point, whatever the last round says.
    OnePlace,
}

/// What the user gives besides a sampler and the log-likelihood of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Nothing,
    /// The gradient of the weighted log posterior at draws.
    Gradient,
    /// Likelihood and prior with their gradients anywhere, as PyMC and NumPyro do.
    Density,
}

pub(crate) struct AnyModel<'m> {
    pub(crate) model: &'m dyn Model,
    pub(crate) begin: Begin,
    pub(crate) gives: Gives,
    pub(crate) seed: u64,
}

/// The log posterior of weighted rows.
struct Posterior<'a>(&'a dyn Model, &'a [usize], &'a [f64]);

impl LogDensity for Posterior<'_> {
    fn log_density(&self, theta: &[f64], gradient: &mut [f64]) -> Option<f64> {
        let Self(model, rows, weights) = *self;
        gradient.fill(0.0);
        let prior = model.prior(theta, gradient);
        let of = |(&row, &weight): (&usize, &f64)| weight * model.row(row, theta, weight, gradient);
        let value: f64 = prior + rows.iter().zip(weights).map(of).sum::<f64>();
        value.is_finite().then_some(value)
    }
}

/// Coordinates about a point, all of one scale.
struct About(Vec<f64>, f64);

impl Coordinates for About {
    fn dim(&self) -> usize {
        self.0.len()
    }

    fn push_theta(&self, z: &[f64], theta: &mut Vec<f64>) {
        theta.extend(z.iter().zip(&self.0).map(|(z, at)| at + self.1 * z));
    }

    fn pull_back(&self, slope: &[f64], gradient: &mut [f64]) {
        gradient.iter_mut().zip(slope).for_each(|(gradient, slope)| *gradient = self.1 * slope);
    }
}

impl AnyModel<'_> {
    fn begin(&self, count: usize) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ 0x5eed);
        let draws = StandardNormal.sample_iter(&mut rng).take(count * self.model.dim());
        draws.map(|x: f64| self.model.spread() * x).collect()
    }

    fn sum(&self, at: &[f64], rows: &mut dyn Iterator<Item = (usize, f64)>) -> (f64, Vec<f64>) {
        let mut gradient = vec![0.0; self.model.dim()];
        let value = rows.map(|(row, weight)| weight * self.model.row(row, at, weight, &mut gradient)).sum();
        (value, gradient)
    }

    fn slopes(&self, at: &[f64], of: impl Fn(&[f64]) -> (f64, Vec<f64>)) -> Slopes {
        let (values, gradients): (Vec<f64>, Vec<Vec<f64>>) =
            at.chunks_exact(self.model.dim()).map(of).unzip();
        Slopes { values, gradients: gradients.concat() }
    }
}

impl Target for AnyModel<'_> {
    type Place = Vec<f64>;

    fn rows(&self) -> usize {
        self.model.rows()
    }

    fn parameters(&self) -> usize {
        self.model.dim()
    }

    fn final_steps(&self) -> usize {
        self.model.final_steps()
    }

    fn before_all_rows(&self, seconds: f64) -> Result<(), TargetError> {
        self.model.before_all_rows(seconds)
    }

    fn sample(
        &self,
        rows: &[usize],
        weights: &[f64],
        start: Option<&Sample>,
        wanted: Wanted,
    ) -> Result<Sample, TargetError> {
        if let Some(own) = self.model.sample(rows, weights) {
            return Ok(own);
        }
        let dim = self.model.dim();
        let draws = match wanted {
            Wanted::Draws(draws) => draws,
            Wanted::Final { draws } => draws.max(4000),
        };
        let settings =
            SampleSettings { chains: 1, warmup: 300, draws: draws.div_ceil(4), ..SampleSettings::default() };
        let own = self.begin(4);
        let mut theta = Vec::new();
        let mut diverged = 0;
        for chain in 0..4 {
            let from = match (self.begin, start) {
                (Begin::OnePlace, _) => own[..dim].to_vec(),
                (Begin::Apart, Some(start)) => start.draws.row(chain * start.len() / 4).to_vec(),
                (Begin::Apart, None) => own[chain * dim..][..dim].to_vec(),
            };
            let seed = self.seed * 64 + rows.len() as u64 * 4096 + chain as u64;
            let coordinates = About(from, 0.1);
            let found = sample_density(
                &Posterior(self.model, rows, weights),
                &coordinates,
                &settings,
                seed,
                &mut |_| ControlFlow::Continue(()),
            )?;
            diverged += found.divergences();
            theta.extend(found.theta());
        }
        Ok(Sample::new(theta, dim, 4, true, diverged))
    }

    fn place(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
        Ok(sample.draws.theta.clone())
    }

    fn log_likelihoods(
        &self,
        place: &Vec<f64>,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError> {
        let ids: Vec<usize> = match rows {
            Rows::Range(range) => range.clone().collect(),
            Rows::Some(ids) => ids.clone(),
        };
        let mut slope = vec![0.0; self.model.dim()];
        let mut values = Vec::with_capacity(place.len() / self.model.dim() * ids.len());
        for theta in place.chunks_exact(self.model.dim()) {
            values.extend(ids.iter().map(|&row| self.model.row(row, theta, 0.0, &mut slope)));
        }
        see(&values);
        Ok(())
    }

    fn scores(
        &self,
        rows: &[usize],
        weights: &[f64],
        sample: &Sample,
        most: usize,
    ) -> Result<Option<Scores>, TargetError> {
        if self.gives == Gives::Nothing {
            return Ok(None);
        }
        let draws: Draws = sample.thinned(most).draws;
        let density = Posterior(self.model, rows, weights);
        let mut gradient = vec![0.0; draws.theta.len()];
        for (theta, line) in draws.theta.chunks_exact(draws.dim).zip(gradient.chunks_exact_mut(draws.dim)) {
            density.log_density(theta, line);
        }
        Ok(Some(Scores { draws, gradient }))
    }

    fn derivatives(&self) -> Option<&dyn Derivatives> {
        if self.gives == Gives::Density { Some(self) } else { None }
    }
}

impl Derivatives for AnyModel<'_> {
    fn dimension(&self) -> usize {
        self.model.dim()
    }

    fn names(&self) -> Result<Vec<String>, TargetError> {
        Ok((0..self.model.dim()).map(|i| format!("theta[{i}]")).collect())
    }

    fn starts(&self, count: usize) -> Result<Vec<f64>, TargetError> {
        if let Some(own) = self.model.starts(count) {
            return Ok(own);
        }
        Ok(match self.begin {
            Begin::Apart => self.begin(count),
            Begin::OnePlace => self.begin(1).repeat(count),
        })
    }

    fn unconstrained(&self, sample: &Sample) -> Result<Vec<f64>, TargetError> {
        Ok(sample.draws.theta.clone())
    }

    fn log_likelihood(&self, at: &[f64], rows: Option<&[usize]>) -> Result<Slopes, TargetError> {
        Ok(self.slopes(at, |theta| match rows {
            Some(rows) => self.sum(theta, &mut rows.iter().map(|&row| (row, 1.0))),
            None => self.sum(theta, &mut (0..self.model.rows()).map(|row| (row, 1.0))),
        }))
    }

    fn weighted(&self, at: &[f64], rows: &[usize], weights: &[f64]) -> Result<Slopes, TargetError> {
        Ok(self.slopes(at, |theta| self.sum(theta, &mut rows.iter().copied().zip(weights.iter().copied()))))
    }

    fn log_prior(&self, at: &[f64]) -> Result<Slopes, TargetError> {
        Ok(self.slopes(at, |theta| {
            let mut gradient = vec![0.0; theta.len()];
            (self.model.prior(theta, &mut gradient), gradient)
        }))
    }

    fn constrained(&self, points: &[f64], chains: Option<&Chains>) -> Result<Sample, TargetError> {
        let count = chains.map_or(1, |chains| chains.chains.len());
        Ok(Sample::new(points.to_vec(), self.model.dim(), count, true, chains.map_or(0, Chains::divergences)))
    }

    fn effects(&self) -> Option<&dyn Effects> {
        self.model.effects()
    }

    fn length(&self) -> Length {
        self.model.length()
    }
}
