//! The prior of the parameters.

use super::{Density, LaplaceError, LaplaceSettings, laplace};
use crate::linalg::{Cholesky, dot, multiply, row_major};
use crate::rows::{LogLikelihood, RowsError};

/// The prior of θ: the Gaussian N(μ₀, Σ₀), times a density of its own for each parameter that is not normal.
#[derive(Debug, Clone)]
pub struct Prior {
    /// μ₀, and the centre of each density that is not normal.
    pub mean: Vec<f64>,
    /// Σ₀⁻¹, row-major; 0 in the lines of the parameters that are not normal.
    pub precision: Vec<f64>,
    /// log det of it, over the others.
    log_det_precision: f64,
    /// Whether the precision has nothing beside its diagonal, so that a density costs D and not D².
    is_diagonal: bool,
    others: Vec<Other>,
    /// Where fits start that are told no place, instead of μ₀.
    start: Option<Vec<f64>>,
}

/// A parameter that is not normal.
#[derive(Debug, Clone, Copy)]
struct Other {
    at: usize,
    density: Density,
    /// The standard deviation that a Gaussian fit has there, see [`Density::seen`].
    spread: f64,
}

impl Prior {
    /// N(μ₀, P₀⁻¹) from μ₀ and P₀, row-major and symmetric.
    pub fn new(mean: Vec<f64>, precision: Vec<f64>) -> Result<Prior, LaplaceError> {
        let dim = mean.len();
        if precision.len() != dim * dim {
            let what = "prior precision";
            return Err(LaplaceError::Length { what, got: precision.len(), expected: dim * dim });
        }
        let log_det_precision = Cholesky::new(&precision, dim)?.log_determinant();
        let is_diagonal = precision.iter().enumerate().all(|(at, p)| at / dim == at % dim || *p == 0.0);
        Ok(Prior { mean, precision, log_det_precision, is_diagonal, others: Vec::new(), start: None })
    }

    /// Independent N(mⱼ, sⱼ²), one a parameter.
    ///
    /// # Errors
    /// If a standard deviation is not positive and finite, or the two are not of one length.
    pub fn independent(mean: Vec<f64>, sd: &[f64]) -> Result<Prior, LaplaceError> {
        let dim = mean.len();
        if sd.len() != dim {
            let what = "prior standard deviations";
            return Err(LaplaceError::Length { what, got: sd.len(), expected: dim });
        }
        let bad = |&&sd: &&f64| !(sd > 0.0 && sd.powi(-2) > 0.0 && sd.powi(-2).is_finite());
        if let Some(&sd) = sd.iter().find(bad) {
            return Err(LaplaceError::PriorScale(sd));
        }
        Prior::new(mean, row_major(dim, |i, j| if i == j { sd[i].powi(-2) } else { 0.0 }))
    }

    /// N(0, sd²·I).
    pub fn isotropic(dim: usize, sd: f64) -> Result<Prior, LaplaceError> {
        Prior::independent(vec![0.0; dim], &vec![sd; dim])
    }

    /// Independent densities, one a parameter. Until [`with_spreads`](Prior::with_spreads) says better, a Gaussian fit sees them as
    /// if its spread were theirs.
    ///
    /// # Errors
    /// If a number makes no density.
    pub fn of_densities(densities: &[Density]) -> Result<Prior, LaplaceError> {
        for density in densities {
            density.check().map_err(|reason| LaplaceError::Density { density: *density, reason })?;
        }
        let normal = |density: &Density| matches!(density, Density::Normal { .. });
        // A precision of 1 leaves the determinant to the others.
        let sd = |density: &Density| if normal(density) { density.scale() } else { 1.0 };
        let sds: Vec<f64> = densities.iter().map(sd).collect();
        let mut prior = Prior::independent(densities.iter().map(Density::mean).collect(), &sds)?;
        for (at, &density) in densities.iter().enumerate().filter(|(_, density)| !normal(density)) {
            prior.precision[at * densities.len() + at] = 0.0;
            prior.others.push(Other { at, density, spread: density.scale() });
        }
        Ok(prior)
    }

    /// The same, seen by a Gaussian fit with these standard deviations, one a parameter.
    #[must_use]
    pub fn with_spreads(mut self, spreads: &[f64]) -> Self {
        for other in &mut self.others {
            if let Some(&spread) = spreads.get(other.at).filter(|spread| spread.is_finite() && **spread > 0.0)
            {
                other.spread = spread;
            }
        }
        self
    }

