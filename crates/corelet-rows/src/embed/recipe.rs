//! How a row becomes a column, as plain data: the holder of the rows can compute their columns from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sparse_nnls::{Candidate, Dictionary, DictionaryError, Query, Sum};

use super::draws::{columns_of, joint_remainder, remainder};
use super::gaussian::GaussianColumns;
use super::hermite::{HermiteColumns, JointColumns, coordinates};
use super::tiles::Tiles;
use super::{
    ByDraws, EmbedError, Embedding, Hermite, JointHermite, JointPolynomials, RowPolynomials, Stacked,
};
use crate::model::{BLOCK, Differences, Model, Shifts, Spread, expected_slopes};
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::RowsError;

/// An embedding of log-likelihoods under π̂.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Recipe {
    /// Hermite polynomials up to an order, for one linear predictor a row or, up to order 2, several.
    Hermite {
        /// π̂.
        posterior: Arc<Gaussian>,
        /// 1, 2 or 3.
        order: usize,
    },
    /// Draws, for any model.
    Draws {
        /// θ̂.
        anchor: Vec<f64>,
        /// θₛ − θ̂.
        shifts: Shifts,
    },
    /// Hermite polynomials up to order 2 above draws of what they leave over.
    HermiteDraws {
        /// π̂.
        posterior: Arc<Gaussian>,
        /// θₛ − θ̂.
        shifts: Shifts,
    },
    /// Order 3 alone, of one linear predictor a row: for few parameters, where there is no noise of draws in it.
    Third {
        /// π̂.
        posterior: Arc<Gaussian>,
    },
    /// Draws of what orders 1 and 2 leave over, alone: for rows beside a Gaussian, which has those.
    Remainder {
        /// π̂.
        posterior: Arc<Gaussian>,
        /// θₛ − θ̂.
        shifts: Shifts,
    },
    /// The exact embedding of the mean of a Gaussian.
    GaussianMean {
        /// π̂.
        posterior: Arc<Gaussian>,
    },
}

/// Orders of ℓ that are exact, above which draws of the rest can stand.
trait Exact: Tiles + Embedding + 'static {
    /// What the orders above leave over, at fixed draws.
    fn dropped(&self) -> &[f64];

    /// Draws of what orders 1 and 2 leave over.
    fn rest(
        &self,
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: &Shifts,
        first: usize,
    ) -> Result<ByDraws, RowsError>;
}

impl Exact for Hermite {
    fn dropped(&self) -> &[f64] {
        self.dropped()
    }

    fn rest(
        &self,
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: &Shifts,
        first: usize,
    ) -> Result<ByDraws, RowsError> {
        ByDraws::remainder(model, anchor, shifts.clone(), self.polynomials()?, first)
    }
}

impl Exact for JointHermite {
    fn dropped(&self) -> &[f64] {
        self.dropped()
    }

    fn rest(
        &self,
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: &Shifts,
        first: usize,
    ) -> Result<ByDraws, RowsError> {
        ByDraws::joint_remainder(model, anchor, shifts, self.polynomials()?, first)
    }
}

impl Recipe {
    /// As a user would ask for it.
    pub fn name(&self) -> String {
        match self {
            Self::Hermite { order, .. } => format!("hermite:{order}"),
            Self::Draws { shifts, .. } => format!("draws:{}", shifts.len()),
            Self::HermiteDraws { shifts, .. } => format!("hermite:2+draws:{}", shifts.len()),
            Self::Third { .. } => "order:3".to_owned(),
            Self::Remainder { shifts, .. } => format!("remainder:{}", shifts.len()),
            Self::GaussianMean { .. } => "hermite:2".to_owned(),
        }
    }

    /// Length of a column.
    pub fn coordinates(&self) -> usize {
        match self {
            Self::Hermite { posterior, order } => coordinates(posterior.dim(), *order),
            Self::Third { posterior } => coordinates(posterior.dim(), 3),
            Self::Draws { shifts, .. } | Self::Remainder { shifts, .. } => shifts.len(),
            Self::HermiteDraws { posterior, shifts } => coordinates(posterior.dim(), 2) + shifts.len(),
            Self::GaussianMean { posterior } => posterior.dim() + 1,
        }
    }

    /// Everything that passes over these rows need, in one pass; `first` is the id of the first of them.
    ///
    /// # Errors
    /// If the rows have no such embedding, or a log-likelihood is not finite.
    pub fn prepare(&self, model: &Arc<dyn Model>, first: usize) -> Result<Prepared, RowsError> {
        match model.joint() {
            Some(joint) => self.prepare_with(model, first, |posterior, order| {
                JointHermite::starting_at(joint, posterior, order, first)
                    .map_err(|error| self.unsuited(&error))
            }),
            None => self.prepare_with(model, first, |posterior, order| {
                let linear = model.linear().ok_or_else(|| self.refusal(&**model))?;
                Hermite::starting_at(linear, posterior, order, first).map_err(|error| self.unsuited(&error))
            }),
        }
    }

