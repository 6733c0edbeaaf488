//! The target and the exposure, checked as each model wants them, and how they are coded.

use serde::{Deserialize, Serialize};

use crate::design::classes::Classes;
use crate::design::options::{Beside, DesignOptions, Outcome};
use crate::error::DataError;
use crate::listing::{excerpt, list_names};
use crate::looks::Looks;
use crate::scan::levels::Levels;
use crate::scan::place::Place;
use crate::scan::survey::{Found, NumberSurvey, SingleValues};
use crate::scan::view::ValuesView;

/// How the cells of a target become numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TargetCode {
    /// There is none.
    None,
    /// As they are.
    Number,
    /// +1 for this number, −1 for any other.
    SignOfNumber(f64),
    /// +1 for this boolean, −1 for the other.
    SignOfBool(bool),
    /// +1 for this text, −1 for any other.
    SignOfText(String),
    /// The number of the class.
    Class(Classes),
}

impl TargetCode {
    /// The coded cells of `kept` rows, in order.
    pub(crate) fn code(&self, cells: &ValuesView<'_>, kept: &[usize], out: &mut [f64]) {
        if let Self::Class(classes) = self {
            return classes.code(cells, kept, out);
        }
        let out = out.iter_mut().zip(kept);
        match (self, cells) {
            (Self::Number, ValuesView::Number { values, .. }) => {
                out.for_each(|(out, &i)| *out = values.get(i));
            }
            // An event that was seen or not.
            (Self::Number, ValuesView::Bool(values)) => {
                out.for_each(|(out, &i)| *out = f64::from(u8::from(values[i] == Some(true))));
            }
            (Self::SignOfNumber(positive), ValuesView::Number { values, .. }) => {
                out.for_each(|(out, &i)| *out = sign(values.get(i) == *positive));
            }
            (Self::SignOfBool(positive), ValuesView::Bool(values)) => {
                out.for_each(|(out, &i)| *out = sign(values[i] == Some(*positive)));
            }
            (Self::SignOfText(positive), ValuesView::Text { codes, levels }) => {
                let is_positive: Vec<bool> = levels.iter().map(|level| level == positive).collect();
                let is_positive = |code: u32| is_positive.get(code as usize).copied().unwrap_or_default();
                out.for_each(|(out, &i)| *out = sign(is_positive(codes[i])));
            }
            // The first look has chosen the code by what the cells are.
            _ => {}
        }
    }

    /// Whether the cells are text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::SignOfText(_) | Self::Class(Classes::Texts(_)))
    }

    /// The classes, where the target is coded by their numbers.
    pub(crate) fn classes(&self) -> Vec<String> {
        if let Self::Class(classes) = self { classes.labels() } else { Vec::new() }
    }
}

/// The role of the column to predict, in messages.
const TARGET: &str = "the target";

fn sign(positive: bool) -> f64 {
    if positive { 1.0 } else { -1.0 }
}

/// A column in one of these roles, and what the first look found of it.
pub(crate) struct Examined<'a> {
    pub(crate) file: &'a str,
    pub(crate) column: &'a str,
    pub(crate) found: &'a Found,
}

