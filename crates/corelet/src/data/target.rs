//! The target and the exposure, checked and coded as each model wants them.

use super::design::{DesignOptions, Task};
use super::encode::{count_levels, unsupported};
use super::error::{DataError, excerpt, list_names};
use super::view::{ColumnView, Numbers, TableView, ValuesView};

/// A column of a table, on the rows in use.
#[derive(Clone, Copy)]
pub(super) struct Used<'a> {
    pub(super) table: &'a TableView<'a>,
    pub(super) column: ColumnView<'a>,
    pub(super) rows: &'a [usize],
}

impl Used<'_> {
    /// The target as the model of `options` wants it.
    pub(super) fn target(self, options: &DesignOptions) -> Result<Vec<f64>, DataError> {
        match options.task {
            Task::Gaussian => Ok(Vec::new()),
            Task::Linear => self.numbers("the target"),
            Task::Poisson => self.counts(),
            Task::Logistic => self.classes(options.positive.as_deref()),
        }
    }

    /// The exposure: positive numbers.
    pub(super) fn exposure(self) -> Result<Vec<f64>, DataError> {
        let values = self.numbers("the exposure")?;
        match values.iter().position(|&value| value <= 0.0) {
            None => Ok(values),
            Some(i) => Err(DataError::NotPositive {
                file: self.file(),
                column: self.name(),
                place: self.table.place(self.rows[i]),
                value: values[i],
            }),
        }
    }

    fn file(self) -> String {
        self.table.source.to_owned()
    }

    fn name(self) -> String {
        self.column.name.to_owned()
    }

    fn numbers(self, role: &'static str) -> Result<Vec<f64>, DataError> {
        match &self.column.values {
            ValuesView::Number { values, .. } => Ok(self.rows.iter().map(|&row| values.get(row)).collect()),
            ValuesView::Other(_) => Err(unsupported(self.table, &self.column)),
            ValuesView::Bool(_) | ValuesView::Text { .. } => Err(self.not_numeric(role)),
        }
    }

    /// Points at the first cell that is not a number, which in a text column need not be the first one.
    fn not_numeric(self, role: &'static str) -> DataError {
        let is_number = |row: usize| self.label(row).parse::<f64>().is_ok();
        let row = self.rows.iter().copied().find(|&row| !is_number(row));
        let row = row.or(self.rows.first().copied()).unwrap_or_default();
        DataError::NotNumeric {
            file: self.file(),
            column: self.name(),
            role,
            place: self.table.place(row),
            value: excerpt(&self.label(row)),
        }
    }

    fn counts(self) -> Result<Vec<f64>, DataError> {
        let values = self.numbers("the target")?;
        match values.iter().position(|&value| value < 0.0 || value.fract() != 0.0) {
            None => Ok(values),
            Some(i) => Err(DataError::NotCount {
                file: self.file(),
                column: self.name(),
                place: self.table.place(self.rows[i]),
                value: values[i],
            }),
        }
    }

    /// Two classes as −1 and +1.
    fn classes(self, positive: Option<&str>) -> Result<Vec<f64>, DataError> {
        let signs = match (&self.column.values, positive) {
            (ValuesView::Other(_), _) => return Err(unsupported(self.table, &self.column)),
            (_, Some(positive)) => self.signs_by_label(positive)?,
            (ValuesView::Text { .. }, None) => {
                let levels = self.labels();
                return Err(DataError::PositiveNeeded {
                    file: self.file(),
                    column: self.name(),
                    levels: list_names(&levels),
                });
            }
            (ValuesView::Bool(values), None) => {
                self.rows.iter().map(|&row| sign(values[row] == Some(true))).collect()
            }
            (ValuesView::Number { values, .. }, None) => self.signs_of_numbers(*values)?,
        };
        match signs.first() {
            Some(&first) if signs.iter().all(|&sign| sign == first) => Err(DataError::OneClass {
                file: self.file(),
                column: self.name(),
                value: format!("'{}'", excerpt(&self.label(self.rows[0]))),
            }),
            _ => Ok(signs),
        }
    }

    fn signs_of_numbers(self, values: Numbers<'_>) -> Result<Vec<f64>, DataError> {
        // With a −1 in the column the classes are ±1, and a 0 belongs to neither.
        let lower = if self.rows.iter().any(|&row| values.get(row) == -1.0) { -1.0 } else { 0.0 };
        let code = |&row: &usize| match values.get(row) {
            1.0 => Ok(1.0),
            value if value == lower => Ok(-1.0),
            value => Err(DataError::NotBinary {
                file: self.file(),
                column: self.name(),
                place: self.table.place(row),
                value,
            }),
        };
        self.rows.iter().map(code).collect()
    }

    fn signs_by_label(self, positive: &str) -> Result<Vec<f64>, DataError> {
        let labels = self.labels();
        let (file, column, levels) = (self.file(), self.name(), list_names(&labels));
        if labels.len() > 2 {
            return Err(DataError::LevelCount { file, column, count: labels.len(), levels });
        }
        if !labels.iter().any(|label| label == positive) {
            return Err(DataError::UnknownPositive { file, column, positive: positive.to_owned(), levels });
        }
        Ok(self.rows.iter().map(|&row| sign(self.label(row) == positive)).collect())
    }

    /// The distinct values, as text, sorted; of a numeric column no more than needed to see that there are too many.
    fn labels(self) -> Vec<String> {
        const ENOUGH: usize = 21;
        let mut labels: Vec<String> = match &self.column.values {
            ValuesView::Text { codes, levels } => {
                let counts = count_levels(codes, levels.len(), self.rows);
                levels
                    .iter()
                    .zip(counts)
                    .filter(|&(_, count)| count > 0)
                    .map(|(level, _)| level.clone())
                    .collect()
            }
            _ => {
                let mut seen: Vec<String> = Vec::new();
                for &row in self.rows {
                    let label = self.label(row);
                    if !seen.contains(&label) && seen.len() < ENOUGH {
                        seen.push(label);
                    }
                }
                seen
            }
        };
        labels.sort_unstable();
        labels
    }

    /// The cell as text.
    fn label(self, row: usize) -> String {
        match &self.column.values {
            ValuesView::Number { values, .. } => values.get(row).to_string(),
            ValuesView::Bool(values) => values[row].is_some_and(|value| value).to_string(),
            ValuesView::Text { codes, levels } => {
                levels.get(codes[row] as usize).cloned().unwrap_or_default()
            }
            ValuesView::Other(_) => String::new(),
        }
    }
}

fn sign(positive: bool) -> f64 {
    if positive { 1.0 } else { -1.0 }
}
