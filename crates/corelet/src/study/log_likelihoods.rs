//! The pipeline of a model that is known by its log-likelihoods alone: from a matrix of them, from those of a pool of data, or
//! from a function.

use std::time::Instant;

use super::{BuildSpecification, Listener, Progress, StudyError};
use crate::coreset::{BuildOptions, Coreset, WrittenWeights, select};
use crate::embed::{Blocks, EmbedError, Embedding, Layout, Pool, Precision, Source, Stored};
use crate::trust::{Evaluation, FitStatus};
use crate::words::{Seconds, Subject, Summary};

/// ℓᵢ(θ_s) of n data at draws θ_s of a posterior, ready to be chosen from. The last draws are held out: a coreset is judged by
/// them and not built on them.
pub struct LogLikelihoodStudy<'a> {
    given: Given<'a>,
    n: usize,
    held_out: usize,
    options: BuildOptions,
    read_seconds: f64,
}

/// Columns of the draws that are built on, and what the held-out draws take.
enum Given<'a> {
    /// Held-out draws by data.
    Matrix {
        columns: Stored,
        unseen: Vec<f64>,
    },
    /// Data by held-out draws, and their totals.
    Pool {
        columns: Pool,
        data: Vec<usize>,
        unseen: Vec<f64>,
        totals: Vec<f64>,
    },
    Function(Blocks<'a>),
}

/// The log-likelihoods of some of n data, and the sum over all.
#[derive(Debug, Clone, Copy)]
pub struct PooledLogLikelihoods<'a> {
    /// The data of the pool.
    pub data: &'a [usize],
    /// A line for each of them: a number for every draw.
    pub lines: &'a [f64],
    /// Σᵢ ℓᵢ(θ_s) over all data, for every draw.
    pub totals: &'a [f64],
    /// Number of all data.
    pub n: usize,
}

/// Chosen data, judged.
pub struct ChosenData {
    /// The data, by their numbers, and their weights.
    pub coreset: Coreset,
    /// How good they are on the held-out draws.
    pub evaluation: Evaluation,
    /// The summary that is written and printed.
    pub summary: Summary,
}

impl<'a> LogLikelihoodStudy<'a> {
    /// The names of the data and the model in messages.
    pub const NAME: &'static str = "log-likelihood";

    /// From a matrix of all draws by `n` data.
    ///
    /// # Errors
    /// Settings that are invalid for n data, a matrix of another size, or a number that is not finite.
    pub fn of_matrix(
        asked: &BuildSpecification,
        matrix: &[f64],
        n: usize,
        draws: usize,
        held_out: usize,
    ) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let options = checked(asked, n)?;
        expect("the log-likelihood matrix", matrix.len(), n.saturating_mul(draws))?;
        let draws = draws.saturating_sub(held_out);
        let (seen, unseen) = matrix.split_at(draws * n);
        let columns = Stored::from_log_likelihood(seen, n, draws, Layout::DrawsByData, Precision::Double)?;
        if let Some(at) = unseen.iter().position(|x| !x.is_finite()) {
            let (row, draw, value) = (at % n, draws + at / n, unseen[at]);
            return Err(EmbedError::NotFinite { row, draw, value }.into());
        }
        let given = Given::Matrix { columns, unseen: unseen.to_vec() };
        Ok(Self { given, n, held_out, options, read_seconds: clock.elapsed().as_secs_f64() })
    }

    /// From a pool of data, toward the sum over all.
    ///
    /// # Errors
    /// Settings that are invalid for this number of data, inconsistent sizes, or a number that is not finite.
    pub fn of_pool(
        asked: &BuildSpecification,
        pool: PooledLogLikelihoods<'_>,
        held_out: usize,
    ) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let PooledLogLikelihoods { data, lines, totals, n } = pool;
        let (size, width) = (data.len(), totals.len());
        let options = checked(asked, size)?;
        expect("the log-likelihood of the pool", lines.len(), size.saturating_mul(width))?;
        let draws = width.saturating_sub(held_out);
        let part = |of: std::ops::Range<usize>| -> Vec<f64> {
            lines.chunks_exact(width.max(1)).flat_map(|line| &line[of.clone()]).copied().collect()
        };
        let columns = Pool::new(&part(0..draws), size, &totals[..draws])?;
        let (unseen, totals) = (part(draws..width), totals[draws..].to_vec());
        let given = Given::Pool { columns, data: data.to_vec(), unseen, totals };
        Ok(Self { given, n, held_out, options, read_seconds: clock.elapsed().as_secs_f64() })
    }

    /// From a function that computes a block of rows at a time; nothing of size n × draws is stored.
    ///
    /// # Errors
    /// Settings that are invalid for n data, a number that is not finite, or an error of the function.
    pub fn of_function(
        asked: &BuildSpecification,
        function: Box<Source<'a>>,
        n: usize,
        draws: usize,
        held_out: usize,
    ) -> Result<Self, StudyError> {
        let clock = Instant::now();
        let options = checked(asked, n)?;
        let blocks = Blocks::new(function, n, draws.saturating_sub(held_out), held_out)?;
        let read_seconds = clock.elapsed().as_secs_f64();
        Ok(Self { given: Given::Function(blocks), n, held_out, options, read_seconds })
    }

    /// Chooses and judges. A listener that stops it gets the best so far; one that stops at [`Progress::Evaluating`] gets it
    /// unjudged.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn build(&self, listener: &mut Listener<'_>) -> Result<ChosenData, StudyError> {
        let (clock, options) = (Instant::now(), &self.options);
        let mut coreset = select(self.given.columns(), options, &mut |info| {
            listener(Progress::Choosing { info, run: (1, 1), method: &options.method })
        })?;
        let build = clock.elapsed().as_secs_f64();
        let clock = Instant::now();
        let judge = listener(Progress::Evaluating).is_continue();
        let residual = if judge { self.held_out_residual(&coreset)? } else { None };
        if let Given::Pool { data, .. } = &self.given {
            coreset.rows.iter_mut().for_each(|row| *row = data[*row]);
        }
        let evaluation = unfitted(residual, self.held_out);
        let (read, evaluate) = (self.read_seconds, clock.elapsed().as_secs_f64());
        let seconds = Seconds { read, build, evaluate, ..Seconds::default() };
        // These data have no weights of their own.
        let written = WrittenWeights::from(coreset.weights.to_vec());
        let summary =
            Summary::of_build(&subject(self.n), options, (&coreset, &written), &evaluation, seconds);
        Ok(ChosenData { coreset, evaluation, summary })
    }

    /// ‖Φ1 − Φw‖ on the held-out draws, where there are two or more.
    fn held_out_residual(&self, coreset: &Coreset) -> Result<Option<f64>, EmbedError> {
        let Coreset { rows, weights, .. } = coreset;
        let chosen = || rows.iter().zip(weights);
        match &self.given {
            Given::Matrix { unseen, .. } => {
                // Each datum less its value at the first draw: constants do not matter, and only cost digits.
                let Some(first) = unseen.get(..self.n) else { return Ok(None) };
                let error = |draw: &[f64]| {
                    let all: f64 = draw.iter().zip(first).map(|(x, first)| x - first).sum();
                    all - chosen().map(|(&i, weight)| weight * (draw[i] - first[i])).sum::<f64>()
                };
                Ok(standard_deviation(&unseen.chunks_exact(self.n).map(error).collect::<Vec<f64>>()))
            }
            Given::Pool { unseen, totals, .. } => {
                let error = |(s, total): (usize, &f64)| {
                    total - chosen().map(|(&i, weight)| weight * unseen[i * self.held_out + s]).sum::<f64>()
                };
                Ok(standard_deviation(&totals.iter().enumerate().map(error).collect::<Vec<f64>>()))
            }
            Given::Function(blocks) => blocks.held_out_residual(rows, weights),
        }
    }
}

