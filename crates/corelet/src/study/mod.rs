//! The pipeline: one object that opens data, builds, evaluates, samples, judges, and compares.
//!
//! A front end turns flags or keywords into a [`Specification`], receives [`Progress`], and formats the results.

mod assign;
#[cfg(feature = "sampling")]
mod blocks;
mod build;
#[cfg(feature = "sampling")]
mod certify;
mod compare;
#[cfg(feature = "sampling")]
mod drawn;
mod error;
#[cfg(feature = "sampling")]
mod evidence;
mod expect;
#[cfg(feature = "sampling")]
mod fit;
mod frame;
mod full;
mod given;
#[cfg(feature = "sampling")]
mod k_fold;
#[cfg(feature = "sampling")]
mod kept;
mod leverage;
mod log_likelihoods;
mod loose;
#[cfg(feature = "sampling")]
mod mixed;
mod modes;
mod predict;
mod priors;
#[cfg(feature = "sampling")]
mod repeats;
mod resolved;
#[cfg(feature = "sampling")]
mod review;
mod specification;
#[cfg(feature = "sampling")]
mod tails;
#[cfg(feature = "sampling")]
mod update;
mod weights;

pub use assign::{Parameters, PriorError};
#[cfg(feature = "sampling")]
pub use blocks::{Block, Blocks, Part};
pub use build::Chosen;
pub use compare::{Cell, Comparison};
#[cfg(feature = "sampling")]
pub use drawn::{Drawn, sample_kept, sample_kept_with_rest};
pub use error::StudyError;
pub use expect::design_of;
#[cfg(feature = "sampling")]
pub use fit::{FitSpecification, StudyFit, fit};
pub use frame::{Frame, Lineage, REST, rest_metadata};
pub use given::{GivenDraws, LOG_DENSITY};
#[cfg(feature = "sampling")]
pub use k_fold::{Fold, KFold, KFoldSettings};
#[cfg(feature = "sampling")]
pub use kept::KeptCoreset;
#[cfg(all(feature = "sampling", feature = "files"))]
pub use kept::rest_of;
pub use leverage::Leverages;
pub use log_likelihoods::{ChosenData, LogLikelihoodStudy, PooledLogLikelihoods};
#[cfg(feature = "sampling")]
pub(crate) use log_likelihoods::{all_of_them, gaussian_alone};
#[cfg(feature = "sampling")]
pub use mixed::{
    Factors, GroupPolicy, KeptFactor, MOST_KEPT, Marginal, MarginalKept, MixedFit, MixedPosterior,
    MixedPrediction, MixedStudy, PredictedEffects,
};
#[cfg(all(feature = "sampling", feature = "files"))]
pub use mixed::{KeptMixed, KnownGroups};
pub use predict::{
    PredictedKind, Prediction, PredictionSettings, predict, predict_from, predictive_draws, score,
};
pub use priors::{AskedPrior, PriorScale, Priors};
pub use resolved::Resolved;
#[cfg(feature = "sampling")]
pub use review::ReviewSettings;
pub use specification::{BuildSpecification, ModelSpecification, Specification, UsageError};
#[cfg(feature = "sampling")]
pub use update::{UpdateSpecification, Updated};

use self::assign::some_of;
use self::full::Full;
use self::loose::loose_levels;

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::Instant;

use sparse_nnls::Info;

use crate::cluster::{Carrier, Distributed, Reviewed, distribute};
use crate::coreset::BuildError;
use crate::data::{Dataset, Outcome, Reading, Source, WeightScale};
use crate::model::TargetScale;
use crate::posterior::{LaplaceStatus, Prior, SampleProgress};
use crate::rows::{All, Counted, Grouped, Marks, Memory, Problem, Rows};
use crate::trust::Reason;
use crate::words::{Subject, count, number};

/// A fit counts as converged if its mode is known to this many posterior standard deviations.
const CLOSE_ENOUGH: f64 = 1e-4;

