//! What all rows say of draws of their posterior, in one pass: leave-one-out, influence, and whether outcomes are as predicted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::predict::Draws as At;
use super::{GivenDraws, Listener, Progress, Study, StudyError};
use crate::data::Outcome;
use crate::model::{BuiltIn, Model, Predictive, Shifts};
use crate::parallel;
use crate::posterior::SampleError;
use crate::random::Stream;
use crate::review::{Asked, By, CheckedRow, Checks, Outcomes, Review, Reviewer, Row};
use crate::rows::{Observations, Rows, RowsError};
use crate::trust::Draws;
use rand::RngExt;

/// Rows whose log-likelihoods are held at once by one thread.
const TILE: usize = 32;

/// Rows that are fetched at a time.
const BLOCK: usize = 8192;

/// Rows that a quick look takes, evenly spaced, and draws: enough for what is far off.
const QUICK_ROWS: usize = 50_000;
const QUICK_DRAWS: usize = 40;

/// What a review is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewSettings {
    /// Draws at which the log-likelihood of every row is taken, at most.
    pub draws: usize,
    /// Draws at which an outcome of every row is drawn, at most; 0 for no check of outcomes.
    pub checked: usize,
    /// Whether two numbers of each row are kept.
    pub pointwise: bool,
    /// The seed of outcomes.
    pub seed: u64,
    /// A column by whose levels outcomes are checked too.
    pub by: Option<By>,
    /// Whether the log evidence is wanted, by another pass.
    pub evidence: bool,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self { draws: 1000, checked: 100, pointwise: false, seed: 0, by: None, evidence: false }
    }
}

impl Study {
    /// Reviews draws of the posterior of all rows; `log_weights` are those that make them so, where they are of a coreset's posterior.
    /// Quantities are the parameters on the scale of the data.
    ///
    /// # Errors
    /// See [`StudyError`]; [`SampleError::Stopped`] where the listener stopped it.
    pub fn review(
        &self,
        given: &GivenDraws,
        log_weights: Option<&[f64]>,
        settings: &ReviewSettings,
        listener: &mut Listener<'_>,
    ) -> Result<Review, StudyError> {
        let expected = self.rows.dim();
        if given.draws.dim != expected {
            return Err(StudyError::OtherDraws { got: given.draws.dim, expected });
        }
        let (draws, log_weights) = thinned(&given.draws, log_weights, settings.draws)?;
        let asked = self.asked(&draws, log_weights.as_deref());
        let clusters = self.clusters()?;
        let count = clusters.as_ref().map(|(_, count)| *count);
        let mut reviewer = Reviewer::new(&asked, settings.pointwise, count);
        let few = draws.thinned(settings.checked.max(1));
        let kind = self.outcomes().filter(|_| settings.checked > 0);
        let mut checks = kind.map(|kind| Checks::new(kind, few.len()));
        let (mut apart, mut outcomes) = (BTreeMap::new(), Vec::new());
        let anchor = draws.mean();
        let shifts = draws.shifts(&anchor);
        for block in parallel::parts(self.rows.len(), BLOCK) {
            if listener(Progress::Looking { done: block.start, total: self.rows.len() }).is_break() {
                return Err(SampleError::Stopped.into());
            }
            let ids: Vec<usize> = block.clone().collect();
            let model = self.rows.bind(self.rows.fetch(&ids)?)?;
            if settings.pointwise {
                outcomes.extend((0..model.len()).map(|row| self.outcome_of(model.observations(), row)));
            }
            for (at, row) in self.rows_of(&model, &asked, (&anchor, &shifts), block.start)?.iter().enumerate()
            {
                let cluster = clusters.as_ref().map(|(codes, _)| codes[block.start + at]);
                reviewer.add(row, cluster);
            }
            if let Some(checks) = &mut checks {
                let by = settings.by.as_ref().map(|by| (by, &mut apart));
                self.check_block(&model, &few, (block.start, settings.seed), checks, by)?;
            }
        }
        let mut review = reviewer.finish();
        review.outcomes = settings.pointwise.then_some(outcomes);
        review.checks = checks.map(|checks| checks.finish(expected));
        if let Some(by) = &settings.by {
            // Parameters are fitted to all rows and not to those of a level.
            let named = apart
                .into_iter()
                .map(|(code, checks): (u32, Checks)| (by.labels[code as usize].clone(), checks.finish(0)));
            review.by = named.collect();
        }
        if settings.evidence {
            review.evidence = self.evidence(&draws, log_weights.as_deref(), settings.seed)?;
        }
        Ok(review)
    }

