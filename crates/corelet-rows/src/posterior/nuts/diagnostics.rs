//! Rank-normalised split R̂, bulk and tail effective sample sizes (Vehtari et al. 2021), and what chains say of
//! themselves.

use serde::{Deserialize, Serialize};

use super::Chains;
use super::normal::normal_quantile;

/// Chains with a larger R̂ have not mixed: their draws are not yet those of the posterior.
pub const R_HAT_LIMIT: f64 = 1.05;

/// An R̂ above this is worth a word (Vehtari et al. 2021, section 4).
const R_HAT_NOTICE: f64 = 1.01;

/// Effective draws a chain below which R̂ and the quantiles are not to be relied on (the same).
const ESS_A_CHAIN: f64 = 100.0;

/// An energy that moves less than this between draws explores the tails poorly (Betancourt 2016).
pub const E_BFMI_LIMIT: f64 = 0.3;

/// The draws of one number, chain by chain.
type ByChain<'a> = &'a [Vec<f64>];

/// One parameter, over the draws of all chains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ParameterSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 5 % quantile.
    pub q5: f64,
    /// Median.
    pub median: f64,
    /// 95 % quantile.
    pub q95: f64,
    /// Rank-normalised split R̂, the larger of that of the draws and that of their distances from the median; NaN for
    /// one chain.
    pub r_hat: f64,
    /// Effective sample size for the mean.
    pub ess_bulk: f64,
    /// Effective sample size for the 5 % and 95 % quantiles, the smaller of the two.
    pub ess_tail: f64,
}

/// What the chains say of themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// One entry a parameter.
    pub parameters: Vec<ParameterSummary>,
    /// Number of chains.
    pub chains: usize,
    /// Draws of all chains.
    pub draws: usize,
    /// Divergent draws.
    pub divergences: usize,
    /// Draws whose trajectory was cut off.
    pub max_depth_reached: usize,
    /// The largest R̂.
    pub r_hat: f64,
    /// The smallest bulk effective sample size.
    pub ess_bulk: f64,
    /// The smallest tail effective sample size.
    pub ess_tail: f64,
    /// The smallest energy Bayesian fraction of missing information of a chain.
    pub e_bfmi: f64,
}

impl Diagnostics {
    /// Diagnostics of these chains.
    pub fn new(chains: &Chains) -> Self {
        let parameters: Vec<ParameterSummary> =
            (0..chains.dim).map(|j| ParameterSummary::new(&chains.parameter(j))).collect();
        let least = |of: fn(&ParameterSummary) -> f64| parameters.iter().map(of).fold(f64::INFINITY, nan_min);
        Self {
            chains: chains.chains.len(),
            draws: chains.total_draws(),
            divergences: chains.divergences(),
            max_depth_reached: chains.max_depth_reached(),
            r_hat: -least(|p| -p.r_hat),
            ess_bulk: least(|p| p.ess_bulk),
            ess_tail: least(|p| p.ess_tail),
            e_bfmi: chains.e_bfmi(),
            parameters,
        }
    }

    /// Whether the draws can be taken for draws of the posterior: R̂ at most 1.05 (where there are two chains or more)
    /// and at least 25 effective draws a chain.
    pub fn mixed(&self) -> bool {
        let agree = self.chains < 2 || self.r_hat <= R_HAT_LIMIT;
        agree && self.ess_bulk >= 0.25 * ESS_A_CHAIN * self.chains as f64
    }

    /// All that is wrong or doubtful, one line each, worst first.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Self { divergences, draws, r_hat, ess_bulk, ess_tail, .. } = self;
        if self.chains > 1 && (*r_hat > R_HAT_LIMIT || r_hat.is_nan()) {
            lines.push(format!("the chains have not mixed: R-hat is {r_hat:.3}; run more warm-up and draws"));
        } else if *r_hat > R_HAT_NOTICE {
            lines.push(format!(
                "R-hat is {r_hat:.4}, above {R_HAT_NOTICE}: more draws would tell whether the chains agree"
            ));
        }
        if *divergences > 0 {
            lines.push(format!(
                "{divergences} of {draws} draws diverged: part of the posterior may not have been reached; raise the \
                 target acceptance rate"
            ));
        }
        if self.max_depth_reached > 0 {
            lines.push(format!(
                "{} of {draws} trajectories were cut off at the greatest depth",
                self.max_depth_reached
            ));
        }
        let least = ess_bulk.min(*ess_tail);
        if least.is_nan() || least < ESS_A_CHAIN * self.chains as f64 {
            lines.push(format!(
                "the effective sample size is {ess_bulk:.0} (bulk) and {ess_tail:.0} (tail), below {ESS_A_CHAIN} a chain"
            ));
        }
        if self.e_bfmi < E_BFMI_LIMIT {
            lines.push(format!(
                "the energy moves slowly (E-BFMI {:.2}): the tails may be missing",
                self.e_bfmi
            ));
        }
        lines
    }
}

