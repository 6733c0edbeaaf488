//! The pipeline: one object that opens data, builds, evaluates, samples, judges, and compares.
//!
//! A front end turns flags or keywords into a [`Specification`], hears of [`Progress`], and words what comes back.

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

/// A fit whose mode is known to this many posterior standard deviations is as good as converged.
const CLOSE_ENOUGH: f64 = 1e-4;

const SEPARATED: &str =
    "the features separate the classes perfectly, so that only the prior keeps the coefficients finite";

const OTHER_DATA: &str = "the coreset was built on other observations: other rows, other columns, or the same ones encoded \
                          otherwise";

const OTHER_PRIORS: &str =
    "the coreset was built under other priors; what is said of it here is said under these";

const ITS_PRIORS: &str = "no priors are given, and the default ones are not those that the coreset was built under: its own are taken";

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
    /// Asking all rows at one draw after the other.
    Asking {
        /// Draws so far.
        done: usize,
        /// Draws in all.
        total: usize,
    },
    /// Looking at all rows, a block at a time.
    Looking {
        /// Rows so far.
        done: usize,
        /// Rows in all.
        total: usize,
    },
    /// Where a fit in rounds stands.
    Round(&'a crate::engine::Step),
}

/// Hears how it goes, and says whether to go on.
pub type Listener<'l> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + Send + 'l;

/// Data, a model of them and a prior, ready to be asked.
pub struct Study {
    frame: Frame,
    model: Resolved,
    rows: Counted,
    prior: Prior,
    /// Whether somebody has said which priors are meant.
    priors_given: bool,
    /// The scale of a numeric target.
    target: TargetScale,
    /// The mean weight of a row, where rows have weights.
    weight: Option<f64>,
    /// Reasons, known before any draw is made, for which the grade is at most a B.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "what it forbids is a grade of draws"))]
    known: Vec<Reason>,
    warnings: Vec<String>,
    read_seconds: f64,
    full: OnceLock<Full>,
    /// So many rows in front stand for others: no sample of outcomes.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "updates sample"))]
    stand_ins: usize,
    /// Where rows are in partitions, which a review asks.
    #[cfg_attr(not(feature = "sampling"), allow(dead_code, reason = "reviews are of draws"))]
    elsewhere: Option<Reviewed>,
}

/// Rows, wherever they are, under the model that is asked for.
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
        let go_on = &mut |_: &Reading| ControlFlow::Continue(());
        let dataset = source.design_watched(&specification.design(), &specification.storage, go_on)?;
        Self::new(source.name(), dataset, specification, clock.elapsed().as_secs_f64())
    }

    /// Makes the model that is asked for of a design. `source` names the data; reading them took so long.
    ///
    /// # Errors
    /// Where a number is not one the model can use.
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

    /// Has partitions with the columns of `schema` make their rows where they are, and makes the model of these.
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

    /// Of rows that may be anywhere.
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

    /// A prior that holds coefficients away from the data is reported, and the grade is then at most a B.
    fn judge_prior(&mut self) {
        if let Some(warning) = self.model.tight_prior(&self.target) {
            self.known.push(Reason::TightPrior);
            self.warnings.push(warning);
        }
    }

    /// What the rows were made of.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Number of usable rows, n, of which equal ones count once where they are taken as one.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of usable rows, each for itself.
    pub fn all_rows(&self) -> usize {
        self.frame.lineage.collapsed.unwrap_or(self.len())
    }

    /// What is chosen from: groups of rows where there are any, else rows.
    fn units(&self) -> usize {
        self.rows.groups().map_or(self.len(), Grouped::len)
    }

    /// Refuses what is not made of groups.
    fn of_rows(&self, what: &'static str) -> Result<(), BuildError> {
        self.rows.groups().map_or(Ok(()), |_| Err(BuildError::RowsOnly { what }))
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
        let of_best = self.full.get().and_then(|full| full.prior.as_ref());
        Problem { rows: &self.rows, prior: of_best.unwrap_or(&self.prior) }
    }

    /// What the user should know about data, model and fit.
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

    /// Parameters on the original scale of the data; those that belong to no feature stay as they are.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        self.model.to_original(&self.frame.standardisation, theta)
    }

    /// The way back, from parameters on the original scale.
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
