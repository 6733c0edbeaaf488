//! CSV and TSV: text with a header line, cut into chunks that all cores decode.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};

use super::cells::{CellColumn, check_range, within};
use super::content::Content;
use super::text_file::{Chunk, TextFile, is_too_long, too_long};
use crate::error::DataError;
use crate::scan::blocks::{
    Batch, BatchColumn, Block, Blocks, ColumnInfo, Declared, Fault, Kind, Visit, Wanted, Worked, in_order,
};
use crate::scan::place::{Extent, Place, Runs};
use crate::scan::source::{Reader, Stored};
use crate::scan::split::{BadQuote, Records, last_record_end};
use crate::scan::table::{Values, check_distinct, clean_name};
use crate::scan::text_cells::{Markers, NotUtf8, decode, guess, parse_bool};

/// Delimited text. A column of `true`/`false` is boolean, one of numbers numeric, any other text.
pub(crate) struct DelimitedText {
    text: TextFile,
    delimiter: u8,
    columns: Vec<ColumnInfo>,
    /// Lines that the header takes, blank ones before it included.
    header: Extent,
    /// Bytes of text that the header takes.
    header_bytes: usize,
}

/// What may stand between the cells of a CSV file: the first of these that the header has, a comma where it has none. Spreadsheets write
/// semicolons in countries where the comma is in decimals.
pub(crate) const SEPARATORS: &[u8] = b",;\t";

type Cells<'a> = Vec<Cow<'a, [u8]>>;

/// The first separator by which the header has several cells; the first of all where it has one by each.
fn separator(text: &TextFile, separators: &[u8]) -> Result<u8, DataError> {
    let usual = separators.first().copied().unwrap_or(b',');
    let Some(first) = text.chunks(move |text| last_record_end(text, usual))?.next().transpose()? else {
        return Ok(usual);
    };
    let splits = |delimiter: &u8| {
        let (mut records, mut cells) = (Records::new(&first.text, *delimiter), 0);
        let read = records.next(|_| cells += 1);
        matches!(read, Ok(Some(_))) && cells > 1
    };
    Ok(separators.iter().copied().find(splits).unwrap_or(usual))
}

impl DelimitedText {
    /// Reads the header, which says which of the separators stands between cells.
    pub(crate) fn open(content: Content, separators: &[u8]) -> Result<Self, DataError> {
        let text = TextFile::new(content)?;
        let delimiter = separator(&text, separators)?;
        let file = text.name().to_owned();
        let none = || DataError::NoHeader { file: file.clone() };
        let first = text.chunks(move |text| last_record_end(text, delimiter))?.next().transpose()?;
        let first = first.ok_or_else(none)?;
        let mut records = Records::new(&first.text, delimiter);
        let mut names = Vec::new();
        let line = records.next(|field| names.push(field.into_owned()));
        if line.map_err(|bad| bad_quote(&file, bad).after(Extent::default()))?.is_none() {
            return Err(none());
        }
        if records.position() == first.text.len() && is_too_long(&first.text) {
            return Err(too_long(&file, Place { row: 0, line: Some(1) }));
        }
        let names = names.iter().enumerate().map(|(j, field)| column_name(&file, j, field));
        let names = names.collect::<Result<Vec<String>, _>>()?;
        check_distinct(&file, names.iter().map(String::as_str))?;
        let columns = names.into_iter().map(|name| ColumnInfo::new(name, Declared::Nothing)).collect();
        let header = Extent { rows: 0, lines: records.lines() };
        let header_bytes = records.position();
        Ok(Self { text, delimiter, columns, header, header_bytes })
    }

