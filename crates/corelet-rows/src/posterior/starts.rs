//! The starting points of a search for modes: far apart, and at all places where posteriors are known to have several modes.
//!
//! | start | what it finds |
//! | --- | --- |
//! | known places, the prior mean, 0, the known mode mirrored, draws of the prior | what others would find |
//! | least squares through few rows, the best of some tries | curves that many rows follow, whatever the others do |
//! | least squares through the rows that the known fit explains worst, or best | what the known fit passes over, in any dimension |
//! | least squares through the rows in the middle of the features | the curve without the rows of high leverage |
//! | curves through few of few weighted rows, with little noise | spikes where the noise vanishes |
//! | fits of few rows | the same where a row has no number of its own |
//! | the fit without heavy-tailed priors, and with one of their parameters at its centre | prior against data |

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::{LaplaceSettings, Prior, laplace};
use crate::linalg::{Cholesky, dot_features};
use crate::model::{Inputs, Model};
use crate::parallel;
use crate::random::Stream;
use crate::rows::{Memory, Weighted};

/// Weighted rows that are so few are searched from more starts, and cheaply so.
const FEW: usize = 1000;

/// Curves through few rows, of all rows, of few, and of the rows that are explained worst or stand in the middle.
const CURVES: usize = 8;
const CURVES_OF_FEW: usize = 24;
const CURVES_APART: usize = 3;

/// Of so many curves the one that runs nearest to a quarter of the rows is taken; of so many rows.
const TRIES: usize = 8;
const SCORED: usize = 400;
const NEAREST: f64 = 0.25;

/// Fits of few rows, each of so many a parameter.
const FITS: usize = 4;
const FIT_EACH: usize = 8;

/// Parameters with a heavy-tailed prior that are put at its centre, at most.
const CENTRED: usize = 8;

/// How many prior standard deviations off a dispersion starts, of few rows.
const OFF: f64 = 4.0;

/// A start needs few digits.
const ROUGH: LaplaceSettings = LaplaceSettings { tolerance: 1e-2, max_iterations: 20 };

/// Starts of climbs, the known places first.
pub(super) fn starts(sample: &Weighted, prior: &Prior, known: &[&[f64]], seed: u64) -> Vec<Vec<f64>> {
    let rng = &mut Stream::Modes.rng(seed, 1);
    let mut starts: Vec<Vec<f64>> = known.iter().map(|place| place.to_vec()).collect();
    starts.push(prior.mean.clone());
    starts.push(vec![0.0; prior.dim()]);
    if let Some(place) = known.first() {
        starts.push(place.iter().zip(&prior.mean).map(|(x, centre)| 2.0 * centre - x).collect());
    }
    let scales = prior.scales();
    for _ in 0..2 {
        let draw = |(mean, scale): (&f64, &f64)| {
            let z: f64 = StandardNormal.sample(&mut *rng);
            mean + scale * z
        };
        starts.push(prior.mean.iter().zip(&scales).map(draw).collect());
    }
    starts.extend(against_the_prior(sample, prior, known));
    match Picture::of(sample, prior) {
        Some(picture) => starts.extend(picture.curves(known.first().copied(), rng)),
        None => starts.extend(few_rows(sample, prior, rng)),
    }
    starts
}

/// Where heavy-tailed priors give way to the data, and where one of them does not.
fn against_the_prior(sample: &Weighted, prior: &Prior, known: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut heavy = prior.heavy_tailed();
    if heavy.is_empty() {
        return Vec::new();
    }
    let start = known.first().map_or(&*prior.mean, |place| place);
    let Ok(loose) = laplace(sample, &prior.loosened(), Some(start), &ROUGH) else { return Vec::new() };
    let (theta, scales) = (loose.posterior.mean, prior.scales());
    let off = |j: usize| ((theta[j] - prior.mean[j]) / scales[j]).abs();
    heavy.sort_by(|&a, &b| off(b).total_cmp(&off(a)).then(a.cmp(&b)));
    let centred = heavy.iter().take(CENTRED).map(|&j| {
        let mut start = theta.clone();
        start[j] = prior.mean[j];
        start
    });
    let mut starts: Vec<Vec<f64>> = centred.collect();
    starts.push(theta);
    starts
}

