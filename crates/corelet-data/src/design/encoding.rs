//! How rows became observations, kept so that other rows become the same: new ones to predict, test rows, a coreset's own.

#[cfg(feature = "files")]
use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::design::collinear::ScaledColumns;
use crate::design::features::{Cells, Feature, TextLevels};
use crate::design::fill::Encoder;
use crate::design::groups::{Groups, NamedGroups};
use crate::design::options::Beside;
use crate::design::standardise::Standardisation;
use crate::design::target::{Examined, TargetCode};
use crate::error::DataError;
use crate::listing::{excerpt, list, list_names};
use crate::observations::Observations;
use crate::scan::blocks::{Declared, Kind, Wanted};
use crate::scan::kept_rows::KeptRows;
use crate::scan::levels::{Level, Levels};
use crate::scan::place::Place;
use crate::scan::source::Source;
use crate::scan::storage::Storage;
use crate::scan::sums::Spread;
use crate::scan::survey::{Asked, Found, Survey, survey};
use crate::scan::text_cells::Markers;

/// The encoding of a design: from cells, by the names of their columns, to features, target and exposure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    /// The name of each feature.
    pub names: Vec<String>,
    /// The source of each feature.
    pub(crate) features: Vec<Made>,
    /// The target and its code, where there is one.
    pub(crate) target: Option<CodedTarget>,
    /// The column beside the target and what it is.
    pub(crate) beside: Option<(String, Beside)>,
    /// The column of the offset, where there is one.
    #[serde(default)]
    pub(crate) offset: Option<String>,
    /// The columns of groups of random effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) factors: Vec<String>,
    /// The column of the weights, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weights: Option<String>,
    /// Additional texts that mean a missing value, besides an empty cell, `NA`, `NaN` and `null`.
    pub(crate) missing: Vec<String>,
}

/// The source of a feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Made {
    /// The numbers of a column.
    Number(String),
    /// Its booleans.
    Bool(String),
    /// Where its text is this level.
    Level(String, String),
    /// Ones.
    Ones,
}

/// A column and how its cells become numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CodedTarget {
    pub(crate) column: String,
    pub(crate) code: TargetCode,
    /// The labels of classes; empty if the target is a number.
    pub(crate) labels: Vec<String>,
}

/// Which columns of the rows are wanted besides the features and the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Besides {
    /// None.
    Nothing,
    /// An exposure alone, which a prediction depends on.
    Exposure,
    /// Target and whatever stands beside it.
    Target,
    /// These and the weights: rows that a model is fitted to.
    Weighted,
}

impl Besides {
    fn target(self) -> bool {
        matches!(self, Self::Target | Self::Weighted)
    }
}

impl Encoding {
    /// The column of the exposure, where there is one.
    pub fn exposure(&self) -> Option<&str> {
        let (column, beside) = self.beside.as_ref()?;
        (*beside == Beside::Exposure).then_some(column)
    }

    /// The columns of groups of random effects.
    pub fn factors(&self) -> &[String] {
        &self.factors
    }

    /// The classes of a target that has several, in the order of their numbers.
    pub fn classes(&self) -> Vec<String> {
        self.target.as_ref().map_or_else(Vec::new, |target| target.code.classes())
    }

    /// The columns it reads, and whether each is taken as text whatever it looks like.
    #[cfg(feature = "files")]
    pub(crate) fn columns(&self) -> Vec<(&str, bool)> {
        let features = self.features.iter().filter_map(|made| match made {
            Made::Number(column) | Made::Bool(column) => Some((column.as_str(), false)),
            Made::Level(column, _) => Some((column.as_str(), true)),
            Made::Ones => None,
        });
        let target = self.target.iter().map(|target| (target.column.as_str(), target.code.is_text()));
        let mut columns: Vec<(&str, bool)> = features
            .chain(target)
            .chain(self.beside.iter().map(|(column, _)| (column.as_str(), false)))
            .chain(self.offset.iter().map(|column| (column.as_str(), false)))
            .chain(self.factors.iter().map(|column| (column.as_str(), true)))
            .collect();
        let mut seen = HashSet::new();
        columns.retain(|(column, _)| seen.insert(*column));
        columns
    }

