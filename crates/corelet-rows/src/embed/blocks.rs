//! Log-likelihoods that someone else computes, a block of rows at a time: any model, and Φ is never stored.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sparse_nnls::{Candidate, Dictionary, DictionaryError, Error, Gathered, Query, Sum, Tile, TopK};

use crate::embed::draws::{centre, norm};
use crate::embed::{Description, EmbedError, Embedding};
use crate::linalg::dot;
use crate::parallel;

/// Log-likelihoods asked for at once: 8 MB of them.
const AT_ONCE: usize = 1 << 20;

/// Rows between two that are wanted which are rather computed too than left out by a second call.
const GAP: usize = 16;

/// Computes ℓᵢ(θ_s) for each i of the rows and every draw s, row after row.
pub type Source<'a> = dyn FnMut(Range<usize>, &mut [f64]) -> Result<(), DictionaryError> + Send + 'a;

/// φᵢ = (ℓᵢ(θ_s) − ℓ̄ᵢ)_s / √S over the first S draws of a [`Source`]; the draws after these are held out.
///
/// Each pass asks the source for every row once, in order and from the thread that makes the pass. The columns that a
/// pass ranks best are kept until the next, so that [`columns`](Dictionary::columns) rarely has to ask again. Norms
/// and sums are computed once, on construction; memory is 8 bytes a datum, and a few thousand columns.
pub struct Blocks<'a> {
    source: Mutex<Box<Source<'a>>>,
    /// Draws that the embedding sees, and those that it does not.
    draws: usize,
    held_out: usize,
    inverse_norms: Vec<f64>,
    sum: Sum,
    /// Σᵢ ℓᵢ(θ_s) − ℓᵢ(θ_h) over the held-out draws s, where h is the first of them.
    held_out_sum: Vec<f64>,
    kept: Mutex<HashMap<usize, Vec<f64>>>,
    description: Description,
}

impl<'a> Blocks<'a> {
    /// Makes one pass over `n` rows for norms and sums. The source fills `draws + held_out` numbers a row.
    ///
    /// # Errors
    /// [`EmbedError::TooFewDraws`] below two draws to build on, [`EmbedError::NotFinite`] naming the row and the draw,
    /// [`EmbedError::Dictionary`] with whatever the source failed with.
    pub fn new(
        mut source: Box<Source<'a>>,
        n: usize,
        draws: usize,
        held_out: usize,
    ) -> Result<Self, EmbedError> {
        if draws < 2 {
            return Err(EmbedError::TooFewDraws { count: draws });
        }
        let mut inverse_norms = Vec::with_capacity(n);
        let mut sum = Sum { vector: vec![0.0; draws], norms: 0.0 };
        let mut held_out_sum = vec![0.0; held_out];
        let width = draws + held_out;
        let mut numbers = Vec::new();
        for rows in blocks(n, width) {
            fill(&mut *source, rows.clone(), width, &mut numbers)?;
            for line in numbers.chunks_exact_mut(width) {
                let (column, unseen) = line.split_at_mut(draws);
                add_shifted(unseen, &mut held_out_sum);
                centre(column);
                let norm = norm(column);
                sum.norms += norm;
                sum.vector.iter_mut().zip(&*column).for_each(|(sum, x)| *sum += x);
                inverse_norms.push(if norm > 0.0 { 1.0 / norm } else { 0.0 });
            }
        }
        let description = Description { name: format!("function:{draws}"), coordinates: draws, tail: 0.0 };
        let (source, kept) = (Mutex::new(source), Mutex::default());
        Ok(Self { source, draws, held_out, inverse_norms, sum, held_out_sum, kept, description })
    }

    /// ‖Φ1 − Φw‖ on the held-out draws, `None` where there are fewer than two.
    ///
    /// # Errors
    /// Whatever the source fails with.
    pub fn held_out_residual(&self, rows: &[usize], weights: &[f64]) -> Result<Option<f64>, EmbedError> {
        if self.held_out < 2 {
            return Ok(None);
        }
        let mut rest = self.held_out_sum.clone();
        let mut numbers = Vec::new();
        for (&row, &weight) in rows.iter().zip(weights) {
            let width = self.draws + self.held_out;
            fill(&mut **self.source(), row..row + 1, width, &mut numbers)?;
            let unseen = &numbers[self.draws..];
            rest.iter_mut().zip(unseen).for_each(|(rest, x)| *rest -= weight * (x - unseen[0]));
        }
        centre(&mut rest);
        Ok(Some(norm(&rest)))
    }

    fn source(&self) -> MutexGuard<'_, Box<Source<'a>>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<usize, Vec<f64>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The columns of `rows`, one after the other, into `columns`.
    fn compute(&self, rows: Range<usize>, columns: &mut Vec<f64>) -> Result<(), EmbedError> {
        let width = self.draws + self.held_out;
        fill(&mut **self.source(), rows.clone(), width, columns)?;
        for row in 0..rows.len() {
            columns.copy_within(row * width..row * width + self.draws, row * self.draws);
        }
        columns.truncate(rows.len() * self.draws);
        parallel::map(columns.chunks_mut(parallel::ROWS * self.draws), |part| {
            part.chunks_exact_mut(self.draws).for_each(centre);
        });
        Ok(())
    }

