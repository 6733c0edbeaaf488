//! A file mapped into memory: the one thing about scratch files that the compiler cannot check.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps all of a file that nobody writes to any more.
///
/// A mapping is sound as long as the file is neither written nor cut short while it is read. These are files without a name,
/// which no other process can open; the handle, the only way to the file, is taken and closed here; and their blocks have
/// been allocated and written, so that no page of the mapping is missing on a full disk.
#[allow(unsafe_code, reason = "the file cannot change while it is mapped, as above")]
pub(super) fn map(file: File) -> io::Result<Mmap> {
    // SAFETY: the file is unlinked, and its only handle is dropped before the mapping is handed on.
    let mapped = unsafe { Mmap::map(&file) };
    drop(file);
    mapped
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_mapping_outlives_its_handle() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let mapped = map(file).unwrap();
        assert_eq!(&mapped[..], &[7; 10_000]);
    }
}
