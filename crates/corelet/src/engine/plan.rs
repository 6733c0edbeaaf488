//! The settings of a fit, and the policy of its rounds: every constant, with its reason.

use thiserror::Error;

use super::forecast::Advice;

/// Posteriors whose means differ by more of a standard deviation, or whose standard deviations differ by more than a factor of
/// [`MOVED_SCALE`], are in different places: an embedding by draws of the one says little about the other.
pub(super) const MOVED_SHIFT: f64 = 0.5;
/// See [`MOVED_SHIFT`].
pub(super) const MOVED_SCALE: f64 = 1.5;
/// Chains of a pilot with a larger R̂ are in different places; the limit of the verdict is stricter.
pub(super) const APART: f64 = 1.2;
/// How many times as many rows the next pilot has, where one was too small.
pub(super) const LARGER_PILOT: usize = 5;
/// How often a pilot may be repeated.
pub(super) const RESTARTS: usize = 2;
/// How often the final chains are run on, as long again, where nothing is wrong but that they mix slowly.
pub(super) const LONGER: usize = 3;
/// The confirmation run is skipped where chains of full length gave an upper bound of V below this share of the limit of an A. Nearer to the
/// limit the first round to pass may have passed by chance.
pub(super) const CONFIRMED: f64 = 0.5;
/// What a step of a chain takes, in log-likelihoods of each of its rows: some ten gradients of five each.
pub(super) const STEP_COSTS: usize = 50;
/// Draws that the last verdict looks at, at most, where fewer did not give an A.
pub(super) const VERDICT_DRAWS: usize = 2000;
/// Draws at which the likelihood of the coreset is looked at where there is no gradient.
pub(super) const LIKELIHOOD_DRAWS: usize = 8000;
/// V must fall by this factor for another round to be worth its cost.
pub(super) const FALLS: f64 = 0.5;
/// V beyond which a round says nothing but that its coreset has strayed.
pub(super) const STRAYED: f64 = 100.0;
/// Parameters up to which rows alone are tried where a Gaussian is not enough: a pass takes 12 draws a parameter, and columns of these
/// for every candidate.
pub(super) const MOST_BY_ROWS: usize = 108;
/// Draws of the chains of all rows at least, where nothing smaller stands for them and nobody has said.
pub(super) const WHOLE_DRAWS: usize = 1000;

/// A Gaussian in place of all rows: pairs of points over which slopes are averaged, first, where the centre will move, and later, where V
/// is measured at them too.
pub(super) const FIRST_PAIRS: usize = 50;
/// See [`FIRST_PAIRS`].
pub(super) const PAIRS: usize = 250;
/// Draws of its chains before the first verdict, which only move the centre.
pub(super) const FIRST_DRAWS: usize = 200;
/// Draws at which its last verdict looks first: V of nearly normal errors is then known to seven per cent.
pub(super) const JUDGED_DRAWS: usize = 400;
/// Draws that tell the mean of its posterior, to a thirtieth of a standard deviation.
pub(super) const CENTRED_DRAWS: usize = 1000;
/// A centre may be worse than the last one by so many nats of log-likelihood, and one for every two coordinates, before the step to it
/// is shortened: a mean is not a mode.
pub(super) const WORSE: f64 = 10.0;
/// Halvings of such a step: with the last it is none at all.
pub(super) const HALVINGS: usize = 50;
/// Acceptance rates of chains that are made again, since some diverged.
pub(super) const CAREFUL: [f64; 2] = [0.95, 0.99];

/// The settings of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Initial number of points.
    pub k: usize,
    /// The limit up to which it doubles.
    pub max_k: usize,
    /// Rows of the pilot.
    pub pilot: usize,
    /// Largest number of rounds.
    pub max_rounds: usize,
    /// Number of draws at which each pass evaluates all rows; by default it follows from the numbers of points and parameters.
    pub draws: Option<usize>,
    /// The seed of everything random but the sampler.
    pub seed: u64,
    /// The policy for a forecast of a long fit.
    pub advice: Advice,
}

/// An invalid plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Too many points, or none.
    #[error("k = {k} points cannot stand for {units} {what}: k must be between 1 and {}", units.saturating_sub(1))]
    Points {
        /// Number of points, k.
        k: usize,
        /// Number of units.
        units: usize,
        /// What is counted: rows or groups.
        what: &'static str,
    },
    /// The upper limit is below the initial number of points.
    #[error("max_k = {max_k} is less than k = {k}")]
    Fewer {
        /// Number of points, k.
        k: usize,
        /// Upper limit, max_k.
        max_k: usize,
    },
    /// An empty pilot.
    #[error("pilot must be at least 2 rows, and max_rounds at least 1")]
    Nothing,
    /// Too few draws.
    #[error("draws = {0} are too few for a verdict: at least 100 are needed")]
    Draws(usize),
}

impl Plan {
    /// Refuses a plan that is invalid for this number of units.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn check(&self, units: usize, what: &'static str) -> Result<(), PlanError> {
        let Self { k, max_k, .. } = *self;
        if k == 0 || k >= units {
            return Err(PlanError::Points { k, units, what });
        }
        if max_k < k {
            return Err(PlanError::Fewer { k, max_k });
        }
        if self.pilot < 2 || self.max_rounds == 0 {
            return Err(PlanError::Nothing);
        }
        self.draws.filter(|&draws| draws < 100).map_or(Ok(()), |draws| Err(PlanError::Draws(draws)))
    }

    /// Draws that a round with k points and so many parameters needs: columns of fewer draws than points can be matched by chance,
    /// and a covariance wants some ten draws a parameter.
    pub fn draws_at(&self, k: usize, parameters: usize) -> usize {
        self.draws.unwrap_or_else(|| 400.max(5 * k / 3).max(12 * parameters))
    }

    /// Candidates from which k points are chosen.
    pub fn pool_at(&self, k: usize) -> usize {
        3000.max(20 * k)
    }
}
