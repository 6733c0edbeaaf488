//! Log-likelihoods ℓ(ζ; y, e) of several predictors: all that a model with more than one parameter a row has to define.

use super::family::LEGENDRE;
use super::joint_curves::NearShifts;
use super::joint_jets::JointJets;
use corelet_data::observations::Observations;

/// The inputs of which a predictor is a linear function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// The features of the row: ζ = xᵀβ, with as many parameters as there are features.
    Features,
    /// The constant 1: ζ is one parameter, the same for every row.
    Constant,
}

/// A log-likelihood ℓ(ζ; y, e) of r numbers ζ, with target y and exposure e (1 where the data have none).
///
/// Each ζ is linear in the parameters, which stand predictor after predictor. A new family needs all but
/// [`difference`](JointFamily::difference) and [`differences_row`](JointFamily::differences_row), whose defaults are exact and can
/// be replaced by faster ones. Where there is one predictor, write a [`Family`](super::Family).
pub trait JointFamily: Send + Sync {
    /// One word for tables and files.
    fn name(&self) -> &'static str;

    /// The inputs of each predictor: r of them.
    fn predictors(&self) -> &[Inputs];

    /// `Err` with what is needed, in words, where `target` = (y, e) is no possible one.
    fn check_target(&self, target: (f64, f64)) -> Result<(), &'static str>;

    /// ℓ(ζ; y, e), constants included.
    fn value(&self, zeta: &[f64], target: (f64, f64)) -> f64;

    /// Whether ℓ is concave in ζ, all of it at once, whatever y and e are: then the posterior under a log-concave prior has one
    /// mode, and no other is looked for. The default, no, is always safe.
    fn is_log_concave(&self) -> bool {
        false
    }

    /// Whether ℓ is concave in the first predictor, whatever y, e and the other predictors are: then an effect that is added to it has
    /// one mode given all others.
    fn is_concave_in_first(&self) -> bool {
        self.is_log_concave()
    }

    /// The first predictor that the row would have by itself, roughly, where that is a number: curves through a few rows are
    /// starts of a search for modes.
    fn own_predictor(&self, _target: (f64, f64)) -> Option<f64> {
        None
    }

    /// ∇ℓ, r numbers, and ∇²ℓ, r × r numbers, row-major and symmetric.
    fn derivatives(&self, zeta: &[f64], target: (f64, f64), gradient: &mut [f64], hessian: &mut [f64]);

    /// Fills in ℓ, ∇ℓ and ∇²ℓ of many rows.
    ///
    /// The default calls [`value`](JointFamily::value) and [`derivatives`](JointFamily::derivatives); a family that is used at scale
    /// gives a kernel to [`JointJets::map`].
    fn jets(&self, rows: &mut JointJets) {
        rows.fill(|zeta, target, gradient, hessian| {
            self.derivatives(zeta, target, gradient, hessian);
            self.value(zeta, target)
        });
    }

    /// ℓ(ζ + δ) − ℓ(ζ) to full relative precision, also at δ = 10⁻⁹.
    ///
    /// The default integrates ∇ℓ·δ along the segment by Gauss–Legendre quadrature where δ is small, and subtracts elsewhere.
    fn difference(&self, zeta: &[f64], delta: &[f64], target: (f64, f64)) -> f64 {
        let at = |t: f64| zeta.iter().zip(delta).map(|(z, d)| z + t * d).collect::<Vec<f64>>();
        if delta.iter().any(|d| d.abs() > 0.25) {
            return self.value(&at(1.0), target) - self.value(zeta, target);
        }
        let (mut gradient, mut hessian) = (vec![0.0; zeta.len()], vec![0.0; zeta.len() * zeta.len()]);
        let mut slope = |t: f64| {
            self.derivatives(&at(0.5 + 0.5 * t), target, &mut gradient, &mut hessian);
            gradient.iter().zip(delta).map(|(g, d)| g * d).sum::<f64>()
        };
        0.5 * LEGENDRE.iter().map(|&(node, weight)| weight * (slope(node) + slope(-node))).sum::<f64>()
    }

