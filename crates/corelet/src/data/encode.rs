//! Columns to features: numbers as they are, booleans as 0 and 1, text as indicators.

use serde::{Deserialize, Serialize};

use super::error::{DataError, excerpt};
use super::table::{Column, MISSING, Table, Values};

/// More indicators than this from one column are a key or a free text, not a category.
const MAX_LEVELS: usize = 1000;

/// How one text column became indicators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLevels {
    /// The text column.
    pub column: String,
    /// The level without an indicator: the most frequent one, and of equals the first in sorted order.
    pub base: String,
    /// The levels with an indicator, sorted; that of level `JFK` of column `origin` is called `origin=JFK`.
    pub levels: Vec<String>,
}

/// One column of the design before standardisation.
pub(super) struct Feature<'a> {
    pub(super) name: String,
    pub(super) cells: Cells<'a>,
}

/// Where the numbers of a feature come from.
#[derive(Clone, Copy)]
pub(super) enum Cells<'a> {
    Number(&'a [f64]),
    Bool(&'a [Option<bool>]),
    Indicator { codes: &'a [u32], level: u32 },
    Ones,
}

impl Cells<'_> {
    /// Hands the value of each of `rows`, in order, to `each`.
    pub(super) fn for_each(self, rows: &[usize], mut each: impl FnMut(usize, f64)) {
        let rows = rows.iter().enumerate();
        match self {
            Self::Number(values) => rows.for_each(|(i, &row)| each(i, values[row])),
            Self::Bool(values) => rows.for_each(|(i, &row)| each(i, f64::from(values[row] == Some(true)))),
            Self::Indicator { codes, level } => {
                rows.for_each(|(i, &row)| each(i, f64::from(codes[row] == level)));
            }
            Self::Ones => rows.for_each(|(i, _)| each(i, 1.0)),
        }
    }
}

/// The features of `columns`, seen on `rows`, and the levels of those that are text.
pub(super) fn encode<'a>(
    table: &Table,
    columns: &[&'a Column],
    rows: &[usize],
) -> Result<(Vec<Feature<'a>>, Vec<TextLevels>), DataError> {
    let mut features = Vec::new();
    let mut levels = Vec::new();
    for column in columns {
        let single = |cells| Feature { name: column.name.clone(), cells };
        match &column.values {
            Values::Number { values, .. } => features.push(single(Cells::Number(values))),
            Values::Bool(values) => features.push(single(Cells::Bool(values))),
            Values::Text { codes, levels: texts } => {
                let coding = Coding::new(table, column, codes, texts, rows)?;
                features.extend(coding.indicators(column, codes, texts));
                levels.push(coding.describe(column, texts));
            }
            Values::Other(_) => return Err(unsupported(table, column)),
        }
    }
    Ok((features, levels))
}

/// The error of a column that no model can use.
pub(super) fn unsupported(table: &Table, column: &Column) -> DataError {
    let kind = match &column.values {
        Values::Number { .. } => "number".to_owned(),
        Values::Bool(_) => "boolean".to_owned(),
        Values::Text { .. } => "text".to_owned(),
        Values::Other(array) => arrow::array::Array::data_type(array.as_ref()).to_string(),
    };
    DataError::UnsupportedType { file: table.source.clone(), column: column.name.clone(), kind }
}

/// Codes of the levels that occur, the base apart.
struct Coding {
    base: u32,
    others: Vec<u32>,
}

impl Coding {
    fn new(
        table: &Table,
        column: &Column,
        codes: &[u32],
        texts: &[String],
        rows: &[usize],
    ) -> Result<Self, DataError> {
        let counts = count_levels(codes, texts.len(), rows);
        let mut seen: Vec<u32> = (0..texts.len() as u32).filter(|&code| counts[code as usize] > 0).collect();
        if seen.len() > MAX_LEVELS {
            return Err(DataError::TooManyLevels {
                file: table.source.clone(),
                column: column.name.clone(),
                levels: seen.len(),
                limit: MAX_LEVELS,
            });
        }
        seen.sort_unstable_by_key(|&code| &texts[code as usize]);
        // `max_by_key` would give the last of equals.
        let base = seen.iter().copied().rev().max_by_key(|&code| counts[code as usize]);
        match base {
            Some(base) if seen.len() > 1 => {
                Ok(Self { base, others: seen.into_iter().filter(|&code| code != base).collect() })
            }
            _ => Err(DataError::Constant {
                file: table.source.clone(),
                column: column.name.clone(),
                value: base.map_or_else(String::new, |code| format!("'{}'", excerpt(&texts[code as usize]))),
            }),
        }
    }

    fn indicators<'a>(&self, column: &Column, codes: &'a [u32], texts: &[String]) -> Vec<Feature<'a>> {
        let indicator = |&level: &u32| Feature {
            name: format!("{}={}", column.name, texts[level as usize]),
            cells: Cells::Indicator { codes, level },
        };
        self.others.iter().map(indicator).collect()
    }

    fn describe(&self, column: &Column, texts: &[String]) -> TextLevels {
        TextLevels {
            column: column.name.clone(),
            base: texts[self.base as usize].clone(),
            levels: self.others.iter().map(|&code| texts[code as usize].clone()).collect(),
        }
    }
}

/// How often each code occurs in `rows`.
pub(super) fn count_levels(codes: &[u32], levels: usize, rows: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; levels];
    for &row in rows {
        if codes[row] != MISSING {
            counts[codes[row] as usize] += 1;
        }
    }
    counts
}