    /// The rows of `source`, encoded as those of the design were, with its levels and its standardisation.
    ///
    /// # Errors
    /// Names the column that is not there or is of another kind, the level that is not known, and what is missing.
    pub fn encode(
        &self,
        source: &Source<'_>,
        besides: Besides,
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> Result<Observations, DataError> {
        Ok(self.encode_noting(source, besides, Unseen::Error, levels, standardisation)?.0)
    }

    /// The same with the groups by each column of random effects, see [`Columns::factors`](crate::design::options::Columns), which must be there.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_groups(
        &self,
        source: &Source<'_>,
        besides: Besides,
        unseen: Unseen,
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> Result<(Observations, Vec<NamedGroups>, Vec<String>), DataError> {
        let asked = Policy { besides, grouped: true, unseen, drop_missing: false };
        let encoded = self.encode_all(source, &asked, levels, standardisation);
        let (rows, groups, _, notes) = encoded.map_err(|error| source.located(error))?;
        Ok((rows, groups, notes))
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
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> Result<(Observations, Vec<String>), DataError> {
        let asked = Policy { besides, grouped: false, unseen, drop_missing: false };
        let encoded = self.encode_all(source, &asked, levels, standardisation);
        let (rows, _, _, notes) = encoded.map_err(|error| source.located(error))?;
        Ok((rows, notes))
    }

    /// Rows that a model is fitted to, with target and weights, and which rows of the source they are: all, or with `drop_missing` those
    /// in which no cell is missing.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_data(
        &self,
        source: &Source<'_>,
        drop_missing: bool,
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> Result<(Observations, KeptRows), DataError> {
        let asked =
            Policy { besides: Besides::Weighted, grouped: false, unseen: Unseen::Error, drop_missing };
        let encoded = self.encode_all(source, &asked, levels, standardisation);
        let (rows, _, kept, _) = encoded.map_err(|error| source.located(error))?;
        Ok((rows, kept))
    }

    fn encode_all(
        &self,
        source: &Source<'_>,
        &Policy { besides, grouped, unseen, drop_missing }: &Policy,
        levels: &[TextLevels],
        standardisation: &Standardisation,
    ) -> Result<(Observations, Vec<NamedGroups>, KeptRows, Vec<String>), DataError> {
        let columns = Columns::of(self, source, besides, grouped)?;
        let markers = Markers::new(&self.missing);
        let watch = &mut |_: &_| ControlFlow::Continue(());
        let survey = survey(source.reader(), &columns.asked, &markers, watch)?;
        if survey.rows.total() == 0 {
            let empty = NamedGroups { groups: Groups::of_names::<&str>(&[]), names: Vec::new() };
            let none = Observations { dim: self.names.len(), ..Observations::default() };
            return Ok((none, vec![empty; columns.groupings.len()], survey.rows, Vec::new()));
        }
        let known = Known { encoding: self, levels, unseen, drop_missing };
        let notes = columns.check(&known, source.name(), &survey)?;
        let kinds = columns.asked.iter().zip(&survey.columns);
        let wanted: Vec<Wanted> =
            kinds.map(|(asked, found)| Wanted { column: asked.column, kind: found.values.kind() }).collect();
        let features: Vec<Feature> =
            self.names.iter().zip(&self.features).map(|pair| columns.feature(pair)).collect();
        let code =
            self.target.as_ref().filter(|_| columns.target.is_some()).map(|target| target.code.clone());
        let encoder = Encoder {
            reader: source.reader(),
            file: source.name(),
            wanted: &wanted,
            markers: &markers,
            kept: &survey.kept,
            features: &features,
            storage: &Storage::default(),
            target: code.unwrap_or(TargetCode::None),
            beside: self.beside.as_ref().map(|(_, what)| *what),
            // Weights are those of a fit, and a coreset's have them in them.
            singles: [columns.target, columns.beside, columns.weights, columns.offset],
            groupings: columns.groupings.clone(),
        };
        // Nothing is to be learnt of their correlations.
        let none = ScaledColumns { dim: features.len(), columns: vec![], centre: vec![], scale: vec![] };
        let filled = encoder.rows(&none, standardisation, survey.looks + 1, watch)?;
        Ok((filled.observations, filled.groups, survey.rows, notes))
    }
}

/// The policy for an unseen level, which the design did not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unseen {
    /// They are an error.
    #[default]
    Error,
    /// It is taken as the base level of its column.
    Baseline,
}

impl Unseen {
    /// The message about unseen levels of a column.
    fn check(self, known: &TextLevels, found: &Levels, file: String) -> Result<Option<String>, DataError> {
        let is_known = |text: &String| *text == known.base || known.levels.contains(text);
        let sorted = found.sorted().into_iter();
        let unseen: Vec<&Level> = sorted.filter(|level| !is_known(&level.text)).collect();
        let Some(first) = unseen.iter().min_by_key(|level| level.first) else { return Ok(None) };
        if self == Self::Error {
            let levels: Vec<&String> = std::iter::once(&known.base).chain(&known.levels).collect();
            let (column, place, value) = (known.column.clone(), first.first, excerpt(&first.text));
            return Err(DataError::UnseenLevel {
                file,
                column,
                place,
                value,
                known: list_names(&levels).into(),
            });
        }
        let rows: usize = unseen.iter().map(|level| level.rows.rows).sum();
        let names: Vec<&String> = unseen.iter().map(|level| &level.text).collect();
        Ok(Some(format!(
            "column '{}': {rows} row{} with unseen levels ({}) taken as the base level '{}'",
            known.column,
            if rows == 1 { "" } else { "s" },
            list_names(&names),
            excerpt(&known.base)
        )))
    }
}

/// The levels of the design.
struct Known<'a> {
    encoding: &'a Encoding,
    levels: &'a [TextLevels],
    unseen: Unseen,
    drop_missing: bool,
}

