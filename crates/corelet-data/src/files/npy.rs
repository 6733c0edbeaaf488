//! NumPy arrays: a header, then plain numbers. Pickled objects are refused before any of their bytes are read.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};

use super::cells::{CellColumn, check_range};
use super::content::Content;
use crate::error::DataError;
use crate::listing::excerpt;
use crate::scan::blocks::{Batch, BatchColumn, Block, Blocks, ColumnInfo, Declared, Kind, Wanted};
use crate::scan::place::Extent;
use crate::scan::source::{Reader, Stored};
use crate::scan::table::{MAX_COLUMNS, Values};
use crate::scan::text_cells::Markers;

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself writes headers of about a hundred bytes.
const MAX_HEADER: usize = 1 << 20;
/// Numbers decoded at a time by one core.
const BLOCK_CELLS: usize = 1 << 19;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// One or more arrays of equally many rows, side by side: a matrix as columns `x1` ... `xD`, a target as `y`.
pub(crate) struct NumpyArrays {
    name: String,
    arrays: Vec<Array>,
    columns: Vec<ColumnInfo>,
    rows: usize,
    target: Option<usize>,
}

impl NumpyArrays {
    /// One array: a matrix, or a vector as `x1`.
    pub(crate) fn open(content: Content) -> Result<Self, DataError> {
        let name = content.name.clone();
        let array = Array::open(content, ArrayName { file: &name, array: "x", format: "NPY" })?;
        Self::new(name, array, None)
    }

    /// A matrix, and a target where there is one.
    pub(crate) fn new(name: String, matrix: Array, target: Option<Array>) -> Result<Self, DataError> {
        let number = |name| ColumnInfo::new(name, Declared::Kind(Kind::Number));
        let mut columns: Vec<ColumnInfo> = (1..=matrix.dim).map(|j| number(format!("x{j}"))).collect();
        let rows = matrix.rows;
        let mut arrays = vec![matrix];
        let position = target.as_ref().map(|_| columns.len());
        if let Some(target) = target {
            if target.rows != rows {
                return Err(DataError::ColumnLength {
                    file: name,
                    column: "y".to_owned(),
                    found: target.rows,
                    expected: rows,
                });
            }
            columns.push(number("y".to_owned()));
            arrays.push(target);
        }
        Ok(Self { name, arrays, columns, rows, target: position })
    }

    fn block_rows(&self) -> usize {
        (BLOCK_CELLS / self.columns.len().max(1)).max(1)
    }

    /// The array that a column is in, and which of its columns it is.
    fn locate(&self, column: usize) -> (&Array, usize) {
        match self.arrays.get(1) {
            Some(target) if column == self.arrays[0].dim => (target, 0),
            _ => (&self.arrays[0], column),
        }
    }

    fn read_rows(
        &self,
        rows: Range<usize>,
        wanted: &[Wanted],
        markers: &Markers,
    ) -> Result<Vec<Values>, DataError> {
        let failed = |e| DataError::read(&self.name, &e);
        let stored = self.arrays.iter().map(|array| array.read(rows.clone()).map_err(failed));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        Ok(wanted
            .iter()
            .map(|wanted| {
                let (array, column) = self.locate(wanted.column);
                let bytes =
                    &stored[usize::from(column != wanted.column || wanted.column >= self.arrays[0].dim)];
                let value =
                    |i: usize| markers.number(array.element.number(array.cell(bytes, rows.len(), i, column)));
                Values::Number { values: (0..rows.len()).map(value).collect(), integer: false }
            })
            .collect())
    }
}

impl Reader for NumpyArrays {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn stored(&self) -> Option<&dyn Stored> {
        self.arrays.first().map(|array| &array.content as &dyn Stored)
    }

