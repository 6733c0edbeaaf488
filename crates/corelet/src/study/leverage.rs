//! How much a row says by itself.

use std::ops::Range;

use super::{Study, StudyError};
use crate::model::LinearPredictor;
use crate::parallel;
use crate::posterior::Gaussian;
use crate::rows::Rows;

/// Rows of the sample.
const SAMPLE: usize = 20_000;

/// |ℓ″|·xᵀΣx of chosen rows, and of a sample of all rows, ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct Leverages {
    /// Of the chosen rows, in their order.
    pub chosen: Vec<f64>,
    /// Of evenly spaced rows, ascending.
    pub sample: Vec<f64>,
}

impl Study {
    /// The leverages of chosen rows beside those of all; none for a model without a linear predictor.
    ///
    /// # Errors
    /// If the rows did not answer.
    pub fn leverages(
        &self,
        observations: &[usize],
        posterior: &Gaussian,
    ) -> Result<Option<Leverages>, StudyError> {
        let of = |ids: &[usize]| -> Result<Option<Vec<f64>>, StudyError> {
            let model = self.rows.bind(self.rows.fetch(ids)?)?;
            let Some(linear) = model.linear() else { return Ok(None) };
            let of_part =
                |rows: Range<usize>| rows.map(|i| leverage(&linear, posterior, i)).collect::<Vec<f64>>();
            Ok(Some(parallel::map(parallel::parts(model.len(), parallel::ROWS), of_part).concat()))
        };
        let stride = self.len().div_ceil(SAMPLE).max(1);
        let spaced: Vec<usize> = (0..self.len()).step_by(stride).collect();
        let (Some(chosen), Some(mut sample)) = (of(observations)?, of(&spaced)?) else { return Ok(None) };
        sample.sort_unstable_by(f64::total_cmp);
        Ok(Some(Leverages { chosen, sample }))
    }
}

fn leverage(linear: &LinearPredictor, posterior: &Gaussian, i: usize) -> f64 {
    let (x, dim) = (linear.observations.wide_row(i), posterior.dim());
    let [_, curvature, _] = linear.derivatives(i, &posterior.mean);
    // xᵀΣx = ‖Lᵀx‖².
    let entry = |column: usize| (column..dim).map(|i| posterior.factor[i * dim + column] * x[i]).sum::<f64>();
    curvature.abs() * (0..dim).map(|column| entry(column).powi(2)).sum::<f64>()
}
