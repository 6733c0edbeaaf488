//! Predictions from draws of a posterior: predictive means and quantiles, simulated outcomes, log predictive densities.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardUniform};

use super::{Resolved, StudyError};
use crate::model::{Model, Predictive};
use crate::parallel;
use crate::random::Stream;
use crate::review::At;
use crate::rows::Observations;
use crate::trust::Score;

/// The quantity whose distribution is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PredictedKind {
    /// E\[y\] given the parameters, or the probabilities of classes: the posterior of the mean.
    #[default]
    Mean,
    /// The outcome y itself.
    Outcome,
}

/// The settings of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionSettings {
    /// The predicted quantity.
    pub kind: PredictedKind,
    /// Which quantiles, each between 0 and 1.
    pub quantiles: Vec<f64>,
    /// The seed of draws of outcomes.
    pub seed: u64,
}

impl Default for PredictionSettings {
    fn default() -> Self {
        Self { kind: PredictedKind::default(), quantiles: vec![0.05, 0.5, 0.95], seed: 0 }
    }
}

/// The predictive distribution of each row; of several classes, of each class of each row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prediction {
    /// Numbers a row: 1, or the number of classes.
    pub columns: usize,
    /// Means, row-major.
    pub mean: Vec<f64>,
    /// Standard deviations.
    pub sd: Vec<f64>,
    /// The quantiles of the first number of the first row, then those of the second, ….
    pub quantiles: Vec<f64>,
}

/// Predicts rows from draws of θ, one row after the other; their targets are ignored.
///
/// # Errors
/// [`StudyError::NoOutcome`], [`StudyError::OtherDraws`], [`StudyError::Quantile`], and [`StudyError::FarRow`].
pub fn predict(
    model: &Resolved,
    rows: &Observations,
    draws: &[f64],
    settings: &PredictionSettings,
) -> Result<Prediction, StudyError> {
    predict_from(model, rows, 0, draws, settings)
}

/// The same of rows of which the first has the number `first` among more: they are predicted as all of them would be at once.
///
/// # Errors
/// See [`predict`].
pub fn predict_from(
    model: &Resolved,
    rows: &Observations,
    first: usize,
    draws: &[f64],
    settings: &PredictionSettings,
) -> Result<Prediction, StudyError> {
    settings.check()?;
    let draws = Draws::new(model, rows, draws)?;
    let columns = draws.columns()?;
    let of_row = |row: usize| draws.predicted(row, first + row, &[], settings);
    let rows = parallel::map(0..rows.len(), of_row).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut all = Prediction { columns, ..Prediction::default() };
    rows.into_iter().for_each(|row| all.append(row));
    Ok(all)
}

impl PredictionSettings {
    /// Refuses quantiles that are none.
    pub(super) fn check(&self) -> Result<(), StudyError> {
        match self.quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            Some(&value) => Err(StudyError::Quantile { value }),
            None => Ok(()),
        }
    }
}

/// One outcome of each row at each draw, draws × rows; of classes their numbers.
///
/// # Errors
/// See [`predict`].
pub fn predictive_draws(
    model: &Resolved,
    rows: &Observations,
    draws: &[f64],
    seed: u64,
) -> Result<Vec<f64>, StudyError> {
    let draws = Draws::new(model, rows, draws)?;
    let columns = draws.columns()?;
    let (n, count) = (rows.len(), draws.count());
    let outcomes: Vec<Vec<f64>> = parallel::map(0..n, |row| {
        let mut rng = Stream::Outcomes.rng(seed, row as u64);
        let values = draws.values(row, &[], PredictedKind::Outcome, &mut rng);
        if columns == 1 {
            return values;
        }
        let happened = |s: &usize| (0..columns).position(|class| values[class * count + s] == 1.0);
        (0..count).map(|s| happened(&s).unwrap_or_default() as f64).collect()
    });
    Ok((0..count * n).map(|at| outcomes[at % n][at / n]).collect())
}

impl Prediction {
    /// Adds a row.
    pub(super) fn append(&mut self, row: Self) {
        self.mean.extend(row.mean);
        self.sd.extend(row.sd);
        self.quantiles.extend(row.quantiles);
    }

    /// Adds one number, given its draws.
    fn add(&mut self, values: &[f64], quantiles: &[f64]) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        self.mean.push(mean);
        self.sd.push(variance.sqrt());
        self.quantiles.extend(quantiles.iter().map(|&q| quantile(&sorted, q)));
    }
}

