//! The data formats, by name and by file extension.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// A format that [`read`](crate::read) understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Comma-separated text with a header line.
    Csv,
    /// Tab-separated text with a header line.
    Tsv,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// LIBSVM text: `target index:value ...`.
    Libsvm,
    /// A NumPy archive with arrays `X` and, where there is a target, `y`.
    Npz,
    /// One NumPy array.
    Npy,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Csv, Self::Tsv, Self::Parquet, Self::Arrow, Self::Libsvm, Self::Npz, Self::Npy];

    /// The name that `--format` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Libsvm => "libsvm",
            Self::Npz => "npz",
            Self::Npy => "npy",
        }
    }

    /// The format that the extension of `path` stands for, a `.gz` or `.zst` of a text format put aside.
    pub fn from_path(path: &Path) -> Result<Self, DataError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
        let compressed = plain.is_some();
        let extension = plain.unwrap_or(&name).rsplit_once('.').map_or("", |(_, extension)| extension);
        match Self::from_extension(extension) {
            Some(format) if !compressed || format.is_text() => Ok(format),
            _ => Err(DataError::UnknownExtension { file: path.to_path_buf(), known: known_names() }),
        }
    }

    /// True for the line-based formats, which may be compressed or come from standard input.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::Libsvm)
    }

    fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Self::Arrow),
            "libsvm" | "svm" | "svmlight" => Some(Self::Libsvm),
            "npz" => Some(Self::Npz),
            "npy" => Some(Self::Npy),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| DataError::UnknownFormat { name: name.to_owned(), known: known_names() })
    }
}

fn known_names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_choose_formats() {
        for (path, format) in [
            ("a/b.csv", Format::Csv),
            ("b.TSV.gz", Format::Tsv),
            ("c.libsvm.zst", Format::Libsvm),
            ("d.feather", Format::Arrow),
            ("e.npz", Format::Npz),
        ] {
            assert_eq!(Format::from_path(Path::new(path)), Ok(format));
        }
        for path in ["a.xlsx", "a", "a.parquet.gz", ""] {
            assert!(Format::from_path(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("excel".parse::<Format>().unwrap_err().to_string().contains("csv, tsv, parquet"));
    }
}
