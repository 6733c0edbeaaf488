//! A model with several predictors a row: observations and a joint family make ℓᵢ(θ) = fᵢ·ℓ(Aᵢθ + oᵢe₁; yᵢ, eᵢ).

use super::at_hand::{AtHand, Picked};
use super::blocks::sum_in_blocks;
use super::glm::{check_column, check_features, check_weights};
use super::joint_family::{Inputs, JointFamily, Layout};
use super::joint_jets::{JointJets, pairs};
use super::joint_prepared::Prepared;
use super::joint_spread::Around;
use super::tiled::{self, Piece, Tiled};
use super::{Derivatives, Differences, JointPredictors, Model, ModelError, Over, Shifts, Spread};
use crate::vector_math::WIDTH;
use corelet_data::observations::Observations;
use corelet_kernels::linalg::dot;
use std::ops::Range;
use std::sync::Arc;

/// The model of any [`JointFamily`]: ℓᵢ(θ) = fᵢ·ℓ(Aᵢθ + oᵢe₁; yᵢ, eᵢ), with the weights fᵢ and offsets oᵢ of the rows, if any.
///
/// ∇ℓᵢ = fᵢAᵢᵀ∇ℓ and ∇²ℓᵢ = fᵢAᵢᵀ∇²ℓ Aᵢ, so a family is all there is to define.
#[derive(Debug)]
pub struct Joint<F> {
    observations: Arc<Observations>,
    family: Arc<F>,
    layout: Arc<Layout>,
}

impl<F> Clone for Joint<F> {
    fn clone(&self) -> Self {
        let Joint { observations, family, layout } = self;
        Joint { observations: observations.clone(), family: family.clone(), layout: layout.clone() }
    }
}

impl<F: JointFamily + 'static> Joint<F> {
    /// Checks that all lengths agree, all numbers are finite, and all targets are possible ones.
    pub fn new(observations: Observations, family: F) -> Result<Self, ModelError> {
        Self::of(observations, Arc::new(family))
    }

    fn of(observations: Observations, family: Arc<F>) -> Result<Self, ModelError> {
        check(&observations, &*family)?;
        let layout = Arc::new(Layout::new(family.predictors(), observations.dim));
        Ok(Joint { observations: Arc::new(observations), family, layout })
    }

    /// ℓ(ζ; y, e).
    pub fn family(&self) -> &F {
        &self.family
    }

    /// The same without the type of its family.
    fn predictors(&self) -> JointPredictors {
        JointPredictors {
            observations: Arc::clone(&self.observations),
            family: Arc::clone(&self.family) as Arc<dyn JointFamily>,
            layout: Arc::clone(&self.layout),
        }
    }

    /// Adds the log-likelihoods of some rows, whose features are given, to `sums`.
    fn accumulate(&self, features: &[f32], rows: &Picked<'_>, at: &Place<'_>, sums: &mut Sums) {
        let Observations { target, exposure, weights, offset, dim, .. } = &*self.observations;
        sums.at_hand.load(features, *dim);
        sums.predict(&self.layout, at.theta);
        let Sums { jets, factors, .. } = sums;
        if let (Some(offset), Some(zeta)) = (offset, jets.zeta.first_mut()) {
            rows.ids().zip(zeta).for_each(|(i, zeta)| *zeta += offset[i]);
        }
        rows.column(Some(target), 0.0, &mut jets.y);
        rows.column(exposure.as_ref(), 1.0, &mut jets.exposure);
        rows.factors(weights.as_ref(), factors);
        if sums.wanted == Wanted::Value && at.around.is_none() {
            let mut zeta = vec![0.0; self.layout.predictors()];
            for (at, factor) in factors.iter().enumerate() {
                jets.predictors(at, &mut zeta);
                sums.value += factor * self.family.value(&zeta, (jets.y[at], jets.exposure[at]));
            }
            return;
        }
        match &at.around {
            None => self.family.jets(jets.asked()),
            Some(around) => around.mean_jets(&*self.family, &self.layout, features, jets),
        }
        sums.add_rows(&self.layout);
    }

    fn accumulate_range(&self, rows: Range<usize>, at: &Place<'_>, sums: &mut Sums) {
        let dim = self.observations.dim;
        for start in rows.clone().step_by(CHUNK) {
            let end = rows.end.min(start + CHUNK);
            let features = &self.observations.features[start * dim..end * dim];
            self.accumulate(features, &Picked::Range(start..end), at, sums);
        }
    }

    fn accumulate_weighted(&self, ids: &[usize], weights: &[f64], at: &Place<'_>, sums: &mut Sums) {
        let mut features = Vec::with_capacity(CHUNK * self.observations.dim);
        for (ids, weights) in ids.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            features.clear();
            ids.iter().for_each(|&i| features.extend_from_slice(self.observations.row(i)));
            self.accumulate(&features, &Picked::Weighted { ids, weights }, at, sums);
        }
    }
}