    fn own_target(&self) -> Option<usize> {
        self.target
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        let step = self.block_rows();
        Ok(Box::new((0..self.rows).step_by(step).map(move |start| {
            let rows = start..self.rows.min(start + step);
            let upto = self.arrays[0].position(rows.end);
            Ok(Block::new(upto, move |visit| {
                let values = self.read_rows(rows.clone(), wanted, markers)?;
                let columns = values
                    .iter()
                    .map(|values| BatchColumn { kind: Some(Kind::Number), values: values.view() });
                visit(&Batch { start: 0, rows: rows.len(), columns: columns.collect(), lines: None })?;
                Ok(Extent { rows: rows.len(), lines: 0 })
            }))
        })))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        check_range(&self.name, rows, self.rows)?;
        let mut bits: Vec<Vec<u64>> = vec![Vec::with_capacity(rows.len()); self.columns.len()];
        for &row in rows {
            for (a, array) in self.arrays.iter().enumerate() {
                let bytes = array.read(row..row + 1).map_err(|e| DataError::read(&self.name, &e))?;
                for column in 0..array.dim {
                    let bits = &mut bits[if a == 0 { column } else { self.columns.len() - 1 }];
                    bits.push(array.element.bits(array.cell(&bytes, 1, 0, column)));
                }
            }
        }
        let named = self.columns.iter().enumerate().zip(bits);
        Ok(named
            .map(|((column, info), bits)| CellColumn {
                name: info.name.clone(),
                values: self.locate(column).0.element.array(&bits),
                spelling: None,
            })
            .collect())
    }
}

/// How messages name an array.
#[derive(Clone, Copy)]
pub(crate) struct ArrayName<'a> {
    pub(crate) file: &'a str,
    pub(crate) array: &'a str,
    pub(crate) format: &'static str,
}

impl ArrayName<'_> {
    pub(crate) fn damaged(self, reason: &impl ToString) -> DataError {
        let reason = format!("array '{}': {}", self.array, reason.to_string());
        DataError::damaged(self.file, self.format, &reason)
    }

    fn unsupported(self, dtype: &str) -> DataError {
        let (file, array) = (self.file.to_owned(), self.array.to_owned());
        DataError::ArrayType { file, array, dtype: excerpt(dtype) }
    }
}

/// A vector or matrix whose numbers lie one after another in the file.
pub(crate) struct Array {
    content: Content,
    /// Where the numbers begin.
    data: u64,
    element: Element,
    fortran: bool,
    rows: usize,
    pub(crate) dim: usize,
}

impl Array {
    /// Reads the header, and compares what it says with what there is.
    pub(crate) fn open(content: Content, name: ArrayName<'_>) -> Result<Self, DataError> {
        let mut reader = content.reader(0);
        let header = Header::read(&mut reader, name)?;
        let (rows, dim) = header.matrix_shape(name)?;
        let element = Element::parse(&header.descr, name)?;
        let size = (rows as u64).checked_mul(dim as u64).and_then(|n| n.checked_mul(element.size as u64));
        let end = size.and_then(|size| size.checked_add(header.length));
        if end.is_none_or(|end| end > content.len()) {
            return Err(name.damaged(&format!("it ends before its {rows} x {dim} numbers do")));
        }
        Ok(Self { data: header.length, content, element, fortran: header.fortran, rows, dim })
    }

    /// Bytes of the file up to a row.
    fn position(&self, row: usize) -> u64 {
        self.data + (row * self.dim * self.element.size) as u64
    }

    /// The stored numbers of some rows: row by row, or column by column, as the array is.
    fn read(&self, rows: Range<usize>) -> io::Result<Vec<u8>> {
        let size = self.element.size as u64;
        if !self.fortran {
            return self.content.bytes(self.position(rows.start), (rows.len() * self.dim) as u64 * size);
        }
        let mut bytes = Vec::with_capacity(rows.len() * self.dim * self.element.size);
        for column in 0..self.dim {
            let start = self.data + (column * self.rows + rows.start) as u64 * size;
            bytes.extend(self.content.bytes(start, rows.len() as u64 * size)?);
        }
        Ok(bytes)
    }

