//! Slope and curvature of the log-likelihood of all rows about a point, as means over a posterior's draws, and the Gaussian they make.

use super::super::TargetError;
use super::chains::Surrogate;
use super::curvature::{Pattern, hessian};
use super::derivatives::{Argument, Derivatives, Slopes};
use crate::coreset::most_share;
use crate::linalg::{Cholesky, dot, multiply, row_major, symmetric_eigen};
use crate::posterior::Gaussian;
use crate::rows::Rest;

/// Steps of differences, in conditional standard deviations of the posterior: large enough that single precision would do, small enough
/// that fourth derivatives add a hundredth of what they add over the posterior.
const STEP: f64 = 0.3;
/// Steps before anything is known of the scale.
const FIRST_STEP: f64 = 1e-3;
/// Steps of differences of a gradient that has no noise, in conditional standard deviations.
const FINE_STEP: f64 = 0.01;
/// Gradients of all rows that the mean of the Hessian may take, and the pairs that are enough.
pub(super) const HESSIAN_GRADIENTS: usize = 600;
const HESSIAN_PAIRS: usize = 25;
/// By how much a Hessian with zeros by structure may miss a difference along a direction in which all coordinates move.
const PROBED: f64 = 0.02;
/// The share of a direction's precision to which differences of gradients know that of the likelihood.
const KNOWN_TO: f64 = 1e-6;
/// The least curvature of the posterior in any direction, relative to the scale of its coordinates, that coordinates are chosen by.
const FLAT: f64 = 1e-6;

/// Derivatives of the log-likelihood by its argument about a point.
pub(super) struct About {
    /// The centre, as a point of coordinates or one near it.
    place: Vec<f64>,
    /// The centre.
    pub(super) centre: Vec<f64>,
    pub(super) gradient: Vec<f64>,
    pub(super) hessian: Vec<f64>,
    /// Of the log prior; empty if the argument is not the coordinates.
    prior_hessian: Vec<f64>,
    /// The log-likelihood of all rows at each of the points centre + shift.
    pub(super) totals: Vec<f64>,
}

/// A model, and what is known of the structure of its Hessians.
pub(super) struct Expander<'m> {
    pub(super) model: &'m dyn Derivatives,
    pub(super) argument: Argument<'m>,
    rows: usize,
    sample: Option<Vec<usize>>,
    known: Option<Known>,
}

struct Known {
    likelihood: Pattern,
    prior: Pattern,
    steps: Vec<f64>,
    /// Of the posterior by the coordinates, where these are not the argument of the likelihood.
    posterior: Option<(Pattern, Vec<f64>)>,
}

impl<'m> Expander<'m> {
    pub(super) fn new(model: &'m dyn Derivatives, rows: usize, sample: Option<Vec<usize>>) -> Self {
        Self { model, argument: Argument::of(model), rows, sample, known: None }
    }

    pub(super) fn sample(&self) -> Option<&[usize]> {
        self.sample.as_deref()
    }

    /// About a centre near this place and, with `shifts`, as means over the points centre ± shift: the even part of the gradient is all that
    /// varies.
    pub(super) fn about(
        &mut self,
        place: Vec<f64>,
        centre: Vec<f64>,
        shifts: &[f64],
    ) -> Result<About, TargetError> {
        self.learn(&centre)?;
        self.about_those(None, place, centre, shifts)
    }

