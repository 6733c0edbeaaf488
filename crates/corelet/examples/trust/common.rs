//! What the measurements share: a model with its fit, coresets of it, draws, and the true divergence.

use std::ops::ControlFlow;

use corelet::coreset::{BuildOptions, Coreset, select};
use corelet::embed::{Choice, embed};
use corelet::laplace::{Gaussian, Laplace, LaplaceSettings, Prior, laplace};
use corelet::model::{Model, Rows, total_differences, weighted_differences};
use corelet::sample::{Chains, SampleSettings, sample};
use corelet::verdict::Draws;
use sparse_nnls::Method;

/// A model, its prior and the Laplace fit of all rows.
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) model: Box<dyn Model>,
    pub(crate) prior: Prior,
    pub(crate) full: Laplace,
}

impl Setting {
    pub(crate) fn new(name: &str, model: Box<dyn Model>, prior_sd: f64) -> Self {
        let prior = Prior::isotropic(model.dim(), prior_sd).unwrap();
        let full = laplace(&*model, &prior, Rows::All, None, &LaplaceSettings::default()).unwrap();
        Setting { name: name.to_owned(), model, prior, full }
    }

    /// The coreset that `method` finds under the Laplace fit of all rows.
    pub(crate) fn coreset(&self, method: Method, k: usize, embedding: Choice, seed: u64) -> Coreset {
        let options = BuildOptions { method: method.into(), k, seed, embedding, ..BuildOptions::default() };
        let dictionary = embed(&*self.model, &self.full.posterior, embedding, k, seed).unwrap();
        select(&*dictionary, &options, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    /// The Laplace fit of weighted rows.
    pub(crate) fn fit(&self, rows: Rows<'_>) -> Gaussian {
        let start = Some(&self.full.posterior.mean[..]);
        laplace(&*self.model, &self.prior, rows, start, &LaplaceSettings::default()).unwrap().posterior
    }

    /// Chains on the posterior of these rows.
    pub(crate) fn chains(&self, rows: Rows<'_>, settings: &SampleSettings, seed: u64) -> Chains {
        let start = self.fit(rows);
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        sample(&*self.model, &self.prior, rows, &start, settings, seed, go_on).unwrap()
    }

    /// Chains on the posterior of a coreset.
    pub(crate) fn coreset_chains(&self, coreset: &Coreset, settings: &SampleSettings, seed: u64) -> Chains {
        let rows = Rows::Weighted { ids: &coreset.rows, weights: &coreset.weights };
        self.chains(rows, settings, seed)
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
        let chains = setting.chains(Rows::All, settings, seed);
        let draws = Draws::from_chains(&chains, usize::MAX);
        let anchor = setting.full.posterior.mean.clone();
        let total = total_differences(&*setting.model, &anchor, &draws.shifts(&anchor));
        Truth { draws, anchor, total }
    }

    /// KL(π‖π_w) + KL(π_w‖π) = E_π Δ − E_{π_w} Δ, each expectation by draws of its own posterior: no weights.
    pub(crate) fn symmetrised_kl(&self, setting: &Setting, coreset: &Coreset, own: &Draws) -> f64 {
        let model = &*setting.model;
        let (rows, weights) = (&coreset.rows, &coreset.weights);
        let chosen = |draws: &Draws| {
            weighted_differences(model, &self.anchor, &draws.shifts(&self.anchor), rows, weights)
        };
        let mean = |total: &[f64], chosen: &[f64]| {
            total.iter().zip(chosen).map(|(a, b)| a - b).sum::<f64>() / total.len() as f64
        };
        let under_own = total_differences(model, &self.anchor, &own.shifts(&self.anchor));
        mean(&self.total, &chosen(&self.draws)) - mean(&under_own, &chosen(own))
    }
}
