//! The findings of the first scan of a table, checked against the role of each column.

use crate::design::encoding::{CodedTarget, Encoding, Made};
use crate::design::features::{Cells, Feature, Features};
use crate::design::options::{Columns, DesignOptions, Outcome, Single};
use crate::design::roles::Roles;
use crate::design::target::{Examined, TargetCode};
use crate::error::DataError;
use crate::listing::{excerpt, list, list_names};
use crate::scan::levels::{NotText, without_unit};
use crate::scan::source::Source;
use crate::scan::sums::Size;
use crate::scan::survey::{Found, Survey};

/// The findings of the first scan, checked against the role of each column.
pub(crate) struct Examination<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) roles: &'a Roles,
    pub(crate) survey: &'a Survey,
}

impl Examination<'_> {
    fn file(&self) -> String {
        self.source.name().to_owned()
    }

    /// The columns in use, in the order asked: position in the file, name, what was found.
    fn columns(&self) -> impl Iterator<Item = (usize, &str, &Found)> {
        let Roles { features, singles, groups, factors, .. } = self.roles;
        let positions = features.iter().chain(singles.iter().flatten()).chain(groups).chain(factors);
        let columns = self.source.reader().columns();
        let found = self.survey.columns.iter();
        positions.zip(found).map(|(&column, found)| (column, columns[column].name.as_str(), &found.values))
    }

    pub(crate) fn check(&self, drop_missing: bool) -> Result<(), DataError> {
        self.check_finite()?;
        self.check_missing(drop_missing)?;
        self.check_text()
    }

    fn check_finite(&self) -> Result<(), DataError> {
        for (_, column, found) in self.columns() {
            if let Found::Numbers(numbers) = found
                && let Some((place, value)) = numbers.infinite
            {
                let (file, column) = (self.file(), column.to_owned());
                return Err(DataError::NonFinite { file, column, place, value: value.to_string() });
            }
        }
        Ok(())
    }

    /// Refuses missing values that may not be left out, and a file with nothing but them.
    fn check_missing(&self, drop_missing: bool) -> Result<(), DataError> {
        let rows = &self.survey.rows;
        let mut empty =
            self.columns().zip(&self.survey.columns).filter(|(_, found)| found.missing >= rows.total());
        if let (true, Some(((position, column, _), _))) = (rows.total() > 1, empty.next()) {
            let (file, column) = (self.file(), column.to_owned());
            let feature = self.roles.features.contains(&position);
            return Err(DataError::EmptyColumn { file, column, feature });
        }
        let counts = self.columns().zip(&self.survey.columns).filter(|(_, found)| found.missing > 0);
        let counts: Vec<String> =
            counts.map(|((_, column, _), found)| format!("{} in '{column}'", found.missing)).collect();
        if !counts.is_empty() && !drop_missing {
            return Err(DataError::Missing {
                file: self.file(),
                affected: rows.total() - rows.len(),
                rows: rows.total(),
                columns: list(counts.into_iter()),
            });
        }
        if rows.len() < 2 {
            return Err(DataError::TooFewRows { file: self.file(), rows: rows.len() });
        }
        Ok(())
    }

    /// Refuses columns of numbers that some other cells turned into text.
    fn check_text(&self) -> Result<(), DataError> {
        for (position, column, found) in self.columns() {
            let Found::Texts(levels) = found else { continue };
            if self.roles.is_declared_text(self.source, position) {
                continue;
            }
            let (file, column) = (self.file(), column.to_owned());
            match levels.check_text() {
                Ok(()) => {}
                Err(NotText::Numbers { place, value, others }) => {
                    let value = excerpt(&value);
                    return Err(DataError::NearlyNumeric { file, column, place, value, others });
                }
                Err(NotText::DecimalCommas { place, value }) => {
                    return Err(DataError::DecimalComma { file, column, place, value: excerpt(&value) });
                }
                Err(NotText::Thousands { place, value }) => {
                    return Err(DataError::Thousands { file, column, place, value: excerpt(&value) });
                }
                Err(NotText::Units { place, value }) => {
                    let number = without_unit(&value).unwrap_or_default().into();
                    let value = excerpt(&value).into();
                    return Err(DataError::Unit { file, column, place, value, number });
                }
                Err(NotText::Quantities { place, value }) => {
                    return Err(DataError::NumbersAsText { file, column, place, value: excerpt(&value) });
                }
            }
        }
        Ok(())
    }

    /// The column of a feature by its name: its place among those asked for, and what was found of it.
    pub(crate) fn feature(&self, name: &str) -> Option<(usize, &Found)> {
        let mut features = self.columns().take(self.roles.features.len()).enumerate();
        features.find(|(_, (_, known, _))| *known == name).map(|(place, (_, _, found))| (place, found))
    }

    /// The columns that are features, in words.
    pub(crate) fn feature_names(&self) -> String {
        list_names(
            &self.columns().take(self.roles.features.len()).map(|(_, name, _)| name).collect::<Vec<_>>(),
        )
    }

    pub(crate) fn examined(&self, single: Single) -> Option<Examined<'_>> {
        let position = self.roles.single_positions()[single as usize]?;
        let (_, column, found) = self.columns().nth(position)?;
        Some(Examined { file: self.source.name(), column, found })
    }

    pub(crate) fn target(
        &self,
        options: &DesignOptions,
        warnings: &mut Vec<String>,
    ) -> Result<TargetCode, DataError> {
        let target = self.examined(Single::Target);
        target.map_or(Ok(TargetCode::None), |target| target.target(options, warnings))
    }

    /// The encoding that other rows need to be encoded in the same way.
    pub(crate) fn encoding(
        &self,
        options: &DesignOptions,
        features: &[Feature],
        code: TargetCode,
    ) -> Encoding {
        let names: Vec<&str> = self.columns().map(|(_, name, _)| name).collect();
        let made = |feature: &Feature| match &feature.cells {
            Cells::Number(position) => Made::Number(names[*position].to_owned()),
            Cells::Bool(position) => Made::Bool(names[*position].to_owned()),
            Cells::Level(position, level) => Made::Level(names[*position].to_owned(), level.clone()),
            Cells::Ones => Made::Ones,
        };
        let classes = matches!(options.outcome, Outcome::Classes | Outcome::Several | Outcome::Ordered);
        let target = self.examined(Single::Target).filter(|_| code != TargetCode::None);
        Encoding {
            names: features.iter().map(|feature| feature.name.clone()).collect(),
            features: features.iter().map(made).collect(),
            target: target.map(|target| CodedTarget {
                column: target.column.to_owned(),
                code,
                labels: if classes { target.labels() } else { Vec::new() },
            }),
            offset: options.columns.offset.clone(),
            factors: options.columns.factors.clone(),
            weights: options.columns.weights.clone(),
            beside: options.columns.beside().map(|(column, what)| (column.clone(), what)),
            missing: options.missing.clone(),
        }
    }

    /// The column beside the target, the weights and the offset.
    pub(crate) fn beside(&self, columns: &Columns) -> Result<(), DataError> {
        if let Some((column, (_, what))) = self.examined(Single::Beside).zip(columns.beside()) {
            column.beside(what)?;
        }
        if let Some(weights) = self.examined(Single::Weights) {
            weights.positive(columns.role(Single::Weights))?;
        }
        let offset = self.examined(Single::Offset);
        offset.map_or(Ok(()), |offset| offset.numbers(columns.role(Single::Offset)).map(|_| ()))
    }

    /// How many rows there are, by their weights where they have any.
    pub(crate) fn size(&self) -> Size {
        let weights = self.examined(Single::Weights).and_then(|weights| match weights.found {
            Found::Numbers(numbers) => Some(numbers),
            _ => None,
        });
        weights.map_or(Size::of_rows(self.survey.rows.len()), |numbers| {
            let are_counts = numbers.single.as_ref().is_some_and(|single| single.not_count.is_none());
            Size::of_weights(&numbers.sums.rows, are_counts)
        })
    }

    pub(crate) fn features(&self) -> Result<Features, DataError> {
        let (mut features, size) = (Features::default(), self.size());
        let columns = self.columns().take(self.roles.features.len());
        for (position, (at, column, found)) in columns.enumerate() {
            features.add(self.source.name(), column, position, found, &size)?;
            let declared = self.roles.is_declared_text(self.source, at);
            features.warnings.extend(doubts(column, found, declared, &size));
        }
        check_width(self.source, &features, self.survey.rows.len())?;
        Ok(features)
    }
}

