//! CSV and TSV: one pass that guesses each column's type, and a second for columns whose guess failed midway.

use std::path::Path;

use ::csv::{ByteRecord, ReaderBuilder};

use super::error::DataError;
use super::input::{TextInput, source_name};
use super::table::{Column, Lines, Place, Table, TextBuilder, Values, check_distinct, clean_name};

/// Reads delimited text with a header line.
///
/// A column of `true`/`false` is boolean, one of numbers numeric, any other text. No cell of a numeric column is kept
/// as text: a column that turns out to be text after some numbers is read again from the file.
pub(super) fn read(path: &Path, delimiter: u8) -> Result<Table, DataError> {
    let text = DelimitedText { input: TextInput::new(path)?, file: source_name(path), delimiter };
    let names = text.header()?;
    let mut builders: Vec<Builder> = names.iter().map(|_| Builder::Missing(0)).collect();
    let mut lines = Lines::default();
    let rows = text.for_each_row(&names, |place, record| {
        lines.note(place.row, place.line.unwrap_or_default());
        builders.iter_mut().zip(record).enumerate().try_for_each(|(j, (builder, field))| {
            builder.push(field, place).map_err(|_| text.not_utf8(&names[j], place))
        })
    })?;
    let builders = text.reread_demoted(&names, builders, rows)?;
    let columns = names.into_iter().zip(builders).map(|(name, builder)| text.finish(name, builder));
    let mut table = Table::new(text.file.clone(), columns.collect::<Result<_, _>>()?)?;
    table.lines = Some(lines);
    Ok(table)
}

struct NotUtf8;

struct DelimitedText {
    input: TextInput,
    file: String,
    delimiter: u8,
}

impl DelimitedText {
    fn reader(&self) -> Result<::csv::Reader<Box<dyn std::io::Read + '_>>, DataError> {
        let mut builder = ReaderBuilder::new();
        // Lengths are checked here, where the line of a short row is known exactly.
        builder.delimiter(self.delimiter).has_headers(false).flexible(true).buffer_capacity(1 << 18);
        Ok(builder.from_reader(self.input.open()?))
    }

    fn header(&self) -> Result<Vec<String>, DataError> {
        let mut record = ByteRecord::new();
        let found =
            self.reader()?.read_byte_record(&mut record).map_err(|e| DataError::read(&self.file, &e))?;
        if !found {
            return Err(DataError::NoHeader { file: self.file.clone() });
        }
        let names: Vec<String> = record.iter().enumerate().map(|(j, field)| column_name(j, field)).collect();
        check_distinct(&self.file, names.iter().map(String::as_str))?;
        Ok(names)
    }

    /// Calls `on_row` for each row after the header and counts them.
    fn for_each_row(
        &self,
        names: &[String],
        mut on_row: impl FnMut(Place, &ByteRecord) -> Result<(), DataError>,
    ) -> Result<usize, DataError> {
        let failed = |e: ::csv::Error| DataError::read(&self.file, &e);
        let mut reader = self.reader()?;
        let mut record = ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(failed)?;
        let mut next_line = reader.position().line();
        let mut row = 0;
        while reader.read_byte_record(&mut record).map_err(failed)? {
            let after = reader.position().line();
            let place = Place { row, line: Some(line_of(&record, next_line, after)) };
            if record.len() != names.len() {
                return Err(self.ragged(place, record.len(), names.len()));
            }
            on_row(place, &record)?;
            next_line = after;
            row += 1;
        }
        Ok(row)
    }

    fn reread_demoted(
        &self,
        names: &[String],
        mut builders: Vec<Builder>,
        rows: usize,
    ) -> Result<Vec<Builder>, DataError> {
        let is_demoted = |j: &usize| matches!(builders[*j], Builder::Demoted);
        let demoted: Vec<usize> = (0..builders.len()).filter(is_demoted).collect();
        if demoted.is_empty() {
            return Ok(builders);
        }
        for &j in &demoted {
            builders[j] = Builder::Text(TextBuilder::default());
        }
        let seen = self.for_each_row(names, |place, record| {
            demoted.iter().try_for_each(|&j| {
                builders[j].push(&record[j], place).map_err(|_| self.not_utf8(&names[j], place))
            })
        })?;
        if seen == rows {
            Ok(builders)
        } else {
            Err(DataError::read(&self.file, &"the file changed while it was read"))
        }
    }

    fn finish(&self, name: String, builder: Builder) -> Result<Column, DataError> {
        let values = match builder {
            Builder::Missing(rows) => Values::Number { values: vec![f64::NAN; rows], integer: false },
            Builder::Bool(values) => Values::Bool(values),
            Builder::Number { infinite: Some((place, value)), .. } => {
                return Err(DataError::NonFinite { file: self.file.clone(), column: name, place, value });
            }
            Builder::Number { mut values, .. } => {
                values.shrink_to_fit();
                let integer = values.iter().all(|v| v.is_nan() || v.fract() == 0.0);
                Values::Number { values, integer }
            }
            Builder::Text(text) => text.finish(),
            Builder::Demoted => TextBuilder::default().finish(),
        };
        Ok(Column { name, values })
    }

    fn ragged(&self, place: Place, found: usize, expected: usize) -> DataError {
        DataError::Ragged { file: self.file.clone(), place, found: found as u64, expected: expected as u64 }
    }

    fn not_utf8(&self, column: &str, place: Place) -> DataError {
        DataError::NotUtf8 { file: self.file.clone(), column: column.to_owned(), place }
    }
}

