//! Building coresets of a study's rows, and judging them.

use std::sync::Arc;
use std::time::Instant;

use sparse_nnls::{Info, Status};

use super::{BuildSpecification, Listener, Progress, Study, StudyError, score};
use crate::coreset::{
    BuildOptions, Built, Coreset, PathTable, RestChoice, Selector, Start, WrittenWeights, build_in_rounds,
    build_of_all, build_of_groups, path, start_fit,
};
use crate::data::{Besides, Source};
use crate::embed::{Choice, Description, Embedding, embed};
use crate::posterior::{Gaussian, Laplace};
use crate::random::Stream;
use crate::rows::{Rest, Rows};
use crate::trust::{Evaluation, HeldOut, TestScores, evaluate_with_rest, residual_in};
use crate::words::{Judged, Seconds, Summary};

/// Number of draws of a Gaussian fit at which test rows are scored.
const TEST_DRAWS: usize = 1000;

/// A coreset and its evaluation.
pub struct Chosen {
    /// The π̂ of the first round.
    pub start: Gaussian,
    /// The best of all rounds.
    pub built: Built,
    /// Weights of its rows, as files store them.
    pub weights: WrittenWeights,
    /// Its divergence from the posterior of all rows.
    pub evaluation: Evaluation,
    /// The summary that is written and printed.
    pub summary: Summary,
}

impl Chosen {
    /// The coreset.
    pub fn coreset(&self) -> &Coreset {
        &self.built.coreset
    }
}

impl Study {
    /// The options of a build. With `collapse`, `k` is at most the number of distinct rows.
    fn options(&self, specification: &BuildSpecification) -> BuildOptions {
        let options = specification.options(self.units(), self.problem().prior.dim());
        match self.frame.lineage.collapsed {
            Some(_) => BuildOptions { k: options.k.min(self.len()), ..options },
            None => options,
        }
    }

    /// Whether all distinct rows may be chosen; the coreset is then the data themselves.
    fn all_fit(&self, options: &BuildOptions) -> bool {
        self.frame.lineage.collapsed.is_some() && options.max_kl.is_none() && options.k == self.len()
    }

