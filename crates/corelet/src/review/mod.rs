//! The review of draws of a posterior, summed over rows in one pass: how well each row is predicted when it is left out, and how it moves
//! each quantity. Nothing of size draws × rows is held.
//!
//! A row is given by its log-likelihoods ℓᵢ(θₛ) at S draws. The draws may have weights, which turn draws of a coreset's posterior into
//! draws of the posterior of all rows. Rows come in their order, so the sums do not depend on where they were computed.

mod at;
mod by;
mod checks;
mod evidence;
mod influence;
mod loo;
mod part;

pub(crate) use at::At;
pub use by::By;
pub use checks::{Bin, Checked, Checks, Outcomes, Row as CheckedRow};
pub use evidence::{Evidence, bridge, evidence_of};
pub use influence::{Influence, Mover, Moving};
pub use loo::{KHAT_LIMITS, Loo, Pointwise, Predictive};
pub(crate) use part::{Apart, Part, Question, Unusable};
#[cfg(feature = "sampling")]
pub(crate) use part::{outcome_of, outcomes_of};

use serde::{Deserialize, Serialize};

use crate::trust::psis;

/// Draws, and the quantities that are reviewed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asked {
    /// log weights of the draws, Σ exp = 1; equal if there are none.
    log_weights: Vec<f64>,
    weights: Vec<f64>,
    /// Whether they are all the same.
    equal: bool,
    /// Quantities minus their means, each at every draw: Q × S.
    centred: Vec<f64>,
    means: Vec<f64>,
    sds: Vec<f64>,
    /// Effective over actual draws.
    efficiency: f64,
}

impl Asked {
    /// From draws with optional log weights, and `quantities`, each with one number per draw.
    pub fn new(draws: usize, log_weights: Option<&[f64]>, quantities: &[Vec<f64>], efficiency: f64) -> Self {
        let equal = log_weights.is_none_or(|weights| weights.iter().all(|w| *w == weights[0]));
        let log_weights = match log_weights.filter(|_| !equal) {
            // Their sum is 1 then, whatever it was before; with k̂ nobody is concerned here.
            Some(given) => {
                let largest = given.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = given.iter().map(|w| (w - largest).exp()).sum();
                given.iter().map(|w| w - largest - total.ln()).collect()
            }
            None => vec![-(draws as f64).ln(); draws],
        };
        let weights: Vec<f64> = log_weights.iter().map(|w: &f64| w.exp()).collect();
        let mean = |values: &Vec<f64>| weights.iter().zip(values).map(|(w, x)| w * x).sum::<f64>();
        let means: Vec<f64> = quantities.iter().map(mean).collect();
        let centred: Vec<f64> = quantities
            .iter()
            .zip(&means)
            .flat_map(|(values, mean)| values.iter().map(move |x| x - mean))
            .collect();
        let sd = |values: &[f64]| weights.iter().zip(values).map(|(w, x)| w * x * x).sum::<f64>().sqrt();
        let sds = centred.chunks_exact(draws.max(1)).map(sd).collect();
        Self { log_weights, weights, equal, centred, means, sds, efficiency: efficiency.clamp(1e-3, 1.0) }
    }

    /// Number of draws, S.
    pub fn draws(&self) -> usize {
        self.weights.len()
    }

    /// The mean and the standard deviation of each quantity.
    pub fn moments(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.means.iter().copied().zip(self.sds.iter().copied())
    }

    /// The contribution of a row with these log-likelihoods; the first that is not finite is an error.
    ///
    /// # Errors
    /// The draw, and the log-likelihood there.
    pub fn row(&self, log_likelihoods: &[f64]) -> Result<Row, (usize, f64)> {
        if let Some(draw) = log_likelihoods.iter().position(|x| !x.is_finite()) {
            return Err((draw, log_likelihoods[draw]));
        }
        let predictive = loo::of_row(self, log_likelihoods);
        let mean: f64 = self.weights.iter().zip(log_likelihoods).map(|(w, x)| w * x).sum();
        let deviations: Vec<f64> =
            self.weights.iter().zip(log_likelihoods).map(|(w, x)| w * (x - mean)).collect();
        let moves = |values: &[f64]| values.iter().zip(&deviations).map(|(q, d)| q * d).sum();
        let moves = self.centred.chunks_exact(self.draws().max(1)).map(moves).collect();
        Ok(Row { predictive, moves })
    }

