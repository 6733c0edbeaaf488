//! The columns a hard-thresholding step works on, kept from one iteration to the next and fetched only when new.

use crate::dictionary::Oracle;
use crate::error::Error;

/// Columns by ascending id, in memory allotted once.
pub(super) struct ColumnCache {
    coordinates: usize,
    /// Ascending ids, and the slot of each.
    entries: Vec<(usize, usize)>,
    free: Vec<usize>,
    slots: Vec<f64>,
    missing: Vec<usize>,
    fetched: Vec<f64>,
}

impl ColumnCache {
    pub(super) fn new(capacity: usize, coordinates: usize) -> Self {
        Self {
            coordinates,
            entries: Vec::with_capacity(2 * capacity),
            free: (0..capacity).rev().collect(),
            slots: vec![0.0; capacity * coordinates],
            missing: Vec::with_capacity(capacity),
            fetched: vec![0.0; capacity * coordinates],
        }
    }

    /// Makes the cache hold exactly the columns `ids`, ascending and at most `capacity` of them.
    pub(super) fn hold(&mut self, ids: &[usize], oracle: &Oracle<'_>) -> Result<(), Error> {
        let free = &mut self.free;
        self.entries.retain(|&(id, slot)| {
            let wanted = ids.binary_search(&id).is_ok();
            if !wanted {
                free.push(slot);
            }
            wanted
        });
        self.missing.clear();
        let held = &self.entries;
        self.missing.extend(ids.iter().filter(|id| held.binary_search_by_key(id, |entry| &entry.0).is_err()));
        let fetched = &mut self.fetched[..self.missing.len() * self.coordinates];
        oracle.columns(&self.missing, fetched)?;
        for (&id, column) in self.missing.iter().zip(fetched.chunks_exact(self.coordinates)) {
            // There is a slot for each: no more ids are held than slots were made.
            let Some(slot) = self.free.pop() else { break };
            self.slots[slot * self.coordinates..(slot + 1) * self.coordinates].copy_from_slice(column);
            self.entries.push((id, slot));
        }
        self.entries.sort_unstable();
        Ok(())
    }

    /// The column at `position` of the ascending ids.
    pub(super) fn column(&self, position: usize) -> &[f64] {
        let slot = self.entries[position].1;
        &self.slots[slot * self.coordinates..(slot + 1) * self.coordinates]
    }
}
