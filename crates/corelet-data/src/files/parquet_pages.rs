//! The page headers of a Parquet column, compared with its footer before a page is decoded.
//!
//! A footer that names fewer rows than the pages have, or more, would else be believed, and a page that says it grows to
//! two gigabytes would be given them. The headers are in Thrift's compact form, of which this reads what it needs.

use std::io::{self, Read};

use ::parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::content::Content;
use crate::error::DataError;
use crate::scan::memory;

const FORMAT: &str = "Parquet";

/// A page up to this size is allocated without a question.
const SMALL_PAGE: u64 = 1 << 26;

/// Structures in a page header are two deep.
const MAX_DEPTH: usize = 8;

/// Compares every page header of a column chunk with what the footer says of it.
pub(crate) fn check_pages(
    content: &Content,
    group: &RowGroupMetaData,
    column: &ColumnChunkMetaData,
) -> Result<(), DataError> {
    let path = column.column_path().string();
    let damaged = |reason: String| DataError::damaged(&content.name, FORMAT, &reason);
    let flat = column.column_descr().max_rep_level() == 0;
    if flat && column.num_values() != group.num_rows() {
        let (values, rows) = (column.num_values(), group.num_rows());
        return Err(damaged(format!(
            "column '{path}' has {values} values where its row group has {rows} rows"
        )));
    }
    let (start, length) = column.byte_range();
    let end = start.checked_add(length).filter(|&end| end <= content.len());
    let end = end.ok_or_else(|| damaged(format!("column '{path}' lies beyond the end of the file")))?;
    let expected = column.num_values();
    let (mut at, mut values) = (start, 0i64);
    while at < end {
        let page = match read_header(&mut content.small_reader(at)) {
            Ok(page) if values < expected || page.values().is_some() => page,
            // What follows the last page of a column, if anything does, is nobody's.
            _ if values == expected => break,
            Ok(page) => page,
            Err(e) => return Err(damaged(format!("column '{path}': a page header at byte {at}: {e}"))),
        };
        let body = u64::try_from(page.compressed).ok().and_then(|size| (at + page.length).checked_add(size));
        let grown = u64::try_from(page.uncompressed).ok();
        let (Some(next), Some(grown)) = (body.filter(|&next| next <= end), grown) else {
            return Err(damaged(format!("column '{path}': the page at byte {at} is longer than its column")));
        };
        if grown > SMALL_PAGE {
            memory::require(&content.name, format!("a page of column '{path}'"), grown)?;
        }
        values = values.saturating_add(page.values().unwrap_or(0).into());
        at = next;
    }
    if values != expected {
        return Err(damaged(format!(
            "the pages of column '{path}' have {values} values, the footer says {expected}"
        )));
    }
    Ok(())
}

/// What is wanted of a page header.
#[derive(Debug, Default, PartialEq, Eq)]
struct PageHeader {
    kind: i32,
    uncompressed: i32,
    compressed: i32,
    data_values: Option<i32>,
    /// Bytes of the header itself.
    length: u64,
}

impl PageHeader {
    /// The number of values of a data page.
    fn values(&self) -> Option<i32> {
        const DATA: i32 = 0;
        const DATA_V2: i32 = 3;
        self.data_values.filter(|_| matches!(self.kind, DATA | DATA_V2))
    }
}

fn read_header(reader: &mut impl Read) -> io::Result<PageHeader> {
    let mut thrift = Thrift { reader, read: 0 };
    let mut page = PageHeader::default();
    let mut id = 0;
    let mut seen = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match (id, kind) {
            (1, INT32) => page.kind = thrift.int()?,
            (2, INT32) => page.uncompressed = thrift.int()?,
            (3, INT32) => page.compressed = thrift.int()?,
            // The headers of both kinds of data page begin with the number of values.
            (5 | 8, STRUCT) => page.data_values = thrift.first_int()?,
            _ => thrift.skip(kind, 0)?,
        }
        seen += usize::from((1..=3).contains(&id));
    }
    page.length = thrift.read;
    if seen < 3 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no type or sizes"));
    }
    Ok(page)
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INT16: u8 = 4;
const INT32: u8 = 5;
const INT64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Thrift's compact protocol.
struct Thrift<R> {
    reader: R,
    read: u64,
}

impl<R: Read> Thrift<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.read += 1;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid("a number of more than 64 bits"))
    }

    fn int(&mut self) -> io::Result<i32> {
        let value = self.varint()?;
        let signed = (value >> 1) as i64 ^ -((value & 1) as i64);
        i32::try_from(signed).map_err(|_| invalid("a number of more than 32 bits"))
    }

    /// The type of the next field of a structure, its number in `id`; none at the end.
    fn field(&mut self, id: &mut i32) -> io::Result<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match byte >> 4 {
            0 => self.int()?,
            delta => id.saturating_add(delta.into()),
        };
        Ok(Some(byte & 0x0f))
    }

    /// Goes through a structure whose first field is a number.
    fn first_int(&mut self) -> io::Result<Option<i32>> {
        let mut found = None;
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (1, INT32) => found = Some(self.int()?),
                _ => self.skip(kind, 1)?,
            }
        }
        Ok(found)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(invalid("structures within structures"));
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(drop),
            INT16 | INT32 | INT64 => self.varint().map(drop),
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.skip_bytes(length)
            }
            LIST | SET => {
                let byte = self.byte()?;
                let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
                (0..count).try_for_each(|_| self.skip_element(byte & 0x0f, depth))
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0f, depth)
                })
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(invalid("a type that Thrift does not have")),
        }
    }

    /// A boolean in a list takes a byte, in a structure none.
    fn skip_element(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        if matches!(kind, TRUE | FALSE) { self.byte().map(drop) } else { self.skip(kind, depth + 1) }
    }

    fn skip_bytes(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.reader.by_ref().take(count), &mut io::sink())?;
        self.read += skipped;
        if skipped == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_measured() {
        // type 0, sizes 300 and 200, then a data page header of 77 values with an encoding, then the end.
        let bytes = [0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 3, 0x2c, 0x15, 0x9a, 1, 0x15, 0, 0, 0, 99];
        let page = read_header(&mut &bytes[..]).unwrap();
        let expected =
            PageHeader { kind: 0, uncompressed: 300, compressed: 200, data_values: Some(77), length: 16 };
        assert_eq!(page, expected);
        for length in 0..16 {
            assert!(read_header(&mut &bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn any_bytes_end() {
        for seed in 0..2000u32 {
            let bytes: Vec<u8> = (0..64u32)
                .map(|i| (seed.wrapping_mul(i + 7).wrapping_mul(2_654_435_761) >> 24) as u8)
                .collect();
            let _ = read_header(&mut &bytes[..]);
        }
    }
}
