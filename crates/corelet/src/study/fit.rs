//! `fit`: coresets of more and more points, each sampled and judged, until one is certified.

use std::cell::RefCell;
use std::sync::Arc;

use sparse_nnls::Method;

use super::{
    BuildSpecification, Chosen, Drawn, Listener, ModelSpecification, Progress, Specification, Study,
    StudyError, unheard,
};
use crate::coreset::{RestChoice, Selector};
use crate::data::{Columns, DesignOptions, Source};
use crate::engine::{Advice, Fitted, Interrupted, Pilot, Plan, Round, Sample, Scheme, TargetError, rounds};
use crate::model::BuiltIn;
use crate::posterior::{SampleError, SampleSettings};
use crate::trust::{Reason, Verdict};

/// The default number of points with which `fit` starts.
const FIRST_POINTS: usize = 300;

/// The default factor by which the number of points may grow.
const GROWTH: usize = 4;

/// The settings of a fit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FitSpecification {
    /// How points are chosen; it starts with `k` points, by default 300.
    pub build: BuildSpecification,
    /// The limit up to which `k` doubles; by default four times `k`.
    pub max_k: Option<usize>,
    /// The chains.
    pub sample: SampleSettings,
    /// The seed of the chains.
    pub seed: u64,
}

/// The result of a fit. If it was stopped before there were draws, it has the coreset so far.
#[non_exhaustive]
pub struct StudyFit {
    /// The coreset.
    pub chosen: Option<Chosen>,
    /// Its draws with the verdict; none if the fit was stopped before.
    pub drawn: Option<Drawn>,
    /// All rounds in order.
    pub rounds: Vec<Round>,
    /// Remarks that users should read.
    pub notes: Vec<String>,
}

impl StudyFit {
    /// The verdict on the draws; none if the fit was stopped before there were any.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.drawn.as_ref()?.verdict.as_ref()
    }
}

/// Fits a model to all rows of a source with a coreset, and certifies the draws, with default settings. It does what
/// `corelet fit FILE --target NAME --model MODEL` does. Use [`Study`] for other settings.
///
/// # Errors
/// See [`StudyError`].
pub fn fit(source: &Source<'_>, target: &str, model: BuiltIn) -> Result<StudyFit, StudyError> {
    let design = DesignOptions { columns: Columns::predicting(target), ..DesignOptions::default() };
    let model = ModelSpecification { model, ..ModelSpecification::default() };
    let asked = Specification { design, model, ..Specification::default() };
    Study::open(source, &asked)?.fit(&FitSpecification::default(), &mut unheard)
}

impl Study {
    /// Builds, samples and judges coresets of `k`, 2 `k`, … points, until one is certified, more points would not help, or no more
    /// are allowed. Returns the best of them. With `max_kl`, that target determines the number of points, once.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn fit(&self, asked: &FitSpecification, listener: &mut Listener<'_>) -> Result<StudyFit, StudyError> {
        asked.sample.check_for(self.problem().prior.dim())?;
        let units = self.units();
        let k = asked.build.k.unwrap_or(FIRST_POINTS.min(units));
        let growth = if asked.build.max_kl.is_some() { 1 } else { GROWTH };
        let max_k = asked.max_k.unwrap_or(growth * k);
        let plan = Plan {
            k,
            max_k: max_k.max(k),
            pilot: 2,
            max_rounds: usize::MAX,
            draws: None,
            seed: asked.seed,
            advice: Advice::Silent,
        };
        let listener = RefCell::new(listener);
        let rest = asked.build.rest;
        let mut known = Known { study: self, asked, plan, listener: &listener, last: None, rest };
        let step = &mut |step: &crate::engine::Step| (listener.borrow_mut())(Progress::Round(step));
        let fitted = rounds(&mut known, None, step);
        let last = known.last.take();
        match fitted {
            Ok(Fitted { best, rounds, notes, .. }) => {
                drop(last);
                // Nobody else has them any more.
                let (chosen, drawn) = (Arc::into_inner(best.coreset), Arc::into_inner(best.draws));
                Ok(StudyFit { chosen, drawn, rounds, notes })
            }
            Err(error) if error.is::<Interrupted>() => {
                let chosen = last.and_then(Arc::into_inner);
                Ok(StudyFit { chosen, drawn: None, rounds: Vec::new(), notes: Vec::new() })
            }
            Err(error) => Err(match error.downcast::<StudyError>() {
                Ok(error) => *error,
                Err(error) => StudyError::Fit(error),
            }),
        }
    }
}

