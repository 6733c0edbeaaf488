//! What the rows of a study were made of, and the way back to the data.

use super::StudyError;
use crate::data::{Groups, KeptRows, Standardisation, TextLevels};

/// What the rows were made of: the names of the parameters, and the way back to the data.
#[derive(Debug, Clone)]
pub struct Frame {
    /// How messages name the data.
    pub source: String,
    /// The name of each parameter: those of the features, and those that the model has besides.
    pub names: Vec<String>,
    /// Number of features.
    pub features: usize,
    /// The row of the input that each observation came from.
    pub rows: KeptRows,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// What was done to the features.
    pub standardisation: Standardisation,
    /// Rows left out for missing values.
    pub dropped: usize,
    /// The column that is the target.
    pub target: Option<String>,
    /// What tells these observations from others.
    pub fingerprint: String,
    /// The first row of each partition, and after the last, where the data are in partitions.
    pub partitions: Vec<usize>,
    /// Which observations belong together, where groups of them are to be chosen.
    pub groups: Option<Groups>,
}

impl Frame {
    /// The observation that each row of the data became.
    ///
    /// # Errors
    /// Where a row is not there, or was left out.
    pub fn observations_of(&self, rows: &[usize]) -> Result<Vec<usize>, StudyError> {
        let all = self.rows.total();
        let find = |&row: &usize| {
            self.rows.observation(row).ok_or_else(|| StudyError::NoSuchRow {
                row,
                reason: if row < all {
                    format!("it has missing values in {} and was left out", self.source)
                } else {
                    format!("{} has {all} rows", self.source)
                },
            })
        };
        rows.iter().map(find).collect()
    }

    /// The rows of the data that observations came from.
    pub fn rows_of(&self, observations: &[usize]) -> Vec<usize> {
        observations.iter().map(|&i| self.rows.file_row(i)).collect()
    }
}
