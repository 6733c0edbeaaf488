//! How much memory there is, so that what does not fit is refused in words.

use std::cell::Cell;
use std::fs;

use crate::error::DataError;

thread_local! {
    static TRIED: Cell<bool> = const { Cell::new(false) };
}

/// Whether memory that this thread asks for now may be refused: an error of ours then says so.
///
/// A program whose allocator ends it in words where there is no memory can ask this first.
pub fn allocation_is_tried() -> bool {
    TRIED.get()
}

/// Asks for memory that may be refused.
pub(crate) fn tried<T>(ask: impl FnOnce() -> T) -> T {
    let outer = TRIED.replace(true);
    let answer = ask();
    TRIED.set(outer);
    answer
}

/// Bytes that this process may still take, where the system tells (Linux): the least of what the machine has, what
/// its control group may have, and what its address space may grow by.
pub fn available() -> Option<u64> {
    [machine(), control_group(), address_space()].into_iter().flatten().min()
}

/// Refuses what would take more than there is.
pub(crate) fn require(file: &str, what: impl Into<String>, needed: u64) -> Result<(), DataError> {
    match available() {
        Some(available) if needed > available => {
            Err(DataError::Memory { file: file.to_owned(), what: what.into(), needed, available })
        }
        _ => Ok(()),
    }
}

/// Refuses what cannot be mapped for want of addresses.
pub(crate) fn require_addresses(file: &str, what: impl Into<String>, needed: u64) -> Result<(), DataError> {
    match address_space() {
        Some(available) if needed > available => {
            Err(DataError::Memory { file: file.to_owned(), what: what.into(), needed, available })
        }
        _ => Ok(()),
    }
}

/// n zeros, or an error where there is no memory for them.
///
/// The system hands out pages of zeros when they are first written to, and so to all threads at once.
pub(crate) fn zeros<T: Clone + Default>(file: &str, what: &str, n: usize) -> Result<Vec<T>, DataError> {
    let needed = (n as u64).saturating_mul(size_of::<T>() as u64);
    require(file, what, needed)?;
    // Asked for and given back: `vec!` takes pages as they come, but would end the process where there are none.
    if tried(|| Vec::<T>::new().try_reserve_exact(n)).is_err() {
        let available = available().unwrap_or_default();
        return Err(DataError::Memory { file: file.to_owned(), what: what.to_owned(), needed, available });
    }
    Ok(vec![T::default(); n])
}

fn machine() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Bytes that the address space of this process may grow by, where it is limited (Linux).
pub fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let taken = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(taken))
}

/// What is left of the limit; pages of files count as taken but are given back when needed.
fn control_group() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = "/sys/fs/cgroup";
    let (limit, taken, statistics) = match number(&format!("{group}/memory.max")) {
        Some(limit) => (limit, number(&format!("{group}/memory.current"))?, format!("{group}/memory.stat")),
        None => (
            number(&format!("{group}/memory/memory.limit_in_bytes"))?,
            number(&format!("{group}/memory/memory.usage_in_bytes"))?,
            format!("{group}/memory/memory.stat"),
        ),
    };
    let statistics = fs::read_to_string(statistics).unwrap_or_default();
    let files = |key: &str| -> u64 {
        let value = statistics.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
    };
    Some(limit.saturating_sub(taken.saturating_sub(files("inactive_file") + files("active_file"))))
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

/// A number of bytes as people say it.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!((size(999), size(1500)), ("999 bytes".to_owned(), "1.5 kB".to_owned()));
        assert_eq!(size(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let error = zeros::<f64>("a.csv", "the rows", usize::MAX / 16).unwrap_err().to_string();
        assert!(error.starts_with("a.csv: the rows need"), "{error}");
        assert_eq!(zeros::<u8>("a.csv", "the rows", 3).unwrap(), [0; 3]);
    }
}