    /// The same with what has exact orders, where they are wanted.
    fn prepare_with<E: Exact>(
        &self,
        model: &Arc<dyn Model>,
        first: usize,
        exact: impl FnOnce(Arc<Gaussian>, usize) -> Result<E, RowsError>,
    ) -> Result<Prepared, RowsError> {
        Ok(match self {
            Self::Hermite { posterior, order } => {
                let exact = exact(Arc::clone(posterior), *order)?;
                Prepared { dropped: exact.dropped().to_vec(), dictionary: Box::new(exact) }
            }
            Self::Draws { anchor, shifts } => {
                let draws = ByDraws::new(model, anchor, shifts.clone(), first)?;
                Prepared { dictionary: Box::new(draws), dropped: Vec::new() }
            }
            Self::HermiteDraws { posterior, shifts } => {
                let upper = exact(Arc::clone(posterior), 2)?;
                let lower = upper.rest(model, &posterior.mean, shifts, first)?;
                let both = Stacked::beside(&model.observations().features, upper, lower)
                    .map_err(|error| self.unsuited(&error))?;
                Prepared { dictionary: Box::new(both), dropped: Vec::new() }
            }
            Self::Third { posterior } => {
                let linear = model.linear().ok_or_else(|| self.refusal(&**model))?;
                let third = Hermite::third(linear, Arc::clone(posterior), first);
                let third = third.map_err(|error| self.unsuited(&error))?;
                Prepared { dropped: Exact::dropped(&third).to_vec(), dictionary: Box::new(third) }
            }
            Self::Remainder { posterior, shifts } => {
                let draws = match self.beyond_order_two(model, posterior)? {
                    Beyond::One(polynomials) => {
                        ByDraws::remainder(model, &posterior.mean, shifts.clone(), polynomials, first)
                    }
                    Beyond::Joint(polynomials) => {
                        ByDraws::joint_remainder(model, &posterior.mean, shifts, polynomials, first)
                    }
                }?;
                Prepared { dictionary: Box::new(draws), dropped: Vec::new() }
            }
            Self::GaussianMean { posterior } => {
                let gaussian = model.gaussian_mean().ok_or_else(|| self.refusal(&**model))?;
                let columns = GaussianColumns::new(gaussian, posterior, first)
                    .map_err(|error| self.unsuited(&error))?;
                Prepared { dictionary: Box::new(columns), dropped: Vec::new() }
            }
        })
    }

    /// What orders 1 and 2 leave of each log-likelihood at the draws of this recipe.
    ///
    /// # Errors
    /// If the embedding has no draws, or the rows have no exact orders.
    pub(super) fn remainders(&self, model: &Arc<dyn Model>) -> Result<Box<dyn Differences>, RowsError> {
        match self {
            Self::HermiteDraws { posterior, shifts } => {
                self.exact_columns(model, posterior, 2)?.remainder(model, &posterior.mean, shifts)
            }
            _ => Err(self.refusal(&**model)),
        }
    }

    /// The columns of all rows of this model, in f64, one after the other.
    ///
    /// # Errors
    /// As [`prepare`](Recipe::prepare).
    pub fn columns(&self, model: &Arc<dyn Model>) -> Result<Vec<f64>, RowsError> {
        let mut out = vec![0.0; model.len() * self.coordinates()];
        self.write_columns(model, &mut out)?;
        Ok(out)
    }

    /// The same into `out`.
    ///
    /// # Errors
    /// As [`prepare`](Recipe::prepare).
    pub(super) fn write_columns(&self, model: &Arc<dyn Model>, out: &mut [f64]) -> Result<(), RowsError> {
        let (n, length) = (model.len(), self.coordinates());
        let ids: Vec<usize> = (0..n).collect();
        let hermite = |posterior, order| self.exact_columns(model, posterior, order);
        match self {
            Self::Hermite { posterior, order } => hermite(posterior, *order)?.write(&ids, out),
            Self::Draws { anchor, shifts } => {
                let differences = Arc::clone(model).prepare(anchor, shifts.clone());
                columns_of(&*differences, &ids, length, out);
            }
            Self::HermiteDraws { posterior, shifts } => {
                let upper = hermite(posterior, 2)?;
                let cut = length - shifts.len();
                let differences = upper.remainder(model, &posterior.mean, shifts)?;
                let (mut above, mut below) = (vec![0.0; n * cut], vec![0.0; n * shifts.len()]);
                upper.write(&ids, &mut above);
                columns_of(&*differences, &ids, shifts.len(), &mut below);
                let parts = above.chunks_exact(cut).zip(below.chunks_exact(shifts.len()));
                for (out, (above, below)) in out.chunks_exact_mut(length).zip(parts) {
                    out[..cut].copy_from_slice(above);
                    out[cut..].copy_from_slice(below);
                }
            }
            Self::Third { posterior } => {
                let linear = model.linear().ok_or_else(|| self.refusal(&**model))?;
                let third = HermiteColumns::third(linear, Arc::clone(posterior));
                third.map_err(|error| self.unsuited(&error))?.write(&ids, out);
            }
            Self::Remainder { posterior, shifts } => {
                let anchor = &posterior.mean;
                let differences = match self.beyond_order_two(model, posterior)? {
                    Beyond::One(polynomials) => remainder(model, anchor, shifts.clone(), polynomials),
                    Beyond::Joint(polynomials) => joint_remainder(model, anchor, shifts, polynomials),
                }?;
                columns_of(&*differences, &ids, length, out);
            }
            Self::GaussianMean { posterior } => {
                let gaussian = model.gaussian_mean().ok_or_else(|| self.refusal(&**model))?;
                let columns = GaussianColumns::new(gaussian, posterior, 0);
                out.copy_from_slice(&columns.map_err(|error| self.unsuited(&error))?.into_columns());
            }
        }
        Ok(())
    }

