//! Finished cells on disk: a header with the settings, then one line a cell, appended as they come.
//!
//! A run that was interrupted goes on where it ended; cells of other settings are set aside, never mixed in.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Key};
use crate::settings::CellSettings;

/// What the cells of a file have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) experiment: String,
    pub(crate) version: String,
    pub(crate) seed: u64,
    pub(crate) settings: CellSettings,
}

/// The finished cells of one experiment.
pub(crate) struct Store {
    path: PathBuf,
    file: File,
    cells: Vec<Cell>,
    known: HashSet<Key>,
}

/// What was found when a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Cells made with these settings.
    Same,
    /// Cells made with other settings, which now have the extension `.old`.
    Other,
}

impl Store {
    /// Opens the file, or begins it.
    pub(crate) fn open(path: &Path, header: &Header) -> anyhow::Result<(Self, Found)> {
        let failed = || format!("{}: cannot be written", path.display());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let (found, cells, valid) = match read(&text, header) {
            Some((cells, valid)) => (Found::Same, cells, valid),
            None if text.is_empty() => (Found::Nothing, Vec::new(), 0),
            None => {
                std::fs::rename(path, path.with_extension("old")).with_context(failed)?;
                (Found::Other, Vec::new(), 0)
            }
        };
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(failed)?;
        // A line that was cut short when the process was killed goes, so that the next starts on its own.
        file.set_len(valid as u64).with_context(failed)?;
        let known = cells.iter().map(|cell: &Cell| cell.key.clone()).collect();
        let mut store = Self { path: path.to_owned(), file, cells, known };
        if valid == 0 {
            store.write_line(header)?;
        }
        Ok((store, found))
    }

    /// The cells of a file of these settings; none if there is no such file.
    pub(crate) fn peek(path: &Path, header: &Header) -> Vec<Cell> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        read(&text, header).map_or_else(Vec::new, |(cells, _)| cells)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.known.contains(key)
    }

    /// Keeps a cell: one write, one line.
    pub(crate) fn append(&mut self, cell: Cell) -> anyhow::Result<()> {
        self.write_line(&cell)?;
        self.known.insert(cell.key.clone());
        self.cells.push(cell);
        Ok(())
    }

    fn write_line(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
        written.with_context(|| format!("{}: cannot be written", self.path.display()))
    }

    /// All cells, in an order that does not depend on when they were finished.
    pub(crate) fn into_cells(self) -> Vec<Cell> {
        sorted(self.cells)
    }
}

fn sorted(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_by(|a, b| a.key.cmp(&b.key));
    cells
}

/// The cells and the length of what could be read; `None` where the header is another.
fn read(text: &str, header: &Header) -> Option<(Vec<Cell>, usize)> {
    let (first, rest) = text.split_once('\n')?;
    if serde_json::from_str::<Header>(first).ok()? != *header {
        return None;
    }
    let (mut cells, mut valid) = (Vec::new(), first.len() + 1);
    for line in rest.split_inclusive('\n') {
        match serde_json::from_str(line) {
            Ok(cell) if line.ends_with('\n') => cells.push(cell),
            _ => break,
        }
        valid += line.len();
    }
    Some((sorted(cells), valid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cost, Quality};

    fn header(draws: usize) -> Header {
        let settings = CellSettings { draws, ..CellSettings::default() };
        Header { experiment: "logistic".to_owned(), version: "1".to_owned(), seed: 3, settings }
    }

    fn cell(k: usize) -> Cell {
        let (data, source) = ("set".to_owned(), "generated".to_owned());
        let method = "giga".parse().unwrap();
        Cell {
            key: Key { data, source, method, k, trial: 0 },
            embedding: "draws:5".to_owned(),
            points: k,
            status: "completed".to_owned(),
            quality: Quality {
                kl_forward: Some(0.1 + 0.2),
                kl_reverse: None,
                kl_symmetrised: None,
                map_distance: None,
                residual: Some(1e-300),
                heldout_residual: None,
            },
            cost: Cost { seconds: 1.0, seconds_paper: 0.5, passes: 3.0, iterations: 2 },
            coreset: Some((vec![1, 2], vec![0.5, 2.0])),
            trace: Vec::new(),
        }
    }

    #[test]
    fn cells_come_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let (mut store, found) = Store::open(&path, &header(5)).unwrap();
        assert_eq!(found, Found::Nothing);
        store.append(cell(20)).unwrap();
        store.append(cell(10)).unwrap();
        drop(store);
        // Killed in the middle of a line.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"data\":\"se");
        std::fs::write(&path, &text).unwrap();
        let (mut store, found) = Store::open(&path, &header(5)).unwrap();
        assert_eq!(found, Found::Same);
        assert!(store.contains(&cell(10).key) && !store.contains(&cell(30).key));
        store.append(cell(30)).unwrap();
        assert_eq!(store.into_cells(), [cell(10), cell(20), cell(30)]);
        assert_eq!(Store::peek(&path, &header(5)).len(), 3);
    }

    #[test]
    fn cells_of_other_settings_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let (mut store, _) = Store::open(&path, &header(5)).unwrap();
        store.append(cell(10)).unwrap();
        drop(store);
        assert!(Store::peek(&path, &header(6)).is_empty());
        let (store, found) = Store::open(&path, &header(6)).unwrap();
        assert_eq!((found, store.into_cells().len()), (Found::Other, 0));
        assert!(folder.path().join("cells.old").exists());
    }
}
