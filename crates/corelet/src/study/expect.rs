//! A study against the coreset that is judged in it: the same rows, the same priors, the same scale.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::frame::{ENCODING, LEVELS, MODEL, REST, STANDARDISATION};
use super::{ITS_PRIORS, OTHER_DATA, OTHER_PRIORS, Resolved, Study, StudyError};
use crate::data::{KeptDesign, Standardisation};
use crate::trust::Reason;

use std::sync::OnceLock;

/// What a coreset's summary says of its rows.
#[derive(Deserialize)]
struct Known {
    fingerprint: Option<String>,
}

/// What a Gaussian part says of its coordinates.
#[derive(Deserialize)]
struct Coordinates {
    names: Option<Vec<String>>,
}

/// How the rows of a coreset were encoded, from its metadata; none where these do not say it, as in CSV. Rows that it is judged on are to
/// become the same: its Gaussian part, its priors and its draws are on the scale of the rows that it was first built on.
///
/// # Errors
/// Names what cannot be read.
pub fn design_of(notes: &BTreeMap<String, String>, name: &str) -> Result<Option<KeptDesign>, StudyError> {
    if !notes.contains_key(ENCODING) {
        return Ok(None);
    }
    Ok(Some(KeptDesign {
        encoding: note(notes, name, ENCODING)?,
        levels: note(notes, name, LEVELS)?,
        standardisation: note(notes, name, STANDARDISATION)?,
    }))
}

impl Study {
    /// Compares the observations with those that a coreset was built on, where that is known. Where they differ this is
    /// said, and no verdict on the coreset is an A.
    pub fn expect(&mut self, fingerprint: Option<&str>) {
        if fingerprint.is_some_and(|known| known != self.frame.fingerprint) {
            self.known.push(Reason::OtherData);
            self.warnings.push(OTHER_DATA.to_owned());
        }
    }

    /// Compares the priors with those of the model that a coreset was built under. Where they differ and nobody has said which are
    /// meant, those of the coreset are taken, if it is one of these observations; else a coreset is judged by the priors of this
    /// study. Either is said.
    ///
    /// # Errors
    /// Where the priors of the coreset are none.
    pub fn expect_priors(&mut self, kept: &Resolved) -> Result<(), StudyError> {
        if kept.said == self.model.said {
            return Ok(());
        }
        let shape = |model: &Resolved| (model.model, model.numbers, model.priors.len());
        let other = shape(kept) != shape(&self.model) || self.known.contains(&Reason::OtherData);
        if self.priors_given || other {
            self.warnings.push(OTHER_PRIORS.to_owned());
            return Ok(());
        }
        (self.model, self.prior, self.full) = (kept.clone(), kept.prior()?, OnceLock::new());
        self.warnings.push(ITS_PRIORS.to_owned());
        self.judge_prior();
        Ok(())
    }

    /// Compares observations, priors and, where the coreset has a Gaussian part, its parameters and their scale with what the metadata of
    /// a coreset say; `name` names it. See [`expect`](Self::expect) and [`expect_priors`](Self::expect_priors).
    ///
    /// # Errors
    /// Where its Gaussian part is of other parameters, or of parameters on another scale: in these coordinates it would be another
    /// function. Where its priors are none.
    pub fn expect_notes(&mut self, notes: &BTreeMap<String, String>, name: &str) -> Result<(), StudyError> {
        self.expect_coordinates(notes, name)?;
        let known = notes.get("corelet").and_then(|text| serde_json::from_str::<Known>(text).ok());
        self.expect(known.and_then(|known| known.fingerprint).as_deref());
        let kept = notes.get(MODEL).and_then(|text| serde_json::from_str(text).ok());
        kept.map_or(Ok(()), |kept| self.expect_priors(&kept))
    }

    fn expect_coordinates(&self, notes: &BTreeMap<String, String>, name: &str) -> Result<(), StudyError> {
        if !notes.contains_key(REST) {
            return Ok(());
        }
        let refused = |reason: String| Err(StudyError::NotKept { file: name.to_owned(), reason });
        let Coordinates { names } = note(notes, name, REST)?;
        let here = &self.frame.names;
        if let Some(names) = names.filter(|names| names != here) {
            let (own, here) = (names.join(", "), here.join(", "));
            return refused(format!(
                "its Gaussian part is of the parameters {own}, and the model here has {here}"
            ));
        }
        let scale: Standardisation = note(notes, name, STANDARDISATION)?;
        if scale != self.frame.standardisation {
            return refused(
                "its Gaussian part is on the scale of the rows that it was first built on, and these are on another".to_owned(),
            );
        }
        Ok(())
    }
}

/// What a file says under a key.
pub(super) fn note<T: DeserializeOwned>(
    notes: &BTreeMap<String, String>,
    file: &str,
    key: &str,
) -> Result<T, StudyError> {
    let refused = |reason: String| StudyError::NotKept { file: file.to_owned(), reason };
    let text = notes.get(key).ok_or_else(|| {
        refused(
            "it does not say how its rows were encoded, since CSV has no place for it: write the coreset as .parquet or .json, \
             by this version"
                .to_owned(),
        )
    })?;
    serde_json::from_str(text)
        .map_err(|error| refused(format!("what it says under {key} cannot be read: {error}")))
}
