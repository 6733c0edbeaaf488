//! Statistical models: log-likelihoods, their derivatives, and fast differences.
//!
//! A [`Model`] is a likelihood with its rows. It can be evaluated row by row, for all rows or for some, and at many draws at once:
//!
//! ```
//! use corelet_data::observations::Observations;
//! use corelet_model::{Logistic, Model};
//!
//! // Two rows of one feature and an intercept, labelled 1 and −1.
//! let model = Logistic::model(Observations::new(&[0.5, 1.0, -2.0, 1.0], 2, vec![1.0, -1.0]))?;
//! assert!((model.log_likelihood(0, &[0.0, 0.0]) - 0.5_f64.ln()).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A family of generalised linear models is a [`Family`], one function of η = xᵀθ with its derivatives. Likelihoods with several predictors per
//! row are in [`joint`], random effects that are integrated out in [`mixed`]. [`BuiltIn`] lists the models that users can name.

mod at_hand;
pub mod binomial;
mod blocks;
mod built_in;
pub mod cubature;
mod family;
pub mod gamma;
pub mod gaussian;
pub mod glm;
pub mod joint;
mod joint_curves;
mod joint_family;
mod joint_jets;
mod joint_prepared;
mod joint_spread;
pub mod linear;
pub mod logistic;
pub mod mixed;
pub mod negative_binomial;
pub mod normal;
pub mod ordinal;
mod outer;
pub mod poisson;
mod predictive;
mod prepared;
pub mod quadrature;
pub mod rbf;
mod shifts;
pub mod softmax;
pub mod special;
mod spread;
pub mod student;
mod student_degrees;
mod tiled;
mod total;
pub mod vector_math;
pub mod weibull;

pub use binomial::Binomial;
pub use built_in::{BuiltIn, Dispersion, Numbers};
pub use corelet_data::observations::{BLOCK, TargetScale};
pub use family::{Family, Jets, Slopes};
pub use gamma::Gamma;
pub use gaussian::GaussianMean;
pub use glm::Glm;
pub use joint::Joint;
pub use joint_curves::NearShifts;
pub use joint_family::{Inputs, JointFamily, Layout};
pub use joint_jets::JointJets;
pub use joint_prepared::{PredictorShifts, Prepared as PreparedJoint};
pub use linear::Linear;
pub use logistic::Logistic;
pub use negative_binomial::NegativeBinomial;
pub use normal::Normal;
pub use ordinal::Ordinal;
pub use poisson::{Link, Poisson};
pub use predictive::{Given, Predictive};
pub use prepared::WIDE_TILE;
pub use prepared::{Differences, Scratch};
pub use rbf::RbfMap;
pub use shifts::Shifts;
pub use softmax::Softmax;
pub use spread::{Spread, expected_slopes};
pub use student::{Degrees, Student};
pub use student_degrees::StudentDegrees;
pub use total::{total_differences, weighted_differences};
pub use weibull::{Exponential, Weibull};

use corelet_data::observations::Observations;
use corelet_kernels::linalg::LinalgError;
use std::ops::Range;
use std::sync::Arc;

/// The log-likelihoods ℓ₁(θ) … ℓₙ(θ) of n data given D parameters, each times the weight that its row has, if any.
///
/// Slices are of length D for θ and its gradient, D² row-major for a Hessian, and rows · S for differences.
pub trait Model: Send + Sync {
    /// One word for tables and files.
    fn name(&self) -> &'static str;

    /// Number of data, n.
    fn len(&self) -> usize;

    /// True if there are no data.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of parameters, D.
    fn dim(&self) -> usize;

    /// ℓᵢ(θ).
    fn log_likelihood(&self, i: usize, theta: &[f64]) -> f64;

    /// Σᵢ wᵢ ℓᵢ(θ) over `rows`, and its derivatives into the buffers that are given.
    ///
    /// Over all rows it uses every thread of the current rayon pool, and gives the same bits for any number of them.
    fn evaluate(&self, rows: Over<'_>, theta: &[f64], derivatives: Derivatives<'_>) -> f64;

    /// The means over θ ~ N(μ, LLᵀ) of Σᵢ wᵢ ℓᵢ(θ) over `rows`, and of its derivatives into the buffers that are given.
    ///
    /// Predictors are Gaussian then, so that these are integrals of as many dimensions as a row has predictors, by quadrature. Threads and
    /// bits as in [`evaluate`](Model::evaluate).
    fn expected(&self, rows: Over<'_>, under: &Spread<'_>, derivatives: Derivatives<'_>) -> f64;

    /// ℓᵢ(θ̂ + Δₛ) − ℓᵢ(θ̂) for each row i of `rows` and each shift Δₛ, row-major, to full *relative* precision.
    ///
    /// It never subtracts two log-likelihoods: at n = 10⁶ a shift moves one by 10⁻³, and f32 would keep four digits.
    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]);

    /// The same in f64, for the columns on which weights are solved.
    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]);

    /// The same for one anchor and one set of shifts, with whatever depends on these alone computed once.
    fn prepare(self: Arc<Self>, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences>;

    /// The data.
    fn observations(&self) -> &Observations;

    /// The same likelihood of other data.
    ///
    /// # Errors
    /// If they are no data of this likelihood.
    fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError>;

    /// Whether every ℓᵢ is jointly concave in θ. The default, no, is always safe.
    fn is_log_concave(&self) -> bool {
        false
    }

    /// If ℓᵢ(θ) = fᵢ·ℓ(xᵢᵀθ + oᵢ; yᵢ, eᵢ): the rows, and the one-dimensional ℓ.
    fn linear(&self) -> Option<LinearPredictor> {
        None
    }

    /// If ℓᵢ(θ) = fᵢ·ℓ(Aᵢθ + oᵢe₁; yᵢ, eᵢ) with several predictors per row: the rows, and the ℓ of r numbers.
    fn joint(&self) -> Option<JointPredictors> {
        None
    }

    /// The model itself where it is the mean of a Gaussian, which has an exact embedding of its own.
    fn gaussian_mean(&self) -> Option<&GaussianMean> {
        None
    }
}

