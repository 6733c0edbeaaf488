//! Repeated rows of an update, which a coreset already represents. They would count twice, and no draw would show it.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Blocks, Part};
use crate::rows::{Marks, Observations};
use crate::words::{count, plural};

/// Rows that are the same from first to last are a block that comes again; fewer may be equal by chance.
const FEWEST_IN_ORDER: usize = 20;

/// Marks below which there is nothing to say of a part.
const FEWEST_MARKS: usize = 16;

/// Marks found again, of 64, that chance may explain: with none of 64 twice in its own block, hardly more than one row in twenty has an
/// equal, and more than six of 64 are then found less than once in twenty times.
const BY_CHANCE: f64 = 6.0;

/// A sample of earlier rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// All of them, in this order.
    All,
    /// So many rows at the start.
    First(usize),
    /// So many rows at the end.
    Last(usize),
    /// About so many rows, wherever they are.
    About(usize),
}

impl Repeat {
    /// Of so many new rows.
    pub(super) fn worded(self, rows: usize) -> String {
        match self {
            Self::All => format!("these {}", plural(rows, "row")),
            Self::First(some) => format!("the first {} of {}", count(some), plural(rows, "row")),
            Self::Last(some) => format!("the last {} of {}", count(some), plural(rows, "row")),
            Self::About(some) => format!("about {} of {}", count(some), plural(rows, "row")),
        }
    }
}

impl Blocks {
    /// Whether new rows, with this fingerprint, are among those that are in already.
    pub(super) fn repeated(&self, new: &Observations, fingerprint: &str) -> Option<Repeat> {
        if self.has(fingerprint) {
            return Some(Repeat::All);
        }
        self.in_order(new).or_else(|| self.by_marks(new))
    }

    /// Blocks that the new rows begin or end with.
    fn in_order(&self, new: &Observations) -> Option<Repeat> {
        let count = new.len();
        let lengths: BTreeSet<usize> = self
            .parts()
            .map(|part| part.rows)
            .filter(|rows| (FEWEST_IN_ORDER..count).contains(rows))
            .collect();
        let known =
            |ids: std::ops::Range<usize>| self.has(&new.select(&ids.collect::<Vec<_>>()).fingerprint());
        let mut first = 0;
        while let Some(more) =
            lengths.iter().find(|&&rows| first + rows <= count && known(first..first + rows))
        {
            first += more;
        }
        if first > 0 {
            return Some(Repeat::First(first));
        }
        lengths.into_iter().find(|&rows| known(count - rows..count)).map(Repeat::Last)
    }

    /// Rows that are distinct in their block, and found again once each.
    fn by_marks(&self, new: &Observations) -> Option<Repeat> {
        let marked: Vec<(&Part, &Marks)> =
            self.parts().filter_map(|part| Some((part, part.marks.as_ref()?))).collect();
        let hashes: BTreeSet<u64> = marked.iter().flat_map(|(_, marks)| marks.hashes()).collect();
        if hashes.is_empty() {
            return None;
        }
        let found = new.rows_with(&hashes);
        let about: f64 = marked.iter().map(|(part, marks)| again(part, marks, &found, new.len())).sum();
        (about > 0.0).then(|| Repeat::About((about.round() as usize).clamp(1, new.len())))
    }
}

/// About how many of so many new rows are of this part; 0 where chance explains what was found.
fn again(part: &Part, marks: &Marks, found: &BTreeMap<u64, usize>, new: usize) -> f64 {
    if marks.len() < FEWEST_MARKS || !marks.are_of_one_row() {
        return 0.0;
    }
    let hits = marks.hashes().filter(|hash| found.get(hash) == Some(&1)).count() as f64;
    let share = hits / marks.len() as f64;
    // More new rows than the part has meet more of its rows by chance, but hardly half of them just once.
    let by_chance = BY_CHANCE / 64.0 * (new as f64 / part.rows.max(1) as f64).max(1.0);
    if share >= 0.5 || share > by_chance { share * part.rows as f64 } else { 0.0 }
}
