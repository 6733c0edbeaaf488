//! Columns to features: numbers as they are, booleans as 0 and 1, text as indicators.

use serde::{Deserialize, Serialize};

use super::error::{DataError, excerpt};
use super::table::MISSING;
use super::view::{ColumnView, Numbers, TableView, ValuesView};

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
    Number(Numbers<'a>),
    Bool(&'a [Option<bool>]),
    Indicator { codes: &'a [u32], level: u32 },
    Ones,
}

impl Cells<'_> {
    /// Hands the value of each of `rows`, in order, to `each`.
    pub(super) fn for_each(self, rows: &[usize], mut each: impl FnMut(usize, f64)) {
        let numbered = rows.iter().enumerate();
        match self {
            Self::Number(values) => values.for_each(rows, each),
            Self::Bool(values) => {
                numbered.for_each(|(i, &row)| each(i, f64::from(values[row] == Some(true))));
            }
            Self::Indicator { codes, level } => {
                numbered.for_each(|(i, &row)| each(i, f64::from(codes[row] == level)));
            }
            Self::Ones => numbered.for_each(|(i, _)| each(i, 1.0)),
        }
    }
}

/// The features of `columns`, seen on `rows`, and the levels of those that are text.
pub(super) fn encode<'a>(
    table: &TableView<'_>,
    columns: &[ColumnView<'a>],
    rows: &[usize],
) -> Result<(Vec<Feature<'a>>, Vec<TextLevels>), DataError> {
    let mut features = Vec::new();
    let mut levels = Vec::new();
    for column in columns {
        let single = |cells| Feature { name: column.name.to_owned(), cells };
        match column.values {
            ValuesView::Number { values, .. } => features.push(single(Cells::Number(values))),
            ValuesView::Bool(values) => features.push(single(Cells::Bool(values))),
            ValuesView::Text { codes, levels: texts } => {
                let coding = Coding::new(table, column, codes, texts, rows)?;
                features.extend(coding.indicators(column, codes, texts));
                levels.push(coding.describe(column, texts));
            }
            ValuesView::Other(_) => return Err(unsupported(table, column)),
        }
    }
    Ok((features, levels))
}

/// The error of a column that no model can use.
pub(super) fn unsupported(table: &TableView<'_>, column: &ColumnView<'_>) -> DataError {
    let kind = match &column.values {
        ValuesView::Number { .. } => "number".to_owned(),
        ValuesView::Bool(_) => "boolean".to_owned(),
        ValuesView::Text { .. } => "text".to_owned(),
        ValuesView::Other(array) => arrow::array::Array::data_type(array.as_ref()).to_string(),
    };
    DataError::UnsupportedType { file: table.source.to_owned(), column: column.name.to_owned(), kind }
}

/// Codes of the levels that occur, the base apart.
struct Coding {
    base: u32,
    others: Vec<u32>,
}

impl Coding {
    fn new(
        table: &TableView<'_>,
        column: &ColumnView<'_>,
        codes: &[u32],
        texts: &[String],
        rows: &[usize],
    ) -> Result<Self, DataError> {
        let counts = count_levels(codes, texts.len(), rows);
        let mut seen: Vec<u32> = (0..texts.len() as u32).filter(|&code| counts[code as usize] > 0).collect();
        if seen.len() > MAX_LEVELS {
            return Err(DataError::TooManyLevels {
                file: table.source.to_owned(),
                column: column.name.to_owned(),
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
                file: table.source.to_owned(),
                column: column.name.to_owned(),
                value: base.map_or_else(String::new, |code| format!("'{}'", excerpt(&texts[code as usize]))),
            }),
        }
    }

    fn indicators<'a>(
        &self,
        column: &ColumnView<'_>,
        codes: &'a [u32],
        texts: &[String],
    ) -> Vec<Feature<'a>> {
        let indicator = |&level: &u32| Feature {
            name: format!("{}={}", column.name, texts[level as usize]),
            cells: Cells::Indicator { codes, level },
        };
        self.others.iter().map(indicator).collect()
    }

    fn describe(&self, column: &ColumnView<'_>, texts: &[String]) -> TextLevels {
        TextLevels {
            column: column.name.to_owned(),
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
