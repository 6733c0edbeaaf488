//! A model with nothing left open: what was left out of its specification comes from the data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ModelSpecification;
use crate::data::{Outcome, Standardisation};
use crate::model::{BuiltIn, Dispersion, Model, ModelError, Numbers, Ordinal, TargetScale};
use crate::posterior::{LaplaceError, Prior};
use crate::rows::Observations;
use crate::words::number;

/// The default prior of a linear model is this many times as wide as its target.
const WIDTH: f64 = 2.5;

/// A likelihood and independent normal priors of its parameters, all numbers known. It goes with a coreset, so that its
/// posterior can be sampled without the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The likelihood.
    pub model: BuiltIn,
    /// What it needs besides its data.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// The prior mean of each parameter.
    pub prior_mean: Vec<f64>,
    /// The prior standard deviation of each.
    pub prior_sd: Vec<f64>,
}

impl Resolved {
    /// Fills in what `specification` leaves out; `intercept` is the feature that is constant, and its value.
    ///
    /// The prior is N(0, 1) on the standardised features. Of a linear model, whose target has whatever scale it has, it is
    /// N(0, (2.5·sd y)²), and N(ȳ, (2.5·sd y)²) of the intercept. What a model has besides the coefficients of its features has a
    /// prior of its own, see [`Dispersion`].
    pub fn new(
        specification: &ModelSpecification,
        observations: &Observations,
        intercept: Option<(usize, f64)>,
    ) -> Self {
        let shape = (observations.dim, specification.model.classes(&observations.target));
        Self::scaled(specification, shape, &TargetScale::of(&observations.target), intercept)
    }

    /// The same for so many features and classes of the target, of whose numbers only the scale is known.
    pub(super) fn scaled(
        specification: &ModelSpecification,
        (features, classes): (usize, usize),
        target: &TargetScale,
        intercept: Option<(usize, f64)>,
    ) -> Self {
        let ModelSpecification { model, prior_sd, .. } = *specification;
        let numbers = Numbers { classes, ..specification.numbers() };
        let dim = features * model.predictors_of_features(numbers);
        let mut resolved =
            Self { model, numbers, prior_mean: vec![0.0; dim], prior_sd: vec![prior_sd.unwrap_or(1.0); dim] };
        if model.is_scaled_by_target() && prior_sd.is_none() {
            resolved.scale_prior(target, intercept);
        }
        for dispersion in resolved.dispersions() {
            let (mean, sd) = (dispersion.prior)(target);
            resolved.prior_mean.push(mean);
            resolved.prior_sd.push(sd);
        }
        resolved
    }

    /// The parameters besides the coefficients of the features.
    pub fn dispersions(&self) -> &'static [Dispersion] {
        self.model.dispersions(self.numbers)
    }

    fn scale_prior(&mut self, target: &TargetScale, intercept: Option<(usize, f64)>) {
        let TargetScale { mean, sd, rms } = *target;
        let scale = WIDTH * if intercept.is_some() { sd } else { rms };
        if scale > 0.0 && scale.is_finite() {
            self.prior_sd.fill(scale);
            if let Some((at, constant)) = intercept {
                self.prior_mean[at] = mean / constant;
                self.prior_sd[at] = scale / constant.abs();
            }
        }
    }

    /// The model of these observations.
    ///
    /// # Errors
    /// Where a number is not one the model can use; see [`ModelError`].
    pub fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.model.bind(observations, self.numbers)
    }

    /// The prior.
    ///
    /// # Errors
    /// Where a standard deviation is not positive and finite.
    pub fn prior(&self) -> Result<Prior, LaplaceError> {
        Prior::independent(self.prior_mean.clone(), &self.prior_sd)
    }

    /// Parameters on the original scale of the data: those of the features first; the others stay as they are.
    pub fn to_original(&self, standardisation: &Standardisation, theta: &[f64]) -> Vec<f64> {
        let features = standardisation.features();
        let coefficients = features * self.model.predictors_of_features(self.numbers);
        let (of_features, others) = theta.split_at(coefficients.min(theta.len()));
        let predictors = of_features.chunks(features.max(1));
        let mut original: Vec<f64> = match self.model.outcome() {
            // The parameters are a point among the data, not slopes over them.
            Outcome::None => standardisation.point_to_original(of_features),
            _ => predictors.flat_map(|theta| standardisation.to_original(theta)).collect(),
        };
        original.extend_from_slice(others);
        original
    }

    /// The name of each parameter: those of the features, for every class but the base where there are several, and those that the
    /// model has besides.
    pub(super) fn names(&self, features: &[String], classes: &[String]) -> Vec<String> {
        let mut names: Vec<String> = match self.model.outcome() {
            Outcome::Several => {
                let others = classes.iter().skip(1);
                others.flat_map(|class| features.iter().map(move |name| format!("{class}:{name}"))).collect()
            }
            _ => features.to_vec(),
        };
        names.extend(self.dispersions().iter().map(|dispersion| dispersion.name.to_owned()));
        names
    }

    /// What a draw on the original scale comes to on the natural scale of what belongs to no feature: `sigma` for `log_sigma`, …, and
    /// the cutpoints `cut_1`, … of ordered levels, with P(y ≤ j) = σ(cut_j − the other terms).
    pub fn natural(&self, standardisation: &Standardisation, original: &[f64]) -> Vec<(String, f64)> {
        let others = &original[original.len() - self.dispersions().len()..];
        if self.model.outcome() == Outcome::Ordered {
            let Ok(family) = Ordinal::new(self.numbers.classes) else { return Vec::new() };
            let intercept = standardisation.intercept.map_or(0.0, |(at, constant)| original[at] * constant);
            let cutpoints = family.cutpoints(others).into_iter().enumerate();
            return cutpoints.map(|(j, cutpoint)| (format!("cut_{}", j + 1), cutpoint - intercept)).collect();
        }
        let natural = |(dispersion, value): (&Dispersion, &f64)| {
            Some((dispersion.name.strip_prefix("log_")?.to_owned(), value.exp()))
        };
        self.dispersions().iter().zip(others).filter_map(natural).collect()
    }

    /// What to say where the prior of a linear model holds its coefficients away from the data.
    pub(super) fn tight_prior(&self, target: &TargetScale) -> Option<String> {
        let coefficients = self.prior_sd.len() - self.dispersions().len();
        let widest = self.prior_sd[..coefficients].iter().copied().fold(0.0, f64::max);
        let centred = self.prior_mean[..coefficients].iter().all(|&mean| mean == 0.0);
        let TargetScale { mean, sd, rms } = *target;
        (self.model.is_scaled_by_target() && rms > 10.0 * widest && centred).then(|| {
            format!(
                "the target has mean {} and sd {}, so that a prior of sd {} holds its coefficients near 0; by default \
                 its sd would be {}",
                number(mean),
                number(sd),
                number(widest),
                number(WIDTH * sd)
            )
        })
    }
}