/// Rows that are summed at a time.
const CHUNK: usize = WIDTH;

/// Where log-likelihoods are wanted: at θ, or on average over a Gaussian around it.
struct Place<'a> {
    theta: &'a [f64],
    around: Option<Around<'a>>,
}

/// How many derivatives are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    Value,
    Gradient,
    Hessian,
}

/// Partial sums of one block of rows.
struct Sums {
    wanted: Wanted,
    value: f64,
    gradient: Vec<f64>,
    /// For each pair a ≥ b of predictors Σ wᵢ(∂²ℓ/∂ζₐ∂ζ_b)·aₐa_bᵀ: the lower triangle for two blocks of features.
    hessian: Vec<Vec<f64>>,
    /// ∂²ℓ/∂ζₐ∂ζ_b of each row for each pair of predictors with features, where these parts of the Hessian are summed elsewhere.
    apart: Option<Vec<Vec<f64>>>,
    /// Which pairs are of two predictors with features.
    squares: Vec<bool>,
    /// Of the rows at hand, with what the log-likelihood of each is multiplied by.
    at_hand: AtHand,
    jets: JointJets,
    factors: Vec<f64>,
}

/// Whether both predictors of a pair have features.
fn is_square(layout: &Layout, (a, b): (usize, usize)) -> bool {
    [a, b].iter().all(|&predictor| layout.inputs()[predictor] == Inputs::Features)
}

impl Sums {
    fn new(layout: &Layout, wanted: Wanted) -> Sums {
        let widths: Vec<usize> = layout.blocks().map(|(_, block)| block.len()).collect();
        let all = if wanted == Wanted::Hessian { layout.predictors() } else { 0 };
        Sums {
            wanted,
            value: 0.0,
            gradient: vec![0.0; if wanted == Wanted::Value { 0 } else { layout.dim() }],
            hessian: pairs(all).map(|(a, b)| vec![0.0; widths[a] * widths[b]]).collect(),
            apart: None,
            squares: pairs(layout.predictors()).map(|pair| is_square(layout, pair)).collect(),
            at_hand: AtHand::default(),
            jets: JointJets::new(layout.inputs()),
            factors: Vec::new(),
        }
    }

    /// The sums of a piece of rows, whose Hessian is summed elsewhere but for the predictors with a constant input.
    fn apart(layout: &Layout) -> Sums {
        let inputs = layout.inputs();
        let both = |pair: &(usize, usize)| is_square(layout, *pair);
        let count = pairs(inputs.len()).filter(both).count();
        let mut sums = Sums::new(layout, Wanted::Gradient);
        let widths: Vec<usize> = layout.blocks().map(|(_, block)| block.len()).collect();
        let size = |(a, b): (usize, usize)| if both(&(a, b)) { 0 } else { widths[a] * widths[b] };
        sums.hessian = pairs(inputs.len()).map(|pair| vec![0.0; size(pair)]).collect();
        sums.apart = Some(vec![Vec::new(); count]);
        sums
    }

