//! A design, its model and the Laplace fit of its posterior: what every build starts from.

use thiserror::Error;

use crate::coreset::{ModelOptions, make_model, make_prior};
use crate::data::{Dataset, Standardisation, Task, TextLevels};
use crate::laplace::{Laplace, LaplaceError, LaplaceStatus, Prior};
use crate::model::{Model, ModelError};
use crate::wording::number;

/// A fit whose mode is known to this many posterior standard deviations is as good as converged.
const CLOSE_ENOUGH: f64 = 1e-4;

/// A model of a design and its Laplace fit.
pub struct Fitted {
    /// The name of each parameter.
    pub names: Vec<String>,
    /// The row of the input that each observation came from, ascending.
    pub rows: Vec<usize>,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// What was done to the features.
    pub standardisation: Standardisation,
    /// The kind of model.
    pub task: Task,
    /// Rows left out for missing values.
    pub dropped: usize,
    /// The likelihood.
    pub model: Box<dyn Model>,
    /// The prior.
    pub prior: Prior,
    /// The Gaussian at the mode.
    pub laplace: Laplace,
    /// What the user should know about the fit.
    pub warnings: Vec<String>,
}

/// Why a model could not be fitted.
#[derive(Debug, Error)]
pub enum FitError {
    /// The observations do not suit the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The prior or the fit.
    #[error(transparent)]
    Laplace(#[from] LaplaceError),
}

impl Fitted {
    /// Parameters on the original scale of the data.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        match self.task {
            Task::Gaussian => self.standardisation.point_to_original(theta),
            _ => self.standardisation.to_original(theta),
        }
    }
}

/// Makes the model that `options` ask for and fits it in the way given: to all rows, or to some of them.
///
/// # Errors
/// See [`FitError`].
pub fn fit_with(
    dataset: Dataset,
    options: &ModelOptions,
    fit: impl FnOnce(&dyn Model, &Prior) -> Result<Laplace, LaplaceError>,
) -> Result<Fitted, FitError> {
    let Dataset { observations, names, rows, levels, standardisation, dropped, .. } = dataset;
    let mut warnings = Vec::new();
    if options.kind == Task::Linear {
        warnings.extend(tight_prior(&observations.target, options.prior_sd));
    }
    let model = make_model(observations, options)?;
    let prior = make_prior(model.dim(), options)?;
    let laplace = fit(&*model, &prior)?;
    if laplace.status != LaplaceStatus::Converged && laplace.gradient_norm > CLOSE_ENOUGH {
        let off = number(laplace.gradient_norm);
        warnings.push(format!("the Laplace fit has not converged: its mode is off by {off} posterior sd"));
    }
    let task = options.kind;
    Ok(Fitted { names, rows, levels, standardisation, task, dropped, model, prior, laplace, warnings })
}

/// A prior of sd 1 makes sense for log odds and log rates; a linear target has whatever scale it has.
fn tight_prior(target: &[f64], prior_sd: f64) -> Option<String> {
    let n = target.len() as f64;
    let mean = target.iter().sum::<f64>() / n;
    let square = target.iter().map(|y| y * y).sum::<f64>() / n;
    let (scale, sd) = (square.sqrt(), (square - mean * mean).max(0.0).sqrt());
    (scale > 10.0 * prior_sd).then(|| {
        format!(
            "the target has mean {} and sd {}, so that a prior of sd {} holds its coefficients near 0; consider \
             --prior-sd {}",
            number(mean),
            number(sd),
            number(prior_sd),
            10f64.powf(scale.log10().ceil())
        )
    })
}
