//! Has the posterior of a target a mode that its draws have not? Climbs by gradients from places apart, on a sample of the rows.
//!
//! Chains that begin at one place, or whose starts happen to lie in one basin, agree with each other and with every gradient along their
//! way. So the engine climbs by itself, whatever the sampler did. It needs the gradient alone: of the density where the model has
//! it, of the weighted log posterior at places of its own where that is what the user gave, and else of the likelihood, by differences.

use rand_distr::{Distribution, StandardNormal};

use super::ascent::{Ascent, STEPS};
use super::gaussian::sample_of_size;
use super::ridge::{self, Climbed};
use super::{Rows, Sample, Target, TargetError, Units, block_size};
use crate::linalg::dot;
use crate::posterior::effective_sample_size;
use crate::random::Stream;
use crate::trust::Reason;
use crate::trust::policy::{
    DRAWN_STARTS, FARTHER_STARTS, FLIPPED_STARTS, MODE_DIP, MOST_SEARCHED, MOST_SEARCHED_BY_DIFFERENCES,
    OUT_OF_PROPORTION, PROPORTION_DRAWS, RANDOM_STARTS, RIVAL, RUGGED, SAME_END, SEARCHED_ROWS,
};
use crate::words::percent;

/// Points on the way, at which the gradient is integrated.
const WAY: usize = 64;
/// Steps of differences, in standard deviations of the draws.
const STEP: f64 = 1e-3;

/// A mode that the draws have not.
pub(super) struct Unseen {
    /// What an A then is not, and the grade at best.
    pub(super) reason: Reason,
    /// Where it is, in words.
    pub(super) words: String,
}

/// Where gradients come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Density,
    Scores,
    Likelihood,
}

/// The log density of sampled rows that stand for all, about the draws and in their standard deviations.
struct Landscape<'t, T: Target + ?Sized> {
    target: &'t T,
    rows: Vec<usize>,
    weights: Vec<f64>,
    by: By,
    mean: Vec<f64>,
    sds: Vec<f64>,
}

/// Looks for such a mode; none if there is none, or where nothing can be looked at.
///
/// # Errors
/// Those of the model that are the user's wish to stop; what it cannot answer at places far out is no error.
pub(super) fn unseen_mode<T: Target + ?Sized>(
    target: &T,
    units: &Units,
    sample: &Sample,
    seed: u64,
) -> Result<Option<Unseen>, TargetError> {
    let chains = sample.chains();
    let (land, draws) = match Ground::of(target, sample, seed)? {
        Ground::Known(land, draws) => (land, draws),
        Ground::TooWide(dim) => return Ok(Some(unsearched(dim))),
        Ground::None => return Ok(None),
    };
    let mut known = apart(land.ends(land.drawn(&draws))?);
    if known.is_empty() {
        // Draws of a ridge without a top are compared at their mean.
        known.push(vec![0.0; land.mean.len()]);
    }
    if let Some(found) = land.out_of_proportion(&known, &draws)? {
        return Ok(Some(found));
    }
    let mut found: Option<(f64, Vec<f64>)> = None;
    let mut others = 0;
    for (rise, end) in land.beside(&mut known, seed)? {
        others += usize::from(rise.is_finite());
        let rise = land.on_all_rows(&known[0], &end, rise, units)?;
        let counts = rise > -land.slack() && found.as_ref().is_none_or(|(best, _)| rise > *best);
        if counts && !passed(&draws, chains, &known[0], &end) {
            found = Some((rise, end));
        }
    }
    let rival = found.map(|(_, end)| land.said(&known[0], &end, "that the chains do not pass to and from"));
    Ok(rival.or_else(|| (others >= RUGGED).then(|| rugged(others))))
}

/// Of a density with many tops.
fn rugged(others: usize) -> Unseen {
    let words = format!(
        "{others} other modes were found, all of negligible mass; where there are so many, that none has more was not shown"
    );
    Unseen { reason: Reason::ManyModes, words }
}

/// Of more parameters than places apart mean anything for, drawn by a sampler that may have begun anywhere.
fn unsearched(dim: usize) -> Unseen {
    let words = format!(
        "no other modes were looked for: {dim} parameters are too many for that without the density itself; chains begun far apart from \
         each other show more"
    );
    Unseen { reason: Reason::Unsearched, words }
}

/// Each of these ends once.
fn apart(ends: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut kept: Vec<Vec<f64>> = Vec::new();
    for end in ends {
        let near = |other: &Vec<f64>| end.iter().zip(other).all(|(a, b)| (a - b).abs() < SAME_END);
        if !kept.iter().any(near) {
            kept.push(end);
        }
    }
    kept
}

