//! Ctrl-C: before a coreset exists it ends the process; after that it asks the work to end and be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context;

/// What a shell shows for a process that SIGINT ended.
pub const EXIT_CODE: u8 = 130;

/// Nothing exists that could be written.
const NOTHING_YET: u8 = 0;
/// Something exists that is worth writing.
const WORTH_WRITING: u8 = 1;
/// The user has asked to stop; asking again ends the process.
const ASKED: u8 = 2;
/// Files are being written, and must not be left half-done.
const WRITING: u8 = 3;
/// As before, and the user has asked to stop.
const ASKED_WRITING: u8 = 4;

/// Where the work stands, as the signal handler sees it.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Takes over Ctrl-C.
    pub fn install() -> anyhow::Result<Self> {
        let state = Arc::new(AtomicU8::new(NOTHING_YET));
        let seen = Arc::clone(&state);
        ctrlc::set_handler(move || on_signal(&seen)).context("Ctrl-C cannot be handled")?;
        Ok(Self(state))
    }

    /// From now on there is something worth writing.
    pub fn worth_writing(&self) {
        self.change(NOTHING_YET, WORTH_WRITING);
    }

    /// From now on files are written.
    pub fn writing(&self) {
        self.change(NOTHING_YET, WRITING);
        self.change(WORTH_WRITING, WRITING);
        self.change(ASKED, ASKED_WRITING);
    }

    /// Whether the user has asked to stop.
    pub fn asked(&self) -> bool {
        matches!(self.0.load(Ordering::SeqCst), ASKED | ASKED_WRITING)
    }

    fn change(&self, from: u8, to: u8) {
        // Another state than `from` is no failure: the change is then not due.
        let _ = self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    }
}

fn on_signal(state: &AtomicU8) {
    match state.load(Ordering::SeqCst) {
        WORTH_WRITING => state.store(ASKED, Ordering::SeqCst),
        WRITING | ASKED_WRITING => state.store(ASKED_WRITING, Ordering::SeqCst),
        _ => std::process::exit(EXIT_CODE.into()),
    }
}