/// Fits of few rows, each standing for all.
fn few_rows(sample: &Weighted, prior: &Prior, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    let Some(model) = sample.model() else { return Vec::new() };
    let (rows, weights) = (Memory::new(Arc::clone(model)), sample.weights());
    let total: f64 = weights.iter().sum();
    let all: Vec<usize> = (0..weights.len()).collect();
    let pick = Pick::new(&all, weights);
    let chosen: Vec<Vec<usize>> = (0..FITS).map(|_| pick.some(FIT_EACH * prior.dim(), rng)).collect();
    let fits = parallel::map(chosen, |ids| {
        let each = vec![total / ids.len().max(1) as f64; ids.len()];
        let rows = Weighted::fetch(&rows, &ids, &each).ok()?;
        laplace(&rows, prior, Some(&prior.mean), &ROUGH).ok()
    });
    fits.into_iter().flatten().map(|fit| fit.posterior.mean).collect()
}

/// Rows to choose from, in proportion to their weights.
struct Pick<'a> {
    ids: &'a [usize],
    reached: Vec<f64>,
}

impl<'a> Pick<'a> {
    fn new(ids: &'a [usize], weights: &[f64]) -> Self {
        let mut sum = 0.0;
        let add = |&id: &usize| {
            sum += weights[id];
            sum
        };
        Self { ids, reached: ids.iter().map(add).collect() }
    }

    /// As many different ones, if there are.
    fn some(&self, count: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let total = self.reached.last().copied().unwrap_or_default();
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..20 * count {
            let at = self.reached.partition_point(|&sum| sum <= total * rng.random::<f64>());
            let Some(&id) = self.ids.get(at) else { continue };
            if !chosen.contains(&id) {
                chosen.push(id);
            }
            if chosen.len() == count {
                break;
            }
        }
        chosen
    }
}

/// Rows each of which has a predictor of its own.
struct Picture<'a> {
    sample: &'a Weighted,
    prior: &'a Prior,
    model: &'a dyn Model,
    /// Number of coefficients, which come first.
    features: usize,
    /// The predictor of each row, without its offset.
    own: Vec<f64>,
}

impl<'a> Picture<'a> {
    fn of(sample: &'a Weighted, prior: &'a Prior) -> Option<Self> {
        let model = &**sample.model()?;
        let joint = model.joint()?;
        let predictors = joint.layout.inputs();
        let plain = predictors.iter().skip(1).all(|&inputs| inputs == Inputs::Constant);
        let rows = model.observations();
        let own = |i: usize| Some(joint.family.own_predictor(rows.target(i))? - rows.offset(i));
        let own: Vec<f64> = (0..model.len()).map(own).collect::<Option<_>>()?;
        let usable =
            plain && predictors.first() == Some(&Inputs::Features) && own.iter().all(|x| x.is_finite());
        usable.then_some(Self { sample, prior, model, features: rows.dim, own })
    }

