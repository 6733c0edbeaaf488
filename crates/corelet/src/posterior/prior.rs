//! The prior of the parameters.

use super::LaplaceError;
use crate::linalg::{Cholesky, dot, multiply, row_major};

/// The Gaussian prior N(μ₀, Σ₀) of θ.
#[derive(Debug, Clone)]
pub struct Prior {
    /// μ₀.
    pub mean: Vec<f64>,
    /// Σ₀⁻¹, row-major.
    pub precision: Vec<f64>,
    /// log det of it.
    log_det_precision: f64,
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
        Ok(Prior { mean, precision, log_det_precision })
    }

    /// Independent N(mⱼ, sⱼ²), one a parameter.
    ///
    /// # Errors
    /// Where a standard deviation is not positive and finite, or the two are not of one length.
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

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// log π₀(θ), its constant included.
    pub fn log_density(&self, theta: &[f64]) -> f64 {
        self.gradient_and_log_density(theta, None)
    }

    /// Adds ∇log π₀(θ) to `gradient` where given, and returns log π₀(θ).
    pub fn gradient_and_log_density(&self, theta: &[f64], gradient: Option<&mut [f64]>) -> f64 {
        let shift: Vec<f64> = theta.iter().zip(&self.mean).map(|(t, m)| t - m).collect();
        let mut scaled = vec![0.0; shift.len()];
        multiply(&self.precision, &shift, &mut scaled);
        if let Some(gradient) = gradient {
            gradient.iter_mut().zip(&scaled).for_each(|(g, s)| *g -= s);
        }
        let normaliser = self.log_det_precision - self.dim() as f64 * (2.0 * std::f64::consts::PI).ln();
        0.5 * (normaliser - dot(&shift, &scaled))
    }
}
