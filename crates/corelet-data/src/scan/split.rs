//! Delimited text cut into records and fields, strict about quotes (RFC 4180).
//!
//! A quote is special only where it opens a field; inside, two of them stand for one; after the closing one the field
//! must end. So a quote that was never closed is found at the next quote, or at the end, and never swallows rows.

use std::borrow::Cow;

use memchr::{memchr, memchr3};

/// A quoted field with more lines than this was never closed.
const MAX_QUOTED_LINES: u64 = 1000;

/// What is wrong with a quote; lines count from 1 at the beginning of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadQuote {
    /// Opened here and not closed before the text, or any plausible field, ends.
    Unclosed { line: u64 },
    /// Opened here, and followed by more of the field where it closes.
    ClosedWithin { line: u64 },
}

impl BadQuote {
    /// The line where the quote opens.
    pub(crate) fn line(self) -> u64 {
        match self {
            Self::Unclosed { line } | Self::ClosedWithin { line } => line,
        }
    }
}

/// The records of a text that is there as a whole.
pub(crate) struct Records<'a> {
    text: &'a [u8],
    delimiter: u8,
    at: usize,
    /// Lines that came before `at`.
    lines: u64,
    /// Whether the last record ended with a line's end, and not with the text's.
    terminated: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(text: &'a [u8], delimiter: u8) -> Self {
        Self { text, delimiter, at: 0, lines: 0, terminated: false }
    }

    /// Where the next record begins.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Lines that came before the next record.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether the last record ended with a line's end, so that more text would not change it.
    pub(crate) fn terminated(&self) -> bool {
        self.terminated
    }

    /// Hands the fields of the next record to `each`; its line, or none at the end. Blank lines are skipped.
    pub(crate) fn next(&mut self, mut each: impl FnMut(Cow<'a, [u8]>)) -> Result<Option<u64>, BadQuote> {
        while let Some(b'\n' | b'\r') = self.text.get(self.at) {
            self.end_line();
        }
        if self.at >= self.text.len() {
            return Ok(None);
        }
        let line = self.lines + 1;
        loop {
            let field = if self.text.get(self.at) == Some(&b'"') { self.quoted()? } else { self.plain() };
            each(field);
            match self.text.get(self.at) {
                Some(&byte) if byte == self.delimiter => self.at += 1,
                Some(_) => {
                    self.end_line();
                    self.terminated = true;
                    return Ok(Some(line));
                }
                None => {
                    self.lines += 1;
                    self.terminated = false;
                    return Ok(Some(line));
                }
            }
        }
    }

    /// Goes past a line's end: `\n`, `\r\n` or `\r`.
    fn end_line(&mut self) {
        let pair = self.text[self.at..].starts_with(b"\r\n");
        self.at += if pair { 2 } else { 1 };
        self.lines += 1;
    }

    fn plain(&mut self) -> Cow<'a, [u8]> {
        let rest = &self.text[self.at..];
        let length = memchr3(self.delimiter, b'\n', b'\r', rest).unwrap_or(rest.len());
        self.at += length;
        Cow::Borrowed(&rest[..length])
    }

    fn quoted(&mut self) -> Result<Cow<'a, [u8]>, BadQuote> {
        let opened = self.lines + 1;
        let start = self.at + 1;
        let mut end = start;
        let mut doubled = false;
        loop {
            let Some(length) = memchr(b'"', &self.text[end..]) else {
                return Err(BadQuote::Unclosed { line: opened });
            };
            end += length;
            if self.text.get(end + 1) != Some(&b'"') {
                break;
            }
            doubled = true;
            end += 2;
        }
        let inside = &self.text[start..end];
        self.at = end + 1;
        let lines = line_ends(inside);
        if lines > MAX_QUOTED_LINES {
            return Err(BadQuote::Unclosed { line: opened });
        }
        self.lines += lines;
        match self.text.get(self.at) {
            None | Some(b'\n' | b'\r') => {}
            Some(&byte) if byte == self.delimiter => {}
            Some(_) => return Err(BadQuote::ClosedWithin { line: opened }),
        }
        Ok(if doubled { Cow::Owned(undoubled(inside)) } else { Cow::Borrowed(inside) })
    }
}

/// Line ends in a field: `\n`, `\r\n` and `\r` are one each.
fn line_ends(text: &[u8]) -> u64 {
    let mut count = memchr::memchr_iter(b'\n', text).count();
    for at in memchr::memchr_iter(b'\r', text) {
        count += usize::from(text.get(at + 1) != Some(&b'\n'));
    }
    count as u64
}

