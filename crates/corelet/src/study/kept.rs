//! A coreset without its data: rows, weights and model, enough to sample its posterior and to predict new rows.

use std::collections::BTreeMap;
#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

use super::expect::note;
use super::frame::{ENCODING, LEVELS, MODEL, REST, STANDARDISATION};
use super::{Blocks, Listener, Resolved, StudyError, sample_kept_with_rest};
use crate::coreset::WrittenWeights;
use crate::data::{Besides, DataError, Encoding, KeptRows, Source, Standardisation, TextLevels, Unseen};
#[cfg(feature = "files")]
use crate::data::{CoresetFile, read_coreset};
use crate::posterior::{Chains, SampleSettings};
use crate::rows::{Observations, Rest};

/// What a coreset file holds beside its cells.
#[derive(Debug, Clone)]
pub struct KeptCoreset {
    /// Its rows, encoded.
    pub rows: Observations,
    /// Weights of these rows.
    pub weights: WrittenWeights,
    /// The Gaussian factor that belongs to the rows.
    pub rest: Option<Arc<Rest>>,
    /// The model and its prior.
    pub model: Resolved,
    /// How cells become numbers.
    pub encoding: Encoding,
    pub(super) levels: Vec<TextLevels>,
    pub(super) standardisation: Standardisation,
    /// What certifies it for which rows.
    pub blocks: Blocks,
}

impl KeptCoreset {
    /// Reads a coreset file, Parquet or JSON; CSV cannot store the model.
    ///
    /// # Errors
    /// Names the file, and the missing entry.
    #[cfg(feature = "files")]
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        Self::of_file(&read_coreset(path)?, &path.display().to_string())
    }

    /// The same of a file that has been read.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    #[cfg(feature = "files")]
    pub fn of_file(file: &CoresetFile, name: &str) -> Result<Self, StudyError> {
        let kept = Self::of_notes(Observations::default(), file.weights.clone().into(), &file.notes, name)?;
        if file.rows.is_empty() {
            return Ok(kept);
        }
        let rows = kept.encode(&file.source(&kept.encoding)?, Besides::Target)?;
        Ok(Self { rows, ..kept })
    }

    /// Of rows that are encoded already, their weights, and the metadata of the coreset, which `name` names.
    ///
    /// # Errors
    /// Names the missing entry of the metadata.
    pub fn of_notes(
        rows: Observations,
        weights: WrittenWeights,
        notes: &BTreeMap<String, String>,
        name: &str,
    ) -> Result<Self, StudyError> {
        let refused = |reason: String| StudyError::NotKept { file: name.to_owned(), reason };
        Ok(Self {
            rows,
            weights,
            rest: notes.get(REST).map(|_| note(notes, name, REST).map(Arc::new)).transpose()?,
            model: note(notes, name, MODEL)?,
            encoding: note(notes, name, ENCODING)?,
            levels: note(notes, name, LEVELS)?,
            standardisation: note(notes, name, STANDARDISATION)?,
            blocks: Blocks::read(notes).map_err(refused)?,
        })
    }

    /// Other rows, encoded as its own.
    ///
    /// # Errors
    /// Names the column, and the row if a single row is at fault.
    pub fn encode(&self, source: &Source<'_>, besides: Besides) -> Result<Observations, DataError> {
        self.encoding.encode(source, besides, &self.levels, &self.standardisation)
    }

    /// Rows to add to those that it represents: with target and weights, and their numbers in the source; with `drop_missing`
    /// only rows without missing cells.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_data(
        &self,
        source: &Source<'_>,
        drop_missing: bool,
    ) -> Result<(Observations, KeptRows), DataError> {
        let encoded = self.encoding.encode_data(source, drop_missing, &self.levels, &self.standardisation);
        encoded.map_err(DataError::of_data)
    }

    /// The same with a policy for unseen levels, and a line for each column with such levels.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_noting(
        &self,
        source: &Source<'_>,
        besides: Besides,
        unseen: Unseen,
    ) -> Result<(Observations, Vec<String>), DataError> {
        self.encoding.encode_noting(source, besides, unseen, &self.levels, &self.standardisation)
    }

    /// Draws of its posterior.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn sample(
        &self,
        settings: &SampleSettings,
        seed: u64,
        listener: &mut Listener<'_>,
    ) -> Result<Chains, StudyError> {
        let points = (self.rows.clone(), &self.weights, self.rest.clone());
        sample_kept_with_rest(points, &self.model, settings, seed, listener)
    }
}

/// The Gaussian factor of a coreset file, if it has one.
///
/// # Errors
/// Names the file if the entry cannot be read.
#[cfg(feature = "files")]
pub fn rest_of(coreset: &CoresetFile, file: &str) -> Result<Option<Arc<Rest>>, StudyError> {
    coreset.notes.contains_key(REST).then(|| note(&coreset.notes, file, REST).map(Arc::new)).transpose()
}
