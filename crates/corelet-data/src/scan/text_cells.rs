//! Cells of text files as numbers, booleans or text, and what counts as missing in any file.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::scan::blocks::Kind;
use crate::scan::table::{MISSING, Values};

/// What counts as missing besides an empty field, `NA`, `NaN`, `null` and the nulls of a binary file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markers {
    texts: Vec<String>,
    numbers: Vec<f64>,
}

impl Markers {
    pub(crate) fn new(markers: &[String]) -> Self {
        let texts: Vec<String> = markers.iter().map(|marker| marker.trim().to_owned()).collect();
        let numbers = texts.iter().filter_map(|text| text.parse().ok()).collect();
        Self { texts, numbers }
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether this text stands for nothing.
    pub(crate) fn has_text(&self, text: &[u8]) -> bool {
        self.texts.iter().any(|marker| marker.as_bytes() == text)
    }

    /// The number, NaN if it stands for nothing.
    pub(crate) fn number(&self, value: f64) -> f64 {
        if self.numbers.contains(&value) { f64::NAN } else { value }
    }

    /// Whether a cell of a text file is missing.
    pub(crate) fn is_missing(&self, field: &[u8]) -> bool {
        let common = match field.len() {
            0 => true,
            2 => field.eq_ignore_ascii_case(b"na"),
            3 => field.eq_ignore_ascii_case(b"nan"),
            4 => field.eq_ignore_ascii_case(b"null"),
            _ => false,
        };
        common || self.has_text(field)
    }
}

/// A cell that is no UTF-8, by its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUtf8(pub(crate) usize);

/// The cells of a column as `kind`, or as what all of them can be; none if all are missing.
///
/// A cell that is not of the given kind is missing: the look that found the kind has seen every cell.
pub(crate) fn decode(
    cells: &[Cow<'_, [u8]>],
    kind: Option<Kind>,
    markers: &Markers,
) -> Result<(Option<Kind>, Values), NotUtf8> {
    let kind = kind.or_else(|| guess(cells, markers));
    let values = match kind {
        Some(Kind::Number) | None => {
            let number = |cell: &Cow<'_, [u8]>| {
                let cell = cell.trim_ascii();
                let value = if markers.is_missing(cell) { None } else { parse_number(cell) };
                markers.number(value.unwrap_or(f64::NAN))
            };
            Values::Number { values: cells.iter().map(number).collect(), integer: false }
        }
        Some(Kind::Bool) => Values::Bool(cells.iter().map(|cell| parse_bool(cell.trim_ascii())).collect()),
        Some(Kind::Text) => texts(cells, markers)?,
    };
    Ok((kind, values))
}

/// The kind that every cell has, `Text` where they differ; none if all are missing.
pub(crate) fn guess(cells: &[Cow<'_, [u8]>], markers: &Markers) -> Option<Kind> {
    let mut present = cells.iter().map(|cell| cell.trim_ascii()).filter(|cell| !markers.is_missing(cell));
    let first = present.next()?;
    let mut of_all = |known: fn(&[u8]) -> bool, kind| if present.all(known) { kind } else { Kind::Text };
    Some(if parse_number(first).is_some() {
        of_all(|cell| parse_number(cell).is_some(), Kind::Number)
    } else if parse_bool(first).is_some() {
        of_all(|cell| parse_bool(cell).is_some(), Kind::Bool)
    } else {
        Kind::Text
    })
}

fn texts(cells: &[Cow<'_, [u8]>], markers: &Markers) -> Result<Values, NotUtf8> {
    let mut index: HashMap<&[u8], u32> = HashMap::new();
    let mut levels = Vec::new();
    let mut codes = Vec::with_capacity(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        let cell = cell.trim_ascii();
        if markers.is_missing(cell) {
            codes.push(MISSING);
            continue;
        }
        let code = match index.get(cell) {
            Some(&code) => code,
            None => {
                let text = std::str::from_utf8(cell).map_err(|_| NotUtf8(row))?;
                levels.push(text.to_owned());
                let code = levels.len() as u32 - 1;
                index.insert(cell, code);
                code
            }
        };
        codes.push(code);
    }
    Ok(Values::Text { codes, levels })
}

pub(crate) fn parse_number(cell: &[u8]) -> Option<f64> {
    // Most text begins with a letter, and only these begin a number that does.
    match cell.first()? {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b'i' | b'I' | b'n' | b'N' => {
            std::str::from_utf8(cell).ok()?.parse().ok()
        }
        _ => None,
    }
}

pub(crate) fn parse_bool(cell: &[u8]) -> Option<bool> {
    if cell.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if cell.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells<'a>(texts: &[&'a str]) -> Vec<Cow<'a, [u8]>> {
        texts.iter().map(|text| Cow::Borrowed(text.as_bytes())).collect()
    }

    #[test]
    fn missing_markers() {
        let none = Markers::default();
        for field in ["", "NA", "na", "NaN", "nan", "NULL", "null"] {
            assert!(none.is_missing(field.as_bytes()), "{field}");
        }
        for field in ["0", "n/a", "none", "-"] {
            assert!(!none.is_missing(field.as_bytes()), "{field}");
        }
        let some = Markers::new(&["n/a".to_owned(), " - ".to_owned(), "-999".to_owned()]);
        assert!(some.is_missing(b"n/a") && some.is_missing(b"-") && !some.is_missing(b"none"));
        assert!(some.number(-999.0).is_nan() && some.number(999.0) == 999.0);
    }

    #[test]
    fn kinds_are_what_every_cell_is() {
        let none = Markers::default();
        for (texts, kind) in [
            (&["1", "", "-2e3", "inf"][..], Some(Kind::Number)),
            (&["TRUE", "na", "false"], Some(Kind::Bool)),
            (&["1", "true"], Some(Kind::Text)),
            (&["x", "1"], Some(Kind::Text)),
            (&["", "NA"], None),
        ] {
            assert_eq!(guess(&cells(texts), &none), kind, "{texts:?}");
        }
    }

    #[test]
    fn numeric_markers_work_in_any_spelling() {
        let markers = Markers::new(&["-9".to_owned()]);
        let (_, values) = decode(&cells(&["-9.0", "4"]), None, &markers).unwrap();
        let Values::Number { values, .. } = values else { panic!("numbers") };
        assert!(values[0].is_nan() && values[1] == 4.0);
    }
}
