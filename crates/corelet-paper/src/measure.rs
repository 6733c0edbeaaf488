//! Runs the cells of one trial of one data set, in an order and with seeds that depend on nothing else.
//!
//! A trial runs on one thread, and its times are that thread's processor time: trials beside it do not lengthen them.

use std::ops::ControlFlow;

use corelet::embed::Embedding;
use corelet::sparse_vi::descend;
use corelet::trust::{HeldOut, evaluate, residual_in};
use cpu_time::ThreadTime;
use sparse_nnls::{Info, Method, Settings, Solution, Solver, Status, Weights};

use crate::cell::{Cell, Cost, Key, Quality};
use crate::problem::Problem;
use crate::series::{Series, Space};
use crate::settings::{CellSettings, Keep};
use crate::sparse_vi;

/// One trial of one data set.
pub(crate) struct Trial<'t> {
    pub(crate) data: &'t str,
    pub(crate) source: &'t str,
    pub(crate) trial: usize,
    /// The seed of everything random in this trial.
    pub(crate) seed: u64,
    pub(crate) problem: &'t Problem,
    pub(crate) settings: &'t CellSettings,
    pub(crate) keep: &'t Keep,
}

/// A method, the sizes that are wanted, and the largest of all its sizes.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) series: Series,
    pub(crate) sizes: Vec<usize>,
    pub(crate) largest: usize,
}

/// Takes each cell as it is finished; the answer says whether to go on.
pub(crate) type Sink<'s> = dyn FnMut(Cell) -> anyhow::Result<ControlFlow<()>> + 's;

/// What a run gave at one size.
struct Run {
    embedding: String,
    status: String,
    rows: Vec<usize>,
    weights: Vec<f64>,
    residual: f64,
    cost: Cost,
    trace: Vec<f64>,
}

/// What all runs in one space have in common.
struct Setting<'s> {
    embedding: &'s dyn Embedding,
    /// Seconds that the embedding took.
    embedded: f64,
    held_out: Option<&'s HeldOut<'s>>,
    /// Asked now and then whether to go on.
    go_on: &'s dyn Fn() -> ControlFlow<()>,
}

/// Weights as they are when a method is done with them.
struct Lowered {
    weights: Weights,
    residual: f64,
    seconds: f64,
}

