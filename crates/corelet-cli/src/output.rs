//! Files other than coresets: checked before the work starts, written whole or not at all.

use std::path::{Path, PathBuf};

use anyhow::bail;
use corelet::data::{ensure_place, is_same_file, is_standard_output, write_whole};

use crate::terminal;

/// Refuses outputs that could not be written, that name one file twice, or that would overwrite the data. Where one of them is standard
/// output, what is said goes to standard error.
pub fn check(outputs: &[&Path], inputs: &[PathBuf]) -> anyhow::Result<()> {
    match outputs.iter().filter(|path| is_standard_output(path)).count() {
        0 => {}
        1 => terminal::leave_standard_output(),
        _ => bail!("two outputs are standard output (-): one of them must be a file"),
    }
    for (i, output) in outputs.iter().enumerate() {
        ensure_place(output)?;
        if inputs.iter().any(|input| is_same_file(output, input)) {
            bail!("{}: cannot be written: it would overwrite an input", output.display());
        }
        if outputs[..i].iter().any(|other| is_same_file(output, other)) {
            bail!("{}: cannot be written: two outputs are this file", output.display());
        }
    }
    Ok(())
}

/// Writes `text` to `path`, whole or not at all.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write_bytes(path, text.as_bytes())
}

/// The same for what is no text.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(write_whole(path, |writer| Ok(writer.write_all(bytes)?))?)
}

/// One line of CSV. No field of ours has a comma or a quote in it.
pub fn csv_line(fields: impl IntoIterator<Item = String>) -> String {
    let mut line = fields.into_iter().collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

/// A number as a CSV field, empty if there is none.
pub fn csv_number(value: Option<f64>) -> String {
    // With an exponent where a number is very small or very large.
    value.filter(|x| x.is_finite()).map_or_else(String::new, |x| format!("{x:?}"))
}
