//! One pass over columns that come tile by tile: who scores them is here, who computes them is behind [`Tiles`].

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use sparse_nnls::{Candidate, Dictionary, Query, Tile, TopK};

use crate::parallel;

/// Columns in a tile: fixed, so that nothing depends on the number of threads.
const TILE: usize = 256;

/// Tiles that a worker takes at once.
const RUN: usize = 4;

/// A dictionary whose correlations can be had a tile of columns at a time.
///
/// This is what it takes to be one half of a [`Stacked`](super::Stacked) dictionary. Columns count from 0 here; where they are
/// some of many, [`first`](Tiles::first) is the id of the first.
pub trait Tiles: Dictionary {
    /// The one or two vectors of a query, made ready for a pass.
    type Directions: Send + Sync;
    /// The buffers of one worker.
    type Scratch: Default + Send;

    /// The id of the first column.
    fn first(&self) -> usize {
        0
    }

    /// Makes vectors as long as a column ready: u, then v where there is one.
    fn directions(&self, vectors: &[&[f64]]) -> Self::Directions;

    /// 1/‖φ‖ of every column, 0 for a zero column.
    fn inverse_norms(&self) -> &[f64];

    /// ⟨φ, u⟩ for each column of `ids`, which are ascending and inside `tile`, into `u[id − tile.start]`, and the
    /// same for the second vector, where there is one, into `v`. Other entries stay as they are.
    ///
    /// A column's answer must not depend on which other columns are asked for.
    fn correlate(
        &self,
        tile: Range<usize>,
        ids: &[usize],
        directions: &Self::Directions,
        scratch: &mut Self::Scratch,
        out: Correlations<'_>,
    );
}

/// Where the correlations of one tile go.
#[derive(Debug)]
pub struct Correlations<'a> {
    /// With the first vector.
    pub u: &'a mut [f64],
    /// With the second one.
    pub v: &'a mut [f64],
}

/// The workers of a dictionary, kept between passes for their memory.
pub(in crate::embed) struct Workers<S>(Mutex<Vec<Worker<S>>>);

struct Worker<S> {
    top: TopK,
    ids: Vec<usize>,
    u: Vec<f64>,
    v: Vec<f64>,
    scratch: S,
}

impl<S> Default for Workers<S> {
    fn default() -> Self {
        Workers(Mutex::default())
    }
}

impl<S: Default> Workers<S> {
    fn take(&self, query: &Query<'_>) -> Worker<S> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = kept.unwrap_or_else(|| Worker {
            top: TopK::default(),
            ids: Vec::with_capacity(TILE),
            u: vec![0.0; TILE],
            v: vec![0.0; TILE],
            scratch: S::default(),
        });
        worker.top.reset(query.rankings);
        worker
    }

    fn give(&self, worker: Worker<S>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
}

/// [`Dictionary::top`] over tiles, on all threads.
pub(in crate::embed) fn top<T: Tiles>(
    tiles: &T,
    workers: &Workers<T::Scratch>,
    query: &Query<'_>,
    answers: &mut [Vec<Candidate>],
) {
    let directions = tiles.directions(query.vectors);
    // As many rankings in the making as there are threads at work, not one for every piece that rayon splits off: each would have to
    // fill up again. Which columns a ranking has seen does not matter once all are merged.
    let active = Mutex::new(Vec::new());
    let lock = || active.lock().unwrap_or_else(PoisonError::into_inner);
    let count = tiles.len().div_ceil(TILE);
    parallel::each(count.div_ceil(RUN), &|run| {
        let idle = lock().pop();
        let mut worker: Worker<T::Scratch> = idle.unwrap_or_else(|| workers.take(query));
        for tile in run * RUN..count.min((run + 1) * RUN) {
            worker.visit(tiles, tile * TILE..tiles.len().min((tile + 1) * TILE), query, &directions);
        }
        lock().push(worker);
    });
    let mut others = std::mem::take(&mut *lock());
    let mut worker = others.pop().unwrap_or_else(|| workers.take(query));
    for other in others {
        worker.top.merge(&other.top);
        workers.give(other);
    }
    worker.top.write(answers);
    workers.give(worker);
}

impl<S: Default> Worker<S> {
    /// Correlates one tile and offers it to the rankings.
    fn visit<T: Tiles<Scratch = S>>(
        &mut self,
        tiles: &T,
        tile: Range<usize>,
        query: &Query<'_>,
        directions: &T::Directions,
    ) {
        let Worker { top, ids, u, v, scratch } = self;
        let (u, v) = (&mut u[..tile.len()], &mut v[..tile.len()]);
        ids.clear();
        match query.batch {
            None => ids.extend(tile.clone()),
            Some(batch) => ids.extend(tile.clone().filter(|id| batch.contains(tiles.first() + id))),
        }
        if ids.len() < tile.len() {
            u.fill(f64::NAN);
            v.fill(f64::NAN);
        }
        if !query.vectors.is_empty() && !ids.is_empty() {
            let out = Correlations { u: &mut *u, v: &mut *v };
            tiles.correlate(tile.clone(), ids, directions, scratch, out);
        }
        let inverse_norms = &tiles.inverse_norms()[tile.clone()];
        top.offer(query, Tile { first: tiles.first() + tile.start, u, v, inverse_norms });
    }
}
