//! NumPy arrays: a header, then plain numbers. Pickled objects are refused before a byte of them is looked at.

use std::io::{self, BufReader, Read};
use std::path::Path;

use arrow::datatypes::{ArrowPrimitiveType, Float16Type};

use super::error::DataError;
use super::input::{open_file, source_name};
use super::table::{Column, MAX_COLUMNS, Table, Values};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself writes headers of about a hundred bytes.
const MAX_HEADER: usize = 1 << 20;
/// Elements decoded at a time; also bounds what a header with a false shape can make us allocate.
const CHUNK: usize = 1 << 16;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// Reads an `.npy` file: a matrix as columns `x1` ... `xD`, a vector as `x1`.
pub(super) fn read(path: &Path) -> Result<Table, DataError> {
    let file = source_name(path);
    let mut reader = BufReader::new(open_file(path)?);
    let array = read_array(&mut reader, ArrayName { file: &file, array: "x", format: "NPY" })?;
    Table::new(file, array.into_columns())
}

/// How messages name an array.
#[derive(Clone, Copy)]
pub(super) struct ArrayName<'a> {
    pub(super) file: &'a str,
    pub(super) array: &'a str,
    pub(super) format: &'static str,
}

impl ArrayName<'_> {
    pub(super) fn damaged(self, reason: &impl ToString) -> DataError {
        let reason = format!("array '{}': {}", self.array, reason.to_string());
        DataError::damaged(self.file, self.format, &reason)
    }

    fn unsupported(self, dtype: &str) -> DataError {
        let (file, array) = (self.file.to_owned(), self.array.to_owned());
        DataError::ArrayType { file, array, dtype: dtype.to_owned() }
    }
}

/// A matrix, a column at a time; NaN is a missing value.
pub(super) struct Array {
    pub(super) columns: Vec<Vec<f64>>,
    pub(super) integer: bool,
}

impl Array {
    /// Columns named `x1` ... `xD`.
    pub(super) fn into_columns(self) -> Vec<Column> {
        let integer = self.integer;
        let named = self.columns.into_iter().enumerate().map(|(j, values)| Column {
            name: format!("x{}", j + 1),
            values: Values::Number { values, integer },
        });
        named.collect()
    }
}

/// Reads a vector or matrix in NPY form.
pub(super) fn read_array(reader: &mut impl Read, name: ArrayName<'_>) -> Result<Array, DataError> {
    let header = Header::read(reader, name)?;
    let (rows, dim) = header.matrix_shape(name)?;
    let element = Element::parse(&header.descr, name)?;
    let columns = if header.fortran {
        read_columns(reader, element, rows, dim)
    } else {
        read_rows(reader, element, rows, dim)
    };
    let columns = columns.map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => {
            name.damaged(&format!("it ends before its {rows} x {dim} numbers do"))
        }
        _ => name.damaged(&e),
    })?;
    Ok(Array { columns, integer: element.kind != Kind::Float })
}

fn read_columns(
    reader: &mut impl Read,
    element: Element,
    rows: usize,
    dim: usize,
) -> io::Result<Vec<Vec<f64>>> {
    let mut columns = vec![Vec::new(); dim];
    let mut bytes = Vec::new();
    for column in &mut columns {
        for start in (0..rows).step_by(CHUNK) {
            element.decode(reader, CHUNK.min(rows - start), &mut bytes, |value| column.push(value))?;
        }
    }
    Ok(columns)
}

fn read_rows(reader: &mut impl Read, element: Element, rows: usize, dim: usize) -> io::Result<Vec<Vec<f64>>> {
    let mut columns = vec![Vec::new(); dim];
    let mut bytes = Vec::new();
    let mut block = Vec::new();
    let block_rows = (CHUNK / dim).max(1);
    for start in (0..rows).step_by(block_rows) {
        block.clear();
        let count = block_rows.min(rows - start) * dim;
        element.decode(reader, count, &mut bytes, |value| block.push(value))?;
        for (j, column) in columns.iter_mut().enumerate() {
            column.extend(block.iter().skip(j).step_by(dim));
        }
    }
    Ok(columns)
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn read(reader: &mut impl Read, name: ArrayName<'_>) -> Result<Self, DataError> {
        let text = read_header_text(reader).map_err(|e| name.damaged(&e))?;
        let fortran = match value_of(&text, "fortran_order") {
            Some(value) if value.starts_with("True") => true,
            Some(value) if value.starts_with("False") => false,
            _ => return Err(name.damaged(&"the header has no fortran_order")),
        };
        let shape = value_of(&text, "shape").and_then(parse_shape);
        let shape = shape.ok_or_else(|| name.damaged(&"the header has no valid shape"))?;
        let descr = value_of(&text, "descr").ok_or_else(|| name.damaged(&"the header has no descr"))?;
        Ok(Self { descr: parse_descr(descr), fortran, shape })
    }

    fn matrix_shape(&self, name: ArrayName<'_>) -> Result<(usize, usize), DataError> {
        let wrong = |expected| {
            let shape = self.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            DataError::ArrayShape {
                file: name.file.to_owned(),
                array: name.array.to_owned(),
                shape,
                expected,
            }
        };
        match self.shape[..] {
            [rows] => Ok((rows, 1)),
            [rows, dim] if (1..=MAX_COLUMNS).contains(&dim) => Ok((rows, dim)),
            [_, _] => Err(wrong("between 1 and 65536 columns")),
            _ => Err(wrong("one or two dimensions")),
        }
    }
}

