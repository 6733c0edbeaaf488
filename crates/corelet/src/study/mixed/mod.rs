//! A mixed model from data to a certified posterior: groups of rows, of which a few with weights stand for all.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

mod factors;
#[cfg(feature = "files")]
mod kept;
mod marginal;
mod modes;
mod predict;

pub use factors::{Factors, KeptFactor, MOST_KEPT};
#[cfg(feature = "files")]
pub use kept::{KeptMixed, KnownGroups};
pub use marginal::{Marginal, MarginalKept};
pub use predict::{GroupPolicy, MixedPosterior, MixedPrediction, PredictedEffects};

use self::factors::{Assigned, check_groups};
use self::modes::{Starts, are_mixed};
use super::assign::some_of;
use super::{
    FitSpecification, Frame, Lineage, Listener, Parameters, Progress, Resolved, Specification, StudyError,
};
use crate::data::{DataError, Dataset, NamedGroups, Outcome};
use crate::engine::{
    Advice, Best, Fitted, Interrupted, Plan, PoolCoreset, Pooled, Round, Sample, Target, TargetError, Units,
    Wanted, rounds,
};
use crate::mixed::{
    EffectScale, FitStart, GroupEffects, GroupTarget, KeptPrior, MixedModel, MixedPrior, Quadrature,
    RandomEffects, SdPrior, random_effects,
};
use crate::model::mixed::{Mixed, MixedError, Nodes};
use crate::model::{Model, TargetScale};
use crate::posterior::{Chains, Gaussian, SampleProgress};
use crate::random::Stream;
use crate::rows::{All, Memory, Rows};
use crate::trust::policy::MOST_PARAMETERS;
use crate::trust::{Evidence, Reason, Verdict, judge};
use crate::words::{count, number};

/// The default number of groups with which `fit` starts.
const FIRST_GROUPS: usize = 50;
/// The default factor by which the number of groups may grow.
const GROWTH: usize = 4;
/// Rounds, at most.
const ROUNDS: usize = 8;
/// The standard deviation of random effects that is tried first, on the scale of the linear predictor.
const FIRST_SD: f64 = 0.5;
/// The default half-normal prior of a standard deviation, on that scale.
const SD_SCALE: f64 = 2.5;
/// Number of draws at which random effects are evaluated.
const EFFECT_DRAWS: usize = 200;

/// Data in groups, a model of them with random effects, and a prior.
pub struct MixedStudy {
    frame: Frame,
    resolved: Resolved,
    factors: Factors,
    scale: EffectScale,
    model: MixedModel,
    /// The labels of the groups.
    labels: Vec<String>,
    /// The observations, group by group.
    order: Vec<usize>,
    start: Starts,
    known: Vec<Reason>,
    warnings: Vec<String>,
    /// The requested number of nodes.
    nodes: Option<usize>,
    /// Seconds of reading.
    pub read_seconds: f64,
}

/// The result of a fit of a mixed model.
pub struct MixedFit {
    /// The chosen groups, ascending.
    pub groups: Vec<usize>,
    /// The weight of each: a factor of its integrated log-likelihood.
    pub weights: Vec<f64>,
    /// The judgement of their posterior on all groups.
    pub verdict: Verdict,
    /// Draws of (β, dispersions, log sds, artanh of the correlation), in the coordinates of the standardised features; resampled
    /// by importance weights where the verdict is a B for what the groups leave over.
    pub sample: Sample,
    /// Whether the draws were resampled.
    pub resampled: bool,
    /// The chains with their statistics, where they are these draws.
    pub chains: Option<Chains>,
    /// Every round in its order.
    pub rounds: Vec<Round>,
    /// Remarks that users should read.
    pub notes: Vec<String>,
    /// The rule of the quadrature.
    pub quadrature: Quadrature,
    /// The Gaussian fit of all groups.
    pub laplace: Gaussian,
    /// Seconds of that fit, and of all rounds.
    pub seconds: (f64, f64),
}