impl ParameterSummary {
    /// Of the draws of one parameter, one entry a chain.
    pub fn new(draws: ByChain<'_>) -> Self {
        let mut pooled = draws.concat();
        let mean = mean(&pooled);
        let sd = variance(&pooled).sqrt();
        pooled.sort_unstable_by(f64::total_cmp);
        Self {
            mean,
            sd,
            q5: quantile(&pooled, 0.05),
            median: quantile(&pooled, 0.5),
            q95: quantile(&pooled, 0.95),
            r_hat: r_hat(draws),
            ess_bulk: ess_bulk(draws),
            ess_tail: ess_tail(draws),
        }
    }
}

/// Rank-normalised split R̂: the larger of that of the draws and that of |draw − median|. NaN below two chains, four
/// draws, or where a draw is not finite.
pub fn r_hat(draws: ByChain<'_>) -> f64 {
    if draws.len() < 2 || !valid(draws) {
        return f64::NAN;
    }
    let split = split(draws);
    let mut pooled = split.concat();
    pooled.sort_unstable_by(f64::total_cmp);
    let middle = quantile(&pooled, 0.5);
    let folded: Vec<Vec<f64>> =
        split.iter().map(|chain| chain.iter().map(|x| (x - middle).abs()).collect()).collect();
    plain_r_hat(&rank_normalise(&split)).max(plain_r_hat(&rank_normalise(&folded)))
}

/// Effective sample size for the mean: of the rank-normalised, split chains.
pub fn ess_bulk(draws: ByChain<'_>) -> f64 {
    if valid(draws) { effective_sample_size(&rank_normalise(&split(draws))) } else { f64::NAN }
}

/// The smaller effective sample size of the 5 % and the 95 % quantile.
pub fn ess_tail(draws: ByChain<'_>) -> f64 {
    if !valid(draws) {
        return f64::NAN;
    }
    let mut pooled = draws.concat();
    pooled.sort_unstable_by(f64::total_cmp);
    let of = |probability| {
        let limit = quantile(&pooled, probability);
        let below: Vec<Vec<f64>> = draws
            .iter()
            .map(|chain| chain.iter().map(|&x| f64::from(u8::from(x <= limit))).collect())
            .collect();
        effective_sample_size(&split(&below))
    };
    nan_min(of(0.05), of(0.95))
}