    /// Aθ of the rows at hand.
    fn predict(&mut self, layout: &Layout, theta: &[f64]) {
        let JointJets { zeta, constants, .. } = &mut self.jets;
        let (mut zeta, mut constants) = (zeta.iter_mut(), constants.iter_mut());
        for (input, block) in layout.blocks() {
            match input {
                Inputs::Features => {
                    zeta.by_ref()
                        .take(1)
                        .for_each(|column| self.at_hand.products(&theta[block.clone()], column));
                }
                Inputs::Constant => constants.by_ref().take(1).for_each(|zeta| *zeta = theta[block.start]),
            }
        }
    }

    /// Adds what the rows at hand come to, given their derivatives.
    fn add_rows(&mut self, layout: &Layout) {
        let Sums { value, gradient, hessian, apart, at_hand, jets, factors, .. } = self;
        *value += dot(&jets.value, factors);
        for derivative in jets.gradient.iter_mut().chain(&mut jets.hessian) {
            derivative.iter_mut().zip(&*factors).for_each(|(derivative, factor)| *derivative *= factor);
        }
        let blocks: Vec<(Inputs, Range<usize>)> = layout.blocks().collect();
        if gradient.is_empty() {
            return;
        }
        for ((input, block), slopes) in blocks.iter().zip(&jets.gradient) {
            let gradient = &mut gradient[block.clone()];
            match input {
                Inputs::Features => at_hand.add_scaled_rows(gradient, slopes),
                Inputs::Constant => gradient[0] += slopes.iter().sum::<f64>(),
            }
        }
        let mut apart = apart.iter_mut().flatten();
        for (((a, b), curvatures), sum) in pairs(blocks.len()).zip(&jets.hessian).zip(hessian) {
            match (blocks[a].0, blocks[b].0) {
                (Inputs::Features, Inputs::Features) => match apart.next() {
                    Some(apart) => apart.extend_from_slice(curvatures),
                    None => at_hand.add_outer_products(sum, curvatures),
                },
                (Inputs::Constant, Inputs::Constant) => sum[0] += curvatures.iter().sum::<f64>(),
                _ => at_hand.add_scaled_rows(sum, curvatures),
            }
        }
    }

    fn add(&mut self, other: &Sums) {
        self.value += other.value;
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(a, b)| *a += b);
        for (sum, other) in self.hessian.iter_mut().zip(&other.hessian) {
            sum.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        }
    }

    /// The whole Hessian from its blocks.
    fn write_hessian(&self, layout: &Layout, out: &mut [f64]) {
        let blocks: Vec<Range<usize>> = layout.blocks().map(|(_, block)| block).collect();
        let dim = layout.dim();
        for ((a, b), sum) in pairs(blocks.len()).zip(&self.hessian) {
            let (rows, columns) = (blocks[a].clone(), blocks[b].clone());
            let width = columns.len();
            let square = rows.len() == width;
            for i in 0..rows.len() {
                for j in 0..width {
                    // Of a block of features by features only the lower triangle is summed.
                    let (row, column) = if square { (i.max(j), i.min(j)) } else { (i, j) };
                    let entry = sum[row * width + column];
                    out[(rows.start + i) * dim + columns.start + j] = entry;
                    out[(columns.start + j) * dim + rows.start + i] = entry;
                }
            }
        }
    }
}

impl<F: JointFamily + 'static> Joint<F> {
    fn sum(&self, rows: Over<'_>, at: &Place<'_>, derivatives: Derivatives<'_>) -> f64 {
        let wanted = match (&derivatives.gradient, &derivatives.hessian) {
            (None, None) => Wanted::Value,
            (_, None) => Wanted::Gradient,
            _ => Wanted::Hessian,
        };
        let zero = || Sums::new(&self.layout, wanted);
        let large = self.dim() >= tiled::LEAST && wanted == Wanted::Hessian;
        let sums = match rows {
            _ if large => tiled::sum(&InTiles { model: self, at }, self.len(), rows),
            Over::All => {
                let partial = |block| {
                    let mut sums = zero();
                    self.accumulate_range(block, at, &mut sums);
                    sums
                };
                sum_in_blocks(self.len(), zero, partial, |total, sums| total.add(&sums))
            }
            Over::Weighted { ids, weights } => {
                let mut sums = zero();
                self.accumulate_weighted(ids, weights, at, &mut sums);
                sums
            }
        };
        if let Some(gradient) = derivatives.gradient {
            gradient.copy_from_slice(&sums.gradient);
        }
        if let Some(hessian) = derivatives.hessian {
            sums.write_hessian(&self.layout, hessian);
        }
        sums.value
    }
}

