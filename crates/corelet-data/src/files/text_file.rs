//! Text files as chunks that end where a record ends: decompressed, in UTF-8, and never held as a whole.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::{Content, ContentReader};
use crate::error::DataError;
use crate::scan::memory::{size, tried};

/// Text read at a time.
const CHUNK: usize = 1 << 20;

/// A record longer than this is no record: a quote was never closed, or this is no table.
const MAX_RECORD: usize = 1 << 26;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Text, perhaps compressed.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    pub(crate) content: Content,
    packed: Packed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packed {
    Plain,
    Gzip,
    Zstd,
}

impl TextFile {
    /// Looks at the first bytes: they say whether it is compressed, and whether it is text in another encoding.
    pub(crate) fn new(content: Content) -> Result<Self, DataError> {
        let start = content.start(4).map_err(|e| DataError::read(&content.name, &e))?;
        let packed = match &start[..] {
            start if start.starts_with(GZIP) => Packed::Gzip,
            start if start.starts_with(ZSTD) => Packed::Zstd,
            _ => Packed::Plain,
        };
        let lower = content.name.to_ascii_lowercase();
        if packed == Packed::Plain && (lower.ends_with(".gz") || lower.ends_with(".zst")) && content.len() > 0
        {
            return Err(DataError::read(&content.name, &"it is not compressed as its extension says"));
        }
        Ok(Self { content, packed })
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> &str {
        &self.content.name
    }

    /// Its chunks from the beginning; `end` tells where the last whole record of a text ends, `long` what is wrong with
    /// one that is too long to be one.
    pub(crate) fn chunks(
        &self,
        end: impl Fn(&[u8]) -> Option<usize> + Send + 'static,
    ) -> Result<Chunks, DataError> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted { reader: self.content.reader(0).into_inner(), read: Arc::clone(&read) };
        let failed = |e| DataError::read(self.name(), &e);
        let reader: Box<dyn Read + Send> = match self.packed {
            Packed::Plain => Box::new(counted),
            Packed::Gzip => Box::new(flate2::read::MultiGzDecoder::new(std::io::BufReader::new(counted))),
            Packed::Zstd => Box::new(zstd::Decoder::new(counted).map_err(failed)?),
        };
        let name = self.name().to_owned();
        Ok(Chunks { name, reader, read, end: Box::new(end), rest: Vec::new(), started: false, ended: false })
    }
}

struct Counted {
    reader: ContentReader,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Some text that ends where a record ends.
pub(crate) struct Chunk {
    pub(crate) text: Vec<u8>,
    /// Bytes of the file read so far.
    pub(crate) upto: u64,
}

/// Where the last whole record of some text ends.
type EndOf = dyn Fn(&[u8]) -> Option<usize> + Send;

/// The chunks of a text file, in order.
pub(crate) struct Chunks {
    name: String,
    reader: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
    end: Box<EndOf>,
    rest: Vec<u8>,
    started: bool,
    ended: bool,
}

impl Chunks {
    /// Adds what comes next to `text`, `count` bytes or all that is left.
    fn read_more(&mut self, text: &mut Vec<u8>, count: usize) -> Result<(), DataError> {
        let failed = |e: std::io::Error| DataError::read(&self.name, &e);
        tried(|| text.try_reserve(count)).map_err(|e| failed(std::io::Error::other(e)))?;
        let found = self.reader.by_ref().take(count as u64).read_to_end(text).map_err(failed)?;
        self.ended = found < count;
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, DataError> {
        let mut text = std::mem::take(&mut self.rest);
        while !self.ended {
            let more = text.len().max(CHUNK);
            self.read_more(&mut text, more)?;
            if !self.started {
                self.started = true;
                check_encoding(&self.name, &text)?;
                if text.starts_with(BYTE_ORDER_MARK) {
                    text.drain(..BYTE_ORDER_MARK.len());
                }
            }
            if self.ended {
                break;
            }
            if let Some(end) = (self.end)(&text) {
                self.rest = text.split_off(end);
                break;
            }
            if text.len() > MAX_RECORD {
                break;
            }
        }
        let upto = self.read.load(Ordering::Relaxed);
        Ok((!text.is_empty()).then_some(Chunk { text, upto }))
    }
}

impl Iterator for Chunks {
    type Item = Result<Chunk, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_chunk().transpose();
        if matches!(chunk, Some(Err(_))) {
            self.ended = true;
            self.rest.clear();
        }
        chunk
    }
}

/// Refuses text of two or four bytes a character, which would look like ragged rows.
fn check_encoding(name: &str, text: &[u8]) -> Result<(), DataError> {
    let marked = text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]);
    let line = memchr::memchr(b'\n', text).unwrap_or(text.len()).min(CHUNK);
    if marked || memchr::memchr(0, &text[..line]).is_some() {
        return Err(DataError::Encoding { file: name.to_owned() });
    }
    Ok(())
}

/// The error of a record that is too long to be one.
pub(crate) fn too_long(name: &str, place: crate::scan::place::Place) -> DataError {
    let reason = format!("a line is longer than {}, which no table has", size(MAX_RECORD as u64));
    DataError::BadLine { file: name.to_owned(), place, reason }
}

/// Whether a chunk of one record only is too long to be one.
pub(crate) fn is_too_long(text: &[u8]) -> bool {
    text.len() > MAX_RECORD
}
