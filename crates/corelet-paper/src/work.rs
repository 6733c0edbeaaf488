//! The work of one experiment: which cells are missing, and threads that run them, one trial each.
//!
//! Each trial runs in a pool of one thread: trials keep all cores busy, and times are those of one core, the same for
//! every method.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use corelet::words::{count, duration};
use corelet_cli::interrupt::Interrupt;
use corelet_cli::terminal::Progress;

use crate::cell::{Cell, Key};
use crate::measure::{Trial, Wanted};
use crate::problem::Material;
use crate::series::Series;
use crate::settings::Plan;
use crate::store::Store;

/// A data set that can be run.
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) material: Material,
}

/// One trial of one data set, for some of the methods.
struct Job<'j> {
    data: &'j Ready,
    trial: usize,
    wanted: Vec<Wanted>,
}

impl Job<'_> {
    fn cells(&self) -> usize {
        self.wanted.iter().map(|wanted| wanted.sizes.len()).sum()
    }
}

/// The work of an experiment, and who hears of it.
pub(crate) struct Work<'w> {
    /// The experiment.
    pub(crate) name: &'static str,
    pub(crate) plan: &'w Plan,
    pub(crate) data: &'w [Ready],
    pub(crate) seed: u64,
    pub(crate) progress: &'w Progress,
    pub(crate) interrupt: &'w Interrupt,
}

impl Work<'_> {
    /// Runs the cells that the store does not have yet. Whether all of them are there at the end.
    pub(crate) fn run(&self, store: Store) -> anyhow::Result<(Store, bool)> {
        let jobs = missing(self.plan, self.data, &store);
        let meter = Meter::new(self.name, &jobs, self.plan, self.data);
        let (next, store, failure) = (AtomicUsize::new(0), Mutex::new(store), Mutex::new(None));
        let work = || -> anyhow::Result<()> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.interrupt.asked() || lock(&failure).is_some() {
                    break;
                }
                pool.install(|| self.run_job(job, &store, &meter))?;
            }
            Ok(())
        };
        let threads = rayon::current_num_threads().min(jobs.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    if let Err(error) = work() {
                        lock(&failure).get_or_insert(error);
                    }
                });
            }
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => {
                let store = store.into_inner().unwrap_or_else(PoisonError::into_inner);
                let done = missing(self.plan, self.data, &store).is_empty();
                Ok((store, done))
            }
        }
    }

    fn run_job(&self, job: &Job<'_>, store: &Mutex<Store>, meter: &Meter) -> anyhow::Result<()> {
        let seed = self.seed.wrapping_add(job.trial as u64);
        let problem = job.data.material.problem(&self.plan.cell, seed)?;
        let trial = Trial {
            data: &job.data.name,
            source: &job.data.source,
            trial: job.trial,
            seed,
            problem: &problem,
            settings: &self.plan.cell,
            keep: &self.plan.keep,
        };
        let go_on =
            || if self.interrupt.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let mut last = Instant::now();
        trial.run(&job.wanted, &go_on, &mut |cell| {
            meter.note(&cell, last.elapsed().as_secs_f64());
            last = Instant::now();
            lock(store).append(cell)?;
            self.progress.set(meter.line());
            Ok(go_on())
        })
    }
}

/// The jobs with cells that are missing, SparseVI first: it takes longest, and should not be what all wait for.
fn missing<'j>(plan: &Plan, data: &'j [Ready], store: &Store) -> Vec<Job<'j>> {
    let mut jobs = Vec::new();
    for greedy in [true, false] {
        for trial in 0..plan.trials {
            for data in data {
                let methods = plan.methods.iter().filter(|series| series.is_sparse_vi() == greedy);
                let wanted = methods.filter_map(|series| wanted(plan, data, trial, series, store)).collect();
                jobs.push(Job { data, trial, wanted });
            }
        }
    }
    jobs.retain(|job| !job.wanted.is_empty());
    jobs
}

fn wanted(plan: &Plan, data: &Ready, trial: usize, series: &Series, store: &Store) -> Option<Wanted> {
    if trial >= plan.trials_of(series) {
        return None;
    }
    let all = plan.sizes_of(series);
    let is_missing = |&k: &usize| {
        let (name, source) = (data.name.clone(), data.source.clone());
        !store.contains(&Key { data: name, source, method: series.clone(), k, trial })
    };
    let sizes: Vec<usize> = all.iter().copied().filter(is_missing).collect();
    let largest = all.last().copied()?;
    (!sizes.is_empty()).then(|| Wanted { series: series.clone(), sizes, largest })
}

/// The number of cells that a plan has.
pub(crate) fn planned(plan: &Plan, data: &[Ready]) -> usize {
    let of = |series: &Series| plan.trials_of(series) * plan.sizes_of(series).len();
    data.len() * plan.methods.iter().map(of).sum::<usize>()
}

/// How far the work has come, and how long the rest may take.
struct Meter {
    name: &'static str,
    total: usize,
    start: Instant,
    state: Mutex<MeterState>,
}

#[derive(Default)]
struct MeterState {
    done: usize,
    /// Cells left and seconds of those done, by data set and method.
    groups: BTreeMap<(String, Series), Group>,
}

#[derive(Default)]
struct Group {
    left: usize,
    done: usize,
    seconds: f64,
}

impl Meter {
    fn new(name: &'static str, jobs: &[Job<'_>], plan: &Plan, data: &[Ready]) -> Self {
        let left: usize = jobs.iter().map(Job::cells).sum();
        let total = planned(plan, data);
        let mut state = MeterState { done: total - left.min(total), ..MeterState::default() };
        for job in jobs {
            for wanted in &job.wanted {
                let key = (job.data.name.clone(), wanted.series.clone());
                state.groups.entry(key).or_default().left += wanted.sizes.len();
            }
        }
        Self { name, total, start: Instant::now(), state: Mutex::new(state) }
    }

    fn note(&self, cell: &Cell, seconds: f64) {
        let mut state = lock(&self.state);
        state.done += 1;
        let key = (cell.key.data.clone(), cell.key.method.clone());
        let group = state.groups.entry(key).or_default();
        group.left = group.left.saturating_sub(1);
        group.done += 1;
        group.seconds += seconds;
    }

    fn line(&self) -> String {
        let state = lock(&self.state);
        let (done, total) = (count(state.done), count(self.total));
        let left = duration(state.seconds_left(self.start));
        format!("{}: {done} of {total} cells, about {left} left", self.name)
    }
}

impl MeterState {
    /// Each group at its own pace so far, or at that of all where none of it is done.
    fn seconds_left(&self, start: Instant) -> f64 {
        let (done, spent) =
            self.groups.values().fold((0, 0.0), |(n, s), group| (n + group.done, s + group.seconds));
        let overall = spent / done.max(1) as f64;
        let left: f64 = self
            .groups
            .values()
            .map(|group| {
                let pace = if group.done > 0 { group.seconds / group.done as f64 } else { overall };
                pace * group.left as f64
            })
            .sum();
        // Seconds of work that go by in a second, with all threads.
        let speed = (spent / start.elapsed().as_secs_f64().max(1e-3)).max(1.0);
        left / speed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