/// Of data whose posterior has no fit here.
fn unfitted(residual: Option<f64>, held_out: usize) -> Evaluation {
    Evaluation {
        heldout_residual: residual,
        heldout_nats: residual.map(|r| 0.5 * r * r),
        heldout_nats_se: None,
        heldout_draws: held_out,
        heldout_rows: None,
        fit: FitStatus::NotFitted,
        kl_forward: None,
        kl_reverse: None,
        kl_symmetrised: None,
        map_distance: None,
        parameters: Vec::new(),
    }
}

fn subject(n: usize) -> Subject<'static> {
    Subject {
        data: LogLikelihoodStudy::NAME,
        n,
        distinct: None,
        names: &[],
        features: 0,
        model: LogLikelihoodStudy::NAME,
        priors: &[],
        dropped: 0,
        fingerprint: None,
        groups: None,
        classes: &[],
    }
}

/// The summary of a Gaussian in place of all n data, which leaves so many directions to the prior.
#[cfg(feature = "sampling")]
pub(crate) fn gaussian_alone(n: usize, seed: u64, undetermined: usize) -> Summary {
    let embedding = crate::embed::Description { name: "none".to_owned(), coordinates: 0, tail: 0.0 };
    let judged = crate::words::Judged {
        embedding: &embedding,
        residual: 0.0,
        weights: &WrittenWeights::default(),
        seed,
    };
    Summary::of_file(&subject(n), &judged, &unfitted(None, 0), Seconds::default())
        .with_rest(true, undetermined)
}

/// The summary of all n data, in so many groups where there are some, each by itself.
#[cfg(feature = "sampling")]
pub(crate) fn all_of_them(n: usize, groups: Option<usize>, seed: u64) -> Summary {
    let embedding = crate::embed::Description { name: "none".to_owned(), coordinates: 0, tail: 0.0 };
    let weights = vec![1.0; groups.unwrap_or(n)];
    let judged =
        crate::words::Judged { embedding: &embedding, residual: 0.0, weights: &weights.into(), seed };
    let summary = Summary::of_file(&subject(n), &judged, &unfitted(None, 0), Seconds::default());
    groups.map_or_else(|| summary.clone(), |groups| summary.clone().of_groups(n, groups, groups))
}

impl Given<'_> {
    fn columns(&self) -> &dyn Embedding {
        match self {
            Self::Matrix { columns, .. } => columns,
            Self::Pool { columns, .. } => columns,
            Self::Function(blocks) => blocks,
        }
    }
}

/// The build that is asked for, which must be one of `size` data.
fn checked(asked: &BuildSpecification, size: usize) -> Result<BuildOptions, StudyError> {
    let options = asked.options(size, 0);
    options.check(size)?;
    Ok(options)
}

fn expect(what: &'static str, got: usize, expected: usize) -> Result<(), EmbedError> {
    if got == expected { Ok(()) } else { Err(EmbedError::Length { what, got, expected }) }
}

/// Standard deviation of two numbers or more.
fn standard_deviation(x: &[f64]) -> Option<f64> {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (x.len() > 1 && variance.is_finite()).then(|| variance.sqrt())
}
