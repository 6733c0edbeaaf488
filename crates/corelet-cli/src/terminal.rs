//! All that a person sees: results on standard output, warnings, errors and progress on standard error.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use corelet::coreset::Selector;
use corelet::data::DataError;
use corelet::hint::Hint;
use corelet::words::{duration, number};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sparse_nnls::{Info, Method};

/// Work shorter than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a result did not reach standard output.
static LOST: AtomicBool = AtomicBool::new(false);

/// Where messages go, and whether they go anywhere.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    quiet: bool,
}

impl Terminal {
    /// One that says nothing but errors where `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// A result, on standard output. A reader that has gone away is no error.
    pub fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => LOST.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    /// An error where some result could not be said, as on a full device.
    ///
    /// # Errors
    /// Says so.
    pub fn check_results(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!LOST.load(Ordering::Relaxed), "standard output: not all results could be written");
        Ok(())
    }

    /// Something the user should know, on standard error.
    pub fn warn(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "warning: {text}");
        }
    }

    /// Why the run failed: one line, whatever the causes say.
    pub fn error(&self, error: &anyhow::Error) {
        let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = error.chain().find_map(|cause| cause.downcast_ref::<DataError>()?.hint());
        let advice = hint.map_or_else(String::new, |hint| format!("; {}", flag(&hint)));
        let _ = writeln!(std::io::stderr(), "error: {text}{advice}");
    }

    /// Shows `text` while some work goes on, until the result is dropped.
    pub fn progress(&self, text: impl Into<String>) -> Progress {
        Progress::new(text.into(), self.quiet)
    }
}

/// Advice in terms of a flag: `--drop-missing leaves those rows out`.
fn flag(hint: &Hint) -> String {
    let Hint { setting, value, effect } = hint;
    let name = setting.replace('_', "-");
    match value {
        None => format!("--{name} {effect}"),
        Some(value) if value.contains([' ', ',', '\'', '"']) => format!("--{name} {value:?} {effect}"),
        Some(value) => format!("--{name} {value} {effect}"),
    }
}

/// A line that appears after a second of work, and goes when the work ends. None where there is no terminal.
pub struct Progress {
    bar: ProgressBar,
    line: Arc<Mutex<String>>,
}

impl Progress {
    fn new(text: String, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let line = Arc::new(Mutex::new(text));
        let (shown, start) = (Arc::clone(&line), Instant::now());
        let late = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            if start.elapsed() >= PATIENCE {
                let text = shown.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = write!(out, "{text} ({})", duration(start.elapsed().as_secs_f64()));
            }
        };
        if let Ok(style) = ProgressStyle::with_template("{late}") {
            bar.set_style(style.with_key("late", late));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, line }
    }

    /// Replaces the text.
    pub fn set(&self, text: String) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Shows how a method is getting on.
    pub fn follow(&self, prefix: &str, method: &Selector, info: &Info) {
        let left = info.seconds * (1.0 / share_done(method, info) - 1.0);
        self.set(format!(
            "{prefix}{}: {} passes, {} of {} points, residual {}, at most {} left",
            method.name(),
            number(info.passes),
            info.points,
            info.k,
            number(info.residual),
            duration(left)
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How much of its longest possible run a method has behind it.
fn share_done(method: &Selector, info: &Info) -> f64 {
    let share = match method {
        Selector::Embedded(Method::Pursuit(settings)) => info.passes / settings.max_passes,
        Selector::Embedded(Method::Iht(settings) | Method::AIht(settings) | Method::AIht2(settings)) => {
            info.iterations as f64 / settings.max_iterations as f64
        }
        _ => info.iterations as f64 / info.k as f64,
    };
    share.clamp(1e-3, 1.0)
}
