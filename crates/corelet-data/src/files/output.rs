//! Output files: each written whole or not at all, to a place of its own.

use std::error::Error;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::DataError;

/// Links that are followed before a chain of them is called endless.
const MAX_LINKS: usize = 40;

/// What a caller of [`write_whole`] writes through.
pub type Sink<'a> = dyn Write + Send + 'a;

/// Writes what `fill` writes to `path`, so that no reader ever sees half of it.
///
/// A regular file is replaced by renaming a finished, synchronised temporary file beside it; it keeps its permissions, and a
/// symbolic link keeps pointing to it. A pipe or a device is written through.
///
/// # Errors
/// Names the file.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut Sink<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<(), DataError> {
    let failed = |e: &dyn Error| DataError::write(path, &e);
    let Destination::Regular { target, existing } = Destination::of(path)? else {
        let stream = OpenOptions::new().write(true).open(path).map_err(|e| failed(&e))?;
        let mut writer = BufWriter::new(stream);
        fill(&mut writer).map_err(|e| failed(&*e))?;
        return writer.flush().map_err(|e| failed(&e));
    };
    let mut temporary = temporary_beside(path, &target)?;
    let mut writer = BufWriter::new(temporary.as_file_mut());
    fill(&mut writer).map_err(|e| failed(&*e))?;
    writer.flush().map_err(|e| failed(&e))?;
    drop(writer);
    if let Some(existing) = existing {
        keep_access(temporary.as_file(), &existing).map_err(|e| failed(&e))?;
    }
    temporary.as_file().sync_all().map_err(|e| failed(&e))?;
    temporary.persist(&target).map_err(|e| failed(&e.error))?;
    Ok(())
}

/// Refuses, before any work is done, a file that could not be written after it.
///
/// # Errors
/// Names the file.
pub fn ensure_place(path: &Path) -> Result<(), DataError> {
    let Destination::Regular { target, existing } = Destination::of(path)? else { return Ok(()) };
    if existing.is_some() {
        OpenOptions::new().write(true).open(&target).map_err(|e| DataError::write(path, &e.kind()))?;
    }
    temporary_beside(path, &target).map(drop)
}

/// Whether both paths lead to one regular file, or would once it is written: by other spellings, links or folders.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let regular = |path: &Path| match Destination::of(path) {
        Ok(Destination::Regular { target, existing }) => Some((absolute(&target), existing)),
        _ => None,
    };
    let (Some((a, first)), Some((b, second))) = (regular(a), regular(b)) else { return false };
    a == b || first.zip(second).is_some_and(|(first, second)| is_same_node(&first, &second))
}

/// Where an output goes.
enum Destination {
    /// The file at the end of all links, and what is there already.
    Regular { target: PathBuf, existing: Option<Metadata> },
    /// A pipe, a device or a socket.
    Stream,
}

impl Destination {
    fn of(path: &Path) -> Result<Self, DataError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(DataError::write(path, &"it is a folder")),
            Ok(found) if !found.is_file() => Ok(Self::Stream),
            found => {
                let target = follow_links(path).map_err(|e| DataError::write(path, &e))?;
                Ok(Self::Regular { target, existing: found.ok() })
            }
        }
    }
}

/// The path that is no symbolic link, whether or not there is a file.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = folder_of(&target).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The same file by the only name that its folder has; a folder that is not there is left as it was spelled.
fn absolute(path: &Path) -> PathBuf {
    let folder = folder_of(path).canonicalize().unwrap_or_else(|_| folder_of(path).to_path_buf());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

fn temporary_beside(path: &Path, target: &Path) -> Result<NamedTempFile, DataError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".corelet-");
    readable_by_others(&mut builder);
    builder.tempfile_in(folder_of(target)).map_err(|e| DataError::write(path, &e.kind()))
}

/// Temporary files are private by default; an output should be as readable as any other file the user makes.
#[cfg(unix)]
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_others(_builder: &mut tempfile::Builder<'_, '_>) {}

/// Gives `file` the permissions of the one it replaces, and its owner where this user may.
#[cfg(unix)]
fn keep_access(file: &File, existing: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    // Only the superuser may give files away; for all others the owner is the same already, or cannot be kept.
    let _ = fchown(file, Some(existing.uid()), Some(existing.gid()));
    file.set_permissions(existing.permissions())
}

#[cfg(not(unix))]
fn keep_access(file: &File, existing: &Metadata) -> io::Result<()> {
    file.set_permissions(existing.permissions())
}

#[cfg(unix)]
fn is_same_node(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same_node(_a: &Metadata, _b: &Metadata) -> bool {
    false
}
