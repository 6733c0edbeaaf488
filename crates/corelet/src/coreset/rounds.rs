//! Rounds: a coreset's own posterior is a better π̂ than the one it was built under, so build again under it.

use serde::{Deserialize, Serialize};
use sparse_nnls::Status;

use crate::coreset::build::{Callback, Confirm, build_confirmed, select};
use crate::coreset::{BuildError, BuildOptions, Coreset, HeldOut, Selector, select_by_sparse_vi};
use crate::embed::{self, Choice, Embedding, embed};
use crate::laplace::{Gaussian, LaplaceSettings, Prior, laplace};
use crate::linalg::{Cholesky, LinalgError, gram};
use crate::model::{Model, Rows, Shifts};
use crate::sample::{Chains, SampleSettings, sample};
use crate::sparse_vi::SparseViSettings;
use crate::verdict::{self, Reason, Verdict, verdict};

/// Rounds that automatic mode makes at most.
pub const MOST_ROUNDS: usize = 4;

/// A first coreset this good, in nats on the held-out draws, needs no second round when π̂ was fitted to all rows.
const FINE_NATS: f64 = 0.05;

/// V has stalled where a round leaves more than this share of it.
const STALLED: f64 = 0.7;

/// V is what π̂ said where it is at most this many times the squared residual on the held-out draws.
const AS_EXPECTED: f64 = 1.5;

/// Draws of a coreset's posterior on which a round is judged.
const JUDGING_DRAWS: usize = 1000;

/// What the next π̂ is taken from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoundsBy {
    /// The Laplace fit of the weighted posterior.
    #[default]
    Laplace,
    /// Its NUTS draws: they are the draws of the embedding, and their moments the Gaussian of a Hermite one.
    Nuts,
}

/// How often to build.
///
/// | field | default | purpose | range |
/// | --- | --- | --- | --- |
/// | `rounds` | automatic | how many; automatic makes up to 4 and stops when V stalls | ≥ 1 |
/// | `by` | `laplace` | what the next π̂ is taken from | `laplace`, `nuts` |
/// | `from_all_rows` | true | whether the first π̂ was fitted to all rows: then a good first coreset is the last | |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoundOptions {
    /// How many; none is automatic.
    pub rounds: Option<usize>,
    /// What the next π̂ is taken from.
    pub by: RoundsBy,
    /// Whether the first π̂ was fitted to all rows.
    pub from_all_rows: bool,
}

impl Default for RoundOptions {
    fn default() -> Self {
        Self { rounds: None, by: RoundsBy::default(), from_all_rows: true }
    }
}

/// What one round came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Points chosen.
    pub points: usize,
    /// V = Var(L − L_w) under the coreset's own posterior, on fresh draws; none where it was not measured.
    pub variance: Option<f64>,
}

/// The best coreset of all rounds.
#[derive(Debug, Clone)]
pub struct Built {
    /// The coreset.
    pub coreset: Coreset,
    /// The π̂ it was built under, where that is not the first one.
    pub posterior: Option<Gaussian>,
    /// Every round in its order.
    pub rounds: Vec<Round>,
    /// Which of them the coreset is from, from 0.
    pub chosen: usize,
}

/// SparseVI takes a new π̂ at every step, so that rounds have nothing to add to it.
fn build_by_sparse_vi(
    model: &dyn Model,
    prior: &Prior,
    posterior: &Gaussian,
    settings: &SparseViSettings,
    options: &BuildOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    let judge = embed(model, posterior, options.embedding, options.k, options.seed)?;
    let coreset = select_by_sparse_vi(model, prior, &*judge, settings, options, callback)?;
    let rounds = vec![Round { points: coreset.rows.len(), variance: None }];
    Ok(Built { coreset, posterior: None, rounds, chosen: 0 })
}

/// The π̂ of a round.
struct Centre {
    gaussian: Gaussian,
    /// NUTS draws around its mean.
    shifts: Option<Shifts>,
}

