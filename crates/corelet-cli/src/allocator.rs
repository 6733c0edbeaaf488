//! The system's allocator, with words where it has no memory left: without them Rust aborts the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the message says to do; a process whose addresses are limited can be given more of them.
static LIMITED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

/// From now on the message says that the address space is limited.
pub(crate) fn addresses_are_limited() {
    LIMITED.store(true, Ordering::Relaxed);
}

/// The global allocator of a program: what cannot be had ends it with one line and exit code 1, unless whoever asked has words of its own.
#[derive(Debug, Clone, Copy)]
pub struct Allocator;

#[allow(
    unsafe_code,
    reason = "the trait is unsafe: every call is the system allocator's own, with the same arguments"
)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        had(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        had(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        had(unsafe { System.realloc(at, layout, size) }, size)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[inline]
fn had(at: *mut u8, bytes: usize) -> *mut u8 {
    if at.is_null() && !corelet::data::allocation_is_tried() && !ENDING.replace(true) {
        end(bytes);
    }
    at
}

#[cold]
fn end(bytes: usize) -> ! {
    let mut line = Line::default();
    let _ = writeln!(line, "{}", Refused { bytes, limited: LIMITED.load(Ordering::Relaxed) });
    let _ = std::io::stderr().write_all(&line.text[..line.length]);
    std::process::exit(1)
}

/// What is said of so many bytes that could not be had.
struct Refused {
    bytes: usize,
    limited: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(f, "error: out of memory: another {megabytes:.1} MB could not be had; ")?;
        f.write_str(if self.limited {
            "the address space of this process is limited (ulimit -v): allow it more, or use --threads 1"
        } else {
            "free some memory, or give --memory a smaller size"
        })
    }
}

/// Text on the stack: there is no memory to put it in. What does not fit is cut.
struct Line {
    text: [u8; 256],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { text: [0; 256], length: 0 }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let count = part.len().min(room.len());
        room[..count].copy_from_slice(&part.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_needs_no_memory_and_is_not_longer_than_its_place() {
        let mut line = Line::default();
        write!(line, "{}", Refused { bytes: 4_194_304, limited: true }).unwrap();
        let text = std::str::from_utf8(&line.text[..line.length]).unwrap();
        assert!(
            text.starts_with("error: out of memory: another 4.2 MB could not be had; the address"),
            "{text}"
        );
        assert!(text.ends_with("or use --threads 1"), "{text}");
        line.write_str(&"x".repeat(1000)).unwrap();
        assert_eq!(line.length, 256);
    }
}
