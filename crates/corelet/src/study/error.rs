//! What can go wrong in a study.

use thiserror::Error;

use super::{PriorError, UsageError};
use crate::coreset::BuildError;
use crate::data::DataError;
use crate::embed::EmbedError;
use crate::linalg::LinalgError;
use crate::model::ModelError;
use crate::posterior::{LaplaceError, SampleError};
use crate::rows::RowsError;
use crate::trust::VerdictError;

/// Errors of a study.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StudyError {
    /// Invalid settings.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The observations do not suit the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Priors that do not suit the parameters.
    #[error(transparent)]
    Priors(#[from] PriorError),
    /// The prior or the fit.
    #[error(transparent)]
    Laplace(#[from] LaplaceError),
    /// The rows did not answer.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The embedding.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The solver.
    #[error(transparent)]
    Solver(#[from] sparse_nnls::Error),
    /// The chains.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The verdict.
    #[error(transparent)]
    Verdict(#[from] VerdictError),
    /// Random effects that the data do not have.
    #[error("{0}")]
    Random(String),
    /// Groups that have no mixed model.
    #[error(transparent)]
    Mixed(#[from] crate::model::mixed::MixedError),
    /// A fit in rounds.
    #[error(transparent)]
    Fit(crate::engine::TargetError),
    /// A row that a coreset names and the data do not have, or left out.
    #[error("row {row} is named, but {reason}")]
    NoSuchRow {
        /// As the coreset counts.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A coreset file that does not say how it was built.
    #[error("{file}: {reason}")]
    NotKept {
        /// The file.
        file: String,
        /// What is missing.
        reason: String,
    },
    /// A model without an outcome.
    #[error("the model '{model}' has no outcome that could be predicted")]
    NoOutcome {
        /// Name of the model.
        model: &'static str,
    },
    /// A prediction that is no number.
    #[error(
        "the prediction for row {row} is not finite: it is far from the rows that the model was fitted to"
    )]
    FarRow {
        /// The row.
        row: usize,
    },
    /// A quantile that is none.
    #[error("a quantile is {value}, but it must be between 0 and 1")]
    Quantile {
        /// The value that was found.
        value: f64,
    },
    /// Draws of other parameters.
    #[error("the draws have {got} parameters, the model has {expected}: they are not of this coreset")]
    OtherDraws {
        /// How many they have.
        got: usize,
        /// How many it has.
        expected: usize,
    },
    /// Predictive checks by the levels of a column, which partitioned rows do not support.
    #[error("by needs a table on one machine: a table in partitions is reviewed as a whole")]
    ByElsewhere,
    /// Draws that are not of the parameters of the model.
    #[error("{who}: {reason}")]
    Draws {
        /// How messages name them.
        who: String,
        /// What differs.
        reason: String,
    },
    /// A direction in which the posterior is flat to rounding.
    #[error(
        "the posterior has no curvature along '{name}': the column is far too large or too small compared with the others, or a combination \
         of them; rescale it or leave it out"
    )]
    Flat {
        /// The parameter.
        name: String,
    },
    /// An update without a row.
    #[error("there is no new row to add")]
    NoNewRow,
    /// An update with rows that are in.
    #[error(
        "{which} are in the coreset already, and would count twice: they have been added before, or it was built on them; give only new rows"
    )]
    AlreadyIn {
        /// Which rows.
        which: String,
    },
    /// Rows other than those that a coreset represents.
    #[error(
        "these are not the rows that the coreset represents: {reason}; give exactly these rows, in the order in which they arrived"
    )]
    NotEarlier {
        /// What differs.
        reason: String,
    },
    /// Folds that cannot be.
    #[error(
        "{folds} folds cannot be made: there must be between 2 and {units}, as many as there are rows or groups"
    )]
    Folds {
        /// The requested number.
        folds: usize,
        /// Rows, or groups of them.
        units: usize,
    },
    /// A coreset without a row.
    #[error("the coreset has no row, so it has no posterior but the prior")]
    EmptyCoreset,
}

impl StudyError {
    /// The same with the parameter named, of all of these, whose pivot of the Hessian is not positive.
    pub(super) fn naming(self, names: &[String]) -> Self {
        match self {
            Self::Laplace(LaplaceError::Linalg(LinalgError::NotPositiveDefinite { dim, pivot }))
                if dim == names.len() && pivot < dim =>
            {
                Self::Flat { name: names[pivot].clone() }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_direction_has_the_name_of_its_column() {
        let names = ["speed".to_owned(), "(intercept)".to_owned()];
        let at = |dim| {
            let error = LaplaceError::Linalg(LinalgError::NotPositiveDefinite { dim, pivot: 0 });
            StudyError::Laplace(error).naming(&names).to_string()
        };
        assert!(at(2).starts_with("the posterior has no curvature along 'speed'"), "{}", at(2));
        assert!(at(3).contains("not positive definite"), "{}", at(3));
    }
}
