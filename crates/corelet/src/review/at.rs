//! A row at draws of θ, one after the other: what its outcome is drawn from there.

use crate::linalg::dot_features;
use crate::model::{BuiltIn, Given, Numbers};
use crate::rows::Observations;

/// Draws of θ and the rows that are looked at there.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) model: BuiltIn,
    pub(crate) numbers: Numbers,
    pub(crate) rows: &'a Observations,
    /// One draw after the other.
    pub(crate) theta: &'a [f64],
    pub(crate) dim: usize,
}

impl At<'_> {
    /// Shows a row given the parameters of each draw, with what is `added` to its predictor there, if anything.
    pub(crate) fn each(&self, row: usize, added: &[f64], see: &mut dyn FnMut(usize, &Given<'_>)) {
        let (x, p) = (self.rows.row(row), self.rows.dim);
        let numbers = self.numbers;
        let exposure = self.rows.target(row).1;
        let predictors = self.model.predictors_of_features(numbers);
        let mut zeta = vec![0.0; predictors + self.dim - predictors * p];
        for (s, theta) in self.theta.chunks_exact(self.dim).enumerate() {
            let (slopes, constants) = theta.split_at(predictors * p);
            for (zeta, slopes) in zeta.iter_mut().zip(slopes.chunks_exact(p)) {
                *zeta = dot_features(x, slopes);
            }
            zeta[0] += self.rows.offset(row) + added.get(s).copied().unwrap_or(0.0);
            zeta[predictors..].copy_from_slice(constants);
            see(s, &Given { zeta: &zeta, exposure, numbers });
        }
    }
}
