//! A model with a linear predictor: observations and a family make ℓᵢ(θ) = fᵢ·ℓ(xᵢᵀθ + oᵢ; yᵢ, eᵢ).

use super::at_hand::{AtHand, Picked};
use super::blocks::{PART, sum_in_blocks};
use super::prepared::PreparedGlm;
use super::quadrature::Rules;
use super::spread::{Widths, mean_jets};
use super::tiled::{self, Piece, Tiled};
use super::{
    Derivatives, Differences, Family, Jets, LinearPredictor, Model, ModelError, Over, Shifts, Spread,
};
use crate::vector_math::WIDTH;
use corelet_data::observations::Observations;
use corelet_kernels::linalg::{dot, mirror_lower};
use corelet_kernels::parallel::{self, first};
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

    /// Adds the log-likelihoods of some rows, whose features are given, to `sums`.
    fn accumulate(&self, features: &[f32], rows: &Picked<'_>, at: &Place<'_>, sums: &mut Sums) {
        let Observations { target, exposure, weights, offset, .. } = &*self.observations;
        let Sums { value, gradient, hessian, apart, at_hand, jets, weights: factors, widths, spreads } = sums;
        at_hand.load(features, self.dim());
        at_hand.products(at.theta, &mut jets.eta);
        if let Some(offset) = offset {
            rows.ids().zip(&mut jets.eta).for_each(|(i, eta)| *eta += offset[i]);
        }
        rows.column(Some(target), 0.0, &mut jets.y);
        rows.column(exposure.as_ref(), 1.0, &mut jets.exposure);
        rows.factors(weights.as_ref(), factors);
        if gradient.is_empty() && hessian.is_empty() && at.around.is_none() {
            let of = |((eta, y), exposure): ((&f64, &f64), &f64)| self.family.value(*eta, *y, *exposure);
            let values = jets.eta.iter().zip(&jets.y).zip(&jets.exposure).map(of);
            *value += values.zip(&*factors).map(|(value, factor)| factor * value).sum::<f64>();
            return;
        }
        match &at.around {
            None => self.family.jets(jets.asked()),
            Some((factor, rules)) => {
                widths.of(features, factor, self.dim(), spreads);
                mean_jets(&*self.family, rules, jets, spreads);
            }
        }
        *value += dot(&jets.value, factors);
        for derivative in [&mut jets.first, &mut jets.second] {
            derivative.iter_mut().zip(&*factors).for_each(|(derivative, factor)| *derivative *= factor);
        }
        if !gradient.is_empty() {
            at_hand.add_scaled_rows(gradient, &jets.first);
        }
        if let Some([curvatures]) = apart {
            curvatures.extend_from_slice(&jets.second);
        } else if !hessian.is_empty() {
            at_hand.add_outer_products(hessian, &jets.second);
        }
    }

    fn accumulate_range(&self, rows: Range<usize>, at: &Place<'_>, sums: &mut Sums) {
        let dim = self.dim();
        for start in rows.clone().step_by(CHUNK) {
            let end = rows.end.min(start + CHUNK);
            let features = &self.observations.features[start * dim..end * dim];
            self.accumulate(features, &Picked::Range(start..end), at, sums);
        }
    }

    fn accumulate_weighted(&self, ids: &[usize], weights: &[f64], at: &Place<'_>, sums: &mut Sums) {
        let mut features = Vec::with_capacity(CHUNK * self.dim());
        for (ids, weights) in ids.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(self.observations.row(i)));
            self.accumulate(&features, &Picked::Weighted { ids, weights }, at, sums);
        }
    }
}

/// Rows that are summed at a time.
const CHUNK: usize = WIDTH;

impl<F: Family + 'static> Glm<F> {
    fn sum(&self, rows: Over<'_>, at: &Place<'_>, derivatives: Derivatives<'_>) -> f64 {
        let dim = self.dim();
        let zero = || Sums::new(dim, derivatives.gradient.is_some(), derivatives.hessian.is_some());
        let large = dim >= tiled::LEAST && derivatives.hessian.is_some();
        let mut sums = zero();
        match rows {
            Over::Weighted { ids, weights } if ids.len() <= PART => {
                self.accumulate_weighted(ids, weights, at, &mut sums);
            }
            _ if large => sums = tiled::sum(&InTiles { model: self, at }, self.len(), rows),
            Over::All => {
                let partial = |block| {
                    let mut sums = zero();
                    self.accumulate_range(block, at, &mut sums);
                    sums
                };
                sums = sum_in_blocks(self.len(), zero, partial, |total, sums| total.add(&sums));
            }
            Over::Weighted { ids, weights } => {
                let partials = parallel::map(ids.chunks(PART).zip(weights.chunks(PART)), |(ids, weights)| {
                    let mut sums = zero();
                    self.accumulate_weighted(ids, weights, at, &mut sums);
                    sums
                });
                partials.iter().for_each(|partial| sums.add(partial));
            }
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
}

/// The sums of a model with a large Hessian.
struct InTiles<'a, F> {
    model: &'a Glm<F>,
    at: &'a Place<'a>,
}

