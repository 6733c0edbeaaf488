//! A model with nothing left open: what was left out of its specification comes from the data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::assign::{Parameters, PriorError, Weak, assign};
use super::{ModelSpecification, Priors};
use crate::data::{Outcome, Standardisation};
use crate::model::{BuiltIn, Dispersion, Link, Model, ModelError, Numbers, Ordinal, TargetScale};
use crate::posterior::{Density, LaplaceError, Prior};
use crate::rows::{LogLikelihood, Observations};
use crate::words::{PriorGroup, number};

/// A weakly informative prior is this wide; the default one of a linear model is it this many times its target.
const WIDTH: f64 = 2.5;

/// Without the digits in which sums of the same targets in another order differ.
fn digits(x: f64) -> f64 {
    (1e9 * x).round() / 1e9
}

/// A likelihood and independent priors of its parameters, all numbers known. It goes with a coreset, so that its
/// posterior can be sampled without the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The likelihood.
    pub model: BuiltIn,
    /// The numbers that the likelihood needs besides its data.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// The prior of each parameter, on the scale of the standardised features.
    pub priors: Vec<Density>,
    /// The spread with which a Gaussian fit smooths each prior, if one of them has a kink; see [`Density::seen`].
    pub spreads: Vec<f64>,
    /// The same priors as given, for a summary; empty before [`with_priors`](Resolved::with_priors).
    pub said: Vec<PriorGroup>,
}

impl Resolved {
    /// Fills in what `specification` leaves out; `intercept` is the feature that is constant, and its value. Its priors by name
    /// are for [`with_priors`](Resolved::with_priors), which knows the names.
    ///
    /// Without names the prior is N(0, sd²) on the standardised features, N(0, 1) where no sd is given. Of a linear model, whose target
    /// has whatever scale it has, it is then N(0, (2.5·sd y)²), and N(ȳ, (2.5·sd y)²) of the intercept. What a model has besides the
    /// coefficients of its features has a prior of its own, see [`Dispersion`].
    pub fn new(
        specification: &ModelSpecification,
        observations: &Observations,
        intercept: Option<(usize, f64)>,
    ) -> Self {
        let shape = (observations.dim, specification.model.classes(&observations.target));
        Self::scaled(specification, shape, &TargetScale::of(observations), intercept)
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
        let priors = vec![Density::Normal { mean: 0.0, sd: prior_sd.unwrap_or(1.0) }; dim];
        let mut resolved = Self { model, numbers, priors, spreads: Vec::new(), said: Vec::new() };
        if let (None, Some(Weak { centre, width })) =
            (prior_sd, resolved.target_scale(target, intercept.is_some()))
        {
            resolved.priors.fill(Density::Normal { mean: 0.0, sd: width });
            if let Some((at, constant)) = intercept {
                resolved.priors[at] = Density::Normal { mean: centre / constant, sd: width / constant.abs() };
            }
        }
        for dispersion in resolved.dispersions() {
            let (mean, sd) = (dispersion.prior)(target);
            resolved.priors.push(Density::Normal { mean, sd });
        }
        resolved
    }

    /// The same with priors by name in place of its own.
    ///
    /// # Errors
    /// If a name or a scale is none of these parameters'.
    pub fn with_priors(
        mut self,
        priors: &Priors,
        parameters: &Parameters<'_>,
        target: &TargetScale,
    ) -> Result<Self, PriorError> {
        let weak = self.target_scale(target, parameters.standardisation.intercept.is_some());
        let weak = weak.unwrap_or_else(|| self.link_scale(target));
        (self.priors, self.said) = assign(priors, parameters, &self.priors, weak)?;
        Ok(self)
    }

    /// The same with its priors as a Gaussian fit of this likelihood sees them.
    ///
    /// # Errors
    /// If a prior is none, or the rows did not answer.
    pub fn with_spreads(mut self, likelihood: &dyn LogLikelihood) -> Result<Self, LaplaceError> {
        self.spreads = self.prior()?.spreads(likelihood)?;
        Ok(self)
    }

    /// How many parameters are coefficients of features; they come first.
    pub(super) fn coefficients(&self) -> usize {
        self.priors.len() - self.dispersions().len()
    }

    /// The parameters besides the coefficients of the features.
    pub fn dispersions(&self) -> &'static [Dispersion] {
        self.model.dispersions(self.numbers)
    }

    /// A weakly informative prior on the scale of the linear predictor, around the predictor of the mean outcome. Where the predictor
    /// is on the scale of large rates, the prior is as wide as these.
    fn link_scale(&self, target: &TargetScale) -> Weak {
        let softplus = self.model == BuiltIn::Poisson && self.numbers.link == Link::Softplus;
        let width = if softplus { WIDTH * target.sd.max(1.0) } else { WIDTH };
        let centre = self.model.predictor_of(target.ratio, self.numbers) - target.offset;
        Weak { centre: digits(centre), width }
    }

    /// A weakly informative prior on the scale of the target, if the model has that scale.
    fn target_scale(&self, target: &TargetScale, intercept: bool) -> Option<Weak> {
        let TargetScale { sd, rms, .. } = *target;
        let centre = target.mean - target.offset;
        let width = WIDTH * if intercept { sd } else { rms };
        let has_scale = self.model.is_scaled_by_target() && width > 0.0 && width.is_finite();
        has_scale.then_some(Weak { centre, width })
    }

    /// The model of these observations.
    ///
    /// # Errors
    /// If a number is not one the model can use; see [`ModelError`].
    pub fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        self.model.bind(observations, self.numbers)
    }

    /// The prior.
    ///
    /// # Errors
    /// If a number makes no density.
    pub fn prior(&self) -> Result<Prior, LaplaceError> {
        Ok(Prior::of_densities(&self.priors)?.with_spreads(&self.spreads))
    }

    /// Parameters on the original scale of the data: those of the features first; the others do not change.
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

    /// The way back from [`to_original`](Self::to_original).
    pub fn to_standardised(&self, standardisation: &Standardisation, original: &[f64]) -> Vec<f64> {
        let features = standardisation.features();
        let coefficients = features * self.model.predictors_of_features(self.numbers);
        let (of_features, others) = original.split_at(coefficients.min(original.len()));
        let mut theta: Vec<f64> = match self.model.outcome() {
            Outcome::None => {
                let mut point = of_features.to_vec();
                standardisation.apply(&mut point);
                point
            }
            _ => of_features
                .chunks(features.max(1))
                .flat_map(|beta| standardisation.from_original(beta))
                .collect(),
        };
        theta.extend_from_slice(others);
        theta
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

    /// The warning if the prior of a linear model pulls its coefficients away from the data.
    pub(super) fn tight_prior(&self, target: &TargetScale) -> Option<String> {
        let coefficients = &self.priors[..self.coefficients()];
        let widest = coefficients.iter().map(Density::scale).fold(0.0, f64::max);
        let centred = coefficients.iter().all(|prior| prior.mean() == 0.0);
        let TargetScale { mean, sd, rms, .. } = *target;
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