    /// The same of weighted rows, by coordinates.
    pub(super) fn about_those(
        &self,
        rows: Option<(&[usize], &[f64])>,
        place: Vec<f64>,
        centre: Vec<f64>,
        shifts: &[f64],
    ) -> Result<About, TargetError> {
        let dim = self.argument.dimension();
        let mut points = centre.clone();
        for shift in shifts.chunks_exact(dim.max(1)) {
            points.extend(centre.iter().zip(shift).map(|(c, d)| c + d));
            points.extend(centre.iter().zip(shift).map(|(c, d)| c - d));
        }
        let slopes = self.slopes(rows, &points)?;
        let finite = |line: &[f64]| line.iter().all(|x| x.is_finite());
        if !finite(&slopes.gradients[..dim]) {
            return Err(self.not_finite(&centre)?);
        }
        let mut gradient = vec![0.0; dim];
        let mut pairs = 0;
        for pair in slopes.gradients[dim..].chunks_exact(2 * dim.max(1)).filter(|pair| finite(pair)) {
            pairs += 1;
            let both = pair[..dim].iter().zip(&pair[dim..]);
            gradient.iter_mut().zip(both).for_each(|(sum, (a, b))| *sum += 0.5 * (a + b));
        }
        if 2 * pairs < shifts.len() / dim.max(1) || pairs == 0 {
            gradient = slopes.gradients[..dim].to_vec();
        } else {
            gradient.iter_mut().for_each(|sum| *sum /= pairs as f64);
        }
        let hessian = self.mean_hessian(rows, &centre, shifts)?;
        let prior_hessian =
            if self.argument.is_derived() { Vec::new() } else { self.prior_hessian(&centre)? };
        if !finite(&hessian) || !finite(&prior_hessian) {
            return Err(self.not_finite_near(&centre)?);
        }
        let totals = slopes.values.iter().skip(1).step_by(2).copied().collect();
        Ok(About { place, centre, gradient, hessian, prior_hessian, totals })
    }

    fn slopes(&self, rows: Option<(&[usize], &[f64])>, at: &[f64]) -> Result<Slopes, TargetError> {
        match rows {
            Some((rows, weights)) => self.model.weighted(at, rows, weights),
            None => self.all_rows(at),
        }
    }

    fn all_rows(&self, at: &[f64]) -> Result<Slopes, TargetError> {
        self.argument.log_likelihood(at, None)
    }

    /// Which entries of the Hessians are zero by structure, and the steps of their differences.
    fn learn(&mut self, centre: &[f64]) -> Result<(), TargetError> {
        if self.known.is_some() {
            return Ok(());
        }
        let dim = self.argument.dimension();
        let (dense, first) = (Pattern::dense(dim), first_steps(centre));
        let on_sample = |at: &[f64]| self.argument.log_likelihood(at, self.sample());
        let likelihood = hessian(&dense, centre, &first, on_sample)?;
        let prior = match self.argument.is_derived() {
            true => vec![0.0; dim * dim],
            false => hessian(&dense, centre, &first, |at| self.model.log_prior(at))?,
        };
        let factor = self.sample().map_or(1.0, |sample| self.rows as f64 / sample.len().max(1) as f64);
        let step = |i: usize| {
            let precision = -factor * likelihood[i * dim + i] - prior[i * dim + i];
            let step = STEP / precision.abs().sqrt();
            if step.is_finite() { step.clamp(1e-6, 1.0) } else { first[i] }
        };
        let steps: Vec<f64> = (0..dim).map(step).collect();
        let mut known = Known {
            likelihood: Pattern::of(&likelihood, dim),
            prior: Pattern::of(&prior, dim),
            steps,
            posterior: None,
        };
        // Two coordinates that meet nowhere in the sample may meet elsewhere, and an entry may be zero by chance.
        for (pattern, of_prior) in [(&mut known.likelihood, false), (&mut known.prior, true)] {
            if *pattern == dense || (of_prior && self.argument.is_derived()) {
                continue;
            }
            let at =
                |points: &[f64]| if of_prior { self.model.log_prior(points) } else { self.all_rows(points) };
            let found = hessian(pattern, centre, &known.steps, at)?;
            if !agrees(&found, centre, &known.steps, at)? {
                *pattern = dense.clone();
            }
        }
        self.known = Some(known);
        Ok(())
    }