impl MixedStudy {
    /// Creates the specified model for a design. `source` names the data; `read_seconds` is the time that reading them took.
    ///
    /// # Errors
    /// If the data have no such random effects, or a number is not one the model can use.
    pub fn new(
        source: &str,
        dataset: Dataset,
        specification: &Specification,
        read_seconds: f64,
    ) -> Result<Self, StudyError> {
        let mut dataset = dataset;
        let random = specification.mixed.random.clone();
        let random =
            random.ok_or_else(|| StudyError::Random("no random effects are asked for".to_owned()))?;
        let model = specification.model.model;
        if matches!(model.outcome(), Outcome::Several | Outcome::None) {
            let why = "a random effect needs the one linear predictor of a row";
            return Err(MixedError::Model { model: model.name(), why }.into());
        }
        let columns = dataset.encoding.factors();
        if let Some(target) = dataset.target_name.as_ref().filter(|target| columns.contains(target)) {
            return Err(StudyError::Random(format!(
                "column '{target}' is the target, which cannot say of which group a row is; name another column"
            )));
        }
        let Assigned { factors, groups: NamedGroups { groups, names: labels }, levels } =
            Factors::assign(&random, columns, std::mem::take(&mut dataset.factors))?;
        let random = factors.integrated.clone();
        let observations = std::mem::take(&mut dataset.observations);
        let (target, fingerprint) = (TargetScale::of(&observations), observations.fingerprint());
        let (order, starts) = groups.into_order();
        let observations = match order.is_sorted() {
            true => observations,
            false => observations.reordered(&order).map_err(DataError::from)?,
        };
        let classes = specification.model.model.classes(&observations.target);
        let shape = (observations.dim, classes);
        let resolved =
            Resolved::scaled(&specification.model, shape, &target, dataset.standardisation.intercept);
        let rows = resolved.bind(observations)?;
        let fixed = FixedPart::new(&dataset, resolved, specification, &rows, &target)?;
        let scale = EffectScale::new(&random, &dataset.names, &dataset.standardisation)
            .map_err(StudyError::Random)?;
        let mut warnings = std::mem::take(&mut dataset.warnings);
        if dataset.dropped > 0 {
            let (dropped, all) = (count(dataset.dropped), count(dataset.rows.total()));
            warnings.insert(0, format!("{dropped} of {all} rows have missing values and were left out"));
        }
        let mixed =
            Mixed::new(&*rows, scale.effects.clone(), starts)?.with_kept(factors.levels_in(&order, &levels));
        check_groups(&mixed, &random, specification.model.model)?;
        let predictor =
            if specification.model.model.is_scaled_by_target() { target.sd.max(1e-300) } else { 1.0 };
        let default = SdPrior::HalfNormal { scale: SD_SCALE * predictor };
        let sd_prior = specification.mixed.sd_prior.unwrap_or(default);
        let kept = mixed.kept().iter().map(|kept| KeptPrior { sd: sd_prior, powers: kept.powers.clone() });
        let prior = MixedPrior {
            fixed: fixed.resolved.prior()?,
            sds: vec![sd_prior; random.len()],
            lkj: random.has_correlation().then(|| specification.mixed.lkj.unwrap_or(1.0)),
            kept: kept.collect(),
        };
        let looked_for = mixed.may_have_modes() && prior.dim() <= MOST_PARAMETERS;
        let start = Starts::new(&rows, &prior, predictor, &mixed.kept_starts(), looked_for)?;
        let frame = fixed.frame(source, dataset, fingerprint);
        Ok(Self {
            model: MixedModel { nodes: Nodes::new(1, random.len()), mixed, prior },
            nodes: specification.mixed.nodes,
            labels,
            resolved: fixed.resolved,
            known: fixed.known,
            frame,
            factors,
            scale,
            order,
            start,
            warnings,
            read_seconds,
        })
    }

    /// How the rows were encoded; the names are those of the coefficients and of the other parameters of the likelihood.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The likelihood of a row, with the priors of its parameters.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The random effects that are integrated out.
    pub fn random(&self) -> &RandomEffects {
        &self.factors.integrated
    }

