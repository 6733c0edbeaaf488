//! Files other than coresets: checked before the work starts, written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Refuses outputs that could not be written, that name one file twice, or that would overwrite the data.
pub fn check(outputs: &[&Path], inputs: &[&Path]) -> anyhow::Result<()> {
    for (i, output) in outputs.iter().enumerate() {
        if output.is_dir() {
            bail!("{}: cannot be written: it is a folder", output.display());
        }
        drop(temporary_beside(output)?);
        if inputs.iter().any(|input| is_same(output, input)) {
            bail!("{}: cannot be written: it would overwrite an input", output.display());
        }
        if outputs[..i].iter().any(|other| is_same(output, other)) {
            bail!("{}: cannot be written: two outputs have this name", output.display());
        }
    }
    Ok(())
}

/// Writes `text` to `path`, through a temporary file that is renamed at the end.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write_bytes(path, text.as_bytes())
}

/// The same for what is no text.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("{}: cannot be written", path.display());
    let mut file = temporary_beside(path)?;
    file.write_all(bytes).with_context(failed)?;
    file.flush().with_context(failed)?;
    file.persist(path).map_err(|e| e.error).with_context(failed)?;
    Ok(())
}

/// One line of CSV. No field of ours has a comma or a quote in it.
pub fn csv_line(fields: impl IntoIterator<Item = String>) -> String {
    let mut line = fields.into_iter().collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// A number as a CSV field, empty where there is none.
pub fn csv_number(value: Option<f64>) -> String {
    value.filter(|x| x.is_finite()).map_or_else(String::new, |x| x.to_string())
}

fn temporary_beside(path: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".corelet-");
    readable_by_others(&mut builder);
    let file = builder.tempfile_in(folder);
    file.map_err(|e| anyhow::anyhow!("{}: cannot be written: {}", path.display(), e.kind()))
}

/// Temporary files are private by default; an output should be as readable as any other file the user makes.
#[cfg(unix)]
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_others(_builder: &mut tempfile::Builder<'_, '_>) {}

fn is_same(a: &Path, b: &Path) -> bool {
    let known = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_| path.to_path_buf()) };
    known(a) == known(b)
}
