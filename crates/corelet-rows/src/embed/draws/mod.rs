//! The paper's embedding by draws from π̂, virtual: each pass recomputes Φ tile by tile and keeps nothing of it.

mod kernel;
mod remainder;
mod survey;

pub use remainder::RowPolynomials;

use std::ops::Range;
use std::sync::Arc;

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Error, Query, Sum};

use self::remainder::{JointRemainder, Remainder};
use self::survey::{Survey, survey};
pub(super) use self::survey::{centre, norm};
use super::tiles::{Correlations, Tiles, Workers, top};
use crate::embed::{Description, Embedding, JointPolynomials};
use crate::model::{Differences, JointPredictors, Model, Shifts};
use crate::parallel;
use crate::rows::{Observations, RowsError};

/// f32 numbers of Φ computed at once, which fit the first-level cache beside the draws.
const BLOCK: usize = 4096;

/// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S for S draws θ_s ~ π̂ = N(θ̂, LLᵀ), never stored.
///
/// ⟨φᵢ, φⱼ⟩ is the sample covariance of ℓᵢ and ℓⱼ over the draws, and works for any model. Since
/// ⟨φᵢ, u⟩ = Σ_s dᵢₛ(u_s − ū)/√S with dᵢₛ = ℓᵢ(θ_s) − ℓᵢ(θ̂), a pass centres u once and no row: per block of rows it
/// is a (rows × D)·(D × S) product, the vectorised difference, and a dot product, all in cache and in f32, with an
/// error of about 10⁻⁷·‖φ‖‖u‖. Norms, sum and columns are f64; the first two are computed once, on construction.
///
/// Memory is 8 bytes a datum beside the model's own. Every answer has the same bits for any number of threads.
pub struct ByDraws {
    first: usize,
    differences: Box<dyn Differences>,
    survey: Survey,
    workers: Workers<Scratch>,
    description: Description,
}

/// A query vector, centred and of unit length, and what a correlation with it is to be multiplied by.
#[derive(Debug)]
pub struct Direction {
    unit: Vec<f32>,
    scale: f64,
}

impl Direction {
    fn new(vector: &[f64]) -> Self {
        let mut unit = vector.to_vec();
        // Also divides by √S, which is the columns' own share of it.
        centre(&mut unit);
        let length = norm(&unit);
        let inverse = if length > 0.0 { length.recip() } else { 0.0 };
        Direction { unit: unit.iter().map(|x| (x * inverse) as f32).collect(), scale: length }
    }
}

/// The buffers of one worker.
#[derive(Debug, Default)]
pub struct Scratch {
    gathered: Vec<f32>,
    rows: Vec<f32>,
    dots: Vec<[f32; 2]>,
}

impl ByDraws {
    /// Of draws that are given, as shifts from `anchor`: one pass in f64 for norms and sum. `first` is the id of the
    /// model's first row.
    ///
    /// # Errors
    /// [`RowsError::NotFinite`] where a log-likelihood is not.
    pub fn new(
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: Shifts,
        first: usize,
    ) -> Result<Self, RowsError> {
        let count = shifts.len();
        let differences = Arc::clone(model).prepare(anchor, shifts);
        Self::of_differences(differences, model.observations(), count, first)
    }

    /// The same of ℓᵢ less a polynomial of its own predictor. With those of [`RowPolynomials::from_hermite`] that is
    /// the part of ℓᵢ orthogonal to orders 1 and 2, to be [`Stacked`](super::Stacked) under them.
    ///
    /// # Errors
    /// As [`ByDraws::new`], [`RowsError::NoEmbedding`] without a linear predictor, and [`RowsError::Length`] where there
    /// is not one polynomial a row.
    pub fn remainder(
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: Shifts,
        subtract: RowPolynomials,
        first: usize,
    ) -> Result<Self, RowsError> {
        let count = shifts.len();
        let differences = remainder(model, anchor, shifts, subtract)?;
        Self::of_differences(differences, model.observations(), count, first)
    }

    /// The same of a model with several predictors a row.
    ///
    /// # Errors
    /// See [`ByDraws::remainder`].
    pub(super) fn joint_remainder(
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: &Shifts,
        subtract: JointPolynomials,
        first: usize,
    ) -> Result<Self, RowsError> {
        let count = shifts.len();
        let differences = joint_remainder(model, anchor, shifts, subtract)?;
        Self::of_differences(differences, model.observations(), count, first)
    }