    /// The mean of the Hessians at the centre and, where they are cheap, at some of the points around it.
    fn mean_hessian(
        &self,
        rows: Option<(&[usize], &[f64])>,
        centre: &[f64],
        shifts: &[f64],
    ) -> Result<Vec<f64>, TargetError> {
        let Some(Known { likelihood, steps, .. }) = &self.known else { return Err("no structure".into()) };
        let dim = centre.len();
        let at_centre = hessian(likelihood, centre, steps, |at| self.slopes(rows, at))?;
        let given = shifts.len() / dim.max(1);
        let pairs = (HESSIAN_GRADIENTS / (4 * likelihood.pairs().max(1))).min(HESSIAN_PAIRS).min(given);
        if pairs < 5 {
            return Ok(at_centre);
        }
        let mut points = Vec::new();
        for at in 0..pairs {
            let shift = &shifts[(at * given / pairs) * dim..][..dim];
            for side in [1.0, -1.0] {
                let there: Vec<f64> = centre.iter().zip(shift).map(|(c, d)| c + side * d).collect();
                points.extend(likelihood.points(&there, steps));
            }
        }
        let gradients = self.slopes(rows, &points)?.gradients;
        let mut sum = vec![0.0; dim * dim];
        let mut count = 0.0;
        for own in gradients.chunks_exact(2 * likelihood.pairs() * dim) {
            let one = likelihood.matrix(own, steps);
            if one.iter().all(|x| x.is_finite()) {
                sum.iter_mut().zip(&one).for_each(|(sum, x)| *sum += x);
                count += 1.0;
            }
        }
        if count < pairs as f64 {
            return Ok(at_centre);
        }
        sum.iter_mut().for_each(|x| *x /= count);
        Ok(sum)
    }

    fn prior_hessian(&self, centre: &[f64]) -> Result<Vec<f64>, TargetError> {
        let Some(Known { prior, steps, .. }) = &self.known else { return Err("no structure".into()) };
        hessian(prior, centre, steps, |at| self.model.log_prior(at))
    }

    /// Why no climb could begin.
    pub(super) fn nowhere(&self) -> Result<TargetError, TargetError> {
        let start = self.argument.at(&self.model.starts(1)?)?.into_owned();
        let found = self.all_rows(&start)?;
        if found.values.iter().chain(&found.gradients).any(|x| !x.is_finite()) {
            return self.not_finite(&start);
        }
        Ok("the log posterior is not finite at any of the points from which the search for its mode begins; give variables initial \
            values, or scale the data"
            .into())
    }

    /// The same of the first point beside the centre, as differences take them, at which a gradient is not finite.
    fn not_finite_near(&self, centre: &[f64]) -> Result<TargetError, TargetError> {
        let Some(Known { likelihood, prior, steps, .. }) = &self.known else {
            return Err("no structure".into());
        };
        let dim = centre.len().max(1);
        let first_of = |points: &[f64], gradients: &[f64]| {
            let at = gradients.iter().position(|x| !x.is_finite())?;
            Some((points[at / dim * dim..][..dim].to_vec(), at % dim))
        };
        let points = likelihood.points(centre, steps);
        if let Some((point, _)) = first_of(&points, &self.all_rows(&points)?.gradients) {
            return self.not_finite(&point);
        }
        if self.argument.is_derived() {
            return Ok("the gradient of the log-likelihood is not finite near the mode".into());
        }
        let points = prior.points(centre, steps);
        let which =
            first_of(&points, &self.model.log_prior(&points)?.gradients).map_or(0, |(_, which)| which);
        Ok(format!(
            "the gradient of the log prior by {} is not finite near the mode",
            self.model.names()?[which]
        )
        .into())
    }

    /// Names the coordinate and the first row whose gradient is not finite, by halving the rows that may be at fault.
    pub(super) fn not_finite(&self, at: &[f64]) -> Result<TargetError, TargetError> {
        let names = self.argument.names()?;
        let bad = |rows: &[usize]| -> Result<Option<usize>, TargetError> {
            let found = self.argument.log_likelihood(at, Some(rows))?;
            let which = found.gradients.iter().position(|x| !x.is_finite());
            Ok(which.or((!found.values[0].is_finite()).then_some(0)))
        };
        let mut rows: Vec<usize> = (0..self.rows).collect();
        while rows.len() > 1 {
            let (first, second) = rows.split_at(rows.len() / 2);
            rows = if bad(first)?.is_some() { first.to_vec() } else { second.to_vec() };
        }
        let which = bad(&rows)?.map_or("", |which| &names[which]);
        let value = self.argument.log_likelihood(at, Some(&rows))?.values[0];
        if !value.is_finite() {
            return Ok(format!(
                "the log-likelihood of row {} is {value}, and its gradient by {which} is not finite; look at that row for missing or extreme \
                 values, or give {which} a prior that keeps it in range",
                rows[0]
            )
            .into());
        }
        Ok(format!(
            "the gradient of the log-likelihood of row {} by {which} is not finite; look at that row, or give {which} a prior that keeps it in range",
            rows[0]
        )
        .into())
    }