/// What is read of the rows, and what becomes of those that the design could not have had.
struct Policy {
    besides: Besides,
    /// With the groups of random effects.
    grouped: bool,
    unseen: Unseen,
    drop_missing: bool,
}

/// The columns that are read, by name and by their place among those asked for.
struct Columns {
    names: Vec<String>,
    asked: Vec<Asked>,
    target: Option<usize>,
    beside: Option<usize>,
    weights: Option<usize>,
    offset: Option<usize>,
    /// The columns of groups.
    groupings: Vec<usize>,
}

impl Columns {
    fn of(
        encoding: &Encoding,
        source: &Source<'_>,
        besides: Besides,
        grouped: bool,
    ) -> Result<Self, DataError> {
        let (names, asked, groupings) = (Vec::new(), Vec::new(), Vec::new());
        let mut columns =
            Self { names, asked, target: None, beside: None, weights: None, offset: None, groupings };
        for made in &encoding.features {
            match made {
                Made::Number(column) | Made::Bool(column) => columns.ask(source, column, None)?,
                Made::Level(column, _) => columns.ask(source, column, Some(Kind::Text))?,
                Made::Ones => continue,
            };
        }
        if let Some(target) = encoding.target.as_ref().filter(|_| besides.target()) {
            let text = target.code.is_text().then_some(Kind::Text);
            columns.target = Some(columns.ask(source, &target.column, text)?);
        }
        if let Some((column, beside)) = &encoding.beside
            && (besides.target() || besides == Besides::Exposure && *beside == Beside::Exposure)
        {
            columns.beside = Some(columns.ask(source, column, None)?);
        }
        if let Some(column) = encoding.weights.as_ref().filter(|_| besides == Besides::Weighted) {
            columns.weights = Some(columns.ask(source, column, None)?);
        }
        if let Some(column) = &encoding.offset {
            columns.offset = Some(columns.ask(source, column, None)?);
        }
        for column in encoding.factors.iter().filter(|_| grouped) {
            let place = columns.ask(source, column, Some(Kind::Text))?;
            columns.groupings.push(place);
        }
        Ok(columns)
    }

    /// The place of a column among those asked for, which it is from now on.
    fn ask(&mut self, source: &Source<'_>, name: &str, kind: Option<Kind>) -> Result<usize, DataError> {
        if let Some(place) = self.names.iter().position(|known| known == name) {
            return Ok(place);
        }
        let known = source.reader().columns().iter().position(|column| column.name == name);
        let column = known.ok_or_else(|| source.unknown_column(name))?;
        let declared = match source.reader().columns()[column].declared {
            Declared::Kind(kind) => Some(kind),
            Declared::Categories => Some(Kind::Text),
            Declared::Nothing | Declared::Unsupported(_) => None,
        };
        let kind = kind.or(declared);
        self.names.push(name.to_owned());
        self.asked.push(Asked { column, kind, values: true, weighs: false });
        Ok(self.names.len() - 1)
    }

    fn place(&self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_default()
    }

    /// A feature as the second look makes it.
    fn feature(&self, (name, made): (&String, &Made)) -> Feature {
        let cells = match made {
            Made::Number(column) => Cells::Number(self.place(column)),
            Made::Bool(column) => Cells::Bool(self.place(column)),
            Made::Level(column, level) => Cells::Level(self.place(column), level.clone()),
            Made::Ones => Cells::Ones,
        };
        let moments = Spread { mean: 0.0, sd: 1.0, rms: 1.0, min: 0.0, max: 1.0 };
        Feature { name: name.clone(), cells, moments }
    }