const SEPARATED: &str =
    "the features separate the classes perfectly, so that only the prior keeps the coefficients finite";

const OTHER_DATA: &str = "the coreset was built on other observations: other rows, other columns, or the same ones encoded \
                          otherwise";

const OTHER_PRIORS: &str =
    "the coreset was built under other priors; what is said of it here is said under these";

const ITS_PRIORS: &str = "no priors are given, and the default ones are not those that the coreset was built under: its own are taken";

/// The current step of a study.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// Fitting the posterior of all rows, or of the start.
    Fitting,
    /// Making the embedding.
    Embedding,
    /// Choosing points; in a comparison, the number of the run.
    Choosing {
        /// Progress of the method.
        info: &'a Info,
        /// The run, from 1, and the number of runs.
        run: (usize, usize),
        /// The method that chooses the points.
        method: &'a crate::coreset::Selector,
    },
    /// Judging on held-out draws.
    Evaluating,
    /// Running chains.
    Sampling(&'a SampleProgress),
    /// Evaluating the draws on all rows.
    Judging,
    /// Evaluating all rows at one draw after the other.
    Asking {
        /// Draws so far.
        done: usize,
        /// Total number of draws.
        total: usize,
    },
    /// Reading all rows, one block at a time.
    Looking {
        /// Rows so far.
        done: usize,
        /// Total number of rows.
        total: usize,
    },
    /// The state of a fit in rounds.
    Round(&'a crate::engine::Step),
}

/// A callback that receives progress and decides whether to continue.
pub type Listener<'l> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + Send + 'l;

/// Data, a model and a prior: the entry point to builds, samples and verdicts.
pub struct Study {
    frame: Frame,
    model: Resolved,
    rows: Counted,
    prior: Prior,
    /// Whether the user chose the priors.
    priors_given: bool,
    /// The scale of a numeric target.
    target: TargetScale,
    /// The mean weight of a row, if rows have weights.
    weight: Option<f64>,
    /// Preconditions that cap the grade at B, known before any draw.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what it forbids is a grade of draws"))]
    known: Vec<Reason>,
    warnings: Vec<String>,
    read_seconds: f64,
    full: OnceLock<Full>,
    /// Number of leading rows that represent others; outcomes are not sampled from them.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "updates sample"))]
    stand_ins: usize,
    /// The partitions that hold the rows, for reviews.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "reviews are of draws"))]
    elsewhere: Option<Reviewed>,
}

/// Rows under the requested model, wherever they are stored.
struct Asked {
    model: Resolved,
    priors: Priors,
    priors_given: bool,
    target: TargetScale,
    fingerprint: String,
    marks: Option<Marks>,
    weight: Option<f64>,
    collapsed: Option<usize>,
    rows: Box<dyn Rows>,
}

/// A listener that ignores all progress and never stops anything.
pub fn unheard(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

impl Study {
    /// Reads the specified columns of a source, and creates the model.
    ///
    /// # Errors
    /// Names the file, the column and the row.
    pub fn open(source: &Source<'_>, specification: &Specification) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let go_on = &mut |_: &Reading| ControlFlow::Continue(());
        let dataset = source.design_watched(&specification.design(), &specification.storage, go_on)?;
        Self::new(source.name(), dataset, specification, clock.elapsed().as_secs_f64())
    }

    /// Creates the specified model for a design. `source` names the data, and `read_seconds` is the time that reading them took.
    ///
    /// # Errors
    /// If a number is not valid for the model.
    pub fn new(
        source: &str,
        dataset: Dataset,
        specification: &Specification,
        read_seconds: f64,
    ) -> Result<Self, StudyError> {
        let mut dataset = dataset;
        let mut observations = std::mem::take(&mut dataset.observations);
        let target = TargetScale::of(&observations);
        let (fingerprint, marks) = observations.identity();
        // Of a design that is taken over, these rows may lack some.
        let classes = specification.model.model.classes(&observations.target);
        let classes = classes.max(dataset.encoding.classes().len());
        let shape = (observations.dim, classes);
        let priors = specification.model.named_priors();
        let model = Resolved::scaled(&specification.model, shape, &target, dataset.standardisation.intercept);
        let weighed = WeightScale::of(&observations);
        dataset.warnings.extend(weights::unlike_counts(weighed, observations.len()));
        let collapsed = specification.design.collapse.then_some(observations.len());
        if let Some((distinct, first)) = collapsed.and_then(|_| observations.collapsed()) {
            (observations, dataset.rows) = (distinct, dataset.rows.select(&first));
        }
        let each = observations.total_weight() / observations.len().max(1) as f64;
        let weight = observations.weights.as_ref().map(|_| each);
        let groups = dataset.groups.take();
        let rows = Box::new(Memory::new(model.bind(observations)?).with_groups(groups));
        let priors_given = specification.model.gives_priors();
        let marks = Some(marks);
        let held = Asked { model, priors, priors_given, target, fingerprint, marks, weight, collapsed, rows };
        Self::assembled(source, dataset, held, read_seconds)
    }

    /// Has partitions with the columns of `schema` encode their rows where they are, and creates the model of these rows.
    ///
    /// # Errors
    /// Names the partition, the column and the row.
    pub fn of_partitions(
        schema: &Source<'_>,
        specification: &Specification,
        carrier: Box<dyn Carrier>,
    ) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let (design, asked) = (specification.design(), &specification.model);
        let likelihood = (asked.model, asked.numbers());
        let distributed = distribute(schema, (&design, &specification.storage), likelihood, carrier)?;
        let Distributed { mut dataset, rows, target, weights: weighed } = distributed;
        let partitions = rows.first_rows().to_vec();
        dataset.warnings.extend(weights::unlike_counts(weighed, rows.len()));
        let (shape, fingerprint) =
            ((dataset.names.len(), dataset.encoding.classes().len()), rows.fingerprint());
        let model = Resolved::scaled(asked, shape, &target, dataset.standardisation.intercept);
        let priors = asked.named_priors();
        let collapsed = design.collapse.then_some(rows.len());
        let elsewhere = collapsed.is_none().then(|| rows.reviewed());
        let (rows, weight): (Box<dyn Rows>, _) = match collapsed {
            None => (Box::new(rows), weighed.map(|weighed| weighed.total / dataset.rows.len() as f64)),
            Some(all) => {
                let (mut distinct, first) = rows.distinct()?;
                distinct.weights = distinct.weights.filter(|_| weighed.is_some() || first.len() < all);
                dataset.rows = dataset.rows.select(&first);
                let each = distinct.total_weight() / distinct.len().max(1) as f64;
                let weight = distinct.weights.as_ref().map(|_| each);
                (Box::new(Memory::new(model.bind(distinct)?)), weight)
            }
        };
        let priors_given = asked.gives_priors();
        let marks = None;
        let held = Asked { model, priors, priors_given, target, fingerprint, marks, weight, collapsed, rows };
        let mut study = Self::assembled(schema.name(), dataset, held, clock.elapsed().as_secs_f64())?;
        study.frame.lineage.partitions = partitions;
        study.elsewhere = elsewhere;
        Ok(study)
    }

    /// A study of rows that may be stored anywhere.
    fn assembled(
        source: &str,
        dataset: Dataset,
        Asked { model, priors, priors_given, target, fingerprint, marks, weight, collapsed, rows: held }: Asked,
        read_seconds: f64,
    ) -> Result<Self, StudyError> {
        let Dataset {
            names,
            rows,
            levels,
            standardisation,
            dropped,
            mut warnings,
            target_name,
            encoding,
            ..
        } = dataset;
        let classes = encoding.classes();
        if dropped > 0 {
            let (dropped, all) = (count(dropped), count(rows.total()));
            warnings.insert(0, format!("{dropped} of {all} rows have missing values and were left out"));
        }
        let features = names.len();
        let names = model.names(&names, &classes);
        let some_rows = if priors.ask_auto() { Some(held.fetch(&some_of(held.len()))?) } else { None };
        let parameters = Parameters {
            names: &names,
            coefficients: model.coefficients(),
            standardisation: &standardisation,
            some_rows,
            are_points: model.model.outcome() == Outcome::None,
        };
        let model = model.with_priors(&priors, &parameters, &target)?.with_spreads(&All(&*held))?;
        let prior = model.prior()?;
        let source = source.to_owned();
        let frame = Frame {
            source,
            names,
            features,
            rows,
            lineage: Lineage { dropped, collapsed, partitions: Vec::new() },
            levels,
            standardisation,
            target: target_name,
            fingerprint,
            marks,
            classes,
            encoding,
        };
        let (rows, known, full) = (Counted::new(held), Vec::new(), OnceLock::new());
        let mut study = Self {
            frame,
            model,
            rows,
            prior,
            priors_given,
            target,
            weight,
            known,
            warnings,
            read_seconds,
            full,
            stand_ins: 0,
            elsewhere: None,
        };
        study.judge_prior();
        Ok(study)
    }

    /// Reports a prior that pulls coefficients away from the data; the grade is then at most a B.
    fn judge_prior(&mut self) {
        if let Some(warning) = self.model.tight_prior(&self.target) {
            self.known.push(Reason::TightPrior);
            self.warnings.push(warning);
        }
    }

    /// How the rows were encoded.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Number of usable rows, n; with `collapse`, equal rows count once.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of usable rows before equal rows are merged.
    pub fn all_rows(&self) -> usize {
        self.frame.lineage.collapsed.unwrap_or(self.len())
    }

    /// The candidates: groups of rows if there are groups, else rows.
    fn units(&self) -> usize {
        self.rows.groups().map_or(self.len(), Grouped::len)
    }

    /// Refuses a study without groups.
    fn of_rows(&self, what: &'static str) -> Result<(), BuildError> {
        self.rows.groups().map_or(Ok(()), |_| Err(BuildError::RowsOnly { what }))
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The name of the likelihood.
    pub fn model(&self) -> &'static str {
        self.rows.name()
    }

    /// The model, with omitted settings replaced by estimates from the data.
    pub fn resolved(&self) -> &Resolved {
        &self.model
    }

    /// The posterior of all rows.
    pub fn problem(&self) -> Problem<'_> {
        let of_best = self.full.get().and_then(|full| full.prior.as_ref());
        Problem { rows: &self.rows, prior: of_best.unwrap_or(&self.prior) }
    }

    /// Warnings about data, model and fit.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let Some(Full { fit, separated, .. }) = self.full.get() else { return warnings };
        warnings.extend(self.other_modes());
        if *separated {
            warnings.push(SEPARATED.to_owned());
        }
        warnings.extend(loose_levels(&self.frame, &self.model, &fit.posterior));
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

    /// Parameters on the original scale of the data; those that belong to no feature do not change.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        self.model.to_original(&self.frame.standardisation, theta)
    }

    /// The inverse: standardised parameters from those on the original scale.
    pub fn to_standardised(&self, original: &[f64]) -> Vec<f64> {
        self.model.to_standardised(&self.frame.standardisation, original)
    }

    fn subject(&self) -> Subject<'_> {
        let Frame { source, names, features, lineage, fingerprint, classes, .. } = &self.frame;
        let (n, model) = (self.all_rows(), self.model());
        Subject {
            data: source,
            n,
            distinct: lineage.collapsed.map(|_| self.len()),
            names,
            features: *features,
            model,
            priors: &self.model.said,
            dropped: lineage.dropped,
            fingerprint: Some(fingerprint),
            groups: self.rows.groups().map(Grouped::len),
            classes,
        }
    }
}