/// A model in which θ enters each datum only through η = xᵀθ + o.
#[derive(Clone)]
pub struct LinearPredictor {
    /// Features x, targets y, exposures e, weights f and offsets o.
    pub observations: Arc<Observations>,
    /// ℓ(η; y, e).
    pub family: Arc<dyn Family>,
}

impl LinearPredictor {
    /// fᵢ·(ℓ′, ℓ″, ℓ‴) of row `i` at θ.
    pub fn derivatives(&self, i: usize, theta: &[f64]) -> [f64; 3] {
        let ((y, exposure), weight) = (self.observations.target(i), self.observations.weight(i));
        let eta = self.observations.predictor(i, theta);
        self.family.derivatives(eta, y, exposure).map(|derivative| weight * derivative)
    }
}

/// A model in which θ enters each datum only through r predictors ζ = Aθ, the first of which has an offset.
#[derive(Clone)]
pub struct JointPredictors {
    /// Features x, targets y, exposures e, weights f and offsets o.
    pub observations: Arc<Observations>,
    /// ℓ(ζ; y, e).
    pub family: Arc<dyn JointFamily>,
    /// Which parameters each predictor has.
    pub layout: Arc<Layout>,
}

/// Which data a sum goes over.
#[derive(Debug, Clone, Copy)]
pub enum Over<'a> {
    /// All, each with weight one.
    All,
    /// Row `ids[j]` with weight `weights[j]`.
    Weighted {
        /// Rows.
        ids: &'a [usize],
        /// Their weights, of the same length.
        weights: &'a [f64],
    },
}

/// The buffers that [`Model::evaluate`] overwrites.
#[derive(Debug, Default)]
pub struct Derivatives<'a> {
    /// D numbers.
    pub gradient: Option<&'a mut [f64]>,
    /// D × D numbers, row-major; the result is exactly symmetric.
    pub hessian: Option<&'a mut [f64]>,
}

impl<'a> Derivatives<'a> {
    /// The value alone.
    pub fn none() -> Self {
        Derivatives::default()
    }

    /// The gradient.
    pub fn gradient(gradient: &'a mut [f64]) -> Self {
        Derivatives { gradient: Some(gradient), hessian: None }
    }

    /// The gradient and the Hessian.
    pub fn both(gradient: &'a mut [f64], hessian: &'a mut [f64]) -> Self {
        Derivatives { gradient: Some(gradient), hessian: Some(hessian) }
    }
}

/// Data that are invalid for a model. Rows are numbered from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No rows or no features.
    #[error("there are no data: {rows} rows of {dim} features")]
    Empty {
        /// Rows.
        rows: usize,
        /// Features.
        dim: usize,
    },
    /// Lengths that do not agree.
    #[error("{what} has {got} numbers where {expected} are needed")]
    Length {
        /// Name of the array.
        what: &'static str,
        /// Length of the array.
        got: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A number that is NaN or infinite.
    #[error("{what} of row {row} is not finite ({value})")]
    NotFinite {
        /// "feature", "target", "exposure", "weight" or "offset".
        what: &'static str,
        /// The row.
        row: usize,
        /// The number.
        value: f64,
    },
    /// A target that the family has no likelihood for.
    #[error("target of row {row} is {value}, but a {model} model needs {need}")]
    Target {
        /// The row.
        row: usize,
        /// The target.
        value: f64,
        /// The family's name.
        model: &'static str,
        /// The values it needs, in words.
        need: &'static str,
    },
    /// Too few classes for a model of them.
    #[error("there are {classes} classes, but a model of classes needs at least two")]
    Classes {
        /// Number of classes.
        classes: usize,
    },
    /// An exposure below 0.
    #[error("exposure of row {row} is {value}, but it must be positive, or 0 where nothing is counted")]
    Exposure {
        /// The row.
        row: usize,
        /// The exposure.
        value: f64,
    },
    /// A weight that is not positive.
    #[error("weight of row {row} is {value}, but it must be positive")]
    Weight {
        /// The row.
        row: usize,
        /// The weight.
        value: f64,
    },
    /// Numbers that a model has no place for.
    #[error("a {model} model takes no {what}")]
    NoPlace {
        /// The model's name.
        model: &'static str,
        /// "weights" or "offset".
        what: &'static str,
    },
    /// A variance or a scale that is not positive and finite.
    #[error("{what} is {value}, but it must be positive and finite")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// Value of the setting.
        value: f64,
    },
    /// Too few rows for a residual variance, or for that many distinct centres.
    #[error("{rows} rows are too few: at least {needed} are needed {purpose}")]
    TooFewRows {
        /// Rows.
        rows: usize,
        /// Rows needed.
        needed: usize,
        /// For what.
        purpose: &'static str,
    },
    /// A covariance that has no Cholesky factor.
    #[error("the covariance cannot be used: {0}")]
    Covariance(#[from] LinalgError),
}
