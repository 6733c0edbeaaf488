//! The pipeline: one object that opens data, builds, evaluates, samples, judges, and compares.
//!
//! A front end turns flags or keywords into a [`Specification`], hears of [`Progress`], and words what comes back.

mod compare;
#[cfg(feature = "sampling")]
mod drawn;
mod leverage;
mod resolved;
mod specification;

pub use compare::{Cell, Comparison};
#[cfg(feature = "sampling")]
pub use drawn::{Drawn, sample_kept};
pub use leverage::Leverages;
pub use resolved::Resolved;
pub use specification::{BuildSpecification, ModelSpecification, Specification, UsageError};

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::Instant;

use sparse_nnls::{Info, Status};
use thiserror::Error;

use crate::coreset::{
    BuildError, BuildOptions, Built, Coreset, PathTable, Selector, Start, build_in_rounds, build_of_groups,
    path, start_fit,
};
use crate::data::{DataError, Dataset, Groups, KeptRows, Outcome, Source, Standardisation, TextLevels};
use crate::embed::{Choice, EmbedError, Embedding, embed};
use crate::model::ModelError;
use crate::posterior::{Gaussian, Laplace, LaplaceError, LaplaceStatus, Prior, SampleError, SampleProgress};
use crate::rows::{At, Counted, Memory, Problem, Rows, RowsError, Weighted};
use crate::trust::{Evaluation, HeldOut, VerdictError, evaluate, residual_in};
use crate::words::{Judged, Seconds, Subject, Summary, count, number};

/// A fit whose mode is known to this many posterior standard deviations is as good as converged.
const CLOSE_ENOUGH: f64 = 1e-4;

const SEPARATED: &str = "the features tell the two classes apart without an error, so that only the prior keeps the coefficients \
                         finite";

/// What a study is doing, as it goes on.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// Fitting the posterior of all rows, or of the start.
    Fitting,
    /// Making the embedding.
    Embedding,
    /// Choosing points; in a comparison, which of how many runs.
    Choosing {
        /// How the method gets on.
        info: &'a Info,
        /// The run, from 1, and how many there are.
        run: (usize, usize),
        /// How the points are chosen.
        method: &'a crate::coreset::Selector,
    },
    /// Judging on fresh draws.
    Evaluating,
    /// Running chains.
    Sampling(&'a SampleProgress),
    /// Looking at the draws on all rows.
    Judging,
}

/// Hears how it goes, and says whether to go on.
pub type Listener<'l> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + Send + 'l;

