//! LIBSVM text: a target and the non-zero features of each row.

use std::io::{BufRead, BufReader};
use std::path::Path;

use super::error::{DataError, excerpt};
use super::input::{TextInput, source_name};
use super::table::{Column, Lines, MAX_COLUMNS, Place, Table, Values};

/// Reads `target index:value ...` lines, indices from 1 and ascending, as columns `x1` ... `xD` and `y`.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let file = source_name(path);
    let input = TextInput::new(path)?;
    let mut reader = BufReader::with_capacity(1 << 18, input.open()?);
    let mut rows = Rows::default();
    let mut lines = Lines::default();
    let mut line = String::new();
    let mut number = 0;
    while next_line(&mut reader, &mut line).map_err(|e| DataError::read(&file, &e))? {
        number += 1;
        let content = line.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let place = Place { row: rows.target.len(), line: Some(number) };
        lines.note(place.row, number);
        rows.add(content).map_err(|fault| fault.at(&file, place))?;
    }
    let mut table = rows.finish(file)?;
    table.lines = Some(lines);
    Ok(table)
}

fn next_line(reader: &mut impl BufRead, line: &mut String) -> std::io::Result<bool> {
    line.clear();
    Ok(reader.read_line(line)? > 0)
}

/// What is wrong with a line, before the file and the line are known.
enum Fault {
    Syntax(String),
    Infinite { column: String, value: String },
}

impl Fault {
    fn at(self, file: &str, place: Place) -> DataError {
        let file = file.to_owned();
        match self {
            Self::Syntax(reason) => DataError::BadLine { file, place, reason },
            Self::Infinite { column, value } => DataError::NonFinite { file, column, place, value },
        }
    }
}

/// Rows so far, a column at a time; a column is only as long as its last non-zero row.
#[derive(Default)]
struct Rows {
    target: Vec<f64>,
    features: Vec<Vec<f64>>,
}

impl Rows {
    fn add(&mut self, content: &str) -> Result<(), Fault> {
        let row = self.target.len();
        let mut fields = content.split_ascii_whitespace();
        let label = fields.next().unwrap_or_default();
        self.target.push(parse_number(label, || "y".to_owned())?);
        let mut last = 0;
        for field in fields {
            let (index, value) = parse_entry(field)?;
            if index <= last {
                return Err(Fault::Syntax(format!(
                    "index {index} follows {last}; indices must ascend from 1"
                )));
            }
            last = index;
            self.set(row, index - 1, value);
        }
        Ok(())
    }

    fn set(&mut self, row: usize, feature: usize, value: f64) {
        if feature >= self.features.len() {
            self.features.resize_with(feature + 1, Vec::new);
        }
        let column = &mut self.features[feature];
        column.resize(row, 0.0);
        column.push(value);
    }

    fn finish(self, file: String) -> Result<Table, DataError> {
        let rows = self.target.len();
        let mut columns = Vec::with_capacity(self.features.len() + 1);
        for (j, mut values) in self.features.into_iter().enumerate() {
            values.resize(rows, 0.0);
            columns.push(number_column(format!("x{}", j + 1), values));
        }
        columns.push(number_column("y".to_owned(), self.target));
        let mut table = Table::new(file, columns)?;
        table.own_target = Some("y".to_owned());
        Ok(table)
    }
}

fn number_column(name: String, values: Vec<f64>) -> Column {
    let integer = values.iter().all(|v| v.is_nan() || v.fract() == 0.0);
    Column { name, values: Values::Number { values, integer } }
}

fn parse_entry(field: &str) -> Result<(usize, f64), Fault> {
    let malformed = || Fault::Syntax(format!("'{}' is not index:value", excerpt(field)));
    let (index, value) = field.split_once(':').ok_or_else(malformed)?;
    let index: usize = index.parse().map_err(|_| malformed())?;
    if index == 0 || index > MAX_COLUMNS {
        return Err(Fault::Syntax(format!("index {index} is not in 1 to {MAX_COLUMNS}")));
    }
    Ok((index, parse_number(value, || format!("x{index}"))?))
}

fn parse_number(text: &str, column: impl FnOnce() -> String) -> Result<f64, Fault> {
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() => Err(Fault::Infinite { column: column(), value: text.to_owned() }),
        Ok(value) => Ok(value),
        Err(_) => Err(Fault::Syntax(format!("column '{}': '{}' is not a number", column(), excerpt(text)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_rows_become_dense_columns() {
        let mut rows = Rows::default();
        for line in ["1 2:0.5", "-1 1:3 3:1", "1"] {
            assert!(rows.add(line).is_ok());
        }
        let table = rows.finish("t".to_owned()).unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["x1", "x2", "x3", "y"]);
        let Values::Number { values, .. } = &table.columns[1].values else { panic!("a number column") };
        assert_eq!(values, &[0.5, 0.0, 0.0]);
    }

    #[test]
    fn malformed_entries_are_refused() {
        for line in ["a 1:2", "1 2", "1 0:1", "1 2:1 2:1", "1 1:x", "1 99999999:1", "1 1:inf", "1 qid:3"] {
            assert!(Rows::default().add(line).is_err(), "{line}");
        }
    }
}