    /// Refuses what is missing, not finite, of another kind, or a level that the design did not have and that may not be taken as
    /// the base; says which are.
    fn check(&self, known: &Known<'_>, file: &str, survey: &Survey) -> Result<Vec<String>, DataError> {
        let encoding = known.encoding;
        let found = || self.names.iter().zip(&survey.columns);
        let gaps: Vec<String> = found()
            .filter(|(_, found)| found.missing > 0)
            .map(|(name, found)| format!("{} in '{name}'", found.missing))
            .collect();
        if !gaps.is_empty() && !known.drop_missing {
            let (affected, rows) = (survey.rows.total() - survey.rows.len(), survey.rows.total());
            let columns = list(gaps.into_iter());
            return Err(DataError::Gaps { file: file.to_owned(), affected, rows, columns });
        }
        for (name, found) in found() {
            if let Found::Numbers(numbers) = &found.values
                && let Some((place, value)) = numbers.infinite
            {
                let (file, column) = (file.to_owned(), name.clone());
                return Err(DataError::NonFinite { file, column, place, value: value.to_string() });
            }
        }
        let mut notes = Vec::new();
        for made in &encoding.features {
            notes.extend(self.check_feature(made, known, file, survey)?);
        }
        // Each level of a column is a feature of its own.
        notes.dedup();
        let of = |place: usize| Examined {
            file,
            column: &self.names[place],
            found: &survey.columns[place].values,
        };
        if let (Some(place), Some(target)) = (self.target, &encoding.target) {
            of(place).check_labels_known(target)?;
        }
        if let Some(place) = self.offset {
            of(place).numbers("the offset")?;
        }
        if let Some(place) = self.weights {
            of(place).positive("the weights")?;
        }
        if let (Some(place), Some((_, beside))) = (self.beside, &encoding.beside) {
            of(place).beside(*beside)?;
        }
        Ok(notes)
    }

    fn check_feature(
        &self,
        made: &Made,
        known: &Known<'_>,
        file: &str,
        survey: &Survey,
    ) -> Result<Option<String>, DataError> {
        let (Made::Number(column) | Made::Bool(column) | Made::Level(column, _)) = made else {
            return Ok(None);
        };
        let found = &survey.columns[self.place(column)].values;
        made.check(found, (file, column), known.levels, known.unseen)
    }
}

impl Made {
    /// Refuses cells of another kind, and levels that the design did not have unless they may be taken as the base; says which are.
    pub(crate) fn check(
        &self,
        found: &Found,
        (file, column): (&str, &str),
        levels: &[TextLevels],
        unseen: Unseen,
    ) -> Result<Option<String>, DataError> {
        let (file, column) = (file.to_owned(), column.to_owned());
        match (self, found) {
            (Self::Number(_), Found::Numbers(_)) | (Self::Bool(_), Found::Bools(_)) => Ok(None),
            (Self::Level(..), Found::Texts(found)) => {
                let Some(text) = levels.iter().find(|text| text.column == column) else {
                    return Ok(None);
                };
                unseen.check(text, found, file)
            }
            (Self::Number(_), _) => Err(DataError::OtherKind { file, column, was: "numbers" }),
            (Self::Bool(_), _) => Err(DataError::OtherKind { file, column, was: "true and false" }),
            _ => Err(DataError::OtherKind { file, column, was: "text" }),
        }
    }
}

impl Examined<'_> {
    /// Refuses a label that the design did not have, and cells of another kind.
    pub(crate) fn check_labels_known(&self, target: &CodedTarget) -> Result<(), DataError> {
        let (file, column) = self.names();
        if target.labels.is_empty() {
            return match self.found {
                Found::Numbers(_) => Ok(()),
                _ => Err(DataError::OtherKind { file, column, was: "numbers" }),
            };
        }
        match self.labels().into_iter().find(|label| !target.labels.contains(label)) {
            None => Ok(()),
            Some(label) => {
                let (place, known) = (Place { row: 0, line: None }, list_names(&target.labels));
                let place = self.first_of(&label).unwrap_or(place);
                Err(DataError::UnknownLevel { file, column, place, value: excerpt(&label), known })
            }
        }
    }

    /// Where a label stands first, where that is known.
    fn first_of(&self, label: &str) -> Option<Place> {
        match self.found {
            Found::Texts(levels) => {
                levels.sorted().iter().find(|level| level.text == label).map(|level| level.first)
            }
            Found::Numbers(numbers) => {
                let distinct = &numbers.single.as_ref()?.distinct;
                distinct.iter().find(|(value, ..)| value.to_string() == label).map(|&(_, _, place)| place)
            }
            _ => None,
        }
    }
}
