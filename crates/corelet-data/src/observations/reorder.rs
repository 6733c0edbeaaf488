//! All rows in another order: in place where they are in memory, and in scratch files by parts that fit into it.

use bytemuck::Pod;

use super::{Held, Observations, ScratchError};
#[cfg(feature = "files")]
use super::{held::Where, scratch::ScratchFile};

/// Bytes of a part of a scratch file that is put in order in memory.
#[cfg(feature = "files")]
const PART: usize = 1 << 26;
/// Bytes that wait for all parts together before they are written.
#[cfg(feature = "files")]
const WAITING: usize = 1 << 26;

impl Observations {
    /// The same rows, of which the j-th is row `order[j]` of these. Each row comes once.
    ///
    /// What is in memory is permuted in place. What is in a scratch file is read once from its beginning to its end and distributed to the
    /// parts of another file, each of which is then put in order in memory; the first file is gone by then.
    ///
    /// # Errors
    /// If a scratch file cannot be made, written or read.
    pub fn reordered(self, order: &[usize]) -> Result<Self, ScratchError> {
        let of = |column: Option<Held<f64>>| column.map(|column| column.reordered(order, 1)).transpose();
        Ok(Self {
            features: self.features.reordered(order, self.dim)?,
            dim: self.dim,
            target: self.target.reordered(order, 1)?,
            exposure: of(self.exposure)?,
            weights: of(self.weights)?,
            offset: of(self.offset)?,
        })
    }
}

impl<T: Pod> Held<T> {
    /// Rows of `width` numbers.
    fn reordered(mut self, order: &[usize], width: usize) -> Result<Self, ScratchError> {
        if self.is_empty() || width == 0 {
            return Ok(self);
        }
        #[cfg(feature = "files")]
        if !self.is_in_memory() {
            return self.distributed(order, width, PART / (width * size_of::<T>()));
        }
        permute(&mut self, order, width);
        Ok(self)
    }

    /// By parts of so many rows.
    #[cfg(feature = "files")]
    fn distributed(self, order: &[usize], width: usize, part_rows: usize) -> Result<Self, ScratchError> {
        let Where::Scratch(mapped) = &self.0 else { return Ok(self) };
        let part_rows = part_rows.max(1);
        let file = ScratchFile::create(mapped.folder(), size_of_val(mapped.numbers()) as u64)?;
        distribute(mapped.numbers(), (order, width), part_rows, &file)?;
        drop(self);
        let size = width * size_of::<T>();
        let (mut room, mut sorted) = (Vec::new(), Vec::new());
        for (part, sources) in order.chunks(part_rows).enumerate() {
            // The rows of a part were written as they came: the one that came first is the one with the smallest number.
            let mut came: Vec<usize> = (0..sources.len()).collect();
            came.sort_unstable_by_key(|&at| sources[at]);
            room.resize(sources.len() * width, T::zeroed());
            sorted.resize(sources.len() * width, T::zeroed());
            let offset = (part * part_rows * size) as u64;
            file.read_at(offset, &mut room)?;
            for (row, &at) in room.chunks_exact(width).zip(&came) {
                sorted[at * width..(at + 1) * width].copy_from_slice(row);
            }
            file.write_at(offset, &sorted)?;
        }
        Self::in_scratch(file)
    }
}

/// Writes each row to the part of the file that it belongs to, after those that came before it.
#[cfg(feature = "files")]
fn distribute<T: Pod>(
    rows: &[T],
    (order, width): (&[usize], usize),
    part_rows: usize,
    file: &ScratchFile,
) -> Result<(), ScratchError> {
    let parts = order.len().div_ceil(part_rows);
    let mut part_of = vec![0_u32; order.len()];
    order.iter().enumerate().for_each(|(at, &row)| part_of[row] = (at / part_rows) as u32);
    let most = (WAITING / parts / size_of::<T>()).max(width);
    let mut waiting: Vec<Vec<T>> = vec![Vec::new(); parts];
    let mut written = vec![0_usize; parts];
    let mut write = |part: usize, rows: &mut Vec<T>| {
        let from = part * part_rows * width + written[part];
        written[part] += rows.len();
        file.write_at((from * size_of::<T>()) as u64, rows)?;
        rows.clear();
        Ok(())
    };
    for (row, &part) in rows.chunks_exact(width).zip(&part_of) {
        let waiting = &mut waiting[part as usize];
        waiting.extend_from_slice(row);
        if waiting.len() + width > most {
            write(part as usize, waiting)?;
        }
    }
    waiting.iter_mut().enumerate().try_for_each(|(part, rows)| write(part, rows))
}

/// Cycle by cycle, with one row aside.
fn permute<T: Pod>(rows: &mut [T], order: &[usize], width: usize) {
    let mut done = vec![false; order.len()];
    let mut aside = vec![T::zeroed(); width];
    for first in 0..order.len() {
        if done[first] || order[first] == first {
            continue;
        }
        aside.copy_from_slice(&rows[first * width..(first + 1) * width]);
        let mut to = first;
        loop {
            done[to] = true;
            let from = order[to];
            if from == first {
                rows[to * width..(to + 1) * width].copy_from_slice(&aside);
                break;
            }
            rows.copy_within(from * width..(from + 1) * width, to * width);
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows, and an order in which each comes once.
    fn rows(count: usize, dim: usize) -> (Observations, Vec<usize>) {
        let number = |at: usize| (at as f64 * 12.9898).sin() * 43.0;
        let column = |from: usize| (0..count).map(|i| number(from + i)).collect::<Vec<f64>>();
        let features: Vec<f64> = (0..count * dim).map(number).collect();
        let rows = Observations::new(&features, dim, column(7)).with_offset(column(9));
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&i| ((i * i + 3 * i) % 17, i));
        (rows, order)
    }

    #[test]
    fn rows_in_memory_are_permuted_as_they_are_selected() {
        for (count, dim) in [(1, 1), (2, 3), (500, 4), (1001, 1)] {
            let (rows, order) = rows(count, dim);
            assert_eq!(rows.clone().reordered(&order).unwrap(), rows.select(&order), "{count} × {dim}");
        }
        let targetless = Observations { target: Held::default(), ..rows(50, 2).0 };
        let order: Vec<usize> = (0..50).rev().collect();
        assert_eq!(targetless.clone().reordered(&order).unwrap(), targetless.select(&order));
    }

    #[cfg(feature = "files")]
    #[test]
    fn rows_in_scratch_files_come_in_the_same_order_by_parts_of_any_size() {
        let folder = tempfile::tempdir().unwrap();
        let (rows, order) = rows(1003, 3);
        let in_scratch = || {
            let file = ScratchFile::create(folder.path(), 4 * rows.features.len() as u64).unwrap();
            file.write_at(0, &rows.features).unwrap();
            Held::in_scratch(file).unwrap()
        };
        let expected = rows.select(&order).features;
        for part_rows in [1, 2, 17, 500, 1002, 1003, 5000] {
            let held = in_scratch().distributed(&order, 3, part_rows).unwrap();
            assert!(!held.is_in_memory());
            assert_eq!(held, expected, "{part_rows}");
        }
        assert_eq!(in_scratch().reordered(&order, 3).unwrap(), expected);
    }
}
