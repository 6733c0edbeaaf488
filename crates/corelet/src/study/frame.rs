//! What the rows of a study were made of, and the way back to the data.

use super::{Resolved, StudyError};
use std::collections::BTreeMap;

use serde::Serialize;

use crate::data::{Besides, DataError, Encoding, KeptRows, Source, Standardisation, TextLevels};
use crate::rows::{Marks, Observations, Rest};
use crate::words::Summary;

/// Under these names a coreset's metadata have its encoding and its model.
pub(super) const ENCODING: &str = "corelet.encoding";
pub(super) const MODEL: &str = "corelet.model";

/// And under these its levels and its scale, as a summary writes them.
pub(super) const LEVELS: &str = "corelet.levels";
pub(super) const STANDARDISATION: &str = "corelet.standardisation";

/// And under this one its Gaussian part, in the coordinates of the standardised features.
pub const REST: &str = "corelet.rest";

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
    /// How the rows of the input became observations.
    pub lineage: Lineage,
    /// How text columns became indicators.
    pub levels: Vec<TextLevels>,
    /// What was done to the features.
    pub standardisation: Standardisation,
    /// The column that is the target.
    pub target: Option<String>,
    /// What tells these observations from others.
    pub fingerprint: String,
    /// A sample of rows that identifies repeated rows; none if rows are on a cluster.
    pub marks: Option<Marks>,
    /// The classes of a target that has several, in the order of their numbers; the first of those without an order is the base.
    pub classes: Vec<String>,
    /// How cells became numbers.
    pub encoding: Encoding,
}

/// A Gaussian factor with the names of its parameters.
#[derive(Serialize)]
struct NamedRest<'a> {
    names: &'a [String],
    #[serde(flatten)]
    rest: &'a Rest,
}

/// A Gaussian factor and the names of its coordinates, as stored in a coreset's metadata.
///
/// # Errors
/// Errors of the writer.
pub fn rest_metadata(names: &[String], rest: &Rest) -> serde_json::Result<(String, String)> {
    Ok((REST.to_owned(), serde_json::to_string(&NamedRest { names, rest })?))
}

/// How the rows of the input became observations.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    /// Rows left out for missing values.
    pub dropped: usize,
    /// Where equal rows were taken as one: how many there were.
    pub collapsed: Option<usize>,
    /// The first row of each partition, and the end of the last, if the data are in partitions.
    pub partitions: Vec<usize>,
}

impl Frame {
    /// The observation that each row of the data became.
    ///
    /// # Errors
    /// If a row is not there, or was left out.
    pub fn observations_of(&self, rows: &[usize]) -> Result<Vec<usize>, StudyError> {
        let all = self.rows.total();
        let find = |&row: &usize| {
            self.rows.observation(row).ok_or_else(|| StudyError::NoSuchRow {
                row,
                reason: if row < all && self.lineage.collapsed.is_some() {
                    format!("it is equal to an earlier row of {} and counted there", self.source)
                } else if row < all {
                    format!("it has missing values in {} and was left out", self.source)
                } else {
                    format!("{} has {all} rows", self.source)
                },
            })
        };
        rows.iter().map(find).collect()
    }

    /// Other rows, encoded as these were.
    ///
    /// # Errors
    /// Names the column, and the row if a single row is at fault.
    pub fn encode(&self, source: &Source<'_>, besides: Besides) -> Result<Observations, DataError> {
        self.encoding.encode(source, besides, &self.levels, &self.standardisation)
    }

    /// The metadata of a coreset file: its summary, and everything needed to encode its own rows and new rows again.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn metadata(
        &self,
        summary: &Summary,
        model: &Resolved,
        rest: Option<&Rest>,
    ) -> serde_json::Result<BTreeMap<String, String>> {
        let mut metadata = summary.metadata(&self.levels, &self.standardisation)?;
        metadata.insert(ENCODING.to_owned(), serde_json::to_string(&self.encoding)?);
        metadata.insert(MODEL.to_owned(), serde_json::to_string(model)?);
        if let Some(rest) = rest {
            metadata.extend([rest_metadata(&self.names, rest)?]);
        }
        Ok(metadata)
    }

    /// The rows of the data that observations came from.
    pub fn rows_of(&self, observations: &[usize]) -> Vec<usize> {
        observations.iter().map(|&i| self.rows.file_row(i)).collect()
    }
}
