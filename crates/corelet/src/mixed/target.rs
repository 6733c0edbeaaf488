//! A mixed model as the engine sees it: its rows are groups, and their log-likelihoods integrals.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::MixedModel;
use super::model::WeightedGroups;
use crate::engine::{Interrupted, Rows, Sample, Target, TargetError, Wanted};
use crate::model::mixed::{Effect, NearDraws, Place};
use crate::parallel;
use crate::posterior::{Chains, SampleError, SampleProgress, SampleSettings, sample_density};
use crate::trust::Scores;

/// Groups whose integrals one thread makes, one after the other.
const TOGETHER: usize = 16;
/// Warm-up of chains that only lead to the next coreset.
const SHORT_WARMUP: usize = 300;
/// Draws of each of these, at least.
const SHORT_DRAWS: usize = 100;

/// Hears of the steps of chains, and says whether to go on.
pub type ChainListener<'l> = dyn FnMut(&SampleProgress) -> ControlFlow<()> + Send + 'l;

/// The groups of a mixed model.
pub struct GroupTarget<'m, 'l> {
    model: &'m MixedModel,
    settings: SampleSettings,
    seed: u64,
    /// Where chains start that are told no place.
    start: Vec<f64>,
    listener: Mutex<&'m mut ChainListener<'l>>,
    /// The chains that were run last.
    last: Mutex<Option<Chains>>,
}

/// Draws, and their mean: where the search for modes starts.
pub struct GroupPlace {
    centre: Place,
    draws: Vec<Place>,
    /// The draws by the nodes of their mean, where these are as good as nodes of their own.
    near: Option<NearDraws>,
}

/// Groups from which it pays to find out whether nodes at the mean of the draws will do, and on how many of them.
const NEAR_FROM: usize = 1000;
const NEAR_TRIED: usize = 128;
/// So many groups with the most rows are among them by themselves: their effects are known so well that nodes soon are too far off.
const NEAR_LARGEST: usize = 64;
/// What that may add to the variance of Δ, in nats²: a hundredth of what an A allows.
const NEAR_VARIANCE: f64 = 1e-3;

impl<'m, 'l> GroupTarget<'m, 'l> {
    /// The groups of this model; chains are as `settings` say, and start near `start`.
    pub fn new(
        model: &'m MixedModel,
        settings: SampleSettings,
        seed: u64,
        start: Vec<f64>,
        listener: &'m mut ChainListener<'l>,
    ) -> Self {
        Self { model, settings, seed, start, listener: Mutex::new(listener), last: Mutex::new(None) }
    }

    /// The chains that were run last, with their statistics.
    pub fn last_chains(&self) -> Option<Chains> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// ℓ_g at every draw, for one group after the other.
    fn columns(&self, place: &GroupPlace, groups: &[usize]) -> Vec<f64> {
        match &place.near {
            Some(near) => self.columns_near(near, groups, place.draws.len()),
            None => self.columns_apart(place, groups),
        }
    }

    fn columns_near(&self, near: &NearDraws, groups: &[usize], draws: usize) -> Vec<f64> {
        let MixedModel { mixed, nodes, .. } = self.model;
        let (mut scratch, mut columns) = (mixed.near_scratch(), vec![0.0; groups.len() * draws]);
        for (&group, out) in groups.iter().zip(columns.chunks_exact_mut(draws.max(1))) {
            mixed.values_near(group, near, nodes, &mut scratch, out);
        }
        columns
    }

    /// The draws by the nodes of their mean, where on some groups these give what nodes at each draw do: the variance over the draws of
    /// the difference, of all groups together, stays far below what an A allows.
    fn near(&self, centre: &[f64], sample: &Sample, place: &GroupPlace) -> Option<NearDraws> {
        let (mixed, draws) = (&self.model.mixed, place.draws.len());
        if mixed.groups() < NEAR_FROM || draws == 0 {
            return None;
        }
        let near = mixed.near(centre, &sample.draws.theta)?;
        let (largest, others) = self.by_size();
        let some = (0..NEAR_TRIED).map(|i| others[(2 * i + 1) * others.len() / (2 * NEAR_TRIED)]);
        let tried: Vec<usize> = largest.iter().copied().chain(some).collect();
        let off = parallel::map(tried.chunks(TOGETHER / 4), |groups| {
            let (own, common) = (self.columns_apart(place, groups), self.columns_near(&near, groups, draws));
            own.iter().zip(&common).map(|(a, b)| a - b).collect::<Vec<f64>>()
        })
        .concat();
        let mut total = vec![0.0; draws];
        for (at, column) in off.chunks_exact(draws).enumerate() {
            let each = if at < largest.len() { 1.0 } else { others.len() as f64 / NEAR_TRIED as f64 };
            total.iter_mut().zip(column).for_each(|(sum, x)| *sum += x * each);
        }
        let mean = total.iter().sum::<f64>() / draws as f64;
        let variance = total.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws as f64;
        (variance < NEAR_VARIANCE).then_some(near)
    }