    fn curves(&self, known: Option<&[f64]>, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let (weights, count) = (self.sample.weights(), self.model.len());
        let all: Vec<usize> = (0..count).collect();
        let middle = &self.by_leverage()[..count.div_ceil(2)];
        let mut curves = vec![self.through(&all), self.through(middle)];
        let mut pools =
            vec![(&*all, if count <= FEW { CURVES_OF_FEW } else { CURVES }), (middle, CURVES_APART)];
        let by_fit = known.map_or_else(Vec::new, |theta| self.by_fit(theta));
        if !by_fit.is_empty() {
            let worst = |share: usize| &by_fit[..count.div_ceil(share)];
            curves.extend([2, 4, 10].map(|share| self.through(worst(share))));
            curves.push(self.through(&by_fit[count / 2..]));
            pools.push((worst(2), CURVES_APART));
        }
        let scored: Vec<usize> = all.iter().copied().step_by(count.div_ceil(SCORED).max(1)).collect();
        for (pool, wanted) in pools {
            let pick = Pick::new(pool, weights);
            for at in 0..wanted {
                // As many rows as coefficients, and somewhat more.
                let size = self.features + at % 3 * self.features.div_ceil(2);
                let tries = (0..TRIES).filter_map(|_| self.through(&pick.some(size, rng)));
                let scored = tries.map(|curve| (self.spread(&curve, &scored), curve));
                curves.push(scored.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, curve)| curve));
            }
        }
        let curves = curves.into_iter().flatten();
        // Of few rows with little and with much noise as well.
        let offs: &[f64] = if count <= FEW { &[0.0, -OFF, OFF] } else { &[0.0] };
        let starts: Vec<(Vec<f64>, f64)> =
            curves.flat_map(|c| offs.iter().map(move |&off| (c.clone(), off))).collect();
        parallel::map(starts, |(curve, off)| self.with_dispersions(&curve, off))
    }

    /// Least squares through these rows, about the prior mean where they say nothing.
    fn through(&self, ids: &[usize]) -> Option<Vec<f64>> {
        let (dim, rows) = (self.features, self.model.observations());
        let centre = &self.prior.mean[..dim];
        let (mut gram, mut beta) = (vec![0.0; dim * dim], vec![0.0; dim]);
        for &i in ids {
            let x = rows.row(i);
            let residual = self.own[i] - dot_features(x, centre);
            for (a, &xa) in x.iter().enumerate() {
                beta[a] += f64::from(xa) * residual;
                x.iter().enumerate().for_each(|(b, &xb)| gram[a * dim + b] += f64::from(xa) * f64::from(xb));
            }
        }
        let trace: f64 = gram.iter().step_by(dim + 1).sum();
        let ridge = 1e-9 * trace / dim as f64 + f64::MIN_POSITIVE;
        gram.iter_mut().step_by(dim + 1).for_each(|entry| *entry += ridge);
        Cholesky::new(&gram, dim).ok()?.solve(&mut beta);
        beta.iter_mut().zip(centre).for_each(|(b, centre)| *b += centre);
        beta.iter().all(|b| b.is_finite()).then_some(beta)
    }

    /// How far a quarter of these rows, by weight, are from the curve at most.
    fn spread(&self, beta: &[f64], ids: &[usize]) -> f64 {
        let weights = self.sample.weights();
        let rows = self.model.observations();
        let off = |&i: &usize| ((self.own[i] - dot_features(rows.row(i), beta)).abs(), weights[i]);
        let mut off: Vec<(f64, f64)> = ids.iter().map(off).collect();
        off.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = NEAREST * off.iter().map(|(_, weight)| weight).sum::<f64>();
        let reached = off.iter().find(|(_, weight)| {
            left -= weight;
            left <= 0.0
        });
        reached.map_or(f64::INFINITY, |&(off, _)| off)
    }

    /// Rows by their log-likelihood, the worst first.
    fn by_fit(&self, theta: &[f64]) -> Vec<usize> {
        let values: Vec<f64> = (0..self.model.len()).map(|i| self.model.log_likelihood(i, theta)).collect();
        sorted_by(&values)
    }

    /// Rows by how far out their features are, in interquartile ranges: the middle first.
    fn by_leverage(&self) -> Vec<usize> {
        let (rows, count) = (self.model.observations(), self.model.len());
        let mut far = vec![0.0; count];
        for j in 0..self.features {
            let column: Vec<f64> = (0..count).map(|i| f64::from(rows.row(i)[j])).collect();
            let order = sorted_by(&column);
            let [low, middle, high] = [1, 2, 3].map(|quarter| column[order[quarter * (count - 1) / 4]]);
            if high > low {
                let width = (high - low).powi(-2);
                far.iter_mut().zip(&column).for_each(|(far, x)| *far += (x - middle).powi(2) * width);
            }
        }
        sorted_by(&far)
    }

    /// The curve with the dispersions that suit it, from so many prior standard deviations off.
    fn with_dispersions(&self, beta: &[f64], off: f64) -> Vec<f64> {
        let scales = self.prior.scales();
        let rest = self.prior.mean.iter().zip(&scales).skip(self.features);
        let start: Vec<f64> =
            beta.iter().copied().chain(rest.map(|(mean, scale)| mean + off * scale)).collect();
        if start.len() == self.features {
            return start;
        }
        let held = self.prior.held_at(beta);
        let fit = laplace(self.sample, &held, Some(&start), &ROUGH).ok();
        fit.map_or(start, |fit| fit.posterior.mean)
    }
}

/// The places of these numbers in ascending order.
fn sorted_by(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
    order
}
