//! What the measurements share: a model with its fit, coresets of it, draws, and the true divergence.

use std::ops::ControlFlow;
use std::sync::Arc;

use corelet::coreset::{BuildOptions, Coreset, select};
use corelet::embed::{Choice, embed};
use corelet::model::Model;
use corelet::posterior::{Chains, Laplace, LaplaceSettings, Prior, SampleSettings, laplace, sample};
use corelet::rows::{All, Memory, Problem, Rows, Totals, Weighted};
use corelet::trust::{Draws, Verdict, verdict};
use sparse_nnls::Method;

/// A model, its prior and the Laplace fit of all rows.
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) rows: Memory,
    pub(crate) prior: Prior,
    pub(crate) full: Laplace,
}

impl Setting {
    pub(crate) fn new(name: &str, model: Arc<dyn Model>, prior_sd: f64) -> Self {
        let prior = Prior::isotropic(model.dim(), prior_sd).unwrap();
        Self::under(name, model, prior)
    }

    /// Under any prior.
    pub(crate) fn under(name: &str, model: Arc<dyn Model>, prior: Prior) -> Self {
        let rows = Memory::new(model);
        let spreads = prior.spreads(&All(&rows)).unwrap();
        let prior = prior.with_spreads(&spreads);
        let full = laplace(&All(&rows), &prior, None, &LaplaceSettings::default()).unwrap();
        Setting { name: name.to_owned(), rows, prior, full }
    }

    pub(crate) fn problem(&self) -> Problem<'_> {
        Problem { rows: &self.rows, prior: &self.prior }
    }

    /// The coreset that `method` finds under the Laplace fit of all rows.
    pub(crate) fn coreset(&self, method: Method, k: usize, embedding: Choice, seed: u64) -> Coreset {
        let options = BuildOptions { method: method.into(), k, seed, embedding, ..BuildOptions::default() };
        let dictionary = embed(&self.rows, &self.full.posterior, embedding, k, seed).unwrap();
        select(&dictionary, &options, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    /// The rows of a coreset, fetched.
    pub(crate) fn weighted(&self, coreset: &Coreset) -> Weighted {
        Weighted::fetch(&self.rows, &coreset.rows, &coreset.weights).unwrap()
    }

    /// Chains on the posterior of all rows.
    pub(crate) fn chains(&self, settings: &SampleSettings, seed: u64) -> Chains {
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        sample(&All(&self.rows), &self.prior, &self.full.posterior, settings, seed, go_on).unwrap()
    }

    /// Chains on the posterior of a coreset.
    pub(crate) fn coreset_chains(&self, coreset: &Coreset, settings: &SampleSettings, seed: u64) -> Chains {
        let weighted = self.weighted(coreset);
        // A few points that a line goes through have no mode but where the noise vanishes.
        let own = weighted.fit(&self.prior).map(|fit| fit.posterior);
        let start = own.unwrap_or_else(|_| self.full.posterior.clone());
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        sample(&weighted, &self.prior, &start, settings, seed, go_on).unwrap()
    }

    /// The verdict on a coreset by these chains of its posterior.
    pub(crate) fn verdict(&self, coreset: &Coreset, chains: &Chains) -> Verdict {
        let draws = Draws::from_chains(chains, 4000);
        verdict(&self.rows, &self.prior, &self.weighted(coreset), &draws, chains.divergences()).unwrap()
    }

    /// L at each draw, less L at the anchor.
    fn totals(&self, anchor: &[f64], draws: &Draws) -> Vec<f64> {
        self.rows.totals(&Totals::new(anchor, &draws.shifts(anchor), self.rows.len())).unwrap()
    }
}

/// Draws of π, from long chains over all rows, with L at each.
pub(crate) struct Truth {
    draws: Draws,
    anchor: Vec<f64>,
    total: Vec<f64>,
}

impl Truth {
    pub(crate) fn new(setting: &Setting, settings: &SampleSettings, seed: u64) -> Self {
        let chains = setting.chains(settings, seed);
        let draws = Draws::from_chains(&chains, usize::MAX);
        let anchor = setting.full.posterior.mean.clone();
        let total = setting.totals(&anchor, &draws);
        Truth { draws, anchor, total }
    }

    /// KL(π‖π_w) + KL(π_w‖π) = E_π Δ − E_{π_w} Δ, each expectation by draws of its own posterior: no weights.
    pub(crate) fn symmetrised_kl(&self, setting: &Setting, coreset: &Coreset, own: &Draws) -> f64 {
        let weighted = setting.weighted(coreset);
        let chosen = |draws: &Draws| weighted.differences(&self.anchor, &draws.shifts(&self.anchor));
        let mean = |total: &[f64], chosen: &[f64]| {
            total.iter().zip(chosen).map(|(a, b)| a - b).sum::<f64>() / total.len() as f64
        };
        let under_own = setting.totals(&self.anchor, own);
        mean(&self.total, &chosen(&self.draws)) - mean(&under_own, &chosen(own))
    }
}
