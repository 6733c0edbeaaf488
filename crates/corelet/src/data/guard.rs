//! Panics of the file format libraries as errors: they assert things about a file that a damaged one breaks.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::error::DataError;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, with a panic in it as the error of a damaged file.
pub(super) fn guarded<T>(
    file: &str,
    format: &'static str,
    work: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    keep_guarded_panics_quiet();
    let outer = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    result.unwrap_or_else(|panic| Err(DataError::damaged(file, format, &describe(panic.as_ref()))))
}

/// A panic prints before it can be caught; those of guarded work must not, all others go on as before.
fn keep_guarded_panics_quiet() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                previous(info);
            }
        }));
    });
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
        let error =
            guarded("a.arrow", "Arrow IPC", || -> Result<(), _> { panic!("offset {}", 7) }).unwrap_err();
        assert!(error.to_string().contains("a.arrow: not a readable Arrow IPC file: offset 7"), "{error}");
        assert!(!GUARDED.get());
        assert_eq!(guarded("a.arrow", "Arrow IPC", || Ok(1)), Ok(1));
    }
}