    fn of_differences(
        differences: Box<dyn Differences>,
        rows: &Observations,
        count: usize,
        first: usize,
    ) -> Result<Self, RowsError> {
        if count < 2 {
            return Err(RowsError::Length { what: "the draws of an embedding", got: count, expected: 2 });
        }
        let survey = survey(differences.as_ref(), rows, count, first)?;
        let description = Description { name: format!("draws:{count}"), coordinates: count, tail: 0.0 };
        Ok(Self { first, differences, survey, workers: Workers::default(), description })
    }

    /// Number of draws, S.
    pub fn count(&self) -> usize {
        self.survey.sum.len()
    }
}

impl Tiles for ByDraws {
    type Directions = Vec<Direction>;
    type Scratch = Scratch;

    fn first(&self) -> usize {
        self.first
    }

    fn directions(&self, vectors: &[&[f64]]) -> Vec<Direction> {
        vectors.iter().map(|vector| Direction::new(vector)).collect()
    }

    fn inverse_norms(&self) -> &[f64] {
        &self.survey.inverse_norms
    }

    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Vec<Direction>,
        scratch: &mut Scratch,
        out: Correlations<'_>,
    ) {
        let [first, rest @ ..] = directions.as_slice() else { return };
        let second = rest.first();
        let count = self.count();
        // Rows go in fours through the product of the features with the draws.
        let block = (BLOCK / count).next_multiple_of(4).clamp(4, tile.len().next_multiple_of(4));
        scratch.rows.resize(block * count, 0.0);
        scratch.dots.resize(block, [0.0; 2]);
        for ids in ids.chunks(block) {
            let rows = &mut scratch.rows[..ids.len() * count];
            let dots = &mut scratch.dots[..ids.len()];
            self.differences.narrow(ids, &mut scratch.gathered, rows);
            kernel::correlate(rows, &first.unit, second.map(|d| d.unit.as_slice()), dots);
            for (id, dot) in ids.iter().zip(dots) {
                out.u[id - tile.start] = first.scale * f64::from(dot[0]);
                if let Some(second) = second {
                    out.v[id - tile.start] = second.scale * f64::from(dot[1]);
                }
            }
        }
    }
}

impl Dictionary for ByDraws {
    fn len(&self) -> usize {
        self.survey.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.count()
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(Sum { vector: self.survey.sum.clone(), norms: self.survey.norms })
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        top(self, &self.workers, query, answers);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        let columns = self.len();
        if let Some(&id) = ids.iter().find(|&&id| id >= columns) {
            return Err(DictionaryError::new(Error::BadColumn { id, columns }));
        }
        columns_of(&*self.differences, ids, self.count(), out);
        Ok(())
    }
}

/// The columns of these rows, in f64.
pub(in crate::embed) fn columns_of(
    differences: &dyn Differences,
    ids: &[usize],
    count: usize,
    out: &mut [f64],
) {
    // Columns computed by one thread at a time.
    const PART: usize = 16;
    parallel::map(ids.chunks(PART).zip(out.chunks_mut(PART * count)), |(ids, out)| {
        differences.wide(ids, out);
        out.chunks_exact_mut(count).for_each(centre);
    });
}

/// ℓᵢ(θₛ) − ℓᵢ(θ̂) less a polynomial of each row's own predictor.
pub(in crate::embed) fn remainder(
    model: &Arc<dyn Model>,
    anchor: &[f64],
    shifts: Shifts,
    subtract: RowPolynomials,
) -> Result<Box<dyn Differences>, RowsError> {
    let (model_name, embedding) = (model.name(), "Hermite".to_owned());
    let linear = model.linear().ok_or(RowsError::NoEmbedding { model: model_name, embedding })?;
    let whole = Arc::clone(model).prepare(anchor, shifts.clone());
    Ok(Box::new(Remainder::new(whole, linear, shifts, subtract)?))
}

/// ℓᵢ(θₛ) − ℓᵢ(θ̂) less a polynomial of each row's own predictors.
pub(in crate::embed) fn joint_remainder(
    model: &Arc<dyn Model>,
    anchor: &[f64],
    shifts: &Shifts,
    subtract: JointPolynomials,
) -> Result<Box<dyn Differences>, RowsError> {
    let (model_name, embedding) = (model.name(), "Hermite".to_owned());
    let joint: JointPredictors =
        model.joint().ok_or(RowsError::NoEmbedding { model: model_name, embedding })?;
    let whole = Arc::clone(model).prepare(anchor, shifts.clone());
    Ok(Box::new(JointRemainder::new(whole, joint, shifts, subtract)?))
}

impl Embedding for ByDraws {
    fn description(&self) -> &Description {
        &self.description
    }
}