/// The line on which `record` begins, given the reader's line before and after it.
fn line_of(record: &ByteRecord, before: u64, after: u64) -> u64 {
    if after <= before + 1 {
        return before;
    }
    // Blank lines came first, or a quoted field spans lines.
    let inside = record.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
    after.saturating_sub(1 + inside).max(before)
}

fn column_name(position: usize, field: &[u8]) -> String {
    let name = clean_name(&String::from_utf8_lossy(field));
    if name.is_empty() { format!("column{}", position + 1) } else { name }
}

/// The cells of a column so far, under the type that all of them have had.
enum Builder {
    /// Nothing but missing cells, and how many.
    Missing(usize),
    Number {
        values: Vec<f64>,
        infinite: Option<(Place, String)>,
    },
    Bool(Vec<Option<bool>>),
    Text(TextBuilder),
    /// Text after numbers or booleans: to be read again.
    Demoted,
}

impl Builder {
    fn push(&mut self, field: &[u8], place: Place) -> Result<(), NotUtf8> {
        let field = field.trim_ascii();
        if is_missing(field) {
            self.push_missing();
            return Ok(());
        }
        if let Self::Missing(rows) = *self {
            *self = Self::for_first_value(field, rows);
        }
        match self {
            Self::Number { values, infinite } => match parse_number(field) {
                Some(value) => push_number(values, infinite, value, place),
                None => *self = Self::Demoted,
            },
            Self::Bool(values) => match parse_bool(field) {
                Some(value) => values.push(Some(value)),
                None => *self = Self::Demoted,
            },
            Self::Text(text) => text.push(std::str::from_utf8(field).map_err(|_| NotUtf8)?),
            Self::Missing(_) | Self::Demoted => {}
        }
        Ok(())
    }

    fn push_missing(&mut self) {
        match self {
            Self::Missing(rows) => *rows += 1,
            Self::Number { values, .. } => values.push(f64::NAN),
            Self::Bool(values) => values.push(None),
            Self::Text(text) => text.push_missing(),
            Self::Demoted => {}
        }
    }

    fn for_first_value(field: &[u8], missing: usize) -> Self {
        if parse_number(field).is_some() {
            return Self::Number { values: vec![f64::NAN; missing], infinite: None };
        }
        if parse_bool(field).is_some() {
            return Self::Bool(vec![None; missing]);
        }
        let mut text = TextBuilder::default();
        (0..missing).for_each(|_| text.push_missing());
        Self::Text(text)
    }
}

/// An infinity is only an error if the column stays numeric to the end, so it is noted rather than refused.
fn push_number(values: &mut Vec<f64>, infinite: &mut Option<(Place, String)>, value: f64, place: Place) {
    if value.is_infinite() && infinite.is_none() {
        *infinite = Some((place, value.to_string()));
    }
    values.push(value);
}

fn parse_number(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn parse_bool(field: &[u8]) -> Option<bool> {
    if field.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if field.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

fn is_missing(field: &[u8]) -> bool {
    match field.len() {
        0 => true,
        2 => field.eq_ignore_ascii_case(b"na"),
        3 => field.eq_ignore_ascii_case(b"nan"),
        4 => field.eq_ignore_ascii_case(b"null"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_markers() {
        for field in ["", "NA", "na", "NaN", "nan", "NULL", "null"] {
            assert!(is_missing(field.as_bytes()), "{field}");
        }
        for field in ["0", "n/a", "none", "-"] {
            assert!(!is_missing(field.as_bytes()), "{field}");
        }
    }

    #[test]
    fn lines_skip_blanks_and_count_newlines_in_quotes() {
        let text = "a,b\n1,2\n\n\n3,4\n\"x\ny\",5\n6,7";
        let source = DelimitedText {
            input: TextInput::Kept(text.as_bytes().to_vec()),
            file: "t".to_owned(),
            delimiter: b',',
        };
        let names = source.header().unwrap();
        let mut lines = Vec::new();
        source
            .for_each_row(&names, |place, _| {
                lines.extend(place.line);
                Ok(())
            })
            .unwrap();
        assert_eq!(lines, [2, 5, 6, 8]);
    }
}