    /// One stored number of what [`read`](Self::read) gave for `count` rows.
    fn cell<'b>(&self, bytes: &'b [u8], count: usize, row: usize, column: usize) -> &'b [u8] {
        let index = if self.fortran { column * count + row } else { row * self.dim + column };
        &bytes[index * self.element.size..(index + 1) * self.element.size]
    }
}

struct Header {
    /// Bytes of the header itself.
    length: u64,
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn read(reader: &mut impl Read, name: ArrayName<'_>) -> Result<Self, DataError> {
        let (text, length) = read_header_text(reader).map_err(|e| name.damaged(&e))?;
        let fortran = match value_of(&text, "fortran_order") {
            Some(value) if value.starts_with("True") => true,
            Some(value) if value.starts_with("False") => false,
            _ => return Err(name.damaged(&"the header has no fortran_order")),
        };
        let shape = value_of(&text, "shape").and_then(parse_shape);
        let shape = shape.ok_or_else(|| name.damaged(&"the header has no valid shape"))?;
        let descr = value_of(&text, "descr").ok_or_else(|| name.damaged(&"the header has no descr"))?;
        Ok(Self { length, descr: parse_descr(descr), fortran, shape })
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

fn read_header_text(reader: &mut impl Read) -> io::Result<(String, u64)> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    if !start.starts_with(MAGIC) {
        return Err(invalid("it does not begin as a NumPy array"));
    }
    let (prefix, length) = if start[6] == 1 {
        let mut length = [0; 2];
        reader.read_exact(&mut length)?;
        (10, usize::from(u16::from_le_bytes(length)))
    } else {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        (12, u32::from_le_bytes(length) as usize)
    };
    if length > MAX_HEADER {
        return Err(invalid("its header is too long"));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8(text).map_err(|_| invalid("its header is not text"))?;
    Ok((text, prefix + length as u64))
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
enum Number {
    Float,
    Signed,
    Unsigned,
}

/// How one number is stored.
#[derive(Clone, Copy)]
struct Element {
    kind: Number,
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
            "f2" | "f4" | "f8" => (Number::Float, &plain[1..]),
            "i1" | "i2" | "i4" | "i8" => (Number::Signed, &plain[1..]),
            "b1" | "u1" | "u2" | "u4" | "u8" => (Number::Unsigned, &plain[1..]),
            _ => return Err(name.unsupported(descr)),
        };
        let size = size.parse().map_err(|_| name.unsupported(descr))?;
        Ok(Self { kind, size, big_endian: descr.starts_with('>') })
    }

    fn bits(self, stored: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.size].copy_from_slice(stored);
        if self.big_endian {
            wide[..self.size].reverse();
        }
        u64::from_le_bytes(wide)
    }

    fn number(self, stored: &[u8]) -> f64 {
        self.value(self.bits(stored))
    }

    /// Numbers of one column as an array of a type that holds them all.
    fn array(self, bits: &[u64]) -> ArrayRef {
        match self.kind {
            Number::Float => {
                let present = |&bits: &u64| Some(self.value(bits)).filter(|value| !value.is_nan());
                Arc::new(bits.iter().map(present).collect::<Float64Array>())
            }
            Number::Signed => {
                Arc::new(Int64Array::from_iter_values(bits.iter().map(|&bits| self.signed(bits))))
            }
            Number::Unsigned => Arc::new(UInt64Array::from_iter_values(bits.iter().copied())),
        }
    }

    fn signed(self, bits: u64) -> i64 {
        let unused = 64 - 8 * self.size as u32;
        (bits << unused) as i64 >> unused
    }

    fn value(self, bits: u64) -> f64 {
        match (self.kind, self.size) {
            (Number::Float, 2) => Half::from_bits(bits as u16).to_f64(),
            (Number::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (Number::Float, _) => f64::from_bits(bits),
            (Number::Unsigned, _) => bits as f64,
            (Number::Signed, _) => self.signed(bits) as f64,
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
