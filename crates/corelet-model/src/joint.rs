//! A model with several predictors a row: observations and a joint family make ℓᵢ(θ) = fᵢ·ℓ(Aᵢθ + oᵢe₁; yᵢ, eᵢ).

use super::blocks::sum_in_blocks;
use super::glm::{check_column, check_features, check_weights};
use super::joint_family::{Inputs, JointFamily, Layout};
use super::outer::{Scratch, add_outer_products, add_scaled_rows, products};
use super::{Derivatives, Differences, JointPredictors, Model, ModelError, Over, Shifts};
use corelet_data::observations::Observations;
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

    /// Adds the weighted log-likelihoods of `rows`, whose features are given, to `sums`.
    fn accumulate(&self, features: &[f64], rows: &[(usize, f64)], theta: &[f64], sums: &mut Sums) {
        let r = self.layout.predictors();
        for ((input, block), column) in self.layout.blocks().zip(&mut sums.predictors) {
            match input {
                Inputs::Features => products(features, &theta[block], column),
                Inputs::Constant => {
                    column.clear();
                    column.resize(rows.len(), theta[block.start]);
                }
            }
        }
        sums.slopes.iter_mut().chain(&mut sums.curvatures).for_each(Vec::clear);
        let (mut zeta, mut gradient, mut hessian) = (vec![0.0; r], vec![0.0; r], vec![0.0; r * r]);
        for (at, &(i, weight)) in rows.iter().enumerate() {
            zeta.iter_mut().zip(&sums.predictors).for_each(|(zeta, column)| *zeta = column[at]);
            zeta[0] += self.observations.offset(i);
            let (target, weight) = (self.observations.target(i), weight * self.observations.weight(i));
            sums.value += weight * self.family.value(&zeta, target);
            if sums.wanted == Wanted::Value {
                continue;
            }
            self.family.derivatives(&zeta, target, &mut gradient, &mut hessian);
            sums.slopes.iter_mut().zip(&gradient).for_each(|(slopes, g)| slopes.push(weight * g));
            for (&(a, b), curvatures) in sums.pairs.iter().zip(&mut sums.curvatures) {
                curvatures.push(weight * hessian[a * r + b]);
            }
        }
        sums.add_rows(&self.layout, features);
    }

    fn accumulate_range(&self, rows: Range<usize>, theta: &[f64], sums: &mut Sums) {
        let dim = self.observations.dim;
        let (mut chunk, mut features) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK * dim));
        for start in rows.clone().step_by(CHUNK) {
            let end = rows.end.min(start + CHUNK);
            chunk.clear();
            chunk.extend((start..end).map(|i| (i, 1.0)));
            features.clear();
            features
                .extend(self.observations.features[start * dim..end * dim].iter().copied().map(f64::from));
            self.accumulate(&features, &chunk, theta, sums);
        }
    }

    fn accumulate_weighted(&self, ids: &[usize], weights: &[f64], theta: &[f64], sums: &mut Sums) {
        let mut features = Vec::with_capacity(CHUNK * self.observations.dim);
        for (ids, weights) in ids.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            features.clear();
            let rows = ids.iter().flat_map(|&i| self.observations.row(i));
            features.extend(rows.copied().map(f64::from));
            let chunk: Vec<_> = ids.iter().copied().zip(weights.iter().copied()).collect();
            self.accumulate(&features, &chunk, theta, sums);
        }
    }
}

/// Rows whose derivatives are kept before they go into the sums.
const CHUNK: usize = 256;

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
    /// The pairs a ≥ b of predictors, and for each Σ wᵢ(∂²ℓ/∂ζₐ∂ζ_b)·aₐa_bᵀ: the lower triangle for two blocks of features.
    pairs: Vec<(usize, usize)>,
    hessian: Vec<Vec<f64>>,
    /// Of the rows at hand: ζ, wᵢ∂ℓ/∂ζₐ and wᵢ∂²ℓ/∂ζₐ∂ζ_b.
    predictors: Vec<Vec<f64>>,
    slopes: Vec<Vec<f64>>,
    curvatures: Vec<Vec<f64>>,
    scratch: Scratch,
}