/// A built-in model as a target of the engine: coresets from its embedding under the Laplace fit of all rows, chains by NUTS.
struct Known<'s, 'h, 'l> {
    study: &'s Study,
    asked: &'s FitSpecification,
    plan: Plan,
    listener: &'h RefCell<&'h mut Listener<'l>>,
    /// The last coreset built.
    last: Option<Arc<Chosen>>,
    /// Whether a Gaussian is to stand beside the rows.
    rest: RestChoice,
}

impl Scheme for Known<'_, '_, '_> {
    type Coreset = Arc<Chosen>;
    type Draws = Arc<Drawn>;
    type Seen = ();

    const BY_DRAWS: bool = false;

    fn units(&self) -> usize {
        self.study.units()
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn full_length(&self, _: usize) -> bool {
        true
    }

    fn pilot(&mut self, _: usize, _: usize) -> Result<Option<Pilot<Arc<Drawn>>>, TargetError> {
        Ok(None)
    }

    fn look(&mut self, _: &Arc<Drawn>, _: Option<&Arc<Chosen>>, _: usize) -> Result<(), TargetError> {
        Ok(())
    }

    fn build(&mut self, k: usize, _: Option<&()>) -> Result<Arc<Chosen>, TargetError> {
        // With `max_kl` and no number of points, their number is what is looked for.
        let k = if self.asked.build.max_kl.is_some() { self.asked.build.k } else { Some(k) };
        let asked = BuildSpecification { k, rest: self.rest, ..self.asked.build.clone() };
        let mut listener = self.listener.borrow_mut();
        let chosen = self.study.build(&asked, &mut **listener)?.ok_or(Interrupted)?;
        Ok(self.last.insert(Arc::new(chosen)).clone())
    }

    fn sample(
        &mut self,
        chosen: &Arc<Chosen>,
        _: Option<&Arc<Drawn>>,
        _: usize,
        _: bool,
    ) -> Result<Arc<Drawn>, TargetError> {
        let coreset = chosen.coreset();
        let weighted =
            self.study.weighted_with_rest(&coreset.rows, &chosen.weights, coreset.rest.as_ref())?;
        let mut listener = self.listener.borrow_mut();
        let FitSpecification { sample, seed, .. } = self.asked;
        match self.study.sample(Some(&weighted), sample, *seed, &mut **listener) {
            Err(StudyError::Sample(SampleError::Stopped)) => Err(Interrupted.into()),
            result => Ok(Arc::new(result?)),
        }
    }

    fn verdict(
        &mut self,
        chosen: &Arc<Chosen>,
        drawn: &Arc<Drawn>,
        (): &(),
        found: Vec<Reason>,
    ) -> Result<Verdict, TargetError> {
        self.final_verdict(chosen, drawn, found, 0)
    }

    fn final_verdict(
        &mut self,
        _: &Arc<Chosen>,
        drawn: &Arc<Drawn>,
        found: Vec<Reason>,
        _: usize,
    ) -> Result<Verdict, TargetError> {
        Ok(drawn.verdict.clone().ok_or("draws of all rows have no verdict")?.with(&found))
    }

    /// A Gaussian for all rows leaves no few rows with so much weight that their posterior has a place of its own.
    fn mended(&mut self, verdict: &Verdict) -> Option<&'static str> {
        let build = &self.asked.build;
        let of_rows = |reason: &Reason| matches!(reason, Reason::OwnTail | Reason::OwnMode);
        let groups = self.study.units() < self.study.problem().rows.len();
        let pursuit = matches!(build.method, Selector::Embedded(Method::Pursuit(_)));
        let suits = pursuit && build.max_kl.is_none() && !groups;
        if self.rest != RestChoice::Auto || !suits || !verdict.reasons.iter().any(of_rows) {
            return None;
        }
        self.rest = RestChoice::Gaussian;
        Some("the weighted rows have a place of their own: a Gaussian for all rows beside them")
    }

    fn points(chosen: &Arc<Chosen>) -> usize {
        let coreset = chosen.coreset();
        coreset.groups.unwrap_or(coreset.rows.len())
    }

    fn moved(new: &Arc<Drawn>, old: &Arc<Drawn>) -> (f64, f64) {
        let sample = |drawn: &Drawn| Sample::new(drawn.chains.theta(), drawn.chains.dim, 1, true, 0);
        sample(new).moved_from(&sample(old))
    }

    fn join(first: &Arc<Drawn>, _: &Arc<Drawn>) -> Arc<Drawn> {
        Arc::clone(first)
    }
}