    /// Whether outcomes are as these draws predict them, by at most 50 000 of the rows, evenly spaced; none where the model has no
    /// outcome.
    ///
    /// # Errors
    /// Where the rows did not answer.
    pub fn glance(&self, draws: &Draws, seed: u64) -> Result<Option<crate::review::Checked>, StudyError> {
        let Some(kind) = self.outcomes() else { return Ok(None) };
        let few = draws.thinned(QUICK_DRAWS);
        let mut checks = Checks::new(kind, few.len());
        let all = self.stand_ins..self.rows.len();
        let stride = all.len().div_ceil(QUICK_ROWS).max(1);
        let ids: Vec<usize> = all.step_by(stride).collect();
        let model = self.rows.bind(self.rows.fetch(&ids)?)?;
        self.check_block(&model, &few, (0, seed), &mut checks, None)?;
        Ok(Some(checks.finish(self.rows.dim())))
    }

    /// The draws with the parameters on the scale of the data as quantities.
    fn asked(&self, draws: &Draws, log_weights: Option<&[f64]>) -> Asked {
        let original: Vec<Vec<f64>> = (0..draws.len()).map(|s| self.to_original(draws.row(s))).collect();
        let column = |j: usize| original.iter().map(|draw| draw[j]).collect();
        let quantities: Vec<Vec<f64>> = (0..draws.dim).map(column).collect();
        Asked::new(draws.len(), log_weights, &quantities, draws.efficiency_of_means())
    }

    /// Which group each row is in, and how many there are.
    pub(super) fn clusters(&self) -> Result<Option<(Vec<usize>, usize)>, StudyError> {
        let Some(groups) = self.rows.groups() else { return Ok(None) };
        let mut codes = vec![0; self.rows.len()];
        let all: Vec<usize> = (0..groups.len()).collect();
        for (group, members) in groups.members(&all)?.into_iter().enumerate() {
            members.into_iter().for_each(|row| codes[row] = group);
        }
        Ok(Some((codes, groups.len())))
    }

    /// As a number that does not depend on how the model has it: two classes are 0 and 1.
    pub(super) fn outcome_of(&self, rows: &Observations, row: usize) -> f64 {
        let (y, _) = rows.target(row);
        let two = self.model.model.outcome() == Outcome::Classes
            && !matches!(self.model.model.predictive(), Predictive::Classes(_));
        if two { f64::from(u8::from(y > 0.0)) } else { y }
    }

    fn outcomes(&self) -> Option<Outcomes> {
        match (self.model.model, self.model.model.predictive()) {
            (_, Predictive::Nothing) => None,
            (_, Predictive::Classes(_)) => Some(Outcomes::Classes),
            (model, _) if model.outcome() == Outcome::Classes => Some(Outcomes::Binary),
            (BuiltIn::Poisson | BuiltIn::NegativeBinomial | BuiltIn::Binomial, _) => Some(Outcomes::Counts),
            _ => Some(Outcomes::Numbers),
        }
    }

    pub(super) fn rows_of(
        &self,
        model: &Arc<dyn Model>,
        asked: &Asked,
        (anchor, shifts): (&[f64], &Shifts),
        first: usize,
    ) -> Result<Vec<Row>, StudyError> {
        let prepared = Arc::clone(model).prepare(anchor, shifts.clone());
        let count = shifts.len();
        let of_tile = |rows: Range<usize>| -> Result<Vec<Row>, RowsError> {
            let ids: Vec<usize> = rows.collect();
            let mut values = vec![0.0; ids.len() * count];
            prepared.wide(&ids, &mut values);
            let of_row = |(&row, values): (&usize, &mut [f64])| {
                let here = model.log_likelihood(row, anchor);
                values.iter_mut().for_each(|value| *value += here);
                let found = asked.row(values);
                found.map_err(|(draw, value)| RowsError::NotFinite { row: first + row, draw, value })
            };
            ids.iter().zip(values.chunks_exact_mut(count.max(1))).map(of_row).collect()
        };
        let tiles = parallel::map(parallel::parts(model.len(), TILE), of_tile);
        let mut all = Vec::with_capacity(model.len());
        for tile in tiles {
            all.extend(tile?);
        }
        Ok(all)
    }