impl Trial<'_> {
    /// Runs all that is wanted, until done or told to stop.
    pub(crate) fn run(
        &self,
        wanted: &[Wanted],
        go_on: &dyn Fn() -> ControlFlow<()>,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<()> {
        let held_out = self.problem.held_out(self.seed);
        for space in [Space::Paper, Space::Hermite, Space::Exact] {
            let here: Vec<&Wanted> = wanted.iter().filter(|wanted| wanted.series.space() == space).collect();
            let Some(largest) = here.iter().map(|wanted| wanted.largest).max() else { continue };
            let start = ThreadTime::now();
            let embedding = self.problem.embed(space, self.settings, largest, self.seed)?;
            let Some(embedding) = embedding else { continue };
            let embedded = start.elapsed().as_secs_f64();
            let setting = Setting { embedding: &*embedding, embedded, held_out: held_out.as_ref(), go_on };
            for wanted in here {
                let stopped = match wanted.series.method(self.settings) {
                    Some(method) => self.solve(wanted, &method, &setting, sink)?,
                    None => self.sparse_vi(wanted, &setting, sink)?,
                };
                if stopped.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn solve(
        &self,
        wanted: &Wanted,
        method: &Method,
        setting: &Setting<'_>,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let &Setting { embedding, embedded, held_out, go_on } = setting;
        let once = |k: usize, follow: &mut dyn FnMut(f64, f64)| -> anyhow::Result<(Solution, f64)> {
            let settings = Settings { k, seed: self.seed, ..Settings::default() };
            let start = ThreadTime::now();
            let callback = |info: &Info| {
                follow(start.elapsed().as_secs_f64(), info.residual);
                go_on()
            };
            let solution = Solver::new(embedding, settings).callback(callback).run(method)?;
            Ok((solution, start.elapsed().as_secs_f64()))
        };
        // Along one run, as the paper counts for methods that add a point at each step.
        let mut clock: Vec<f64> = Vec::new();
        if wanted.series.is_incremental() {
            let (last, _) = once(wanted.largest, &mut |seconds, _| clock.push(seconds))?;
            if last.status == Status::Stopped {
                return Ok(ControlFlow::Break(()));
            }
        }
        for &k in &wanted.sizes {
            let mut trace = Vec::new();
            let follows = self.keep.trace == Some(k) && self.trial == 0 && method.can_hold_total();
            let (solution, seconds) = once(k, &mut |_, residual| {
                if follows {
                    trace.push(residual);
                }
            })?;
            if solution.status == Status::Stopped {
                return Ok(ControlFlow::Break(()));
            }
            let (status, passes, iterations) =
                (solution.status.to_string(), solution.passes, solution.iterations);
            let Lowered { weights, residual, seconds } =
                self.descend(&wanted.series, solution, seconds, embedding)?;
            let along = clock.get(k.min(clock.len()).wrapping_sub(1)).copied();
            let (seconds, seconds_paper) = (embedded + seconds, along.unwrap_or(seconds));
            let run = Run {
                embedding: embedding.description().name.clone(),
                status,
                residual,
                rows: weights.ids,
                weights: weights.values,
                cost: Cost { seconds, seconds_paper, passes, iterations },
                trace,
            };
            if sink(self.judge(&wanted.series, k, run, held_out)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The weights of a solution, or those they become on their way down the reverse KL.
    fn descend(
        &self,
        series: &Series,
        solution: Solution,
        seconds: f64,
        embedding: &dyn Embedding,
    ) -> anyhow::Result<Lowered> {
        let Solution { weights, residual, .. } = solution;
        let Some(settings) = self.settings.descent.filter(|_| series.descends()) else {
            return Ok(Lowered { weights, residual, seconds });
        };
        let start = ThreadTime::now();
        let (model, prior) = (self.problem.model(), &self.problem.prior);
        let lower = descend(model, prior, &weights.ids, &weights.values, &settings, self.seed)?;
        let lower = Weights::from_pairs(weights.ids.iter().copied().zip(lower));
        // Steps of a fixed length end at some distance from the bottom: weights that were there stay as they are.
        let reverse = |weights: &Weights| {
            evaluate(self.problem.posed(), Some(&self.problem.full), None, &weights.ids, &weights.values)
                .map(|judged| judged.kl_reverse.unwrap_or(f64::INFINITY))
        };
        let weights = if reverse(&lower)? < reverse(&weights)? { lower } else { weights };
        let residual = residual_in(embedding, &weights.ids, &weights.values)?;
        Ok(Lowered { weights, residual, seconds: seconds + start.elapsed().as_secs_f64() })
    }

    /// One run goes through every size, and a run to a smaller size is the beginning of it: its time is the same.
    fn sparse_vi(
        &self,
        wanted: &Wanted,
        setting: &Setting<'_>,
        sink: &mut Sink<'_>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let &Setting { embedding, held_out, go_on, .. } = setting;
        let settings = &self.settings.sparse_vi;
        for (k, point) in sparse_vi::run(self.problem, &wanted.sizes, settings, self.seed, go_on)? {
            let (seconds, passes, iterations) = (point.seconds, point.passes, k * settings.steps);
            let run = Run {
                embedding: "own".to_owned(),
                status: "completed".to_owned(),
                residual: residual_in(embedding, &point.rows, &point.weights)?,
                rows: point.rows,
                weights: point.weights,
                cost: Cost { seconds, seconds_paper: seconds, passes, iterations },
                trace: Vec::new(),
            };
            if sink(self.judge(&wanted.series, k, run, held_out)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(go_on())
    }

    fn judge(
        &self,
        series: &Series,
        k: usize,
        run: Run,
        held_out: Option<&HeldOut<'_>>,
    ) -> anyhow::Result<Cell> {
        let full = Some(&self.problem.full);
        let estimate = held_out.map(|draws| draws.estimate(&run.rows, &run.weights)).transpose()?;
        let evaluation = evaluate(self.problem.posed(), full, estimate.as_ref(), &run.rows, &run.weights)?;
        let (data, source, method) = (self.data.to_owned(), self.source.to_owned(), series.clone());
        let kept = self.trial < self.keep.trials && self.keep.sizes.contains(&k);
        Ok(Cell {
            key: Key { data, source, method, k, trial: self.trial },
            embedding: run.embedding,
            points: run.rows.len(),
            status: run.status,
            quality: Quality {
                kl_forward: evaluation.kl_forward,
                kl_reverse: evaluation.kl_reverse,
                kl_symmetrised: evaluation.kl_symmetrised,
                map_distance: evaluation.map_distance,
                residual: Some(run.residual).filter(|r| r.is_finite()),
                heldout_residual: evaluation.heldout_residual,
            },
            cost: run.cost,
            coreset: kept.then_some((run.rows, run.weights)),
            trace: run.trace,
        })
    }
}