/// Builds under `posterior`, then under the posterior of the coreset just found, and so on; the best by V is returned.
///
/// Automatic mode ends where V stalls. From a fit of all rows it does not start a second round where the first coreset
/// is good on the held-out draws, so that it costs nothing where there is nothing to gain. With `options.max_kl` the
/// smallest coreset is one whose ½V meets it too.
///
/// # Errors
/// See [`BuildError`].
pub fn build_in_rounds(
    model: &dyn Model,
    prior: &Prior,
    posterior: &Gaussian,
    held_out: &HeldOut<'_>,
    options: &BuildOptions,
    rounds: &RoundOptions,
    callback: &mut Callback<'_>,
) -> Result<Built, BuildError> {
    options.check(model.len())?;
    if let Selector::SparseVi(settings) = &options.method {
        return build_by_sparse_vi(model, prior, posterior, settings, options, callback);
    }
    let most = rounds.rounds.unwrap_or(MOST_ROUNDS).max(1);
    let judge = Judge { model, prior, by: rounds.by, seed: options.seed };
    let mut centre: Option<Centre> = None;
    let mut best: Option<(f64, Built)> = None;
    let mut made: Vec<Round> = Vec::new();
    for round in 0..most {
        let coreset = match &centre {
            None => judge.build_at(posterior, held_out, options, callback)?,
            Some(centre) => judge.build_around(centre, options, callback)?,
        };
        let points = coreset.rows.len();
        let stopped = coreset.status == Status::Stopped;
        let residual = (round == 0 && most > 1).then(|| held_out.residual(&coreset.rows, &coreset.weights));
        if stopped || (round == 0 && (most == 1 || is_fine(rounds, &coreset, residual))) {
            made.push(Round { points, variance: None });
            let first = Built { coreset, posterior: None, rounds: Vec::new(), chosen: 0 };
            let built = best.map_or(first, |(_, built)| built);
            return Ok(Built { rounds: made, ..built });
        }
        let near = centre.as_ref().map_or(posterior, |centre| &centre.gaussian);
        let (variance, next) = judge.judge(&coreset, near, round);
        made.push(Round { points, variance: Some(variance).filter(|v| v.is_finite()) });
        let before = best.as_ref().map(|(variance, _)| *variance);
        let over = rounds.rounds.is_none() && is_over(rounds, &coreset, variance, before, residual);
        if best.as_ref().is_none_or(|(before, built)| is_better(&coreset, variance, &built.coreset, *before))
        {
            let posterior = centre.take().map(|centre| centre.gaussian);
            best = Some((variance, Built { coreset, posterior, rounds: Vec::new(), chosen: round }));
        }
        let Some(next) = next.filter(|_| !over) else { break };
        centre = Some(next);
    }
    let (_, built) = best.ok_or(BuildError::NoRound)?;
    Ok(Built { rounds: made, ..built })
}

/// Whether the first coreset is good without a look at its own posterior: π̂ is that of all rows, and it meets `max_kl`
/// or has a small residual on the held-out draws.
fn is_fine(rounds: &RoundOptions, coreset: &Coreset, residual: Option<f64>) -> bool {
    let fine = coreset.reached.unwrap_or_else(|| residual.is_some_and(|r| 0.5 * r * r <= FINE_NATS));
    rounds.rounds.is_none() && rounds.from_all_rows && rounds.by == RoundsBy::Laplace && fine
}

/// Whether automatic mode ends here: V has stalled; or it is what the first π̂, the Laplace fit of all rows, said it would
/// be, so that another Laplace fit has nothing to add; or a later round has met `max_kl`.
fn is_over(
    rounds: &RoundOptions,
    coreset: &Coreset,
    variance: f64,
    before: Option<f64>,
    residual: Option<f64>,
) -> bool {
    let same_kind = rounds.from_all_rows && rounds.by == RoundsBy::Laplace;
    let expected = same_kind && residual.is_some_and(|r| variance <= AS_EXPECTED * r * r);
    let stalled = before.is_some_and(|before| before.is_finite() && variance >= STALLED * before);
    let met = before.is_some() && coreset.reached == Some(true);
    expected || stalled || met
}

/// By V; with `max_kl`, one that meets it before one that does not, and of two that do the one with fewer points.
fn is_better(new: &Coreset, variance: f64, old: &Coreset, before: f64) -> bool {
    match (new.reached, old.reached) {
        (Some(true), Some(true)) => new.rows.len() < old.rows.len(),
        (Some(true), Some(false)) => true,
        (Some(false), Some(true)) => false,
        _ => variance < before,
    }
}

struct Judge<'a> {
    model: &'a dyn Model,
    prior: &'a Prior,
    by: RoundsBy,
    seed: u64,
}