/// The sums of a model with a large Hessian.
struct InTiles<'a, F> {
    model: &'a Joint<F>,
    at: &'a Place<'a>,
}

impl<F: JointFamily + 'static> Tiled for InTiles<'_, F> {
    type Sum = Sums;

    fn zero(&self) -> Sums {
        Sums::new(&self.model.layout, Wanted::Hessian)
    }

    fn piece(&self, rows: &Piece<'_>) -> Sums {
        let mut sums = Sums::apart(&self.model.layout);
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
        of_piece.apart.as_deref().unwrap_or_default()
    }

    fn squares(sum: &mut Sums) -> Vec<&mut [f64]> {
        let features = sum.squares.clone();
        sum.hessian.iter_mut().zip(features).filter(|(_, both)| *both).map(|(sum, _)| &mut sum[..]).collect()
    }
}

impl<F: JointFamily + 'static> Model for Joint<F> {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn len(&self) -> usize {
        self.observations.len()
    }

    fn dim(&self) -> usize {
        self.layout.dim()
    }

    fn log_likelihood(&self, i: usize, theta: &[f64]) -> f64 {
        let mut zeta = vec![0.0; self.layout.predictors()];
        self.layout.predict(&self.observations, i, theta, &mut zeta);
        self.observations.weight(i) * self.family.value(&zeta, self.observations.target(i))
    }

    fn evaluate(&self, rows: Over<'_>, theta: &[f64], derivatives: Derivatives<'_>) -> f64 {
        self.sum(rows, &Place { theta, around: None }, derivatives)
    }

    fn expected(&self, rows: Over<'_>, under: &Spread<'_>, derivatives: Derivatives<'_>) -> f64 {
        let around = Some(Around::new(&self.layout, under.factor));
        self.sum(rows, &Place { theta: under.mean, around }, derivatives)
    }

    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self.predictors(), anchor, shifts).narrow(&ids, &mut Vec::new(), out);
    }

    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self.predictors(), anchor, shifts).wide(&ids, out);
    }

    fn prepare(self: Arc<Self>, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences> {
        Box::new(Prepared::new(self.predictors(), anchor, &shifts))
    }

    fn observations(&self) -> &Observations {
        &self.observations
    }

    fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Self::of(observations, Arc::clone(&self.family))?))
    }

    fn is_log_concave(&self) -> bool {
        self.family.is_log_concave()
    }

    fn joint(&self) -> Option<JointPredictors> {
        Some(self.predictors())
    }
}

/// The errors of [`Joint::new`].
fn check(observations: &Observations, family: &dyn JointFamily) -> Result<(), ModelError> {
    check_features(observations)?;
    let n = observations.len();
    check_column("target", &observations.target, n)?;
    if let Some(exposure) = &observations.exposure {
        check_column("exposure", exposure, n)?;
    }
    check_weights(observations)?;
    // The first predictor has the offset, which a constant has no place for.
    if observations.offset.is_some() && family.predictors().first() != Some(&Inputs::Features) {
        return Err(ModelError::NoPlace { model: family.name(), what: "offset" });
    }
    for row in 0..n {
        let (target, model) = (observations.target(row), family.name());
        let refused = |need| ModelError::Target { row, value: target.0, model, need };
        family.check_target(target).map_err(refused)?;
    }
    Ok(())
}
