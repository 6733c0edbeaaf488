//! What a user asks for, where something may be left out: the same rules and texts for every front end.

use sparse_nnls::{LineSearch, Method};

use crate::coreset::{BuildError, BuildOptions, ModelOptions, RoundOptions, RoundsBy, Selector, Start};
use crate::data::Task;
use crate::embed::Choice;
use crate::model::Link;

/// The most points that a search for `max_kl` tries where nothing is said.
const MAX_KL_POINTS: usize = 1600;

/// A build as it is asked for; what is left out depends on the data.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildRequest {
    /// How points are chosen.
    pub method: Selector,
    /// Halve the step of the hard thresholding methods, as the authors' code does.
    pub reference: bool,
    /// Most points; left out, 100 or the number of rows, with `max_kl` 1600 or that.
    pub k: Option<usize>,
    /// The divergence in nats to stay below with the fewest points.
    pub max_kl: Option<f64>,
    /// How a datum becomes a vector.
    pub embedding: Choice,
    /// The seed of everything random.
    pub seed: u64,
    /// Solve NNLS on the final points.
    pub polish: bool,
    /// The rows whose Laplace fit is the first π̂.
    pub start: Start,
    /// How many rounds; left out, automatic.
    pub rounds: Option<usize>,
    /// What the π̂ of a further round is taken from.
    pub rounds_by: RoundsBy,
}

impl BuildRequest {
    /// Refuses what does not go together.
    ///
    /// # Errors
    /// [`BuildError::Usage`] with what to do instead.
    pub fn check(&self) -> Result<(), BuildError> {
        let thresholding = matches!(self.method, Selector::Embedded(method) if method.can_hold_total());
        if self.reference && !thresholding {
            return Err(BuildError::Usage("--reference is for --method iht, a-iht or a-iht-2"));
        }
        if self.max_kl.is_some() && !matches!(self.method, Selector::Embedded(Method::Pursuit(_))) {
            let text = "--max-kl needs --method pursuit, which finds a coreset of every size";
            return Err(BuildError::Usage(text));
        }
        if self.max_kl.is_some() && self.rounds_by == RoundsBy::Nuts {
            return Err(BuildError::Usage("--max-kl goes with --rounds-by laplace only"));
        }
        Ok(())
    }

    /// The rounds that are asked for.
    pub fn rounds(&self) -> RoundOptions {
        RoundOptions { rounds: self.rounds, by: self.rounds_by, from_all_rows: self.start == Start::Full }
    }

    /// The options for `rows` rows. A `k` that was left out never exceeds them.
    pub fn options(&self, rows: usize) -> BuildOptions {
        let default = if self.max_kl.is_some() { MAX_KL_POINTS } else { BuildOptions::default().k };
        BuildOptions {
            method: self.method.with_step(self.reference),
            k: self.k.unwrap_or(default.min(rows)),
            max_kl: self.max_kl,
            embedding: self.embedding,
            seed: self.seed,
            polish: self.polish,
            ..BuildOptions::default()
        }
    }
}

/// The method, with the authors' half step where asked for and where it has one.
pub fn with_step(mut method: Method, reference: bool) -> Method {
    if let Method::Iht(settings) | Method::AIht(settings) | Method::AIht2(settings) = &mut method
        && reference
    {
        settings.line_search = LineSearch::Reference;
    }
    method
}

/// A model as it is asked for, with what only some models take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelRequest {
    /// The likelihood.
    pub kind: Task,
    /// How a Poisson rate follows from η.
    pub link: Option<Link>,
    /// The noise standard deviation.
    pub sigma: Option<f64>,
    /// The standard deviation of the prior.
    pub prior_sd: f64,
    /// Whether a column is named as the exposure.
    pub exposure: bool,
    /// Whether a level of the target is named as success.
    pub positive: bool,
}

impl ModelRequest {
    /// Refuses what the model does not take.
    ///
    /// # Errors
    /// [`BuildError::Usage`] naming the model that does.
    pub fn check(&self) -> Result<(), BuildError> {
        let refused = |given: bool, models: &[Task]| given && !models.contains(&self.kind);
        let wrong = if refused(self.link.is_some(), &[Task::Poisson]) {
            "--link is for --model poisson"
        } else if refused(self.exposure, &[Task::Poisson]) {
            "--exposure is for --model poisson"
        } else if refused(self.positive, &[Task::Logistic]) {
            "--positive is for --model logistic"
        } else if refused(self.sigma.is_some(), &[Task::Linear, Task::Gaussian]) {
            "--sigma is for --model linear or gaussian"
        } else {
            return Ok(());
        };
        Err(BuildError::Usage(wrong))
    }

    /// The options.
    pub fn options(&self) -> ModelOptions {
        let Self { kind, link, sigma, prior_sd, .. } = *self;
        ModelOptions { kind, link: link.unwrap_or_default(), sigma, prior_sd }
    }
}