impl Sums {
    fn new(layout: &Layout, wanted: Wanted) -> Sums {
        let r = layout.predictors();
        let pairs = if wanted == Wanted::Hessian {
            (0..r).flat_map(|a| (0..=a).map(move |b| (a, b))).collect()
        } else {
            Vec::new()
        };
        let widths: Vec<usize> = layout.blocks().map(|(_, block)| block.len()).collect();
        Sums {
            wanted,
            value: 0.0,
            gradient: vec![0.0; if wanted == Wanted::Value { 0 } else { layout.dim() }],
            hessian: pairs.iter().map(|&(a, b)| vec![0.0; widths[a] * widths[b]]).collect(),
            predictors: vec![Vec::new(); r],
            slopes: vec![Vec::new(); r],
            curvatures: vec![Vec::new(); pairs.len()],
            pairs,
            scratch: Scratch::default(),
        }
    }

    /// Adds what the rows at hand come to, given their features.
    fn add_rows(&mut self, layout: &Layout, features: &[f64]) {
        if self.wanted == Wanted::Value {
            return;
        }
        let blocks: Vec<(Inputs, Range<usize>)> = layout.blocks().collect();
        for ((input, block), slopes) in blocks.iter().zip(&self.slopes) {
            let gradient = &mut self.gradient[block.clone()];
            match input {
                Inputs::Features => add_scaled_rows(gradient, slopes, features),
                Inputs::Constant => gradient[0] += slopes.iter().sum::<f64>(),
            }
        }
        for ((&(a, b), curvatures), sum) in self.pairs.iter().zip(&self.curvatures).zip(&mut self.hessian) {
            match (blocks[a].0, blocks[b].0) {
                (Inputs::Features, Inputs::Features) => {
                    add_outer_products(sum, curvatures, features, blocks[a].1.len(), &mut self.scratch);
                }
                (Inputs::Constant, Inputs::Constant) => sum[0] += curvatures.iter().sum::<f64>(),
                _ => add_scaled_rows(sum, curvatures, features),
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
        for (&(a, b), sum) in self.pairs.iter().zip(&self.hessian) {
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
        let wanted = match (&derivatives.gradient, &derivatives.hessian) {
            (None, None) => Wanted::Value,
            (_, None) => Wanted::Gradient,
            _ => Wanted::Hessian,
        };
        let zero = || Sums::new(&self.layout, wanted);
        let sums = match rows {
            Over::All => {
                let partial = |block| {
                    let mut sums = zero();
                    self.accumulate_range(block, theta, &mut sums);
                    sums
                };
                sum_in_blocks(self.len(), zero, partial, |total, sums| total.add(&sums))
            }
            Over::Weighted { ids, weights } => {
                let mut sums = zero();
                self.accumulate_weighted(ids, weights, theta, &mut sums);
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

    fn differences(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f32]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self.clone(), anchor, shifts).narrow(&ids, &mut Vec::new(), out);
    }

    fn differences_f64(&self, rows: Range<usize>, anchor: &[f64], shifts: &Shifts, out: &mut [f64]) {
        let ids: Vec<usize> = rows.collect();
        Prepared::new(self.clone(), anchor, shifts).wide(&ids, out);
    }

    fn prepare(self: Arc<Self>, anchor: &[f64], shifts: Shifts) -> Box<dyn Differences> {
        Box::new(Prepared::new(Joint::clone(&self), anchor, &shifts))
    }

    fn observations(&self) -> &Observations {
        &self.observations
    }

    fn bind(&self, observations: Observations) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Self::of(observations, Arc::clone(&self.family))?))
    }

    fn joint(&self) -> Option<JointPredictors> {
        Some(JointPredictors {
            observations: Arc::clone(&self.observations),
            family: Arc::clone(&self.family) as Arc<dyn JointFamily>,
            layout: Arc::clone(&self.layout),
        })
    }
}

/// The model, its anchor, and the shifts of each predictor's parameters.
struct Prepared<F> {
    model: Joint<F>,
    anchor: Vec<f64>,
    shifts: PredictorShifts,
    table: Vec<f64>,
}

impl<F: JointFamily + 'static> Prepared<F> {
    fn new(model: Joint<F>, anchor: &[f64], shifts: &Shifts) -> Self {
        let shifts = PredictorShifts::new(&model.layout, shifts);
        let table = shifts.table(&*model.family, &model.layout, anchor);
        Prepared { model, anchor: anchor.to_vec(), shifts, table }
    }

