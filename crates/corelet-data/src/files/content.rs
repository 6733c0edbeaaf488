//! The source of bytes: a file, or a stream that can be read only once and is stored, so that it can be read again.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tempfile::{SpooledData, SpooledTempFile, spooled_tempfile_in};

use crate::error::DataError;
use crate::observations::ScratchError;
use crate::scan::memory::tried;
use crate::scan::source::Stored;

/// Up to here, what can be read only once is kept in memory; from here on in a temporary file without a name.
const KEPT_IN_MEMORY: usize = 16 << 20;

/// Bytes that can be read at any place, by any number of threads, as often as wanted.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// How messages name it.
    pub(crate) name: String,
    store: Arc<Store>,
    len: u64,
    /// When a regular file was last written.
    modified: Option<SystemTime>,
}

#[derive(Debug)]
enum Store {
    File(File),
    Memory(Vec<u8>),
}

impl Content {
    /// Opens a file; `-` is standard input. Pipes, devices and standard input are read to their end and kept in `folder`.
    pub(crate) fn open(path: &Path, folder: &Path) -> Result<Self, DataError> {
        let name = source_name(path);
        if is_standard_input(path) {
            return Self::keep(name, &mut io::stdin().lock(), folder);
        }
        let failed = |reason: String| DataError::Open { file: path.to_path_buf(), reason };
        let mut file = File::open(path).map_err(|e| failed(e.to_string()))?;
        let metadata = file.metadata().map_err(|e| failed(e.to_string()))?;
        // Opening a folder succeeds on Unix and only reading it fails, with a message that explains nothing.
        if metadata.is_dir() {
            return Err(failed("it is a folder".to_owned()));
        }
        if !metadata.is_file() {
            return Self::keep(name, &mut file, folder);
        }
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        Ok(Self { name, store: Arc::new(Store::File(file)), len, modified })
    }

    /// A regular file that is open.
    pub(crate) fn of_file(name: String, file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        Ok(Self { name, store: Arc::new(Store::File(file)), len, modified })
    }

    /// Keeps all that `reader` has, in `folder` where it is much.
    pub(crate) fn keep(name: String, reader: &mut dyn Read, folder: &Path) -> Result<Self, DataError> {
        let mut spool = spool_in(folder)?;
        io::copy(reader, &mut spool).map_err(|e| DataError::read(&name, &e))?;
        Self::spooled(name, spool)
    }

    /// What was written into `spool`.
    pub(crate) fn spooled(name: String, spool: SpooledTempFile) -> Result<Self, DataError> {
        let (store, len) = match spool.into_inner() {
            SpooledData::InMemory(bytes) => {
                let bytes = bytes.into_inner();
                let len = bytes.len() as u64;
                (Store::Memory(bytes), len)
            }
            SpooledData::OnDisk(file) => {
                let len = file.metadata().map_err(|e| DataError::read(&name, &e))?.len();
                (Store::File(file), len)
            }
        };
        Ok(Self { name, store: Arc::new(store), len, modified: None })
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// A buffered reader from `offset` on.
    pub(crate) fn reader(&self, offset: u64) -> BufReader<ContentReader> {
        BufReader::with_capacity(1 << 16, self.reader_at(offset))
    }

    /// A reader of a few bytes from `offset` on.
    pub(crate) fn small_reader(&self, offset: u64) -> BufReader<ContentReader> {
        BufReader::with_capacity(256, self.reader_at(offset))
    }

    fn reader_at(&self, offset: u64) -> ContentReader {
        ContentReader { store: Arc::clone(&self.store), len: self.len, at: offset }
    }

    /// `length` bytes from `offset` on; an error, before anything is allocated, where there are fewer.
    pub(crate) fn bytes(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(length).filter(|&end| end <= self.len);
        let length = end.and_then(|_| usize::try_from(length).ok());
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let mut bytes = Vec::new();
        tried(|| bytes.try_reserve_exact(length)).map_err(io::Error::other)?;
        self.reader_at(offset).take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The first bytes, at most `length`.
    pub(crate) fn start(&self, length: u64) -> io::Result<Vec<u8>> {
        self.bytes(0, length.min(self.len))
    }
}

/// Room for what can be read only once, in a file without a name in `folder` once it is much.
pub(crate) fn spool_in(folder: &Path) -> Result<SpooledTempFile, DataError> {
    if !folder.is_dir() {
        let reason = "there is no such folder".to_owned();
        return Err(ScratchError { folder: folder.to_path_buf(), reason }.into());
    }
    Ok(spooled_tempfile_in(KEPT_IN_MEMORY, folder))
}

impl Stored for Content {
    fn len(&self) -> u64 {
        self.len
    }

    /// Two looks at a file that was written to since it was opened would not have seen the same rows.
    fn check_unchanged(&self) -> Result<(), DataError> {
        let (Store::File(file), Some(modified)) = (&*self.store, self.modified) else { return Ok(()) };
        let now = file.metadata().map_err(|e| DataError::read(&self.name, &e))?;
        if now.len() == self.len && now.modified().ok() == Some(modified) {
            return Ok(());
        }
        Err(DataError::Changed { file: self.name.clone() })
    }
}

impl Store {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => read_file_at(file, buffer, offset),
            Self::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
                let rest = rest.unwrap_or_default();
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
        }
    }
}

/// A place in the content, of its own.
#[derive(Debug)]
pub(crate) struct ContentReader {
    store: Arc<Store>,
    len: u64,
    at: u64,
}

impl Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.store.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ContentReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(unix)]
fn read_file_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_file_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// True for the path `-`.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How messages name `path`.
pub(crate) fn source_name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_alike_in_memory_and_on_disk() {
        let long: Vec<u8> = (0..KEPT_IN_MEMORY + 5).map(|i| (i % 251) as u8).collect();
        for bytes in [&b"12345"[..], &long] {
            let content = Content::keep("pipe".to_owned(), &mut &bytes[..], &std::env::temp_dir()).unwrap();
            assert_eq!(content.len(), bytes.len() as u64);
            assert_eq!(content.bytes(1, 3).unwrap(), bytes[1..4]);
            assert!(content.bytes(2, bytes.len() as u64).is_err());
            assert!(content.bytes(u64::MAX, 2).is_err());
            for _ in 0..2 {
                let mut all = Vec::new();
                content.reader(0).read_to_end(&mut all).unwrap();
                assert!(all == bytes);
            }
        }
    }
}
