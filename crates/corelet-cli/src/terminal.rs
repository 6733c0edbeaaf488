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
use terminal_size::{Width, terminal_size_of};

/// Work shorter than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a result did not reach standard output.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether results go to standard error, since a table goes to standard output.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// From now on results are said on standard error: standard output is for a table.
pub fn leave_standard_output() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// What labels of a summary take, so that lines that go on are set below their text.
const LABEL: usize = 17;

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

    /// Characters a line, where a person reads it.
    pub fn width(&self) -> Option<usize> {
        let aside = ASIDE.load(Ordering::Relaxed);
        let size =
            if aside { terminal_size_of(std::io::stderr()) } else { terminal_size_of(std::io::stdout()) };
        size.map(|(Width(width), _)| usize::from(width)).filter(|width| *width >= 40)
    }

    /// A result, on standard output unless a table goes there, in lines that fit. A reader that has gone away is no error.
    pub fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        let text = match self.width() {
            Some(width) => text.lines().map(|line| folded(line, width)).collect::<Vec<_>>().join("\n"),
            None => text.to_owned(),
        };
        if ASIDE.load(Ordering::Relaxed) {
            let _ = writeln!(std::io::stderr(), "{text}");
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
    /// If something could not be written.
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

/// A line in parts of at most so many characters, cut between words; what follows is set below the text of a summary's line.
fn folded(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let indent = if line.starts_with("  ") { LABEL } else { 4 };
    let lead: String = line.chars().take_while(|c| *c == ' ').collect();
    let (mut parts, mut part) = (Vec::new(), lead);
    let label = if line.starts_with("  ") && line.chars().count() > LABEL {
        let label: String = line.chars().take(LABEL).collect();
        part.clone_from(&label);
        label.chars().count()
    } else {
        part.chars().count()
    };
    let rest: String = line.chars().skip(label).collect();
    let mut empty = true;
    for word in rest.split_whitespace() {
        let space = usize::from(!empty);
        if !empty && part.chars().count() + space + word.chars().count() > width {
            parts.push(std::mem::replace(&mut part, " ".repeat(indent)));
            empty = true;
        }
        if !empty {
            part.push(' ');
        }
        part.push_str(word);
        empty = false;
    }
    parts.push(part);
    parts.join("\n")
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

/// A line that appears after a second of work, and goes when the work ends. None if there is no terminal.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_go_on_below_their_text() {
        let line =
            "  verdict        V = 0.01 nats² (95 % below 0.012), importance-sampling efficiency 99.1 %";
        let parts = folded(line, 50);
        assert!(
            parts.lines().count() >= 2 && parts.lines().all(|line| line.chars().count() <= 50),
            "{parts}"
        );
        assert!(parts.lines().skip(1).all(|line| line.starts_with(&" ".repeat(LABEL))), "{parts}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&parts), words(line));
        assert_eq!(folded(line, 200), line);
        let head = folded("A - trusted: the posterior of these rows matches that of all of them", 40);
        assert!(head.lines().nth(1).is_some_and(|line| line.starts_with("    ")), "{head}");
    }
}