    /// The values that [`add_curved`](JointFamily::add_curved) needs of the shifts that are the same for every row, computed once: of each
    /// predictor with a constant input, its ζ and its S shifts. None if there is no such kernel.
    fn curved_table(&self, _constants: &[(f64, &[f64])]) -> Option<Vec<f32>> {
        None
    }

    /// Adds f·(ℓ(ζ + δₛ) − ℓ(ζ) − ∇ℓ·δₛ), f the row's weight, for each of the S shifts to `sum`, in f32: what is left is of second order,
    /// so that no digits are lost however small the shifts. Or leaves the sum as it is and returns `false` where a shift may be so large
    /// that f32 is not enough.
    fn add_curved(
        &self,
        _zeta: &[f64],
        _target: (f64, f64),
        _shifts: &NearShifts<'_>,
        _sum: &mut [f32],
    ) -> bool {
        false
    }

    /// The values that [`differences_row`](JointFamily::differences_row) needs of the shifts that are the same for every row, computed
    /// once: of each predictor with a constant input, its ζ and its S shifts.
    fn table(&self, _constants: &[(f64, &[f64])]) -> Vec<f64> {
        Vec::new()
    }

    /// ℓ(ζ + δₛ) − ℓ(ζ) for each of the S shifts in `deltas`, which hold those of the first predictor, then those of the second, …;
    /// `table` is that of these shifts.
    ///
    /// The default calls [`difference`](JointFamily::difference); a family that is used at scale gives a kernel to
    /// [`map_pairs`](crate::vector_math::map_pairs).
    fn differences_row(
        &self,
        zeta: &[f64],
        target: (f64, f64),
        deltas: &[f64],
        _table: &[f64],
        out: &mut [f64],
    ) {
        let count = out.len();
        let mut delta = vec![0.0; zeta.len()];
        for (s, out) in out.iter_mut().enumerate() {
            delta.iter_mut().zip(deltas[s..].iter().step_by(count)).for_each(|(to, from)| *to = *from);
            *out = self.difference(zeta, &delta, target);
        }
    }
}

/// Which parameters each predictor has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    inputs: Vec<Inputs>,
    offsets: Vec<usize>,
    features: usize,
    dim: usize,
}

impl Layout {
    /// Of predictors with these inputs, where there are so many features.
    pub fn new(inputs: &[Inputs], features: usize) -> Self {
        let mut dim = 0;
        let offsets = inputs.iter().map(|input| {
            let offset = dim;
            dim += if *input == Inputs::Features { features } else { 1 };
            offset
        });
        let offsets = offsets.collect();
        Layout { inputs: inputs.to_vec(), offsets, features, dim }
    }

    /// Number of parameters, D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The inputs of each predictor.
    pub fn inputs(&self) -> &[Inputs] {
        &self.inputs
    }

    /// Number of predictors, r.
    pub fn predictors(&self) -> usize {
        self.inputs.len()
    }

    /// The inputs and the parameters of each predictor.
    pub fn blocks(&self) -> impl Iterator<Item = (Inputs, std::ops::Range<usize>)> + '_ {
        self.inputs.iter().zip(&self.offsets).map(|(&input, &offset)| {
            (input, offset..offset + if input == Inputs::Features { self.features } else { 1 })
        })
    }

    /// ζ = Aθ + oe₁ of row `i`.
    pub fn predict(&self, rows: &Observations, i: usize, theta: &[f64], zeta: &mut [f64]) {
        let x = rows.row(i);
        for ((input, block), zeta) in self.blocks().zip(&mut *zeta) {
            *zeta = match input {
                Inputs::Features => corelet_kernels::linalg::dot_features(x, &theta[block]),
                Inputs::Constant => theta[block.start],
            };
        }
        if let Some(first) = zeta.first_mut() {
            *first += rows.offset(i);
        }
    }
}