    /// Adds the outcomes of these rows, of which the first has this number, to the sums of all, and to those of their levels.
    fn check_block(
        &self,
        model: &Arc<dyn Model>,
        draws: &Draws,
        (first, seed): (usize, u64),
        checks: &mut Checks,
        by: Option<(&By, &mut BTreeMap<u32, Checks>)>,
    ) -> Result<(), StudyError> {
        let rows = model.observations();
        let at = At::new(&self.model, rows, &draws.theta)?;
        let codes = by.as_ref().map(|(by, _)| &by.codes[first..]);
        // Without a column all rows are of one level.
        let of_tile = |range: Range<usize>| -> Result<BTreeMap<u32, Checks>, StudyError> {
            let mut found = BTreeMap::new();
            for row in range {
                let level = codes.map_or(0, |codes| codes[row]);
                let sums = found.entry(level).or_insert_with(|| checks.empty());
                let outcome = (self.outcome_of(rows, row), rows.target(row).1);
                self.check_row(&at, outcome, (row, first + row, seed), sums)?;
            }
            Ok(found)
        };
        let tiles = parallel::map(parallel::parts(model.len(), TILE), of_tile);
        let mut apart = by.map(|(_, apart)| apart);
        for tile in tiles {
            for (level, sums) in tile? {
                checks.merge(&sums);
                if let Some(apart) = &mut apart {
                    apart.entry(level).or_insert_with(|| checks.empty()).merge(&sums);
                }
            }
        }
        Ok(())
    }

    fn check_row(
        &self,
        at: &At<'_>,
        (y, exposure): (f64, f64),
        (row, number, seed): (usize, usize, u64),
        checks: &mut Checks,
    ) -> Result<(), StudyError> {
        let mut rng = Stream::Checks.rng(seed, number as u64);
        let uniform: f64 = rng.random();
        let far = || StudyError::FarRow { row: number };
        match self.model.model.predictive() {
            Predictive::Nothing => {}
            Predictive::Number { draw, moments, .. } => {
                let (mut means, mut drawn) = (Vec::new(), Vec::new());
                at.each(row, &[], &mut |_, given| {
                    means.push(moments(given));
                    drawn.push(draw(given, &mut rng));
                });
                if !drawn.iter().all(|x: &f64| x.is_finite()) {
                    return Err(far());
                }
                let censored = self.model.model.takes("event") && exposure == 0.0;
                checks.add(&CheckedRow { y, censored, moments: &means, drawn: &drawn, uniform });
            }
            Predictive::Classes(of) => {
                let classes = self.model.numbers.classes;
                let (mut one, mut mean, mut count) = (vec![0.0; classes], vec![0.0; classes], 0.0);
                at.each(row, &[], &mut |_, given| {
                    of(given, &mut one);
                    mean.iter_mut().zip(&one).for_each(|(sum, p)| *sum += p);
                    count += 1.0;
                });
                mean.iter_mut().for_each(|p| *p /= count);
                if !mean.iter().all(|x| x.is_finite()) {
                    return Err(far());
                }
                checks.add_class(y as usize, &mean);
            }
        }
        Ok(())
    }
}

/// At most so many draws, with the log weights of these.
fn thinned(
    draws: &Draws,
    log_weights: Option<&[f64]>,
    most: usize,
) -> Result<(Draws, Option<Vec<f64>>), StudyError> {
    if let Some(got) = log_weights.map(<[f64]>::len).filter(|&got| got != draws.len()) {
        let reason = format!("there are {got} weights for {} draws", draws.len());
        return Err(StudyError::Draws { who: "the draws".to_owned(), reason });
    }
    if draws.len() < 100 {
        let reason = format!("{} draws are too few for a review: at least 100 are needed", draws.len());
        return Err(StudyError::Draws { who: "the draws".to_owned(), reason });
    }
    let places = draws.places(most.max(100));
    let weights = log_weights.map(|weights| places.iter().map(|&s| weights[s]).collect());
    Ok((draws.thinned(most.max(100)), weights))
}
