//! The methods, one file each, and the one list of them.

mod a_iht;
mod a_iht_2;
mod column_cache;
mod combination;
mod floor;
mod frank_wolfe;
mod giga;
mod gram;
mod hard_thresholding;
mod iht;
mod importance;
mod omp;
mod path;
mod pool;
mod pursuit;
mod resumed;
mod rounds;
mod sampling;
mod search;
mod tableau;
mod tiles;
mod uniform;

use serde::{Deserialize, Serialize};

pub use hard_thresholding::{HardThresholding, LineSearch};
pub use pursuit::Pursuit;
pub use resumed::Resumed;
pub use sampling::SampleWeights;

use crate::driver::{Algorithm, Problem, Start};
use crate::error::Error;
use sampling::Chance;

/// A method and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// k columns drawn uniformly without replacement.
    Uniform(SampleWeights),
    /// k columns drawn without replacement with chances ∝ ‖φᵢ‖.
    Importance(SampleWeights),
    /// Frank–Wolfe (Campbell & Broderick 2019).
    FrankWolfe,
    /// Greedy iterative geodesic ascent (Campbell & Broderick 2018).
    Giga,
    /// Iterative hard thresholding (Algorithm 1 of the paper).
    Iht(HardThresholding),
    /// Automated accelerated IHT (Algorithm 2).
    AIht(HardThresholding),
    /// Automated accelerated IHT with a de-biasing step (Algorithm 3).
    AIht2(HardThresholding),
    /// Non-negative orthogonal matching pursuit (Nguyen et al. 2019).
    Omp,
    /// Pooled, fully corrective, non-negative pursuit: the default.
    Pursuit(Pursuit),
}

impl Default for Method {
    fn default() -> Self {
        Self::Pursuit(Pursuit::default())
    }
}

impl Method {
    /// Every method with its default settings, the sampling ones also with NNLS weights.
    pub fn all() -> Vec<Self> {
        let thresholding = HardThresholding::default();
        vec![
            Self::Uniform(SampleWeights::Unbiased),
            Self::Uniform(SampleWeights::Nnls),
            Self::Importance(SampleWeights::Unbiased),
            Self::Importance(SampleWeights::Nnls),
            Self::FrankWolfe,
            Self::Giga,
            Self::Iht(thresholding),
            Self::AIht(thresholding),
            Self::AIht2(thresholding),
            Self::Omp,
            Self::Pursuit(Pursuit::default()),
        ]
    }

    /// The name a user types.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Uniform(SampleWeights::Unbiased) => "uniform",
            Self::Uniform(SampleWeights::Nnls) => "uniform-nnls",
            Self::Importance(SampleWeights::Unbiased) => "importance",
            Self::Importance(SampleWeights::Nnls) => "importance-nnls",
            Self::FrankWolfe => "frank-wolfe",
            Self::Giga => "giga",
            Self::Iht(_) => "iht",
            Self::AIht(_) => "a-iht",
            Self::AIht2(_) => "a-iht-2",
            Self::Omp => "omp",
            Self::Pursuit(_) => "pursuit",
        }
    }

    /// The method of that name, with its default settings.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|method| method.name() == name)
    }

    /// Whether Σw = L is supported.
    pub fn can_hold_total(&self) -> bool {
        matches!(self, Self::Iht(_) | Self::AIht(_) | Self::AIht2(_))
    }

    /// Whether the residual never grows from one step to the next.
    pub fn is_monotone(&self) -> bool {
        matches!(self, Self::Giga | Self::Omp | Self::Pursuit(_))
    }

    /// Whether the result depends on the seed.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Uniform(_) | Self::Importance(_) => true,
            Self::Iht(settings) | Self::AIht(settings) | Self::AIht2(settings) => settings.batch < 1.0,
            _ => false,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Setting`] naming the first one out of range.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Iht(settings) | Self::AIht(settings) | Self::AIht2(settings) => settings.check(),
            Self::Pursuit(settings) => settings.check(),
            _ => Ok(()),
        }
    }
}

impl Start for Method {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn can_hold_total(&self) -> bool {
        self.can_hold_total()
    }

    fn check(&self) -> Result<(), Error> {
        self.check()
    }

    fn sample(&self, k: usize) -> usize {
        if let Self::Pursuit(settings) = self { settings.first_pool(k) } else { 0 }
    }

    fn start(&self, problem: &Problem) -> Box<dyn Algorithm> {
        let thresholding = |settings, variant| -> Box<dyn Algorithm> {
            Box::new(hard_thresholding::Engine::new(problem, settings, variant))
        };
        match *self {
            Self::Uniform(weighting) => {
                Box::new(sampling::Sampling::new(problem, Chance::Uniform, weighting))
            }
            Self::Importance(weighting) => {
                Box::new(sampling::Sampling::new(problem, Chance::Norm, weighting))
            }
            Self::FrankWolfe => Box::new(frank_wolfe::FrankWolfe::new(problem)),
            Self::Giga => Box::new(giga::Giga::new(problem)),
            Self::Iht(settings) => thresholding(settings, iht::VARIANT),
            Self::AIht(settings) => thresholding(settings, a_iht::VARIANT),
            Self::AIht2(settings) => thresholding(settings, a_iht_2::VARIANT),
            Self::Omp => Box::new(omp::Omp::new(problem)),
            Self::Pursuit(settings) => Box::new(pursuit::Engine::new(problem, settings)),
        }
    }
}