    /// log ∫ of the posterior density by its Laplace fit here, of this log density at the centre; none if this is no top.
    ///
    /// # Errors
    /// Errors of the model.
    pub(super) fn log_mass(&mut self, about: &About, value: f64) -> Result<Option<f64>, TargetError> {
        let dim = about.place.len();
        let whole = Rest {
            centre: about.centre.clone(),
            gradient: about.gradient.clone(),
            curvature: about.hessian.clone(),
        };
        let Ok(cholesky) = Cholesky::new(&self.precision(about, &whole)?, dim) else { return Ok(None) };
        let factor = cholesky.factor();
        let half_log_determinant: f64 = (0..dim).map(|i| factor[i * dim + i].ln()).sum();
        let mass = value + 0.5 * dim as f64 * std::f64::consts::TAU.ln() - half_log_determinant;
        Ok(Some(mass).filter(|mass| mass.is_finite()))
    }

    /// The Gaussian factor, the posterior it makes with the prior about its centre, and how many directions the data do not determine.
    ///
    /// # Errors
    /// Errors of the model, and derivatives that are not finite.
    pub(super) fn gaussian(&mut self, about: &About) -> Result<(Rest, Gaussian, usize), TargetError> {
        let known_to =
            |under: &Gaussian| Rest::known_to(under, about.gradient.clone(), about.hessian.clone(), KNOWN_TO);
        if self.argument.is_derived() {
            let (rest, undetermined) = known_to(&by_its_diagonal(&about.centre, &about.hessian)?)?;
            let near = positive(&about.place, &self.precision(about, &rest)?)?;
            return Ok((rest, near, undetermined));
        }
        let precision = |curvature: &[f64]| -> Vec<f64> {
            curvature
                .iter()
                .zip(&about.prior_hessian)
                .map(|(likelihood, prior)| -likelihood - prior)
                .collect()
        };
        let under = positive(&about.centre, &precision(&about.hessian))?;
        let (rest, undetermined) = known_to(&under)?;
        if undetermined == 0 {
            return Ok((rest, under, 0));
        }
        let near = positive(&about.centre, &precision(&rest.curvature))?;
        Ok((rest, near, undetermined))
    }

    /// −∇² of the log density that the prior makes with this factor, by the coordinates, where `about` is.
    fn precision(&mut self, about: &About, rest: &Rest) -> Result<Vec<f64>, TargetError> {
        if !self.argument.is_derived() {
            let both = rest.curvature.iter().zip(&about.prior_hessian);
            return Ok(both.map(|(likelihood, prior)| -likelihood - prior).collect());
        }
        let (dim, surrogate) = (about.place.len(), Surrogate::new(self.model, None, rest));
        let slopes = |at: &[f64]| {
            let (values, gradients) = surrogate.at(at)?;
            Ok(Slopes { values, gradients })
        };
        let Some(known) = &mut self.known else { return Err("no structure".into()) };
        if known.posterior.is_none() {
            let first = first_steps(&about.place);
            let found = hessian(&Pattern::dense(dim), &about.place, &first, slopes)?;
            let step = |i: usize| {
                let step = FINE_STEP / found[i * dim + i].abs().sqrt();
                if step.is_finite() { step.clamp(1e-8, 1.0) } else { first[i] }
            };
            known.posterior = Some((Pattern::of(&found, dim), (0..dim).map(step).collect()));
        }
        let Some((pattern, steps)) = &known.posterior else { return Err("no structure".into()) };
        Ok(hessian(pattern, &about.place, steps, slopes)?.iter().map(|h| -h).collect())
    }
}

/// Steps of differences about a point of whose scale nothing is known.
fn first_steps(at: &[f64]) -> Vec<f64> {
    at.iter().map(|x| FIRST_STEP * (1.0 + x.abs())).collect()
}