    /// The chunks after the header.
    fn chunks(&self) -> Result<impl Iterator<Item = Result<Chunk, DataError>> + Send + 'static, DataError> {
        let delimiter = self.delimiter;
        let mut header = self.header_bytes;
        let chunks = self.text.chunks(move |text| last_record_end(text, delimiter))?;
        Ok(chunks.map(move |chunk| {
            chunk.map(|mut chunk| {
                chunk.text.drain(..std::mem::take(&mut header));
                chunk
            })
        }))
    }

    /// The cells of the wanted columns, the line of each row, and how much it was.
    fn split<'a>(&self, text: &'a [u8], wanted: &[usize]) -> Result<(Vec<Cells<'a>>, Runs, Extent), Fault> {
        let width = self.columns.len();
        let mut slots = vec![usize::MAX; width];
        wanted.iter().enumerate().for_each(|(slot, &column)| slots[column] = slot);
        let mut cells: Vec<Cells<'a>> = vec![Vec::new(); wanted.len()];
        let mut lines = Runs::default();
        let mut records = Records::new(text, self.delimiter);
        let mut rows = 0;
        loop {
            let mut found = 0;
            let line = records.next(|field| {
                if let Some(cells) = slots.get(found).and_then(|&slot| cells.get_mut(slot)) {
                    cells.push(field);
                }
                found += 1;
            });
            let line = line.map_err(|bad| self.bad_quote(bad, rows))?;
            let Some(line) = line else { break };
            let place = Place { row: rows, line: Some(line) };
            if found != width {
                return Err(self.ragged(place, found));
            }
            if rows == 0 && records.position() == text.len() && is_too_long(text) {
                let file = self.text.name().to_owned();
                return Err(Fault::at(place, move |place| too_long(&file, place)));
            }
            lines.note(rows, line);
            rows += 1;
        }
        Ok((cells, lines, Extent { rows, lines: records.lines() }))
    }

    fn read_chunk(
        &self,
        chunk: &Chunk,
        wanted: &[Wanted],
        markers: &Markers,
        visit: &mut Visit<'_>,
    ) -> Result<Extent, Fault> {
        let columns: Vec<usize> = wanted.iter().map(|wanted| wanted.column).collect();
        let (cells, lines, extent) = self.split(&chunk.text, &columns)?;
        let decoded: Vec<(Option<Kind>, Values)> = cells
            .iter()
            .zip(wanted)
            .map(|(cells, wanted)| {
                decode(cells, wanted.kind, markers).map_err(|bad| self.not_utf8(wanted.column, bad, &lines))
            })
            .collect::<Result<_, _>>()?;
        let columns = decoded.iter().map(|(kind, values)| BatchColumn { kind: *kind, values: values.view() });
        let columns = columns.collect();
        visit(&Batch { start: 0, rows: extent.rows, columns, lines: Some(&lines) })?;
        Ok(extent)
    }

    fn ragged(&self, place: Place, found: usize) -> Fault {
        let (file, found, expected) = (self.text.name().to_owned(), found as u64, self.columns.len() as u64);
        Fault::at(place, move |place| DataError::Ragged { file, place, found, expected })
    }

    fn bad_quote(&self, bad: BadQuote, row: usize) -> Fault {
        match bad_quote(self.text.name(), bad) {
            Fault::Row(place, error) => Fault::Row(Place { row, ..place }, error),
            fault => fault,
        }
    }

    fn not_utf8(&self, column: usize, bad: NotUtf8, lines: &Runs) -> Fault {
        let (file, column) = (self.text.name().to_owned(), self.columns[column].name.clone());
        let place = Place { row: bad.0, line: Some(lines.number(bad.0)) };
        Fault::at(place, move |place| DataError::NotUtf8 { file, column, place })
    }
}

impl Reader for DelimitedText {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn stored(&self) -> Option<&dyn Stored> {
        Some(&self.text.content)
    }

    fn first(&self) -> Extent {
        self.header
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        Ok(Box::new(self.chunks()?.map(move |chunk| {
            let chunk = chunk?;
            Ok(Block::new(chunk.upto, move |visit| self.read_chunk(&chunk, wanted, markers, visit)))
        })))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let mut total = 0;
        let mut shapes = vec![Shape::default(); all.len()];
        let mut spelled: Vec<Vec<Option<String>>> = vec![vec![None; rows.len()]; all.len()];
        let work = |chunk: Chunk| {
            let (cells, _, extent) = self.split(&chunk.text, &all)?;
            let shapes: Vec<Shape> = cells.iter().map(|cells| Shape::of(cells)).collect();
            // Which rows are chosen is known only when it is known what comes before, so that the text goes on.
            Ok(Worked { result: (shapes, chunk.text), extent, upto: chunk.upto })
        };
        in_order(self.chunks()?, self.header, work, |before, worked| {
            let (found, text) = &worked.result;
            total += worked.extent.rows;
            shapes.iter_mut().zip(found).for_each(|(shape, &found)| shape.join(found));
            let wanted = within(rows, before.rows, worked.extent.rows);
            if wanted.is_empty() {
                return Ok(());
            }
            let (cells, _, _) = self.split(text, &all).map_err(|fault| fault.after(before))?;
            for (column, cells) in spelled.iter_mut().zip(&cells) {
                for position in wanted.clone() {
                    let cell = &cells[rows[position] - before.rows];
                    column[position] = Some(String::from_utf8_lossy(cell).into_owned());
                }
            }
            Ok(())
        })?;
        check_range(self.text.name(), rows, total)?;
        let columns = self.columns.iter().zip(shapes).zip(spelled);
        Ok(columns.map(|((info, shape), cells)| shape.column(&info.name, cells)).collect())
    }
}

/// The error of a quote, its row not known.
fn bad_quote(file: &str, bad: BadQuote) -> Fault {
    let (file, place) = (file.to_owned(), Place { row: 0, line: Some(bad.line()) });
    Fault::at(place, move |place| match bad {
        BadQuote::Unclosed { .. } => DataError::UnclosedQuote { file, place },
        BadQuote::ClosedWithin { .. } => DataError::QuoteWithin { file, place },
    })
}

