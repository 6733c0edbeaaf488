//! Work with the GIL let go: on a thread of its own, while this one hears of its progress and of Ctrl-C.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use corelet::engine::{Outlook, Step, outlook};
use corelet::study::Progress;
use corelet::words::{does_not_pay, expected};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use sparse_nnls::Info;

use crate::errors::{Failure, refuse};

/// How often signals are looked at.
const POLL: Duration = Duration::from_millis(50);

/// A progress callback is not called more often than this.
const REPORT: Duration = Duration::from_millis(50);

/// What the worker tells the thread that waits for it.
enum Event<T> {
    Step(Info),
    Round(Step),
    Done(Result<T, Failure>),
}

/// The worker's side: tells of progress, and is told to stop.
pub(crate) struct Control<T> {
    events: Option<Sender<Event<T>>>,
    stop: Arc<AtomicBool>,
    last: Option<Instant>,
    started: Instant,
    /// Steps that each chain has made.
    steps: Vec<usize>,
}

impl<T> Control<T> {
    /// Whether to go on, after telling how it goes.
    pub(crate) fn follow(&mut self, info: &Info) -> ControlFlow<()> {
        if let Some(events) = &self.events
            && self.last.is_none_or(|last| last.elapsed() >= REPORT)
        {
            self.last = Some(Instant::now());
            // Nobody listens any more after an interrupt, and then `stop` says so.
            let _ = events.send(Event::Step(*info));
        }
        self.go_on()
    }

    /// What a study calls. Chains are told of as points are: steps of all of them.
    pub(crate) fn heard(&mut self, progress: Progress<'_>) -> ControlFlow<()> {
        match progress {
            Progress::Choosing { info, .. } => self.follow(info),
            Progress::Sampling(step) => {
                self.steps.resize(step.chains, 0);
                self.steps[step.chain] = step.done;
                let done = self.steps.iter().sum();
                let seconds = self.started.elapsed().as_secs_f64();
                let (points, k) = (done, step.total * step.chains);
                let (passes, residual, target_norm) = (0.0, 0.0, 0.0);
                self.follow(&Info { iterations: done, passes, seconds, points, k, residual, target_norm })
            }
            Progress::Round(step) => {
                if let Some(events) = &self.events {
                    let _ = events.send(Event::Round(step.clone()));
                }
                self.go_on()
            }
            _ => self.go_on(),
        }
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether the caller has gone, or wants no more.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How Python wants work done: who hears of it, and on how many threads.
#[derive(FromPyObject)]
pub(crate) struct Execution<'py>(Option<Bound<'py, PyAny>>, Option<usize>);

impl Execution<'_> {
    /// Who hears of it.
    pub(crate) fn progress(&self) -> Option<Py<PyAny>> {
        self.0.as_ref().map(|progress| progress.clone().unbind())
    }
}

/// Runs `work` and returns what it returns.
///
/// Ctrl-C, or an exception of `progress`, is raised at once; the worker then stops at its next step, and whatever it
/// returns is dropped. A `progress` that returns `False` asks for the best so far.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    execution: &Execution<'_>,
    work: impl FnOnce(&mut Control<T>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    run_until(py, execution, false, work)
}

/// The same, but after Ctrl-C the worker is waited for, which then returns the best so far.
pub(crate) fn run_for_best<T: Send + 'static>(
    py: Python<'_>,
    execution: &Execution<'_>,
    work: impl FnOnce(&mut Control<T>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    run_until(py, execution, true, work)
}