impl Examined<'_> {
    /// How the target is coded for the model of `options`.
    pub(crate) fn target(
        &self,
        options: &DesignOptions,
        warnings: &mut Vec<String>,
    ) -> Result<TargetCode, DataError> {
        match options.outcome {
            Outcome::None => Ok(TargetCode::None),
            Outcome::Number => {
                let numbers = self.numbers(TARGET)?;
                if numbers.single.as_ref().is_some_and(SingleValues::are_signs) {
                    let column = self.column;
                    warnings.push(format!("target '{column}' has no other values than 0 and 1: logistic regression is for such a target"));
                }
                Ok(TargetCode::Number)
            }
            Outcome::Count => self.counts(TARGET).map(|()| TargetCode::Number),
            Outcome::Positive => {
                let survival = options.columns.beside().is_some_and(|(_, what)| what == Beside::Event);
                let found = self.positive(TARGET);
                // Times until an event may be whole numbers, which do not make them counts.
                found.map_err(|error| if survival { error.without_looks() } else { error })?;
                Ok(TargetCode::Number)
            }
            Outcome::Classes => self.classes(options.positive.as_deref(), warnings),
            Outcome::Several => self.several().map(TargetCode::Class),
            Outcome::Ordered => self.ordered(options.levels.as_deref()).map(TargetCode::Class),
        }
    }

    /// The column beside the target: exposures and numbers of trials from 0 on, or events that were seen or not.
    pub(crate) fn beside(&self, what: Beside) -> Result<(), DataError> {
        match what {
            Beside::Exposure => {
                let (role, (file, column)) = (what.role(), self.names());
                let error = |(place, value)| Err(DataError::NotExposure { file, column, role, place, value });
                self.single(role)?.not_exposure.map_or(Ok(()), error)
            }
            Beside::Trials => self.counts(what.role()),
            Beside::Event if matches!(self.found, Found::Bools(_)) => Ok(()),
            Beside::Event => {
                let values = &self.single(what.role())?.distinct;
                match values.iter().find(|&&(value, _, _)| value != 0.0 && value != 1.0) {
                    Some(&(value, _, place)) => {
                        let (file, column) = self.names();
                        Err(DataError::NotEvent { file, column, place, value })
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn counts(&self, role: &'static str) -> Result<(), DataError> {
        let error = |(place, value)| {
            let (file, column) = self.names();
            Err(DataError::NotCount { file, column, role, place, value, looks: self.looks(role) })
        };
        self.single(role)?.not_count.map_or(Ok(()), error)
    }

    /// Numbers above 0.
    pub(crate) fn positive(&self, role: &'static str) -> Result<(), DataError> {
        let error = |(place, value)| {
            let (file, column) = self.names();
            Err(DataError::NotPositive { file, column, role, place, value, looks: self.looks(role) })
        };
        self.single(role)?.not_positive.map_or(Ok(()), error)
    }

    pub(crate) fn names(&self) -> (String, String) {
        (self.file.to_owned(), self.column.to_owned())
    }

    /// Numbers.
    pub(crate) fn numbers(&self, role: &'static str) -> Result<&NumberSurvey, DataError> {
        let first = match self.found {
            Found::Numbers(numbers) => return Ok(numbers),
            Found::Texts(levels) => first_word(levels),
            Found::Bools(counts) => (Place { row: 0, line: None }, (counts[1].rows > 0).to_string()),
            Found::Nothing | Found::Mixed => (Place { row: 0, line: None }, String::new()),
        };
        let (file, column) = self.names();
        let (place, value) = (first.0, excerpt(&first.1).into());
        Err(DataError::NotNumeric { file, column, role, place, value, looks: self.looks(role) })
    }

    /// What the target seems to be; nothing is said of other columns.
    fn looks(&self, role: &'static str) -> Option<Looks> {
        match self.found {
            _ if role != TARGET => None,
            Found::Numbers(numbers) => numbers.single.as_ref().map(SingleValues::looks),
            Found::Texts(levels) if levels.are_numbers() || levels.too_many() => None,
            Found::Texts(_) if self.labels().len() > 2 => Some(Looks::Words),
            Found::Texts(_) | Found::Bools(_) => Some(Looks::TwoValues),
            Found::Nothing | Found::Mixed => None,
        }
    }

    pub(crate) fn single(&self, role: &'static str) -> Result<&SingleValues, DataError> {
        const NONE: &SingleValues =
            &SingleValues { distinct: Vec::new(), not_count: None, not_positive: None, not_exposure: None };
        Ok(self.numbers(role)?.single.as_ref().unwrap_or(NONE))
    }

    /// Two classes as −1 and +1.
    fn classes(&self, positive: Option<&str>, warnings: &mut Vec<String>) -> Result<TargetCode, DataError> {
        let labels = self.labels();
        let (file, column) = self.names();
        if let Some(positive) = positive {
            self.check_labels(&labels, positive)?;
        } else if let (Found::Texts(_), 3..) = (self.found, labels.len()) {
            return Err(DataError::LevelCount {
                file,
                column,
                count: labels.len(),
                levels: list_names(&labels),
            });
        } else if let (Found::Texts(_), true) = (self.found, labels.len() != 1) {
            let last = labels.last().map_or("LEVEL", |label| label.as_ref()).into();
            return Err(DataError::PositiveNeeded { file, column, levels: list_names(&labels), last });
        }
        if let [only] = &labels[..] {
            return Err(DataError::OneClass { file, column, value: format!("'{}'", excerpt(only)) });
        }
        match (self.found, positive) {
            (Found::Texts(_), _) => Ok(TargetCode::SignOfText(positive.unwrap_or_default().to_owned())),
            (Found::Bools(_), _) => Ok(TargetCode::SignOfBool(positive.is_none_or(|text| text == "true"))),
            (_, Some(positive)) => {
                let value = self.single(TARGET)?.distinct.iter().map(|&(value, _, _)| value);
                let value = value.into_iter().find(|value| value.to_string() == positive);
                Ok(TargetCode::SignOfNumber(value.unwrap_or(f64::NAN)))
            }
            (_, None) => self.sign_of_number(warnings).map(TargetCode::SignOfNumber),
        }
    }

    fn check_labels(&self, labels: &[String], positive: &str) -> Result<(), DataError> {
        let ((file, column), levels) = (self.names(), list_names(labels));
        if labels.len() > 2 {
            return Err(DataError::LevelCount { file, column, count: labels.len(), levels });
        }
        if !labels.iter().any(|label| label == positive) {
            return Err(DataError::UnknownPositive { file, column, positive: positive.to_owned(), levels });
        }
        Ok(())
    }

    /// Which of the numbers is +1: with a −1 in the column the classes are ±1, and a 0 belongs to neither.
    fn sign_of_number(&self, warnings: &mut Vec<String>) -> Result<f64, DataError> {
        let single = self.single(TARGET)?;
        let has = |wanted: f64| single.distinct.iter().any(|&(value, _, _)| value == wanted);
        if single.distinct.len() == 2 && has(1.0) && has(2.0) {
            let column = self.column;
            warnings.push(format!("target '{column}' has the values 1 and 2; 2 is taken as success"));
            return Ok(2.0);
        }
        let lower = if has(-1.0) { -1.0 } else { 0.0 };
        let mut wrong = single.distinct.iter().filter(|&&(value, _, _)| value != 1.0 && value != lower);
        match wrong.next() {
            None => Ok(1.0),
            Some(&(value, _, place)) => {
                let (file, column) = self.names();
                Err(DataError::NotBinary { file, column, place, value, looks: single.looks() })
            }
        }
    }

    /// The distinct values, as text, sorted; of a numeric column no more than needed to see that there are too many.
    pub(crate) fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = match self.found {
            Found::Texts(levels) => levels.sorted().iter().map(|level| level.text.clone()).collect(),
            Found::Numbers(numbers) => {
                let distinct = numbers.single.iter().flat_map(|single| &single.distinct);
                distinct.map(|(value, _, _)| value.to_string()).collect()
            }
            Found::Bools(counts) => {
                let named = ["false", "true"].into_iter().zip(counts).filter(|(_, rows)| rows.rows > 0);
                named.map(|(name, _)| name.to_owned()).collect()
            }
            Found::Nothing | Found::Mixed => Vec::new(),
        };
        labels.sort_unstable();
        labels
    }
}

impl SingleValues {
    /// Whether 0 and 1 are all the values.
    fn are_signs(&self) -> bool {
        let mut values = self.distinct.iter().map(|&(value, _, _)| value);
        self.distinct.len() == 2 && values.all(|value| value == 0.0 || value == 1.0)
    }

    /// Whether 0 is among the values, as it is among counts; levels that are numbered usually begin at 1.
    fn has_zero(&self) -> bool {
        self.distinct.iter().any(|&(value, _, _)| value == 0.0)
    }

    /// What a target with these values may be.
    fn looks(&self) -> Looks {
        /// More levels than this are a count.
        const FEW: usize = 7;
        match (self.not_count, self.not_positive) {
            _ if self.distinct.len() == 2 => Looks::TwoValues,
            // Counts begin at 0; classes do too, where they are two or three.
            (None, _) if self.distinct.len() <= 3 => Looks::Levels,
            (None, _) if self.distinct.len() <= FEW && !self.has_zero() => Looks::Levels,
            (None, _) => Looks::Counts,
            (_, None) => Looks::Positive,
            _ => Looks::Continuous,
        }
    }
}

/// The first cell that is not a number, which in a text column need not be the first one.
fn first_word(levels: &Levels) -> (Place, String) {
    let sorted = levels.sorted();
    let words = sorted.iter().filter(|level| level.text.parse::<f64>().is_err());
    let first = words.min_by_key(|level| level.first).or(sorted.iter().min_by_key(|level| level.first));
    first.map_or((Place { row: 0, line: None }, String::new()), |level| (level.first, level.text.clone()))
}