    /// The same, under which every fit that is told no place starts here: at the mode of all rows that has the most mass, where they
    /// have several, so that fits of some rows are of the same one.
    #[must_use]
    pub fn starting_at(mut self, theta: Vec<f64>) -> Self {
        self.start = Some(theta);
        self
    }

    /// Where fits start that are told no place, where that is not the mean.
    pub(super) fn start(&self) -> Option<&[f64]> {
        self.start.as_deref()
    }

    /// Whether it is log-concave: normal and Laplace densities are, Student-t ones are not.
    pub fn is_log_concave(&self) -> bool {
        self.heavy_tailed().is_empty()
    }

    /// The parameters whose density is not log-concave.
    pub(super) fn heavy_tailed(&self) -> Vec<usize> {
        let heavy = |other: &&Other| matches!(other.density, Density::StudentT { .. });
        self.others.iter().filter(heavy).map(|other| other.at).collect()
    }

    /// The width of each parameter's density, others being known.
    pub(super) fn scales(&self) -> Vec<f64> {
        let dim = self.dim();
        let mut scales: Vec<f64> = (0..dim).map(|j| self.precision[j * dim + j].powf(-0.5)).collect();
        self.others.iter().for_each(|other| scales[other.at] = other.density.scale());
        scales
    }

    /// The same with a normal density, many times as wide, in place of each that is not log-concave.
    pub(super) fn loosened(&self) -> Self {
        const WIDER: f64 = 100.0;
        let (mut loose, dim) = (self.clone(), self.dim());
        loose.others.retain(|other| {
            let heavy = matches!(other.density, Density::StudentT { .. });
            if heavy {
                loose.precision[other.at * dim + other.at] = (WIDER * other.density.scale()).powi(-2);
            }
            !heavy
        });
        loose
    }

    /// The same with the first parameters held where they are given, whatever the rows say.
    pub(super) fn held_at(&self, values: &[f64]) -> Self {
        const HELD: f64 = 1e12;
        let (mut held, dim) = (self.clone(), self.dim());
        for (j, &value) in values.iter().enumerate() {
            held.mean[j] = value;
            held.precision[j * dim + j] += HELD;
        }
        held
    }

    /// Whether the density of a parameter does not depend on others.
    pub(super) fn stands_alone(&self, at: usize) -> bool {
        let dim = self.dim();
        self.is_diagonal || (0..dim).all(|j| j == at || self.precision[at * dim + j] == 0.0)
    }

    /// The same with one parameter, which stands alone, of this standard deviation, held at a value: its precision is then the same wherever it is held.
    pub(super) fn held(&self, at: usize, value: f64, sd: f64) -> Self {
        let (mut held, dim) = (self.clone(), self.dim());
        held.others.retain(|other| other.at != at);
        held.mean[at] = value;
        held.precision[at * dim + at] = 1e12 * sd.min(self.scales()[at]).powi(-2).max(1.0);
        held
    }