fn run_until<T: Send + 'static>(
    py: Python<'_>,
    Execution(progress, threads): &Execution<'_>,
    best: bool,
    work: impl FnOnce(&mut Control<T>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, mut receiver) = mpsc::channel();
    let events = progress.is_some().then(|| sender.clone());
    let mut control =
        Control { events, stop: Arc::clone(&stop), last: None, started: Instant::now(), steps: Vec::new() };
    let pool = threads.map(thread_pool).transpose()?;
    let worker = thread::Builder::new().name("corelet".to_owned()).spawn(move || {
        let result = match pool {
            Some(pool) => pool.install(|| work(&mut control)),
            None => work(&mut control),
        };
        let _ = sender.send(Event::Done(result));
    })?;
    loop {
        let event;
        (receiver, event) = py.detach(move || {
            let event = receiver.recv_timeout(POLL);
            (receiver, event)
        });
        let heard = match event {
            Ok(Event::Done(result)) => return Ok(result?),
            Ok(Event::Step(info)) => {
                py.check_signals().and_then(|()| report(progress.as_ref(), &info, &stop))
            }
            Ok(Event::Round(step)) => {
                py.check_signals().and_then(|()| report_round(progress.as_ref(), &step, &stop))
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals(),
            Err(RecvTimeoutError::Disconnected) => {
                // Only a panic ends the worker without a result; it has been printed.
                let _ = py.detach(|| worker.join());
                return Err(PyRuntimeError::new_err("internal error of corelet; please report it"));
            }
        };
        if let Err(interrupt) = heard {
            stop.store(true, Ordering::Relaxed);
            if !(best && interrupt.is_instance_of::<PyKeyboardInterrupt>(py)) {
                return Err(interrupt);
            }
        }
    }
}

/// Runs `work`, which calls Python itself and so hears of Ctrl-C, on this thread with the GIL let go.
pub(crate) fn run_here<T: Send>(
    py: Python<'_>,
    Execution(_, threads): &Execution<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let pool = threads.map(thread_pool).transpose()?;
    let result = py.detach(|| match pool {
        Some(pool) => pool.install(work),
        None => work(),
    });
    Ok(result?)
}

/// Hears of progress on the thread that calls Python itself: signals, and the user's callback.
pub(crate) struct Here {
    progress: Option<Py<PyAny>>,
    stop: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Here {
    pub(crate) fn new(execution: &Execution<'_>) -> Self {
        let progress = execution.0.as_ref().map(|progress| progress.clone().unbind());
        Self { progress, stop: AtomicBool::new(false), raised: Mutex::default() }
    }

    /// What a study calls.
    pub(crate) fn heard(&self, progress: Progress<'_>) -> ControlFlow<()> {
        let Ok(mut raised) = self.raised.lock() else { return ControlFlow::Break(()) };
        let go_on = match progress {
            Progress::Choosing { info, .. } => {
                *raised = self.told(info).err();
                raised.is_none() && !self.stop.load(Ordering::Relaxed)
            }
            // What an exception ended is not judged.
            _ => raised.is_none(),
        };
        if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn told(&self, info: &Info) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            report(self.progress.as_ref().map(|progress| progress.bind(py)), info, &self.stop)
        })
    }

    /// The exception that ended the work, where one did.
    pub(crate) fn finish<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self.raised.into_inner() {
            Ok(Some(error)) => Err(Failure::Raised(error)),
            _ => result,
        }
    }
}

/// Calls `progress`; a `False` asks to stop.
pub(crate) fn report(progress: Option<&Bound<'_, PyAny>>, info: &Info, stop: &AtomicBool) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let Info { iterations, passes, seconds, points, k, residual, target_norm } = *info;
    let answer = progress.call1((iterations, passes, seconds, points, k, residual, target_norm))?;
    if answer.extract::<bool>().is_ok_and(|go_on| !go_on) {
        stop.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Calls `progress` with where a fit stands; a `False` asks to stop.
pub(crate) fn report_round(
    progress: Option<&Bound<'_, PyAny>>,
    step: &Step,
    stop: &AtomicBool,
) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let Step { stage, round, k, variance, shift, remaining, forecast } = step;
    let words = forecast.as_ref().map(|found| {
        let advice = (outlook(found) != Outlook::Pays).then(|| does_not_pay(found));
        (expected(found), advice)
    });
    let answer = progress.call1((stage.words(), *round, *k, *variance, *shift, *remaining, words))?;
    if answer.extract::<bool>().is_ok_and(|go_on| !go_on) {
        stop.store(true, Ordering::Relaxed);
    }
    Ok(())
}

fn thread_pool(threads: usize) -> PyResult<rayon::ThreadPool> {
    if threads == 0 {
        return Err(refuse("threads is 0, but it must be at least 1"));
    }
    // Threads beyond a few a core only wait for each other.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min((4 * cores).max(16))).build();
    pool.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
