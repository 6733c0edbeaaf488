//! Columns to features: numbers as they are, booleans as 0 and 1, text as indicators.

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::listing::excerpt;
use crate::scan::levels::{Level, Levels, MAX_LEVELS};
use crate::scan::sums::{Size, Spread};
use crate::scan::survey::Found;

/// How one text column became indicators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLevels {
    /// The text column.
    pub column: String,
    /// The level without an indicator: the one with most rows, by their weights where they have any, and of equals the first in sorted order.
    pub base: String,
    /// The levels with an indicator, sorted; that of level `JFK` of column `origin` is called `origin=JFK`.
    pub levels: Vec<String>,
}

/// One column of the design before standardisation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) cells: Cells,
    pub(crate) moments: Spread,
}

/// Where the numbers of a feature come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cells {
    /// The numbers of this column among those asked for.
    Number(usize),
    /// Its booleans as 0 and 1.
    Bool(usize),
    /// 1 where its text is this.
    Level(usize, String),
    Ones,
}

/// Features as they are found, column by column.
#[derive(Debug, Default)]
pub(crate) struct Features {
    pub(crate) features: Vec<Feature>,
    pub(crate) levels: Vec<TextLevels>,
    pub(crate) warnings: Vec<String>,
}

impl Features {
    /// Adds those of one column, the `position`-th of those asked for, on so many rows.
    pub(crate) fn add(
        &mut self,
        file: &str,
        column: &str,
        position: usize,
        found: &Found,
        size: &Size,
    ) -> Result<(), DataError> {
        let single = |cells, moments| Feature { name: column.to_owned(), cells, moments };
        match found {
            Found::Numbers(numbers) => {
                self.features.push(single(Cells::Number(position), numbers.sums.moments(size)));
            }
            Found::Bools([_, trues]) => {
                self.features.push(single(Cells::Bool(position), Spread::of_indicator(trues, size)));
            }
            Found::Texts(levels) => self.add_indicators(file, column, position, levels, size)?,
            Found::Nothing | Found::Mixed => {}
        }
        Ok(())
    }

    fn add_indicators(
        &mut self,
        file: &str,
        column: &str,
        position: usize,
        levels: &Levels,
        size: &Size,
    ) -> Result<(), DataError> {
        if levels.too_many() {
            let (file, column) = (file.to_owned(), column.to_owned());
            return Err(DataError::TooManyLevels { file, column, limit: MAX_LEVELS });
        }
        let sorted = levels.sorted();
        // `max_by` would give the last of equals.
        let by_weight = |a: &&&Level, b: &&&Level| a.rows.weight().total_cmp(&b.rows.weight());
        let Some(base) = sorted.iter().rev().max_by(by_weight) else { return Ok(()) };
        if sorted.len() == 1 {
            self.warnings.push(left_out(column, &format!("'{}'", excerpt(&base.text))));
            return Ok(());
        }
        let others: Vec<&&Level> = sorted.iter().filter(|level| level.text != base.text).collect();
        self.features.extend(others.iter().map(|level| Feature {
            name: format!("{column}={}", level.text),
            cells: Cells::Level(position, level.text.clone()),
            moments: Spread::of_indicator(&level.rows, size),
        }));
        self.levels.push(TextLevels {
            column: column.to_owned(),
            base: base.text.clone(),
            levels: others.iter().map(|level| level.text.clone()).collect(),
        });
        Ok(())
    }

    /// Leaves out what is the same in every row, the intercept apart, whose position may move.
    pub(crate) fn leave_out_constants(&mut self, intercept: &mut Option<(usize, f64)>) {
        let constant = |j: usize, feature: &Feature| {
            feature.moments.is_constant() && intercept.is_none_or(|(intercept, _)| intercept != j)
        };
        let gone: Vec<bool> =
            self.features.iter().enumerate().map(|(j, feature)| constant(j, feature)).collect();
        for (feature, _) in self.features.iter().zip(&gone).filter(|&(_, &gone)| gone) {
            self.warnings.push(left_out(&feature.name, &feature.moments.min.to_string()));
        }
        if let Some((position, _)) = intercept {
            *position -= gone[..*position].iter().filter(|&&gone| gone).count();
        }
        let mut gone = gone.iter();
        self.features.retain(|_| !gone.next().copied().unwrap_or_default());
    }
}

fn left_out(column: &str, value: &str) -> String {
    format!("column '{column}' has the same value, {value}, in every row and was left out")
}