    /// Whether it is a Gaussian.
    pub fn is_gaussian(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether a Gaussian fit cannot take it as it is: a density has a kink.
    pub fn has_kinks(&self) -> bool {
        self.others.iter().any(|other| matches!(other.density, Density::Laplace { .. }))
    }

    /// The same with a normal density of the same variance in place of each that has a kink.
    fn without_kinks(&self) -> Self {
        let (mut smooth, dim) = (self.clone(), self.dim());
        smooth.others.retain(|other| {
            let Density::Laplace { scale, .. } = other.density else { return true };
            let precision = 0.5 * scale.powi(-2);
            smooth.precision[other.at * dim + other.at] = precision;
            smooth.log_det_precision += precision.ln();
            false
        });
        smooth
    }

    /// The standard deviations of a Gaussian fit, for [`with_spreads`](Prior::with_spreads): those that normal densities of the same
    /// variance lead to, by a [rough picture](LogLikelihood::rough) of the likelihood where there is one. None if the prior has
    /// no kink, or there is no such fit.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn spreads(&self, likelihood: &dyn LogLikelihood) -> Result<Vec<f64>, RowsError> {
        if !self.has_kinks() {
            return Ok(Vec::new());
        }
        let (smooth, settings, rough) =
            (self.without_kinks(), LaplaceSettings::default(), likelihood.rough()?);
        let fit = match &rough {
            Some(rough) => rough.fit(&smooth),
            None => laplace(likelihood, &smooth, None, &settings),
        };
        Ok(fit.map_or_else(|_| Vec::new(), |fit| fit.posterior.sds().collect()))
    }

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// log π₀(θ), its constant included.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        self.gradient_and_log_density(theta, None)
    }

    /// Adds ∇log π₀(θ) to `gradient` where given, and returns log π₀(θ).
    pub fn gradient_and_log_density(&self, theta: &[f64], mut gradient: Option<&mut [f64]>) -> f64 {
        let mut value = self.gaussian_part(theta, gradient.as_deref_mut());
        for Other { at, density, .. } in &self.others {
            let jet = density.at(theta[*at]);
            value += jet.value;
            if let Some(gradient) = gradient.as_deref_mut() {
                gradient[*at] += jet.slope;
            }
        }
        value
    }

    /// As a Gaussian fit sees it, see [`Density::seen`]: adds the slope to `gradient`, makes of the Hessian H of a log-likelihood the
    /// matrix −∇²log π₀(θ) − H, and returns the value.
    pub(super) fn complete(&self, theta: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let mut value = self.gaussian_part(theta, Some(&mut *gradient));
        hessian.iter_mut().zip(&self.precision).for_each(|(h, p)| *h = p - *h);
        for Other { at, density, spread } in &self.others {
            let jet = density.seen(theta[*at], *spread);
            value += jet.value;
            gradient[*at] += jet.slope;
            hessian[at * self.dim() + at] += jet.curvature;
        }
        value
    }

    fn gaussian_part(&self, theta: &[f64], gradient: Option<&mut [f64]>) -> f64 {
        let shift: Vec<f64> = theta.iter().zip(&self.mean).map(|(t, m)| t - m).collect();
        let mut scaled = vec![0.0; shift.len()];
        if self.is_diagonal {
            let diagonal = self.precision.iter().step_by(self.dim() + 1);
            scaled.iter_mut().zip(diagonal.zip(&shift)).for_each(|(scaled, (p, x))| *scaled = p * x);
        } else {
            multiply(&self.precision, &shift, &mut scaled);
        }
        if let Some(gradient) = gradient {
            gradient.iter_mut().zip(&scaled).for_each(|(g, s)| *g -= s);
        }
        let normal = (self.dim() - self.others.len()) as f64;
        let normaliser = self.log_det_precision - normal * (2.0 * std::f64::consts::PI).ln();
        0.5 * (normaliser - dot(&shift, &scaled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal and other parameters side by side: the log density is the sum of theirs, and what a fit sees has the derivatives it says.
    #[test]
    fn densities_stand_side_by_side() {
        let densities: Vec<Density> =
            ["normal(1, 2)", "laplace(0, 0.5)", "student_t(3, 0, 2)", "normal(0, 0.1)"]
                .map(|text| text.parse().unwrap())
                .into();
        let prior = Prior::of_densities(&densities).unwrap().with_spreads(&[9.0, 0.3, 9.0, 9.0]);
        assert!(!prior.is_gaussian() && prior.has_kinks());
        let theta = [0.3, -0.2, 5.0, 0.05];
        let sum: f64 = densities.iter().zip(&theta).map(|(density, &x)| density.at(x).value).sum();
        let mut gradient = vec![0.0; 4];
        assert!((prior.gradient_and_log_density(&theta, Some(&mut gradient)) - sum).abs() < 1e-13);
        for (j, density) in densities.iter().enumerate() {
            assert!((gradient[j] - density.at(theta[j]).slope).abs() < 1e-13);
        }
        let (mut slopes, mut hessian) = (vec![0.0; 4], vec![0.0; 16]);
        let value = prior.complete(&theta, &mut slopes, &mut hessian);
        for (j, (density, spread)) in densities.iter().zip([9.0, 0.3, 9.0, 9.0]).enumerate() {
            let jet = density.seen(theta[j], spread);
            assert!((slopes[j] - jet.slope).abs() < 1e-13 && (hessian[j * 5] - jet.curvature).abs() < 1e-12);
        }
        assert!((value - sum).abs() > 1e-3, "the kink is smoothed");
        let gaussian = Prior::of_densities(&densities[..1]).unwrap();
        assert_eq!(
            gaussian.log_density(&theta[..1]),
            Prior::independent(vec![1.0], &[2.0]).unwrap().log_density(&theta[..1])
        );
        let bad = Density::Laplace { mean: 0.0, scale: -1.0 };
        let refused = Prior::of_densities(&[bad]).unwrap_err().to_string();
        assert_eq!(refused, "the prior laplace(0, -1): its scale is -1, but it must be positive and finite");
    }
}