fn column_name(file: &str, position: usize, field: &[u8]) -> Result<String, DataError> {
    let text = std::str::from_utf8(field)
        .map_err(|_| DataError::HeaderNotUtf8 { file: file.to_owned(), position: position + 1 })?;
    let name = clean_name(text);
    Ok(if name.is_empty() { format!("column{}", position + 1) } else { name })
}

/// What all cells of a column have in common, so that they can be written as a type that loses nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shape {
    kind: Option<Kind>,
    /// Some number is not a whole number of 64 bits in its plain spelling.
    fractional: bool,
    /// Some number is a code: it has leading zeros, or is whole and more than a float holds exactly.
    code: bool,
}

impl Shape {
    fn of(cells: &[Cow<'_, [u8]>]) -> Self {
        let none = Markers::default();
        let mut shape = Self { kind: guess(cells, &none), ..Self::default() };
        if shape.kind == Some(Kind::Number) {
            for cell in cells.iter().map(|cell| cell.trim_ascii()).filter(|cell| !none.is_missing(cell)) {
                shape.fractional |= plain_integer(cell).is_none();
                shape.code |= is_code(cell);
            }
        }
        shape
    }

    fn join(&mut self, other: Self) {
        self.kind = match (self.kind, other.kind) {
            (Some(a), Some(b)) if a != b => Some(Kind::Text),
            (a, b) => a.or(b),
        };
        self.fractional |= other.fractional;
        self.code |= other.code;
    }

    fn column(self, name: &str, cells: Vec<Option<String>>) -> CellColumn {
        let none = Markers::default();
        let present = |cell: &Option<String>| -> Option<String> {
            cell.as_deref().map(str::trim).filter(|cell| !none.is_missing(cell.as_bytes())).map(str::to_owned)
        };
        let texts: Vec<Option<String>> = cells.iter().map(present).collect();
        let values: ArrayRef = match self.kind {
            // Whole numbers mixed with fractions may exceed what a float holds, and codes are no numbers at all.
            Some(Kind::Number) if !self.fractional => {
                let numbers = texts.iter().map(|text| text.as_ref().and_then(|text| text.parse().ok()));
                Arc::new(numbers.collect::<Int64Array>())
            }
            Some(Kind::Number) if !self.code => {
                let numbers = texts.iter().map(|text| text.as_ref().and_then(|text| text.parse().ok()));
                Arc::new(numbers.collect::<Float64Array>())
            }
            Some(Kind::Bool) => {
                let bools =
                    texts.iter().map(|text| text.as_ref().and_then(|text| parse_bool(text.as_bytes())));
                Arc::new(bools.collect::<BooleanArray>())
            }
            None => Arc::new(Float64Array::new_null(texts.len())),
            _ => Arc::new(texts.into_iter().collect::<StringArray>()),
        };
        let spelling: ArrayRef = Arc::new(cells.into_iter().collect::<StringArray>());
        CellColumn { name: name.to_owned(), values, spelling: Some(spelling) }
    }
}

/// The number, where the text is exactly how it is written.
fn plain_integer(cell: &[u8]) -> Option<i64> {
    let digits = cell.strip_prefix(b"-").unwrap_or(cell);
    let plain = match digits {
        [b'0'] => cell.len() == 1,
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
        [] => false,
    };
    if plain { std::str::from_utf8(cell).ok()?.parse().ok() } else { None }
}

/// Digits that are no plain number: `007`, or more of them than a number has.
fn is_code(cell: &[u8]) -> bool {
    let digits = cell.strip_prefix(b"-").or_else(|| cell.strip_prefix(b"+")).unwrap_or(cell);
    digits.len() > 1 && digits.iter().all(u8::is_ascii_digit) && (digits[0] == b'0' || digits.len() > 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(cells: &[&str]) -> Shape {
        Shape::of(&cells.iter().map(|cell| Cow::Borrowed(cell.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn types_lose_nothing() {
        let kind = |cells: &[&str]| {
            let shape = shape(cells);
            let cells = cells.iter().map(|&cell| Some(cell.to_owned())).collect();
            arrow_array::Array::data_type(&*shape.column("a", cells).values).to_string()
        };
        assert_eq!(kind(&["1", "-20", "NA", "9223372036854775807"]), "Int64");
        assert_eq!(kind(&["1", "2.5", ""]), "Float64");
        assert_eq!(kind(&["00007", "12"]), "Utf8");
        assert_eq!(kind(&["18446744073709551615", "12"]), "Utf8");
        assert_eq!(kind(&["1152921504606846976", "1.5"]), "Utf8");
        assert_eq!(kind(&["true", "FALSE"]), "Boolean");
        assert_eq!(kind(&["", "NA"]), "Float64");
        let mut mixed = shape(&["1", "2"]);
        mixed.join(shape(&["x"]));
        assert_eq!(mixed.kind, Some(Kind::Text));
    }
}
