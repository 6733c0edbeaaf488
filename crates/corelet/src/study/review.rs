//! Reviews of draws of a posterior, in one pass over all rows: leave-one-out, influence, and predictive checks.

use std::sync::Arc;

use super::{GivenDraws, Listener, Progress, Study, StudyError};
use crate::parallel;
use crate::posterior::SampleError;
use crate::review::{Apart, Asked, By, Part, Question, Review, Unusable, outcomes_of};
use crate::rows::{Rows, RowsError};
use crate::trust::Draws;

/// Rows that are fetched at a time.
const BLOCK: usize = 8192;

/// Rows that a quick look takes, evenly spaced, and draws: enough for what is far off.
const QUICK_ROWS: usize = 50_000;
const QUICK_DRAWS: usize = 40;

/// The settings of a review.
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
    /// Reviews draws of the posterior of all rows. If the draws are from a coreset's posterior, `log_weights` turn them into such draws.
    /// Quantities are the parameters on the scale of the data.
    ///
    /// # Errors
    /// See [`StudyError`]; [`SampleError::Stopped`] if the listener stopped it.
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
        let question = self.question(&draws, log_weights.as_deref(), settings);
        let part = match &self.elsewhere {
            Some(_) if settings.by.is_some() => return Err(StudyError::ByElsewhere),
            Some(rows) => {
                let _ = listener(Progress::Judging);
                rows.review(&question)?
            }
            None => self.reviewed(&question, settings.by.as_ref(), listener)?,
        };
        let Part { sums, checks, by, outcomes } = part;
        let mut review = sums.finish(&question.asked);
        review.outcomes = settings.pointwise.then_some(outcomes);
        review.checks = checks.map(|checks| checks.finish(expected));
        if let Some(of) = &settings.by {
            // Parameters are fitted to all rows and not to those of a level.
            let named =
                by.into_iter().map(|(code, checks)| (of.labels[code as usize].clone(), checks.finish(0)));
            review.by = named.collect();
        }
        if settings.evidence {
            review.set_evidence(self.evidence(&draws, log_weights.as_deref(), settings.seed)?);
        }
        Ok(review)
    }

    /// What all rows answer, a block at a time.
    fn reviewed(
        &self,
        question: &Question,
        by: Option<&By>,
        listener: &mut Listener<'_>,
    ) -> Result<Part, StudyError> {
        let clusters = self.clusters()?;
        let mut part = question.nothing(clusters.as_ref().map(|(_, count)| *count));
        for block in parallel::parts(self.rows.len(), BLOCK) {
            if listener(Progress::Looking { done: block.start, total: self.rows.len() }).is_break() {
                return Err(SampleError::Stopped.into());
            }
            let ids: Vec<usize> = block.clone().collect();
            let model = self.rows.bind(self.rows.fetch(&ids)?)?;
            let clusters = clusters.as_ref().map(|(codes, _)| &codes[block.clone()]);
            let apart = Apart { clusters, by: by.map(|by| &by.codes[block.clone()]) };
            question.add(&model, block.start, apart, &mut part)?;
        }
        Ok(part)
    }

    /// Whether outcomes are as these draws predict them, by at most 50 000 of the rows, evenly spaced; none if the model has no
    /// outcome.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn glance(&self, draws: &Draws, seed: u64) -> Result<Option<crate::review::Checked>, StudyError> {
        if outcomes_of(self.model.model).is_none() {
            return Ok(None);
        }
        let few = draws.thinned(QUICK_DRAWS);
        let settings =
            ReviewSettings { draws: few.len(), checked: few.len(), seed, ..ReviewSettings::default() };
        let question = self.question(&few, None, &settings);
        let all = self.stand_ins..self.rows.len();
        let stride = all.len().div_ceil(QUICK_ROWS).max(1);
        let ids: Vec<usize> = all.step_by(stride).collect();
        let model = self.rows.bind(self.rows.fetch(&ids)?)?;
        let mut part = question.nothing(None);
        question.check(&model, 0, 0..model.len(), None, &mut part)?;
        Ok(part.checks.map(|checks| checks.finish(self.rows.dim())))
    }

    /// What these draws ask of every row.
    pub(super) fn question(
        &self,
        draws: &Draws,
        log_weights: Option<&[f64]>,
        settings: &ReviewSettings,
    ) -> Question {
        let anchor = draws.mean();
        let few = if settings.checked == 0 { Vec::new() } else { draws.thinned(settings.checked).theta };
        Question {
            asked: self.asked(draws, log_weights),
            shifts: Arc::new(draws.shifts(&anchor)),
            anchor,
            few,
            model: self.model.model,
            numbers: self.model.numbers,
            pointwise: settings.pointwise,
            seed: settings.seed,
        }
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
}

impl From<Unusable> for StudyError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::NotFinite { row, draw, value } => RowsError::NotFinite { row, draw, value }.into(),
            Unusable::Far { row } => Self::FarRow { row },
        }
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
