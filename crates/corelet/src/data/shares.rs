//! Where the second look puts rows: each block has its share of memory, or of the scratch files.

use std::ops::Range;
#[cfg(feature = "files")]
use std::path::Path;

#[cfg(feature = "files")]
use crate::rows::{Held, ScratchFile};
use crate::rows::{Observations, ScratchError};

/// How many numbers there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) n: usize,
    pub(super) dim: usize,
    /// n, or none.
    pub(super) target: usize,
    /// n, or none.
    pub(super) exposure: usize,
}

impl Shape {
    /// Bytes that all rows take.
    pub(super) fn bytes(&self) -> u64 {
        let (n, dim, others) = (self.n as u64, self.dim as u64, (self.target + self.exposure) as u64);
        n.saturating_mul(4 * dim).saturating_add(8 * others)
    }
}

/// All rows in memory.
pub(super) struct MemoryRows {
    pub(super) features: Vec<f32>,
    pub(super) target: Vec<f64>,
    pub(super) exposure: Vec<f64>,
}

impl MemoryRows {
    /// The shares of blocks with so many rows.
    pub(super) fn shares(&mut self, kept: &[usize], dim: usize) -> Vec<Share<'_>> {
        let (has_target, has_exposure) = (!self.target.is_empty(), !self.exposure.is_empty());
        let (mut features, mut target) = (&mut self.features[..], &mut self.target[..]);
        let mut exposure = &mut self.exposure[..];
        let of = |kept: &usize| {
            Share::Memory(Room {
                features: take(&mut features, kept * dim),
                target: take(&mut target, if has_target { *kept } else { 0 }),
                exposure: take(&mut exposure, if has_exposure { *kept } else { 0 }),
            })
        };
        kept.iter().map(of).collect()
    }

    pub(super) fn finish(self, dim: usize) -> Observations {
        let Self { features, target, exposure } = self;
        let (features, target, exposure) = (features.into(), target.into(), Some(exposure.into()));
        Observations { features, dim, target, exposure }
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
pub(super) struct ScratchRows {
    shape: Shape,
    features: ScratchFile,
    target: ScratchFile,
    exposure: ScratchFile,
}

#[cfg(feature = "files")]
impl ScratchRows {
    /// Reserves the room for all of them.
    pub(super) fn create(folder: &Path, shape: Shape) -> Result<Self, ScratchError> {
        // One file of the size of all first, so that the message says how much is needed in all.
        drop(ScratchFile::create(folder, shape.bytes())?);
        let create = |bytes: usize| ScratchFile::create(folder, bytes as u64);
        Ok(Self {
            features: create(4 * shape.n * shape.dim)?,
            target: create(8 * shape.target)?,
            exposure: create(8 * shape.exposure)?,
            shape,
        })
    }

    /// The shares of blocks with so many rows.
    pub(super) fn shares(&self, kept: &[usize]) -> Vec<Share<'_>> {
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
        self.target.write_at(8 * first as u64, &rows.target)?;
        self.exposure.write_at(8 * first as u64, &rows.exposure)
    }

    pub(super) fn finish(self) -> Result<Observations, ScratchError> {
        Ok(Observations {
            features: Held::in_scratch(self.features)?,
            dim: self.shape.dim,
            target: Held::in_scratch(self.target)?,
            exposure: Some(Held::in_scratch(self.exposure)?),
        })
    }
}

/// What one block fills; nothing where only products are wanted.
pub(super) enum Share<'o> {
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
pub(super) struct Room<'o> {
    pub(super) features: &'o mut [f32],
    pub(super) target: &'o mut [f64],
    pub(super) exposure: &'o mut [f64],
}

/// Rows on their way to a scratch file.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    features: Vec<f32>,
    target: Vec<f64>,
    exposure: Vec<f64>,
}

impl Share<'_> {
    /// Rows that go into it.
    pub(super) fn rows(&self, dim: usize) -> usize {
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
    pub(super) fn room<'b>(
        &'b mut self,
        rows: Range<usize>,
        dim: usize,
        buffers: &'b mut Buffers,
    ) -> Room<'b> {
        let part = |rows: Range<usize>, len: usize| rows.start.min(len)..rows.end.min(len);
        match self {
            Self::Memory(Room { features, target, exposure }) => Room {
                features: &mut features[rows.start * dim..rows.end * dim],
                target: {
                    let at = part(rows.clone(), target.len());
                    &mut target[at]
                },
                exposure: {
                    let at = part(rows, exposure.len());
                    &mut exposure[at]
                },
            },
            #[cfg(feature = "files")]
            Self::Scratch { files, .. } => {
                let count = |all: usize| if all > 0 { rows.len() } else { 0 };
                buffers.features.resize(rows.len() * dim, 0.0);
                buffers.target.resize(count(files.shape.target), 0.0);
                buffers.exposure.resize(count(files.shape.exposure), 0.0);
                let Buffers { features, target, exposure } = buffers;
                Room { features, target, exposure }
            }
            Self::Nothing => Room { features: &mut [], target: &mut [], exposure: &mut [] },
        }
    }

    /// Writes the buffers, where they were used, from this row of the share on.
    pub(super) fn store(&self, start: usize, buffers: &Buffers) -> Result<(), ScratchError> {
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
