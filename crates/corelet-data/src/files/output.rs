//! Output files: each written whole or not at all, to a place of its own.

use std::error::Error;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::DataError;

/// Links that are followed before a chain of them is called endless.
const MAX_LINKS: usize = 40;

/// The path that means standard output.
pub const STANDARD_OUTPUT: &str = "-";

/// The writer for callers of [`write_whole`].
pub type Sink<'a> = dyn Write + Send + 'a;

/// Writes what `fill` writes to `path`, so that no reader ever sees half of it.
///
/// A regular file is replaced by renaming a finished, synchronised temporary file beside it; it keeps its permissions, and a
/// symbolic link keeps pointing to it. A pipe, a device and standard output (`-`) are written through; a reader of the last that has
/// gone away is no error.
///
/// # Errors
/// Names the file.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut Sink<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<(), DataError> {
    let failed = |e: &dyn Error| DataError::write(path, &e);
    if is_standard_output(path) {
        let mut writer = BufWriter::new(Patient(io::stdout()));
        fill(&mut writer).map_err(|e| failed(&*e))?;
        return writer.flush().map_err(|e| failed(&e));
    }
    let Destination::Regular { target, existing } = Destination::of(path)? else {
        let stream = OpenOptions::new().write(true).open(path).map_err(|e| failed(&e))?;
        let mut writer = BufWriter::new(stream);
        fill(&mut writer).map_err(|e| failed(&*e))?;
        return writer.flush().map_err(|e| failed(&e));
    };
    let mut unfinished = Unfinished::beside(path, &target)?;
    let mut writer = BufWriter::new(unfinished.file());
    fill(&mut writer).map_err(|e| failed(&*e))?;
    writer.flush().map_err(|e| failed(&e))?;
    drop(writer);
    if let Some(existing) = existing {
        keep_access(unfinished.file(), &existing).map_err(|e| failed(&e))?;
    }
    unfinished.file().sync_all().map_err(|e| failed(&e))?;
    unfinished.finish(&target).map_err(|e| failed(&e))
}

/// Whether a path means standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// A writer that goes on when its reader has gone away.
struct Patient<W>(W);

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

/// A file that is invisible until it is complete.
enum Unfinished {
    /// Without a name, so that nothing is left of it whenever the process is killed.
    #[cfg(target_os = "linux")]
    Nameless(File),
    /// With a name of its own beside the target, where the file system knows no other way.
    Named(NamedTempFile),
}

impl Unfinished {
    fn beside(path: &Path, target: &Path) -> Result<Self, DataError> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, Mode, OFlags, openat};
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            if let Ok(file) = openat(CWD, folder_of(target), flags, Mode::from_raw_mode(0o666)) {
                return Ok(Self::Nameless(file.into()));
            }
        }
        temporary_beside(path, target).map(Self::Named)
    }

    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Puts it in the place of whatever is there.
    fn finish(self, target: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => match link(&file, target) {
                // A name can only be given where there is none: the file takes another one first, and is renamed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let named = tempfile::Builder::new()
                        .prefix(".corelet-")
                        .make_in(folder_of(target), |name| link(&file, name))?;
                    named.into_temp_path().persist(target).map_err(|e| e.error)
                }
                linked => linked,
            },
            Self::Named(file) => file.persist(target).map(drop).map_err(|e| e.error),
        }
    }
}

/// Gives a file without a name this one.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};
    let known = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, known, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Refuses, before any work is done, a file that could not be written after it.
///
/// # Errors
/// Names the file.
pub fn ensure_place(path: &Path) -> Result<(), DataError> {
    if is_standard_output(path) {
        return Ok(());
    }
    let Destination::Regular { target, existing } = Destination::of(path)? else { return Ok(()) };
    if existing.is_some() {
        OpenOptions::new().write(true).open(&target).map_err(|e| DataError::write(path, &reason(&e)))?;
    }
    Unfinished::beside(path, &target).map(drop)
}

/// Whether both paths lead to one regular file, or would once it is written: by other spellings, links or folders.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let regular = |path: &Path| match Destination::of(path) {
        Ok(Destination::Regular { target, existing }) => Some((absolute(&target), existing)),
        _ => None,
    };
    if is_standard_output(a) || is_standard_output(b) {
        return false;
    }
    let (Some((a, first)), Some((b, second))) = (regular(a), regular(b)) else { return false };
    a == b || first.zip(second).is_some_and(|(first, second)| is_same_node(&first, &second))
}

/// The destination of an output.
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
    builder.tempfile_in(folder_of(target)).map_err(|e| DataError::write(path, &reason(&e)))
}

/// Why a file cannot be written, without the name that a temporary file would have had.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
        kind => kind.to_string(),
    }
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
