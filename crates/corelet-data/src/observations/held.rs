//! Numbers of all rows, in memory or mapped from a scratch file: a slice either way, and so the same bits.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ScratchError;
#[cfg(feature = "files")]
use super::scratch::{Mapped, ScratchFile};

/// Numbers that are read as a slice wherever they are. Whoever changes them has them in memory from then on.
#[derive(Clone)]
pub struct Held<T>(pub(super) Where<T>);

/// Their location.
#[derive(Clone)]
pub(super) enum Where<T> {
    Memory(Vec<T>),
    #[cfg(feature = "files")]
    Scratch(std::sync::Arc<Mapped<T>>),
}

impl<T: Pod> Held<T> {
    /// Those of a scratch file that has been written.
    #[cfg(feature = "files")]
    pub(crate) fn in_scratch(file: ScratchFile) -> Result<Self, ScratchError> {
        Ok(Self(Where::Scratch(std::sync::Arc::new(file.map()?))))
    }

    /// Whether they are in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.0, Where::Memory(_))
    }

    /// Room for `count` other numbers of the same rows: in memory where these are, in the same folder otherwise.
    ///
    /// # Errors
    /// If a scratch file cannot be made.
    pub fn beside<U: Pod>(&self, count: usize) -> Result<Growing<U>, ScratchError> {
        Ok(match &self.0 {
            Where::Memory(_) => Growing::in_memory(count),
            #[cfg(feature = "files")]
            Where::Scratch(mapped) => {
                let file = ScratchFile::create(mapped.folder(), (count * size_of::<U>()) as u64)?;
                Growing(Made::Scratch { file, written: 0, room: Vec::new() })
            }
        })
    }

    /// These in memory, to be changed.
    fn in_memory(&mut self) -> &mut Vec<T> {
        if !self.is_in_memory() {
            self.0 = Where::Memory(self.to_vec());
        }
        match &mut self.0 {
            Where::Memory(numbers) => numbers,
            #[cfg(feature = "files")]
            Where::Scratch(_) => unreachable!("they have just been copied"),
        }
    }

    /// Appends numbers.
    pub fn extend_from_slice(&mut self, others: &[T]) {
        self.in_memory().extend_from_slice(others);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0 = Where::Memory(Vec::new());
    }
}

impl<T: Pod> Deref for Held<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Where::Memory(numbers) => numbers,
            #[cfg(feature = "files")]
            Where::Scratch(mapped) => mapped.numbers(),
        }
    }
}

impl<T: Pod> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.in_memory()
    }
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Where::Memory(Vec::new()))
    }
}

impl<T> From<Vec<T>> for Held<T> {
    fn from(numbers: Vec<T>) -> Self {
        Self(Where::Memory(numbers))
    }
}

impl<T> FromIterator<T> for Held<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        Self(Where::Memory(numbers.into_iter().collect()))
    }
}

impl<'a, T: Pod> IntoIterator for &'a Held<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Pod + PartialEq> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Pod + Serialize> Serialize for Held<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Held<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// Numbers in the making, from the first to the last.
pub struct Growing<T>(Made<T>);

enum Made<T> {
    /// All of them, zero from the `done`-th on; how many are being made beyond.
    Memory { numbers: Vec<T>, done: usize, making: usize },
    #[cfg(feature = "files")]
    Scratch {
        file: ScratchFile,
        /// Bytes so far.
        written: u64,
        /// Those in the making.
        room: Vec<T>,
    },
}

impl<T: Pod> Growing<T> {
    /// Room for `count` of them in memory, of which pages are taken when they are first written to.
    pub fn in_memory(count: usize) -> Self {
        Self(Made::Memory { numbers: vec![T::zeroed(); count], done: 0, making: 0 })
    }

    /// The next `count`, to be made by any thread; zero until then.
    pub fn room(&mut self, count: usize) -> &mut [T] {
        match &mut self.0 {
            Made::Memory { numbers, done, making } => {
                *making = count;
                &mut numbers[*done..*done + count]
            }
            #[cfg(feature = "files")]
            Made::Scratch { room, .. } => {
                room.clear();
                room.resize(count, T::zeroed());
                room
            }
        }
    }

    /// Keeps what there was last [room](Self::room) for.
    ///
    /// # Errors
    /// If a scratch file cannot be written.
    pub fn filled(&mut self) -> Result<(), ScratchError> {
        match &mut self.0 {
            Made::Memory { done, making, .. } => *done += std::mem::take(making),
            #[cfg(feature = "files")]
            Made::Scratch { file, written, room } => {
                file.write_at(*written, room)?;
                *written += size_of_val(&**room) as u64;
            }
        }
        Ok(())
    }

    /// Appends some.
    ///
    /// # Errors
    /// If a scratch file cannot be written.
    pub fn push(&mut self, more: &[T]) -> Result<(), ScratchError> {
        self.room(more.len()).copy_from_slice(more);
        self.filled()
    }

    /// All of them.
    ///
    /// # Errors
    /// If a scratch file cannot be mapped.
    pub fn finish(self) -> Result<Held<T>, ScratchError> {
        Ok(match self.0 {
            Made::Memory { numbers, .. } => numbers.into(),
            #[cfg(feature = "files")]
            Made::Scratch { file, .. } => Held::in_scratch(file)?,
        })
    }
}
