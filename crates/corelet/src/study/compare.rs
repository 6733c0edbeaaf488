//! Many builds side by side: one cell for each method, size and seed.

use std::ops::Range;
use std::time::Instant;

use sparse_nnls::{Limits, Status};

use super::{Listener, Progress, Study, StudyError};
use crate::coreset::{
    BuildError, BuildOptions, Callback, Coreset, Selector, WrittenWeights, select, select_by_sparse_vi,
};
use crate::embed::{Choice, Embedding, embed};
use crate::trust::{Evaluation, HeldOut, evaluate};
use crate::words::{Seconds, Summary};

/// Which builds to make.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// How points are chosen.
    pub methods: Vec<Selector>,
    /// Numbers of points.
    pub sizes: Vec<usize>,
    /// The seed of each run.
    pub seeds: Range<u64>,
    /// How a datum becomes a vector.
    pub embedding: Choice,
    /// When to stop early.
    pub limits: Limits,
}

/// One build.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Seed of the run.
    pub seed: u64,
    /// What was chosen.
    pub coreset: Coreset,
    /// Weights of its rows, as files store them.
    pub weights: WrittenWeights,
    /// How good it is.
    pub evaluation: Evaluation,
    /// Seconds of the build.
    pub build_seconds: f64,
    /// Seconds of the judging.
    pub evaluate_seconds: f64,
}

impl Study {
    /// Makes the builds, one embedding a seed, until done or stopped; `done` hears of each.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn compare(
        &self,
        comparison: &Comparison,
        done: &mut (dyn FnMut(&Cell) + Send),
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Cell>, StudyError> {
        self.of_rows("a comparison")?;
        let Comparison { methods, sizes, seeds, .. } = comparison;
        for &k in sizes {
            BuildOptions { k, ..BuildOptions::default() }.check(self.len())?;
        }
        let full = self.full(listener)?;
        let under = &full.posterior.rounded();
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let total = methods.len() * sizes.len() * seeds.clone().count();
        let mut cells: Vec<Cell> = Vec::with_capacity(total);
        for seed in seeds.clone() {
            let _ = listener(Progress::Embedding);
            let embedding = embed(&self.rows, under, comparison.embedding, largest, seed)?;
            let held_out = HeldOut::new(&self.rows, under, seed).with_sketch(embedding.sketch())?;
            for (&k, method) in sizes.iter().flat_map(|k| methods.iter().map(move |m| (k, m))) {
                let limits = comparison.limits;
                let options = BuildOptions { method: *method, k, seed, limits, ..BuildOptions::default() };
                let (run, clock) = ((cells.len() + 1, total), Instant::now());
                let coreset = self.choose(&embedding, &options, &mut |info| {
                    listener(Progress::Choosing { info, run, method })
                })?;
                if coreset.status == Status::Stopped {
                    return Ok(cells);
                }
                let build_seconds = clock.elapsed().as_secs_f64();
                let clock = Instant::now();
                let (rows, weights) = (&coreset.rows, &coreset.weights);
                let estimate = held_out.estimate(rows, weights)?;
                let evaluation = evaluate(self.problem(), Some(full), Some(&estimate), rows, weights)?;
                let evaluate_seconds = clock.elapsed().as_secs_f64();
                let weights = self.written(&coreset.rows, &coreset.weights)?;
                let cell = Cell { seed, coreset, weights, evaluation, build_seconds, evaluate_seconds };
                done(&cell);
                cells.push(cell);
            }
        }
        Ok(cells)
    }

    /// Chooses points in an embedding that exists already.
    fn choose(
        &self,
        embedding: &dyn Embedding,
        options: &BuildOptions,
        callback: &mut Callback<'_>,
    ) -> Result<Coreset, BuildError> {
        match &options.method {
            Selector::Embedded(_) => select(embedding, options, callback),
            Selector::SparseVi(settings) => {
                select_by_sparse_vi(self.problem(), embedding, settings, options, callback)
            }
        }
    }

    /// The summary of one cell.
    pub fn summary_of_cell(&self, cell: &Cell) -> Summary {
        let options = BuildOptions { seed: cell.seed, k: cell.coreset.k, ..BuildOptions::default() };
        let seconds = Seconds {
            read: self.read_seconds,
            laplace: self.laplace_seconds(),
            build: cell.build_seconds,
            evaluate: cell.evaluate_seconds,
        };
        Summary::of_build(
            &self.subject(),
            &options,
            (&cell.coreset, &cell.weights),
            &cell.evaluation,
            seconds,
        )
    }
}