    /// The differences of each row, handed on with its place.
    fn each(&self, ids: &[usize], mut take: impl FnMut(usize, &[f64])) {
        let Joint { observations, family, layout } = &self.model;
        let (mut zeta, mut deltas) = (vec![0.0; layout.predictors()], self.shifts.buffer());
        let mut out = vec![0.0; self.shifts.count];
        for (at, &i) in ids.iter().enumerate() {
            let x = observations.row(i);
            layout.predict(observations, i, &self.anchor, &mut zeta);
            self.shifts.of_row(x, &mut deltas);
            family.differences_row(&zeta, observations.target(i), &deltas, &self.table, &mut out);
            if let Some(weights) = &observations.weights {
                out.iter_mut().for_each(|difference| *difference *= weights[i]);
            }
            take(at, &out);
        }
    }
}

impl<F: JointFamily + 'static> Differences for Prepared<F> {
    fn narrow(&self, ids: &[usize], _scratch: &mut Vec<f32>, out: &mut [f32]) {
        let count = self.shifts.count;
        self.each(ids, |at, row| {
            out[at * count..][..count].iter_mut().zip(row).for_each(|(out, x)| *out = *x as f32);
        });
    }

    fn wide(&self, ids: &[usize], out: &mut [f64]) {
        let count = self.shifts.count;
        self.each(ids, |at, row| out[at * count..][..count].copy_from_slice(row));
    }
}

/// Shifts of θ, cut into those of each predictor's parameters.
pub struct PredictorShifts {
    /// How many.
    pub count: usize,
    blocks: Vec<BlockShifts>,
}

enum BlockShifts {
    Features(Shifts),
    Constant(Vec<f64>),
}

impl PredictorShifts {
    /// Those of these predictors.
    pub fn new(layout: &Layout, shifts: &Shifts) -> Self {
        let rows = || (0..shifts.len()).map(|s| shifts.row(s));
        let cut = |(input, block): (Inputs, Range<usize>)| match input {
            Inputs::Features => {
                let width = block.len();
                BlockShifts::Features(Shifts::new(
                    rows().flat_map(|row| row[block.clone()].to_vec()).collect(),
                    width,
                ))
            }
            Inputs::Constant => BlockShifts::Constant(rows().map(|row| row[block.start]).collect()),
        };
        PredictorShifts { count: shifts.len(), blocks: layout.blocks().map(cut).collect() }
    }

    /// The table of a family for these shifts from `anchor`.
    pub fn table(&self, family: &dyn JointFamily, layout: &Layout, anchor: &[f64]) -> Vec<f64> {
        let mut constants = Vec::new();
        for ((_, range), block) in layout.blocks().zip(&self.blocks) {
            if let BlockShifts::Constant(shifts) = block {
                constants.push((anchor[range.start], shifts.as_slice()));
            }
        }
        family.table(&constants)
    }

    /// r × S numbers for [`of_row`](Self::of_row), with the shifts that are the same for every row.
    pub fn buffer(&self) -> Vec<f64> {
        let zeros = vec![0.0; self.count];
        let column = |block: &BlockShifts| match block {
            BlockShifts::Features(_) => zeros.clone(),
            BlockShifts::Constant(column) => column.clone(),
        };
        self.blocks.iter().flat_map(column).collect()
    }

    /// The shifts of ζ of a row with features x, predictor after predictor.
    pub fn of_row(&self, x: &[f32], deltas: &mut [f64]) {
        for (block, deltas) in self.blocks.iter().zip(deltas.chunks_exact_mut(self.count.max(1))) {
            if let BlockShifts::Features(shifts) = block {
                shifts.products_f64(x, deltas);
            }
        }
    }
}

/// What [`Joint::new`] refuses.
fn check(observations: &Observations, family: &dyn JointFamily) -> Result<(), ModelError> {
    check_features(observations)?;
    let n = observations.len();
    check_column("target", &observations.target, n)?;
    if let Some(exposure) = &observations.exposure {
        check_column("exposure", exposure, n)?;
    }
    check_weights(observations)?;
    for row in 0..n {
        let (target, model) = (observations.target(row), family.name());
        let refused = |need| ModelError::Target { row, value: target.0, model, need };
        family.check_target(target).map_err(refused)?;
    }
    Ok(())
}