    /// All random effects.
    pub fn factors(&self) -> &Factors {
        &self.factors
    }

    /// Warnings about data and model.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.model.mixed.groups()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.model.mixed.observations().len()
    }

    /// The labels of the groups, in their order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Number of rows in a group.
    pub fn rows_in(&self, group: usize) -> usize {
        self.model.mixed.rows_of(group).len()
    }

    /// The rows of the data that are in a group, ascending.
    pub fn rows_of(&self, group: usize) -> Vec<usize> {
        self.frame.rows_of(&self.order[self.model.mixed.rows_of(group)])
    }

    /// The name of each parameter on the scale of the data: coefficients, dispersions, standard deviations, the correlation, and for
    /// factors that are kept their standard deviations and then their effects.
    pub fn names(&self) -> Vec<String> {
        [&self.frame.names[..], &self.random().names(), &self.factors.kept_names()].concat()
    }

    /// A draw on the scale of the data.
    pub fn to_original(&self, theta: &[f64]) -> Vec<f64> {
        let (fixed, covariance) = theta.split_at(self.model.mixed.fixed());
        let fixed = self.resolved.to_original(&self.frame.standardisation, fixed);
        let (mut sds, mut effects) = (Vec::new(), Vec::new());
        for (kept, at) in self.model.mixed.kept().iter().zip(self.model.mixed.kept_starts()) {
            sds.push(theta[at].exp());
            effects.extend(kept.effects(&theta[at..]));
        }
        [fixed, self.scale.covariance(covariance), sds, effects].concat()
    }

    /// The priors, a line each.
    pub fn prior_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.resolved.said.iter().map(|prior| prior.line()).collect();
        let names = self.random().names();
        for (at, prior) in self.model.prior.sds.iter().enumerate() {
            let unit = if self.scale.effects.terms.get(at) == Some(&crate::model::mixed::Term::Intercept) {
                ""
            } else {
                " for one standard deviation of the feature"
            };
            lines.push(format!("{} ~ {}{unit}", names[at], prior.worded(number)));
        }
        if let (Some(eta), Some(name)) = (self.model.prior.lkj, names.last()) {
            lines.push(format!("{name} ~ lkj({})", number(eta)));
        }
        for (kept, prior) in self.factors.kept.iter().zip(&self.model.prior.kept) {
            let sd = kept.effects.names().concat();
            lines.push(format!("{sd} ~ {}", prior.sd.worded(number)));
            lines.push(format!("1|{}[…] ~ normal(0, {sd})", kept.effects.group));
        }
        lines
    }

    /// Chooses groups with weights, samples their posterior and judges it on all groups; more of them until it is certified.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn fit(
        &mut self,
        asked: &FitSpecification,
        listener: &mut Listener<'_>,
    ) -> Result<Option<MixedFit>, StudyError> {
        asked.sample.check()?;
        let clock = Instant::now();
        let _ = listener(Progress::Fitting);
        let Starts { first, others, predictor } = &self.start;
        let start = FitStart { first, others, spread: *predictor };
        let fitted = self.model.fit(start, self.nodes, asked.seed);
        let (modes, quadrature) = fitted.map_err(crate::posterior::LaplaceError::from)?;
        let laplace = modes[0].fit.clone();
        let fitted = clock.elapsed().as_secs_f64();
        if listener(Progress::Fitting).is_break() {
            return Ok(None);
        }
        let found = match self.rounds(asked, &laplace, &Shared(Mutex::new(listener))) {
            Ok(found) => found,
            Err(error) if error.is::<Interrupted>() => return Ok(None),
            Err(error) => return Err(StudyError::Fit(error)),
        };
        let mut known = self.known.clone();
        known.extend(quadrature.against());
        let Found { groups, weights, verdict, draws, chains, rounds, mut notes } = found;
        notes.extend(self.other_modes(&modes));
        if modes.len() > 1 && !are_mixed(&modes, &draws) {
            known.push(Reason::SecondMode);
        }
        let verdict = self.explained(verdict.named(&self.names()).with(&known), &groups, &draws);
        let resampled = verdict.is_reweighted();
        let sample = match resampled {
            true => draws.thinned(verdict.draws).resampled(&verdict.log_weights),
            false => draws,
        };
        let chains = chains.filter(|chains| chains.theta() == sample.draws.theta);
        let seconds = (fitted, clock.elapsed().as_secs_f64() - fitted);
        Ok(Some(MixedFit {
            groups,
            weights,
            verdict,
            sample,
            resampled,
            chains,
            rounds,
            notes,
            quadrature,
            laplace,
            seconds,
        }))
    }

    fn rounds(
        &self,
        asked: &FitSpecification,
        laplace: &Gaussian,
        listener: &Shared<'_, '_>,
    ) -> Result<Found, TargetError> {
        let all = self.groups();
        let k = asked.build.k.unwrap_or(FIRST_GROUPS);
        let mut of_chains = |progress: &SampleProgress| listener.hear(Progress::Sampling(progress));
        let target =
            GroupTarget::new(&self.model, asked.sample, asked.seed, laplace.mean.clone(), &mut of_chains);
        if k >= all {
            return self.all_groups(&target);
        }
        let max_k = asked.max_k.unwrap_or(GROWTH * k).max(k).min(all);
        let plan = Plan {
            k,
            max_k,
            pilot: 2,
            max_rounds: ROUNDS,
            draws: None,
            seed: asked.seed,
            advice: Advice::Silent,
        };
        let draws = plan.draws_at(k, laplace.dim());
        let shifts = laplace.shifts(draws, asked.seed, Stream::Build);
        let theta =
            (0..draws).flat_map(|s| shifts.row(s).iter().zip(&laplace.mean).map(|(d, m)| d + m)).collect();
        let given = Sample::new(theta, laplace.dim(), 1, false, 0);
        let mut scheme = Pooled::new(&target, Units::of_rows(all), plan);
        let Fitted { best, rounds, notes, .. } =
            rounds(&mut scheme, Some(given), &mut |step| listener.hear(Progress::Round(step)))?;
        let Best { coreset, draws, verdict, .. } = best;
        let PoolCoreset { units: groups, weights, .. } = coreset;
        Ok(Found { groups, weights, verdict, draws, chains: target.last_chains(), rounds, notes })
    }

    /// The posterior of all groups, where they are no more than are to be chosen: there is nothing to judge but the chains.
    fn all_groups(&self, target: &GroupTarget<'_, '_>) -> Result<Found, TargetError> {
        let (groups, weights): (Vec<usize>, Vec<f64>) = (0..self.groups()).map(|group| (group, 1.0)).unzip();
        let draws = target.sample(&groups, &weights, None, Wanted::Final { draws: 0 })?;
        let scores = target.scores(&groups, &weights, &draws, 1000)?;
        let evidence = Evidence {
            errors: vec![0.0; draws.len()],
            scores,
            diverged: draws.diverged,
            ..Evidence::of(&draws.draws)
        };
        let verdict = judge(evidence)?;
        let notes = vec![format!(
            "all {} groups were sampled: there are no more of them than were to be chosen",
            count(groups.len())
        )];
        Ok(Found { groups, weights, verdict, draws, chains: target.last_chains(), rounds: Vec::new(), notes })
    }

    /// The inputs of predictions from a fit: its draws, and the groups that it knows.
    pub fn posterior(&self, fit: &MixedFit) -> MixedPosterior<'_> {
        let labels = self.labels.iter().cloned().zip(0..).collect();
        let parts = (&self.resolved, &self.factors, &self.model.mixed);
        MixedPosterior::new(parts, (self.model.nodes.per_effect, true), labels, &fit.sample)
    }

    /// The random effects of some groups on the scale of the data, in the order of [`RandomEffects::terms`].
    pub fn random_effects(&self, fit: &MixedFit, groups: std::ops::Range<usize>) -> Vec<GroupEffects> {
        let draws = fit.sample.thinned(EFFECT_DRAWS);
        random_effects(&self.model, &self.scale, &draws.draws.theta, groups)
    }

    /// The fit in words, one line each.
    pub fn lines(&self, fit: &MixedFit) -> Vec<String> {
        let rows: usize = fit.groups.iter().map(|&group| self.rows_in(group)).sum();
        let mut lines = vec![format!(
            "{} of {} groups ({} of {} rows) stand for all; their weights are factors of whole groups, with the random effects \
             integrated out, and no weights of rows",
            count(fit.groups.len()),
            count(self.groups()),
            count(rows),
            count(self.rows())
        )];
        lines.push(format!("  random effects {}", self.factors.worded()));
        for KeptFactor { effects, labels } in &self.factors.kept {
            lines.push(format!(
                "                 the effects of {} levels of '{}' are parameters; those of '{}' are integrated out",
                count(labels.len()),
                effects.group,
                self.random().group
            ));
        }
        let Quadrature { nodes, compared_with, groups, bias, .. } = fit.quadrature;
        let rule = |nodes: usize| {
            if self.random().len() > 1 { format!("{nodes} × {nodes}") } else { nodes.to_string() }
        };
        lines.push(if groups == 0 {
            "  integration    exact: the integrand is Gaussian".to_owned()
        } else {
            format!(
                "  integration    {} nodes about the mode of each group; {} nodes, on {} groups, would move the posterior by at \
                 most {} sd",
                rule(nodes),
                rule(compared_with),
                count(groups),
                number(bias)
            )
        });
        let priors = self.prior_lines().into_iter().enumerate();
        lines.extend(priors.map(|(i, line)| format!("  {:<15}{line}", if i == 0 { "prior" } else { "" })));
        lines
    }
}

