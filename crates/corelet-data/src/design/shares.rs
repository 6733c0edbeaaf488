//! Where the second look puts rows: each block has its share of memory, or of the scratch files.

use std::ops::Range;
#[cfg(feature = "files")]
use std::path::Path;

use crate::design::options::Single;
#[cfg(feature = "files")]
use crate::observations::ScratchFile;
use crate::observations::{Held, Observations, ScratchError};

/// How many numbers there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) n: usize,
    pub(crate) dim: usize,
    /// Which numbers a row has besides its features.
    pub(crate) singles: [bool; Single::ALL.len()],
}

impl Shape {
    /// Bytes that all rows take.
    pub(crate) fn bytes(&self) -> u64 {
        let others = self.singles.iter().filter(|&&has| has).count();
        (self.n as u64).saturating_mul(4 * self.dim as u64 + 8 * others as u64)
    }

    /// How many numbers of each there are.
    pub(crate) fn lengths(&self) -> [usize; Single::ALL.len()] {
        self.singles.map(|has| if has { self.n } else { 0 })
    }

    /// The rows, of which every column has all its numbers or none.
    fn observations(&self, features: Held<f32>, singles: [Held<f64>; Single::ALL.len()]) -> Observations {
        let [target, exposure, weights, offset] = singles;
        let [_, has_exposure, has_weights, has_offset] = self.singles;
        Observations {
            features,
            dim: self.dim,
            target,
            exposure: has_exposure.then_some(exposure),
            weights: has_weights.then_some(weights),
            offset: has_offset.then_some(offset),
        }
    }
}

/// All rows in memory.
pub(crate) struct MemoryRows {
    pub(crate) features: Vec<f32>,
    pub(crate) singles: [Vec<f64>; Single::ALL.len()],
}

impl MemoryRows {
    /// The shares of blocks with so many rows.
    pub(crate) fn shares(&mut self, kept: &[usize], dim: usize) -> Vec<Share<'_>> {
        let mut features = &mut self.features[..];
        let mut singles = self.singles.each_mut().map(|numbers| &mut numbers[..]);
        let of = |kept: &usize| {
            Share::Memory(Room {
                features: take(&mut features, kept * dim),
                singles: singles.each_mut().map(|rest| {
                    let count = (*kept).min(rest.len());
                    take(rest, count)
                }),
            })
        };
        kept.iter().map(of).collect()
    }

    pub(crate) fn finish(self, shape: Shape) -> Observations {
        shape.observations(self.features.into(), self.singles.map(Held::from))
    }
}

/// Takes the first so many off.
fn take<'o, T>(from: &mut &'o mut [T], count: usize) -> &'o mut [T] {
    let (first, rest) = std::mem::take(from).split_at_mut(count);
    *from = rest;
    first
}

/// All rows in scratch files.
#[cfg(feature = "files")]
pub(crate) struct ScratchRows {
    shape: Shape,
    features: ScratchFile,
    singles: [ScratchFile; Single::ALL.len()],
}

#[cfg(feature = "files")]
impl ScratchRows {
    /// Reserves the room for all of them.
    pub(crate) fn create(folder: &Path, shape: Shape) -> Result<Self, ScratchError> {
        // One file of the size of all first, so that the message says how much is needed in all.
        drop(ScratchFile::create(folder, shape.bytes())?);
        let create = |bytes: usize| ScratchFile::create(folder, bytes as u64);
        let [target, exposure, weights, offset] = shape.lengths().map(|count| create(8 * count));
        Ok(Self {
            features: create(4 * shape.n * shape.dim)?,
            singles: [target?, exposure?, weights?, offset?],
            shape,
        })
    }

    /// The shares of blocks with so many rows.
    pub(crate) fn shares(&self, kept: &[usize]) -> Vec<Share<'_>> {
        let mut next = 0;
        let of = |&rows: &usize| {
            let first = next;
            next += rows;
            Share::Scratch { files: self, first, rows }
        };
        kept.iter().map(of).collect()
    }

    /// Writes rows from this one on.
    fn store(&self, first: usize, rows: &Buffers) -> Result<(), ScratchError> {
        self.features.write_at(4 * (first * self.shape.dim) as u64, &rows.features)?;
        let mut singles = self.singles.iter().zip(&rows.singles);
        singles.try_for_each(|(file, numbers)| file.write_at(8 * first as u64, numbers))
    }

    pub(crate) fn finish(self) -> Result<Observations, ScratchError> {
        let [target, exposure, weights, offset] = self.singles.map(Held::in_scratch);
        let singles = [target?, exposure?, weights?, offset?];
        Ok(self.shape.observations(Held::in_scratch(self.features)?, singles))
    }
}

/// What one block fills; nothing where only products are wanted.
pub(crate) enum Share<'o> {
    Nothing,
    Memory(Room<'o>),
    #[cfg(feature = "files")]
    Scratch {
        files: &'o ScratchRows,
        first: usize,
        rows: usize,
    },
}

/// Where some rows go.
pub(crate) struct Room<'o> {
    pub(crate) features: &'o mut [f32],
    pub(crate) singles: [&'o mut [f64]; Single::ALL.len()],
}

/// Rows on their way to a scratch file.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    features: Vec<f32>,
    singles: [Vec<f64>; Single::ALL.len()],
}

impl Share<'_> {
    /// Rows that go into it.
    pub(crate) fn rows(&self, dim: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Memory(room) => room.features.len() / dim.max(1),
            #[cfg(feature = "files")]
            Self::Scratch { rows, .. } => *rows,
        }
    }

    /// Where some of its rows go: to their place, or to the buffers, from where they are to be [stored](Self::store).
    #[cfg_attr(
        not(feature = "files"),
        allow(unused_variables, reason = "without files all rows are in memory")
    )]
    pub(crate) fn room<'b>(
        &'b mut self,
        rows: Range<usize>,
        dim: usize,
        buffers: &'b mut Buffers,
    ) -> Room<'b> {
        let part = |rows: Range<usize>, len: usize| rows.start.min(len)..rows.end.min(len);
        match self {
            Self::Memory(Room { features, singles }) => Room {
                features: &mut features[rows.start * dim..rows.end * dim],
                singles: singles.each_mut().map(|numbers| {
                    let at = part(rows.clone(), numbers.len());
                    &mut numbers[at]
                }),
            },
            #[cfg(feature = "files")]
            Self::Scratch { files, .. } => {
                let Buffers { features, singles } = buffers;
                features.resize(rows.len() * dim, 0.0);
                for (numbers, has) in singles.iter_mut().zip(files.shape.singles) {
                    numbers.resize(if has { rows.len() } else { 0 }, 0.0);
                }
                Room { features, singles: singles.each_mut().map(|numbers| &mut numbers[..]) }
            }
            Self::Nothing => Room { features: &mut [], singles: Default::default() },
        }
    }

    /// Writes the buffers, where they were used, from this row of the share on.
    pub(crate) fn store(&self, start: usize, buffers: &Buffers) -> Result<(), ScratchError> {
        match self {
            #[cfg(feature = "files")]
            Self::Scratch { files, first, .. } => files.store(first + start, buffers),
            _ => {
                let _ = (start, buffers);
                Ok(())
            }
        }
    }
}