    /// Builds in rounds, or once if groups of rows are chosen, and judges. None if the listener stopped it before there
    /// was a coreset.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn build(
        &self,
        specification: &BuildSpecification,
        listener: &mut Listener<'_>,
    ) -> Result<Option<Chosen>, StudyError> {
        let groups = self.problem().rows.groups();
        let options = self.options(specification);
        // Groups are chosen once, and all distinct rows are taken where they are few.
        let searched = groups.is_none() && !self.all_fit(&options);
        let searching = specification.searching();
        let options = if searched { self.options(&searching) } else { options };
        groups.map_or_else(|| options.check(self.len()), |groups| options.check_groups(groups.len()))?;
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
        let posterior = &start.posterior.rounded();
        let (problem, rounds) = (self.problem(), specification.rounds());
        let mut callback =
            |info: &Info| listener(Progress::Choosing { info, run: (1, 1), method: &options.method });
        let built = match groups {
            None if self.all_fit(&options) => build_of_all(problem.rows, &options),
            None => build_in_rounds(problem, posterior, &options, &rounds, &mut callback),
            Some(groups) => build_of_groups(problem.rows, groups, posterior, &options, &mut callback),
        }?;
        let build = clock.elapsed().as_secs_f64();
        let nothing = built.coreset.rows.is_empty() && built.coreset.rest.is_none();
        if built.coreset.status == Status::Stopped && nothing {
            return Ok(None);
        }
        let clock = Instant::now();
        let _ = listener(Progress::Evaluating);
        let evaluation = self.evaluate_built(full, posterior, &built, &options)?;
        let evaluate = clock.elapsed().as_secs_f64();
        let weights = self.written(&built.coreset.rows, &built.coreset.weights)?;
        let seconds = Seconds { read: self.read_seconds, laplace, build, evaluate };
        let summary =
            Summary::of_build(&self.subject(), &options, (&built.coreset, &weights), &evaluation, seconds);
        let in_memory = matches!(options.method, Selector::SparseVi(_)).then_some(built.coreset.passes);
        let summary = summary
            .with_rounds(specification.start, &built.rounds, built.chosen)
            .with_looks(self.rows.looks(), in_memory.unwrap_or_default());
        Ok(Some(Chosen { start: start.posterior.clone(), built, weights, evaluation, summary }))
    }

    /// Judges on held-out draws of the last π̂, unless the build has done so already. A coreset that was stopped is
    /// not delayed by the pass over the data that this takes.
    fn evaluate_built(
        &self,
        full: Option<&Laplace>,
        start: &Gaussian,
        built: &Built,
        options: &BuildOptions,
    ) -> Result<Evaluation, StudyError> {
        let Coreset { rows, weights, status, rest, .. } = &built.coreset;
        let estimate = match built.estimate {
            None if *status != Status::Stopped => {
                let held_out = self.held_out(built.posterior.as_ref().unwrap_or(start), options);
                Some(held_out.estimate_with_rest(rows, weights, rest.as_deref())?)
            }
            known => known,
        };
        Ok(evaluate_with_rest(self.problem(), full, estimate.as_ref(), (rows, weights), rest.as_ref())?)
    }

    /// The held-out draws, which no method uses.
    fn held_out(&self, posterior: &Gaussian, options: &BuildOptions) -> HeldOut<'_> {
        let count = options.rest.held_out_draws(self.rows.len(), posterior.dim());
        HeldOut::with_draws(&self.rows, posterior, options.seed, count)
    }

    /// Judges a given coreset; weights are in the form of [`weighted`](Study::weighted).
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn evaluate(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
        choice: Choice,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<Summary, StudyError> {
        self.evaluate_with_rest(observations, weights, None, (choice, seed), listener)
    }

    /// The same with the Gaussian factor of the coreset; its rows are then judged by held-out draws alone.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn evaluate_with_rest(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
        rest: Option<&Arc<Rest>>,
        (choice, seed): (Choice, u64),
        listener: &mut Listener<'_>,
    ) -> Result<Summary, StudyError> {
        if observations.is_empty() && rest.is_none() {
            return Err(StudyError::EmptyCoreset);
        }
        let full = self.full(listener)?;
        let clock = Instant::now();
        let _ = listener(Progress::Evaluating);
        let posterior = &full.posterior.rounded();
        let multiples = self.multiples(observations, weights)?;
        let by = BuildOptions {
            seed,
            rest: rest.map_or(RestChoice::None, |_| RestChoice::Gaussian),
            ..BuildOptions::default()
        };
        let own = match rest {
            Some(_) => self.own_posterior(observations, weights, rest)?,
            None => None,
        };
        let held_out = self.held_out(own.as_ref().unwrap_or(posterior), &by);
        let estimate = held_out.estimate_with_rest(observations, &multiples, rest.map(|rest| &**rest))?;
        let points = (observations, &multiples[..]);
        let evaluation = evaluate_with_rest(self.problem(), Some(full), Some(&estimate), points, rest)?;
        let (description, residual) = match rest {
            None => {
                let embedding = embed(&self.rows, posterior, choice, observations.len(), seed)?;
                (embedding.description().clone(), residual_in(&embedding, observations, &multiples)?)
            }
            Some(_) => {
                let description = Description { name: "gaussian".to_owned(), coordinates: 0, tail: 0.0 };
                (description, evaluation.heldout_residual.unwrap_or(f64::NAN))
            }
        };
        let (read, evaluate) = (self.read_seconds, clock.elapsed().as_secs_f64());
        let seconds = Seconds { read, laplace: self.laplace_seconds(), build: 0.0, evaluate };
        let judged = Judged { embedding: &description, residual, weights, seed };
        Ok(Summary::of_file(&self.subject(), &judged, &evaluation, seconds).with_rest(rest.is_some(), 0))
    }

    /// Scores test rows under the Gaussian fits of the coreset's posterior and of that of all rows, with the same random numbers.
    ///
    /// # Errors
    /// Names the column that differs from these data, and see [`StudyError`].
    pub fn test(
        &self,
        observations: &[usize],
        weights: &WrittenWeights,
        rest: Option<&Arc<Rest>>,
        test: &Source<'_>,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<TestScores, StudyError> {
        let rows = self.frame.encode(test, Besides::Target)?;
        let scored = |posterior: &Gaussian| {
            let shifts = posterior.shifts(TEST_DRAWS, seed, Stream::HeldOut);
            let draw = |s: usize| posterior.mean.iter().zip(shifts.row(s)).map(|(mean, shift)| mean + shift);
            let draws: Vec<f64> = (0..TEST_DRAWS).flat_map(draw).collect();
            score(&self.model, rows.clone(), &draws)
        };
        let own = self.own_posterior(observations, weights, rest)?;
        let full = scored(&self.full(listener)?.posterior)?;
        Ok(TestScores::new(test.name(), own.as_ref().map(scored).transpose()?, full))
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
        let options = self.options(specification);
        options.check(self.len())?;
        let full = &self.full(listener)?.posterior;
        let _ = listener(Progress::Embedding);
        let under = &full.rounded();
        Ok(path(self.problem(), under, Some(full), &options, &mut |info| {
            listener(Progress::Choosing { info, run: (1, 1), method: &options.method })
        })?)
    }
}