/// Between the two sorted values that q falls between, in proportion.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len().max(1) - 1) as f64;
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// Draws of θ and the rows they are asked about.
pub(super) struct Draws<'a> {
    model: &'a Resolved,
    rows: &'a Observations,
    theta: &'a [f64],
    dim: usize,
}

impl<'a> Draws<'a> {
    pub(super) fn new(
        model: &'a Resolved,
        rows: &'a Observations,
        theta: &'a [f64],
    ) -> Result<Self, StudyError> {
        let dim = model.priors.len();
        if !theta.len().is_multiple_of(dim.max(1)) || theta.is_empty() {
            return Err(StudyError::OtherDraws { got: theta.len(), expected: dim });
        }
        Ok(Self { model, rows, theta, dim })
    }

    fn count(&self) -> usize {
        self.theta.len() / self.dim.max(1)
    }

    /// Numbers that a row has.
    pub(super) fn columns(&self) -> Result<usize, StudyError> {
        match self.model.model.predictive() {
            Predictive::Nothing => Err(StudyError::NoOutcome { model: self.model.model.name() }),
            Predictive::Number { .. } => Ok(1),
            Predictive::Classes(_) => Ok(self.model.numbers.classes),
        }
    }

    /// The prediction of a row, which has that number among more; `added` to its predictor at each draw, or nothing.
    pub(super) fn predicted(
        &self,
        row: usize,
        number: usize,
        added: &[f64],
        settings: &PredictionSettings,
    ) -> Result<Prediction, StudyError> {
        let mut rng = Stream::Outcomes.rng(settings.seed, number as u64);
        let values = self.values(row, added, settings.kind, &mut rng);
        let mut predicted = Prediction { columns: self.columns()?, ..Prediction::default() };
        for column in values.chunks_exact(self.count().max(1)) {
            if !column.iter().all(|x| x.is_finite()) {
                return Err(StudyError::FarRow { row: number });
            }
            predicted.add(column, &settings.quantiles);
        }
        Ok(predicted)
    }

    /// The values of a row at all draws, those of its first class before those of its second, ….
    fn values(&self, row: usize, added: &[f64], kind: PredictedKind, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let (count, classes) = (self.count(), self.model.numbers.classes);
        let mut probabilities = vec![0.0; classes];
        let mut values = vec![0.0; count * classes.max(1)];
        let (model, numbers) = (self.model.model, self.model.numbers);
        let at = At { model, numbers, rows: self.rows, theta: self.theta, dim: self.dim };
        at.each(row, added, &mut |s, given| match model.predictive() {
            Predictive::Nothing => {}
            Predictive::Number { mean, draw, .. } => {
                values[s] = if kind == PredictedKind::Mean { mean(given) } else { draw(given, rng) };
            }
            Predictive::Classes(of) => {
                of(given, &mut probabilities);
                if kind == PredictedKind::Outcome {
                    choose(&mut probabilities, rng);
                }
                probabilities.iter().enumerate().for_each(|(class, p)| values[class * count + s] = *p);
            }
        });
        values
    }
}

/// Probabilities become a 1 for the class that happens, and 0 for the others.
fn choose(probabilities: &mut [f64], rng: &mut ChaCha8Rng) {
    let mut left: f64 = StandardUniform.sample(rng);
    let last = probabilities.len().saturating_sub(1);
    let mut chosen = last;
    for (class, p) in probabilities.iter().enumerate() {
        left -= p;
        if left < 0.0 {
            chosen = class;
            break;
        }
    }
    probabilities.iter_mut().enumerate().for_each(|(class, p)| *p = f64::from(u8::from(class == chosen)));
}

/// The log predictive density of rows with their targets under draws of θ, one after the other.
///
/// # Errors
/// [`StudyError::OtherDraws`], and an error if a target is invalid for the model.
pub fn score(model: &Resolved, rows: Observations, draws: &[f64]) -> Result<Score, StudyError> {
    let bound = model.bind(rows)?;
    let dim = bound.dim();
    if !draws.len().is_multiple_of(dim.max(1)) || draws.is_empty() {
        return Err(StudyError::OtherDraws { got: draws.len(), expected: dim });
    }
    let each = parallel::map(0..bound.len(), |row| log_density(&*bound, row, draws));
    Ok(Score::new(each))
}

/// log Σₛ e^{ℓᵢ(θₛ)}/S.
fn log_density(model: &dyn Model, row: usize, draws: &[f64]) -> f64 {
    let values: Vec<f64> =
        draws.chunks_exact(model.dim()).map(|theta| model.log_likelihood(row, theta)).collect();
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = values.iter().map(|value| (value - largest).exp()).sum::<f64>();
    largest + (sum / values.len() as f64).ln()
}