    fn exact_columns(
        &self,
        model: &Arc<dyn Model>,
        posterior: &Arc<Gaussian>,
        order: usize,
    ) -> Result<ExactColumns, RowsError> {
        let posterior = Arc::clone(posterior);
        let made = match (model.joint(), model.linear()) {
            (Some(joint), _) => JointColumns::new(joint, posterior, order).map(ExactColumns::Joint),
            (None, Some(linear)) => HermiteColumns::new(linear, posterior, order).map(ExactColumns::One),
            (None, None) => return Err(self.refusal(&**model)),
        };
        made.map_err(|error| self.unsuited(&error))
    }

    /// The orders 1 and 2 of every row as a polynomial of its own predictors; nothing of them has a length that grows like D².
    fn beyond_order_two(
        &self,
        model: &Arc<dyn Model>,
        posterior: &Arc<Gaussian>,
    ) -> Result<Beyond, RowsError> {
        if let Some(joint) = model.joint() {
            let columns = JointColumns::new(joint, Arc::clone(posterior), 2);
            return Ok(Beyond::Joint(columns.map_err(|error| self.unsuited(&error))?.polynomials()?));
        }
        let linear = model.linear().ok_or_else(|| self.refusal(&**model))?;
        let (rows, under) =
            (&linear.observations, Spread { mean: &posterior.mean, factor: &posterior.factor });
        let (mut slope, mut curvature) =
            (rows.features.beside(rows.len())?, rows.features.beside(rows.len())?);
        for block in parallel::parts(rows.len(), BLOCK) {
            let of_block = expected_slopes(&linear, &under, block);
            slope.push(&of_block.iter().map(|row| row[0]).collect::<Vec<f64>>())?;
            curvature.push(&of_block.iter().map(|row| 0.5 * row[1]).collect::<Vec<f64>>())?;
        }
        Ok(Beyond::One(RowPolynomials { slope: slope.finish()?, curvature: curvature.finish()? }))
    }

    fn refusal(&self, model: &dyn Model) -> RowsError {
        RowsError::NoEmbedding { model: model.name(), embedding: self.name() }
    }

    fn unsuited(&self, error: &EmbedError) -> RowsError {
        RowsError::Place { place: self.name(), reason: error.to_string() }
    }
}

/// Orders 1 and 2 of rows with one predictor or several.
enum Beyond {
    One(RowPolynomials),
    Joint(JointPolynomials),
}

/// Columns of Hermite polynomials, of one predictor a row or of several.
enum ExactColumns {
    One(HermiteColumns),
    Joint(JointColumns),
}

impl ExactColumns {
    fn write(&self, ids: &[usize], out: &mut [f64]) {
        match self {
            Self::One(columns) => columns.write(ids, out),
            Self::Joint(columns) => columns.write(ids, out),
        }
    }

    /// What orders 1 and 2 leave of each log-likelihood.
    fn remainder(
        &self,
        model: &Arc<dyn Model>,
        anchor: &[f64],
        shifts: &Shifts,
    ) -> Result<Box<dyn Differences>, RowsError> {
        match self {
            Self::One(columns) => remainder(model, anchor, shifts.clone(), columns.polynomials()?),
            Self::Joint(columns) => joint_remainder(model, anchor, shifts, columns.polynomials()?),
        }
    }
}

/// Rows made ready for passes in one embedding.
pub struct Prepared {
    dictionary: Box<dyn Dictionary + Send + Sync>,
    dropped: Vec<f64>,
}

impl Prepared {
    /// Σφᵢ and Σ‖φᵢ‖.
    ///
    /// # Errors
    /// Whatever the dictionary fails with.
    pub fn sum(&self) -> Result<Sum, RowsError> {
        self.dictionary.sum().map_err(|error| failed(&error))
    }

    /// What the embedding drops of the log-likelihood, at fixed draws.
    pub fn dropped(&self) -> &[f64] {
        &self.dropped
    }

    /// The best columns by their ids.
    ///
    /// # Errors
    /// Whatever the dictionary fails with.
    pub fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), RowsError> {
        self.dictionary.top(query, answers).map_err(|error| failed(&error))
    }
}

fn failed(error: &DictionaryError) -> RowsError {
    RowsError::Place { place: "memory".to_owned(), reason: error.to_string() }
}