/// A text column has too few rows for its levels where there are fewer than this for each, and more levels than that.
const ROWS_PER_LEVEL: usize = 20;
const MANY_LEVELS: usize = 50;

/// Warnings about columns that may not be intended as features, or not as this kind of feature.
fn doubts(column: &str, found: &Found, declared: bool, size: &Size) -> Option<String> {
    match found {
        Found::Texts(levels) if !declared && levels.are_numbers() && !levels.too_many() => Some(format!(
            "column '{column}' is text, but every cell is a number: its {} values are taken as levels; store it as numbers if they are \
             quantities",
            levels.sorted().len()
        )),
        Found::Texts(levels) if !declared && levels.sorted().len() > 2 && levels.are_dates() => {
            Some(format!(
                "column '{column}' holds dates as text, and each of its {} values becomes a coefficient; exclude it, or turn it into a number, \
             such as days",
                levels.sorted().len()
            ))
        }
        Found::Texts(levels) if !declared && has_many(levels.sorted().len(), size.rows) => Some(format!(
            "column '{column}' has {} levels in {} rows, and each becomes a coefficient; exclude it, or give its levels random effects",
            levels.sorted().len(),
            size.rows
        )),
        Found::Numbers(numbers) if numbers.is_identifier(size) => Some(format!(
            "column '{column}' holds a different whole number in every row, like an identifier; exclude it unless it is a quantity"
        )),
        _ => None,
    }
}

fn has_many(levels: usize, rows: usize) -> bool {
    levels > MANY_LEVELS && rows < ROWS_PER_LEVEL * levels
}

/// Refuses more features than rows.
pub(crate) fn check_width(source: &Source<'_>, found: &Features, rows: usize) -> Result<(), DataError> {
    let features = found.features.len();
    if features <= rows {
        return Ok(());
    }
    let widest = found.levels.iter().max_by_key(|text| text.levels.len());
    let text = widest.map(|text| (text.column.clone(), text.levels.len()));
    Err(DataError::MoreFeaturesThanRows { file: source.name().to_owned(), features, rows, text })
}