    /// ⟨φ, vector⟩ of the columns of a block; NaN for those outside the batch.
    fn correlate(&self, first: usize, columns: &[f64], vector: &[f64], query: &Query<'_>) -> Vec<f64> {
        let of = |(id, column): (usize, &[f64])| {
            let seen = query.batch.is_none_or(|batch| batch.contains(id));
            if seen { dot(column, vector) } else { f64::NAN }
        };
        let of_part = |(part, columns): (usize, &[f64])| {
            (first + part * parallel::ROWS..)
                .zip(columns.chunks_exact(self.draws))
                .map(of)
                .collect::<Vec<f64>>()
        };
        parallel::map(columns.chunks(parallel::ROWS * self.draws).enumerate(), of_part).concat()
    }

    /// Scores one block, and keeps the columns of it that are among the best so far.
    fn visit(
        &self,
        rows: Range<usize>,
        query: &Query<'_>,
        columns: &mut Vec<f64>,
        top: &mut TopK,
    ) -> Result<(), EmbedError> {
        if query.vectors.is_empty() {
            columns.clear();
        } else {
            self.compute(rows.clone(), columns)?;
        }
        let correlations: Vec<Vec<f64>> =
            query.vectors.iter().map(|vector| self.correlate(rows.start, columns, vector, query)).collect();
        let of = |vector: usize| correlations.get(vector).map_or(&[][..], Vec::as_slice);
        let inverse_norms = &self.inverse_norms[rows.clone()];
        top.offer(query, Tile { first: rows.start, u: of(0), v: of(1), inverse_norms });
        let mut kept = self.kept();
        for id in top.ids().filter(|id| rows.contains(id) && !columns.is_empty()) {
            kept.insert(id, columns[(id - rows.start) * self.draws..][..self.draws].to_vec());
        }
        Ok(())
    }
}

/// Rows that may be asked for at once.
fn at_once(width: usize) -> usize {
    (AT_ONCE / width.max(1)).max(1)
}

/// Consecutive rows, as many at a time as may be asked for at once.
fn blocks(n: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let size = at_once(width);
    (0..n).step_by(size).map(move |start| start..n.min(start + size))
}

/// Asks the source for `rows` and refuses what is not finite.
fn fill(
    source: &mut Source<'_>,
    rows: Range<usize>,
    width: usize,
    out: &mut Vec<f64>,
) -> Result<(), EmbedError> {
    out.clear();
    out.resize(rows.len() * width, 0.0);
    source(rows.clone(), out)?;
    match parallel::first(out, |x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            Err(EmbedError::NotFinite { row: rows.start + at / width, draw: at % width, value: out[at] })
        }
    }
}

/// Adds what each held-out draw differs from the first by: constants of a datum do not matter, and only cost digits.
fn add_shifted(unseen: &[f64], sum: &mut [f64]) {
    if let Some(&first) = unseen.first() {
        sum.iter_mut().zip(unseen).for_each(|(sum, x)| *sum += x - first);
    }
}

/// Ascending ids as ranges of at most `longest` that cover them, with gaps too short to be worth another call.
fn runs(ids: &[usize], longest: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for &id in ids {
        match runs.last_mut() {
            Some(run) if id <= run.end + GAP && id < run.start + longest => run.end = id + 1,
            _ => runs.push(id..id + 1),
        }
    }
    runs
}

impl Dictionary for Blocks<'_> {
    fn len(&self) -> usize {
        self.inverse_norms.len()
    }

    fn coordinates(&self) -> usize {
        self.draws
    }

    fn sum(&self) -> Result<Sum, DictionaryError> {
        Ok(self.sum.clone())
    }

    fn gather(&self, seed: u64, count: usize) -> Result<Gathered, DictionaryError> {
        Gathered::ask(self, seed, count, false)
    }

    fn top(&self, query: &Query<'_>, answers: &mut [Vec<Candidate>]) -> Result<(), DictionaryError> {
        let mut top = TopK::default();
        top.reset(query.rankings);
        let mut columns = Vec::new();
        for rows in blocks(self.len(), self.draws + self.held_out) {
            self.visit(rows, query, &mut columns, &mut top).map_err(unwrapped)?;
            let best: Vec<usize> = top.ids().collect();
            let mut kept = self.kept();
            if kept.len() > 4 * best.len() {
                kept.retain(|id, _| best.contains(id));
            }
        }
        top.write(answers);
        Ok(())
    }

    fn columns(&self, ids: &[usize], out: &mut [f64]) -> Result<(), DictionaryError> {
        let columns = self.len();
        if let Some(&id) = ids.iter().find(|&&id| id >= columns) {
            return Err(DictionaryError::new(Error::BadColumn { id, columns }));
        }
        let mut kept = self.kept();
        let mut missing: Vec<usize> = ids.iter().copied().filter(|id| !kept.contains_key(id)).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut numbers = Vec::new();
        for run in runs(&missing, at_once(self.draws + self.held_out)) {
            self.compute(run.clone(), &mut numbers).map_err(unwrapped)?;
            for &id in missing.iter().filter(|id| run.contains(id)) {
                kept.insert(id, numbers[(id - run.start) * self.draws..][..self.draws].to_vec());
            }
        }
        for (id, out) in ids.iter().zip(out.chunks_exact_mut(self.draws)) {
            out.copy_from_slice(&kept[id]);
        }
        Ok(())
    }
}

/// What the source failed with, as it was.
fn unwrapped(error: EmbedError) -> DictionaryError {
    match error {
        EmbedError::Dictionary(error) => error,
        other => DictionaryError::new(other),
    }
}

impl Embedding for Blocks<'_> {
    fn description(&self) -> &Description {
        &self.description
    }
}