impl<F: Family + 'static> Tiled for InTiles<'_, F> {
    type Sum = Sums;

    fn zero(&self) -> Sums {
        Sums::new(self.model.dim(), true, true)
    }

    fn piece(&self, rows: &Piece<'_>) -> Sums {
        let mut sums = Sums::new(self.model.dim(), true, false);
        sums.apart = Some(Default::default());
        match rows {
            Piece::Range(rows) => self.model.accumulate_range(rows.clone(), self.at, &mut sums),
            Piece::Weighted(ids, weights) => {
                self.model.accumulate_weighted(ids, weights, self.at, &mut sums);
            }
        }
        sums
    }

    fn add(&self, sum: &mut Sums, other: &Sums) {
        sum.add(other);
    }

    fn row(&self, i: usize) -> &[f32] {
        self.model.observations.row(i)
    }

    fn scales(of_piece: &Sums) -> &[Vec<f64>] {
        of_piece.apart.as_ref().map_or(&[], |curvatures| curvatures)
    }

    fn squares(sum: &mut Sums) -> Vec<&mut [f64]> {
        vec![&mut sum.hessian]
    }
}

/// Where log-likelihoods are wanted: at θ, or on average over N(θ, LLᵀ).
struct Place<'a> {
    theta: &'a [f64],
    /// L, and the rules of quadrature.
    around: Option<(&'a [f64], Rules)>,
}

/// Partial sums of one block; an empty derivative is not asked for.
struct Sums {
    value: f64,
    gradient: Vec<f64>,
    hessian: Vec<f64>,
    /// ℓ″ of each row, where the Hessian is summed elsewhere.
    apart: Option<[Vec<f64>; 1]>,
    /// Of the rows at hand, with what the log-likelihood of each is multiplied by.
    at_hand: AtHand,
    jets: Jets,
    weights: Vec<f64>,
    widths: Widths,
    spreads: Vec<f64>,
}

impl Sums {
    fn new(dim: usize, gradient: bool, hessian: bool) -> Sums {
        let zeros = |wanted: bool, len: usize| if wanted { vec![0.0; len] } else { Vec::new() };
        Sums {
            value: 0.0,
            gradient: zeros(gradient, dim),
            hessian: zeros(hessian, dim * dim),
            apart: None,
            at_hand: AtHand::default(),
            jets: Jets::default(),
            weights: Vec::new(),
            widths: Widths::default(),
            spreads: Vec::new(),
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
        self.sum(rows, &Place { theta, around: None }, derivatives)
    }

    fn expected(&self, rows: Over<'_>, under: &Spread<'_>, derivatives: Derivatives<'_>) -> f64 {
        self.sum(
            rows,
            &Place { theta: under.mean, around: Some((under.factor, Rules::default())) },
            derivatives,
        )
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

    fn is_log_concave(&self) -> bool {
        self.family.is_log_concave()
    }

    fn linear(&self) -> Option<LinearPredictor> {
        Some(LinearPredictor {
            observations: Arc::clone(&self.observations),
            family: Arc::clone(&self.family) as Arc<dyn Family>,
        })
    }
}

/// The errors of [`Glm::new`].
fn check(observations: &Observations, family: &dyn Family) -> Result<(), ModelError> {
    check_features(observations)?;
    let n = observations.len();
    check_column("target", &observations.target, n)?;
    if let Some(exposure) = &observations.exposure {
        check_column("exposure", exposure, n)?;
        if let Some(row) = first(exposure, |&e| e < 0.0) {
            return Err(ModelError::Exposure { row, value: exposure[row] });
        }
        let counted = |row: &usize| exposure[*row] == 0.0 && observations.target[*row] != 0.0;
        if let Some(row) = (0..n).find(counted) {
            let (value, need) = (observations.target[row], "0 where the exposure is 0");
            return Err(ModelError::Target { row, value, model: family.name(), need });
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