fn undoubled(inside: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = memchr(b'"', rest) {
        text.extend(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    text.extend(rest);
    text
}

/// The end of the last record of `text` that more text would not change; none if there is no such record.
pub(crate) fn last_record_end(text: &[u8], delimiter: u8) -> Option<usize> {
    if memchr(b'"', text).is_none() {
        let newline = memchr::memrchr(b'\n', text);
        // A return at the very end may be half of a line's end.
        let body = &text[..text.len().saturating_sub(1)];
        return newline.or_else(|| memchr::memrchr(b'\r', body)).map(|at| at + 1);
    }
    let mut records = Records::new(text, delimiter);
    let mut end = None;
    // A bad quote ends the walk too: whether it is bad, or the text just ends, is seen where the record is read.
    while let Ok(Some(_)) = records.next(|_| {}) {
        let whole = records.terminated() && !(records.position() == text.len() && text.ends_with(b"\r"));
        if !whole {
            break;
        }
        end = Some(records.position());
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Row = (u64, Vec<Vec<u8>>);

    fn split(text: &[u8]) -> Result<Vec<Row>, BadQuote> {
        let mut records = Records::new(text, b',');
        let mut rows = Vec::new();
        loop {
            let mut fields = Vec::new();
            match records.next(|field| fields.push(field.into_owned()))? {
                Some(line) => rows.push((line, fields)),
                None => return Ok(rows),
            }
        }
    }

    fn texts(fields: &[&str]) -> Vec<Vec<u8>> {
        fields.iter().map(|field| field.as_bytes().to_vec()).collect()
    }

    #[test]
    fn records_know_their_lines() {
        let rows = split(b"a,b\n1,2\r\n\n\r\n3,\"4\"\n\"x\ny\",\"5\"\"\"\n6,").unwrap();
        let expected = [
            (1, texts(&["a", "b"])),
            (2, texts(&["1", "2"])),
            (5, texts(&["3", "4"])),
            (6, texts(&["x\ny", "5\""])),
            (8, texts(&["6", ""])),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn bad_quotes_are_found_where_they_open() {
        assert_eq!(split(b"a,b\n1,\"2\n3,4\n5,6\n"), Err(BadQuote::Unclosed { line: 2 }));
        assert_eq!(split(b"a\n1\n\"2\n3\n\"4\"\n"), Err(BadQuote::ClosedWithin { line: 3 }));
        assert_eq!(split(b"\"a\"b,c\n"), Err(BadQuote::ClosedWithin { line: 1 }));
        assert_eq!(split(b"5\" pipe,2\n").unwrap(), [(1, texts(&["5\" pipe", "2"]))]);
        let long = format!("a\n\"{}\"\n", "x\n".repeat(1001));
        assert_eq!(split(long.as_bytes()), Err(BadQuote::Unclosed { line: 2 }));
    }

    #[test]
    fn cuts_fall_between_records() {
        for (text, end) in [
            ("a,b\n1,2\n3", Some(8)),
            ("a,b", None),
            ("\"a\nb\",c\n\"d\n", Some(8)),
            ("1\r2\r", Some(2)),
            ("\"1\"\r2\r", Some(4)),
            ("", None),
        ] {
            assert_eq!(last_record_end(text.as_bytes(), b','), end, "{text:?}");
        }
    }

    proptest! {
        /// Whatever a strict writer writes is read as the csv crate reads it, also when it is cut in two.
        #[test]
        fn agrees_with_the_csv_crate(
            rows in prop::collection::vec(prop::collection::vec("[a\",\n\r é]{0,4}", 2..4), 1..8),
            cut in 0.0..1.0,
        ) {
            let mut writer = ::csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let text = writer.into_inner().unwrap();
            let mut plain = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&text[..]);
            let plain: Vec<Vec<Vec<u8>>> =
                plain.byte_records().map(|row| row.unwrap().iter().map(<[u8]>::to_vec).collect()).collect();
            let fields = |text: &[u8]| -> Vec<Vec<Vec<u8>>> {
                split(text).unwrap().into_iter().map(|(_, fields)| fields).collect()
            };
            prop_assert_eq!(&fields(&text), &plain);
            let end = last_record_end(&text[..(cut * text.len() as f64) as usize], b',').unwrap_or(0);
            let parts = [fields(&text[..end]), fields(&text[end..])].concat();
            prop_assert_eq!(&parts, &plain);
        }
    }
}