/// Effective sample size for the mean of chains as they are: Geyer's initial monotone sequence over the
/// autocorrelations combined from all chains. The number of draws where they are all the same.
pub fn effective_sample_size(chains: ByChain<'_>) -> f64 {
    let n = chains.first().map_or(0, Vec::len);
    let size = (chains.len() * n) as f64;
    let all = || chains.iter().flatten();
    let range = all().fold(f64::NEG_INFINITY, |m, &x| m.max(x)) - all().fold(f64::INFINITY, |m, &x| m.min(x));
    if n < 4 || !range.is_finite() {
        return f64::NAN;
    }
    if range < 1e-15 {
        return size;
    }
    let means: Vec<f64> = chains.iter().map(|chain| mean(chain)).collect();
    let autocovariance = |lag: usize| {
        let of = |(chain, mean): (&Vec<f64>, &f64)| {
            chain.iter().zip(&chain[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n as f64
        };
        chains.iter().zip(&means).map(of).sum::<f64>() / chains.len() as f64
    };
    let at_zero = autocovariance(0);
    let within = at_zero * n as f64 / (n as f64 - 1.0);
    let total = at_zero + if chains.len() > 1 { variance(&means) } else { 0.0 };
    let correlation = |lag| 1.0 - (within - autocovariance(lag)) / total;
    let time = autocorrelation_time(correlation, n).max(1.0 / size.log10());
    size / time
}

/// −1 + 2 Σ ρₜ over the pairs ρ₂ₜ + ρ₂ₜ₊₁ while they are positive, made monotone, and the next even term where it is.
fn autocorrelation_time(correlation: impl Fn(usize) -> f64, n: usize) -> f64 {
    let mut pairs = vec![(1.0, correlation(1))];
    let mut next_even = 1.0;
    let mut lag = 1;
    while lag + 3 < n && pairs.last().is_some_and(|(even, odd)| even + odd > 0.0) {
        let (even, odd) = (correlation(lag + 1), correlation(lag + 2));
        next_even = even;
        pairs.push((even, odd));
        lag += 2;
    }
    // The last pair is not among the positive ones; only its first entry, where positive, still counts once.
    let last = pairs.len() - 1;
    let kept = &mut pairs[..last.max(1)];
    for at in 1..kept.len() {
        let before = kept[at - 1].0 + kept[at - 1].1;
        if kept[at].0 + kept[at].1 > before {
            kept[at] = (0.5 * before, 0.5 * before);
        }
    }
    let sum: f64 = kept.iter().map(|(even, odd)| even + odd).sum();
    -1.0 + 2.0 * sum + if last > 0 && next_even > 0.0 { next_even } else { 0.0 }
}

/// Each chain as its two halves; the middle draw of an odd number is left out.
fn split(draws: ByChain<'_>) -> Vec<Vec<f64>> {
    let half = draws.first().map_or(0, Vec::len) / 2;
    let first = draws.iter().map(|chain| chain[..half].to_vec());
    let second = draws.iter().map(|chain| chain[chain.len() - half..].to_vec());
    first.chain(second).collect()
}

/// Φ⁻¹((r − 3/8)/(S + 1/4)) of the rank r of each draw among all S, ties with their mean rank.
fn rank_normalise(chains: ByChain<'_>) -> Vec<Vec<f64>> {
    let pooled = chains.concat();
    let size = pooled.len();
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_unstable_by(|&a, &b| pooled[a].total_cmp(&pooled[b]));
    let mut scores = vec![0.0; size];
    let mut at = 0;
    while at < size {
        let tied = order[at..].iter().take_while(|&&i| pooled[i] == pooled[order[at]]).count();
        let rank = at as f64 + 0.5 * (tied as f64 + 1.0);
        let score = normal_quantile((rank - 0.375) / (size as f64 + 0.25));
        order[at..at + tied].iter().for_each(|&i| scores[i] = score);
        at += tied;
    }
    let mut scores = scores.into_iter();
    chains.iter().map(|chain| scores.by_ref().take(chain.len()).collect()).collect()
}

fn plain_r_hat(chains: ByChain<'_>) -> f64 {
    let n = chains.first().map_or(0, Vec::len) as f64;
    let means: Vec<f64> = chains.iter().map(|chain| mean(chain)).collect();
    let within = chains.iter().map(|chain| variance(chain)).sum::<f64>() / chains.len() as f64;
    (variance(&means) / within + (n - 1.0) / n).sqrt()
}

fn valid(draws: ByChain<'_>) -> bool {
    let n = draws.first().map_or(0, Vec::len);
    n >= 4 && draws.iter().all(|chain| chain.len() == n && chain.iter().all(|x| x.is_finite()))
}

/// Σ(Eₜ − Eₜ₋₁)²/Σ(Eₜ − Ē)².
impl Chains {
    /// The least energy Bayesian fraction of missing information of a chain: E(Eₜ − Eₜ₋₁)²/Var E. Where it is below [`E_BFMI_LIMIT`], fresh
    /// momenta hardly reach the levels of energy that the posterior has, as in the neck of a funnel.
    pub fn e_bfmi(&self) -> f64 {
        let energy_of = |chain: &super::Chain| e_bfmi(&chain.draws.stats.energy);
        self.chains.iter().map(energy_of).fold(f64::INFINITY, nan_min)
    }
}

fn e_bfmi(energy: &[f64]) -> f64 {
    let centre = mean(energy);
    let moves: f64 = energy.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    moves / energy.iter().map(|e| (e - centre).powi(2)).sum::<f64>()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// With n − 1.
fn variance(x: &[f64]) -> f64 {
    let centre = mean(x);
    x.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (x.len() as f64 - 1.0)
}

/// Linear between order statistics, of sorted numbers.
fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = probability * last as f64;
    let below = sorted[at.floor() as usize];
    below + (at - at.floor()) * (sorted[at.ceil() as usize] - below)
}

/// The smaller, NaN where either is.
fn nan_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}
