//! A model with a linear predictor: observations and a family make ℓᵢ(θ) = fᵢ·ℓ(xᵢᵀθ + oᵢ; yᵢ, eᵢ).

use super::blocks::sum_in_blocks;
use super::outer::{add_outer_products, add_scaled_rows, products};
use super::prepared::PreparedGlm;
use super::{Derivatives, Differences, Family, Jets, LinearPredictor, Model, ModelError, Over, Shifts};
use crate::linalg::mirror_lower;
use crate::parallel::first;
use crate::rows::Observations;
use std::ops::Range;
use std::sync::Arc;

/// A generalised linear model: ℓᵢ(θ) = fᵢ·ℓ(xᵢᵀθ + oᵢ; yᵢ, eᵢ) for any [`Family`], with the weights fᵢ and offsets oᵢ of the rows, if any.
///
/// ∇ℓᵢ = fᵢℓ′·xᵢ and ∇²ℓᵢ = fᵢℓ″·xᵢxᵢᵀ, so a family is all there is to define.
#[derive(Debug, Clone)]
pub struct Glm<F> {
    observations: Arc<Observations>,
    family: Arc<F>,
}

impl<F: Family + 'static> Glm<F> {
    /// Checks that all lengths agree, all numbers are finite, and all targets and exposures are possible ones.
    pub fn new(observations: Observations, family: F) -> Result<Self, ModelError> {
        check(&observations, &family)?;
        Ok(Glm { observations: Arc::new(observations), family: Arc::new(family) })
    }

    /// ℓ(η; y, e).
    pub fn family(&self) -> &F {
        &self.family
    }

    /// Adds the log-likelihoods of `rows`, times the number beside each, to `sums`.
    fn accumulate(&self, features: &[f64], rows: &[(usize, f64)], theta: &[f64], sums: &mut Sums) {
        let Sums { value, gradient, hessian, jets, scratch } = sums;
        products(features, theta, &mut jets.eta);
        if let Some(offset) = &self.observations.offset {
            jets.eta.iter_mut().zip(rows).for_each(|(eta, &(i, _))| *eta += offset[i]);
        }
        if gradient.is_empty() && hessian.is_empty() {
            for (&eta, &(i, weight)) in jets.eta.iter().zip(rows) {
                let (y, exposure) = self.observations.target(i);
                let weight = weight * self.observations.weight(i);
                *value += weight * self.family.value(eta, y, exposure);
            }
            return;
        }
        jets.ask(rows.iter().map(|&(i, _)| self.observations.target(i)));
        self.family.jets(jets);
        for (at, &(i, weight)) in rows.iter().enumerate() {
            let weight = weight * self.observations.weight(i);
            *value += weight * jets.value[at];
            jets.first[at] *= weight;
            jets.second[at] *= weight;
        }
        if !gradient.is_empty() {
            add_scaled_rows(gradient, &jets.first, features);
        }
        if !hessian.is_empty() {
            add_outer_products(hessian, &jets.second, features, self.dim(), scratch);
        }
    }

    fn accumulate_range(&self, rows: Range<usize>, theta: &[f64], sums: &mut Sums) {
        let dim = self.dim();
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut features = Vec::with_capacity(CHUNK * dim);
        for start in rows.clone().step_by(CHUNK) {
            let end = rows.end.min(start + CHUNK);
            chunk.clear();
            chunk.extend((start..end).map(|i| (i, 1.0)));
            features.clear();
            let narrow = &self.observations.features[start * dim..end * dim];
            features.extend(narrow.iter().copied().map(f64::from));
            self.accumulate(&features, &chunk, theta, sums);
        }
    }

    fn accumulate_weighted(&self, ids: &[usize], weights: &[f64], theta: &[f64], sums: &mut Sums) {
        let mut features = Vec::with_capacity(CHUNK * self.dim());
        for (ids, weights) in ids.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            features.clear();
            let rows = ids.iter().flat_map(|&i| self.observations.row(i));
            features.extend(rows.copied().map(f64::from));
            let chunk: Vec<_> = ids.iter().copied().zip(weights.iter().copied()).collect();
            self.accumulate(&features, &chunk, theta, sums);
        }
    }
}

/// Rows whose curvatures are kept before they go into the Hessian.
const CHUNK: usize = 256;

/// Partial sums of one block; an empty derivative is not asked for.
struct Sums {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<f64>,
    /// Of the rows at hand.
    jets: Jets,
    scratch: Vec<f64>,
}

impl Sums {
    fn new(dim: usize, gradient: bool, hessian: bool) -> Sums {
        let zeros = |wanted: bool, len: usize| if wanted { vec![0.0; len] } else { Vec::new() };
        Sums {
            value: 0.0,
            gradient: zeros(gradient, dim),
            hessian: zeros(hessian, dim * dim),
            jets: Jets::default(),
            scratch: Vec::new(),
        }
    }

