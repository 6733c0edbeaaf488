//! A coreset by itself: its rows, weights and model, of which the posterior is sampled and new rows are predicted without the data.

#[cfg(feature = "files")]
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "files")]
use serde::de::DeserializeOwned;

#[cfg(feature = "files")]
use super::frame::{ENCODING, MODEL, REST};
use super::{Listener, Resolved, StudyError, sample_kept_with_rest};
use crate::data::{Besides, DataError, Encoding, Source, Standardisation, TextLevels, Unseen};
#[cfg(feature = "files")]
use crate::data::{CoresetFile, read_coreset};
use crate::posterior::{Chains, SampleSettings};
use crate::rows::{Observations, Rest};

/// What a coreset file holds beside its cells.
#[derive(Debug, Clone)]
pub struct KeptCoreset {
    /// Its rows, encoded.
    pub rows: Observations,
    /// Their weights.
    pub weights: Vec<f64>,
    /// The Gaussian part, without which the rows mean nothing.
    pub rest: Option<Arc<Rest>>,
    /// The model and its prior.
    pub model: Resolved,
    /// How cells become numbers.
    pub encoding: Encoding,
    levels: Vec<TextLevels>,
    standardisation: Standardisation,
}

impl KeptCoreset {
    /// Reads a coreset file, Parquet or JSON; CSV has no place for what is needed.
    ///
    /// # Errors
    /// Names the file, and what it does not say.
    #[cfg(feature = "files")]
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        let file = read_coreset(path)?;
        let name = path.display().to_string();
        let encoding: Encoding = note(&file, &name, ENCODING)?;
        let levels: Vec<TextLevels> = note(&file, &name, "corelet.levels")?;
        let standardisation: Standardisation = note(&file, &name, "corelet.standardisation")?;
        let model = note(&file, &name, MODEL)?;
        let rest = rest_of(&file, &name)?;
        let rows = if file.rows.is_empty() {
            Observations::default()
        } else {
            encoding.encode(&file.source(&encoding)?, Besides::Target, &levels, &standardisation)?
        };
        Ok(Self { rows, weights: file.weights, rest, model, encoding, levels, standardisation })
    }

    /// Other rows, encoded as its own.
    ///
    /// # Errors
    /// Names the column, and the row where a single one is at fault.
    pub fn encode(&self, source: &Source<'_>, besides: Besides) -> Result<Observations, DataError> {
        self.encoding.encode(source, besides, &self.levels, &self.standardisation)
    }

    /// The same with a policy for unseen levels, and what was made of them, a line for each column.
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
        let points = (self.rows.clone(), &self.weights[..], self.rest.clone());
        sample_kept_with_rest(points, &self.model, settings, seed, listener)
    }
}

/// The Gaussian part of a coreset file, where it has one.
///
/// # Errors
/// Names the file, where what it says there cannot be read.
#[cfg(feature = "files")]
pub fn rest_of(coreset: &CoresetFile, file: &str) -> Result<Option<Arc<Rest>>, StudyError> {
    coreset.notes.contains_key(REST).then(|| note(coreset, file, REST).map(Arc::new)).transpose()
}

/// What a file says under a key.
#[cfg(feature = "files")]
fn note<T: DeserializeOwned>(coreset: &CoresetFile, file: &str, key: &str) -> Result<T, StudyError> {
    let refused = |reason: String| StudyError::NotKept { file: file.to_owned(), reason };
    let text = coreset.notes.get(key).ok_or_else(|| {
        refused(
            "it does not say how its rows were encoded: a coreset that is to predict must be written as Parquet or JSON, \
             by this version"
                .to_owned(),
        )
    })?;
    serde_json::from_str(text)
        .map_err(|error| refused(format!("what it says under {key} cannot be read: {error}")))
}