    /// The log of the mean likelihood of a row over the draws, log Σₛ wₛ e^{ℓᵢ(θₛ)}; the first that is not finite is an error.
    ///
    /// # Errors
    /// See [`row`](Self::row).
    pub fn log_density(&self, log_likelihoods: &[f64]) -> Result<f64, (usize, f64)> {
        let density = loo::lppd(&self.weights, log_likelihoods);
        if density.is_finite() {
            return Ok(density);
        }
        let draw = log_likelihoods.iter().position(|x| !x.is_finite()).unwrap_or_default();
        Err((draw, log_likelihoods[draw]))
    }

    /// Smoothed log weights ∝ weights·e^{−ℓ}, and k̂.
    fn without(&self, log_likelihoods: &[f64]) -> (Vec<f64>, f64) {
        let ratios: Vec<f64> = self.log_weights.iter().zip(log_likelihoods).map(|(w, x)| w - x).collect();
        let smoothed = psis(&ratios, self.efficiency);
        (smoothed.log_weights, smoothed.pareto_k)
    }
}

/// The contribution of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// How well it is predicted.
    pub predictive: Predictive,
    /// Cov(q, ℓᵢ) of each quantity: by how much its mean falls, to first order, when the row is left out.
    pub moves: Vec<f64>,
}

/// The result for all rows.
#[derive(Debug, Clone, Default)]
pub struct Review {
    /// Leave-one-out and WAIC.
    pub loo: Loo,
    /// The rows that move each quantity most.
    pub influence: Influence,
    /// Predictive checks; none if the model's outcomes are unknown.
    pub checks: Option<Checked>,
    /// Predictive checks by the levels of a column, if requested.
    pub by: Vec<(String, Checked)>,
    /// The outcome of each row, if pointwise numbers are kept: reviews are comparable if these are the same. Two classes are 0 and 1.
    pub outcomes: Option<Vec<f64>>,
    /// Log evidence, if it was requested and could be estimated.
    pub evidence: Option<Evidence>,
    /// Whether evidence was requested and could not be estimated, because draws and a Gaussian fitted to them do not overlap.
    pub no_overlap: bool,
    /// Number of draws that it rests on.
    pub draws: usize,
}

/// The sums over rows so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sums {
    loo: loo::Sums,
    influence: influence::Sums,
}

impl Sums {
    fn new(asked: &Asked, pointwise: bool, clusters: Option<usize>) -> Self {
        let quantities = asked.means.len();
        Self { loo: loo::Sums::new(pointwise), influence: influence::Sums::new(quantities, clusters) }
    }

    /// The next row, which has that number, and the group that it is in.
    fn add(&mut self, number: usize, row: &Row, cluster: Option<usize>, draws: usize) {
        self.influence.add(number, row, cluster);
        self.loo.add(number, &row.predictive, draws);
    }

    /// Further rows; `clusters` are the numbers that their groups have here.
    fn append(&mut self, other: Self, clusters: Option<&[usize]>) {
        self.influence.append(other.influence, clusters);
        self.loo.append(other.loo);
    }

    /// All rows have been.
    pub(crate) fn finish(self, asked: &Asked) -> Review {
        Review {
            loo: self.loo.finish(asked.draws()),
            influence: self.influence.finish(asked),
            checks: None,
            by: Vec::new(),
            outcomes: None,
            evidence: None,
            no_overlap: false,
            draws: asked.draws(),
        }
    }
}

impl Review {
    /// Adds the requested evidence; none if it could not be estimated.
    pub fn set_evidence(&mut self, found: Option<Evidence>) {
        self.evidence = found;
        self.no_overlap = found.is_none();
    }
}

/// Takes rows one after the other.
#[derive(Debug)]
pub struct Reviewer<'a> {
    asked: &'a Asked,
    rows: usize,
    sums: Sums,
}

impl<'a> Reviewer<'a> {
    /// Nothing so far. `pointwise`: keep two numbers of every row. `clusters`: how many groups rows are in, where they are in any.
    pub fn new(asked: &'a Asked, pointwise: bool, clusters: Option<usize>) -> Self {
        Self { asked, rows: 0, sums: Sums::new(asked, pointwise, clusters) }
    }

    /// The next row, and the group that it is in.
    pub fn add(&mut self, row: &Row, cluster: Option<usize>) {
        self.sums.add(self.rows, row, cluster, self.asked.draws());
        self.rows += 1;
    }

    /// All rows have been.
    pub fn finish(self) -> Review {
        self.sums.finish(self.asked)
    }
}