impl Judge<'_> {
    /// Builds under a Gaussian.
    fn build_at(
        &self,
        gaussian: &Gaussian,
        held_out: &HeldOut<'_>,
        options: &BuildOptions,
        callback: &mut Callback<'_>,
    ) -> Result<Coreset, BuildError> {
        let confirm = |rows: &[usize], weights: &[f64]| {
            let fit = self.fit(rows, weights, gaussian);
            fit.map_or(f64::INFINITY, |fit| 0.5 * self.variance(rows, weights, &fit, 0))
        };
        let confirm: Option<&Confirm<'_>> = options.max_kl.is_some().then_some(&confirm);
        build_confirmed(self.model, gaussian, held_out, options, confirm, callback)
    }

    /// Builds under the π̂ of an earlier round; its NUTS draws, where it has them, are the draws of the embedding.
    fn build_around(
        &self,
        centre: &Centre,
        options: &BuildOptions,
        callback: &mut Callback<'_>,
    ) -> Result<Coreset, BuildError> {
        let Centre { gaussian, shifts } = centre;
        match (shifts, options.embedding) {
            (Some(shifts), Choice::Auto | Choice::Draws(_)) => {
                let embedding = embed::Draws::around(self.model, &gaussian.mean, shifts.clone())?;
                select(&embedding, options, callback)
            }
            (Some(_), _) => {
                let embedding: Box<dyn Embedding + '_> =
                    embed(self.model, gaussian, options.embedding, options.k, options.seed)?;
                select(&*embedding, options, callback)
            }
            (None, _) => {
                let held_out = HeldOut::new(self.model, gaussian, options.seed);
                self.build_at(gaussian, &held_out, options, callback)
            }
        }
    }

    /// V of a coreset and the π̂ of the next round, where there is one.
    fn judge(&self, coreset: &Coreset, near: &Gaussian, round: usize) -> (f64, Option<Centre>) {
        let (rows, weights) = (&coreset.rows[..], &coreset.weights[..]);
        let Some(fit) = self.fit(rows, weights, near) else { return (f64::INFINITY, None) };
        if self.by == RoundsBy::Nuts
            && let Some((variance, centre)) = self.judge_by_nuts(rows, weights, &fit, round)
        {
            return (variance, Some(centre));
        }
        let variance = self.variance(rows, weights, &fit, round as u64);
        (variance, Some(Centre { gaussian: fit, shifts: None }))
    }

    fn judge_by_nuts(
        &self,
        rows: &[usize],
        weights: &[f64],
        fit: &Gaussian,
        round: usize,
    ) -> Option<(f64, Centre)> {
        let settings = SampleSettings { warmup: 300, draws: JUDGING_DRAWS / 2, ..SampleSettings::default() };
        let weighted = Rows::Weighted { ids: rows, weights };
        let seed = self.seed.wrapping_add(round as u64);
        let go_on = &mut |_: &_| std::ops::ControlFlow::Continue(());
        let chains = sample(self.model, self.prior, weighted, fit, &settings, seed, go_on).ok()?;
        // Half of the draws judge; the other half, which the next selection sees, do not.
        let (judging, building) = halves(&chains);
        let judged = verdict(self.model, rows, weights, &judging).ok()?;
        let gaussian = moments(&building.theta, building.dim).ok()?;
        let shifts = building.shifts(&gaussian.mean);
        Some((plain_variance(&judged), Centre { gaussian, shifts: Some(shifts) }))
    }

    fn fit(&self, rows: &[usize], weights: &[f64], near: &Gaussian) -> Option<Gaussian> {
        let weighted = Rows::Weighted { ids: rows, weights };
        let settings = LaplaceSettings::default();
        let from = |start| laplace(self.model, self.prior, weighted, start, &settings).ok();
        from(Some(&near.mean[..])).or_else(|| from(None)).map(|fit| fit.posterior)
    }

    /// V by draws of the Laplace fit.
    fn variance(&self, rows: &[usize], weights: &[f64], fit: &Gaussian, stream: u64) -> f64 {
        let seed = self.seed.wrapping_add(stream);
        let draws =
            verdict::Draws::from_gaussian(self.model, self.prior, rows, weights, fit, JUDGING_DRAWS, seed);
        verdict(self.model, rows, weights, &draws).map_or(f64::INFINITY, |judged| plain_variance(&judged))
    }
}

/// V; where the draws do not represent π_w their weights mean nothing, and V is that of the draws as they are.
fn plain_variance(judged: &Verdict) -> f64 {
    let variance = if judged.reasons.contains(&Reason::GaussianDraws) {
        let count = judged.errors.len() as f64;
        let mean = judged.errors.iter().sum::<f64>() / count;
        judged.errors.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count
    } else {
        judged.variance
    };
    if variance.is_nan() { f64::INFINITY } else { variance }
}

/// The odd and the even draws of every chain.
fn halves(chains: &Chains) -> (verdict::Draws, verdict::Draws) {
    let half = |first: usize| {
        let theta = chains.chains.iter().flat_map(|chain| {
            chain.draws.theta.chunks_exact(chains.dim.max(1)).skip(first).step_by(2).flatten().copied()
        });
        verdict::Draws {
            theta: theta.collect(),
            dim: chains.dim,
            chains: Some(chains.chains.len()),
            log_weights: None,
        }
    };
    (half(0), half(1))
}

/// The Gaussian with the mean and the covariance of these draws.
fn moments(theta: &[f64], dim: usize) -> Result<Gaussian, LinalgError> {
    let count = theta.len() / dim.max(1);
    let mut mean = vec![0.0; dim];
    for row in theta.chunks_exact(dim.max(1)) {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / count as f64);
    }
    let centred: Vec<f64> =
        theta.chunks_exact(dim.max(1)).flat_map(|row| row.iter().zip(&mean).map(|(x, m)| x - m)).collect();
    let covariance: Vec<f64> = gram(&centred, count, dim).iter().map(|x| x / (count as f64 - 1.0)).collect();
    Gaussian::from_precision(mean, Cholesky::new(&covariance, dim)?.inverse())
}