/// What the rounds came to.
struct Found {
    groups: Vec<usize>,
    weights: Vec<f64>,
    verdict: Verdict,
    draws: Sample,
    /// The chains that were run last, which are these draws where no others were run after them.
    chains: Option<Chains>,
    rounds: Vec<Round>,
    notes: Vec<String>,
}

/// The listener of a study, for chains and for the steps between them, which call it one at a time.
struct Shared<'h, 'l>(Mutex<&'h mut Listener<'l>>);

impl Shared<'_, '_> {
    fn hear(&self, progress: Progress<'_>) -> ControlFlow<()> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(progress)
    }
}

/// The likelihood of a row with its priors, and what is said of the data.
struct FixedPart {
    resolved: Resolved,
    names: Vec<String>,
    features: usize,
    classes: Vec<String>,
    known: Vec<Reason>,
}

impl FixedPart {
    fn new(
        dataset: &Dataset,
        resolved: Resolved,
        specification: &Specification,
        rows: &Arc<dyn Model>,
        target: &TargetScale,
    ) -> Result<Self, StudyError> {
        let priors = specification.model.named_priors();
        let classes = dataset.encoding.classes();
        let names = resolved.names(&dataset.names, &classes);
        let memory = Memory::new(Arc::clone(rows));
        let some_rows = if priors.ask_auto() { Some(memory.fetch(&some_of(memory.len()))?) } else { None };
        let parameters = Parameters {
            names: &names,
            coefficients: resolved.coefficients(),
            standardisation: &dataset.standardisation,
            some_rows,
            are_points: false,
        };
        let resolved = resolved.with_priors(&priors, &parameters, target)?.with_spreads(&All(&memory))?;
        let known = resolved.tight_prior(target).map(|_| Reason::TightPrior).into_iter().collect();
        Ok(Self { resolved, names, features: dataset.names.len(), classes, known })
    }

    fn frame(&self, source: &str, dataset: Dataset, fingerprint: String) -> Frame {
        Frame {
            source: source.to_owned(),
            names: self.names.clone(),
            features: self.features,
            rows: dataset.rows,
            lineage: Lineage { dropped: dataset.dropped, ..Lineage::default() },
            levels: dataset.levels,
            standardisation: dataset.standardisation,
            target: dataset.target_name,
            fingerprint,
            marks: None,
            classes: self.classes.clone(),
            encoding: dataset.encoding,
        }
    }
}