    /// The groups with the most rows, and all others.
    fn by_size(&self) -> (Vec<usize>, Vec<usize>) {
        let mixed = &self.model.mixed;
        let mut groups: Vec<usize> = (0..mixed.groups()).collect();
        let by = |&group: &usize| (std::cmp::Reverse(mixed.rows_of(group).len()), group);
        groups.select_nth_unstable_by_key(NEAR_LARGEST - 1, by);
        let mut others = groups.split_off(NEAR_LARGEST);
        groups.sort_unstable();
        others.sort_unstable();
        (groups, others)
    }

    /// With nodes at each draw.
    fn columns_apart(&self, place: &GroupPlace, groups: &[usize]) -> Vec<f64> {
        let MixedModel { mixed, nodes, .. } = self.model;
        let mut scratch = mixed.scratch();
        let mut columns = Vec::with_capacity(groups.len() * place.draws.len());
        for &group in groups {
            let mut centre: Effect = mixed.best_mode(group, &place.centre, &mut scratch);
            mixed.value(group, &place.centre, nodes, &mut centre, &mut scratch);
            columns.extend(place.draws.iter().map(|draw| {
                // From the same place for every draw, so that a value is a function of the draw alone.
                let mut mode = centre;
                mixed.value(group, draw, nodes, &mut mode, &mut scratch)
            }));
        }
        columns
    }
}

impl Target for GroupTarget<'_, '_> {
    type Place = GroupPlace;

    fn rows(&self) -> usize {
        self.model.mixed.groups()
    }

    fn parameters(&self) -> usize {
        self.model.mixed.dim()
    }

    fn final_steps(&self) -> usize {
        self.settings.chains * (self.settings.warmup + self.settings.draws)
    }

    fn sample(
        &self,
        groups: &[usize],
        weights: &[f64],
        start: Option<&Sample>,
        wanted: Wanted,
    ) -> Result<Sample, TargetError> {
        let from = start.map_or_else(|| self.start.clone(), |start| start.draws.mean());
        let weighted = WeightedGroups::new(self.model, groups, weights, false).starting_at(&from);
        let fit = weighted.fit(&from, false, 1e-2)?;
        let weighted = weighted.starting_at(&fit.mean);
        let settings = match wanted {
            Wanted::Final { .. } => self.settings,
            Wanted::Draws(draws) => SampleSettings {
                warmup: self.settings.warmup.min(SHORT_WARMUP),
                draws: draws.div_ceil(self.settings.chains).max(SHORT_DRAWS),
                ..self.settings
            },
        };
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let heard: &mut ChainListener<'_> = &mut **listener;
        let chains = sample_density(&weighted, &fit, &settings, self.seed, &mut |progress| heard(progress));
        let chains = match chains {
            Err(SampleError::Stopped) => return Err(Interrupted.into()),
            chains => chains?,
        };
        let (count, diverged) = (chains.chains.len(), chains.divergences());
        let sample = Sample::new(chains.theta(), chains.dim, count, true, diverged);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(chains);
        Ok(sample)
    }

    fn place(&self, sample: &Sample) -> Result<GroupPlace, TargetError> {
        let mixed = &self.model.mixed;
        let (draws, centre) = (sample.draws.theta.chunks_exact(sample.draws.dim.max(1)), sample.draws.mean());
        let draws = draws.map(|draw| mixed.place(draw)).collect();
        let place = GroupPlace { centre: mixed.place(&centre), draws, near: None };
        let near = self.near(&centre, sample, &place);
        Ok(GroupPlace { near, ..place })
    }

    fn log_likelihoods(
        &self,
        place: &GroupPlace,
        rows: &Rows,
        see: &mut (dyn FnMut(&[f64]) + Send),
    ) -> Result<(), TargetError> {
        let groups: Vec<usize> = match rows {
            Rows::Range(range) => range.clone().collect(),
            Rows::Some(groups) => groups.clone(),
        };
        let columns = parallel::map(groups.chunks(TOGETHER), |groups| self.columns(place, groups)).concat();
        let (width, draws) = (groups.len(), place.draws.len());
        let mut values = vec![0.0; columns.len()];
        for (group, column) in columns.chunks_exact(draws.max(1)).enumerate() {
            column.iter().enumerate().for_each(|(draw, x)| values[draw * width + group] = *x);
        }
        see(&values);
        Ok(())
    }

    fn scores(
        &self,
        groups: &[usize],
        weights: &[f64],
        sample: &Sample,
        most: usize,
    ) -> Result<Option<Scores>, TargetError> {
        let draws = sample.thinned(most).draws;
        let weighted = WeightedGroups::new(self.model, groups, weights, false).starting_at(&draws.mean());
        let rows = draws.theta.chunks_exact(draws.dim.max(1));
        let gradient = parallel::map(rows, |theta| weighted.posterior(theta).1).concat();
        Ok(Some(Scores { gradient, draws }))
    }
}
