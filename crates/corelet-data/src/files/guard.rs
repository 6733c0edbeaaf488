//! Panics of the file format libraries as errors: they assert things about a file that a damaged one breaks.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use crate::error::DataError;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic on this thread would become an error of a data file.
///
/// Such a panic is still printed by the panic hook before it is caught. A program that installs a hook of its own can
/// ask this in it, and be quiet.
pub fn panic_is_caught() -> bool {
    GUARDED.get()
}

/// Runs `work`, with a panic in it as the error of a damaged file.
pub(crate) fn guarded<T, E: From<DataError>>(
    file: &str,
    format: &'static str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    result.unwrap_or_else(|panic| Err(DataError::damaged(file, format, &describe(panic.as_ref())).into()))
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        let broken = || -> Result<(), DataError> {
            assert!(panic_is_caught());
            panic!("offset {}", 7)
        };
        let error = guarded("a.arrow", "Arrow IPC", broken).unwrap_err();
        assert!(error.to_string().contains("a.arrow: not a readable Arrow IPC file: offset 7"), "{error}");
        assert!(!panic_is_caught());
        assert_eq!(guarded("a.arrow", "Arrow IPC", || Ok::<_, DataError>(1)), Ok(1));
    }
}
