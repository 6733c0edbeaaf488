//! Where rows are kept: in memory while they fit a budget, otherwise in scratch files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scan::memory::{available, size};

/// What an embedding keeps of a row, at most, besides the row itself.
const EMBEDDED: u64 = 24;

/// How much memory the rows may take, and where they go beyond.
///
/// | name | default | purpose |
/// | --- | --- | --- |
/// | `memory` | half of what is available | the most that the rows, and what an embedding keeps of each, may take |
/// | `scratch` | the system's folder for temporary files | where the scratch files of rows go that take more |
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// The most memory for rows.
    pub memory: Option<Bytes>,
    /// The folder of scratch files.
    pub scratch: Option<PathBuf>,
}

/// What so many rows of so many bytes take with what an embedding keeps of each.
pub(crate) fn embedded(rows: usize, bytes: u64) -> u64 {
    bytes.saturating_add((rows as u64).saturating_mul(EMBEDDED))
}

impl Storage {
    /// Whether so many rows of so many bytes go to scratch files.
    pub(crate) fn is_beyond(&self, rows: usize, bytes: u64) -> bool {
        let budget = self.memory.map(|memory| memory.0).or_else(|| available().map(|bytes| bytes / 2));
        let needed = embedded(rows, bytes);
        cfg!(feature = "files") && budget.is_some_and(|budget| needed > budget)
    }

    /// The folder of scratch files.
    pub fn folder(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// A number of bytes, which people write as `4GiB`, `500MB` or `1000000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 11] = [
    ("tib", 1 << 40),
    ("gib", 1 << 30),
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("tb", 1_000_000_000_000),
    ("gb", 1_000_000_000),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("b", 1),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find_map(|&(unit, bytes)| Some((lower.strip_suffix(unit)?, bytes)));
        let (number, unit) = unit.unwrap_or((&lower, 1));
        let bytes = number.trim().parse::<f64>().ok().map(|number| number * unit as f64);
        match bytes {
            Some(bytes) if (0.0..1e18).contains(&bytes) => Ok(Self(bytes as u64)),
            _ => Err("it must be a size such as 4GiB, 500MB or a number of bytes".to_owned()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&size(self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("1.5 gb", 1_500_000_000),
            ("500MB", 500_000_000),
            ("10", 10),
            ("2G", 2 << 30),
            ("7b", 7),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GB", "-1GB", "4 apples", "1e30", "nan"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Bytes>("\"1KiB\"").unwrap(), Bytes(1024));
        assert_eq!(serde_json::from_str::<Bytes>("12").unwrap(), Bytes(12));
    }

    #[test]
    fn rows_beyond_the_budget_go_to_scratch() {
        let storage = Storage { memory: Some(Bytes(1000)), scratch: None };
        assert!(!storage.is_beyond(10, 760));
        assert_eq!(storage.is_beyond(10, 761), cfg!(feature = "files"));
    }
}
