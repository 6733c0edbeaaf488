//! Targets of several classes: which there are, in which order, and how cells become their numbers.

use serde::{Deserialize, Serialize};

use crate::design::target::Examined;
use crate::error::DataError;
use crate::listing::{excerpt, list_names};
use crate::scan::sums::Tally;
use crate::scan::survey::Found;
use crate::scan::view::ValuesView;

/// More classes than this are a number or a key, not classes.
const MOST_CLASSES: usize = 20;

/// The classes of a target, in the order of their numbers 0, 1, ….
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Classes {
    Numbers(Vec<f64>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

impl Classes {
    /// As text.
    pub(crate) fn labels(&self) -> Vec<String> {
        match self {
            Self::Numbers(values) => values.iter().map(f64::to_string).collect(),
            Self::Bools(values) => values.iter().map(bool::to_string).collect(),
            Self::Texts(values) => values.clone(),
        }
    }

    /// The numbers of the cells of `kept` rows, in order.
    pub(crate) fn code(&self, cells: &ValuesView<'_>, kept: &[usize], out: &mut [f64]) {
        let out = out.iter_mut().zip(kept);
        match (self, cells) {
            (Self::Numbers(classes), ValuesView::Number { values, .. }) => {
                out.for_each(|(out, &i)| *out = number_of(classes, &values.get(i)));
            }
            (Self::Bools(classes), ValuesView::Bool(values)) => {
                out.for_each(|(out, &i)| *out = number_of(classes, &(values[i] == Some(true))));
            }
            (Self::Texts(classes), ValuesView::Text { codes, levels }) => {
                let numbers: Vec<f64> = levels.iter().map(|level| number_of(classes, level)).collect();
                out.for_each(|(out, &i)| *out = numbers.get(codes[i] as usize).copied().unwrap_or(-1.0));
            }
            // The first look has chosen the code by what the cells are.
            _ => {}
        }
    }

    /// The same classes in another order, each by its place in this one.
    fn ordered(&self, order: &[usize]) -> Self {
        match self {
            Self::Numbers(values) => Self::Numbers(order.iter().map(|&i| values[i]).collect()),
            Self::Bools(values) => Self::Bools(order.iter().map(|&i| values[i]).collect()),
            Self::Texts(values) => Self::Texts(order.iter().map(|&i| values[i].clone()).collect()),
        }
    }
}

/// The place of a class, −1 where it is none: no such cell was there at the first look.
fn number_of<T: PartialEq>(classes: &[T], cell: &T) -> f64 {
    classes.iter().position(|class| class == cell).map_or(-1.0, |place| place as f64)
}

impl Examined<'_> {
    /// Classes without an order: the one with most rows, by their weights, is the base and stands first, the others follow sorted.
    pub(crate) fn several(&self) -> Result<Classes, DataError> {
        let (classes, counts) = self.sorted_classes()?;
        // `max_by` would give the last of equals.
        let base = (0..counts.len()).rev().max_by(|&i, &j| counts[i].weight().total_cmp(&counts[j].weight()));
        let base = base.unwrap_or_default();
        let others = (0..counts.len()).filter(|&i| i != base);
        Ok(classes.ordered(&std::iter::once(base).chain(others).collect::<Vec<_>>()))
    }

    /// Ordered levels: numbers ascend, text follows `levels`.
    pub(crate) fn ordered(&self, levels: Option<&[String]>) -> Result<Classes, DataError> {
        let (classes, _) = self.sorted_classes()?;
        let labels = classes.labels();
        let (file, column) = self.names();
        let Some(levels) = levels else {
            if matches!(classes, Classes::Texts(_)) {
                return Err(DataError::LevelsNeeded { file, column, levels: list_names(&labels) });
            }
            return Ok(classes);
        };
        let place = |level: &String| labels.iter().position(|label| label == level);
        let order: Option<Vec<usize>> = levels.iter().map(place).collect();
        let listed = |label: &&String| !levels.contains(label);
        match order {
            Some(order) if order.len() == labels.len() && !labels.iter().any(|label| listed(&label)) => {
                Ok(classes.ordered(&order))
            }
            _ => {
                let (said, found) = (list_names(levels), list_names(&labels));
                Err(DataError::OtherLevels { file, column, said, found })
            }
        }
    }

    /// All classes, sorted, and the rows of each.
    fn sorted_classes(&self) -> Result<(Classes, Vec<Tally>), DataError> {
        let (classes, counts) = match self.found {
            Found::Texts(levels) if !levels.too_many() => {
                let sorted = levels.sorted();
                let texts = sorted.iter().map(|level| level.text.clone()).collect();
                (Classes::Texts(texts), sorted.iter().map(|level| level.rows).collect())
            }
            Found::Bools(counts) => {
                let found = [false, true].into_iter().zip(*counts).filter(|(_, rows)| rows.rows > 0);
                let (values, counts): (Vec<bool>, Vec<Tally>) = found.unzip();
                (Classes::Bools(values), counts)
            }
            Found::Texts(_) => (Classes::Texts(Vec::new()), vec![Tally::default(); MOST_CLASSES + 1]),
            _ => {
                let mut distinct = self.single("the target")?.distinct.clone();
                distinct.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
                let counts: Vec<Tally> = distinct.iter().map(|&(_, rows, _)| rows).collect();
                (Classes::Numbers(distinct.into_iter().map(|(value, ..)| value).collect()), counts)
            }
        };
        let (file, column) = self.names();
        match counts.len() {
            0 | 1 => {
                let value = classes.labels().first().map_or_else(String::new, |only| excerpt(only));
                Err(DataError::OneClass { file, column, value: format!("'{value}'") })
            }
            count if count > MOST_CLASSES => {
                Err(DataError::ManyClasses { file, column, limit: MOST_CLASSES })
            }
            _ => Ok((classes, counts)),
        }
    }
}
