//! The dictionary held in memory: n columns of f32 or f64, one after the other.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::dictionary::{Candidate, Dictionary, Gathered, Query, Sum};
use crate::error::{DictionaryError, Error};
use crate::kernel::{Direction, Element, accumulate, norm};
use crate::top_k::{Tile, TopK};

/// Columns in a tile: fixed, so that partial sums are the same whatever the number of threads.
const TILE: usize = 256;

/// n columns in memory, stored as `E` and answered in f64.
///
/// Zero columns and exact duplicates are legal. All cores are used; every answer has the same bits for any number
/// of threads, since a column's correlation does not depend on its tile, and sums are combined in tile order.
pub struct Dense<E> {
    entries: Vec<E>,
    coordinates: usize,
    inverse_norms: Vec<f64>,
    norms_sum: f64,
    scratch: Mutex<Vec<Scratch>>,
    directions: Mutex<[Direction; 2]>,
}

/// What one worker needs for a pass, kept between passes.
#[derive(Default)]
struct Scratch {
    top: TopK,
    u: Vec<f64>,
    v: Vec<f64>,
}

impl<E: Element> Dense<E> {
    /// Takes n columns of length `coordinates`, one after the other.
    ///
    /// # Errors
    /// [`Error::EmptyDictionary`], [`Error::RaggedColumns`], or [`Error::ColumnNotFinite`] naming the entry.
    pub fn new(entries: Vec<E>, coordinates: usize) -> Result<Self, Error> {
        if coordinates == 0 || entries.is_empty() {
            let columns = entries.len().checked_div(coordinates).unwrap_or(0);
            return Err(Error::EmptyDictionary { columns, coordinates });
        }
        if !entries.len().is_multiple_of(coordinates) {
            return Err(Error::RaggedColumns { entries: entries.len(), coordinates });
        }
        if let Some(at) = entries.par_iter().position_first(|x| !x.wide().is_finite()) {
            let (column, coordinate) = (at / coordinates, at % coordinates);
            return Err(Error::ColumnNotFinite { column, coordinate, value: entries[at].wide() });
        }
        let norms: Vec<f64> = entries
            .par_chunks(coordinates)
            .map_init(Vec::new, |wide, column| {
                wide.clear();
                wide.extend(column.iter().map(|x| x.wide()));
                norm(wide)
            })
            .collect();
        let inverse_norms = norms.iter().map(|&norm| if norm > 0.0 { 1.0 / norm } else { 0.0 }).collect();
        Ok(Self {
            entries,
            coordinates,
            inverse_norms,
            norms_sum: norms.iter().sum(),
            scratch: Mutex::default(),
            directions: Mutex::default(),
        })
    }

    fn column(&self, id: usize) -> Option<&[E]> {
        let start = id.checked_mul(self.coordinates)?;
        self.entries.get(start..start + self.coordinates)
    }

    fn take_scratch(&self, query: &Query<'_>) -> Scratch {
        let mut scratch =
            self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        scratch.top.reset(query.rankings);
        scratch.u.resize(TILE, 0.0);
        scratch.v.resize(TILE, 0.0);
        scratch
    }

    fn give_scratch(&self, scratch: Scratch) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// Correlates one tile and offers it to the rankings.
    fn visit(&self, tile: usize, query: &Query<'_>, directions: &[Direction], scratch: &mut Scratch) {
        let first = tile * TILE;
        let inverse_norms = &self.inverse_norms[first..self.len().min(first + TILE)];
        let entries = &self.entries[first * self.coordinates..][..inverse_norms.len() * self.coordinates];
        let width = inverse_norms.len();
        let Scratch { top, u, v } = scratch;
        for (direction, out) in directions.iter().zip([&mut *u, &mut *v]) {
            match query.batch {
                None => E::correlate(entries, direction, &mut out[..width]),
                Some(batch) => {
                    for (offset, column) in entries.chunks_exact(self.coordinates).enumerate() {
                        let skipped = !batch.contains(first + offset);
                        let out = &mut out[offset..=offset];
                        if skipped { out[0] = f64::NAN } else { E::correlate(column, direction, out) }
                    }
                }
            }
        }
        top.offer(query, Tile { first, u: &u[..width], v: &v[..width], inverse_norms });
    }
}

impl<E: Element> Dictionary for Dense<E> {
    fn len(&self) -> usize {
        self.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.coordinates
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        let partial: Vec<Vec<f64>> = self
            .entries
            .par_chunks(TILE * self.coordinates)
            .map(|tile| {
                let mut sum = vec![0.0; self.coordinates];
                accumulate(tile, &[1.0; TILE], &mut sum);
                sum
            })
            .collect();
        let mut vector = vec![0.0; self.coordinates];
        for sum in &partial {
            accumulate(sum, &[1.0], &mut vector);
        }
        Ok(Sum { vector, norms: self.norms_sum })
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        Gathered::ask(self, seed, count, true)
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        let mut prepared = self.directions.lock().unwrap_or_else(PoisonError::into_inner);
        for (direction, vector) in prepared.iter_mut().zip(query.vectors) {
            direction.prepare(vector);
        }
        let directions = &prepared[..query.vectors.len().min(2)];
        let tiles = self.len().div_ceil(TILE);
        let mut scratch = (0..tiles)
            .into_par_iter()
            .fold(
                || self.take_scratch(query),
                |mut scratch, tile| {
                    self.visit(tile, query, directions, &mut scratch);
                    scratch
                },
            )
            .reduce(
                || self.take_scratch(query),
                |mut left, right| {
                    left.top.merge(&right.top);
                    self.give_scratch(right);
                    left
                },
            );
        scratch.top.write(answers);
        self.give_scratch(scratch);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.coordinates)) {
            let column = self
                .column(id)
                .ok_or_else(|| DictionaryError::new(Error::BadColumn { id, columns: self.len() }))?;
            for (out, x) in out.iter_mut().zip(column) {
                *out = x.wide();
            }
        }
        Ok(())
    }
}
