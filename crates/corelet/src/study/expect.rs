//! A study against the coreset that is judged in it: the same rows, the same priors, the same scale.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::frame::{ENCODING, LEVELS, MODEL, REST, STANDARDISATION};
use super::{ITS_PRIORS, OTHER_DATA, OTHER_PRIORS, Resolved, Study, StudyError};
use crate::data::{KeptDesign, Standardisation};
use crate::trust::Reason;

use std::sync::OnceLock;

/// The information about its rows in a coreset's summary.
#[derive(Deserialize)]
struct Known {
    fingerprint: Option<String>,
}

/// The information about coordinates in a Gaussian factor.
#[derive(Deserialize)]
struct Coordinates {
    names: Option<Vec<String>>,
}

/// The encoding of a coreset's rows, from its metadata; none if these do not contain it, as in CSV. Rows that judge it must be encoded
/// in the same way: its Gaussian factor, its priors and its draws are on the scale of the rows that it was first built on.
///
/// # Errors
/// Names the entry that cannot be read.
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
    /// Compares the observations with those that a coreset was built on, if known. If they differ, this is
    /// reported, and no verdict on the coreset is an A.
    pub fn expect(&mut self, fingerprint: Option<&str>) {
        if fingerprint.is_some_and(|known| known != self.frame.fingerprint) {
            self.known.push(Reason::OtherData);
            self.warnings.push(OTHER_DATA.to_owned());
        }
    }

    /// Compares the priors with those under which a coreset was built. If they differ, the user gave no priors, and the coreset is one of these
    /// observations, the coreset's priors are used. Otherwise the coreset is judged by the priors of this study. Both cases are reported.
    ///
    /// # Errors
    /// If the coreset's priors are invalid.
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

    /// Compares observations, priors and, if the coreset has a Gaussian factor, its parameters and their scale with the metadata of
    /// a coreset; `name` names it. See [`expect`](Self::expect) and [`expect_priors`](Self::expect_priors).
    ///
    /// # Errors
    /// If its Gaussian factor has other parameters, or parameters on another scale: in these coordinates it would be another
    /// function. If its priors are invalid.
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