fn read_header_text(reader: &mut impl Read) -> io::Result<String> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    if !start.starts_with(MAGIC) {
        return Err(invalid("it does not begin as a NumPy array"));
    }
    let length = if start[6] == 1 {
        let mut length = [0; 2];
        reader.read_exact(&mut length)?;
        usize::from(u16::from_le_bytes(length))
    } else {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        u32::from_le_bytes(length) as usize
    };
    if length > MAX_HEADER {
        return Err(invalid("its header is too long"));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    String::from_utf8(text).map_err(|_| invalid("its header is not text"))
}

/// What follows `'key':` in the header, a Python dictionary that NumPy always writes in the same form.
fn value_of<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let at = header.find(&format!("'{key}'")).or_else(|| header.find(&format!("\"{key}\"")))?;
    let rest = header[at + key.len() + 2..].trim_start();
    Some(rest.strip_prefix(':')?.trim_start())
}

fn parse_shape(value: &str) -> Option<Vec<usize>> {
    let inside = value.strip_prefix('(')?.split(')').next()?;
    let numbers = inside.split(',').map(|text| text.trim().trim_end_matches('L'));
    numbers.filter(|text| !text.is_empty()).map(|text| text.parse().ok()).collect()
}

/// The type string, or for a structured array its whole description.
fn parse_descr(value: &str) -> String {
    match value.chars().next() {
        Some(quote @ ('\'' | '"')) => value[1..].split(quote).next().unwrap_or_default().to_owned(),
        _ => value.split_inclusive(']').next().unwrap_or_default().to_owned(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Signed,
    Unsigned,
}

/// How one number is stored.
#[derive(Clone, Copy)]
struct Element {
    kind: Kind,
    size: usize,
    big_endian: bool,
}

impl Element {
    fn parse(descr: &str, name: ArrayName<'_>) -> Result<Self, DataError> {
        let holds_objects = |text: &str| text.trim_start_matches(['|', '<', '>', '=']).starts_with('O');
        if descr.split(['\'', '"']).any(holds_objects) {
            return Err(DataError::Pickled { file: name.file.to_owned(), array: name.array.to_owned() });
        }
        let plain = descr.trim_start_matches(['|', '<', '>', '=']);
        let (kind, size) = match plain {
            "f2" | "f4" | "f8" => (Kind::Float, &plain[1..]),
            "i1" | "i2" | "i4" | "i8" => (Kind::Signed, &plain[1..]),
            "b1" | "u1" | "u2" | "u4" | "u8" => (Kind::Unsigned, &plain[1..]),
            _ => return Err(name.unsupported(descr)),
        };
        let size = size.parse().map_err(|_| name.unsupported(descr))?;
        Ok(Self { kind, size, big_endian: descr.starts_with('>') })
    }

    /// Reads `count` numbers and hands each on.
    fn decode(
        self,
        reader: &mut impl Read,
        count: usize,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(f64),
    ) -> io::Result<()> {
        bytes.resize(count * self.size, 0);
        reader.read_exact(bytes)?;
        for stored in bytes.chunks_exact(self.size) {
            each(self.value(self.bits(stored)));
        }
        Ok(())
    }

    fn bits(self, stored: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.size].copy_from_slice(stored);
        if self.big_endian {
            wide[..self.size].reverse();
        }
        u64::from_le_bytes(wide)
    }

    fn value(self, bits: u64) -> f64 {
        match (self.kind, self.size) {
            (Kind::Float, 2) => Half::from_bits(bits as u16).to_f64(),
            (Kind::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (Kind::Float, _) => f64::from_bits(bits),
            (Kind::Unsigned, _) => bits as f64,
            (Kind::Signed, size) => {
                let unused = 64 - 8 * size as u32;
                ((bits << unused) as i64 >> unused) as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(descr: &str, stored: &[u8]) -> f64 {
        let name = ArrayName { file: "f", array: "a", format: "NPY" };
        let element = Element::parse(descr, name).unwrap();
        element.value(element.bits(stored))
    }

    #[test]
    fn every_width_decodes() {
        assert_eq!(decode("<f8", &(-2.5f64).to_le_bytes()), -2.5);
        assert_eq!(decode(">f4", &1.25f32.to_be_bytes()), 1.25);
        assert_eq!(decode("<f2", &[0x00, 0x3e]), 1.5);
        assert_eq!(decode("|i1", &[0xff]), -1.0);
        assert_eq!(decode(">i2", &(-300i16).to_be_bytes()), -300.0);
        assert_eq!(decode("<i8", &(-7i64).to_le_bytes()), -7.0);
        assert_eq!(decode("<u4", &u32::MAX.to_le_bytes()), f64::from(u32::MAX));
        assert_eq!(decode("|b1", &[1]), 1.0);
    }

    #[test]
    fn objects_are_refused() {
        let name = ArrayName { file: "f", array: "a", format: "NPY" };
        for descr in ["|O", "O", "[('x', '<f8'), ('y', '|O')]"] {
            assert!(matches!(Element::parse(descr, name), Err(DataError::Pickled { .. })), "{descr}");
        }
        for descr in ["<U7", "<c16", "<f16", "", "[('Odd', '<f8')]"] {
            assert!(Element::parse(descr, name).is_err(), "{descr}");
        }
    }

    #[test]
    fn headers_parse() {
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 4), }";
        assert_eq!(value_of(header, "shape").and_then(parse_shape), Some(vec![3, 4]));
        assert_eq!(value_of(header, "descr").map(parse_descr).as_deref(), Some("<f8"));
        assert_eq!(parse_shape("()"), Some(vec![]));
        assert_eq!(parse_shape("(3,)"), Some(vec![3]));
        assert_eq!(parse_shape("(-3,)"), None);
    }
}