/// Whether a Hessian gives the difference of gradients along a direction in which every coordinate moves.
fn agrees(
    hessian: &[f64],
    centre: &[f64],
    steps: &[f64],
    slopes: impl FnOnce(&[f64]) -> Result<Slopes, TargetError>,
) -> Result<bool, TargetError> {
    let dim = centre.len();
    let sign = |i: usize| if (i * i + i / 3).is_multiple_of(2) { 1.0 } else { -1.0 };
    let shift: Vec<f64> = steps.iter().enumerate().map(|(i, h)| sign(i) * h / (dim as f64).sqrt()).collect();
    let points: Vec<f64> = [1.0, -1.0]
        .iter()
        .flat_map(|side| centre.iter().zip(&shift).map(move |(c, d)| c + side * d))
        .collect();
    let gradients = slopes(&points)?.gradients;
    let mut expected = vec![0.0; dim];
    multiply(hessian, &shift, &mut expected);
    let (mut missed, mut size) = (0.0, 0.0);
    for i in 0..dim {
        let found = 0.5 * (gradients[i] - gradients[dim + i]);
        missed += ((found - expected[i]) * steps[i]).powi(2);
        size += (found * steps[i]).powi(2);
    }
    Ok(missed <= PROBED * PROBED * size)
}

impl About {
    /// The same less s times that of some weighted rows, with the largest s ≤ 1 for which A ⪯ 0, and s; none if no share will do.
    pub(super) fn less(&self, chosen: &About, whole: &Rest, under: &Gaussian) -> Option<(Rest, f64)> {
        let scale = 1.0 / most_share(&whole.curvature, &chosen.hessian, under)?.max(1.0);
        let less = |all: &[f64], some: &[f64]| -> Vec<f64> {
            all.iter().zip(some).map(|(all, some)| all - scale * some).collect()
        };
        let rest = Rest {
            centre: whole.centre.clone(),
            gradient: less(&whole.gradient, &chosen.gradient),
            curvature: less(&whole.curvature, &chosen.hessian),
        };
        let finite = rest.gradient.iter().chain(&rest.curvature).all(|x| x.is_finite());
        finite.then_some((rest, scale))
    }
}

/// The Gaussian with the conditional standard deviations that this curvature gives each coordinate: what is flat beside these is not known.
fn by_its_diagonal(centre: &[f64], curvature: &[f64]) -> Result<Gaussian, TargetError> {
    let dim = centre.len();
    let sizes: Vec<f64> = curvature.iter().step_by(dim + 1).map(|h| h.abs()).collect();
    let least = FLAT * sizes.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let precision = row_major(dim, |i, j| if i == j { sizes[i].max(least) } else { 0.0 });
    Ok(Gaussian::from_precision(centre.to_vec(), precision)?)
}

/// The Gaussian of this precision; where that is not positive, of one with the same size in every direction.
fn positive(centre: &[f64], precision: &[f64]) -> Result<Gaussian, TargetError> {
    let dim = centre.len();
    if precision.iter().any(|x| !x.is_finite()) {
        return Err("the curvature of the log posterior is not finite at its centre".into());
    }
    let scale: Vec<f64> =
        (0..dim).map(|i| precision[i * dim + i].abs().max(f64::MIN_POSITIVE).sqrt()).collect();
    let definite = Gaussian::from_precision(centre.to_vec(), precision.to_vec());
    if let Ok(found) = definite
        && found.covariance.iter().all(|x| x.is_finite())
    {
        return Ok(found);
    }
    let scaled = row_major(dim, |i, j| precision[i * dim + j] / (scale[i] * scale[j]));
    let (values, vectors) = symmetric_eigen(&scaled, dim)?;
    let sizes: Vec<f64> = values.iter().map(|value| value.abs().max(FLAT)).collect();
    let mut weighted = vectors;
    for (line, size) in weighted.chunks_exact_mut(dim.max(1)).zip(&sizes) {
        line.iter_mut().for_each(|x| *x *= size.sqrt());
    }
    let columns: Vec<Vec<f64>> =
        (0..dim).map(|i| weighted.iter().skip(i).step_by(dim.max(1)).copied().collect()).collect();
    let repaired = row_major(dim, |i, j| dot(&columns[i], &columns[j]) * scale[i] * scale[j]);
    Ok(Gaussian::from_precision(centre.to_vec(), repaired)?)
}