/// Why a study could not do what it was asked.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The observations do not suit the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The prior or the fit.
    #[error(transparent)]
    Laplace(#[from] LaplaceError),
    /// The rows did not answer.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The embedding.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The solver.
    #[error(transparent)]
    Solver(#[from] sparse_nnls::Error),
    /// The chains.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The verdict.
    #[error(transparent)]
    Verdict(#[from] VerdictError),
    /// A row that a coreset names and the data do not have, or left out.
    #[error("row {row} is named, but {reason}")]
    NoSuchRow {
        /// As the coreset counts.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A coreset without a row.
    #[error("the coreset has no row, so it has no posterior but the prior")]
    EmptyCoreset,
}

/// What the rows were made of: the names of the parameters, and the way back to the data.
#[derive(Debug, Clone)]
pub struct Frame {
    /// How messages name the data.
    pub source: String,
    /// The name of each parameter: those of the features, and those that the model has besides.
    pub names: Vec<String>,
    /// Number of features.
    pub features: usize,
    /// The row of the input that each observation came from.
    pub rows: KeptRows,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// What was done to the features.
    pub standardisation: Standardisation,
    /// Rows left out for missing values.
    pub dropped: usize,
    /// The column that is the target.
    pub target: Option<String>,
    /// What tells these observations from others.
    pub fingerprint: String,
    /// Which observations belong together, where groups of them are to be chosen.
    pub groups: Option<Groups>,
}

/// Data, a model of them and a prior, ready to be asked.
pub struct Study {
    frame: Frame,
    model: Resolved,
    rows: Counted,
    prior: Prior,
    /// Whether the prior holds the coefficients away from the data.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what it forbids is a grade of draws"))]
    tight_prior: bool,
    warnings: Vec<String>,
    read_seconds: f64,
    full: OnceLock<Full>,
}

/// The fit of all rows.
struct Full {
    fit: Laplace,
    seconds: f64,
    /// Whether its linear predictor tells the two classes apart without an error.
    separated: bool,
}

/// A coreset, judged.
pub struct Chosen {
    /// The π̂ that the first round was built under.
    pub start: Gaussian,
    /// The best of all rounds.
    pub built: Built,
    /// How good it is.
    pub evaluation: Evaluation,
    /// All of it, to be written and said.
    pub summary: Summary,
}

impl Chosen {
    /// The coreset.
    pub fn coreset(&self) -> &Coreset {
        &self.built.coreset
    }
}

/// A listener that hears nothing and never stops anything.
pub fn unheard(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

impl Study {
    /// Reads what is asked for of a source, and makes its model.
    ///
    /// # Errors
    /// Names the file, the column and the row.
    pub fn open(source: &Source<'_>, specification: &Specification) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let dataset = source.design(&specification.design())?;
        Self::new(source.name(), dataset, &specification.model, clock.elapsed().as_secs_f64())
    }

    /// Makes the model that is asked for of a design. `source` names the data; reading them took so long.
    ///
    /// # Errors
    /// Where a number is not one the model can use.
    pub fn new(
        source: &str,
        dataset: Dataset,
        model: &ModelSpecification,
        read_seconds: f64,
    ) -> Result<Self, StudyError> {
        let Dataset {
            observations,
            names,
            rows,
            levels,
            standardisation,
            dropped,
            mut warnings,
            target_name,
            groups,
        } = dataset;
        if dropped > 0 {
            let (dropped, all) = (count(dropped), count(rows.total()));
            warnings.insert(0, format!("{dropped} of {all} rows have missing values and were left out"));
        }
        let features = names.len();
        let fingerprint = observations.fingerprint();
        let model = Resolved::new(model, &observations, standardisation.intercept)?;
        let tight = model.tight_prior(&observations.target);
        let tight_prior = tight.is_some();
        warnings.extend(tight);
        let memory = Memory::new(model.bind(observations)?);
        let prior = model.prior()?;
        let source = source.to_owned();
        let target = target_name;
        let frame = Frame {
            source,
            names,
            features,
            rows,
            levels,
            standardisation,
            dropped,
            target,
            fingerprint,
            groups,
        };
        let (rows, full) = (Counted::new(Box::new(memory)), OnceLock::new());
        Ok(Self { frame, model, rows, prior, tight_prior, warnings, read_seconds, full })
    }

    /// What the rows were made of.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Number of usable rows, n.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// What is chosen from: groups of rows where there are any, else rows.
    fn units(&self) -> usize {
        self.frame.groups.as_ref().map_or(self.len(), Groups::len)
    }

    /// Refuses what is not made of groups.
    fn of_rows(&self, what: &'static str) -> Result<(), BuildError> {
        self.frame.groups.as_ref().map_or(Ok(()), |_| Err(BuildError::RowsOnly { what }))
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The name of the likelihood.
    pub fn model(&self) -> &'static str {
        self.rows.name()
    }

    /// The model, with what was estimated from the data in place of what was left out.
    pub fn resolved(&self) -> &Resolved {
        &self.model
    }

    /// The posterior that is asked about.
    pub fn problem(&self) -> Problem<'_> {
        Problem { rows: &self.rows, prior: &self.prior }
    }

    /// What the user should know about data, model and fit.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let Some(Full { fit, separated, .. }) = self.full.get() else { return warnings };
        if *separated {
            warnings.push(SEPARATED.to_owned());
        }
        if fit.status != LaplaceStatus::Converged
            && (fit.gradient_norm > CLOSE_ENOUGH || fit.gradient_norm.is_nan())
        {
            let off = if fit.gradient_norm.is_finite() {
                format!("its mode is off by {} posterior sd", number(fit.gradient_norm))
            } else {
                "how far its mode is off is not known".to_owned()
            };
            warnings.push(format!("the Laplace fit has not converged: {off}"));
        }
        warnings
    }

    /// Parameters on the original scale of the data; those that belong to no feature stay as they are.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        self.model.to_original(&self.frame.standardisation, theta)
    }

    /// The observation that each row of the data became.
    ///
    /// # Errors
    /// Where a row is not there, or was left out.
    pub fn observations_of(&self, rows: &[usize]) -> Result<Vec<usize>, StudyError> {
        let all = self.frame.rows.total();
        let find = |&row: &usize| {
            self.frame.rows.observation(row).ok_or_else(|| StudyError::NoSuchRow {
                row,
                reason: if row < all {
                    format!("it has missing values in {} and was left out", self.frame.source)
                } else {
                    format!("{} has {all} rows", self.frame.source)
                },
            })
        };
        rows.iter().map(find).collect()
    }

    /// The rows of the data that observations came from.
    pub fn rows_of(&self, observations: &[usize]) -> Vec<usize> {
        observations.iter().map(|&i| self.frame.rows.file_row(i)).collect()
    }

    /// The weighted rows of a coreset, fetched.
    ///
    /// # Errors
    /// Where there is none, or rows or weights cannot be used.
    pub fn weighted(&self, observations: &[usize], weights: &[f64]) -> Result<Weighted, StudyError> {
        if observations.is_empty() {
            return Err(StudyError::EmptyCoreset);
        }
        Ok(Weighted::fetch(&self.rows, observations, weights)?)
    }

    /// The Gaussian fit of a coreset's own posterior, where there is one.
    ///
    /// # Errors
    /// Where rows or weights cannot be used.
    pub fn own_posterior(
        &self,
        observations: &[usize],
        weights: &[f64],
    ) -> Result<Option<Gaussian>, StudyError> {
        let fit = self.weighted(observations, weights)?.fit(&self.prior);
        Ok(fit.ok().map(|fit| fit.posterior))
    }

    /// The Laplace fit of all rows, made when it is first asked for.
    ///
    /// # Errors
    /// Where there is none.
    pub fn full(&self, listener: &mut Listener<'_>) -> Result<&Laplace, StudyError> {
        if self.full.get().is_none() {
            // A fit is not interrupted: it is a few passes.
            let _ = listener(Progress::Fitting);
            let clock = Instant::now();
            let fit = start_fit(self.problem(), Start::Full, 0)?;
            let separated = self.separates(&fit)?;
            let _ = self.full.set(Full { fit, seconds: clock.elapsed().as_secs_f64(), separated });
        }
        Ok(&self.full.get().ok_or(BuildError::NoRound)?.fit)
    }

    /// Whether θ̂ tells two classes apart without an error: then Σ ℓᵢ(cθ̂) → 0 as c grows, and else → −∞.
    fn separates(&self, fit: &Laplace) -> Result<bool, StudyError> {
        let classes = self.model.model.outcome() == Outcome::Classes;
        // A fit that leaves half a nat a row errs somewhere, and need not be asked.
        if !classes || fit.log_posterior < -0.5 * self.len() as f64 {
            return Ok(false);
        }
        let theta: Vec<f64> = fit.posterior.mean.iter().map(|x| 1e3 * x).collect();
        Ok(self.rows.newton(&At { theta: &theta, derivatives: 0 })?.value > -1.0)
    }

    /// Builds in rounds, or once where groups of rows are chosen, and judges; none where the listener stopped it before there
    /// was a coreset.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn build(
        &self,
        specification: &BuildSpecification,
        listener: &mut Listener<'_>,
    ) -> Result<Option<Chosen>, StudyError> {
        let options = specification.options(self.units());
        let groups = self.frame.groups.as_ref();
        groups.map_or_else(|| options.check(self.len()), |groups| options.check_groups(groups))?;
        let clock = Instant::now();
        let from_part;
        let (start, full) = match specification.start {
            Start::Full => {
                let full = self.full(listener)?;
                (full, Some(full))
            }
            start => {
                let _ = listener(Progress::Fitting);
                from_part = start_fit(self.problem(), start, options.seed)?;
                (&from_part, None)
            }
        };
        let laplace = self
            .full
            .get()
            .filter(|_| full.is_some())
            .map_or(clock.elapsed().as_secs_f64(), |full| full.seconds);
        let clock = Instant::now();
        let _ = listener(Progress::Embedding);
        let held_out = HeldOut::new(&self.rows, &start.posterior, options.seed);
        let (problem, posterior, rounds) = (self.problem(), &start.posterior, specification.rounds());
        let mut callback =
            |info: &Info| listener(Progress::Choosing { info, run: (1, 1), method: &options.method });
        let built = match groups {
            None => build_in_rounds(problem, posterior, &held_out, &options, &rounds, &mut callback),
            Some(groups) => {
                build_of_groups(problem.rows, groups, posterior, &held_out, &options, &mut callback)
            }
        }?;
        let build = clock.elapsed().as_secs_f64();
        if built.coreset.status == Status::Stopped && built.coreset.rows.is_empty() {
            return Ok(None);
        }
        let clock = Instant::now();
        let _ = listener(Progress::Evaluating);
        let evaluation = self.evaluate_built(full, &held_out, &built, options.seed)?;
        let evaluate = clock.elapsed().as_secs_f64();
        let seconds = Seconds { read: self.read_seconds, laplace, build, evaluate };
        let summary = self.summary_of(&options, &built.coreset, &evaluation, seconds);
        let in_memory = matches!(options.method, Selector::SparseVi(_)).then_some(built.coreset.passes);
        let summary = summary
            .with_rounds(specification.start, &built.rounds, built.chosen)
            .with_looks(self.rows.looks(), in_memory.unwrap_or_default());
        Ok(Some(Chosen { start: start.posterior.clone(), built, evaluation, summary }))
    }

    /// On fresh draws of the π̂ that it was last built under. A coreset that was stopped is not held up by the pass over
    /// the data that these take.
    fn evaluate_built(
        &self,
        full: Option<&Laplace>,
        held_out: &HeldOut<'_>,
        built: &Built,
        seed: u64,
    ) -> Result<Evaluation, StudyError> {
        let Coreset { rows, weights, status, .. } = &built.coreset;
        let last = built.posterior.as_ref().map(|last| HeldOut::new(&self.rows, last, seed));
        let held_out = (*status != Status::Stopped).then_some(last.as_ref().unwrap_or(held_out));
        Ok(evaluate(self.problem(), full, held_out, rows, weights)?)
    }

    /// Judges a coreset that came from elsewhere.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn evaluate(
        &self,
        observations: &[usize],
        weights: &[f64],
        choice: Choice,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<Summary, StudyError> {
        if observations.is_empty() {
            return Err(StudyError::EmptyCoreset);
        }
        let full = self.full(listener)?;
        let clock = Instant::now();
        let _ = listener(Progress::Evaluating);
        let embedding = embed(&self.rows, &full.posterior, choice, observations.len(), seed)?;
        let residual = residual_in(&embedding, observations, weights)?;
        let held_out = HeldOut::new(&self.rows, &full.posterior, seed);
        let evaluation = evaluate(self.problem(), Some(full), Some(&held_out), observations, weights)?;
        let (read, evaluate) = (self.read_seconds, clock.elapsed().as_secs_f64());
        let seconds = Seconds { read, laplace: self.laplace_seconds(), build: 0.0, evaluate };
        let judged = Judged { embedding: embedding.description(), residual, weights, seed };
        Ok(Summary::of_file(&self.subject(), &judged, &evaluation, seconds))
    }

    /// The divergence against the number of points.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn path(
        &self,
        specification: &BuildSpecification,
        listener: &mut Listener<'_>,
    ) -> Result<PathTable, StudyError> {
        self.of_rows("a path")?;
        let options = specification.options(self.len());
        options.check(self.len())?;
        let full = &self.full(listener)?.posterior;
        let _ = listener(Progress::Embedding);
        let held_out = HeldOut::new(&self.rows, full, options.seed);
        Ok(path(self.problem(), full, &held_out, Some(full), &options, &mut |info| {
            listener(Progress::Choosing { info, run: (1, 1), method: &options.method })
        })?)
    }

    fn laplace_seconds(&self) -> f64 {
        self.full.get().map_or(0.0, |full| full.seconds)
    }

    fn summary_of(
        &self,
        options: &BuildOptions,
        coreset: &Coreset,
        evaluation: &Evaluation,
        seconds: Seconds,
    ) -> Summary {
        Summary::of_build(&self.subject(), options, coreset, evaluation, seconds)
    }

    fn subject(&self) -> Subject<'_> {
        let Frame { source, names, features, dropped, fingerprint, .. } = &self.frame;
        let (n, model) = (self.len(), self.model());
        Subject {
            data: source,
            n,
            names,
            features: *features,
            model,
            dropped: *dropped,
            fingerprint: Some(fingerprint),
            groups: self.frame.groups.as_ref().map(Groups::len),
        }
    }
}