    fn add(&mut self, other: &Sums) {
        self.value += other.value;
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(a, b)| *a += b);
        self.hessian.iter_mut().zip(&other.hessian).for_each(|(a, b)| *a += b);
    }
}

impl<F: Family + 'static> Model for Glm<F> {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn len(&self) -> usize {
        self.observations.len()
    }

    fn dim(&self) -> usize {
        self.observations.dim
    }

    fn log_likelihood(&self, i: usize, theta: &[f64]) -> f64 {
        let (y, exposure) = self.observations.target(i);
        let eta = self.observations.predictor(i, theta);
        self.observations.weight(i) * self.family.value(eta, y, exposure)
    }

    fn evaluate(&self, rows: Over<'_>, theta: &[f64], derivatives: Derivatives<'_>) -> f64 {
        let dim = self.dim();
        let zero = || Sums::new(dim, derivatives.gradient.is_some(), derivatives.hessian.is_some());
        let mut sums = zero();
        match rows {
            Over::All => {
                let partial = |block| {
                    let mut sums = zero();
                    self.accumulate_range(block, theta, &mut sums);
                    sums
                };
                sums = sum_in_blocks(self.len(), zero, partial, |total, sums| total.add(&sums));
            }
            Over::Weighted { ids, weights } => self.accumulate_weighted(ids, weights, theta, &mut sums),
        }
        if let Some(gradient) = derivatives.gradient {
            gradient.copy_from_slice(&sums.gradient);
        }
        if let Some(hessian) = derivatives.hessian {
            hessian.copy_from_slice(&sums.hessian);
            mirror_lower(hessian, dim);
        }
        sums.value
    }

    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]) {
        let ids: Vec<usize> = rows.collect();
        self.narrow_differences(&ids, anchor, shifts, &mut Vec::new(), out);
    }

    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let ids: Vec<usize> = rows.collect();
        self.wide_differences(&ids, anchor, shifts, out);
    }

    fn prepare(self: Arc<Self>, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences> {
        Box::new(PreparedGlm::new(self, anchor, shifts))
    }

    fn observations(&self) -> &Observations {
        &self.observations
    }

    fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        check(&observations, &*self.family)?;
        Ok(Arc::new(Glm { observations: Arc::new(observations), family: Arc::clone(&self.family) }))
    }

    fn linear(&self) -> Option<LinearPredictor> {
        Some(LinearPredictor {
            observations: Arc::clone(&self.observations),
            family: Arc::clone(&self.family) as Arc<dyn Family>,
        })
    }
}

/// What [`Glm::new`] refuses.
fn check(observations: &Observations, family: &dyn Family) -> Result<(), ModelError> {
    check_features(observations)?;
    let n = observations.len();
    check_column("target", &observations.target, n)?;
    if let Some(exposure) = &observations.exposure {
        check_column("exposure", exposure, n)?;
        if let Some(row) = first(exposure, |&e| e <= 0.0) {
            return Err(ModelError::Exposure { row, value: exposure[row] });
        }
    }
    check_weights(observations)?;
    if let Some(row) = first(&observations.target, |&value| family.check_target(value).is_err()) {
        let (value, model) = (observations.target[row], family.name());
        family.check_target(value).map_err(|need| ModelError::Target { row, value, model, need })?;
    }
    Ok(())
}

/// Weights above 0, and finite offsets.
pub(super) fn check_weights(observations: &Observations) -> Result<(), ModelError> {
    let n = observations.len();
    if let Some(weights) = &observations.weights {
        check_column("weight", weights, n)?;
        if let Some(row) = first(weights, |&weight| weight <= 0.0) {
            return Err(ModelError::Weight { row, value: weights[row] });
        }
    }
    observations.offset.as_ref().map_or(Ok(()), |offset| check_column("offset", offset, n))
}

/// At least one row and one feature, whole rows, all finite.
pub(super) fn check_features(observations: &Observations) -> Result<(), ModelError> {
    let Observations { features, dim, .. } = observations;
    if *dim == 0 || features.is_empty() {
        return Err(ModelError::Empty { rows: 0, dim: *dim });
    }
    if features.len() % dim != 0 {
        let expected = features.len().next_multiple_of(*dim);
        return Err(ModelError::Length { what: "feature", got: features.len(), expected });
    }
    match first(features, |x| !x.is_finite()) {
        Some(at) => {
            let value = f64::from(features[at]);
            Err(ModelError::NotFinite { what: "feature", row: at / dim, value })
        }
        None => Ok(()),
    }
}

pub(super) fn check_column(what: &'static str, column: &[f64], n: usize) -> Result<(), ModelError> {
    if column.len() != n {
        return Err(ModelError::Length { what, got: column.len(), expected: n });
    }
    match first(column, |x| !x.is_finite()) {
        Some(row) => Err(ModelError::NotFinite { what, row, value: column[row] }),
        None => Ok(()),
    }
}