/// What can be climbed on.
enum Ground<'t, T: Target + ?Sized> {
    /// A landscape, with the draws in its coordinates.
    Known(Landscape<'t, T>, Vec<f64>),
    /// So many parameters are too many.
    TooWide(usize),
    /// The draws do not move; or the tool's own chains begin apart and are of too many parameters.
    None,
}

impl<'t, T: Target + ?Sized> Ground<'t, T> {
    fn of(target: &'t T, sample: &Sample, seed: u64) -> Result<Self, TargetError> {
        let rows = sample_of_size(target.rows(), SEARCHED_ROWS, seed)
            .unwrap_or_else(|| (0..target.rows()).collect());
        let weights = vec![target.rows() as f64 / rows.len().max(1) as f64; rows.len()];
        let (by, points) = match target.derivatives() {
            Some(model) => (By::Density, model.unconstrained(sample)?),
            None => (By::Scores, sample.draws.theta.clone()),
        };
        let dim = points.len() / sample.len().max(1);
        if dim == 0 || points.iter().any(|x| !x.is_finite()) {
            return Ok(Self::None);
        }
        if dim > MOST_SEARCHED {
            return Ok(if by == By::Density { Self::None } else { Self::TooWide(dim) });
        }
        let moments: Vec<(f64, f64)> = (0..dim).map(|j| moments(&points, dim, j)).collect();
        if moments.iter().any(|(_, sd)| *sd <= 0.0) {
            return Ok(Self::None);
        }
        let (mean, sds) = moments.into_iter().unzip();
        let mut land = Landscape { target, rows, weights, by, mean, sds };
        if by == By::Scores && land.gradients(&vec![0.0; dim])?.is_none() {
            if dim > MOST_SEARCHED_BY_DIFFERENCES {
                return Ok(Self::TooWide(dim));
            }
            land.by = By::Likelihood;
        }
        let draws = points
            .chunks_exact(dim)
            .flat_map(|row| row.iter().zip(&land.mean).zip(&land.sds).map(|((x, m), s)| (x - m) / s))
            .collect();
        Ok(Self::Known(land, draws))
    }
}

