//! Have the chains mixed, and how many independent draws are they worth?

use super::Draws;
use super::policy::FEWEST_DRAWS;
use crate::parallel;
use crate::posterior::{ParameterSummary, R_HAT_LIMIT};

/// The worst rank-normalised split R̂ and the smallest bulk and tail effective sample sizes of some quantities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixing {
    /// The largest R̂.
    pub r_hat: f64,
    /// The smallest effective sample size for a mean.
    pub ess_bulk: f64,
    /// The smallest effective sample size for a 5 % or 95 % quantile.
    pub ess_tail: f64,
}

impl Mixing {
    /// Perfect mixing, where there is no quantity to look at.
    pub const PERFECT: Self = Self { r_hat: 1.0, ess_bulk: f64::INFINITY, ess_tail: f64::INFINITY };

    /// Of quantities that are each a series of draws, the chains one after the other. One chain is judged by its halves; a quantity
    /// that is the same at every draw, to rounding, is left out.
    pub fn of(quantities: &[Vec<f64>], chains: usize) -> Self {
        let worst = parallel::map(quantities.iter().filter(|series| varies(series)), |series| {
            let length = series.len() / chains.max(1);
            let by_chain: Vec<Vec<f64>> = match chains {
                0 | 1 => vec![series[..length / 2].to_vec(), series[length - length / 2..].to_vec()],
                _ => series.chunks_exact(length.max(1)).map(<[f64]>::to_vec).collect(),
            };
            ParameterSummary::new(&by_chain)
        });
        worst.iter().fold(Self::PERFECT, |mixing, summary| {
            // What cannot be computed is no good sign.
            let no = |value: f64, instead: f64| if value.is_nan() { instead } else { value };
            mixing.and(Self {
                r_hat: no(summary.r_hat, f64::INFINITY),
                ess_bulk: no(summary.ess_bulk, 0.0),
                ess_tail: no(summary.ess_tail, 0.0),
            })
        })
    }

    /// Of every parameter of some draws.
    pub fn of_parameters(draws: &Draws) -> Self {
        Self::of(&draws.parameters(), draws.chains.unwrap_or(1))
    }

    /// The worse of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            r_hat: self.r_hat.max(other.r_hat),
            ess_bulk: self.ess_bulk.min(other.ess_bulk),
            ess_tail: self.ess_tail.min(other.ess_tail),
        }
    }

    /// Whether the chains agree.
    pub fn mixed(&self) -> bool {
        self.r_hat <= R_HAT_LIMIT
    }

    /// Whether the chains are worth enough draws.
    pub fn enough(&self) -> bool {
        self.ess_bulk.min(self.ess_tail) >= FEWEST_DRAWS
    }
}

/// Whether these numbers differ by more than rounding.
fn varies(series: &[f64]) -> bool {
    let (low, high) =
        series.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let range = high - low;
    range.is_nan() || range > 1e-9 * (1.0 + low.abs().max(high.abs()))
}
