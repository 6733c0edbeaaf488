//! Scratch files: without a name from the first moment, reserved before they are written, then mapped.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use memmap2::Mmap;

use super::ScratchError;
use super::mapping::map;

/// A file that nobody else can open and that is gone when it is closed, however the process ends.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    file: File,
    folder: PathBuf,
}

impl ScratchFile {
    /// Reserves so many bytes on the disk, so that writing does not run out of it.
    pub(crate) fn create(folder: &Path, bytes: u64) -> Result<Self, ScratchError> {
        let failed = |e: io::Error| ScratchError { folder: folder.to_path_buf(), reason: reason(bytes, &e) };
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        require(folder, &file, bytes)?;
        reserve(&file, bytes).map_err(failed)?;
        Ok(Self { file, folder: folder.to_path_buf() })
    }

    /// Writes numbers from this byte on. Threads may write to different places at once.
    pub(crate) fn write_at<T: Pod>(&self, offset: u64, numbers: &[T]) -> Result<(), ScratchError> {
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        let failed = |e: io::Error| ScratchError {
            folder: self.folder.clone(),
            reason: reason(bytes.len() as u64, &e),
        };
        write_all_at(&self.file, bytes, offset).map_err(failed)
    }

    /// Reads numbers from this byte on.
    pub(super) fn read_at<T: Pod>(&self, offset: u64, numbers: &mut [T]) -> Result<(), ScratchError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(numbers);
        let failed = |e: io::Error| ScratchError {
            folder: self.folder.clone(),
            reason: format!("it cannot be read: {e}"),
        };
        read_exact_at(&self.file, bytes, offset).map_err(failed)
    }

    /// The whole file, to be read.
    pub(super) fn map<T: Pod>(self) -> Result<Mapped<T>, ScratchError> {
        let Self { file, folder } = self;
        let failed = |e: io::Error| ScratchError { folder: folder.clone(), reason: e.to_string() };
        let map = map(file).map_err(failed)?;
        Ok(Mapped { map, folder, numbers: PhantomData })
    }
}

/// A scratch file as numbers.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    map: Mmap,
    folder: PathBuf,
    numbers: PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    /// All numbers. A page begins where any number may begin.
    #[inline]
    pub(super) fn numbers(&self) -> &[T] {
        bytemuck::cast_slice(&self.map)
    }

    /// The folder that the file is in.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn reason(bytes: u64, error: &io::Error) -> String {
    format!("{} cannot be written there: {error}", crate::size(bytes))
}

/// Refuses what the disk has no room for, where the system tells.
fn require(folder: &Path, file: &File, bytes: u64) -> Result<(), ScratchError> {
    match free_bytes(file) {
        Some(free) if free < bytes => Err(ScratchError {
            folder: folder.to_path_buf(),
            reason: format!("{} are needed there, but {} are free", crate::size(bytes), crate::size(free)),
        }),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn free_bytes(file: &File) -> Option<u64> {
    let found = rustix::fs::fstatvfs(file).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_file: &File) -> Option<u64> {
    None
}

/// Gives the file its length, with blocks of its own where the file system can.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if bytes > 0 {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    file.set_len(bytes)
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read_and_nothing_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = ScratchFile::create(folder.path(), 80_000).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let numbers: Vec<f64> = (0..10_000).map(|i| f64::from(i).sqrt()).collect();
        for (start, part) in [(7000, &numbers[7000..]), (0, &numbers[..7000])] {
            file.write_at(8 * start, part).unwrap();
        }
        let mapped: Mapped<f64> = file.map().unwrap();
        assert_eq!(mapped.numbers(), numbers);
        let empty: Mapped<f32> = ScratchFile::create(folder.path(), 0).unwrap().map().unwrap();
        assert!(empty.numbers().is_empty());
    }

    #[test]
    fn a_disk_that_is_too_small_and_a_folder_that_is_not_there_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = ScratchFile::create(folder.path(), 1 << 60).unwrap_err().to_string();
        assert!(error.contains("1152.9 PB are needed there, but"), "{error}");
        let error = ScratchFile::create(&folder.path().join("none"), 8).unwrap_err().to_string();
        assert!(error.contains("none: the scratch file: 8 bytes cannot be written there"), "{error}");
    }
}