impl<T: Target + ?Sized> Landscape<'_, T> {
    fn places(&self, points: &[f64]) -> Vec<f64> {
        let dim = self.mean.len();
        let of = |(i, u): (usize, &f64)| self.mean[i % dim] + self.sds[i % dim] * u;
        points.iter().enumerate().map(of).collect()
    }

    /// Gradients at these points, none if nothing answers; not a number where there is no value.
    fn gradients(&self, points: &[f64]) -> Result<Option<Vec<f64>>, TargetError> {
        let dim = self.mean.len();
        let places = self.places(points);
        let answer = match self.by {
            By::Density => self.of_density(&places).map(Some),
            By::Scores => self.of_scores(&places),
            By::Likelihood => self.of_likelihood(&places).map(Some),
        };
        let mut gradients = match answer {
            Ok(Some(gradients)) => gradients,
            Ok(None) => return Ok(None),
            Err(error) if self.target.is_interrupt(&error) => return Err(error),
            // A place that the user's own functions do not like.
            Err(_) if points.len() > dim => {
                let one = |point| Ok(self.gradients(point)?.unwrap_or_else(|| vec![f64::NAN; dim]));
                let each: Result<Vec<Vec<f64>>, TargetError> = points.chunks_exact(dim).map(one).collect();
                return Ok(Some(each?.concat()));
            }
            Err(_) => return Ok(Some(vec![f64::NAN; dim])),
        };
        gradients.iter_mut().enumerate().for_each(|(i, g)| *g *= self.sds[i % dim]);
        Ok(Some(gradients))
    }

    fn of_density(&self, places: &[f64]) -> Result<Vec<f64>, TargetError> {
        let Some(model) = self.target.derivatives() else { return Err("no density".into()) };
        let mut gradients = model.weighted(places, &self.rows, &self.weights)?.gradients;
        let prior = model.log_prior(places)?.gradients;
        gradients.iter_mut().zip(&prior).for_each(|(sum, x)| *sum += x);
        Ok(gradients)
    }

    /// None if the target has no gradient, or has it in other coordinates than those of the draws.
    fn of_scores(&self, places: &[f64]) -> Result<Option<Vec<f64>>, TargetError> {
        let count = places.len() / self.mean.len();
        let sample = Sample::new(places.to_vec(), self.mean.len(), 1, true, 0);
        let Some(scores) = self.target.scores(&self.rows, &self.weights, &sample, count)? else {
            return Ok(None);
        };
        let same = scores.draws.theta.len() == places.len()
            && scores.draws.theta.iter().zip(places).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs()));
        Ok(same.then_some(scores.gradient))
    }

    fn of_likelihood(&self, places: &[f64]) -> Result<Vec<f64>, TargetError> {
        let dim = self.mean.len();
        let mut points = Vec::with_capacity(2 * dim * places.len());
        for place in places.chunks_exact(dim) {
            for (j, side) in (0..dim).flat_map(|j| [(j, 1.0), (j, -1.0)]) {
                let begin = points.len();
                points.extend_from_slice(place);
                points[begin + j] += side * STEP * self.sds[j];
            }
        }
        let values = self.likelihoods(&points, &Rows::Some(self.rows.clone()), self.weights[0])?;
        let pairs = values.chunks_exact(2).enumerate();
        Ok(pairs.map(|(i, pair)| (pair[0] - pair[1]) / (2.0 * STEP * self.sds[i % dim])).collect())
    }

    /// The log-likelihood of these rows at each place, times a factor.
    fn likelihoods(&self, places: &[f64], rows: &Rows, factor: f64) -> Result<Vec<f64>, TargetError> {
        let count = places.len() / self.mean.len();
        let sample = Sample::new(places.to_vec(), self.mean.len(), 1, true, 0);
        let place = self.target.place(&sample)?;
        let mut sums = vec![f64::NAN; count];
        self.target.log_likelihoods(&place, rows, &mut |values| {
            let lines = values.chunks_exact((values.len() / count).max(1));
            sums = lines.map(|line| factor * line.iter().sum::<f64>()).collect();
        })?;
        Ok(sums)
    }

    /// Where climbs from these places end.
    fn ends(&self, starts: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, TargetError> {
        let dim = self.mean.len();
        let mut climbs: Vec<Ascent> = starts.into_iter().map(Ascent::from).collect();
        for _ in 0..STEPS {
            let asked: Vec<f64> = climbs.iter().filter_map(Ascent::wants).flatten().copied().collect();
            if asked.is_empty() {
                break;
            }
            self.target.poll()?;
            let Some(gradients) = self.gradients(&asked)? else { return Ok(Vec::new()) };
            let open = climbs.iter_mut().filter(|climb| climb.wants().is_some());
            open.zip(gradients.chunks_exact(dim)).for_each(|(climb, gradient)| climb.take(gradient));
        }
        Ok(climbs.into_iter().filter_map(Ascent::top).collect())
    }

    /// The mean of the draws, and some of them.
    fn drawn(&self, draws: &[f64]) -> Vec<Vec<f64>> {
        let dim = self.mean.len();
        let count = draws.len() / dim;
        let some = (0..DRAWN_STARTS.min(count))
            .map(|i| draws[(i * count / DRAWN_STARTS.min(count)) * dim..][..dim].to_vec());
        std::iter::once(vec![0.0; dim]).chain(some).collect()
    }

    /// Places far from the draws and from each other.
    fn starts(&self, seed: u64) -> Result<Vec<Vec<f64>>, TargetError> {
        let dim = self.mean.len();
        let mut rng = Stream::Modes.rng(seed, 1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        // 0 and the mirror image of the mean, in these coordinates.
        let mirrored: Vec<f64> = self.mean.iter().zip(&self.sds).map(|(m, s)| -2.0 * m / s).collect();
        let mut starts = vec![mirrored.clone()];
        for j in 0..dim.min(FLIPPED_STARTS) {
            let mut one = vec![0.0; dim];
            one[j] = mirrored[j];
            starts.push(one);
        }
        let outer = |m: f64, s: f64, x: f64| ((1.0 + m.abs()) * x - m) / s;
        for _ in 0..RANDOM_STARTS {
            starts.push(self.mean.iter().zip(&self.sds).map(|(m, s)| outer(*m, *s, normal())).collect());
        }
        for wide in FARTHER_STARTS {
            starts.extend((0..2).map(|_| (0..dim).map(|_| wide * normal()).collect::<Vec<f64>>()));
        }
        if let Some(model) = self.target.derivatives() {
            let own = model.starts(RANDOM_STARTS)?;
            let within = |(j, x): (usize, &f64)| (x - self.mean[j]) / self.sds[j];
            starts.extend(own.chunks_exact(dim).map(|start| start.iter().enumerate().map(within).collect()));
        }
        Ok(starts)
    }

    /// Tops that are none of those that are known, each with how much higher the log density is there than at the first of these. Climbs
    /// from both go on first, since by gradients alone they stand still along curved ridges and on even slopes.
    fn beside(&self, known: &mut Vec<Vec<f64>>, seed: u64) -> Result<Vec<(f64, Vec<f64>)>, TargetError> {
        let mut tops = Vec::new();
        for end in apart(self.ends(self.starts(seed)?)?) {
            // Most ends are known, and cost no further look.
            if self.beyond_dips(known, &end)?.is_some() {
                tops.extend(self.top_above(&end)?);
            }
        }
        let mut found = Vec::new();
        for top in apart(tops) {
            if let Some(rise) = self.beyond_dips(known, &top)? {
                found.push((rise, top));
            }
        }
        if found.is_empty() {
            return Ok(found);
        }
        for own in known.clone() {
            known.extend(self.top_above(&own)?);
        }
        let mut beside = Vec::new();
        for (_, top) in found {
            if let Some(rise) = self.beyond_dips(known, &top)? {
                beside.push((rise, top));
            }
        }
        Ok(beside)
    }

    /// Where the density rises to from there, without a dip; none where it rises on and on.
    fn top_above(&self, end: &[f64]) -> Result<Option<Vec<f64>>, TargetError> {
        Ok(match self.climbed(end)? {
            Climbed::Top(at, _) | Climbed::Until(at) => Some(at),
            Climbed::Endless => None,
        })
    }

    fn climbed(&self, end: &[f64]) -> Result<Climbed, TargetError> {
        ridge::climb(end, &mut |points| {
            self.target.poll()?;
            self.gradients(points)
        })
    }

    /// Modes that the draws have, and not in proportion to their masses, by Laplace's approximation: of all rows alone, since on a sample heights
    /// are only those of the sample.
    fn out_of_proportion(&self, known: &[Vec<f64>], draws: &[f64]) -> Result<Option<Unseen>, TargetError> {
        if known.len() < 2 || self.by == By::Likelihood || self.rows.len() < self.target.rows() {
            return Ok(None);
        }
        let mut tops: Vec<Vec<f64>> = Vec::new();
        let mut masses = Vec::new();
        for end in known {
            let Climbed::Top(top, log_det) = self.climbed(end)? else { return Ok(None) };
            match self.beyond_dips(&tops, &top)? {
                Some(rise) => masses.push(rise - 0.5 * log_det),
                None if tops.is_empty() => masses.push(-0.5 * log_det),
                None => continue,
            }
            tops.push(top);
        }
        let most = masses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let each: Vec<f64> = masses.iter().map(|mass| (mass - most).exp()).collect();
        let sum: f64 = each.iter().sum();
        let had = shares(draws, &tops);
        let off: f64 = each.iter().zip(&had).map(|(mass, had)| 0.5 * (mass / sum - had).abs()).sum();
        let worst =
            (0..tops.len()).max_by(|&a, &b| (each[a] / sum - had[a]).total_cmp(&(each[b] / sum - had[b])));
        Ok(worst.filter(|_| off > OUT_OF_PROPORTION).map(|at| {
            let base = usize::from(at == 0);
            let (mass, had) = (percent(each[at] / sum), percent(had[at]));
            self.said(
                &tops[base],
                &tops[at],
                &format!("which has about {mass} of the mass, and {had} of the draws"),
            )
        }))
    }

    /// How much higher the log density is there than at the first of these, where it falls on the way from each.
    fn beyond_dips(&self, known: &[Vec<f64>], to: &[f64]) -> Result<Option<f64>, TargetError> {
        let mut first = None;
        for from in known {
            let Some(rise) = self.beyond_a_dip(from, to)? else { return Ok(None) };
            first.get_or_insert(rise);
        }
        Ok(first)
    }

    /// How much higher the log density is at the other end, where it falls on the way there.
    fn beyond_a_dip(&self, from: &[f64], to: &[f64]) -> Result<Option<f64>, TargetError> {
        let way: Vec<f64> = from.iter().zip(to).map(|(a, b)| b - a).collect();
        let mut points = Vec::with_capacity((WAY + 1) * way.len());
        for step in 0..=WAY {
            let share = step as f64 / WAY as f64;
            points.extend(from.iter().zip(&way).map(|(a, d)| a + share * d));
        }
        let Some(gradients) = self.gradients(&points)? else { return Ok(None) };
        let slopes: Vec<f64> = gradients.chunks_exact(way.len()).map(|g| dot(g, &way)).collect();
        let mut heights = vec![0.0];
        for pair in slopes.windows(2) {
            heights.push(heights[heights.len() - 1] + 0.5 * (pair[0] + pair[1]) / WAY as f64);
        }
        let rise = heights[WAY];
        let least = heights.iter().copied().fold(f64::INFINITY, f64::min);
        // A way through places without a density falls as well; how high the other end is, likelihoods tell.
        Ok((rise.is_nan() || least < rise.min(0.0) - MODE_DIP).then_some(rise))
    }

    /// The same of all rows, where it is of a sample.
    fn on_all_rows(&self, from: &[f64], to: &[f64], rise: f64, units: &Units) -> Result<f64, TargetError> {
        let whole = self.rows.len() == self.target.rows();
        if whole && rise.is_finite() {
            return Ok(rise);
        }
        let both = self.places(&[from, to].concat());
        if let Some(model) = self.target.derivatives() {
            let (all, prior) = (model.log_likelihood(&both, None)?.values, model.log_prior(&both)?.values);
            return Ok(all[1] + prior[1] - all[0] - prior[0]);
        }
        let sampled = self.likelihoods(&both, &Rows::Some(self.rows.clone()), self.weights[0])?;
        let mut sums = [0.0; 2];
        for block in units.blocks(block_size(2)) {
            let rows = units.rows_of(&Rows::Range(block));
            let values = self.likelihoods(&both, &rows, 1.0)?;
            sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
        }
        let prior = if rise.is_finite() { rise - (sampled[1] - sampled[0]) } else { 0.0 };
        Ok(sums[1] - sums[0] + prior)
    }

    /// A top of a sample of m rows is lower on all of them, by some ½p·n/m nats.
    fn slack(&self) -> f64 {
        RIVAL + 0.5 * self.mean.len() as f64 * (self.weights[0] - 1.0).max(0.0)
    }

    fn said(&self, base: &[f64], end: &[f64], what: &str) -> Unseen {
        let far = |j: usize| (end[j] - base[j]).abs();
        let most = (0..end.len()).max_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap_or_default();
        let names = self.target.derivatives().and_then(|model| model.names().ok());
        let name = names.map_or_else(|| format!("parameter {most}"), |names| names[most].clone());
        let at = |u: f64| crate::words::number(self.mean[most] + self.sds[most] * u);
        let (reason, of) = match self.by {
            By::Likelihood => (Reason::OnTrust, "likelihood, without the prior,"),
            _ => (Reason::SecondMode, "posterior"),
        };
        let words = format!(
            "the {of} has another mode, where {name} is {} and not {}, {what}",
            at(end[most]),
            at(base[most])
        );
        Unseen { reason, words }
    }
}

/// The share of the draws that is nearest to each of these.
fn shares(draws: &[f64], tops: &[Vec<f64>]) -> Vec<f64> {
    let dim = tops[0].len();
    let mut counts = vec![0.0; tops.len()];
    for draw in draws.chunks_exact(dim) {
        let far = |top: &Vec<f64>| top.iter().zip(draw).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let nearest = (0..tops.len()).min_by(|&a, &b| far(&tops[a]).total_cmp(&far(&tops[b])));
        counts[nearest.unwrap_or_default()] += 1.0;
    }
    let count = (draws.len() / dim.max(1)).max(1) as f64;
    counts.iter().map(|x| x / count).collect()
}

fn moments(points: &[f64], dim: usize, j: usize) -> (f64, f64) {
    let count = (points.len() / dim) as f64;
    let column = || points.iter().skip(j).step_by(dim);
    let mean = column().sum::<f64>() / count;
    (mean, (column().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt())
}

/// Whether chains pass between two modes so often that the share of their draws that is nearer to one is known.
fn passed(draws: &[f64], chains: usize, a: &[f64], b: &[f64]) -> bool {
    let way: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let middle = 0.5 * dot(&way, &way);
    let nearer = |draw: &[f64]| {
        let along: f64 = draw.iter().zip(a).zip(&way).map(|((x, a), d)| (x - a) * d).sum();
        f64::from(u8::from(along > middle))
    };
    let series: Vec<f64> = draws.chunks_exact(a.len()).map(nearer).collect();
    let length = (series.len() / chains.max(1)).max(1);
    let by_chain: Vec<Vec<f64>> = series.chunks_exact(length).map(<[f64]>::to_vec).collect();
    series.contains(&1.0) && series.contains(&0.0) && effective_sample_size(&by_chain) >= PROPORTION_DRAWS
}
